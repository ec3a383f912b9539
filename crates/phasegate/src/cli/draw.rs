//! `phasegate draw`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use phasegate_engine::draw::{Format, Walk, draw};
use phasegate_runtime::course::Course;
use phasegate_runtime::gate::{Found, Report, Runs};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Code, Failed, Outcome, complete, lint};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow
    #[arg(add = complete::workflows())]
    name: String,
    /// What to draw
    #[arg(long, value_enum, default_value_t = FormatName::Text)]
    format: FormatName,
    /// Draw where this run is and has been, as WORKFLOW/RUN
    #[arg(long, add = complete::runs())]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A drawing, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflow: String,
    /// The run that is drawn into it, as WORKFLOW/RUN.
    run: Option<String>,
    /// `text`, `svg`, `mermaid`, `dot` or `table`.
    format: String,
    drawing: String,
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
    let mut run = None;
    let walk = match &options.run {
        None => None,
        Some(name) => {
            let found = gate.run(name)?;
            if found.id.workflow != workflow.name {
                let what = format!("run {} is not one of {}", found.id, workflow.name);
                return Err(Failed::of(Code::NoSuchRun, what));
            }
            run = Some(found.id.to_string());
            Some(walk(&gate, &found, &gate.report(&found)))
        }
    };
    let format = match options.format {
        FormatName::Text => Format::Text,
        FormatName::Svg => Format::Svg,
        FormatName::Mermaid => Format::Mermaid,
        FormatName::Dot => Format::Dot,
        FormatName::Table => Format::Table,
    };
    let drawing = draw(&workflow, format, walk.as_ref());
    if options.json {
        let value = options.format.to_possible_value();
        let format = value.map(|value| value.get_name().to_string()).unwrap_or_default();
        print::json(&Shown { workflow: workflow.name, run, format, drawing });
    } else {
        print::out(&drawing);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a run is and has been, by the whole of its journal.
pub fn walk(gate: &Runs, run: &Found, report: &Report) -> Walk {
    let mut course = Course::default();
    gate.follow(run, &mut course, u64::MAX);
    gate.walk(run, report, &course)
}
