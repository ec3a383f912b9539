//! What jobs that have ended leave: folders with prompts and logs.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use indexmap::IndexMap;
use phasegate_engine::functions::{filename, from_filename};

use super::{FOLDER, Record, place};
use crate::fault_point;
use crate::filesystem;
use crate::outside;
use crate::run::RunId;

/// The folder of the jobs of a run, and how many bytes it takes; none where there is none.
pub fn left_by(root: &Path, run: &RunId) -> Option<(PathBuf, u64)> {
    let folder = folder_of(root, run).ok().filter(|folder| folder.is_dir())?;
    let bytes = filesystem::size(&folder);
    Some((folder, bytes))
}

/// Removes what the jobs of a run have left. One that is alive keeps its folder.
///
/// # Errors
/// Where something cannot be removed.
pub(crate) fn remove_of(
    root: &Path,
    run: &RunId,
    records: &IndexMap<String, Record>,
) -> io::Result<()> {
    // Those of an older version are elsewhere.
    for record in records.values().filter(|record| record.is_over()) {
        fault_point::reach("before-job-removed");
        record.forget(root);
    }
    remove_all(&folder_of(root, run)?)
}

/// Folders of jobs whose run is not known any more, and in which nothing has happened since a moment.
pub fn orphans(root: &Path, before: SystemTime, is_known: impl Fn(&RunId) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let is_orphan = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).map(from_filename);
        let run = name.and_then(|name| RunId::try_from(name).ok());
        run.is_some_and(|run| !is_known(&run)) && is_silent(path, before)
    };
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).filter(is_orphan).collect()
}

/// Removes the folders of jobs in a folder, but for those that are alive.
///
/// # Errors
/// Where something cannot be removed.
pub fn remove_all(folder: &Path) -> io::Result<()> {
    for job in folders(folder) {
        if !is_alive(&job) {
            fs::remove_dir_all(job)?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Whether a job is alive that has this folder.
pub(super) fn is_alive(folder: &Path) -> bool {
    let lock = outside::open_with(OpenOptions::new().append(true), &folder.join("lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The folders in a folder.
pub(super) fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Whether nothing in a folder was written since a moment.
fn is_silent(folder: &Path, before: SystemTime) -> bool {
    let is_older = |path: &Path| {
        let changed = path.metadata().and_then(|meta| meta.modified());
        changed.is_ok_and(|changed| changed < before)
    };
    is_older(folder) && folders(folder).iter().all(|job| is_older(job))
}

fn folder_of(root: &Path, run: &RunId) -> io::Result<PathBuf> {
    place(root, &format!("{FOLDER}/{}", filename(&run.to_string())))
}
