//! Places that one process at a time can have: what the kernel gives back when it dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use phasegate_engine::functions::filename;

use crate::outside;
use crate::paths;
use crate::run::RunId;

/// Held by the only process that does something for a run.
#[derive(Debug)]
pub struct Exclusive {
    _lock: File,
    path: PathBuf,
}

impl Exclusive {
    /// The file that is locked.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Takes the place of the only process that does something for a run; none where another has it.
///
/// # Errors
/// Where the lock cannot be made.
pub fn try_exclusive(root: &Path, folder: &str, run: &RunId) -> io::Result<Option<Exclusive>> {
    let place = format!("{folder}/{}.lock", filename(&run.to_string()));
    let path = paths::inside(root, &place).map_err(|why| io::Error::other(why.to_string()))?;
    std::fs::create_dir_all(root.join(folder))?;
    paths::ignored_by_git(&root.join(folder))?;
    let lock = outside::open_with(OpenOptions::new().create(true).append(true), &path)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Exclusive { _lock: lock, path })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
