//! Where runs are kept, as an interface: ledgers and definitions with compare-and-set, a journal for each
//! run, the evidence of its lines by digest, the exclusive use of a run, an index of the open ones, and news of changes. Nothing here speaks of
//! files: those of the project are the [`workspace`](crate::workspace)'s.

mod files;
mod locks;
#[cfg(test)]
mod memory;
pub mod postgres;
#[cfg(test)]
#[path = "../../../tests/postgres/server.rs"]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod server;
#[cfg(test)]
mod suite;
pub mod transfer;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::evidence::NoEvidence;
use serde::{Deserialize, Serialize};

use crate::run::RunId;

pub use files::FileStore;
#[cfg(test)]
pub use memory::MemoryStore;
pub use postgres::PostgresStore;

/// A stored value's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A run's bookkeeping.
    Ledger(RunId),
    /// The same as version 0.1.0 keeps it, which does not look at versions: it has another name, so that
    /// neither overwrites what the other knows.
    OldLedger(RunId),
    /// The definition that a run keeps to.
    Definition(RunId),
    /// Its state document, where that has no place in the workspace. Its version tells its content, and nothing else, so
    /// that it stays the same from one store to another.
    Document(RunId),
}

impl Key {
    /// The run that it belongs to.
    pub fn run(&self) -> &RunId {
        let (Key::Ledger(run) | Key::OldLedger(run) | Key::Definition(run) | Key::Document(run)) =
            self;
        run
    }
}

/// A value and what it was when it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub bytes: Vec<u8>,
    pub version: Version,
}

/// Tells two states of a value apart, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// The version that the store identifies by this text.
    pub(crate) fn new(text: String) -> Version {
        Version(text)
    }

    /// The version of a document with this content.
    pub(crate) fn of_document(bytes: &[u8]) -> Version {
        Version(digest(bytes))
    }

    /// That text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why nothing was read or stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else changed the value since it was read.
    #[error("{0} was changed by someone else meanwhile")]
    Conflict(String),
    /// Another process has had the run for too long.
    #[error("another process has been using {0} for {1} seconds")]
    Busy(Lock, u64),
    /// What was asked for is not allowed.
    #[error("{0}")]
    Refused(String),
    /// The medium failed.
    #[error("{0}")]
    Failed(String),
}

impl From<NoEvidence> for StoreError {
    fn from(why: NoEvidence) -> StoreError {
        StoreError::Refused(why.to_string())
    }
}

/// What one process may use at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    Run(RunId),
    /// The names of a workflow's runs, while a new one is chosen.
    Workflow(String),
    /// The removal of what runs that are over have left.
    Removal,
}

impl fmt::Display for Lock {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Lock::Run(run) => write!(out, "run {run}"),
            Lock::Workflow(workflow) => write!(out, "workflow {workflow}"),
            Lock::Removal => write!(out, "`phasegate prune`"),
        }
    }
}

/// The exclusive use of something: it ends when this is dropped, or with the process.
pub struct Held {
    /// What a process that died had left behind, and what became of it.
    pub repairs: Vec<String>,
    #[expect(dead_code, reason = "held, not read: dropping it ends the exclusive use")]
    guard: Box<dyn Any>,
}

/// A new value, and what it replaces.
#[derive(Clone, Debug)]
pub struct Put {
    pub key: Key,
    /// The value must still be this; none where there must be none.
    pub expected: Option<Version>,
    pub bytes: Vec<u8>,
}

/// Something that a decision rests on, by the digest of its content.
#[derive(Clone, Debug)]
pub struct Piece {
    pub digest: String,
    pub bytes: Arc<[u8]>,
}

/// What a transaction writes: all of it counts, or nothing does.
#[derive(Clone, Debug, Default)]
pub struct Batch<'b> {
    /// New evidence. It is there before the line that names it, or it is lost: that fails nothing, since a
    /// line can be read without it.
    pub pieces: Vec<Piece>,
    /// The journal's next line.
    pub line: Option<&'b str>,
    pub puts: Vec<Put>,
    /// Values that go, if they are still what they were.
    pub remove: Vec<(Key, Version)>,
    /// Whether the run still answers or waits for something: such runs are in the index.
    pub open: bool,
    /// Where it begins with this batch: whether it belongs to every machine of the project, since its document is in
    /// the store, and not to this one. Only a store of several machines looks at it.
    pub shared: bool,
    /// How the run stands, for a view over many. Only a store of several machines keeps it.
    pub summary: Option<Summary>,
    /// Jobs that wait for a machine. Only a store with a queue is given some.
    pub jobs: Vec<Queued>,
}

/// How a run stands, as a view over many shows it. What changes with time alone is told by the times in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// In one word, and in a few.
    pub condition: String,
    pub standing: String,
    pub phase: String,
    /// The session that has it.
    pub owner: Option<String>,
    /// Since when it stands so.
    pub since: Option<Timestamp>,
    /// What a person must do or know.
    pub needs: Option<String>,
    /// Until when it waits, where it waits for something that may never come.
    pub until: Option<Timestamp>,
    /// When a hook last fired for it, and when it began.
    pub fired: Option<Timestamp>,
    pub started: Option<Timestamp>,
    /// What its agents and reviews have cost as far as that is known, and how many have not told.
    pub micro_dollars: u64,
    pub untold: u64,
}

