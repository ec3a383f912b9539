//! The store on a single machine: files below the project, and the kernel's locks, which die with their
//! holder, so that none outlives a killed process.
//!
//! The journal's line is the commit. What else a transaction writes lies ready in temporary files before
//! the line is appended, so that a full disk is noticed while nothing is on record, and is renamed after
//! it. Where a process dies in between, the next one to lock the run finds the files and brings the step to
//! its end: a ledger names the hash of the line that it belongs to.

mod lines;
mod removal;
mod restore;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memchr::memmem;
use notify::{RecursiveMode, Watcher};
use phasegate_engine::digest::digest as digest_of;
use phasegate_engine::functions::{filename, from_filename};

use lines::{Backwards, forwards, place_after};

use super::locks::locked;
use super::{
    Batch, Held, Key, Lines, Lock, Piece, Put, RunCopy, Sizes, Store, StoreError, Stored, Version,
    Watch,
};
use crate::fault_point;
use crate::filesystem;
use crate::journal;
use crate::outside;
use crate::paths::{ignored_by_git, inside};
use crate::run::RunId;
use crate::whole_file::{self, NewFile, failed};

/// A larger ledger, or a larger copy of a definition, is refused.
const MAX_LEDGER: u64 = 128 << 20;

/// Where the runs of a project are kept.
const RUNS: &str = ".phasegate/runs";

/// The index: an empty file for each run that is open, in a folder of its own. Where the folder is lost, it
/// is made again from the runs that there are.
const OPEN: &str = ".open";

/// The runs that are over, a name on each line, in the order in which they were.
const OVER: &str = ".over";

/// Where what is removed lies until it is.
const GONE: &str = ".gone";

const JOURNAL: &str = "journal.jsonl";
const LEDGER: &str = "run.json";
const OLD_LEDGER: &str = "ledger.json";

/// The folder of a run's evidence: a file for each piece, called by its digest.
const EVIDENCE: &str = "evidence";

const DEFINITION: &str = "definition.json";
const DOCUMENT: &str = "document.json";

/// A larger piece of evidence is not read.
const MAX_PIECE: u64 = 16 << 20;

/// The files that make a folder that of a run.
const MARKS: [&str; 3] = [LEDGER, JOURNAL, OLD_LEDGER];

/// A store in a project's folder.
#[derive(Clone, Debug)]
pub struct FileStore {
    root: PathBuf,
    /// Folders of runs that are known to be in the project.
    folders: RefCell<HashMap<RunId, PathBuf>>,
}

impl FileStore {
    /// The store of the project at `root`.
    pub fn new(root: &Path) -> FileStore {
        FileStore { root: root.to_path_buf(), folders: RefCell::default() }
    }

    /// A path below the folder of all runs. A link that leads out of the project is refused, since a
    /// cloned repository could bring one along.
    fn below(&self, place: &str) -> Result<PathBuf, StoreError> {
        Ok(inside(&self.root, &format!("{RUNS}/{place}"))?)
    }

    /// The folder of a run.
    fn folder(&self, run: &RunId) -> Result<PathBuf, StoreError> {
        if let Some(folder) = self.folders.borrow().get(run) {
            return Ok(folder.clone());
        }
        let folder = self.below(&place_of(run))?;
        self.folders.borrow_mut().insert(run.clone(), folder.clone());
        Ok(folder)
    }

    /// A file of a run: its ledger, its journal, its lock.
    fn file(&self, run: &RunId, name: &str) -> Result<PathBuf, StoreError> {
        let file = self.folder(run)?.join(name);
        if file.is_symlink() { self.below(&format!("{}/{name}", place_of(run))) } else { Ok(file) }
    }

