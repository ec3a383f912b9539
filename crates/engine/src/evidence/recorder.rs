//! The one that asks for a decision, and keeps every answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;

use super::account::{Account, Told, question};
use super::{Evidence, NoEvidence, Reading};
use crate::changes::Changes;
use crate::check::CheckResult;
use crate::digest::digest;
use crate::json::Json;

/// Keeps every answer, so that one decision sees one world, the step can tell what it saw, and the same can be
/// decided again.
pub struct Recorder {
    world: Arc<dyn Evidence>,
    seen: Mutex<Seen>,
    tree: OnceLock<Option<String>>,
    agents: OnceLock<Json>,
}

/// A file's bytes, or none where there is no such file.
type Content = Result<Option<Arc<[u8]>>, NoEvidence>;

/// What is asked often is also kept as it was told: to read it from the account takes longer.
#[derive(Default)]
struct Seen {
    files: BTreeMap<String, Content>,
    lists: BTreeMap<String, Result<Vec<String>, NoEvidence>>,
    times: BTreeMap<String, Result<Option<Timestamp>, NoEvidence>>,
    variables: BTreeMap<String, Option<String>>,
    checks: BTreeMap<String, CheckResult>,
    now: Option<Timestamp>,
    ids: usize,
    readings: BTreeMap<String, Reading>,
    account: Account,
}

impl Recorder {
    /// Records what is asked of `world`.
    pub fn new(world: Arc<dyn Evidence>) -> Recorder {
        Recorder { world, seen: Mutex::default(), tree: OnceLock::new(), agents: OnceLock::new() }
    }

    /// Everything that was looked up: in short, and whole.
    pub fn taken(&self) -> (Vec<Reading>, Account) {
        let mut seen = self.seen();
        let readings = std::mem::take(&mut seen.readings).into_values().collect();
        (readings, std::mem::take(&mut seen.account))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, query: String, answer: String, digest: String) {
        self.seen().readings.entry(query.clone()).or_insert(Reading { query, answer, digest });
    }

    fn account(&self, question: String, answer: &impl Told) {
        self.seen().account.note(question, answer);
    }

    /// Asks the world once, and after that the account.
    pub(super) fn once<T: Told>(
        &self,
        question: String,
        look: impl FnOnce(&dyn Evidence) -> T,
    ) -> T {
        if let Some(known) = self.seen().account.recall(&question) {
            return known;
        }
        let told = look(&*self.world);
        self.account(question, &told);
        told
    }

    /// A file's bytes, without a reading.
    pub(super) fn read_aside(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        let known = self.seen().files.get(path).cloned();
        let found = known.unwrap_or_else(|| {
            let found = self.world.read(path).map(|bytes| bytes.map(Arc::<[u8]>::from));
            let mark = found.clone().map(|bytes| bytes.map(|bytes| digest(&bytes)));
            self.account(question::read(path), &mark);
            if let (Ok(Some(bytes)), Ok(Some(mark))) = (&found, &mark) {
                self.seen().account.note_content(mark, bytes);
            }
            found
        });
        found.map(|bytes| bytes.map(|bytes| bytes.to_vec()))
    }

    /// An environment variable, without a reading.
    pub(super) fn variable_aside(&self, name: &str) -> Option<String> {
        let known = self.seen().variables.get(name).cloned();
        known.unwrap_or_else(|| {
            let value = self.world.variable(name);
            let mark = value.as_ref().map(|value| digest(value.as_bytes()));
            self.account(question::variable(name), &mark);
            value
        })
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
        let told = found.as_ref().map(|bytes| bytes.as_ref().map(|_| mark.clone()));
        self.account(question::read(path), &told.map_err(Clone::clone));
        if let Ok(Some(bytes)) = &found {
            self.seen().account.note_content(&mark, bytes);
        }
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
        self.account(question::list(pattern), &found);
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
        self.account(question::modified(path), &found);
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
        self.account(question::NOW.into(), &now);
        self.note("now".into(), now.to_string(), String::new());
        now
    }

    /// An environment variable. Its value may be a secret, so it is not written down: the account has its
    /// digest, by which the value is known again.
    pub fn variable(&self, name: &str) -> Option<String> {
        if let Some(known) = self.seen().variables.get(name) {
            return known.clone();
        }
        let value = self.world.variable(name);
        let answer = if value.is_some() { "set" } else { "not set" };
        let mark = value.as_ref().map(|value| digest(value.as_bytes()));
        self.account(question::variable(name), &mark);
        self.note(format!("env {name}"), answer.to_string(), mark.unwrap_or(answer.to_string()));
        self.seen().variables.insert(name.to_string(), value.clone());
        value
    }

