//! What each client sends and understands, by payloads of the shape that is known of it.

use serde_json::{Value, json};

use crate::scene::{Ran, Scene, finish};

fn fire(scene: &Scene, client: &str, payload: &Value) -> (Ran, Value) {
    let mut command = scene.command();
    command.args(["hook", "stop", "--client", client]);
    let ran = finish(scene.spawn(command, payload.to_string().as_bytes()));
    let json = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, json)
}

/// A payload of each client, in a project.
fn payloads(scene: &Scene) -> Vec<(&'static str, Value)> {
    let root = scene.root();
    let transcript = scene.path("transcript.jsonl");
    vec![
        (
            "codex",
            json!({ "session_id": "s1", "turn_id": "t1", "model": "gpt-5", "transcript_path": null, "cwd": root, "hook_event_name": "Stop", "permission_mode": "default", "stop_hook_active": false, "last_assistant_message": "Done." }),
        ),
        (
            "gemini",
            json!({ "session_id": "s1", "transcript_path": transcript, "cwd": root, "hook_event_name": "AfterAgent", "timestamp": "2026-01-31T10:00:00Z", "prompt": "do it", "prompt_response": "Done.", "stop_hook_active": false }),
        ),
        (
            "qwen",
            json!({ "session_id": "s1", "transcript_path": transcript, "cwd": root, "hook_event_name": "Stop", "timestamp": "2026-01-31T10:00:00Z", "stop_hook_active": false, "last_assistant_message": "Done." }),
        ),
        (
            "copilot",
            json!({ "sessionId": "s1", "timestamp": 1_760_000_000_000_i64, "cwd": root, "transcriptPath": transcript, "stopReason": "end_turn" }),
        ),
        (
            "copilot",
            json!({ "session_id": "s1", "cwd": root, "transcript_path": transcript, "stop_reason": "end_turn", "hook_event_name": "Stop" }),
        ),
        (
            "vscode",
            json!({ "timestamp": "2026-01-31T10:00:00Z", "cwd": root, "sessionId": "s1", "hookEventName": "Stop", "transcript_path": transcript, "stop_hook_active": false }),
        ),
        (
            "cursor",
            json!({ "conversation_id": "s1", "generation_id": "g1", "hook_event_name": "stop", "workspace_roots": [root], "status": "completed", "loop_count": 0 }),
        ),
        (
            "droid",
            json!({ "session_id": "s1", "transcript_path": transcript, "cwd": root, "permission_mode": "off", "hook_event_name": "Stop", "stop_hook_active": false }),
        ),
        (
            "antigravity",
            json!({ "conversationId": "s1", "modelName": "gemini-3-pro", "transcriptPath": transcript, "artifactDirectoryPath": "/nowhere", "workspacePaths": [root], "executionNum": 1, "terminationReason": "NO_TOOL_CALL", "error": "", "fullyIdle": true }),
        ),
    ]
}

#[test]
fn every_client_is_told_to_go_on_in_its_own_words() {
    for (client, shape) in [
        ("codex", "/reason"),
        ("gemini", "/reason"),
        ("qwen", "/reason"),
        ("copilot", "/reason"),
        ("vscode", "/hookSpecificOutput/reason"),
        ("cursor", "/followup_message"),
        ("droid", "/reason"),
        ("antigravity", "/reason"),
    ] {
        let count = payloads(&Scene::new()).iter().filter(|(it, _)| *it == client).count();
        for at in 0..count {
            let scene = Scene::with_triage(3);
            let all = payloads(&scene);
            let (_, payload) = all.iter().filter(|(it, _)| *it == client).nth(at).unwrap();
            let (ran, said) = fire(&scene, client, payload);
            assert_eq!(ran.code, Some(0), "{client}: {ran:?}");
            let reason = said
                .pointer(shape)
                .and_then(Value::as_str)
                .unwrap_or_else(|| panic!("{client}: {said}"));
            assert!(reason.contains("**triage-investigator**"), "{client}: {reason}");
            let keys: Vec<&String> = said.as_object().unwrap().keys().collect();
            let expected: &[&str] = match client {
                "vscode" => &["hookSpecificOutput"],
                "cursor" => &["followup_message"],
                _ => &["decision", "reason"],
            };
            assert_eq!(keys, expected, "{client}");
            let decision = said.pointer("/hookSpecificOutput/decision").or(said.get("decision"));
            let wanted = match client {
                "gemini" => "deny",
                "antigravity" => "continue",
                _ => "block",
            };
            assert!(decision.is_none_or(|decision| decision == wanted), "{client}: {said}");
            // The session is known, so another one is not blocked.
            let journal = scene.journal("triage/web");
            assert_eq!(journal.last().unwrap()["event"]["session"], "s1", "{client}");
        }
    }
}

/// What a client is told where nothing holds it.
fn let_go(client: &str) -> Value {
    if client == "antigravity" { json!({ "decision": "allow" }) } else { json!({}) }
}

#[test]
fn every_client_is_let_go_with_nothing_more_than_it_needs() {
    let scene = Scene::new();
    for (client, payload) in payloads(&scene) {
        let (ran, said) = fire(&scene, client, &payload);
        assert_eq!((ran.code, said), (Some(0), let_go(client)), "{client}");
    }
}

