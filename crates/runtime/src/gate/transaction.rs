//! The one transaction of a run: lock, load, decide, write. Nothing else writes a ledger, a journal or a
//! state document.
//!
//! What is written is a batch for the store (the journal's line, the ledger, the definition), which counts
//! as a whole, and the state document, which is a file of the project and cannot be a part of that. So the
//! new document lies ready beside the old one before the batch is committed, the ledger in the batch names
//! both versions, and the document is put in its place after it. A process that dies in between has
//! decided, and the next transaction finds the document and puts it there. An edit in between wins: the
//! ledger is taken back, and the event is decided anew.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::phase_name;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event, Step, Trace};
use phasegate_engine::workflow::Workflow;

use super::asked::Asked;
use super::document::{Read, restyle};
use super::ground::Ground;
use super::home::in_store;
use super::overrule::{At, Overruled, Reasons};
use super::stored::{Stored, contradiction};
use super::tamper::compare;
use super::{Found, Gate, GateError};
use crate::caller;
use crate::fault_point;
use crate::jobs::{Claimed, Record};
use crate::journal::{self, Basis, Line};
use crate::ledger::{Intended, Ledger, Position, SCHEMA, Tampered};
use crate::run::RunId;
use crate::store::postgres::jittered;
use crate::store::{Batch, Held, Key, Lock, Piece, Put, StoreError, Summary, Version};
use crate::witness::Witness;
use crate::workspace::Prepared;

/// The event of a step that puts protected fields back.
const PUT_BACK: &str = "put-back";

/// How often a step is decided again because somebody edited the document meanwhile.
const MAX_TRIES: usize = 5;

/// How often it is where other machines write the same runs, and what is waited at most before.
const MAX_SHARED_TRIES: usize = 60;
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A run that is locked.
pub(super) struct Locked<'a> {
    pub(super) found: &'a Found,
    pub(super) ledger: Ledger,
    /// The ledger as it was, and its version; none where there is none yet.
    before: Option<Rc<Ledger>>,
    version: Option<Version>,
    /// The ledger of version 0.1.0 that this one replaces.
    old: Option<Version>,
    /// What else is stored with the ledger.
    pub(super) puts: Vec<Put>,
    /// The evidence of its line.
    pub(super) pieces: Vec<Piece>,
    /// What was noticed on the way.
    pub(super) notes: Vec<String>,
    /// What a process that died had left behind: the journal tells.
    repairs: Vec<String>,
    /// Jobs whose supervisors are started once it is written that they are wanted.
    pub(super) starting: Vec<Claimed>,
    /// Jobs that have given way to others of their names.
    pub(super) replaced: Vec<Record>,
    /// The second witness knows another ledger.
    pub(super) is_contradicted: bool,
    /// The phase that its document is in, where the store wants to know; else empty.
    phase: String,
}

/// A run that is locked and read.
pub(super) struct Open<'a> {
    pub(super) run: Locked<'a>,
    pub(super) workflow: Arc<Workflow>,
    pub(super) read: Read,
    /// The digest of the document's text.
    pub(super) before: String,
    pub(super) document: Json,
    /// The files that the run is about.
    pub(super) ground: Ground,
    /// Protected fields in it are what they were, and not what the text says.
    pub(super) is_put_back: bool,
    /// The ledger of the run before it begins again.
    pub(super) former: Option<Ledger>,
    /// What the rules were asked.
    pub(super) asked: Option<Asked>,
    /// Why the gate answers otherwise.
    pub(super) overruled: Reasons,
}

/// What a transaction comes to.
pub(super) enum Then<T> {
    /// Write this; the value is the result.
    Write(Box<Writes>, T),
    Nothing(T),
}

/// What a transaction writes.
pub(super) struct Writes {
    pub(super) ledger: Ledger,
    before: Option<Rc<Ledger>>,
    version: Option<Version>,
    old: Option<Version>,
    puts: Vec<Put>,
    pieces: Vec<Piece>,
    line: Option<Line>,
    repairs: Vec<String>,
    /// What the user should know: with the answer to a stop, else at the next one.
    notes: Vec<String>,
    starting: Vec<Claimed>,
    replaced: Vec<Record>,
    /// The phase that the document was in.
    phase: String,
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
    pub(super) has_jobs: bool,
    /// Jobs whose supervisors can be started now.
    pub(super) starting: Vec<Claimed>,
}

