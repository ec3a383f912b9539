//! The command line. Commands of our own are declared here; those of a workflow are made from the
//! actions that it declares.

mod accept;
mod action;
mod cancel;
mod ci;
mod complete;
mod demo;
mod doctor;
mod draw;
mod drive;
mod eject;
pub mod fleet;
mod help;
mod init;
mod jobs;
mod lint;
mod list;
mod log;
mod man;
mod mutate;
mod new;
mod owner;
mod pause;
mod prove;
mod prune;
mod questions;
mod repl;
mod replay;
mod schema;
mod signing;
mod simulate;
pub mod status;
mod store;
mod test;
mod trust;
mod uninstall;
mod verify;
mod wait;
mod when;
mod why;
mod worker;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use phasegate_clients::usual;
use phasegate_engine::step::Event;
use phasegate_runtime::bindings;
use phasegate_runtime::caller;
use phasegate_runtime::catalog::Entry;
use phasegate_runtime::gate::{Found, GateError, Runs};
use phasegate_runtime::project::{self, Project};
use phasegate_runtime::variables;

use crate::outcome::{Code, Exit, Failed, Failure, Outcome};
use crate::request::session;
use crate::{acp, mcp, print, request, web};

/// Decides when a coding agent may stop, advance, or must go on.
#[derive(Debug, Parser)]
#[command(name = "phasegate", version, help_template = help::TEMPLATE, subcommand_required = true)]
#[command(arg_required_else_help = true)]
struct Cli {
    /// Work as if started in this folder; anywhere on the line
    #[arg(short = 'C', value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install the hooks, and a starter gate that runs the tests of this project
    #[command(
        after_help = "Examples:\n  phasegate init --print\n  phasegate init --client claude,codex\n  phasegate init --user"
    )]
    Init(init::Options),
    /// Remove the hooks that `init` installed
    #[command(
        after_help = "Examples:\n  phasegate uninstall --print\n  phasegate uninstall --purge\n  phasegate uninstall --user --purge"
    )]
    Uninstall(uninstall::Options),
    /// Check that everything works, and say how to repair what does not
    Doctor(doctor::Options),
    /// List the workflows that are known here
    List(Output),
    /// Show the runs of this project
    Status(status::Options),
    /// Show the runs of all projects and machines of the store, what needs somebody first
    #[command(after_help = "Examples:\n  phasegate fleet\n  phasegate fleet --project shop --json")]
    Fleet(fleet::Options),
    /// Explain the last decision of a run: rules, guards, evidence
    #[command(
        after_help = "Examples:\n  phasegate why\n  phasegate why triage/web --all\n  phasegate why --now"
    )]
    Why(why::Options),
    /// Show the journal of a run
    #[command(after_help = "Examples:\n  phasegate log -n 5\n  phasegate log --verify triage/web")]
    Log(log::Options),
    /// Decide the lines of a journal again, with the definition of the run or with another
    #[command(
        after_help = "Examples:\n  phasegate replay triage/web\n  phasegate replay --all --definition ship.toml"
    )]
    Replay(replay::Options),
    /// Bundle a run, signed, so that others can decide it again; for people
    #[command(after_help = "Example:\n  phasegate prove ship/web -o .phasegate/proofs/web.json")]
    Prove(prove::Options),
    /// Check a bundle: signature, tree, chain, evidence, and every decision
    #[command(after_help = "Example:\n  phasegate verify-proof web.json --signers allowed_signers")]
    VerifyProof(prove::VerifyOptions),
    /// Check the proofs of this commit in a pipeline, and run their checks again
    #[command(after_help = "Example:\n  phasegate ci --signers .github/allowed_signers")]
    Ci(ci::Options),
    /// Remove what runs that are over have left: evidence, logs, worktrees; for people
    #[command(
        after_help = "Examples:\n  phasegate prune --print\n  phasegate prune --older-than 8w --yes"
    )]
    Prune(prune::Options),
    /// End a run for good
    #[command(after_help = "Example:\n  phasegate cancel triage/web --reason 'wrong findings'")]
    Cancel(cancel::Options),
    /// Pause a run: it holds no session until it is resumed; for people
    #[command(after_help = "Example:\n  phasegate pause triage/web --reason 'a demo first'")]
    Pause(pause::Options),
    /// Resume a run that was paused; for people
    #[command(after_help = "Example:\n  phasegate resume triage/web")]
    Resume(pause::Options),
    /// Ask the person something, and let this session stop until there is an answer; for agents
    #[command(
        after_help = "Examples:\n  phasegate ask-human 'Which of the two databases?'\n  phasegate ask-human --seconds 60"
    )]
    AskHuman(questions::Ask),
    /// Answer what the agent of a run has asked; for people
    #[command(after_help = "Example:\n  phasegate answer triage/web 'The second one.'")]
    Answer(questions::Reply),
    /// Take a run over for a session, at once
    #[command(after_help = "Example:\n  phasegate adopt triage/web")]
    Adopt(owner::Adopt),
    /// Give up a run, so that another session can take it
    #[command(after_help = "Example:\n  phasegate release triage/web")]
    Release(owner::Release),
    /// Accept a change made outside the gate: of a run's definition, or of what only its rules may set
    #[command(
        alias = "accept-definition",
        after_help = "Example:\n  phasegate accept triage/web --reason 'a better prompt'"
    )]
    Accept(accept::Options),
    /// List what runs for the runs of this project: checks, reviewers, workers, agents, commands
    #[command(
        aliases = ["agents", "agent", "check"],
        after_help = "Examples:\n  phasegate jobs --watch\n  phasegate jobs logs -f\n  phasegate jobs run tests"
    )]
    Jobs(jobs::Options),
    /// Wait until something happens in a run
    #[command(
        after_help = "Examples:\n  phasegate wait --seconds 60\n  phasegate wait phases/web --status APPROVED"
    )]
    Wait(wait::Options),
    /// Show where runs are kept, and bring them from files to PostgreSQL or back
    #[command(
        after_help = "Examples:\n  phasegate store status\n  phasegate store migrate\n  phasegate store import ."
    )]
    Store(store::Options),
    /// Consent to the commands that a workflow of this project runs
    #[command(
        after_help = "Examples:\n  phasegate trust ship --show\n  phasegate trust ship\n  phasegate trust ship --revoke"
    )]
    Trust(trust::Options),
    /// Write a workflow of your own, from a template
    #[command(
        after_help = "Examples:\n  phasegate new ship --template tests\n  phasegate new        asks on a terminal"
    )]
    New(new::Options),
    /// Look for mistakes in workflow definitions
    #[command(
        after_help = "Examples:\n  phasegate lint\n  phasegate lint .phasegate/workflows/ship.toml --strict"
    )]
    Lint(lint::Options),
    /// Draw a workflow as a diagram or a table
    #[command(
        after_help = "Examples:\n  phasegate draw triage --format table\n  phasegate draw triage --run triage/web\n  phasegate draw triage --format svg > triage.svg"
    )]
    Draw(draw::Options),
    /// Run the case files of workflows and show which rules they cover
    #[command(after_help = "Examples:\n  phasegate test\n  phasegate test ship --full-coverage")]
    Test(test::Options),
    /// Prove what holds of every run of a workflow, or show how it does not
    #[command(
        after_help = "Exit codes: 0 proved, 1 found, 2 nothing found, but not everything was explored.\n\nExamples:\n  phasegate verify ship\n  phasegate verify ship --write && phasegate test ship"
    )]
    Verify(verify::Options),
    /// Go through a workflow step by step, with made-up evidence; ends as a case
    #[command(
        after_help = "Examples:\n  phasegate simulate ship\n  printf '1\\n2\\nsave\\n' | phasegate simulate ship"
    )]
    Simulate(simulate::Options),
    /// Show which mistakes in a workflow its cases would not notice
    #[command(after_help = "Examples:\n  phasegate mutate\n  phasegate mutate ship")]
    Mutate(mutate::Options),
    /// Copy a built-in workflow into this project, where it wins over the built-in one
    Eject(eject::Options),
    /// Let a headless agent work on a run, turn by turn, until the gate lets it go
    Drive(drive::Options),
    /// Play a whole run with a scripted agent, in a temporary project
    Demo(demo::Options),
    /// Print the JSON schema of workflow definitions, for editors
    Schema(schema::Options),
    /// Work on a run line by line, with the actions of its workflow
    Repl(repl::Options),
    /// Serve the actions of a workflow as MCP tools, over stdio or HTTP
    #[command(
        after_help = "Examples:\n  phasegate mcp\n  phasegate mcp --http 127.0.0.1:7421\n  phasegate mcp --workflow task"
    )]
    Mcp(mcp::Options),
    /// Show the runs as a page in the browser, on this machine only
    #[command(after_help = "Example:\n  phasegate web --port 0")]
    Web(web::Options),
    /// Do jobs for the runs of other machines, from the queue of the store
    #[command(
        after_help = "Examples:\n  phasegate worker --jobs 2\n  phasegate worker --labels linux,gpu\n  phasegate worker --trust-store"
    )]
    Worker(worker::Options),
    /// Let an agent that speaks the Agent Client Protocol take a turn; Phasegate calls this itself
    #[command(hide = true)]
    AcpTurn {
        /// The session to go on with
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Allow whatever it asks for
        #[arg(long)]
        all_rights: bool,
        /// A command that it may run
        #[arg(long, value_name = "LINE")]
        may_run: Vec<String>,
        /// The agent's program and its arguments
        #[arg(last = true, required = true, value_name = "AGENT")]
        agent: Vec<String>,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  source <(phasegate completions bash)\n  phasegate completions fish | source"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, of a command if one is named
    #[command(after_help = "Example:\n  phasegate man status | man -l -")]
    Man(man::Options),
    /// Print one line about the session's run, for a client's status line (reads the client's JSON
    /// on stdin)
    Statusline,
    /// Answer a client's hook (reads the client's JSON on stdin)
    #[command(override_usage = hook_usage())]
    Hook,
}

