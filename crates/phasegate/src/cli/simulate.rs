//! `phasegate simulate`: a run that nobody makes, step by step. The moves, the evidence and the decisions are those of
//! `verify`; the person, or a script on stdin, chooses.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::answer::Answer;
use phasegate_engine::case::Cases;
use phasegate_engine::draw::{Format, draw};
use phasegate_engine::model::{Model, Move, Situation, Taken, Who, case_text};
use phasegate_engine::step::Step;
use phasegate_runtime::catalog::Entry;
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config as LineConfig, Editor};

use super::verify::save;
use super::{Failed, Outcome, complete, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// A workflow or a definition file
    #[arg(add = complete::workflows())]
    name: String,
}

const HELP: &str = "\
NUMBER       make that move
undo         take the last one back
moves        list the moves again
draw         draw the workflow, with the phase
state        show the document and the evidence
case         print the last decision as a case
save [NAME]  save it beside the workflow's other cases
quit         end this; so does Ctrl-D";

pub fn run(project: &Project, options: &Options) -> Outcome {
    let entry = lint::named(project, &options.name)?;
    // As it is written, as cases are run.
    let workflow = entry.load(&Config::default())?;
    let model = Model::new(&workflow, &Cases::of(&entry.bundle()?));
    let mut lines = Lines::new()?;
    let starts = model.starts();
    let Some(start) = choose(&mut lines, "How does it begin?", &starts, |(name, situation)| {
        let text = situation.document.to_text(None);
        format!("{name}: {}", short(text.trim_end()))
    })?
    else {
        return Err(Failed("no run of it could be begun".into()));
    };
    let mut session = Session { model: &model, entry: &entry, past: vec![(start.1.clone(), None)] };
    session.list();
    while let Some(line) = lines.next(&session.prompt())? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["quit" | "exit"] => break,
            ["help"] => print::line(HELP),
            ["undo"] if session.past.len() > 1 => {
                session.past.pop();
                session.list();
            }
            ["undo"] => print::note("nothing was done yet"),
            ["moves"] => session.list(),
            ["draw"] => {
                let phase = model.phase(session.here());
                print::out(&draw(&workflow, Format::Text, Some(&phase)));
            }
            ["state"] => session.state(),
            ["case"] => match session.case("what it is about") {
                Some(case) => print::out(&case),
                None => print::note("nothing was decided yet"),
            },
            ["save", name @ ..] => session.save(&name.join("-"))?,
            [number] if number.parse::<usize>().is_ok() => {
                let number: usize = number.parse().unwrap_or_default();
                match session.moves().into_iter().nth(number.wrapping_sub(1)) {
                    Some(step) => session.make(&step, &mut lines)?,
                    None => print::note(&format!("there is no move {number}")),
                }
            }
            _ => print::note(&format!("{line:?} is not a move; `help` lists what can be said")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Session<'m> {
    model: &'m Model<'m>,
    entry: &'m Entry,
    /// The situations so far, each with what has led to it.
    past: Vec<(Situation, Option<Box<Taken>>)>,
}

impl Session<'_> {
    fn here(&self) -> &Situation {
        &self.past[self.past.len() - 1].0
    }

    fn prompt(&self) -> String {
        let over = if self.here().over { " (over)" } else { "" };
        format!("{}{over}> ", self.model.phase(self.here()))
    }

    /// What may happen now: events first, then what can be changed of what they look up.
    fn moves(&self) -> Vec<Move> {
        let here = self.here();
        let mut moves = self.model.events(here);
        let mut queries: Vec<String> = Vec::new();
        moves.retain(|step| {
            let Move::Event(event) = step else { return true };
            let decided = self.model.decide(here, event);
            queries.extend(decided.readings.iter().map(|it| it.query.clone()));
            !(decided.unheard && step.is_action())
        });
        queries.sort();
        queries.dedup();
        moves.extend(self.model.changes(here, &queries));
        moves
    }

    fn list(&self) {
        for (index, step) in self.moves().iter().enumerate() {
            let who = match step.who() {
                Who::Agent => "agent",
                Who::Person => "person",
                Who::Outside => "outside",
            };
            let who = paint(Paint::Dim, &format!("{who:<8}"));
            print::row(&format!("  {:>3}  {who} {}", index + 1, short(&step.to_string())));
        }
    }

    fn make(&mut self, step: &Move, lines: &mut Lines) -> Result<(), Failed> {
        let ways = self.model.take(self.here(), step);
        let asked = "What do the jobs say that it waits for?";
        let Some(taken) = choose(lines, asked, &ways, |way| way.jobs.join(", "))? else {
            return Ok(());
        };
        print::row(&format!("{} {step}", paint(Paint::Bold, "»")));
        if let Some(decided) = taken.step() {
            tell(decided);
        }
        self.past.push((taken.after.clone(), Some(Box::new(taken.clone()))));
        self.list();
        Ok(())
    }

    fn state(&self) {
        let Situation { document, world, .. } = self.here();
        print::out(&document.to_text(Some("  ")));
        for (path, text) in &world.files {
            print::row(&format!("file {path}: {}", short(text.trim_end())));
        }
        for (name, ok) in &world.checks {
            print::row(&format!("check {name}: {}", if *ok { "passed" } else { "failed" }));
        }
        if let Some(message) = &world.message {
            print::row(&format!("last message: {}", short(message)));
        }
    }

    fn case(&self, name: &str) -> Option<String> {
        let taken = self.past.iter().rev().find_map(|(_, taken)| taken.as_ref()?.decided.as_ref());
        let (before, event, step) = taken?;
        Some(case_text(name, &self.model.place(), before, event, step))
    }

    fn save(&self, name: &str) -> Result<(), Failed> {
        let name = if name.is_empty() { "simulated" } else { name };
        if name.contains(['/', '\\']) {
            return Err(Failed(format!("{name:?} is not the name of a file")));
        }
        match (self.case(name), self.entry.cases()) {
            (None, _) => print::note("nothing was decided yet"),
            (Some(case), Some(folder)) => {
                let path = save(&folder, name, &case)?;
                print::line(&format!("saved {}", path.display()));
            }
            // A built-in workflow has no folder here: the case goes where the person wants it.
            (Some(case), None) => print::out(&case),
        }
        Ok(())
    }
}