impl<'a> Locked<'a> {
    fn new(found: &'a Found, ledger: Ledger, notes: Vec<String>) -> Locked<'a> {
        Locked {
            found,
            ledger,
            before: None,
            version: None,
            old: None,
            puts: Vec::new(),
            pieces: Vec::new(),
            notes,
            repairs: Vec::new(),
            starting: Vec::new(),
            replaced: Vec::new(),
            is_contradicted: false,
            phase: String::new(),
        }
    }

    /// The run, owned instead of borrowed.
    pub(super) fn take(&mut self) -> Locked<'a> {
        Locked {
            found: self.found,
            ledger: std::mem::take(&mut self.ledger),
            before: self.before.take(),
            version: self.version.take(),
            old: self.old.take(),
            puts: std::mem::take(&mut self.puts),
            pieces: std::mem::take(&mut self.pieces),
            notes: std::mem::take(&mut self.notes),
            repairs: std::mem::take(&mut self.repairs),
            starting: std::mem::take(&mut self.starting),
            replaced: std::mem::take(&mut self.replaced),
            is_contradicted: self.is_contradicted,
            phase: std::mem::take(&mut self.phase),
        }
    }

    /// Only the ledger changes, and the journal has no line: nothing was decided.
    pub(super) fn keep(self) -> Box<Writes> {
        self.writes(None)
    }

    /// A line about what happened.
    pub(super) fn note(self, line: Line) -> Box<Writes> {
        self.writes(Some(line))
    }

    fn writes(self, line: Option<Line>) -> Box<Writes> {
        let Locked { ledger, before, version, old, puts, notes, repairs, .. } = self;
        let Locked { starting, replaced, pieces, phase, .. } = self;
        Box::new(Writes {
            ledger,
            before,
            version,
            old,
            puts,
            pieces,
            line,
            repairs,
            notes,
            starting,
            replaced,
            phase,
            document: Change::None,
            effects: Vec::new(),
            ends: false,
            tells: None,
        })
    }
}

impl Open<'_> {
    /// Gives a step another answer than the rules, and notes why; whether it does.
    pub(super) fn overrule(&mut self, event: &Event, step: &mut Step, why: Overruled) -> bool {
        let run = self.run.found.id.to_string();
        let at = At { run: &run, workflow: &self.workflow, event, before: &self.before };
        let does = why.apply(&at, step);
        if does {
            self.overruled.note(why, step);
        }
        does
    }
}

