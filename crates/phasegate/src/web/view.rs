//! What the page shows, as JSON. The words are those of `status`; nothing here says in its own words how a run stands.

use std::ffi::OsStr;

use phasegate_engine::draw::{Format, draw};
use phasegate_engine::unreached::unreached;
use phasegate_runtime::approval::{Checked, Holds};
use phasegate_runtime::condition::Group;
use phasegate_runtime::course::Course;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Found, Listed, Report, Runs, StandingGate};
use phasegate_runtime::governor::Used;
use phasegate_runtime::jobs::Record;
use phasegate_runtime::journal::{self, Line};
use phasegate_runtime::plain;
use phasegate_runtime::project::Project;

use super::Query;
use super::acts::{self, Act};
use super::object::{Object, listed, quoted};
use super::refused::Refused;
use crate::cli::status;
use crate::openings;

/// How many lines of a journal are sent at once.
pub const MAX_LINES: usize = 200;

/// How much of a log is sent at once.
const MAX_LOG: u64 = 64 << 10;

/// How many of the runs that are over are listed.
pub const MAX_ENDED: usize = 50;

/// How many lines of a journal are counted for the picture; it says so where there are more.
pub const MAX_COUNTED: u64 = 5_000;

/// A journal with more lines than this is not checked whole for a page.
const MAX_VERIFIED: u64 = 2_000;

/// Answers a question about the runs of a project.
pub fn answer(project: &Project, name: &str, query: &Query, acts: bool) -> Result<String, Refused> {
    let gate = Runs::new(project);
    let found = || {
        let run = query.get("run").unwrap_or_default();
        gate.run(run).map_err(|error| Refused::Unknown(error.to_string()))
    };
    match name {
        "overview" => Ok(overview(project, &gate)),
        "run" => Ok(run(project, &gate, &found()?, acts, &mut Course::default())),
        "seen" => Ok(acts::seen(&gate, &found()?).to_json()),
        "now" => Ok(now(&gate, &found()?)),
        "log" => Ok(lines_before(&gate, &found()?, query.number("before"))),
        "health" => Ok(health(&gate, &found()?)),
        "job" => job_log(&gate, &found()?, query),
        _ => Err(Refused::Unknown(format!("there is no /api/{name}"))),
    }
}

/// All runs, and what is wrong beside them. The page puts them in their order.
pub fn overview(project: &Project, gate: &Runs) -> String {
    let Listed { runs, mut faults, has_more } = gate.recent_runs(MAX_ENDED);
    faults.extend(gate.broken());
    let openings = openings::in_environment().into_iter();
    let openings: Vec<String> = openings.chain(openings::in_settings(&project.root)).collect();
    let gates: Vec<String> = gate.standing_gates().iter().map(StandingGate::sentence).collect();
    let recent = fault_log::recent(Some(&project.root), 5);
    let mut told = Object::new();
    told.maybe("project", project.root.file_name().map(OsStr::to_string_lossy).as_deref());
    told.texts("gates", &gates);
    told.list("runs", &runs.iter().map(|run| inbox_row(gate, run)).collect::<Vec<_>>());
    told.flag("has_more", has_more);
    told.texts("problems", &faults);
    told.texts("openings", &openings);
    told.json("faults", &serde_json::to_string(&recent).unwrap_or_default());
    told.end()
}

fn inbox_row(gate: &Runs, run: &Found) -> String {
    let report = gate.report(run);
    let standing = gate.standing(run, &report);
    let told = report.problem.clone().or_else(|| gate.told(run, &report));
    let last = run.ledger.session.last.as_ref().map(|last| last.at.to_string());
    let mut row = Object::new();
    row.text("run", &run.id.to_string());
    row.text("group", &Group::of(report.condition, &standing).to_string());
    row.text("phase", &report.phase);
    row.text("standing", &standing);
    row.maybe("told", told.as_deref());
    row.maybe("last", last.as_deref());
    row.end()
}

