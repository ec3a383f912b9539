//! Which state documents there are. Most of them are of runs that are over, and stay for years: those are
//! noted, with what tells one version of a file from another, and passed over without being read. The note
//! is only a memory: a document that has changed since is looked at again, and a note that is lost costs
//! time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::{memchr_iter, memmem};
use phasegate_engine::functions::filename;
use phasegate_engine::glob;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};
use rustix::io::Errno;

use super::Workspace;
use super::place::Place;
use crate::outside::{self, MAX_RECORD};
use crate::paths::{Walk, inside};
use crate::store::{StoreError, Version};
use crate::whole_file::{self, failed};

/// Up to so many, to read each is as fast as to read the note.
const FEW: usize = 16;

/// Of how many folders every file is looked at, to find the one that was changed last.
const MAX_EXACT: usize = 16;

/// The documents of a workflow that are not known to be over.
#[derive(Debug, Default)]
pub struct Documents {
    pub places: Vec<String>,
    note: Note,
    /// Whether the note on the disk says something else.
    is_new: bool,
}

/// What tells a version of a file from another; zero for one whose run is not known to be over.
type Print = u64;

/// What is noted of a document: the number that its folder lists it with, and its fingerprint.
type Mark = [u8; 16];

fn number(mark: &Mark) -> u64 {
    mark.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

fn print(mark: &Mark) -> Print {
    mark.last_chunk().map_or(0, |print| Print::from_le_bytes(*print))
}

impl Documents {
    /// Goes through a folder beside what was noted of it, and lists what is not over; whether the two
    /// agree. Thousands are passed over here at every stop, so nothing is copied but what is looked at.
    fn list(
        &mut self,
        folder: BorrowedFd,
        pattern: Pattern,
        is_document: impl Fn(&str, FileType) -> bool,
    ) -> bool {
        let (mut names, mut marks) = (self.note.names(), self.note.marks());
        let (mut path, mut room, mut agree) = (Vec::new(), Entries::room(), true);
        // To rename a file changes its fingerprint, so its number in the folder tells as much as its name.
        // To rename a folder changes nothing about the document in it.
        let by_number = pattern.rest.is_empty();
        let mut entries = Entries::of(folder, &mut room);
        self.places.clear();
        while let Some(entry) = entries.next() {
            let (name, kind) = (entry.file_name(), entry.file_type());
            let next = marks.split_first().filter(|(mark, _)| {
                if by_number {
                    return number(mark) == entry.ino();
                }
                let rest = names.strip_prefix(name.to_bytes_with_nul());
                names = rest.unwrap_or(names);
                rest.is_some()
            });
            let Some((mark, rest)) = next else {
                agree = agree && !name.to_str().is_ok_and(|name| is_document(name, kind));
                continue;
            };
            marks = rest;
            let print = print(mark);
            if print != 0 && fingerprint(folder, name, pattern.rest, &mut path) == print {
                continue;
            }
            if let Ok(name) = name.to_str() {
                self.places.push(pattern.place(name));
            }
        }
        agree && marks.is_empty()
    }
}

/// A pattern as it is searched: `FOLDER/BEFORE*AFTER/REST`.
#[derive(Clone, Copy)]
struct Pattern<'p> {
    folder: &'p str,
    component: &'p str,
    rest: &'p str,
}

