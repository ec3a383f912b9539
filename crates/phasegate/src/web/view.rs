//! What the page shows, as JSON. The words are those of `status`; nothing here says in its own words how a run stands.

use std::path::Path;

use phasegate_engine::draw::{Format, draw};
use phasegate_runtime::condition::Condition;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Found, Listed, Report, Runs, StandingGate};
use phasegate_runtime::jobs::Record;
use phasegate_runtime::journal;
use phasegate_runtime::plain;
use phasegate_runtime::project::Project;
use serde_json::{Value, json};

use super::refused::Refused;
use super::{Query, acts};
use crate::cli::status;
use crate::openings;

/// How many lines of a journal are sent at once.
const MAX_LINES: usize = 200;

/// How much of a log is sent at once.
const MAX_LOG: u64 = 64 << 10;

/// A journal with more lines than this is not checked whole for a page.
const MAX_VERIFIED: u64 = 2_000;

/// Answers a question of the page.
///
/// `acts`: whether the page can act.
pub fn answer(root: &Path, name: &str, query: &Query, acts: bool) -> Result<Value, Refused> {
    let project = Project::open(root).map_err(|error| Refused::Failed(error.to_string()))?;
    let gate = Runs::new(&project);
    let found = || {
        let run = query.get("run").map(String::as_str).unwrap_or_default();
        gate.run(run).map_err(|error| Refused::Unknown(error.to_string()))
    };
    let number = |name: &str| query.get(name).and_then(|value| value.parse::<u64>().ok());
    match name {
        "overview" => Ok(overview(&project, &gate)),
        "run" => Ok(run(&project, &gate, &found()?, acts)),
        "log" => Ok(lines_before(&gate, &found()?, number("before"))),
        "health" => Ok(health(&gate, &found()?)),
        "job" => job_log(&gate, &found()?, query, number("from")),
        _ => Err(Refused::Unknown(format!("there is no /api/{name}"))),
    }
}

/// All runs, in the order in which somebody should look at them.
pub fn overview(project: &Project, gate: &Runs) -> Value {
    let Listed { runs, mut faults, .. } = gate.all_runs();
    faults.extend(gate.broken());
    let openings = openings::in_environment().into_iter();
    let openings: Vec<String> = openings.chain(openings::in_settings(&project.root)).collect();
    let mut rows: Vec<Value> = runs.iter().map(|run| inbox_row(gate, run)).collect();
    let last = |row: &Value| row["last"].as_str().unwrap_or_default().to_string();
    // The newest first; what belongs together is put together by the page.
    rows.sort_by_key(|row| std::cmp::Reverse(last(row)));
    let gates: Vec<String> = gate.standing_gates().iter().map(StandingGate::sentence).collect();
    let recent = fault_log::recent(Some(&project.root), 5);
    let name = project.root.file_name().map(|name| name.to_string_lossy().into_owned());
    json!({
        "project": name, "gates": gates, "runs": rows, "problems": faults, "openings": openings, "faults": recent,
    })
}

fn inbox_row(gate: &Runs, run: &Found) -> Value {
    let report = gate.report(run);
    let standing = gate.standing(run, &report);
    json!({
        "run": run.id,
        "group": group(report.condition, &standing),
        "phase": report.phase,
        "standing": standing,
        "told": report.problem.clone().or_else(|| gate.told(run, &report)),
        "last": run.ledger.session.last.as_ref().map(|last| last.at),
        "seq": run.ledger.position.seq,
    })
}

/// Where a run stands in the inbox.
fn group(condition: Condition, standing: &str) -> &'static str {
    match condition {
        Condition::Stuck | Condition::Capped | Condition::Budget => "stuck",
        Condition::Broken => "broken",
        over if over.is_over() => "ended",
        _ if standing.starts_with("needs you") => "needs you",
        Condition::Working => "working",
        _ => "waiting",
    }
}

/// A run, with everything that the page shows of it but its journal.
pub fn run(project: &Project, gate: &Runs, found: &Found, acts: bool) -> Value {
    let report = gate.report(found);
    let workflow = gate.workflow_of(found);
    let picture = workflow.as_ref().ok().map(|it| draw(it, Format::Svg, Some(&report.phase)));
    let jobs = gate.jobs_of(found);
    let jobs: Vec<Value> = jobs.iter().map(|(id, job)| job_row(id, job)).collect();
    json!({
        "run": found.id,
        "about": workflow.as_ref().ok().map(|workflow| workflow.about.clone()),
        "phase": report.phase,
        "phase_about": report.about,
        "condition": report.condition,
        "standing": gate.standing(found, &report),
        "remarks": gate.needs_you(found, &report).into_iter().chain(status::remarks(gate, found, &report)).collect::<Vec<_>>(),
        "document": found.place,
        "owner": found.ledger.session.owner,
        "seq": found.ledger.position.seq,
        "picture": picture,
        "limits": limits(project, found),
        "jobs": jobs,
        "tampered": tampered(gate, found, &report),
        "acts": if acts { acts::offered(gate, found) } else { Vec::new() },
    })
}