/// A run, with everything that the page shows of it but its journal. `course` is what the stream already knows of
/// where the run has been.
pub fn run(
    project: &Project,
    gate: &Runs,
    found: &Found,
    acts: bool,
    course: &mut Course,
) -> String {
    let report = gate.report(found);
    gate.follow(found, course, MAX_COUNTED);
    let walk = gate.walk(found, &report, course);
    let workflow = gate.workflow_of(found).ok();
    let picture = workflow.map(|it| draw(&it, Format::Svg, Some(&walk)));
    let mut remarks = status::remarks(gate, found, &report);
    remarks.splice(..0, gate.needs_you(found, &report));
    let jobs = gate.jobs_of(found);
    let mut told = Object::new();
    told.text("run", &found.id.to_string());
    told.text("phase", &report.phase);
    told.maybe("phase_about", report.about.as_deref());
    told.flag("is_over", report.condition.is_over());
    told.text("standing", &gate.standing(found, &report));
    told.texts("remarks", &remarks);
    told.text("document", &found.place);
    told.number("seq", Some(found.ledger.position.seq));
    told.maybe("picture", picture.as_deref());
    told.json("limits", &limits(project, found));
    told.list("jobs", &jobs.iter().map(|(id, job)| job_row(id, job)).collect::<Vec<_>>());
    told.list("health", &signs(gate, found, &report));
    let offered = if acts { acts::offered(gate, found) } else { Vec::new() };
    told.list("acts", &offered.iter().map(Act::to_json).collect::<Vec<_>>());
    told.end()
}

/// What would open the gate. It decides some hundred times, so that it is computed when somebody asks.
fn now(gate: &Runs, found: &Found) -> String {
    match gate.now(found) {
        Ok(now) => {
            let mut told = now.to_json(&found.id);
            told["seq"] = found.ledger.position.seq.into();
            told.to_string()
        }
        Err(error) => {
            let mut told = Object::new();
            told.text("not_computed", &error.to_string());
            told.end()
        }
    }
}

/// What a run has used, and of how much.
pub fn limits(project: &Project, found: &Found) -> String {
    let limits = project.config.limits(&found.id.workflow);
    let row = |used: &Used| {
        let mut row = Object::new();
        row.text("what", used.what);
        row.text("told", &used.share());
        row.number("used", Some(used.count));
        // No bar for what is only a part.
        row.number("limit", used.limit.filter(|_| !used.is_unknown));
        row.end()
    };
    listed(&found.ledger.work.tally.used(&limits).iter().map(row).collect::<Vec<_>>())
}

pub fn sign(text: &str, is_good: bool) -> String {
    let mut sign = Object::new();
    sign.text("text", text);
    sign.flag("is_good", is_good);
    sign.end()
}

/// What tells whether a run can be relied on; its journal is looked at apart from it.
fn signs(gate: &Runs, found: &Found, report: &Report) -> Vec<String> {
    let mut signs = Vec::new();
    let mut outdated = None;
    if !report.condition.is_over() {
        signs.push(sign(&status::armed(found), true));
        if let Some(owner) = &found.ledger.session.owner {
            signs.push(sign(&format!("owner {}", owner.session), true));
        }
        outdated = gate.is_outdated(found);
    }
    let definition = outdated.as_deref().unwrap_or("definition unchanged");
    signs.push(sign(definition, outdated.is_none()));
    let others = signs.len();
    for change in found.ledger.tamper.changes.iter().chain(&gate.contradiction(found)) {
        signs.push(sign(&change.to_string(), false));
    }
    if signs.len() == others {
        signs.push(sign("no protected field was changed", true));
    }
    signs
}

pub fn job_row(id: &str, job: &Record) -> String {
    let ended = job.ended.as_ref();
    let cost = job.cost().map(|cost| cost.to_string());
    let at = ended.map(|ended| ended.at.to_string());
    let verdict = ended.and_then(|ended| ended.verdict.as_ref());
    let mut row = Object::new();
    row.text("id", id);
    row.text("status", job.status());
    row.text("started", &job.started.unwrap_or(job.recorded).to_string());
    row.maybe("ended", at.as_deref());
    row.number("seconds", ended.map(|ended| ended.seconds));
    row.maybe("cost", cost.as_deref());
    row.maybe("end", ended.map(|ended| ended.words.as_str()));
    row.maybe("tree", ended.and_then(|ended| ended.tree.as_deref()));
    row.maybe("verdict", verdict.map(|it| if it.pass { "PASS" } else { "FAIL" }));
    row.maybe("file", job.file.as_deref());
    row.end()
}