    /// Whether nothing is kept of a run, told without following links: most that are asked about have begun
    /// nothing yet.
    fn is_missing(&self, run: &RunId) -> bool {
        if self.folders.borrow().contains_key(run) {
            return false;
        }
        let folder = self.root.join(RUNS).join(place_of(run));
        fs::symlink_metadata(folder).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn path(&self, key: &Key) -> Result<PathBuf, StoreError> {
        match key {
            Key::Ledger(run) => self.file(run, LEDGER),
            Key::OldLedger(run) => self.file(run, OLD_LEDGER),
            Key::Definition(run) => self.file(run, DEFINITION),
            Key::Document(run) => self.file(run, DOCUMENT),
        }
    }

    /// The version of the file that has a value, where it is still what was expected.
    fn expected(
        &self,
        key: &Key,
        version: Option<&Version>,
    ) -> Result<Option<Version>, StoreError> {
        let Key::Document(run) = key else { return Ok(version.cloned()) };
        let stored = whole_file::read(&self.path(key)?, MAX_LEDGER)?;
        let now = stored.as_ref().map(|stored| Version::of_document(&stored.bytes));
        if now.as_ref() != version {
            return Err(StoreError::Conflict(format!("the document of run {run}")));
        }
        Ok(stored.map(|stored| stored.version))
    }

    /// The folder of the index, made where there is none yet.
    fn index(&self) -> Result<PathBuf, StoreError> {
        let index = self.root.join(RUNS).join(OPEN);
        if fs::symlink_metadata(&index).is_ok_and(|meta| meta.is_dir()) {
            return Ok(index);
        }
        let index = self.below(OPEN)?;
        // A reader that sees the index may rely on it, so it appears whole.
        let new = self.below(&format!("{OPEN}.{}", std::process::id()))?;
        let made = || -> io::Result<()> {
            fs::create_dir_all(&new)?;
            for run in self.all() {
                File::create(new.join(filename(&run.to_string())))?;
            }
            match fs::rename(&new, &index) {
                // Somebody else was faster.
                Err(_) if index.is_dir() => fs::remove_dir_all(&new),
                renamed => renamed,
            }
        };
        made().map_err(failed("make", &index))?;
        Ok(index)
    }

    fn note_open(&self, run: &RunId) -> Result<(), StoreError> {
        let entry = self.index()?.join(filename(&run.to_string()));
        if fs::symlink_metadata(&entry).is_err() {
            File::create(&entry).map_err(failed("write", &entry))?;
        }
        Ok(())
    }

    /// Cuts off the line that a process was writing when it died. It was never answered for, since an
    /// answer follows its commit.
    fn cut_torn_line(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let path = self.file(run, JOURNAL)?;
        let Some((file, length)) = open(&path)? else { return Ok(None) };
        let mut end = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut end, length - 1).map_err(failed("read", &path))?;
        }
        if end == *b"\n" {
            return Ok(None);
        }
        let whole = Backwards::new(file, length).whole().map_err(failed("read", &path))?;
        let torn = length - whole;
        let file = outside::open_with(OpenOptions::new().write(true), &path);
        let file = file.map_err(failed("open", &path))?;
        file.set_len(whole).map_err(failed("repair", &path))?;
        Ok(Some(format!("{torn} bytes of an unfinished line were dropped")))
    }

    /// Brings a step to its end whose line is in the journal and whose ledger still lies ready; whatever
    /// else was left behind is removed.
    fn finish(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let ledger = self.file(run, LEDGER)?;
        let Some(new) = NewFile::left_behind(&ledger) else { return Ok(None) };
        let last = self.backwards(run).next().transpose()?;
        let (seq, hash) = last.as_deref().and_then(journal::position).unzip();
        let counts = |bytes: &[u8]| {
            let named = |hash: &str| memmem::find(bytes, hash.as_bytes()).is_some();
            // It ends with a newline, and has no other: so it is whole.
            bytes.ends_with(b"\n") && hash.as_deref().is_some_and(named)
        };
        let old = outside::read(&ledger, MAX_LEDGER).unwrap_or_default();
        let is_due = !counts(&old) && counts(&new.bytes().unwrap_or_default());
        for key in [Key::Definition(run.clone()), Key::Document(run.clone())] {
            let other = NewFile::left_behind(&self.path(&key)?);
            let Some(other) = other.filter(|_| is_due) else { continue };
            // After the exchange, the temporary file is the old one. The ledger names the new one.
            let mark = digest_of(&other.bytes()?);
            if memmem::find(&new.bytes()?, mark.as_bytes()).is_some() {
                other.put()?;
            }
        }
        if !is_due {
            return Ok(None);
        }
        new.put()?;
        let seq = seq.unwrap_or_default();
        Ok(Some(format!("line {seq} was written, and its process died before it answered")))
    }

    /// Lines of a run's journal, as they are read from the file and its length.
    fn lines(
        &self,
        run: &RunId,
        read: impl FnOnce(File, u64) -> io::Result<Box<dyn Iterator<Item = io::Result<String>>>>,
    ) -> Lines<'_> {
        match self.file(run, JOURNAL).and_then(|path| open(&path)) {
            Ok(None) => Box::new(std::iter::empty()),
            Ok(Some((file, length))) => match read(file, length) {
                Ok(lines) => Box::new(lines.map(|line| line.map_err(|error| unreadable(&error)))),
                Err(error) => Box::new(std::iter::once(Err(unreadable(&error)))),
            },
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    /// Adds a line to a run's journal, durably.
    fn append(&self, run: &RunId, line: &str) -> Result<(), StoreError> {
        let path = self.file(run, JOURNAL)?;
        let mut options = OpenOptions::new();
        let file = outside::open_with(options.create(true).read(true).append(true), &path);
        let mut file = file.map_err(failed("open", &path))?;
        let length = file.metadata().map_err(failed("read", &path))?.len();
        // Another process wrote it in the meantime, so it had the run too, whatever the locks say.
        if !follows(&file, length, line).map_err(failed("read", &path))? {
            return Err(StoreError::Conflict(format!("the journal of run {run}")));
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

    /// Where a piece of evidence is; none where its name is not a digest.
    fn piece_at(&self, run: &RunId, digest: &str) -> Option<PathBuf> {
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then(|| self.file(run, EVIDENCE).ok()).flatten().map(|it| it.join(digest))
    }

    /// Writes a piece of evidence, for the user only, and without waiting for the disk: what is lost in a power
    /// cut is not what its digest says, and counts as not kept.
    fn keep(&self, run: &RunId, piece: &Piece) -> io::Result<()> {
        let Some(path) = self.piece_at(run, &piece.digest) else { return Ok(()) };
        let mut options = OpenOptions::new();
        // A link that a repository brings along is not followed.
        let options = options.write(true).create_new(true).mode(0o600);
        let file = match outside::open_with(options, &path) {
            // A piece that was torn, or whatever else lies there.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                outside::open_with(options, &path)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&path);
                DirBuilder::new().mode(0o700).create(folder)?;
                outside::open_with(options, &path)
            }
            file => file,
        };
        file?.write_all(&piece.bytes)
    }

    fn is_there(&self, run: &RunId) -> bool {
        let is_there = |name: &&str| self.file(run, name).is_ok_and(|path| path.is_file());
        !self.is_missing(run) && MARKS.iter().any(is_there)
    }

    /// Every run.
    fn all(&self) -> Vec<RunId> {
        let folders = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let shown = |path: &PathBuf| !name_of(path).starts_with('.');
            entries.map(|entry| entry.path()).filter(shown).collect::<Vec<PathBuf>>()
        };
        let mut runs = Vec::new();
        for workflow in folders(&self.root.join(RUNS)) {
            for run in folders(&workflow) {
                if MARKS.iter().any(|file| run.join(file).is_file()) {
                    let (workflow, name) = (name_of(&workflow), name_of(&run));
                    let (workflow, name) = (from_filename(&workflow), from_filename(&name));
                    runs.push(RunId { workflow, name });
                }
            }
        }
        runs
    }

    fn folder_of(&self, lock: &Lock) -> Result<PathBuf, StoreError> {
        match lock {
            Lock::Run(run) => self.file(run, "lock"),
            Lock::Workflow(workflow) => self.below(&format!("{}/lock", filename(workflow))),
            Lock::Removal => self.below(&format!("{GONE}/lock")),
        }
    }
}