impl<'p> Pattern<'p> {
    /// The parts of a pattern; none where it has no `*`, or more than one.
    fn of(pattern: &'p str) -> Option<Pattern<'p>> {
        let folder = glob::fixed_prefix(pattern);
        let behind = pattern.strip_prefix(folder)?;
        let behind = if folder.is_empty() { behind } else { behind.strip_prefix('/')? };
        let (component, rest) = behind.split_once('/').unwrap_or((behind, ""));
        let is_plain = !rest.split('/').any(glob::is_pattern) && component != "**";
        (is_plain && !component.is_empty()).then_some(Pattern { folder, component, rest })
    }

    fn place(self, name: &str) -> String {
        let parts = [self.folder, name, self.rest].into_iter();
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// The name in the folder that a place has.
    fn name(self, place: &str) -> Option<&str> {
        let rest = place.strip_prefix(self.folder)?;
        rest.trim_start_matches('/').split('/').next()
    }
}

/// What was noted of a folder, as it is on the disk: a line with the number of its documents and their
/// pattern; the mark of each; and their names, in the folder's own order, each between two zeros.
#[derive(Debug)]
struct Note {
    bytes: Vec<u8>,
    /// Where the marks begin, and where the names do.
    marks: usize,
    names: usize,
}

impl Default for Note {
    fn default() -> Note {
        Note::made("", &[])
    }
}

impl Note {
    fn made(pattern: &str, documents: &[(String, u64, Print)]) -> Note {
        let mut bytes = format!("{} {pattern}\n", documents.len()).into_bytes();
        let marks = bytes.len();
        for (_, number, print) in documents {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&print.to_le_bytes());
        }
        let names = bytes.len();
        bytes.push(0);
        for (name, ..) in documents {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        Note { bytes, marks, names }
    }

    fn read(path: &Path, pattern: &str) -> Option<Note> {
        let bytes = outside::read(path, MAX_RECORD).ok()?;
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let marks = line.len() + 1;
        let (count, known) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let size = count.parse::<usize>().ok()?.checked_mul(size_of::<Mark>())?;
        let names = marks.checked_add(size)?;
        (known == pattern && names < bytes.len()).then_some(Note { bytes, marks, names })
    }

    /// The folder as it is now, with what this says of its documents.
    fn renewed(
        &self,
        folder: BorrowedFd,
        pattern: &str,
        is_document: impl Fn(&str, FileType) -> bool,
    ) -> Note {
        let names = self.names().split(|byte| *byte == 0);
        let known: HashMap<&[u8], Print> = names.zip(self.marks().iter().map(print)).collect();
        let (mut documents, mut room) = (Vec::new(), Entries::room());
        let mut entries = Entries::of(folder, &mut room);
        while let Some(entry) = entries.next() {
            let (name, kind) = (entry.file_name(), entry.file_type());
            if let Some(name) = name.to_str().ok().filter(|name| is_document(name, kind)) {
                let print = known.get(name.as_bytes()).copied().unwrap_or_default();
                documents.push((name.to_string(), entry.ino(), print));
            }
        }
        Note::made(pattern, &documents)
    }

    fn marks(&self) -> &[Mark] {
        self.bytes[self.marks..self.names].as_chunks().0
    }

    /// The names, each with a zero behind it.
    fn names(&self) -> &[u8] {
        self.bytes.get(self.names + 1..).unwrap_or_default()
    }

    fn set(&mut self, index: usize, print: Print) {
        let end = self.marks + (index + 1) * size_of::<Mark>();
        self.bytes[end - size_of::<Print>()..end].copy_from_slice(&print.to_le_bytes());
    }

    /// Which one has a name.
    fn find(&self, name: &str) -> Option<usize> {
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        let names = &self.bytes[self.names..];
        let at = memmem::find(names, &wanted)?;
        Some(memchr_iter(0, &names[..at]).count())
    }
}

impl Workspace {
    /// The places of all documents that match a pattern, sorted. Where `folders` make runs, there is one
    /// for each folder, whether or not the document is there.
    pub fn documents(&self, pattern: &str, folders: bool) -> Result<Vec<String>, StoreError> {
        Ok(self.beside(Note::default, pattern, folders)?.places)
    }

    /// The same without those of a workflow's runs that are known to be over.
    pub fn open_documents(
        &self,
        workflow: &str,
        pattern: &str,
        folders: bool,
    ) -> Result<Documents, StoreError> {
        let note = || Note::read(&self.note(workflow), pattern).unwrap_or_default();
        self.beside(note, pattern, folders)
    }

    fn beside(
        &self,
        note: impl FnOnce() -> Note,
        pattern: &str,
        folders: bool,
    ) -> Result<Documents, StoreError> {
        let mut found = Documents::default();
        let Some(parts) = Pattern::of(pattern) else {
            found.places = self.searched(pattern)?;
            return Ok(found);
        };
        // Most workflows have no documents, and then no note is read.
        let Some(folder) = self.opened(parts)? else { return Ok(found) };
        found.note = note();
        let is_document =
            |name: &str, kind: FileType| self.is_candidate(parts, name, kind, folders);
        if !found.list(folder.as_fd(), parts, is_document) {
            // Other documents than were noted, or in another order, as at the first look.
            found.note = found.note.renewed(folder.as_fd(), pattern, is_document);
            found.is_new = true;
            found.list(folder.as_fd(), parts, |_, _| false);
        }
        found.places.sort();
        Ok(found)
    }

    /// Places of documents with another kind of name: a topic, one file, a pattern of several stars.
    fn searched(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        if let Place::Topic(..) = Place::of(pattern) {
            let known = self.version(pattern)?.is_some();
            return Ok(known.then(|| pattern.to_string()).into_iter().collect());
        }
        if self.is_missing(glob::fixed_prefix(pattern)) {
            return Ok(Vec::new());
        }
        Ok(Walk::with_links_out(&self.root).files(pattern)?)
    }

    /// The folder of a pattern; none where there is none.
    fn opened(&self, pattern: Pattern) -> Result<Option<OwnedFd>, StoreError> {
        if self.is_missing(pattern.folder) {
            return Ok(None);
        }
        let folder = inside(&self.root, pattern.folder)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&folder, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(folder)),
            // What is not a folder has no documents in it.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(failed("open", &folder)(error.into())),
        }
    }

