//! Jobs: processes that the runtime starts, supervises and hears of again.
//!
//! A check, a command, a reviewer, a worker and an agent are jobs. Four properties tell them apart,
//! and the words are names for the usual combinations: a workflow can combine them anew in a table
//! `[job.NAME]`.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::functions::object;
use crate::json::Json;

/// How long a job may take where nothing is said. Clients give a hook ten minutes.
const USUAL_TIMEOUT: Duration = Duration::from_mins(5);

/// What a job is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum JobKind {
    Check,
    Command,
    Reviewer,
    Worker,
    Agent,
    /// A combination of a workflow's own.
    Other(String),
}

impl From<String> for JobKind {
    fn from(word: String) -> JobKind {
        match word.as_str() {
            "check" => JobKind::Check,
            "command" => JobKind::Command,
            "reviewer" => JobKind::Reviewer,
            "worker" => JobKind::Worker,
            "agent" => JobKind::Agent,
            _ => JobKind::Other(word),
        }
    }
}

impl From<JobKind> for String {
    fn from(kind: JobKind) -> String {
        kind.to_string()
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            JobKind::Check => "check",
            JobKind::Command => "command",
            JobKind::Reviewer => "reviewer",
            JobKind::Worker => "worker",
            JobKind::Agent => "agent",
            JobKind::Other(word) => word,
        })
    }
}

/// What a job is for: the four properties in which kinds of jobs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    pub gives: Gives,
    pub bound: Bound,
    /// The event that wants it waits for its end. Otherwise it works in the background.
    pub waits: bool,
    /// Nothing else is done in the run meanwhile, and the answer to its end is the answer to the event
    /// that wanted it.
    pub alone: bool,
}

/// What the result of a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "gives")]
pub enum Gives {
    /// How it ended.
    #[default]
    Exit,
    /// A verdict, PASS or FAIL, and the file that it was asked to write.
    Verdict,
}

/// What the result of a job holds for: it is worth nothing once that has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "bound")]
pub enum Bound {
    /// The files of the project. Expressions read such a result as `check.NAME`.
    Tree,
    /// The state document.
    Document,
    #[default]
    Nothing,
}

impl Manner {
    /// What the five words mean; a job of a workflow's own says itself what it is.
    pub fn of(kind: &JobKind) -> Manner {
        let (gives, bound, waits, alone) = match kind {
            JobKind::Check => (Gives::Exit, Bound::Tree, true, false),
            JobKind::Reviewer => (Gives::Verdict, Bound::Document, true, false),
            JobKind::Command | JobKind::Worker => (Gives::Exit, Bound::Document, true, true),
            JobKind::Agent | JobKind::Other(_) => (Gives::Exit, Bound::Nothing, false, false),
        };
        Manner { gives, bound, waits, alone }
    }
}

/// What an agent may do that is started with the usual client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "rights")]
pub enum Rights {
    /// What its role needs: a reviewer reads, asks git, runs the commands of declared checks and writes its one
    /// file; a worker also edits.
    #[default]
    Least,
    /// Everything, without being asked.
    All,
}

impl Rights {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    fn is_least(&self) -> bool {
        *self == Rights::Least
    }
}

/// A program with its arguments, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    pub words: Vec<String>,
    pub timeout: Duration,
}

/// A job to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// No other job of the run has it at the same time.
    pub id: String,
    pub kind: JobKind,
    /// What the workflow calls such jobs.
    pub name: String,
    pub manner: Manner,
    pub role: Option<Actor>,
    /// What the rules want to know it by.
    pub facts: Json,
    /// Patterns of the files that its result depends on, where it is bound to the tree; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// How many tests must have run at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u64>,
    pub prompt: Option<String>,
    /// The file to be written.
    pub file: Option<String>,
    pub model: Option<String>,
    /// What runs, one after the other; empty where the usual client is meant.
    pub run: Vec<CommandRun>,
    /// What it may do, where the usual client is meant.
    #[serde(default, skip_serializing_if = "Rights::is_least")]
    pub rights: Rights,
    /// What a machine must have to take it from a queue; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// How long all of it may take.
    pub timeout: Duration,
}

impl Job {
    /// Commands of an action, which run one after the other.
    pub(crate) fn commands(commands: impl Iterator<Item = (String, CommandRun)>) -> Job {
        let (names, run): (Vec<String>, Vec<CommandRun>) = commands.unzip();
        let kind = JobKind::Command;
        Job {
            id: format!("{kind}.{}", names.join("+")),
            name: names.join(", "),
            manner: Manner::of(&kind),
            kind,
            role: None,
            facts: Json::object(),
            inputs: Vec::new(),
            min_tests: None,
            prompt: None,
            file: None,
            model: None,
            rights: Rights::Least,
            labels: None,
            timeout: run.iter().map(|run| run.timeout).sum(),
            run,
        }
    }

    /// `Reviewer code writes reviews/1.md.`
    pub fn at_work(&self) -> String {
        let kind = self.kind.to_string();
        let (first, rest) = kind.split_at(kind.chars().next().map_or(0, char::len_utf8));
        let (kind, name) = (format!("{}{rest}", first.to_uppercase()), &self.name);
        match &self.file {
            Some(file) => format!("{kind} {name} writes {file}."),
            None => format!("{kind} {name} is at work."),
        }
    }

    /// A job in the background as expressions see it before it has started.
    pub fn row(&self) -> Json {
        let role = self.role.map_or(Json::Null, |role| Json::from(role.to_string()));
        let own = [
            ("id", Json::from(self.id.as_str())),
            ("kind", Json::from(self.name.as_str())),
            ("role", role),
            ("status", Json::from("starting")),
            ("ended", Json::from(false)),
            ("ok", Json::from(false)),
        ];
        with_facts(own, &self.facts)
    }
}

/// An object with members of our own, and then the facts of a job.
pub fn with_facts<const N: usize>(own: [(&str, Json); N], facts: &Json) -> Json {
    let own = own.map(|(name, value)| (name.to_string(), value));
    let facts = match facts {
        Json::Object(facts) => {
            facts.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
        }
        _ => Vec::new(),
    };
    object(own.into_iter().chain(facts))
}

/// Whether a text is a label of machines: one word, so that lists of them can be written with commas.
pub fn is_label(text: &str) -> bool {
    let is_sign = |sign: char| sign.is_alphanumeric() || "-_.".contains(sign);
    !text.is_empty() && text.chars().all(is_sign)
}

/// `10m`, `90s`
pub(crate) fn timeout(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(USUAL_TIMEOUT) };
    let read: Result<SignedDuration, _> = text.parse();
    match read.ok().and_then(|time| Duration::try_from(time).ok()) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{text:?} is not a duration such as `90s` or `10m`")),
    }
}
