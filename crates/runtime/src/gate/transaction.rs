//! The one transaction of a run: lock, load, decide, write. Nothing else writes a ledger, a journal or a
//! state document.
//!
//! The order of the writes is the order in which a crash may cut them off. The journal's line comes
//! first: whatever took effect is on record. Then the document, which is what the workflow is about, then
//! the ledger, which says that both have counted. A line without its document means that a process died
//! in between; the ledger's number tells, the next line says so, and the event is decided anew. A document
//! without its ledger is known to be ours by the digest in the last line.

use std::rc::Rc;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event, Step, Trace};
use phasegate_engine::workflow::Workflow;

use super::document::{Read, restyle};
use super::{CANCEL, Found, Gate, GateError, Runs};
use crate::caller;
use crate::fault_point;
use crate::journal::{self, Line};
use crate::ledger::{Cancelled, Ledger, SCHEMA, Tampered, Unreadable};
use crate::run::RunId;
use crate::store::{Key, Prepared, StoreError, Version};

/// How often a step is decided again because somebody edited the document meanwhile.
const MAX_TRIES: usize = 5;

/// A run that is locked.
pub(super) struct Locked<'a> {
    pub(super) found: &'a Found,
    pub(super) ledger: Ledger,
    version: Option<Version>,
    /// The ledger of version 0.1.0 that this one replaces.
    old: Option<Version>,
    /// What was noticed on the way.
    pub(super) notes: Vec<String>,
}

/// A run that is locked and read.
pub(super) struct Open<'a> {
    pub(super) found: &'a Found,
    pub(super) ledger: Ledger,
    version: Option<Version>,
    old: Option<Version>,
    pub(super) notes: Vec<String>,
    pub(super) workflow: Rc<Workflow>,
    pub(super) read: Read,
    /// The digest of the document's text.
    pub(super) before: String,
    pub(super) document: Json,
}

/// A ledger as it is stored.
pub(super) enum Stored {
    None,
    /// What it says, its version, and that of the one which it replaces.
    Read(Box<Ledger>, Option<Version>, Option<Version>),
    /// It cannot be understood, and why.
    Broken(Key, String),
}

/// What a transaction comes to.
pub(super) enum Then<T> {
    /// This is written; then the value is what came of it.
    Write(Box<Writes>, T),
    Nothing(T),
}

/// What a transaction writes.
pub(super) struct Writes {
    ledger: Ledger,
    version: Option<Version>,
    old: Option<Version>,
    line: Option<Line>,
    /// What the user should know: with the answer to a stop, else at the next one.
    notes: Vec<String>,
    pub(super) document: Change,
    /// What the step did in the world, and what it still does once it counts.
    pub(super) effects: Vec<Effect>,
    /// Whether the run has come to its end.
    pub(super) ends: bool,
    /// The answer that notifications are about, and the one before it.
    pub(super) tells: Option<(Answer, Option<Answer>)>,
}

/// What becomes of the state document.
pub(super) enum Change {
    None,
    /// It is replaced, if it is still what was read.
    Put(Option<Version>, Vec<u8>),
    Remove(Option<Version>),
    /// It cannot be read: it is kept beside, and this takes its place.
    Instead(Vec<u8>),
}

/// What was written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) notes: Vec<String>,
    pub(super) has_agents: bool,
}

impl Locked<'_> {
    /// Only the ledger changes, and the journal has no line: nothing was decided.
    pub(super) fn keep(self) -> Box<Writes> {
        Writes::new(self.ledger, (self.version, self.old), None, self.notes)
    }

    /// A line about what happened.
    pub(super) fn note(self, line: Line) -> Box<Writes> {
        Writes::new(self.ledger, (self.version, self.old), Some(line), self.notes)
    }
}

impl Open<'_> {
    /// The text of the document after a step, if the step has changed it.
    pub(super) fn written(&self, step: &Step) -> Option<Vec<u8>> {
        step.changed.then(|| restyle(&step.document, &self.read.text))
    }

    pub(super) fn keep(self) -> Box<Writes> {
        Writes::new(self.ledger, (self.version, self.old), None, self.notes)
    }

    /// A line about what was decided. The ledger and the notes are taken.
    pub(super) fn note(&mut self, line: Line) -> Box<Writes> {
        let (ledger, notes) = (std::mem::take(&mut self.ledger), std::mem::take(&mut self.notes));
        Writes::new(ledger, (self.version.take(), self.old.take()), Some(line), notes)
    }
}

