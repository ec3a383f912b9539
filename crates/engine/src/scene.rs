//! All that one decision was given, so that it can be decided again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::decide::{RunFacts, decide};
use crate::digest::digest_of;
use crate::events::EventKind;
use crate::evidence::{Account, Recalled};
use crate::json::Json;
use crate::step::{Event, Step};
use crate::workflow::Workflow;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// What a decision was given, but for what is kept beside it by digest: the definition, the document, and
/// the content of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    pub schema: u32,
    /// The digest of the definition, as the run keeps it.
    pub definition: String,
    /// The digest of the document's text.
    pub document: String,
    pub event: Event,
    pub run: RunFacts,
    /// Everything that was looked up.
    pub seen: Account,
    /// What the gate knew that gave another answer than the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Json>,
    /// Something was taken out before this was kept: what is decided on the rest is worth nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// What is decided on a scene.
#[derive(Debug)]
pub enum Again {
    Known(Box<Step>),
    /// The decision asks for what the scene does not have.
    Unknown(Vec<String>),
}

impl Scene {
    /// Decides on it, with any definition. `variables` knows values of environment variables; one counts
    /// only if it is the one that was seen.
    pub fn decide(
        &self,
        workflow: &Workflow,
        document: Json,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Again {
        let recalled = Arc::new(Recalled::new(self.seen.clone(), Box::new(variables)));
        let mut step = decide(workflow, document, &self.event, &self.run, recalled.clone());
        let missing = recalled.missing();
        if !missing.is_empty() {
            return Again::Unknown(missing);
        }
        step.answer = heard(&self.event, &step);
        Again::Known(Box::new(step))
    }
}

/// What the rules answer to an event: what a workflow has no rule for has happened all the same.
pub fn heard(event: &Event, step: &Step) -> Answer {
    if step.unheard && event.kind() == EventKind::Fact {
        return Answer::accepted();
    }
    step.answer.clone()
}

/// What a step does beside its answer and its document, in short: how far it moves, what it waits for, and
/// what it wants done.
pub fn fingerprint(step: &Step) -> String {
    // Without the rules' labels: another rule before them changes nothing about what they do.
    let moves = step.moves.iter().map(|it| [&it.of, &it.from, &it.to]).collect::<Vec<_>>();
    let moves = serde_json::to_vec(&moves).unwrap_or_default();
    let effects = serde_json::to_vec(&step.effects).unwrap_or_default();
    let wants = step.wants.as_ref().map_or("", |job| job.id.as_str());
    digest_of([step.to.as_bytes(), &moves, wants.as_bytes(), &effects])
}
