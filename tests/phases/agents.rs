//! Agents at their ordinary work.

use serde_json::json;

use super::{DIR, Phases, RUN, eventually, processes};
use crate::scene::{Scene, finish};

#[test]
fn a_task_goes_from_phase_to_phase_by_itself_but_for_the_advances() {
    let phases = Phases::new();
    phases.stop(false).blocks("DEPLOY AGENTS: No agents deployed.");
    phases.ok(&["deploy", "--prompt", "Write the notes."]);
    // Nobody asks anything: the supervisors put what happens to the rules.
    phases.becomes(0, "APPROVED");
    let told = phases.scene.read("said/worker-1");
    assert!(told.contains("Write the notes.") && told.contains("Phase 1 of 2: Design"), "{told}");
    let told = phases.scene.read("said/reviewer-2");
    assert!(told.contains("Think first.") && told.contains("This is review-1"), "{told}");
    assert!(told.contains("Not in this phase, but later: Implementation Phase"), "{told}");
    assert!(told.contains("What has changed since this phase began (1 file, 1 line;"), "{told}");
    assert!(told.contains("- work.txt (+1 -0)"), "{told}");
    assert!(phases.scene.read(".phasegate/phases/web/phase-1.patch").contains("+by worker-1"));
    assert!(phases.ok(&["handover"]).contains("- work.txt (+1 -0)"));
    phases.stop(true).blocks("PROCEED: Phase approved.");
    phases.ok(&["advance"]);
    assert_eq!((phases.status(0), phases.status(1)), ("COMPLETED".into(), "ACTIVE".into()));
    phases.stop(true).blocks("DEPLOY AGENTS");
    phases.ok(&["deploy", "--prompt", "Build it."]);
    phases.becomes(1, "APPROVED");
    let told = phases.scene.read("said/worker-5");
    assert!(told.contains("# Handover of phase 1 'Design'"), "{told}");
    phases.ok(&["advance"]);
    assert_eq!(phases.task()["phase"], "complete");
    phases.refused(&["deploy", "--prompt", "more"], "TASK COMPLETE");
    phases.stop(true).allows();
    for agent in ["worker-1", "reviewer-2", "reviewer-3", "reviewer-4", "worker-5"] {
        assert_eq!(phases.heard("job-started", agent), 1, "{agent}");
        assert_eq!(phases.heard("job-ended", agent), 1, "{agent}");
    }
    eventually("no supervisor is left", || processes(phases.scene.root(), None).is_empty());
    assert!(phases.scene.ok(&["log", "--verify", RUN]).contains("chain intact"));
}

#[test]
fn what_an_agent_says_is_shown_beside_what_is_true() {
    let phases = Phases::new();
    phases.script(
        "worker-1",
        "\"$PHASEGATE\" phases progress --status completed --progress 100 --message 'all tests pass'\necho work; exit 3\n",
    );
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("the worker has ended", || phases.agent("worker-1")["ended"] == true);
    let agent = phases.agent("worker-1");
    assert_eq!((&agent["status"], &agent["exit_code"]), (&json!("failed"), &json!(3)));
    let shown = phases.ok(&["status"]);
    assert!(shown.contains("worker-1 (worker, round 1): failed, ended with exit code 3; says: completed 100 %, all tests pass"), "{shown}");
    // Failed is not done.
    assert_eq!(phases.status(0), "ACTIVE");
    assert!(shown.contains(
        "AGENTS FAILED: 1 of 1 agent ended without success (worker-1: ended with exit code 3)."
    ));
    phases.refused(&["submit"], "failed is not done");
    assert!(phases.ok(&["output", "--agent-id", "worker-1"]).contains("work\n"));
}

