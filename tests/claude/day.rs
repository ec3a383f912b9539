//! An hour of a user's day, in the client's own terminal: the agent is held exactly where it should be,
//! and each stop that is let go says why.

use crate::api::Api;
use crate::client::Session;
use crate::model::{obedient, real};
use crate::real::hooks::Fired;
use crate::scene::Scene;
use crate::terminal::Terminal;

/// What the person does.
enum Do {
    /// Types something at the client's prompt.
    Say(&'static str),
    /// Asks another session, which ends with its turn.
    Elsewhere(&'static str),
    Clear,
    /// Leaves the client, and resumes the session.
    Resume,
}
use Do::{Clear, Elsewhere, Resume, Say};

/// What each stop is answered: why the agent is held, what the person is told where it is let go, or
/// that there is nothing to be told.
enum Expected {
    Held(&'static str),
    Free(&'static str),
    Silent,
}
use Expected::{Free, Held, Silent};

/// A worktree of the client's.
const SIDE: &str = ".claude/worktrees/side";

/// A day: what is done, where the agent is then, and how its stops are answered.
const DAY: &[(Do, &str, &[Expected])] = &[
    // A question. Nothing was begun.
    (Say("What does the app do?"), "", &[Silent]),
    // A change that breaks the tests. The agent gives up at once, and the person hears of that.
    (
        Say("RUN phasegate ship start --name day && echo broken > app.txt"),
        "",
        &[Held("The tests fail: broken"), Free("stuck in phase working")],
    ),
    // A server is waited for once; then it opens nothing.
    (Say("SERVE sleep 300"), "", &[Free("waits for background work of the client: a shell")]),
    (Say("How is it going?"), "", &[Held("The tests fail: broken"), Free("stuck")]),
    // Out of the project, and back.
    (Say("RUN cd ../tmp"), "../tmp", &[Held("The tests fail: broken"), Free("stuck")]),
    (Say("RUN cd ../project"), "", &[Held("The tests fail: broken"), Free("stuck")]),
    // Another session is not concerned.
    (Elsewhere("What time is it?"), "", &[Silent]),
    (Elsewhere("RUN echo more > other.txt"), "", &[Silent]),
    // In a worktree, what is there counts.
    (
        Say("ENTER side\nRUN echo half > app.txt"),
        SIDE,
        &[Held("The tests fail: half"), Free("stuck")],
    ),
    // A new conversation is a new session. It is told of the run, and held as soon as it changes something.
    (Clear, "", &[]),
    (Say("What is open here?"), SIDE, &[Silent]),
    (Say("RUN echo less > app.txt"), SIDE, &[Held("The tests fail: less"), Free("stuck")]),
    // The same session has its run back, in the project's own tree, and the person is told that it is done.
    (Resume, "", &[]),
    (Say("Is it done?"), "", &[Held("The tests fail: broken"), Free("stuck")]),
    (Say("RUN echo ok > app.txt"), "", &[Free("Run ship/day is done.")]),
    (Say("Thank you."), "", &[Silent]),
    // The next change is given up, at the client's own prompt.
    (
        Say("RUN phasegate ship start --name late && echo broken > app.txt"),
        "",
        &[Held("The tests fail: broken"), Free("stuck")],
    ),
    (Say("!phasegate cancel ship/late"), "", &[Free("from inside the client")]),
    (Say("And now?"), "", &[Silent]),
];

#[test]
fn a_day() {
    let Some(scene) = Scene::new() else { return };
    let scene = scene.with_ship();
    scene.record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    scene.commit();
    let api = Api::start(obedient);
    let outside = scene.beside("tmp");
    let args = ["--add-dir", outside.to_str().unwrap()];
    let mut client = Terminal::open(&scene, &api, &args);
    for (number, (what, place, expected)) in DAY.iter().enumerate() {
        let stops = match what {
            Say(text) => client.says(text),
            Elsewhere(text) => elsewhere(&scene, &api, text),
            Clear => {
                client.clears();
                assert!(begins(&scene, "clear").contains("ship/day"));
                continue;
            }
            Resume => {
                let session = client.leaves();
                client = Terminal::open(&scene, &api, &["--resume", &session]);
                assert!(begins(&scene, "resume").contains("ship/day"));
                continue;
            }
        };
        let shown: Vec<_> = stops.iter().map(|stop| (stop.block(), stop.told())).collect();
        assert_eq!(stops.len(), expected.len(), "step {number}: {shown:#?}");
        for (stop, expected) in stops.iter().zip(*expected) {
            assert_eq!(real(stop.cwd()), real(scene.path(place)), "step {number}");
            assert!(is_answered(stop, expected), "step {number}: {shown:#?}");
        }
    }
    client.leaves();
    scene.end();
}

/// What a session was told that has just begun, and how it has.
fn begins(scene: &Scene, source: &str) -> String {
    let fired = scene.fired();
    let start = fired.iter().rfind(|it| it.is("SessionStart")).unwrap();
    assert_eq!(start.asked["source"], source);
    start.answer.to_string()
}

/// A session of its own, in which one thing is asked.
fn elsewhere(scene: &Scene, api: &Api, text: &str) -> Vec<Fired> {
    let before = scene.fired_stops().len();
    Session::new(scene, api, text).run().result();
    scene.fired_stops().split_off(before)
}

fn is_answered(stop: &Fired, expected: &Expected) -> bool {
    match (expected, stop.block()) {
        (Held(why), Some(reason)) => reason.contains(why),
        (Free(why), None) => stop.told().contains(why),
        (Silent, None) => stop.told().is_empty(),
        _ => false,
    }
}
