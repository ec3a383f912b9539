//! `phasegate draw`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use phasegate_engine::draw::{Format, draw};
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, complete, lint};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow
    #[arg(add = complete::workflows())]
    name: String,
    /// What to draw
    #[arg(long, value_enum, default_value_t = FormatName::Text)]
    format: FormatName,
    /// Mark the phase of this run, as WORKFLOW/RUN
    #[arg(long, add = complete::runs())]
    run: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    /// A drawing for the terminal
    Text,
    /// A picture
    Svg,
    /// A state diagram for Markdown
    Mermaid,
    /// A graph for Graphviz
    Dot,
    /// The rules and the actions as Markdown tables
    Table,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let entry = lint::named(project, &options.name)?;
    let workflow = entry.load(&project.config)?;
    let gate = Runs::new(project);
    let current = match &options.run {
        None => None,
        Some(name) => {
            let run = gate.run(name)?;
            if run.id.workflow != workflow.name {
                return Err(Failed(format!("run {} is not one of {}", run.id, workflow.name)));
            }
            Some(gate.report(&run).phase)
        }
    };
    let format = match options.format {
        FormatName::Text => Format::Text,
        FormatName::Svg => Format::Svg,
        FormatName::Mermaid => Format::Mermaid,
        FormatName::Dot => Format::Dot,
        FormatName::Table => Format::Table,
    };
    print::out(&draw(&workflow, format, current.as_deref()));
    Ok(ExitCode::SUCCESS)
}
