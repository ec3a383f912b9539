//! `phasegate test`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::case::{Cases, uncovered};
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Outcome, complete, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// Workflows or definition files; by default all workflows
    #[arg(add = complete::workflows())]
    names: Vec<String>,
    /// Fail where a rule is not covered
    #[arg(long)]
    full_coverage: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How the cases went, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflows: Vec<Report>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Report {
    workflow: String,
    cases: Vec<Run>,
    /// How many of them failed.
    failed: usize,
    /// How many rules the workflow has.
    rules: usize,
    /// The rules that no case fires.
    uncovered: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Run {
    file: String,
    case: String,
    /// What is not as expected; empty where the case passed.
    differences: Vec<String>,
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
            let cases = results.into_iter().map(|result| Run {
                file: result.file,
                case: result.name,
                differences: result.differences,
            });
            let (workflow, cases) = (entry.name.clone(), cases.collect());
            reports.push(Report { workflow, cases, failed: bad, rules, uncovered: missing });
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
        print::json(&Shown { workflows: reports });
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
