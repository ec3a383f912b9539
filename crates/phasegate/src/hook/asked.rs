//! What a hook is asked: the event and the client, which the installed command names, and the client's payload.

use std::ffi::OsString;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher};

use phasegate_clients::settings::WAKE;
use phasegate_clients::{CLIENTS, Client, Payload, named, usual};
use phasegate_engine::events::{TASK_COMPLETED, TEAMMATE_IDLE};
use phasegate_runtime::gate::{Sign, Stop};
use phasegate_runtime::ledger::Delivery;

use crate::payload;

/// A payload larger than this is not read.
const MAX_BYTES: usize = 8 << 20;

/// Every event: its name in the installed command, its name in the payload, and what it tells. A
/// sub-agent's stop is a sign of life only: the run belongs to the session.
const EVENTS: &[(&str, &str, Happened)] = &[
    ("stop", "Stop", Happened::Stop),
    ("subagent-stop", "SubagentStop", Happened::Sign(Sign::Alive)),
    ("session-start", "SessionStart", Happened::Sign(Sign::Started)),
    ("session-end", "SessionEnd", Happened::Sign(Sign::Ended)),
    ("user-prompt-submit", "UserPromptSubmit", Happened::Sign(Sign::Alive)),
    ("pre-compact", "PreCompact", Happened::Sign(Sign::Alive)),
    ("config-change", "ConfigChange", Happened::Settings),
    ("pre-tool-use", "PreToolUse", Happened::Tool),
    (TASK_COMPLETED, "TaskCompleted", Happened::Question),
    (TEAMMATE_IDLE, "TeammateIdle", Happened::Question),
    (WAKE, "Stop", Happened::Wake),
];

/// What an event tells.
#[derive(Clone, Copy, Debug)]
pub enum Happened {
    Stop,
    /// The same stop, for the hook that waits beside it.
    Wake,
    Sign(Sign),
    /// A file of the client's settings has changed.
    Settings,
    /// The agent is about to use a tool.
    Tool,
    /// The agent is about to do something that rules may keep it from.
    Question,
}

/// The help, with the names of the clients in the place of the hole.
const HELP: &str = "\
Answers a hook of a coding agent's client. The client runs it; people need not.

Usage: phasegate hook EVENT [--client NAME]

Clients: {clients}

Events:
  stop                the gate: may the agent stop?
  session-start       tells the agent where its run is, also after a compaction
  session-end         gives the session's runs up, so that another can take them
  user-prompt-submit, subagent-stop, pre-compact
                      signs of life, so that no other session takes the runs
  pre-tool-use        refuses a tool that the phase of the session's run denies
  task-completed, teammate-idle
                      asks the rules that are about it
  config-change       refuses settings that would open the gate while it holds the session
  wake                beside a stop: wakes a session that was let go because of a job, when that ends

It reads the client's JSON on stdin and prints one JSON object. Failures of its own allow the stop.
PHASEGATE_DISABLE=1 in the environment allows every stop.";

/// What the installed command asks for.
pub struct Asked {
    pub name: &'static str,
    pub event: &'static str,
    pub happened: Happened,
    pub client: &'static dyn Client,
}

/// The event and the client, which the installed command names.
pub fn arguments(args: &[OsString]) -> Result<Asked, String> {
    let mut args = args.iter().cloned();
    let event = args.next().unwrap_or_default();
    let known = EVENTS.iter().find(|(name, ..)| event == *name);
    let Some((name, event, happened)) = known else {
        let names: Vec<&str> = EVENTS.iter().map(|(name, ..)| *name).collect();
        let (event, names) = (event.to_string_lossy(), names.join(", "));
        return Err(format!("there is no hook event {event:?}; there are: {names}"));
    };
    let mut client = usual();
    while let Some(arg) = args.next() {
        let given = match arg.to_str().and_then(|arg| arg.strip_prefix("--client")) {
            Some("") => args.next().unwrap_or_default().to_string_lossy().into_owned(),
            Some(value) if value.starts_with('=') => value[1..].to_string(),
            _ => return Err(format!("unknown argument {:?}", arg.to_string_lossy())),
        };
        client = named(&given).ok_or_else(|| {
            let known: Vec<&str> = CLIENTS.iter().map(|client| client.name()).collect();
            format!("there is no client {given:?}; there are: {}", known.join(", "))
        })?;
    }
    Ok(Asked { name, event, happened: *happened, client })
}

/// What tells a stop from the same one delivered again: its payload, and a transcript that is there.
pub fn delivery(stop: &Stop, payload: u64) -> Option<Delivery> {
    let transcript = stop.told.transcript.as_ref()?.metadata().ok().filter(Metadata::is_file)?;
    Some(Delivery { payload: format!("{payload:x}"), transcript: transcript.len() })
}

/// The payload, and a digest of it.
pub fn read(client: &dyn Client) -> Result<(Payload, u64), String> {
    let bytes = payload::read(MAX_BYTES);
    let bytes = bytes.map_err(|error| format!("the payload cannot be read: {error}"))?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("the payload is larger than {} MB", MAX_BYTES >> 20));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if text.trim_ascii().is_empty() {
        return Err("the payload on stdin is empty".into());
    }
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err("the payload is not a JSON object".into());
    }
    let mut digest = DefaultHasher::new();
    digest.write(text);
    let payload = client.payload(text);
    let payload = payload
        .map_err(|error| format!("the payload does not have the expected shape: {error}"))?;
    Ok((payload, digest.finish()))
}

/// What people are told who ask for help.
pub fn help() -> String {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name()).collect();
    let (names, usual) = (names.join(", "), usual().name());
    let names = names.replacen(usual, &format!("{usual} (the default)"), 1);
    HELP.replace("{clients}", &names)
}
