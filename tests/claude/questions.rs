//! An agent that asks the person, in the real client: it stops, the person answers, and the session has the answer.

use crate::api::{Api, Reply, Request};
use crate::client::Session;
use crate::model::NOTES;
use crate::scene::Scene;
use crate::terminal::Terminal;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// All that a model was told, the context that hooks add included.
fn heard(request: &Request) -> String {
    serde_json::to_string(&request.messages).unwrap()
}

/// A project with a run, and an agent that asks first and writes the notes when it has its answer.
fn project() -> Option<(Scene, Api)> {
    let scene = Scene::new()?;
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(|request| match request.used().len() {
        0 => Reply::bash("phasegate ask-human 'Red or blue?'"),
        1 if heard(request).contains("Blue it is.") => Reply::bash("echo blue > NOTES.md"),
        _ => Reply::text("That is all."),
    });
    Some((scene, api))
}

/// The same, where a session has asked and has stopped.
fn asked() -> Option<(Scene, Api)> {
    let (scene, api) = project()?;
    Session::new(&scene, &api, "Write it.").id(SESSION).run().result();
    assert_eq!(scene.answers("notes/x"), ["waiting"]);
    Some((scene, api))
}

#[test]
fn the_answer_comes_with_the_next_prompt_and_once() {
    let Some((scene, api)) = project() else { return };
    let mut client = Terminal::open(&scene, &api, &[]);
    let stops = client.says("Write it.");
    assert!(stops[0].told().contains("Run notes/x asks you: Red or blue?"), "{stops:?}");
    scene.ok_by_hand(&["answer", "notes/x", "Blue it is."]);
    client.says("Go on.");
    assert_eq!(scene.answers("notes/x"), ["waiting", "done"]);
    let told = api.requests().iter().map(heard).max_by_key(String::len).unwrap();
    assert_eq!(told.matches("The answer: Blue it is.").count(), 1, "{told}");
    client.leaves();
    scene.end();
}

#[test]
fn a_session_that_is_resumed_has_the_answer() {
    let Some((scene, api)) = asked() else { return };
    scene.ok_by_hand(&["answer", "notes/x", "Blue it is."]);
    Session::new(&scene, &api, "Go on.").resuming(SESSION).run().result();
    assert_eq!(scene.answers("notes/x"), ["waiting", "done"]);
    scene.end();
}

#[test]
fn what_is_typed_in_the_client_is_an_answer_too() {
    let Some((scene, api)) = asked() else { return };
    let answer = "/phasegate:answer Blue it is.";
    Session::new(&scene, &api, answer).with_plugin().resuming(SESSION).run().result();
    assert_eq!(scene.answers("notes/x").pop().as_deref(), Some("done"));
    assert!(!scene.ok(&["status", "--all"]).contains("needs you"));
    scene.end();
}