/// Lines of a journal from a place backwards, the newest first.
pub fn lines_before(gate: &Runs, found: &Found, before: Option<u64>) -> String {
    let lines = gate.journal_before(found, before.unwrap_or(u64::MAX));
    let lines = shown(gate, found, &mut lines.take(MAX_LINES));
    let mut told = Object::new();
    told.list("lines", &lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>());
    told.end()
}

/// Lines of a journal after a place, the oldest first; after so many, the next ones are for the next look.
pub fn lines_after(gate: &Runs, found: &Found, seen: u64) -> Vec<(u64, String)> {
    shown(gate, found, &mut gate.journal_after(found, seen).take(MAX_LINES))
}

/// Lines of a journal as they are, each with its number and with the parts of guards that were not reached. A line that
/// cannot be read is left out.
fn shown(
    gate: &Runs,
    found: &Found,
    lines: &mut dyn Iterator<Item = String>,
) -> Vec<(u64, String)> {
    let workflow = gate.workflow_of(found).ok();
    let mut shown = Vec::new();
    for text in lines {
        let Ok(line) = serde_json::from_str::<Line>(&text) else { continue };
        let mut left: Vec<String> = Vec::new();
        if let Some(workflow) = &workflow {
            for tried in &line.trace.tried {
                let parts = unreached(workflow, tried);
                left.push(listed(&parts.iter().map(|part| quoted(part)).collect::<Vec<_>>()));
            }
        }
        // The last member of the object that the line is. No line of ours has a line break in it.
        let open = text.trim_end().strip_suffix('}').unwrap_or_default().replace('\r', " ");
        shown.push((line.seq, format!("{open},\"unreached\":{}}}", listed(&left))));
    }
    shown
}

/// What takes longer to tell, and is asked for apart from the rest: whether the journal is whole, and whether results
/// are about the files as they are.
fn health(gate: &Runs, found: &Found) -> String {
    let mut holds = Object::new();
    for (job, still) in gate.results_hold(found) {
        holds.flag(&job, still);
    }
    let mut told = Object::new();
    told.json("chain", &chain(gate, found));
    told.json("holds", &holds.end());
    told.end()
}

pub fn chain(gate: &Runs, found: &Found) -> String {
    let count = found.ledger.position.seq;
    if count > MAX_VERIFIED {
        let name = &found.id;
        return sign(
            &format!("{count} entries; `phasegate log --verify {name}` checks them"),
            true,
        );
    }
    let checked = gate.signatures(found).unwrap_or_default();
    let is_bad = |it: &&Checked| matches!(it.holds, Holds::No(_) | Holds::Unknown(_));
    if let Some(bad) = checked.iter().find(is_bad) {
        return sign(&bad.sentence(), false);
    }
    let verified = gate.journal(found).map_err(|error| error.to_string());
    match verified.and_then(|lines| journal::verify(&lines, &found.ledger)) {
        Ok(count) if !checked.is_empty() => {
            let signed = checked.len();
            sign(&format!("{count} entries, chain intact, {signed} signed and checked"), true)
        }
        Ok(1) => sign("1 entry, chain intact", true),
        Ok(count) => sign(&format!("{count} entries, chain intact"), true),
        Err(problem) => sign(&problem, false),
    }
}

/// What a job has printed, from a place on, without what a terminal would obey.
fn job_log(gate: &Runs, found: &Found, query: &Query) -> Result<String, Refused> {
    let id = query.get("job").unwrap_or_default();
    let jobs = gate.jobs_of(found);
    let job = jobs.get(id);
    let job = job.ok_or_else(|| Refused::Unknown(format!("there is no job {id:?}")))?;
    let failed = |error: std::io::Error| Refused::Failed(error.to_string());
    let (_, size) = gate.job_log(job, 0, 0).map_err(failed)?;
    // A long log is shown from its end.
    let from = query.number("from").unwrap_or(size.saturating_sub(MAX_LOG)).min(size);
    let (bytes, size) = gate.job_log(job, from, MAX_LOG).map_err(failed)?;
    // A character that is not all there yet is for the next time.
    let is_last = job.is_over() && from + bytes.len() as u64 >= size;
    let whole = match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
        _ => bytes.len(),
    };
    let next = from + whole as u64;
    let mut told = Object::new();
    told.text("text", &plain::text(&String::from_utf8_lossy(&bytes[..whole])));
    told.number("next", Some(next));
    told.number("size", Some(size));
    told.flag("is_over", job.is_over());
    Ok(told.end())
}
