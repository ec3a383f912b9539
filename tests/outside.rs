//! Files that others can write: whatever lies in their place, the hook answers at once, and so does every
//! command.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::scene::{STATE, Said, Scene};

/// Puts a pipe at a path.
fn pipe(scene: &Scene, path: &str) {
    let path = scene.path(path);
    let _ = std::fs::remove_file(&path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A stop, which takes no longer than a moment.
#[track_caller]
fn stop_at_once(scene: &Scene) -> Said {
    let since = Instant::now();
    let said =
        scene.hook_raw(scene.payload().to_string().as_bytes(), &[("PHASEGATE_HOOK_SECONDS", "7")]);
    assert!(since.elapsed() < Duration::from_secs(6), "{:?}: {said:?}", since.elapsed());
    said
}

#[test]
fn a_pipe_in_the_place_of_a_file_keeps_nobody_waiting() {
    const RUN: &str = ".phasegate/runs/triage/web";
    for (path, text) in [
        (STATE, "it is not a regular file"),
        (&format!("{RUN}/run.json"), "it is not a regular file"),
        (&format!("{RUN}/lock"), "it is not a regular file"),
        (&format!("{RUN}/journal.jsonl"), "it is not a regular file"),
        (".phasegate/config.toml", "it is not a regular file"),
        (".phasegate/workflows/w.toml", "it is not a regular file"),
    ] {
        let scene = Scene::with_triage(1);
        scene.stop().blocks("1 of 1");
        pipe(&scene, path);
        let said = stop_at_once(&scene);
        assert_eq!(said.code, Some(0), "{path}: {said:?}");
        let message = said.json["systemMessage"].as_str().unwrap_or_default();
        assert!(message.contains(text), "{path}: {said:?}");
        for command in [&["status"][..], &["doctor"], &["cancel", "triage/web"]] {
            let since = Instant::now();
            scene.run(command);
            assert!(since.elapsed() < Duration::from_secs(6), "{path}: {command:?}");
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_what_is_only_looked_at_counts_for_nothing() {
    for path in
        ["transcript.jsonl", ".git", ".phasegate/faults.jsonl", ".phasegate/triage/results/0.json"]
    {
        let scene = Scene::with_triage(1);
        pipe(&scene, path);
        let mut payload = scene.payload();
        payload["last_assistant_message"] = serde_json::Value::Null;
        let since = Instant::now();
        scene.hook(&payload).blocks("1 of 1");
        assert!(since.elapsed() < Duration::from_secs(6), "{path}");
    }
}

#[test]
fn a_device_is_not_read() {
    for path in [".phasegate/config.toml", ".phasegate/workflows/w.toml"] {
        let scene = Scene::with_triage(1);
        std::fs::create_dir_all(scene.path(".phasegate/workflows")).unwrap();
        symlink("/dev/zero", scene.path(path)).unwrap();
        let said = stop_at_once(&scene);
        let message = said.json["systemMessage"].as_str().unwrap_or_default();
        assert!(message.contains("it is not a regular file"), "{path}: {said:?}");
    }
}

#[test]
fn a_state_document_that_is_too_large_is_refused_at_once() {
    let scene = Scene::with_triage(1);
    let file = std::fs::File::options().append(true).open(scene.path(STATE)).unwrap();
    file.set_len(200 << 20).unwrap();
    let said = stop_at_once(&scene);
    said.allows_saying("it is 200 MB; at most 128 MB are read");
    scene.file(".phasegate/config.toml", "[sizes]\ndocument = 1\n");
    file.set_len(2 << 20).unwrap();
    stop_at_once(&scene).allows_saying("it is 2 MB; at most 1 MB are read");
}

#[test]
fn evidence_that_is_too_large_satisfies_no_guard() {
    let scene = Scene::with_triage(1);
    let result = r#"{"is_true_positive": true, "group_id": "g"}"#.to_string();
    let large = result.clone() + &" ".repeat(17 << 20);
    scene.file(".phasegate/triage/results/0.json", large);
    stop_at_once(&scene).blocks("1 of 1");
    scene.file(".phasegate/config.toml", "[sizes]\nevidence = 20\n");
    assert!(!stop_at_once(&scene).json.to_string().contains("1 of 1"));
}

#[test]
fn a_text_that_would_loop_for_hours_is_a_fault() {
    let scene = Scene::new();
    let text = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let rules = format!("rules = [{{ on = \"stop\", block = \"{text}\" }}]");
    let head = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\n";
    scene.file(".phasegate/workflows/w.toml", format!("{head}{rules}\n"));
    scene.file(".phasegate/w/one.json", r#"{"phase": "a"}"#);
    let since = Instant::now();
    scene.stop().allows_saying("it was abandoned after 50 million steps");
    assert!(since.elapsed() < Duration::from_mins(1), "{:?}", since.elapsed());
}