/// What a run has used, and of how much.
fn limits(project: &Project, found: &Found) -> Value {
    let (tally, limits) = (&found.ledger.work.tally, project.config.limits(&found.id.workflow));
    let of = |what: &str, used: u64, limit: Option<u64>| json!({ "what": what, "used": used, "limit": limit.filter(|limit| *limit > 0) });
    json!([
        of("blocks", tally.blocks, limits.blocks),
        of("blocks in a row", tally.blocks_in_a_row, limits.blocks_in_a_row),
        of("minutes of work", tally.seconds / 60, limits.minutes),
        of("reviews", tally.reviews, limits.reviews),
        of("dollars", tally.micro_dollars / 1_000_000, limits.dollars),
    ])
}

fn tampered(gate: &Runs, found: &Found, report: &Report) -> Vec<String> {
    let changes = found.ledger.tamper.changes.iter().map(ToString::to_string);
    let contradiction = gate.contradiction(found).map(|change| change.to_string());
    let outdated = gate.is_outdated(found).filter(|_| !report.condition.is_over());
    changes.chain(contradiction).chain(outdated).collect()
}

fn job_row(id: &str, job: &Record) -> Value {
    let ended = job.ended.as_ref();
    // A client that does not tell what it cost has not worked for nothing.
    let cost = ended.map(|ended| ended.micro_dollars).filter(|cost| *cost > 0);
    json!({
        "id": id,
        "kind": job.kind.to_string(),
        "name": job.name,
        "status": job.status(),
        "started": job.started.unwrap_or(job.recorded),
        "seconds": ended.map(|ended| ended.seconds),
        "micro_dollars": cost,
        "end": ended.map(|ended| ended.words.clone()),
        "tree": ended.and_then(|ended| ended.tree.clone()),
        "verdict": ended.and_then(|ended| ended.verdict.as_ref()).map(|it| if it.pass { "PASS" } else { "FAIL" }),
        "file": job.file,
        "tail": ended.map(|ended| ended.tail.clone()),
    })
}

/// Lines of a journal from a place backwards, the newest first.
fn lines_before(gate: &Runs, found: &Found, before: Option<u64>) -> Value {
    let lines = gate.journal_backwards(found).filter_map(Result::ok);
    let lines = lines.filter(|line| {
        let seq = journal::position(line).map(|(seq, _)| seq);
        before.is_none_or(|before| seq.is_some_and(|seq| seq < before))
    });
    let lines = lines.take(MAX_LINES).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    json!({ "lines": lines.collect::<Vec<_>>() })
}

/// Lines of a journal after a place, the oldest first, at most so many that a page can take them.
pub fn lines_after(gate: &Runs, found: &Found, seen: u64) -> Vec<(u64, Value)> {
    let lines = gate.journal_backwards(found).map_while(Result::ok);
    let numbered = lines.filter_map(|line| Some((journal::position(&line)?.0, line)));
    let new = numbered.take_while(|(seq, _)| *seq > seen).take(MAX_LINES);
    let read = |(seq, line): (u64, String)| Some((seq, serde_json::from_str(&line).ok()?));
    let mut new: Vec<(u64, Value)> = new.filter_map(read).collect();
    new.reverse();
    new
}

/// Whether the journal is whole. It is asked for apart from the rest, since it reads all of it.
fn health(gate: &Runs, found: &Found) -> Value {
    let count = found.ledger.position.seq;
    let chain = if count > MAX_VERIFIED {
        let name = &found.id;
        format!("{count} entries; `phasegate log --verify {name}` checks them")
    } else {
        match gate.journal(found) {
            Ok(lines) => match journal::verify(&lines, &found.ledger) {
                Ok(count) => format!("{count} entries, chain intact"),
                Err(problem) => return json!({ "chain": problem, "is_intact": false }),
            },
            Err(error) => return json!({ "chain": error.to_string(), "is_intact": false }),
        }
    };
    json!({ "chain": chain, "is_intact": true })
}

/// What a job has printed, from a place on, without what a terminal would obey.
fn job_log(gate: &Runs, found: &Found, query: &Query, from: Option<u64>) -> Result<Value, Refused> {
    let id = query.get("job").map(String::as_str).unwrap_or_default();
    let jobs = gate.jobs_of(found);
    let job = jobs.get(id);
    let job = job.ok_or_else(|| Refused::Unknown(format!("there is no job {id:?}")))?;
    let failed = |error: std::io::Error| Refused::Failed(error.to_string());
    let (_, size) = gate.job_log(job, 0, 0).map_err(failed)?;
    // A long log is shown from its end.
    let from = from.unwrap_or(size.saturating_sub(MAX_LOG)).min(size);
    let (bytes, size) = gate.job_log(job, from, MAX_LOG).map_err(failed)?;
    let next = from + bytes.len() as u64;
    let text = plain::text(&String::from_utf8_lossy(&bytes)).into_owned();
    Ok(json!({ "text": text, "next": next, "size": size, "is_over": job.is_over() }))
}
