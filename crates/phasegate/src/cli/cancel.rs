//! `phasegate cancel`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;

use super::{Outcome, actor, chosen_run, session};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the only one
    run: Option<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Gate::new(project);
    let run = chosen_run(&gate, options.run.as_deref())?;
    if !gate.is_working(&run) {
        print::line(&format!("Run {} is {} already.", run.id, gate.report(&run).condition));
        return Ok(ExitCode::SUCCESS);
    }
    let event =
        Event { name: "cancel".into(), actor: actor(), session: session(), params: Json::object() };
    gate.cancel(&run, &event, options.reason.clone())?;
    print::line(&format!(
        "Run {} is cancelled. Its state document {} stays as it is.",
        run.id, run.place
    ));
    Ok(ExitCode::SUCCESS)
}
