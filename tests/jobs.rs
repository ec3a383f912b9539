//! Jobs: every process of a run is of one kind, outlives the process that wanted it, and is started once.

use std::process::Child;

use serde_json::Value;

use crate::phases::eventually;
use crate::scene::{Scene, finish};

/// A workflow that wants each kind of job, each of which works until it may end.
const KINDS: &str = r#"
name = "kinds"
about = "One of each."
initial = "open"

[check.tests]
run = ["sh", "job.sh", "check"]

[command.deploy]
run = ["sh", "job.sh", "command"]

[reviewer.code]
prompt = "told.md"
writes = "review.md"
run = ["sh", "job.sh", "reviewer"]

[worker.maker]
prompt = "told.md"
run = ["sh", "job.sh", "worker"]

[agent.helper]
role = "worker"
prompt = "told.md"
run = ["sh", "job.sh", "agent"]

# A kind of its own: no Rust knows the word.
[job.soak]
kind = "soak"
about = "In the background, without a secret."
run = ["sh", "job.sh", "soak"]
facts = { asked_by = "event.actor" }

# A judge that an action waits for.
[job.audit]
kind = "audit"
prompt = "told.md"
writes = "audit.md"
run = ["sh", "job.sh", "audit"]
gives = "verdict"
bound = "document"
waits = true
alone = true

[action.ship]
about = "Runs a command."
[action.make]
about = "Has a worker work."
[action.assist]
about = "Starts an agent."
[action.soak]
about = "Starts a job of its own kind."
[action.audit]
about = "Has somebody judge."

[state]
phase = "string"
did = { list = "string", default = [] }

[phase.open]
rules = [
  { on = "ship", run = ["deploy"], set = { "state.did" = "state.did + ['ship']" } },
  { on = "make", work = "maker" },
  { on = "work-finished", when = "params.ok", set = { "state.did" = "state.did + ['make']" } },
  { on = "assist", start = "helper", allow = "waiting", until = "background", message = "It helps." },
  { on = "agent-exited", set = { "state.did" = "state.did + ['help']" } },
  { on = "soak", start = "soak", allow = "waiting", until = "background", message = "It soaks." },
  { on = "audit", start = "audit" },
  { on = "review-finished", set = { "state.did" = "state.did + ['review ' ~ params.verdict]" } },
  { on = "job-started", when = "params.kind == 'soak'", set = { "state.did" = "state.did + ['soaks for ' ~ agent.asked_by]" } },
  { on = "job-ended", when = "params.kind == 'soak'", set = { "state.did" = "state.did + ['soaked: ' ~ params.status]" } },
  { on = "job-ended", when = "params.kind == 'audit'", set = { "state.did" = "state.did + ['audit ' ~ params.verdict]" } },
  { on = "stop", when = "'review PASS' not in state.did and exists('reviewed')", review = "code" },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// Notes that it was started, and works until it may end.
const JOB: &str = r#"echo x >> home/ran-$1
while ! test -e home/go; do sleep 0.02; done
test $1 = reviewer && echo fine > review.md && echo '{"verdict":"PASS"}'
test $1 = audit && echo fine > audit.md && echo '{"verdict":"FAIL"}'
exit 0
"#;

fn kinds() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/kinds.toml", KINDS).file("job.sh", JOB);
    scene.file(".phasegate/workflows/kinds/prompts/told.md", "Do it.");
    scene.file(".gitignore", "home\n").file("home/x", "");
    scene.git(&["init", "-q"]);
    assert_eq!(scene.by_hand(&["trust", "kinds", "--yes"]).code, Some(0));
    scene.ok(&["kinds", "start"]);
    scene
}

