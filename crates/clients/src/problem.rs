//! Problems in a client's settings that keep it from running our hook; `doctor` reports them.

use serde_json::{Value, json};

use crate::facts::{Facts, Quirk};
use crate::settings::is_plain;
use crate::variables;

/// Something that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Nothing works before it is mended; else it is only worth a look.
    pub is_fatal: bool,
    /// It opens the gate.
    pub opens: bool,
    pub summary: String,
    pub remedy: String,
}

/// What is wrong in a file of settings, which is shown by this name.
pub fn in_settings(client: &Facts, shown: &str, text: &str, value: &Value) -> Vec<Problem> {
    let title = client.title;
    let mut found = Vec::new();
    let mut fatal = |summary: String, remedy: String| {
        found.push(Problem { is_fatal: true, opens: true, summary, remedy });
    };
    if client.has(Quirk::PlainJson) && !is_plain(text) {
        let plugin = if client.has(Quirk::HasPlugin) { ", or use the plugin" } else { "" };
        fatal(
            format!("{shown} has comments or trailing commas: {title} ignores it"),
            format!("take them out of {shown}{plugin}"),
        );
    }
    let remove = || format!("remove it from {shown}");
    if value.get("disableAllHooks") == Some(&json!(true)) {
        fatal(format!("{shown} has `disableAllHooks`: no hook runs"), remove());
    }
    if variable(value, variables::DISABLE).as_deref() == Some("1") {
        fatal(format!("{shown} sets PHASEGATE_DISABLE=1: every stop is allowed"), remove());
    }
    if variable(value, variables::TRUST_ALL).as_deref() == Some("1") {
        let summary =
            format!("{shown} sets PHASEGATE_TRUST_ALL=1: every workflow may run commands");
        found.push(Problem { is_fatal: false, opens: true, summary, remedy: remove() });
    }
    found.extend(low_cap(client, shown, value));
    found
}

/// A cap that is set too low for a run to get anywhere.
fn low_cap(client: &Facts, shown: &str, value: &Value) -> Option<Problem> {
    let cap = client.cap?;
    let name = cap.variable?;
    let set = variable(value, name)?.parse::<u64>().ok().filter(|set| (1..3).contains(set))?;
    let summary = format!("{shown} lets a hook block only {set} times without a tool call");
    let remedy = format!("raise {name} ({} is the default, 0 is no cap)", cap.most);
    Some(Problem { is_fatal: false, opens: false, summary, remedy })
}

/// A variable that settings put into the environment.
fn variable(settings: &Value, name: &str) -> Option<String> {
    let value = settings.get("env")?.get(name)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_string))
}