#[test]
fn failures_are_let_go_with_a_word_in_the_log() {
    let scene = Scene::with_triage(1);
    scene.file(crate::scene::STATE, "not json");
    for (client, payload) in payloads(&scene) {
        let (ran, said) = fire(&scene, client, &payload);
        assert_eq!((ran.code, said), (Some(0), let_go(client)), "{client}");
        assert!(ran.stderr.contains("phasegate: "), "{client}: {ran:?}");
        for input in ["", "\u{feff}{}", "nonsense"] {
            let mut command = scene.command();
            command.args(["hook", "stop", "--client", client]);
            let ran = finish(scene.spawn(command, input.as_bytes()));
            let said: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!((ran.code, said), (Some(0), let_go(client)), "{client}: {input:?}");
        }
    }
}

#[test]
fn blocks_of_a_workflow_that_wants_an_exit_code_have_none_for_others() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    let (_, payload) = payloads(&scene).swap_remove(0);
    let (ran, said) = fire(&scene, "codex", &payload);
    assert_eq!((ran.code, &said["decision"]), (Some(0), &json!("block")));
}

#[test]
fn a_run_ends_one_below_the_cap_of_each_client() {
    for (client, cap) in [("cursor", 5), ("qwen", 8)] {
        let scene = Scene::with_triage(200);
        let all = payloads(&scene);
        let (_, payload) = all.iter().find(|(it, _)| *it == client).unwrap();
        let mut blocks = 0;
        for stop in 0..cap + 2 {
            // Work goes on, so that only the client's own count can end the turn.
            scene.result(stop, true, "g");
            let mut payload = payload.clone();
            if client == "cursor" {
                payload["loop_count"] = json!(stop);
            } else {
                payload["stop_hook_active"] = json!(stop > 0);
            }
            let (ran, said) = fire(&scene, client, &payload);
            if said == json!({}) {
                assert!(ran.stderr.contains("ended this turn as capped"), "{client}: {ran:?}");
                break;
            }
            blocks += 1;
        }
        assert_eq!(blocks, cap - 1, "{client}");
        let journal = scene.journal("triage/web");
        assert_eq!(journal.last().unwrap()["answer"]["outcome"], "capped", "{client}");
    }
}

#[test]
fn a_turn_that_was_broken_off_is_not_taken_up() {
    let scene = Scene::with_triage(3);
    let all = payloads(&scene);
    let (_, payload) = all.iter().find(|(client, _)| *client == "cursor").unwrap();
    for status in ["aborted", "error"] {
        let mut payload = payload.clone();
        payload["status"] = json!(status);
        assert_eq!(fire(&scene, "cursor", &payload).1, json!({}));
    }
    assert!(scene.journal("triage/web").is_empty());
}

#[test]
fn antigravity_says_in_its_own_way_how_a_turn_ended() {
    let scene = Scene::with_triage(3);
    let all = payloads(&scene);
    let (_, payload) = all.iter().find(|(client, _)| *client == "antigravity").unwrap();
    for (field, value) in [("terminationReason", "ERROR"), ("error", "it broke")] {
        let mut payload = payload.clone();
        payload[field] = json!(value);
        assert_eq!(fire(&scene, "antigravity", &payload).1, json!({ "decision": "allow" }));
    }
    assert!(scene.journal("triage/web").is_empty());
    // Without a workspace, the hook's own folder tells where it is.
    let mut payload = payload.clone();
    payload["workspacePaths"] = json!([]);
    assert_eq!(fire(&scene, "antigravity", &payload).1["decision"], "continue");
}

#[test]
fn a_client_that_nobody_knows_is_said() {
    let scene = Scene::with_triage(1);
    let (ran, said) = fire(&scene, "emacs", &scene.payload());
    assert_eq!(ran.code, Some(0));
    assert!(said["systemMessage"].as_str().unwrap().contains("there are: claude, codex"), "{said}");
}

/// A gate whose check takes longer than some clients wait.
const SLOW: &str = "name = \"slow\"\nabout = \"x\"\ninitial = \"a\"\n[check.t]\nrun = [\"sh\", \"-c\", \"echo ran >> runs; sleep 0.3; test -f good || { echo it is bad; exit 1; }\"]\ntimeout = \"5m\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"not check.t.ok\", block = \"It fails: {{ check.t.tail }}\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";

