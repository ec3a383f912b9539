//! opencode. It has no hook for a stop: a plugin of ours asks the gate when a session becomes idle, and
//! prompts it with the reason of a block. What the plugin sends is of the common shape.

use serde::Deserialize;
use serde_json::{Map, json};

use crate::client::Client;
use crate::facts::{Facts, Quirk};
use crate::headless::{Cost, Dialogue, Rights, Spoken, words};
use crate::settings::{Entry, NAME, Scope, Settings, What};

#[derive(Debug)]
pub struct Opencode;

static FACTS: Facts = Facts {
    name: "opencode",
    title: "opencode",
    versions: &["1.18.33"],
    program: Some("opencode"),
    processes: &["opencode"],
    marks: &[".opencode", ".config/opencode"],
    stop: "session.idle",
    signs: &[("session.deleted", "session-end", 600)],
    // The plugin waits as long as it takes.
    seconds: 9 * 60,
    inside: &["OPENCODE"],
    quirks: &[Quirk::ShowsMessages],
    ..Facts::COMMON
};

/// The plugin, which is a file of its own.
const PLUGIN: &str = include_str!("opencode.js");

impl Client for Opencode {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        let (plugin, servers) = match scope {
            Scope::Project => (".opencode/plugins/phasegate.js", "opencode.json"),
            Scope::User => {
                (".config/opencode/plugins/phasegate.js", ".config/opencode/opencode.json")
            }
        };
        let server = json!({ "type": "local", "command": [NAME, "mcp"], "enabled": true });
        let whole = Entry { path: Vec::new(), what: What::Whole(PLUGIN) };
        let server = Entry { path: vec!["mcp"], what: What::Member(NAME, server) };
        vec![Settings::new(plugin, vec![whole]), Settings::new(servers, vec![server])]
    }

    fn program_hook(&self, text: &str) -> Option<(Vec<String>, u64)> {
        let own = || words(&[NAME, "hook", "stop", "--client", FACTS.name]);
        (text == PLUGIN).then(|| (own(), FACTS.seconds))
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Opencode)
    }
}

/// An event that it prints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "sessionID")]
    session: Option<String>,
    part: Part,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    text: Option<String>,
    cost: Option<f64>,
}

impl Dialogue for Opencode {
    /// Without plugins of others: ours would ask about an agent that we drive. What it may do is said in its
    /// environment, over what the user has set; the last rule that fits counts.
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = Vec::new();
        if !rights.all {
            let mut shell = Map::from_iter([("*".to_string(), json!("deny"))]);
            shell.extend(rights.prefixes().map(|line| (format!("{line} *"), json!("allow"))));
            shell.extend(rights.lines().map(|line| (line, json!("allow"))));
            let may = json!({ "bash": shell, "external_directory": "deny" });
            command.extend(["env".into(), format!("OPENCODE_PERMISSION={may}")]);
        }
        command.extend(words(&["opencode", "run", "--format", "json", "--pure"]));
        command.extend(rights.all.then(|| "--auto".to_string()));
        if let Some(session) = session {
            command.extend(words(&["--session", session]));
        }
        command
    }

    /// It prints events, one on each line; each step of the model has its cost.
    fn spoken(&self, printed: &str) -> Spoken {
        let mut spoken = Spoken::default();
        let (mut dollars, mut steps) = (0.0, 0);
        for line in printed.lines() {
            let Ok(event) = serde_json::from_str::<Event>(line) else { continue };
            spoken.session = event.session.or(spoken.session);
            match (event.kind.as_str(), event.part) {
                ("text", Part { text: Some(text), .. }) => spoken.text = text,
                ("step_finish", part) => {
                    dollars += part.cost.unwrap_or(0.0);
                    steps += 1;
                }
                _ => {}
            }
        }
        spoken.cost = Cost::of(Some(dollars), Some(steps));
        spoken
    }
}
