//! Iterations, frames, and the loop's contract with its client.

use std::process::Command;

use serde_json::{Value, json};

use super::{DONE, MESSAGES, iterates, line, say, states, with_loop};
use crate::scene::{Scene, finish};

#[test]
fn a_block_is_exactly_the_specified_json_and_exit_code_2() {
    let scene = with_loop(0, 3);
    let mut command = scene.command();
    command.args(["hook", "stop"]);
    let ran = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
    let expected = "{\"decision\": \"block\", \"reason\": \"[ITERATION 1/3] Continue working on the task. Check your progress and either complete the task or keep iterating.\"}\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), expected, ""));
}

#[test]
fn a_loop_goes_through_its_iterations_and_ends_at_its_limit() {
    let scene = with_loop(0, 3);
    for n in 1..=3 {
        let mut payload = scene.payload();
        payload["stop_hook_active"] = json!(n > 1);
        iterates(&scene.hook(&payload), n, 3);
    }
    scene.stop_again().allows_saying("reached its limit of iterations");
    assert!(scene.ok(&["status"]).contains("ended in phase idle"), "a limit is not a success");
    let last = states(&scene).pop().unwrap();
    assert_eq!(
        (&last["event"], &last["reason"], &last["stack"]),
        (&json!("DONE"), &json!("MAX_ITERATIONS"), &json!([]))
    );
    scene.stop_again().allows();
    assert!(scene.ok(&["log", "loop", "--verify"]).contains("4 entries"));
}

#[test]
fn twenty_concurrent_stops_are_twenty_iterations() {
    let scene = with_loop(0, 100);
    let hooks: Vec<_> = (0..20)
        .map(|_| {
            let mut command = scene.command();
            command.args(["hook", "stop"]);
            scene.spawn(command, scene.payload().to_string().as_bytes())
        })
        .collect();
    let mut seen: Vec<String> = hooks
        .into_iter()
        .map(|hook| {
            let ran = finish(hook);
            assert_eq!(ran.code, Some(2), "{ran:?}");
            let said: Value = serde_json::from_str(&ran.stdout).unwrap();
            said["reason"].as_str().unwrap().split(']').next().unwrap().to_string()
        })
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 20, "{seen:?}");
    let states = states(&scene);
    assert_eq!(states.len(), 22);
    assert_eq!(states[21]["stack"][0]["iter"], 20);
}

#[test]
fn the_escape_hatch_is_looked_at_before_any_processing() {
    let scene = with_loop(0, 3);
    let before = scene.snapshot();
    let said =
        scene.hook_raw(scene.payload().to_string().as_bytes(), &[("IDLE_LOOP_DISABLE", "1")]);
    said.allows();
    assert_eq!(scene.snapshot(), before);
    let mut command = scene.command();
    command.args(["loop", "start", "--prompt", "x"]).env("IDLE_LOOP_DISABLE", "1");
    let ran = finish(scene.spawn(command, b""));
    assert!(ran.stderr.contains("switched off by IDLE_LOOP_DISABLE=1"), "{ran:?}");
    assert_eq!(scene.snapshot(), before);
}

#[test]
fn nested_starts_push_and_pops_come_back_to_the_outer_loop() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--mode", "grind", "--max", "4", "--prompt", "All issues."]);
    iterates(&say(&scene, "x"), 1, 4);
    scene.file("issue.md", "One issue.");
    // Nobody else's loop becomes a part of this session's.
    let ran = scene.run(&["loop", "start", "--prompt", "mine"]);
    assert!(ran.code != Some(0), "{ran:?}");
    assert!(ran.stdout.contains("A loop of another session is at work here"), "{ran:?}");
    let ran = scene.by_agent(&[
        "loop",
        "start",
        "--mode",
        "issue",
        "--issue",
        "X-1",
        "--max",
        "2",
        "--prompt-file",
        "issue.md",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    iterates(&say(&scene, "x"), 1, 2);
    let status = scene.ok(&["loop", "status"]);
    assert!(
        status.starts_with(
            "at work: issue, iteration 1 of 2, prompt issue.md\noutside: grind, iteration 1 of 4"
        ),
        "{status}"
    );
    say(&scene, "<issue-complete>DONE</issue-complete>")
        .allows_saying("the outer one goes on at the next stop");
    iterates(&say(&scene, "x"), 2, 4);
    say(&scene, "<grind-done>NO_MORE_ISSUES</grind-done>").allows_saying("The loop is complete");
    let last = states(&scene).pop().unwrap();
    assert_eq!((&last["event"], &last["stack"]), (&json!("DONE"), &json!([])));
    let files = std::fs::read_dir(scene.path(".phasegate/loop")).unwrap();
    let mut prompts =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some());
    assert_eq!(std::fs::read_to_string(prompts.next().unwrap()).unwrap(), "All issues.\n");
    // And a new one, after the end.
    scene.ok(&["loop", "start", "--prompt", "Again."]);
    iterates(&say(&scene, "x"), 1, 10);
}

