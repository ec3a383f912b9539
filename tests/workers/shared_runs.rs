//! Runs whose documents are in the store: every machine acts on them, agents with the secrets that they were given where
//! they run.

use serde_json::{Value, json};

use super::{Machine, Team, eventually};
use crate::scene::{Ran, finish};

const CONFIG: &str = r#"[workflow.phases]
document = "store"
labels = ["any"]
[workflow.phases.const]
WORKER = ["sh", "worker.sh"]
REVIEWER = ["sh", "reviewer.sh"]
REVIEWERS = ["the one side", "the other"]
"#;

const WORKER: &str = "cat > /dev/null; echo \"by $PHASEGATE_AGENT\" >> work.txt
\"$PHASEGATE\" phases progress --status working --message \"in $HOME\"
";

const REVIEWER: &str = "cat > /dev/null; sleep 1; grep -q by work.txt || exit 3
\"$PHASEGATE\" phases verdict --verdict approved
";

fn orchestrate(machine: &Machine, args: &[&str]) -> Ran {
    let mut command = machine.command(&[&["phases"], args].concat());
    command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s1");
    finish(machine.scene.spawn(command, b""))
}

#[track_caller]
fn done(machine: &Machine, args: &[&str]) -> String {
    let ran = orchestrate(machine, args);
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran.stdout
}

fn task(team: &Team) -> Value {
    let document =
        "SELECT convert_from(bytes, 'UTF8') FROM phasegate.value WHERE kind = 'document'";
    serde_json::from_str(&team.sql(document)).unwrap_or_default()
}

/// A team whose `phases` are in the store, with a task of two phases.
fn phases() -> Option<Team> {
    let files = [
        (".phasegate/config.toml", CONFIG),
        ("worker.sh", WORKER),
        ("reviewer.sh", REVIEWER),
        ("work.txt", ""),
    ];
    // The first line names the workflow that is trusted.
    let team = Team::with("phases", None, &files)?;
    let planned = json!([{ "name": "Design" }, { "name": "Build" }]).to_string();
    done(&team.own, &["create", "--title", "Web", "--phases", &planned]);
    Some(team)
}

#[test]
fn a_task_is_worked_on_by_two_workers_from_start_to_end() {
    let Some(team) = phases() else { return };
    let (_one, _first) = team.worker("phases", &[]);
    let (_other, _second) = team.worker("phases", &[]);
    for (at, agent) in [(0, "worker-1"), (1, "worker-4")] {
        done(&team.own, &["deploy", "--prompt", "Do it."]);
        eventually("it is approved", || task(&team)["phases"][at]["status"] == "APPROVED");
        let open = "SELECT count(*) FROM phasegate.job";
        eventually("all have ended", || team.sql(open) == "0");
        done(&team.own, &["advance"]);
        // What was changed elsewhere is here.
        assert!(team.own.scene.read("work.txt").ends_with(&format!("by {agent}\n")));
    }
    assert_eq!(task(&team)["phase"], "complete");
    // So is what the rules have written there.
    let handover = team.own.scene.read(".phasegate/files/phases/web/handover-1.md");
    assert!(handover.contains("Design"), "{handover}");
    let log = team.own.ok(&["log", "phases/web", "--json"]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let heard = |event: &str, agent: &str| {
        let is_it = |line: &&Value| {
            line["event"]["name"] == event && line["event"]["params"]["id"] == agent
        };
        lines.iter().filter(is_it).count()
    };
    for agent in ["worker-1", "reviewer-2", "reviewer-3", "worker-4", "reviewer-5", "reviewer-6"] {
        assert_eq!(heard("job-started", agent), 1, "{agent}");
        assert_eq!(heard("job-ended", agent), 1, "{agent}");
    }
    assert_eq!(
        team.sql("SELECT count(*), count(DISTINCT owner) FROM phasegate.job_history"),
        "6|2"
    );
    team.own.ok(&["log", "--verify", "phases/web"]);
    team.own.ok(&["replay", "phases/web"]);
    eventually("the remote is as it was", || team.references() == "refs/heads/main\n");
}

#[test]
fn the_secret_of_an_agent_counts_while_its_machine_has_the_job() {
    let Some(team) = phases() else { return };
    let kept = tempfile::tempdir().unwrap();
    let leak = format!("cat > /dev/null; env > {}/env; sleep 60\n", kept.path().display());
    team.own.scene.file("worker.sh", &leak);
    let (machine, worker) = team.worker("phases", &[]);
    done(&team.own, &["deploy", "--prompt", "Do it."]);
    let env = kept.path().join("env");
    let read = || std::fs::read_to_string(&env).unwrap_or_default();
    eventually("it runs", || read().contains("PHASEGATE_TOKEN="));
    let text = read();
    let token = text.lines().find_map(|line| line.strip_prefix("PHASEGATE_TOKEN=")).unwrap();
    let secret = token.split('~').next().unwrap();
    // Only its digest is known to others.
    let dump = team.sql("SELECT * FROM phasegate.job")
        + &team.sql("SELECT convert_from(bytes, 'UTF8') FROM phasegate.value");
    assert!(!dump.contains(secret));
    let report = |machine: &Machine| {
        let args = ["phases", "progress", "--status", "working", "--message", "x"];
        let mut command = machine.command(&args);
        command.env("PHASEGATE_TOKEN", token);
        finish(machine.scene.spawn(command, b""))
    };
    let ran = report(&team.own);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    drop(worker);
    drop(machine);
    eventually("its lease is over", || {
        team.sql("SELECT lease_until < now() FROM phasegate.job") == "t"
    });
    let ran = report(&team.own);
    assert!(ran.code == Some(1) && ran.stderr.contains("token"), "{ran:?}");
}
