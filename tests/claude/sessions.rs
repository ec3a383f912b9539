//! Several sessions, one after the other and at once. The hooks are those of the README.

use serde_json::json;

use crate::api::{Api, Hold, LONG, Reply};
use crate::client::Session;
use crate::model::{NOTES, obedient};
use crate::scene::Scene;

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

#[test]
fn the_second_session_is_not_blocked_by_the_run_of_the_first() {
    let Some(scene) = Scene::new() else { return };
    let (hold, arrival, opening) = Hold::new();
    let api = Api::start(move |request| match (request.session.as_str(), request.blocks()) {
        (FIRST, 0) if request.used().is_empty() => {
            Reply::bash("phasegate loop start --max 9 --prompt 'Write a poem.'")
        }
        (FIRST, 1) => {
            hold.wait();
            Reply::text("The first line.")
        }
        (FIRST, 2) => Reply::text("<loop-done>COMPLETE</loop-done>"),
        (FIRST, _) => Reply::text("I begin."),
        _ => Reply::text("It is a quarter past nine."),
    });
    let first = Session::new(&scene, &api, "Work in a loop.").with_init().id(FIRST).start();
    arrival.recv_timeout(LONG).unwrap();
    let before = scene.journal("loop/current").len();
    Session::new(&scene, &api, "What time is it?").id(SECOND).run().result();
    assert_eq!(scene.journal("loop/current").len(), before, "the second session has left a trace");
    let of_second = api.requests().into_iter().filter(|request| request.session == SECOND);
    assert_eq!(of_second.map(|request| request.blocks()).max(), Some(0));
    opening.send(()).unwrap();
    first.wait().result();
    scene.assert_stops("loop/current", 2, "done");
    assert!(scene.stops("loop/current").iter().all(|stop| stop.session == FIRST));
    scene.end();
}

/// What an agent would call to be rid of its run, or of another's.
fn calls(event: &str, name: &str, session: &str, project: &str) -> String {
    let payload = json!({ "session_id": session, "hook_event_name": name, "cwd": project, "stop_hook_active": false });
    // Also with what the client's hooks have in their environment.
    format!(
        "echo '{payload}' | CLAUDE_PROJECT_DIR={project} phasegate hook {event} --client claude"
    )
}

#[test]
fn hooks_that_the_agents_shell_calls_count_for_nothing_and_are_told() {
    let Some(scene) = Scene::new() else { return };
    let project = scene.root().display().to_string();
    let api = Api::start(move |request| match (request.blocks(), request.used().len()) {
        (0, 0) => Reply::bash("phasegate loop start --max 3 --prompt 'Write a poem.'"),
        (0, _) => Reply::text("I begin."),
        (1, 1) => Reply::bash(calls("stop", "Stop", FIRST, &project)),
        (1, 2) => Reply::bash(calls("stop", "Stop", SECOND, &project)),
        (1, 3) => Reply::bash(calls("session-end", "SessionEnd", FIRST, &project)),
        (1, _) => Reply::text("A line."),
        _ => Reply::text("<loop-done>COMPLETE</loop-done>"),
    });
    Session::new(&scene, &api, "Work in a loop.").with_init().id(FIRST).run().result();
    // Two stops of the client: no iteration was used up, and the run was the session's all along.
    scene.assert_stops("loop/current", 2, "done");
    let journal = scene.journal("loop/current");
    let calls: Vec<_> =
        journal.iter().filter(|line| line["event"]["name"] == "hook-call").collect();
    let hooks: Vec<_> = calls.iter().map(|line| line["event"]["params"]["hook"].clone()).collect();
    assert_eq!(hooks, ["stop", "session-end"], "{calls:?}");
    for call in calls {
        let by = call["by"].to_string();
        assert!(by.contains("bash ") && by.contains("claude "), "{by}");
    }
    let told = scene
        .journal("loop/current")
        .into_iter()
        .any(|line| line["event"]["name"] == "stop" && line["event"]["session"] == SECOND);
    assert!(!told, "a session that only a shell knows has stopped");
    scene.end();
}

