//! The client without a Stop hook: driven, turn by turn.

use crate::api::{Api, Reply};
use crate::scene::Scene;

const NOTES: &str = "name = \"notes\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"text('NOTES.md') | length < 10\", block = \"NOTES.md has {{ text('NOTES.md') | length }} characters. Say more.\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";

#[test]
fn a_drive_keeps_the_conversation_until_the_gate_says_done() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.ok(&["notes", "start", "--name", "x"]);
    let path = scene.path("NOTES.md");
    let api = Api::start(move |request| {
        // What it was told last, and what it has done since.
        let order = request.order();
        if !order.1.is_empty() {
            return Reply::text("Written.");
        }
        let more = if order.0.contains("has 0 characters") { "Short." } else { "Much longer." };
        Reply::write(&path, more)
    });
    let said = scene.ok_asking(&api, &["drive", "notes", "--prompt", "Take notes."]);
    assert!(said.contains("notes/x: ALLOW done"), "{said}");
    scene.assert_stops("notes/x", 2, "done");
    assert_eq!(scene.read("NOTES.md"), "Much longer.");
    // The second turn knows of the first.
    let last = api.requests().pop().unwrap();
    assert!(last.all().contains("Take notes."), "{}", last.all());
    scene.end();
}
