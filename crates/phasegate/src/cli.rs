//! The command line. Commands of our own are declared here; those of a workflow are made from the
//! actions that it declares.

mod action;
mod cancel;
mod demo;
mod draw;
mod eject;
mod lint;
mod list;
mod log;
mod status;
mod test;
mod when;
mod why;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use phasegate_engine::step::Actor;
use phasegate_runtime::gate::{Found, Gate, GateError};
use phasegate_runtime::project::Project;

use crate::print;

const EXAMPLES: &str = "\
Examples:
  phasegate demo                                  see a whole run in ten seconds
  phasegate triage start --from findings.json     start a run
  phasegate status                                where the runs are
  phasegate why                                   why the last stop was answered as it was
  phasegate draw triage --format table            a workflow's rules as a table

In a client's settings the hook is `phasegate hook stop --client claude`.";

/// Decides when a coding agent may stop, advance, or must go on.
#[derive(Debug, Parser)]
#[command(name = "phasegate", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(arg_required_else_help = true)]
struct Cli {
    /// Work as if started in this folder
    #[arg(short = 'C', value_name = "DIR", global = true)]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the workflows that are known here
    List(Json),
    /// Show the runs of this project
    Status(Json),
    /// Explain the last decision of a run: rules, guards, evidence
    Why(why::Options),
    /// Show the journal of a run
    Log(log::Options),
    /// End a run for good
    Cancel(cancel::Options),
    /// Look for mistakes in workflow definitions
    Lint(lint::Options),
    /// Draw a workflow as a diagram or a table
    Draw(draw::Options),
    /// Run the case files of workflows and show which rules they cover
    Test(test::Options),
    /// Copy a built-in workflow into this project, where it wins over the built-in one
    Eject(eject::Options),
    /// Play a whole run with a scripted agent, in a temporary project
    Demo(demo::Options),
    /// Print the JSON schema of workflow definitions, for editors
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
    /// Answer a client's hook (reads the client's JSON on stdin)
    #[command(override_usage = "phasegate hook stop [--client claude]")]
    Hook,
}

#[derive(Debug, Args)]
struct Json {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a command failed with: a sentence for the user.
pub struct Failed(pub String);

impl<E: std::fmt::Display> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed(error.to_string())
    }
}

pub type Outcome = Result<ExitCode, Failed>;

/// The command line's way in.
pub fn main() -> ExitCode {
    let folder = chosen_folder();
    let (project, problem) = match project(&folder) {
        Ok(project) => (project, None),
        Err(failed) => (None, Some(failed)),
    };
    let command = command(project.as_ref());
    let matches = command.clone().get_matches();
    let outcome = match (matches.subcommand(), project, problem) {
        (_, _, Some(failed)) => Err(failed),
        (Some((name, matches)), Some(project), _) if project.workflow(name).is_some() => {
            action::run(&project, name, matches)
        }
        (_, Some(project), _) => match Cli::from_arg_matches(&matches) {
            Ok(cli) => dispatch(cli.command, &project, command),
            Err(error) => error.exit(),
        },
        (_, None, None) => Err(Failed(format!("{} is no folder", folder.display()))),
    };
    outcome.unwrap_or_else(|Failed(message)| {
        let label = if print::colour_stderr() { "\x1b[31merror\x1b[0m" } else { "error" };
        print::note(&format!("{label}: {message}"));
        ExitCode::FAILURE
    })
}

/// Our own commands, and those of the workflows.
fn command(project: Option<&Project>) -> clap::Command {
    let mut command = Cli::command();
    for entry in project.iter().flat_map(|project| &project.workflows) {
        // A workflow cannot take a name that is a command.
        if command.find_subcommand(&entry.name).is_none() {
            command = command.subcommand(action::command(entry));
        }
    }
    command
}

/// The folder of `-C`, which is needed before the arguments can be parsed: the workflows in it
/// are a part of the command line.
fn chosen_folder() -> PathBuf {
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str() else { continue };
        if text == "-C" {
            return args.next().map(PathBuf::from).unwrap_or_default();
        }
        if let Some(folder) = text.strip_prefix("-C") {
            return PathBuf::from(folder);
        }
        if text == "--" {
            break;
        }
    }
    PathBuf::from(".")
}

/// The project of a folder; where there is none yet, the repository's root or the folder itself.
fn project(folder: &Path) -> Result<Option<Project>, Failed> {
    let Ok(folder) = folder.canonicalize() else { return Ok(None) };
    if !folder.is_dir() {
        return Ok(None);
    }
    if let Some(project) = Project::find(&folder)? {
        return Ok(Some(project));
    }
    let root = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&folder);
    Ok(Some(Project::open(root)?))
}

fn dispatch(command: Command, project: &Project, full: clap::Command) -> Outcome {
    match command {
        Command::List(options) => list::run(project, options.json),
        Command::Status(options) => status::run(project, options.json),
        Command::Why(options) => why::run(project, &options),
        Command::Log(options) => log::run(project, &options),
        Command::Cancel(options) => cancel::run(project, &options),
        Command::Lint(options) => lint::run(project, &options),
        Command::Draw(options) => draw::run(project, &options),
        Command::Test(options) => test::run(project, &options),
        Command::Eject(options) => eject::run(project, &options),
        Command::Demo(options) => demo::run(&options),
        Command::Schema => {
            print::out(&phasegate_engine::schema::schema());
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut full = full;
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut full, "phasegate", &mut script);
            print::out(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(full).render(&mut page)?;
            print::out(&String::from_utf8_lossy(&page));
            Ok(ExitCode::SUCCESS)
        }
        // `main` takes the hook before it comes here; only `phasegate -C DIR hook` gets this far.
        Command::Hook => Err(Failed("`hook` must be the first argument".into())),
    }
}

/// The run that is meant: the named one, or the only one that is open, or the only one.
fn chosen_run(gate: &Gate, name: Option<&str>) -> Result<Found, GateError> {
    if let Some(name) = name {
        return gate.run(name);
    }
    let (mut runs, _) = gate.runs();
    let is_open = |run: &Found| gate.is_working(run);
    if runs.iter().filter(|run| is_open(run)).count() == 1 {
        runs.retain(is_open);
    }
    match runs.len() {
        1 => Ok(runs.remove(0)),
        0 => Err(GateError::Other("there is no run in this project".into())),
        _ => {
            let names: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
            Err(GateError::Other(format!("which run? There are: {}", names.join(", "))))
        }
    }
}

/// The client's session, where a command runs inside of one.
fn session() -> Option<String> {
    std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|session| !session.is_empty())
}

/// Who gives the command: inside of a client it is the agent.
fn actor() -> Actor {
    if std::env::var_os("CLAUDECODE").is_some() { Actor::Worker } else { Actor::Human }
}
