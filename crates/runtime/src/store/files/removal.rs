//! What is removed of runs that are over. A folder is renamed before it is removed, and a journal is replaced:
//! whenever the process dies, a run is there as it was, or is not there, and what lies in the folder of removals is
//! nobody's.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use phasegate_engine::functions::filename;

use super::{DEFINITION, EVIDENCE, FileStore, GONE, JOURNAL, OVER, open};
use crate::fault_point;
use crate::filesystem;
use crate::outside;
use crate::run::RunId;
use crate::store::{Sizes, Store, StoreError};
use crate::whole_file::failed;

/// A longer list of runs that are over is not put in order.
const MAX_OVER: u64 = 64 << 20;

impl FileStore {
    pub(super) fn sizes_of(&self, run: &RunId) -> Sizes {
        let size = |name: &str| self.file(run, name).map_or(0, |path| filesystem::size(&path));
        let apart = size(DEFINITION) + size(EVIDENCE);
        Sizes { all: self.folder(run).map_or(0, |path| filesystem::size(&path)), apart }
    }

    pub(super) fn strip_run(&self, run: &RunId, first: u64) -> Result<(), StoreError> {
        self.trim(run, first)?;
        for name in [EVIDENCE, DEFINITION] {
            fault_point::reach("before-strip");
            self.discard(&self.file(run, name)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_run(&self, run: &RunId) -> Result<(), StoreError> {
        let folder = self.folder(run)?;
        fault_point::reach("before-gone");
        self.discard(&folder)?;
        self.folders.borrow_mut().remove(run);
        // That of the workflow stays while there is anything in it.
        if let Some(workflow) = folder.parent() {
            let _ = fs::remove_dir(workflow);
        }
        Ok(())
    }

    pub(super) fn tidy_up(&self) -> Result<(), StoreError> {
        let gone = self.below(GONE)?;
        for entry in fs::read_dir(&gone).into_iter().flatten().flatten() {
            if entry.file_name() != "lock" {
                let path = entry.path();
                filesystem::remove(&path).map_err(failed("remove", &path))?;
            }
        }
        self.forget_names()
    }

    /// Takes the names of runs that are gone out of the list of those that are over.
    fn forget_names(&self) -> Result<(), StoreError> {
        let path = self.below(OVER)?;
        let read = || outside::read(&path, MAX_OVER).ok();
        let Some(bytes) = read() else { return Ok(()) };
        let text = String::from_utf8_lossy(&bytes);
        let is_there =
            |line: &&str| RunId::try_from((*line).to_string()).is_ok_and(|run| self.is_there(&run));
        let kept: Vec<&str> = text.lines().filter(is_there).collect();
        if kept.len() == text.lines().count() {
            return Ok(());
        }
        let new = self.unused()?;
        let text = whole_lines(&kept);
        fs::write(&new, text).map_err(failed("write", &new))?;
        // A name that somebody has added meanwhile stays: then the list is left for the next time. One that is added
        // right now is lost, and `status --all` still has that run.
        if read().is_some_and(|now| now == bytes) {
            fs::rename(&new, &path).map_err(failed("replace", &path))?;
        }
        Ok(())
    }

    /// Leaves the lines of a journal from the number `first` on.
    fn trim(&self, run: &RunId, first: u64) -> Result<(), StoreError> {
        let path = self.file(run, JOURNAL)?;
        let Some((_, length)) = open(&path)? else { return Ok(()) };
        let kept: Vec<String> =
            self.after(run, first.saturating_sub(1)).collect::<Result<_, _>>()?;
        let text = whole_lines(&kept);
        if text.len() as u64 >= length {
            return Ok(());
        }
        let new = self.unused()?;
        let made = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = outside::open_with(options.write(true).create_new(true), &new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fault_point::reach("journal-trimmed");
            fs::rename(&new, &path)
        };
        made().map_err(failed("replace", &path))
    }

    /// Moves something out of the way, and removes it.
    fn discard(&self, path: &Path) -> Result<(), StoreError> {
        let gone = self.unused()?;
        match fs::rename(path, &gone) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(failed("remove", path))?,
        }
        fault_point::reach("moved-away");
        filesystem::remove(&gone).map_err(failed("remove", &gone))
    }

    /// A place in the folder of removals that nothing has.
    fn unused(&self) -> Result<PathBuf, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.below(&format!("{GONE}/{}", filename(&format!("{}-{number}", std::process::id()))))
    }
}

/// Lines as a text, each with its end.
fn whole_lines<L: AsRef<str>>(lines: &[L]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.as_ref());
        text.push('\n');
    }
    text
}
