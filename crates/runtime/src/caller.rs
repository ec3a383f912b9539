//! Who calls: the processes above us, and whether one of them is an agent's client.

use std::io::IsTerminal;
use std::path::Path;

use phasegate_engine::step::Actor;
use phasegate_engine::workflow::Workflow;

use crate::agents;
use crate::gate::{Gate, GateError};
use crate::process;
use crate::run::RunId;

/// How many processes are written down.
const MOST_SHOWN: usize = 12;

/// How many are looked at: whoever is deeper hides something.
const MOST_PROCESSES: usize = 2_000;

/// Clients that are known by the name of their process.
const CLIENTS: &[&str] =
    &["claude", "codex", "copilot", "cursor-agent", "droid", "gemini", "opencode", "qwen"];

/// The processes above this one, the nearest first, as `name pid`, the first few of them; none where
/// the system does not tell.
pub fn ancestry() -> Vec<String> {
    let mut processes = processes();
    processes.truncate(MOST_SHOWN);
    processes
}

fn processes() -> Vec<String> {
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
    let processes = processes();
    if processes.len() >= MOST_PROCESSES {
        return Some("more processes than can be looked at".into());
    }
    let mut processes = processes.iter().filter_map(|process| process.split_once(' '));
    processes.find_map(|(name, pid)| {
        let known = CLIENTS.contains(&name).then(|| name.to_string());
        known.or_else(|| {
            let own = supervises(pid).is_some();
            own.then(|| "a worker or a check of Phasegate".to_string())
        })
    })
}

/// Whether a process watches one that we have started, which is no person; and whether that leads the
/// work itself.
fn supervises(pid: &str) -> Option<bool> {
    let line = std::fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    // An agent's supervisor is told where it works first.
    let words: Vec<&[u8]> = words.take(4).collect();
    let agent = words.windows(2).any(|pair| pair == agents::RUN.map(str::as_bytes));
    if !program.ends_with(b"phasegate") {
        return None;
    }
    let is = |word: &str| words.first() == Some(&word.as_bytes());
    match () {
        () if agent || is(process::SUPERVISE) => Some(false),
        () if is(process::SUPERVISE_SESSION) => Some(true),
        () => None,
    }
}

/// Who asks, as far as that is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// The agent of a run, by the secret that it was given.
    pub agent: Option<(RunId, String)>,
}

impl Caller {
    /// Who gives a command: an agent with its secret, an agent inside of a client, or a person.
    ///
    /// # Errors
    /// Where a secret is shown that is nobody's, or no longer anybody's.
    pub fn of_process(gate: &Gate) -> Result<Caller, GateError> {
        match std::env::var(agents::TOKEN) {
            Ok(token) => Caller::of_token(gate, &token),
            Err(_) => Ok(Caller { actor: actor(), agent: None }),
        }
    }

    /// Who holds a token.
    ///
    /// # Errors
    /// As above.
    pub fn of_token(gate: &Gate, token: &str) -> Result<Caller, GateError> {
        let (run, id, actor) = gate.identify(token)?;
        Ok(Caller { actor, agent: Some((run, id)) })
    }

    /// The same, for a workflow with agents of its own: there, whoever works in a client and is none
    /// of them has others work.
    #[must_use]
    pub fn for_workflow(mut self, workflow: &Workflow) -> Caller {
        if !workflow.has_agents() || self.agent.is_some() {
            return self;
        }
        // A script is no person: whatever is for people is for those who sit at a terminal.
        let is_script = self.actor == Actor::Human && !std::io::stdin().is_terminal();
        let is_session = self.actor == Actor::Worker && !is_supervised();
        if is_script || is_session {
            self.actor = Actor::Orchestrator;
        }
        self
    }
}

/// Who gives a command: inside of a client it is the agent.
pub fn actor() -> Actor {
    if client().is_some() { Actor::Worker } else { Actor::Human }
}

/// Whether we run below something that Phasegate has started.
pub fn is_supervised() -> bool {
    let processes = processes();
    processes.len() >= MOST_PROCESSES
        || processes
            .iter()
            .any(|it| it.split_once(' ').and_then(|(_, pid)| supervises(pid)) == Some(false))
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
