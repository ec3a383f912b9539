//! What a decision may look up. The engine asks; the runtime, a case file or a replay answers.

mod account;
mod aside;
mod recalled;
mod recorder;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::check::CheckResult;
use crate::glob;
use crate::json::Json;

pub use account::Account;
pub use aside::Aside;
pub use recalled::Recalled;
pub use recorder::Recorder;

/// Why something could not be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEvidence {
    /// The question itself cannot be asked, as one about a path without a name. That is a fault.
    Refused(String),
    /// The path leads out of the project. Paths come from documents, so that satisfies no guard: a fault
    /// would open the gate to anyone who edits a document.
    Outside(String),
    /// It is there but cannot be read. That satisfies no guard.
    Unreadable(String),
}

impl NoEvidence {
    /// Why, as a sentence.
    pub fn why(&self) -> &str {
        match self {
            NoEvidence::Refused(why) | NoEvidence::Outside(why) | NoEvidence::Unreadable(why) => {
                why
            }
        }
    }
}

impl fmt::Display for NoEvidence {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(self.why())
    }
}

/// The world, as far as a guard may see it. Paths are relative to the project.
pub trait Evidence: Send + Sync {
    /// The bytes of a file, or none where there is no such file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence>;
    /// Files that match a pattern, sorted.
    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence>;
    /// When a file was last changed.
    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence>;
    /// The clock.
    fn now(&self) -> Timestamp;
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// What the agent said last.
    fn last_message(&self) -> Option<String>;
    /// What the agent said in the current turn, oldest first.
    fn turn(&self) -> Vec<String>;
    /// What the agent said since somebody last spoke to it, a hook included, and not before a
    /// time, oldest first.
    fn said(&self, since: Option<Timestamp>) -> Vec<String>;
    /// Files that differ from the last commit, and new ones.
    fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence>;
    /// A name that nothing else has: a ULID.
    fn new_id(&self) -> String;
    /// What came of a check on the tree as it is now, and a mark of both; none where it must run
    /// first.
    fn check(&self, name: &str) -> Option<(CheckResult, String)>;
    /// What the tree is known by, as it is now.
    fn tree(&self) -> Option<String>;
    /// Keeps the files of the project as they are now, and those at paths that git ignores; what they are kept
    /// under, none without git.
    fn snapshot(&self, beside: &[String]) -> Option<String>;
    /// What has changed since the files were kept.
    fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence>;
    /// What the files would be kept under with a patch applied to them; none where it does not apply.
    fn applied(&self, base: &str, patch: &[u8]) -> Option<String>;
    /// The agents of the run, each as an object.
    fn agents(&self) -> Json;
    /// What an agent has printed, from a place on and at most so many bytes, and how much there is;
    /// none where there is no such agent.
    fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)>;
    /// What an agent said last, where that is known.
    fn message(&self, agent: &str) -> Option<String>;
    /// Hears which record a file should have: for evidence that is made up.
    fn expect(&self, _path: &str, _record: &str) {}
}

/// One thing that was looked up, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// `read results/3.json`
    pub query: String,
    /// A short form of the answer.
    pub answer: String,
    /// Tells two answers apart; empty for what changes by itself, as the clock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// Evidence that is given, not looked up: for case files and tests.
#[derive(Clone, Debug)]
pub struct GivenEvidence {
    pub files: BTreeMap<String, Vec<u8>>,
    pub now: Timestamp,
    pub variables: BTreeMap<String, String>,
    pub last_message: Option<String>,
    pub checks: BTreeMap<String, CheckResult>,
    pub tree: Option<String>,
    pub changes: Option<Changes>,
    pub applied: Option<String>,
    pub agents: Json,
    /// The records that files should have, by path, as they are asked for.
    pub shapes: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Default for GivenEvidence {
    fn default() -> GivenEvidence {
        GivenEvidence {
            files: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
            variables: BTreeMap::new(),
            last_message: None,
            checks: BTreeMap::new(),
            tree: None,
            changes: None,
            applied: None,
            agents: Json::Null,
            shapes: Arc::default(),
        }
    }
}

impl Evidence for GivenEvidence {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        contained(path)?;
        Ok(self.files.get(path).cloned())
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        contained(pattern)?;
        Ok(self.files.keys().filter(|path| glob::matches(pattern, path)).cloned().collect())
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        contained(path)?;
        Ok(self.files.contains_key(path).then_some(self.now))
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn last_message(&self) -> Option<String> {
        self.last_message.clone()
    }

    fn turn(&self) -> Vec<String> {
        self.last_message.clone().into_iter().collect()
    }

    fn said(&self, _since: Option<Timestamp>) -> Vec<String> {
        self.turn()
    }

    fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        contained(folder)?;
        let below = |path: &&String| folder == "." || path.starts_with(&format!("{folder}/"));
        Ok(self.files.keys().filter(below).cloned().collect())
    }

    fn new_id(&self) -> String {
        "01JFKQ0000000000000000CASE".into()
    }

    fn check(&self, name: &str) -> Option<(CheckResult, String)> {
        self.checks.get(name).map(|result| (result.clone(), result.summary()))
    }

    fn tree(&self) -> Option<String> {
        self.tree.clone()
    }

    fn snapshot(&self, _beside: &[String]) -> Option<String> {
        self.tree.clone()
    }

    fn changes(&self, _base: &str, _beside: &[String]) -> Result<Changes, NoEvidence> {
        let none = || NoEvidence::Unreadable("no changes are given".into());
        self.changes.clone().ok_or_else(none)
    }

    fn applied(&self, _base: &str, _patch: &[u8]) -> Option<String> {
        self.applied.clone()
    }

    fn agents(&self) -> Json {
        self.agents.clone()
    }

    fn message(&self, _agent: &str) -> Option<String> {
        None
    }

    fn expect(&self, path: &str, record: &str) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.insert(path.to_string(), record.to_string());
    }

    fn log(&self, _agent: &str, _from: u64, _most: u64) -> Option<(Vec<u8>, u64)> {
        None
    }
}

/// Refuses a path that could leave the project: absolute, or with `..`.
pub fn contained(path: &str) -> Result<(), NoEvidence> {
    if path.is_empty() {
        return Err(NoEvidence::Refused("the path \"\" is empty".into()));
    }
    let why = if path.starts_with('/') || path.contains('\\') || path.contains('\0') {
        "is not relative to the project"
    } else if path.split('/').any(|part| part == "..") {
        "leaves the project"
    } else {
        return Ok(());
    };
    Err(NoEvidence::Outside(format!("the path {path:?} {why}")))
}
