//! `phasegate pause` and `phasegate resume`

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use phasegate_runtime::caller;
use phasegate_runtime::gate::{Gate, StandingGate};
use phasegate_runtime::ledger::Paused;
use phasegate_runtime::paused;
use phasegate_runtime::project::Project;
use phasegate_runtime::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, chosen_run, complete, event};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN, or a standing gate by its name; by default the only one
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is paused or resumed, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The run, as WORKFLOW/RUN.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Or the standing gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<String>,
    paused: bool,
    /// Whether it was otherwise before.
    changed: bool,
}

pub fn pause(project: &Project, options: &Options) -> Outcome {
    park(project, options, "pause")
}

pub fn resume(project: &Project, options: &Options) -> Outcome {
    park(project, options, "resume")
}

/// The standing gate that is meant, if it is one and not a run. Without a name, what can be resumed is meant, or what
/// could be paused where there is no run.
fn standing(gate: &Gate, name: Option<&str>, is_resumed: bool) -> Option<StandingGate> {
    let gates = gate.standing_gates();
    let mut meant: Vec<StandingGate> = match name {
        Some(name) => gates.into_iter().filter(|gate| gate.name == name).collect(),
        None if is_resumed => gates.into_iter().filter(StandingGate::is_paused).collect(),
        None if gate.runs().runs.is_empty() => gates,
        None => Vec::new(),
    };
    meant.pop().filter(|_| meant.is_empty())
}

/// Switches a standing gate off for the project, or on again.
fn park_gate(project: &Project, options: &Options, name: &str, gate: &StandingGate) -> Outcome {
    caller::must_be_human(&format!("`phasegate {name} {}`", gate.name))?;
    let reason = options.reason.clone().filter(|reason| !reason.trim().is_empty());
    let paused = (name == "pause").then(|| Paused { at: Timestamp::now(), reason });
    let changed = paused::set(&project.root, &gate.name, paused.as_ref())?;
    if options.json {
        let paused = paused.is_some();
        print::json(&Shown { run: None, gate: Some(gate.name.clone()), paused, changed });
        return Ok(ExitCode::SUCCESS);
    }
    print::line(&match paused {
        Some(paused) => words::stands_paused(&gate.name, paused.reason.as_deref()),
        None if changed => words::stands(&gate.name, &gate.about),
        None => format!("Gate {} was not paused.", gate.name),
    });
    Ok(ExitCode::SUCCESS)
}

fn park(project: &Project, options: &Options, name: &str) -> Outcome {
    let gate = Gate::new(project);
    if let Some(standing) = standing(&gate, options.run.as_deref(), name == "resume") {
        return park_gate(project, options, name, &standing);
    }
    let run = chosen_run(&gate, options.run.as_deref())?;
    if !gate.is_working(&run) {
        let condition = gate.report(&run).condition;
        return Err(Failed::new(format!(
            "run {} is {condition} and does not answer stops",
            run.id
        )));
    }
    let event = event(name);
    let command = format!("`phasegate {name} {}`", run.id);
    if let Err(why) = caller::must_be_human(&command) {
        gate.refuse(&run, &event, "needs_human", &why.0)?;
        return Err(why.into());
    }
    let reason = options.reason.clone().filter(|reason| !reason.trim().is_empty());
    let paused = (name == "pause").then(|| Paused { at: Timestamp::now(), reason });
    let changed = gate.pause(&run, &event, paused.as_ref())?;
    if options.json {
        let paused = paused.is_some();
        print::json(&Shown { run: Some(run.id.to_string()), gate: None, paused, changed });
        return Ok(ExitCode::SUCCESS);
    }
    let already = if changed { "" } else { " already" };
    print::line(&match paused {
        Some(_) => format!(
            "Run {0} is paused{already}: it holds no session. `phasegate resume {0}` resumes it.",
            run.id
        ),
        None if changed => format!("Run {} is resumed: it answers stops again.", run.id),
        None => format!("Run {} was not paused.", run.id),
    });
    Ok(ExitCode::SUCCESS)
}
