//! Where runs are kept, as an interface: ledgers and definitions with compare-and-set, a journal for each
//! run, the evidence of its lines by digest, the exclusive use of a run, an index of the open ones, and news of changes. Nothing here speaks of
//! files: those of the project are the [`workspace`](crate::workspace)'s.

mod files;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod suite;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use phasegate_engine::evidence::NoEvidence;
use serde::{Deserialize, Serialize};

use crate::run::RunId;

pub use files::FileStore;
#[cfg(test)]
pub use memory::MemoryStore;

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
}

impl Key {
    /// The run that it belongs to.
    pub fn run(&self) -> &RunId {
        let (Key::Ledger(run) | Key::OldLedger(run) | Key::Definition(run)) = self;
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
}

impl fmt::Display for Lock {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Lock::Run(run) => write!(out, "run {run}"),
            Lock::Workflow(workflow) => write!(out, "workflow {workflow}"),
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
    /// A value that the others make superfluous, if it is still what it was.
    pub remove: Option<(Key, Version)>,
    /// Whether the run still answers or waits for something: such runs are in the index.
    pub open: bool,
}

/// Lines of a journal.
pub type Lines<'s> = Box<dyn Iterator<Item = Result<String, StoreError>> + 's>;

/// Calls back until it is dropped.
pub trait Watch: Send {}

/// A store of runs.
pub trait Store: fmt::Debug {
    /// Waits for the exclusive use of a run or a workflow. What a process that died has left half done is
    /// brought to its end, or removed.
    fn lock(&self, lock: &Lock) -> Result<Held, StoreError>;

    /// Every run that has a ledger or a journal.
    fn runs(&self) -> Vec<RunId>;

    /// Whether it keeps anything of a run.
    fn has(&self, run: &RunId) -> bool;

    /// The runs that are open. Some that are over may be among them: that costs only time.
    fn open_runs(&self) -> Vec<RunId>;

    /// The runs that were over last, the latest first, at most so many.
    fn over_runs(&self, most: usize) -> Vec<RunId>;

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

    /// Moves a value that cannot be understood out of the way; where people find it.
    fn set_aside(&self, key: &Key) -> Result<String, StoreError>;

    /// The same for a journal.
    fn set_journal_aside(&self, run: &RunId) -> Result<String, StoreError>;

    /// A journal from its beginning.
    fn forwards(&self, run: &RunId) -> Lines<'_>;

    /// A journal from its end.
    fn backwards(&self, run: &RunId) -> Lines<'_>;

    /// Calls back after every change of a run, and perhaps more often.
    fn watch(
        &self,
        run: &RunId,
        changed: Box<dyn Fn() + Send>,
    ) -> Result<Box<dyn Watch>, StoreError>;
}
