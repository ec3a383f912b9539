//! Where this process runs: inside a client, or not.

use std::process::Command;

use crate::CLIENTS;

/// Programs that run others, which are their first argument that is not a flag.
const INTERPRETERS: &[&str] = &["node", "bun", "deno", "MainThread"];

/// The client whose variables are in our environment, for people.
pub fn by_environment() -> Option<String> {
    let found = mise_agent_env::detect()?;
    Some(format!("{} ({} is set)", found.agent, found.signal))
}

/// Whether a process of that name is a client's.
pub fn is_client(process: &str) -> bool {
    let mut known = CLIENTS.iter().flat_map(|client| client.facts().processes);
    known.any(|known| *known == process)
}

/// The client that a command line starts, whatever the process is called: a script that `node` runs is
/// named only by its path.
pub fn by_command(words: &[Vec<u8>]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let name = |word: &Vec<u8>| {
        let word = String::from_utf8_lossy(word);
        let name = word.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".js").unwrap_or(name).to_string()
    };
    let is_own = |word: &Vec<u8>| Some(name(word)).filter(|name| is_program(name));
    let runs = INTERPRETERS.contains(&name(program).as_str());
    let script = rest.iter().find(|word| !word.starts_with(b"-")).filter(|_| runs);
    is_own(program).or_else(|| script.and_then(is_own))
}

/// Whether a client's program is called so.
fn is_program(name: &str) -> bool {
    let mut programs = CLIENTS.iter().filter_map(|client| client.facts().program);
    programs.any(|program| program == name)
}

/// The client in which a process was started, by one of the variables that it began with: `NAME=value`.
pub fn by_variables(variables: &[Vec<u8>]) -> Option<String> {
    let has = |name: &str| {
        let is_set = |variable: &Vec<u8>| {
            let value = variable.strip_prefix(name.as_bytes());
            value.and_then(|rest| rest.strip_prefix(b"=")).is_some_and(|value| !value.is_empty())
        };
        variables.iter().any(is_set)
    };
    CLIENTS.iter().find_map(|client| {
        let facts = client.facts();
        let name = facts.inside.iter().find(|name| has(name))?;
        Some(format!("{} ({name} is set above)", facts.title))
    })
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
