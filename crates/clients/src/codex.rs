//! Codex CLI. It runs a hook only once the user has trusted it, and takes no arguments in its file.

use serde_json::{Value, json};

use crate::client::Client;
use crate::facts::Facts;
use crate::headless::{Dialogue, Rights, Spoken, words};
use crate::settings::{Entry, Scope, Settings, group, stop_line};

#[derive(Debug)]
pub struct Codex;

static FACTS: Facts = Facts {
    name: "codex",
    title: "Codex CLI",
    program: Some("codex"),
    processes: &["codex"],
    folders: &["/@openai/codex/"],
    marks: &[".codex"],
    seconds: 9 * 60,
    ..Facts::COMMON
};

impl Client for Codex {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 600 });
        vec![Settings::new(".codex/hooks.json", vec![Entry::hook("Stop", group(&own))])]
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Codex)
    }
}

impl Dialogue for Codex {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let all = "--dangerously-bypass-approvals-and-sandbox";
        let rights = if rights.all { all } else { "--full-auto" };
        let mut command = words(&["codex", "exec", "--json", rights]);
        if let Some(session) = session {
            command.extend(words(&["resume", session]));
        }
        command.push("-".into());
        command
    }

    /// It prints events, one on each line.
    fn spoken(&self, printed: &str) -> Spoken {
        let mut spoken = Spoken::default();
        for line in printed.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if let Some(thread) = event.get("thread_id").and_then(Value::as_str) {
                spoken.session = Some(thread.to_string());
            }
            let is_message = event.pointer("/item/type").is_some_and(|it| it == "agent_message");
            if let (true, Some(text)) = (is_message, event.pointer("/item/text")) {
                spoken.text = text.as_str().unwrap_or_default().to_string();
            }
        }
        spoken
    }
}
