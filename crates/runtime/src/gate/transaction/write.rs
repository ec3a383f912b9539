//! How the result of a transaction is written: what is committed, in which order, and what is done when a part of it
//! fails.

use std::rc::Rc;

use phasegate_engine::step::Effect;

use super::{Change, Writes, Written};
use crate::caller;
use crate::fault_point;
use crate::gate::home::in_store;
use crate::gate::{Found, Gate, GateError};
use crate::jobs::Claimed;
use crate::journal::{self, Line};
use crate::ledger::{Intended, Ledger, Position, Tampered};
use crate::run::RunId;
use crate::store::{Batch, Key, Put, StoreError, Summary, Version};
use crate::witness::Witness;
use crate::workspace::Prepared;

impl Gate<'_> {
    /// Writes: the batch, the document. Then come what could only be done once the step counts, and those
    /// who want to be told.
    ///
    /// Before the batch is committed, the new document lies ready on the disk: where there is no room for
    /// it, nothing has happened, and the journal does not say that it has. What is left is a rename.
    pub(super) fn write(&self, found: &Found, writes: Writes) -> Result<Written, GateError> {
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

fn to_bytes(ledger: &Ledger) -> Result<Vec<u8>, GateError> {
    let mut bytes =
        serde_json::to_vec(ledger).map_err(|error| GateError::Other(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}
