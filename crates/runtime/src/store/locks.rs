//! The kernel's locks, which die with their holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::outside;
use crate::store::{Lock, StoreError};
use crate::whole_file::failed;

/// How long a hook waits for others on the same run before it gives up, loudly.
const PATIENCE: Duration = Duration::from_secs(20);

/// What makes a use exclusive: the file that is there for that, and its folder. The file alone is not enough:
/// somebody may remove it, as `git clean` does, and the next process makes a new one. The folder is there as
/// long as there is anything to protect in it.
pub fn locked(path: &Path, lock: &Lock) -> Result<(File, Option<File>), StoreError> {
    let since = Instant::now();
    let folder = path.parent().unwrap_or(path);
    loop {
        let file = outside::open_with(OpenOptions::new().create(true).append(true), path);
        let file = file.map_err(failed("open", path))?;
        wait_for(&file, lock)
            .map_err(|error| error.unwrap_or_else(|error| failed("lock", path)(error)))?;
        let around = File::open(folder).map_err(failed("open", folder))?;
        let around = match wait_for(&around, lock) {
            Ok(()) => Some(around),
            // Not every file system can lock a folder.
            Err(Err(_)) => None,
            Err(Ok(busy)) => return Err(busy),
        };
        // What is locked must be what is at the path, now.
        if is_at(&file, path) && around.as_ref().is_none_or(|around| is_at(around, folder)) {
            return Ok((file, around));
        }
        if since.elapsed() > PATIENCE {
            return Err(StoreError::Busy(lock.clone(), PATIENCE.as_secs()));
        }
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |meta: io::Result<fs::Metadata>| meta.ok().map(|meta| (meta.dev(), meta.ino()));
    let at = place(fs::metadata(path));
    at.is_some() && at == place(file.metadata())
}

/// Waits for the lock of a file or a folder, for no longer than a hook waits for others. The error says that
/// it was in use for too long, or why it cannot be locked.
fn wait_for(file: &File, lock: &Lock) -> Result<(), Result<StoreError, io::Error>> {
    let since = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Ok(StoreError::Busy(lock.clone(), PATIENCE.as_secs())));
            }
            Err(TryLockError::Error(error)) => return Err(Err(error)),
        }
    }
}
