//! Our own bookkeeping of a run: what the state document does not say and must not be asked.

mod v1;

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::evidence::Reading;
use phasegate_engine::job::Gives;
use phasegate_engine::step::Actor;
use phasegate_engine::workflow::{Denied, Workflow};
use serde::{Deserialize, Serialize};

use crate::baseline::Baseline;
use crate::flakes::Flakes;
use crate::governor::Tally;
use crate::jobs::Record;
use crate::question::Question;
use crate::store::Version;
use crate::tree::Written;

/// How many readings are remembered to tell whether something has changed.
const MAX_READINGS: usize = 256;

/// How many changes from outside are remembered.
const MAX_TAMPERED: usize = 16;

/// How much of a value is told.
const MAX_TOLD: usize = 80;

/// The version of the format that is written. Version 1 was flat, and is read by [`v1`].
pub const SCHEMA: u32 = 2;

/// How a ledger of this version begins.
const CURRENT: &str = "{\"schema\":2,";

/// What every version of a ledger has.
#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    schema: u32,
}

/// Why a ledger cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("{0}")]
    Broken(String),
    #[error("it was written by a later version of Phasegate (format {0}); use that version")]
    Newer(u32),
}

/// A run's ledger: five records, and which run it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub schema: u32,
    pub run: String,
    pub started_at: Option<Timestamp>,
    #[serde(default)]
    pub position: Position,
    #[serde(default)]
    pub definition: Pinned,
    #[serde(default)]
    pub tamper: Tamper,
    #[serde(default)]
    pub session: Session,
    #[serde(default)]
    pub work: Work,
    /// The digest of its text as it is stored; empty where it is not.
    #[serde(skip)]
    pub stored: String,
}

/// How far a run has come, in its journal and in its document.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Position {
    /// The number of the last journal line, and its hash.
    pub seq: u64,
    pub head: String,
    /// How often the ledger was written.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn: u64,
    /// The place of the state document.
    pub document: String,
    /// The phase that our last step led to, or in which somebody else has ended the run.
    pub phase: String,
    /// The tools that the agent may not use in that phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<DeniedTools>,
    /// Somebody else has ended the run.
    pub ended_by_hand: bool,
    /// There was a document when the run was last looked at.
    pub written: bool,
    /// The document was removed by a rule: the run is over.
    pub removed: bool,
    /// There is no document yet: the run begins when the job of this id has ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_with: Option<String>,
    /// The version of the document in which the run was found finished: such a run is passed over
    /// without being read.
    pub finished: Option<Version>,
    /// What the last step that changed the document made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended: Option<Intended>,
    /// What the run has come through, of what properties ask for: their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    /// The hash of a line that did not count, because somebody has edited the document meanwhile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub taken_back: String,
    /// How many bytes of evidence are kept of the run.
    #[serde(skip_serializing_if = "is_zero")]
    pub evidence: u64,
    /// What a person has had removed of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
}

/// What was removed of a run when it was over: its first lines, and the evidence of those and of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    pub at: Timestamp,
    /// How many lines.
    pub lines: u64,
}

impl Pruned {
    /// Whether the evidence of a line was removed.
    pub fn covers(&self, seq: u64) -> bool {
        seq <= self.lines + 1
    }
}

/// Tools that an agent may not use, and why: a hook that is asked before each use knows nothing but the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedTools {
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl Position {
    /// Notes the phase that a run has come to, and what its agent may not use there.
    pub fn arrive(&mut self, workflow: &Workflow, phase: &str) {
        self.phase = phase.to_string();
        let outer = workflow.outer();
        let phase = outer.phase(phase).map(|phase| outer.get(phase));
        self.denied = phase.and_then(|phase| {
            let Denied { tools, because } = phase.denied.clone()?;
            Some(DeniedTools { tools, because: because.or_else(|| phase.about.clone()) })
        });
    }
}

