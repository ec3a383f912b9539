//! Gemini CLI. It calls a stop `AfterAgent`, and a block a denial.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::facts::{Cap, Facts};
use crate::headless::{Cost, Dialogue, Rights, Spoken, words};
use crate::payload::{Payload, Sample, told};
use crate::settings::{Entry, Scope, Settings, TimeUnit, group, stop_line};

#[derive(Debug)]
pub struct Gemini;

static FACTS: Facts = Facts {
    name: "gemini",
    title: "Gemini CLI",
    program: Some("gemini"),
    processes: &["gemini"],
    folders: &["/@google/gemini-cli/"],
    marks: &[".gemini"],
    stop: "AfterAgent",
    cap: Some(Cap { most: 100, on_all: true, variable: None }),
    decisions: &["deny", "block"],
    timeouts: TimeUnit::Milliseconds,
    ..Facts::COMMON
};

/// What it sends to a hook.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    hook_event_name: Option<String>,
    session_id: Option<String>,
    transcript_path: Option<PathBuf>,
    cwd: Option<PathBuf>,
    stop_hook_active: Option<bool>,
    prompt_response: Option<String>,
}

impl Client for Gemini {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 60_000 });
        let entries = vec![Entry::hook("AfterAgent", group(&own)), Entry::server("mcpServers")];
        vec![Settings::new(".gemini/settings.json", entries)]
    }

    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let sent: Sent = serde_json::from_slice(json)?;
        Ok(Payload {
            event: sent.hook_event_name,
            session: told([sent.session_id]),
            transcript: sent.transcript_path,
            folder: sent.cwd,
            after_block: sent.stop_hook_active,
            last_message: sent.prompt_response,
            ..Payload::default()
        })
    }

    fn sample(&self, stop: &Sample) -> Value {
        json!({
            "session_id": stop.session,
            "transcript_path": stop.root.join("none"),
            "cwd": stop.root,
            "hook_event_name": "AfterAgent",
            "stop_hook_active": stop.after_block,
            "prompt_response": stop.said,
        })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Gemini)
    }
}

/// What it prints at the end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Turn {
    response: Option<String>,
    session_id: Option<String>,
}

impl Dialogue for Gemini {
    /// Every turn is a conversation of its own.
    fn command(&self, _session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mode = if rights.all { "yolo" } else { "auto_edit" };
        words(&["gemini", "--output-format", "json", "--approval-mode", mode])
    }

    fn spoken(&self, printed: &str) -> Spoken {
        let Ok(turn) = serde_json::from_str::<Turn>(printed) else { return Spoken::plain(printed) };
        let text = turn.response.unwrap_or_default();
        Spoken { text, session: turn.session_id, cost: Cost::default() }
    }
}
