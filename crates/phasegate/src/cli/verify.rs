//! `phasegate verify`

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use phasegate_clients::outside;
use phasegate_engine::verify::{DECISIONS, Finding, Report, Seen, Severity, verify};
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failed, Outcome, complete, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// Workflows or definition files; by default all workflows
    #[arg(add = complete::workflows())]
    names: Vec<String>,
    /// Save what shows each finding as a case of the workflow
    #[arg(long)]
    write: bool,
    /// Show notes, too
    #[arg(long)]
    all: bool,
    /// How many decisions are made at most
    #[arg(long, value_name = "N", default_value_t = DECISIONS)]
    decisions: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found and proved, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflows: Vec<Verified>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Verified {
    workflow: String,
    phases: usize,
    rules: usize,
    /// What guards ask about.
    atoms: usize,
    /// Situations that were reached, and decisions that were made.
    states: usize,
    decisions: usize,
    /// Steps that were seen to end a run as `done`.
    successes: usize,
    /// Kinds of situations that were seen, without names, texts and large numbers.
    kinds: usize,
    /// Rules that have fired.
    fired: usize,
    /// Rules that have not, by label.
    unfired: Vec<String>,
    /// Phases to which no run has come.
    unreached: Vec<String>,
    /// Situations that were reached, but not looked at.
    left: usize,
    /// What was looked up of which only a few values were tried.
    sampled: Vec<&'static str>,
    /// Constants that are empty and were configured for a second look.
    configured: Vec<String>,
    /// Whether all that can happen was looked at.
    complete: bool,
    /// `severity`, `code`, `message`, `file`, `line`, `there`, `hint`, `path`,
    /// `script` (what leads there, typed into `simulate`), `case`, `saved`.
    findings: Vec<Value>,
    /// What holds of every run that was looked at.
    proved: Vec<String>,
}

/// Nothing was found, but not all was looked at.
const BOUNDED: u8 = 2;

