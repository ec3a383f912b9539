//! Read, decide, write: under one lock, and durable before the answer.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event, Step, Trace};
use phasegate_engine::workflow::Workflow;

use super::{Answered, Found, Gate, GateError};
use crate::fault_point;
use crate::journal::{self, Line};
use crate::ledger::{Last, Ledger, remembered};
use crate::run::RunId;
use crate::store::{Key, StoreError, Stored, Version};
use crate::world::{Told, World};

/// How often a step is decided again because somebody edited the document meanwhile.
const MOST_TRIES: usize = 5;

/// How many readings a journal line lists.
const MOST_EVIDENCE: usize = 64;

/// A run that is locked and read.
pub(super) struct Open<'a> {
    pub(super) found: &'a Found,
    pub(super) workflow: Rc<Workflow>,
    pub(super) ledger: Ledger,
    pub(super) ledger_version: Option<Version>,
    pub(super) stored: Stored,
    /// The digest of the stored document.
    pub(super) before: String,
    pub(super) document: Json,
    pub(super) notes: Vec<String>,
}

impl Gate<'_> {
    /// Locks and reads a run, and does it again if somebody edits the document in the meantime.
    pub(super) fn with_retries<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Open) -> Result<Option<T>, GateError>,
    ) -> Result<Option<T>, GateError> {
        let key = Key::Document(found.place.clone());
        let _lease = self.store.lease(&found.id, &key)?;
        let mut tries = 0;
        loop {
            let Some(open) = self.open(found)? else { return Ok(None) };
            match body(open) {
                Err(GateError::Store(StoreError::Conflict(_))) if tries < MOST_TRIES => tries += 1,
                result => return result,
            }
        }
    }

    fn open<'f>(&self, found: &'f Found) -> Result<Option<Open<'f>>, GateError> {
        let (ledger, ledger_version, notes) = self.ledger(&found.id)?;
        let Some(stored) = self.store.get(&Key::Document(found.place.clone()))? else {
            return Ok(None);
        };
        let document = parse(&found.place, &stored.bytes)?;
        let workflow = self.workflow(&found.id.workflow)?;
        let before = digest(&stored.bytes);
        Ok(Some(Open { found, workflow, ledger, ledger_version, stored, before, document, notes }))
    }

    pub(super) fn ledger(
        &self,
        id: &RunId,
    ) -> Result<(Ledger, Option<Version>, Vec<String>), GateError> {
        let key = Key::Ledger(id.clone());
        let new = || Ledger {
            schema: 1,
            run: id.to_string(),
            started_at: Some(Timestamp::now()),
            ..Ledger::default()
        };
        match self.store.get(&key)? {
            None => Ok((new(), None, Vec::new())),
            Some(stored) => match serde_json::from_slice(&stored.bytes) {
                Ok(ledger) => Ok((ledger, Some(stored.version), Vec::new())),
                Err(error) => {
                    let aside = self.store.set_aside(&key)?;
                    let note =
                        format!("the ledger could not be read ({error}); it was kept as {aside}");
                    Ok((new(), None, vec![note]))
                }
            },
        }
    }

    /// Decides on the document, which is taken: a second owner would force a copy of it.
    pub(super) fn decide(&self, open: &mut Open, event: &Event, told: &Told) -> Step {
        let run = RunFacts { name: open.found.id.name.clone(), document: open.found.place.clone() };
        let world = Arc::new(World::new(&self.project.root, told.clone()));
        decide(&open.workflow, std::mem::take(&mut open.document), event, &run, world)
    }

    pub(super) fn commit(
        &self,
        open: Open,
        event: &Event,
        step: Step,
    ) -> Result<Answered, GateError> {
        let Open { found, workflow, mut ledger, ledger_version, stored, before, notes, .. } = open;
        let now = Timestamp::now();
        let key = Key::Document(found.place.clone());
        let new = step.changed.then(|| restyle(&step.document, &stored.bytes));
        let after = new.as_ref().map_or_else(|| before.clone(), |bytes| digest(bytes));
        // The last moment at which the step can be thrown away without a trace.
        if self.store.version(&key)?.as_ref() != Some(&stored.version) {
            return Err(StoreError::Conflict(found.place.clone()).into());
        }
        fault_point::reach("before-journal");
        let unchanged_blocks = unchanged_blocks(&ledger, &step, &before);
        ledger.last = Some(Last {
            at: now,
            event: event.name.clone(),
            answer: step.answer.clone(),
            document: after.clone(),
            readings: remembered(&step.readings),
            unchanged_blocks,
        });
        ledger.blocks += u64::from(step.answer.is_block());
        ledger.definition.clone_from(&workflow.digest);
        ledger.finished = None;
        let mut evidence = step.readings;
        evidence.truncate(MOST_EVIDENCE);
        let line = Line {
            event: event.clone(),
            from: step.from,
            to: step.to,
            answer: step.answer.clone(),
            moves: step.moves,
            trace: step.trace,
            evidence,
            before,
            after,
            notes: notes.clone(),
            ..blank_line(now)
        };
        let ledger = self.write_line(&found.id, ledger, line)?;
        fault_point::reach("after-journal");
        if let Some(bytes) = new {
            self.store.put(&key, Some(&stored.version), &bytes)?;
        }
        fault_point::reach("after-document");
        let ledger_key = Key::Ledger(found.id.clone());
        self.store.put(&ledger_key, ledger_version.as_ref(), &to_bytes(&ledger)?)?;
        fault_point::reach("after-ledger");
        let block_exit = workflow.block_exit;
        let answer = way_out(step.answer, &found.id, workflow.way_out);
        let (run, document) = (found.id.clone(), step.document);
        Ok(Answered { run, answer, document, block_exit, notes })
    }

    /// Appends a journal line that continues the chain, and counts it.
    pub(super) fn write_line(
        &self,
        id: &RunId,
        mut ledger: Ledger,
        mut line: Line,
    ) -> Result<Ledger, GateError> {
        let (last, torn) = self.store.last_line(id)?;
        let (seq, prev) = journal::continue_from(last.as_deref());
        if torn > 0 {
            line.notes.push(format!("{torn} bytes of an unfinished line were dropped"));
        } else if seq > ledger.seq {
            line.notes
                .push(format!("line {seq} was written, but its process died before it answered"));
        }
        line.seq = seq + 1;
        line.prev = prev;
        ledger.seq = line.seq;
        let text = line.seal().map_err(|error| GateError::Other(error.to_string()))?;
        self.store.append(id, &text)?;
        Ok(ledger)
    }

    pub(super) fn put_ledger(&self, open: &Open) -> Result<(), GateError> {
        let key = Key::Ledger(open.found.id.clone());
        Ok(self.store.put(&key, open.ledger_version.as_ref(), &to_bytes(&open.ledger)?)?)
    }
}

