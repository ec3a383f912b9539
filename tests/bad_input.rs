//! Bad input: a clear message, exit 0, and nothing changed.

use serde_json::json;

use crate::scene::{STATE, Scene};

/// Fires the hook with bad input: it must allow, say why, and leave everything but the log alone.
#[track_caller]
fn refused(scene: &Scene, input: &[u8], text: &str) {
    let before = scene.snapshot();
    scene.hook_raw(input, &[]).allows_saying(text);
    let mut after = scene.snapshot();
    after.retain(|(path, _)| !path.ends_with("faults.jsonl"));
    let mut before = before;
    before.retain(|(path, _)| !path.ends_with("faults.jsonl"));
    assert_eq!(before, after);
}

#[test]
fn an_empty_stdin() {
    refused(&Scene::with_triage(1), b"", "the payload on stdin is empty");
    refused(&Scene::with_triage(1), b" \n", "the payload on stdin is empty");
}

#[test]
fn no_json() {
    refused(&Scene::with_triage(1), b"hello", "the payload is not a JSON object");
    refused(&Scene::with_triage(1), b"{\"cwd\": ", "the payload does not have the expected shape");
    refused(&Scene::with_triage(1), b"[]", "the payload is not a JSON object");
    refused(&Scene::with_triage(1), b"\xff\xfe\x00", "the payload is not a JSON object");
}

#[test]
fn a_byte_order_mark_is_no_obstacle() {
    let scene = Scene::with_triage(1);
    let payload = format!("\u{feff}{}", scene.payload());
    scene.hook_raw(payload.as_bytes(), &[]).blocks("1 of 1 entries");
}

#[test]
fn ten_megabytes() {
    let scene = Scene::with_triage(1);
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!("x".repeat(10 << 20));
    refused(&scene, payload.to_string().as_bytes(), "larger than 8 MB");
}

#[test]
fn wrong_types() {
    let scene = Scene::with_triage(1);
    for (field, value) in [
        ("cwd", json!(5)),
        ("stop_hook_active", json!("yes")),
        ("session_id", json!([])),
        ("background_tasks", json!(3)),
    ] {
        let mut payload = scene.payload();
        payload[field] = value;
        refused(
            &scene,
            payload.to_string().as_bytes(),
            "the payload does not have the expected shape",
        );
    }
}

#[test]
fn null_fields_are_missing_fields() {
    let scene = Scene::with_triage(1);
    let mut payload = scene.payload();
    for field in [
        "session_id",
        "transcript_path",
        "stop_hook_active",
        "last_assistant_message",
        "background_tasks",
    ] {
        payload[field] = json!(null);
    }
    scene.hook(&payload).blocks("1 of 1 entries");
}

#[test]
fn no_such_cwd() {
    let scene = Scene::with_triage(1);
    refused(&scene, br#"{"cwd": "/no/such/folder"}"#, "/no/such/folder");
}

#[test]
fn invalid_json_in_the_state_document() {
    let scene = Scene::with_triage(1);
    scene.file(STATE, "{\"phase\": \"triage\", ");
    let before = scene.read(STATE);
    scene.stop().allows_saying("web_triage.json is not valid JSON");
    assert_eq!(scene.read(STATE), before);
    assert!(scene.read(".phasegate/faults.jsonl").contains("not valid JSON"));
}

#[test]
fn an_unreadable_state_document() {
    let scene = Scene::with_triage(1);
    std::fs::remove_file(scene.path(STATE)).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", scene.path(STATE)).unwrap();
    scene.stop().allows_saying("web_triage.json leads out of the project through a link");
}

#[test]
fn a_state_document_that_is_gone_ends_nothing_silently() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    std::fs::remove_file(scene.path(STATE)).unwrap();
    let said = scene.stop();
    said.allows_saying("web_triage.json of run triage/web is gone");
    said.allows_saying("phasegate cancel triage/web");
    assert!(scene.ok(&["status"]).contains("broken"));
    assert!(scene.ok(&["log", "triage/web"]).contains("BLOCK"));
    scene.ok_by_hand(&["cancel", "triage/web"]);
    scene.stop().allows_saying("was cancelled from a terminal");
}

