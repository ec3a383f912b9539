//! Our own bookkeeping of a run: what the state document does not say and must not be asked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::evidence::Reading;
use serde::{Deserialize, Serialize};

use crate::governor::Tally;

/// How many readings are remembered to tell whether something has changed.
const MOST_READINGS: usize = 256;

/// A run's ledger.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub schema: u32,
    pub run: String,
    /// The number of the last journal line, and its hash.
    pub seq: u64,
    #[serde(default)]
    pub head: String,
    pub started_at: Option<Timestamp>,
    /// The digest of the definition that last decided.
    pub definition: String,
    /// The session that the run belongs to.
    #[serde(default)]
    pub owner: Option<Owner>,
    #[serde(default)]
    pub cancelled: Option<Cancelled>,
    /// The last answer, for people.
    #[serde(default)]
    pub last: Option<Last>,
    /// The block that the agent is working on: our last answer to a stop, if that was a block.
    #[serde(default)]
    pub insisting: Option<Insisting>,
    /// What the run has used up.
    #[serde(default)]
    pub tally: Tally,
    /// The version of the document in which the run was found finished: such a run is passed over
    /// without being read.
    #[serde(default)]
    pub finished: Option<String>,
    /// Fields of a later version.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// Who owns a run, and the last sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub session: String,
    pub seen: Timestamp,
}

/// When and why a run was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// The last answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    pub at: Timestamp,
    pub event: String,
    pub answer: Answer,
}

/// A block, and the world in which it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insisting {
    pub since: Timestamp,
    /// The digest of the state document after the step.
    pub document: String,
    /// What the evidence was, by query.
    pub readings: BTreeMap<String, String>,
    /// How many blocks were given since anything last changed, this one included.
    pub blocks: u32,
}

impl Insisting {
    /// Whether the state or the evidence differ from what the block saw. Only evidence that both
    /// looked at can differ.
    pub fn moved_on(&self, document: &str, readings: &[Reading]) -> bool {
        self.document != document
            || readings.iter().any(|reading| {
                self.readings.get(&reading.query).is_some_and(|known| *known != reading.digest)
            })
    }
}

impl Ledger {
    /// The outcome that was last recorded.
    pub fn outcome(&self) -> Option<Outcome> {
        self.last.as_ref().and_then(|last| last.answer.outcome())
    }
}

/// Readings in the form that a ledger remembers: without those that change by themselves.
pub fn remembered(readings: &[Reading]) -> BTreeMap<String, String> {
    readings
        .iter()
        .filter(|reading| !reading.digest.is_empty())
        .take(MOST_READINGS)
        .map(|reading| (reading.query.clone(), reading.digest.clone()))
        .collect()
}
