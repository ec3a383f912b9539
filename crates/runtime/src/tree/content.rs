//! What a tree is known by: the content of every file that git does not ignore, committed or not. Without
//! git, of every file. It has the name that git would give to a tree of these files as they are, without what
//! filters make of them; the files of a repository in the repository are files like all others.
//!
//! Contents count, not what an index or a clock says about them: anyone who can mark a file as unchanged, or set
//! its time back, must not keep an old result alive. To be fast, the digest of a file is remembered with the
//! file's number, size and times, of which the time of its last change (`ctime`) is the kernel's and cannot
//! be set. Where a file was changed so lately that another change could bear the same time, its digest is not
//! remembered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use phasegate_engine::digest::digest_of;
use phasegate_engine::glob;
use sha1_smol::{Digest, Sha1};

use super::Apart;
use crate::git;
use crate::outside::{self, MAX_RECORD};
use crate::paths::{self, Walk};

/// How long a file must have been left alone before its times tell that it is the same.
const SETTLED: i128 = 2_000_000_000;

/// How much of a file is read at once.
const PIECE: usize = 1 << 20;

/// How many threads look at files, and how many files are worth one.
const MAX_THREADS: usize = 8;
const MIN_SHARE: usize = 1_000;

/// How many files are named that cannot be read.
const MAX_NAMED: usize = 3;

/// The content of a tree, or of some of its files.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// What it is known by.
    pub(crate) name: String,
    /// What it is without, and why.
    pub(crate) note: Option<String>,
}

/// A look at a tree: which files it has. What is in them is read once it is asked for.
#[derive(Debug)]
pub(crate) struct Look {
    root: PathBuf,
    /// Where the digests of files are remembered.
    memory: PathBuf,
    paths: Vec<String>,
    apart: Apart,
    /// What the tree's name must tell and git's would not.
    beside: Vec<String>,
    notes: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    memory: Memory,
    /// What was asked for, by the patterns of the files.
    contents: BTreeMap<Vec<String>, Content>,
}

impl Look {
    /// Looks at the tree at `root`, without what is apart from it; in the place of an earlier look, if there is one.
    ///
    /// # Errors
    /// Where its files cannot be listed.
    pub(super) fn new(
        root: &Path,
        memory: &Path,
        apart: &Apart,
        before: Option<&Look>,
    ) -> Result<Look, String> {
        let (mut notes, mut beside) = (Vec::new(), Vec::new());
        let all = || Walk::new(root).files("**").map_err(|why| why.to_string());
        let mut paths = match git::files(root) {
            Ok(Some(files)) => {
                beside.extend(files.ignoring);
                notes.extend(files.notes);
                files.paths
            }
            Ok(None) => all()?,
            Err(why) => {
                notes.push(format!(
                    "ignored files are a part of it, since git cannot list it ({why})"
                ));
                all()?
            }
        };
        let patterns = Patterns::new(&apart.patterns);
        let only = Patterns::new(&apart.only);
        let is_meant = |path: &str| apart.only.is_empty() || only.fit(path);
        paths
            .retain(|path| is_meant(path) && !patterns.fit(path) && !apart.has_written(root, path));
        // To read the digests of a large tree takes as long as to ask git for its files.
        let before = before.filter(|before| before.memory == memory);
        let digests = before.map_or_else(|| Memory::read(memory), Look::hand_over);
        let known = Known { memory: digests, contents: BTreeMap::new() };
        let (root, memory) = (root.to_path_buf(), memory.to_path_buf());
        let apart = apart.clone();
        Ok(Look { root, memory, paths, apart, beside, notes, known: Mutex::new(known) })
    }

