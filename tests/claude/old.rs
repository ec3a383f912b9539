//! A client from before 2.1.140, which starts a hook without its arguments: `init` writes the one-line form for it.

use serde_json::Value;

use crate::api::Api;
use crate::client::{self, Session};
use crate::model::{NOTES, obedient};
use crate::scene::Scene;

/// The last version that ignores the arguments of hooks.
const OLD: &str = "2.1.139";

#[test]
fn a_client_that_ignores_arguments_is_held_by_the_one_line_form() {
    let Some(scene) = Scene::new() else { return };
    let Some(old) = client::find_version(OLD) else { return };
    let link = scene.beside("bin/claude");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(old, &link).unwrap();
    assert!(scene.client_ok(&["--version"]).starts_with(OLD));
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(obedient);
    Session::new(&scene, &api, "RUN true").with_init().run().result();
    let text = std::fs::read_to_string(scene.path(".claude/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap();
    let hook = &settings["hooks"]["Stop"][0]["hooks"][0];
    assert_eq!(hook["command"], "phasegate hook stop --client claude", "{text}");
    assert!(hook.get("args").is_none(), "{text}");
    // Sent back once; the second stop came without any change.
    assert_eq!(scene.answers("notes/x"), ["block", "stuck"]);
    scene.end();
}