/// A change of the state document, as it was decided: where the process dies before it is done, the next
/// one does it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intended {
    /// The document that was decided on; none where there was none.
    pub before: Option<Version>,
    /// The one that takes its place; none where it is removed.
    pub after: Option<Version>,
}

/// The definition that a run keeps to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pinned {
    /// The text of its identity; empty where the run keeps to none yet.
    pub digest: String,
    /// The digest of the copy that was made of it.
    pub copy: String,
    /// The other definition that the user was told of.
    pub told: String,
}

/// What only the rules may change, and who else has changed it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tamper {
    /// The protected fields as our last step left them.
    pub protected: BTreeMap<String, String>,
    /// Changes of protected fields that were not ours, the last ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Tampered>,
    /// How many there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u64,
    /// How many of them a person has accepted.
    #[serde(skip_serializing_if = "is_zero")]
    pub accepted: u64,
}

impl Tamper {
    /// Writes a change down that was not ours.
    pub fn note(&mut self, change: Tampered) {
        self.changes.push(change);
        self.count += 1;
        let more = self.changes.len().saturating_sub(MAX_TAMPERED);
        self.changes.drain(..more);
    }

    /// Whether there are changes that no person has accepted.
    pub fn is_open(&self) -> bool {
        self.unaccepted() > 0
    }

    /// How many changes no person has accepted.
    pub fn unaccepted(&self) -> u64 {
        self.count.saturating_sub(self.accepted)
    }
}

/// What concerns the session that works on a run, and the user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// The session that the run belongs to.
    pub owner: Option<Owner>,
    /// The session that the run belonged to, and when that was gone: resumed, it has the run back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Owner>,
    /// When a hook last fired for this run.
    pub fired: Option<Timestamp>,
    /// The block that the agent is working on: our last answer to a stop, if that was a block.
    pub last_block: Option<LastBlock>,
    /// The last answer, for people.
    pub last: Option<Last>,
    /// The stop that was last answered, as far as it can be told from the same one delivered again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<Delivery>,
    pub cancelled: Option<Cancelled>,
    /// For what the agent itself caused the session was let go.
    #[serde(skip_serializing_if = "Waits::is_none")]
    pub waits: Waits,
    /// While it is paused, the run holds nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// It is the run of a standing gate for the session that it is named after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands: Option<Stands>,
    /// What an agent has asked the person, until the answer has reached the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// The digest of a copy of the document in a worktree, which was looked at and is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// What the user has not been told yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_notices: Vec<String>,
}

/// What the run of a standing gate remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stands {
    /// The tree that it was done with last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// The tree at the last stop that it was asked about, before its jobs ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Baseline>,
    /// When a person last said something to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompted: Option<Timestamp>,
}

impl Session {
    /// Makes the run nobody's. One that is over is: what lies in its place one day is another run.
    pub fn disown(&mut self) {
        self.owner = None;
        self.former = None;
    }
}

/// What tells a stop from the same one delivered again, because the hook is installed twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// A digest of the payload, which only the version that has made it understands.
    pub payload: String,
    /// How long the transcript is.
    pub transcript: u64,
}

/// Waits that the agent can cause: for its own background work, or in plan mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// How many there were in a row while nothing changed.
    pub row: u32,
    /// When the last one was, and the digest of the document then.
    pub since: Option<Timestamp>,
    pub document: String,
    /// Work that was there at the last stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// Until when it waits; none where what it waits for will come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Waits {
    fn is_none(&self) -> bool {
        *self == Waits::default()
    }
}

/// What is done for a run, and what it has used up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    pub tally: Tally,
    /// The jobs of the run, by id. One that is waited for gives way to the next of its name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub jobs: IndexMap<String, Record>,
    /// What the workflow itself has written: that is not a part of the tree.
    #[serde(skip_serializing_if = "Written::is_empty")]
    pub written: Written,
    /// What its checks have said before.
    #[serde(skip_serializing_if = "Flakes::is_empty")]
    pub flakes: Flakes,
    /// The files that its checks rested on when it was started, each with its digest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub guards: BTreeMap<String, String>,
}

