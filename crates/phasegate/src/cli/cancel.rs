//! `phasegate cancel`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::events::CANCEL;
use phasegate_runtime::gate::{Found, Gate};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Outcome, chosen_run, complete, event, no_agent};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; by default the only one
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What has become of a run, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// Whether it was open, and is cancelled now.
    cancelled: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    no_agent(project, "cancel")?;
    let gate = Gate::new(project);
    // The run of a standing gate is switched off for its session also before it begins and while it rests.
    let standing = options.run.as_deref().and_then(|name| gate.standing_run(name));
    let is_on = |run: &Found| run.ledger.session.cancelled.is_none();
    let (run, open) = match standing {
        Some(run) => (run.clone(), is_on(&run)),
        None => {
            let run = chosen_run(&gate, options.run.as_deref())?;
            let open = gate.is_working(&run);
            (run, open)
        }
    };
    if open {
        let event = event(CANCEL);
        let reason = options.reason.clone().filter(|reason| !reason.trim().is_empty());
        gate.cancel(&run, &event, reason.as_deref())?;
    }
    if options.json {
        print::json(&Shown { run: run.id.to_string(), cancelled: open });
    } else if open {
        print::line(&format!("Run {} is cancelled.", run.id));
    } else {
        print::line(&format!("Run {} is {} already.", run.id, gate.report(&run).condition));
    }
    Ok(ExitCode::SUCCESS)
}
