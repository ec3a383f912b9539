//! Settings that change while a session is held: what would open the gate is refused, written down and told.

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

const LOCAL: &str = ".claude/settings.local.json";
const OFF: &str = r#"{"disableAllHooks":true}"#;

/// A project with the hooks of `init`, and a run that its session is told about.
fn armed() -> Scene {
    let scene = Scene::with_triage(2);
    scene.ok(&["init", "--client", "claude"]);
    scene.hook_of("session-start", "s1", &Value::Null);
    scene.stop().blocks("2 of 2");
    scene
}

fn changed(scene: &Scene, session: &str, file: &str) -> Said {
    let more = json!({ "source": "local_settings", "file_path": scene.path(file) });
    scene.hook_of("config-change", session, &more)
}

#[test]
fn what_disables_the_hooks_of_a_session_that_is_held_is_refused_and_told() {
    let scene = armed();
    scene.file(LOCAL, OFF);
    changed(&scene, "s1", LOCAL).blocks("settings.local.json has `disableAllHooks`: no hook runs");
    let line = scene.journal("triage/web").pop().unwrap();
    assert_eq!(line["event"]["name"], "config-change");
    assert_eq!(line["answer"]["decision"], "deny");
    assert!(!line["by"].as_array().unwrap().is_empty(), "{line}");
    // Twice tried, it is told once, to the person.
    changed(&scene, "s1", LOCAL).blocks("would open the gate");
    let said = scene.stop();
    said.blocks("2 of 2");
    let told = said.json["systemMessage"].as_str().unwrap();
    assert_eq!(told.matches("was not applied to this session").count(), 1, "{told}");
    scene.file(LOCAL, r#"{"env":{"PHASEGATE_DISABLE":"1"}}"#);
    changed(&scene, "s1", LOCAL).blocks("PHASEGATE_DISABLE=1");
}

#[test]
fn what_drops_our_hook_is_refused_unless_it_is_elsewhere() {
    let scene = armed();
    let installed = scene.read(".claude/settings.json");
    scene.file(".claude/settings.json", "{}");
    changed(&scene, "s1", ".claude/settings.json").blocks("no longer has the hook of Phasegate");
    // It may be moved to another file.
    scene.file(LOCAL, &installed);
    changed(&scene, "s1", ".claude/settings.json").allows();
    // A file that is gone has no hook.
    std::fs::remove_file(scene.path(LOCAL)).unwrap();
    std::fs::remove_file(scene.path(".claude/settings.json")).unwrap();
    changed(&scene, "s1", ".claude/settings.json").blocks("no longer has the hook");
}

#[test]
fn other_changes_and_other_sessions_are_left_alone() {
    let scene = armed();
    scene.file(LOCAL, r#"{"model":"opus"}"#);
    changed(&scene, "s1", LOCAL).allows();
    let before = scene.journal("triage/web").len();
    scene.file(LOCAL, OFF);
    // Nothing holds a session that does not own the run, or whose run is over.
    changed(&scene, "s2", LOCAL).allows();
    assert_eq!(scene.journal("triage/web").len(), before);
    scene.ok_by_hand(&["pause", "triage/web"]);
    changed(&scene, "s1", LOCAL).allows();
    scene.ok_by_hand(&["resume", "triage/web"]);
    scene.ok_by_hand(&["cancel", "triage/web"]);
    changed(&scene, "s1", LOCAL).allows();
}

#[test]
fn the_hook_of_the_plugin_is_in_no_file() {
    let scene = armed();
    scene.file(".claude/settings.json", "{}");
    let mut payload = scene.payload();
    payload["hook_event_name"] = json!("ConfigChange");
    payload["file_path"] = json!(scene.path(".claude/settings.json"));
    let plugin = [("CLAUDE_PLUGIN_ROOT", "/plugin")];
    scene.fire("config-change", payload.to_string().as_bytes(), &plugin).allows();
}

#[test]
fn where_only_a_gate_stands_it_is_refused_and_told_too() {
    let scene = Scene::new();
    scene.file("Cargo.toml", "");
    scene.git(&["init", "-q"]);
    let gate = "name = \"ship\"\nabout = \"x\"\ninitial = \"a\"\nstanding = true\n[phase.a]\nrules = [{ on = \"stop\", goto = \"b\", allow = \"done\" }]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/ship.toml", gate);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok(&["init", "--client", "claude"]);
    scene.hook_of("session-start", "s1", &Value::Null);
    scene.file(LOCAL, OFF);
    changed(&scene, "s1", LOCAL).blocks("would open the gate");
    scene.stop().allows_saying("was not applied to this session");
    scene.stop().allows();
}
