//! Who has called a hook: the client, or an agent's shell, in which anybody can be named as the session.

use std::path::Path;

use phasegate_clients::{Client, surroundings};

use crate::proc;

/// How many processes are looked at: a hook is at most a shell or two away from its client.
const MAX_PROCESSES: usize = 64;

/// Who has called a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The client, as far as anybody can tell.
    #[default]
    Client,
    /// A shell of an agent, by the name of its process.
    Shell(String),
    /// No client of this kind is above us, or the system does not tell.
    Unknown,
}

impl Origin {
    /// Who has called the hook that this process is.
    ///
    /// A client gives the variable with its project to its hooks, and not to what its agent runs. So the process that
    /// the client itself has started tells the two apart, by the environment that it began with: that of a process
    /// further down is what the agent wants it to be. A client without such a variable, or of another kind than the
    /// installed command says (some read each other's settings), tells nothing.
    pub fn of_hook(client: &dyn Client) -> Origin {
        let Some(variable) = client.facts().project_variable else { return Origin::Unknown };
        let (mut nearest, mut below) = (None, None);
        let mut next = std::os::unix::process::parent_id();
        for _ in 0..MAX_PROCESSES {
            let Some((name, parent)) = proc::name_and_parent(next) else { break };
            if is_client(client, &name, next) {
                return given_by_client(below, variable);
            }
            // A hook that is tried out by ourselves, as `doctor` does.
            if below.is_none() && is_this_program(next) {
                return Origin::Client;
            }
            nearest.get_or_insert_with(|| name.clone());
            below = Some((name, next));
            next = parent;
        }
        // What has left its client behind still has the environment of it, unless that was cleaned.
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_inside = client.facts().inside.iter().any(|name| is_set(name));
        match nearest {
            Some(shell) if is_inside && !is_set(variable) => Origin::Shell(shell),
            _ => Origin::Unknown,
        }
    }
}

/// What the process that a client has started is. One whose environment may not be read tells nothing.
fn given_by_client(below: Option<(String, u32)>, variable: &str) -> Origin {
    let Some((name, pid)) = below else {
        let is_hook = std::env::var_os(variable).is_some();
        return if is_hook { Origin::Client } else { Origin::Shell("the agent's shell".into()) };
    };
    let variables = proc::variables(pid);
    let is_it = |given: &Vec<u8>| {
        let rest = given.strip_prefix(variable.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"="))
    };
    if variables.iter().all(Vec::is_empty) || variables.iter().any(is_it) {
        return Origin::Client;
    }
    Origin::Shell(name)
}

fn is_client(client: &dyn Client, name: &str, pid: u32) -> bool {
    let facts = client.facts();
    if facts.processes.contains(&name) {
        return true;
    }
    // Where the process has another name, its program is in the client's folder.
    surroundings::is_interpreter(name)
        && proc::words(pid, 3).iter().any(|word| {
            let word = String::from_utf8_lossy(word);
            facts.folders.iter().any(|folder| word.contains(folder))
        })
}

fn is_this_program(pid: u32) -> bool {
    let own = proc::program(std::process::id());
    own.is_some() && own.as_deref().map(Path::new) == proc::program(pid).as_deref()
}
