//! One grammar for all commands: how runs are named, where flags stand, what programs read, how a shell completes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::scene::{Ran, STATE, Scene};

/// A gate of a user with an action.
const SHIP: &str = r#"
name = "ship"
about = "No stop before it is done."
initial = "working"

[action.finish]
about = "Say that it is done."

[phase.working]
rules = [
  { on = "stop", block = "Finish it." },
  { on = "finish", goto = "done" },
]

[phase.done]
final = true
"#;

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Three runs: of `triage` one, of `ship` one that is over and one that is open.
fn scene() -> Scene {
    let scene = Scene::with_triage(2);
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.ok(&["start", "ship", "--name", "old"]);
    scene.ok(&["do", "ship", "finish"]);
    scene.ok(&["start", "ship", "--name", "new"]);
    scene.stop();
    scene
}

#[test]
fn every_command_takes_a_run_in_the_same_way() {
    let scene = scene();
    for name in ["ship/new", "ship", "new"] {
        for command in [
            &["status", name][..],
            &["log", name],
            &["wait", name, "--seconds", "0"],
            &["draw", "ship", "--run", name],
            &["release", name],
            &["repl", name],
        ] {
            let ran = scene.run(command);
            assert!(!ran.stderr.contains("error"), "{command:?}: {ran:?}");
        }
        let ran = scene.by_hand(&["pause", name]);
        assert!(ran.stdout.contains("ship/new is paused"), "{ran:?}");
        let ran = scene.by_hand(&["resume", name]);
        assert!(ran.stdout.contains("ship/new is resumed"), "{ran:?}");
    }
    let shown = scene.ok(&["status", "ship/old"]);
    assert!(shown.contains("ship/old  done") && !shown.contains("triage"), "{shown}");
    let ran = scene.run(&["status", "shop/new"]);
    assert!(ran.stderr.contains("there is no run \"shop/new\"; there are: "), "{ran:?}");
    // An action takes it as well, also by the workflow's name.
    scene.ok(&["do", "ship", "finish", "ship"]);
}

#[test]
fn a_run_is_driven_by_its_whole_name() {
    let scene = scene();
    scene.ok(&["start", "ship", "--name", "other"]);
    for args in [["drive", "ship/new"], ["drive", "new"]] {
        let mut command = scene.command();
        command.args(args).args(["--turns", "3", "--", "sh", "-c", "true"]);
        let ran = crate::scene::finish(scene.spawn(command, b""));
        assert!(ran.stdout.contains("ship/new"), "{ran:?}");
        assert!(![Some(1), Some(2)].contains(&ran.code), "{ran:?}");
    }
    let ran = scene.run(&["drive", "ship", "--", "true"]);
    assert!(ran.stderr.contains("which run? There are: ship/new, ship/other"), "{ran:?}");
}

