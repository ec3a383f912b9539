//! Who does what in a random sequence of events: for each workflow an agent that mostly makes progress,
//! sometimes does not, and now and then does what it should not.

mod loops;
mod phases;
mod plan;
mod task;
mod triage;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace, Who};

pub use self::at_work::{AT_WORK, at_work};

mod at_work;

/// The cast for a workflow.
pub enum Role {
    Triage,
    Loop,
    Plan,
    Task,
    Phases,
}

impl Role {
    pub fn all() -> [Role; 5] {
        [Role::Triage, Role::Loop, Role::Plan, Role::Task, Role::Phases]
    }

    /// The cast for a built-in workflow, every one of which has one.
    pub fn of(name: &str) -> Role {
        let found = Role::all().into_iter().find(|role| role.name() == name);
        found.unwrap_or_else(|| panic!("nobody plays {name}"))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Role::Triage => "triage",
            Role::Loop => "loop",
            Role::Plan => "plan",
            Role::Task => "task",
            Role::Phases => "phases",
        }
    }

    /// The phases in which a project is kept as 0.1.0 left it.
    pub fn phases(&self) -> &'static [&'static str] {
        match self {
            Role::Triage => &triage::PHASES,
            Role::Loop => &loops::PHASES,
            Role::Plan => &plan::PHASES,
            Role::Task => &task::PHASES,
            Role::Phases => &phases::PHASES,
        }
    }

    /// The project in which it all begins.
    pub fn opening(&self, dice: &mut Dice) -> Trace {
        match self {
            Role::Triage => triage::opening(),
            Role::Loop => loops::opening(),
            Role::Plan => plan::opening(),
            Role::Task => task::opening(dice),
            Role::Phases => phases::opening(),
        }
    }

    /// What happens first.
    pub fn begin(&self) -> Vec<Op> {
        match self {
            Role::Triage => triage::begin(),
            Role::Loop => loops::begin(),
            Role::Plan => plan::begin(),
            Role::Task => task::begin(),
            Role::Phases => phases::begin(),
        }
    }

    /// What happens next, at least one thing.
    pub fn next(&self, dice: &mut Dice, stage: &Stage) -> Vec<Op> {
        match self {
            Role::Triage => triage::next(dice, stage),
            Role::Loop => loops::next(dice, stage),
            Role::Plan => plan::next(dice, stage),
            Role::Task => task::next(dice, stage),
            Role::Phases => phases::next(dice, stage),
        }
    }

    /// The phase that the run is in.
    pub fn phase(&self, stage: &Stage) -> String {
        match self {
            Role::Phases => phases::status(stage),
            _ => stage.phase(),
        }
    }
}

fn write(path: impl Into<String>, text: impl Into<String>) -> Op {
    Op::Write { path: path.into(), text: text.into() }
}

fn set(path: &str, at: impl Into<String>, value: Value) -> Op {
    Op::Set { path: path.into(), at: at.into(), value }
}

fn agent(args: &[&str]) -> Op {
    Op::Run { who: Who::Agent, args: args.iter().map(|arg| (*arg).to_string()).collect() }
}

fn person(args: &[&str]) -> Op {
    Op::Run { who: Who::Person, args: args.iter().map(|arg| (*arg).to_string()).collect() }
}

/// A stop of the session that works on the run.
pub fn stop(again: bool) -> Op {
    says("Done.", again)
}

/// A person ends the run.
pub fn cancel() -> Op {
    person(&["cancel", "--reason", "enough"])
}

fn says(text: &str, again: bool) -> Op {
    let (session, says) = (Some("s1".into()), text.into());
    Op::Stop { session, again: Some(again), says, background: false }
}

/// A stop of anybody, in any situation.
fn any_stop(dice: &mut Dice) -> Op {
    let session = dice.one(&[Some("s1"), Some("s1"), Some("s1"), Some("s2"), None]);
    let again = *dice.one(&[Some(false), Some(true), Some(true), None]);
    let session = session.map(str::to_string);
    Op::Stop { session, again, says: "Done.".into(), background: dice.percent(8) }
}

/// What can happen to any run.
fn noise(dice: &mut Dice, run: &str, document: &str) -> Op {
    let event = *dice.one(&["session-start", "session-end", "user-prompt-submit", "subagent-stop"]);
    match dice.below(12) {
        0..5 => any_stop(dice),
        5 | 6 => Op::Sign { event: event.into(), session: (*dice.one(&["s1", "s2"])).into() },
        7 => agent(&["adopt", run]),
        8 => agent(&["release", run]),
        9 => person(&["adopt", run, "--session", "s1"]),
        10 if dice.percent(15) => person(&["cancel", run, "--reason", "enough"]),
        10 => set(document, "note", json!("kept")),
        _ if dice.percent(20) => write(document, "{ broken"),
        _ => any_stop(dice),
    }
}

/// The same sequence, for one thing at work: a hook or a command that is not waited for.
fn spawn(binary: &Path, stage: &Stage, args: &[&str]) -> std::process::Child {
    let mut command = Command::new(binary);
    command.args(args).current_dir(stage.root()).env_clear();
    command.env("HOME", stage.path("home")).env("PHASEGATE_TRUST_ALL", "1");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null()).spawn().unwrap()
}
