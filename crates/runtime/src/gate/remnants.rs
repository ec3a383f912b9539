//! What runs that are over leave behind, and its removal.
//!
//! A run whose document is gone goes as a whole. Of one whose document is still there, or that was cancelled, the
//! ledger stays with the last lines of the journal: without them the document would begin a new run. The ledger says
//! that it was pruned before anything is removed, so that what is missing is never taken for tampering, whenever the
//! process dies. A run that is open is never touched: whether it is over is asked again under its lock.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::step::Event;

use super::transaction::Then;
use super::{Found, Gate, GateError, Runs};
use crate::catalog::Entry;
use crate::fault_point;
use crate::flakes::Flakes;
use crate::jobs;
use crate::journal;
use crate::ledger::{Ledger, Pinned, Pruned};
use crate::run::RunId;
use crate::store::{Held, Key, Lock};
use crate::tree::Written;
use crate::witness::Witness;

/// How many lines of the journal stay: how the run ended, and that it was pruned.
const KEPT_LINES: u64 = 2;

/// How long the names of trees are, in hexadecimal digits.
const TREE_NAME: usize = 40;

/// What a run that is over has left.
#[derive(Clone, Debug)]
pub struct Remnant {
    pub run: Found,
    /// When something last happened in it.
    pub ended: Timestamp,
    /// How many bytes would go.
    pub bytes: u64,
    /// Whether nothing of it has to stay.
    pub whole: bool,
}

impl Runs<'_> {
    /// The runs that were over before a moment, and have left something that is of no use any more.
    pub fn remnants(&self, before: Timestamp) -> Vec<Remnant> {
        let runs = self.all_runs().runs.into_iter();
        runs.filter_map(|run| self.remnant(run, before)).collect()
    }

    fn remnant(&self, run: Found, before: Timestamp) -> Option<Remnant> {
        if !self.is_over_since(&run, &run.ledger, before) {
            return None;
        }
        let whole = self.may_vanish(&run, &run.ledger);
        let sizes = self.store.sizes(&run.id);
        let jobs = jobs::left_by(&self.project.root, &run.id).map_or(0, |(_, bytes)| bytes);
        let bytes = if whole {
            sizes.all
        } else if self.has_lines(&run) {
            sizes.all.saturating_sub(ledger_size(&run.ledger))
        } else {
            sizes.apart
        };
        let is_left = whole || bytes + jobs > 0;
        let ended = run.ledger.last_heard()?;
        is_left.then_some(Remnant { run, ended, bytes: bytes + jobs, whole })
    }

    /// How many bytes are left of what was being removed when its process died.
    pub fn half_removed(&self) -> u64 {
        self.store.half_removed()
    }

    /// The runs that were over before a moment, also those of which nothing is left but that.
    pub fn runs_over_since(&self, before: Timestamp) -> Vec<Found> {
        let mut runs = self.all_runs().runs;
        runs.retain(|run| self.is_over_since(run, &run.ledger, before));
        runs
    }

    /// Whether a run is over, as its ledger says, and nothing has happened in it since a moment.
    fn is_over_since(&self, run: &Found, ledger: &Ledger, before: Timestamp) -> bool {
        let found = Found { ledger: ledger.clone().into(), ..run.clone() };
        let position = &ledger.position;
        let has_ended =
            ledger.session.cancelled.is_some() || position.removed || position.finished.is_some();
        has_ended
            && !found.is_open(&self.home())
            && ledger.work.jobs.values().all(jobs::Record::is_over)
            && ledger.last_heard().is_some_and(|last| last < before)
    }

    /// Whether nothing would begin again if a run that is over were not known any more.
    fn may_vanish(&self, run: &Found, ledger: &Ledger) -> bool {
        let is_presumed = self.project.workflow(&run.id.workflow).is_some_and(Entry::presumes);
        let has_document = !matches!(self.home().version(&run.place), Ok(None))
            || is_presumed && self.workspace.changed_at(&run.place).is_some();
        // Cancelled stays cancelled, and what was tampered with stays to be seen.
        let is_plain = ledger.session.cancelled.is_none() && !ledger.tamper.is_open();
        is_plain && ledger.is_settled() && !has_document
    }

    /// Whether a journal has lines that may go.
    fn has_lines(&self, run: &Found) -> bool {
        let first = self.store.forwards(&run.id).next().and_then(Result::ok);
        let first = first.as_deref().and_then(journal::position);
        first.is_some_and(|(seq, _)| seq + KEPT_LINES <= run.ledger.position.seq)
    }

    /// The worktree that is a run's own, if it is there.
    pub fn own_worktree(&self, run: &Found) -> Option<PathBuf> {
        let workflow = self.workflow_of(run).ok()?;
        workflow.worktree.as_ref()?;
        let document = self.read(run, &workflow).ok()?.document;
        let site = self.ground(&workflow, &document).site;
        (site != self.project.site && site != self.project.root && site.is_dir()).then_some(site)
    }

    /// Whatever could be the name of a tree in what is kept of all runs but these.
    pub fn tree_names(&self, without: &BTreeSet<RunId>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for run in self.all_runs().runs.iter().filter(|run| !without.contains(&run.id)) {
            let ledger = self.store.get(&Key::Ledger(run.id.clone())).ok().flatten();
            let document = self.home().get(&run.place).ok().flatten();
            for stored in ledger.into_iter().chain(document) {
                add_names(&stored.bytes, &mut names);
            }
            for line in self.store.forwards(&run.id).flatten() {
                add_names(line.as_bytes(), &mut names);
            }
        }
        names
    }
}