#[test]
fn a_loop_is_cancelled_and_started_again() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    iterates(&say(&scene, "x"), 1, 10);
    scene.ok(&["loop", "cancel", "--reason", "enough"]);
    let last = states(&scene).pop().unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&json!("ABORT"), &json!("enough")));
    say(&scene, "x").allows();
    for how in [["cancel", "loop"], ["loop", "cancel"]] {
        scene.ok(&["loop", "start", "--prompt", "x"]);
        iterates(&say(&scene, "x"), 1, 10);
        scene.ok(&how);
        say(&scene, "x").allows();
        let refused = scene.run(&["loop", "start"]);
        assert_eq!(refused.code, Some(1));
        say(&scene, "x").allows();
    }
    let ran = scene.run(&["loop", "cancel"]);
    assert!(
        ran.code == Some(1) && ran.stdout.contains("not possible in phase `aborted`"),
        "{ran:?}"
    );
    scene.ok(&["log", "loop", "--verify"]);
}

#[test]
fn a_start_that_makes_no_sense_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    for (args, text) in [
        (&["--prompt", "x", "--mode", "banana"] as &[&str], "--mode is loop, issue or grind"),
        (&["--prompt", "x", "--max", "0"], "--max is at least 1"),
        (&[], "say what to do"),
        (&["--prompt", "x", "--prompt-file", "home/x"], "say it once"),
        (&["--prompt-file", "missing.md"], "there is no file missing.md"),
        (&["--prompt-file", "/etc/hostname"], "is not in the project"),
        (&["--prompt", "x", "--worktree"], "--worktree goes with --mode issue"),
    ] {
        scene.file("home/x", "");
        let ran = scene.run(&[&["loop", "start"], args].concat());
        assert!(ran.code == Some(1), "{args:?}: {ran:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(text), "{args:?}: {ran:?}");
        assert!(!scene.exists(".jwz"), "{args:?}");
    }
}

#[test]
fn the_anchor_survives_a_compaction() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--max", "7", "--prompt", "Port the parser to the new lexer."]);
    iterates(&say(&scene, "x"), 1, 7);
    Command::new("git").args(["init", "-q"]).current_dir(scene.root()).status().unwrap();
    scene.file("lexer.rs", "").file(".gitignore", "home\n");
    let said = format!(
        "{}\n{}\n",
        line("user", false, "go"),
        line("assistant", false, "The lexer is half done.")
    );
    scene.file("transcript.jsonl", said);
    scene
        .hook_of("pre-compact", "s1", &json!({ "trigger": "auto", "last_assistant_message": null }))
        .allows();
    let text = scene.read(MESSAGES);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let anchor: Value = serde_json::from_str(last["body"].as_str().unwrap()).unwrap();
    let keys: Vec<&String> = anchor.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["goal", "iteration", "mode", "modified_files", "next_step", "progress", "timestamp"]
    );
    assert_eq!(
        (&anchor["goal"], &anchor["iteration"]),
        (&json!("Port the parser to the new lexer."), &json!(1))
    );
    assert_eq!(anchor["progress"], "The lexer is half done.");
    assert!(anchor["modified_files"].to_string().contains("lexer.rs"), "{anchor}");
    // The loop itself is where it was.
    assert_eq!(states(&scene).pop().unwrap()["stack"][0]["iter"], 1);
    let said = scene.hook_of("session-start", "s1", &json!({ "source": "compact" }));
    let note = said.json["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    for text in
        ["iteration 1 of 7", ".phasegate/loop/", DONE, "Port the parser", "half done", "lexer.rs"]
    {
        assert!(note.contains(text), "{text}: {note}");
    }
}

#[test]
fn a_cancel_from_outside_is_the_loops_own_and_sticks() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "one", "--max", "3"]);
    iterates(&say(&scene, "x"), 1, 3);
    scene.ok_by_hand(&["cancel", "loop/current", "--reason", "enough"]);
    assert_eq!(states(&scene).pop().unwrap()["event"], "ABORT");
    scene.ok(&["loop", "start", "--prompt", "two", "--max", "5"]);
    let status = scene.ok(&["loop", "status"]);
    assert!(!status.contains("outside"), "the cancelled loop is gone: {status}");
    iterates(&say(&scene, "x"), 1, 5);
    // A lost ledger does not bring the cancel back.
    std::fs::remove_file(scene.path(".phasegate/runs/loop/current/run.json")).unwrap();
    let said = say(&scene, "x");
    assert_eq!(said.json["decision"], "block", "{said:?}");
}

#[test]
fn waiting_for_background_work_is_no_iteration() {
    let scene = with_loop(0, 2);
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{ "id": "t", "status": "running" }]);
    scene.hook(&payload).allows_saying("waits for background work");
    // It is waited for once, and then the loop goes on beside it.
    iterates(&scene.hook(&payload), 1, 2);
}

#[test]
fn another_session_does_not_start_inside_of_a_loop() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    iterates(&say(&scene, "x"), 1, 10);
    let mut command = scene.command();
    command
        .args(["loop", "start", "--prompt", "y"])
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "s2");
    let ran = finish(scene.spawn(command, b""));
    assert!(ran.code == Some(1) && ran.stderr.contains("belongs to another session"), "{ran:?}");
    iterates(&say(&scene, "x"), 2, 10);
}

#[test]
fn parallel_starts_all_count() {
    let scene = Scene::new();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let mut command = scene.command();
            command.args(["loop", "start", "--prompt", "x"]);
            scene.spawn(command, b"")
        })
        .collect();
    for start in starts {
        let ran = finish(start);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(states(&scene).pop().unwrap()["stack"].as_array().unwrap().len(), 8);
}
