//! Files that are replaced whole or not at all: a temporary file is written beside the old one, flushed to
//! the disk, and exchanged with it. A reader sees the old one or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::fault_point;
use crate::outside;
use crate::store::{StoreError, Stored, Version};

/// A new file that lies ready beside the one that it replaces. Where it is not put, it is removed.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    expected: Option<Version>,
    version: Version,
}

impl NewFile {
    /// Writes a new file beside the old one. Whatever can fail for want of room or rights fails here.
    pub fn write(
        path: &Path,
        expected: Option<Version>,
        bytes: &[u8],
    ) -> Result<NewFile, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        // A file behind a link is replaced where it is; the link stays.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let temporary = temporary(&path);
        fault_point::reach("before-temporary");
        // Never through a link that somebody has put in its place.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let mut file = file.map_err(failed("write", &temporary))?;
        // From here on, what is not put is removed.
        let mut new = NewFile { path, temporary, expected, version: Version::new(String::new()) };
        file.write_all(bytes).map_err(failed("write", &new.temporary))?;
        if let Ok(meta) = fs::metadata(&new.path) {
            let _ = file.set_permissions(meta.permissions());
        }
        // Without this a power cut after the rename could leave an empty file.
        file.sync_all().map_err(failed("flush", &new.temporary))?;
        new.version = version(&file.metadata().map_err(failed("read", &new.temporary))?);
        fault_point::reach("temporary-written");
        Ok(new)
    }

    /// The new file that a process left which died before it could put it in its place.
    pub fn left_behind(path: &Path) -> Option<NewFile> {
        // Mostly there is none, and the path need not be followed to see that.
        if !path.is_symlink() && fs::symlink_metadata(temporary(path)).is_err() {
            return None;
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let temporary = temporary(&path);
        let meta = fs::symlink_metadata(&temporary).ok().filter(fs::Metadata::is_file)?;
        let expected = fs::metadata(&path).ok().map(|meta| version(&meta));
        Some(NewFile { path, temporary, expected, version: version(&meta) })
    }

    /// What is in the new file.
    pub fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        outside::read(&self.temporary, u64::MAX - 1).map_err(failed("read", &self.temporary))
    }

    /// The version that the file will have.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Whether the old file is still what was expected.
    pub fn is_due(&self) -> bool {
        is_version(&self.path, self.expected.as_ref())
    }

    /// Puts the new file in the place of the old one, if that is still what was expected.
    pub fn put(self) -> Result<(), StoreError> {
        let NewFile { path, temporary, expected, .. } = &self;
        let replaced = replace(temporary, path, expected.as_ref());
        if !replaced.map_err(failed("replace", path))? {
            return Err(StoreError::Conflict(path.display().to_string()));
        }
        sync_folder(path).map_err(failed("flush the folder of", path))
    }
}

impl NewFile {
    /// Leaves it where it is, because readers remove nothing.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A file and its version; none where there is none.
pub fn read(path: &Path, most: u64) -> Result<Option<Stored>, StoreError> {
    let (file, meta) = match outside::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let bytes = outside::content(file, &meta, most).map_err(failed("read", path))?;
    Ok(Some(Stored { bytes, version: version(&meta) }))
}

/// The version of a file; none where there is none.
pub fn version_of(path: &Path) -> Result<Option<Version>, StoreError> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(version(&meta))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Removes a file, if it is still what was expected.
pub fn remove(path: &Path, expected: &Version) -> Result<(), StoreError> {
    if !is_version(path, Some(expected)) {
        return Err(StoreError::Conflict(path.display().to_string()));
    }
    fault_point::reach("before-remove");
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Renames a file that cannot be understood, so that nothing of it is lost; its new name.
pub fn set_aside(path: &Path) -> Result<String, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut numbers = 1..;
    loop {
        let number = numbers.next().unwrap_or(u64::MAX);
        let aside = path.with_file_name(format!("{name}.corrupt-{number}"));
        if !aside.exists() {
            fs::rename(path, &aside).map_err(failed("set aside", path))?;
            return Ok(aside.display().to_string());
        }
    }
}

/// The error of a file, with what was wanted of it.
pub fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let what = format!("cannot {what} {}", path.display());
    move |error| StoreError::Failed(format!("{what}: {error}"))
}

fn version(meta: &fs::Metadata) -> Version {
    Version::new(format!("{}:{}:{}.{}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn is_version(path: &Path, expected: Option<&Version>) -> bool {
    fs::metadata(path).ok().map(|meta| version(&meta)).as_ref() == expected
}

/// The temporary file for a file: one name only, so that a crash leaves one at most, and the next holder
/// of the lock finds it.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.phasegate-tmp"))
}

/// Puts the new file in the place of the old one, unless that is no longer what was expected.
///
/// Agents and people edit documents without our lock. An edit between the look and the replacement
/// would be lost, so the two files are exchanged, and what came out is looked at once more.
fn replace(new: &Path, path: &Path, expected: Option<&Version>) -> io::Result<bool> {
    if !is_version(path, expected) {
        return Ok(false);
    }
    let flags = if expected.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, new, CWD, path, flags) {
        Ok(()) if expected.is_none() || is_version(new, expected) => Ok(true),
        Ok(()) => renameat_with(CWD, new, CWD, path, flags).map(|()| false).map_err(Into::into),
        Err(Errno::NOENT | Errno::EXIST) => Ok(false),
        // Not every file system can exchange; then the window stays, as narrow as it can be.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(new, path).map(|()| true),
        Err(error) => Err(error.into()),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        // Without this the rename itself could be lost in a power cut.
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
