//! VS Code. Its answers have a place of their own. Known from its sources; never run by us.

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::Facts;
use crate::reply;
use crate::settings::{Entry, Scope, Settings, stop_line};

#[derive(Debug)]
pub struct Vscode;

static FACTS: Facts = Facts {
    name: "vscode",
    title: "VS Code",
    marks: &[".vscode"],
    seconds: 25,
    also_reads: &["claude"],
    hooks_folder: Some(".github/hooks"),
    ..Facts::COMMON
};

impl Client for Vscode {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        if scope == Scope::User {
            return Vec::new();
        }
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 30 });
        let hooks = vec![Entry::hook("Stop", own)];
        vec![
            Settings::new(".github/hooks/phasegate-vscode.json", hooks),
            Settings::new(".vscode/mcp.json", vec![Entry::server("servers")]),
        ]
    }

    fn go_on(&self, reason: &str) -> Map<String, Value> {
        let output = json!({ "hookEventName": "Stop", "decision": "block", "reason": reason });
        reply::members([("hookSpecificOutput", output)])
    }

    fn reason(&self, answer: &Value) -> Option<String> {
        reply::reason(answer.get("hookSpecificOutput")?, FACTS.decisions)
    }
}
