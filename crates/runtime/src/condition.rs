//! How a run stands.

use std::fmt;

use serde::Serialize;

/// How a run stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The agent has something to do.
    Working,
    /// Something else must happen first.
    Waiting,
    /// A person has parked it: it holds nobody.
    Paused,
    Stuck,
    Capped,
    Budget,
    /// It has come to its end, by its rules.
    Done,
    /// It is over, and not by its rules or not well.
    Ended,
    Cancelled,
    /// It cannot be decided about.
    Broken,
}

impl Condition {
    /// Whether the run has nothing more to say.
    pub fn is_over(self) -> bool {
        matches!(self, Condition::Done | Condition::Ended | Condition::Cancelled)
    }

    /// Whether a person should look at it.
    pub fn is_trouble(self) -> bool {
        use Condition::{Broken, Budget, Capped, Stuck};
        matches!(self, Broken | Budget | Capped | Stuck)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Condition::Working => "working",
            Condition::Waiting => "waiting",
            Condition::Paused => "paused",
            Condition::Stuck => "stuck",
            Condition::Capped => "capped",
            Condition::Budget => "budget",
            Condition::Done => "done",
            Condition::Ended => "ended",
            Condition::Cancelled => "cancelled",
            Condition::Broken => "broken",
        })
    }
}
