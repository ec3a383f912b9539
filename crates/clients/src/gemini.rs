//! Gemini CLI. It calls a stop `AfterAgent`, and a block a denial. It runs nothing of a folder that the
//! user has not trusted.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::facts::{Facts, Quirk, TimeUnit};
use crate::headless::{Cost, Dialogue, Rights, Spoken, words};
use crate::payload::{Payload, Sample, told};
use crate::problem::{self, Here, Problem};
use crate::settings::{self, Entry, Scope, Settings};
use crate::transcript::{Line, Speaker};

#[derive(Debug)]
pub struct Gemini;

static FACTS: Facts = Facts {
    name: "gemini",
    title: "Gemini CLI",
    versions: &["0.61.0"],
    program: Some("gemini"),
    processes: &["gemini"],
    folders: &["/@google/gemini-cli/"],
    marks: &[".gemini"],
    stop: "AfterAgent",
    signs: &[("SessionStart", "session-start", 30), ("SessionEnd", "session-end", 30)],
    trust: Some("start `gemini` in the project and trust the folder, or install with `--user`"),
    seconds: 280,
    decisions: &["deny", "block"],
    timeouts: TimeUnit::Milliseconds,
    inside: &["GEMINI_CLI"],
    quirks: &[Quirk::ShowsMessages, Quirk::TakesContext],
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
        let mut entries = settings::hooks(&FACTS, 300);
        entries.push(Entry::server("mcpServers"));
        vec![Settings::new(".gemini/settings.json", entries)]
    }

    /// A stop that follows a block is told as one that does not if a tool was used in between.
    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let sent: Sent = serde_json::from_slice(json)?;
        Ok(Payload {
            event: sent.hook_event_name,
            session: told([sent.session_id]),
            transcript: sent.transcript_path,
            folder: sent.cwd,
            after_block: sent.stop_hook_active.filter(|follows| *follows),
            said: sent.prompt_response,
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

    fn untrusted(&self, hooks: &Path, here: &Here) -> Option<Problem> {
        let variable = std::env::var("GEMINI_CLI_TRUST_WORKSPACE").ok();
        let settings = here.json(".gemini/settings.json");
        let is_off = settings.pointer("/security/folderTrust/enabled") == Some(&json!(false));
        if !here.is_project(hooks) || variable.as_deref() == Some("true") || is_off {
            return None;
        }
        let folders = here.folders();
        let rules = here.json(".gemini/trustedFolders.json");
        // The longest rule that is about the folder counts.
        let about = |(folder, level): (&String, &Value)| {
            let folder = Path::new(folder);
            let meant = if level == "TRUST_PARENT" { folder.parent()? } else { folder };
            let meant = meant.canonicalize().unwrap_or_else(|_| meant.to_path_buf());
            folders.contains(&meant).then(|| (folder.as_os_str().len(), level != "DO_NOT_TRUST"))
        };
        let rules = rules.as_object().into_iter().flatten().filter_map(about);
        let is_trusted = rules.max().is_some_and(|(_, is_trusted)| is_trusted);
        let root = here.root.display();
        let summary = format!(
            "{} does not trust {root}, so it runs none of its hooks and servers",
            FACTS.title
        );
        (!is_trusted).then(|| problem::untrusted(&FACTS, summary))
    }

    /// What a hook said is written down as if the user had.
    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        let line: Written = serde_json::from_slice(line).ok()?;
        let speaker = match line.kind.as_deref() {
            Some("gemini") => Some(Speaker::Agent),
            Some("user") => Some(Speaker::User),
            _ => None,
        };
        let (texts, is_result) = match line.content {
            Content::Text(text) => (vec![text], false),
            Content::Parts(parts) => {
                let is_result = parts.iter().any(|part| part.text.is_none());
                (parts.into_iter().filter_map(|part| part.text).collect(), is_result)
            }
            Content::Nothing => (Vec::new(), false),
        };
        let texts = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let has_tool = is_result || !line.tool_calls.is_empty();
        Some(Line { at: line.timestamp, speaker, texts, has_tool, tools: Vec::new() })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Gemini)
    }
}

/// A line of its transcript.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: Option<String>,
    timestamp: Option<jiff::Timestamp>,
    #[serde(default)]
    content: Content,
    #[serde(rename = "toolCalls", default)]
    tool_calls: Vec<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    #[default]
    Nothing,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

/// What it prints at the end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Turn {
    response: Option<String>,
    session_id: Option<String>,
}

impl Dialogue for Gemini {
    /// Without `--skip-trust` it does nothing in a folder that is not trusted; with it, no hook of the
    /// project asks us about an agent that we drive.
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["gemini", "--skip-trust", "--output-format", "json"]);
        if rights.all {
            command.extend(words(&["--approval-mode", "yolo"]));
        } else {
            command.extend(words(&["--approval-mode", "auto_edit"]));
            let shell = |line: &str| format!("run_shell_command({line})");
            command.extend(rights.allow("--allowed-tools", shell, &[]));
        }
        if let Some(session) = session {
            command.extend(words(&["--resume", session]));
        }
        command
    }

    fn spoken(&self, printed: &str) -> Spoken {
        let Ok(turn) = serde_json::from_str::<Turn>(printed) else { return Spoken::plain(printed) };
        let text = turn.response.unwrap_or_default();
        Spoken { text, session: turn.session_id, cost: Cost::default() }
    }
}
