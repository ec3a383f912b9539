//! The store on a single machine: files under the project, and the kernel's locks.
//!
//! Kernel locks die with their holder, so no lock outlives a killed process. A value is replaced by
//! writing a temporary file beside it, flushing it to the disk, and exchanging it with the old one:
//! whoever reads sees the old or the new whole.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::evidence::NoEvidence;
use phasegate_engine::functions::{filename, from_filename};
use phasegate_engine::glob;
use phasegate_engine::json::Json;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::fault_point;
use crate::frontmatter;
use crate::paths::{Walk, ignored_by_git, inside};
use crate::place::Place;
use crate::run::RunId;
use crate::store::{Key, Lease, Prepared, Store, StoreError, Stored, Version};
use crate::topics;

/// How long a hook waits for others on the same run before it gives up, loudly.
const PATIENCE: Duration = Duration::from_secs(20);

/// A state document larger than this is refused.
const MOST_BYTES: u64 = 256 << 20;

/// A workflow's list of runs that have ended.
const ENDED: &str = ".ended";

/// Of how many folders every file is looked at, to find the one that was changed last.
const MOST_EXACT: usize = 16;

/// How much of a journal's end is searched for its last line at first.
const TAIL: u64 = 64 << 10;

/// Where the runs of a project are kept.
const RUNS: &str = ".phasegate/runs";

/// A store in a project's folder.
#[derive(Clone, Debug)]
pub struct FileStore {
    root: PathBuf,
    /// Folders of runs that are known to be in the project.
    folders: RefCell<HashMap<RunId, PathBuf>>,
    /// Of each workflow, the runs that have ended, and in which version.
    ended: RefCell<HashMap<String, HashMap<String, String>>>,
}

/// A new value in a temporary file beside the old one.
struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    expected: Option<Version>,
    version: Version,
}

impl Prepared for NewFile {
    fn version(&self) -> Version {
        self.version.clone()
    }

