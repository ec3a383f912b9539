//! `phasegate adopt` and `phasegate release`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::step::Actor;
use phasegate_runtime::caller;
use phasegate_runtime::gate::{Found, Gate, Standing};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, chosen_run, complete, event, no_agent, session};
use crate::print;

#[derive(Debug, Args)]
pub struct Adopt {
    /// The run, as WORKFLOW/RUN; by default the only one
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// The session; by default the one in which this command runs
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Release {
    /// The run, as WORKFLOW/RUN; by default the only one
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whose a run is now, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// The session that has it.
    owner: Option<String>,
}

pub fn adopt(project: &Project, options: &Adopt) -> Outcome {
    let Some(session) = options.session.clone().or_else(session) else {
        let message = "name the session with --session ID (inside a client it is known), or use \
                       `phasegate release`: then the next session that stops takes the run";
        return Err(Failed::new(message.into()));
    };
    if caller::actor() != Actor::Human && self::session().as_ref() != Some(&session) {
        let message = "an agent can take a run for its own session only";
        return Err(Failed::new(message.into()));
    }
    give(project, "adopt", options.run.as_deref(), Some(session), options.json)
}

pub fn release(project: &Project, options: &Release) -> Outcome {
    give(project, "release", options.run.as_deref(), None, options.json)
}

fn give(
    project: &Project,
    name: &str,
    run: Option<&str>,
    to: Option<String>,
    as_json: bool,
) -> Outcome {
    no_agent(project, name)?;
    let gate = Gate::new(project);
    let run: Found = chosen_run(&gate, run)?;
    if !gate.is_working(&run) {
        let condition = gate.report(&run).condition;
        return Err(Failed::new(format!(
            "run {} is {condition} and does not answer stops",
            run.id
        )));
    }
    // An agent that takes a run from a session at work would choose what holds whom.
    let is_person = caller::actor() == Actor::Human;
    if !is_person && gate.standing_of(&run, session().as_deref()) == Standing::Foreign {
        return Err(Failed::new(format!(
            "run {0} belongs to a session that is still active: a person can run `phasegate {name} \
             {0}` in a terminal",
            run.id
        )));
    }
    gate.give(&run, &event(name), to.as_deref())?;
    if as_json {
        print::json(&Shown { run: run.id.to_string(), owner: to });
    } else {
        let whose = match to {
            Some(session) => format!("now belongs to session {session}"),
            None => "is free: the next session that stops, and has no other run, takes it".into(),
        };
        print::line(&format!("Run {} {whose}.", run.id));
    }
    Ok(ExitCode::SUCCESS)
}