impl Work {
    /// The review that ended last: its file, and its verdict, where it gave one.
    pub fn last_review(&self) -> Option<(String, Option<String>)> {
        let judges = |job: &&Record| job.manner.gives == Gives::Verdict && job.is_over();
        let last = self.jobs.values().filter(judges).max_by_key(|job| job.recorded)?;
        let verdict = last.ended.as_ref().and_then(|ended| ended.verdict.as_ref());
        Some((last.file.clone()?, verdict.map(|verdict| verdict.word().to_string())))
    }
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

/// How long an owner may be silent before another session may take its run. After so long without a
/// sign of life, a hook may be missing.
pub const LEASE: SignedDuration = SignedDuration::from_mins(30);

/// How far clocks may be apart.
const MAX_AHEAD: SignedDuration = SignedDuration::from_mins(1);

impl Owner {
    /// Whether the lease holds. One that says it was heard of tomorrow, as a clock that was set back or somebody's
    /// edit leaves it, would hold until then and longer.
    pub fn is_held(&self, now: Timestamp) -> bool {
        let silent = now.duration_since(self.seen);
        silent <= LEASE && silent >= -MAX_AHEAD
    }
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
        let [from, to] =
            [&self.from, &self.to].map(|value| match value.char_indices().nth(MAX_TOLD) {
                Some((end, _)) => format!("{}…", &value[..end]),
                None => value.clone(),
            });
        write!(out, "`{}` was changed from {from} to {to}, and not by Phasegate", self.field)
    }
}

/// When, why and by whom a run was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    pub at: Timestamp,
    pub reason: Option<String>,
    pub by: Actor,
    /// Where the command came from, if not from a person at a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether the session that the run held was told, which happens at its next stop.
    pub told: bool,
}

impl Cancelled {
    /// Where the command came from, for people.
    pub fn from(&self) -> &str {
        self.from.as_deref().unwrap_or("inside the client")
    }
}

/// When a person has parked a run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// The last answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    pub at: Timestamp,
    pub event: String,
    pub answer: Answer,
    /// The job that it waits for, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Who has signed what was answered, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
}

/// A block, and the world in which it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBlock {
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

impl LastBlock {
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
    pub fn has_blocked(&self, session: &Option<String>) -> bool {
        let same = |last: &LastBlock| {
            last.session.is_none() || session.is_none() || last.session == *session
        };
        self.session.last_block.as_ref().is_some_and(same)
    }

    /// Whether somebody else has set the phase that the document is in.
    pub fn is_ended_by_hand(&self, field: &str, phase: &str) -> bool {
        let last = self.tamper.changes.iter().rev().find(|change| change.field == field);
        last.is_some_and(|change| change.to.trim_matches('"') == phase)
    }

    /// Whether the phase is one that our last step did not lead to, though the agent was held.
    pub fn is_left_by_hand(&self, phase: &str) -> bool {
        self.session.last_block.is_some()
            && !self.position.phase.is_empty()
            && self.position.phase != phase
    }

    /// The question that waits for a person. One of a job that has ended waits for nobody.
    pub fn open_question(&self) -> Option<&Question> {
        let question = self.session.question.as_ref().filter(|it| it.answer.is_none())?;
        if self.session.cancelled.is_some() {
            return None;
        }
        let is_there = |id: &String| self.work.jobs.get(id).is_some_and(|job| !job.is_over());
        question.agent.as_ref().is_none_or(is_there).then_some(question)
    }

    /// The question whose answer the agent has not read yet.
    pub fn answered_question(&self) -> Option<&Question> {
        self.session.question.as_ref().filter(|question| question.answer.is_some())
    }