#[test]
fn what_outlasts_a_client_runs_without_it() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/slow.toml", SLOW).file(".gitignore", "home/\nruns\n");
    scene.git(&["init", "-q"]);
    scene.ok(&["slow", "start", "--name", "x"]);
    let stop = |again: bool| {
        let payload = json!({ "session_id": "s1", "cwd": scene.root(), "hookEventName": "Stop", "stop_hook_active": again });
        let mut command = scene.command();
        command.args(["hook", "stop", "--client", "vscode"]).env("PHASEGATE_TRUST_ALL", "1");
        // No time at all to wait for anything.
        command.env("PHASEGATE_HOOK_SECONDS", "1");
        finish(scene.spawn(command, payload.to_string().as_bytes()))
    };
    let settled = || {
        let ledger = scene.json(".phasegate/runs/slow/x/run.json");
        ledger["work"]["jobs"]["check.t"]["ended"].is_object()
    };
    let ran = stop(false);
    assert_eq!(ran.stdout.trim(), "{}");
    assert!(ran.stderr.contains("it goes on in the background"), "{ran:?}");
    // A second stop meanwhile starts nothing else.
    assert!(stop(false).stderr.contains("it goes on in the background"));
    crate::phases::eventually("the check has run", settled);
    crate::phases::eventually("status says so", || {
        scene.ok(&["status"]).contains("waited for is done")
    });
    let ran = stop(false);
    assert!(ran.stdout.contains("It fails: it is bad"), "{ran:?}");
    assert!(!scene.ok(&["status"]).contains("waited for is done"));
    assert_eq!(scene.read("runs").lines().count(), 1);
    // The files change, so it is run again.
    scene.file("good", "");
    assert!(stop(true).stderr.contains("it goes on in the background"));
    crate::phases::eventually("the check has run", || {
        scene.json(".phasegate/runs/slow/x/run.json")["work"]["jobs"]["check.t"]["ended"]["exit_code"]
            == 0
    });
    let ran = stop(true);
    assert_eq!(ran.stdout.trim(), "{}", "{ran:?}");
    assert_eq!(scene.json(".phasegate/slow/x.json")["phase"], "b");
    assert_eq!(scene.read("runs").lines().count(), 2);
}

#[test]
fn what_is_faster_than_the_client_is_waited_for() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/slow.toml", SLOW).file(".gitignore", "home/\nruns\n");
    scene.git(&["init", "-q"]);
    scene.ok(&["slow", "start", "--name", "x"]);
    let payload = json!({ "session_id": "s1", "cwd": scene.root(), "hookEventName": "Stop", "stop_hook_active": false });
    let mut command = scene.command();
    command.args(["hook", "stop", "--client", "vscode"]).env("PHASEGATE_TRUST_ALL", "1");
    let ran = finish(scene.spawn(command, payload.to_string().as_bytes()));
    assert!(ran.stdout.contains("It fails: it is bad"), "{ran:?}");
}

#[test]
fn a_review_that_fails_in_the_background_is_said_once() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/rev.toml", "name = \"rev\"\nabout = \"x\"\ninitial = \"a\"\n[reviewer.code]\nprompt = \"r.md\"\nwrites = \"review.md\"\nrun = [\"sh\", \"-c\", \"echo ran >> runs; exit 3\"]\ntimeout = \"5m\"\n[phase.a]\nrules = [\n{ on = \"review-finished\", goto = \"b\" },\n{ on = \"stop\", review = \"code\" },\n]\n[phase.b]\nfinal = true\n");
    scene.file(".phasegate/workflows/rev/prompts/r.md", "Review.");
    scene.ok(&["rev", "start", "--name", "x"]);
    let stop = |seconds: &str| {
        let payload = json!({ "session_id": "s1", "cwd": scene.root(), "hookEventName": "Stop", "stop_hook_active": false });
        let mut command = scene.command();
        command.args(["hook", "stop", "--client", "vscode"]).env("PHASEGATE_TRUST_ALL", "1");
        command.env("PHASEGATE_HOOK_SECONDS", seconds);
        finish(scene.spawn(command, payload.to_string().as_bytes())).stderr
    };
    assert!(stop("1").contains("it goes on in the background"));
    let ledger = ".phasegate/runs/rev/x/run.json";
    crate::phases::eventually("it has failed", || {
        scene.json(ledger)["work"]["jobs"]["reviewer.code"]["ended"].is_object()
    });
    let said = stop("1");
    assert!(said.contains("ended with exit code 3"), "{said}");
    assert_eq!(scene.read("runs").lines().count(), 1);
    // Within the client's patience it is said at once.
    let said = stop("20");
    assert!(said.contains("ended with exit code 3"), "{said}");
}

#[test]
fn a_client_that_does_not_say_what_a_stop_follows_has_its_cap_too() {
    let scene = Scene::with_triage(200);
    let payload = json!({ "sessionId": "s1", "cwd": scene.root(), "transcriptPath": "", "stopReason": "end_turn" });
    let mut blocks = 0;
    for stop in 0..20 {
        scene.result(stop, true, "g");
        let (ran, said) = fire(&scene, "copilot", &payload);
        if said == json!({}) {
            assert!(ran.stderr.contains("capped"), "{ran:?}");
            break;
        }
        blocks += 1;
    }
    assert_eq!(blocks, 7);
    // The next prompt begins anew.
    scene.result(30, true, "g");
    assert_ne!(fire(&scene, "copilot", &payload).1, json!({}));
}

#[test]
fn an_old_client_that_forgets_the_arguments_is_not_trapped() {
    let scene = Scene::with_triage(1);
    let ran = finish(scene.spawn(scene.command(), scene.payload().to_string().as_bytes()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("Usage: phasegate"), "{ran:?}");
}
