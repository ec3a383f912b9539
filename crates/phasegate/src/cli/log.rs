//! `phasegate log`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::answer::Answer;
use phasegate_engine::step::Actor;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::journal::{Line, verify};
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, chosen_run, when};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the only one
    run: Option<String>,
    /// Show only the last N decisions
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Check that no line was changed, removed or added
    #[arg(long)]
    verify: bool,
    /// Print the journal's lines as they are: JSON, one on a line
    #[arg(long)]
    json: bool,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    let run = chosen_run(&gate, options.run.as_deref())?;
    if options.verify {
        let count = verify(&gate.journal(&run)?, &run.ledger)
            .map_err(|problem| Failed(format!("the journal of {}: {problem}", run.id)))?;
        print::line(&format!("{}: {count} entries, chain intact", run.id));
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
    if options.json {
        for text in &lines {
            print::line(text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let read = |text: &String| match serde_json::from_str::<Line>(text) {
        Ok(line) => Some(line),
        Err(error) => {
            print::note(&format!("a line cannot be read: {error}"));
            None
        }
    };
    let shown: Vec<Line> = lines.iter().filter_map(read).collect();
    let width = shown.iter().map(|line| line.event.name.len()).max().unwrap_or(0);
    for line in &shown {
        show(line, width.max(15));
    }
    Ok(ExitCode::SUCCESS)
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
        let by = format!("by {}{agent}", line.event.actor);
        first = format!("{} {first}", if job.is_empty() { by } else { job });
    }
    let answer = paint(Paint::Bold, &format!("{:<24}", answer(line)));
    print::row(&format!(
        "{:>4}  {}  {:<width$} {answer} {way:<28} {first}",
        line.seq,
        paint(Paint::Dim, &at),
        line.event.name
    ));
    for note in &line.notes {
        print::row(&format!("      note: {note}"));
    }
}
