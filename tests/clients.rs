//! What each client sends and understands, by payloads of the shape that is known of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::scene::{Ran, Scene, finish};

fn fire(scene: &Scene, client: &str, payload: &Value) -> (Ran, Value) {
    let mut command = scene.command();
    command.args(["hook", "stop", "--client", client]);
    let ran = finish(scene.spawn(command, payload.to_string().as_bytes()));
    let json = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, json)
}

/// What a client has sent once, in a project: `tests/payloads` has it as it was recorded, with neutral
/// paths.
fn recorded(scene: &Scene, name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/payloads");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let mut payload: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in payload.as_object_mut().unwrap() {
        match name.as_str() {
            "cwd" => *value = json!(scene.root()),
            "transcript_path" | "transcriptPath" => *value = json!(scene.path("transcript.jsonl")),
            "session_id" | "sessionId" => *value = json!("s1"),
            _ => {}
        }
    }
    payload
}

/// The end of a transcript, as it was recorded.
fn transcript(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/payloads");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A stop of each client, in a project.
fn payloads(scene: &Scene) -> Vec<(&'static str, Value)> {
    let root = scene.root();
    let transcript = scene.path("transcript.jsonl");
    let recorded = |name: &str| recorded(scene, name);
    vec![
        ("codex", recorded("codex-Stop.json")),
        ("gemini", recorded("gemini-AfterAgent.json")),
        ("qwen", recorded("qwen-Stop.json")),
        ("qwen", recorded("qwen-0.15.10-Stop-first.json")),
        ("copilot", recorded("copilot-agentStop.json")),
        ("copilot", recorded("copilot-Stop.json")),
        (
            "vscode",
            json!({ "timestamp": "2026-01-31T10:00:00Z", "cwd": root, "sessionId": "s1", "hookEventName": "Stop", "transcript_path": transcript, "stop_hook_active": false }),
        ),
        (
            "cursor",
            json!({ "conversation_id": "s1", "generation_id": "g1", "hook_event_name": "stop", "workspace_roots": [root], "status": "completed", "loop_count": 0, "cursor_version": "2.0", "model": "m" }),
        ),
        ("droid", recorded("droid-Stop.json")),
        (
            // What our own plugin sends.
            "opencode",
            json!({ "hook_event_name": "stop", "cwd": root, "session_id": "s1", "stop_hook_active": false, "last_assistant_message": "Done." }),
        ),
        (
            "antigravity",
            json!({ "conversationId": "s1", "modelName": "gemini-3-pro", "transcriptPath": transcript, "artifactDirectoryPath": "/nowhere", "workspacePaths": [root], "executionNum": 1, "terminationReason": "NO_TOOL_CALL", "error": "", "fullyIdle": true }),
        ),
    ]
}

/// Clients that show `systemMessage`; the others have it in their logs.
const SHOWS: &[&str] = &["codex", "gemini", "qwen", "opencode"];

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
        ("opencode", "/reason"),
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
                // Where it is shown, the person is told the way out.
                "claude" | "codex" | "gemini" | "qwen" | "opencode" => {
                    &["decision", "reason", "systemMessage"]
                }
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
        let (ran, mut said) = fire(&scene, client, &payload);
        let message = said.as_object_mut().unwrap().remove("systemMessage");
        assert_eq!((ran.code, said), (Some(0), let_go(client)), "{client}");
        assert_eq!(message.is_some(), SHOWS.contains(&client), "{client}");
        let shown = message.map_or(ran.stderr.clone(), |text| text.to_string());
        assert!(shown.contains("phasegate: "), "{client}: {ran:?}");
        for input in ["", "\u{feff}{}", "nonsense"] {
            let mut command = scene.command();
            command.args(["hook", "stop", "--client", client]);
            let ran = finish(scene.spawn(command, input.as_bytes()));
            let mut said: Value = serde_json::from_str(&ran.stdout).unwrap();
            said.as_object_mut().unwrap().remove("systemMessage");
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
    for (client, cap) in [("qwen", 8), ("copilot", 8)] {
        let scene = Scene::with_triage(200);
        let all = payloads(&scene);
        let (_, payload) = all.iter().find(|(it, _)| *it == client).unwrap();
        let mut blocks = 0;
        for stop in 0..cap + 2 {
            // Work goes on, so that only the client's own count can end the turn.
            scene.result(stop, true, "g");
            let mut payload = payload.clone();
            payload["stop_hook_active"] = json!(stop > 0);
            let (ran, said) = fire(&scene, client, &payload);
            if said.get("decision").is_none() {
                let told = format!("{}{}", ran.stdout, ran.stderr);
                assert!(told.contains("let the agent stop (capped)"), "{client}: {ran:?}");
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
        scene.ok(&["status"]).contains("was waiting for is done")
    });
    let ran = stop(false);
    assert!(ran.stdout.contains("It fails: it is bad"), "{ran:?}");
    assert!(!scene.ok(&["status"]).contains("was waiting for is done"));
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

#[test]
fn a_client_without_a_cap_is_not_capped_for_one() {
    for (client, count) in [("gemini", 12), ("codex", 12), ("droid", 12), ("cursor", 12)] {
        let scene = Scene::with_triage(200);
        let all = payloads(&scene);
        let (_, payload) = all.iter().find(|(it, _)| *it == client).unwrap();
        for stop in 0..count {
            scene.result(stop, true, "g");
            let mut payload = payload.clone();
            if client == "cursor" {
                payload["loop_count"] = json!(stop);
            } else {
                payload["stop_hook_active"] = json!(stop > 0);
            }
            let (ran, said) = fire(&scene, client, &payload);
            let told = said.get("reason").or(said.get("followup_message"));
            assert!(told.is_some(), "{client}, stop {stop}: {ran:?}");
        }
    }
}

#[test]
fn a_stop_of_a_sub_agent_takes_no_run_from_its_session() {
    let scene = Scene::with_triage(3);
    let mut of_agent = recorded(&scene, "copilot-agentStop-of-subagent.json");
    of_agent["sessionId"] = json!("agent");
    of_agent["parentAgentId"] = json!("s1");
    let (ran, said) = fire(&scene, "copilot", &of_agent);
    assert_eq!((ran.code, said), (Some(0), json!({})));
    assert!(scene.journal("triage/web").is_empty());
    // The session has the run, also after a stop of its sub-agent.
    let stop = recorded(&scene, "copilot-agentStop.json");
    assert_eq!(fire(&scene, "copilot", &stop).1["decision"], "block");
    assert_eq!(fire(&scene, "copilot", &of_agent).1, json!({}));
    let ledger = scene.json(".phasegate/runs/triage/web/run.json");
    assert_eq!(ledger["session"]["owner"]["session"], "s1", "{ledger}");
}

#[test]
fn a_client_that_calls_every_stop_a_second_one_is_blocked_all_the_same() {
    let scene = Scene::with_triage(3);
    let first = recorded(&scene, "qwen-0.15.10-Stop-first.json");
    assert_eq!(first["stop_hook_active"], true);
    assert_eq!(fire(&scene, "qwen", &first).1["decision"], "block");
    // A newer version says it truly: that is another hook's block.
    let scene = Scene::with_triage(3);
    let later = recorded(&scene, "qwen-Stop-after-block.json");
    assert_eq!(fire(&scene, "qwen", &later).1.get("decision"), None);
}

#[test]
fn a_stop_after_a_tool_call_follows_our_block_whatever_the_client_says() {
    let scene = Scene::with_triage(3);
    let first = recorded(&scene, "gemini-AfterAgent.json");
    assert_eq!(fire(&scene, "gemini", &first).1["decision"], "deny");
    // Nothing has changed, and the client says that the stop follows no block: the run is stuck.
    let again = recorded(&scene, "gemini-AfterAgent-after-block-and-tool.json");
    assert_eq!(again["stop_hook_active"], false);
    let (ran, said) = fire(&scene, "gemini", &again);
    assert_eq!(said.get("decision"), None, "{ran:?}");
    assert!(said["systemMessage"].as_str().unwrap().contains("is stuck"), "{said}");
}

/// A gate that waits for a word in the last message.
const WORD: &str = "name = \"word\"\nabout = \"x\"\ninitial = \"a\"\nreentry = \"always\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"'COMPLETE' in last_message()\", goto = \"b\", allow = \"done\" },\n{ on = \"stop\", block = \"You said: {{ last_message() }}\" },\n]\n[phase.b]\nfinal = true\n";

fn word_scene() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/word.toml", WORD);
    scene.ok(&["word", "start", "--name", "x"]);
    scene
}

#[test]
fn the_last_message_is_read_where_the_client_does_not_send_it() {
    for (client, payload, lines) in [
        ("droid", "droid-Stop-after-block.json", "droid-transcript-tail.jsonl"),
        ("copilot", "copilot-agentStop-after-block.json", "copilot-transcript-tail.jsonl"),
    ] {
        let scene = word_scene();
        let mut payload = recorded(&scene, payload);
        if client == "copilot" {
            // As the transcript's own line of the hook has it.
            payload["timestamp"] = json!(1_794_825_201_297_i64);
        }
        scene.file("transcript.jsonl", transcript(lines));
        let (ran, said) = fire(&scene, client, &payload);
        assert_eq!(said.get("decision"), None, "{client}: {ran:?}");
        assert_eq!(scene.json(".phasegate/word/x.json")["phase"], "b", "{client}");
    }
}

#[test]
fn a_transcript_that_lags_behind_is_waited_for() {
    let scene = word_scene();
    let mut payload = recorded(&scene, "copilot-agentStop-after-block.json");
    payload["timestamp"] = json!(1_794_825_201_297_i64);
    // At first the file has only what was said to the agent.
    let lines = transcript("copilot-transcript-tail.jsonl");
    let (before, _) = lines.split_once('\n').unwrap();
    scene.file("transcript.jsonl", format!("{before}\n"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(150));
            scene.file("transcript.jsonl", &lines);
        });
        let (ran, said) = fire(&scene, "copilot", &payload);
        assert_eq!(said, json!({}), "{ran:?}");
    });
    assert_eq!(scene.json(".phasegate/word/x.json")["phase"], "b");
    // One that never comes is not waited for without an end.
    let scene = word_scene();
    payload["cwd"] = json!(scene.root());
    payload["transcriptPath"] = json!(scene.path("transcript.jsonl"));
    let began = std::time::Instant::now();
    assert_eq!(fire(&scene, "copilot", &payload).1["decision"], "block");
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn only_the_last_message_counts_where_a_client_sends_all_that_was_said() {
    let scene = word_scene();
    let line = |kind: &str, text: &str| json!({ "type": kind, "content": text }).to_string();
    let said = ["The word is not COMPLETE.", "All is fine now."];
    let lines = [line("user", "do it"), line("gemini", said[0]), line("user", "go on")];
    scene.file("transcript.jsonl", format!("{}\n{}\n", lines.join("\n"), line("gemini", said[1])));
    let mut payload = recorded(&scene, "gemini-AfterAgent-after-block.json");
    payload["prompt_response"] = json!(said.join("\n"));
    let (ran, told) = fire(&scene, "gemini", &payload);
    assert_eq!(
        told["reason"].as_str().unwrap().lines().next(),
        Some("You said: All is fine now."),
        "{ran:?}"
    );
    // Where nothing tells where it begins, all of it counts.
    std::fs::remove_file(scene.path("transcript.jsonl")).unwrap();
    assert_eq!(fire(&scene, "gemini", &payload).1.get("decision"), None);
}

