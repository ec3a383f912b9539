//! How a run is loaded that is locked: its ledger, what a process that died has left of its work, its definition and its
//! document.

use std::rc::Rc;

use jiff::Timestamp;
use phasegate_engine::decide::phase_name;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::workflow::Workflow;

use super::{Locked, Open};
use crate::gate::document::Read;
use crate::gate::home::in_store;
use crate::gate::overrule::Reasons;
use crate::gate::stored::{Stored, contradiction};
use crate::gate::tamper::compare;
use crate::gate::{Found, Gate, GateError};
use crate::jobs::Record;
use crate::ledger::{Intended, Ledger, SCHEMA};
use crate::store::Key;

impl Gate<'_> {
    pub(super) fn load<'f>(&self, found: &'f Found) -> Result<Locked<'f>, GateError> {
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
    pub(super) fn ask_witness(&self, locked: &mut Locked) {
        let Locked { found, ledger, notes, .. } = locked;
        if let Some(change) = contradiction(&self.project.root, &found.id, ledger) {
            notes.push(format!("run {}: {change}.", found.id));
            ledger.tamper.note(change);
            locked.is_contradicted = true;
        }
    }

    pub(super) fn open<'f>(&self, mut run: Locked<'f>) -> Result<Open<'f>, GateError> {
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
    pub(super) fn finish_document(&self, locked: &mut Locked) -> Result<(), GateError> {
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
