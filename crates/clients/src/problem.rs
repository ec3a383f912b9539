//! Problems in a client's settings that keep it from running our hook; `doctor` reports them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::facts::{Facts, Quirk};
use crate::outside;
use crate::settings::{self, is_plain};
use crate::variables;

/// Something that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether nothing works until it is repaired. Otherwise it is a warning.
    pub is_fatal: bool,
    /// It opens the gate.
    pub opens: bool,
    pub summary: String,
    pub remedy: String,
}

/// Where a client is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Here<'h> {
    /// The project.
    pub root: &'h Path,
    /// The user's home folder.
    pub home: &'h Path,
}

impl Here<'_> {
    /// Whether a file is the project's, and not one of the user's.
    pub fn is_project(&self, file: &Path) -> bool {
        let is_below = self.home.starts_with(self.root) && file.starts_with(self.home);
        file.starts_with(self.root) && !is_below
    }

    /// The project and the folders above it, as they are without links.
    pub fn folders(&self) -> Vec<PathBuf> {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.to_path_buf());
        root.ancestors().map(Path::to_path_buf).collect()
    }

    /// A file of JSON in the home folder; null where there is none.
    pub fn json(&self, path: &str) -> Value {
        let text = outside::read_text(&self.home.join(path), outside::MAX_SETTINGS);
        let text = text.unwrap_or_default();
        settings::value(&text).unwrap_or_default()
    }
}

/// That a client does not run what is installed before a person has consented.
pub fn untrusted(client: &Facts, summary: String) -> Problem {
    let remedy = client.trust.unwrap_or_default().to_string();
    Problem { is_fatal: true, opens: false, summary, remedy }
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
    let remedy = format!("raise {name} (the default is {}; 0 means no cap)", cap.most);
    Some(Problem { is_fatal: false, opens: false, summary, remedy })
}

/// A variable that settings put into the environment.
fn variable(settings: &Value, name: &str) -> Option<String> {
    let value = settings.get("env")?.get(name)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_string))
}
