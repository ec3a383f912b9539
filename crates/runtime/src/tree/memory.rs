//! What is remembered of files: their digests, each with what tells that state of the file from any other.
//!
//! To ask the file system about every file of a large tree takes longer than everything else, so processors
//! share that, and it can be done in advance, while git lists the files.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use sha1::Digest;

use super::presence::{Asker, Mark, Present};
use crate::git::Paths;
use crate::git::names::{Mode, Name, header, name, object};
use crate::outside::{self, MAX_RECORD};

/// How long a file must have been left alone before its times tell that it is the same, in nanoseconds.
const SETTLED: i64 = 2_000_000_000;

/// How much of a file is read at once.
const PIECE: usize = 1 << 20;

/// How many threads look at files, and how many files are worth one.
const MAX_THREADS: usize = 8;
const MIN_SHARE: usize = 1_000;

/// At least so many bytes are written for a file that is remembered, and seldom many more.
const LENGTH: u64 = 60;

/// How many bytes could be read in the time that it takes to open a file.
const OPENING: u64 = 4096;

/// A file or a link as it is.
pub(super) type File = (Mode, Name);

/// What was found at some paths.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What is at each of them, if anything is that can be read.
    pub(super) files: Vec<Option<File>>,
    /// What those that were read can be known by from now on; others were changed too lately.
    settled: Vec<(usize, Mark)>,
    /// Those that cannot be read, what is known of them, and why.
    pub(super) unread: Vec<(usize, Mark, io::Error)>,
}

/// The digests of files.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Has the paths: those of a large tree are too many to be kept one by one.
    text: Vec<u8>,
    /// Sorted by path, as the files of a tree are, so that the two are gone through side by side.
    known: Vec<Known>,
    /// What it cost to learn what was not remembered, in bytes.
    learned: u64,
}

#[derive(Debug)]
struct Known {
    /// From where to where its path stands.
    place: (usize, usize),
    mark: Mark,
    digest: Name,
    /// What the file system says now, where it was asked in advance.
    now: Present,
}

impl Memory {
    pub(super) fn read(place: &Path) -> Memory {
        let text = outside::read(&file(place), MAX_RECORD).unwrap_or_default();
        let mut left = text.as_slice();
        let mut known: Vec<Known> =
            std::iter::from_fn(|| Known::read(&mut left, text.len())).collect();
        if !known.is_sorted_by(|a, b| a.path(&text) < b.path(&text)) {
            known.clear();
        }
        Memory { text, known, learned: 0 }
    }

    /// Whether so much is remembered that it pays to ask about it in advance.
    pub(super) fn is_large(place: &Path) -> bool {
        let length = file(place).metadata().map_or(0, |meta| meta.len());
        length / LENGTH > MIN_SHARE as u64
    }

    /// Forgets what the file system said: that may have changed.
    pub(super) fn forget_the_present(&mut self) {
        self.known.iter_mut().for_each(|known| known.now = Present::NotAsked);
    }

    /// Asks the file system about every file that is remembered.
    pub(super) fn ask_in_advance(&mut self, root: &Path) {
        let text = &self.text;
        in_shares(&mut self.known, |_, share| {
            let mut asker = Asker::new(root);
            for known in share {
                known.now = asker.ask(known.path(text));
            }
        });
    }

    /// What is at each of some paths, which are sorted.
    pub(super) fn look(&self, root: &Path, paths: &[&str]) -> Seen {
        let mut files = vec![None; paths.len()];
        let beside = Mutex::new(Seen::default());
        in_shares(&mut files, |start, share| {
            let mut own = Seen::default();
            let mut asker = Asker::new(root);
            let first = paths[start].as_bytes();
            let mut at = self.known.partition_point(|known| known.path(&self.text) < first);
            for (index, file) in (start..).zip(share) {
                let path = paths[index].as_bytes();
                let rest = self.known[at..].iter();
                at += rest.take_while(|known| known.path(&self.text) < path).count();
                let known = self.known.get(at).filter(|known| known.path(&self.text) == path);
                match content(root, &mut asker, path, known) {
                    Ok(Found::Nothing) => {}
                    Ok(Found::Known(known)) => *file = Some(known),
                    Ok(Found::Read(read, settled)) => {
                        *file = Some(read);
                        own.settled.extend(settled.map(|mark| (index, mark)));
                    }
                    Err((mark, error)) => own.unread.push((index, mark, error)),
                }
            }
            let mut beside = beside.lock().unwrap_or_else(PoisonError::into_inner);
            beside.settled.append(&mut own.settled);
            beside.unread.append(&mut own.unread);
        });
        let beside = beside.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Seen { files, ..beside };
        seen.settled.sort_unstable_by_key(|(index, _)| *index);
        seen.unread.sort_unstable_by_key(|(index, ..)| *index);
        seen
    }

    /// Remembers what was found at some paths, which are sorted.
    pub(super) fn learn(&mut self, paths: &[&str], seen: &Seen) {
        for (index, mark) in &seen.settled {
            let Some((_, digest)) = seen.files[*index] else { continue };
            let from = self.text.len();
            self.text.extend_from_slice(paths[*index].as_bytes());
            self.learned += mark.size + OPENING;
            let place = (from, self.text.len());
            self.known.push(Known { place, mark: *mark, digest, now: Present::NotAsked });
        }
        if !seen.settled.is_empty() {
            let text = &self.text;
            // What is new comes after what was known of the same path, and counts.
            self.known.sort_by(|a, b| a.path(text).cmp(b.path(text)));
            self.known.dedup_by(|new, old| {
                let is_again = new.path(text) == old.path(text);
                if is_again {
                    std::mem::swap(new, old);
                }
                is_again
            });
        }
    }

