//! `phasegate fleet`: the runs of all projects and machines of a store, in the words of `status`.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use phasegate_runtime::condition::{Condition, Group};
use phasegate_runtime::fleet::{Fleet, FleetRun};
use phasegate_runtime::project::Project;
use phasegate_runtime::store::PostgresStore;
use phasegate_runtime::store::postgres::fleet::{Machine, Waiting, Wanted};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, status, when};
use crate::print::{self, Paint, paint};

/// How many of the runs that are over are shown.
const RECENT: i64 = 10;

#[derive(Debug, Args)]
pub struct Options {
    /// Show every run that is over, not only the last ones
    #[arg(long)]
    all: bool,
    /// Only a project, by its name in the store or the end of that
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only a machine, by its name or the beginning of that
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How all runs of a store stand, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Where the store is, without a password.
    store: String,
    /// The runs, in the order in which somebody should look at them.
    runs: Vec<Row>,
    /// Other runs have ended; `--all` has them.
    has_more: bool,
    /// What waits for a machine or is at work on one, the oldest first.
    jobs: Vec<Job>,
    machines: Vec<Seen>,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Row {
    run: String,
    project: String,
    /// The machine that has it, or that wrote last where every machine may act; and the project's folder there.
    machine: String,
    folder: String,
    /// Whether every machine of its project may act on it.
    shared: bool,
    /// `needs you`, `stuck`, `broken`, `working`, `waiting` or `ended`.
    group: String,
    /// As in `status`.
    condition: String,
    standing: String,
    phase: String,
    /// What a person must do or know.
    needs: Option<String>,
    /// The session that has it.
    owner: Option<String>,
    /// Since when it stands so.
    #[schemars(with = "Option<String>")]
    since: Option<Timestamp>,
    /// When it was last written, by the server's clock.
    #[schemars(with = "String")]
    changed: Timestamp,
    /// When a hook last fired for it.
    #[schemars(with = "Option<String>")]
    fired: Option<Timestamp>,
    /// What agents and reviews have cost, in words: `unknown` where nobody has told, `none` where there were none.
    cost: String,
    /// What is known of that, in dollars; none where nothing is.
    dollars: Option<f64>,
}

/// A job that waits for a machine, or is at work on one.
#[expect(clippy::struct_field_names, reason = "they are the names in the JSON")]
#[derive(Debug, Serialize, JsonSchema)]
pub struct Job {
    project: String,
    run: String,
    job: String,
    kind: String,
    /// What a machine must have to take it.
    labels: Vec<String>,
    #[schemars(with = "String")]
    queued: Timestamp,
    /// How often it was taken.
    attempts: i32,
    /// The worker that has it; none where it waits for one.
    worker: Option<String>,
    /// For how many more seconds the worker has it; not more than 0 where another may take it.
    lease_seconds: Option<i64>,
}

/// A machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Seen {
    machine: String,
    /// When it last wrote, by the server's clock.
    #[schemars(with = "String")]
    seen: Timestamp,
}

