//! Qwen Code. A hook that takes longer than a minute ends the whole run with an error, whatever its
//! settings say.

use serde_json::json;

use crate::client::Client;
use crate::facts::{Cap, Facts};
use crate::settings::{Entry, Scope, Settings, TimeUnit, group, stop_line};

#[derive(Debug)]
pub struct Qwen;

static FACTS: Facts = Facts {
    name: "qwen",
    title: "Qwen Code",
    program: Some("qwen"),
    processes: &["qwen"],
    folders: &["/@qwen-code/qwen-code/"],
    marks: &[".qwen"],
    cap: Some(Cap { most: 8, on_all: true, variable: None }),
    timeouts: TimeUnit::Milliseconds,
    ..Facts::COMMON
};

impl Client for Qwen {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 60_000 });
        let entries = vec![Entry::hook("Stop", group(&own)), Entry::server("mcpServers")];
        vec![Settings::new(".qwen/settings.json", entries)]
    }
}
