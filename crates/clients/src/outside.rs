//! The one reader of files that others can write: whatever lies at a path, it neither keeps us waiting nor
//! fills the memory.
//!
//! A repository can bring a pipe, a link to a device or a file of any size along, in the place of every file
//! that we look for. So a file is opened without waiting, what was opened (not what is at the path, which may
//! be something else a moment later) is asked whether it is a regular file, and no more is read than a cap.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The most that is read of a definition, a prompt, a configuration or a client's settings.
pub const MAX_SETTINGS: u64 = 4 << 20;

/// The most that is read of what our own processes leave for each other: records, logs, notes.
pub const MAX_RECORD: u64 = 64 << 20;

/// Opens a regular file to read it.
///
/// # Errors
/// Where it cannot be opened, or is not a regular file; [`ErrorKind::IsADirectory`] for a folder.
pub fn open(path: &Path) -> Result<(File, Metadata)> {
    opened(OpenOptions::new().read(true), path)
}

/// Opens a regular file with other options, such as to lock it or to append to it.
///
/// # Errors
/// The same as for [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File> {
    Ok(opened(options, path)?.0)
}

fn opened(options: &mut OpenOptions, path: &Path) -> Result<(File, Metadata)> {
    // A pipe without a reader cannot be opened to write, and says so with this error.
    let no_reader = Some(rustix::io::Errno::NXIO.raw_os_error());
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        code if code == no_reader => not_regular(),
        _ => error,
    })?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !meta.is_file() {
        return Err(not_regular());
    }
    Ok((file, meta))
}

fn not_regular() -> Error {
    Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// The content of a regular file of at most so many bytes.
///
/// # Errors
/// The same as for [`open`], and [`ErrorKind::FileTooLarge`] where it has more.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, meta) = open(path)?;
    content(file, &meta, most)
}

/// The same for a text.
///
/// # Errors
/// The same as for [`read`], and where it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// The content of a file that was opened.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] where it has more than so many bytes.
pub fn content(file: File, meta: &Metadata, most: u64) -> Result<Vec<u8>> {
    let size = meta.len();
    if size > most {
        return Err(too_large(size, most));
    }
    // Room for the end to be seen: what is exactly full is made larger to look for more.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 64);
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        size if size > most => Err(too_large(size, most)),
        _ => Ok(bytes),
    }
}

/// What a person has named on the command line: a pipe is read as well, and never more than so many bytes.
///
/// # Errors
/// Where it cannot be read, or has more.
pub fn read_named(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    content(file, &meta, most)
}

fn too_large(size: u64, most: u64) -> Error {
    let (size, most) = (size.div_ceil(1 << 20), most >> 20);
    let why = format!("it is {size} MB; at most {most} MB are read");
    Error::new(ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(folder.path(), 5).unwrap_err().kind(), ErrorKind::IsADirectory);
        let none = folder.path().join("none");
        assert_eq!(read(&none, 5).unwrap_err().kind(), ErrorKind::NotFound);
        for (device, kind) in [("/dev/zero", "read"), ("/dev/null", "write")] {
            let link = folder.path().join(kind);
            std::os::unix::fs::symlink(device, &link).unwrap();
            assert_eq!(read(&link, 5).unwrap_err().kind(), ErrorKind::InvalidInput);
            let appending = open_with(OpenOptions::new().append(true), &link);
            assert_eq!(appending.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_pipe_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert_eq!(read(&pipe, 5).unwrap_err().kind(), ErrorKind::InvalidInput);
        let locking = open_with(OpenOptions::new().create(true).append(true), &pipe);
        assert_eq!(locking.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