impl Writes {
    fn new(
        ledger: Ledger,
        (version, old): (Option<Version>, Option<Version>),
        line: Option<Line>,
        notes: Vec<String>,
    ) -> Box<Writes> {
        let (effects, ends, tells) = (Vec::new(), false, None);
        let document = Change::None;
        Box::new(Writes { ledger, version, old, line, notes, document, effects, ends, tells })
    }
}

impl Runs<'_> {
    fn died_removing(&self, id: &RunId, known: u64) -> Result<bool, GateError> {
        let last = self.store.last_line(id)?.0.as_deref().and_then(journal::position);
        Ok(known > 0 && last.is_some_and(|(seq, _)| seq > known))
    }

    /// The ledger as it is stored: ours, or that of version 0.1.0 where ours is not there or behind it.
    pub(super) fn stored(&self, id: &RunId) -> Result<Stored, GateError> {
        let read = |key: Key| -> Result<Stored, GateError> {
            Ok(match self.store.get(&key)? {
                None => Stored::None,
                Some(stored) => match Ledger::read(&stored.bytes) {
                    Ok(ledger) => Stored::Read(Box::new(ledger), Some(stored.version), None),
                    Err(Unreadable::Broken(error)) => Stored::Broken(key, error),
                    Err(newer) => return Err(GateError::Other(format!("run {id}: {newer}"))),
                },
            })
        };
        let own = read(Key::Ledger(id.clone()))?;
        let old = Key::OldLedger(id.clone());
        if self.store.version(&old)?.is_none() {
            return Ok(own);
        }
        Ok(match (own, read(old)?) {
            (Stored::Read(own, version, _), Stored::Read(old, old_version, _)) => {
                let is_ahead = old.position.seq > own.position.seq;
                let ledger = if is_ahead { Box::new(own.after(*old)) } else { own };
                Stored::Read(ledger, version, old_version)
            }
            (Stored::None, Stored::Read(old, version, _)) => Stored::Read(old, None, version),
            (Stored::None, Stored::Broken(key, error)) => Stored::Broken(key, error),
            (own, _) => own,
        })
    }

    /// What the journal knows of a run whose ledger is lost: above all that it was cancelled.
    pub(super) fn rebuilt(&self, id: &RunId, mut ledger: Ledger) -> Result<Ledger, GateError> {
        for text in self.store.lines(id)? {
            let Ok(line) = serde_json::from_str::<Line>(&text) else { continue };
            ledger.position.seq = line.seq;
            ledger.position.head = line.hash;
            ledger.work.tally.blocks += u64::from(line.answer.is_block());
            // A run that decides anything after it was cancelled has begun again.
            if !line.to.is_empty() {
                ledger.session.cancelled = None;
            } else if line.answer.outcome() == Some(Outcome::Aborted) && line.event.name == CANCEL {
                let reason = line.answer.text().map(str::to_string);
                let (at, by) = (line.at, line.event.actor);
                let told = by == Actor::Human;
                ledger.session.cancelled = Some(Cancelled { at, reason, by, told });
            }
        }
        self.find_pin(id, &mut ledger);
        Ok(ledger)
    }
}

