//! Many hooks at once on one run.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::scene::{STATE, Scene, finish, unanswered};

#[test]
fn twenty_concurrent_hooks_are_twenty_decisions() {
    let scene = Scene::with_triage(5);
    let children: Vec<_> = (0..20)
        .map(|_| {
            let mut command = scene.command();
            command.args(["hook", "stop"]);
            scene.spawn(command, scene.payload().to_string().as_bytes())
        })
        .collect();
    let mut answers = Vec::new();
    for child in children {
        let ran = finish(child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        answers.push(serde_json::from_str(&ran.stdout).unwrap());
    }
    let journal = scene.journal("triage/web");
    assert_eq!(journal.len(), 20);
    // Each answer is that of one line, and each line was given to one hook.
    assert_eq!(unanswered(&journal, &answers), Vec::<usize>::new());
    let numbers: Vec<u64> = journal.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    scene.ok(&["log", "--verify"]);
    let ledger = scene.json(".phasegate/runs/triage/web/run.json");
    assert_eq!(ledger["position"]["seq"], 20);
    let blocks = journal.iter().filter(|line| line["answer"]["decision"] == "block").count();
    assert_eq!(ledger["work"]["tally"]["blocks"], blocks);
}

#[test]
fn an_edit_between_reading_and_writing_is_not_overwritten() {
    // An agent adds to the document all the time, by a rename, while hooks absorb results into it.
    let scene = Scene::with_triage(30);
    let rounds = 200;
    std::thread::scope(|scope| {
        let editor = scope.spawn(|| {
            for round in 0..rounds {
                let mut state = scene.json(STATE);
                let notes =
                    state.as_object_mut().unwrap().entry("notes").or_insert_with(|| json!({}));
                notes[format!("n{round}")] = json!(round);
                let temporary = scene.path("edit.json");
                std::fs::write(&temporary, state.to_string()).unwrap();
                std::fs::rename(temporary, scene.path(STATE)).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        for entry in 0..30 {
            scene.result(entry, true, "g");
            assert_eq!(scene.stop().code, Some(0));
        }
        editor.join().unwrap();
    });
    // Our own writes never took a note away: each edit of the agent reads the one before.
    let state = scene.json(STATE);
    assert_eq!(state["notes"].as_object().unwrap().len(), rounds);
    assert_eq!(state["entries"].as_array().unwrap().len(), 30);
    scene.ok(&["log", "--verify"]);
}

#[test]
fn runs_that_start_at_once_are_runs_of_their_own() {
    let scene = Scene::new();
    scene.file("f.json", r#"[{"name":"a"}]"#);
    let children: Vec<_> = (0..12)
        .map(|_| {
            let mut command = scene.command();
            command.args(["triage", "start", "--from", "f.json", "--name", "r"]);
            scene.spawn(command, b"")
        })
        .collect();
    for child in children {
        let ran = finish(child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let mut folders = std::collections::BTreeSet::new();
    for number in 1..=12 {
        let name = if number == 1 { "r".to_string() } else { format!("r-{number}") };
        let state = scene.json(&format!(".phasegate/triage/{name}_triage.json"));
        folders.insert(state["results_dir"].to_string());
        scene.ok(&["log", "--verify", &format!("triage/{name}")]);
    }
    assert_eq!(folders.len(), 12, "two runs share their results");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn an_edit_after_the_journal_line_is_decided_again_and_no_process_is_said_to_have_died() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    scene.result(0, true, "g");
    let mut edited = scene.json(STATE);
    edited["note"] = json!("by the agent");
    scene.file("edited.json", edited.to_string());
    let env = [
        ("PHASEGATE_FAULT_POINT", "after-journal"),
        ("PHASEGATE_FAULT_COMMAND", &format!("cp edited.json {STATE}")),
    ];
    scene.hook_raw(scene.payload().to_string().as_bytes(), &env).blocks("1 of 2");
    let state = scene.json(STATE);
    assert_eq!(
        (&state["note"], &state["entries"][0]["status"]),
        (&json!("by the agent"), &json!("completed"))
    );
    let journal = scene.journal("triage/web");
    let notes = journal.last().unwrap()["notes"].to_string();
    assert!(notes.contains("line 2 was written, then decided again"), "{notes}");
    assert!(!notes.contains("died"), "{notes}");
    scene.ok(&["log", "--verify"]);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn an_edit_while_files_are_moved_is_told_and_the_action_can_be_repeated() {
    let tasks = crate::tasks::Tasks::new();
    tasks.plan("one");
    let place = format!("{}/state.json", crate::tasks::DIR);
    let edited = tasks.scene.read(&place).replacen('{', r#"{"note": "by the agent","#, 1);
    tasks.scene.file("edited.json", edited);
    let mut command = tasks.scene.command();
    command.args(["task", "redo"]).env("PHASEGATE_TRUST_ALL", "1");
    command.env("PHASEGATE_FAULT_POINT", "after-journal");
    command.env("PHASEGATE_FAULT_COMMAND", format!("cp edited.json {place}"));
    let ran = finish(tasks.scene.spawn(command, b""));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("changed in the meantime"), "{ran:?}");
    tasks.ok(&["redo"]);
    let state = tasks.state();
    assert_eq!(state["note"], "by the agent");
    assert_eq!(state["actors"]["planning"]["round"], 2);
}

#[test]
fn a_lock_that_is_removed_under_a_hook_breaks_no_chain() {
    // Another hook comes after somebody has cleaned up, while the first one is about to write.
    let scene = Scene::with_triage(3);
    scene.stop().blocks("3 of 3");
    let payload = scene.path("home/payload.json");
    scene.file("home/payload.json", scene.payload().to_string());
    let program = env!("CARGO_BIN_EXE_phasegate");
    let command = format!(
        "rm .phasegate/runs/triage/web/lock; \
         (env -u PHASEGATE_FAULT_POINT {program} hook stop < {} > home/other.new; \
         mv home/other.new home/other.json) 2> home/other.log & sleep 1",
        payload.display()
    );
    scene.result(0, true, "g");
    let said = scene.hook_raw(
        scene.payload().to_string().as_bytes(),
        &[("PHASEGATE_FAULT_POINT", "before-journal"), ("PHASEGATE_FAULT_COMMAND", &command)],
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let since = std::time::Instant::now();
    while !scene.exists("home/other.json") {
        assert!(since.elapsed().as_secs() < 30, "the other hook does not answer");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let journal = scene.journal("triage/web");
    let numbers: Vec<u64> = journal.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    scene.ok(&["log", "--verify"]);
    // Each of the two has the answer of a line of its own.
    let answers = [said.json, scene.json("home/other.json")];
    assert_eq!(unanswered(&journal, &answers), [0]);
}

#[test]
fn a_lock_that_is_removed_while_it_is_waited_for_is_not_taken() {
    let scene = Scene::with_triage(9);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = std::fs::remove_file(scene.path(".phasegate/runs/triage/web/lock"));
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        let children: Vec<_> = (0..24)
            .map(|_| {
                let mut command = scene.command();
                command.args(["hook", "stop"]);
                scene.spawn(command, scene.payload().to_string().as_bytes())
            })
            .collect();
        let answers: Vec<serde_json::Value> = children
            .into_iter()
            .map(|child| serde_json::from_str(&finish(child).stdout).unwrap())
            .collect();
        done.store(true, Ordering::Relaxed);
        cleaner.join().unwrap();
        assert_eq!(answers.len(), 24);
    });
    scene.ok(&["log", "--verify"]);
}
