//! `phasegate wait`: until something happens in a run, or in one of several.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use phasegate_runtime::gate::{Found, Runs};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, chosen_run, complete, event};
use crate::live;
use crate::print;
use crate::waiting::{self, Until, Wait};

/// How often the run is looked at, beside every change: an agent that was killed changes nothing.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; by default all that are open
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// How long to wait at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u64,
    /// Wait until this is where the run stands, as APPROVED
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Wait until no job is at work any more in one of the runs that have some
    #[arg(long, conflicts_with_all = ["status", "since"])]
    settled: bool,
    /// The revision that an earlier answer told; by default now
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What happened, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// Whether what was waited for has happened.
    changed: bool,
    /// A number that grows with everything that happens; for `--since`.
    revision: u64,
    /// Where the run stands.
    status: String,
}

/// Waits. Exit code 1 tells that what was waited for has not happened.
pub fn run(project: &Project, options: &Options) -> Outcome {
    let (said, heard) = std::sync::mpsc::channel();
    // Before the first look, so that nothing is missed behind it.
    let mut watches = Vec::new();
    for run in awaited(&Runs::new(project), options)? {
        let said = said.clone();
        watches.push(Runs::new(project).watch(&run.id, move || {
            let _ = said.send(());
        }));
    }
    if let Some(status) = &options.status {
        let gate = Runs::new(project);
        let runs = awaited(&gate, options)?;
        if let Some(why) = waiting::why_never(&gate, &runs, status)? {
            return Err(Failed::new(why));
        }
    }
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let mut wait = Wait::new(match &options.status {
        Some(status) => Until::Status(status.clone()),
        None if options.settled => Until::Settled,
        None => Until::Change(options.since),
    });
    let event = event("wait");
    loop {
        // A gate keeps what it has read; each look is a new one.
        let gate = Runs::new(project);
        let runs = awaited(&gate, options)?;
        let happened = wait.look(&gate, &runs, &event);
        let is_over = Instant::now() >= deadline;
        if live::is_seen() {
            match runs.iter().flat_map(|run| gate.at_work(run)).last() {
                Some(progress) => live::draw(&progress.to_string()),
                None => live::clear(),
            }
        }
        if let Some(run) = happened.or_else(|| waiting::last(&runs).filter(|_| is_over)) {
            if live::is_seen() {
                live::clear();
            }
            let name = run.id.to_string();
            let changed = happened.is_some();
            let status = waiting::status(&gate, run, &event);
            if options.json {
                let revision = waiting::revision(&runs);
                print::json(&Shown { run: name, changed, revision, status });
            } else {
                let headline = gate.headline(run, &event);
                let told = headline.map_or(status, |headline| print::headline(&headline));
                let nothing = if changed { "" } else { "nothing happened: " };
                print::line(&format!("{name}: {nothing}{told}"));
            }
            return Ok(if changed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = heard.recv_timeout(POLL.min(left));
    }
}

/// The run that is named, or all that are open; where none is, the last one.
fn awaited(gate: &Runs, options: &Options) -> Result<Vec<Found>, Failed> {
    let mut open = gate.runs().runs;
    open.retain(|run| gate.is_working(run));
    if options.run.is_some() || open.is_empty() {
        return Ok(vec![chosen_run(gate, options.run.as_deref())?]);
    }
    Ok(open)
}