impl Store for FileStore {
    fn lock(&self, lock: &Lock) -> Result<Held, StoreError> {
        let path = self.folder_of(lock)?;
        fault_point::reach("before-lock");
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
            ignored_by_git(&self.root.join(RUNS)).map_err(failed("write in", folder))?;
        }
        let file = locked(&path, lock)?;
        let mut repairs = Vec::new();
        if let Lock::Run(run) = lock {
            repairs.extend(self.cut_torn_line(run)?);
            repairs.extend(self.finish(run)?);
        }
        Ok(Held { repairs, guard: Box::new(file) })
    }

    fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(self.all())
    }

    fn has(&self, run: &RunId) -> Result<bool, StoreError> {
        Ok(self.is_there(run))
    }

    fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        let index = self.root.join(RUNS).join(OPEN);
        let is_own = fs::symlink_metadata(&index).is_ok_and(|meta| meta.is_dir());
        let entries = fs::read_dir(index).ok().filter(|_| is_own);
        let Some(entries) = entries else { return Ok(self.all()) };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| Some(from_filename(name.to_str()?)));
        Ok(names.filter_map(|name| RunId::try_from(name).ok()).collect())
    }

    fn over_runs(&self, most: usize) -> Result<Vec<RunId>, StoreError> {
        let file = self.below(OVER).and_then(|path| open(&path));
        let Ok(Some((file, length))) = file else { return Ok(Vec::new()) };
        let mut found: Vec<RunId> = Vec::new();
        // One that was begun again and ended again is there twice.
        for line in Backwards::new(file, length).take(4 * most) {
            let run = line.ok().and_then(|line| RunId::try_from(line).ok());
            let is_new = |run: &RunId| !found.contains(run) && self.is_there(run);
            if let Some(run) = run.filter(|run| found.len() < most && is_new(run)) {
                found.push(run);
            }
        }
        Ok(found)
    }

    fn note_over(&self, run: &RunId) {
        let Ok(index) = self.index() else { return };
        if fs::remove_file(index.join(filename(&run.to_string()))).is_err() {
            return;
        }
        fault_point::reach("before-over");
        let Ok(path) = self.below(OVER) else { return };
        let file = outside::open_with(OpenOptions::new().create(true).append(true), &path);
        let _ = file.and_then(|mut file| file.write_all(format!("{run}\n").as_bytes()));
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        if self.is_missing(key.run()) {
            return Ok(None);
        }
        let stored = whole_file::read(&self.path(key)?, MAX_LEDGER)?;
        Ok(stored.map(|stored| match key {
            Key::Document(_) => Stored { version: Version::of_document(&stored.bytes), ..stored },
            _ => stored,
        }))
    }

    fn version(&self, key: &Key) -> Result<Option<Version>, StoreError> {
        if self.is_missing(key.run()) {
            return Ok(None);
        }
        if let Key::Document(_) = key {
            return Ok(self.get(key)?.map(|stored| stored.version));
        }
        whole_file::version_of(&self.path(key)?)
    }

    fn commit(&self, run: &RunId, batch: &Batch) -> Result<(), StoreError> {
        let mut ready = Vec::with_capacity(batch.puts.len());
        // The ledger first, and put last: while anything lies ready, it does.
        let (ledgers, others): (Vec<&Put>, Vec<&Put>) =
            batch.puts.iter().partition(|put| matches!(put.key, Key::Ledger(_)));
        for put in ledgers.into_iter().chain(others) {
            let expected = self.expected(&put.key, put.expected.as_ref())?;
            let new = NewFile::write(&self.path(&put.key)?, expected, &put.bytes)?;
            if !new.is_due() {
                return Err(StoreError::Conflict(format!("the bookkeeping of run {run}")));
            }
            ready.push(new);
        }
        let mut gone = Vec::with_capacity(batch.remove.len());
        for (key, version) in &batch.remove {
            let expected = self.expected(key, Some(version))?;
            gone.extend(expected.map(|version| (key, version)));
        }
        if batch.open {
            self.note_open(run)?;
        }
        for piece in &batch.pieces {
            let _ = self.keep(run, piece);
        }
        fault_point::reach("before-journal");
        if let Some(line) = batch.line {
            self.append(run, line)?;
        }
        fault_point::reach("after-journal");
        // A document goes before the ledger that says so: while that lies ready, the step is brought to its end.
        let (documents, others): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(key, _)| matches!(key, Key::Document(_)));
        for (key, version) in documents {
            whole_file::remove(&self.path(key)?, &version)?;
        }
        for new in ready.into_iter().rev() {
            new.put()?;
            fault_point::reach("after-put");
        }
        for (key, version) in others {
            whole_file::remove(&self.path(key)?, &version)?;
        }
        if !batch.open {
            self.note_over(run);
        }
        Ok(())
    }

    fn piece_size(&self, run: &RunId, digest: &str) -> Option<u64> {
        let meta = fs::symlink_metadata(self.piece_at(run, digest)?).ok()?;
        meta.is_file().then_some(meta.len())
    }

    fn piece(&self, run: &RunId, digest: &str) -> Option<Vec<u8>> {
        let bytes = outside::read(&self.piece_at(run, digest)?, MAX_PIECE).ok()?;
        (digest_of(&bytes) == digest).then_some(bytes)
    }

    fn pieces(&self, run: &RunId) -> Result<Vec<String>, StoreError> {
        let folder = self.file(run, EVIDENCE)?;
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| name_of(&entry.path())).collect();
        names.retain(|name| self.piece_size(run, name).is_some());
        names.sort();
        Ok(names)
    }

    fn restore(&self, run: &RunId, copy: &RunCopy) -> Result<(), StoreError> {
        self.restore_run(run, copy)
    }

    fn set_aside(&self, key: &Key) -> Result<String, StoreError> {
        whole_file::set_aside(&self.path(key)?)
    }

    fn set_journal_aside(&self, run: &RunId) -> Result<String, StoreError> {
        whole_file::set_aside(&self.file(run, JOURNAL)?)
    }

    fn forwards(&self, run: &RunId) -> Lines<'_> {
        self.lines(run, |file, _| Ok(Box::new(forwards(file))))
    }

    fn backwards(&self, run: &RunId) -> Lines<'_> {
        self.lines(run, |file, length| Ok(Box::new(Backwards::new(file, length))))
    }

    fn after(&self, run: &RunId, seq: u64) -> Lines<'_> {
        self.lines(run, |mut file, length| {
            let place = place_after(&file, length, seq)?;
            file.seek(SeekFrom::Start(place))?;
            Ok(Box::new(forwards(file)))
        })
    }

    fn before(&self, run: &RunId, seq: u64) -> Lines<'_> {
        self.lines(run, |file, length| {
            let place = place_after(&file, length, seq.saturating_sub(1))?;
            Ok(Box::new(Backwards::new(file, place)))
        })
    }

    fn sizes(&self, run: &RunId) -> Sizes {
        self.sizes_of(run)
    }

    fn strip(&self, run: &RunId, first: u64) -> Result<(), StoreError> {
        self.strip_run(run, first)
    }

    fn remove(&self, run: &RunId) -> Result<(), StoreError> {
        self.remove_run(run)
    }

    fn half_removed(&self) -> u64 {
        self.below(GONE).map_or(0, |gone| filesystem::size(&gone))
    }

    fn tidy(&self) -> Result<(), StoreError> {
        self.tidy_up()
    }

    fn watch(
        &self,
        run: &RunId,
        changed: Box<dyn Fn() + Send>,
    ) -> Result<Box<dyn Watch>, StoreError> {
        let ledger = self.file(run, LEDGER)?;
        let folder = ledger.parent().unwrap_or(&self.root).to_path_buf();
        let failed = |error: notify::Error| {
            StoreError::Failed(format!("cannot watch {}: {error}", folder.display()))
        };
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // To be looked at is not to be changed.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                changed();
            }
        });
        let mut watcher = watcher.map_err(failed)?;
        watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(failed)?;
        Ok(Box::new(Watching(watcher)))
    }
}

