//! `phasegate accept`: a person takes what was changed behind the gate's back, the definition of a run or what only
//! its rules may change.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_runtime::caller;
use phasegate_runtime::gate::{ACCEPT_DEFINITION, Gate};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, chosen_run, complete, event, signing};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; by default the only one
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: String,
    #[arg(long, value_name = "KEY", num_args = 0..=1, require_equals = true, help = signing::HELP)]
    #[expect(clippy::option_option, reason = "an option whose value may be left out")]
    sign: Option<Option<PathBuf>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was accepted, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// What somebody else had changed.
    changes: Vec<String>,
    /// Whether the run follows another definition now.
    definition: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    if options.sign.is_none() {
        caller::must_be_human("accepting a change")?;
    }
    if options.reason.trim().is_empty() {
        return Err(Failed::new("give a reason with --reason; it goes into the journal".into()));
    }
    let gate = Gate::new(project);
    let run = chosen_run(&gate, options.run.as_deref())?;
    let reason = || params([("reason".to_string(), Json::from(options.reason.as_str()))]);
    let key = options.sign.as_ref().map(|key| signing::key(project, key.as_deref())).transpose()?;
    let event_of = |name| -> Result<Event, Failed> {
        let event = Event { params: reason(), ..event(name) };
        let Some(key) = &key else { return Ok(event) };
        let event = gate.sign_act(&run, &event, key)?;
        event.signed.iter().for_each(|signed| print::note(&signed.to_string()));
        Ok(event)
    };
    let is_outdated = gate.is_outdated(&run).is_some();
    let say = |text: &str| {
        if !options.json {
            print::line(text);
        }
    };
    let accepted = gate.accept_changes(&run, &event_of("accept-changes")?)?;
    for change in &accepted {
        say(&format!("Accepted: {change}."));
    }
    if options.json {
        let changes = accepted.iter().map(ToString::to_string).collect();
        print::json(&Shown { run: run.id.to_string(), changes, definition: is_outdated });
    }
    if !is_outdated {
        if accepted.is_empty() {
            let id = &run.id;
            say(&format!(
                "Run {id} already follows the present definition, and nothing else was changed from outside."
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    gate.accept_definition(&run, &event_of(ACCEPT_DEFINITION)?)?;
    say(&format!("Run {} now follows the present definition.", run.id));
    let workflow = gate.workflow(&run.id.workflow)?;
    if !gate.is_trusted(&workflow) {
        let name = &workflow.name;
        say(&format!("It runs commands: `phasegate trust {name}` is needed too."));
    }
    Ok(ExitCode::SUCCESS)
}
