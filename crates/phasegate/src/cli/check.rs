//! `phasegate check`

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::checks::Checks;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;
use serde_json::json;

use super::{Failed, Outcome, when};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a check now, to see what it says; the gate runs it itself
    Run {
        /// The check, as NAME or WORKFLOW/NAME
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the checks and what came of them
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Gate::new(project);
    match &options.what {
        What::Run { name, json } => run_one(project, &gate, name, *json),
        What::List { json } => list(project, &gate, *json),
    }
}

/// Every check that has something to run, with its workflow. A workflow that cannot be read has none.
fn all(project: &Project, gate: &Gate) -> Vec<(Arc<Workflow>, usize)> {
    let workflows = project.workflows.iter().filter_map(|entry| gate.workflow(&entry.name).ok());
    workflows
        .flat_map(|workflow| {
            let checks = 0..workflow.checks.len();
            let own = checks
                .filter(|index| !workflow.has_nothing_to_check(&workflow.checks[*index].name));
            own.map(|index| (workflow.clone(), index)).collect::<Vec<_>>()
        })
        .collect()
}

fn run_one(project: &Project, gate: &Gate, name: &str, as_json: bool) -> Outcome {
    let all = all(project, gate);
    let full = |(workflow, index): &(Arc<Workflow>, usize)| {
        format!("{}/{}", workflow.name, workflow.checks[*index].name)
    };
    let fits = |it: &&(Arc<Workflow>, usize)| full(it) == name || it.0.checks[it.1].name == name;
    let found: Vec<_> = all.iter().filter(fits).collect();
    let (workflow, index) = match found.as_slice() {
        [one] => one,
        [] => {
            let known: Vec<String> = all.iter().map(full).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(Failed(format!("there is no check {name:?}; there are: {known}")));
        }
        several => {
            let names: Vec<String> = several.iter().map(|it| full(it)).collect();
            return Err(Failed(format!("{name:?} could be {}", names.join(" or "))));
        }
    };
    let result = gate.run_check(workflow, &workflow.checks[*index].name)?;
    if as_json {
        print::json(&result);
    } else {
        if !result.tail.is_empty() {
            print::line(&result.tail);
        }
        let colour = if result.ok { Paint::Green } else { Paint::Red };
        print::line(&paint(colour, &format!("{name} {}", result.summary())));
    }
    Ok(if result.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(project: &Project, gate: &Gate, as_json: bool) -> Outcome {
    let mut rows = Vec::new();
    for (workflow, index) in all(project, gate) {
        let check = &workflow.checks[index];
        let checks = Checks::new(&project.root, &workflow);
        let trusted = gate.is_trusted(&workflow);
        let running = checks.running_since(&check.name);
        let last = if trusted { checks.last(&check.name) } else { None };
        if as_json {
            rows.push(json!({
                "check": format!("{}/{}", workflow.name, check.name),
                "run": check.run,
                "timeout_seconds": check.timeout.as_secs(),
                "trusted": trusted,
                "running_since": running,
                "last": last.as_ref().map(|(result, _)| result),
                "on_this_tree": last.as_ref().map(|(_, same)| same),
            }));
            continue;
        }
        let state = match (trusted, running, &last) {
            (false, ..) => format!("needs `phasegate trust {}`", workflow.name),
            (_, Some(since), _) => format!("running, started {}", when::ago(since)),
            (_, None, Some((result, true))) => format!("{}, on this tree", result.summary()),
            (_, None, Some((result, false))) => format!("{}, on another tree", result.summary()),
            (_, None, None) => "has not run yet".into(),
        };
        let name = paint(Paint::Bold, &format!("{}/{}", workflow.name, check.name));
        print::line(&format!("{name}  {state}"));
        print::line(&paint(Paint::Dim, &format!("  {}", check.run.join(" "))));
    }
    if as_json {
        print::json(&rows);
    } else if all(project, gate).is_empty() {
        print::line("No workflow here has a check.");
    }
    Ok(ExitCode::SUCCESS)
}
