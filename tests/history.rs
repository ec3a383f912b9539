//! What is over, and what a process had decided that died: neither is in the way, and neither is forgotten.

use serde_json::{Value, json};

use crate::loops::{DONE, FILE, MESSAGES, body, iterates, say, states, store, with_loop};
use crate::scene::{STATE, Scene, finish};

/// More than are looked at one by one.
const MANY: usize = 40;

fn done(name: &str) -> (String, Value) {
    let mut state = Scene::with_triage(1).json(STATE);
    state["phase"] = "complete".into();
    (format!(".phasegate/triage/{name}_triage.json"), state)
}

/// Many runs that have ended, each seen to.
fn with_ended() -> Scene {
    let scene = Scene::new();
    for number in 0..MANY {
        let (path, state) = done(&format!("old-{number}"));
        scene.file(&path, state.to_string());
        scene.ok_by_hand(&["cancel", &format!("triage/old-{number}")]);
    }
    // A person has cancelled them, so the run of a finished document is over.
    scene.stop();
    scene
}

#[test]
fn a_document_that_is_over_is_noted_and_a_changed_one_answers_again() {
    let scene = Scene::new();
    for number in 0..MANY {
        let mut state = Scene::with_triage(1).json(STATE);
        state["project_name"] = format!("p{number}").into();
        scene.file(&format!(".phasegate/triage/p{number}_triage.json"), state.to_string());
    }
    // All of them end by the rules.
    for number in 0..MANY {
        scene.stop();
        let path = format!(".phasegate/triage/p{number}_triage.json");
        let mut state = scene.json(&path);
        state["phase"] = "complete".into();
        scene.file(&path, state.to_string());
        scene.stop();
    }
    scene.stop().allows();
    scene.stop().allows();
    let note = std::fs::read(scene.path(".phasegate/runs/triage/.over")).unwrap();
    assert!(
        note.starts_with(format!("{MANY} ").as_bytes()),
        "{:?}",
        String::from_utf8_lossy(&note)
    );
    // In place, so that nothing about the folder changes, and with the same size and an old time.
    let path = ".phasegate/triage/p7_triage.json";
    let mut state = scene.json(path);
    state["phase"] = "triage".into();
    let before = std::fs::metadata(scene.path(path)).unwrap().modified().unwrap();
    let mut text = state.to_string();
    let length = scene.read(path).len();
    text.push_str(&" ".repeat(length.saturating_sub(text.len())));
    scene.file(path, text);
    let file = std::fs::File::options().write(true).open(scene.path(path)).unwrap();
    file.set_modified(before + std::time::Duration::from_nanos(1)).unwrap();
    scene.stop().blocks("1 of 1");
    let status = scene.ok(&["status"]);
    assert!(status.contains("triage/p7") && status.contains("--all"), "{status}");
    let listed = |args: &[&str]| {
        let status: Value = serde_json::from_str(&scene.ok(args)).unwrap();
        (status["runs"].as_array().unwrap().len(), status["has_more"] == true)
    };
    // The one that is open, and the last one that is over.
    assert_eq!(listed(&["status", "--json"]), (2, true));
    assert_eq!(listed(&["status", "--json", "--all"]), (MANY, false));
    // A new document among them is seen.
    scene.file(".phasegate/triage/new_triage.json", Scene::with_triage(1).read(STATE));
    assert!(scene.ok(&["status"]).contains("triage/new"));
    // By its name, one that is over is found as well.
    assert!(scene.ok(&["why", "triage/p0"]).contains("triage/p0"));
}

#[test]
fn an_index_that_is_lost_is_made_again() {
    let scene = with_ended();
    let open = || std::fs::read_dir(scene.path(".phasegate/runs/.open")).unwrap().count();
    assert_eq!(open(), 0);
    scene.file(STATE, Scene::with_triage(1).read(STATE));
    scene.stop().blocks("1 of 1");
    assert_eq!(open(), 1);
    // Its document is gone, too: only what is kept of the run tells that there is one.
    std::fs::remove_file(scene.path(STATE)).unwrap();
    std::fs::remove_dir_all(scene.path(".phasegate/runs/.open")).unwrap();
    scene.stop().allows_saying("is gone");
    scene.file(STATE, Scene::with_triage(1).read(STATE));
    scene.stop().blocks("1 of 1");
    assert_eq!(open(), 1, "those that are over have left it again");
}

