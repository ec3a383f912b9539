//! Runs from one store to another, byte for byte.

use super::{Key, Lock, Piece, RunCopy, Store, StoreError};
use crate::run::RunId;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// It was copied.
    New,
    /// The other store has it already, as it is.
    Same,
}

/// The runs of a store, those that are over in the order in which they were.
///
/// # Errors
/// Where the store cannot be asked.
pub fn in_order(store: &dyn Store) -> Result<Vec<RunId>, StoreError> {
    let mut runs = store.runs()?;
    runs.sort();
    let over = store.over_runs(runs.len())?;
    // The latest comes first in that list, and the others before all of them.
    runs.sort_by_key(|run| {
        std::cmp::Reverse(over.iter().position(|it| it == run).unwrap_or(usize::MAX))
    });
    Ok(runs)
}

/// Copies a run. One that is interrupted can be done again.
///
/// # Errors
/// Where the other store has another run of that name, or one of them fails.
pub fn transfer(from: &dyn Store, to: &dyn Store, run: &RunId) -> Result<Transferred, StoreError> {
    // Nobody changes it meanwhile, here or there.
    let _from = from.lock(&Lock::Run(run.clone()))?;
    let copy = read(from, run)?;
    let held = to.lock(&Lock::Run(run.clone()))?;
    let there = read(to, run)?;
    if !there.values.is_empty() || !there.lines.is_empty() {
        if copy.is_like(&there) {
            return Ok(Transferred::Same);
        }
        let has_ledger = there.values.iter().any(|(key, _)| matches!(key, Key::Ledger(_)));
        if has_ledger || !copy.lines.starts_with(&there.lines) {
            let why = format!("there is another run {run}: it is not overwritten");
            return Err(StoreError::Refused(why));
        }
    }
    to.restore(run, &copy)?;
    drop(held);
    Ok(Transferred::New)
}

/// All that a store keeps of a run.
fn read(store: &dyn Store, run: &RunId) -> Result<RunCopy, StoreError> {
    let keys = [
        Key::OldLedger(run.clone()),
        Key::Definition(run.clone()),
        Key::Document(run.clone()),
        Key::Ledger(run.clone()),
    ];
    let mut copy = RunCopy { open: store.open_runs()?.contains(run), ..RunCopy::default() };
    for key in keys {
        if let Some(stored) = store.get(&key)? {
            copy.shared |= matches!(key, Key::Document(_));
            copy.values.push((key, stored.bytes));
        }
    }
    copy.lines = store.forwards(run).collect::<Result<_, _>>()?;
    for digest in store.pieces(run)? {
        // One that was torn counts as not kept.
        if let Some(bytes) = store.piece(run, &digest) {
            copy.pieces.push(Piece { digest, bytes: bytes.into() });
        }
    }
    Ok(copy)
}

impl RunCopy {
    /// Whether another is the same. What is only evidence may be missing there.
    fn is_like(&self, other: &RunCopy) -> bool {
        self.values == other.values && self.lines == other.lines
    }
}