impl Gate<'_> {
    /// Locks a run and loads its ledger, has something decided, and writes what comes of it. Where
    /// somebody edits the document in the meantime, all of it happens again.
    pub(super) fn within<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Locked) -> Result<Then<T>, GateError>,
    ) -> Result<(T, Written), GateError> {
        let _lease = self.store.lease(&found.id, &Key::Document(found.place.clone()))?;
        let mut tries = 0;
        loop {
            let done = self.load(found).and_then(&mut body).and_then(|then| match then {
                Then::Nothing(value) => Ok((value, Written::default())),
                Then::Write(writes, value) => Ok((value, self.write(found, *writes)?)),
            });
            match done {
                Err(GateError::Store(StoreError::Conflict(_))) if tries < MAX_TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// The same, with the definition that the run keeps to and its document.
    pub(super) fn within_open<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Open) -> Result<Then<T>, GateError>,
    ) -> Result<(T, Written), GateError> {
        let (value, written) = self.within(found, |locked| {
            let is_behind = locked.ledger.position.seq;
            match self.open(locked) {
                Ok(open) => body(open).map(|then| match then {
                    Then::Write(writes, value) => Then::Write(writes, Some(value)),
                    Then::Nothing(value) => Then::Nothing(Some(value)),
                }),
                // A process that died after it removed the document leaves the ledger behind.
                Err(GateError::Gone(..)) if self.died_removing(&found.id, is_behind)? => {
                    let mut locked = self.load(found)?;
                    locked.ledger.position.removed = true;
                    Ok(Then::Write(locked.keep(), None))
                }
                Err(error) => Err(error),
            }
        })?;
        Ok((value.ok_or(GateError::Over)?, written))
    }

    fn load<'f>(&self, found: &'f Found) -> Result<Locked<'f>, GateError> {
        // Under the lock, the ledger is mostly still what it was when the run was found.
        let version = self.store.version(&Key::Ledger(found.id.clone()))?;
        let same = version.is_some() && version == found.version;
        if same && self.store.version(&Key::OldLedger(found.id.clone()))?.is_none() {
            let ledger = (*found.ledger).clone();
            return Ok(Locked { found, ledger, version, old: None, notes: Vec::new() });
        }
        self.ledger(found)
    }

    fn open<'f>(&self, locked: Locked<'f>) -> Result<Open<'f>, GateError> {
        let Locked { found, mut ledger, version, old, mut notes } = locked;
        let workflow = self.pinned(&found.id, &mut ledger, &mut notes)?;
        let mut read = self.read(found, &workflow)?;
        let before = digest(&read.text);
        let document = std::mem::take(&mut read.document);
        let is_known = read.version.is_some() && read.problem.is_none();
        if is_known {
            let ours = (&found.id, &*workflow);
            self.compare(ours, &mut ledger, &document, &before, &mut notes)?;
        } else if read.version.is_none() && ledger.position.written {
            notes.push(format!("run {}: its state document {} is gone.", found.id, found.place));
        }
        ledger.position.written = read.version.is_some();
        Ok(Open { found, ledger, version, old, notes, workflow, read, before, document })
    }

    /// The ledger of a run, or what the journal knows where it is lost.
    fn ledger<'f>(&self, found: &'f Found) -> Result<Locked<'f>, GateError> {
        let id = &found.id;
        let new = || Ledger {
            schema: SCHEMA,
            run: id.to_string(),
            started_at: Some(Timestamp::now()),
            ..Ledger::default()
        };
        match self.stored(id)? {
            Stored::Read(ledger, version, old) => {
                Ok(Locked { found, ledger: *ledger, version, old, notes: Vec::new() })
            }
            Stored::None => {
                let mut ledger = self.rebuilt(id, new())?;
                let note = "the ledger was gone; it was made again from the journal";
                let seq = &mut ledger.position.seq;
                let notes = if *seq > 1 { vec![note.to_string()] } else { Vec::new() };
                // After one line there was none yet: its process died before it answered.
                *seq = if *seq == 1 { 0 } else { *seq };
                Ok(Locked { found, ledger, version: None, old: None, notes })
            }
            Stored::Broken(key, error) => {
                let aside = self.store.set_aside(&key)?;
                let note =
                    format!("the ledger could not be read ({error}); it was kept as {aside}");
                let ledger = self.rebuilt(id, new())?;
                Ok(Locked { found, ledger, version: None, old: None, notes: vec![note] })
            }
        }
    }

    /// Writes: the line, the document, the ledger. Then come what could only be done once the step
    /// counts, and those who want to be told.
    ///
    /// Before the line is written, the new document and the new ledger lie ready on the disk: where there
    /// is no room for them, nothing has happened, and the journal does not say that it has. What is left
    /// after the line are two renames.
    fn write(&self, found: &Found, writes: Writes) -> Result<Written, GateError> {
        let Writes { mut ledger, version, old, line, mut notes, .. } = writes;
        let Writes { document, effects, ends, tells, .. } = writes;
        let is_answer = line.as_ref().is_some_and(|line| line.event.is_question());
        let line = match line {
            Some(mut line) => {
                line.notes.splice(0..0, notes.iter().cloned());
                let (text, said) = self.seal(&found.id, &mut ledger, line)?;
                notes.extend(said);
                Some(text)
            }
            None => None,
        };
        let key = Key::Document(found.place.clone());
        let prepared = match &document {
            Change::Put(expected, bytes) => {
                ledger.position.written = true;
                Some(self.store.prepare(&key, expected.as_ref(), bytes)?)
            }
            Change::Remove(_) => {
                ledger.position.removed = true;
                None
            }
            Change::Instead(bytes) => {
                self.store.set_aside(&key)?;
                let before = self.store.version(&key)?;
                Some(self.store.prepare(&key, before.as_ref(), bytes)?)
            }
            Change::None => None,
        };
        if ends {
            let now = match &prepared {
                Some(prepared) => Some(prepared.version()),
                None => self.store.version(&key)?,
            };
            ledger.position.finished = now.map(|version| version.0);
        }
        // At a stop the user is told, also what was found out before; else at the next one.
        if is_answer {
            notes.splice(0..0, std::mem::take(&mut ledger.session.pending_notices));
        } else {
            ledger.session.pending_notices.extend(notes.iter().cloned());
        }
        let own = Key::Ledger(found.id.clone());
        let new = self.store.prepare(&own, version.as_ref(), &to_bytes(&ledger)?)?;
        if let Some(text) = &line {
            self.store.append(&found.id, text)?;
            *self.own_line.borrow_mut() = Some((found.id.clone(), ledger.position.seq));
        }
        fault_point::reach("after-journal");
        self.change(&key, &document, prepared, &effects)?;
        self.transcribe(&effects, &mut notes);
        fault_point::reach("after-document");
        new.put()?;
        if let Some(old) = old {
            self.store.remove(&Key::OldLedger(found.id.clone()), &old)?;
        }
        if let (Some(version), true) =
            (&ledger.position.finished, ledger.session.pending_notices.is_empty())
        {
            self.store.note_ended(&found.id, &Version(version.clone()));
        }
        self.dismiss(&ledger, &effects);
        if let Some((answer, before)) = tells {
            let notify = &self.project.config.notify;
            notify.tell(&found.id, &ledger.position.phase, &answer, before.as_ref());
        }
        fault_point::reach("after-ledger");
        Ok(Written { notes, has_agents: !ledger.work.agents.is_empty() })
    }

    fn change(
        &self,
        key: &Key,
        document: &Change,
        prepared: Option<Box<dyn Prepared + '_>>,
        effects: &[Effect],
    ) -> Result<(), GateError> {
        if let Some(prepared) = prepared {
            let is_final =
                |effect: &Effect| matches!(effect, Effect::Run(..) | Effect::Move { .. });
            let acted = effects.iter().any(is_final);
            return prepared.put().map_err(|error| match error {
                // Its commands must not run twice, and what was moved is no longer where the rules
                // would look for it.
                StoreError::Conflict(place) if acted => GateError::Other(format!(
                    "{place} was changed meanwhile: commands have run and files were moved, but \
                     nothing else was done"
                )),
                error => error.into(),
            });
        }
        if let Change::Remove(Some(version)) = document {
            self.store.remove(key, version)?;
        }
        Ok(())
    }

    /// A line that continues the chain, counted; and what was noticed about the journal.
    fn seal(
        &self,
        id: &RunId,
        ledger: &mut Ledger,
        mut line: Line,
    ) -> Result<(String, Vec<String>), GateError> {
        let mut said = Vec::new();
        let (last, torn) = self.store.last_line(id)?;
        let position = last.as_deref().map(journal::position);
        if let Some(None) = position {
            let aside = self.store.set_aside(&Key::Journal(id.clone()))?;
            said.push(format!("the journal of {id} could not be read; it was kept as {aside}"));
        }
        let (seq, prev) = position.flatten().unwrap_or_default();
        let other = seq == ledger.position.seq
            && !ledger.position.head.is_empty()
            && prev != ledger.position.head;
        if seq < ledger.position.seq || other {
            let (field, from) = ("journal".to_string(), format!("line {}", ledger.position.seq));
            let to = if other { "another line".into() } else { format!("line {seq}") };
            said.push(format!(
                "the journal of {id} was changed: it ended with {from}, now with {to}"
            ));
            ledger.tamper.changes.push(Tampered { at: line.at, field, from, to });
        }
        line.notes.extend(said.iter().cloned());
        if torn > 0 {
            line.notes.push(format!("{torn} bytes of an unfinished line were dropped"));
        } else if seq > ledger.position.seq {
            let own = *self.own_line.borrow() == Some((id.clone(), seq));
            let why = if own {
                "then decided again: the document was changed meanwhile"
            } else {
                "but its process died before it answered"
            };
            line.notes.push(format!("line {seq} was written, {why}"));
        }
        // After a line that is gone the numbers go on, so that the gap stays to be seen.
        line.seq = seq.max(ledger.position.seq) + 1;
        line.prev = prev;
        // Who stops is told by the client; for the rest, the processes above say who it was.
        if !line.event.is_question() {
            line.by = caller::ancestry();
        }
        ledger.position.seq = line.seq;
        let text = line.bound().seal().map_err(|error| GateError::Other(error.to_string()))?;
        ledger.position.head = journal::position(&text).map(|(_, hash)| hash).unwrap_or_default();
        Ok((text, said))
    }
}

fn to_bytes(ledger: &Ledger) -> Result<Vec<u8>, GateError> {
    let mut bytes =
        serde_json::to_vec(ledger).map_err(|error| GateError::Other(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A line about an event, with nothing else in it yet.
pub(super) fn line_about(event: Event, at: Timestamp) -> Line {
    Line {
        seq: 0,
        at,
        event,
        from: String::new(),
        to: String::new(),
        answer: Answer::accepted(),
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