fn hook_usage() -> String {
    format!("phasegate hook EVENT [--client {}]", usual().name())
}

#[derive(Debug, Args)]
struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Says how it is used, where no command is given. Old clients start a hook without its arguments: to them
/// an exit code of 2 would be a block, and text on stdout something to tell the model.
pub fn help() -> ExitCode {
    let current = std::env::current_dir().map_err(Failed::from);
    let command = match current.and_then(|folder| project(&folder)) {
        Ok(project) => whole_command(&project, HELP),
        Err(_) => help::grouped(Cli::command()),
    };
    let text = command.clone().render_help().to_string();
    if std::io::stdin().is_terminal() {
        print::out(&text);
        return ExitCode::SUCCESS;
    }
    print::note(&text);
    ExitCode::FAILURE
}

/// The command line's way in, in the folder of `-C`.
pub fn main(folder: Option<&Path>, words: &[OsString]) -> ExitCode {
    if complete::answer() {
        return Exit::Done.into();
    }
    run(folder, words).unwrap_or_else(|Failed { message, code }| {
        if wants_json(words) {
            print::json(&Failure::new(code, &message));
        } else {
            let label = if print::colour_stderr() { "\x1b[31merror\x1b[0m" } else { "error" };
            print::note(&format!("{label}: {message}"));
        }
        Exit::Failed.into()
    })
}

