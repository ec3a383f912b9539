//! The plugin, as the client sees it.

use serde_json::json;

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::real::scene::run;
use crate::scene::{Scene, repository};

#[test]
fn the_plugin_and_the_marketplace_are_valid() {
    let Some(scene) = Scene::new() else { return };
    for folder in [repository().join("plugin"), repository()] {
        let said = scene.client_ok(&["plugin", "validate", folder.to_str().unwrap()]);
        assert!(said.contains("Validation passed"), "{said}");
        assert!(!said.contains("with warnings"), "{said}");
    }
    scene.end();
}

#[test]
fn the_plugin_can_be_installed_and_then_gates() {
    let Some(scene) = Scene::new() else { return };
    let market = repository().canonicalize().unwrap();
    scene.client_ok(&["plugin", "marketplace", "add", market.to_str().unwrap()]);
    scene.client_ok(&["plugin", "install", "phasegate@phasegate"]);
    scene.file("found.json", json!([{ "name": "a" }]).to_string());
    scene.ok(&["triage", "start", "--from", "found.json"]);
    let api = Api::start(|_| Reply::text("Nothing to do."));
    Session::new(&scene, &api, "Triage.").run().result();
    scene.assert_stops("triage/found", 1, "stuck");
    scene.end();
}

#[test]
fn a_packaged_plugin_brings_its_program_along() {
    let Some(scene) = Scene::new() else { return };
    // Nowhere else is there one.
    std::fs::remove_file(scene.beside("bin/phasegate")).unwrap();
    let plugin = scene.beside("plugin");
    let mut copy = scene.command("cp");
    copy.arg("-r").arg(repository().join("plugin")).arg(&plugin);
    run(copy);
    std::fs::create_dir(plugin.join("bin")).unwrap();
    let program = plugin.join("bin/phasegate");
    std::fs::copy(env!("CARGO_BIN_EXE_phasegate"), program).unwrap();
    scene.file("found.json", json!([{ "name": "a" }]).to_string());
    let api = Api::start(|request| match request.used().len() {
        // As a slash command does, by its bare name.
        0 => Reply::bash("phasegate triage start --from found.json"),
        _ => Reply::text("Nothing to do."),
    });
    let session = Session::new(&scene, &api, "Triage.").arg("--plugin-dir").arg(&plugin);
    session.run().result();
    scene.assert_stops("triage/found", 1, "stuck");
    scene.end();
}

#[test]
fn the_steps_of_the_readme_lead_to_a_gated_session() {
    let Some(scene) = Scene::new() else { return };
    let shown = scene.ok(&["init", "--print"]);
    assert!(shown.contains(".claude/settings.json"), "{shown}");
    scene.ok(&["init"]);
    let looked = scene.ok(&["doctor"]);
    assert!(
        looked.contains("Claude Code: the hook in .claude/settings.json blocks and allows"),
        "{looked}"
    );
    let notes = "name = \"notes\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"not exists('NOTES.md')\", block = \"Write NOTES.md, then stop again.\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/notes.toml", notes);
    scene.ok(&["notes", "start", "--name", "x"]);
    let path = scene.path("NOTES.md");
    let api = Api::start(move |request| {
        if request.last().contains("Write NOTES.md") {
            Reply::write(&path, "Noted.")
        } else {
            Reply::text("I am done.")
        }
    });
    Session::new(&scene, &api, "Take notes.").run().result();
    scene.assert_stops("notes/x", 1, "done");
    assert!(scene.exists("NOTES.md"));
    // And without it, nothing is gated.
    scene.ok(&["uninstall"]);
    assert!(!scene.exists(".claude/settings.json"));
    scene.ok(&["notes", "start", "--name", "y"]);
    Session::new(&scene, &api, "Take notes.").run().result();
    assert!(scene.stops("notes/y").is_empty());
    scene.end();
}
