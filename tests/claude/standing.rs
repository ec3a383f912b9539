//! A standing gate with the real client: the gate is what `phasegate init` writes, and nobody starts anything.

use serde_json::json;

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::scene::Scene;

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

/// A repository whose tests fail while the word `broken` is in its file.
fn guarded() -> Option<Scene> {
    let scene = Scene::new()?;
    scene.file("Makefile", "test:\n\t@! grep -q broken a.txt\n").file("a.txt", "fine\n");
    let said = scene.ok(&["init", "--client", "claude"]);
    assert!(said.contains("Gate ship stands"), "{said}");
    git(&scene, &["add", "."]);
    git(&scene, &["commit", "--quiet", "-m", "one"]);
    Some(scene)
}

fn git(scene: &Scene, args: &[&str]) {
    let mut git = scene.command("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
    assert!(git.status().unwrap().success(), "{args:?}");
}

/// The run of a session.
fn run(session: &str) -> String {
    format!("ship/{session}")
}

#[test]
fn a_question_pays_for_nothing() {
    let Some(scene) = guarded() else { return };
    scene.file("a.txt", "broken, by the person, before the session began\n");
    let api = Api::start(|request| match request.used().len() {
        0 => Reply::bash("cat a.txt"),
        _ => Reply::text("It says that it is broken."),
    });
    let ended = Session::new(&scene, &api, "What is in a.txt?").id(FIRST).run();
    ended.result();
    assert!(scene.journal(&run(FIRST)).is_empty());
    assert!(!scene.exists(".phasegate/ship"));
}

#[test]
fn a_change_that_breaks_the_tests_is_held_until_they_pass() {
    let Some(scene) = guarded() else { return };
    let api = Api::start(|request| match (request.used().len(), request.blocks()) {
        (0, _) => Reply::bash("echo broken > a.txt"),
        (1, 1) => Reply::bash("echo mended > a.txt"),
        _ => Reply::text("Done."),
    });
    Session::new(&scene, &api, "Change a.txt.").id(FIRST).run().result();
    assert_eq!(scene.answers(&run(FIRST)), ["block", "done"]);
    // The session was told what stands.
    let told = api.requests().iter().any(|request| {
        serde_json::to_string(&request.messages).unwrap().contains("Gate ship stands")
    });
    assert!(told);
    scene.end();
}

#[test]
fn what_the_person_edits_meanwhile_holds_nobody() {
    let Some(scene) = guarded() else { return };
    let path = scene.path("a.txt");
    let api = Api::start(move |request| {
        if request.used().is_empty() {
            // In another window, while the agent looks.
            std::fs::write(&path, "broken\n").unwrap();
            return Reply::tool("Read", json!({ "file_path": path }));
        }
        Reply::text("It is a file.")
    });
    Session::new(&scene, &api, "What is a.txt?").id(FIRST).run().result();
    let decided = scene.journal(&run(FIRST));
    assert!(decided.is_empty(), "{decided:?}");
}

#[test]
fn each_session_is_held_by_what_it_has_changed_itself() {
    let Some(scene) = guarded() else { return };
    let api = Api::start(|request| {
        let (used, blocks) = (request.used().len(), request.blocks());
        match (request.session.as_str(), used, blocks) {
            (FIRST, 0, _) => Reply::bash("echo broken > a.txt"),
            (SECOND, 0, _) => Reply::bash("date > /dev/null"),
            _ => Reply::text("That is all."),
        }
    });
    // The first gives up, and the gate with it.
    Session::new(&scene, &api, "Break it.").id(FIRST).run().result();
    assert_eq!(scene.answers(&run(FIRST)), ["block", "stuck"]);
    Session::new(&scene, &api, "What time is it?").id(SECOND).run().result();
    assert!(scene.journal(&run(SECOND)).is_empty(), "what it finds broken is not its own");
    scene.end();
}

#[test]
fn after_it_gave_up_it_begins_again_with_the_next_prompt() {
    let Some(scene) = guarded() else { return };
    let api = Api::start(|request| {
        let said = serde_json::to_string(&request.messages).unwrap();
        match (request.used().len(), said.contains("Mend it."), request.blocks()) {
            (0, ..) => Reply::bash("echo broken > a.txt"),
            (1, true, 2..) => Reply::bash("echo mended > a.txt"),
            _ => Reply::text("That is all."),
        }
    });
    Session::new(&scene, &api, "Break it.").id(FIRST).run().result();
    assert_eq!(scene.answers(&run(FIRST)), ["block", "stuck"]);
    Session::new(&scene, &api, "Mend it.").resuming(FIRST).run().result();
    assert_eq!(scene.answers(&run(FIRST)), ["block", "stuck", "block", "done"]);
    scene.end();
}
