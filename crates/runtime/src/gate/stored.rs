//! The ledger of a run as it is stored: ours, that of version 0.1.0, or what the journal knows where it is lost.

use std::path::Path;

use jiff::Timestamp;
use phasegate_engine::answer::Outcome;
use phasegate_engine::digest::digest;
use phasegate_engine::events::CANCEL;
use phasegate_engine::step::Actor;

use super::{Found, GateError, Runs};
use crate::journal::Line;
use crate::ledger::{Cancelled, Ledger, Tampered, Unreadable};
use crate::run::RunId;
use crate::store::{Key, Version};
use crate::witness::Witness;

/// How often a ledger is read again before it is said to contradict its witness.
const MAX_LOOKS: usize = 3;

/// A ledger as it is stored.
pub(super) enum Stored {
    None,
    /// What it says, its version, and that of the one which it replaces.
    Read(Box<Ledger>, Option<Version>, Option<Version>),
    /// It cannot be understood, and why.
    Broken(Key, String),
}

impl Runs<'_> {
    /// The ledger as it is stored: ours, or that of version 0.1.0 where ours is not there or behind it.
    pub(super) fn stored(&self, id: &RunId) -> Result<Stored, GateError> {
        let read = |key: Key| -> Result<Stored, GateError> {
            Ok(match self.store.get(&key)? {
                None => Stored::None,
                Some(stored) => match Ledger::read(&stored.bytes) {
                    Ok(mut ledger) => {
                        ledger.stored = digest(&stored.bytes);
                        Stored::Read(Box::new(ledger), Some(stored.version), None)
                    }
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

    /// What the ledger of a run is instead of what the user's state folder remembers of it, where that
    /// contradicts it.
    pub fn contradiction(&self, found: &Found) -> Option<Tampered> {
        let root = &self.project.root;
        let mut change = contradiction(root, &found.id, &found.ledger)?;
        // A look takes no lock: another process may have written both between our two readings.
        for _ in 0..MAX_LOOKS {
            change = contradiction(root, &found.id, &self.refreshed(found).ledger)?;
        }
        Some(change)
    }

    /// What the journal knows of a run whose ledger is lost: above all that it was cancelled.
    pub(super) fn rebuilt(&self, id: &RunId, mut ledger: Ledger) -> Result<Ledger, GateError> {
        for text in self.store.forwards(id) {
            let Ok(line) = serde_json::from_str::<Line>(&text?) else { continue };
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
                ledger.session.cancelled = Some(Cancelled { at, reason, by, from: None, told });
            }
        }
        self.find_pin(id, &mut ledger);
        Ok(ledger)
    }
}

/// The same, for a ledger as it was loaded.
pub(super) fn contradiction(root: &Path, run: &RunId, ledger: &Ledger) -> Option<Tampered> {
    let witness = Witness::recall(root, run)?;
    let to = witness.contradicts(&ledger.position, &ledger.stored)?;
    let (field, from) = ("ledger".to_string(), format!("that of line {}", witness.seq));
    Some(Tampered { at: Timestamp::now(), field, from, to })
}
