//! `phasegate list`

use std::process::ExitCode;

use phasegate_runtime::catalog::Origin;
use phasegate_runtime::project::Project;
use serde_json::json;

use super::Outcome;
use crate::print::{self, Paint, paint};

pub fn run(project: &Project, as_json: bool) -> Outcome {
    let mut rows = Vec::new();
    for entry in &project.workflows {
        let origin = match &entry.origin {
            Origin::BuiltIn => "built-in".to_string(),
            Origin::File(path) => {
                path.strip_prefix(&project.root).unwrap_or(path).display().to_string()
            }
        };
        let about = entry.head.as_ref().map(|head| head.about.clone());
        rows.push((entry, origin, about, entry.document(&project.config)));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(entry, origin, about, document)| {
                json!({
                    "name": entry.name,
                    "origin": origin,
                    "about": about.as_ref().ok(),
                    "error": about.as_ref().err(),
                    "document": document,
                    "enabled": project.config.enabled(&entry.name),
                })
            })
            .collect();
        print::json(&rows);
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|(entry, ..)| entry.name.len()).max().unwrap_or(0);
    for (entry, origin, about, document) in rows {
        let about = about
            .unwrap_or_else(|error| paint(Paint::Red, error.lines().next().unwrap_or_default()));
        let name = paint(Paint::Bold, &format!("{:<width$}", entry.name));
        let disabled = if project.config.enabled(&entry.name) { "" } else { " (disabled)" };
        print::line(&format!("{name}  {about}{disabled}"));
        let place = document.unwrap_or_else(|| "-".into());
        print::line(&paint(Paint::Dim, &format!("{:width$}  {origin}; documents: {place}", "")));
    }
    Ok(ExitCode::SUCCESS)
}
