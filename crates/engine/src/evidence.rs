//! What a decision may look up. The engine asks; the runtime, a case file or a replay answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::check::CheckResult;
use crate::digest::digest;
use crate::glob;
use crate::json::Json;

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

impl fmt::Display for NoEvidence {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            NoEvidence::Refused(why) | NoEvidence::Outside(why) | NoEvidence::Unreadable(why) => {
                out.write_str(why)
            }
        }
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

/// Keeps every answer, so that one decision sees one world and the step can tell what it saw.
pub struct Recorder {
    world: Arc<dyn Evidence>,
    seen: Mutex<Seen>,
    tree: OnceLock<Option<String>>,
    agents: OnceLock<Json>,
}

/// A file's bytes, or none where there is no such file.
type Content = Result<Option<Arc<[u8]>>, NoEvidence>;

#[derive(Default)]
struct Seen {
    files: BTreeMap<String, Content>,
    lists: BTreeMap<String, Result<Vec<String>, NoEvidence>>,
    times: BTreeMap<String, Result<Option<Timestamp>, NoEvidence>>,
    variables: BTreeMap<String, Option<String>>,
    checks: BTreeMap<String, CheckResult>,
    changes: BTreeMap<String, Result<Changes, NoEvidence>>,
    now: Option<Timestamp>,
    readings: BTreeMap<String, Reading>,
}

impl Recorder {
    /// Records what is asked of `world`.
    pub fn new(world: Arc<dyn Evidence>) -> Recorder {
        Recorder { world, seen: Mutex::default(), tree: OnceLock::new(), agents: OnceLock::new() }
    }

    /// Everything that was looked up.
    pub fn readings(&self) -> Vec<Reading> {
        self.seen().readings.values().cloned().collect()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, query: String, answer: String, digest: String) {
        self.seen().readings.entry(query.clone()).or_insert(Reading { query, answer, digest });
    }

    /// Says which record a file should have.
    pub(crate) fn expect(&self, path: &str, record: &str) {
        self.world.expect(path, record);
    }

    /// A file's bytes.
    pub fn read(&self, path: &str) -> Content {
        if let Some(known) = self.seen().files.get(path) {
            return known.clone();
        }
        let found = self.world.read(path).map(|bytes| bytes.map(Arc::<[u8]>::from));
        let (answer, mark) = match &found {
            Ok(Some(bytes)) => (format!("{} bytes", bytes.len()), digest(bytes)),
            Ok(None) => ("absent".to_string(), "absent".to_string()),
            Err(why) => (why.to_string(), "unreadable".to_string()),
        };
        self.note(format!("read {path}"), answer, mark);
        self.seen().files.insert(path.to_string(), found.clone());
        found
    }

