//! Where state documents are: files of the workspace, or values of the store.

use super::Runs;
use crate::run::RunId;
use crate::store::{Key, Store, StoreError, Stored, Version};
use crate::workspace::Workspace;
use crate::workspace::place::Place;

/// Both homes of documents.
pub(super) struct Home<'h> {
    workspace: &'h Workspace,
    store: &'h dyn Store,
}

impl Home<'_> {
    /// The document at a place; none where there is none.
    pub(super) fn get(&self, place: &str) -> Result<Option<Stored>, StoreError> {
        match in_store(place)? {
            Some(key) => match self.store.get(&key)? {
                Some(stored) if stored.bytes.len() as u64 > self.workspace.most() => {
                    Err(StoreError::Refused(format!("{place} is too large")))
                }
                stored => Ok(stored),
            },
            None => self.workspace.get(place),
        }
    }

    /// The version of the document at a place.
    pub(super) fn version(&self, place: &str) -> Result<Option<Version>, StoreError> {
        match in_store(place)? {
            Some(key) => self.store.version(&key),
            None => self.workspace.version(place),
        }
    }
}

/// What the document at a place is in the store; none where it is a file.
pub(super) fn in_store(place: &str) -> Result<Option<Key>, StoreError> {
    match Place::of(place) {
        Place::Store(run) => {
            let run = RunId::try_from(run.to_string()).map_err(StoreError::Refused)?;
            Ok(Some(Key::Document(run)))
        }
        _ => Ok(None),
    }
}

impl Runs<'_> {
    /// Where state documents are.
    pub(super) fn home(&self) -> Home<'_> {
        Home { workspace: &self.workspace, store: self.store }
    }
}
