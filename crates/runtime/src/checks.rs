//! Checks: run by us, and known by the tree they ran on. A result counts while the tree is what it
//! was; a check that runs holds a lock, so that whoever comes meanwhile sees it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use jiff::Timestamp;
use phasegate_engine::check::{Check, CheckResult};
use phasegate_engine::digest::digest_of;
use phasegate_engine::functions::filename;
use phasegate_engine::glob;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use crate::file_store::{Place, ignored_by_git};
use crate::git;
use crate::process::{self, End};
use crate::world::{self, Walk};

/// How much of a log's end is kept with the result.
const MOST_TAIL: u64 = 4_000;

/// Where checks keep what they know.
const FOLDER: &str = ".phasegate/checks";

/// The checks of a workflow in a project.
#[derive(Debug)]
pub struct Checks {
    root: PathBuf,
    workflow: String,
    declared: Vec<Check>,
    /// What is not a part of the tree: our own files, and the documents that we write.
    apart: Vec<String>,
    tree: OnceLock<Option<String>>,
}

/// A result and what it is bound to.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The digest of the command.
    command: String,
    /// The tree before and after.
    trees: [Option<String>; 2],
    at: Timestamp,
    result: CheckResult,
}

/// Why a check did not run.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("check {0} is running already")]
    Running(String),
    #[error("there is no check {0}")]
    Unknown(String),
    #[error("check {0} was given up")]
    GivenUp(String),
    #[error("check {0}: {1}")]
    Io(String, io::Error),
}

impl Checks {
    /// The checks of a workflow in the project at `root`.
    pub fn new(root: &Path, workflow: &Workflow) -> Checks {
        let documents = glob::fixed_prefix(Place::of(&workflow.document).path()).to_string();
        let apart = [".phasegate".to_string(), documents];
        Checks {
            root: root.to_path_buf(),
            workflow: workflow.name.clone(),
            declared: workflow.checks.clone(),
            apart: apart.into_iter().filter(|path| !path.is_empty()).collect(),
            tree: OnceLock::new(),
        }
    }

    /// What came of a check on the tree as it is now, and a mark of both.
    pub fn result(&self, name: &str) -> Option<(CheckResult, String)> {
        let check = self.check(name)?;
        let kept: Kept =
            serde_json::from_slice(&fs::read(self.place(name, "json").ok()?).ok()?).ok()?;
        let tree = self.tree.get_or_init(|| self.tree_now()).as_ref()?;
        let fits = kept.command == command(check)
            && kept.trees.iter().flatten().any(|known| known == tree);
        let mark = format!("{tree} {}", kept.result.summary());
        fits.then_some((kept.result, mark))
    }

    /// Since when a check has been running.
    pub fn running_since(&self, name: &str) -> Option<Timestamp> {
        let path = self.place(name, "lock").ok()?;
        let file = File::open(&path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok())
            }
            _ => None,
        }
    }

    /// Runs a check, and once more if the tree changed under it.
    ///
    /// # Errors
    /// Where it runs already, or cannot be run.
    pub fn run(&self, name: &str) -> Result<CheckResult, CheckError> {
        let check = self.check(name).ok_or_else(|| CheckError::Unknown(name.into()))?;
        let failed = |error| CheckError::Io(name.into(), error);
        let lock = self.place(name, "lock").map_err(failed)?;
        if let Some(folder) = lock.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
            ignored_by_git(&self.root.join(FOLDER)).map_err(failed)?;
        }
        let options = OpenOptions::new().create(true).write(true).truncate(false).open(&lock);
        let file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CheckError::Running(name.into())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        fs::write(&lock, Timestamp::now().to_string()).map_err(failed)?;
        let mut kept = self.attempt(check)?;
        if kept.trees[0] != kept.trees[1] {
            kept = self.attempt(check)?;
        }
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| failed(error.into()))?;
        let place = self.place(name, "json").map_err(failed)?;
        let new = place.with_extension("json.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &place)).map_err(failed)?;
        Ok(kept.result)
    }

    fn attempt(&self, check: &Check) -> Result<Kept, CheckError> {
        let failed = |error| CheckError::Io(check.name.clone(), error);
        let before = self.tree_now();
        let path = self.place(&check.name, "log").map_err(failed)?;
        let mut log = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        let since = Instant::now();
        let end = process::run(&check.run, &self.root, check.timeout, &log).map_err(failed)?;
        let seconds = since.elapsed().as_secs();
        let mut tail = process::tail(&mut log, MOST_TAIL).map_err(failed)?;
        let limit = check.timeout.as_secs();
        let (exit_code, note) = match &end {
            End::GivenUp => return Err(CheckError::GivenUp(check.name.clone())),
            End::Exited(code) => (Some(*code), None),
            End::Killed(signal) => (None, Some(format!("It was killed by signal {signal}."))),
            End::TimedOut => (None, Some(format!("It took longer than {limit} seconds."))),
            End::Flooded => (None, Some("It printed without end and was stopped.".to_string())),
            End::NotStarted(why) => (None, Some(why.clone())),
        };
        if let Some(note) = note {
            tail = format!("{tail}\n{note}").trim_start().to_string();
        }
        let (ok, timed_out) = (exit_code == Some(0), end == End::TimedOut);
        let result = CheckResult { ok, exit_code, timed_out, seconds, tail };
        let trees = [before, self.tree_now()];
        Ok(Kept { command: command(check), trees, at: Timestamp::now(), result })
    }

    fn check(&self, name: &str) -> Option<&Check> {
        self.declared.iter().find(|check| check.name == name)
    }

    fn tree_now(&self) -> Option<String> {
        let place = world::inside(&self.root, &format!("{FOLDER}/tree")).ok()?;
        git::tree(&self.root, &place, &self.apart).or_else(|| self.listing())
    }

    /// Without git: which files there are, how large, and when each was changed.
    fn listing(&self) -> Option<String> {
        let files = Walk::new(&self.root).files("**").ok()?;
        let files = files.iter().filter(|file| !self.apart.iter().any(|it| file.starts_with(it)));
        let lines = files.map(|file| {
            let meta = fs::metadata(self.root.join(file)).ok();
            let time = meta.as_ref().and_then(|meta| meta.modified().ok());
            format!("{file} {:?} {time:?}\n", meta.map(|meta| meta.len()))
        });
        let lines: Vec<String> = lines.collect();
        Some(digest_of(lines.iter().map(String::as_bytes)))
    }

    fn place(&self, name: &str, extension: &str) -> io::Result<PathBuf> {
        let (workflow, name) = (filename(&self.workflow), filename(name));
        let place = format!("{FOLDER}/{workflow}/{name}.{extension}");
        world::inside(&self.root, &place).map_err(|why| io::Error::other(why.to_string()))
    }
}

fn command(check: &Check) -> String {
    digest_of(check.run.iter().flat_map(|part| [part.as_bytes(), b"\0"]))
}
