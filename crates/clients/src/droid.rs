//! Factory Droid.

use serde_json::json;

use crate::client::Client;
use crate::facts::Facts;
use crate::settings::{Entry, Scope, Settings, group, stop_line};

#[derive(Debug)]
pub struct Droid;

static FACTS: Facts = Facts {
    name: "droid",
    title: "Factory Droid",
    program: Some("droid"),
    processes: &["droid"],
    marks: &[".factory"],
    ..Facts::COMMON
};

impl Client for Droid {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let own = json!({ "type": "command", "command": stop_line(FACTS.name), "timeout": 60 });
        vec![Settings::new(".factory/settings.json", vec![Entry::hook("Stop", group(&own))])]
    }
}
