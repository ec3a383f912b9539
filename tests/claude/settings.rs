//! An agent that changes the client's settings to be rid of the gate.

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::model::NOTES;
use crate::scene::Scene;

/// Tries to switch the hooks off by a command, then stops; told to go on, it does what was asked for.
fn rid_of_it(scene: &Scene, command: &'static str, plugin: bool) {
    let api = Api::start(move |request| match (request.blocks(), request.used().len()) {
        (0, 0) => Reply::bash("phasegate notes start --name x"),
        // The client looks at its settings after a while.
        (0, 1) => Reply::bash(format!("{command}; sleep 5")),
        (1, 2) => Reply::bash("touch NOTES.md"),
        _ => Reply::text("Done."),
    });
    let session = Session::new(scene, &api, "Do it.");
    let session = if plugin { session.with_plugin() } else { session.with_init() };
    session.run().result();
    scene.assert_stops("notes/x", 1, "done");
    let journal = scene.journal("notes/x");
    let refused = journal.iter().find(|line| line["event"]["name"] == "config-change");
    let refused = refused.unwrap_or_else(|| panic!("nothing was refused: {journal:?}"));
    assert_eq!(refused["answer"]["decision"], "deny", "{refused}");
    let told = scene.fired_stops()[0].told().to_string();
    assert!(told.contains("was not applied to this session"), "{told}");
}

fn scene() -> Option<Scene> {
    let scene = Scene::new()?;
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    Some(scene)
}

#[test]
fn hooks_are_not_disabled_in_mid_session() {
    let Some(scene) = scene() else { return };
    rid_of_it(&scene, "echo '{\"disableAllHooks\":true}' > .claude/settings.local.json", false);
    scene.end();
}

#[test]
fn our_entry_is_not_dropped_in_mid_session() {
    let Some(scene) = scene() else { return };
    rid_of_it(&scene, "echo '{}' > .claude/settings.json", false);
    scene.end();
}

#[test]
fn with_the_plugin_hooks_are_not_disabled_either() {
    let Some(scene) = scene() else { return };
    let command =
        "mkdir -p .claude; echo '{\"disableAllHooks\":true}' > .claude/settings.local.json";
    rid_of_it(&scene, command, true);
    scene.end();
}
