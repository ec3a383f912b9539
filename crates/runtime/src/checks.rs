//! Checks: run by us, and known by the tree they ran on. A result counts while the tree is what it
//! was; a check that runs holds a lock, so that whoever comes meanwhile sees it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::check::{Check, CheckResult};
use phasegate_engine::digest::digest_of;
use phasegate_engine::functions::filename;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use crate::fault_point;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::process::{self, End, Streams};
use crate::tree::{self, Tree};
use crate::workspace::place::Place;

/// How much of a log's end is kept with the result.
const MAX_TAIL: u64 = 4_000;

/// How long somebody may hold the lock only to look.
const POLL: Duration = Duration::from_millis(200);

/// How a note begins on a result that cannot count.
const NO_TREE: &str = "there is no tree that a pass could be bound to";

/// Where checks keep what they know.
const FOLDER: &str = ".phasegate/checks";

/// The checks of a workflow in a project, and what came of them.
#[derive(Debug)]
pub struct Checks {
    root: PathBuf,
    workflow: String,
    declared: Vec<Check>,
    /// Patterns of what is not a part of the tree: our own files, and the documents that we write.
    apart: Vec<String>,
    tree: OnceLock<Option<String>>,
    /// Those that passed before, by name, as the run's ledger knows.
    passed: BTreeMap<String, Passed>,
    /// Those that ran for the event that is being decided.
    fresh: BTreeMap<String, Ran>,
}

/// What came of a check that has just run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// The digest of the command.
    command: String,
    /// The tree that it ran on; none where the tree changed meanwhile.
    tree: Option<String>,
    at: Timestamp,
    pub result: CheckResult,
    /// What is to be known about the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A check that passed: it need not run again while the tree is what it was. One that failed does,
/// since what it lacked may not be a part of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    command: String,
    tree: String,
    at: Timestamp,
    seconds: u64,
}

impl Ran {
    /// Whether it ran on that tree.
    pub fn is_of(&self, tree: Option<&str>) -> bool {
        self.tree.is_some() && self.tree.as_deref() == tree
    }

    /// Why there is no tree that its result could be bound to.
    pub fn has_no_tree(&self) -> Option<&str> {
        self.note.as_deref().filter(|note| note.starts_with(NO_TREE))
    }

