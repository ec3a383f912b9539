//! `phasegate list`

use std::process::ExitCode;

use phasegate_runtime::catalog::Origin;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::Outcome;
use crate::print::{self, Paint, paint};

/// The workflows, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflows: Vec<Row>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    name: String,
    /// `built-in`, or the definition's file.
    origin: String,
    about: Option<String>,
    /// Why it cannot be used.
    error: Option<String>,
    /// Where its state documents are; `*` stands for a run's name.
    document: Option<String>,
    enabled: bool,
    /// It holds sessions without being started.
    stands: bool,
}

pub fn run(project: &Project, as_json: bool) -> Outcome {
    let mut rows = Vec::new();
    for entry in &project.workflows {
        let origin = match &entry.origin {
            Origin::BuiltIn => "built-in".to_string(),
            Origin::File(path) => {
                path.strip_prefix(&project.root).unwrap_or(path).display().to_string()
            }
        };
        let about = match (&entry.head, &entry.origin) {
            (Err(error), _) => Err(error.clone()),
            // What is built in was resolved by a test.
            (Ok(head), Origin::BuiltIn) => Ok(head.about.clone()),
            (Ok(head), Origin::File(_)) => match project.load(entry) {
                Ok(_) => Ok(head.about.clone()),
                Err(_) => Err(format!("it has mistakes: `phasegate lint {}`", entry.name)),
            },
        };
        rows.push((entry, origin, about, entry.document(&project.config)));
    }
    if as_json {
        let rows = rows.into_iter().map(|(entry, origin, about, document)| Row {
            name: entry.name.clone(),
            origin,
            error: about.as_ref().err().cloned(),
            about: about.ok(),
            document,
            enabled: project.config.enabled(&entry.name),
            stands: entry.stands(&project.config),
        });
        print::json(&Shown { workflows: rows.collect() });
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|(entry, ..)| entry.name.len()).max().unwrap_or(0);
    for (entry, origin, about, document) in rows {
        let about = about
            .unwrap_or_else(|error| paint(Paint::Red, error.lines().next().unwrap_or_default()));
        let name = paint(Paint::Bold, &format!("{:<width$}", entry.name));
        let disabled = if project.config.enabled(&entry.name) { "" } else { " (disabled)" };
        print::wrapped(&format!("{name}  {about}{disabled}"), width + 2);
        let place = document.unwrap_or_else(|| "-".into());
        let more = paint(Paint::Dim, &format!("{:width$}  {origin}; documents: {place}", ""));
        print::wrapped(&more, width + 2);
    }
    Ok(ExitCode::SUCCESS)
}
