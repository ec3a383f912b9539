//! What the file system says about the files of a tree, without a look into them.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode as Rights, OFlags, Stat, statat};

use crate::git::names::Mode;

/// What tells one state of a file from another: its number, its size, and its times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
}

impl Mark {
    pub(super) fn of(meta: &Metadata) -> Mark {
        Mark {
            number: meta.ino(),
            size: meta.len(),
            modified: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            changed: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// What the file system says about a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Present {
    NotAsked,
    /// Neither a file nor a link, or nothing at all.
    Nothing,
    Something(Mark, Mode),
}

/// Asks about the files of a tree, one after the other. The files of a folder are looked for in it: the way to it
/// is not walked for each of them.
pub(super) struct Asker<'r> {
    root: &'r Path,
    folder: Vec<u8>,
    /// None where it cannot be opened.
    opened: Option<OwnedFd>,
}

impl Asker<'_> {
    pub(super) fn new(root: &Path) -> Asker<'_> {
        Asker { root, folder: Vec::new(), opened: opened(root) }
    }

    pub(super) fn ask(&mut self, path: &[u8]) -> Present {
        let end = memchr::memrchr(b'/', path);
        let (folder, name) = end.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        if self.folder != folder {
            self.opened = opened(&self.root.join(OsStr::from_bytes(folder)));
            self.folder.clear();
            self.folder.extend_from_slice(folder);
        }
        let found = match &self.opened {
            Some(opened) => statat(opened, name, AtFlags::SYMLINK_NOFOLLOW),
            None => {
                let full = self.root.join(OsStr::from_bytes(path));
                statat(CWD, full, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        found.map_or(Present::Nothing, |stat| present(&stat))
    }
}

fn opened(folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Rights::empty()).ok()
}

fn present(stat: &Stat) -> Present {
    let mode = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Mode::Link,
        FileType::RegularFile if stat.st_mode & 0o100 == 0 => Mode::File,
        FileType::RegularFile => Mode::Program,
        _ => return Present::Nothing,
    };
    // Their types are not the same on all systems.
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast, reason = "nanoseconds are few")]
    let mark = Mark {
        number: stat.st_ino as u64,
        size: stat.st_size.cast_unsigned(),
        modified: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    };
    Present::Something(mark, mode)
}

/// A time that nobody lives to see, as an archive may bring along, only has to stay the same.
fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}
