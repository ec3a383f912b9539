//! Everything that one decision looked up, by what was asked, so that it can be decided again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::NoEvidence;
use crate::changes::Changes;
use crate::check::CheckResult;
use crate::json::Json;

/// What a decision asked, and what it was told.
///
/// A question that is not here was not asked. The content of files is kept beside it, by digest: much of it
/// is the same from one decision to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Account {
    answers: BTreeMap<String, Json>,
    #[serde(skip)]
    contents: BTreeMap<String, Arc<[u8]>>,
}

impl Account {
    /// What was told; none where it was not asked.
    pub(super) fn recall<T: Told>(&self, question: &str) -> Option<T> {
        T::of(self.answers.get(question)?)
    }

    /// Keeps what was told.
    pub(super) fn note(&mut self, question: String, answer: &impl Told) {
        self.answers.insert(question, answer.as_json());
    }

    /// Keeps the content of a file.
    pub(super) fn note_content(&mut self, digest: &str, bytes: &Arc<[u8]>) {
        if !self.contents.contains_key(digest) {
            self.contents.insert(digest.to_string(), bytes.clone());
        }
    }

    /// The content of the files that were read, by digest.
    pub fn contents(&self) -> impl Iterator<Item = (&str, &Arc<[u8]>)> {
        self.contents.iter().map(|(digest, bytes)| (digest.as_str(), bytes))
    }

    pub(super) fn content(&self, digest: &str) -> Option<&Arc<[u8]>> {
        self.contents.get(digest)
    }

    /// The files that were read, each with the digest of its content.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.answers
            .iter()
            .filter_map(|(question, answer)| Some((question.strip_prefix(READ)?, answer.as_str()?)))
    }

    /// The same account with the content of its files, as far as `find` has it.
    #[must_use]
    pub fn with_contents(mut self, mut find: impl FnMut(&str) -> Option<Vec<u8>>) -> Account {
        let digests: Vec<String> = self.files().map(|(_, digest)| digest.to_string()).collect();
        for digest in digests {
            if !self.contents.contains_key(&digest)
                && let Some(bytes) = find(&digest)
            {
                self.contents.insert(digest, bytes.into());
            }
        }
        self
    }
}

/// What was told, for those who go on from there.
impl Account {
    /// The files that were listed.
    pub(crate) fn listed(&self) -> Vec<String> {
        let told = self.answers.iter().filter(|(question, _)| question.starts_with("list "));
        told.filter_map(|(_, answer)| Vec::<String>::of(answer)).flatten().collect()
    }

    /// The content of a file that was read, by its digest.
    pub(crate) fn content_of(&self, digest: &str) -> Option<&[u8]> {
        self.contents.get(digest).map(|bytes| &**bytes)
    }

    /// The results of checks, by name.
    pub(crate) fn results(&self) -> BTreeMap<String, CheckResult> {
        let told = self.answers.iter().filter_map(|(question, answer)| {
            let (result, _) = <(CheckResult, String)>::of(answer)?;
            Some((question.strip_prefix("check ")?.to_string(), result))
        });
        told.collect()
    }

    /// What the agent said last, as far as it was asked.
    pub(crate) fn message(&self) -> Option<String> {
        let last: Option<String> = self.recall::<Option<String>>(question::LAST_MESSAGE).flatten();
        last.or_else(|| {
            let said = |(question, answer): (&String, &Json)| {
                let is_said = question == question::TURN || question.starts_with("said");
                is_said.then(|| Vec::<String>::of(answer))?
            };
            self.answers.iter().find_map(said)?.pop()
        })
    }

    pub(crate) fn agents(&self) -> Option<Json> {
        self.recall(question::AGENTS)
    }

    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.recall(question::NOW)
    }

    pub(crate) fn tree(&self) -> Option<String> {
        self.recall::<Option<String>>(question::TREE).flatten()
    }

    /// What a patch was told to lead to.
    pub(crate) fn applied(&self) -> Option<String> {
        self.first("applied ")
    }

    /// What was told to have changed.
    pub(crate) fn changes(&self) -> Option<Changes> {
        self.first("changes ")
    }

    fn first<T: Told>(&self, begins: &str) -> Option<T> {
        let mut told = self.answers.iter().filter(|(question, _)| question.starts_with(begins));
        told.find_map(|(_, answer)| T::of(answer))
    }
}

/// How the question for a file's content begins.
const READ: &str = "read ";

/// The questions that there are: one way of writing each, for who asks and for who recalls.
pub(super) mod question {
    use jiff::Timestamp;

    pub(in crate::evidence) const NOW: &str = "now";
    pub(in crate::evidence) const LAST_MESSAGE: &str = "last message";
    pub(in crate::evidence) const TURN: &str = "turn";
    pub(in crate::evidence) const TREE: &str = "tree";
    pub(in crate::evidence) const AGENTS: &str = "agents";

    pub(in crate::evidence) fn read(path: &str) -> String {
        format!("{}{path}", super::READ)
    }

    pub(in crate::evidence) fn list(pattern: &str) -> String {
        format!("list {pattern}")
    }

    pub(in crate::evidence) fn modified(path: &str) -> String {
        format!("modified {path}")
    }

    pub(in crate::evidence) fn variable(name: &str) -> String {
        format!("env {name}")
    }

    pub(in crate::evidence) fn said(since: Option<Timestamp>) -> String {
        since.map_or("said".into(), |since| format!("said since {since}"))
    }

    pub(in crate::evidence) fn changed_files(folder: &str) -> String {
        format!("changed files {folder}")
    }

    /// Names are made one after the other.
    pub(in crate::evidence) fn new_id(number: usize) -> String {
        format!("new id {number}")
    }

