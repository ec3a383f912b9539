//! `phasegate ci`

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::outside;
use phasegate_runtime::project::Project;
use phasegate_runtime::proof::{FOLDER, own_tree};
use schemars::JsonSchema;
use serde::Serialize;

use super::prove::{checked, is_proved, told};
use super::{Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// Bundles; by default all in .phasegate/proofs
    bundles: Vec<PathBuf>,
    /// A list of signers, as ssh-keygen knows it: whose key it is must stand there
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was looked at, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    ok: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    ok: bool,
    what: String,
}

/// What was looked at, for the summary.
#[derive(Default)]
struct Report {
    rows: Vec<(bool, String)>,
}

impl Report {
    fn add(&mut self, is_well: bool, what: impl Into<String>) {
        self.rows.push((is_well, print::one_line(&what.into())));
    }

    fn is_well(&self) -> bool {
        self.rows.iter().all(|(is_well, _)| *is_well)
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let bundles = bundles(project, options)?;
    let here = own_tree(&project.root).map_err(Failed::new)?;
    let mut report = Report::default();
    for path in &bundles {
        let name = path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
        match checked(path, options.signers.as_deref(), &here) {
            Err(failed) => report.add(false, failed.message),
            Ok((proof, signer)) => {
                for row in told(&proof, &signer) {
                    report.add(true, format!("{name}: {row}"));
                }
                report.add(
                    is_proved(&proof),
                    format!("{name}: every line is decided again as it says"),
                );
                report.add(proof.is_done(), format!("{name}: the run ended as done"));
                definition(project, &name, &proof.workflow, &proof.identity, &mut report);
                checks(project, &name, &proof.workflow, &mut report);
            }
        }
    }
    if options.json {
        let row = |(ok, what): &(bool, String)| Row { ok: *ok, what: what.clone() };
        print::json(&Shown { ok: report.is_well(), rows: report.rows.iter().map(row).collect() });
    }
    print::aside_for(options.json);
    for (is_well, what) in &report.rows {
        print::row(&format!("{}  {what}", if *is_well { "ok    " } else { "FAILED" }));
    }
    summarize(&report)?;
    Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bundles(project: &Project, options: &Options) -> Result<Vec<PathBuf>, Failed> {
    if !options.bundles.is_empty() {
        return Ok(options.bundles.clone());
    }
    let folder = project.root.join(FOLDER);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|it| it == "json"));
    found.sort();
    if found.is_empty() {
        return Err(Failed::new(format!(
            "there is no proof in {FOLDER}; `phasegate prove` makes one"
        )));
    }
    Ok(found)
}

/// Whether the run was held by the definition that this tree has.
fn definition(project: &Project, name: &str, workflow: &str, kept: &str, report: &mut Report) {
    let gate = Gate::new(project);
    match gate.workflow(workflow) {
        Ok(present) if present.identity.as_str() == kept => {
            report.add(true, format!("{name}: workflow {workflow} is the one of this tree"));
        }
        Ok(_) => report.add(
            false,
            format!(
                "{name}: the run was held by another definition of {workflow} than this tree has"
            ),
        ),
        Err(error) => report.add(false, format!("{name}: {error}")),
    }
}

/// Runs the checks of the workflow again, here.
fn checks(project: &Project, name: &str, workflow: &str, report: &mut Report) {
    let gate = Gate::new(project);
    let Ok(workflow) = gate.workflow(workflow) else { return };
    let names: Vec<String> = workflow.checks().map(|check| check.name.clone()).collect();
    for check in names.iter().filter(|check| !workflow.has_nothing_to_check(check)) {
        match gate.run_check(&workflow, check) {
            Ok(result) => {
                report.add(result.ok, format!("{name}: check {check} {}", result.summary()));
                if !result.ok {
                    print::note(&result.tail);
                }
            }
            Err(error) => report.add(false, format!("{name}: check {check}: {error}")),
        }
    }
}

/// Writes the report where a pipeline shows it.
fn summarize(report: &Report) -> Result<(), Failed> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let mut text = String::from("### Phasegate\n\n| | |\n|---|---|\n");
    for (is_well, what) in &report.rows {
        let mark = if *is_well { "ok" } else { "**failed**" };
        let _ = writeln!(text, "| {mark} | {} |", what.replace('|', "\\|").replace('<', "&lt;"));
    }
    let mut options = std::fs::OpenOptions::new();
    let file = outside::open_with(options.create(true).append(true), Path::new(&path));
    file?.write_all(text.as_bytes())?;
    Ok(())
}
