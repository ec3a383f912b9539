//! `phasegate test`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::case::{Cases, uncovered};
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use serde_json::json;

use super::{Outcome, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// Workflows or definition files; by default all workflows
    names: Vec<String>,
    /// Fail where a rule is not covered
    #[arg(long)]
    full_coverage: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let mut failed = false;
    let mut reports = Vec::new();
    for entry in &lint::all_or_named(project, &options.names)? {
        // As it is written: what a project configures must not make the cases fail.
        let workflow = entry.load(&Config::default())?;
        let results = Cases::of(&entry.bundle()?).run(&workflow);
        let missing = uncovered(&workflow, &results);
        let rules = workflow.rules().filter(|(_, rule)| rule.ask.is_none()).count();
        let bad = results.iter().filter(|result| !result.passed()).count();
        failed |= bad > 0 || (options.full_coverage && !missing.is_empty());
        if options.json {
            let cases: Vec<_> = results
                .iter()
                .map(|result| json!({ "file": result.file, "case": result.name, "differences": result.differences }))
                .collect();
            reports.push(json!({
                "workflow": entry.name, "cases": cases, "failed": bad,
                "rules": rules, "uncovered": missing,
            }));
            continue;
        }
        print::line(&paint(Paint::Bold, &entry.name));
        for result in &results {
            let mark = if result.passed() {
                paint(Paint::Green, "ok  ")
            } else {
                paint(Paint::Red, "FAIL")
            };
            print::line(&format!("  {mark} {}", result.name));
            for difference in &result.differences {
                print::line(&format!("         {difference}"));
            }
        }
        let covered = rules - missing.len();
        let percent = (covered * 100).checked_div(rules).unwrap_or(100);
        print::line(&format!(
            "  {} passed, {bad} failed; {covered} of {rules} rules covered ({percent} %)",
            results.len() - bad
        ));
        for rule in &missing {
            print::line(&format!("       not covered: {rule}"));
        }
    }
    if options.json {
        print::json(&reports);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
