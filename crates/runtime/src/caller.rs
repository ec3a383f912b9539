//! Who calls: the processes above us, and whether one of them is an agent's client. The one place that
//! tells a person from an agent.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use phasegate_clients::surroundings;
use phasegate_engine::step::Actor;
use phasegate_engine::workflow::Workflow;

use crate::jobs::{Supervisor, driven_by, supervised, supervises};
use crate::proc;
use crate::run::RunId;
use crate::variables;

/// How many processes are written down.
const MAX_SHOWN: usize = 12;

/// How many are looked at: a process that is deeper hides something.
const MAX_PROCESSES: usize = 2_000;

/// How many words of a command line tell which program it runs.
const MAX_WORDS: usize = 3;

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

/// The agent's client that we run in, if any: by the environment of this process or of one above it, or by
/// what a process above runs. A clean environment hides a client only from this process: the shell that made
/// it clean still has its own.
pub fn client() -> Option<String> {
    let own = surroundings::by_environment(|name| std::env::var_os(name));
    if let Some((client, variable)) = own {
        return Some(format!("{client} ({variable} is set)"));
    }
    let above = proc::ancestors(MAX_PROCESSES);
    if above.len() >= MAX_PROCESSES {
        return Some("too many processes to look at".into());
    }
    // Where nobody tells who is above us, only a terminal speaks for a person.
    if above.is_empty() && !proc::tells() && !std::io::stdin().is_terminal() {
        return Some("a system that does not say which process started this one".into());
    }
    above.into_iter().find_map(|(name, pid)| client_at(&name, pid))
}

/// The client that a process is, or that it runs in.
fn client_at(name: &str, pid: u32) -> Option<String> {
    if surroundings::is_client(name) {
        return Some(name.to_string());
    }
    if supervises(pid).is_some() {
        return Some("a job of Phasegate".into());
    }
    let words = proc::words(pid, MAX_WORDS);
    let words: Vec<&Path> = words.iter().map(|word| Path::new(OsStr::from_bytes(word))).collect();
    let program = proc::program(pid).unwrap_or_default();
    if surroundings::is_command_of_client(&program, &words) {
        return Some(format!("an agent's client ({name} {pid})"));
    }
    let variables = proc::variables(pid);
    let value = |name: &str| -> Option<OsString> {
        let mut values = variables.iter().filter_map(|variable| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsString::from_vec(value.to_vec()))
        });
        values.next()
    };
    if value(variables::TOKEN).is_some() {
        return Some("a job of Phasegate".into());
    }
    let (client, variable) = surroundings::by_environment(value)?;
    Some(format!("{client} ({variable} is set for {name} {pid})"))
}

/// Who asks, as far as that is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// The agent of a run, by the secret that it was given.
    pub agent: Option<(RunId, String)>,
}

impl Caller {
    /// Who asks of a workflow with agents of its own: there, an agent in a client, or a script, that is not
    /// one of them has others work.
    #[must_use]
    pub fn for_workflow(mut self, workflow: &Workflow) -> Caller {
        let is_session = self.actor == Actor::Worker && self.agent.is_none();
        if is_session && workflow.has_agents() && !is_supervised() {
            self.actor = Actor::Orchestrator;
        }
        self
    }
}

/// Why the caller is not taken for a person; none where it is. A script is not a person: who is one sits at a
/// terminal.
pub fn why_not_a_person() -> Option<String> {
    match client() {
        Some(client) => Some(format!("this runs inside {client}")),
        None if !std::io::stdin().is_terminal() => Some("there is no terminal".to_string()),
        None => None,
    }
}

/// Where a command comes from that no person at a terminal gives. Inside a client, what a person types there
/// looks the same as what the agent runs.
pub fn place() -> &'static str {
    if client().is_some() { "inside the client" } else { "a script" }
}

/// Who gives a command: an agent, where it is not a person.
pub fn actor() -> Actor {
    if why_not_a_person().is_some() { Actor::Worker } else { Actor::Human }
}

/// Whether we run below something that Phasegate has started.
pub fn is_supervised() -> bool {
    let above = proc::ancestors(MAX_PROCESSES);
    above.len() >= MAX_PROCESSES
        || above.iter().any(|(_, pid)| supervises(*pid) == Some(Supervisor::Job))
}

/// Whether we run below a job of the project: what a job starts is that job, with or without its secret.
pub fn is_job_of(root: &Path) -> bool {
    let is_own = |pid: u32| supervised(pid).is_some_and(|(own, _)| own == root);
    proc::ancestors(MAX_PROCESSES).iter().any(|(_, pid)| is_own(*pid))
}

/// The name of the folder of the agent that leads the work in a project and that we run below, if there is one.
pub fn driven(root: &Path) -> Option<String> {
    let own = |(_, pid): &(String, u32)| driven_by(*pid).filter(|(project, _)| project == root);
    let folder = proc::ancestors(MAX_PROCESSES).iter().find_map(own)?.1;
    folder.file_name()?.to_str().map(str::to_string)
}

/// Whether we run below the supervisor of one job. Where the system does not tell, nobody can say otherwise.
pub fn is_below(root: &Path, folder: &str) -> bool {
    let is_it = |pid: u32| {
        supervised(pid).is_some_and(|(own, job)| own == root && job == Path::new(folder))
    };
    !proc::tells() || proc::ancestors(MAX_PROCESSES).iter().any(|(_, pid)| is_it(*pid))
}

/// Refuses what only a person may do.
///
/// # Errors
/// A sentence that says why this caller does not pass for one.
pub fn must_be_human(what: &str) -> Result<(), PeopleOnly> {
    match why_not_a_person() {
        None => Ok(()),
        Some(why) => Err(PeopleOnly(format!(
            "{what} is for people, and {why}: run the command in a terminal of your own"
        ))),
    }
}

/// Why something that is for people is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PeopleOnly(pub String);
