//! What a decision is told about the run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::workflow::Workflow;

/// What an expression sees as `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    pub name: String,
    /// The state document's path, relative to the project.
    pub document: String,
    /// Why the state is presumed, where the document cannot be read.
    pub problem: Option<String>,
    /// How many reviews were begun in the run.
    pub reviews: u64,
    /// How often somebody else has changed a protected field.
    pub tampered: u64,
    /// How many of those changes no person has accepted.
    pub unaccepted: u64,
    /// How many other runs of the workflow are open; told only where a run begins.
    pub others: u64,
    /// The session that owns the run, while that is alive.
    pub owner: Option<String>,
    /// When that session last gave a sign of life before this event.
    pub seen: Option<Timestamp>,
    /// The review that ended last: its file, and its verdict.
    pub last_review: Option<(String, Option<String>)>,
    /// Why no agent is started for it any more: its budget is used up.
    pub spent: Option<String>,
    /// Why nothing is started, run or written for it: nobody has consented to what the workflow does.
    pub untrusted: Option<String>,
    /// A job is at work that wants the run for itself, so that nothing can be asked.
    pub busy: bool,
    /// The properties whose `pass` has held before, by name.
    pub passed: Vec<String>,
}

/// Where files of runs are whose documents are in the store.
pub const FILES: &str = ".phasegate/files";

impl RunFacts {
    /// Why no agent can be started for the run now; none where nothing is in the way.
    pub fn obstacle(&self) -> Option<&str> {
        self.untrusted.as_deref().or(self.spent.as_deref())
    }

    pub(super) fn to_json(&self, workflow: &Workflow) -> Json {
        let dir = match self.document.strip_prefix("store:") {
            // What a workflow writes beside its document is beside our own files, where there is no document.
            Some(run) => format!("{FILES}/{run}"),
            None => self.document.rsplit_once('/').map_or(".", |(dir, _)| dir).to_string(),
        };
        let last_review = self.last_review.as_ref().map(|(file, verdict)| {
            let verdict = verdict.as_deref().map_or(Json::Null, Json::from);
            Json::from([("file", Json::from(file.as_str())), ("verdict", verdict)])
        });
        Json::from([
            ("name", Json::from(self.name.as_str())),
            ("workflow", Json::from(workflow.name.as_str())),
            ("document", Json::from(self.document.as_str())),
            ("dir", Json::from(dir)),
            ("reviews", Json::from(i64::try_from(self.reviews).unwrap_or(i64::MAX))),
            ("tampered", Json::from(i64::try_from(self.tampered).unwrap_or(i64::MAX))),
            ("unaccepted", Json::from(i64::try_from(self.unaccepted).unwrap_or(i64::MAX))),
            ("others", Json::from(i64::try_from(self.others).unwrap_or(i64::MAX))),
            ("problem", self.problem.as_deref().map_or(Json::Null, Json::from)),
            ("owner", self.owner.as_deref().map_or(Json::Null, Json::from)),
            ("seen", self.seen.map_or(Json::Null, |seen| Json::from(seen.to_string()))),
            ("last_review", last_review.unwrap_or(Json::Null)),
            ("obstacle", self.obstacle().map_or(Json::Null, Json::from)),
        ])
    }
}
