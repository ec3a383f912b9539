//! `phasegate why`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::step::Tried;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::journal::Line;
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, chosen_run, when};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the only one
    run: Option<String>,
    /// Show the `always` rules that did not hold, too
    #[arg(long)]
    all: bool,
    /// Print the journal's line as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Gate::new(project);
    let run = chosen_run(&gate, options.run.as_deref())?;
    let lines = gate.journal(&run)?;
    let Some(last) = lines.last() else {
        return Err(Failed(format!("run {} has decided nothing yet", run.id)));
    };
    let line: Line = serde_json::from_str(last)?;
    if options.json {
        print::json(&line);
        return Ok(ExitCode::SUCCESS);
    }
    let way = if line.from == line.to {
        line.to.clone()
    } else {
        format!("{} → {}", line.from, line.to)
    };
    let answer = paint(Paint::Bold, &line.answer.to_string());
    print::line(&format!(
        "{}: {} in phase {way}: {answer} ({})",
        run.id,
        line.event.name,
        when::ago(line.at)
    ));
    if let Some(text) = line.answer.text() {
        print::line("");
        for text in text.lines() {
            print::line(&format!("  {text}"));
        }
    }
    print::line(&format!(
        "\n{}",
        paint(Paint::Bold, "Rules, in the order in which they were tried")
    ));
    if line.trace.tried.is_empty() {
        print::line("  none: the stop was answered before any rule");
    }
    // Rules without an event run many times and mostly say no; what they changed is listed below.
    let shown = |tried: &&Tried| options.all || tried.held || !tried.rule.contains(" always ");
    for tried in line.trace.tried.iter().filter(shown) {
        rule(tried);
    }
    if line.trace.more > 0 {
        print::line(&format!("  and {} more", line.trace.more));
    }
    for step in &line.moves {
        print::line(&format!(
            "  moved: {} {} → {} by rule {}",
            step.of, step.from, step.to, step.by
        ));
    }
    if !line.evidence.is_empty() {
        print::line(&format!("\n{}", paint(Paint::Bold, "Evidence")));
        for reading in &line.evidence {
            print::line(&format!("  {}: {}", reading.query, reading.answer));
        }
    }
    for note in &line.notes {
        print::line(&format!("\nnote: {note}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn rule(tried: &Tried) {
    let mark =
        |held: bool| if held { paint(Paint::Green, "yes") } else { paint(Paint::Dim, "no ") };
    let element = tried.element.as_ref().map(|element| format!(" ({element})")).unwrap_or_default();
    let line = paint(Paint::Dim, &format!("line {}", tried.line));
    print::line(&format!("  {} {}{element}  {line}", mark(tried.held), tried.rule));
    for part in &tried.parts {
        let reads: Vec<String> =
            part.reads.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let reads =
            if reads.is_empty() { String::new() } else { format!("   with {}", reads.join(", ")) };
        print::line(&format!(
            "        {} {}{}",
            mark(part.held),
            part.text,
            paint(Paint::Dim, &reads)
        ));
    }
}
