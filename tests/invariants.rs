//! Properties: what must hold of every run, whatever its rules do.

use serde_json::json;

use crate::scene::Scene;

const GREEN: &str = "no success without green tests on this tree";

/// A gate with a hole, and a property that knows better.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass."
initial = "working"

[state]
phase = "string"
approved = { type = "boolean", default = false }

[check.tests]
run = ["sh", "test.sh"]

[[property]]
name = "no success without green tests on this tree"
never = "outcome == 'done' and not check.tests.ok"

[[property]]
name = "a person has approved"
through = { to = "phase == 'done'", pass = "event.name == 'approve' and event.actor == 'human'" }

[phase.working]
rules = [
  { on = "stop", when = "exists('skip')", goto = "done", allow = "done" },
  { on = "approve", set = { "state.approved" = true } },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", when = "not state.approved", wait = "human" },
  { on = "stop", goto = "done", allow = "done" },
  { on = "finish", goto = "done" },
]
[phase.done]
final = true

[action.approve]
about = "Approve; for people."
by = "human"

[action.finish]
about = "Finish."
"#;

fn started() -> Scene {
    let scene = Scene::new();
    scene.file("test.sh", "echo x >> ran; test -e fixed").file(".gitignore", "ran\nhome\n");
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.by_hand(&["trust", "ship", "--yes"]);
    scene.ok(&["ship", "start"]);
    scene
}

#[test]
fn a_success_that_a_property_forbids_is_a_fault_and_starts_nothing() {
    let scene = started();
    scene.file("skip", "");
    let said = scene.stop();
    said.allows_saying(&format!("property \"{GREEN}\" does not hold"));
    assert!(!scene.exists("ran"), "a property starts no check");
    // Nothing was done, so that the next stop is decided again.
    assert_eq!(scene.json(".phasegate/ship/ship.json")["phase"], "working");
    let journal = scene.journal("ship/ship");
    let line = journal.last().unwrap();
    assert_eq!(line["answer"]["outcome"], "fault", "{line}");
    assert_eq!(line["trace"]["violated"], json!([GREEN, "a person has approved"]));
    let why = scene.ok(&["why"]);
    assert!(why.contains(&format!("violated: property \"{GREEN}\"")), "{why}");
    std::fs::remove_file(scene.path("skip")).unwrap();
    scene.stop().blocks("The tests fail.");
}

#[test]
fn what_a_run_must_come_through_is_remembered() {
    let scene = started();
    scene.file("fixed", "");
    // The agent says that it was approved; nobody has.
    scene.file(".phasegate/ship/ship.json", r#"{"phase": "working", "approved": true}"#);
    scene.stop().allows_saying("property \"a person has approved\" does not hold");
    let refused = scene.run(&["ship", "finish"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("a person has approved"), "{refused:?}");
    scene.ok_by_hand(&["ship", "approve"]);
    let said = scene.stop();
    assert_eq!(said.json.get("decision"), None, "{said:?}");
    assert_eq!(scene.json(".phasegate/ship/ship.json")["phase"], "done");
    assert_eq!(scene.journal("ship/ship").last().unwrap()["answer"]["outcome"], "done");
}

#[test]
fn every_mistake_in_properties_is_told_with_its_place() {
    let scene = Scene::new();
    let broken = SHIP
        .replace("never = \"outcome", "always = \"true\"\nnever = \"outcome")
        .replace("pass = \"event.name", "pass = \"evnt.name")
        .replace("[phase.done]", "[[property]]\nname = \"a person has approved\"\nalways = \"phsae == 'done'\"\n\n[phase.done]");
    scene.file(".phasegate/workflows/ship.toml", &broken);
    let ran = scene.run(&["lint", "ship"]);
    assert_eq!(ran.code, Some(1));
    for told in [
        "a property has one of `never`, `always` and `through`",
        "there are two properties called \"a person has approved\"",
        "there is no name `evnt`",
        "there is no name `phsae`",
        "ship.toml:14",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
}
