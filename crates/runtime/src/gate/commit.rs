//! Read, decide, write: under one lock, and durable before the answer.

use std::fmt::Write as _;
use std::rc::Rc;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::decide;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event, Step, Trace};
use phasegate_engine::workflow::Workflow;

use super::document::{Read, run_facts};
use super::errands::Errands;
use super::pin::protected;
use super::{Answered, Found, Gate, GateError};
use crate::caller;
use crate::checks::Checks;
use crate::fault_point;
use crate::journal::{self, Line};
use crate::ledger::{Cancelled, Insisting, Last, Ledger, Tampered, remembered};
use crate::run::RunId;
use crate::store::{Key, StoreError, Version};
use crate::world::Told;

/// How often a step is decided again because somebody edited the document meanwhile.
const MOST_TRIES: usize = 5;

/// The event that ends a run for good.
pub const CANCEL: &str = "cancel";

/// A run that is locked and read.
pub(super) struct Open<'a> {
    pub(super) found: &'a Found,
    pub(super) workflow: Rc<Workflow>,
    pub(super) ledger: Ledger,
    pub(super) ledger_version: Option<Version>,
    pub(super) read: Read,
    /// The digest of the document's text.
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
            match body(self.open(found)?) {
                Err(GateError::Store(StoreError::Conflict(_))) if tries < MOST_TRIES => tries += 1,
                result => return result,
            }
        }
    }

    fn open<'f>(&self, found: &'f Found) -> Result<Open<'f>, GateError> {
        // Under the lock, the ledger is mostly still what it was when the run was found.
        let version = self.store.version(&Key::Ledger(found.id.clone()))?;
        let (mut ledger, ledger_version, mut notes) =
            if version.is_some() && version == found.version {
                ((*found.ledger).clone(), version, Vec::new())
            } else {
                self.ledger(&found.id)?
            };
        let workflow = self.pinned(&found.id, &mut ledger, &mut notes)?;
        let mut read = match self.read(found, &workflow) {
            Ok(read) => read,
            // A process that died after it removed the document leaves the ledger behind.
            Err(GateError::Gone(..)) if self.died_removing(&found.id, &ledger)? => {
                ledger.removed = true;
                self.put_ledger(&found.id, ledger_version.as_ref(), &ledger)?;
                return Err(GateError::Over);
            }
            Err(error) => return Err(error),
        };
        let before = digest(&read.text);
        let document = std::mem::take(&mut read.document);
        let is_known = read.version.is_some() && read.problem.is_none();
        if is_known {
            let ours = (&found.id, &*workflow);
            self.compare(ours, &mut ledger, &document, &before, &mut notes)?;
        } else if read.version.is_none() && ledger.written {
            notes.push(format!("run {}: its state document {} is gone.", found.id, found.place));
        }
        ledger.written = read.version.is_some();
        Ok(Open { found, workflow, ledger, ledger_version, read, before, document, notes })
    }

    fn died_removing(&self, id: &RunId, ledger: &Ledger) -> Result<bool, GateError> {
        let last = self.store.last_line(id)?.0.as_deref().and_then(journal::position);
        Ok(ledger.seq > 0 && last.is_some_and(|(seq, _)| seq > ledger.seq))
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
            None => {
                let mut ledger = self.rebuilt(id, new())?;
                let note = "the ledger was gone; it was made again from the journal";
                let notes = if ledger.seq > 1 { vec![note.to_string()] } else { Vec::new() };
                // After one line there was none yet: its process died before it answered.
                ledger.seq = if ledger.seq == 1 { 0 } else { ledger.seq };
                Ok((ledger, None, notes))
            }
            Some(stored) => match serde_json::from_slice(&stored.bytes) {
                Ok(ledger) => Ok((ledger, Some(stored.version), Vec::new())),
                Err(error) => {
                    let aside = self.store.set_aside(&key)?;
                    let note =
                        format!("the ledger could not be read ({error}); it was kept as {aside}");
                    let ledger = self.rebuilt(id, new())?;
                    self.store.put(&key, None, &to_bytes(&ledger)?)?;
                    Ok((ledger, self.store.version(&key)?, vec![note]))
                }
            },
        }
    }

    /// What the journal knows of a run whose ledger is lost: above all that it was cancelled.
    pub(super) fn rebuilt(&self, id: &RunId, mut ledger: Ledger) -> Result<Ledger, GateError> {
        for text in self.store.lines(id)? {
            let Ok(line) = serde_json::from_str::<Line>(&text) else { continue };
            ledger.seq = line.seq;
            ledger.head = line.hash;
            ledger.tally.blocks += u64::from(line.answer.is_block());
            // A run that decides anything after it was cancelled has begun again.
            if !line.to.is_empty() {
                ledger.cancelled = None;
            } else if line.answer.outcome() == Some(Outcome::Aborted) && line.event.name == CANCEL {
                let reason = line.answer.text().map(str::to_string);
                let (at, by) = (line.at, line.event.actor);
                let told = by == Actor::Human;
                ledger.cancelled = Some(Cancelled { at, reason, by, told });
            }
        }
        self.find_pin(id, &mut ledger);
        Ok(ledger)
    }

    /// Decides on the document, which is taken: a second owner would force a copy of it.
    pub(super) fn decide(
        &self,
        open: &mut Open,
        event: &Event,
        told: &Told,
        errands: &Errands,
    ) -> Step {
        let mut run = run_facts(open.found, open.read.problem.clone());
        // What was noticed only now counts, too.
        run.tampered = open.ledger.tampered_in_all;
        // What was run for an earlier stop that could not wait counts, if the files are the same.
        let mut fresh = errands.fresh.clone();
        if !open.ledger.failed.is_empty() {
            let tree = Checks::new(&self.project.root, &open.workflow).tree_now();
            for (name, ran) in &open.ledger.failed {
                if ran.is_of(tree.as_deref()) && !fresh.contains_key(name) {
                    fresh.insert(name.clone(), ran.clone());
                }
            }
        }
        let world = self.world(&open.workflow, &open.ledger, told, &fresh);
        decide(&open.workflow, std::mem::take(&mut open.document), event, &run, world)
    }

    /// Commits a step; `new` is the text of its document, if that has changed.
    pub(super) fn commit(
        &self,
        open: Open,
        event: &Event,
        mut step: Step,
        mut new: Option<Vec<u8>>,
        errands: &Errands,
    ) -> Result<Answered, GateError> {
        let Open { found, workflow, mut ledger, ledger_version, read, before, .. } = open;
        let mut notes = open.notes;
        let acts = step.effects.contains(&Effect::Remove) || new.is_some();
        if let (Some(problem), true) = (&read.problem, acts) {
            // What cannot be read is not overwritten.
            step.undo(refusal(event, format!("{problem}. Mend it, or remove it.")));
            new = None;
        }
        let now = Timestamp::now();
        if errands.is_settled() {
            ledger.checking = None;
        }
        if event.is_question() {
            ledger.failed.clear();
        }
        for (name, ran) in &errands.fresh {
            match ran.passed() {
                Some(passed) => ledger.checks.insert(name.clone(), passed),
                None => ledger.checks.remove(name),
            };
        }
        let key = Key::Document(found.place.clone());
        // The last moment at which the step can be thrown away without a trace.
        if self.store.version(&key)? != read.version {
            return Err(StoreError::Conflict(found.place.clone()).into());
        }
        fault_point::reach("before-journal");
        let carried = self.carry_out(&step.effects).and_then(|removed| {
            self.enlist(&found.id, event.actor, &mut ledger, &step.effects)?;
            Ok(removed)
        });
        let removed = match carried {
            Ok(removed) => removed,
            // An action that cannot be carried out is refused, and that is written down.
            Err(GateError::Other(reason)) if !event.is_question() => {
                step.undo(Answer::deny_as("failed", reason));
                new = None;
                false
            }
            Err(error) => return Err(error),
        };
        let after = new.as_ref().map_or_else(|| before.clone(), |bytes| digest(bytes));
        if event.is_question() {
            ledger.insisting = insisting(&ledger, event, &step, &before, &after, now);
        }
        let answered_before = ledger.last.as_ref().map(|last| last.answer.clone());
        ledger.last =
            Some(Last { at: now, event: event.name.clone(), answer: step.answer.clone() });
        self.pin(&found.id, &workflow, &mut ledger)?;
        ledger.document.clone_from(&found.place);
        // What is presumed was not read.
        if read.problem.is_none() {
            ledger.protected = protected(&workflow, &step.document);
        }
        // Where nobody but others have moved the run, that is still to be noticed.
        if ledger.phase.is_empty() || !step.moves.is_empty() {
            ledger.phase.clone_from(&step.to);
            ledger.ended_by_hand = false;
        }
        ledger.finished = None;
        ledger.removed = false;
        let outer = workflow.outer();
        let ended = outer.phase(&step.to).is_some_and(|phase| outer.get(phase).ends.is_some())
            && !ledger.is_left_by_hand(&step.to);
        let line = Line {
            event: event.clone(),
            from: step.from,
            to: step.to,
            answer: step.answer.clone(),
            moves: step.moves,
            trace: step.trace,
            evidence: step.readings,
            before,
            after,
            notes: notes.clone(),
            ..blank_line(now)
        };
        let (mut ledger, said) = self.write_line(&found.id, ledger, line)?;
        notes.extend(said);
        // At a stop the user is told, also what an action has found out before.
        if event.is_question() {
            notes.splice(0..0, std::mem::take(&mut ledger.untold));
        } else {
            ledger.untold.extend(notes.iter().cloned());
        }
        fault_point::reach("after-journal");
        if removed {
            if let Some(version) = &read.version {
                self.store.remove(&key, version)?;
            }
            ledger.removed = true;
        } else if let Some(bytes) = new {
            let put = self.store.put(&key, read.version.as_ref(), &bytes);
            ledger.written = true;
            let is_final =
                |effect: &Effect| matches!(effect, Effect::Run(..) | Effect::Move { .. });
            let acted = step.effects.iter().any(is_final);
            put.map_err(|error| match error {
                // Its commands must not run twice, and what was moved is no longer where the rules
                // would look for it.
                StoreError::Conflict(place) if acted => GateError::Other(format!(
                    "{place} was changed meanwhile: commands have run and files were moved, but \
                     nothing else was done"
                )),
                error => error.into(),
            })?;
        }
        self.transcribe(&step.effects, &mut notes);
        if ended {
            ledger.finished = self.store.version(&key)?.map(|version| version.0);
        }
        fault_point::reach("after-document");
        self.put_ledger(&found.id, ledger_version.as_ref(), &ledger)?;
        if let (Some(version), true) = (&ledger.finished, ledger.untold.is_empty()) {
            self.store.note_ended(&found.id, &Version(version.clone()));
        }
        self.dismiss(&ledger, &step.effects);
        if event.is_question() {
            let notify = &self.project.config.notify;
            notify.tell(&found.id, &ledger.phase, &step.answer, answered_before.as_ref());
        }
        fault_point::reach("after-ledger");
        let block_exit = workflow.block_exit;
        let answer = way_out(step.answer, &found.id, workflow.way_out);
        let (run, document) = (found.id.clone(), step.document);
        let agents = !ledger.agents.is_empty();
        let started = step.effects.iter().filter_map(|effect| match effect {
            Effect::Start(agent) => Some(agent.id.clone()),
            _ => None,
        });
        let started = started.collect();
        Ok(Answered { run, answer, document, block_exit, notes, over: false, agents, started })
    }

    /// Appends a journal line that continues the chain, and counts it.
    pub(super) fn write_line(
        &self,
        id: &RunId,
        mut ledger: Ledger,
        mut line: Line,
    ) -> Result<(Ledger, Vec<String>), GateError> {
        let mut said = Vec::new();
        let (last, torn) = self.store.last_line(id)?;
        let position = last.as_deref().map(journal::position);
        if let Some(None) = position {
            let aside = self.store.set_aside(&Key::Journal(id.clone()))?;
            said.push(format!("the journal of {id} could not be read; it was kept as {aside}"));
        }
        let (seq, prev) = position.flatten().unwrap_or_default();
        let other = seq == ledger.seq && !ledger.head.is_empty() && prev != ledger.head;
        if seq < ledger.seq || other {
            let (field, from) = ("journal".to_string(), format!("line {}", ledger.seq));
            let to = if other { "another line".into() } else { format!("line {seq}") };
            said.push(format!(
                "the journal of {id} was changed: it ended with {from}, now with {to}"
            ));
            ledger.tampered.push(Tampered { at: line.at, field, from, to });
        }
        line.notes.extend(said.iter().cloned());
        if torn > 0 {
            line.notes.push(format!("{torn} bytes of an unfinished line were dropped"));
        } else if seq > ledger.seq {
            let own = *self.own_line.borrow() == Some((id.clone(), seq));
            let why = if own {
                "then decided again: the document was changed meanwhile"
            } else {
                "but its process died before it answered"
            };
            line.notes.push(format!("line {seq} was written, {why}"));
        }
        // After a line that is gone the numbers go on, so that the gap stays to be seen.
        line.seq = seq.max(ledger.seq) + 1;
        line.prev = prev;
        // Who stops is told by the client; for the rest, the processes above say who it was.
        if !line.event.is_question() {
            line.by = caller::ancestry();
        }
        ledger.seq = line.seq;
        let text = line.bound().seal().map_err(|error| GateError::Other(error.to_string()))?;
        self.store.append(id, &text)?;
        *self.own_line.borrow_mut() = Some((id.clone(), ledger.seq));
        ledger.head = journal::position(&text).map(|(_, hash)| hash).unwrap_or_default();
        Ok((ledger, said))
    }

    pub(super) fn put_ledger(
        &self,
        id: &RunId,
        version: Option<&Version>,
        ledger: &Ledger,
    ) -> Result<(), GateError> {
        Ok(self.store.put(&Key::Ledger(id.clone()), version, &to_bytes(ledger)?)?)
    }
}

