//! `phasegate status`

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use phasegate_engine::step::Actor;
use phasegate_runtime::condition::Condition;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Found, LEASE, Listed, Report, Runs, StandingGate};
use phasegate_runtime::project::Project;
use serde_json::{Value, json};

use super::{Outcome, event, when};
use crate::openings;
use crate::print::{self, Paint, paint};

/// Whether the hook fires: a run without one holds nobody.
fn armed(run: &Found) -> String {
    match (run.ledger.session.fired, run.ledger.started_at) {
        (Some(fired), _) if Timestamp::now().duration_since(fired) < LEASE => {
            format!("the hook fired {}", when::ago(fired))
        }
        (Some(since), _) | (None, Some(since)) => {
            format!(
                "waiting for an agent: no session has stopped here since {}",
                when::clock(since)
            )
        }
        (None, None) => "waiting for an agent: no session has stopped here yet".into(),
    }
}

#[derive(Debug, Args)]
pub struct Options {
    /// Show every run that is over, not only the last one
    #[arg(long)]
    all: bool,
    /// Show what a run has used of each of its limits, not only where it is more than half
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    let listed = if options.all { gate.all_runs() } else { gate.runs() };
    let Listed { runs, mut faults, has_more } = listed;
    faults.extend(gate.broken());
    let openings: Vec<String> = openings::in_environment()
        .into_iter()
        .chain(openings::in_settings(&project.root))
        .collect();
    let gates = gate.standing_gates();
    let reports: Vec<_> = runs.iter().map(|run| (run, gate.report(run))).collect();
    if options.json {
        let runs: Vec<_> = reports.iter().map(|(run, it)| row(project, &gate, run, it)).collect();
        let recent = fault_log::recent(Some(&project.root), 5);
        let standing: Vec<Value> = gates.iter().map(gate_row).collect();
        print::json(
            &json!({ "project": project.root, "standing": standing, "runs": runs, "has_more": has_more, "problems": faults, "openings": openings, "recent_faults": recent }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let needed = reports.iter().filter_map(|(run, report)| gate.needs_you(run, report));
    for why in needed {
        print::row(&format!("{} {why}", paint(Paint::Yellow, "needs you:")));
    }
    for gate in &gates {
        print::row(&gate.sentence());
    }
    if runs.is_empty() && faults.is_empty() && gates.is_empty() {
        print::line(
            "This project has no run. `phasegate list` shows the workflows that can be started.",
        );
    }
    let width = runs.iter().map(|run| run.id.to_string().len()).max().unwrap_or(0);
    for (run, report) in &reports {
        let name = paint(Paint::Bold, &format!("{:<width$}", run.id.to_string()));
        print::row(&format!("{name}  {}", standing(&gate, run, report)));
        let facts = facts(project, run, report, options.verbose).join("; ");
        print::row(&paint(Paint::Dim, &format!("{:width$}  {facts}", "")));
        for remark in remarks(&gate, run, report) {
            print::row(&format!("{:width$}  {remark}", ""));
        }
    }
    for opening in &openings {
        let warning = paint(Paint::Red, "the gate is open:");
        print::row(&format!("{warning} {opening}"));
    }
    if has_more {
        print::line("Other runs have ended; `phasegate status --all` shows them.");
    }
    for fault in &faults {
        print::note(&print::one_line(&format!("problem: {fault}")));
    }
    for fault in fault_log::recent(Some(&project.root), 3) {
        let what = print::one_line(&fault.what);
        print::note(&format!("fault {}: {what}", when::ago(fault.at)));
    }
    Ok(ExitCode::SUCCESS)
}

/// A standing gate as a row for programs.
fn gate_row(gate: &StandingGate) -> Value {
    json!({ "gate": gate.name, "stands": gate.stands(), "about": gate.about, "told": gate.sentence() })
}

/// A run as a row for programs.
fn row(project: &Project, gate: &Runs, run: &Found, report: &Report) -> Value {
    let session = &run.ledger.session;
    json!({
        "run": run.id,
        "workflow": run.id.workflow,
        "document": run.place,
        "phase": report.phase,
        "condition": report.condition,
        "problem": report.problem,
        "owner": session.owner,
        "fired": session.fired,
        "question": session.question,
        "needs_you": gate.needs_you(run, report),
        "cancelled": session.cancelled,
        "tampered": run.ledger.tamper.changes,
        "definition_outdated": gate.is_outdated(run).is_some(),
        "blocks": run.ledger.work.tally.blocks,
        "flakes": run.ledger.work.flakes.counts().collect::<BTreeMap<_, _>>(),
        "tally": run.ledger.work.tally,
        "limits": project.config.limits(&run.id.workflow),
        "decisions": run.ledger.position.seq,
        "last": session.last.as_ref().map(|last| json!({
            "at": last.at, "event": last.event, "answer": last.answer,
        })),
    })
}

/// How a run stands and what is to be done, in the workflow's own words where it has some.
fn standing(gate: &Runs, run: &Found, report: &Report) -> String {
    let condition = match report.condition {
        Condition::Done => paint(Paint::Green, "done"),
        Condition::Working => paint(Paint::Yellow, "working"),
        other if other.is_trouble() => paint(Paint::Red, &other.to_string()),
        other => other.to_string(),
    };
    let told = gate.headline(run, &event("status")).filter(|_| !report.condition.is_over());
    let (phase, about) = told.map_or_else(
        || (report.phase.clone(), report.about.clone()),
        |(status, action)| (status, Some(action)),
    );
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    format!("{condition} in phase {phase}{about}")
}

/// Where a run is, what it has used up, and whether anybody works on it.
fn facts(project: &Project, run: &Found, report: &Report, verbose: bool) -> Vec<String> {
    let mut facts = vec![run.place.clone()];
    if let Some(last) = &run.ledger.session.last {
        facts.push(format!("last answer {} {}", last.answer, when::ago(last.at)));
        facts.extend(used(project, run, verbose));
    }
    if !report.condition.is_over() {
        facts.push(armed(run));
    }
    if let Some(owner) = &run.ledger.session.owner {
        facts.push(format!("owner {} (seen {})", owner.session, when::ago(owner.seen)));
    }
    facts
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// What a run has used of its limits: what is more than half used, or all of it.
fn used(project: &Project, run: &Found, verbose: bool) -> Vec<String> {
    let (tally, limits) = (&run.ledger.work.tally, project.config.limits(&run.id.workflow));
    let counted = [
        (tally.blocks, limits.blocks, "blocks"),
        (tally.blocks_in_a_row, limits.blocks_in_a_row, "blocks in a row"),
        (tally.seconds / 60, limits.minutes, "minutes of work"),
        (tally.reviews, limits.reviews, "reviews"),
        (tally.micro_dollars / 1_000_000, limits.dollars, "dollars"),
    ];
    let shown = |(count, limit, what): (u64, Option<u64>, &str)| match limit {
        Some(limit) if limit > 0 && (verbose || count.saturating_mul(2) > limit) => {
            Some(format!("{count} of {limit} {what}"))
        }
        None | Some(0) if verbose => Some(format!("{count} {what}")),
        _ => None,
    };
    counted.into_iter().filter_map(shown).collect()
}

/// What somebody should know about a run, a line each.
fn remarks(gate: &Runs, run: &Found, report: &Report) -> Vec<String> {
    // Of trouble, the problem tells; what needs a person was said first.
    let told = gate.told(run, report).filter(|_| !report.condition.is_trouble());
    let told = told.filter(|_| gate.needs_you(run, report).is_none());
    let workflow = gate.workflow_of(run).ok().filter(|_| !report.condition.is_over());
    let untrusted = workflow.and_then(|workflow| gate.untrusted(&workflow, &run.id));
    let told = told.filter(|told| untrusted.as_ref() != Some(told));
    let jobs = gate.jobs_of(run);
    let working = jobs.values().filter(|job| job.manner.waits && !job.is_over());
    let working = working.map(|job| {
        let since = when::ago(job.started.unwrap_or(job.recorded));
        format!("{} {} was started {since}", job.kind, job.name)
    });
    let narrow = jobs.values().filter(|job| !job.inputs.is_empty());
    let narrow = narrow.map(|job| {
        let (kind, name, inputs) = (&job.kind, &job.name, job.inputs.join(", "));
        format!("{kind} {name} is run again when {inputs} change")
    });
    let flaky = run.ledger.work.flakes.counts().map(|(check, count)| {
        format!("check {check} is flaky: its result on the same files has changed {}", times(count))
    });
    let checks = narrow.chain(flaky);
    let cancelled = run.ledger.session.cancelled.as_ref().filter(|it| it.by != Actor::Human);
    let cancelled = cancelled.map(|it| {
        let why = it.reason.as_deref().unwrap_or("no reason was given");
        format!("cancelled from {} {}: {why}", it.from(), when::ago(it.at))
    });
    let contradiction = gate.contradiction(run);
    let tampered = run.ledger.tamper.changes.iter().chain(&contradiction);
    let tampered = tampered.map(|change| format!("{change} ({})", when::ago(change.at)));
    let outdated = gate.is_outdated(run).filter(|_| !report.condition.is_over());
    let problems =
        report.problem.iter().cloned().chain(untrusted).chain(told).chain(working).chain(checks);
    problems.chain(cancelled).chain(tampered).chain(outdated).collect()
}
