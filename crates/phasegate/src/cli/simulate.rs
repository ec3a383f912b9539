//! `phasegate simulate`: a run that nobody makes, step by step, from its beginning or from a line of a journal. The moves, the
//! evidence and the decisions are those of `verify`; the person, or a script on stdin, chooses.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::answer::Answer;
use phasegate_engine::case::Cases;
use phasegate_engine::draw::{Format, Walk, draw};
use phasegate_engine::events::EventKind;
use phasegate_engine::model::{
    Model, Move, Situation, Start, Taken, Tried, Who, case_text, together,
};
use phasegate_engine::step::{Event, Step};
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog::Entry;
use phasegate_runtime::config::Config;
use phasegate_runtime::gate::{Recorded, Runs};
use phasegate_runtime::project::Project;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config as LineConfig, Editor};

use super::verify::save;
use super::{Failed, Outcome, complete, lint};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// A workflow, a definition file, or RUN@LINE: a line of a run's journal, with its evidence
    #[arg(add = complete::workflows())]
    name: String,
}

const HELP: &str = "\
NUMBER       make that move; so does its text
write FILE: TEXT, remove FILE, say TEXT, set state.FIELD = JSON, change the tree
             change a fact
undo         take the last one back
moves        list the moves again
draw         draw the workflow, with the phase
state        show the document and the evidence
case         print the last decision as a case
save [NAME]  save it beside the workflow's other cases
quit         end this; so does Ctrl-D";

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    if let Some((run, line)) = options.name.rsplit_once('@')
        && let Ok(line) = line.parse::<u64>()
    {
        let found = gate.run(run)?;
        let recorded = gate.scene_of(&found, line)?;
        let entry = lint::named(project, &found.id.workflow)?;
        return go(&recorded.workflow, &entry, Some(&recorded));
    }
    let entry = lint::named(project, &options.name)?;
    // As it is written, as cases are run.
    let workflow = entry.load(&Config::default())?;
    go(&workflow, &entry, None)
}

fn go(workflow: &Workflow, entry: &Entry, recorded: Option<&Recorded>) -> Outcome {
    let model = Model::new(workflow, &Cases::of(&entry.bundle()?));
    let mut lines = Lines::new()?;
    let mut session = Session { model: &model, entry, event: None, past: Vec::new() };
    if let Some(recorded) = recorded {
        let (situation, event) = model.recorded(&recorded.scene, &recorded.document);
        session.event = Some(event.clone());
        session.past.push((situation, None));
        print::line(&format!("Line {}, {event}, was answered: {}", recorded.line, recorded.answer));
        session.make(&event, &mut lines)?;
        session.past.truncate(2);
    } else {
        let starts = model.starts();
        let Some(start) = choose(
            &mut lines,
            "How does it begin?",
            &starts,
            |Start { name, situation, .. }| {
                let text = situation.document.to_text(None);
                format!("{name}: {}", short(text.trim_end()))
            },
        )?
        else {
            return Err(Failed::new("no run of it could begin".into()));
        };
        session.past.push((start.situation.clone(), None));
        session.list();
    }
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
                print::out(&draw(workflow, Format::Text, Some(&Walk::at(&phase))));
            }
            ["state"] => session.state(),
            ["case"] => match session.case("what it is about") {
                Some(case) => print::out(&case),
                None => print::note("nothing was decided yet"),
            },
            ["save", name @ ..] => session.save(&name.join("-"))?,
            _ => match session.meant(line.trim()) {
                Ok(step) => session.make(&step, &mut lines)?,
                Err(why) => print::note(&why),
            },
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Session<'m> {
    model: &'m Model<'m>,
    entry: &'m Entry,
    /// The event of the line that it began with.
    event: Option<Move>,
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
        let is_listed = |event: &Move| moves.iter().any(|it| it.to_string() == event.to_string());
        if let Some(event) = self.event.as_ref().filter(|event| !is_listed(event)) {
            moves.insert(0, event.clone());
        }
        let mut queries: Vec<String> = Vec::new();
        let mut decide = |event: &Event| {
            let decided = self.model.decide(here, event);
            queries.extend(decided.readings.iter().map(|it| it.query.clone()));
            let is_heard = !decided.unheard || event.kind() != EventKind::Action;
            (is_heard, is_heard && !matches!(decided.answer, Answer::Deny { .. }))
        };
        let mut tried: Vec<Tried> = Vec::new();
        for step in moves {
            let Move::Event(event) = &step else { continue };
            if let (true, accepted) = decide(event) {
                tried.push((step, accepted));
            }
        }
        let mut more = Vec::new();
        together(&tried, |event| {
            let accepted = decide(&event).1;
            more.push(Move::Event(event));
            accepted
        });
        let mut moves: Vec<Move> = tried.into_iter().map(|(step, _)| step).chain(more).collect();
        queries.sort();
        queries.dedup();
        moves.extend(self.model.changes(here, &queries));
        moves
    }

    /// The move that was typed: by its number, by its text, or a change of a fact.
    fn meant(&self, typed: &str) -> Result<Move, String> {
        let mut moves = self.moves().into_iter();
        if let Ok(number) = typed.parse::<usize>() {
            let meant = moves.nth(number.wrapping_sub(1));
            return meant.ok_or_else(|| format!("there is no move {number}"));
        }
        let listed = moves.find(|step| step.typed() == typed || step.to_string() == typed);
        listed
            .or_else(|| Move::parse(typed))
            .ok_or_else(|| format!("{typed:?} is not a move; `help` lists the commands"))
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
        let asked = "What do the jobs report that it waits for?";
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
        for (name, result) in &world.checks {
            let word = if result.ok { "passed" } else { "failed" };
            print::row(&format!("check {name}: {word}"));
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
            return Err(Failed::new(format!("{name:?} is not the name of a file")));
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
        let number = line.trim().parse::<usize>().ok();
        let named = || items.iter().find(|item| shown(item) == line.trim());
        match number.and_then(|it| items.get(it.wrapping_sub(1))).or_else(named) {
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
            print::line("`help` lists the commands, Ctrl-D quits.");
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
                    Err(error) => return Err(Failed::new(error.to_string())),
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
