//! `phasegate status`

use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::{Answer, Until};
use phasegate_engine::step::Actor;
use phasegate_runtime::condition::Condition;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Found, Runs};
use phasegate_runtime::ledger::Intent;
use phasegate_runtime::project::Project;
use serde_json::json;

use super::{Outcome, event, when};
use crate::print::{self, Paint, paint};

/// After so long without a hook, one may be missing.
const QUIET: SignedDuration = SignedDuration::from_mins(30);

/// Whether the hook fires: a run without one holds nobody.
fn armed(run: &Found) -> String {
    match (run.ledger.session.fired, run.ledger.started_at) {
        (Some(fired), _) if Timestamp::now().duration_since(fired) < QUIET => {
            format!("the hook fired {}", when::ago(fired))
        }
        (Some(since), _) | (None, Some(since)) => {
            format!("armed, but no hook has fired since {}", when::clock(since))
        }
        (None, None) => "armed, but no hook has fired yet".into(),
    }
}

/// What a run that waits is waiting for.
fn waits_for(run: &Found) -> Option<String> {
    let Answer::Allow { until: Some(until), message, .. } =
        &run.ledger.session.last.as_ref()?.answer
    else {
        return None;
    };
    let who = match until {
        Until::Human => "for a person",
        Until::Background => "for background work",
        Until::External => "for something outside",
    };
    let why = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("It waits {who}{why}"))
}

pub fn run(project: &Project, as_json: bool) -> Outcome {
    let gate = Runs::new(project);
    let (runs, faults) = gate.runs();
    let reports: Vec<_> = runs.iter().map(|run| (run, gate.report(run))).collect();
    if as_json {
        let runs: Vec<_> = reports
            .iter()
            .map(|(run, report)| {
                json!({
                    "run": run.id,
                    "workflow": run.id.workflow,
                    "document": run.place,
                    "phase": report.phase,
                    "condition": report.condition,
                    "problem": report.problem,
                    "owner": run.ledger.session.owner,
                    "fired": run.ledger.session.fired,
                    "cancelled": run.ledger.session.cancelled,
                    "tampered": run.ledger.tamper.changes,
                    "definition_outdated": gate.is_outdated(run).is_some(),
                    "blocks": run.ledger.work.tally.blocks,
                    "tally": run.ledger.work.tally,
                    "limits": project.config.limits(&run.id.workflow),
                    "decisions": run.ledger.position.seq,
                    "last": run.ledger.session.last.as_ref().map(|last| json!({
                        "at": last.at, "event": last.event, "answer": last.answer,
                    })),
                })
            })
            .collect();
        let recent = fault_log::recent(Some(&project.root), 5);
        print::json(
            &json!({ "project": project.root, "runs": runs, "problems": faults, "recent_faults": recent }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() && faults.is_empty() {
        print::line(
            "There is no run in this project. `phasegate list` shows the workflows that can be started.",
        );
    }
    let width = runs.iter().map(|run| run.id.to_string().len()).max().unwrap_or(0);
    for (run, report) in &reports {
        let condition = match report.condition {
            Condition::Done => paint(Paint::Green, "done"),
            Condition::Working => paint(Paint::Yellow, "working"),
            other if other.is_trouble() => paint(Paint::Red, &other.to_string()),
            other => other.to_string(),
        };
        let name = paint(Paint::Bold, &format!("{:<width$}", run.id.to_string()));
        let told = gate.headline(run, &event("status")).filter(|_| gate.is_working(run));
        let (phase, about) = told.map_or_else(
            || (report.phase.clone(), report.about.clone()),
            |(status, action)| (status, Some(action)),
        );
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        print::line(&format!("{name}  {condition} in phase {phase}{about}"));
        let mut facts = vec![run.place.clone()];
        if let Some(last) = &run.ledger.session.last {
            facts.push(format!("last answer {} {}", last.answer, when::ago(last.at)));
            let (tally, limits) = (&run.ledger.work.tally, project.config.limits(&run.id.workflow));
            let of = |limit: Option<u64>| match limit {
                None | Some(0) => String::new(),
                Some(limit) => format!(" of {limit}"),
            };
            let (row, all) = (of(limits.blocks_in_a_row), of(limits.blocks));
            facts.push(format!(
                "{}{all} blocks, {}{row} in a row",
                tally.blocks, tally.blocks_in_a_row
            ));
            facts.push(format!("{}{} minutes of work", tally.seconds / 60, of(limits.minutes)));
            if tally.reviews > 0 {
                let dollars = tally.micro_dollars / 1_000_000;
                let (reviews, cost) = (of(limits.reviews), of(limits.dollars));
                facts.push(format!("{}{reviews} reviews, {dollars}{cost} dollars", tally.reviews));
            }
        }
        if gate.is_working(run) {
            facts.push(armed(run));
        }
        if let Some(owner) = &run.ledger.session.owner {
            facts.push(format!("owner {} (seen {})", owner.session, when::ago(owner.seen)));
        }
        print::line(&paint(Paint::Dim, &format!("{:width$}  {}", "", facts.join("; "))));
        let cancelled = run.ledger.session.cancelled.as_ref().filter(|it| it.by != Actor::Human);
        let cancelled = cancelled.map(|it| {
            let why = it.reason.as_deref().unwrap_or("no reason was given");
            format!("cancelled by the agent {}: {why}", when::ago(it.at))
        });
        let tampered = run.ledger.tamper.changes.iter();
        let tampered = tampered.map(|change| format!("{change} ({})", when::ago(change.at)));
        let checking = run.ledger.work.checking.as_ref().map(|intent| {
            let Intent { what, name, since } = intent;
            let end =
                if gate.is_going_on(run, intent) { "" } else { ", and did not come to its end" };
            format!("{what} {name} was started {}{end}", when::ago(*since))
        });
        let outdated = gate.is_outdated(run).filter(|_| gate.is_working(run));
        let waits =
            waits_for(run).filter(|_| report.condition == Condition::Waiting).map(|waits| {
                let elsewhere = waits.contains("it runs in the background");
                if elsewhere && !gate.runs_errands(run) {
                    "What it waited for is done: say something to the agent.".to_string()
                } else {
                    waits
                }
            });
        let problems = report.problem.iter().cloned();
        for line in
            problems.chain(waits).chain(checking).chain(cancelled).chain(tampered).chain(outdated)
        {
            print::line(&format!("{:width$}  {line}", ""));
        }
    }
    for fault in &faults {
        print::note(&format!("problem: {fault}"));
    }
    let recent = fault_log::recent(Some(&project.root), 3);
    for fault in &recent {
        print::note(&format!("fault {}: {}", when::ago(fault.at), fault.what));
    }
    Ok(ExitCode::SUCCESS)
}