struct Watching(
    #[expect(dead_code, reason = "held, not read: dropping it ends the watch")]
    notify::RecommendedWatcher,
);

impl Watch for Watching {}

/// Where a run is, below the folder of all runs.
fn place_of(run: &RunId) -> String {
    format!("{}/{}", filename(&run.workflow), filename(&run.name))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file and its length; none where there is none.
fn open(path: &Path) -> Result<Option<(File, u64)>, StoreError> {
    match outside::open(path) {
        Ok((file, meta)) => Ok(Some((file, meta.len()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open", path)(error)),
    }
}

/// Whether a line follows the last one of a journal. A line that names no other follows any.
fn follows(journal: &File, length: u64, line: &str) -> io::Result<bool> {
    let Some(before) = journal::before(line) else { return Ok(true) };
    if length == 0 {
        return Ok(before.is_empty());
    }
    let end = format!("\"{before}\"}}\n");
    let mut bytes = vec![0; end.len()];
    let start = length.checked_sub(end.len() as u64);
    let Some(start) = start.filter(|_| !before.is_empty()) else { return Ok(false) };
    journal.read_exact_at(&mut bytes, start)?;
    Ok(bytes == end.as_bytes())
}

fn unreadable(error: &io::Error) -> StoreError {
    StoreError::Failed(format!("a journal cannot be read: {error}"))
}
