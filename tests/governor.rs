//! Limits that end what no longer gets anywhere, and nothing else.

use std::process::Command;

use serde_json::json;

use crate::scene::{STATE, Scene};

/// A gate that always goes on until there is a file `ok`.
fn insistent(limits: &str) -> Scene {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/w.toml",
        "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\nreentry = \"always\"\n\
         [phase.a]\nrules = [{ on = \"stop\", when = \"not exists('ok')\", block = \"make ok\" }, { on = \"stop\", goto = \"b\", allow = \"done\" }]\n\
         [phase.b]\nfinal = true\n",
    );
    scene.file(".phasegate/config.toml", limits);
    scene.ok(&["w", "start"]);
    scene
}

#[test]
fn a_run_that_only_repeats_itself_ends_as_stuck() {
    let scene = insistent("");
    for _ in 0..3 {
        scene.stop_again().blocks("make ok");
    }
    let said = scene.stop_again();
    said.allows_saying("limit of 3 times the same reason while nothing changed");
    said.allows_saying("phasegate cancel w/w");
    assert_eq!(scene.journal("w/w").pop().unwrap()["answer"]["outcome"], "stuck");
    assert!(scene.ok(&["status"]).contains("stuck"));
    scene.file("ok", "");
    scene.stop_again().allows_saying("is done");
}

#[test]
fn a_long_healthy_run_reaches_no_limit() {
    let scene = Scene::with_triage(200);
    let mut state = scene.json(STATE);
    state["batch_size"] = json!(1);
    scene.file(STATE, state.to_string());
    scene.stop().blocks("200 of 200");
    for entry in 0..199 {
        scene.result(entry, true, "g");
        scene.stop_again().blocks(&format!("{} of 200", 199 - entry));
    }
    assert!(scene.ok(&["status", "-v"]).contains("200 of 2000 blocks; 200 of 500 blocks in a row"));
}

#[test]
fn a_run_ends_one_below_the_cap_of_the_client() {
    let blocks = |cap: Option<&str>, most: usize| {
        let scene = insistent("[limits]\nsame_reason = 0\n");
        let mut payload = scene.payload();
        payload["stop_hook_active"] = json!(true);
        let env: Vec<(&str, &str)> =
            cap.iter().map(|cap| ("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", *cap)).collect();
        for block in 0..most {
            let said = scene.hook_raw(payload.to_string().as_bytes(), &env);
            if said.json.get("decision").is_none() {
                said.allows_saying("(capped)");
                assert_eq!(scene.journal("w/w").pop().unwrap()["answer"]["outcome"], "capped");
                return block;
            }
        }
        most
    };
    assert_eq!(blocks(None, 20), 7);
    assert_eq!(blocks(Some("3"), 20), 2);
    assert_eq!(blocks(Some("0"), 20), 20);
    assert_eq!(blocks(Some("rubbish"), 20), 7);
}

#[test]
fn a_tool_call_between_two_stops_starts_the_clients_count_anew() {
    let scene = insistent("[limits]\nsame_reason = 0\n");
    let hook = r#"{"type":"user","isMeta":true,"message":{"content":"Stop hook feedback"}}"#;
    let tool = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}"#;
    // A transcript grows from stop to stop.
    let stop = |number: usize, lines: [&str; 2]| {
        scene.file("transcript.jsonl", "\n".repeat(number) + &lines.join("\n") + "\n");
        scene.stop_again()
    };
    for number in 0..20 {
        stop(number, [hook, tool]).blocks("make ok");
    }
    for number in 20..26 {
        stop(number, [tool, hook]).blocks("make ok");
    }
    stop(26, [tool, hook]).allows_saying("used no tool");
}

#[test]
fn limits_are_announced_and_a_completion_on_the_last_step_wins() {
    let limits = "[limits]\nsame_reason = 0\n[workflow.w.limits]\nblocks_in_a_row = 10\n";
    let scene = insistent(limits);
    let env = [("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "0")];
    let mut payload = scene.payload();
    payload["stop_hook_active"] = json!(true);
    let stop = || scene.hook_raw(payload.to_string().as_bytes(), &env);
    for block in 1..=10 {
        let said = stop();
        said.blocks("make ok");
        let message = said.json["systemMessage"].as_str().unwrap_or_default();
        let warned = message.contains("of 10 ");
        assert_eq!(warned, block == 8, "block {block}: {said:?}");
    }
    stop().allows_saying("limit of 10 blocks in a row");
    scene.stop().blocks("make ok");
    scene.file("ok", "");
    stop().allows_saying("is done");
    assert!(scene.ok(&["status"]).contains("done"));
}

#[test]
fn a_run_that_swings_to_and_fro_ends_as_stuck() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/w.toml",
        "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\nupdated = \"at\"\n\
         [phase.a]\nrules = [{ on = \"stop\", when = \"exists('flag')\", goto = \"b\" }, { on = \"stop\", block = \"make flag\" }]\n\
         [phase.b]\nrules = [{ on = \"stop\", when = \"not exists('flag')\", goto = \"a\" }, { on = \"stop\", block = \"remove flag\" }]\n",
    );
    scene.ok(&["w", "start"]);
    scene.stop().blocks("make flag");
    let mut swings = 0;
    loop {
        if swings % 2 == 0 {
            scene.file("flag", "");
        } else {
            std::fs::remove_file(scene.path("flag")).unwrap();
        }
        let said = scene.stop_again();
        if said.json.get("decision").is_none() {
            said.allows_saying("returns to a state that the run had moved on from");
            break;
        }
        swings += 1;
        assert!(swings < 20, "it swings forever");
    }
    assert!(swings >= 4, "{swings} swings are not enough to call it stuck");
}

#[test]
fn work_on_other_files_is_a_change_too() {
    let scene = insistent("");
    Command::new("git").args(["init", "-q"]).current_dir(scene.root()).status().unwrap();
    for count in 0..6 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        scene.file(&format!("work-{count}.c"), "x");
        assert_eq!(scene.stop().json["decision"], "block", "{count}");
    }
}
