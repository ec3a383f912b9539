//! `phasegate mutate`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::case::Cases;
use phasegate_engine::mutate::{Mutation, mutate};
use phasegate_engine::verify::DECISIONS;
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::verify::save;
use super::{Failed, Outcome, complete, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// Workflows or definition files; by default all workflows
    #[arg(add = complete::workflows())]
    names: Vec<String>,
    /// Look for a case that would kill each survivor, and save it beside the others
    #[arg(long)]
    write: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which mistakes the cases would not notice, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflows: Vec<Report>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Report {
    workflow: String,
    /// How many mistakes were tried.
    mutants: usize,
    /// How many of them a case noticed.
    killed: usize,
    /// How many are listed as making no difference.
    equivalent: usize,
    /// The others: `rule`, `line`, `change`, `diff`.
    survivors: Vec<Value>,
    /// What is listed as equivalent and is not a survivor.
    stale: Vec<Value>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let mut failed = false;
    let decisions = if options.write { DECISIONS } else { 0 };
    let mut reports = Vec::new();
    for entry in &lint::all_or_named(project, &options.names)? {
        // As it is written: what a project configures must not make the cases fail.
        let workflow = entry.load(&Config::default())?;
        let bundle = entry.bundle()?;
        let cases = Cases::of(&bundle);
        let found = mutate(&workflow, &cases, &bundle.definition, decisions).map_err(|case| {
            let name = &entry.name;
            Failed::new(format!(
                "`phasegate test {name}` must pass first. A case that fails:\n{case}"
            ))
        })?;
        failed |= !(found.survivors.is_empty() && found.stale.is_empty());
        if options.json {
            let survivors = found.survivors.iter().filter_map(|it| serde_json::to_value(it).ok());
            let stale = found.stale.iter().filter_map(|it| serde_json::to_value(it).ok());
            reports.push(Report {
                workflow: entry.name.clone(),
                mutants: found.mutants,
                killed: found.killed,
                equivalent: found.equivalent,
                survivors: survivors.collect(),
                stale: stale.collect(),
            });
        } else {
            show(&entry.name, &bundle.definition.name, &found);
        }
        for survivor in found.survivors.iter().filter(|_| options.write) {
            let rule = &survivor.rule;
            let said = match (&survivor.case, entry.cases()) {
                (None, _) => format!("no case was found that kills `{rule}: {}`", survivor.change),
                (Some(case), None) => format!("a case for {rule}:\n{case}"),
                (Some(case), Some(folder)) => {
                    let name = format!("mutant-{}", rule.replace([' ', '.'], "-"));
                    format!("case for {rule}: {}", save(&folder, &name, case)?.display())
                }
            };
            print::note(&said);
        }
    }
    if options.json {
        print::json(&Shown { workflows: reports });
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(workflow: &str, file: &str, found: &Mutation) {
    let Mutation { mutants, killed, equivalent, survivors, stale } = found;
    let name = paint(Paint::Bold, workflow);
    let survive = survivors.len();
    print::line(&format!(
        "{name}: {mutants} mutants, {killed} killed, {equivalent} listed as equivalent, \
         {survive} survived"
    ));
    for survivor in survivors {
        let (rule, change) = (&survivor.rule, &survivor.change);
        print::line(&format!("\n  {file}:{}: {rule}: {change}", survivor.line));
        for line in survivor.diff.lines() {
            let colour = match line.as_bytes().first() {
                Some(b'-') => Paint::Red,
                Some(b'+') => Paint::Green,
                _ => Paint::Dim,
            };
            print::line(&format!("    {}", paint(colour, line)));
        }
    }
    for row in stale {
        print::line(&format!("  listed as equivalent, but not a survivor: {row}"));
    }
}
