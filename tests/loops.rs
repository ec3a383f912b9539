//! The loop: its store, its signals, its frames, and its contract with the client.

mod contract;
mod signals;
mod store;
mod worktrees;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

pub(super) const MESSAGES: &str = ".jwz/messages.jsonl";

/// A store as the original tool writes it, with another topic and a message of each.
pub(super) fn store(body: &Value) -> String {
    let mut text = String::new();
    for (id, name) in
        [("01JFKQTOPICAAAAAAAAAAAAAAA", "notes"), ("01JFKQTOPICBBBBBBBBBBBBBBB", "loop:current")]
    {
        let topic = json!({ "type": "topic", "id": id, "name": name, "description": "", "created_at": 1_734_777_000_000i64 });
        writeln!(text, "{topic}").unwrap();
    }
    let message = |id: &str, topic: &str, body: &str| {
        json!({ "type": "message", "id": id, "topic_id": topic, "parent_id": null, "body": body,
            "created_at": 1_734_777_000_001i64, "sender": { "id": "s", "name": "n" },
            "git": { "oid": "abc", "head": "main", "dirty": false, "prefix": "" } })
    };
    writeln!(
        text,
        "{}",
        message(
            "01JFKQMSG00000000000000001",
            "01JFKQTOPICBBBBBBBBBBBBBBB",
            r#"{"schema":1,"event":"DONE","stack":[]}"#
        )
    )
    .unwrap();
    writeln!(
        text,
        "{}",
        message("01JFKQMSG00000000000000002", "01JFKQTOPICBBBBBBBBBBBBBBB", &body.to_string())
    )
    .unwrap();
    writeln!(
        text,
        "{}",
        message(
            "01JFKQMSG00000000000000003",
            "01JFKQTOPICAAAAAAAAAAAAAAA",
            "loop:current is not this"
        )
    )
    .unwrap();
    text.push_str("not a line of JSON\n");
    text
}

pub(super) fn now(seconds: i64) -> String {
    (jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds)).to_string()
}

pub(super) fn body(iter: u64, max: u64) -> Value {
    json!({ "schema": 1, "event": "STATE", "run_id": "loop-1", "updated_at": now(5), "stack": [
        { "id": "f1", "mode": "loop", "iter": iter, "max": max, "prompt_file": "task.md", "review": { "k": [1] } }] })
}

pub(super) fn with_loop(iter: u64, max: u64) -> Scene {
    let scene = Scene::bare();
    scene.file(MESSAGES, store(&body(iter, max)));
    scene
}

pub(super) fn say(scene: &Scene, text: &str) -> Said {
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!(text);
    scene.hook(&payload)
}

/// The messages of the topic, oldest first, as the original tool would read them.
pub(super) fn states(scene: &Scene) -> Vec<Value> {
    let text = scene.read(MESSAGES);
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let topic = lines.iter().find(|line| line["name"] == "loop:current").unwrap()["id"].clone();
    let own = lines.iter().filter(|line| line["type"] == "message" && line["topic_id"] == topic);
    own.filter_map(|line| serde_json::from_str(line["body"].as_str()?).ok()).collect()
}

#[track_caller]
pub(super) fn iterates(said: &Said, n: u64, max: u64) {
    let reason = format!(
        "[ITERATION {n}/{max}] Continue working on the task. Check your progress and either complete the task or keep iterating."
    );
    assert_eq!(
        (said.code, &said.json),
        (Some(2), &json!({ "decision": "block", "reason": reason }))
    );
}

pub(super) const DONE: &str = "<loop-done>COMPLETE</loop-done>";

/// A line of a transcript.
pub(super) fn line(kind: &str, meta: bool, text: &str) -> String {
    let content =
        if kind == "assistant" { json!([{ "type": "text", "text": text }]) } else { json!(text) };
    json!({ "type": kind, "isMeta": meta, "message": { "role": kind, "content": content } })
        .to_string()
}

pub(super) const FILE: &str = ".claude/idle-loop.local.md";