/// Whether a program reads the answer.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// The command line as clap understands it. It ends the process where that asks for help, or cannot be
/// understood.
fn understood(command: clap::Command, words: &[OsString]) -> ArgMatches {
    let all = std::iter::once(OsString::from("phasegate")).chain(words.iter().cloned());
    command.try_get_matches_from(all).unwrap_or_else(|error| {
        if !error.use_stderr() || !wants_json(words) {
            error.exit();
        }
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        // What follows a blank line is how the command is used, and where to read more.
        let (message, usage) = text.split_once("\n\n").unwrap_or((text, ""));
        let hint = usage.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
        print::json(&Failure::new(Code::Usage, &format!("{message}{hint}")));
        std::process::exit(Exit::Usage as i32)
    })
}

fn run(folder: Option<&Path>, words: &[OsString]) -> Outcome {
    if let Some(folder) = folder {
        let moved = std::env::set_current_dir(folder);
        moved.map_err(|error| format!("cannot work in {}: {error}", folder.display()))?;
    }
    // Our own commands are what they are in every project: no workflow is read to understand them.
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let own = is_own(first) && ![HELP, START, DO].contains(&first);
    let own = own.then(|| Cli::from_arg_matches(&understood(bare_command(), words)));
    let own = own.transpose().unwrap_or_else(|error| error.exit()).map(|cli| cli.command);
    let project = match (project(&std::env::current_dir()?), &own) {
        (Ok(project), _) => project,
        // Where everything else gives up, it says what to do.
        (Err(Failed { message: why, .. }), Some(Command::Doctor(options))) => {
            return Ok(doctor::without_project(&why, options));
        }
        (Err(failed), Some(own)) if own.works_unconfigured() => unconfigured(failed)?,
        (Err(failed), _) => return Err(failed),
    };
    if let Some(own) = own {
        return dispatch(own, &project);
    }
    let matches = understood(whole_command(&project, first), words);
    match matches.subcommand() {
        Some((START, matches)) => {
            of_workflow(matches, |name, own| action::start(&project, name, own))
        }
        Some((DO, matches)) => of_workflow(matches, |name, own| action::run(&project, name, own)),
        Some((name, matches)) if !is_own(name) => action::run(&project, name, matches),
        _ => match Cli::from_arg_matches(&matches) {
            Ok(cli) => dispatch(cli.command, &project),
            Err(error) => error.exit(),
        },
    }
}

