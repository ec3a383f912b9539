//! Antigravity CLI, `agy`. Its hooks are in named groups. It refuses a whole file for one mistake, and
//! says so only in its log. Known from what others have written down; never run by us.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::{Facts, Quirk};
use crate::payload::{Payload, Sample, Work, WorkKind, told};
use crate::reply;
use crate::settings::{Entry, NAME, Scope, Settings, What, stop_line};

#[derive(Debug)]
pub struct Antigravity;

static FACTS: Facts = Facts {
    name: "antigravity",
    title: "Antigravity CLI",
    program: Some("agy"),
    processes: &["agy"],
    // In a project it has only `.agents`, which belongs to others, too.
    marks: &[".gemini/antigravity-cli"],
    seconds: 25,
    decisions: &["continue"],
    quirks: &[Quirk::PlainJson],
    ..Facts::COMMON
};

/// What it sends to a hook for a stop. It names no event.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sent {
    conversation_id: Option<String>,
    transcript_path: Option<PathBuf>,
    workspace_paths: Option<Vec<PathBuf>>,
    termination_reason: Option<String>,
    error: Option<String>,
    /// Nothing works in the background.
    fully_idle: Option<bool>,
}

impl Client for Antigravity {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 30 });
        let group = What::Member(NAME, json!({ "Stop": [own] }));
        let file = match scope {
            Scope::Project => ".agents/hooks.json",
            Scope::User => ".gemini/config/hooks.json",
        };
        vec![Settings::new(file, vec![Entry { path: Vec::new(), what: group }])]
    }

    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let sent: Sent = serde_json::from_slice(json)?;
        let is_error = sent.termination_reason.as_deref() == Some("ERROR");
        // It does not say what that is.
        let is_at_work = sent.fully_idle == Some(false);
        let at_work = is_at_work.then(|| Work { kind: WorkKind::Task, id: String::new() });
        Ok(Payload {
            session: told([sent.conversation_id]),
            transcript: sent.transcript_path,
            folder: sent.workspace_paths.and_then(|folders| folders.into_iter().next()),
            background: at_work.into_iter().collect(),
            is_broken_off: is_error || told([sent.error]).is_some(),
            ..Payload::default()
        })
    }

    fn sample(&self, stop: &Sample) -> Value {
        json!({
            "conversationId": stop.session,
            "transcriptPath": stop.root.join("none"),
            "workspacePaths": [stop.root],
            "executionNum": 1,
            "terminationReason": "NO_TOOL_CALL",
            "error": "",
            "fullyIdle": true,
        })
    }

    fn let_go(&self) -> Map<String, Value> {
        reply::members([("decision", "allow".into())])
    }

    /// Every group of hooks has a name of its own.
    fn stop_hooks<'s>(&self, settings: &'s Value) -> Vec<&'s Value> {
        let groups = settings.as_object().into_iter().flat_map(Map::values);
        groups.filter_map(|group| group.get(FACTS.stop)).collect()
    }
}
