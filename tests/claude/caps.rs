//! A model that never does anything: the run ends its turn by an outcome of its own, before the
//! client, which takes eight such blocks, ends it as if all were well.

use serde_json::json;

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::scene::Scene;

#[test]
fn a_run_that_hears_nothing_new_is_stuck_before_the_client_gives_up() {
    let Some(scene) = Scene::new() else { return };
    scene.file("found.json", json!([{ "name": "a" }]).to_string());
    scene.ok(&["triage", "start", "--from", "found.json"]);
    let api = Api::start(|_| Reply::text("Nothing to do."));
    let ended = Session::new(&scene, &api, "Triage.").with_plugin().run();
    scene.assert_stops("triage/found", 1, "stuck");
    assert_eq!(ended.result()["result"], "Nothing to do.");
    assert_eq!(api.requests().last().unwrap().blocks(), 1);
    assert_eq!(scene.json(".phasegate/triage/found_triage.json")["phase"], "triage");
    assert!(scene.ok(&["status"]).contains("stuck"));
    scene.end();
}

#[test]
fn a_run_that_only_talks_is_capped_before_the_client_gives_up() {
    let Some(scene) = Scene::new() else { return };
    // Each block of a loop says something else.
    scene.ok(&["loop", "start", "--max", "50", "--prompt", "Talk."]);
    let api = Api::start(|_| Reply::text("I talk."));
    Session::new(&scene, &api, "Talk.").with_plugin().run().result();
    scene.assert_stops("loop/current", 7, "capped");
    assert!(scene.ok(&["status"]).contains("capped"));
    scene.end();
}

#[test]
fn the_clients_cap_can_be_raised_and_is_still_not_reached() {
    let Some(scene) = Scene::new() else { return };
    scene.ok(&["loop", "start", "--max", "50", "--prompt", "Talk."]);
    let api = Api::start(|_| Reply::text("I talk."));
    let session = Session::new(&scene, &api, "Talk.").with_plugin();
    session.env("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "12").run().result();
    scene.assert_stops("loop/current", 11, "capped");
    scene.end();
}

#[test]
fn the_cap_may_stand_in_the_settings_of_the_client() {
    let Some(scene) = Scene::new() else { return };
    scene.ok(&["loop", "start", "--max", "50", "--prompt", "Talk."]);
    let api = Api::start(|_| Reply::text("I talk."));
    let settings = json!({ "env": { "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "4" } }).to_string();
    let session = Session::new(&scene, &api, "Talk.").with_plugin();
    session.arg("--settings").arg(settings).run().result();
    scene.assert_stops("loop/current", 3, "capped");
    scene.end();
}
