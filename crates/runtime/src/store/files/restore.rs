//! A run as another store has it.

use super::{FileStore, JOURNAL};
use crate::run::RunId;
use crate::store::{Key, RunCopy, Store, StoreError};
use crate::whole_file::{self, NewFile, failed};

impl FileStore {
    /// Writes a run, its ledger last: what is interrupted before that is done again.
    pub(super) fn restore_run(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError> {
        for piece in &copy.pieces {
            self.keep(run, piece).map_err(failed("write the evidence of", &self.folder(run)?))?;
        }
        let is_ledger = |key: &Key| matches!(key, Key::Ledger(_) | Key::OldLedger(_));
        let (ledgers, others): (Vec<_>, Vec<_>) =
            copy.values.iter().partition(|(key, _)| is_ledger(key));
        for (key, bytes) in others {
            put(&self.path(key)?, bytes)?;
        }
        if !copy.lines.is_empty() {
            let text: String = copy.lines.iter().flat_map(|line| [line, "\n"]).collect();
            put(&self.file(run, JOURNAL)?, text.as_bytes())?;
        }
        self.note_open(run)?;
        for (key, bytes) in ledgers {
            put(&self.path(key)?, bytes)?;
        }
        if !copy.open {
            self.note_over(run);
        }
        Ok(())
    }
}

/// Writes a file, whole or not at all.
fn put(path: &std::path::Path, bytes: &[u8]) -> Result<(), StoreError> {
    NewFile::write(path, whole_file::version_of(path)?, bytes)?.put()
}