/// The answer where nothing is done: a stop is let go, an action is refused.
pub(super) fn refusal(event: &Event, why: String) -> Answer {
    if event.is_question() { Answer::allow_saying(Outcome::Fault, why) } else { Answer::deny(why) }
}

/// The block that the agent works on after a stop: a new one, or the one that it still works on
/// while it waits for its own background work.
fn insisting(
    ledger: &Ledger,
    event: &Event,
    step: &Step,
    before: &str,
    after: &str,
    now: Timestamp,
) -> Option<Insisting> {
    let last = ledger.insisting.as_ref();
    match &step.answer {
        Answer::Block { .. } => {
            let unmoved = last.filter(|last| !last.moved_on(before, &step.readings));
            Some(Insisting {
                since: now,
                session: event.session.clone(),
                document: after.to_string(),
                readings: remembered(&step.readings),
                blocks: unmoved.map_or(0, |last| last.blocks) + 1,
            })
        }
        Answer::Allow { until: Some(Until::Background), .. } => last.cloned(),
        _ => None,
    }
}

/// Clients promise to pass on 10,000 characters of a reason.
const MOST_REASON: usize = 9_000;

fn way_out(answer: Answer, run: &RunId, wanted: bool) -> Answer {
    let answer = answer.shortened(MOST_REASON);
    let Answer::Block { mut reason } = answer else { return answer };
    if wanted {
        let end = reason.trim_end().len();
        reason.truncate(end);
        let _ = write!(reason, "\n\n(This is run {run}. To end it: `phasegate cancel {run}`.)");
    }
    Answer::Block { reason }
}

pub(super) fn to_bytes(ledger: &Ledger) -> Result<Vec<u8>, GateError> {
    let mut bytes =
        serde_json::to_vec(ledger).map_err(|error| GateError::Other(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn blank_line(at: Timestamp) -> Line {
    Line {
        seq: 0,
        at,
        event: Event::new("", Actor::Engine),
        from: String::new(),
        to: String::new(),
        answer: Answer::Allow { outcome: None, until: None, message: None },
        moves: Vec::new(),
        trace: Trace::default(),
        evidence: Vec::new(),
        before: String::new(),
        after: String::new(),
        by: Vec::new(),
        notes: Vec::new(),
        prev: String::new(),
        hash: String::new(),
    }
}