    /// What a ledger remembers of it, if it passed.
    pub fn passed(&self) -> Option<Passed> {
        let tree = self.tree.clone().filter(|_| self.result.ok)?;
        let (command, at, seconds) = (self.command.clone(), self.at, self.result.seconds);
        Some(Passed { command, tree, at, seconds })
    }
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
        let documents = match Place::of(&workflow.document) {
            Place::Topic(folder, _) => format!("{folder}/**"),
            place => place.path().to_string(),
        };
        Checks {
            root: root.to_path_buf(),
            workflow: workflow.name.clone(),
            declared: workflow.checks.clone(),
            apart: vec![".phasegate/**".into(), documents],
            tree: OnceLock::new(),
            passed: BTreeMap::new(),
            fresh: BTreeMap::new(),
        }
    }

    /// The same, with what is known of them.
    #[must_use]
    pub fn knowing(
        self,
        passed: &BTreeMap<String, Passed>,
        fresh: &BTreeMap<String, Ran>,
    ) -> Checks {
        Checks { passed: passed.clone(), fresh: fresh.clone(), ..self }
    }

    /// What came of a check on the tree as it is now, and a mark of both.
    pub fn result(&self, name: &str) -> Option<(CheckResult, String)> {
        let check = self.check(name)?;
        let tree = self.tree.get_or_init(|| self.tree_now());
        let mark = |summary: &str| format!("{} {summary}", tree.as_deref().unwrap_or_default());
        if let Some(ran) = self.fresh.get(name) {
            let fits = !ran.result.ok || (ran.tree.is_some() && ran.tree == *tree);
            let mark = mark(&ran.result.summary());
            return fits.then(|| (ran.result.clone(), mark));
        }
        let passed = self.passed.get(name)?;
        let fits = passed.command == command(check) && Some(&passed.tree) == tree.as_ref();
        let (ok, exit_code, seconds) = (true, Some(0), passed.seconds);
        let result = CheckResult { ok, exit_code, seconds, ..CheckResult::default() };
        let mark = mark(&result.summary());
        fits.then_some((result, mark))
    }

    /// What the tree is known by, looked up once.
    pub fn tree(&self) -> Option<String> {
        self.tree.get_or_init(|| self.tree_now()).clone()
    }

    /// What came of a check when it last ran, whoever asked for it, and whether the tree is still
    /// the same: for people, not for rules.
    pub fn last(&self, name: &str) -> Option<(CheckResult, bool)> {
        let ran: Ran = serde_json::from_slice(
            &outside::read(&self.place(name, "json").ok()?, MAX_RECORD).ok()?,
        )
        .ok()?;
        let same = ran.tree.is_some() && ran.tree == *self.tree.get_or_init(|| self.tree_now());
        Some((ran.result, same))
    }

    /// Since when a check has been running.
    pub fn running_since(&self, name: &str) -> Option<Timestamp> {
        let path = self.place(name, "lock").ok()?;
        let (file, _) = outside::open(&path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                let text = outside::read_text(&path, MAX_RECORD).ok();
                text.and_then(|text| text.trim().parse().ok())
            }
            _ => None,
        }
    }

    /// Runs a check, for no longer than `most`.
    ///
    /// # Errors
    /// Where it runs already, or cannot be run.
    pub fn run(&self, name: &str, most: Duration) -> Result<Ran, CheckError> {
        let check = self.check(name).ok_or_else(|| CheckError::Unknown(name.into()))?;
        let failed = |error| CheckError::Io(name.into(), error);
        let lock = self.place(name, "lock").map_err(failed)?;
        if let Some(folder) = lock.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
            paths::ignored_by_git(&self.root.join(FOLDER)).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(false);
        let file = outside::open_with(options, &lock).map_err(failed)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Somebody may only have looked whether it runs.
                Err(TryLockError::WouldBlock) if since.elapsed() < POLL => {
                    std::thread::sleep(POLL / 20);
                }
                Err(TryLockError::WouldBlock) => return Err(CheckError::Running(name.into())),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        fault_point::reach("before-check");
        fs::write(&lock, Timestamp::now().to_string()).map_err(failed)?;
        let ran = self.attempt(check, most)?;
        let text = serde_json::to_vec_pretty(&ran).map_err(|error| failed(error.into()))?;
        fault_point::reach("after-check");
        fs::write(self.place(name, "json").map_err(failed)?, text).map_err(failed)?;
        Ok(ran)
    }

    fn attempt(&self, check: &Check, most: Duration) -> Result<Ran, CheckError> {
        let failed = |error| CheckError::Io(check.name.clone(), error);
        let before = self.look();
        let path = self.place(&check.name, "log").map_err(failed)?;
        let since = Instant::now();
        let timeout = check.timeout.min(most);
        let streams = Streams { input: None, output: None, log: &path };
        let end = process::run(&check.run, &self.root, timeout, &streams, &[]).map_err(failed)?;
        let seconds = since.elapsed().as_secs();
        let mut tail = process::tail(&path, MAX_TAIL).map_err(failed)?;
        let (exit_code, note) = match &end {
            End::GivenUp => return Err(CheckError::GivenUp(check.name.clone())),
            End::Exited(code) => (Some(*code), None),
            End::Killed(signal) => (None, Some(format!("It was killed by signal {signal}."))),
            End::TimedOut => {
                (None, Some(format!("It took longer than {} seconds.", timeout.as_secs())))
            }
            End::Flooded => (None, Some("It printed without end and was stopped.".to_string())),
            End::NotStarted(why) => (None, Some(why.clone())),
        };
        if let Some(note) = note {
            tail = format!("{tail}\n{note}").trim_start().to_string();
        }
        let (ok, timed_out) = (exit_code == Some(0), end == End::TimedOut);
        let result = CheckResult { ok, exit_code, timed_out, seconds, tail };
        let note = match &before {
            Ok(tree) => tree.note.clone().map(|note| format!("the tree: {note}")),
            Err(why) => Some(format!("{NO_TREE}: {why}")),
        };
        let tree = before.ok().map(|before| before.name);
        let tree = tree.filter(|before| self.tree_now().as_ref() == Some(before));
        Ok(Ran { command: command(check), tree, at: Timestamp::now(), result, note })
    }

    fn check(&self, name: &str) -> Option<&Check> {
        self.declared.iter().find(|check| check.name == name)
    }

    /// What the tree is known by, as it is now.
    pub fn tree_now(&self) -> Option<String> {
        Some(self.look().ok()?.name)
    }

    fn look(&self) -> Result<Tree, String> {
        let place = paths::inside(&self.root, &format!("{FOLDER}/tree"));
        let place = place.map_err(|why| why.to_string())?;
        let kept = fs::create_dir_all(&place)
            .and_then(|()| paths::ignored_by_git(&self.root.join(FOLDER)));
        kept.map_err(|error| format!("{}: {error}", place.display()))?;
        tree::look(&self.root, &place, &self.apart)
    }

    fn place(&self, name: &str, extension: &str) -> io::Result<PathBuf> {
        let (workflow, name) = (filename(&self.workflow), filename(name));
        let place = format!("{FOLDER}/{workflow}/{name}.{extension}");
        paths::inside(&self.root, &place).map_err(|why| io::Error::other(why.to_string()))
    }
}

fn command(check: &Check) -> String {
    digest_of(check.run.iter().flat_map(|part| [part.as_bytes(), b"\0"]))
}
