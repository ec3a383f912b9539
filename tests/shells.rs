//! Hooks that an agent's shell calls in the place of the client: answered, written down, told, and nothing else.

use std::process::Command;

use serde_json::{Value, json};

use crate::scene::{Said, Scene, finish};

/// Who calls a hook.
#[derive(Clone, Copy)]
enum Called {
    /// The client, which starts the program itself.
    ByClient,
    /// The client, by a line of a shell.
    ByLine,
    /// The shell of the client's agent.
    ByShell,
    /// The same, with what a client's hook has in its environment.
    Forged,
    /// The same, once its client is no longer above it.
    Detached,
}

/// Fires a hook below a process that is called as the client is.
fn fire(scene: &Scene, event: &str, payload: &Value, called: Called) -> Said {
    let client = scene.path("bin/claude");
    if !client.exists() {
        std::fs::create_dir_all(scene.path("bin")).unwrap();
        std::fs::copy("/bin/sh", &client).unwrap();
    }
    let hook = format!("{} hook {event} --client claude", env!("CARGO_BIN_EXE_phasegate"));
    let project = format!("CLAUDE_PROJECT_DIR='{}'", scene.root().display());
    let (outer, line) = match called {
        Called::ByClient => ("", format!("{project} {hook}")),
        Called::ByLine => ("", format!("{project} sh -c '{hook}; true'")),
        Called::ByShell => ("", format!("sh -c '{hook}; true'")),
        Called::Forged => ("", format!("sh -c \"{project} {hook}; true\"")),
        Called::Detached => ("sh", format!("sh -c '{hook}; true'")),
    };
    let program = if outer.is_empty() { client } else { outer.into() };
    let mut command = Command::new(program);
    command.args(["-c", &format!("{line}; true")]).current_dir(scene.root()).env_clear();
    command.env("HOME", scene.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
    command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s1");
    let ran = finish(scene.spawn(command, payload.to_string().as_bytes()));
    let json = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    Said { code: ran.code, json }
}

fn payload(scene: &Scene, event: &str, session: &str) -> Value {
    let mut payload = scene.payload();
    payload["hook_event_name"] = json!(event);
    payload["session_id"] = json!(session);
    payload
}

fn stop(scene: &Scene, session: &str, called: Called) -> Said {
    fire(scene, "stop", &payload(scene, "Stop", session), called)
}

fn owner(scene: &Scene) -> Value {
    scene.json(".phasegate/runs/triage/web/run.json")["session"]["owner"]["session"].clone()
}

const SAYS: &str = "was called from an agent's shell (sh)";

#[test]
fn a_client_is_believed_by_its_program_and_by_its_line() {
    for called in [Called::ByClient, Called::ByLine] {
        let scene = Scene::with_triage(2);
        let said = stop(&scene, "one", called);
        said.blocks("2 of 2");
        assert_eq!(owner(&scene), "one");
        let journal = scene.journal("triage/web");
        assert!(journal.iter().all(|line| line["event"]["name"] != "hook-call"), "{journal:?}");
    }
}

#[test]
fn a_stop_from_a_shell_is_answered_and_takes_nothing() {
    for called in [Called::ByShell, Called::Forged, Called::Detached] {
        let scene = Scene::with_triage(2);
        let said = stop(&scene, "thief", called);
        said.blocks("2 of 2");
        assert!(said.json["systemMessage"].as_str().unwrap().contains(SAYS), "{said:?}");
        assert_eq!(owner(&scene), Value::Null);
        let line = scene.journal("triage/web").pop().unwrap();
        assert_eq!(line["event"]["name"], "hook-call");
        assert_eq!(line["event"]["params"]["hook"], "stop");
        assert_eq!(line["event"]["session"], "thief");
        assert!(line["by"].to_string().contains("sh "), "{line}");
        // The session that works here has its run, and its user is told, once.
        let said = stop(&scene, "one", Called::ByClient);
        said.blocks("2 of 2");
        assert!(said.json["systemMessage"].as_str().unwrap().contains(SAYS), "{said:?}");
        assert_eq!(owner(&scene), "one");
        scene.result(0, true, "g");
        let mut again = payload(&scene, "Stop", "one");
        again["stop_hook_active"] = json!(true);
        let said = fire(&scene, "stop", &again, Called::ByClient);
        said.blocks("1 of 2");
        assert!(!said.json["systemMessage"].to_string().contains(SAYS), "{said:?}");
    }
}

#[test]
fn stops_from_a_shell_use_nothing_up() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--max", "3", "--prompt", "Work."]);
    stop(&scene, "one", Called::ByClient).blocks("ITERATION 1/3");
    for _ in 0..5 {
        stop(&scene, "one", Called::ByShell);
    }
    // Five calls in between have not used up the last iteration, and are told once.
    let mut again = payload(&scene, "Stop", "one");
    again["stop_hook_active"] = json!(true);
    let said = fire(&scene, "stop", &again, Called::ByClient);
    said.blocks("ITERATION 2/3");
    assert_eq!(said.json["systemMessage"].as_str().unwrap().matches(SAYS).count(), 1, "{said:?}");
}

#[test]
fn a_session_that_a_shell_calls_over_is_not() {
    let scene = Scene::with_triage(2);
    stop(&scene, "one", Called::ByClient).blocks("2 of 2");
    fire(&scene, "session-end", &payload(&scene, "SessionEnd", "one"), Called::ByShell);
    assert_eq!(owner(&scene), "one");
    let said = stop(&scene, "one", Called::ByClient);
    said.blocks("2 of 2");
    assert!(said.json["systemMessage"].as_str().unwrap().contains("hook session-end"), "{said:?}");
    // The client's own word counts.
    fire(&scene, "session-end", &payload(&scene, "SessionEnd", "one"), Called::ByClient);
    assert_eq!(owner(&scene), Value::Null);
}

#[test]
fn no_reviewer_is_started_for_a_shell() {
    let scene = Scene::new();
    let judge = r#"
name = "judged"
about = "A reviewer says when it is done."
initial = "open"
[reviewer.eve]
prompt = "review.md"
writes = "review.md"
run = ["touch", "asked"]
[phase.open]
rules = [
  { on = "review-finished", goto = "done" },
  { on = "stop", review = "eve" },
]
[phase.done]
final = true
"#;
    scene.file(".phasegate/workflows/judged/workflow.toml", judge);
    scene.file(".phasegate/workflows/judged/prompts/review.md", "Judge.");
    scene.ok_by_hand(&["trust", "judged", "--yes"]);
    scene.ok(&["judged", "start"]);
    stop(&scene, "one", Called::ByShell).allows_saying("starts no agent for a hook");
    assert!(!scene.exists("asked"));
}

#[test]
fn doctor_tries_the_hook_also_from_an_agents_shell() {
    let scene = Scene::new();
    scene.ok(&["init", "--client", "claude"]);
    let client = scene.path("bin/claude");
    std::fs::create_dir_all(scene.path("bin")).unwrap();
    std::fs::copy("/bin/sh", &client).unwrap();
    let mut command = Command::new(client);
    let program = env!("CARGO_BIN_EXE_phasegate");
    let folder = std::path::Path::new(program).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    command.args(["-c", "sh -c 'phasegate doctor; true'; true"]).current_dir(scene.root());
    command.env_clear().env("HOME", scene.path("home")).env("PATH", path);
    let ran = finish(scene.spawn(command, b""));
    assert!(!ran.stdout.contains("does not block where it must"), "{ran:?}");
}