    /// Notes that the run of a document is over, if that is still what `version` says.
    pub fn note_over(&self, known: &mut Documents, pattern: &str, place: &str, version: &Version) {
        let Some(parts) = Pattern::of(pattern) else { return };
        let Some(name) = parts.name(place) else { return };
        let (Some(index), Ok(Some(folder)), Ok(path)) =
            (known.note.find(name), self.opened(parts), CString::new(name))
        else {
            return;
        };
        // The fingerprint first: where the document changes in between, the version does not fit.
        let print = fingerprint(folder.as_fd(), &path, parts.rest, &mut Vec::new());
        let now = whole_file::version_of(&self.root.join(place));
        if print != 0 && now.is_ok_and(|now| now.as_ref() == Some(version)) {
            known.note.set(index, print);
            known.is_new = true;
        }
    }

    /// Writes down which documents of a workflow are over, where that saves time. What cannot be written is
    /// found out again the next time.
    pub fn keep(&self, workflow: &str, known: &Documents) {
        let over = known.note.marks().iter().filter(|mark| print(mark) != 0);
        if known.is_new && over.count() > FEW {
            let path = self.note(workflow);
            // Not through a link that leads out of the project. A name of its own for each process would
            // only leave more behind where one dies: whatever is there is checked by its reader.
            let new = path.with_extension("new");
            let place = new.strip_prefix(&self.root).unwrap_or(&new).to_string_lossy();
            if inside(&self.root, &place).is_ok() {
                let _ = fs::write(&new, &known.note.bytes).and_then(|()| fs::rename(new, path));
            }
        }
    }

    fn note(&self, workflow: &str) -> PathBuf {
        self.root.join(".phasegate/runs").join(filename(workflow)).join(".over")
    }

    fn is_candidate(&self, pattern: Pattern, name: &str, kind: FileType, folders: bool) -> bool {
        if !glob::component(pattern.component, name) {
            return false;
        }
        let wants_folder = folders && !pattern.rest.is_empty();
        match kind {
            FileType::Directory if wants_folder => return true,
            FileType::RegularFile if pattern.rest.is_empty() => return true,
            FileType::RegularFile => return false,
            _ => {}
        }
        if wants_folder {
            let folder = Pattern { rest: "", ..pattern }.place(name);
            return inside(&self.root, &folder).is_ok_and(|folder| folder.is_dir());
        }
        let place = pattern.place(name);
        match inside(&self.root, &place) {
            Ok(full) => full.is_file(),
            // A link that leads out of the project is found too: its reader reports it.
            Err(_) => self.root.join(&place).is_symlink(),
        }
    }