#[test]
fn the_folder_is_chosen_anywhere_on_the_line() {
    let scene = scene();
    let other = Scene::bare();
    let folder = scene.root().display().to_string();
    for args in [
        vec!["-C", &folder, "status", "ship"],
        vec!["status", "-C", &folder, "ship"],
        vec!["status", "ship", "-C", &folder],
        vec!["status", "ship", &format!("-C={folder}")],
        vec![&format!("-C{folder}"), "status", "ship"],
    ] {
        assert!(other.ok(&args).contains("ship/new"), "{args:?}");
    }
    let ran = other.run(&["status", "-C"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    // What stands behind `--` is for another program.
    let ran = scene.run(&["drive", "nothing", "--", "agent", "-C", "/no/such"]);
    assert!(!ran.stderr.contains("/no/such"), "{ran:?}");
}

#[test]
fn errors_are_one_form_for_programs() {
    let scene = Scene::with_triage(1);
    let ran = scene.run(&["why", "nothing", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    let shown = json(&ran);
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["error"]["code"], "no-such-run");
    assert!(shown["error"]["message"].as_str().unwrap().contains("there is no run"), "{shown}");
    let ran = scene.run(&["status", "--json", "--banana"]);
    assert_eq!(ran.code, Some(2));
    let shown = json(&ran);
    assert_eq!(shown["error"]["code"], "usage");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("unexpected argument '--banana'"), "{shown}");
    assert!(
        shown["error"]["hint"].as_str().unwrap().contains("Usage: phasegate status"),
        "{shown}"
    );
}

#[test]
fn programs_tell_failures_apart_by_their_codes() {
    let scene = scene();
    scene.file(".phasegate/workflows/broken.toml", "name = \"broken\"\n");
    let docs =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md"));
    let docs = docs.unwrap();
    for (args, code) in [
        (vec!["why", "nothing"], "no-such-run"),
        (vec!["draw", "nothing"], "no-such-workflow"),
        (vec!["eject", "nothing"], "no-such-workflow"),
        (vec!["demo", "nothing"], "no-such-workflow"),
        (vec!["draw", "broken"], "invalid-definition"),
        (vec!["trust", "broken"], "invalid-definition"),
        (vec!["pause", "ship"], "not-permitted"),
        (vec!["status", "--banana"], "usage"),
    ] {
        let args = [args, vec!["--json"]].concat();
        let ran = scene.run(&args);
        assert_eq!(json(&ran)["error"]["code"], code, "{args:?}: {ran:?}");
        assert_eq!(ran.stderr, "", "{args:?}");
    }
    scene.ok(&["eject", "loop"]);
    assert_eq!(json(&scene.run(&["eject", "loop", "--json"]))["error"]["code"], "exists");
    let text = Scene::new().ok(&["schema", "error"]);
    let schema: Value = serde_json::from_str(&text).unwrap();
    let about = schema["$defs"]["Problem"]["properties"]["code"]["enum"].as_array().cloned();
    for code in about.unwrap() {
        let row = format!("| `{}` | ", code.as_str().unwrap());
        assert!(docs.contains(&row), "docs/commands.md has no {code}");
    }
}

#[test]
fn a_status_that_no_run_can_have_is_refused_at_once() {
    let scene = scene();
    let ran = scene.run(&["wait", "ship/new", "--status", "dome", "--seconds", "60"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("can have the status \"dome\""), "{ran:?}");
    assert!(ran.stderr.contains("did you mean done? There are: done, working"), "{ran:?}");
    let ran = scene.run(&["wait", "ship/new", "--status", "working"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn another_name_than_the_one_that_was_asked_for_is_told() {
    let scene = scene();
    let shown = scene.ok(&["start", "ship", "--name", "new"]);
    assert!(shown.contains("Run ship/new-2 has started"), "{shown}");
    assert!(
        shown.contains("It is called new-2, since there is a run ship/new already."),
        "{shown}"
    );
    let shown = scene.ok(&["start", "ship", "--name", "a-1"]);
    assert!(!shown.contains("is called"), "{shown}");
    let ran = scene.run(&["start", "ship", "--name", "new", "--json"]);
    let shown = json(&ran);
    assert_eq!((&shown["run"], &shown["taken"]), (&"ship/new-3".into(), &"new".into()));
    scene.file("web.json", "[{\"name\":\"a\"}]");
    let shown = scene.ok(&["triage", "start", "--from", "web.json"]);
    assert!(
        shown.contains("It is called web-2, since there is a run triage/web already."),
        "{shown}"
    );
}

#[test]
fn a_status_can_be_watched() {
    let scene = Scene::with_triage(2);
    scene.stop();
    let mut command = scene.command();
    command.args(["status", "--watch"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("working in phase triage")));
    let mut state = scene.json(STATE);
    state["phase"] = "complete".into();
    scene.file(STATE, state.to_string());
    assert!(lines.any(|line| line.contains("in phase complete")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_shell_completes_what_there_is_in_the_project() {
    let scene = scene();
    let complete = |words: &[&str]| {
        let mut command = scene.command();
        let last = words.len().to_string();
        command.args(["--", "phasegate"]).args(words).env("PHASEGATE_COMPLETE", "bash");
        command.env("_CLAP_COMPLETE_INDEX", last).env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
        let ran = crate::scene::finish(scene.spawn(command, b""));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let mut found: Vec<String> =
            ran.stdout.lines().map(|line| line.trim().to_string()).collect();
        found.sort();
        found
    };
    assert_eq!(complete(&["why", "ship/"]), ["ship/new", "ship/old"]);
    assert!(complete(&["do", "sh"]).contains(&"ship".to_string()));
    assert!(complete(&["do", "ship", "fin"]).contains(&"finish".to_string()));
    assert_eq!(complete(&["draw", "tri"]), ["triage"]);
    assert!(complete(&["init", "--client", "cl"]).contains(&"claude".to_string()));
}

#[test]
fn the_exit_codes_are_the_same_in_help_and_docs() {
    let help = Scene::new().ok(&["--help"]);
    let (_, table) = help.split_once("Exit codes:\n").unwrap();
    let docs =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md"));
    let docs = docs.unwrap();
    for row in table.lines().filter(|row| !row.trim().is_empty()) {
        let mut words = row.split_whitespace();
        let (code, name) = (words.next().unwrap(), words.next().unwrap());
        let about = words.collect::<Vec<_>>().join(" ");
        assert!(docs.contains(&format!("| {code} | `{name}` | {about} |")), "{row}");
    }
}

#[test]
fn a_workflow_with_mistakes_is_not_listed_as_a_healthy_one() {
    let scene = Scene::new();
    scene
        .file(".phasegate/workflows/ship.toml", SHIP.replace("goto = \"done\"", "goto = \"dome\""));
    let shown = scene.ok(&["list"]);
    assert!(shown.contains("it has mistakes: `phasegate lint ship`"), "{shown}");
}