    fn put(self: Box<Self>) -> Result<(), StoreError> {
        let NewFile { path, temporary, expected, .. } = &*self;
        let replaced = replace(temporary, path, expected.as_ref());
        if !replaced.map_err(failed("replace", path))? {
            return Err(StoreError::Conflict(path.display().to_string()));
        }
        sync_folder(path).map_err(failed("flush the folder of", path))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A new message of a topic, which is the topic's value once it is posted.
struct NewMessage {
    folder: PathBuf,
    topic: String,
    expected: Option<Version>,
    id: String,
    body: String,
}

impl Prepared for NewMessage {
    fn version(&self) -> Version {
        Version(self.id.clone())
    }

    fn put(self: Box<Self>) -> Result<(), StoreError> {
        let NewMessage { folder, topic, expected, id, body } = &*self;
        let expected = expected.as_ref().map(|version| version.0.as_str());
        let posted = topics::post(folder, topic, expected, id, body);
        if !posted.map_err(failed("write", folder))? {
            return Err(StoreError::Conflict(folder.display().to_string()));
        }
        Ok(())
    }
}

struct FileLease(
    #[expect(dead_code, reason = "held, not read: closing it releases the lock")] File,
);

impl Lease for FileLease {}

impl FileStore {
    /// The store of the project at `root`.
    pub fn new(root: &Path) -> FileStore {
        let (folders, ended) = (RefCell::default(), RefCell::default());
        FileStore { root: root.to_path_buf(), folders, ended }
    }

    /// A file of a run: its ledger, its journal, its lock. A link that leads out of the project is
    /// refused, since a cloned repository could bring one along.
    fn file(&self, run: &RunId, name: &str) -> Result<PathBuf, StoreError> {
        let allowed = |place: &str| {
            inside(&self.root, place).map_err(|why| StoreError::Refused(why.to_string()))
        };
        let place = || match (filename(&run.workflow), filename(&run.name)) {
            (workflow, run) if run.is_empty() => format!("{RUNS}/{workflow}"),
            (workflow, run) => format!("{RUNS}/{workflow}/{run}"),
        };
        let known = self.folders.borrow().get(run).cloned();
        let folder = match known {
            Some(folder) => folder,
            None => {
                let folder = allowed(&place())?;
                self.folders.borrow_mut().insert(run.clone(), folder.clone());
                folder
            }
        };
        let file = folder.join(name);
        if file.is_symlink() { allowed(&format!("{}/{name}", place())) } else { Ok(file) }
    }

    /// Whether nothing is at a place, told without following links: most workflows have no run.
    fn is_missing(&self, place: &str) -> bool {
        let found = self.root.join(place).symlink_metadata();
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Asks the list of a workflow's runs that have ended, which is read once.
    fn noted(&self, workflow: &str, ask: impl Fn(&HashMap<String, String>) -> bool) -> bool {
        let mut ended = self.ended.borrow_mut();
        let known = ended.entry(workflow.to_string()).or_insert_with(|| {
            let all = RunId { workflow: workflow.to_string(), name: String::new() };
            let text = self.file(&all, ENDED).ok().and_then(|path| fs::read_to_string(path).ok());
            let lines = text.unwrap_or_default();
            let pairs = lines.lines().filter_map(|line| line.split_once(' '));
            pairs.map(|(version, name)| (name.to_string(), version.to_string())).collect()
        });
        ask(known)
    }

    /// The file of a value; of a topic, its folder.
    fn path(&self, key: &Key) -> Result<PathBuf, StoreError> {
        match key {
            Key::Document(place) | Key::Text(place) => inside(&self.root, Place::of(place).path())
                .map_err(|why| StoreError::Refused(why.to_string())),
            Key::Ledger(run) => self.file(run, "run.json"),
            Key::OldLedger(run) => self.file(run, "ledger.json"),
            Key::Journal(run) => self.file(run, "journal.jsonl"),
            Key::Definition(run) => self.file(run, "definition.json"),
        }
    }
}

fn topic_of(key: &Key) -> Option<&str> {
    match key {
        Key::Document(place) | Key::Text(place) => match Place::of(place) {
            Place::Topic(_, topic) => Some(topic),
            _ => None,
        },
        _ => None,
    }
}

fn has_frontmatter(key: &Key) -> bool {
    matches!(key, Key::Document(place) if matches!(Place::of(place), Place::Frontmatter(_)))
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let what = format!("cannot {what} {}", path.display());
    move |source| StoreError::Io { what, source }
}

fn version(meta: &fs::Metadata) -> Version {
    Version(format!("{}:{}:{}.{}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

/// The temporary file for a value: one name only, so that a crash leaves one file at most, and the
/// next holder of the lease removes it.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.phasegate-tmp"))
}

/// Puts the new file in the place of the old one, unless that is no longer what was expected.
///
/// Agents and people edit documents without our lock. An edit between the look and the replacement
/// would be lost, so the two files are exchanged, and what came out is looked at once more.
fn replace(new: &Path, path: &Path, expected: Option<&Version>) -> io::Result<bool> {
    let is_expected = |path: &Path| {
        let now = fs::metadata(path).ok().map(|meta| version(&meta));
        now.as_ref() == expected
    };
    if !is_expected(path) {
        return Ok(false);
    }
    let flags = if expected.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, new, CWD, path, flags) {
        Ok(()) if expected.is_none() || is_expected(new) => Ok(true),
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

impl Store for FileStore {
    fn lease(&self, run: &RunId, document: &Key) -> Result<Box<dyn Lease>, StoreError> {
        let path = self.file(run, "lock")?;
        fault_point::reach("before-lock");
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
            ignored_by_git(&self.root.join(RUNS)).map_err(failed("write in", folder))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(failed("open", &path))?;
        let since = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy(run.clone(), PATIENCE.as_secs()));
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
            }
        }
        // Leftovers of a process that was killed: never renamed, so never valid.
        let own =
            ["run.json", "ledger.json", "definition.json"].map(|name| path.with_file_name(name));
        for value in own.into_iter().chain([self.path(document)?]) {
            let _ = fs::remove_file(temporary(&value.canonicalize().unwrap_or(value)));
        }
        Ok(Box::new(FileLease(file)))
    }

    fn runs(&self) -> Vec<RunId> {
        let folders = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
        };
        let name =
            |path: &Path| from_filename(&path.file_name().unwrap_or_default().to_string_lossy());
        let mut runs = Vec::new();
        for workflow in folders(&self.root.join(RUNS)) {
            for run in folders(&workflow) {
                if ["ledger.json", "journal.jsonl"].iter().any(|file| run.join(file).is_file()) {
                    runs.push(RunId { workflow: name(&workflow), name: name(&run) });
                }
            }
        }
        runs
    }

    fn documents(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        if let Place::Topic(..) = Place::of(pattern) {
            let known = self.version(&Key::Document(pattern.to_string()))?.is_some();
            return Ok(known.then(|| pattern.to_string()).into_iter().collect());
        }
        if self.is_missing(glob::fixed_prefix(pattern)) {
            return Ok(Vec::new());
        }
        let found = Walk::with_links_out(&self.root).files(pattern);
        found.map_err(|why| StoreError::Refused(why.to_string()))
    }

    fn places(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let refused = |why: NoEvidence| StoreError::Refused(why.to_string());
        let Some((folder, rest)) = pattern.split_once("/*/") else {
            return self.documents(pattern);
        };
        if self.is_missing(folder) {
            return Ok(Vec::new());
        }
        let full = inside(&self.root, folder).map_err(refused)?;
        let entries = fs::read_dir(full).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| {
            entry.file_type().is_ok_and(|kind| {
                let inside = || {
                    let place = format!("{folder}/{}", entry.file_name().to_string_lossy());
                    inside(&self.root, &place).is_ok_and(|path| path.is_dir())
                };
                kind.is_dir() || (kind.is_symlink() && inside())
            })
        };
        let folders = entries.filter(is_folder);
        let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| !name.starts_with('.'));
        let mut places: Vec<String> = names.map(|name| format!("{folder}/{name}/{rest}")).collect();
        places.sort();
        Ok(places)
    }

    fn changed_at(&self, place: &str) -> Option<Timestamp> {
        let path = self.path(&Key::Document(place.to_string())).ok()?;
        let entries = fs::read_dir(path.parent()?).ok()?.flatten();
        let shown = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let files = shown.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
        let times = files.filter_map(|meta| meta.modified().ok());
        Timestamp::try_from(times.max()?).ok()
    }

    fn latest_first(&self, places: &[&str]) -> Vec<usize> {
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
        let few = order.len().min(MOST_EXACT);
        order[..few].sort_by_cached_key(|index| Reverse(self.changed_at(places[*index])));
        order
    }

    fn note_ended(&self, run: &RunId, version: &Version) {
        let name = filename(&run.name);
        if self.noted(&run.workflow, |known| known.get(&name) == Some(&version.0)) {
            return;
        }
        let all = RunId { workflow: run.workflow.clone(), name: String::new() };
        let Ok(path) = self.file(&all, ENDED) else { return };
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
            let _ = ignored_by_git(&self.root.join(RUNS));
        }
        let line = format!("{} {name}\n", version.0);
        fault_point::reach("before-ended");
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    fn has_ended(&self, run: &RunId, place: &str) -> bool {
        self.noted(&run.workflow, |known| {
            let noted = known.get(&filename(&run.name));
            noted.is_some_and(|noted| {
                let meta = fs::metadata(self.root.join(place));
                meta.is_ok_and(|meta| version(&meta).0 == *noted)
            })
        })
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let path = self.path(key)?;
        if let Some(topic) = topic_of(key) {
            let message = topics::latest(&path, topic).map_err(failed("read", &path))?;
            return Ok(message.map(|message| Stored {
                bytes: message.body.into_bytes(),
                version: Version(message.id),
            }));
        }
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let meta = file.metadata().map_err(failed("read", &path))?;
        if meta.len() > MOST_BYTES {
            let size = meta.len() >> 20;
            return Err(StoreError::Refused(format!(
                "{} has {size} MB, which is too large",
                path.display()
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
        file.read_to_end(&mut bytes).map_err(failed("read", &path))?;
        if has_frontmatter(key) {
            let object = frontmatter::read(&String::from_utf8_lossy(&bytes));
            let object = object.ok_or_else(|| {
                StoreError::Refused(format!("{} has no frontmatter", path.display()))
            })?;
            bytes = object.to_string().into_bytes();
        }
        Ok(Some(Stored { bytes, version: version(&meta) }))
    }

    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError> {
        if let Key::Document(place) = key
            && self.is_missing(Place::of(place).path())
        {
            return Ok(None);
        }
        let path = self.path(key)?;
        if let Some(topic) = topic_of(key) {
            let message = topics::latest(&path, topic).map_err(failed("read", &path))?;
            return Ok(message.map(|message| Version(message.id)));
        }
        match fs::metadata(&path) {
            Ok(meta) => Ok(Some(version(&meta))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    fn remove(&self, key: &Key, expected: &Version) -> Result<(), StoreError> {
        let path = self.path(key)?;
        if topic_of(key).is_some() {
            let message = format!("{}: messages are never removed", path.display());
            return Err(StoreError::Refused(message));
        }
        if self.version(key)?.as_ref() != Some(expected) {
            return Err(StoreError::Conflict(path.display().to_string()));
        }
        fault_point::reach("before-remove");
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    fn prepare(
        &self,
        key: &Key,
        expected: Option<&Version>,
        bytes: &[u8],
    ) -> Result<Box<dyn Prepared + '_>, StoreError> {
        let path = self.path(key)?;
        let expected = expected.cloned();
        if let Some(topic) = topic_of(key) {
            let body = Json::parse(bytes).map(|body| body.to_text(None));
            let body = body.map_err(|error| StoreError::Refused(error.to_string()))?;
            let id = topics::new_id().map_err(failed("write", &path))?;
            let (topic, body) = (topic.to_string(), body.trim_end().to_string());
            return Ok(Box::new(NewMessage { folder: path, topic, expected, id, body }));
        }
        let merged;
        let mut bytes = bytes;
        if has_frontmatter(key)
            && let Ok(object) = serde_json::from_slice(bytes)
        {
            let old = fs::read(&path).unwrap_or_default();
            let old = String::from_utf8(old).map_err(|_| {
                StoreError::Refused(format!("{} is not UTF-8 text", path.display()))
            })?;
            merged = frontmatter::write(&old, &object).into_bytes();
            bytes = &merged;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        // A value behind a link is replaced where it is; the link stays.
        let path = path.canonicalize().unwrap_or(path);
        let temporary = temporary(&path);
        fault_point::reach("before-temporary");
        // Never through a link that somebody has put in its place.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let mut file = file.map_err(failed("write", &temporary))?;
        // From here on, what is not put is removed.
        let mut new = NewFile { path, temporary, expected, version: Version(String::new()) };
        file.write_all(bytes).map_err(failed("write", &new.temporary))?;
        if let Ok(meta) = fs::metadata(&new.path) {
            let _ = file.set_permissions(meta.permissions());
        }
        // Without this a power cut after the rename could leave an empty file.
        file.sync_all().map_err(failed("flush", &new.temporary))?;
        new.version = version(&file.metadata().map_err(failed("read", &new.temporary))?);
        fault_point::reach("temporary-written");
        Ok(Box::new(new))
    }

    fn append_text(&self, place: &str, line: &str) -> Result<(), StoreError> {
        let path = self.path(&Key::Text(place.to_string()))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fault_point::reach("before-transcript");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(failed("write", &path))
    }

    fn move_text(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let path = |place: &str| self.path(&Key::Text(place.to_string()));
        let (old, new) = (path(from)?, path(to)?);
        if old.symlink_metadata().is_err() {
            return Ok(());
        }
        if let Some(folder) = new.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fault_point::reach("before-move");
        match renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                Err(StoreError::Refused(format!("{to} exists: {from} is not moved over it")))
            }
            Err(error) => Err(failed("move", &old)(error.into())),
        }
    }

    fn set_aside(&self, key: &Key) -> Result<String, StoreError> {
        let path = self.path(key)?;
        if topic_of(key).is_some() {
            return Ok(path.display().to_string());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut number = 1;
        loop {
            let aside = path.with_file_name(format!("{name}.corrupt-{number}"));
            if !aside.exists() {
                fs::rename(&path, &aside).map_err(failed("set aside", &path))?;
                return Ok(aside.display().to_string());
            }
            number += 1;
        }
    }

    fn append(&self, run: &RunId, line: &str) -> Result<(), StoreError> {
        let path = self.path(&Key::Journal(run.clone()))?;
        let file = OpenOptions::new().create(true).read(true).append(true).open(&path);
        let mut file = file.map_err(failed("open", &path))?;
        let mut length = file.metadata().map_err(failed("read", &path))?.len();
        let mut end = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut end, length - 1).map_err(failed("read", &path))?;
        }
        if end != *b"\n" {
            // The line was never answered for, since an answer follows its commit.
            let (_, torn) = self.last_line(run)?;
            length -= torn as u64;
            file.set_len(length).map_err(failed("repair", &path))?;
        }
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        if fault_point::tears("torn-journal") {
            let _ = file.write_all(&text.as_bytes()[..text.len() / 2]);
            std::process::abort();
        }
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            // What is not answered for is not on record, also where the disk is full.
            let _ = file.set_len(length);
        }
        written.map_err(failed("write", &path))
    }

    fn last_line(&self, run: &RunId) -> Result<(Option<String>, usize), StoreError> {
        let path = self.path(&Key::Journal(run.clone()))?;
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, 0)),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let length = file.metadata().map_err(failed("read", &path))?.len();
        let mut size = TAIL.min(length);
        loop {
            file.seek(SeekFrom::Start(length - size)).map_err(failed("read", &path))?;
            let mut tail = Vec::new();
            file.read_to_end(&mut tail).map_err(failed("read", &path))?;
            let newline = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
            let whole = newline(&tail).map_or(0, |newline| newline + 1);
            let start = tail[..whole].strip_suffix(b"\n").and_then(newline).map(|at| at + 1);
            // The line before the last must be seen to end, or the tail to be all there is.
            if start.is_none() && size < length {
                size = (size * 4).min(length);
                continue;
            }
            let line = tail[..whole].strip_suffix(b"\n");
            let line = line.map(|lines| &lines[start.unwrap_or(0)..]);
            let line = line.map(|line| String::from_utf8_lossy(line).into_owned());
            return Ok((line, tail.len() - whole));
        }
    }

    fn lines(&self, run: &RunId) -> Result<Vec<String>, StoreError> {
        let path = self.path(&Key::Journal(run.clone()))?;
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().map(str::to_string).collect())
    }
}
