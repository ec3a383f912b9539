//! Cursor. It is told to go on by a message, and counts how often that was.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::{Cap, Facts};
use crate::payload::{Payload, Sample, told};
use crate::reply;
use crate::settings::{Entry, Scope, Settings, stop_line};

#[derive(Debug)]
pub struct Cursor;

static FACTS: Facts = Facts {
    name: "cursor",
    title: "Cursor",
    processes: &["cursor-agent"],
    folders: &["/share/cursor-agent/versions/"],
    marks: &[".cursor"],
    stop: "stop",
    cap: Some(Cap { most: 5, on_all: true, variable: None }),
    also_reads: &["claude"],
    ..Facts::COMMON
};

/// What it sends to a hook.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    hook_event_name: Option<String>,
    session_id: Option<String>,
    conversation_id: Option<String>,
    transcript_path: Option<PathBuf>,
    cwd: Option<PathBuf>,
    workspace_roots: Option<Vec<PathBuf>>,
    stop_hook_active: Option<bool>,
    loop_count: Option<u64>,
    /// How the turn ended.
    status: Option<String>,
    last_assistant_message: Option<String>,
}

impl Client for Cursor {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let hooks = vec![Entry::hook("stop", json!({ "command": stop_line(FACTS.name) }))];
        vec![
            Settings::new(".cursor/hooks.json", hooks).versioned(),
            Settings::new(".cursor/mcp.json", vec![Entry::server("mcpServers")]),
        ]
    }

    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let sent: Sent = serde_json::from_slice(json)?;
        let root = || sent.workspace_roots.and_then(|roots| roots.into_iter().next());
        Ok(Payload {
            event: sent.hook_event_name,
            session: told([sent.session_id, sent.conversation_id]),
            transcript: sent.transcript_path,
            folder: sent.cwd.or_else(root),
            after_block: sent.stop_hook_active.or(sent.loop_count.map(|count| count > 0)),
            last_message: sent.last_assistant_message,
            has_background_work: false,
            is_broken_off: matches!(sent.status.as_deref(), Some("aborted" | "error")),
        })
    }

    fn sample(&self, stop: &Sample) -> Value {
        json!({
            "conversation_id": stop.session,
            "generation_id": stop.session,
            "hook_event_name": "stop",
            "workspace_roots": [stop.root],
            "status": "completed",
            "loop_count": u8::from(stop.after_block),
        })
    }

    fn go_on(&self, reason: &str) -> Map<String, Value> {
        reply::members([("followup_message", reason.into())])
    }

    fn reason(&self, answer: &Value) -> Option<String> {
        let message = answer.get("followup_message")?;
        Some(message.as_str().unwrap_or_default().to_string())
    }
}