#[test]
fn all_agents_of_a_round_are_waited_for() {
    let phases = Phases::new();
    phases.script("worker-2", "sleep 0.6; echo b >> work.txt");
    phases.ok(&["deploy", "--prompt", "a", "--expect", "2"]);
    eventually("the first has ended", || phases.agent("worker-1")["ended"] == true);
    assert_eq!(phases.status(0), "ACTIVE");
    let shown = phases.ok(&["status"]);
    assert!(shown.contains("DEPLOY AGENTS: 1 of 2 expected agents have finished."), "{shown}");
    phases.ok(&["deploy", "--prompt", "b"]);
    phases.becomes(0, "APPROVED");
    assert_eq!(phases.scene.read("work.txt"), "by worker-1\nb\n");
}

#[test]
fn a_failed_agent_is_replaced_by_the_next() {
    let phases = Phases::new();
    phases.script("worker-1", "exit 1");
    phases.ok(&["deploy", "--prompt", "a"]);
    eventually("the first has ended", || phases.agent("worker-1")["ended"] == true);
    phases.ok(&["deploy", "--prompt", "again"]);
    phases.becomes(0, "APPROVED");
    assert_eq!(phases.agent("worker-2")["replaces"], "worker-1");
}

#[test]
fn a_phase_is_rejected_revised_and_approved() {
    let phases = Phases::new();
    phases.script(
        "reviewer-3",
        "\"$PHASEGATE\" phases verdict --verdict approved --findings '[{\"type\":\"issue\",\"severity\":\"critical\",\"message\":\"No tests\",\"file\":\"work.txt\",\"line\":1}]'",
    );
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.becomes(0, "REJECTED");
    let shown = phases.ok(&["review-status"]);
    assert!(shown.contains("- issue, critical, work.txt:1, by reviewer-3: No tests"), "{shown}");
    phases.stop(false).blocks("PHASE REJECTED");
    phases.refused(&["submit"], "was rejected");
    phases.refused(&["review"], "Nothing has changed since review-1");
    phases.refused(&["approve"], "fixed and reviewed again");
    phases.refused(&["advance"], "PHASE_NOT_APPROVED: Cannot advance phase");
    phases.ok(&["deploy", "--prompt", "fix it"]);
    phases.becomes(0, "APPROVED");
    let told = phases.scene.read("said/worker-5");
    assert!(told.contains("- issue, critical, work.txt:1, by reviewer-3: No tests"), "{told}");
    let step = &phases.task()["phases"][0];
    assert_eq!((&step["round"], &step["past"][0]["id"]), (&json!(2), &json!("review-1")));
    let moves: Vec<String> = phases.scene.journal(RUN).iter().fold(Vec::new(), |mut all, line| {
        let moves = line["moves"].as_array().cloned().unwrap_or_default();
        all.extend(moves.iter().map(|step| step["to"].as_str().unwrap_or_default().to_string()));
        all
    });
    let expected = "AWAITING_REVIEW UNDER_REVIEW REJECTED REVISING ACTIVE AWAITING_REVIEW UNDER_REVIEW APPROVED";
    assert_eq!(moves.join(" "), expected);
}

#[test]
fn fixes_that_change_nothing_are_not_reviewed_again() {
    let phases = Phases::new();
    phases.script("reviewer", "\"$PHASEGATE\" phases verdict --verdict changes_requested --findings '[{\"type\":\"issue\",\"severity\":\"low\",\"message\":\"Shorter\"}]'");
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.becomes(0, "REVISING");
    phases.script("worker-5", "exit 0");
    phases.ok(&["deploy", "--prompt", "fix"]);
    eventually("it has ended", || phases.agent("worker-5")["ended"] == true);
    assert_eq!(phases.status(0), "ACTIVE");
    phases.refused(&["submit"], "Nothing has changed since review-1");
    phases.stop(false).blocks("FIX REQUIRED: The agents have ended, and nothing has changed");
}

