//! `phasegate lint`

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::diagnostic::{Diagnostics, Severity};
use phasegate_engine::lint::lint;
use phasegate_engine::resolve::{Expressions, resolve};
use phasegate_runtime::catalog::{Entry, file_entry};
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Code, Failed, Outcome, complete};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// A definition's file, or a workflow's name; by default all workflows
    #[arg(add = complete::workflows())]
    what: Option<String>,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Mistakes in definitions, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    errors: usize,
    warnings: usize,
    /// `severity`, `code`, `message`, `file`, `line`, `column`, `hint`.
    findings: Vec<Value>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let entries: Vec<Entry> = match &options.what {
        None => project.workflows.clone(),
        Some(what) => vec![named(project, what)?],
    };
    for name in project.config.workflow.keys().filter(|name| project.workflow(name).is_none()) {
        print::note(&format!(
            "warning: the configuration names a workflow {name:?} that is not known"
        ));
    }
    let mut found = Diagnostics::default();
    for entry in &entries {
        found.0.extend(check(project, entry)?.0);
    }
    let count = |severity| found.0.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if options.json {
        let findings = found.0.iter().filter_map(|it| serde_json::to_value(it).ok()).collect();
        print::json(&Shown { errors, warnings, findings });
    } else {
        if !found.0.is_empty() {
            print::line(&format!("{}\n", found.render(print::colour())));
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
        print::line(&format!("{}: {errors}, {warnings}", names.join(", ")));
    }
    let failed = errors > 0 || (options.strict && warnings > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The workflows that are named, or all that are known.
pub fn all_or_named(project: &Project, names: &[String]) -> Result<Vec<Entry>, Failed> {
    if names.is_empty() {
        return Ok(project.workflows.clone());
    }
    names.iter().map(|name| named(project, name)).collect()
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
    Err(Failed::of(
        Code::NoSuchWorkflow,
        format!(
            "{what:?} is neither a file nor a workflow; the workflows are: {}",
            known.join(", ")
        ),
    ))
}

/// A count with its noun, in the plural unless it is one.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn check(project: &Project, entry: &Entry) -> Result<Diagnostics, Failed> {
    let bundle = entry.bundle()?;
    let overrides = project.config.overrides(&entry.name);
    let mut found = match resolve(&bundle, &overrides, Expressions::Checked) {
        Ok(workflow) => {
            let mut found = lint(&workflow, &bundle);
            for (input, span) in Runs::new(project).unmatched_inputs(&workflow) {
                let message = format!("the input {input:?} matches no file of the project");
                let hint =
                    "`src/**` means all that is in `src`; ignored files are not part of the tree";
                let found = found.warning("input", &bundle.definition, span, message);
                found.hint = Some(hint.into());
            }
            found
        }
        Err(found) => found,
    };
    if let (false, Err(problem)) = (found.has_errors(), &entry.head) {
        found.error("name", &bundle.definition, 0..0, problem.clone());
    }
    Ok(found)
}