    pub(in crate::evidence) fn check(name: &str) -> String {
        format!("check {name}")
    }

    pub(in crate::evidence) fn snapshot(beside: &[String]) -> String {
        format!("snapshot {}", beside.join("\0")).trim_end().to_string()
    }

    pub(in crate::evidence) fn changes(base: &str, beside: &[String]) -> String {
        format!("changes {base} {}", beside.join("\0")).trim_end().to_string()
    }

    /// A patch is known by its digest.
    pub(in crate::evidence) fn applied(base: &str, patch: &str) -> String {
        format!("applied {base} {patch}")
    }

    pub(in crate::evidence) fn log(agent: &str, from: u64, most: u64) -> String {
        format!("log {agent} {from} {most}")
    }

    pub(in crate::evidence) fn message(agent: &str) -> String {
        format!("message {agent}")
    }
}

/// Something that a decision can be told, and that comes back as it was.
pub(super) trait Told: Sized {
    fn as_json(&self) -> Json;
    fn of(json: &Json) -> Option<Self>;
}

impl Told for Json {
    fn as_json(&self) -> Json {
        self.clone()
    }

    fn of(json: &Json) -> Option<Json> {
        Some(json.clone())
    }
}

impl Told for String {
    fn as_json(&self) -> Json {
        Json::from(self.as_str())
    }

    fn of(json: &Json) -> Option<String> {
        json.as_str().map(str::to_string)
    }
}

impl Told for Timestamp {
    fn as_json(&self) -> Json {
        Json::from(self.to_string())
    }

    fn of(json: &Json) -> Option<Timestamp> {
        json.as_str()?.parse().ok()
    }
}

impl Told for Vec<String> {
    fn as_json(&self) -> Json {
        Json::from(self.iter().map(|text| Json::from(text.as_str())).collect::<Vec<_>>())
    }

    fn of(json: &Json) -> Option<Vec<String>> {
        let Json::List(texts) = json else { return None };
        texts.0.iter().map(String::of).collect()
    }
}

/// What a log has from a place on, and how long it is.
impl Told for (Vec<u8>, u64) {
    fn as_json(&self) -> Json {
        of_serde(&(&self.0, self.1))
    }

    fn of(json: &Json) -> Option<(Vec<u8>, u64)> {
        to_serde(json)
    }
}

/// The result of a check, and its mark.
impl Told for (CheckResult, String) {
    fn as_json(&self) -> Json {
        of_serde(self)
    }

    fn of(json: &Json) -> Option<(CheckResult, String)> {
        to_serde(json)
    }
}

impl Told for Changes {
    fn as_json(&self) -> Json {
        of_serde(self)
    }

    fn of(json: &Json) -> Option<Changes> {
        to_serde(json)
    }
}

impl<T: Told> Told for Option<T> {
    fn as_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, Told::as_json)
    }

    fn of(json: &Json) -> Option<Option<T>> {
        match json {
            Json::Null => Some(None),
            json => T::of(json).map(Some),
        }
    }
}

/// Makes a failure of one kind.
type Failure = fn(String) -> NoEvidence;

/// The members by which the kinds of a failure are told apart.
const FAILURES: [(&str, Failure); 3] = [
    ("refused", NoEvidence::Refused),
    ("outside", NoEvidence::Outside),
    ("unreadable", NoEvidence::Unreadable),
];

impl<T: Told> Told for Result<T, NoEvidence> {
    fn as_json(&self) -> Json {
        match self {
            Ok(told) => told.as_json(),
            Err(failure) => {
                let name = match failure {
                    NoEvidence::Refused(_) => "refused",
                    NoEvidence::Outside(_) => "outside",
                    NoEvidence::Unreadable(_) => "unreadable",
                };
                Json::from([(name, Json::from(failure.why()))])
            }
        }
    }

    fn of(json: &Json) -> Option<Result<T, NoEvidence>> {
        if let Json::Object(members) = json
            && members.len() == 1
        {
            let failure = FAILURES.iter().find_map(|(name, make)| {
                members.get(name)?.as_str().map(|why| make(why.to_string()))
            });
            if let Some(failure) = failure {
                return Some(Err(failure));
            }
        }
        T::of(json).map(Ok)
    }
}

fn of_serde(value: &impl Serialize) -> Json {
    let text = serde_json::to_vec(value).unwrap_or_default();
    Json::parse(&text).unwrap_or_default()
}

fn to_serde<T: DeserializeOwned>(json: &Json) -> Option<T> {
    serde_json::from_str(&json.to_text(None)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn comes_back<T: Told + PartialEq + std::fmt::Debug>(told: T) {
        let text = told.as_json().to_text(None);
        let json = Json::parse(text.as_bytes()).unwrap_or_default();
        assert_eq!(T::of(&json), Some(told));
    }

    #[test]
    fn what_is_told_comes_back_as_it_was() {
        comes_back(None::<String>);
        comes_back(Some("text".to_string()));
        comes_back(Ok::<_, NoEvidence>(vec!["a".to_string(), String::new()]));
        comes_back(Err::<Option<Timestamp>, _>(NoEvidence::Outside("out".into())));
        comes_back(Err::<Changes, _>(NoEvidence::Unreadable("no".into())));
        comes_back(Ok::<_, NoEvidence>(Changes { tree: "t".into(), ..Changes::default() }));
        comes_back(Some((vec![0, 255, 10], 3_u64)));
        comes_back(Some((CheckResult { ok: true, ..CheckResult::default() }, "m".to_string())));
        comes_back(Timestamp::UNIX_EPOCH);
    }
}
