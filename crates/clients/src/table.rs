//! The clients as a table for people, drawn from what the code knows of them.

use std::path::Path;

use serde_json::Value;

use crate::CLIENTS;
use crate::client::Client;
use crate::facts::Quirk;
use crate::settings::{Scope, Settings, What};

const COLUMNS: &[&str] = &[
    "client",
    "NAME",
    "hooks in a project, and of a user",
    "for",
    "before it runs them",
    "it is told to go on by",
    "its own cap",
    "a hook's time",
    "messages to you",
    "MCP server",
    "`drive`",
    "versions that were run",
];

/// All clients, as a table in Markdown.
pub fn markdown() -> String {
    let mut lines = vec![row(COLUMNS.iter().map(ToString::to_string))];
    lines.push(format!("|{}", "---|".repeat(COLUMNS.len())));
    lines.extend(CLIENTS.iter().map(|client| row(cells(*client).into_iter())));
    lines.join("\n") + "\n"
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn cells(client: &dyn Client) -> [String; 12] {
    let facts = client.facts();
    let events = [facts.stop].into_iter().chain(facts.signs.iter().map(|(event, ..)| *event));
    let answer = Value::Object(client.go_on("…")).to_string();
    let cap = facts.cap.map(|cap| {
        let resets = if cap.on_all { "" } else { " without a tool call" };
        format!("{} blocks{resets}", cap.most)
    });
    // What was never run may have one that nobody has met.
    let no_cap = if facts.versions.is_empty() { "not known" } else { "none" };
    let minutes = |seconds: u64| match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    };
    let versions = match facts.versions {
        [] => "never run".to_string(),
        versions => versions.join(", "),
    };
    let is_driven = client.dialogue().is_some();
    [
        facts.title.into(),
        code(facts.name),
        both(client, is_hook),
        events.map(code).collect::<Vec<_>>().join(", "),
        facts.trust.unwrap_or("nothing").into(),
        code(&answer),
        cap.unwrap_or_else(|| no_cap.into()),
        minutes(facts.seconds),
        if client.has(Quirk::ShowsMessages) { "shown" } else { "in its log" }.into(),
        both(client, |settings| !is_hook(settings) || has_server(settings)),
        if is_driven { format!("`--agent {}`", facts.name) } else { "no".into() },
        versions,
    ]
}

/// The files of a project and of a user for which something holds.
fn both(client: &dyn Client, holds: impl Fn(&Settings) -> bool) -> String {
    let files = |scope: Scope, home: &str| {
        let files = client.settings(scope).into_iter().filter(&holds);
        files.map(|it| code(&Path::new(home).join(it.path).display().to_string())).collect()
    };
    let (project, user): (Vec<_>, Vec<_>) = (files(Scope::Project, ""), files(Scope::User, "~"));
    let all: Vec<String> = project.into_iter().chain(user).collect();
    if all.is_empty() { "no".into() } else { all.join(", ") }
}

/// Whether a file is one of hooks.
fn is_hook(settings: &Settings) -> bool {
    let hook = |what: &What| match what {
        What::Element(_) | What::Whole(_) => true,
        What::Member(_, value) => value.get("command").is_none(),
        What::Table(..) => false,
    };
    settings.entries.iter().any(|entry| hook(&entry.what))
}

/// Whether a file has our server beside hooks.
fn has_server(settings: &Settings) -> bool {
    let server =
        |what: &What| matches!(what, What::Member(_, value) if value.get("command").is_some());
    settings.entries.iter().any(|entry| server(&entry.what))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}