impl Gate<'_> {
    /// Takes the place of the only process that prunes, and removes what one has left that died.
    pub fn begin_pruning(&self) -> Result<Held, GateError> {
        let held = self.store.lock(&Lock::Removal)?;
        self.store.tidy()?;
        Ok(held)
    }

    /// Forgets the names of runs that are gone.
    pub fn end_pruning(&self, held: Held) -> Result<(), GateError> {
        self.store.tidy()?;
        drop(held);
        Ok(())
    }

    /// Removes what a run has left; whether that was still so. The caller has begun to prune.
    pub fn prune(
        &self,
        remnant: &Remnant,
        before: Timestamp,
        event: &Event,
    ) -> Result<bool, GateError> {
        let (run, root) = (&remnant.run, &self.project.root);
        let (goes_on, _) = self.within(run, |mut locked| {
            let ledger = &locked.ledger;
            if !self.is_over_since(run, ledger, before)
                || self.may_vanish(run, ledger) != remnant.whole
            {
                return Ok(Then::Nothing(None));
            }
            if remnant.whole {
                jobs::remove_of(root, &run.id, &ledger.work.jobs)?;
                // Before the run, so that it never remembers what is not there.
                Witness::forget(root, &run.id);
                self.store.remove(&run.id)?;
                return Ok(Then::Nothing(Some(0)));
            }
            // What a process that died has left is removed without another word.
            let seq = ledger.position.seq;
            if let Some(pruned) = ledger.position.pruned.filter(|it| it.lines + KEPT_LINES >= seq) {
                return Ok(Then::Nothing(Some(pruned.lines + 1)));
            }
            jobs::remove_of(root, &run.id, &ledger.work.jobs)?;
            let lines = seq.saturating_sub(1);
            strip(&mut locked.ledger, lines);
            let mut line = self.line_in_place(run, event, &Answer::accepted())?;
            line.notes.push("The lines before the last one and the evidence were removed.".into());
            Ok(Then::Write(locked.note(line), Some(lines + 1)))
        })?;
        let Some(first) = goes_on else { return Ok(false) };
        fault_point::reach("said");
        if !remnant.whole {
            // In a transaction of its own: the ledger must say it before anything is gone.
            self.within(run, |locked| {
                if locked.ledger.position.seq < first + KEPT_LINES {
                    jobs::remove_of(root, &run.id, &locked.ledger.work.jobs)?;
                    self.store.strip(&run.id, first)?;
                }
                Ok(Then::Nothing(()))
            })?;
        }
        Ok(true)
    }
}

/// Leaves in a ledger what makes the run stay as it ended.
fn strip(ledger: &mut Ledger, lines: u64) {
    ledger.position.pruned = Some(Pruned { at: Timestamp::now(), lines });
    ledger.position.evidence = 0;
    ledger.definition = Pinned::default();
    ledger.session.last_block = None;
    ledger.work.jobs.clear();
    ledger.work.flakes = Flakes::default();
    ledger.work.written = Written::default();
}

fn ledger_size(ledger: &Ledger) -> u64 {
    serde_json::to_vec(ledger).map_or(0, |bytes| bytes.len() as u64)
}

/// Adds the words of a text that could be names of trees.
fn add_names(text: &[u8], names: &mut BTreeSet<String>) {
    let words = text.split(|byte| !byte.is_ascii_hexdigit()).filter(|it| it.len() == TREE_NAME);
    names.extend(words.map(|word| String::from_utf8_lossy(word).into_owned()));
}