    /// What the agent said last.
    pub fn last_message(&self) -> Option<String> {
        let message = self.once(question::LAST_MESSAGE.into(), |world| world.last_message());
        let answer = message.as_ref().map_or("none".into(), |text| format!("{} bytes", text.len()));
        self.note("last message".into(), answer, String::new());
        message
    }

    /// What the agent said since somebody last spoke to it.
    pub fn said(&self, since: Option<Timestamp>) -> Vec<String> {
        let said = self.once(question::said(since), |world| world.said(since));
        self.note("said".into(), format!("{} messages", said.len()), String::new());
        said
    }

    /// Files that differ from the last commit.
    pub fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        let question = question::changed_files(folder);
        let files = self.once(question, |world| world.changed_files(folder))?;
        let mark = digest(files.join("\n").as_bytes());
        self.note(format!("changed files {folder}"), format!("{} files", files.len()), mark);
        Ok(files)
    }

    /// A new name, each time.
    pub fn new_id(&self) -> String {
        let id = self.world.new_id();
        let number = {
            let mut seen = self.seen();
            seen.ids += 1;
            seen.ids
        };
        self.account(question::new_id(number), &id);
        self.note(format!("new id {id}"), id.clone(), String::new());
        id
    }

    /// The result of a check.
    pub fn check(&self, name: &str) -> Option<CheckResult> {
        if let Some(known) = self.seen().checks.get(name) {
            return Some(known.clone());
        }
        let told = self.world.check(name);
        self.account(question::check(name), &told);
        let (result, mark) = told?;
        self.note(format!("check {name}"), result.summary(), mark);
        self.seen().checks.insert(name.to_string(), result.clone());
        Some(result)
    }

    /// What the tree is known by.
    pub fn tree(&self) -> Option<String> {
        let tree = self.tree.get_or_init(|| {
            let tree = self.world.tree();
            self.account(question::TREE.into(), &tree);
            let answer = tree.clone().unwrap_or_else(|| "unknown".into());
            self.note("tree".into(), answer.clone(), answer);
            tree
        });
        tree.clone()
    }

    /// Keeps the files as they are now.
    pub fn snapshot(&self, beside: &[String]) -> Option<String> {
        let kept = self.once(question::snapshot(beside), |world| world.snapshot(beside));
        let answer = kept.clone().unwrap_or_else(|| "none".into());
        self.note("snapshot".into(), answer.clone(), answer);
        kept
    }

    /// What has changed since the files were kept.
    pub fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence> {
        let question = question::changes(base, beside);
        let found = self.once(question, |world| world.changes(base, beside));
        let (answer, mark) = match &found {
            Ok(changes) => (format!("{} files", changes.files.len()), changes.tree.clone()),
            Err(why) => (why.to_string(), "unreadable".to_string()),
        };
        self.note(format!("changes {base}"), answer, mark);
        found
    }

    /// What the files would be kept under with a patch applied to them.
    pub fn applied(&self, base: &str, path: &str, patch: &[u8]) -> Option<String> {
        let question = question::applied(base, &digest(patch));
        let tree = self.once(question, |world| world.applied(base, patch));
        let answer = tree.clone().unwrap_or_else(|| "it does not apply".into());
        self.note(format!("applied {path} {base}"), answer.clone(), answer);
        tree
    }

    /// The agents of the run.
    pub fn agents(&self) -> Json {
        let agents = self.agents.get_or_init(|| {
            let agents = self.world.agents();
            self.account(question::AGENTS.into(), &agents);
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

    /// What an agent has printed: for texts, so that a run has not moved on because of it.
    pub fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        self.once(question::log(agent, from, most), |world| world.log(agent, from, most))
    }

    /// What an agent said last: for texts, too.
    pub fn message(&self, agent: &str) -> Option<String> {
        self.once(question::message(agent), |world| world.message(agent))
    }

    /// What the agent said in the current turn.
    pub fn turn(&self) -> Vec<String> {
        let turn = self.once(question::TURN.into(), |world| world.turn());
        self.note("transcript".into(), format!("{} messages", turn.len()), String::new());
        turn
    }
}
