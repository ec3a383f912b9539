//! Tools that a phase denies, and tasks that a rule does not let be done.

use serde_json::json;

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::scene::Scene;

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
