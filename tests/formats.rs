//! The table of formats has the versions that the program reads and writes.

use std::path::Path;

use phasegate_engine::scene;
use phasegate_runtime::{bindings, ledger, witness};
use serde_json::json;

use crate::scene::{STATE, Scene};

/// The version of a format, as the table has it.
fn listed(format: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let page = std::fs::read_to_string(page).unwrap();
    let start = format!("| {format} | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("no row for {format}"));
    row.split(" | ").next().unwrap().to_string()
}

#[test]
fn the_table_has_the_versions_of_the_code() {
    assert_eq!(listed("ledger"), ledger::SCHEMA.to_string());
    assert_eq!(listed("sessions"), bindings::FORMAT.to_string());
    assert_eq!(listed("witness"), witness::FORMAT);
    assert_eq!(listed("scene"), scene::SCHEMA.to_string());
    let status: serde_json::Value =
        serde_json::from_str(&Scene::new().ok(&["status", "--json"])).unwrap();
    assert_eq!(listed("JSON of the command line"), status["version"].to_string());
    for format in
        ["journal", "consent", "installed", "definition", "configuration", "state documents"]
    {
        assert!(listed(format).starts_with(|it: char| it.is_lowercase()), "{format}");
    }
}

#[test]
fn a_ledger_of_a_later_version_is_left_as_it_is_and_said() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("");
    let place = ".phasegate/runs/triage/web/run.json";
    let mut ledger = scene.json(place);
    ledger["schema"] = json!(ledger::SCHEMA + 1);
    ledger["invention"] = json!("of a later version");
    scene.file(place, ledger.to_string());
    let (before, document) = (scene.read(place), scene.read(STATE));
    scene.stop_again().allows_saying("was written by a later version of Phasegate");
    assert_eq!((scene.read(place), scene.read(STATE)), (before, document));
}

#[test]
fn what_is_written_has_its_version() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("");
    let ledger = scene.json(".phasegate/runs/triage/web/run.json");
    assert_eq!(ledger["schema"], json!(ledger::SCHEMA));
    let sessions = scene.path("home/.local/state/phasegate/sessions");
    let session = std::fs::read_dir(sessions).unwrap().flatten().next().unwrap().path();
    let session: serde_json::Value =
        serde_json::from_slice(&std::fs::read(session).unwrap()).unwrap();
    assert_eq!(session["format"], json!(bindings::FORMAT));
    // An unknown key of a configuration or of a definition is an error with its place.
    scene.file(".phasegate/config.toml", "invention = 1\n");
    let ran = scene.run(&["status"]);
    assert!(ran.stderr.contains("invention"), "{ran:?}");
}