fn ran(scene: &Scene, kind: &str) -> usize {
    let path = scene.path(&format!("home/ran-{kind}"));
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn did(scene: &Scene) -> Vec<String> {
    let state = scene.json(".phasegate/kinds/kinds.json");
    serde_json::from_value(state["did"].clone()).unwrap_or_default()
}

fn jobs(scene: &Scene) -> Vec<Value> {
    let shown: Value = serde_json::from_str(&scene.ok(&["jobs", "--all", "--json"])).unwrap();
    shown["jobs"].as_array().unwrap().iter().map(|row| row["job"].clone()).collect()
}

/// Wants a job, and is killed while that works.
fn killed_while(scene: &Scene, kind: &str, mut child: Child) {
    eventually(&format!("the {kind} works"), || ran(scene, kind) == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    // Nothing is lost, and nobody looks at it: the job goes on by itself.
    assert!(jobs(scene).iter().any(|job| job["kind"] == kind && job["ended"] == false), "{kind}");
    scene.file("home/go", "");
}

fn hook(scene: &Scene) -> Child {
    let mut command = scene.command();
    command.args(["hook", "stop"]);
    scene.spawn(command, scene.payload().to_string().as_bytes())
}

fn action(scene: &Scene, name: &str) -> Child {
    let mut command = scene.command();
    command.args(["kinds", name]);
    scene.spawn(command, b"")
}

#[test]
fn each_kind_outlives_the_process_that_wanted_it_and_is_started_once() {
    let ended = |scene: &Scene, kind: &str| {
        eventually(&format!("the end of the {kind} is heard of"), || {
            let lines = scene.journal("kinds/kinds");
            let own = |line: &&Value| line["event"]["params"]["kind"] == kind;
            lines.iter().filter(own).any(|line| line["event"]["name"] == "job-ended")
        });
    };
    let scene = kinds();
    killed_while(&scene, "check", hook(&scene));
    ended(&scene, "check");
    scene.stop().allows_saying("is done");
    assert_eq!(ran(&scene, "check"), 1, "the next stop uses the result");

    let scene = kinds();
    scene.file("reviewed", "");
    killed_while(&scene, "reviewer", hook(&scene));
    ended(&scene, "reviewer");
    eventually("it counts", || did(&scene) == ["review PASS"]);
    scene.stop().allows_saying("is done");
    assert_eq!(ran(&scene, "reviewer"), 1);

    let scene = kinds();
    killed_while(&scene, "worker", action(&scene, "make"));
    ended(&scene, "worker");
    eventually("it counts", || did(&scene) == ["make"]);
    assert_eq!(ran(&scene, "worker"), 1);

    let scene = kinds();
    killed_while(&scene, "agent", action(&scene, "assist"));
    ended(&scene, "agent");
    eventually("it counts", || did(&scene) == ["help"]);
    assert_eq!(ran(&scene, "agent"), 1);

    // A step that waits for its commands is taken when they have ended, whether or not anybody is there.
    let scene = kinds();
    killed_while(&scene, "command", action(&scene, "ship"));
    eventually("the step is taken", || did(&scene) == ["ship"]);
    assert_eq!(ran(&scene, "command"), 1);
    let lines = scene.journal("kinds/kinds");
    let names: Vec<&str> = lines.iter().filter_map(|line| line["event"]["name"].as_str()).collect();
    assert_eq!(names, ["start", "job-started", "ship"], "its action is on record, after its job");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn while_commands_run_nothing_else_is_done_and_a_failure_refuses_the_action() {
    let scene = kinds();
    let first = action(&scene, "ship");
    eventually("the command works", || ran(&scene, "command") == 1);
    for name in ["ship", "make"] {
        let refused = finish(action(&scene, name));
        assert!(refused.stdout.contains("A command of run kinds/kinds is running: deploy"));
    }
    scene.stop().allows_saying("A command of run kinds/kinds is running: deploy");
    assert!(did(&scene).is_empty(), "nothing of the step is done yet");
    scene.file("home/go", "");
    assert_eq!(finish(first).code, Some(0));
    assert_eq!(did(&scene), ["ship"]);
    scene.file("job.sh", "echo broken; exit 3");
    let failed = finish(action(&scene, "ship"));
    assert_eq!(failed.code, Some(1));
    assert!(failed.stdout.contains("sh job.sh command: broken"), "{failed:?}");
    assert_eq!(did(&scene), ["ship"]);
    // An edit while they run wins: the step was decided on another document.
    let state = scene.read(".phasegate/kinds/kinds.json");
    let edited = state.replace("\"ship\"", "\"mine\"");
    scene.file("job.sh", format!("cat > .phasegate/kinds/kinds.json <<'E'\n{edited}E\n"));
    let failed = finish(action(&scene, "ship"));
    assert!(
        failed.stdout.contains("the commands have run, but nothing else was done"),
        "{failed:?}"
    );
    assert_eq!(did(&scene), ["mine"]);
}

#[test]
fn a_workflow_makes_kinds_of_its_own_by_data_alone() {
    let scene = kinds();
    let said = finish(action(&scene, "soak"));
    assert!(said.stdout.contains("It soaks."), "{said:?}");
    eventually("it is heard that it works", || did(&scene) == ["soaks for orchestrator"]);
    let list = scene.ok(&["jobs"]);
    assert!(list.contains("kinds/kinds/soak-1") && list.contains("soak "), "{list}");
    // One without a role has no secret, and may ask for nothing.
    let job = jobs(&scene).remove(0);
    assert_eq!((&job["role"], &job["status"]), (&Value::Null, &"working".into()));
    scene.file("home/go", "");
    eventually("its end is heard of", || did(&scene).len() == 2);
    assert_eq!(did(&scene)[1], "soaked: exited");
    // The answer to the verdict is the answer to the action.
    let said = finish(action(&scene, "audit"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(did(&scene)[2], "audit FAIL");
    assert_eq!((ran(&scene, "soak"), ran(&scene, "audit")), (1, 1));
    let logs = scene.ok(&["jobs", "logs", "audit.audit"]);
    assert!(logs.is_empty(), "{logs}");
}

#[test]
fn mistakes_in_jobs_are_found_by_lint() {
    let scene = Scene::new();
    let wrong = |table: &str, says: &str| {
        let text = format!(
            "name = \"w\"\nabout = \"x\"\ninitial = \"a\"\n{table}\n[action.go]\nabout = \"x\"\n[phase.a]\nrules = [{{ on = \"go\", start = \"j\" }}, {{ on = \"stop\", allow = \"done\" }}]\n"
        );
        scene.file(".phasegate/workflows/w.toml", text);
        let ran = scene.run(&["lint"]);
        assert!(ran.stdout.contains(says), "{table}: {ran:?}");
    };
    let run = "run = [\"true\"]";
    wrong(&format!("[job.j]\nkind = \"check\"\n{run}"), "`check` has a table of its own");
    wrong(&format!("[job.j]\ngives = \"verdict\"\n{run}"), "has a `prompt`, and `writes`");
    wrong(&format!("[job.j]\nalone = true\n{run}"), "a job in the background is not `alone`");
    wrong(
        &format!("[job.j]\nbound = \"tree\"\n{run}"),
        "a job whose result holds for the tree is waited for",
    );
    wrong("[job.j]\nkind = \"k\"", "it needs `run`, or a `prompt`");
    wrong(&format!("[job.k]\n{run}"), "there is no job `j`");
    wrong(&format!("[job.j]\n{run}\nrole = \"human\""), "an agent is a `worker` or a `reviewer`");
}
