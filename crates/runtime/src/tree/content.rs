//! What a tree is known by: the content of every file that git does not ignore, committed or not. Without
//! git, of every file. It has the name that git would give to a tree of these files as they are, without what
//! filters make of them; the files of a repository in the repository are files like all others.
//!
//! Contents count, not what an index or a clock says about them: anyone who can mark a file as unchanged, or set
//! its time back, must not keep an old result alive. To be fast, the digest of a file is remembered with the
//! file's number, size and times, of which the time of its last change (`ctime`) is the kernel's and cannot
//! be set. Where a file was changed so lately that another change could bear the same time, its digest is not
//! remembered.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use phasegate_engine::digest::digest_of;
use phasegate_engine::glob;
use sha1_smol::{Digest, Sha1};

use crate::git;
use crate::outside::{self, MAX_RECORD};
use crate::paths::{self, Walk};

/// How long a file must have been left alone before its times tell that it is the same.
const SETTLED: i128 = 2_000_000_000;

/// How much of a file is read at once.
const PIECE: usize = 1 << 20;

/// How many files are named that cannot be read.
const MAX_NAMED: usize = 3;

/// The content of a tree as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// What it is known by.
    pub(crate) name: String,
    /// What it is without, and why.
    pub(crate) note: Option<String>,
}

/// The tree of the project at `root`, without the files that match a pattern in `apart`, and of those in `only`
/// alone where there are some. What is remembered
/// of it is kept in `memory`.
///
/// # Errors
/// Where its files cannot be listed.
pub(crate) fn look(
    root: &Path,
    memory: &Path,
    (apart, only): (&[String], &[String]),
) -> Result<Content, String> {
    let Gathered { files, beside, notes } = gather(root, memory, (apart, only), &[])?;
    let mut name = files.digest().to_string();
    if !beside.is_empty() {
        let all = [&name].into_iter().chain(&beside).map(String::as_bytes);
        name = digest_of(all);
        name.truncate(40);
    }
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Content { name, note })
}

/// The files of a tree, and what is to be known about them.
pub(super) struct Gathered {
    pub(super) files: Folder,
    /// What the tree's name must tell and git's would not.
    beside: Vec<String>,
    notes: Vec<String>,
}

/// Looks at every file of the tree, as [`look`] does, and at these, whether git ignores them or not.
///
/// # Errors
/// Where its files cannot be listed.
pub(super) fn gather(
    root: &Path,
    memory: &Path,
    (apart, only): (&[String], &[String]),
    named: &[String],
) -> Result<Gathered, String> {
    let mut notes: Vec<String> = Vec::new();
    let mut beside: Vec<String> = Vec::new();
    let all = || Walk::new(root).files("**").map_err(|why| why.to_string());
    let listed = match git::files(root) {
        Ok(Some(files)) => {
            beside.extend(files.ignoring);
            notes.extend(files.notes);
            files.paths
        }
        Ok(None) => all()?,
        Err(why) => {
            notes.push(format!("ignored files are a part of it, since git cannot list it ({why})"));
            all()?
        }
    };
    let prefixes: Vec<(&str, &String)> =
        apart.iter().map(|pattern| (glob::fixed_prefix(pattern), pattern)).collect();
    let is_apart = |path: &str| {
        let fits = |(prefix, pattern): &(&str, &String)| {
            path.starts_with(prefix) && glob::matches(pattern, path)
        };
        prefixes.iter().any(fits)
    };
    let mut known = Memory::read(memory);
    let (mut files, mut unread) = (Folder::default(), Vec::new());
    let named = named.iter().filter(|path| paths::inside(root, path).is_ok());
    for path in listed.iter().chain(named).filter(|path| !is_apart(path)) {
        match known.content(root, path) {
            // Looked at all the same: the memory is that of all trees of this folder.
            _ if !only.is_empty() && !only.iter().any(|it| glob::matches(it, path)) => {}
            Ok(Some((mode, digest))) => files.add(path, mode, digest),
            Ok(None) => {}
            Err((mark, error)) => {
                beside.push(format!("{path} {mark:?}"));
                unread.push(format!("{path} ({error})"));
            }
        }
    }
    known.keep(memory);
    if !unread.is_empty() {
        let more = unread.len().saturating_sub(MAX_NAMED);
        unread.truncate(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("what cannot be read is not a part of it: {}{more}", unread.join(", ")));
    }
    Ok(Gathered { files, beside, notes })
}

/// A folder as git records it.
#[derive(Default)]
pub(super) struct Folder {
    files: BTreeMap<String, (&'static str, Digest)>,
    folders: BTreeMap<String, Folder>,
}

impl Folder {
    fn add(&mut self, path: &str, mode: &'static str, digest: Digest) {
        match path.split_once('/') {
            Some((folder, rest)) => match self.folders.get_mut(folder) {
                Some(folder) => folder.add(rest, mode, digest),
                None => self.folders.entry(folder.into()).or_default().add(rest, mode, digest),
            },
            None => {
                self.files.insert(path.to_string(), (mode, digest));
            }
        }
    }

