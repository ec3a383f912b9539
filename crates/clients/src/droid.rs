//! Factory Droid.

use serde::Deserialize;
use serde_json::Value;

use crate::client::Client;
use crate::facts::{Facts, Quirk};
use crate::headless::{Dialogue, Rights, Spoken, words};
use crate::settings::{self, Entry, Scope, Settings};
use crate::transcript::{Line, Speaker};

#[derive(Debug)]
pub struct Droid;

static FACTS: Facts = Facts {
    name: "droid",
    title: "Factory Droid",
    versions: &["0.225.2"],
    program: Some("droid"),
    processes: &["droid"],
    marks: &[".factory"],
    signs: &[("SessionStart", "session-start", 30), ("SessionEnd", "session-end", 30)],
    seconds: 280,
    quirks: &[Quirk::TakesContext],
    ..Facts::COMMON
};

impl Client for Droid {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        vec![
            Settings::new(".factory/settings.json", settings::hooks(&FACTS, 300)),
            Settings::new(".factory/mcp.json", vec![Entry::server("mcpServers")]),
        ]
    }

    /// What a hook said is written down as if the user had.
    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        let line: Written = serde_json::from_slice(line).ok()?;
        let message = line.message.filter(|_| line.kind == "message")?;
        let speaker = match message.role.as_deref() {
            Some("assistant") => Some(Speaker::Agent),
            Some("user") => Some(Speaker::User),
            _ => None,
        };
        let is_tool = |block: &Block| matches!(block.kind.as_str(), "tool_use" | "tool_result");
        let has_tool = message.content.iter().any(is_tool);
        let texts = message.content.into_iter().filter(|block| block.kind == "text");
        let texts = texts.filter_map(|block| block.text).collect();
        Some(Line { at: line.timestamp, speaker, texts, has_tool, tools: Vec::new() })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Droid)
    }
}

/// A line of its transcript.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Option<jiff::Timestamp>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: Option<String>,
    #[serde(default)]
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl Dialogue for Droid {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["droid", "exec", "--output-format", "json"]);
        let least = ["--auto", "low"].as_slice();
        command.extend(words(if rights.all { &["--skip-permissions-unsafe"] } else { least }));
        if let Some(session) = session {
            command.extend(words(&["-s", session]));
        }
        command
    }

    fn spoken(&self, printed: &str) -> Spoken {
        let Ok(turn) = serde_json::from_str::<Value>(printed) else {
            return Spoken::plain(printed);
        };
        let text = |name: &str| turn.get(name).and_then(Value::as_str).map(str::to_string);
        let (said, session) = (text("result").unwrap_or_default(), text("session_id"));
        Spoken { text: said, session, ..Spoken::default() }
    }
}
