//! `phasegate schema`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::schema;
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;

use super::Outcome;
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// A workflow, for the schema of what it reads; by default that of workflow definitions
    workflow: Option<String>,
    /// A record of it; by default its state document
    record: Option<String>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let Some(name) = &options.workflow else {
        print::out(&schema::schema());
        return Ok(ExitCode::SUCCESS);
    };
    let entry = project.workflow(name).ok_or_else(|| format!("there is no workflow {name:?}"))?;
    let workflow = entry.load(&Config::default())?;
    let record = options.record.as_deref().unwrap_or("state");
    let known: Vec<&str> = workflow.records.0.iter().map(|record| &*record.name).collect();
    let shown = schema::of_record(&workflow, record).ok_or_else(|| {
        format!("workflow {name} has no record {record:?}; there are: {}", known.join(", "))
    })?;
    print::json(&shown);
    Ok(ExitCode::SUCCESS)
}
