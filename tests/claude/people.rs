//! The person at the client's prompt: `! phasegate cancel` is a way out there.

use crate::api::Api;
use crate::model::{NOTES, obedient};
use crate::scene::Scene;
use crate::terminal::Terminal;

/// A project whose gate is open, with the hooks of `init`.
fn held(workflow: &str) -> Option<Scene> {
    let scene = Scene::new()?;
    scene.file(".phasegate/workflows/notes.toml", workflow).record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    scene.ok(&["notes", "start", "--name", "x"]);
    Some(scene)
}

#[test]
fn a_run_is_cancelled_from_the_clients_own_prompt() {
    let Some(scene) = held(NOTES) else { return };
    let api = Api::start(obedient);
    let mut client = Terminal::open(&scene, &api, &[]);
    assert!(client.says("Do it.")[0].block().is_some());
    // The client gives what was printed to the model, whose turn ends with a stop.
    let stops = client.says("!phasegate cancel notes/x");
    assert!(stops.iter().all(|stop| stop.block().is_none()), "{stops:?}");
    assert!(stops[0].told().contains("from inside the client"), "{stops:?}");
    let journal = scene.journal("notes/x");
    assert!(journal.iter().any(|line| line["event"]["name"] == "cancel"), "{journal:?}");
    let status = scene.ok(&["status", "--all"]);
    assert!(status.contains("cancelled"), "{status}");
    // Nothing holds any more, and it was said once.
    assert_eq!(client.says("And now?")[0].told(), "");
    client.leaves();
    scene.end();
}

#[test]
fn where_the_end_is_left_to_people_the_clients_prompt_is_not_enough() {
    let workflow = NOTES.replacen("name = ", "cancel = \"human\"\nname = ", 1);
    let Some(scene) = held(&workflow) else { return };
    let api = Api::start(obedient);
    let mut client = Terminal::open(&scene, &api, &[]);
    client.says("Do it.");
    let stops = client.says("!phasegate cancel notes/x");
    assert!(stops[0].block().is_some(), "{stops:?}");
    let told = api
        .requests()
        .into_iter()
        .any(|request| request.all().contains("in a terminal of your own"));
    assert!(told, "the person is not told what to do: {:?}", api.requests().last());
    client.leaves();
    scene.ok_by_hand(&["cancel", "notes/x"]);
    scene.end();
}
