//! `phasegate status`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use phasegate_engine::draw::{Format, draw};
use phasegate_engine::step::Actor;
use phasegate_runtime::condition::Condition;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Found, LEASE, Listed, Report, Runs, StandingGate};
use phasegate_runtime::governor::Used;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failed, Outcome, complete, draw, event, when};
use crate::openings;
use crate::print::{self, Paint, paint};

/// Whether the hook fires: a run without one holds nobody.
pub fn armed(run: &Found) -> String {
    armed_since(run.ledger.session.fired, run.ledger.started_at)
}

/// The same, by when the hook last fired and when the run began.
pub fn armed_since(fired: Option<Timestamp>, started: Option<Timestamp>) -> String {
    match (fired, started) {
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

/// How often a status that is watched is looked at.
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Options {
    /// A run, as WORKFLOW/RUN; by default all that are open, and the last that has ended
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Show every run that is over, not only the last one
    #[arg(long)]
    all: bool,
    /// Show what a run has used of each of its limits, not only where it is more than half
    #[arg(short, long)]
    verbose: bool,
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(short, long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a project stands, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The project's folder.
    project: PathBuf,
    /// Gates that hold sessions without being started: `gate`, `stands`, `about`, `told`.
    standing: Vec<Value>,
    /// The runs: `run`, `workflow`, `document`, `phase`, `condition`, `last` and more.
    runs: Vec<Value>,
    /// Other runs have ended; `--all` has them.
    has_more: bool,
    /// What cannot be read.
    problems: Vec<String>,
    /// What opens the gate.
    openings: Vec<String>,
    /// Failures of Phasegate itself, the last ones.
    recent_faults: Vec<Value>,
}

/// What is looked at.
struct Seen {
    runs: Vec<Found>,
    faults: Vec<String>,
    has_more: bool,
}

fn seen(gate: &Runs, options: &Options) -> Result<Seen, Failed> {
    if let Some(name) = &options.run {
        return Ok(Seen { runs: vec![gate.run(name)?], faults: Vec::new(), has_more: false });
    }
    let listed = if options.all { gate.all_runs() } else { gate.runs() };
    let Listed { runs, mut faults, has_more } = listed;
    faults.extend(gate.broken());
    Ok(Seen { runs, faults, has_more })
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    if options.watch {
        return watch(project, options);
    }
    let gate = Runs::new(project);
    let seen = seen(&gate, options)?;
    if options.json {
        print::json(&shown(project, &gate, &seen));
        return Ok(ExitCode::SUCCESS);
    }
    print::out(&page(project, &gate, &seen, options));
    for fault in &seen.faults {
        print::note(&print::one_line(&format!("problem: {fault}")));
    }
    for fault in fault_log::recent(Some(&project.root), 3) {
        let what = print::one_line(&fault.what);
        print::note(&format!("fault {}: {what}", when::ago(fault.at)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the page again whenever it has changed.
fn watch(project: &Project, options: &Options) -> Outcome {
    let clears = std::io::stdout().is_terminal();
    let mut before = String::new();
    loop {
        // A reader keeps what it has read, and a definition may change: each look is a new one.
        let project = Project::open(&project.root)?.seen_from(&project.site);
        let gate = Runs::new(&project);
        let page = page(&project, &gate, &seen(&gate, options)?, options);
        // Times pass: in a pipe only what happens is worth a new page.
        let compared = if clears { page.clone() } else { timeless(&page) };
        if compared != before {
            if clears {
                print::clear();
            }
            print::out(&page);
            before = compared;
        }
        std::thread::sleep(POLL);
    }
}

/// A page without how long ago things were.
fn timeless(page: &str) -> String {
    let words = page.split(' ').filter(|word| !word.chars().all(|c| c.is_ascii_digit()));
    let words = words.filter(|word| {
        !["seconds", "minutes", "hours", "days", "just"].contains(word) && !word.starts_with("ago")
    });
    words.filter(|word| !word.starts_with("now")).collect::<Vec<_>>().join(" ")
}

fn openings(project: &Project) -> Vec<String> {
    let environment = openings::in_environment().into_iter();
    environment.chain(openings::in_settings(&project.root)).collect()
}

/// What programs are told.
fn shown(project: &Project, gate: &Runs, seen: &Seen) -> Shown {
    let recent = fault_log::recent(Some(&project.root), 5);
    Shown {
        project: project.root.clone(),
        standing: gate.standing_gates().iter().map(gate_row).collect(),
        runs: seen.runs.iter().map(|run| row(project, gate, run, &gate.report(run))).collect(),
        has_more: seen.has_more,
        problems: seen.faults.clone(),
        openings: openings(project),
        recent_faults: recent.iter().filter_map(|it| serde_json::to_value(it).ok()).collect(),
    }
}

/// What people are told. On a terminal it fits on the screen: what does not is counted.
fn page(project: &Project, gate: &Runs, seen: &Seen, options: &Options) -> String {
    let mut head = String::new();
    let gates = if options.run.is_none() { gate.standing_gates() } else { Vec::new() };
    for why in seen.runs.iter().filter_map(|run| gate.needs_you(run, &gate.report(run))) {
        let why = format!("{} {why}", paint(Paint::Yellow, "needs you:"));
        head.push_str(&print::fitted(&print::one_line(&why), 2));
    }
    for gate in &gates {
        head.push_str(&print::fitted(&print::one_line(&gate.sentence()), 2));
    }
    if seen.runs.is_empty() && seen.faults.is_empty() && gates.is_empty() {
        head.push_str(
            "This project has no run. `phasegate list` shows the workflows that can be started.\n",
        );
    }
    let width = seen.runs.iter().map(|run| run.id.to_string().len()).max().unwrap_or(0);
    let texts = seen.runs.iter().map(|run| of_run(project, gate, run, width, options.verbose));
    let mut texts: Vec<String> = texts.collect();
    if let (Some(_), [run]) = (&options.run, seen.runs.as_slice()) {
        texts.extend(drawn(gate, run));
    }
    let mut foot = String::new();
    for opening in &openings(project) {
        let warning = paint(Paint::Red, "the gate is open:");
        foot.push_str(&print::fitted(&print::one_line(&format!("{warning} {opening}")), 2));
    }
    if seen.has_more {
        foot.push_str("Other runs have ended; `phasegate status --all` shows them.\n");
    }
    let most = print::height().filter(|_| !options.all && options.run.is_none());
    let room = most.map(|most| most.saturating_sub(lines(&head) + lines(&foot) + MARGIN));
    let (mut used, mut left_out) = (0, 0);
    let mut page = head;
    for text in &texts {
        used += lines(text);
        if room.is_some_and(|room| used > room) && left_out + 1 < texts.len() {
            left_out += 1;
        } else {
            page.push_str(text);
        }
    }
    if left_out > 0 {
        let _ = writeln!(page, "{left_out} more; `phasegate status --all` shows them.");
    }
    page + &foot
}

/// The phases of a run, with where it is and has been; nothing where the terminal is too narrow for it.
fn drawn(gate: &Runs, run: &Found) -> Option<String> {
    let workflow = gate.workflow_of(run).ok()?;
    let walk = draw::walk(gate, run, &gate.report(run));
    let drawn = draw(&workflow, Format::Text, Some(&walk));
    print::fits(&drawn).then(|| format!("\n{drawn}"))
}

/// Lines of the screen that are left for the prompt and for what is said beside the page.
const MARGIN: usize = 3;

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

/// What is told of one run.
fn of_run(project: &Project, gate: &Runs, run: &Found, width: usize, verbose: bool) -> String {
    let report = gate.report(run);
    let hang = width + 2;
    let name = paint(Paint::Bold, &format!("{:<width$}", run.id.to_string()));
    let first = format!("{name}  {}", standing(gate, run, &report));
    let facts = facts(project, run, &report, verbose).join("; ");
    let facts = paint(Paint::Dim, &format!("{:width$}  {facts}", ""));
    let remarks = remarks(gate, run, &report).into_iter();
    let remarks = remarks.map(|remark| format!("{:width$}  {remark}", ""));
    let all = [first, facts].into_iter().chain(remarks);
    all.map(|line| print::fitted(&print::one_line(&line), hang)).collect()
}

/// A standing gate as a row for programs.
fn gate_row(gate: &StandingGate) -> Value {
    json!({ "gate": gate.name, "stands": gate.stands(), "about": gate.about, "told": gate.sentence() })
}

/// The document of a run that has no file which one could read.
fn kept_state(gate: &Runs, run: &Found) -> Option<Value> {
    let document = gate.document(run).ok().filter(|_| run.is_in_store())?;
    serde_json::from_str(&document.to_text(None)).ok()
}

/// A run as a row for programs.
fn row(project: &Project, gate: &Runs, run: &Found, report: &Report) -> Value {
    let session = &run.ledger.session;
    json!({
        "run": run.id,
        "workflow": run.id.workflow,
        "document": run.place,
        "state": kept_state(gate, run),
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
            "at": last.at, "event": last.event, "answer": last.answer, "signed": last.signed,
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
    format!("{condition} in phase {}{about}", paint(Paint::PHASE, &phase))
}

/// Where a run is, what it has used up, and whether anybody works on it.
fn facts(project: &Project, run: &Found, report: &Report, verbose: bool) -> Vec<String> {
    let mut facts = vec![run.place.clone()];
    if let Some(last) = &run.ledger.session.last {
        let answer = paint(Paint::of(&last.answer), &last.answer.to_string());
        let signed = last.signed.as_ref().map(|signed| format!(", {signed}"));
        let signed = signed.unwrap_or_default();
        facts.push(format!("last answer {answer} {}{signed}", when::ago(last.at)));
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

/// What a run has used of its limits: what is more than half used or not known, or all of it.
fn used(project: &Project, run: &Found, verbose: bool) -> Vec<String> {
    let (tally, limits) = (&run.ledger.work.tally, project.config.limits(&run.id.workflow));
    // A limit on what is not known does not hold.
    let is_near = |used: &Used| {
        used.limit.is_some_and(|limit| used.count.saturating_mul(2) > limit || used.is_unknown)
    };
    let used = tally.used(&limits).into_iter().filter(|used| verbose || is_near(used));
    used.map(|used| used.to_string()).collect()
}

/// What somebody should know about a run, a line each.
pub fn remarks(gate: &Runs, run: &Found, report: &Report) -> Vec<String> {
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
        let line = gate.last_line(job).map(|line| format!(": {line}")).unwrap_or_default();
        format!("{} {} was started {since}{line}", job.kind, job.name)
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
