//! Tools that a phase denies, tasks that a rule does not let be done, and teammates that it does not let go idle.

use serde_json::json;

use crate::api::{Api, Asker, Reply};
use crate::client::Session;
use crate::scene::Scene;
use crate::terminal::Terminal;

const PLANNED: &str = r#"
name = "planned"
about = "A plan comes before code."
initial = "planning"
[phase.planning]
tools = { deny = ["Write"], because = "The plan comes first." }
rules = [
  { on = "stop", when = "not exists('PLAN.md')", block = "Plan." },
  { on = "stop", goto = "coding" },
]
[phase.coding]
rules = [
  { on = "task-completed", when = "not exists('TESTED')", block = "Test {{ params.subject }} first." },
  { on = "stop", when = "not exists('code.txt')", block = "Code." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

#[test]
fn a_tool_is_refused_by_its_phase_and_allowed_in_the_next() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/planned.toml", PLANNED);
    let code = scene.path("code.txt");
    let writes = move || Reply::tool("Write", json!({ "file_path": code, "content": "x" }));
    let api = Api::start(move |request| match (request.blocks(), request.used().len()) {
        (0, 0) => Reply::bash("phasegate planned start --name x"),
        (1, 1) | (2, 3) => writes(),
        (1, 2) => Reply::bash("test ! -e code.txt && touch PLAN.md"),
        _ => Reply::text("Done."),
    });
    Session::new(&scene, &api, "Do it.").with_init().run().result();
    scene.assert_stops("planned/x", 2, "done");
    let told = "Run planned/x is in phase `planning`, in which Write may not be used. The plan comes first.";
    assert!(api.requests().iter().any(|request| request.all().contains(told)), "not told");
    assert!(scene.exists("PLAN.md") && scene.exists("code.txt"));
    scene.end();
}

#[test]
fn a_task_is_not_done_before_a_rule_says_so() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/planned.toml", PLANNED).file("PLAN.md", "x");
    let done = || Reply::tool("TaskUpdate", json!({ "taskId": "1", "status": "completed" }));
    let api = Api::start(move |request| match (request.blocks(), request.used().len()) {
        (0, 0) => Reply::bash("phasegate planned start --name x"),
        (1, 1) => Reply::tool("ToolSearch", json!({ "query": "select:TaskCreate,TaskUpdate" })),
        (1, 2) => Reply::tool("TaskCreate", json!({ "subject": "the parser", "description": "x" })),
        (1, 3 | 5) => done(),
        (1, 4) => Reply::bash("touch TESTED code.txt"),
        _ => Reply::text("Done."),
    });
    let session = Session::new(&scene, &api, "Do it.").with_init();
    session.env("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1").run().result();
    scene.assert_stops("planned/x", 1, "done");
    let told = "Test the parser first.";
    assert!(api.requests().iter().any(|request| request.all().contains(told)), "not told");
    let journal = scene.journal("planned/x");
    let asked = journal.iter().filter(|line| line["event"]["name"] == "task-completed");
    let answers: Vec<_> = asked.map(|line| line["answer"]["decision"].clone()).collect();
    assert_eq!(answers[0], "block", "{journal:?}");
    scene.end();
}

const TEAM: &str = r#"
name = "team"
about = "Nobody goes idle before the tests are written."
initial = "working"
[phase.working]
rules = [
  { on = "teammate-idle", when = "not exists('TESTED')", block = "{{ params.teammate }}, write the tests." },
  { on = "stop", when = "not exists('TESTED')", block = "Test." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// The client has teammates only in its terminal, and only if they are switched on.
#[test]
fn a_teammate_does_not_go_idle_before_a_rule_says_so() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/team.toml", TEAM);
    scene.ok(&["init", "--client", "claude"]);
    scene.record_hooks();
    let api = Api::start(move |request| {
        let used = request.used().len();
        if request.asker == Asker::SubAgent {
            let is_told = request.all().contains("ada, write the tests.");
            return if is_told && used == 0 {
                Reply::bash("touch TESTED")
            } else {
                Reply::text("I have done it.")
            };
        }
        match (request.blocks(), used) {
            (0, 0) => Reply::bash("phasegate team start --name x"),
            (1, 1) => {
                let ada = json!({ "description": "helps", "prompt": "Help.", "name": "ada" });
                Reply::tool("Agent", ada)
            }
            (1, 2) => Reply::bash("until [ -e TESTED ]; do sleep 0.1; done"),
            _ => Reply::text("Done."),
        }
    });
    let env = [("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1")];
    let mut client = Terminal::open_with(&scene, &api, &["--teammate-mode", "in-process"], &env);
    client.says("Do it, with a teammate.");
    let idle: Vec<_> = scene.fired().into_iter().filter(|it| it.is("TeammateIdle")).collect();
    assert_eq!(idle[0].asked["teammate_name"], "ada", "{idle:?}");
    assert_eq!(idle[0].block(), Some("ada, write the tests."), "{idle:?}");
    let journal = scene.journal("team/x");
    assert!(journal.iter().any(|line| line["event"]["name"] == "teammate-idle"), "{journal:?}");
    assert_eq!(scene.answers("team/x").last().unwrap(), "done");
    client.leaves();
    scene.end();
}