    /// Reads a ledger.
    ///
    /// # Errors
    /// Where it is not one, or was written by a later version, whose fields would be lost.
    pub fn read(bytes: &[u8]) -> Result<Ledger, Unreadable> {
        let unreadable = |error: serde_json::Error| Unreadable::Broken(error.to_string());
        // Nearly always it is one that we have written, and its first member says so.
        if bytes.starts_with(CURRENT.as_bytes()) {
            return serde_json::from_slice(bytes).map_err(unreadable);
        }
        let Schema { schema } = serde_json::from_slice(bytes).map_err(unreadable)?;
        match schema {
            ..=1 => v1::read(bytes).map_err(unreadable),
            SCHEMA => serde_json::from_slice(bytes).map_err(unreadable),
            _ => Err(Unreadable::Newer(schema)),
        }
    }

    /// This ledger, after version 0.1.0 has been at work, which does not know it: what that has noted
    /// counts, and what it could not know stays. It makes its own anew from the journal, which tells
    /// nothing of agents, of the definition or of what was used up.
    #[must_use]
    pub fn after(self, old: Ledger) -> Ledger {
        let mut work = self.work;
        work.tally = old.work.tally.at_least(&work.tally);
        for (id, job) in old.work.jobs {
            // An end that the rules have heard of is heard of.
            if job.is_over() || !work.jobs.contains_key(&id) {
                work.jobs.insert(id, job);
            }
        }
        let is_known = !old.definition.digest.is_empty();
        let definition = if is_known { old.definition } else { self.definition };
        let position = Position { turn: self.position.turn, ..old.position };
        Ledger { definition, work, position, stored: self.stored, ..old }
    }

    /// The ledger of the next run with the same document: only the journal goes on.
    #[must_use]
    pub fn begin_again(&self, session: Option<&str>) -> Ledger {
        let now = Timestamp::now();
        Ledger {
            schema: self.schema,
            run: self.run.clone(),
            started_at: Some(now),
            stored: self.stored.clone(),
            position: Position {
                seq: self.position.seq,
                head: self.position.head.clone(),
                turn: self.position.turn,
                evidence: self.position.evidence,
                pruned: self.position.pruned,
                ..Position::default()
            },
            session: Session {
                owner: session.map(|session| Owner { session: session.to_string(), seen: now }),
                ..Session::default()
            },
            ..Ledger::default()
        }
    }

    /// Whether the run is over, as far as the ledger knows, and nothing is left to be said or done about it.
    pub fn is_settled(&self) -> bool {
        let cancelled = self.session.cancelled.as_ref();
        let is_over =
            cancelled.is_some() || self.position.removed || self.position.finished.is_some();
        is_over
            && cancelled.is_none_or(|cancelled| cancelled.told)
            && self.session.pending_notices.is_empty()
            && self.work.jobs.values().all(Record::is_over)
    }

    /// When something last happened in the run.
    pub fn last_heard(&self) -> Option<Timestamp> {
        let session = &self.session;
        let known = [
            self.started_at,
            session.fired,
            session.last.as_ref().map(|last| last.at),
            session.cancelled.as_ref().map(|cancelled| cancelled.at),
        ];
        let ended = self.work.jobs.values().filter_map(|job| Some(job.ended.as_ref()?.at));
        known.into_iter().flatten().chain(ended).max()
    }

    /// Whether the run of a standing gate has let its session go without being done: it begins again after
    /// a person has said something.
    pub fn has_given_up(&self) -> bool {
        let gave_up =
            matches!(self.outcome(), Some(Outcome::Stuck | Outcome::Capped | Outcome::Budget));
        self.session.stands.is_some() && gave_up
    }

    /// The outcome that was last recorded.
    pub fn outcome(&self) -> Option<Outcome> {
        self.session.last.as_ref().and_then(|last| last.answer.outcome())
    }
}

/// Readings in the form that a ledger remembers: without the ones that change by themselves.
pub fn remembered(readings: &[Reading]) -> BTreeMap<String, String> {
    readings
        .iter()
        .filter(|reading| !reading.digest.is_empty())
        .take(MAX_READINGS)
        .map(|reading| (reading.query.clone(), reading.digest.clone()))
        .collect()
}
