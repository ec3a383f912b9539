//! `phasegate accept-definition`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_runtime::caller;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, chosen_run, event};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the only one
    run: Option<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: String,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    caller::must_be_human("accepting a definition")?;
    if options.reason.trim().is_empty() {
        return Err(Failed("give a reason with --reason; it goes into the journal".into()));
    }
    let gate = Gate::new(project);
    let run = chosen_run(&gate, options.run.as_deref())?;
    if gate.is_outdated(&run).is_none() {
        print::line(&format!("Run {} already follows the present definition.", run.id));
        return Ok(ExitCode::SUCCESS);
    }
    let mut event = event("accept-definition");
    event.params = params([("reason".to_string(), Json::from(options.reason.as_str()))]);
    gate.accept_definition(&run, &event)?;
    print::line(&format!("Run {} now follows the present definition.", run.id));
    let workflow = gate.workflow(&run.id.workflow)?;
    if !gate.is_trusted(&workflow) {
        let name = &workflow.name;
        print::line(&format!("It runs commands: `phasegate trust {name}` is needed too."));
    }
    Ok(ExitCode::SUCCESS)
}
