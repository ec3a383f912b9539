//! How a command ends: what it failed with, and the codes that the program exits with.

use std::process::ExitCode;

use phasegate_engine::answer::Outcome as Answered;
use schemars::JsonSchema;
use serde::Serialize;

/// What a command failed with: a sentence for the user. A line that begins with `hint: ` says what to do.
pub struct Failed(pub String);

impl<E: std::fmt::Display> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed(error.to_string())
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
            "the command line cannot be understood; of `verify`: nothing found, not all seen",
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
    /// The name of the exit code.
    pub code: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure of which the message may end with hints.
    pub fn new(exit: Exit, message: &str) -> Failure {
        let is_hint = |line: &&str| line.starts_with(HINT);
        let hints: Vec<&str> =
            message.lines().filter(is_hint).map(|line| &line[HINT.len()..]).collect();
        let rest: Vec<&str> = message.lines().filter(|line| !is_hint(line)).collect();
        let hint = (!hints.is_empty()).then(|| hints.join("\n"));
        let message = rest.join("\n").trim().to_string();
        Failure { error: Problem { message, code: exit.name().into(), hint } }
    }
}

/// How a line begins that says what to do.
const HINT: &str = "hint: ";

#[cfg(test)]
mod tests {
    use super::{Exit, Failure};

    #[test]
    fn the_table_has_every_code_at_its_place() {
        for (at, (exit, ..)) in Exit::TABLE.iter().enumerate() {
            assert_eq!(usize::from(*exit as u8), at);
        }
    }

    #[test]
    fn a_hint_is_told_apart_from_the_message() {
        let failure = Failure::new(Exit::Failed, "there is no run\nhint: start one");
        assert_eq!(failure.error.message, "there is no run");
        assert_eq!(failure.error.hint.as_deref(), Some("start one"));
        assert_eq!(failure.error.code, "failed");
    }
}
