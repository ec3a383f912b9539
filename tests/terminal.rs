//! What reaches a terminal: nothing that one would obey.

use serde_json::json;

use crate::scene::{STATE, Scene};

/// Clears the screen, sets the title, writes to the clipboard, and turns the reading direction.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}]52;c;Zm9v\u{7}\u{9b}31m\u{8}\u{202e}x";

#[track_caller]
fn is_clean(text: &str) {
    let odd: Vec<char> = text
        .chars()
        .filter(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}')
        .collect();
    assert!(odd.is_empty(), "{odd:?} in {text:?}");
}

#[test]
fn control_characters_of_state_reasons_and_sessions_are_not_printed() {
    let scene = Scene::with_triage(1);
    let mut state = scene.json(STATE);
    state["entries"][0]["name"] = json!(EVIL);
    state["phase"] = json!(EVIL);
    scene.file(STATE, state.to_string());
    let mut payload = scene.payload();
    payload["session_id"] = json!(format!("s\n{EVIL}"));
    let said = scene.hook(&payload);
    is_clean(said.json["systemMessage"].as_str().unwrap());
    state["phase"] = json!("triage");
    scene.file(STATE, state.to_string());
    let said = scene.hook(&payload);
    is_clean(said.json["reason"].as_str().unwrap());
    for command in [&["status"][..], &["log"], &["why"], &["status", "--json"], &["log", "--json"]]
    {
        for ran in [scene.run(command), scene.by_hand(command)] {
            is_clean(&ran.stdout);
            is_clean(&ran.stderr);
            if command.contains(&"--json") {
                let first = if command[0] == "log" {
                    ran.stdout.lines().next().unwrap()
                } else {
                    &ran.stdout
                };
                serde_json::from_str::<serde_json::Value>(first).unwrap();
            }
        }
    }
    let reason = format!("{EVIL}\ntriage/web  done in phase complete");
    let ran = scene.by_hand(&["cancel", "triage/web", "--reason", &reason]);
    is_clean(&ran.stdout);
    for command in [&["status"][..], &["log"], &["why"]] {
        let ran = scene.by_hand(command);
        is_clean(&ran.stdout);
        let forged = ran.stdout.lines().find(|line| line.starts_with("triage/web  done"));
        assert_eq!(forged, None, "{command:?}");
    }
}

#[test]
fn a_name_with_a_new_line_forges_nothing() {
    let scene = Scene::new();
    let name = ".phasegate/triage/a\ntriage-web  done_triage.json";
    scene.file(name, r#"{"phase":"triage","entries":[{"entry_index":0,"status":"pending"}]}"#);
    let said = scene.stop();
    said.allows_saying("rename it without control characters");
    assert!(!said.json["systemMessage"].as_str().unwrap().contains('\n'), "{said:?}");
    let ran = scene.run(&["status"]);
    assert!(!ran.stderr.contains("\ntriage-web"), "{ran:?}");
}

#[test]
fn what_a_check_prints_is_plain_in_a_reason() {
    let scene = Scene::new();
    let run = r#"["printf", "\\033[31mred\\033[0m and \\033]0;title\\007more\\n"]"#;
    let definition = format!(
        "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[check.t]\nrun = {run}\n[phase.a]\nrules = [\n\
         {{ on = \"stop\", when = \"check.t.ok\", block = \"It says: {{{{ check.t.tail }}}}\" }} ]\n"
    );
    scene.file(".phasegate/workflows/w.toml", definition);
    scene.file(".phasegate/w/one.json", r#"{"phase":"a"}"#);
    let payload = scene.payload().to_string();
    let said = scene.hook_raw(payload.as_bytes(), &[("PHASEGATE_TRUST_ALL", "1")]);
    said.blocks("It says: red and more");
}
