//! The tree that an event is decided on.
//!
//! An event looks at the tree once, and is put again after each check with that look: the result of a check is
//! taken to hold for the tree as it was before. Before an answer that rests on it counts, and before a review
//! is paid for, the tree is looked at again. Where it has changed meanwhile, the event is decided anew. So a
//! stop with checks looks at the tree twice, however many checks it has.

use std::collections::BTreeSet;

use phasegate_engine::digest::digest;
use phasegate_engine::job::{Bound, Gives, Job};
use phasegate_engine::step::{Effect, Step};

use super::Gate;
use super::put::Attempt;
use super::transaction::Open;
use crate::jobs::{About, Ended, Record};
use crate::ledger::Ledger;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::tree::{Apart, Look, in_tree};
use crate::workspace::place::Place;

impl Gate<'_> {
    /// What the result of a job is about, where that is the tree.
    pub(super) fn about(&self, open: &Open, job: &Job, attempt: Option<&Attempt>) -> Option<About> {
        let is_about = job.manner.bound == Bound::Tree || job.manner.gives == Gives::Verdict;
        if !is_about {
            return None;
        }
        let written = &open.run.ledger.work.written;
        let tree = open.ground.tree(self.project, &open.workflow, written);
        let snapshot = attempt.map(|attempt| attempt.tree.borrow().clone());
        let look = snapshot.as_ref().and_then(|snapshot| snapshot.of(&tree));
        Some(About {
            apart: Apart::of(&open.workflow, written).within(&open.ground.scope),
            before: look.map(|look| look.content(&job.inputs).name),
            inputs: job.inputs.clone(),
            starter: std::process::id(),
        })
    }

    /// Whether a step rests on a tree that has changed since the event looked at it.
    pub(super) fn has_moved(&self, open: &Open, attempt: &Attempt, step: &Step) -> bool {
        if !attempt.is_dated.get() || !rests_on_tree(open, step) {
            return false;
        }
        let tree = open.ground.tree(self.project, &open.workflow, &open.run.ledger.work.written);
        let (new, is_same) = attempt.tree.borrow().renewed(&tree);
        attempt.tree.replace(new);
        attempt.is_dated.set(false);
        !is_same
    }

    /// What the tree is known by as it is now.
    pub(super) fn tree_now(&self, open: &Open, attempt: &Attempt) -> Option<String> {
        let tree = open.ground.tree(self.project, &open.workflow, &open.run.ledger.work.written);
        let name = |look: &Look| look.content(&[]).name;
        if attempt.is_dated.get() {
            return tree.look().ok().as_ref().map(name);
        }
        attempt.tree.borrow().of(&tree).map(name)
    }

    /// Notes what a step writes, so that it is not a part of the tree.
    pub(super) fn note_written(&self, ledger: &mut Ledger, effects: &[Effect]) {
        for effect in effects {
            let (place, digest) = match effect {
                Effect::Write { place, text } => (place, digest(format!("{text}\n").as_bytes())),
                Effect::Append { place, .. } => (place, String::new()),
                _ => continue,
            };
            // Topics are where the documents are, all of which is apart.
            if let (Place::File(_) | Place::Frontmatter(_), false) =
                (Place::of(place), place.trim().is_empty())
            {
                ledger.work.written.note(&in_tree(&self.project.site, place), digest);
            }
        }
    }

    /// Notes the file that a job has written.
    pub(super) fn note_output(&self, ledger: &mut Ledger, job: &Record) {
        let (Some(file), Some(ended)) = (&job.file, &job.ended) else { return };
        let now = || {
            let path = paths::meant(&self.project.root, &self.project.site, file).ok()?;
            Some(digest(&outside::read(&path, MAX_RECORD).ok()?))
        };
        let judged = ended.verdict.as_ref().map(|verdict| verdict.digest.clone());
        if let Some(digest) = judged.or_else(now) {
            ledger.work.written.note(&in_tree(&self.project.site, file), digest);
        }
    }
}

/// Whether a step would be another one if the tree were. A failure counts at once, whatever the tree is now.
fn rests_on_tree(open: &Open, step: &Step) -> bool {
    step.readings.iter().any(|reading| {
        let Some(name) = reading.query.strip_prefix("check ") else {
            return reading.query == "tree";
        };
        let mut jobs = open.run.ledger.work.jobs.values();
        let job = jobs.find(|job| job.manner.bound == Bound::Tree && job.name == name);
        job.and_then(|job| job.passes(&open.workflow)) != Some(false)
    })
}

/// What a person should know of the checks that have run for an event.
pub(super) fn note_checks(open: &mut Open, attempt: &Attempt) {
    note_trees(open, attempt);
    note_flakes(open, attempt);
}

/// Says what the trees are without that the jobs of an event have run on.
fn note_trees(open: &mut Open, attempt: &Attempt) {
    let ended = attempt.ended.iter().filter_map(|id| open.run.ledger.work.jobs.get(id));
    let ended: Vec<&Ended> = ended.filter_map(|job| job.ended.as_ref()).collect();
    let seen = if ended.is_empty() { Vec::new() } else { attempt.tree.borrow().notes() };
    let notes = ended.into_iter().filter_map(|ended| ended.tree_note.clone()).chain(seen);
    let run = &open.run.found.id;
    let notes: BTreeSet<String> =
        notes.map(|note| format!("run {run}: the tree: {note}")).collect();
    open.run.notes.extend(notes);
}

/// Says which checks of an event have said different things on the same files.
fn note_flakes(open: &mut Open, attempt: &Attempt) {
    let work = &open.run.ledger.work;
    let names: BTreeSet<&String> = attempt.ended.iter().collect();
    let ended = names.into_iter().filter_map(|id| work.jobs.get(id));
    let flaky = ended.filter(|job| {
        let files = job.ended.as_ref().and_then(|ended| ended.tree.as_deref());
        files.is_some_and(|files| work.flakes.is_flaky(&job.name, files))
    });
    let notes = flaky.map(|job| {
        let (run, name) = (&open.run.found.id, &job.name);
        let said = if job.passes(&open.workflow) == Some(true) { "passed" } else { "failed" };
        format!(
            "run {run}: check {name} is flaky: it has both passed and failed on the same files. It {said} last."
        )
    });
    let notes: Vec<String> = notes.collect();
    open.run.notes.extend(notes);
}
