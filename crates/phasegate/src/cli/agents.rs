//! `phasegate agents` and `phasegate agent`: who works for the runs of this project, and their logs.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use phasegate_runtime::agents::{self, Record};
use phasegate_runtime::gate::{Gate, Runs};
use phasegate_runtime::project::Project;
use phasegate_runtime::variables;

use super::{Failed, Outcome};
use crate::print;

/// How often a list or a log that is watched is looked at.
const POLL: Duration = Duration::from_millis(300);

/// How much of a log is printed at once.
const MAX_BYTES: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct ListOptions {
    /// Show the list again whenever it changes, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Also those of runs that are over
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what an agent has printed
    #[command(after_help = "Examples:\n  phasegate agent logs worker-1\n  phasegate agent logs -f")]
    Logs {
        /// The agent, as `worker-1` or `phases/web/worker-1`; by default the last one
        agent: Option<String>,
        /// Go on until the agent has ended
        #[arg(short, long)]
        follow: bool,
    },
    /// Supervise an agent that a run has recorded; Phasegate calls this itself
    #[command(hide = true)]
    Run {
        /// The run
        run: String,
        /// The agent
        agent: String,
    },
}

/// Lists the agents.
pub fn list(project: &Project, options: &ListOptions) -> Outcome {
    let mut shown = String::new();
    let clears = options.watch && std::io::stdout().is_terminal();
    loop {
        let gate = Runs::new(project);
        let mut runs = gate.agents();
        if !options.all {
            runs.retain(|(run, agents)| {
                let is_open = gate.run(&run.to_string()).is_ok_and(|found| gate.is_working(&found));
                is_open || !agents.values().all(Record::is_over)
            });
        }
        if options.json {
            let rows = runs.iter().flat_map(|(run, agents)| {
                let rows = agents.iter().map(
                    move |(id, agent)| serde_json::json!({ "run": run, "agent": agent.row(id) }),
                );
                rows.collect::<Vec<_>>()
            });
            print::json(&rows.collect::<Vec<_>>());
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = Vec::new();
        for (run, agents) in &runs {
            for (id, agent) in agents {
                rows.push(row(&run.to_string(), id, agent, clears || !options.watch));
            }
        }
        let text = if rows.is_empty() {
            "No agent works for an open run of this project (`--all` lists those of others).".into()
        } else {
            print::table(&["AGENT", "ROLE", "STATUS", "TIME", "COST", "END"], &rows)
        };
        if text != shown {
            let clear = if clears { "\x1b[H\x1b[2J" } else { "" };
            print::line(&format!("{clear}{}", text.trim_end()));
            shown = text;
        }
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

fn row(run: &str, id: &str, agent: &Record, with_time: bool) -> Vec<String> {
    let seconds = match (&agent.ended, agent.started) {
        (Some(ended), _) => Some(ended.seconds),
        (None, Some(since)) => {
            // A list that is printed at every change does not change every second.
            let seconds = Timestamp::now().as_second() - since.as_second();
            u64::try_from(seconds).ok().filter(|_| with_time)
        }
        (None, None) => None,
    };
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let cost = agent.ended.as_ref().map(|ended| ended.micro_dollars as f64 / 1e6);
    vec![
        format!("{run}/{id}"),
        agent.role.to_string(),
        agent.status().to_string(),
        seconds.map_or("-".into(), |seconds| format!("{seconds} s")),
        cost.filter(|cost| *cost > 0.0).map_or("-".into(), |cost| format!("${cost:.2}")),
        agent.ended.as_ref().map_or_else(String::new, |ended| ended.words.clone()),
    ]
}

/// Carries out a command about one agent.
pub fn run(project: &Project, options: &Options) -> Outcome {
    match &options.command {
        Command::Logs { agent, follow } => logs(project, agent.as_deref(), *follow),
        Command::Run { run, agent } => supervise(project, run, agent),
    }
}

fn logs(project: &Project, wanted: Option<&str>, follow: bool) -> Outcome {
    let (name, id) = chosen(&Runs::new(project), wanted)?;
    let mut from = 0;
    loop {
        // Whether it has ended is asked first: what it printed before that is read after.
        let runs = Runs::new(project).agents();
        let found = runs.iter().find(|(run, _)| run.to_string() == name);
        let agent = found.and_then(|(_, agents)| agents.get(&id));
        let agent = agent.ok_or_else(|| Failed(format!("agent {id} is gone")))?;
        loop {
            let (bytes, _) = agent.log(&project.root, from, MAX_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            print::bytes(&bytes);
            from += bytes.len() as u64;
        }
        if !follow || agent.is_over() {
            if let Some(ended) = &agent.ended {
                print::note(&format!("{name}/{id} {}", ended.words));
            }
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

/// The agent that is meant: its run and its id.
fn chosen(gate: &Runs, wanted: Option<&str>) -> Result<(String, String), Failed> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (run, agents) in gate.agents() {
        all.extend(agents.keys().map(|id| (run.to_string(), id.clone())));
    }
    let none = || Failed("there is no agent in this project".into());
    let last = all.last().cloned().ok_or_else(none)?;
    let Some(wanted) = wanted else { return Ok(last) };
    // By its id, with the name of its run before it, and with the workflow before that.
    let fits = |(run, id): &(String, String)| {
        let full = format!("/{run}/{id}");
        full.ends_with(&format!("/{wanted}"))
    };
    let known: Vec<String> = all.iter().map(|(run, id)| format!("{run}/{id}")).collect();
    let mut found: Vec<(String, String)> = all.into_iter().filter(fits).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failed(format!("there is no agent {wanted:?}; there are: {}", known.join(", ")))),
        _ => {
            let names: Vec<String> = found.iter().map(|(run, id)| format!("{run}/{id}")).collect();
            Err(Failed(format!("{wanted:?} could be {}", names.join(" or "))))
        }
    }
}

/// The supervisor's main: only whoever was given the secret starts the agent.
fn supervise(project: &Project, run: &str, id: &str) -> Outcome {
    let token = std::env::var(variables::TOKEN).unwrap_or_default();
    let gate = Runs::new(project);
    let (own, agent, _) = gate.identify(&token)?;
    if own.to_string() != run || agent != id {
        return Err(Failed(format!("the token is not that of {run}/{id}")));
    }
    let record = gate.agent(&own, id).ok_or_else(|| format!("there is no agent {id}"))?;
    agents::supervise(&project.root, &record)?;
    // The run goes on by itself: its rules hear of the end now, not when somebody looks next.
    Gate::new(project).supervising().settle_run(run)?;
    Ok(ExitCode::SUCCESS)
}