/// A run whose process dies after it has decided, before the document is what it decided on.
fn died_before_the_document() -> Scene {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.result(0, true, "g");
    let mut command = scene.command();
    command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", "before-document");
    let died = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
    assert_eq!((died.code, died.stdout.as_str()), (None, ""));
    assert_eq!(scene.json(STATE)["phase"], "triage");
    scene
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn what_was_decided_is_shown_and_then_done() {
    let scene = died_before_the_document();
    let before = scene.snapshot();
    assert!(scene.ok(&["status"]).contains("in phase aggregation"));
    assert_eq!(scene.snapshot(), before, "whoever looks changes nothing");
    scene.stop().blocks("**triage-aggregator**");
    assert_eq!(scene.json(STATE)["phase"], "aggregation");
    let notes = scene.journal("triage/web").last().unwrap()["notes"].to_string();
    assert!(notes.contains("is now what line 2 decided on"), "{notes}");
    assert_eq!(scene.json(".phasegate/runs/triage/web/run.json")["tamper"]["count"], Value::Null);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn an_edit_after_the_death_wins() {
    let scene = died_before_the_document();
    let mut state = scene.json(STATE);
    state["batch_size"] = 3.into();
    scene.file(STATE, state.to_string());
    scene.stop().blocks("**triage-aggregator**");
    let now = scene.json(STATE);
    assert_eq!((&now["batch_size"], &now["phase"]), (&json!(3), &json!("aggregation")));
    let left = scene.snapshot().into_iter().map(|(path, _)| path.to_string_lossy().into_owned());
    assert_eq!(left.filter(|path| path.contains("phasegate-tmp")).count(), 0);
}

#[test]
fn a_document_that_is_set_back_is_an_edit() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    let old = scene.read(STATE);
    scene.result(0, true, "g");
    scene.stop().blocks("**triage-aggregator**");
    scene.file(STATE, old);
    // The text is what it was before the step, and is not taken for a step that was never done.
    let said = scene.stop();
    let message = said.json["systemMessage"].as_str().unwrap_or_default();
    assert!(message.contains("`phase` is \"triage\" now; it was \"aggregation\""), "{said:?}");
}

#[test]
fn a_store_of_messages_that_was_merged_is_read_again() {
    let scene = with_loop(0, 50);
    for n in 1..4 {
        iterates(&scene.stop(), n, 50);
    }
    // Another tool adds to it.
    let mut message: Value = scene
        .read(MESSAGES)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .rfind(|line| line["type"] == "message")
        .unwrap();
    let mut state = states(&scene).pop().unwrap();
    state["stack"][0]["iter"] = 20.into();
    message["body"] = state.to_string().into();
    message["id"] = "01JFKQMSGZZZZZZZZZZZZZZZZZ".into();
    let text = scene.read(MESSAGES);
    scene.file(MESSAGES, format!("{text}{message}\n"));
    iterates(&scene.stop(), 21, 50);
    // A merge puts the messages of another branch behind ours, which are older.
    let text = scene.read(MESSAGES);
    scene.file(MESSAGES, format!("{text}{}", store(&body(7, 50))));
    iterates(&scene.stop(), 22, 50);
    // A store of its own, in the place of the old one.
    scene.file(MESSAGES, store(&body(0, 9)));
    iterates(&scene.stop(), 1, 9);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn a_run_that_is_begun_again_is_not_forgotten_where_its_process_dies() {
    for point in ["after-journal", "after-put", "before-document"] {
        let scene = Scene::new();
        scene.ok(&["loop", "start", "--prompt", "x", "--max", "9"]);
        iterates(&scene.stop(), 1, 9);
        scene.ok_by_hand(&["cancel", "loop/current"]);
        let mut command = scene.command();
        command.args(["loop", "start", "--prompt", "x", "--max", "9"]);
        command.env("PHASEGATE_FAULT_POINT", point);
        assert_eq!(finish(scene.spawn(command, b"")).code, None, "{point}");
        iterates(&scene.stop(), 1, 9);
        scene.ok(&["log", "--verify", "loop/current"]);
    }
}

#[test]
fn a_document_that_was_removed_and_is_put_back_stays() {
    let scene = Scene::bare();
    let text = "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 9\n---\nx\n";
    scene.file(FILE, text);
    iterates(&scene.stop(), 1, 9);
    // A second name for the same file, so that it comes back with its number, its size and its time.
    std::fs::hard_link(scene.path(FILE), scene.path("kept")).unwrap();
    say(&scene, DONE).allows_saying("The loop is complete");
    assert!(!scene.exists(FILE));
    std::fs::rename(scene.path("kept"), scene.path(FILE)).unwrap();
    scene.stop();
    assert!(scene.exists(FILE), "it is not ours to remove");
}

#[test]
fn a_clock_that_was_ahead_does_not_hold_a_loop_back() {
    let scene = with_loop(0, 50);
    iterates(&scene.stop(), 1, 50);
    let text = scene.read(MESSAGES);
    let last = text.lines().last().unwrap();
    let mut message: Value = serde_json::from_str(last).unwrap();
    message["created_at"] = (message["created_at"].as_i64().unwrap() + 3_600_000).into();
    scene.file(MESSAGES, text.replace(last, &message.to_string()));
    iterates(&scene.stop(), 2, 50);
    iterates(&scene.stop(), 3, 50);
}

#[test]
fn a_document_with_the_name_of_a_topic_is_said() {
    let scene = Scene::new();
    scene.file(".phasegate/triage/a#b_triage.json", Scene::with_triage(1).read(STATE));
    scene.stop().allows_saying("a#b_triage.json is ignored");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn nothing_is_left_of_a_run_that_never_began() {
    let scene = Scene::with_triage(1);
    let mut command = scene.command();
    command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", "before-journal");
    let died = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
    assert_eq!(died.code, None);
    std::fs::remove_file(scene.path(STATE)).unwrap();
    scene.stop().allows();
    let left = scene.snapshot().into_iter().map(|(path, _)| path.to_string_lossy().into_owned());
    assert_eq!(left.filter(|path| path.contains("phasegate-tmp")).count(), 0);
    assert!(scene.ok(&["status"]).contains("has no run"));
}
