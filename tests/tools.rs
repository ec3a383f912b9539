//! Tools that a phase denies, and what an agent is about to do beside stopping.

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

const PLANNED: &str = r#"
name = "planned"
about = "A plan comes before code."
initial = "planning"
[phase.planning]
about = "The plan is written."
tools = { deny = ["Edit", "Write"], because = "Run `make plan` first." }
rules = [
  { on = "stop", when = "not exists('PLAN.md')", block = "Plan." },
  { on = "stop", goto = "coding" },
]
[phase.coding]
rules = [
  { on = "task-completed", when = "not exists('TESTED')", block = "Test {{ params.subject }} first." },
  { on = "stop", when = "not exists('CODE')", block = "Code." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

fn planned() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/planned.toml", PLANNED);
    scene.ok(&["planned", "start", "--name", "x"]);
    scene
}

fn uses(scene: &Scene, session: &str, tool: &str) -> Said {
    scene.hook_of("pre-tool-use", session, &json!({ "tool_name": tool, "tool_input": {} }))
}

#[track_caller]
fn refuses(said: &Said, tool: &str) {
    let output = &said.json["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{said:?}");
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    let expected =
        format!("Run planned/x is in phase `planning`, in which {tool} may not be used.");
    assert!(
        reason.starts_with(&expected) && reason.ends_with("Run `make plan` first."),
        "{reason}"
    );
}

#[test]
fn a_tool_that_the_phase_denies_is_refused_until_the_run_moves_on() {
    let scene = planned();
    // Whose run it is, the first stop tells.
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
    scene.stop().blocks("Plan.");
    let before = scene.snapshot();
    refuses(&uses(&scene, "s1", "Edit"), "Edit");
    refuses(&uses(&scene, "s1", "Write"), "Write");
    assert_eq!(scene.snapshot(), before, "something was written");
    for (session, tool) in [("s1", "Read"), ("s1", "Bash"), ("s2", "Edit")] {
        assert_eq!(uses(&scene, session, tool).json, json!({}), "{session} {tool}");
    }
    scene.file("PLAN.md", "x");
    scene.stop_again().blocks("Code.");
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
}

#[test]
fn what_holds_nobody_refuses_no_tool() {
    let scene = planned();
    scene.stop().blocks("Plan.");
    scene.ok_by_hand(&["pause", "planned/x"]);
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
    scene.ok_by_hand(&["resume", "planned/x"]);
    refuses(&uses(&scene, "s1", "Edit"), "Edit");
    // What cannot be read refuses nothing.
    let ledger = scene.read(".phasegate/runs/planned/x/run.json");
    scene.file(".phasegate/runs/planned/x/run.json", &ledger[..ledger.len() / 2]);
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
    scene.file(".phasegate/runs/planned/x/run.json", &ledger);
    scene.ok_by_hand(&["cancel", "planned/x"]);
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
}

#[test]
fn the_definition_that_the_run_began_with_counts() {
    let scene = planned();
    scene.stop().blocks("Plan.");
    scene.file(".phasegate/workflows/planned.toml", PLANNED.replace("\"Edit\", ", ""));
    refuses(&uses(&scene, "s1", "Edit"), "Edit");
    scene.ok_by_hand(&["accept", "planned/x", "--reason", "edits are fine"]);
    assert_eq!(uses(&scene, "s1", "Edit").json, json!({}));
    refuses(&uses(&scene, "s1", "Write"), "Write");
}

#[test]
fn hooks_that_cost_something_are_installed_where_a_workflow_asks_for_them() {
    let scene = Scene::new();
    scene.ok(&["init", "--client", "claude"]);
    assert!(!scene.read(".claude/settings.json").contains("PreToolUse"));
    scene.file(".phasegate/workflows/planned.toml", PLANNED);
    let said = scene.run(&["doctor"]).stdout;
    assert!(said.contains("asks for: pre-tool-use, task-completed"), "{said}");
    scene.ok(&["init", "--client", "claude"]);
    let settings: Value = scene.json(".claude/settings.json");
    let hook = &settings["hooks"]["PreToolUse"][0]["hooks"][0];
    assert_eq!(hook["args"], json!(["hook", "pre-tool-use", "--client", "claude"]));
    assert!(settings["hooks"]["TaskCompleted"].is_array(), "{settings}");
    assert!(settings["hooks"]["TeammateIdle"].is_null(), "{settings}");
    assert!(!scene.run(&["doctor"]).stdout.contains("asks for"));
    scene.ok(&["uninstall"]);
    let left = std::fs::read_to_string(scene.path(".claude/settings.json")).unwrap_or_default();
    assert!(!left.contains("phasegate"), "{left}");
}

#[test]
fn mistakes_in_tools_are_said() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/planned.toml", PLANNED.replace("[\"Edit\", \"Write\"]", "[]"));
    let said = scene.run(&["lint"]);
    let text = said.stdout + &said.stderr;
    assert!(text.contains("`tools` denies at least one tool"), "{text}");
    let both = PLANNED.replace(
        "{ on = \"task-completed\", when = \"not exists('TESTED')\", block",
        "{ on = \"task-completed\", deny",
    );
    scene.file(".phasegate/workflows/planned.toml", both);
    let said = scene.run(&["lint"]);
    let text = said.stdout + &said.stderr;
    assert!(text.contains("cannot be denied"), "{text}");
}