#[test]
fn an_approval_of_files_that_have_changed_since_is_stale() {
    let phases = Phases::new();
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.becomes(0, "APPROVED");
    phases.scene.file("work.txt", "smuggled in");
    phases.refused(&["advance"], "STALE: The files are not those that review-1 approved");
    phases.stop(false).blocks("STALE: The files are not those that review-1 approved");
    phases.ok(&["review"]);
    phases.becomes(0, "APPROVED");
    phases.ok(&["advance"]);
    assert_eq!(phases.status(1), "ACTIVE");
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_behind() {
    let phases = Phases::new();
    phases.script("worker-1", "setsid sh -c 'echo $$ > said/far; sleep 600' &\nsleep 600");
    phases.ok(&["deploy", "--prompt", "hang"]);
    eventually("its daemon runs", || phases.scene.exists("said/far"));
    phases.refused(&["submit"], "worker-1 still at work");
    phases.stop(false).allows_saying("WAIT: 1 agent still working.");
    let said = phases.ok(&["kill", "--agent-id", "worker-1"]);
    assert!(said.contains("Agent worker-1 is told to end."), "{said}");
    let agent = phases.agent("worker-1");
    assert_eq!((&agent["status"], &agent["ended"]), (&json!("killed"), &json!(true)));
    let daemon = phases.scene.read("said/far");
    let daemon = std::path::Path::new("/proc").join(daemon.trim());
    eventually("its daemon is gone", || !daemon.exists());
    assert_eq!(phases.status(0), "ACTIVE");
    phases.refused(&["kill", "--agent-id", "worker-1"], "has ended already");
    phases.refused(&["kill", "--agent-id", "worker-9"], "There is no agent worker-9");
}

#[test]
fn limits_on_agents_hold() {
    let phases = Phases::with("CONCURRENT = 1\nTOTAL = 2\n");
    phases.script("worker-1", "sleep 600").script("worker-2", "exit 1");
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.refused(&["deploy", "--prompt", "b"], "Agents at work: 1 of at most 1.");
    phases.ok(&["kill", "--agent-id", "worker-1"]);
    phases.ok(&["deploy", "--prompt", "b"]);
    eventually("it has ended", || phases.agent("worker-2")["ended"] == true);
    phases.refused(&["deploy", "--prompt", "c"], "Started in all: 2 of at most 2.");
}

#[test]
fn fifty_agents_at_once_lose_no_event() {
    let phases = Phases::with("CONCURRENT = 64\nREVIEWERS = [\"all of it\"]\n");
    for _ in 0..50 {
        phases.ok(&["deploy", "--prompt", "x", "--expect", "50"]);
    }
    phases.becomes(0, "APPROVED");
    for number in 1..=50 {
        let agent = format!("worker-{number}");
        assert_eq!(phases.heard("job-started", &agent), 1, "{agent}");
        assert_eq!(phases.heard("job-ended", &agent), 1, "{agent}");
    }
    assert_eq!(phases.scene.read("work.txt").lines().count(), 50);
    assert!(phases.scene.ok(&["log", "--verify", RUN]).contains("chain intact"));
}

#[test]
fn a_large_prompt_arrives_whole() {
    let phases = Phases::new();
    // More than an argument of ours may be: by standard input of a file.
    let prompt = "x".repeat(100_000);
    phases.ok(&["deploy", "--prompt", &prompt]);
    eventually("it was told", || phases.agent("worker-1")["ended"] == true);
    assert!(phases.scene.read("said/worker-1").contains(&prompt));
}

#[test]
fn what_an_agent_costs_is_counted() {
    let phases = Phases::new();
    phases
        .script("worker-1", "echo '{\"type\":\"result\",\"total_cost_usd\":1.25,\"num_turns\":3}'");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    assert_eq!(phases.agent("worker-1")["micro_dollars"], 1_250_000);
    assert!(phases.scene.ok(&["jobs", "--all"]).contains("$1.25"));
    // That it has ended is seen at once; the run counts it when its rules hear of that.
    eventually("it is counted", || {
        let status = phases.scene.ok(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["runs"][0]["tally"]["micro_dollars"] == 1_250_000
    });
}

#[test]
fn logs_can_be_followed() {
    let phases = Phases::new();
    phases.script("worker-1", "echo one; sleep 0.4; echo two");
    phases.ok(&["deploy", "--prompt", "x"]);
    let mut command = phases.command();
    command.args(["jobs", "logs", "worker-1", "-f"]);
    let ran = finish(phases.scene.spawn(command, b""));
    assert_eq!(ran.stdout, "one\ntwo\n");
    assert!(ran.stderr.contains("worker-1 ended with exit code 0"), "{ran:?}");
    let list = phases.scene.ok(&["jobs", "--all"]);
    assert!(list.contains("phases/web/worker-1") && list.contains("ended with exit code 0"));
}

#[test]
fn a_program_that_is_not_there_is_said() {
    let phases = Phases::without_task("");
    phases.scene.file(
        ".phasegate/config.toml",
        "[workflow.phases.const]\nWORKER = [\"no-such-program\"]\n",
    );
    let create = ["create", "--title", "Web", "--phases", "[{\"name\":\"Design\"}]"];
    assert_eq!(phases.act(&create).code, Some(0));
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    let agent = phases.agent("worker-1");
    assert_eq!(agent["status"], "crashed");
    assert!(agent["end"].as_str().unwrap().contains("cannot run no-such-program"), "{agent}");
    let shown = phases.ok(&["status"]);
    assert!(shown.contains("AGENTS FAILED: 1 of 1 agent ended without success (worker-1: cannot run no-such-program"), "{shown}");
}

#[test]
fn without_a_program_it_is_the_usual_client_with_our_tools() {
    let phases = Phases::without_task("");
    phases.scene.file(".phasegate/config.toml", "");
    phases.scene.file(
        "bin/claude",
        "#!/bin/sh\nmkdir -p said; cat > said/prompt-$PHASEGATE_AGENT; printf '%s\\n' \"$@\" > said/arguments-$PHASEGATE_AGENT; env > said/environment-$PHASEGATE_AGENT\n",
    );
    let program = phases.scene.path("bin/claude");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = format!("{}:{}", phases.scene.path("bin").display(), std::env::var("PATH").unwrap());
    let act = |args: &[&str]| {
        let mut command = phases.command();
        command.arg("phases").args(args).env("PATH", &path);
        finish(phases.scene.spawn(command, b""))
    };
    assert_eq!(
        act(&["create", "--title", "Web", "--phases", "[{\"name\":\"Design\"}]"]).code,
        Some(0)
    );
    assert_eq!(act(&["deploy", "--prompt", "Do it", "--model", "opus"]).code, Some(0));
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    let arguments = phases.scene.read("said/arguments-worker-1");
    for word in ["--print", "stream-json", "--mcp-config", "--strict-mcp-config", "opus"] {
        assert!(arguments.contains(word), "{word}: {arguments}");
    }
    assert!(arguments.contains("\"disableAllHooks\":true"), "{arguments}");
    assert!(phases.scene.read("said/prompt-worker-1").contains("Do it"));
    let environment = phases.scene.read("said/environment-worker-1");
    assert!(
        environment.contains("PHASEGATE_TOKEN=") && environment.contains("PHASEGATE_DISABLE=1")
    );
}

#[test]
fn a_run_that_is_cancelled_has_nobody_working_for_it() {
    let phases = Phases::new();
    phases.script("worker-1", "sleep 600");
    phases.ok(&["deploy", "--prompt", "x"]);
    assert_eq!(processes(phases.scene.root(), None).len(), 1);
    assert_eq!(phases.scene.run(&["cancel", RUN]).code, Some(0));
    eventually("nobody works", || processes(phases.scene.root(), None).is_empty());
    assert_eq!(phases.agent("worker-1")["status"], "killed");
    phases.refused(&["deploy", "--prompt", "x"], "is cancelled");
}

#[test]
fn without_consent_no_agent_is_started() {
    let phases = Phases::new();
    let mut command = phases.command();
    command.args(["phases", "deploy", "--prompt", "x"]).env_remove("PHASEGATE_TRUST_ALL");
    let ran = finish(phases.scene.spawn(command, b""));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("you have not consented"), "{ran:?}");
    assert!(!phases.scene.exists(".phasegate/jobs"));
}

/// A workflow of a user's own, with agents and without rules for what becomes of them.
const OWN: &str = r#"
name = "own"
about = "Agents of its own."
initial = "working"

[agent.helper]
role = "worker"
prompt = "help.md"
run = ["sh", "-c", "{{ params.does }}"]
timeout = "1s"

[phase.working]
always = [{ when = "agents and not (agents | rejectattr('ended') | list)", goto = "done" }]
rules = [
  { on = "go", start = "helper" },
  { on = "stop", allow = "waiting", until = "background" },
]
[phase.done]
final = true

[action.go]
about = "Start a helper."
param.does = { type = "string" }
"#;

#[test]
fn any_workflow_can_have_agents_and_their_time_is_limited() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/own/workflow.toml", OWN);
    scene.file(".phasegate/workflows/own/prompts/help.md", "Help.");
    let run = |args: &[&str]| {
        let mut command = scene.command();
        command.args(args).env("PHASEGATE_TRUST_ALL", "1");
        let ran = finish(scene.spawn(command, b""));
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    };
    run(&["own", "start", "--name", "x"]);
    run(&["own", "go", "--does", "sleep 600"]);
    eventually("its time is over", || run(&["jobs", "--all"]).contains("timed out"));
    assert!(run(&["jobs", "--all"]).contains("took longer than 1 second"));
    // The ledger tells of the end before the document is put in its place.
    eventually("it is done", || scene.json(".phasegate/own/x.json")["phase"] == "done");
    assert!(!scene.exists(DIR));
    // Its agents are served the tools of their own workflow; who is none says which he means.
    let ran = scene.run(&["mcp"]);
    assert!(ran.stderr.contains("choose a workflow with `--workflow`: "), "{ran:?}");
    let hello = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n";
    let mut command = scene.command();
    command.arg("mcp").env("PHASEGATE_TOKEN", "0~own/x~helper-1");
    let listed = finish(scene.spawn(command, hello)).stdout;
    assert!(listed.contains("\"go\"") && !listed.contains("create_task"), "{listed}");
}

