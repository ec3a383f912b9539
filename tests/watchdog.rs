//! The hook's own deadline, and the end of its input.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::scene::{Scene, finish};

#[test]
fn a_whole_payload_is_enough() {
    let scene = Scene::with_triage(1);
    let mut command = scene.command();
    command.args(["hook", "stop"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // It stays open.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(scene.payload().to_string().as_bytes()).unwrap();
    let since = Instant::now();
    let ran = finish(child);
    assert!(since.elapsed() < Duration::from_secs(10));
    assert!(ran.stdout.contains("1 of 1 entries"), "{ran:?}");
    drop(stdin);
}

#[test]
fn a_payload_that_never_comes_is_given_up() {
    let scene = Scene::with_triage(1);
    for event in ["stop", "session-start"] {
        let mut command = scene.command();
        command.args(["hook", event]).env("PHASEGATE_HOOK_SECONDS", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let since = Instant::now();
        let ran = finish(child);
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
        drop(stdin);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let message = json["systemMessage"].as_str().unwrap();
        assert!(message.contains("did not send a whole payload within 3 seconds"), "{message}");
        assert!(message.contains("The stop was allowed"), "{message}");
    }
}

#[test]
fn whatever_keeps_the_decision_there_is_one_answer_in_time() {
    for place in ["before-lock", "before-journal", "after-journal"] {
        let scene = Scene::with_triage(1);
        let since = Instant::now();
        let said = scene.hook_raw(
            scene.payload().to_string().as_bytes(),
            &[
                ("PHASEGATE_HOOK_SECONDS", "0"),
                ("PHASEGATE_FAULT_POINT", place),
                ("PHASEGATE_FAULT_COMMAND", "exec sleep 20 >/dev/null 2>&1"),
            ],
        );
        assert!(since.elapsed() < Duration::from_secs(15), "{place}: {:?}", since.elapsed());
        said.allows_saying("there was no decision within 3 seconds");
        assert!(scene.read(".phasegate/faults.jsonl").contains("no decision within"), "{place}");
        // What was cut off is no obstacle to the next stop.
        assert_eq!(scene.stop().code, Some(0));
        scene.ok(&["log", "--verify"]);
    }
}
