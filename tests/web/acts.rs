//! What a person does from the page: it needs the code of their terminal, and is for what they saw.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{APPROVAL, Response, Served};
use crate::scene::Scene;

/// A page that a person has started at a terminal of their own, and what that terminal shows.
fn with_actions(scene: &Scene) -> (Served, impl Fn() -> String + use<>) {
    // Not among the project's files, which an act is bound to.
    let shown = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let mut command = Command::new("script");
    let gate = env!("CARGO_BIN_EXE_phasegate");
    let line = format!("exec {gate} web --port 0 --actions");
    command.args(["-q", "-f", "-e", "-c", &line]).arg(&*shown);
    command.current_dir(scene.root()).env_clear().env("HOME", scene.path("home"));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // A terminal that stays open.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut served = Served { child, port: 0, token: String::new() };
    let read = move || std::fs::read_to_string(&*shown).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = read();
        if let Some(line) = text.lines().find(|line| line.contains("/#token=")) {
            served.find(line);
            return (served, read);
        }
        assert!(Instant::now() < deadline, "nothing is served: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The code for what was proposed with this reason, once the terminal shows it.
fn code(shown: &impl Fn() -> String, reason: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = shown();
        let line = text.lines().find(|line| line.contains(reason));
        if let Some((_, rest)) = line.and_then(|line| line.split_once("Code ")) {
            return rest[..6].to_string();
        }
        assert!(Instant::now() < deadline, "no code is shown: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const RUN: &str = "release/release";

/// A run that waits for a person, and the page of it.
struct Acting<S> {
    scene: Scene,
    served: Served,
    shown: S,
}

fn acting_on(scene: Scene) -> Acting<impl Fn() -> String> {
    let (served, shown) = with_actions(&scene);
    Acting { scene, served, shown }
}

fn acting() -> Acting<impl Fn() -> String> {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/release.toml", APPROVAL);
    scene.ok(&["start", "release"]);
    scene.stop();
    acting_on(scene)
}

impl<S: Fn() -> String> Acting<S> {
    /// What there is to see.
    fn seen(&self, run: &str) -> Value {
        self.served.get(&format!("/api/seen?run={run}")).json()
    }

    fn propose(&self, run: &str, seen: &Value, act: &str, reason: &str) -> Response {
        let params = json!({ "reason": reason });
        let body = json!({ "run": run, "seen": seen, "act": act, "params": params });
        self.served.post("/api/propose", "application/json", &body.to_string())
    }

    /// Asks for a code, and has it.
    fn code_for(&self, run: &str, act: &str, reason: &str) -> (Value, String) {
        let asked = self.propose(run, &self.seen(run), act, reason);
        assert_eq!(asked.status, 200, "{asked:?}");
        (asked.json()["id"].clone(), code(&self.shown, reason))
    }

    fn confirm(&self, (id, code): &(Value, String)) -> Response {
        let body = json!({ "id": id, "code": code }).to_string();
        self.served.post("/api/confirm", "application/json", &body)
    }
}

/// It was refused, and nothing has come of it.
fn refused(scene: &Scene, run: &str, ran: &Response, why: &str) {
    assert!(ran.status == 409 && ran.body.contains(why), "{ran:?}");
    assert!(ran.body.contains("look again"), "{ran:?}");
    let events = scene.journal(run);
    assert!(events.iter().all(|line| line["event"]["name"] != "approve"), "{events:?}");
}

#[test]
fn an_approval_needs_the_code_and_counts_once() {
    let acting = acting();
    let Acting { scene, served, .. } = &acting;
    let run = served.get("/api/run?run=release/release").json();
    assert_eq!(run["standing"], "needs you");
    assert_eq!(run["acts"][0]["act"], "approve", "{run}");
    // What a page of another host could send without asking first is not taken.
    assert_eq!(served.post("/api/propose", "text/plain", "{}").status, 415);
    let unfit = json!({ "run": RUN, "seen": acting.seen(RUN), "act": "approve" }).to_string();
    assert_eq!(served.post("/api/propose", "application/json", &unfit).status, 422);
    // Guessing ends it.
    let (id, right) = acting.code_for(RUN, "approve", "guessed");
    let wrong = if right == "000000" { "000001" } else { "000000" };
    for _ in 0..3 {
        assert_eq!(acting.confirm(&(id.clone(), wrong.into())).status, 422);
    }
    assert_eq!(acting.confirm(&(id, right)).status, 404);
    let given = acting.code_for(RUN, "approve", "it is good");
    let ran = acting.confirm(&given);
    assert_eq!(ran.status, 200, "{ran:?}");
    assert_eq!(acting.confirm(&given).status, 404, "a code counts once");
    let last = scene.journal(RUN).pop().unwrap();
    assert_eq!(
        (&last["event"]["name"], &last["event"]["actor"]),
        (&"approve".into(), &"human".into())
    );
    assert_eq!(last["event"]["params"]["reason"], "it is good");
    assert_eq!(last["to"], "approved");
}

#[test]
fn an_approval_is_refused_where_the_run_has_moved_on() {
    let acting = acting();
    let Acting { scene, .. } = &acting;
    let before = acting.seen(RUN);
    let given = acting.code_for(RUN, "approve", "before the stop");
    scene.stop();
    refused(scene, RUN, &acting.confirm(&given), "has moved on");
    refused(scene, RUN, &acting.propose(RUN, &before, "approve", "x"), "has moved on");
}

#[test]
fn an_approval_is_refused_where_the_files_have_changed() {
    let acting = acting();
    let Acting { scene, .. } = &acting;
    let before = acting.seen(RUN);
    let given = acting.code_for(RUN, "approve", "before the change");
    scene.file("src.rs", "changed");
    refused(scene, RUN, &acting.confirm(&given), "the files have changed");
    // Also where they have changed before the code was asked for: that is not what the person saw.
    refused(scene, RUN, &acting.propose(RUN, &before, "approve", "x"), "the files have changed");
}

#[test]
fn an_approval_is_refused_where_the_definition_has_changed() {
    // A run that nobody has started keeps to no definition yet.
    let scene = Scene::new();
    let definition = ".phasegate/workflows/release.toml";
    scene.file(definition, APPROVAL);
    scene.file(".phasegate/release/new.json", "{\"phase\": \"asking\"}");
    let acting = acting_on(scene);
    let Acting { scene, .. } = &acting;
    let run = "release/new";
    let before = acting.seen(run);
    let given = acting.code_for(run, "approve", "before the definition");
    let other = APPROVAL.replace("goto = \"approved\"", "goto = \"approved\", allow = \"done\"");
    scene.file(definition, other);
    let (then, now) = (&before["definition"], &acting.seen(run)["definition"]);
    assert!(then.is_string() && now.is_string() && then != now, "{then} {now}");
    refused(scene, run, &acting.confirm(&given), "the definition of run release/new has changed");
    refused(scene, run, &acting.propose(run, &before, "approve", "x"), "the definition of run");
}

#[test]
fn an_approval_is_refused_where_a_person_has_taken_the_new_definition() {
    let acting = acting();
    let Acting { scene, .. } = &acting;
    let other = APPROVAL.replace("A person says when.", "Nobody says when.");
    scene.file(".phasegate/workflows/release.toml", other);
    // The run keeps to the one with which it began, until a person says otherwise.
    let given = acting.code_for(RUN, "approve", "of the old one");
    scene.ok_by_hand(&["accept", RUN, "--reason", "a better one"]);
    refused(scene, RUN, &acting.confirm(&given), "the definition of run");
}

#[test]
fn an_approval_is_refused_where_the_run_is_another_one_of_that_name() {
    let acting = acting();
    let Acting { scene, .. } = &acting;
    let before = acting.seen(RUN);
    let given = acting.code_for(RUN, "approve", "of the first");
    // Somebody has removed it, and all that is known of it.
    for left in [".phasegate/runs/release", ".phasegate/release"] {
        std::fs::remove_dir_all(scene.path(left)).unwrap();
    }
    scene.ok(&["start", "release"]);
    scene.stop();
    let now = acting.seen(RUN);
    for same in ["seq", "tree", "definition"] {
        assert_eq!(before[same], now[same], "{same}");
    }
    refused(scene, RUN, &acting.confirm(&given), "is another one of that name");
}

#[test]
fn a_run_can_be_parked_and_ended_while_an_agent_goes_on() {
    let acting = acting();
    let Acting { scene, served, .. } = &acting;
    for (act, standing) in [("pause", "paused"), ("cancel", "cancelled")] {
        let given = acting.code_for(RUN, act, &format!("to {act}"));
        scene.file("src.rs", act);
        scene.stop();
        let ran = acting.confirm(&given);
        assert_eq!(ran.status, 200, "{act}: {ran:?}");
        let run = served.get("/api/run?run=release/release").json();
        assert_eq!(run["standing"], standing, "{run}");
    }
}