impl<'a> Open<'a> {
    /// A run that begins: it has no document yet.
    pub(super) fn begun(run: Locked<'a>, workflow: Arc<Workflow>, ground: Ground) -> Open<'a> {
        let (read, before, document) = (Read::nothing(), String::new(), Json::object());
        let (former, asked, overruled) = (None, None, Reasons::default());
        Open {
            run,
            workflow,
            read,
            before,
            document,
            ground,
            is_put_back: false,
            former,
            asked,
            overruled,
        }
    }

    /// The text of the document after a step, if the step has changed it.
    pub(super) fn written(&self, step: &Step) -> Option<Vec<u8>> {
        step.changed.then(|| restyle(&step.document, &self.read.text))
    }
}

impl Gate<'_> {
    /// Locks a run and loads its ledger, lets the caller decide, and writes the result. Where
    /// somebody edits the document in the meantime, all of it happens again.
    pub(super) fn within<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Locked) -> Result<Then<T>, GateError>,
    ) -> Result<(T, Written), GateError> {
        let (mut tries, mut repairs) = (0, Vec::new());
        // What is told afterwards is told of the files as they are then.
        self.trees.borrow_mut().clear();
        loop {
            // Anew each time: a lock whose file was removed is one of the causes of a conflict.
            let mut held = self.store.lock(&Lock::Run(found.id.clone()))?;
            repairs.append(&mut held.repairs);
            let loaded = self.load(found).and_then(|mut locked| {
                locked.repairs.clone_from(&repairs);
                self.ask_witness(&mut locked);
                self.finish_document(&mut locked)?;
                Ok(locked)
            });
            let done = loaded.and_then(&mut body).and_then(|then| match then {
                Then::Nothing(value) => Ok((value, Written::default())),
                Then::Write(writes, value) => Ok((value, self.write(found, *writes)?)),
            });
            match done {
                Err(GateError::Store(StoreError::Conflict(_))) if tries < self.max_tries() => {
                    tries += 1;
                    self.give_way(held, tries);
                }
                done => return done,
            }
        }
    }

    fn max_tries(&self) -> usize {
        if self.store.shared().is_some() { MAX_SHARED_TRIES } else { MAX_TRIES }
    }

    /// Waits before a step is decided again, where another machine was faster: it does not see our lock.
    fn give_way(&self, held: Held, tries: usize) {
        drop(held);
        if self.store.shared().is_some() {
            let pause = Duration::from_millis(1 << tries.min(7));
            thread::sleep(jittered(pause.min(MAX_PAUSE)));
        }
    }

    /// The same, with the definition that the run keeps to and its document. Protected fields that somebody
    /// else has set are put back first, in a step of its own.
    pub(super) fn within_open<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Open) -> Result<Then<T>, GateError>,
    ) -> Result<(T, Written), GateError> {
        let mut told = Vec::new();
        for _ in 0..self.max_tries() {
            let (done, written) = self.within(found, |mut locked| {
                // Whoever acts is told as well: at a stop all of it is said, and otherwise at the next one.
                let pending = &mut locked.ledger.session.pending_notices;
                if !told.is_empty() && pending.ends_with(&told) {
                    pending.truncate(pending.len() - told.len());
                    locked.notes.extend(told.iter().cloned());
                }
                let open = self.open(locked)?;
                if open.is_put_back {
                    return Ok(put_back(open));
                }
                Ok(match body(open)? {
                    Then::Write(writes, value) => Then::Write(writes, Some(value)),
                    Then::Nothing(value) => Then::Nothing(Some(value)),
                })
            })?;
            match done {
                Some(done) => return Ok((done, written)),
                None => told.extend(written.notes),
            }
        }
        Err(GateError::Other(format!("{} keeps changing", found.place)))
    }

    /// Removes what is left of a run that never began: its process died before its first line.
    pub(super) fn sweep(&self, id: &RunId) {
        // A process that begins the run right now holds the lock; taking it here would remove its prepared files.
        let held = self.store.lock(&Lock::Run(id.clone()));
        if held.is_ok() && !self.has(id) {
            self.store.note_over(id);
        }
    }

    fn load<'f>(&self, found: &'f Found) -> Result<Locked<'f>, GateError> {
        // Under the lock, the ledger is mostly still what it was when the run was found.
        let version = self.store.version(&Key::Ledger(found.id.clone()))?;
        let same = version.is_some() && version == found.version;
        if same && self.store.version(&Key::OldLedger(found.id.clone()))?.is_none() {
            let (ledger, before) = ((*found.ledger).clone(), Some(found.ledger.clone()));
            return Ok(Locked { before, version, ..Locked::new(found, ledger, Vec::new()) });
        }
        self.ledger(found)
    }

    /// Compares a ledger with what the user's state folder remembers of it. What was changed behind our back
    /// stays as it is: which of the two is right, a person has to say.
    fn ask_witness(&self, locked: &mut Locked) {
        let Locked { found, ledger, notes, .. } = locked;
        if let Some(change) = contradiction(&self.project.root, &found.id, ledger) {
            notes.push(format!("run {}: {change}.", found.id));
            ledger.tamper.note(change);
            locked.is_contradicted = true;
        }
    }

    fn open<'f>(&self, mut run: Locked<'f>) -> Result<Open<'f>, GateError> {
        let Locked { found, ledger, notes, .. } = &mut run;
        let mut workflow = self.pinned(&found.id, ledger, notes)?;
        let read = match self.read(found, &workflow) {
            // Its document is written when the commands have ended that it begins with.
            Err(GateError::Gone(..)) if ledger.position.begins_with.is_some() => {
                Ok(Read::nothing())
            }
            // A rule has removed it.
            Err(GateError::Gone(..)) if ledger.position.removed => Err(GateError::Over),
            read => read,
        };
        let mut read = read?;
        let before = digest(&read.text);
        let mut document = std::mem::take(&mut read.document);
        let is_known = read.version.is_some() && read.problem.is_none();
        if is_known && is_another(ledger, &workflow, &read, &document) {
            *ledger = ledger.begin_again(None);
            workflow = self.pinned(&found.id, ledger, notes)?;
        }
        let mut is_put_back = false;
        if is_known {
            let id = (&found.id, &*workflow);
            is_put_back = compare(id, ledger, &mut document, notes);
        } else if read.version.is_none() && ledger.position.written {
            notes.push(format!("run {}: its state document {} is missing.", found.id, found.place));
        }
        ledger.position.written = read.version.is_some();
        if self.store.shared().is_some() {
            run.phase = phase_name(&workflow, &document);
        }
        let ground = self.ground(&workflow, &document);
        let (former, asked, overruled) = (None, None, Reasons::default());
        Ok(Open {
            run,
            workflow,
            read,
            before,
            document,
            ground,
            is_put_back,
            former,
            asked,
            overruled,
        })
    }

    /// Puts a document in its place whose process died before it could. What else such a process has left
    /// lying ready was never decided, and goes.
    fn finish_document(&self, locked: &mut Locked) -> Result<(), GateError> {
        let place = &locked.found.place;
        // What the store keeps counts with the ledger, or not at all.
        if in_store(place)?.is_some() {
            return Ok(());
        }
        let left = self.workspace.left_behind(place);
        let intended = &locked.ledger.position.intended;
        let Some(Intended { before, after }) = intended else { return Ok(()) };
        if left.is_none() && after.is_some() {
            return Ok(());
        }
        let now = self.home().version(place)?;
        if now != *before || now == *after {
            return Ok(());
        }
        match (left, now) {
            (Some(left), _) if after.as_ref() == Some(left.version()) => left.put()?,
            (_, Some(now)) if after.is_none() => self.workspace.remove(place, &now)?,
            _ => return Ok(()),
        }
        let seq = locked.ledger.position.seq;
        let note = format!("{place} is now what line {seq} decided on");
        locked.repairs.push(note);
        Ok(())
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
                let before = Some(Rc::new((*ledger).clone()));
                Ok(Locked { before, version, old, ..Locked::new(found, *ledger, Vec::new()) })
            }
            Stored::None => {
                let mut ledger = self.rebuilt(id, new())?;
                let note = "the ledger was missing; it was rebuilt from the journal";
                let seq = &mut ledger.position.seq;
                let notes = if *seq > 1 { vec![note.to_string()] } else { Vec::new() };
                // After one line there was none yet: its process died before it answered.
                *seq = if *seq == 1 { 0 } else { *seq };
                Ok(Locked::new(found, ledger, notes))
            }
            Stored::Broken(key, error) => {
                let aside = self.store.set_aside(&key)?;
                let note =
                    format!("the ledger could not be read ({error}); it was kept as {aside}");
                Ok(Locked::new(found, self.rebuilt(id, new())?, vec![note]))
            }
        }
    }

    /// Writes: the batch, the document. Then come what could only be done once the step counts, and those
    /// who want to be told.
    ///
    /// Before the batch is committed, the new document lies ready on the disk: where there is no room for
    /// it, nothing has happened, and the journal does not say that it has. What is left is a rename.
    fn write(&self, found: &Found, writes: Writes) -> Result<Written, GateError> {
        let Writes { mut ledger, before, version, old, mut puts, line, mut notes, .. } = writes;
        let Writes { document, effects, ends, tells, repairs, starting, replaced, .. } = writes;
        let Writes { mut pieces, mut phase, .. } = writes;
        pieces.extend(self.signers.borrow().clone());
        if let Some(line) = line.as_ref().filter(|line| !line.to.is_empty()) {
            phase.clone_from(&line.to);
        }
        let is_answer = line.as_ref().is_some_and(|line| line.event.is_question());
        let line = match line {
            Some(mut line) => {
                line.notes.splice(0..0, repairs.into_iter().chain(notes.iter().cloned()));
                let (text, said) = self.seal(&found.id, &mut ledger, line)?;
                notes.extend(said);
                Some(text)
            }
            None => None,
        };
        let mut remove: Vec<(Key, Version)> =
            old.map(|old| (Key::OldLedger(found.id.clone()), old)).into_iter().collect();
        let home = in_store(&found.place)?;
        let is_shared = home.is_some();
        let (prepared, new) = match home {
            Some(key) => (None, self.enclose(key, &document, &mut ledger, &mut puts, &mut remove)?),
            None => {
                let prepared = self.prepare(&found.place, &document, &mut ledger)?;
                let new = prepared.as_ref().map(|prepared| prepared.version().clone());
                (prepared, new)
            }
        };
        if ends {
            ledger.position.finished = match new {
                Some(new) => Some(new),
                None => self.home().version(&found.place)?,
            };
        }
        // At a stop the user is told, also what was found out before; else at the next one.
        if is_answer {
            notes.splice(0..0, std::mem::take(&mut ledger.session.pending_notices));
        } else {
            ledger.session.pending_notices.extend(notes.iter().cloned());
        }
        let open = !ledger.is_settled();
        let line = line.as_deref();
        let jobs = starting.iter().filter_map(Claimed::queued).collect::<Result<_, _>>()?;
        let summary = self.summary(found, &ledger, &phase);
        let batch = Batch { line, puts, pieces, remove, open, shared: is_shared, jobs, summary };
        self.commit_ledger(&found.id, &mut ledger, version, batch)?;
        if line.is_some() {
            *self.own_line.borrow_mut() = Some((found.id.clone(), ledger.position.seq));
        }
        fault_point::reach("before-document");
        if let Err(error) = self.change(&found.place, &document, prepared, &effects) {
            self.take_back(found, before.as_deref(), &ledger.position)?;
            return Err(error);
        }
        // What was removed may be put there again as it was, and must not be removed for that.
        if let (Change::Remove(_), Some(_)) = (&document, ledger.position.intended.take()) {
            let expected = self.store.version(&Key::Ledger(found.id.clone()))?;
            let batch = Batch { open, ..Batch::default() };
            self.commit_ledger(&found.id, &mut ledger, expected, batch)?;
        }
        fault_point::reach("after-document");
        self.transcribe(&effects, &mut notes);
        self.dismiss(&ledger, &effects);
        if let Some((answer, before)) = tells {
            let notify = &self.project.config.notify;
            notify.tell(&found.id, &ledger.position.phase, &answer, before.as_ref());
        }
        for job in replaced {
            job.forget(&self.project.root);
        }
        fault_point::reach("after-ledger");
        Ok(Written { notes, has_jobs: !ledger.work.jobs.is_empty(), starting })
    }

    /// Puts a document that the store keeps into the batch, and makes the ledger name it; its new version.
    fn enclose(
        &self,
        key: Key,
        document: &Change,
        ledger: &mut Ledger,
        puts: &mut Vec<Put>,
        remove: &mut Vec<(Key, Version)>,
    ) -> Result<Option<Version>, GateError> {
        let (expected, bytes) = match document {
            Change::None => return Ok(None),
            Change::Remove(before) => {
                (ledger.position.removed, ledger.position.intended) = (true, None);
                remove.extend(before.clone().map(|before| (key, before)));
                return Ok(None);
            }
            Change::Put(before, bytes) => (before.clone(), bytes.clone()),
            Change::Instead(bytes) => {
                self.store.set_aside(&key)?;
                (None, bytes.clone())
            }
        };
        let after = Version::of_document(&bytes);
        let (before, named) = (expected.clone(), Some(after.clone()));
        ledger.position.written = true;
        ledger.position.intended = Some(Intended { before, after: named });
        puts.push(Put { key, expected, bytes });
        Ok(Some(after))
    }

    /// Gets the new document ready, and makes the ledger name it.
    fn prepare(
        &self,
        place: &str,
        document: &Change,
        ledger: &mut Ledger,
    ) -> Result<Option<Prepared>, GateError> {
        let (before, bytes) = match document {
            Change::None => return Ok(None),
            Change::Remove(before) => {
                ledger.position.removed = true;
                let before = before.clone();
                ledger.position.intended = Some(Intended { before, after: None });
                return Ok(None);
            }
            Change::Put(before, bytes) => (before.clone(), bytes),
            Change::Instead(bytes) => {
                self.workspace.set_aside(place)?;
                (self.home().version(place)?, bytes)
            }
        };
        let prepared = self.workspace.prepare(place, before.as_ref(), bytes)?;
        let after = Some(prepared.version().clone());
        ledger.position.written = true;
        ledger.position.intended = Some(Intended { before, after });
        Ok(Some(prepared))
    }

    fn change(
        &self,
        place: &str,
        document: &Change,
        prepared: Option<Prepared>,
        effects: &[Effect],
    ) -> Result<(), GateError> {
        if let Some(prepared) = prepared {
            let is_final = |effect: &Effect| matches!(effect, Effect::Move { .. });
            let acted = effects.iter().any(is_final);
            return prepared.put().map_err(|error| match error {
                // What was moved is no longer where the rules would look for it.
                StoreError::Conflict(place) if acted => GateError::Other(format!(
                    "{place} changed in the meantime: files were moved, but nothing else was done"
                )),
                error => error.into(),
            });
        }
        if let (Change::Remove(Some(version)), None) = (document, in_store(place)?) {
            self.workspace.remove(place, version)?;
        }
        Ok(())
    }

    /// Takes a ledger back whose document could not be put in its place, because somebody has edited the
    /// old one. The line stays in the journal; the next one says what became of it.
    fn take_back(
        &self,
        found: &Found,
        before: Option<&Ledger>,
        written: &Position,
    ) -> Result<(), GateError> {
        let id = &found.id;
        let key = Key::Ledger(id.clone());
        let now = self.store.version(&key)?;
        let mut batch = Batch { open: true, ..Batch::default() };
        match (before, now) {
            (Some(before), expected) => {
                batch.open = !before.is_settled();
                batch.summary = self.summary(found, before, "");
                // It names the line that did not count, so that the ledger of that is not taken for one
                // which still has to be put in its place.
                let mut before = before.clone();
                before.position.taken_back.clone_from(&written.head);
                before.position.turn = written.turn;
                self.commit_ledger(id, &mut before, expected, batch)
            }
            (None, now) => {
                batch.remove.extend(now.map(|now| (key, now)));
                Witness::forget(&self.project.root, id);
                Ok(self.store.commit(id, &batch)?)
            }
        }
    }

    /// What a view over many runs will show of this one; nothing where the store has none. `phase`: the one that the
    /// document is in after the step; where nobody has looked, it is looked at.
    fn summary(&self, found: &Found, ledger: &Ledger, phase: &str) -> Option<Summary> {
        self.store.shared()?;
        let report = if phase.is_empty() {
            self.report(&Found { ledger: Rc::new(ledger.clone()), ..found.clone() })
        } else {
            self.report_in(&found.id, &found.place, ledger, phase)
        };
        Some(report.summary(&found.id, ledger))
    }

    /// Commits a batch with a ledger, and has the second witness remember that. It is told last: where the
    /// process dies before, it is behind, which says nothing.
    fn commit_ledger(
        &self,
        id: &RunId,
        ledger: &mut Ledger,
        expected: Option<Version>,
        mut batch: Batch,
    ) -> Result<(), GateError> {
        ledger.position.turn += 1;
        let bytes = to_bytes(ledger)?;
        let witness = Witness::of(&ledger.position, &bytes);
        batch.puts.push(Put { key: Key::Ledger(id.clone()), expected, bytes });
        self.store.commit(id, &batch)?;
        witness.keep(&self.project.root, id);
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
        let last = self.store.backwards(id).next().transpose()?;
        let position = last.as_deref().map(journal::position);
        if let Some(None) = position {
            let aside = self.store.set_journal_aside(id)?;
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
            ledger.tamper.note(Tampered { at: line.at, field, from, to });
        }
        line.notes.extend(said.iter().cloned());
        if seq > ledger.position.seq {
            let own = *self.own_line.borrow() == Some((id.clone(), seq));
            let why = if own || ledger.position.taken_back == prev {
                "then decided again, because the document changed in the meantime"
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
        ledger.position.taken_back.clear();
        let text = line.bound().seal().map_err(|error| GateError::Other(error.to_string()))?;
        ledger.position.head = journal::position(&text).map(|(_, hash)| hash).unwrap_or_default();
        Ok((text, said))
    }
}

/// Writes down that protected fields were put back.
fn put_back<T>(open: Open) -> Then<Option<T>> {
    let phase = phase_name(&open.workflow, &open.document);
    let text = restyle(&open.document, &open.read.text);
    let line = Line {
        from: phase.clone(),
        to: phase,
        before: open.before,
        after: digest(&text),
        ..line_about(Event::new(PUT_BACK, Actor::Engine), Timestamp::now())
    };
    let mut writes = open.run.note(line);
    writes.document = Change::Put(open.read.version, text);
    Then::Write(writes, None)
}

/// Whether a document is another one than that of the run, which is over: a finished run protects nothing, and
/// what lies in its place is a new run.
fn is_another(ledger: &Ledger, workflow: &Workflow, read: &Read, document: &Json) -> bool {
    let outer = workflow.outer();
    let is_open = || {
        let phase = outer.phase(&phase_name(workflow, document));
        phase.is_some_and(|phase| outer.get(phase).ends.is_none())
    };
    ledger.position.finished.is_some()
        && ledger.position.finished != read.version
        && ledger.session.cancelled.is_none()
        && ledger.work.jobs.values().all(Record::is_over)
        && is_open()
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
        basis: Some(Basis::Gate),
        by: Vec::new(),
        notes: Vec::new(),
        prev: String::new(),
        hash: String::new(),
    }
}
