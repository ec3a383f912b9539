//! The state document of a run: as it is read, presumed, and written.

use std::sync::Arc;

use phasegate_engine::decide::{RunFacts, render};
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::workflow::{TextId, Workflow};

use super::{Found, GateError, Runs};
use crate::store::{Key, Stored, Version};
use crate::world::{Told, World};

/// A state document as it was read, or as it is presumed to be.
pub(super) struct Read {
    pub(super) text: Vec<u8>,
    /// None where there is no document.
    pub(super) version: Option<Version>,
    pub(super) document: Json,
    /// Why it is presumed although there is one.
    pub(super) problem: Option<String>,
}

impl Runs<'_> {
    /// Reads the document of a run. Where the workflow says what a document is presumed to be that
    /// is missing or cannot be read, it is taken for that.
    pub(super) fn read(&self, found: &Found, workflow: &Workflow) -> Result<Read, GateError> {
        let stored = self.store.get(&Key::Document(found.place.clone()))?;
        let gone = || GateError::Gone(found.id.clone(), found.place.clone());
        let Some(Stored { bytes: text, version }) = stored else {
            let text = workflow.presumed.filter(|_| self.store.changed_at(&found.place).is_some());
            return self.presume(found, workflow, text.ok_or_else(gone)?);
        };
        let version = Some(version);
        let parsed = parse(&found.place, &text).and_then(|document| {
            // Where nobody waits for the answer, the rules say that it does not fit.
            if workflow.unreadable.is_some() || workflow.presumed.is_some() {
                let mut copy = document.clone();
                let fits = workflow.records.declare(&workflow.state, &mut copy, "state");
                fits.map_err(|mismatches| {
                    let found: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
                    GateError::Unreadable(found.join("; "))
                })?;
            }
            Ok(document)
        });
        match (parsed, workflow.presumed) {
            (Ok(document), _) => Ok(Read { text, version, document, problem: None }),
            (Err(GateError::Unreadable(why)), Some(presumed)) => {
                let why = why.strip_prefix(&found.place).unwrap_or(&why).trim();
                let problem = Some(format!("{} cannot be used: {why}", found.place));
                Ok(Read { version, problem, ..self.presume(found, workflow, presumed)? })
            }
            (Err(error), _) => Err(error),
        }
    }

    fn presume(&self, found: &Found, workflow: &Workflow, text: TextId) -> Result<Read, GateError> {
        let run = run_facts(found, None);
        let world = Arc::new(World::new(&self.project.root, Told::default()));
        let rendered = render(workflow, text, None, &Event::stop(None), &run, world);
        let text = rendered.map_err(|fault| GateError::Other(fault.message))?.into_bytes();
        let document = parse(&found.place, &text)?;
        Ok(Read { text, version: None, document, problem: None })
    }
}

/// What an expression sees as `run`.
pub(super) fn run_facts(found: &Found, problem: Option<String>) -> RunFacts {
    let (name, document) = (found.id.name.clone(), found.place.clone());
    let (reviews, tampered) = (found.ledger.work.tally.reviews, found.ledger.tamper.count);
    RunFacts { name, document, problem, reviews, tampered }
}

pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<Json, GateError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Json::parse(text)
        .map_err(|error| GateError::Unreadable(format!("{place} is not valid JSON: {error}")))
}

/// The document's text in the style of the text it replaces.
pub(super) fn restyle(document: &Json, old: &[u8]) -> Vec<u8> {
    let old = std::str::from_utf8(old).unwrap_or_default();
    let mut text = document.to_text(Json::indent_of(old));
    if !old.ends_with('\n') {
        text.pop();
    }
    text.into_bytes()
}