    /// Files that match a pattern.
    pub fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        if let Some(known) = self.seen().lists.get(pattern) {
            return known.clone();
        }
        let found = self.world.list(pattern);
        let (answer, mark) = match &found {
            Ok(names) => (format!("{} files", names.len()), digest(names.join("\n").as_bytes())),
            Err(why) => (why.to_string(), "unreadable".to_string()),
        };
        self.note(format!("list {pattern}"), answer, mark);
        self.seen().lists.insert(pattern.to_string(), found.clone());
        found
    }

    /// Whether there is such a file.
    pub fn exists(&self, path: &str) -> Result<bool, NoEvidence> {
        let found = self.time(path);
        if let Err(why) = &found {
            self.note(format!("exists {path}"), why.to_string(), "unreadable".into());
        }
        let found = found?.is_some();
        self.note(format!("exists {path}"), found.to_string(), found.to_string());
        Ok(found)
    }

    /// When a file was last changed.
    pub fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        let found = self.time(path)?;
        let answer = found.map_or("absent".to_string(), |time| time.to_string());
        self.note(format!("modified {path}"), answer.clone(), answer);
        Ok(found)
    }

    fn time(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        if let Some(known) = self.seen().times.get(path) {
            return known.clone();
        }
        let found = self.world.modified(path);
        self.seen().times.insert(path.to_string(), found.clone());
        found
    }

    /// The clock, which stands still during a decision.
    pub fn now(&self) -> Timestamp {
        if let Some(now) = self.seen().now {
            return now;
        }
        let now = self.world.now();
        self.seen().now = Some(now);
        self.note("now".into(), now.to_string(), String::new());
        now
    }

    /// An environment variable. Its value may be a secret, so it is not written down.
    pub fn variable(&self, name: &str) -> Option<String> {
        if let Some(known) = self.seen().variables.get(name) {
            return known.clone();
        }
        let value = self.world.variable(name);
        let answer = if value.is_some() { "set" } else { "not set" };
        let mark = value.as_ref().map_or(answer.to_string(), |value| digest(value.as_bytes()));
        self.note(format!("env {name}"), answer.to_string(), mark);
        self.seen().variables.insert(name.to_string(), value.clone());
        value
    }

    /// What the agent said last.
    pub fn last_message(&self) -> Option<String> {
        let message = self.world.last_message();
        let answer = message.as_ref().map_or("none".into(), |text| format!("{} bytes", text.len()));
        self.note("last message".into(), answer, String::new());
        message
    }

    /// What the agent said since somebody last spoke to it.
    pub fn said(&self, since: Option<Timestamp>) -> Vec<String> {
        let said = self.world.said(since);
        self.note("said".into(), format!("{} messages", said.len()), String::new());
        said
    }

    /// Files that differ from the last commit.
    pub fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        let files = self.world.changed_files(folder)?;
        let mark = digest(files.join("\n").as_bytes());
        self.note(format!("changed files {folder}"), format!("{} files", files.len()), mark);
        Ok(files)
    }

    /// A new name, each time.
    pub fn new_id(&self) -> String {
        let id = self.world.new_id();
        self.note(format!("new id {id}"), id.clone(), String::new());
        id
    }

    /// The result of a check.
    pub fn check(&self, name: &str) -> Option<CheckResult> {
        if let Some(known) = self.seen().checks.get(name) {
            return Some(known.clone());
        }
        let (result, mark) = self.world.check(name)?;
        self.note(format!("check {name}"), result.summary(), mark);
        self.seen().checks.insert(name.to_string(), result.clone());
        Some(result)
    }

    /// What the tree is known by.
    pub fn tree(&self) -> Option<String> {
        let tree = self.tree.get_or_init(|| {
            let tree = self.world.tree();
            let answer = tree.clone().unwrap_or_else(|| "unknown".into());
            self.note("tree".into(), answer.clone(), answer);
            tree
        });
        tree.clone()
    }

    /// Keeps the files as they are now.
    pub fn snapshot(&self, beside: &[String]) -> Option<String> {
        let kept = self.world.snapshot(beside);
        let answer = kept.clone().unwrap_or_else(|| "none".into());
        self.note("snapshot".into(), answer.clone(), answer);
        kept
    }

    /// What has changed since the files were kept.
    pub fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence> {
        let key = format!("{base} {}", beside.join("\0"));
        if let Some(known) = self.seen().changes.get(&key) {
            return known.clone();
        }
        let found = self.world.changes(base, beside);
        let (answer, mark) = match &found {
            Ok(changes) => (format!("{} files", changes.files.len()), changes.tree.clone()),
            Err(why) => (why.to_string(), "unreadable".to_string()),
        };
        self.note(format!("changes {base}"), answer, mark);
        self.seen().changes.insert(key, found.clone());
        found
    }

    /// What the files would be kept under with a patch applied to them.
    pub fn applied(&self, base: &str, path: &str, patch: &[u8]) -> Option<String> {
        let tree = self.world.applied(base, patch);
        let answer = tree.clone().unwrap_or_else(|| "it does not apply".into());
        self.note(format!("applied {path} {base}"), answer.clone(), answer);
        tree
    }

    /// The agents of the run.
    pub fn agents(&self) -> Json {
        let agents = self.agents.get_or_init(|| {
            let agents = self.world.agents();
            let count = match &agents {
                Json::List(agents) => agents.0.len(),
                _ => 0,
            };
            // Without agents there is nothing to tell.
            if count > 0 {
                let mark = digest(agents.to_text(None).as_bytes());
                self.note("agents".into(), format!("{count} agents"), mark);
            }
            agents
        });
        agents.clone()
    }

    /// What an agent has printed.
    pub fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        self.world.log(agent, from, most)
    }

    /// What an agent said last: for texts, so that it is not evidence.
    pub fn message(&self, agent: &str) -> Option<String> {
        self.world.message(agent)
    }

    /// What the agent said in the current turn.
    pub fn turn(&self) -> Vec<String> {
        let turn = self.world.turn();
        self.note("transcript".into(), format!("{} messages", turn.len()), String::new());
        turn
    }
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