/// The command that explains the others, those of workflows included.
const HELP: &str = "help";

/// Starts a run of any workflow, whatever the workflow calls that.
const START: &str = "start";

/// Carries out an action of any workflow, also of one that is called like a command of ours.
const DO: &str = "do";

/// Whether a command is one of ours, whatever workflows there are.
fn is_own(name: &str) -> bool {
    [HELP, START, DO].contains(&name) || Cli::command().find_subcommand(name).is_some()
}

/// Hands a command that is followed by a workflow's name on to that workflow.
fn of_workflow(matches: &ArgMatches, run: impl Fn(&str, &ArgMatches) -> Outcome) -> Outcome {
    match matches.subcommand() {
        Some((name, own)) => run(name, own),
        None => Err(Failed::new("name a workflow; `phasegate list` shows them".into())),
    }
}

/// Our own commands, and those of the workflows. `start` and `do` have every workflow below them; to read
/// the definitions for that costs time, which only a command line pays that names them.
fn whole_command(project: &Project, first: &str) -> clap::Command {
    let all = &project.workflows;
    let below = |name: &'static str, about: &'static str, make: fn(&Entry) -> clap::Command| {
        let command = clap::Command::new(name).about(about).arg_required_else_help(true);
        let is_meant = [name, HELP, ""].contains(&first);
        command.subcommand_required(true).subcommands(all.iter().filter(|_| is_meant).map(make))
    };
    let start = below(START, "Start a run of a workflow", action::starting);
    let perform = below(DO, "Carry out an action of a workflow", action::command);
    let workflows = all.iter().filter(|entry| !is_own(&entry.name)).map(action::command);
    help::grouped(Cli::command().subcommand(start).subcommand(perform).subcommands(workflows))
}

/// Our own commands, without those of workflows.
fn bare_command() -> clap::Command {
    Cli::command()
}

/// The folder of `-C`, wherever it stands before `--`, and the other arguments. It is needed before they can be
/// parsed: the workflows in the folder are a part of the command line.
pub fn chosen_folder(mut args: Vec<OsString>) -> (Option<PathBuf>, Vec<OsString>) {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let attached = |arg: &OsString| Some(PathBuf::from(arg.to_str()?.strip_prefix("-C=")?));
    let Some(at) = args[..end].iter().position(|arg| arg == "-C" || attached(arg).is_some()) else {
        // `-CDIR` only comes first: behind a command it may be the value of something else.
        let first = args.first().and_then(|arg| arg.to_str()?.strip_prefix("-C"));
        let folder = first.map(PathBuf::from);
        args.drain(..usize::from(folder.is_some()));
        return (folder, args);
    };
    if let Some(folder) = attached(&args[at]) {
        args.remove(at);
        return (Some(folder), args);
    }
    if at + 1 >= end {
        return (None, args);
    }
    let folder = args.drain(at..at + 2).nth(1);
    (folder.map(PathBuf::from), args)
}

/// The project of a folder; where there is none yet, the repository's root or the folder itself.
fn project(folder: &Path) -> Result<Project, Failed> {
    let folder = folder.canonicalize()?;
    // An agent that has gone to a worktree still means the project of its session.
    let bound = session().as_deref().and_then(bindings::of);
    for root in bound.iter().flat_map(|bound| &bound.projects).filter(|root| root.is_dir()) {
        let project = Project::open(root)?.seen_from(&folder);
        if project.site != project.root {
            return Ok(project);
        }
    }
    if let Some(project) = Project::find(&folder)? {
        return Ok(project);
    }
    let root = project::upward(&folder).find(|folder| folder.join(".git").exists());
    Ok(Project::open(root.unwrap_or(&folder))?)
}

/// The project of this folder, passing over a configuration that cannot be understood.
fn unconfigured(failed: Failed) -> Result<Project, Failed> {
    let folder = std::env::current_dir()?.canonicalize()?;
    let Err(error) = Project::find(&folder) else { return Err(failed) };
    print::note(&format!("warning: {error}; nothing is held until that is repaired"));
    Ok(Project::unconfigured(&error.root).seen_from(&folder))
}

