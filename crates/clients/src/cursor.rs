//! Cursor. It is told to go on by a message, and counts how often that was. Known from the code of
//! `@cursor/sdk` 1.0.32; never run by us.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::{Facts, Quirk};
use crate::payload::{Payload, Sample, told};
use crate::problem::Problem;
use crate::reply;
use crate::settings::{self, Entry, Scope, Settings, stop_line};

#[derive(Debug)]
pub struct Cursor;

static FACTS: Facts = Facts {
    name: "cursor",
    title: "Cursor",
    processes: &["cursor-agent"],
    folders: &["/share/cursor-agent/versions/"],
    marks: &[".cursor"],
    stop: "stop",
    also_reads: &["claude"],
    quirks: &[Quirk::DropsArguments],
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
        // Without a limit of its own it asks a hook five times, and then ends the turn in silence.
        let own = json!({ "command": stop_line(FACTS.name), "loop_limit": null });
        let hooks = vec![Entry::hook("stop", own)];
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
            is_broken_off: matches!(sent.status.as_deref(), Some("aborted" | "error")),
            ..Payload::default()
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

    fn own_problems(&self, shown: &str, settings: &Value) -> Vec<Problem> {
        let hooks = settings.pointer("/hooks/stop").and_then(Value::as_array);
        let is_own = |hook: &&Value| settings::is_hook(&hook.to_string());
        let own = hooks.into_iter().flatten().filter(is_own);
        let limited = own.filter(|hook| hook.get("loop_limit") != Some(&Value::Null));
        let problem = |hook: &Value| {
            let limit = hook.get("loop_limit").and_then(Value::as_u64).unwrap_or(5);
            Problem {
                is_fatal: false,
                opens: false,
                summary: format!("{shown} limits {} to {limit} continuations", FACTS.title),
                remedy: format!("add `\"loop_limit\": null` to the hook in {shown}"),
            }
        };
        limited.map(problem).collect()
    }

    fn go_on(&self, reason: &str) -> Map<String, Value> {
        reply::members([("followup_message", reason.into())])
    }

    fn reason(&self, answer: &Value) -> Option<String> {
        let message = answer.get("followup_message")?;
        Some(message.as_str().unwrap_or_default().to_string())
    }
}
