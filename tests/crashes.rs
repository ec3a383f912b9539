//! Kills at random, and what a journal says of them afterwards. Kills between every two writes are in
//! `kill_points`.

use serde_json::Value;

use crate::scene::{STATE, Scene, finish, unanswered};

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn the_journal_says_what_was_repaired() {
    for (point, note) in
        [("torn-journal", "unfinished line"), ("after-journal", "died before it answered")]
    {
        let scene = Scene::with_triage(1);
        let mut command = scene.command();
        command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", point);
        finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
        scene.stop().blocks("1 of 1");
        let journal = scene.journal("triage/web");
        let notes = journal.last().unwrap()["notes"].to_string();
        assert!(notes.contains(note), "{point}: {notes}");
    }
}

#[test]
fn random_kills_lose_nothing_that_was_answered() {
    let scene = Scene::with_triage(40);
    let mut answers = Vec::new();
    for round in 0..40_u64 {
        scene.result(usize::try_from(round).unwrap(), true, "g");
        let mut command = scene.command();
        command.args(["hook", "stop"]);
        let mut child = scene.spawn(command, scene.payload().to_string().as_bytes());
        // A spread of moments over the few milliseconds that a hook lives.
        std::thread::sleep(std::time::Duration::from_micros(round * 400));
        let _ = child.kill();
        let ran = finish(child);
        answers.extend(serde_json::from_str::<Value>(&ran.stdout));
        let state = scene.json(STATE);
        assert_eq!(state["entries"].as_array().unwrap().len(), 40);
    }
    answers.push(scene.stop().json);
    scene.ok(&["log", "--verify"]);
    let journal = scene.journal("triage/web");
    let killed = journal.len() - answers.len();
    assert_eq!(unanswered(&journal, &answers).len(), killed, "an answer has no line of its own");
    let state = scene.json(STATE);
    let pending =
        state["entries"].as_array().unwrap().iter().filter(|entry| entry["status"] == "pending");
    assert_eq!(pending.count(), 0, "a result was lost");
}

#[test]
fn tampering_with_the_journal_is_found() {
    let scene = Scene::with_triage(1);
    for _ in 0..3 {
        scene.stop();
    }
    let path = ".phasegate/runs/triage/web/journal.jsonl";
    let text = scene.read(path);
    scene.ok(&["log", "--verify"]);
    let lines: Vec<&str> = text.lines().collect();
    for broken in [
        text.replacen("\"decision\":\"block\"", "\"decision\":\"blocK\"", 1),
        format!("{}\n{}\n", lines[0], lines[2]),
        format!("{}\n{}\n{}\n", lines[1], lines[0], lines[2]),
        format!("{}\n{}\n", lines[0], lines[1]),
        String::new(),
    ] {
        scene.file(path, broken);
        let ran = scene.run(&["log", "--verify"]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("line "), "{ran:?}");
    }
}

#[test]
fn a_journal_of_long_lines_goes_on() {
    let scene = Scene::new();
    let findings: Vec<Value> = (0..6_000)
        .map(|index| serde_json::json!({ "name": format!("finding {index} {}", "x".repeat(300)) }))
        .collect();
    scene.file("f.json", Value::from(findings).to_string());
    scene.ok(&["triage", "start", "--from", "f.json"]);
    for entry in 0..3_000 {
        scene.file(
            &format!(".phasegate/triage/results/{entry}.json"),
            r#"{"is_true_positive":true,"group_id":"g"}"#,
        );
    }
    scene.stop().blocks("3000 of 6000");
    scene.stop().blocks("3000 of 6000");
    assert!(scene.ok(&["log", "--verify"]).contains("3 entries"));
    let longest =
        scene.read(".phasegate/runs/triage/f/journal.jsonl").lines().map(str::len).max().unwrap();
    assert!(longest < 100_000, "{longest}");
}

#[test]
fn where_nothing_more_can_be_written_the_journal_says_what_was_answered() {
    for blocks in 0..40 {
        let scene = Scene::with_triage(3);
        let first = scene.stop();
        first.blocks("3 of 3");
        scene.result(0, true, "g");
        // No file may grow beyond so many half kilobytes, as on a disk that is full.
        let mut command = std::process::Command::new("bash");
        let program = env!("CARGO_BIN_EXE_phasegate");
        command.arg("-c").arg(format!("ulimit -f {blocks}; exec {program} hook stop"));
        command.current_dir(scene.root()).env_clear().env("HOME", scene.path("home"));
        let ran = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
        assert_eq!(ran.code, Some(0), "{blocks}: {ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        let journal = scene.journal("triage/web");
        let mut answers = vec![first.json];
        let could = answer["decision"] == "block";
        if could {
            answers.push(answer);
        } else {
            let said = answer["systemMessage"].as_str().unwrap();
            assert!(said.contains("The stop was allowed"), "{blocks}: {said}");
            assert_eq!(scene.json(STATE)["entries"][0]["status"], "pending", "{blocks}");
        }
        assert_eq!(journal.len(), answers.len(), "{blocks}: a line that nobody was told");
        assert_eq!(unanswered(&journal, &answers), Vec::<usize>::new());
        for (path, _) in scene.snapshot() {
            assert!(!path.to_string_lossy().contains("phasegate-tmp"), "{blocks}: {path:?}");
        }
        // Once there is room again, it goes on as if nothing had been.
        let again = scene.stop();
        again.blocks("2 of 3");
        let notes = scene.journal("triage/web").last().unwrap()["notes"].to_string();
        assert!(!notes.contains("died"), "{blocks}: {notes}");
        scene.ok(&["log", "--verify"]);
        assert_eq!(scene.json(STATE)["entries"][0]["status"], "completed", "{blocks}");
    }
}
