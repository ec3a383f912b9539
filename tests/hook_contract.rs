//! What a client can rely on: exit 0, one JSON object, and an allow where nothing is to decide.

use serde_json::json;

use crate::scene::{STATE, Scene, finish};

#[test]
fn without_a_project_the_stop_is_allowed_and_nothing_is_written() {
    let scene = Scene::bare();
    scene.stop().allows();
    assert!(scene.snapshot().is_empty());
}

#[test]
fn without_a_run_the_stop_is_allowed_and_nothing_is_written() {
    let scene = Scene::new();
    scene.stop().allows();
    assert!(scene.snapshot().is_empty());
}

#[test]
fn the_way_out_of_a_block_is_told_to_the_person_and_not_to_the_model() {
    let scene = Scene::with_triage(3);
    let said = scene.stop();
    said.blocks("**triage-investigator**");
    assert!(!said.json["reason"].as_str().unwrap().contains("cancel"), "{said:?}");
    assert_eq!(
        said.json["systemMessage"],
        "phasegate: This is run triage/web. To end it: `phasegate cancel triage/web`."
    );
    let keys: Vec<&String> = said.json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["decision", "reason", "systemMessage"]);
}

#[test]
fn the_project_is_found_from_a_folder_below_it() {
    let scene = Scene::with_triage(1);
    std::fs::create_dir_all(scene.path("deep/down/here")).unwrap();
    let mut payload = scene.payload();
    payload["cwd"] = json!(scene.path("deep/down/here"));
    scene.hook(&payload).blocks("1 of 1 entries");
}

#[test]
fn payloads_of_old_clients_are_understood() {
    let scene = Scene::with_triage(1);
    let payload = json!({
        "session_id": "s1", "transcript_path": "/nowhere", "cwd": scene.root(),
        "permission_mode": "default", "hook_event_name": "Stop", "stop_hook_active": false,
    });
    scene.hook(&payload).blocks("1 of 1 entries");
}

#[test]
fn without_a_cwd_the_working_folder_counts() {
    let scene = Scene::with_triage(1);
    scene.hook(&json!({})).blocks("1 of 1 entries");
}

#[test]
fn phasegate_disable_is_looked_at_before_anything_else() {
    let scene = Scene::with_triage(1);
    let before = scene.snapshot();
    scene.hook_raw(b"this is not even JSON", &[("PHASEGATE_DISABLE", "1")]).allows();
    assert_eq!(scene.snapshot(), before);
    let zero =
        scene.hook_raw(scene.payload().to_string().as_bytes(), &[("PHASEGATE_DISABLE", "0")]);
    zero.blocks("1 of 1 entries");
}

#[test]
fn background_work_is_waited_for_without_blocking() {
    let scene = Scene::with_triage(1);
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{ "id": "b1", "status": "running" }]);
    scene.hook(&payload).allows_saying("waits for background work");
    assert_eq!(scene.journal("triage/web")[0]["answer"]["outcome"], "waiting");
    assert_eq!(scene.journal("triage/web")[0]["answer"]["until"], "background");
    payload["background_tasks"] = json!([{ "id": "b1", "status": "completed" }]);
    scene.hook(&payload).blocks("1 of 1 entries");
}

#[test]
fn a_step_that_waits_for_background_work_keeps_its_transition() {
    let scene = Scene::with_triage(1);
    scene.result(0, true, "g");
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{}]);
    scene.hook(&payload).allows_saying("waits for background work");
    assert_eq!(scene.json(STATE)["phase"], "aggregation");
}

#[test]
fn a_finished_run_masks_nothing() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/triage/aaa_triage.json", r#"{"phase":"complete","entries":[]}"#);
    scene.stop().blocks("web_triage.json");
    scene.result(0, true, "g").stop_again().blocks("aggregat");
    let state = scene.read(STATE);
    scene.file(
        STATE,
        state.replace("\"entries\"", "\"aggregation\":{\"status\":\"failed\"},\"entries\""),
    );
    scene.stop_again().allows_saying("the aggregation failed");
    let lines = scene.journal("triage/web").len();
    scene.stop_again().allows();
    assert_eq!(scene.journal("triage/web").len(), lines, "a finished run decides nothing");
}

#[test]
fn a_finished_run_that_is_taken_up_again_answers_again() {
    let scene = Scene::with_triage(1);
    let open = scene.read(STATE);
    scene.file(STATE, r#"{"phase":"complete","entries":[]}"#);
    scene.stop().allows();
    scene.stop().allows();
    scene.file(STATE, open);
    scene.stop().blocks("1 of 1 entries");
}

#[test]
fn two_stops_are_two_events_even_if_their_payloads_are_equal() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.stop().blocks("1 of 1");
    assert_eq!(scene.journal("triage/web").len(), 2);
}

