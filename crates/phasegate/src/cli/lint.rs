//! `phasegate lint`

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::diagnostic::{Diagnostics, Severity};
use phasegate_engine::lint::lint;
use phasegate_engine::resolve::{Expressions, resolve};
use phasegate_runtime::catalog::{Entry, file_entry};
use phasegate_runtime::project::Project;
use serde_json::json;

use super::{Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// A definition's file, or a workflow's name; by default all workflows
    what: Option<String>,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let entries: Vec<Entry> = match &options.what {
        None => project.workflows.clone(),
        Some(what) => vec![named(project, what)?],
    };
    let mut found = Diagnostics::default();
    for entry in &entries {
        found.0.extend(check(project, entry)?.0);
    }
    let count = |severity| found.0.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if options.json {
        print::json(&json!({ "errors": errors, "warnings": warnings, "findings": found.0 }));
    } else {
        if !found.0.is_empty() {
            print::line(&format!("{}\n", found.render(print::colour())));
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        print::line(&format!("{}: {errors} errors, {warnings} warnings", names.join(", ")));
    }
    let failed = errors > 0 || (options.strict && warnings > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A workflow by its name or by its file.
pub fn named(project: &Project, what: &str) -> Result<Entry, Failed> {
    if let Some(entry) = project.workflow(what) {
        return Ok(entry.clone());
    }
    let path = Path::new(what);
    if path.is_file() {
        return Ok(file_entry(path));
    }
    let known: Vec<&str> = project.workflows.iter().map(|entry| entry.name.as_str()).collect();
    Err(Failed(format!(
        "{what:?} is neither a file nor a workflow; the workflows are: {}",
        known.join(", ")
    )))
}

fn check(project: &Project, entry: &Entry) -> Result<Diagnostics, Failed> {
    let bundle = entry.bundle()?;
    match resolve(&bundle, &project.config.overrides(&entry.name), Expressions::Checked) {
        Ok(workflow) if workflow.name != entry.name => {
            let mut found = lint(&workflow, &bundle);
            let message = format!(
                "the workflow is called `{}`, but its file `{}`",
                workflow.name, entry.name
            );
            found.error("name", &bundle.definition, 0..0, message);
            Ok(found)
        }
        Ok(workflow) => Ok(lint(&workflow, &bundle)),
        Err(found) => Ok(found),
    }
}