#[test]
fn work_in_the_background_is_waited_for() {
    let Some(scene) = Scene::new() else { return };
    scene.ok(&["loop", "start", "--max", "9", "--prompt", "Write a poem."]);
    let api = Api::start(|request| {
        let (order, _) = request.order();
        if request.used().is_empty() {
            let command =
                json!({ "command": "sleep 3", "description": "Sleeps", "run_in_background": true });
            return Reply::tool("Bash", command);
        }
        Reply::text(if order.starts_with("[ITERATION 2") {
            "<loop-done>COMPLETE</loop-done>"
        } else {
            "A line."
        })
    });
    Session::new(&scene, &api, "Work in a loop.").with_init().run().result();
    assert_eq!(scene.answers("loop/current"), ["waiting", "block", "block", "done"]);
    scene.end();
}

#[test]
fn a_session_that_was_killed_goes_on_with_its_run_when_it_is_resumed() {
    let Some(scene) = Scene::new() else { return };
    scene.ok(&["loop", "start", "--max", "9", "--prompt", "Write a poem."]);
    let (hold, arrival, opening) = Hold::new();
    let api = Api::start(move |request| {
        let (order, _) = request.order();
        if order.starts_with("[ITERATION 2/") {
            hold.wait();
            return Reply::text("Nobody hears this.");
        }
        let is_over = order.starts_with("[ITERATION 4/");
        Reply::text(if is_over { "<loop-done>COMPLETE</loop-done>" } else { "A line." })
    });
    let killed = Session::new(&scene, &api, "Work in a loop.").with_init().id(FIRST).start();
    arrival.recv_timeout(LONG).unwrap();
    killed.crash();
    opening.send(()).unwrap();
    assert_eq!(scene.stops("loop/current").len(), 2);

    let resumed = Session::new(&scene, &api, "Go on.").resuming(FIRST).run();
    assert_eq!(resumed.result()["session_id"], FIRST);
    scene.assert_stops("loop/current", 4, "done");
    assert!(scene.stops("loop/current").iter().all(|stop| stop.session == FIRST));
    // It was told where its run is.
    let told = api.requests().iter().any(|request| {
        let said = serde_json::to_string(&request.messages).unwrap();
        said.contains("Go on.") && said.contains("This is iteration 2 of 9")
    });
    assert!(told);
    scene.end();
}

#[test]
fn a_session_at_work_is_left_alone_and_the_one_that_comes_back_has_its_run() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    let (hold, arrival, opening) = Hold::new();
    let api = Api::start(move |request| {
        if request.session == SECOND && request.used().is_empty() {
            hold.wait();
            return Reply::bash("touch other.txt");
        }
        obedient(request)
    });
    // The second is at work when the first begins its run, and still is when the first has left.
    let second = Session::new(&scene, &api, "Do something else.").id(SECOND).start();
    arrival.recv_timeout(LONG).unwrap();
    let prompt = "RUN phasegate notes start --name x";
    Session::new(&scene, &api, prompt).id(FIRST).run().result();
    assert_eq!(scene.answers("notes/x"), ["block", "stuck"]);
    opening.send(()).unwrap();
    second.wait().result();
    assert_eq!(scene.answers("notes/x"), ["block", "stuck"], "the second session was asked");
    // The first comes back, is told, and held.
    Session::new(&scene, &api, "Go on.").resuming(FIRST).run().result();
    assert_eq!(scene.answers("notes/x"), ["block", "stuck", "block", "stuck"]);
    let fired = scene.fired();
    let back = fired.iter().rfind(|it| it.is("SessionStart")).unwrap();
    assert_eq!(back.asked["source"], "resume");
    assert!(back.answer.to_string().contains("notes/x"), "{back:?}");
    assert!(scene.stops("notes/x").iter().all(|stop| stop.session == FIRST));
    scene.end();
}
