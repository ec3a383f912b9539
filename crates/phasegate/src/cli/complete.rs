//! Completions: the shell asks the program itself, so that workflows, actions, runs and jobs are those of the project
//! in which somebody types.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, project, whole_command};
use crate::print;

/// The variable by which a shell asks.
const VARIABLE: &str = "PHASEGATE_COMPLETE";

/// How a shell is told to ask, in its own words: where the line goes, and the line.
fn install(shell: Shell) -> (&'static str, &'static str) {
    match shell {
        Shell::Zsh => ("~/.zshrc", "source <(phasegate completions zsh)"),
        Shell::Fish => ("~/.config/fish/config.fish", "phasegate completions fish | source"),
        Shell::Elvish => ("~/.elvish/rc.elv", "eval (phasegate completions elvish | slurp)"),
        Shell::PowerShell => {
            ("$PROFILE", "phasegate completions powershell | Out-String | Invoke-Expression")
        }
        _ => ("~/.bashrc", "source <(phasegate completions bash)"),
    }
}

/// Prints what a shell needs to ask, and on a terminal how to install that.
pub fn script(shell: Shell) -> Outcome {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| Failed::new(format!("{name} cannot ask a program")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "phasegate", "phasegate", "phasegate", &mut script)?;
    print::bytes(&script);
    // A shell that reads the script as it opens has installed it.
    if std::io::stdout().is_terminal() {
        let (file, line) = install(shell);
        print::note(&format!("To install it, add this line to {file}:\n  {line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Answers a shell that asks; whether one did.
pub fn answer() -> bool {
    let asks = std::env::var_os(VARIABLE).is_some_and(|shell| !shell.is_empty());
    if !asks {
        return false;
    }
    let command = || match here() {
        Some(project) => whole_command(&project, ""),
        None => super::bare_command(),
    };
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

fn here() -> Option<Project> {
    project(&std::env::current_dir().ok()?).ok()
}

/// Candidates that begin with what was typed.
fn beginning(typed: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().into_owned();
    let fitting = names.into_iter().filter(|name| name.starts_with(&typed));
    fitting.map(CompletionCandidate::new).collect()
}

/// The runs of this project, as WORKFLOW/RUN.
pub fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(project) = here() else { return Vec::new() };
        let runs = Runs::new(&project).all_runs().runs;
        beginning(typed, runs.iter().map(|run| run.id.to_string()))
    })
}

/// The workflows that are known here.
pub fn workflows() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(project) = here() else { return Vec::new() };
        beginning(typed, project.workflows.iter().map(|entry| entry.name.clone()))
    })
}

/// The jobs of this project, as WORKFLOW/RUN/JOB.
pub fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(project) = here() else { return Vec::new() };
        let jobs = Runs::new(&project).jobs();
        let names = jobs.iter().flat_map(|(run, jobs)| {
            jobs.keys().map(|job| format!("{}/{job}", run.id)).collect::<Vec<_>>()
        });
        beginning(typed, names)
    })
}