fn completes(scene: &Scene, session: &str) -> Said {
    let task = json!({ "task_id": "1", "task_subject": "the parser", "task_description": "x" });
    scene.hook_of("task-completed", session, &task)
}

#[test]
fn a_rule_keeps_an_agent_from_calling_a_task_done() {
    let scene = planned();
    scene.git(&["init", "-q"]);
    scene.file("PLAN.md", "x");
    // In this phase no rule is about it.
    completes(&scene, "s1").allows();
    scene.stop().blocks("Code.");
    completes(&scene, "s1").blocks("Test the parser first.");
    let line = scene.journal("planned/x").pop().unwrap();
    assert_eq!(line["event"]["name"], "task-completed");
    assert_eq!(line["event"]["params"]["subject"], "the parser");
    assert_eq!(line["answer"]["decision"], "block");
    // Another session's tasks are its own, and the same again with nothing changed is let go, saying so.
    completes(&scene, "s2").allows();
    completes(&scene, "s1").allows_saying("nothing has changed since it was told to go on");
    scene.file("TESTED", "x");
    completes(&scene, "s1").allows();
    scene.file("CODE", "x");
    scene.stop_again().allows_saying("is done");
}

#[test]
fn a_rule_keeps_a_teammate_from_going_idle() {
    let scene = Scene::new();
    let definition = r#"
name = "team"
about = "Nobody goes idle before the tests are written."
initial = "working"
[phase.working]
rules = [
  { on = "teammate-idle", when = "not exists('TESTED')", block = "{{ params.teammate }} of {{ params.team }}: write the tests." },
  { on = "stop", when = "not exists('TESTED')", block = "Test." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;
    scene.file(".phasegate/workflows/team.toml", definition);
    scene.git(&["init", "-q"]);
    scene.ok(&["init", "--client", "claude"]);
    let settings = scene.json(".claude/settings.json");
    let hook = &settings["hooks"]["TeammateIdle"][0]["hooks"][0];
    assert_eq!(hook["args"], json!(["hook", "teammate-idle", "--client", "claude"]));
    scene.ok(&["team", "start", "--name", "x"]);
    let idles = |session: &str| {
        let teammate = json!({ "teammate_name": "Ada", "team_name": "compilers" });
        scene.hook_of("teammate-idle", session, &teammate)
    };
    // Whose run it is, the first stop tells.
    idles("s1").allows();
    scene.stop().blocks("Test.");
    idles("s1").blocks("Ada of compilers: write the tests.");
    assert_eq!(scene.journal("team/x").pop().unwrap()["event"]["name"], "teammate-idle");
    idles("s1").allows_saying("nothing has changed since it was told to go on");
    idles("s2").allows();
    scene.file("TESTED", "");
    idles("s1").allows();
}
