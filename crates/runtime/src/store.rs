//! Where runs are kept, as an interface: documents with compare-and-set, an append-only journal
//! for each run, and the exclusive use of a run. Nothing here speaks of files.

use jiff::Timestamp;

use crate::run::RunId;

/// A stored value's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A state document, by its place.
    Document(String),
    /// A text, by its place: whatever it is, it stays as it is.
    Text(String),
    /// A run's bookkeeping.
    Ledger(RunId),
    /// The same as version 0.1.0 keeps it, which does not look at versions: it has another name, so that
    /// neither overwrites what the other knows.
    OldLedger(RunId),
    /// A run's journal, as a whole.
    Journal(RunId),
    /// The definition that a run keeps to.
    Definition(RunId),
}

/// A stored value and what it was when it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub bytes: Vec<u8>,
    pub version: Version,
}

/// Tells two states of a value apart. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else changed the value since it was read.
    #[error("{0} was changed by someone else meanwhile")]
    Conflict(String),
    /// Another process has had the run for too long.
    #[error("another process has been using run {0} for {1} seconds")]
    Busy(RunId, u64),
    /// The place is not allowed.
    #[error("{0}")]
    Refused(String),
    /// The medium failed.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

/// The exclusive use of a run; it ends when this is dropped, or with the process.
pub trait Lease {}

/// A new value that is ready to be put in the place of the old one. Where it is not put, nothing is left
/// of it.
pub trait Prepared {
    /// The version that it will be.
    fn version(&self) -> Version;

    /// Puts it in its place, whole or not at all, if the old one is still what was expected.
    fn put(self: Box<Self>) -> Result<(), StoreError>;
}

/// A store of runs.
pub trait Store {
    /// Waits for the exclusive use of a run; of a workflow, where the run has no name.
    fn lease(&self, run: &RunId, document: &Key) -> Result<Box<dyn Lease>, StoreError>;

    /// The runs that have a ledger or a journal, whether or not their documents exist.
    fn runs(&self) -> Vec<RunId>;

    /// The places of state documents that match a pattern, sorted.
    fn documents(&self, pattern: &str) -> Result<Vec<String>, StoreError>;

    /// Places that match a pattern whose `*` stands for a folder: one for each folder, whether or
    /// not the document is there.
    fn places(&self, pattern: &str) -> Result<Vec<String>, StoreError>;

    /// When a document, or something that lies beside it, was last changed; none where there is
    /// nothing.
    fn changed_at(&self, place: &str) -> Option<Timestamp>;

    /// The order of some places of documents, the one first where something was changed last. Of very
    /// many, those that are far behind may be in a coarser order.
    fn latest_first(&self, places: &[&str]) -> Vec<usize>;

    /// Notes that a run has ended in this version of its document. What is lost of it costs only
    /// time.
    fn note_ended(&self, run: &RunId, version: &Version);

    /// Whether that was noted of a run, and its document is still the same.
    fn has_ended(&self, run: &RunId, place: &str) -> bool;

    /// A value, or none.
    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError>;

    /// The version of a value without the value.
    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError>;

    /// Removes a value, if it is still what `expected` says.
    fn remove(&self, key: &Key, expected: &Version) -> Result<(), StoreError>;

    /// Gets a new value ready: whatever can fail for want of room or rights fails now, and nobody sees
    /// it yet. It replaces a value that is what `expected` says (`None`: absent).
    fn prepare(
        &self,
        key: &Key,
        expected: Option<&Version>,
        bytes: &[u8],
    ) -> Result<Box<dyn Prepared + '_>, StoreError>;

    /// Stores a value, whole or not at all.
    fn put(&self, key: &Key, expected: Option<&Version>, bytes: &[u8]) -> Result<(), StoreError> {
        self.prepare(key, expected, bytes)?.put()
    }

    /// Adds a line to a text, made where there is none.
    fn append_text(&self, place: &str, line: &str) -> Result<(), StoreError>;

    /// Moves what is at a place to another, where nothing may be yet. What is not there is not moved.
    fn move_text(&self, from: &str, to: &str) -> Result<(), StoreError>;

    /// Moves a value that cannot be understood out of the way; where to. Where every value is kept
    /// anyway, it stays, and the next one is put after it.
    fn set_aside(&self, key: &Key) -> Result<String, StoreError>;

    /// Adds a line to a run's journal, durably.
    fn append(&self, run: &RunId, line: &str) -> Result<(), StoreError>;

    /// The last whole line of a run's journal, and what was cut off behind it when a process died
    /// while writing.
    fn last_line(&self, run: &RunId) -> Result<(Option<String>, usize), StoreError>;

    /// All whole lines of a run's journal.
    fn lines(&self, run: &RunId) -> Result<Vec<String>, StoreError>;
}