/// A job that waits for a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queued {
    /// Its id, as the run knows it.
    pub job: String,
    /// The name of its folder: the same job is queued once.
    pub folder: String,
    pub kind: String,
    /// What a machine must have to take it.
    pub labels: Vec<String>,
    /// What the machine needs to run it.
    pub spec: serde_json::Value,
}

/// A run as a store has it.
#[derive(Clone, Debug, Default)]
pub struct RunCopy {
    pub values: Vec<(Key, Vec<u8>)>,
    pub lines: Vec<String>,
    pub pieces: Vec<Piece>,
    pub open: bool,
    /// It belongs to every machine of the project.
    pub shared: bool,
}

/// How many bytes a store keeps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub all: u64,
    /// Of its definition and its evidence.
    pub apart: u64,
}

/// Lines of a journal.
pub type Lines<'s> = Box<dyn Iterator<Item = Result<String, StoreError>> + 's>;

/// Calls back until it is dropped.
pub trait Watch: Send {}

/// A store of runs.
pub trait Store: fmt::Debug {
    /// The store that other machines use, too, where it is one: then somebody else may write whatever this process has
    /// locked, and the one who comes second decides again.
    fn shared(&self) -> Option<&PostgresStore> {
        None
    }

    /// Waits for the exclusive use of a run or a workflow. What a process that died has left half done is
    /// brought to its end, or removed.
    fn lock(&self, lock: &Lock) -> Result<Held, StoreError>;

    /// Every run that has a ledger or a journal.
    fn runs(&self) -> Result<Vec<RunId>, StoreError>;

    /// Whether it keeps anything of a run.
    fn has(&self, run: &RunId) -> Result<bool, StoreError>;

    /// The runs that are open. Some that are over may be among them: that costs only time.
    fn open_runs(&self) -> Result<Vec<RunId>, StoreError>;

    /// The runs that were over last, the latest first, at most so many.
    fn over_runs(&self, most: usize) -> Result<Vec<RunId>, StoreError>;

    /// Takes a run that is over out of the index.
    fn note_over(&self, run: &RunId);

    /// A value, or none.
    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError>;

    /// The version of a value without the value.
    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError>;

    /// Writes the result of a transaction. The caller holds the run's lock.
    fn commit(&self, run: &RunId, batch: &Batch) -> Result<(), StoreError>;

    /// How large a piece of evidence is that is kept for a run; none where it is not kept.
    fn piece_size(&self, run: &RunId, digest: &str) -> Option<u64>;

    /// A piece of evidence, if it is kept and is what its digest says.
    fn piece(&self, run: &RunId, digest: &str) -> Option<Vec<u8>>;

    /// The digests of the evidence that is kept for a run.
    fn pieces(&self, run: &RunId) -> Result<Vec<String>, StoreError>;

    /// Writes a run as another store has it. There is nothing of it yet but, at most, lines and evidence of the same run
    /// from a time that was interrupted. The caller holds the run's lock.
    fn restore(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError>;

    /// Moves a value that cannot be understood out of the way; where people find it.
    fn set_aside(&self, key: &Key) -> Result<String, StoreError>;

    /// The same for a journal.
    fn set_journal_aside(&self, run: &RunId) -> Result<String, StoreError>;

    /// A journal from its beginning.
    fn forwards(&self, run: &RunId) -> Lines<'_>;

    /// A journal from its end.
    fn backwards(&self, run: &RunId) -> Lines<'_>;

    /// A journal behind the line with this number, the oldest first.
    fn after(&self, run: &RunId, seq: u64) -> Lines<'_>;

    /// A journal before the line with this number, the newest first.
    fn before(&self, run: &RunId, seq: u64) -> Lines<'_>;

    /// How much it keeps of a run.
    fn sizes(&self, run: &RunId) -> Sizes;

    /// Removes the evidence of a run, its definition, and its lines before the number `first`. The caller
    /// holds the run's lock and that of removals, and the ledger says so already.
    fn strip(&self, run: &RunId, first: u64) -> Result<(), StoreError>;

    /// Removes all of a run, at once. The caller holds the run's lock and that of removals.
    fn remove(&self, run: &RunId) -> Result<(), StoreError>;

    /// How many bytes are left of removals whose process died.
    fn half_removed(&self) -> u64;

    /// Removes what is left of removals whose process died, and the names of runs that are gone. The caller
    /// holds the lock of removals.
    fn tidy(&self) -> Result<(), StoreError>;

    /// Calls back after every change of a run, and perhaps more often.
    fn watch(
        &self,
        run: &RunId,
        changed: Box<dyn Fn() + Send>,
    ) -> Result<Box<dyn Watch>, StoreError>;
}
