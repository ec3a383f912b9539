//! Copilot CLI. It calls a stop `agentStop`, and sends it in camel case; entries for `Stop` in files of
//! other clients are sent in snake case.

use serde_json::{Value, json};

use crate::client::Client;
use crate::facts::{Cap, Facts};
use crate::payload::Sample;
use crate::settings::{Entry, Scope, Settings, stop_line};

#[derive(Debug)]
pub struct Copilot;

static FACTS: Facts = Facts {
    name: "copilot",
    title: "Copilot CLI",
    program: Some("copilot"),
    processes: &["copilot"],
    folders: &["/@github/copilot/"],
    // The folder above is that of everybody's workflows.
    marks: &[".github/hooks"],
    stop: "agentStop",
    seconds: 25,
    cap: Some(Cap { most: 8, on_all: true, variable: None }),
    also_reads: &["claude"],
    hooks_folder: Some(".github/hooks"),
    ..Facts::COMMON
};

impl Client for Copilot {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        if scope == Scope::User {
            return Vec::new();
        }
        let own = json!({ "type": "command", "bash": stop_line(FACTS.name), "timeoutSec": 30 });
        let hooks = vec![Entry::hook("agentStop", own)];
        vec![Settings::new(".github/hooks/phasegate.json", hooks).versioned()]
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
}
