//! Evidence out of an account: what a decision was told is told again, and nothing else.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::account::{Account, Told, question};
use super::{Evidence, NoEvidence};
use crate::changes::Changes;
use crate::check::CheckResult;
use crate::digest::digest;
use crate::json::Json;

/// How a value of an environment variable can be had; it counts only if its digest is the one that was seen.
pub type Variables<'v> = dyn Fn(&str) -> Option<String> + Send + Sync + 'v;

/// What a decision was told. What it was not told is noted as missing, and what is then decided is worth
/// nothing.
pub struct Recalled {
    account: Account,
    variables: Box<Variables<'static>>,
    missing: Mutex<BTreeSet<String>>,
    ids: Mutex<usize>,
}

impl Recalled {
    /// Evidence out of an account.
    pub fn new(account: Account, variables: Box<Variables<'static>>) -> Recalled {
        Recalled { account, variables, missing: Mutex::default(), ids: Mutex::default() }
    }

    /// What was asked that the account does not have.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.iter().cloned().collect()
    }

    fn miss(&self, question: String) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).insert(question);
    }

    fn recall<T: Told>(&self, question: String) -> Option<T> {
        let told = self.account.recall(&question);
        if told.is_none() {
            self.miss(question);
        }
        told
    }

    fn recall_or<T: Told + Default>(&self, question: String) -> T {
        self.recall(question).unwrap_or_default()
    }

    fn recall_result<T: Told>(&self, question: String) -> Result<T, NoEvidence> {
        let unknown = || Err(NoEvidence::Unreadable("it is not known".into()));
        self.recall(question).unwrap_or_else(unknown)
    }
}

impl Evidence for Recalled {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        let digest: Option<String> = self.recall_result(question::read(path))?;
        let Some(digest) = digest else { return Ok(None) };
        let content = self.account.content(&digest).map(|bytes| bytes.to_vec());
        if content.is_none() {
            self.miss(format!("the content of {path}"));
        }
        Ok(content)
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        self.recall_result(question::list(pattern))
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        self.recall_result(question::modified(path))
    }

    fn now(&self) -> Timestamp {
        self.recall(question::NOW.into()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let seen: String = self.recall_or::<Option<String>>(question::variable(name))?;
        let value = (self.variables)(name).filter(|value| digest(value.as_bytes()) == seen);
        if value.is_none() {
            self.miss(format!("the value of the environment variable {name}"));
        }
        value
    }

    fn last_message(&self) -> Option<String> {
        self.recall_or(question::LAST_MESSAGE.into())
    }

    fn turn(&self) -> Vec<String> {
        self.recall_or(question::TURN.into())
    }

    fn said(&self, since: Option<Timestamp>) -> Vec<String> {
        self.recall_or(question::said(since))
    }

    fn changed_files(&self, folder: &str) -> Result<Vec<String>, NoEvidence> {
        self.recall_result(question::changed_files(folder))
    }

    fn new_id(&self) -> String {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        *ids += 1;
        self.recall_or(question::new_id(*ids))
    }

    fn check(&self, name: &str) -> Option<(CheckResult, String)> {
        self.recall_or(question::check(name))
    }

    fn tree(&self) -> Option<String> {
        self.recall_or(question::TREE.into())
    }

    fn snapshot(&self, beside: &[String]) -> Option<String> {
        self.recall_or(question::snapshot(beside))
    }

    fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, NoEvidence> {
        self.recall_result(question::changes(base, beside))
    }

    fn applied(&self, base: &str, patch: &[u8]) -> Option<String> {
        self.recall_or(question::applied(base, &digest(patch)))
    }

    fn agents(&self) -> Json {
        self.recall_or(question::AGENTS.into())
    }

    fn log(&self, agent: &str, from: u64, most: u64) -> Option<(Vec<u8>, u64)> {
        self.recall_or(question::log(agent, from, most))
    }

    fn message(&self, agent: &str) -> Option<String> {
        self.recall_or(question::message(agent))
    }
}
