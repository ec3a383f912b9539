//! How a run stands.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a run stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The condition that a word stands for.
    pub fn of_word(word: &str) -> Option<Condition> {
        let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word);
        Condition::deserialize(deserializer).ok()
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

/// Where a run is in a list of many: what somebody should look at first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    #[serde(rename = "needs you")]
    NeedsYou,
    Stuck,
    Broken,
    Working,
    Waiting,
    Ended,
}

impl Group {
    /// All of them, in their order.
    pub const ALL: [Group; 6] = [
        Group::NeedsYou,
        Group::Stuck,
        Group::Broken,
        Group::Working,
        Group::Waiting,
        Group::Ended,
    ];

    /// The group of a run, by its condition and by how it stands in [words](crate::words::standing).
    pub fn of(condition: Condition, standing: &str) -> Group {
        match condition {
            Condition::Stuck | Condition::Capped | Condition::Budget => Group::Stuck,
            Condition::Broken => Group::Broken,
            over if over.is_over() => Group::Ended,
            _ if standing.starts_with("needs you") => Group::NeedsYou,
            Condition::Working => Group::Working,
            _ => Group::Waiting,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Group::NeedsYou => "needs you",
            Group::Stuck => "stuck",
            Group::Broken => "broken",
            Group::Working => "working",
            Group::Waiting => "waiting",
            Group::Ended => "ended",
        })
    }
}
