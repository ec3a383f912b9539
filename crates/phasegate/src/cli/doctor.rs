//! `phasegate doctor`: whether everything is in its place, and what to do where it is not. It looks,
//! and fires the installed hooks at a project of its own.

mod clients;
mod fire;
mod place;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use phasegate_clients::settings::NAME;
use phasegate_clients::{outside, usual};
use phasegate_runtime::caller;
use phasegate_runtime::condition::Condition;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{GateState, LEASE, Listed, Runs};
use phasegate_runtime::jobs;
use phasegate_runtime::project::Project;
use phasegate_runtime::variables;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::fire::version as client_version;
use self::fire::{on_path, run_bounded};
use super::{Outcome, lint, store, when};
use crate::print::{self, Paint, paint};

/// How long a fault is news.
const NEWS: Duration = Duration::from_hours(24);

#[derive(Debug, Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 on warnings too
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Warn,
    Fail,
}

/// Everything that was checked, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown<'r> {
    rows: &'r [Row],
}

/// What was checked, and the result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Row {
    id: String,
    category: &'static str,
    status: Status,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remediation: Option<String>,
    /// In milliseconds.
    duration: u64,
}

struct Doctor<'p> {
    project: &'p Project,
    rows: Vec<Row>,
    since: Instant,
}

impl Doctor<'_> {
    fn row(
        &mut self,
        id: impl Into<String>,
        category: &'static str,
        status: Status,
        summary: impl Into<String>,
        remediation: Option<String>,
    ) -> &mut Row {
        let duration = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since = Instant::now();
        let (id, summary, details) = (id.into(), summary.into(), Vec::new());
        self.rows.push(Row { id, category, status, summary, details, remediation, duration });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn ok(&mut self, id: &str, category: &'static str, summary: impl Into<String>) {
        self.row(id, category, Status::Ok, summary, None);
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let mut doctor = Doctor { project, rows: Vec::new(), since: Instant::now() };
    doctor.program();
    doctor.places();
    doctor.clients();
    doctor.definitions();
    doctor.store();
    doctor.runs();
    doctor.orphans();
    doctor.faults();
    let rows = doctor.rows;
    if options.json {
        print::json(&Shown { rows: &rows });
    } else {
        show(&rows);
    }
    let worst = |status: Status| rows.iter().any(|row| row.status == status);
    let failed = worst(Status::Fail) || options.strict && worst(Status::Warn);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is said where the project itself cannot be read.
pub fn without_project(why: &str, options: &Options) -> ExitCode {
    let rows = [Row {
        id: "project".into(),
        category: "project",
        status: Status::Fail,
        summary: why.to_string(),
        details: Vec::new(),
        remediation: Some("repair that file: until then every stop is allowed".into()),
        duration: 0,
    }];
    if options.json {
        print::json(&Shown { rows: &rows });
    } else {
        show(&rows);
    }
    ExitCode::FAILURE
}

fn show(rows: &[Row]) {
    for row in rows {
        let mark = match row.status {
            Status::Ok => paint(Paint::Green, "ok  "),
            Status::Warn => paint(Paint::Yellow, "warn"),
            Status::Fail => paint(Paint::Red, "FAIL"),
        };
        print::wrapped(&format!("{mark}  {:<20} {}", row.id, row.summary), 28);
        for detail in &row.details {
            print::wrapped(&paint(Paint::Dim, &format!("{:>28}{detail}", "")), 28);
        }
        if let Some(remedy) = &row.remediation {
            print::wrapped(&format!("{:>28}→ {remedy}", ""), 30);
        }
    }
    let count = |status: Status| rows.iter().filter(|row| row.status == status).count();
    let (fails, warns) = (count(Status::Fail), count(Status::Warn));
    print::line(&match (fails, warns) {
        (0, 0) => "Everything works.".to_string(),
        _ => format!("{}, {}.", lint::counted(fails, "problem"), lint::counted(warns, "warning")),
    });
}

/// Whether a file is a script that starts this version of the program.
fn starts_version(path: &Path, version: &str) -> bool {
    let text = outside::read_text(path, outside::MAX_SETTINGS);
    if !text.is_ok_and(|text| text.starts_with("#!")) {
        return false;
    }
    let words = [path.display().to_string(), "--version".into()];
    let said = run_bounded(usual(), &words, Path::new("."), "");
    said.is_ok_and(|said| said.trim() == format!("{NAME} {version}"))
}

impl Doctor<'_> {
    fn program(&mut self) {
        let own = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
        let version = env!("CARGO_PKG_VERSION");
        let found = on_path("phasegate");
        let found_real = found.as_ref().and_then(|path| path.canonicalize().ok());
        match &found {
            None => {
                let remedy = "put the folder of the program on PATH, or `cargo install --path crates/phasegate`";
                self.row(
                    "program.path",
                    "program",
                    Status::Fail,
                    "`phasegate` is not on PATH, so no hook finds it",
                    Some(remedy.into()),
                );
            }
            // A package manager may start the program by a script of its own.
            Some(path) if found_real != own && !starts_version(path, version) => {
                let summary = format!("`phasegate` on PATH is another one: {}", path.display());
                let remedy = "remove the old one, or change the order of PATH";
                self.row("program.path", "program", Status::Warn, summary, Some(remedy.into()));
            }
            Some(path) => {
                self.ok("program.path", "program", format!("{} {version}", path.display()));
            }
        }
        if variables::is_on(variables::DISABLE) {
            let summary = format!("{}=1 is set here: every stop is allowed", variables::DISABLE);
            self.row(
                "program.disabled",
                "program",
                Status::Fail,
                summary,
                Some(format!("unset {}", variables::DISABLE)),
            );
        }
        if !caller::is_ancestry_known() {
            let summary = "this system does not say which process started another, so a caller without a terminal counts as an agent";
            let remedy = "run commands that are for people in a terminal of your own";
            self.row("program.ancestry", "program", Status::Warn, summary, Some(remedy.into()));
        }
        if on_path("git").is_none() {
            let summary =
                "git was not found: the whole project is read to see whether files changed";
            self.row("program.git", "program", Status::Warn, summary, Some("install git".into()));
        }
        self.since = Instant::now();
    }

    fn definitions(&mut self) {
        let gate = Runs::new(self.project);
        let mut count = 0;
        let workflows: Vec<String> =
            self.project.workflows.iter().map(|entry| entry.name.clone()).collect();
        for name in workflows {
            count += 1;
            match gate.workflow(&name) {
                Err(error) => {
                    let text = error.to_string();
                    let summary = text.lines().next().unwrap_or_default().to_string();
                    let remedy = format!("`phasegate lint {name}` shows every mistake");
                    self.row(
                        format!("workflow.{name}"),
                        "workflow",
                        Status::Fail,
                        summary,
                        Some(remedy),
                    );
                }
                Ok(workflow) if !gate.is_trusted(&workflow) => {
                    let summary = format!(
                        "workflow {name} runs commands or writes files, and you have not consented"
                    );
                    let remedy = format!("`phasegate trust {name}` shows them and consents");
                    self.row(
                        format!("workflow.{name}"),
                        "workflow",
                        Status::Warn,
                        summary,
                        Some(remedy),
                    );
                }
                Ok(_) => {}
            }
        }
        self.ok("workflows", "workflow", format!("{count} workflows are known here"));
        for gate in gate.standing_gates() {
            let status = match gate.state {
                GateState::Stands => Status::Ok,
                GateState::Untrusted | GateState::Paused(_) => Status::Warn,
                GateState::Unusable(_) => Status::Fail,
            };
            self.row(format!("gate.{}", gate.name), "workflow", status, gate.sentence(), None);
        }
    }

    /// Where runs are kept, where that is not the project.
    fn store(&mut self) {
        if self.project.store.shared().is_none() {
            return;
        }
        let shown = store::shown(self.project);
        let Some(first) = shown.problems().first() else {
            self.ok("store", "store", shown.sentence());
            return;
        };
        let (summary, remedy) = (first.clone(), "`phasegate store status` shows it".to_string());
        let details = shown.problems()[1..].to_vec();
        let row = self.row("store", "store", Status::Fail, summary, Some(remedy));
        row.details = details;
    }

    fn runs(&mut self) {
        let gate = Runs::new(self.project);
        let Listed { runs, faults, .. } = gate.runs();
        for fault in faults {
            self.row(
                "runs",
                "run",
                Status::Fail,
                fault,
                Some("`phasegate status` shows the runs".into()),
            );
        }
        let mut open = 0;
        for run in &runs {
            let (id, report) = (run.id.to_string(), gate.report(run));
            if !gate.is_working(run) {
                continue;
            }
            open += 1;
            let row_id = format!("run.{id}");
            if report.condition == Condition::Broken {
                let summary = report.problem.unwrap_or_else(|| format!("run {id} is broken"));
                let remedy = format!("repair {}, or `phasegate cancel {id}`", run.place);
                self.row(row_id, "run", Status::Fail, summary, Some(remedy));
                continue;
            }
            if run.ledger.session.fired.is_none() {
                let summary =
                    format!("run {id} waits for an agent: no session has stopped on it yet");
                let remedy = "check that the session runs in this project and that the hook is installed, then let the agent stop once";
                self.row(row_id.clone(), "run", Status::Warn, summary, Some(remedy.into()));
            } else if let Some(fired) = run.ledger.session.fired {
                self.ok(
                    &row_id,
                    "run",
                    format!(
                        "run {id} is {}; its hook fired {}",
                        report.condition,
                        when::ago(fired)
                    ),
                );
            }
            if let Some(owner) = &run.ledger.session.owner {
                let silent = Timestamp::now().duration_since(owner.seen);
                if silent.abs() > LEASE {
                    let summary = format!(
                        "run {id} belongs to session {}, which was last seen {}",
                        owner.session,
                        when::ago(owner.seen)
                    );
                    let remedy = format!(
                        "the next session that stops takes it; `phasegate release {id}` gives it up, `phasegate cancel {id}` ends it"
                    );
                    self.row(format!("{row_id}.owner"), "run", Status::Warn, summary, Some(remedy));
                }
            }
            if run.ledger.tamper.is_open() {
                let last =
                    run.ledger.tamper.changes.last().map(ToString::to_string).unwrap_or_default();
                let row = self.row(
                    format!("{row_id}.tampered"),
                    "run",
                    Status::Warn,
                    format!(
                        "run {id}: a field that only the rules may set was changed from outside"
                    ),
                    Some(format!("`phasegate log {id}` shows it; `phasegate accept {id} --reason …` accepts it")),
                );
                row.details.push(last);
            }
        }
        self.ok(
            "runs",
            "run",
            format!("{}, {open} of them open", lint::counted(runs.len(), "run")),
        );
    }

    fn orphans(&mut self) {
        let gate = Runs::new(self.project);
        let jobs = gate.jobs().into_iter().flat_map(|(_, jobs)| jobs.into_values());
        let known: Vec<String> = jobs.map(|job| job.folder).collect();
        let alive = jobs::alive(&self.project.root);
        let lost: Vec<String> = alive.iter().filter(|it| !known.contains(it)).cloned().collect();
        if lost.is_empty() {
            let summary =
                format!("{} running, each known to its run", lint::counted(alive.len(), "job"));
            self.ok("jobs", "job", summary);
            return;
        }
        let summary = format!("{} running that no run knows of", lint::counted(lost.len(), "job"));
        let remedy = format!("`touch {}/end-asked` ends the first", lost[0]);
        let row = self.row("jobs", "job", Status::Warn, summary, Some(remedy));
        row.details = lost;
    }

    fn faults(&mut self) {
        let recent = fault_log::recent(Some(&self.project.root), 5);
        let now = Timestamp::now();
        let news: Vec<String> = recent
            .iter()
            .filter(|fault| now.duration_since(fault.at).unsigned_abs() < NEWS)
            .map(|fault| format!("{}: {}", when::ago(fault.at), fault.what))
            .collect();
        if news.is_empty() {
            self.ok("faults", "program", "no internal failure in the last day");
            return;
        }
        let summary = format!(
            "{} internal failures in the last day, each of which allowed a stop",
            news.len()
        );
        let remedy = "`.phasegate/faults.jsonl` lists them all";
        let row = self.row("faults", "program", Status::Warn, summary, Some(remedy.into()));
        row.details = news;
    }
}