impl Command {
    /// Whether it only looks, or lets somebody go.
    fn works_unconfigured(&self) -> bool {
        use Command::{Cancel, List, Log, Pause, Status, Why};
        matches!(self, Cancel(_) | List(_) | Log(_) | Pause(_) | Status(_) | Why(_))
    }
}

fn dispatch(own: Command, project: &Project) -> Outcome {
    match own {
        Command::Init(options) => init::run(project, &options),
        Command::Uninstall(options) => uninstall::run(project, &options),
        Command::Doctor(options) => doctor::run(project, &options),
        Command::List(options) => list::run(project, options.json),
        Command::Status(options) => status::run(project, &options),
        Command::Fleet(options) => fleet::run(project, &options),
        Command::Why(options) => why::run(project, &options),
        Command::Log(options) => log::run(project, &options),
        Command::Prove(options) => prove::run(project, &options),
        Command::VerifyProof(options) => prove::verify_proof(project, &options),
        Command::Ci(options) => ci::run(project, &options),
        Command::Replay(options) => replay::run(project, &options),
        Command::Prune(options) => prune::run(project, &options),
        Command::Cancel(options) => cancel::run(project, &options),
        Command::Pause(options) => pause::pause(project, &options),
        Command::Resume(options) => pause::resume(project, &options),
        Command::AskHuman(options) => questions::ask(project, &options),
        Command::Answer(options) => questions::answer(project, &options),
        Command::Adopt(options) => owner::adopt(project, &options),
        Command::Release(options) => owner::release(project, &options),
        Command::Accept(options) => accept::run(project, &options),
        Command::Jobs(options) => jobs::run(project, &options),
        Command::Wait(options) => wait::run(project, &options),
        Command::Store(options) => store::run(project, &options),
        Command::Trust(options) => trust::run(project, &options),
        Command::New(options) => new::run(project, &options),
        Command::Lint(options) => lint::run(project, &options),
        Command::Draw(options) => draw::run(project, &options),
        Command::Test(options) => test::run(project, &options),
        Command::Verify(options) => verify::run(project, &options),
        Command::Simulate(options) => simulate::run(project, &options),
        Command::Mutate(options) => mutate::run(project, &options),
        Command::Eject(options) => eject::run(project, &options),
        Command::Drive(options) => drive::run(project, &options),
        Command::AcpTurn { session, all_rights, may_run, agent } => {
            let allowed = acp::Allowed::new(&project.root, all_rights, may_run);
            Ok(acp::main(allowed, session, &agent)?)
        }
        Command::Demo(options) => demo::run(project, &options),
        Command::Schema(options) => schema::run(project, &options),
        Command::Repl(options) => repl::run(project, &options),
        Command::Mcp(options) => mcp::run(project, &options),
        Command::Web(options) => web::run(project, &options),
        Command::Worker(options) => worker::run(project, &options),
        Command::Completions { shell } => complete::script(shell),
        Command::Man(options) => man::run(project, &options),
        // `main` takes these two before they come here; this is how `help` knows of them.
        Command::Statusline | Command::Hook => {
            Err(Failed::new("`hook` and `statusline` come first".into()))
        }
    }
}

/// The run to look at: the one that is named, or else the one that decided last.
fn shown_run(gate: &Runs, name: Option<&str>) -> Result<Found, GateError> {
    if let Some(name) = name {
        return gate.run(name);
    }
    let runs = gate.runs().runs;
    let last = |run: &&Found| run.ledger.session.last.as_ref().map(|last| last.at);
    match runs.iter().filter(|run| gate.is_working(run)).max_by_key(last) {
        Some(run) if last(&run).is_some() => Ok(run.clone()),
        _ => request::chosen_among(gate, runs, session().as_deref(), false),
    }
}

/// The run that is meant, of any workflow.
fn chosen_run(gate: &Runs, name: Option<&str>) -> Result<Found, GateError> {
    match name {
        Some(name) => gate.run(name),
        None => request::chosen_among(gate, gate.runs().runs, session().as_deref(), false),
    }
}

/// Refuses to an agent that Phasegate has started, and to what that has started, what is not about its own work.
fn no_agent(project: &Project, what: &str) -> Result<(), Failed> {
    if std::env::var_os(variables::TOKEN).is_some() || caller::is_job_of(&project.root) {
        let why = format!("`{what}` is not for an agent that a run has started");
        return Err(Failed::of(Code::NotPermitted, why));
    }
    Ok(())
}

/// An event that a command of our own causes.
fn event(name: &str) -> Event {
    Event { session: session(), ..Event::new(name, caller::actor()) }
}