#[test]
fn after_all_rounds_a_person_grants_another() {
    let phases = Phases::with("ROUNDS = 1\n");
    phases.script("reviewer", "\"$PHASEGATE\" phases verdict --verdict rejected");
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.becomes(0, "ESCALATED");
    phases.refused(&["deploy", "--prompt", "b"], "resolve its review first");
    phases.refused(&["review"], "a person must look at it");
    phases.script("reviewer", "\"$PHASEGATE\" phases verdict --verdict approved");
    let ran = phases.by_person(&["deploy", "web", "--prompt", "once more"]);
    assert!(ran.stdout.contains("in a round that you grant"), "{ran:?}");
    phases.becomes(0, "APPROVED");
}

#[test]
fn a_review_under_which_files_change_is_not_made_for_ever() {
    let phases = Phases::with("RETRIES = 2\n");
    phases.script(
        "reviewer",
        "echo x >> left-behind.txt; \"$PHASEGATE\" phases verdict --verdict approved",
    );
    phases.ok(&["deploy", "--prompt", "a"]);
    phases.becomes(0, "APPROVED");
    eventually("all have ended", || phases.agents().iter().all(|agent| agent["ended"] == true));
    phases.ok(&["review"]);
    eventually("all have ended", || {
        phases.status(0) == "APPROVED" && phases.agents().iter().all(|agent| agent["ended"] == true)
    });
    phases.refused(&["advance"], "STALE: 2 reviews of phase 1 'Design' were stale when they ended");
    phases.refused(&["review"], "something changes files while reviewers work");
    let ran = phases.by_person(&["approve", "web", "--force-escalated", "--reason", "a log"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(phases.ok(&["status"]).contains("Approved by a person: a log"));
    phases.ok(&["advance"]);
}

#[test]
fn mistakes_in_what_is_asked_for_are_said() {
    let phases = Phases::without_task("");
    let create =
        |planned: &str| phases.act(&["create", "--title", "Web", "--phases", planned]).stderr;
    assert!(
        create("[{\"name\":\"A\",\"criteria\":[]}]")
            .contains("phases[0] has no `criteria`; there are: name, description")
    );
    assert!(create("[]").contains("the task needs at least one phase"));
    assert!(create("[{\"name\":\" \"}]").contains("phase 1 needs a name"));
    assert!(create("[\"A\"]").contains("phases[0]"));
    assert!(create("{").contains("--phases is not valid JSON"));
    let empty = phases.act(&["create", "--title", "", "--phases", "[{\"name\":\"A\"}]"]).stderr;
    assert!(empty.contains("the task needs a title"), "{empty}");
    assert!(phases.act(&["status"]).stderr.contains("there is no run of workflow phases"));
}

#[test]
fn agents_that_cost_too_much_are_the_last() {
    let phases = Phases::without_task("[limits]\ndollars = 2\n");
    let create = ["create", "--title", "Web", "--phases", "[{\"name\":\"Design\"}]"];
    assert_eq!(phases.act(&create).code, Some(0));
    phases.script("worker-1", "echo '{\"type\":\"result\",\"total_cost_usd\":2.5}'; exit 1");
    phases.ok(&["deploy", "--prompt", "x"]);
    eventually("it has ended", || phases.agent("worker-1")["ended"] == true);
    phases.refused(&["deploy", "--prompt", "y"], "has used its limit of 2 dollars");
    assert!(phases.stop(false).json.to_string().contains("limit of 2 dollars"));
    // It is an outcome of its own, and not that the run is stuck; who looks sees it.
    let last = phases.scene.json(&format!(".phasegate/runs/{RUN}/run.json"));
    assert_eq!(last["session"]["last"]["answer"]["outcome"], "budget", "{last}");
    let shown = phases.scene.ok(&["status"]);
    assert!(shown.contains("(limit $2)") && shown.contains("NO AGENTS: "), "{shown}");
    assert!(phases.ok(&["status"]).contains("You can: only look."));
}

#[test]
fn every_finding_reaches_the_agent_that_fixes_it() {
    let phases = Phases::new();
    let finding = |number: usize| json!({ "type": "issue", "severity": "high", "message": format!("{number} {}", "m".repeat(400)), "file": "work.txt", "line": number });
    let findings = serde_json::Value::from((1..=15).map(finding).collect::<Vec<_>>());
    phases.scene.file("said/findings.json", findings.to_string());
    phases.script(
        "reviewer",
        "\"$PHASEGATE\" phases verdict --verdict rejected --findings @said/findings.json",
    );
    phases.ok(&["deploy", "--prompt", "x"]);
    phases.becomes(0, "REJECTED");
    let stop = phases.stop(false).json.to_string();
    assert!(stop.contains("get_review_status has all 45 of them, whole."), "{stop}");
    phases.ok(&["deploy", "--prompt", "fix it"]);
    eventually("it was told", || phases.scene.exists("said/worker-5"));
    let told = phases.scene.read("said/worker-5");
    for reviewer in 2..=4 {
        for number in 1..=15 {
            let line = format!("work.txt:{number}, by reviewer-{reviewer}: {number} mmm");
            assert!(told.contains(&line), "{line}: {told}");
        }
    }
    assert!(told.contains(&"m".repeat(400)));
}