#[test]
fn every_recorded_event_is_understood() {
    let scene = Scene::new();
    for (client, event, name) in [
        ("codex", "session-start", "codex-SessionStart.json"),
        ("codex", "session-end", "codex-SessionEnd.json"),
        ("codex", "user-prompt-submit", "codex-UserPromptSubmit.json"),
        ("codex", "subagent-stop", "codex-SubagentStop.json"),
        ("gemini", "session-start", "gemini-SessionStart.json"),
        ("gemini", "session-end", "gemini-SessionEnd.json"),
        ("qwen", "session-start", "qwen-SessionStart.json"),
        ("qwen", "subagent-stop", "qwen-SubagentStop.json"),
        ("qwen", "user-prompt-submit", "qwen-UserPromptSubmit.json"),
        ("copilot", "session-start", "copilot-sessionStart.json"),
        ("copilot", "session-end", "copilot-sessionEnd.json"),
        ("copilot", "subagent-stop", "copilot-subagentStop.json"),
        ("copilot", "user-prompt-submit", "copilot-userPromptSubmitted.json"),
        ("droid", "session-start", "droid-SessionStart.json"),
        ("droid", "session-end", "droid-SessionEnd.json"),
    ] {
        let mut command = scene.command();
        command.args(["hook", event, "--client", client]);
        let payload = recorded(&scene, name).to_string();
        let ran = finish(scene.spawn(command, payload.as_bytes()));
        assert_eq!(
            (ran.code, ran.stdout.trim(), ran.stderr.as_str()),
            (Some(0), "{}", ""),
            "{name}"
        );
    }
    assert!(scene.journal("triage/web").is_empty());
}

