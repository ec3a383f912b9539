//! From version 0.1.0 to this one: what it installed goes on working, and what it began goes on. Projects as it left
//! them at every phase, with their pins and with agents at work, are in `tests/traces`, and `tests/differ` plays them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::scene::{Ran, Scene, finish};

/// A project in which 0.1.0 was installed by `init`, and in which it has blocked once: each file with its text, as
/// that binary left it.
const PROJECT: &str = include_str!("upgrade/project-0.1.0.json");

const RUN: &str = "ship/old";

fn left_by_0_1_0() -> Scene {
    let scene = Scene::bare();
    let files: BTreeMap<String, String> = serde_json::from_str(PROJECT).unwrap();
    for (path, text) in files {
        scene.file(&path, text);
    }
    scene.git(&["init", "-q"]);
    std::fs::create_dir(scene.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phasegate"), scene.path("bin/phasegate"))
        .unwrap();
    scene
}

/// Runs a command with the program on PATH, as the hooks find it.
fn run(scene: &Scene, args: &[&str]) -> Ran {
    let mut command = scene.command();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", scene.path("bin").display())).args(args);
    finish(scene.spawn(command, b""))
}

#[test]
fn the_hooks_of_0_1_0_go_on_working_and_can_be_taken_out() {
    let scene = left_by_0_1_0();
    let looked = run(&scene, &["doctor"]);
    assert!(
        looked.stdout.contains("the hook in .claude/settings.json blocks and allows"),
        "{looked:?}"
    );
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    for place in [".claude", ".mcp.json", ".phasegate/installed.json"] {
        assert!(!scene.exists(place), "{place} is left");
    }
    let by_person = ".phasegate/workflows/ship.toml";
    assert!(scene.exists(by_person), "a gate is the project's");
}

#[test]
fn init_adds_what_0_1_0_did_not_install_and_nothing_twice() {
    let scene = left_by_0_1_0();
    assert_eq!(run(&scene, &["init", "--client", "claude"]).code, Some(0));
    let settings = scene.json(".claude/settings.json");
    for (event, groups) in settings["hooks"].as_object().unwrap() {
        assert_eq!(groups.as_array().unwrap().len(), 1, "{event}: {settings:#}");
    }
    assert_eq!(run(&scene, &["uninstall"]).code, Some(0));
    let left = std::fs::read_to_string(scene.path(".claude/settings.json")).unwrap_or_default();
    assert!(!left.contains("phasegate"), "{left}");
}

#[test]
fn a_run_of_0_1_0_goes_on_by_the_definition_that_it_began_with() {
    let scene = left_by_0_1_0();
    let place = Path::new(".phasegate/runs").join(RUN);
    let journal = scene.journal(RUN);
    // Somebody changes the gate meanwhile; the run keeps to its copy.
    let gate = scene.read(".phasegate/workflows/ship.toml");
    scene.file(".phasegate/workflows/ship.toml", gate.replace("The tests fail", "Not green"));
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.stop().blocks("The tests fail:\nbroken");
    scene.file("app.txt", "mended\n");
    scene.stop_again().allows_saying("is done");
    let lines = scene.journal(RUN);
    assert_eq!(lines[..journal.len()], journal, "what 0.1.0 wrote stays as it was");
    assert_eq!(lines.last().unwrap()["answer"]["outcome"], "done");
    scene.ok(&["log", RUN, "--verify"]);
    let ledger: Value = scene.json(place.join("run.json").to_str().unwrap());
    assert_eq!(ledger["schema"], 2);
}
