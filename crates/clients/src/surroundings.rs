//! Where this process runs: inside a client, or not.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::CLIENTS;

/// Programs that run the program that their first argument names.
const INTERPRETERS: &[&str] = &["node", "nodejs", "bun", "deno", "npx", "python", "python3"];

/// Whether a process of that name runs the program that an argument names.
pub fn is_interpreter(process: &str) -> bool {
    INTERPRETERS.contains(&process)
}

/// The client whose variables are in an environment: its name, and the variable that tells.
pub fn by_environment(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<(String, &'static str)> {
    let own = CLIENTS.iter().find_map(|client| {
        let facts = client.facts();
        let is_set = |name: &&&str| variable(name).is_some_and(|value| !value.is_empty());
        Some((facts.title.to_string(), *facts.inside.iter().find(is_set)?))
    });
    own.or_else(|| {
        let found = mise_agent_env::detect_with_env(&variable)?;
        Some((found.agent.to_string(), found.signal))
    })
}

/// Whether a process of that name is a client's.
pub fn is_client(process: &str) -> bool {
    let mut known = CLIENTS.iter().flat_map(|client| client.facts().processes);
    known.any(|known| *known == process)
}

/// Whether a process with this command line is a client's, whatever its name is: by the program, by the one
/// that an interpreter runs, or by the folder in which a client is installed.
pub fn is_command_of_client(program: &Path, words: &[&Path]) -> bool {
    let is_program = |path: &Path| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let path = path.to_str().unwrap_or_default();
        let mut folders = CLIENTS.iter().flat_map(|client| client.facts().folders);
        is_client(name) || folders.any(|folder| path.contains(folder))
    };
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_string);
    let first = words.first().and_then(|word| name(word)).unwrap_or_default();
    let is_interpreter = INTERPRETERS.contains(&&*first)
        || name(program).is_some_and(|name| INTERPRETERS.contains(&&*name));
    let scripts = words.iter().skip(1).take(if is_interpreter { 2 } else { 0 });
    is_program(program) || words.iter().take(1).chain(scripts).any(|word| is_program(word))
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
