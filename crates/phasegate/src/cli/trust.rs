//! `phasegate trust`

use std::process::ExitCode;

use clap::Args;
use phasegate_runtime::catalog::Origin;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, trust};

use super::{Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow
    workflow: String,
    /// Take the consent back
    #[arg(long)]
    revoke: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let name = &options.workflow;
    let gate = Gate::new(project);
    let workflow = gate.workflow(name)?;
    let origin = project.workflow(name).map(|entry| entry.origin.clone());
    let Some(Origin::File(path)) = origin else {
        print::line(&format!("Workflow {name} is built in: it needs no consent."));
        return Ok(ExitCode::SUCCESS);
    };
    if options.revoke {
        let was = trust::distrust(&workflow.digest)?;
        let said = if was { "is not trusted any more" } else { "was not trusted" };
        print::line(&format!("Workflow {name} {said}."));
        return Ok(ExitCode::SUCCESS);
    }
    if workflow.checks.is_empty() {
        print::line(&format!("Workflow {name} runs no commands: it needs no consent."));
        return Ok(ExitCode::SUCCESS);
    }
    let shown = path.strip_prefix(&project.root).unwrap_or(&path);
    print::line(&format!("Workflow {name} ({}) runs:", shown.display()));
    for check in &workflow.checks {
        print::line(&format!("  check {}: {}", check.name, check.run.join(" ")));
    }
    caller::must_be_human("consenting to commands").map_err(Failed)?;
    trust::trust(&path, &workflow.digest)?;
    print::line("It is trusted as it is now. A change of it needs your consent again.");
    Ok(ExitCode::SUCCESS)
}
