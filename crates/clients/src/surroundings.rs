//! Where this process runs: inside a client, or not.

use std::process::Command;

use crate::CLIENTS;

/// Processes of clients that have no hook for a stop, so that they are not in the table.
const OTHERS: &[&str] = &["opencode"];

/// The client whose variables are in our environment, for people.
pub fn by_environment() -> Option<String> {
    let found = mise_agent_env::detect()?;
    Some(format!("{} ({} is set)", found.agent, found.signal))
}

/// Whether a process of that name is a client's.
pub fn is_client(process: &str) -> bool {
    let mut known = CLIENTS.iter().flat_map(|client| client.facts().processes).chain(OTHERS);
    known.any(|known| *known == process)
}

/// The client's session, where a command runs inside one.
pub fn session() -> Option<String> {
    let mut variables = CLIENTS.iter().filter_map(|client| client.facts().session_variable);
    variables.find_map(|name| std::env::var(name).ok().filter(|session| !session.is_empty()))
}

/// Lets a process that we start know nothing of the client that we run in.
pub fn leave(command: &mut Command) {
    for variable in CLIENTS.iter().flat_map(|client| client.facts().inside) {
        command.env_remove(variable);
    }
}
