//! `phasegate why`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::answer::Outcome as Answered;
use phasegate_engine::step::Tried;
use phasegate_runtime::gate::{Found, Runs};
use phasegate_runtime::journal::Line;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, complete, shown_run, when};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; by default the one that decided last
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// Show what a stop would be answered now, and what would open the gate; nothing is written or started
    #[arg(long)]
    now: bool,
    /// Show the `always` rules that did not hold, too
    #[arg(long)]
    all: bool,
    /// Print the journal's line as JSON
    #[arg(long)]
    json: bool,
}

/// A decision, for programs: the journal's line.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown<'l> {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// `seq`, `at`, `event`, `from`, `to`, `answer`, `trace`, `evidence`, `notes` and more.
    #[serde(flatten)]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    line: &'l Line,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    let run = shown_run(&gate, options.run.as_deref())?;
    if options.now {
        return now(&gate, &run, options);
    }
    // From the end, and no further than to what is said: a journal may be years old.
    let read = || gate.journal_backwards(&run).filter_map(Result::ok);
    let lines = || read().filter_map(|line| serde_json::from_str::<Line>(&line).ok());
    let Some(last) = &lines().next() else {
        return Err(Failed::new(format!("run {} has not decided anything yet", run.id)));
    };
    // The last line may be about a stop that no rule was asked about; what the agent was told, and
    // why, is the decision before it.
    let decided = lines().find(|line| !line.trace.tried.is_empty());
    let line = decided.as_ref().unwrap_or(last);
    if options.json {
        print::json(&Shown { run: run.id.to_string(), line });
        return Ok(ExitCode::SUCCESS);
    }
    if line.seq != last.seq || last.trace.tried.is_empty() {
        let what = paint(Paint::of(&last.answer), &last.answer.to_string());
        print::row(&format!(
            "{}: last event {}: {what} ({})",
            run.id,
            last.event.name,
            when::ago(last.at)
        ));
        if let Some(signed) = &last.event.signed {
            print::row(&format!("  {signed}"));
        }
        for text in last.notes.iter().map(String::as_str).chain(last.answer.text()) {
            indented(text);
        }
        if decided.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        print::line("\nThe last decision before it:\n");
    } else if last.answer.outcome() == Some(Answered::Stuck) {
        let block = lines().find(|line| line.answer.is_block());
        if let Some(reason) = block.as_ref().and_then(|block| block.answer.text()) {
            print::line("What the agent was told and did not do:\n");
            indented(reason);
            print::line("");
        }
    }
    decision(&run.id.to_string(), line, options.all);
    Ok(ExitCode::SUCCESS)
}

/// Prints a decision: its answer, the rules behind it, and what was looked up.
fn decision(run: &str, line: &Line, all: bool) {
    let way = if line.from == line.to {
        line.to.clone()
    } else {
        format!("{} → {}", line.from, line.to)
    };
    let answer = paint(Paint::of(&line.answer), &line.answer.to_string());
    print::row(&format!(
        "{}: {} in phase {way}: {answer} ({})",
        run,
        line.event.name,
        when::ago(line.at)
    ));
    if let Some(signed) = &line.event.signed {
        print::row(&format!("  {signed}"));
    }
    if let Some(text) = line.answer.text() {
        print::line("");
        indented(text);
    }
    print::line(&format!(
        "\n{}",
        paint(Paint::Bold, "Rules, in the order in which they were tried")
    ));
    // Rules without an event run many times and mostly say no; what they changed is listed below.
    let shown = |tried: &&Tried| all || tried.held || !tried.is_always();
    for tried in line.trace.tried.iter().filter(shown) {
        rule(tried);
    }
    if line.trace.more > 0 {
        print::line(&format!("  and {} more", line.trace.more));
    }
    for property in &line.trace.violated {
        print::row(&format!("  {} property \"{property}\"", paint(Paint::Red, "violated:")));
    }
    for step in &line.moves {
        let (from, to) = (paint(Paint::PHASE, &step.from), paint(Paint::PHASE, &step.to));
        print::wrapped_row(&format!("  moved: {} {from} → {to} by rule {}", step.of, step.by), 4);
    }
    if !line.evidence.is_empty() {
        print::line(&format!("\n{}", paint(Paint::Bold, "Evidence")));
        for reading in &line.evidence {
            print::wrapped_row(&format!("  {}: {}", reading.query, reading.answer), 4);
        }
    }
    for note in &line.notes {
        print::line("");
        print::wrapped_row(&format!("note: {note}"), 6);
    }
}

/// What a stop would be answered now.
fn now(gate: &Runs, run: &Found, options: &Options) -> Outcome {
    let now = gate.now(run)?;
    if options.json {
        print::json(&now.to_json(&run.id));
        return Ok(ExitCode::SUCCESS);
    }
    let answer = match &now.waits_for {
        Some(job) => format!("{job} would run first"),
        None => paint(Paint::Bold, &now.answer.to_string()),
    };
    print::row(&format!("{}: a stop now: {answer}", run.id));
    if let (Some(text), None) = (now.answer.text(), &now.waits_for) {
        print::line("");
        indented(text);
    }
    if now.is_stuck {
        print::line(
            "\nNothing has changed since the agent was told to go on: a stop that follows is let go as stuck.",
        );
    }
    if let Some(step) = now.step.as_ref().filter(|_| options.all) {
        print::line(&format!("\n{}", paint(Paint::Bold, "Rules, in the order of trying")));
        step.trace.tried.iter().for_each(rule);
    }
    let about = now.about_ways();
    if now.ways.found.is_empty() {
        if now.answer.is_block() || now.waits_for.is_some() {
            print::line("");
            print::wrapped(&about, 2);
        }
        return Ok(ExitCode::SUCCESS);
    }
    print::line(&format!("\n{}", paint(Paint::Bold, &about)));
    for (number, way) in now.ways.found.iter().enumerate() {
        let by = if way.by_agent() { "" } else { "  (not by the agent alone)" };
        print::row(&format!("  {}. {}{by}", number + 1, way.answer));
        for fact in &way.facts {
            print::row(&format!("     {}", fact.text));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn indented(text: &str) {
    for line in text.lines() {
        print::wrapped(&format!("  {line}"), 2);
    }
}

fn rule(tried: &Tried) {
    let mark =
        |held: bool| if held { paint(Paint::Green, "yes") } else { paint(Paint::Dim, "no ") };
    let element = tried.element.as_ref().map(|element| format!(" ({element})")).unwrap_or_default();
    let line = paint(Paint::Dim, &format!("line {}", tried.line));
    print::row(&format!("  {} {}{element}  {line}", mark(tried.held), tried.rule));
    for part in &tried.parts {
        let reads: Vec<String> =
            part.reads.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let reads =
            if reads.is_empty() { String::new() } else { format!("   with {}", reads.join(", ")) };
        let reads = paint(Paint::Dim, &reads);
        print::wrapped_row(&format!("        {} {}{reads}", mark(part.held), part.text), 12);
    }
}
