//! A session's run answers wherever the agent goes.

use crate::api::Api;
use crate::client::Session;
use crate::model::{NOTES, obedient, real};
use crate::scene::Scene;

#[test]
fn a_run_holds_after_a_cd_out_of_the_project() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(obedient);
    // The client lets its shell go only where it was given a folder.
    let outside = scene.beside("tmp");
    let prompt = format!("RUN cd {}", outside.display());
    let session = Session::new(&scene, &api, &prompt).with_init();
    session.arg("--add-dir").arg(&outside).run().result();
    let stops = scene.fired_stops();
    assert_eq!(real(stops[0].cwd()), real(&outside), "the agent has not gone anywhere: {stops:?}");
    assert_eq!(stops[0].block(), Some("Write NOTES.md."));
    assert_eq!(scene.answers("notes/x"), ["block", "stuck"]);
    scene.end();
}

#[test]
fn a_project_below_does_not_hide_the_run() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(obedient);
    let prompt = "RUN mkdir -p below/.phasegate && cd below";
    Session::new(&scene, &api, prompt).with_init().run().result();
    let stops = scene.fired_stops();
    assert_eq!(real(stops[0].cwd()), real(scene.path("below")), "{stops:?}");
    assert_eq!(scene.answers("notes/x"), ["block", "stuck"]);
    scene.end();
}

#[test]
fn in_the_clients_own_worktree_the_run_answers_with_what_is_there() {
    let Some(scene) = Scene::new() else { return };
    let scene = scene.with_ship();
    scene.record_hooks();
    let api = Api::start(obedient);
    // The tests fail in the project, and pass in the worktree, which is as it was committed.
    scene.ok(&["ship", "start", "--name", "x"]);
    scene.file("app.txt", "broken in the project\n");
    let session = Session::new(&scene, &api, "ENTER side").with_init();
    session.run().result();
    let stops = scene.fired_stops();
    let worktree = scene.path(".claude/worktrees/side");
    assert_eq!(real(stops[0].cwd()), real(&worktree), "{stops:?}");
    assert_eq!(scene.answers("ship/x"), ["done"], "{stops:?}");
    // And the other way round.
    scene.ok(&["ship", "start", "--name", "y"]);
    scene.file("app.txt", "ok\n");
    let prompt = "ENTER other\nRUN echo broken there > app.txt";
    Session::new(&scene, &api, prompt).run().result();
    assert_eq!(scene.answers("ship/y"), ["block", "stuck"]);
    let stops = scene.fired_stops();
    let block = stops.iter().find_map(|stop| stop.block()).unwrap();
    assert_eq!(block, "The tests fail: broken there");
    scene.end();
}

#[test]
fn a_session_that_begins_in_a_worktree_is_held_by_the_run_of_its_project() {
    let Some(scene) = Scene::new() else { return };
    let scene = scene.with_ship();
    scene.ok(&["init", "--client", "claude"]);
    // The checkout has nothing of a project.
    scene.git(&["rm", "-r", "--quiet", "--cached", ".phasegate"]);
    scene.file(".gitignore", ".phasegate\n.claude/worktrees\n").commit().record_hooks();
    let api = Api::start(obedient);
    scene.ok(&["ship", "start", "--name", "x"]);
    let session = Session::new(&scene, &api, "RUN echo broken there > app.txt");
    session.arg("--worktree").arg("side").run().result();
    let stops = scene.fired_stops();
    assert_eq!(real(stops[0].cwd()), real(scene.path(".claude/worktrees/side")), "{stops:?}");
    assert_eq!(stops[0].block(), Some("The tests fail: broken there"), "{stops:?}");
    assert_eq!(scene.answers("ship/x"), ["block", "stuck"]);
    scene.end();
}

#[test]
fn a_worktree_with_a_project_of_its_own_is_one() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.ok(&["init", "--client", "claude"]);
    scene.commit().record_hooks();
    let api = Api::start(obedient);
    scene.ok(&["notes", "start", "--name", "x"]);
    let session = Session::new(&scene, &api, "RUN phasegate notes start --name y");
    session.arg("--worktree").arg("side").run().result();
    let stops = scene.fired_stops();
    assert_eq!(stops[0].block(), Some("Write NOTES.md."), "{stops:?}");
    assert!(scene.exists(".claude/worktrees/side/.phasegate/runs/notes/y"));
    // The run of the other tree is none of its business.
    assert!(scene.answers("notes/x").is_empty());
    scene.end();
}

#[test]
fn a_project_in_an_added_folder_answers_after_a_run_was_begun_there() {
    let Some(scene) = Scene::new() else { return };
    scene.record_hooks();
    let other = scene.beside("other");
    std::fs::create_dir_all(other.join(".phasegate/workflows")).unwrap();
    std::fs::write(other.join(".phasegate/workflows/notes.toml"), NOTES).unwrap();
    scene.git(&["init", "--quiet", other.to_str().unwrap()]);
    let api = Api::start(obedient);
    let at_work = |prompt: &str| {
        let before = scene.fired_stops().len();
        let session = Session::new(&scene, &api, prompt).with_init();
        session.arg("--add-dir").arg(&other).run().result();
        scene.fired_stops().split_off(before)
    };
    let folder = other.display();
    let stops = at_work(&format!("RUN cd {folder} && echo x > a.txt"));
    assert_eq!(real(stops[0].cwd()), real(&other), "{stops:?}");
    assert_eq!(stops[0].block(), None, "{stops:?}");
    let stops = at_work(&format!("RUN cd {folder} && phasegate notes start --name y"));
    assert_eq!(stops[0].block(), Some("Write NOTES.md."), "{stops:?}");
    assert_eq!(scene.faults(), Vec::<String>::new());
    scene.assert_quiet();
}

#[test]
fn a_session_that_begins_outside_is_held_by_the_project_in_which_it_works() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", format!("standing = true\n{NOTES}"));
    scene.ok_by_hand(&["trust", "notes", "--yes"]);
    scene.commit().record_hooks();
    scene.ok(&["init", "--user", "--client", "claude"]);
    let api = Api::start(obedient);
    let outside = scene.beside("tmp");
    let prompt = format!("RUN cd {} && echo x > a.txt", scene.root().display());
    let session = Session::new(&scene, &api, &prompt).at(&outside);
    session.arg("--add-dir").arg(scene.root()).run().result();
    let stops = scene.fired_stops();
    assert_eq!(real(stops[0].cwd()), real(scene.root()), "{stops:?}");
    assert_eq!(stops[0].block(), Some("Write NOTES.md."), "{stops:?}");
    scene.end();
}