fn unchanged_blocks(ledger: &Ledger, step: &Step, before: &str) -> u32 {
    let last = ledger.last.as_ref().filter(|last| last.answer.is_block());
    match (step.answer.is_block(), last) {
        (false, _) => 0,
        (true, Some(last)) if !last.moved_on(before, &step.readings) => last.unchanged_blocks + 1,
        (true, _) => 1,
    }
}

/// Clients promise to pass on 10,000 characters of a reason.
const MOST_REASON: usize = 9_000;

fn way_out(answer: Answer, run: &RunId, wanted: bool) -> Answer {
    let Answer::Block { mut reason } = answer else { return answer };
    if let Some((cut, _)) = reason.char_indices().nth(MOST_REASON) {
        reason.truncate(cut);
        reason.push('…');
    }
    if wanted {
        let reason_end = reason.trim_end().len();
        reason.truncate(reason_end);
        let _ = write!(reason, "\n\n(This is run {run}. To end it: `phasegate cancel {run}`.)");
    }
    Answer::Block { reason }
}

pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<Json, GateError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Json::parse(text)
        .map_err(|error| GateError::Other(format!("{place} is not valid JSON: {error}")))
}

/// The document's text in the style of the text it replaces.
fn restyle(document: &Json, old: &[u8]) -> Vec<u8> {
    let old = std::str::from_utf8(old).unwrap_or_default();
    let mut text = document.to_text(Json::indent_of(old));
    if !old.ends_with('\n') {
        text.pop();
    }
    text.into_bytes()
}

pub(super) fn to_bytes(ledger: &Ledger) -> Result<Vec<u8>, GateError> {
    let mut bytes =
        serde_json::to_vec_pretty(ledger).map_err(|error| GateError::Other(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn blank_line(at: Timestamp) -> Line {
    Line {
        seq: 0,
        at,
        event: Event {
            name: String::new(),
            actor: Actor::Engine,
            session: None,
            params: Json::object(),
        },
        from: String::new(),
        to: String::new(),
        answer: Answer::Allow { outcome: None, until: None, message: None },
        moves: Vec::new(),
        trace: Trace::default(),
        evidence: Vec::new(),
        before: String::new(),
        after: String::new(),
        notes: Vec::new(),
        prev: String::new(),
        hash: String::new(),
    }
}