    /// The path of every file, with its mode and its digest.
    pub(super) fn entries(&self) -> Vec<(String, &'static str, Digest)> {
        let files = self.files.iter().map(|(name, (mode, digest))| (name.clone(), *mode, *digest));
        let below = self.folders.iter().flat_map(|(folder, inner)| {
            let entries = inner.entries().into_iter();
            entries.map(move |(name, mode, digest)| (format!("{folder}/{name}"), mode, digest))
        });
        files.chain(below).collect()
    }

    pub(super) fn digest(&self) -> Digest {
        let files = self.files.iter().map(|(name, (mode, digest))| (name.clone(), *mode, *digest));
        // Git sorts a folder as if its name ended with a slash.
        let folders = self.folders.iter();
        let folders = folders.map(|(name, folder)| (format!("{name}/"), "40000", folder.digest()));
        let mut entries: Vec<(String, &str, Digest)> = files.chain(folders).collect();
        entries.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        let mut body = Vec::new();
        for (name, mode, digest) in entries {
            let name = name.trim_end_matches('/');
            body.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            body.extend_from_slice(&digest.bytes());
        }
        object("tree", body.len() as u64, &body)
    }
}

/// The name that git gives to an object.
fn object(kind: &str, size: u64, body: &[u8]) -> Digest {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {size}\0").as_bytes());
    hash.update(body);
    hash.digest()
}

/// What tells one state of a file from another: its number, size, and times.
type Mark = (u64, u64, i128, i128);

/// The mode and the digest of a file.
type Entry = (&'static str, Digest);

/// The digests of files, by path.
#[derive(Default)]
struct Memory {
    known: HashMap<String, (Mark, Digest)>,
    /// The files that were asked about, as they are now.
    now: HashMap<String, (Mark, Digest)>,
    /// Something is not as it was.
    is_new: bool,
}

impl Memory {
    fn read(place: &Path) -> Memory {
        let text = outside::read_text(&file(place), MAX_RECORD).unwrap_or_default();
        let known = text.split_terminator('\0').filter_map(|entry| {
            let mut parts = entry.splitn(6, ' ');
            let mut next = || parts.next();
            let digest = next()?.parse().ok()?;
            let mark =
                (next()?.parse().ok()?, next()?.parse().ok()?, time(next()?)?, time(next()?)?);
            Some((next()?.to_string(), (mark, digest)))
        });
        Memory { known: known.collect(), ..Memory::default() }
    }

    /// What is at a path, as git records it: its mode and its digest; none where that is nothing. Where it
    /// cannot be read, what is known of it and why.
    fn content(&mut self, root: &Path, path: &str) -> Result<Option<Entry>, (Mark, io::Error)> {
        let full = root.join(path);
        let Ok(meta) = full.symlink_metadata() else { return Ok(None) };
        let mark = mark(&meta);
        if meta.is_symlink() {
            let target = fs::read_link(&full).map_err(|error| (mark, error))?;
            let target = target.as_os_str().as_encoded_bytes();
            return Ok(Some(("120000", object("blob", target.len() as u64, target))));
        }
        if !meta.is_file() {
            return Ok(None);
        }
        let mode = if meta.mode() & 0o100 == 0 { "100644" } else { "100755" };
        if let Some((_, digest)) = self.known.get(path).filter(|(known, _)| *known == mark) {
            self.now.insert(path.to_string(), (mark, *digest));
            return Ok(Some((mode, *digest)));
        }
        self.is_new = true;
        let (digest, before) = hash(&full).map_err(|error| (mark, error))?;
        // What was read is what the mark is about, unless it changed in between.
        if before == mark && mark.2.max(mark.3) + SETTLED < now() {
            self.now.insert(path.to_string(), (mark, digest));
        }
        Ok(Some((mode, digest)))
    }

    /// Remembers it. What is lost of it costs only time.
    fn keep(&self, place: &Path) {
        if !self.is_new && self.now.len() == self.known.len() {
            return;
        }
        let mut text = String::new();
        for (path, ((number, size, modified, changed), digest)) in &self.now {
            let _ = write!(text, "{digest} {number} {size} {modified} {changed} {path}\0");
        }
        // A name of its own: several processes may look at once.
        let new = place.join(format!("files.{}", std::process::id()));
        let kept = fs::create_dir_all(place)
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, file(place)));
        if kept.is_err() {
            let _ = fs::remove_file(new);
        }
    }
}

fn file(place: &Path) -> PathBuf {
    place.join("files")
}

fn time(text: &str) -> Option<i128> {
    text.parse().ok()
}

fn mark(meta: &Metadata) -> Mark {
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    let modified = nanoseconds(meta.mtime(), meta.mtime_nsec());
    let changed = nanoseconds(meta.ctime(), meta.ctime_nsec());
    (meta.ino(), meta.len(), modified, changed)
}

fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(0)
}

/// The digest of a file, piece by piece, and its mark when that began.
fn hash(path: &Path) -> io::Result<(Digest, Mark)> {
    let (mut file, meta) = outside::open(path)?;
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", meta.len()).as_bytes());
    let mut piece = vec![0; PIECE.min(usize::try_from(meta.len()).unwrap_or(PIECE) + 1)];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((hash.digest(), mark(&meta))),
            read => hash.update(&piece[..read]),
        }
    }
}
