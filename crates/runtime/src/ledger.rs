//! Our own bookkeeping of a run: what the state document does not say and must not be asked.

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::evidence::Reading;
use phasegate_engine::step::Actor;
use serde::{Deserialize, Serialize};

use crate::agents::Record;
use crate::checks::{Passed, Ran};
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
    /// The place of the state document.
    #[serde(default)]
    pub document: String,
    /// The definition that the run keeps to, and the digest of the copy that was made of it.
    #[serde(default)]
    pub definition: String,
    #[serde(default)]
    pub definition_copy: String,
    /// The other definition that the user was told of.
    #[serde(default)]
    pub definition_told: String,
    /// The protected fields as our last step left them.
    #[serde(default)]
    pub protected: BTreeMap<String, String>,
    /// Changes of protected fields that were not ours, the last ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<Tampered>,
    /// How many there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tampered_in_all: u64,
    /// The session that the run belongs to.
    #[serde(default)]
    pub owner: Option<Owner>,
    /// When a hook last fired for this run.
    #[serde(default)]
    pub fired: Option<Timestamp>,
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
    /// The check or review that an event waits for.
    #[serde(default)]
    pub checking: Option<Intent>,
    /// Checks that passed, and on which tree.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, Passed>,
    /// Why a review that somebody could not wait for has no verdict: that is said once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreviewed: Option<String>,
    /// Checks that have failed for somebody who could not wait for them: they count once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, Ran>,
    /// The agents that were started, by id.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<String, Record>,
    /// What the user has not been told yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<String>,
    /// The phase that our last step led to, or in which somebody else has ended the run.
    #[serde(default)]
    pub phase: String,
    /// That somebody else has.
    #[serde(default)]
    pub ended_by_hand: bool,
    /// There was a document when the run was last looked at.
    #[serde(default)]
    pub written: bool,
    /// The document was removed by a rule: the run is over.
    #[serde(default)]
    pub removed: bool,
    /// The version of the document in which the run was found finished: such a run is passed over
    /// without being read.
    #[serde(default)]
    pub finished: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Who owns a run, and the last sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub session: String,
    pub seen: Timestamp,
}

/// A protected field that somebody else changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tampered {
    pub at: Timestamp,
    pub field: String,
    pub from: String,
    pub to: String,
}

impl fmt::Display for Tampered {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Tampered { field, from, to, .. } = self;
        write!(out, "`{field}` was changed from {from} to {to}, and not by Phasegate")
    }
}

/// When, why and by whom a run was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    pub at: Timestamp,
    pub reason: Option<String>,
    pub by: Actor,
    /// The user knows. Of an agent's cancel he is told at the next stop.
    pub told: bool,
}

/// The last answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    pub at: Timestamp,
    pub event: String,
    pub answer: Answer,
}

/// A check or a review that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// `check` or `review`.
    pub what: String,
    pub name: String,
    pub since: Timestamp,
}

/// A block, and the world in which it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insisting {
    pub since: Timestamp,
    /// Who was told.
    #[serde(default)]
    pub session: Option<String>,
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
    /// Whether its last answer was a block, and to this session, as far as sessions are told.
    pub fn is_insisting(&self, session: &Option<String>) -> bool {
        let same = |last: &Insisting| {
            last.session.is_none() || session.is_none() || last.session == *session
        };
        self.insisting.as_ref().is_some_and(same)
    }

    /// Whether somebody else has set the phase that the document is in.
    pub fn is_ended_by_hand(&self, field: &str, phase: &str) -> bool {
        let last = self.tampered.iter().rev().find(|change| change.field == field);
        last.is_some_and(|change| change.to.trim_matches('"') == phase)
    }

    /// Whether the phase is one that our last step did not lead to, though the agent was held.
    pub fn is_left_by_hand(&self, phase: &str) -> bool {
        self.insisting.is_some() && !self.phase.is_empty() && self.phase != phase
    }

    /// The ledger of the next run with the same document: only the journal goes on.
    #[must_use]
    pub fn begin_again(&self, session: Option<&str>) -> Ledger {
        let now = Timestamp::now();
        Ledger {
            schema: self.schema,
            run: self.run.clone(),
            seq: self.seq,
            head: self.head.clone(),
            started_at: Some(now),
            owner: session.map(|session| Owner { session: session.to_string(), seen: now }),
            ..Ledger::default()
        }
    }

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
