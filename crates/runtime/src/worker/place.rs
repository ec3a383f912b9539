//! Where a worker does its jobs: a tree for each, at the commit that was sent, which borrows from one repository for each
//! remote.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use phasegate_engine::digest::digest;

use crate::git::transfer::Own;
use crate::jobs::{self, Sent};
use crate::outside;

/// The folder of trees, and that of repositories.
const JOBS: &str = "jobs";
const REPOSITORIES: &str = "repositories";

/// The file that is locked while a job is wanted.
const HELD: &str = "held";

/// The place of one job.
#[derive(Debug)]
pub(super) struct Place {
    folder: PathBuf,
    /// Where its files are.
    pub(super) tree: PathBuf,
    repository: PathBuf,
}

impl Place {
    /// A new place, and the lock that is held while its job is wanted.
    pub(super) fn new(shop: &Path, name: &str, sent: &Sent) -> io::Result<(Place, File)> {
        let folder = shop.join(JOBS).join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let tree = folder.join("tree");
        fs::create_dir_all(&tree)?;
        let known = &digest(sent.remote.as_bytes())[..20];
        let repository = shop.join(REPOSITORIES).join(known);
        let place = Place { folder, tree, repository };
        let mut options = OpenOptions::new();
        let held = outside::open_with(options.create(true).append(true), &place.held())?;
        held.lock()?;
        Ok((place, held))
    }

    /// The file that is locked while its job is wanted.
    pub(super) fn held(&self) -> PathBuf {
        self.folder.join(HELD)
    }

    /// Gets the tree that was sent.
    ///
    /// # Errors
    /// What git says.
    pub(super) fn fill(&self, sent: &Sent) -> Result<(), String> {
        /// Git does not like to be started twice on the same new repository.
        static ALONE: Mutex<()> = Mutex::new(());
        let repository = {
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            let repository = Own::make(&self.repository)?;
            repository.fetch(&sent.remote, &sent.reference, &sent.commit)?;
            repository
        };
        let tree = repository.check_out(&self.tree, &sent.commit, &sent.remote)?;
        match &sent.parent {
            Some(parent) => tree.stand_on(parent),
            None => Ok(()),
        }
    }

    /// The repository that the tree borrows from.
    pub(super) fn repository(&self) -> Own {
        Own::at(&self.repository)
    }

    /// Removes the tree, once nothing runs in it any more.
    pub(super) fn remove(&self, sent: &Sent) {
        while !jobs::alive(&self.tree).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let _ = self.repository().unname(&[&sent.reference]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the trees of workers that are gone.
pub(super) fn remove_left(shop: &Path) {
    for entry in fs::read_dir(shop.join(JOBS)).into_iter().flatten().flatten() {
        let held = outside::open_with(OpenOptions::new().append(true), &entry.path().join(HELD));
        let is_free = match held {
            Ok(held) => !matches!(held.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => true,
        };
        if is_free && jobs::alive(&entry.path().join("tree")).is_empty() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
