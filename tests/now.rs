//! What a stop would be answered now, and what would open the gate.

use serde_json::{Value, json};

use crate::phases::mcp::Client;
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
    scene.file("tests.sh", "test -e fixed || { echo x >> ran; exit 1; }\n");
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
fn a_block_says_what_is_missing_where_its_text_asks() {
    let scene = shipping();
    let asks = SHIP.replace("Make `finished`.", "It takes {{ missing }}.");
    let asks = asks.replace("exists('WAIT') and run.reviews > 0", "run.reviews > 0");
    scene.file(".phasegate/workflows/ask.toml", asks.replace("ship", "ask"));
    scene.ok_by_hand(&["trust", "ask", "--yes"]);
    scene.ok_by_hand(&["cancel", "ship/ship"]);
    scene.ok_by_hand(&["start", "ask"]);
    scene.stop().blocks("It takes check.tests.ok and exists('finished').");
    assert!(!scene.exists("ran"), "no check is run for it");
    // What it looked up for that is not what the block rests on, and is told again all the same.
    let line = scene.journal("ask/ask").pop().unwrap();
    let queries: Vec<&str> = line["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["query"].as_str().unwrap())
        .collect();
    assert!(!queries.contains(&"check tests"), "{queries:?}");
    let replayed = scene.ok(&["replay", "ask/ask"]);
    assert!(replayed.contains("1 same · 0 different · 0 unknown"), "{replayed}");
    let told = scene.ok(&["why", "--now", "ask/ask"]);
    assert!(told.contains("It takes check.tests.ok and exists('finished')."), "{told}");
    // Only a block is asked about, and a fact of the workflow's own comes first.
    let own = asks.replace("[phase.working]", "[let]\nmissing = \"'patience'\"\n\n[phase.working]");
    scene.file(".phasegate/workflows/own.toml", own.replace("ship", "own"));
    scene.ok_by_hand(&["trust", "own", "--yes"]);
    scene.ok_by_hand(&["cancel", "ask/ask"]);
    scene.ok_by_hand(&["start", "own"]);
    scene.stop().blocks("It takes patience.");
    let bad = SHIP.replace("allow = \"done\"", "allow = \"done\", message = \"{{ missing }}\"");
    scene.file(".phasegate/workflows/bad.toml", bad.replace("ship", "bad"));
    let ran = scene.run(&["lint", "bad"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("missing"), "{ran:?}");
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
    scene.file("fixed", "");
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

#[test]
fn an_agent_asks_over_mcp_what_is_missing() {
    let scene = shipping();
    scene.stop().blocks("Make `finished`");
    let mut command = scene.command();
    command
        .args(["mcp", "--workflow", "ship"])
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "s1");
    let mut client = Client::of(command);
    assert!(client.tools().contains(&"what_is_missing".to_string()));
    let (failed, told) = client.call("what_is_missing", &json!({ "run": "ship/ship" }));
    assert!(!failed, "{told}");
    assert_eq!(told["answer"]["decision"], "block", "{told:#}");
    assert_eq!(told["opens"], true);
    let facts: Vec<&Value> =
        told["ways"][0]["facts"].as_array().unwrap().iter().map(|it| &it["fact"]).collect();
    assert_eq!(facts, [&json!("check.tests.ok"), &json!("exists('finished')")]);
    assert!(!scene.exists("ran"), "no check is run");
    let (failed, told) = client.call("what_is_missing", &json!({ "run": "ship/none" }));
    assert!(failed, "{told}");
}
