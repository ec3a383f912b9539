//! The one transaction of a run: lock, load, decide, write. Nothing else writes a ledger, a journal or a
//! state document.
//!
//! What is written is a batch for the store (the journal's line, the ledger, the definition), which counts
//! as a whole, and the state document, which is a file of the project and cannot be a part of that. So the
//! new document lies ready beside the old one before the batch is committed, the ledger in the batch names
//! both versions, and the document is put in its place after it. A process that dies in between has
//! decided, and the next transaction finds the document and puts it there. An edit in between wins: the
//! ledger is taken back, and the event is decided anew.

mod load;
mod write;

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
use super::overrule::{At, Overruled, Reasons};
use super::{Found, Gate, GateError};
use crate::jobs::{Claimed, Record};
use crate::journal::{Basis, Line};
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::postgres::jittered;
use crate::store::{Held, Lock, Piece, Put, StoreError, Version};

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
        std::mem::replace(self, Locked::new(self.found, Ledger::default(), Vec::new()))
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
