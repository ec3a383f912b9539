//! How a command ends: what it failed with, and the codes that the program exits with.

use std::any::Any;
use std::process::ExitCode;

use phasegate_engine::answer::Outcome as Answered;
use phasegate_runtime::caller::PeopleOnly;
use phasegate_runtime::catalog::LoadError;
use phasegate_runtime::gate::GateError;
use phasegate_runtime::store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

/// What a command failed with: a sentence for the user, and what programs tell it by. A line that begins with
/// `hint: ` says what to do.
pub struct Failed {
    pub message: String,
    pub code: Code,
}

impl Failed {
    /// A failure that programs need not tell from others.
    pub fn new(message: String) -> Failed {
        Failed::of(Code::Failed, message)
    }

    pub fn of(code: Code, message: String) -> Failed {
        Failed { message, code }
    }
}

impl<E: std::fmt::Display + 'static> From<E> for Failed {
    fn from(error: E) -> Failed {
        let known: &dyn Any = &error;
        let code = if let Some(error) = known.downcast_ref::<GateError>() {
            Code::of(error)
        } else if known.is::<LoadError>() {
            Code::InvalidDefinition
        } else if known.is::<PeopleOnly>() {
            Code::NotPermitted
        } else {
            Code::Failed
        };
        Failed { message: error.to_string(), code }
    }
}

pub type Outcome = Result<ExitCode, Failed>;

/// The codes that the program exits with, for all commands. The hook alone has codes of its own: its client
/// would take 2 for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Waiting = 3,
    Stuck = 4,
    Capped = 5,
    Budget = 6,
    Aborted = 7,
    Inactive = 8,
    Fault = 9,
    AgentFailed = 10,
}

impl Exit {
    /// Every code with its name and what it means.
    pub const TABLE: [(Exit, &'static str, &'static str); 11] = [
        (Exit::Done, "done", "it worked; of `drive`: the run is done"),
        (Exit::Failed, "failed", "it did not work, was refused, or found a mistake"),
        (
            Exit::Usage,
            "usage",
            "the command line cannot be understood; of `verify`: not all was explored",
        ),
        (Exit::Waiting, "waiting", "`drive`: the run waits for a person or something outside"),
        (Exit::Stuck, "stuck", "`drive`: the agent repeats itself"),
        (Exit::Capped, "capped", "`drive`: a limit on blocks was reached"),
        (Exit::Budget, "budget", "`drive`: a limit on turns, time or money was reached"),
        (Exit::Aborted, "aborted", "`drive`: the run was given up"),
        (Exit::Inactive, "inactive", "`drive`: there is nothing to do"),
        (Exit::Fault, "fault", "`drive`: something is wrong in Phasegate or in the definition"),
        (Exit::AgentFailed, "agent-failed", "`drive`: the agent failed"),
    ];

    /// The code of what the gate said in the end.
    pub fn of(outcome: Option<Answered>) -> Exit {
        match outcome {
            Some(Answered::Done) => Exit::Done,
            Some(Answered::Waiting) => Exit::Waiting,
            Some(Answered::Stuck) => Exit::Stuck,
            Some(Answered::Capped) => Exit::Capped,
            Some(Answered::Budget) => Exit::Budget,
            Some(Answered::Aborted) => Exit::Aborted,
            Some(Answered::Inactive) | None => Exit::Inactive,
            Some(Answered::Fault) => Exit::Fault,
        }
    }

    /// The name of the code.
    pub fn name(self) -> &'static str {
        Exit::TABLE[usize::from(self as u8)].1
    }

    /// The table as it is printed.
    pub fn shown() -> String {
        let rows = Exit::TABLE
            .map(|(exit, name, about)| format!("  {:>2}  {name:<13} {about}\n", exit as u8));
        format!("Exit codes:\n{}", rows.concat())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What kind of failure it is, for programs: finer than the exit code, and as steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Failed,
    Usage,
    NoSuchRun,
    NoSuchWorkflow,
    InvalidDefinition,
    InvalidDocument,
    NotPermitted,
    NotReady,
    Over,
    Exists,
    Locked,
    Fault,
}

