//! `phasegate log`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use phasegate_engine::answer::Answer;
use phasegate_engine::step::Actor;
use phasegate_runtime::approval::{Checked, Holds};
use phasegate_runtime::gate::{Found, Runs};
use phasegate_runtime::journal::{Line, verify};
use phasegate_runtime::ledger::Pruned;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, complete, shown_run, when};
use crate::print::{self, Paint, paint};

/// How often a followed journal is looked at, beside every change that the system tells of.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; by default the one that decided last
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Show only the last N decisions
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Go on and print each decision as it is made, until interrupted
    #[arg(short, long, conflicts_with = "verify")]
    follow: bool,
    /// Check that no line was changed, removed or added
    #[arg(long)]
    verify: bool,
    /// Print the journal's lines as they are: JSON, one on a line
    #[arg(long)]
    json: bool,
}

/// A journal that was checked, for programs. One that was changed is an error.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verified {
    /// The run, as WORKFLOW/RUN.
    run: String,
    entries: u64,
    intact: bool,
    /// How many lines `prune` has removed before these.
    pruned: u64,
    /// The acts that are signed, each in a sentence that says whose signature it is.
    signatures: Vec<String>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    let run = shown_run(&gate, options.run.as_deref())?;
    if options.verify {
        let count = verify(&gate.journal(&run)?, &run.ledger)
            .map_err(|problem| Failed::new(format!("the journal of {}: {problem}", run.id)))?;
        if let Some(change) = gate.contradiction(&run) {
            return Err(Failed::new(format!("run {}: {change}", run.id)));
        }
        let signatures = gate.signatures(&run)?;
        let is_bad = |it: &&Checked| matches!(it.holds, Holds::No(_) | Holds::Unknown(_));
        if let Some(bad) = signatures.iter().find(is_bad) {
            return Err(Failed::new(format!("the journal of {}: {}", run.id, bad.sentence())));
        }
        let signatures: Vec<String> = signatures.iter().map(Checked::sentence).collect();
        let pruned = run.ledger.position.pruned.filter(|pruned| pruned.lines > 0);
        if options.json {
            let (entries, pruned) = (count, pruned.map_or(0, |pruned| pruned.lines));
            let run = run.id.to_string();
            print::json(&Verified { run, entries, intact: true, pruned, signatures });
            return Ok(ExitCode::SUCCESS);
        }
        let before = pruned.map(pruned_before).unwrap_or_default();
        print::line(&format!("{}: {count} entries, chain intact{before}", run.id));
        for signature in &signatures {
            print::row(&format!("  {signature}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let lines = match options.last {
        None => gate.journal(&run)?,
        Some(last) => {
            let lines = gate.journal_backwards(&run).take(last);
            let mut lines = lines.collect::<Result<Vec<String>, _>>()?;
            lines.reverse();
            lines
        }
    };
    let width = print_lines(&lines, options.json, 15);
    if options.follow {
        follow(project, &run, options.json, width)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// That lines were removed before the first one.
fn pruned_before(pruned: Pruned) -> String {
    format!("; {} before them were pruned at {}", pruned.lines, when::full(pruned.at))
}

/// Prints lines of a journal, and tells how wide the names of their events are.
fn print_lines(lines: &[String], as_json: bool, width: usize) -> usize {
    if as_json {
        for text in lines {
            print::line(text);
        }
        return width;
    }
    let read = |text: &String| match serde_json::from_str::<Line>(text) {
        Ok(line) => Some(line),
        Err(error) => {
            print::note(&format!("a line cannot be read: {error}"));
            None
        }
    };
    let shown: Vec<Line> = lines.iter().filter_map(read).collect();
    let width = shown.iter().map(|line| line.event.name.len()).max().unwrap_or(0).max(width);
    for line in &shown {
        show(line, width);
    }
    width
}

/// Prints what is added to a journal, as it is added.
fn follow(project: &Project, run: &Found, as_json: bool, width: usize) -> Result<(), Failed> {
    let (said, heard) = std::sync::mpsc::channel();
    let _watch = Runs::new(project).watch(&run.id, move || {
        let _ = said.send(());
    });
    let name = run.id.to_string();
    // As it was before its lines were printed: a line may be printed twice, none is left out.
    let mut seen = run.ledger.position.seq;
    loop {
        // A reader keeps what it has read; each look is a new one.
        let gate = Runs::new(project);
        let found = gate.run(&name)?;
        let new = found.ledger.position.seq.saturating_sub(seen);
        let lines = gate.journal_backwards(&found).take(usize::try_from(new).unwrap_or(usize::MAX));
        let mut lines = lines.collect::<Result<Vec<String>, _>>()?;
        lines.reverse();
        print_lines(&lines, as_json, width);
        seen += new;
        let _ = heard.recv_timeout(POLL);
    }
}

/// What was answered, for people. A fact asks for no answer, so that its acceptance says nothing.
fn answer(line: &Line) -> String {
    match &line.answer {
        Answer::Allow { outcome: None, .. } if line.event.actor == Actor::Engine => "-".into(),
        Answer::Allow { outcome: None, .. } if !line.event.is_question() => "accepted".into(),
        Answer::Deny { .. } => "refused".into(),
        other => other.to_string(),
    }
}

fn show(line: &Line, width: usize) {
    let at = when::full(line.at);
    let inner: Vec<&str> = line.moves.iter().map(|step| step.to.as_str()).collect();
    let way = if let (Some(first), true) = (line.moves.first(), line.from == line.to) {
        // Where only an element has moved, that is what has happened.
        format!("{} → {}", first.from, inner.join(" → "))
    } else if line.from == line.to || line.from.is_empty() {
        line.to.clone()
    } else {
        format!("{} → {}", line.from, line.to)
    };
    // What an event is about, where its answer says nothing.
    let text = |name: &&str| line.event.params.get(name)?.as_str();
    let about = ["reason", "verdict", "check", "review", "end", "message"].iter().find_map(text);
    let job: Vec<&str> = ["kind", "name"].iter().filter_map(text).collect();
    let said = line.answer.text().or(about);
    let first = said.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut first: String = first.chars().take(100).collect();
    if !line.event.is_question() {
        let agent = line.event.agent.as_deref().map(|agent| format!(" {agent}"));
        let agent = agent.unwrap_or_default();
        let job = if line.event.actor == Actor::Engine { job.join(" ") } else { String::new() };
        let signed = line.event.signed.as_ref().map(|signed| format!(", {signed}"));
        let by = format!("by {}{agent}{}", line.event.actor, signed.unwrap_or_default());
        first = format!("{} {first}", if job.is_empty() { by } else { job });
    }
    let colour = match &line.answer {
        // A fact that was noted, and an action that was accepted, are nothing to look at.
        Answer::Allow { outcome: None, .. } => Paint::Dim,
        other => Paint::of(other),
    };
    let answer = paint(colour, &format!("{:<24}", answer(line)));
    let way = paint(Paint::PHASE, &format!("{way:<28}"));
    let at = paint(Paint::Dim, &at);
    let row = format!("{:>4}  {at}  {:<width$} {answer} {way} {first}", line.seq, line.event.name);
    print::wrapped_row(&row, 27);
    for note in &line.notes {
        print::wrapped_row(&format!("      note: {note}"), 12);
    }
}