pub fn run(project: &Project, options: &Options) -> Outcome {
    let (mut bad, mut bounded) = (false, false);
    let mut reports = Vec::new();
    for entry in &lint::all_or_named(project, &options.names)? {
        // As it is written: what a project configures is looked at where it is configured.
        let workflow = entry.load(&Config::default())?;
        let report = verify(&workflow, &entry.bundle()?, options.decisions);
        bad |= report.is_bad();
        bounded |= !report.complete;
        let folder = entry.cases();
        let mut written = Vec::new();
        for found in report.findings.iter().filter(|it| it.severity > Severity::Note) {
            written.push(match (&found.witness, &folder) {
                (Some(witness), Some(folder)) if options.write => {
                    Some(save(folder, found.code, &witness.case)?)
                }
                _ => None,
            });
        }
        if options.json {
            reports.push(as_json(&entry.name, &report, &written));
        } else {
            show(&entry.name, &report, &written, options);
        }
        if options.write && folder.is_none() && report.is_bad() {
            let name = &entry.name;
            print::note(&format!(
                "note: {name} is built in, so its cases cannot be saved; `phasegate eject {name}` makes \
                 it yours"
            ));
        }
    }
    if options.json {
        print::json(&Shown { workflows: reports });
    }
    Ok(match (bad, bounded) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(BOUNDED),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Saves a case under a name that is free, unless it is there already.
pub(super) fn save(folder: &Path, name: &str, case: &str) -> Result<PathBuf, Failed> {
    std::fs::create_dir_all(folder)?;
    for number in 1.. {
        let name =
            if number == 1 { format!("{name}.toml") } else { format!("{name}-{number}.toml") };
        let path = folder.join(name);
        match outside::read_text(&path, outside::MAX_SETTINGS) {
            Ok(known) if known == case => return Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::write(&path, case)?;
                return Ok(path);
            }
            // Something else is there.
            Ok(_) | Err(_) => {}
        }
    }
    Err(Failed::new("no name is free for the case".into()))
}

fn place(report: &Report, found: &Finding) -> (String, usize) {
    let (line, _) = report.source.position(found.span.start);
    (report.source.name.to_string(), line)
}

fn as_json(name: &str, report: &Report, written: &[Option<PathBuf>]) -> Verified {
    let mut written = written.iter();
    let findings = report.findings.iter().map(|found| {
        let (file, line) = place(report, found);
        let severity = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let saved = if found.severity > Severity::Note { written.next() } else { None };
        json!({
            "severity": severity, "code": found.code, "message": found.message, "file": file,
            "line": line, "there": found.there, "hint": found.hint,
            "path": found.witness.as_ref().map(|it| &it.path),
            "script": found.witness.as_ref().map(|it| &it.script),
            "case": found.witness.as_ref().map(|it| &it.case), "saved": saved,
        })
    });
    Verified {
        workflow: name.to_string(),
        phases: report.phases,
        rules: report.rules,
        atoms: report.atoms,
        states: report.states,
        decisions: report.decisions,
        successes: report.successes,
        kinds: report.seen.kinds,
        fired: report.seen.fired,
        unfired: report.seen.unfired.clone(),
        unreached: report.seen.unreached.clone(),
        left: report.seen.left,
        sampled: report.seen.sampled.clone(),
        configured: report.seen.configured.clone(),
        complete: report.complete,
        findings: findings.collect(),
        proved: report.proved.clone(),
    }
}

fn show(name: &str, report: &Report, written: &[Option<PathBuf>], options: &Options) {
    let Report { phases, rules, atoms, states, .. } = report;
    let seen = if report.complete { "complete" } else { "bounded" };
    print::line(&format!(
        "{}: {phases} phases, {rules} rules, {atoms} atoms; {states} states, {seen}",
        paint(Paint::Bold, name)
    ));
    let mut written = written.iter();
    for found in &report.findings {
        let (word, colour) = match found.severity {
            Severity::Error => ("error", Paint::Red),
            Severity::Warning => ("warning", Paint::Yellow),
            Severity::Note => ("note", Paint::Dim),
        };
        let saved = if found.severity > Severity::Note { written.next() } else { None };
        if found.severity == Severity::Note && !options.all {
            continue;
        }
        let (file, line) = place(report, found);
        let code = paint(colour, &format!("{word}[{}]", found.code));
        print::row(&format!("  {code}  {file}:{line}  {}", found.message));
        let path = found.witness.iter().flat_map(|it| &it.path);
        for (index, step) in path.enumerate() {
            print::row(&format!("     {:<8} {step}", if index == 0 { "path" } else { "" }));
        }
        let more = [("there", &found.there), ("hint", &found.hint)];
        for (word, text) in more {
            if let Some(text) = text {
                print::row(&format!("     {word:<8} {text}"));
            }
        }
        if let Some(Some(path)) = saved {
            print::row(&format!("     {:<8} {}", "case", path.display()));
        }
    }
    let notes = report.findings.iter().filter(|it| it.severity == Severity::Note).count();
    if notes > 0 && !options.all {
        let notes = lint::counted(notes, "note");
        print::row(&format!("  {notes} about rules between which the order decides (--all)"));
    }
    if !report.complete {
        bounds(report);
    }
    if !report.proved.is_empty() {
        let word = match report.seen.left {
            _ if report.complete => "proved",
            0 => "proved for the values that were tried",
            _ => "held in everything that was explored",
        };
        print::row(&format!("  {}  {}", paint(Paint::Green, word), report.proved.join(" · ")));
    }
}

/// What was seen of a definition that was not looked at completely, and what was left out.
fn bounds(report: &Report) {
    let Seen { kinds, fired, unfired, unreached, left, sampled, configured } = &report.seen;
    let (phases, rules, decisions) = (report.phases, report.rules, report.decisions);
    let reached = phases - unreached.len();
    print::row(&format!(
        "  seen     {reached} of {phases} phases, {fired} of {rules} rules, {kinds} kinds of situations, {} of runs that end as `done`",
        lint::counted(report.successes, "step")
    ));
    if !configured.is_empty() {
        print::row(&format!("           also with a value for {}", configured.join(", ")));
    }
    if !unreached.is_empty() {
        print::row(&format!("  unseen   {}", unreached.join(", ")));
    }
    if !unfired.is_empty() {
        print::row(&format!("  unfired  {}", unfired.join(", ")));
    }
    if *left > 0 {
        print::row(&format!(
            "  bound    {decisions} decisions (--decisions): {left} situations were not looked at"
        ));
    }
    if !sampled.is_empty() {
        print::row(&format!("  bound    only a few values were tried of {}", sampled.join(", ")));
    }
    if report.successes == 0 {
        print::row("  no run was seen that ends as `done`: nothing is known about success");
    }
}