/// The store that other machines use, too.
///
/// # Errors
/// Where runs are kept in files.
pub fn store(project: &Project) -> Result<&PostgresStore, Failed> {
    project.store.shared().ok_or_else(|| {
        Failed::new(
            "the runs of this project are kept in files, which only this machine sees\nhint: `[store] url` in the \
             configuration, or PHASEGATE_STORE, names a PostgreSQL server that several machines use"
                .into(),
        )
    })
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let store = store(project)?;
    let wanted = Wanted {
        project: options.project.clone(),
        machine: options.machine.clone(),
        ended: if options.all { i64::MAX } else { RECENT },
    };
    let fleet = Fleet::of(store, &wanted)?;
    if options.json {
        print::json(&shown(store, &fleet));
    } else {
        print::out(&page(&fleet));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(store: &PostgresStore, fleet: &Fleet) -> Shown {
    let seen = |machine: &Machine| Seen { machine: machine.name.clone(), seen: machine.seen };
    Shown {
        store: store.name(),
        runs: fleet.runs.iter().map(row).collect(),
        has_more: fleet.has_more,
        jobs: fleet.jobs.iter().map(job).collect(),
        machines: fleet.machines.iter().map(seen).collect(),
    }
}

/// A run for programs.
fn row(run: &FleetRun) -> Row {
    Row {
        run: run.id.to_string(),
        project: run.place.project.clone(),
        machine: run.machine.clone(),
        folder: run.folder.clone(),
        shared: run.is_shared(),
        group: run.group.to_string(),
        condition: run.condition.to_string(),
        standing: run.standing.clone(),
        phase: run.phase.clone(),
        needs: run.needs.clone(),
        owner: run.owner.clone(),
        since: run.since,
        changed: run.changed,
        fired: run.fired,
        cost: run.cost.to_string(),
        dollars: run.cost.dollars(),
    }
}

fn job(job: &Waiting) -> Job {
    Job {
        project: job.project.clone(),
        run: job.run.to_string(),
        job: job.job.clone(),
        kind: job.kind.clone(),
        labels: job.labels.clone(),
        queued: job.queued,
        attempts: job.attempts,
        worker: job.lease.as_ref().map(|(worker, _)| worker.clone()),
        lease_seconds: job.lease.as_ref().map(|(_, seconds)| *seconds),
    }
}

/// What people are told.
fn page(fleet: &Fleet) -> String {
    let mut page = counts(fleet);
    for group in Group::ALL {
        let runs: Vec<&FleetRun> = fleet.runs.iter().filter(|run| run.group == group).collect();
        if !runs.is_empty() {
            let _ = writeln!(page, "\n{}", paint(colour(group), &group.to_string()));
        }
        page.extend(runs.into_iter().map(of_run));
    }
    if fleet.has_more {
        page.push_str("Other runs have ended; `phasegate fleet --all` shows them.\n");
    }
    let jobs = fleet.jobs.iter().map(of_job);
    page.push_str(&section("jobs", jobs));
    let machine = |it: &Machine| format!("{}: last sign {}", it.name, when::ago(it.seen));
    page.push_str(&section("machines", fleet.machines.iter().map(machine)));
    page
}

/// `2 need you, 1 stuck, 3 working.`
fn counts(fleet: &Fleet) -> String {
    let counted = Group::ALL.into_iter().filter(|group| *group != Group::Ended);
    let counted = counted.map(|group| (group, fleet.count(group))).filter(|(_, count)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(group, count)| match (group, count) {
            (Group::NeedsYou, 2..) => format!("{count} need you"),
            _ => format!("{count} {group}"),
        })
        .collect();
    match counted.is_empty() {
        true if fleet.runs.is_empty() => "There is no run.\n".into(),
        true => "No run is open.\n".into(),
        false => format!("{}.\n", counted.join(", ")),
    }
}

fn colour(group: Group) -> Paint {
    match group {
        Group::Stuck | Group::Broken => Paint::Red,
        Group::NeedsYou | Group::Working => Paint::Yellow,
        Group::Waiting | Group::Ended => Paint::Dim,
    }
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: String =
        lines.map(|line| print::fitted(&print::one_line(&format!("  {line}")), 4)).collect();
    if lines.is_empty() { lines } else { format!("\n{}\n{lines}", paint(Paint::Dim, title)) }
}

/// What is told of one run.
fn of_run(run: &FleetRun) -> String {
    let name = paint(Paint::Bold, &format!("{} {}", run.place.project, run.id));
    let phase = paint(Paint::PHASE, &run.phase);
    let first = format!("  {name}  {} in phase {phase}", run.standing);
    let place = format!("on {}", run.machine);
    let place = if run.is_shared() { format!("any machine, last {place}") } else { place };
    let mut facts = vec![place];
    facts.extend(run.since.map(|since| format!("so since {}", when::ago(since))));
    if !run.condition.is_over() && run.condition != Condition::Paused {
        facts.push(status::armed_since(run.fired, run.started));
    }
    facts.extend(run.owner.as_ref().map(|owner| format!("owner {owner}")));
    if run.cost != phasegate_runtime::cost::Cost::default() {
        facts.push(format!("cost of agents and reviews: {}", run.cost));
    }
    let facts = paint(Paint::Dim, &format!("    {}", facts.join("; ")));
    let needs = run.needs.as_ref().map(|needs| format!("    {needs}"));
    let lines = [first, facts].into_iter().chain(needs);
    lines.map(|line| print::fitted(&print::one_line(&line), 4)).collect()
}

/// What is told of a job.
pub fn of_job(job: &Waiting) -> String {
    let labels = match job.labels.join(", ") {
        none if none.is_empty() => none,
        labels => format!(" [{labels}]"),
    };
    let what = format!("{} {}: {} {}{labels}", job.project, job.run, job.kind, job.job);
    match &job.lease {
        None => format!("{what} has waited for a worker since {}", when::ago(job.queued)),
        Some((worker, left @ 1..)) => {
            format!(
                "{what} is at work on {worker}; its lease ends in {left} seconds if nothing is heard"
            )
        }
        Some((worker, _)) => {
            format!("{what}: nothing was heard of {worker} in time; the next worker takes it")
        }
    }
}