#[test]
fn a_session_that_begins_is_told_of_its_run_in_the_clients_way() {
    for (client, stop, start, place) in [
        (
            "codex",
            "codex-Stop.json",
            "codex-SessionStart.json",
            "/hookSpecificOutput/additionalContext",
        ),
        ("copilot", "copilot-agentStop.json", "copilot-sessionStart.json", "/additionalContext"),
    ] {
        let scene = Scene::with_triage(3);
        fire(&scene, client, &recorded(&scene, stop));
        let mut command = scene.command();
        command.args(["hook", "session-start", "--client", client]);
        let payload = recorded(&scene, start).to_string();
        let ran = finish(scene.spawn(command, payload.as_bytes()));
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        let told = said.pointer(place).and_then(Value::as_str);
        assert!(told.is_some_and(|told| told.contains("triage/web")), "{client}: {ran:?}");
    }
}

#[test]
fn the_table_in_the_documentation_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- drawn from the code -->\n\n", "\n<!-- end -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (shown, after) = rest.split_once(end).unwrap();
    let drawn = phasegate_clients::table::markdown();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, format!("{before}{start}{drawn}{end}{after}")).unwrap();
        return;
    }
    assert!(shown == drawn, "INSTA_UPDATE=always writes it:\n{drawn}");
}