    /// When a document, or something that lies beside it, was last changed; none where there is nothing.
    pub fn changed_at(&self, place: &str) -> Option<Timestamp> {
        let path = self.path(place).ok()?;
        let entries = fs::read_dir(path.parent()?).ok()?.flatten();
        let shown = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let files = shown.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
        let times = files.filter_map(|meta| meta.modified().ok());
        Timestamp::try_from(times.max()?).ok()
    }

    /// The order of some places of documents, the one first where something was changed last. Of very
    /// many, the older ones may be in a coarser order.
    pub fn latest_first(&self, places: &[&str]) -> Vec<usize> {
        // The document tells of most changes; where there is none, its folder does.
        let coarse = |place: &str| {
            let path = self.root.join(place);
            let meta = path
                .symlink_metadata()
                .or_else(|error| path.parent().ok_or(error).and_then(Path::symlink_metadata));
            meta.and_then(|meta| meta.modified()).ok()
        };
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_cached_key(|index| Reverse(coarse(places[*index])));
        let few = order.len().min(MAX_EXACT);
        order[..few].sort_by_cached_key(|index| Reverse(self.changed_at(places[*index])));
        order
    }
}

/// The entries of a folder, in its own order, without a copy of each.
#[cfg(target_os = "linux")]
struct Entries<'r>(rustix::fs::RawDir<'r, BorrowedFd<'r>>);

#[cfg(target_os = "linux")]
impl<'r> Entries<'r> {
    fn room() -> Vec<u8> {
        Vec::with_capacity(32 << 10)
    }

    fn of(folder: BorrowedFd<'r>, room: &'r mut Vec<u8>) -> Entries<'r> {
        // It may have been gone through before.
        let _ = rustix::fs::seek(folder, rustix::fs::SeekFrom::Start(0));
        Entries(rustix::fs::RawDir::new(folder, room.spare_capacity_mut()))
    }

    fn next(&mut self) -> Option<rustix::fs::RawDirEntry<'_>> {
        self.0.next()?.ok()
    }
}

/// The entries of a folder, in its own order.
#[cfg(not(target_os = "linux"))]
struct Entries(Option<rustix::fs::Dir>);

#[cfg(not(target_os = "linux"))]
impl Entries {
    fn room() {}

    fn of(folder: BorrowedFd, (): &mut ()) -> Entries {
        let _ = rustix::fs::seek(folder, rustix::fs::SeekFrom::Start(0));
        Entries(rustix::fs::Dir::read_from(folder).ok())
    }

    fn next(&mut self) -> Option<rustix::fs::DirEntry> {
        self.0.as_mut()?.read()?.ok()
    }
}

/// What tells a version of a file from another: its number, its size, and the time of its last change, which
/// nobody can set back; zero where there is none. `path` is only room for its name.
#[inline]
fn fingerprint(folder: BorrowedFd, name: &CStr, rest: &str, path: &mut Vec<u8>) -> Print {
    let mut name = name;
    if !rest.is_empty() {
        path.clear();
        path.extend_from_slice(name.to_bytes());
        path.push(b'/');
        path.extend_from_slice(rest.as_bytes());
        path.push(0);
        let Ok(whole) = CStr::from_bytes_with_nul(path) else { return 0 };
        name = whole;
    }
    let Ok(stat) = statat(folder, name, AtFlags::empty()) else { return 0 };
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "only compared")]
    let time = (stat.st_ctime as u64) ^ (stat.st_ctime_nsec as u64).rotate_left(34);
    let file = stat.st_ino ^ stat.st_size.cast_unsigned().rotate_left(32);
    let print = file.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ time;
    print.max(1)
}
