//! Copilot CLI. It calls a stop `agentStop`, and sends it in camel case; entries for `Stop` in files of
//! other clients are sent in snake case. It sends the stops of sub-agents, too.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::{Cap, Facts, Quirk};
use crate::headless::{Dialogue, Rights, Spoken, words};
use crate::payload::{Payload, Sample, told};
use crate::problem::{self, Here, Problem};
use crate::settings::{Entry, NAME, Scope, Settings, What, line};
use crate::transcript::{Line, Speaker};

#[derive(Debug)]
pub struct Copilot;

static FACTS: Facts = Facts {
    name: "copilot",
    title: "Copilot CLI",
    versions: &["1.0.102"],
    program: Some("copilot"),
    processes: &["copilot"],
    folders: &["/@github/copilot/"],
    // The folder above is that of everybody's workflows.
    marks: &[".github/hooks", ".copilot"],
    stop: "agentStop",
    signs: &[
        ("sessionStart", "session-start", 30),
        ("sessionEnd", "session-end", 30),
        ("userPromptSubmitted", "user-prompt-submit", 30),
    ],
    trust: Some("start `copilot` in the project and trust the folder, or install with `--user`"),
    seconds: 280,
    // Work in between does not count.
    cap: Some(Cap { most: 8, on_all: true, variable: None }),
    also_reads: &["claude"],
    hooks_folder: Some(".github/hooks"),
    session_variable: Some("COPILOT_AGENT_SESSION_ID"),
    inside: &["COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"],
    quirks: &[Quirk::TakesContext, Quirk::DropsArguments],
    ..Facts::COMMON
};

/// What it sends to a hook, in camel case, or in snake case to hooks of other clients.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    hook_event_name: Option<String>,
    #[serde(rename = "sessionId", alias = "session_id")]
    session: Option<String>,
    #[serde(rename = "transcriptPath", alias = "transcript_path")]
    transcript: Option<PathBuf>,
    cwd: Option<PathBuf>,
    stop_hook_active: Option<bool>,
    /// In milliseconds, or as ISO 8601 has it.
    timestamp: Value,
    #[serde(rename = "parentAgentId", alias = "parent_agent_id")]
    parent: Option<String>,
}

impl Client for Copilot {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        let all = [(FACTS.stop, "stop", 300)].into_iter().chain(FACTS.signs.iter().copied());
        let hook = |(event, name, seconds): (&'static str, &str, u64)| {
            let bash = line(FACTS.name, name);
            Entry::hook(event, json!({ "type": "command", "bash": bash, "timeoutSec": seconds }))
        };
        let (hooks, servers) = match scope {
            Scope::Project => (".github/hooks/phasegate.json", ".github/mcp.json"),
            Scope::User => (".copilot/hooks/phasegate.json", ".copilot/mcp-config.json"),
        };
        let server = json!({ "type": "local", "command": NAME, "args": ["mcp"], "tools": ["*"] });
        let server = Entry { path: vec!["mcpServers"], what: What::Member(NAME, server) };
        vec![
            Settings::new(hooks, all.map(hook).collect()).versioned(),
            Settings::new(servers, vec![server]),
        ]
    }

    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let sent: Sent = serde_json::from_slice(json)?;
        let parent = told([sent.parent]);
        Ok(Payload {
            event: sent.hook_event_name,
            is_sub_agent: parent.is_some(),
            session: told([parent, sent.session]),
            transcript: sent.transcript.filter(|path| !path.as_os_str().is_empty()),
            folder: sent.cwd,
            after_block: sent.stop_hook_active,
            mark: mark(&sent.timestamp),
            ..Payload::default()
        })
    }

    fn sample(&self, stop: &Sample) -> Value {
        json!({
            "sessionId": stop.session,
            "cwd": stop.root,
            "transcriptPath": "",
            "stopReason": "end_turn",
            "stop_hook_active": stop.after_block,
        })
    }

    fn add_context(&self, members: &mut Map<String, Value>, _event: &str, context: &str) {
        members.insert("additionalContext".into(), context.into());
    }

    fn untrusted(&self, hooks: &Path, here: &Here) -> Option<Problem> {
        if !here.is_project(hooks) {
            return None;
        }
        let config = here.json(".copilot/config.json");
        let trusted = config.get("trustedFolders").and_then(Value::as_array);
        let trusted = trusted.into_iter().flatten().filter_map(Value::as_str).map(Path::new);
        let folders = here.folders();
        let covers = |folder: &Path| {
            folders.contains(&folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf()))
        };
        let root = here.root.display();
        let summary =
            format!("{} does not trust {root}, so it runs none of its hooks", FACTS.title);
        (!trusted.into_iter().any(covers)).then(|| problem::untrusted(&FACTS, summary))
    }

    /// What a hook said is written down as if the user had.
    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        let line: Written = serde_json::from_slice(line).ok()?;
        // A sub-agent's lines name it.
        let is_own = line.data.agent.is_none();
        let speaker = match line.kind.as_str() {
            "assistant.message" if is_own => Some(Speaker::Agent),
            "user.message" if is_own => Some(Speaker::User),
            _ => None,
        };
        let texts = line.data.content.into_iter().filter(|text| !text.is_empty()).collect();
        let has_tool = !line.data.tools.is_empty();
        Some(Line { at: line.timestamp, speaker, texts, has_tool, tools: Vec::new() })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Copilot)
    }
}

/// What its transcript has as soon as it has everything up to a hook: the hook's own input, whose time
/// is the payload's.
fn mark(timestamp: &Value) -> Option<String> {
    let milliseconds = match timestamp {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok()?.as_millisecond(),
        number => number.as_i64()?,
    };
    Some(format!("\"timestamp\":{milliseconds}"))
}

/// A line of its transcript.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Option<jiff::Timestamp>,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    content: Option<String>,
    #[serde(rename = "toolRequests")]
    tools: Vec<serde::de::IgnoredAny>,
    #[serde(rename = "parentToolCallId")]
    agent: Option<String>,
}

impl Dialogue for Copilot {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["copilot", "--output-format", "json"]);
        if rights.all {
            command.push("--allow-all".into());
        } else {
            let shell = |line: &str| format!("shell({line}:*)");
            command.extend(rights.allow("--allow-tool", shell, &["write", NAME]));
        }
        command.extend(session.map(|session| format!("--resume={session}")));
        command
    }

    /// It prints what happens, one event on each line.
    fn spoken(&self, printed: &str) -> Spoken {
        let mut spoken = Spoken::default();
        for line in printed.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let text = |place: &str| event.pointer(place).and_then(Value::as_str);
            if let Some(session) = text("/sessionId").or(text("/data/sessionId")) {
                spoken.session = Some(session.to_string());
            }
            if let (Some("assistant.message"), Some(said)) = (text("/type"), text("/data/content"))
            {
                spoken.text = said.to_string();
            }
        }
        spoken
    }
}