    /// Keeps it for later, without files that are no longer there. Writing all of it after a few small
    /// changes would cost more than it saves. What is lost of it costs only time.
    pub(super) fn keep(&mut self, place: &Path, paths: &Paths) {
        if self.learned < self.known.len() as u64 * LENGTH || self.learned == 0 {
            return;
        }
        self.learned = 0;
        if self.known.len() > paths.len() {
            self.known.retain(|known| paths.has(known.path(&self.text)));
        }
        let mut bytes = Vec::new();
        self.known.iter().for_each(|known| known.write(&self.text, &mut bytes));
        // A name of its own: several processes may look at once.
        let new = place.join(format!("digests.{}", std::process::id()));
        let kept = fs::create_dir_all(place)
            .and_then(|()| fs::write(&new, bytes))
            .and_then(|()| fs::rename(&new, file(place)));
        if kept.is_err() {
            let _ = fs::remove_file(new);
        }
    }
}

impl Known {
    fn path<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.place.0..self.place.1]
    }

    /// The next of those that were kept, with what is left of a text of some length. Digest and numbers stand in so
    /// many bytes, the path behind its length.
    fn read(left: &mut &[u8], whole: usize) -> Option<Known> {
        let digest = Name(*taken(left)?);
        let mut number = || taken(left).map(|bytes| u64::from_le_bytes(*bytes));
        let (number, size) = (number()?, number()?);
        let mut time = || taken(left).map(|bytes| i64::from_le_bytes(*bytes));
        let (modified, changed) = (time()?, time()?);
        let length = usize::try_from(u32::from_le_bytes(*taken(left)?)).ok()?;
        let (path, rest) = left.split_at_checked(length)?;
        let end = whole - rest.len();
        *left = rest;
        let mark = Mark { number, size, modified, changed };
        Some(Known { place: (end - path.len(), end), mark, digest, now: Present::NotAsked })
    }

    fn write(&self, text: &[u8], bytes: &mut Vec<u8>) {
        let Known { mark, digest, .. } = self;
        let path = self.path(text);
        let Ok(length) = u32::try_from(path.len()) else { return };
        bytes.extend_from_slice(&digest.0);
        bytes.extend_from_slice(&mark.number.to_le_bytes());
        bytes.extend_from_slice(&mark.size.to_le_bytes());
        bytes.extend_from_slice(&mark.modified.to_le_bytes());
        bytes.extend_from_slice(&mark.changed.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(path);
    }
}

/// The first so many bytes of what is left.
fn taken<'b, const COUNT: usize>(left: &mut &'b [u8]) -> Option<&'b [u8; COUNT]> {
    let (first, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(first)
}

/// Where it is kept. Under `files` earlier versions kept the same in another form.
fn file(place: &Path) -> PathBuf {
    place.join("digests")
}

/// Does some work on everything, which the processors share where it is much. The work is told where its share
/// begins.
fn in_shares<T: Send>(all: &mut [T], work: impl Fn(usize, &mut [T]) + Sync) {
    let most = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let each = all.len().div_ceil(most).max(MIN_SHARE);
    if all.is_empty() {
        return;
    }
    if all.len() <= each {
        return work(0, all);
    }
    let work = &work;
    std::thread::scope(|scope| {
        for (number, share) in all.chunks_mut(each).enumerate() {
            scope.spawn(move || work(number * each, share));
        }
    });
}

/// What was found at a path.
enum Found {
    Nothing,
    Known(File),
    /// With what it can be known by from now on, unless it was changed too lately.
    Read(File, Option<Mark>),
}

/// What is at a path, as git records it; or what is known of it and why it cannot be read.
fn content(
    root: &Path,
    asker: &mut Asker,
    path: &[u8],
    known: Option<&Known>,
) -> Result<Found, (Mark, io::Error)> {
    let there = match known.map_or(Present::NotAsked, |known| known.now) {
        Present::NotAsked => asker.ask(path),
        asked => asked,
    };
    let Present::Something(mark, mode) = there else { return Ok(Found::Nothing) };
    if let Some(known) = known.filter(|known| known.mark == mark && mode != Mode::Link) {
        return Ok(Found::Known((mode, known.digest)));
    }
    let full = root.join(OsStr::from_bytes(path));
    if mode == Mode::Link {
        let target = fs::read_link(full).map_err(|error| (mark, error))?;
        let digest = object("blob", target.as_os_str().as_encoded_bytes());
        return Ok(Found::Read((mode, digest), None));
    }
    let (digest, before) = hash(&full).map_err(|error| (mark, error))?;
    // What was read is what the mark is about, unless it changed in between.
    let is_settled =
        before == mark && mark.modified.max(mark.changed).saturating_add(SETTLED) < now();
    Ok(Found::Read((mode, digest), is_settled.then_some(mark)))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The digest of a file, piece by piece, and its mark when that began.
fn hash(path: &Path) -> io::Result<(Name, Mark)> {
    let (mut file, meta) = outside::open(path)?;
    let mut hash = header("blob", meta.len());
    let mut piece = vec![0; PIECE.min(usize::try_from(meta.len()).unwrap_or(PIECE) + 1)];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((name(hash), Mark::of(&meta))),
            read => hash.update(&piece[..read]),
        }
    }
}
