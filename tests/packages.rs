//! What is installed beside the program: the plugin's way to it, and one version everywhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::scene::{Ran, Scene, finish};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The plugin's script in a copy of the plugin, asked as the client asks it for an event.
fn asks_plugin(scene: &Scene, event: &str) -> Ran {
    let script = scene.path("plugin/hooks/phasegate.sh");
    if !script.exists() {
        scene.file("plugin/hooks/phasegate.sh", read("plugin/hooks/phasegate.sh"));
    }
    let mut command = Command::new("/bin/sh");
    command.arg(script).args(["hook", event, "--client", "claude"]).current_dir(scene.root());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scene.path("home"));
    command.stdin(Stdio::piped());
    let mut payload = scene.payload();
    payload["hook_event_name"] = "Stop".into();
    finish(scene.spawn(command, payload.to_string().as_bytes()))
}

#[test]
fn a_plugin_without_its_program_says_so_once_and_holds_nobody() {
    let scene = Scene::with_triage(2);
    let start = asks_plugin(&scene, "session-start");
    let said: Value = serde_json::from_str(&start.stdout).unwrap();
    let message = said["systemMessage"].as_str().unwrap();
    assert!(message.contains("nothing is gated in this session"), "{message}");
    for (event, stdout) in [("stop", "{}\n"), ("user-prompt-submit", "{}\n"), ("pre-compact", "")] {
        let ran = asks_plugin(&scene, event);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), stdout, ""));
    }
}

#[test]
fn a_plugin_finds_its_program_inside_it_or_where_it_is_usually_installed() {
    for place in ["plugin/bin/phasegate", "home/.local/bin/phasegate", "home/.cargo/bin/phasegate"]
    {
        let scene = Scene::with_triage(2);
        std::fs::create_dir_all(scene.path(place).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phasegate"), scene.path(place)).unwrap();
        let ran = asks_plugin(&scene, "stop");
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(said["decision"], "block", "{place}: {ran:?}");
    }
}

#[test]
fn the_plugin_asks_by_one_line_which_every_version_of_its_client_runs() {
    let hooks: Value = serde_json::from_str(&read("plugin/hooks/hooks.json")).unwrap();
    let events = hooks["hooks"].as_object().unwrap();
    assert!(events.len() >= 6);
    let groups = events.values().flat_map(|groups| groups.as_array().unwrap());
    for hook in groups.flat_map(|group| group["hooks"].as_array().unwrap()) {
        assert_eq!(hook.get("args"), None, "{hook}");
        let line = hook["command"].as_str().unwrap();
        assert!(line.starts_with("\"${CLAUDE_PLUGIN_ROOT}/hooks/phasegate.sh\" hook "), "{line}");
    }
    // One hook answers a stop, and has the time that a review takes. The other one waits beside the session.
    let groups = events["Stop"].as_array().unwrap().iter();
    let stops: Vec<&Value> = groups.flat_map(|group| group["hooks"].as_array().unwrap()).collect();
    assert_eq!(stops.len(), 2);
    assert_eq!(stops[0]["timeout"], 600);
    assert_eq!(stops[0].get("asyncRewake"), None);
    assert_eq!(stops[1]["asyncRewake"], true);
    assert!(stops[1]["command"].as_str().unwrap().ends_with(" hook wake --client claude"));
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let plugin: Value = serde_json::from_str(&read("plugin/.claude-plugin/plugin.json")).unwrap();
    assert_eq!(plugin["version"], version);
    let market: Value = serde_json::from_str(&read(".claude-plugin/marketplace.json")).unwrap();
    assert_eq!(market["plugins"][0]["version"], version);
    let changes = read("CHANGELOG.md");
    let heading =
        changes.lines().find(|line| line.starts_with("## [") && !line.contains("Unreleased"));
    let heading = heading.unwrap();
    assert!(heading.starts_with(&format!("## [{version}] - 20")), "{heading}");
    assert_eq!(Scene::bare().ok(&["--version"]), format!("phasegate {version}\n"));
    // The packages take it from Cargo.toml, as `packaging/dist` does.
    let cargo = read("Cargo.toml");
    let first = cargo.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    assert_eq!(first, format!("\"{version}\""));
    for package in ["packaging/npm/package.json", "packaging/npm/system.json"] {
        let package: Value = serde_json::from_str(&read(package)).unwrap();
        assert_eq!(package["version"], "@VERSION@");
        assert_eq!((package.get("scripts"), package.get("libc")), (None, None));
        for (_, wanted) in package["optionalDependencies"].as_object().into_iter().flatten() {
            assert_eq!(wanted, "@VERSION@");
        }
    }
}
