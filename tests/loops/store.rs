//! The store of the original tool, the fallback file, and what is in neither as it should be.

use serde_json::{Value, json};

use super::{DONE, FILE, MESSAGES, body, iterates, say, states, store, with_loop};
use crate::scene::{Scene, finish};

#[test]
fn the_original_tools_store_is_understood_and_what_we_add_is_valid_for_it() {
    let scene = with_loop(1, 3);
    let before = scene.read(MESSAGES);
    iterates(&say(&scene, "On it."), 2, 3);
    let after = scene.read(MESSAGES);
    let added = after.strip_prefix(&before).expect("only lines are added");
    assert_eq!(added.lines().count(), 1);
    let line: Value = serde_json::from_str(added).unwrap();
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["body", "created_at", "git", "id", "parent_id", "sender", "topic_id", "type"]
    );
    assert_eq!(
        (&line["type"], &line["topic_id"]),
        (&json!("message"), &json!("01JFKQTOPICBBBBBBBBBBBBBBB"))
    );
    assert_eq!((&line["parent_id"], &line["sender"]), (&Value::Null, &Value::Null));
    let id = line["id"].as_str().unwrap();
    assert!(id.len() == 26 && id.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c)));
    assert!(id > "01JFKQMSG00000000000000003", "ids sort by time");
    assert!(line["created_at"].as_i64().unwrap() > 1_700_000_000_000);
    let state = states(&scene).pop().unwrap();
    assert_eq!(state["stack"][0]["review"], json!({ "k": [1] }), "fields of a mode stay");
    assert_eq!((&state["run_id"], &state["event"]), (&json!("loop-1"), &json!("STATE")));
    // Whole seconds and Z: what jq's `fromdate` reads.
    let time = state["updated_at"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[test]
fn a_message_that_somebody_else_posts_is_not_overwritten() {
    let scene = with_loop(1, 9);
    iterates(&say(&scene, "x"), 2, 9);
    // As the original tool posts: under its own lock, with its own fields.
    let abort = json!({ "type": "message", "id": "01ZZZZMSG00000000000000009", "topic_id": "01JFKQTOPICBBBBBBBBBBBBBBB",
        "parent_id": null, "body": r#"{"schema":1,"event":"ABORT","stack":[]}"#, "created_at": jiff::Timestamp::now().as_millisecond(), "sender": null, "git": null });
    let text = scene.read(MESSAGES);
    scene.file(MESSAGES, format!("{text}{abort}"));
    say(&scene, "x").allows_saying("has ended in phase aborted");
    assert!(scene.ok(&["status"]).contains("ended in phase aborted"));
    // Its line had no newline at the end, and the next one still stands alone.
    scene.ok(&["loop", "start", "--prompt", "again"]);
    iterates(&say(&scene, "x"), 1, 10);
}

#[test]
fn malformed_state_is_aborted_loudly_and_traps_nobody() {
    for text in [
        store(&json!("not an object")),
        store(&Value::Null).replace("\"null\"", "\"{ broken\""),
        store(&json!({ "schema": 1, "event": "STATE", "stack": "x" })),
    ] {
        let scene = Scene::bare();
        scene.file(MESSAGES, text.clone());
        scene.stop().allows_saying("Run loop/current was cancelled");
        let last = states(&scene).pop().unwrap();
        assert_eq!((&last["event"], &last["reason"]), (&json!("ABORT"), &json!("CORRUPTED")));
        scene.stop().allows();
        assert!(scene.ok(&["status"]).contains("ended in phase aborted"));
        // And a start gets out of it, too.
        let scene = Scene::bare();
        scene.file(MESSAGES, text);
        scene.ok(&["loop", "start", "--prompt", "x"]);
        iterates(&say(&scene, "x"), 1, 10);
    }
}

#[test]
fn the_fallback_file_is_counted_in_place_and_removed_at_the_end() {
    let text =
        "---\nactive: true\nmode: loop\niteration: 1\nmax_iterations: 3\n# kept\n---\n\nDo it.\n";
    let scene = Scene::bare();
    scene.file(FILE, text);
    iterates(&say(&scene, "x"), 2, 3);
    let now = scene.read(FILE);
    assert!(
        now.starts_with("---\nactive: true\nmode: loop\niteration: 2\nmax_iterations: 3\n# kept\n")
    );
    assert!(now.ends_with("---\n\nDo it.\n") && now.contains("# kept"), "{now}");
    say(&scene, DONE).allows_saying("The loop is complete");
    assert!(!scene.exists(FILE));
    say(&scene, "x").allows();
    // A new file is a new loop.
    scene.file(FILE, text);
    iterates(&say(&scene, "x"), 2, 3);
    scene.file(FILE, text.replace("iteration: 1", "iteration: one"));
    say(&scene, "x").allows_saying("corrupted");
    assert!(!scene.exists(FILE));
}

#[test]
fn a_finished_topic_does_not_mask_an_active_file() {
    let scene = Scene::bare();
    scene.file(MESSAGES, store(&json!({ "schema": 1, "event": "DONE", "stack": [] })));
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
}

#[test]
fn the_store_is_read_as_the_original_tool_reads_it() {
    let message = |id: &str, topic: &str, parent: Value, time: i64, body: Value| {
        json!({ "type": "message", "id": id, "topic_id": topic, "parent_id": parent, "body": body,
            "created_at": time, "sender": null, "git": null })
    };
    let (first, second) = ("01JFKQTOPICBBBBBBBBBBBBBBB", "01JFKQTOPICCCCCCCCCCCCCCCC");
    let later = 1_734_777_000_002i64;
    // An answer to a message is no state.
    let scene = with_loop(0, 3);
    let answer = message("01A", first, json!("01JFKQMSG00000000000000002"), later, json!("why?"));
    scene.file(MESSAGES, format!("{}{answer}\n", scene.read(MESSAGES)));
    iterates(&say(&scene, "x"), 1, 3);
    // Two topics with one name, as a merge leaves them: the newest message counts. CRLF, no end.
    let scene = with_loop(0, 3);
    let topic = json!({ "type": "topic", "id": second, "name": "loop:current", "description": "", "created_at": later });
    let state = message("01B", second, Value::Null, later, json!(body(4, 9).to_string()));
    let text = format!("{}{topic}\n{state}", scene.read(MESSAGES)).replace('\n', "\r\n");
    scene.file(MESSAGES, text);
    iterates(&say(&scene, "x"), 5, 9);
    iterates(&say(&scene, "x"), 6, 9);
    // A body that is an object is what it says.
    let scene = with_loop(0, 3);
    let abort = message(
        "01C",
        first,
        Value::Null,
        later,
        json!({ "schema": 1, "event": "ABORT", "stack": [] }),
    );
    scene.file(MESSAGES, format!("{}{abort}\n", scene.read(MESSAGES)));
    say(&scene, "x").allows();
}

#[test]
fn the_store_leads_nowhere_else() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["messages.jsonl", "lock"] {
        let scene = Scene::new();
        std::fs::create_dir(scene.path(".jwz")).unwrap();
        let target = outside.path().join(name);
        std::os::unix::fs::symlink(&target, scene.path(&format!(".jwz/{name}"))).unwrap();
        let ran = scene.run(&["loop", "start", "--prompt", "x"]);
        assert!(ran.code == Some(1) && ran.stderr.contains("is not a regular file"), "{ran:?}");
        assert!(!target.exists());
    }
}

#[test]
fn texts_are_written_as_they_are() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", r#"{"task":"x","n":1}"#]);
    let file =
        states(&scene).pop().unwrap()["stack"][0]["prompt_file"].as_str().unwrap().to_string();
    assert_eq!(scene.read(&file), "{\"task\":\"x\",\"n\":1}\n");
    // From a folder below, a path is what it is there.
    scene.file("sub/task.md", "x");
    let mut command = scene.command();
    command.args(["loop", "start", "--prompt-file", "task.md"]).current_dir(scene.path("sub"));
    assert_eq!(finish(scene.spawn(command, b"")).code, Some(0));
    assert_eq!(states(&scene).pop().unwrap()["stack"][1]["prompt_file"], "sub/task.md");
}

#[test]
fn an_upgrade_in_mid_run_keeps_the_consent() {
    let scene = Scene::new();
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
    // As a new version of a built-in definition does, this makes the run keep to its copy.
    scene.file(".phasegate/config.toml", "[workflow.loop.const]\nMAX_ITERATIONS = 11\n");
    say(&scene, DONE).allows_saying("The loop is complete");
    assert!(!scene.exists(FILE));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn a_kill_while_the_file_is_removed_leaves_no_broken_run() {
    let scene = Scene::bare();
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!(DONE);
    let mut command = scene.command();
    command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", "after-document");
    let died = scene.spawn(command, payload.to_string().as_bytes()).wait_with_output().unwrap();
    assert!(!died.status.success() && !scene.exists(FILE));
    scene.stop().allows();
    assert!(scene.ok(&["status"]).contains("done"));
}

#[test]
fn a_state_without_a_time_has_that_of_its_message() {
    for (age, goes_on) in [(60, true), (3 * 3600, false)] {
        let scene = Scene::bare();
        let mut state = body(1, 5);
        state["updated_at"] = Value::Null;
        let at = jiff::Timestamp::now().as_millisecond() - age * 1000;
        let text = store(&state).replace("1734777000001", &at.to_string());
        assert!(text.contains(&at.to_string()));
        scene.file(MESSAGES, text);
        let said = say(&scene, "x");
        assert_eq!(said.json["decision"] == "block", goes_on, "{said:?}");
    }
}
