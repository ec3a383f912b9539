//! What a stop would be answered now, and what would open the gate.

use serde_json::{Value, json};

use crate::scene::{STATE, Scene};

const SHIP: &str = r#"name = "ship"
about = "No stop before the work is done."
initial = "working"
document = "ship/*.json"

[check.tests]
run = ["sh", "tests.sh"]

[phase.working]
rules = [
  { on = "stop", when = "exists('WAIT') and run.reviews > 0", allow = "waiting", until = "human" },
  { on = "stop", when = "not exists('finished')", block = "Make `finished`." },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

fn shipping() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.file("tests.sh", "echo x >> ran; exit 1\n");
    scene.git(&["init", "-q"]);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok_by_hand(&["start", "ship"]);
    scene
}

fn now(scene: &Scene) -> Value {
    serde_json::from_str(&scene.ok(&["why", "--now", "--json", "ship/ship"])).unwrap()
}

#[test]
fn what_is_missing_is_told_as_few_facts_of_which_none_can_be_left_out() {
    let scene = shipping();
    let before = scene.snapshot();
    let told = now(&scene);
    assert_eq!(told["answer"], json!({ "decision": "block", "reason": "Make `finished`." }));
    assert_eq!(told["opens"], json!(true));
    assert_eq!(told["ways"][0]["answer"], json!({ "decision": "allow", "outcome": "done" }));
    assert_eq!(
        told["ways"][0]["facts"],
        json!([
            { "fact": "check.tests.ok", "by_agent": true },
            { "fact": "exists('finished')", "by_agent": true },
        ]),
        "{told:#}"
    );
    // What the agent cannot bring about comes later.
    let last = told["ways"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["by_agent"], &last["answer"]["until"]), (&json!(false), &json!("human")));
    assert_eq!(scene.snapshot(), before, "nothing is written");
    assert!(!scene.exists("ran"), "no check is run");
    let shown = scene.ok(&["why", "--now"]);
    insta::assert_snapshot!(shown, @r"
    ship/ship: a stop now: BLOCK

      Make `finished`.

    What would open the gate
      1. ALLOW done
         check.tests.ok
         exists('finished')
      2. ALLOW waiting (human)  (not by the agent alone)
         exists('WAIT')
         run.reviews > 0
    ");
}

#[test]
fn the_facts_that_are_told_open_the_gate() {
    let scene = shipping();
    scene.stop().blocks("Make `finished`");
    scene.file("finished", "");
    let told = now(&scene);
    assert_eq!(told["waits_for"], "check tests", "{told:#}");
    let facts = json!([{ "fact": "check.tests.ok", "by_agent": true }]);
    assert_eq!(told["ways"][0]["facts"], facts, "{told:#}");
    scene.file("tests.sh", "exit 0\n");
    scene.stop_again().allows_saying("is done");
    let told = now(&scene);
    assert_eq!(told["answer"], json!({ "decision": "allow", "outcome": "done" }));
    assert_eq!(told["ways"], json!([]));
}

#[test]
fn a_built_in_tells_what_is_missing_too() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("");
    let before = scene.snapshot();
    let told: Value = serde_json::from_str(&scene.ok(&["why", "--now", "--json"])).unwrap();
    assert_eq!((&told["answer"]["decision"], &told["stuck"]), (&json!("block"), &json!(true)));
    // The gate is some phases away: what lifts this block is told.
    assert_eq!(told["opens"], json!(false), "{told:#}");
    assert_eq!(told["ways"][0]["answer"]["decision"], "block", "{told:#}");
    assert_eq!(told["ways"][0]["by_agent"], json!(true), "{told:#}");
    assert_eq!(scene.snapshot(), before);
    assert!(scene.exists(STATE));
}
