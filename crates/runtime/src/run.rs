//! Runs: which there are, and what they are called.

use std::fmt;

use phasegate_engine::glob;
use serde::{Deserialize, Serialize};

/// A run's name: `triage/web`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId {
    pub workflow: String,
    pub name: String,
}

/// The name of a run whose workflow has only one.
const ONLY: &str = "current";

impl RunId {
    /// The run whose state document is at `place`, for a workflow whose documents match `pattern`.
    pub fn of_document(workflow: &str, pattern: &str, place: &str) -> Option<RunId> {
        let name = glob::capture(pattern, place)?;
        let name = if name.is_empty() { ONLY } else { name };
        Some(RunId { workflow: workflow.into(), name: name.into() })
    }

    /// The run of a workflow's other place.
    pub fn of_fallback(workflow: &str) -> RunId {
        RunId { workflow: workflow.into(), name: "fallback".into() }
    }

    /// Where the run's state document is, for a workflow whose documents match `pattern`.
    pub fn place(&self, pattern: &str) -> String {
        pattern.replacen('*', &self.name, 1)
    }
}

/// A name for a run that a person can type and a file can have: everything else becomes a dash.
pub fn plain_name(text: &str) -> String {
    let dashed = text.replace(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)), "-");
    dashed.trim_matches(['-', '.']).to_string()
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}/{}", self.workflow, self.name)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<RunId, String> {
        match text.split_once('/') {
            Some((workflow, name)) if !workflow.is_empty() && !name.is_empty() => {
                Ok(RunId { workflow: workflow.into(), name: name.into() })
            }
            _ => Err(format!("{text:?} is not a run: a run is named WORKFLOW/NAME")),
        }
    }
}
