//! Who calls: the processes above us, and whether one of them is an agent's client.

use std::io::IsTerminal;
use std::path::Path;

use phasegate_engine::step::Actor;

use crate::process;

/// How many processes are looked at.
const MOST_PROCESSES: usize = 12;

/// Clients that are known by the name of their process.
const CLIENTS: &[&str] =
    &["claude", "codex", "copilot", "cursor-agent", "droid", "gemini", "opencode", "qwen"];

/// The processes above this one, the nearest first, as `name pid`; none where the system does not
/// tell.
pub fn ancestry() -> Vec<String> {
    let mut found = Vec::new();
    let mut next = std::os::unix::process::parent_id().to_string();
    while found.len() < MOST_PROCESSES && next != "0" {
        let stat = std::fs::read_to_string(Path::new("/proc").join(&next).join("stat"));
        // `pid (name) state parent …`, and the name may have spaces and parentheses.
        let Ok(stat) = stat else { break };
        let Some((head, tail)) = stat.rsplit_once(')') else { break };
        let name = head.split_once('(').map_or("", |(_, name)| name);
        found.push(format!("{name} {next}"));
        let Some(parent) = tail.split_whitespace().nth(1) else { break };
        next = parent.to_string();
    }
    found
}

/// The agent's client that we run in, if any: by its environment, or by its process above us.
pub fn client() -> Option<String> {
    if let Some(found) = mise_agent_env::detect() {
        return Some(format!("{} ({} is set)", found.agent, found.signal));
    }
    let processes = ancestry();
    let mut processes = processes.iter().filter_map(|process| process.split_once(' '));
    processes.find_map(|(name, pid)| {
        let known = CLIENTS.contains(&name).then(|| name.to_string());
        known.or_else(|| is_supervisor(pid).then(|| "a worker or a check of Phasegate".to_string()))
    })
}

/// Whether a process watches one that we have started: what is below it is no person.
fn is_supervisor(pid: &str) -> bool {
    let line = std::fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    program.ends_with(b"phasegate") && words.next() == Some(process::SUPERVISE.as_bytes())
}

/// Who gives a command: inside of a client it is the agent.
pub fn actor() -> Actor {
    if client().is_some() { Actor::Worker } else { Actor::Human }
}

/// Refuses what only a person may do.
///
/// # Errors
/// A sentence that says why this caller does not pass for one.
pub fn must_be_human(what: &str) -> Result<(), String> {
    let why = match client() {
        Some(client) => format!("this runs inside of {client}"),
        None if !std::io::stdin().is_terminal() => "there is no terminal".to_string(),
        None => return Ok(()),
    };
    Err(format!("{what} is for people, and {why}: give the command in a terminal of your own"))
}