fn tell(step: &Step) {
    let by = step.trace.fired.last().map(|rule| format!(" by rule `{rule}`")).unwrap_or_default();
    print::row(&format!("  {}{by}", paint(Paint::Bold, &step.answer.to_string())));
    for line in step.answer.text().unwrap_or_default().lines().take(8) {
        print::line(&format!("    {line}"));
    }
    for moved in &step.moves {
        print::row(&format!("  {} {} → {} by `{}`", moved.of, moved.from, moved.to, moved.by));
    }
    if matches!(step.answer, Answer::Block { .. }) && step.moves.is_empty() {
        print::row(&format!("  stays in {}", step.to));
    }
    for property in &step.trace.violated {
        print::row(&format!("  {} property \"{property}\"", paint(Paint::Red, "violated:")));
    }
}

/// One of several; the only one without asking, none where there is none or nobody chooses.
fn choose<'t, T>(
    lines: &mut Lines,
    question: &str,
    items: &'t [T],
    shown: impl Fn(&T) -> String,
) -> Result<Option<&'t T>, Failed> {
    if items.len() < 2 {
        return Ok(items.first());
    }
    print::line(question);
    for (index, item) in items.iter().enumerate() {
        print::row(&format!("  {:>3}  {}", index + 1, shown(item)));
    }
    while let Some(line) = lines.next("which> ")? {
        match line.trim().parse::<usize>().ok().and_then(|it| items.get(it.wrapping_sub(1))) {
            Some(item) => return Ok(Some(item)),
            None => print::note(&format!("choose a number from 1 to {}", items.len())),
        }
    }
    Ok(None)
}

fn short(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// Lines of a person at a terminal, or of a script.
enum Lines {
    Terminal(Box<Editor<(), MemHistory>>),
    Script(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    fn new() -> Result<Lines, Failed> {
        if std::io::stdin().is_terminal() {
            let config = LineConfig::builder().auto_add_history(true).build();
            let editor = Editor::with_history(config, MemHistory::new())?;
            print::line("`help` lists what can be said, Ctrl-D quits.");
            return Ok(Lines::Terminal(Box::new(editor)));
        }
        Ok(Lines::Script(std::io::stdin().lock().lines()))
    }

    fn next(&mut self, prompt: &str) -> Result<Option<String>, Failed> {
        match self {
            Lines::Terminal(editor) => loop {
                match editor.readline(prompt) {
                    Ok(line) => return Ok(Some(line)),
                    Err(ReadlineError::Interrupted) => print::line("(Ctrl-D ends.)"),
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(error) => return Err(Failed(error.to_string())),
                }
            },
            Lines::Script(lines) => {
                let line = lines.next().transpose()?;
                // A script's output reads as what a person would have seen.
                if let Some(line) = &line {
                    print::line(&format!("{prompt}{line}"));
                }
                Ok(line)
            }
        }
    }
}
