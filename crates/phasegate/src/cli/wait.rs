//! `phasegate wait`: until something happens in a run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use serde_json::json;

use super::{Outcome, chosen_run, event};
use crate::print;

/// How often the run is looked at, beside every change: an agent that was killed changes nothing.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Options {
    /// The run; needed only if there are several
    run: Option<String>,
    /// How long to wait at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u64,
    /// Wait until this is where the run stands, as APPROVED
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Wait until no job of the run is at work any more
    #[arg(long, conflicts_with_all = ["status", "since"])]
    settled: bool,
    /// The revision that an earlier answer told; by default now
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Waits. Exit code 1 tells that what was waited for has not happened.
pub fn run(project: &Project, options: &Options) -> Outcome {
    let run = chosen_run(&Runs::new(project), options.run.as_deref())?.id;
    let (said, heard) = std::sync::mpsc::channel();
    // Before the first look, so that nothing is missed behind it.
    let _watch = Runs::new(project).watch(&run, move || {
        let _ = said.send(());
    });
    let name = run.to_string();
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let mut since = options.since;
    loop {
        // A gate keeps what it has read; each look is a new one.
        let gate = Runs::new(project);
        let found = gate.run(&name)?;
        let now = found.ledger.position.seq;
        let headline = gate.headline(&found, &event("wait"));
        let status = headline.as_ref().map(|(status, _)| status.clone());
        let status = status.unwrap_or_else(|| gate.report(&found).phase);
        let changed = match &options.status {
            Some(wanted) => status == *wanted,
            None if options.settled => gate.is_settled(&found),
            None => *since.get_or_insert(now) < now,
        };
        if changed || Instant::now() >= deadline {
            if options.json {
                print::json(&json!({
                    "run": name, "changed": changed, "revision": now, "status": status,
                }));
            } else {
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
