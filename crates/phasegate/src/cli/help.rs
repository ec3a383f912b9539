//! The first screen of help: what people use every day with a line each, and the names of the rest.

use std::fmt::Write;

use clap::Command;

use crate::outcome::Exit;

/// The page without clap's own list of commands, which would show all of them alike.
pub const TEMPLATE: &str =
    "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Commands of every day, in the order in which a newcomer needs them.
const EVERYDAY: &[&str] = &[
    "init", "doctor", "status", "why", "log", "start", "answer", "cancel", "pause", "resume",
    "trust",
];

/// The other commands by what they are for.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "Runs",
        &[
            "do", "jobs", "worker", "adopt", "release", "wait", "repl", "drive", "mcp", "web",
            "demo", "prove", "prune", "store", "fleet",
        ],
    ),
    (
        "Authoring",
        &[
            "new", "list", "lint", "test", "verify", "simulate", "mutate", "replay", "draw",
            "eject", "schema",
        ],
    ),
    (
        "Plumbing",
        &[
            "accept",
            "ask-human",
            "uninstall",
            "hook",
            "statusline",
            "completions",
            "man",
            "verify-proof",
            "ci",
        ],
    ),
];

const EXAMPLES: &str = "Examples:
  phasegate demo                          play a whole run with a scripted agent
  phasegate init && phasegate doctor      install the hook, and check that it works
  phasegate why                           why the last stop was answered as it was";

/// The command with its commands in groups. What is in no group is a workflow.
pub fn grouped(command: Command) -> Command {
    let mut text = String::from("Everyday:\n");
    for name in EVERYDAY {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let _ =
            writeln!(text, "  {name:<8} {}", about.map(ToString::to_string).unwrap_or_default());
    }
    let named =
        |name: &str| EVERYDAY.contains(&name) || OTHERS.iter().any(|(_, all)| all.contains(&name));
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name);
    let workflows: Vec<&str> = shown.filter(|name| !named(name)).collect();
    text.push('\n');
    for (group, names) in OTHERS.iter().map(|(group, names)| (*group, names.to_vec())) {
        let _ = writeln!(text, "{:<11}{}", format!("{group}:"), names.join(", "));
    }
    let _ = writeln!(text, "{:<11}{}\n", "Workflows:", workflows.join(", "));
    let _ = writeln!(text, "`phasegate help COMMAND` explains a command.\n");
    let long = format!("{EXAMPLES}\n\n{}", Exit::shown().trim_end());
    command.before_help(text).after_help(EXAMPLES).after_long_help(long)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::{EVERYDAY, OTHERS};
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name);
        let mut shown: Vec<&str> = shown.chain(["start", "do"]).collect();
        let others = OTHERS.iter().flat_map(|(_, names)| names.iter());
        let mut grouped: Vec<&str> = EVERYDAY.iter().chain(others).copied().collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }
}
