//! What is looked up beside a decision: for what it says, not for what it decides.

use std::sync::Arc;

use jiff::Timestamp;

use super::account::question;
use super::{Evidence, NoEvidence, Recorder};
use crate::changes::Changes;
use crate::check::CheckResult;
use crate::digest::digest;
use crate::json::Json;

/// The evidence of a recorder, for decisions that are only supposed. Answers are kept in its account, so that they can be told
/// again, but they are not among its readings: a run has not moved on because of them. Nothing is started or kept for it.
pub struct Aside(Arc<Recorder>);

impl Aside {
    /// Evidence beside what a recorder has looked up.
    pub fn new(recorder: Arc<Recorder>) -> Aside {
        Aside(recorder)
    }
}

impl Evidence for Aside {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        self.0.read_aside(path)
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        self.0.once(question::list(pattern), |world| world.list(pattern))
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        self.0.once(question::modified(path), |world| world.modified(path))
    }

    fn now(&self) -> Timestamp {
        self.0.once(question::NOW.into(), |world| world.now())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.variable_aside(name)
    }

    fn last_message(&self) -> Option<String> {
        self.0.once(question::LAST_MESSAGE.into(), |world| world.last_message())
    }

    fn turn(&self) -> Vec<String> {
        self.0.once(question::TURN.into(), |world| world.turn())
    }

    fn said(&self, since: Option<Timestamp>) -> Vec<String> {
        self.0.once(question::said(since), |world| world.said(since))
    }

    fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        self.0.once(question::changed_files(folder), |world| world.changed_files(folder))
    }

    fn new_id(&self) -> String {
        "01JFKQ00000000000000SUPPOSED"[..26].to_string()
    }

    fn check(&self, name: &str) -> Option<(CheckResult, String)> {
        let told = self.0.once(question::check(name), |world| world.check(name));
        // What has not run is taken to fail, so that its passing can be told as what is missing.
        Some(told.unwrap_or_default())
    }

    fn tree(&self) -> Option<String> {
        self.0.once(question::TREE.into(), |world| world.tree())
    }

    fn snapshot(&self, _beside: &[String]) -> Option<String> {
        self.tree()
    }

    fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence> {
        self.0.once(question::changes(base, beside), |world| world.changes(base, beside))
    }

    fn applied(&self, base: &str, patch: &[u8]) -> Option<String> {
        let question = question::applied(base, &digest(patch));
        self.0.once(question, |world| world.applied(base, patch))
    }

    fn agents(&self) -> Json {
        self.0.once(question::AGENTS.into(), |world| world.agents())
    }

    fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        self.0.log(agent, from, most)
    }

    fn message(&self, agent: &str) -> Option<String> {
        self.0.message(agent)
    }
}