#[test]
fn a_state_that_is_a_search_of_everything_is_bounded() {
    let scene = Scene::new();
    for folder in 0..300 {
        scene.file(&format!("d{}/e{}/f{folder}/x", folder % 7, folder % 11), "");
    }
    let groups = r#"{"g": {"group_id": "g", "sub_phase": "planning"}}"#;
    let dir = ["**"; 20].join("/");
    scene.file(STATE, format!(r#"{{"phase":"fix-planning","entries":[],"fix_planning":{{"fix_plans_dir":"{dir}","groups":{groups}}}}}"#));
    scene.stop().blocks("0/5 plans");
}

#[test]
fn our_own_files_are_not_written_through_links_out_of_the_project() {
    let scene = Scene::with_triage(1);
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "precious, without a newline").unwrap();
    for name in ["journal.jsonl", "run.json", "lock"] {
        let link = scene.path(&format!(".phasegate/runs/triage/web/{name}"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        scene.stop().allows_saying("leads out of the project through a link");
        std::fs::remove_file(link).unwrap();
    }
    std::fs::remove_file(scene.path(".phasegate/faults.jsonl")).unwrap();
    std::os::unix::fs::symlink(outside.path(), scene.path(".phasegate/faults.jsonl")).unwrap();
    scene.file(STATE, "{");
    scene.stop().allows_saying("not valid JSON");
    assert_eq!(std::fs::read_to_string(outside.path()).unwrap(), "precious, without a newline");
}

/// Who wrote what does not fit is told, once: a sub-agent's near miss opens no gate.
#[test]
fn a_state_document_that_does_not_fit_holds_the_agent_that_wrote_it() {
    for (state, text) in [
        (r#"{"entries":[]}"#, "state.phase is missing"),
        (r#"{"phase":"triage","entries":{}}"#, "state.entries is an object"),
        (r#"{"phase":"triage","entries":[],"batch_size":"$(touch pwned)"}"#, "state.batch_size"),
        (r#"{"phase":"aggregation","entries":[],"aggregation":{"status":"complete"}}"#, "one of"),
        (r"[1,2]", "state is a list"),
        ("null", "state is null"),
        ("\"x\"", "state is \"x\""),
    ] {
        let scene = Scene::new();
        scene.file(STATE, state);
        scene.stop().blocks(text);
        scene.stop_again().allows_saying("stuck");
        assert_eq!(scene.read(STATE), state);
        assert!(!scene.exists("pwned"));
    }
}

#[test]
fn a_phase_that_nobody_knows_is_a_fault() {
    for (state, text) in [
        (r#"{"phase":"banana","entries":[]}"#, "`phase` is \"banana\""),
        (r#"{"phase":7,"entries":[]}"#, "`phase` is 7"),
    ] {
        let scene = Scene::new();
        scene.file(STATE, state);
        let said = scene.stop();
        said.allows_saying(text);
        said.allows_saying("The stop was allowed");
        assert_eq!(scene.read(STATE), state);
    }
}

#[test]
fn deep_json_is_refused() {
    let scene = Scene::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    scene.file(STATE, format!(r#"{{"phase":"triage","entries":[],"x":{deep}}}"#));
    scene.stop().allows_saying("recursion limit");
}

#[test]
fn missing_fix_planning_ends_the_run_instead_of_crashing() {
    let scene = Scene::new();
    scene.file(STATE, r#"{"phase":"fix-planning","entries":[]}"#);
    scene.stop().allows_saying("Triage is complete");
    assert_eq!(scene.json(STATE)["phase"], "complete");
}

#[test]
fn a_definition_with_errors_allows_and_names_the_line() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/w.toml",
        "name = \"w\"\nabout = \"a\"\ninitial = \"x\"\n[phase.a]\n",
    );
    scene.file(".phasegate/w/one.json", r#"{"phase":"a"}"#);
    scene.stop().allows_saying("w.toml:3:11: there is no phase `x`");
    // A head that cannot be read is a fault even without a run: a gate that is off must be seen.
    scene.file(".phasegate/workflows/w.toml", "name = ");
    scene.stop().allows_saying("workflow w");
}

#[test]
fn one_broken_run_does_not_hide_another() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/triage/aaa_triage.json", "{");
    let said = scene.stop();
    said.blocks("web_triage.json");
    assert!(
        said.json["systemMessage"].as_str().unwrap().contains("aaa_triage.json is not valid JSON")
    );
}

#[test]
fn a_configuration_with_errors_allows_and_names_the_line() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/config.toml", "[workflow.triage]\nbanana = 1\n");
    scene.stop().allows_saying("config.toml:2");
    scene.file(".phasegate/config.toml", "[workflow.triage.const]\nREQUIRED_PLAN = 1\n");
    scene.stop().allows_saying("REQUIRED_PLAN");
}

#[test]
fn a_corrupt_ledger_is_set_aside_and_said() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.file(".phasegate/runs/triage/web/run.json", "{ broken");
    let said = scene.stop();
    said.blocks("1 of 1");
    assert!(said.json["systemMessage"].as_str().unwrap().contains("run.json.corrupt-1"));
    assert_eq!(scene.read(".phasegate/runs/triage/web/run.json.corrupt-1"), "{ broken");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_cancelled_run_stays_cancelled_without_its_ledger() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.ok_by_hand(&["cancel"]);
    scene.file(".phasegate/runs/triage/web/run.json", "{ broken");
    scene.stop().allows_saying("`ledger` was changed from that of line 2 to nothing");
    scene.stop().allows();
}

#[test]
fn a_journal_that_cannot_be_continued_is_set_aside() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.file(".phasegate/runs/triage/web/journal.jsonl", "rubbish\n");
    scene.stop().blocks("1 of 1");
    assert_eq!(scene.read(".phasegate/runs/triage/web/journal.jsonl.corrupt-1"), "rubbish\n");
    assert!(
        scene.journal("triage/web")[0]["notes"].to_string().contains("journal.jsonl.corrupt-1")
    );
}

#[test]
fn a_ledger_of_a_later_version_is_left_alone() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    let path = ".phasegate/runs/triage/web/run.json";
    let mut ledger = scene.json(path);
    ledger["schema"] = 99.into();
    ledger["later"] = "kept".into();
    scene.file(path, ledger.to_string());
    let journal = scene.read(".phasegate/runs/triage/web/journal.jsonl");
    for _ in 0..2 {
        let said = scene.stop_again();
        said.allows_saying("it was written by a later version of Phasegate (format 99)");
        assert_eq!(said.json.to_string().matches("later version").count(), 1, "{said:?}");
    }
    assert_eq!(scene.read(".phasegate/runs/triage/web/journal.jsonl"), journal);
    assert!(scene.run(&["status"]).stdout.contains("later version"));
    let ran = scene.by_hand(&["cancel", "triage/web"]);
    assert!(ran.stderr.contains("by a later version"), "{ran:?}");
    assert_eq!(scene.json(path), ledger);
}

#[test]
fn a_ledger_of_version_0_1_0_is_taken_over_once() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    let (new, old) =
        (".phasegate/runs/triage/web/run.json", ".phasegate/runs/triage/web/ledger.json");
    let ledger = scene.json(new);
    let flat = serde_json::json!({
        "schema": 1, "run": "triage/web", "seq": ledger["position"]["seq"],
        "head": ledger["position"]["head"], "document": ledger["position"]["document"],
        "owner": ledger["session"]["owner"], "insisting": ledger["session"]["last_block"],
        "tally": ledger["work"]["tally"], "phase": "triage", "written": true,
        "protected": ledger["tamper"]["protected"],
        "definition": ledger["definition"]["digest"],
        "definition_copy": ledger["definition"]["copy"],
    });
    std::fs::remove_file(scene.path(new)).unwrap();
    std::fs::remove_dir_all(scene.path("home/.local/state/phasegate/witness")).unwrap();
    scene.file(old, flat.to_string());
    scene.stop_of("other", false).allows();
    scene.result(0, true, "g");
    scene.stop_again().blocks("1 of 2");
    assert!(!scene.exists(old));
    let now = scene.json(new);
    assert_eq!((&now["schema"], &now["position"]["seq"]), (&2.into(), &2.into()));
    assert_eq!(now["work"]["tally"]["blocks"], 2);
    assert_eq!(now["tamper"]["changes"], serde_json::Value::Null, "{now}");
    scene.ok(&["log", "--verify"]);
}

/// Who has broken a configuration can still look, and get out.
#[test]
fn a_broken_configuration_stops_nobody_from_looking_or_leaving() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("");
    scene.file(".phasegate/config.toml", "nonsense = 3\n");
    scene.stop_again().allows_saying("unknown field `nonsense`");
    let started = scene.hook_of("session-start", "s2", &serde_json::json!({}));
    started.allows_saying("(Nothing is held meanwhile.)");
    for words in [["status"].as_slice(), &["why"], &["log"], &["list"]] {
        let ran = scene.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("nonsense"), "{ran:?}");
    }
    assert!(scene.run(&["status"]).stdout.contains("triage"));
    assert_eq!(scene.run(&["lint"]).code, Some(1));
    scene.ok_by_hand(&["cancel"]);
    std::fs::remove_file(scene.path(".phasegate/config.toml")).unwrap();
    assert!(scene.ok(&["status", "--all"]).contains("cancelled"));
}
