//! The state document of a run: as it is read, presumed, and written.

use std::sync::Arc;

use jiff::Timestamp;
use phasegate_engine::bom;
use phasegate_engine::decide::{RunFacts, render};
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::workflow::{TextId, Workflow};

use super::ground::Ground;
use super::{Found, GateError, Runs};
use crate::ledger::{Intended, Owner};
use crate::store::{Stored, Version};
use crate::workspace::place::Place;
use crate::world::{ClientReport, World};

/// A state document as it was read, or as it is presumed to be.
pub(super) struct Read {
    pub(super) text: Vec<u8>,
    /// None where there is no document.
    pub(super) version: Option<Version>,
    pub(super) document: Json,
    /// Why it is presumed although there is one.
    pub(super) problem: Option<String>,
}

impl Read {
    /// The document of a run that has none yet.
    pub(super) fn nothing() -> Read {
        Read { text: Vec::new(), version: None, document: Json::object(), problem: None }
    }
}

impl Runs<'_> {
    /// Reads the document of a run. Where the workflow says what a document is presumed to be that
    /// is missing or cannot be read, it is taken for that.
    pub(super) fn read(&self, found: &Found, workflow: &Workflow) -> Result<Read, GateError> {
        let stored = self.home().get(&found.place)?;
        let stored = self.as_decided(found, stored);
        let gone = || GateError::Gone(found.id.clone(), found.place.clone());
        let Some(Stored { bytes: text, version }) = stored else {
            let text =
                workflow.presumed.filter(|_| self.workspace.changed_at(&found.place).is_some());
            return self.presume(found, workflow, text.ok_or_else(gone)?);
        };
        let version = Some(version);
        let parsed = parse(&found.place, &text).and_then(|document| {
            // Where nobody waits for the answer, the rules say that it does not fit.
            if workflow.unreadable.is_some() || workflow.presumed.is_some() {
                let mut copy = document.clone();
                let fits = workflow.records.declare(&workflow.state, &mut copy, "state");
                fits.map_err(|mismatches| GateError::Unreadable(mismatches.to_string()))?;
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

    /// A document that a process has decided on, and died before it could put it in its place, counts: the
    /// next transaction puts it there.
    fn as_decided(&self, found: &Found, stored: Option<Stored>) -> Option<Stored> {
        let Some(Intended { before, after }) = &found.ledger.position.intended else {
            return stored;
        };
        if stored.as_ref().map(|stored| &stored.version) != before.as_ref() || before == after {
            return stored;
        }
        let Some(after) = after else { return None };
        // Bookkeeping and document are one there.
        if Place::of(&found.place).is_store() {
            return stored;
        }
        match self.workspace.left_behind(&found.place) {
            Some(left) if left.version() == after => {
                let decided = left.stored().ok();
                left.leave();
                decided.or(stored)
            }
            Some(left) => {
                left.leave();
                stored
            }
            None => stored,
        }
    }

    /// What an expression sees as `run`. Who works in a linked worktree is told where the document really is.
    pub(super) fn run_facts(
        &self,
        found: &Found,
        ground: &Ground,
        problem: Option<String>,
    ) -> RunFacts {
        let root = &self.project.root;
        let is_there = ground.site == *root || Place::of(&found.place).is_store();
        let document = if is_there {
            found.place.clone()
        } else {
            root.join(&found.place).to_string_lossy().into_owned()
        };
        let (reviews, tampered) = (found.ledger.work.tally.reviews, found.ledger.tamper.count);
        let session = &found.ledger.session;
        let is_alive = |owner: &&Owner| owner.is_held(Timestamp::now());
        let owner = session.owner.as_ref().filter(is_alive).map(|owner| owner.session.clone());
        let seen = session.owner.as_ref().map(|owner| owner.seen);
        let last_review = found.ledger.work.last_review();
        let (name, spent) = (found.id.name.clone(), self.spent(found));
        let passed = found.ledger.position.passed.clone();
        let unaccepted = found.ledger.tamper.unaccepted();
        let facts = RunFacts { name, document, problem, reviews, tampered, ..RunFacts::default() };
        RunFacts { unaccepted, spent, owner, seen, last_review, passed, ..facts }
    }

    fn presume(&self, found: &Found, workflow: &Workflow, text: TextId) -> Result<Read, GateError> {
        let run = self.run_facts(found, &self.ground(workflow, &Json::object()), None);
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        let rendered = render(workflow, text, None, &Event::stop(None), &run, world);
        let text = rendered?.into_bytes();
        let document = parse(&found.place, &text)?;
        Ok(Read { text, version: None, document, problem: None })
    }
}

pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<Json, GateError> {
    Json::parse(bom::strip_bytes(bytes))
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