    /// The digests that it knows, for a later look that takes its place.
    fn hand_over(&self) -> Memory {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut known.memory)
    }

    /// The content of the files that match one of some patterns; of all files where there are none. Patterns
    /// that match no file would make a result that holds forever, so that they mean all files, too.
    pub(crate) fn content(&self, inputs: &[String]) -> Content {
        // A poisoned lock guards a memory, of which nothing is lost but time.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = known.contents.get(inputs) {
            return content.clone();
        }
        let patterns = Patterns::new(inputs);
        let is_meant = |path: &&String| inputs.is_empty() || patterns.fit(path);
        let mut meant: Vec<&String> = self.paths.iter().filter(is_meant).collect();
        let mut notes = self.notes.clone();
        if meant.is_empty() && !inputs.is_empty() {
            let named = inputs.join(", ");
            notes.push(format!("no file matches the inputs {named}, so that all files count"));
            meant = self.paths.iter().collect();
        }
        let content = self.digest(&meant, &mut known.memory, notes);
        known.contents.insert(inputs.to_vec(), content.clone());
        content
    }

    /// All files, and these, whether git ignores them or not.
    pub(super) fn files(&self, named: &[String]) -> Folder {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let patterns = Patterns::new(&self.apart.patterns);
        let is_part = |path: &&String| {
            paths::inside(&self.root, path).is_ok()
                && !patterns.fit(path)
                && !self.apart.has_written(&self.root, path)
        };
        let all: Vec<&String> = self.paths.iter().chain(named.iter().filter(is_part)).collect();
        let files = self.gather(&all, &mut known.memory).0;
        known.memory.keep(&self.memory, &self.paths);
        files
    }

    /// Files as they are, and the unreadable ones: the path, what is known of it, and why.
    fn gather(&self, paths: &[&String], memory: &mut Memory) -> (Folder, Vec<Unread>) {
        let (mut files, mut unread) = (Folder::default(), Vec::new());
        for (path, read) in paths.iter().zip(self.read(paths, memory)) {
            match read {
                Ok(Some(Seen { mode, digest, settled })) => {
                    files.add(path, mode, digest);
                    if let Some(mark) = settled {
                        memory.learn(path, mark, digest);
                    }
                }
                Ok(None) => {}
                Err((mark, error)) => unread.push(((*path).clone(), mark, error)),
            }
        }
        (files, unread)
    }

    /// What is at each path. Most of the time goes by in the kernel, and its processors share that.
    fn read(
        &self,
        paths: &[&String],
        memory: &Memory,
    ) -> Vec<Result<Option<Seen>, (Mark, io::Error)>> {
        let read = |paths: &[&String]| -> Vec<_> {
            paths.iter().map(|path| memory.content(&self.root, path)).collect()
        };
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let each = paths.len().div_ceil(most).max(MIN_SHARE);
        if paths.len() <= each {
            return read(paths);
        }
        std::thread::scope(|scope| {
            let shares: Vec<_> =
                paths.chunks(each).map(|share| (share, scope.spawn(|| read(share)))).collect();
            // A thread that cannot go on leaves its share to this one.
            let all = shares.into_iter().map(|(share, thread)| match thread.join() {
                Ok(share) => share,
                Err(_) => read(share),
            });
            all.flatten().collect()
        })
    }

    fn digest(&self, paths: &[&String], memory: &mut Memory, mut notes: Vec<String>) -> Content {
        let (files, unread) = self.gather(paths, memory);
        let mut beside = self.beside.clone();
        beside.extend(unread.iter().map(|(path, mark, _)| format!("{path} {mark:?}")));
        let mut unread: Vec<String> =
            unread.iter().map(|(path, _, error)| format!("{path} ({error})")).collect();
        memory.keep(&self.memory, &self.paths);
        if !unread.is_empty() {
            let more = unread.len().saturating_sub(MAX_NAMED);
            unread.truncate(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!(
                "what cannot be read is not a part of it: {}{more}",
                unread.join(", ")
            ));
        }
        let mut name = files.digest().to_string();
        if !beside.is_empty() {
            let all = [&name].into_iter().chain(&beside).map(String::as_bytes);
            name = digest_of(all);
            name.truncate(40);
        }
        Content { name, note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }

    /// Whether a file of the tree matches a pattern.
    pub(crate) fn has(&self, pattern: &str) -> bool {
        let pattern = [pattern.to_string()];
        let pattern = Patterns::new(&pattern);
        self.paths.iter().any(|path| pattern.fit(path))
    }

    /// Everything that was asked for, by the patterns of the files.
    pub(super) fn contents(&self) -> BTreeMap<Vec<String>, Content> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contents.clone()
    }
}

/// Patterns of paths. Most paths differ from most patterns in their beginning, which is cheap to see.
struct Patterns<'p>(Vec<(&'p str, &'p String)>);

impl Patterns<'_> {
    fn new(patterns: &[String]) -> Patterns<'_> {
        Patterns(patterns.iter().map(|it| (glob::fixed_prefix(it), it)).collect())
    }

    fn fit(&self, path: &str) -> bool {
        let fits = |(prefix, pattern): &(&str, &String)| {
            path.starts_with(prefix) && glob::matches(pattern, path)
        };
        self.0.iter().any(fits)
    }
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

/// A file that cannot be read, what is known of it, and why.
type Unread = (String, Mark, io::Error);

/// What was found at a path.
struct Seen {
    mode: &'static str,
    digest: Digest,
    /// What it can be known by from now on; none where it is known already, or was changed too lately.
    settled: Option<Mark>,
}

/// The digests of files, by path.
#[derive(Debug, Default)]
struct Memory {
    known: HashMap<String, (Mark, Digest)>,
    /// It is not what was remembered.
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
        Memory { known: known.collect(), is_new: false }
    }

    /// What is at a path, as git records it: its mode and its digest; none where that is nothing. Where it
    /// cannot be read, what is known of it and why.
    fn content(&self, root: &Path, path: &str) -> Result<Option<Seen>, (Mark, io::Error)> {
        let full = root.join(path);
        let Ok(meta) = full.symlink_metadata() else { return Ok(None) };
        let mark = mark(&meta);
        if meta.is_symlink() {
            let target = fs::read_link(&full).map_err(|error| (mark, error))?;
            let target = target.as_os_str().as_encoded_bytes();
            let digest = object("blob", target.len() as u64, target);
            return Ok(Some(Seen { mode: "120000", digest, settled: None }));
        }
        if !meta.is_file() {
            return Ok(None);
        }
        let mode = if meta.mode() & 0o100 == 0 { "100644" } else { "100755" };
        if let Some((_, digest)) = self.known.get(path).filter(|(known, _)| *known == mark) {
            return Ok(Some(Seen { mode, digest: *digest, settled: None }));
        }
        let (digest, before) = hash(&full).map_err(|error| (mark, error))?;
        // What was read is what the mark is about, unless it changed in between.
        let is_settled = before == mark && mark.2.max(mark.3) + SETTLED < now();
        Ok(Some(Seen { mode, digest, settled: is_settled.then_some(mark) }))
    }

    /// Remembers what was read.
    fn learn(&mut self, path: &str, mark: Mark, digest: Digest) {
        self.known.insert(path.to_string(), (mark, digest));
        self.is_new = true;
    }

    /// Remembers it, without files that are no longer there. What is lost of it costs only time.
    fn keep(&mut self, place: &Path, paths: &[String]) {
        if !self.is_new {
            return;
        }
        if self.known.len() > paths.len() {
            let there: HashSet<&String> = paths.iter().collect();
            self.known.retain(|path, _| there.contains(path));
        }
        self.is_new = false;
        let mut text = String::with_capacity(self.known.len() * 128);
        for (path, ((number, size, modified, changed), digest)) in &self.known {
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
