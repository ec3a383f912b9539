//! Who calls: the processes above us, and whether one of them is an agent's client.

use std::io::IsTerminal;

use phasegate_clients::surroundings;
use phasegate_engine::step::Actor;
use phasegate_engine::workflow::Workflow;

use crate::jobs::{Supervisor, supervises};
use crate::proc;
use crate::run::RunId;

/// How many processes are written down.
const MAX_SHOWN: usize = 12;

/// How many are looked at: whoever is deeper hides something.
const MAX_PROCESSES: usize = 2_000;

/// The processes above this one, the nearest first, as `name pid`, the first few of them; none where
/// the system does not tell.
pub fn ancestry() -> Vec<String> {
    let shown = proc::ancestors(MAX_SHOWN).into_iter();
    shown.map(|(name, pid)| format!("{name} {pid}")).collect()
}

/// Whether the system tells which processes are above this one. Where it does not, only a terminal tells a
/// person from an agent.
pub fn is_ancestry_known() -> bool {
    proc::tells()
}

/// The agent's client that we run in, if any: by its environment, or by its process above us.
pub fn client() -> Option<String> {
    if let Some(found) = surroundings::by_environment() {
        return Some(found);
    }
    let above = proc::ancestors(MAX_PROCESSES);
    if above.len() >= MAX_PROCESSES {
        return Some("more processes than can be looked at".into());
    }
    // Where nobody tells who is above us, only a terminal speaks for a person.
    if above.is_empty() && !proc::tells() && !std::io::stdin().is_terminal() {
        return Some("a system that does not tell which processes are above this one".into());
    }
    above.into_iter().find_map(|(name, pid)| {
        if surroundings::is_client(&name) {
            return Some(name);
        }
        // Many clients are scripts: their processes are called as what runs them, and only their command
        // lines, and the variables of what they have started, tell.
        let known = surroundings::by_command(&proc::words(pid, 8));
        if let Some(known) = known.or_else(|| surroundings::by_variables(&proc::variables(pid))) {
            return Some(known);
        }
        supervises(pid).map(|_| "a job of Phasegate".to_string())
    })
}

/// Who asks, as far as that is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// The agent of a run, by the secret that it was given.
    pub agent: Option<(RunId, String)>,
}

impl Caller {
    /// Who asks of a workflow with agents of its own: there, an agent in a client that is none
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
    let above = proc::ancestors(MAX_PROCESSES);
    above.len() >= MAX_PROCESSES
        || above.iter().any(|(_, pid)| supervises(*pid) == Some(Supervisor::Job))
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