impl Code {
    /// Every code with its name and what it means.
    pub const TABLE: [(Code, &'static str, &'static str); 12] = [
        (Code::Failed, "failed", "it did not work, and none of the following says why"),
        (Code::Usage, "usage", "the command line cannot be understood"),
        (Code::NoSuchRun, "no-such-run", "there is no such run, or more than one fits the name"),
        (Code::NoSuchWorkflow, "no-such-workflow", "there is no workflow of that name"),
        (
            Code::InvalidDefinition,
            "invalid-definition",
            "a workflow cannot be read, or has mistakes",
        ),
        (
            Code::InvalidDocument,
            "invalid-document",
            "the state document of the run is gone or cannot be read",
        ),
        (Code::NotPermitted, "not-permitted", "it is for people, or for another role"),
        (
            Code::NotReady,
            "not-ready",
            "somebody has to do something first: consent, or take the run over",
        ),
        (Code::Over, "over", "the run is over"),
        (Code::Exists, "exists", "what was to be made is there already"),
        (Code::Locked, "locked", "another process has the run; try again"),
        (Code::Fault, "fault", "a guard or a text of the workflow failed"),
    ];

    /// The name by which programs know it.
    pub fn name(self) -> &'static str {
        let known = Code::TABLE.iter().find(|(code, ..)| *code == self);
        known.map_or("failed", |(_, name, _)| name)
    }

    fn of(error: &GateError) -> Code {
        match error {
            GateError::UnknownRun(_) => Code::NoSuchRun,
            GateError::UnknownWorkflow(_) => Code::NoSuchWorkflow,
            GateError::Workflow(..) => Code::InvalidDefinition,
            GateError::Gone(..) | GateError::Unreadable(_) => Code::InvalidDocument,
            GateError::NotPermitted(_) => Code::NotPermitted,
            GateError::NotReady(_) => Code::NotReady,
            GateError::Over => Code::Over,
            GateError::Exists(..) => Code::Exists,
            GateError::Store(StoreError::Busy(..) | StoreError::Conflict(_)) => Code::Locked,
            GateError::Fault(_) => Code::Fault,
            GateError::Store(_)
            | GateError::Effect(_)
            | GateError::Process(_)
            | GateError::Text(_)
            | GateError::Other(_) => Code::Failed,
        }
    }
}

/// What programs are told of a failure: the one form for all commands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failure {
    pub error: Problem,
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// A sentence for people.
    pub message: String,
    /// What kind of failure it is: `no-such-run`, `not-permitted`, …
    #[schemars(extend("enum" = Code::TABLE.map(|(_, name, _)| name)))]
    pub code: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure of which the message may end with hints.
    pub fn new(code: Code, message: &str) -> Failure {
        let is_hint = |line: &&str| line.starts_with(HINT);
        let hints: Vec<&str> =
            message.lines().filter(is_hint).map(|line| &line[HINT.len()..]).collect();
        let rest: Vec<&str> = message.lines().filter(|line| !is_hint(line)).collect();
        let hint = (!hints.is_empty()).then(|| hints.join("\n"));
        let message = rest.join("\n").trim().to_string();
        Failure { error: Problem { message, code: code.name().into(), hint } }
    }
}

/// How a line begins that says what to do.
const HINT: &str = "hint: ";

#[cfg(test)]
mod tests {
    use super::{Code, Exit, Failure};

    #[test]
    fn the_table_has_every_code_at_its_place() {
        for (at, (exit, ..)) in Exit::TABLE.iter().enumerate() {
            assert_eq!(usize::from(*exit as u8), at);
        }
    }

    #[test]
    fn a_hint_is_told_apart_from_the_message() {
        let failure = Failure::new(Code::Failed, "there is no run\nhint: start one");
        assert_eq!(failure.error.message, "there is no run");
        assert_eq!(failure.error.hint.as_deref(), Some("start one"));
        assert_eq!(failure.error.code, "failed");
    }
}