#[test]
fn one_stop_that_two_hooks_hear_of_is_one_event() {
    // Both are on their way at once, as a client fires them; a busy machine may start the second too late.
    let is_one = |_| {
        let scene = Scene::with_triage(1);
        scene.file("transcript.jsonl", "{}\n");
        let hook = || {
            let mut command = scene.command();
            command.args(["hook", "stop"]);
            scene.spawn(command, scene.payload().to_string().as_bytes())
        };
        let both = [hook(), hook()].map(|hook| finish(hook).stdout);
        assert!(both[0].contains("1 of 1"), "{both:?}");
        let is_one = scene.journal("triage/web").len() == 1;
        assert!(!is_one || both[0] == both[1], "{both:?}");
        // One that comes after the answer is another stop, also where the transcript lags behind.
        let before = scene.journal("triage/web").len();
        scene.stop();
        assert_eq!(scene.journal("triage/web").len(), before + 1);
        is_one
    };
    assert!((0..20).any(is_one));
}

#[test]
fn an_unknown_event_or_client_is_allowed_and_named() {
    let scene = Scene::with_triage(1);
    for (args, text) in [
        (vec!["hook", "banana"], "banana"),
        (vec!["hook"], "there is no hook event"),
        (vec!["hook", "stop", "--client", "emacs"], "emacs"),
        (vec!["hook", "stop", "--clients=claude"], "--clients=claude"),
        (vec!["-C", "/no/such", "hook", "stop"], "/no/such"),
    ] {
        let mut command = scene.command();
        command.args(&args);
        let ran = finish(scene.spawn(command, b"{}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(json["systemMessage"].as_str().unwrap().contains(text), "{ran:?}");
    }
}

#[test]
fn a_payload_of_another_event_is_not_answered_as_a_stop() {
    let scene = Scene::with_triage(1);
    let mut payload = scene.payload();
    payload["hook_event_name"] = json!("SubagentStop");
    scene.hook(&payload).allows_saying("for the event SubagentStop");
}

#[test]
fn the_hook_has_help_for_people() {
    let scene = Scene::new();
    assert!(scene.ok(&["hook", "--help"]).contains("Usage: phasegate hook EVENT"));
}

#[test]
fn the_project_is_found_through_a_link() {
    let scene = Scene::with_triage(1);
    std::fs::create_dir(scene.path("inner")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(scene.path("inner"), &link).unwrap();
    let mut payload = scene.payload();
    payload["cwd"] = json!(link);
    scene.hook(&payload).blocks("1 of 1 entries");
}

#[test]
fn a_reason_stays_below_what_clients_pass_on() {
    let scene = Scene::new();
    let long = "x".repeat(3_000);
    let entries: Vec<_> = (0..20)
        .map(|index| json!({ "entry_index": index, "name": long, "status": "pending" }))
        .collect();
    let state = json!({ "phase": "triage", "batch_size": 20, "entries": entries });
    scene.file(STATE, state.to_string());
    let said = scene.stop();
    said.blocks_telling("phasegate cancel triage/web");
    assert!(said.json["reason"].as_str().unwrap().chars().count() < 10_000);
}

#[test]
fn what_opens_the_gate_is_said_by_status_and_where_a_session_begins() {
    let scene = Scene::with_triage(1);
    let start = |env: &[(&str, &str)]| {
        let mut payload = scene.payload();
        payload["hook_event_name"] = json!("SessionStart");
        scene.fire("session-start", payload.to_string().as_bytes(), env).json["systemMessage"]
            .to_string()
    };
    let status = |env: &[(&str, &str)]| {
        let mut command = scene.command();
        command.args(["status"]).envs(env.iter().copied());
        finish(scene.spawn(command, b"")).stdout
    };
    assert!(!status(&[]).contains("the gate is open"));
    assert_eq!(start(&[]), "null");
    for (name, text) in [
        ("PHASEGATE_DISABLE", "PHASEGATE_DISABLE=1 is set: every stop is allowed"),
        ("PHASEGATE_TRUST_ALL", "PHASEGATE_TRUST_ALL=1 is set: every workflow may run commands"),
    ] {
        assert!(start(&[(name, "1")]).contains(text), "{name}");
        assert!(status(&[(name, "1")]).contains(&format!("the gate is open: {text}")), "{name}");
    }
    // Sessions of our own agents must not be held, and need not hear of it.
    assert_eq!(start(&[("PHASEGATE_DISABLE", "1"), ("PHASEGATE_TOKEN", "x")]), "null");
    scene.file("home/.claude/settings.json", r#"{"disableAllHooks": true}"#);
    let shown = status(&[]);
    assert!(shown.contains("the gate is open:") && shown.contains("`disableAllHooks`"), "{shown}");
    scene.file("home/.claude/settings.json", "{}");
    scene.file(".claude/settings.local.json", r#"{"env": {"PHASEGATE_TRUST_ALL": "1"}}"#);
    assert!(status(&[]).contains("settings.local.json sets PHASEGATE_TRUST_ALL=1"));
}
