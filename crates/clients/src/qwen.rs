//! Qwen Code. A hook that takes longer than a minute ends the whole run with an error, whatever its
//! settings say.

use serde::Deserialize;
use serde_json::Value;

use crate::client::Client;
use crate::facts::{Cap, Facts, Quirk, TimeUnit};
use crate::headless::{Cost, Dialogue, Rights, Spoken, words};
use crate::payload::{self, Payload};
use crate::settings::{self, Entry, Scope, Settings};
use crate::transcript::{Line, Speaker};

#[derive(Debug)]
pub struct Qwen;

static FACTS: Facts = Facts {
    name: "qwen",
    title: "Qwen Code",
    versions: &["0.24.4", "0.24.0", "0.23.4", "0.23.0", "0.21.2", "0.15.10"],
    program: Some("qwen"),
    processes: &["qwen"],
    folders: &["/@qwen-code/qwen-code/"],
    marks: &[".qwen"],
    signs: &[("SessionStart", "session-start", 30), ("SessionEnd", "session-end", 30)],
    // It overrides the eighth block. Work in between does not count.
    cap: Some(Cap { most: 8, on_all: true, variable: None }),
    timeouts: TimeUnit::Milliseconds,
    session_variable: Some("QWEN_CODE_SESSION_ID"),
    inside: &["QWEN_CODE", "QWEN_CODE_SESSION_ID"],
    quirks: &[Quirk::ShowsMessages, Quirk::TakesContext],
    ..Facts::COMMON
};

/// Whether a version has numbers for its prompts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    prompt_id: Option<String>,
}

impl Client for Qwen {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let mut entries = settings::hooks(&FACTS, 60);
        entries.push(Entry::server("mcpServers"));
        vec![Settings::new(".qwen/settings.json", entries)]
    }

    /// Versions up to 0.23.0 call every stop one that follows a block, also the first. They have no
    /// `prompt_id` either.
    fn payload(&self, json: &[u8]) -> serde_json::Result<Payload> {
        let mut payload = payload::common(json)?;
        let sent: Sent = serde_json::from_slice(json)?;
        payload.after_block =
            payload.after_block.filter(|follows| !*follows || sent.prompt_id.is_some());
        Ok(payload)
    }

    /// What a hook said is written down as if the user had.
    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        let line: Written = serde_json::from_slice(line).ok()?;
        let speaker = match line.kind.as_deref() {
            Some("assistant") => Some(Speaker::Agent),
            Some("user" | "tool_result") => Some(Speaker::User),
            _ => None,
        };
        let parts = line.message.map(|message| message.parts).unwrap_or_default();
        let is_tool = |part: &Part| part.call.is_some() || part.result.is_some();
        let has_tool = parts.iter().any(is_tool);
        let texts = parts.into_iter().filter(|part| !part.thought);
        let texts = texts.filter_map(|part| part.text).collect();
        Some(Line { at: line.timestamp, speaker, texts, has_tool, tools: Vec::new() })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Qwen)
    }
}

/// A line of its transcript.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: Option<String>,
    timestamp: Option<jiff::Timestamp>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(rename = "functionCall")]
    call: Option<serde::de::IgnoredAny>,
    #[serde(rename = "functionResponse")]
    result: Option<serde::de::IgnoredAny>,
}

impl Dialogue for Qwen {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["qwen", "--output-format", "json"]);
        if rights.all {
            command.extend(words(&["--approval-mode", "yolo"]));
        } else {
            command.extend(words(&["--approval-mode", "auto-edit"]));
            let shell = |line: &str| format!("run_shell_command({line})");
            command.extend(rights.allow("--allowed-tools", shell, &[]));
        }
        if let Some(session) = session {
            command.extend(words(&["--resume", session]));
        }
        command
    }

    /// It prints a list of messages, the last of which is the result.
    fn spoken(&self, printed: &str) -> Spoken {
        let messages: Vec<Value> = serde_json::from_str(printed).unwrap_or_default();
        let Some(last) = messages.last() else { return Spoken::plain(printed) };
        let text = |name: &str| last.get(name).and_then(Value::as_str).map(str::to_string);
        Spoken {
            text: text("result").unwrap_or_default(),
            session: text("session_id"),
            cost: Cost::default(),
        }
    }
}
