//! Reviews that failed: one is made again only after it was answered. An agent that stops again and again
//! would otherwise buy a review each time, and be called stuck never, since each of them changes something.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::events::EventKind;
use phasegate_engine::job::Job;
use phasegate_engine::step::Event;

use super::Gate;
use super::transaction::Open;
use crate::jobs::Record;
use crate::ledger::Ledger;
use crate::paths;

impl Gate<'_> {
    /// Whether the last review of this name failed and was not answered since: the tree is as it left it, nobody
    /// has written anything beside its file, or edited the document. A review whose file is gone cannot be
    /// answered.
    pub(super) fn is_unanswered(
        &self,
        open: &Open,
        job: &Job,
        tree: impl FnOnce() -> Option<String>,
    ) -> bool {
        let jobs = &open.run.ledger.work.jobs;
        let Some(before) = jobs.get(&job.id) else { return false };
        // A verdict that was refused is nobody's to answer.
        let refused = matches!(before.answer, Some(Answer::Deny { .. }));
        let ended = before.ended.as_ref().filter(|_| !refused);
        let Some(ended) = ended else { return false };
        let verdict = ended.verdict.as_ref().filter(|verdict| verdict.document == open.before);
        let Some(left) = verdict.and_then(|verdict| verdict.left.as_ref()) else { return false };
        let is_there = before.file.as_ref().is_some_and(|file| self.is_there(file));
        is_there
            && !self.has_neighbour_since(open, before, ended.at)
            && tree().as_ref() == Some(left)
    }

    /// Whether there is something new beside the file of a review. The tree does not tell where git ignores
    /// that folder. What the run's own jobs write, and its document, is not an answer.
    fn has_neighbour_since(&self, open: &Open, review: &Record, since: Timestamp) -> bool {
        let path = |file: &str| paths::meant(&self.project.root, &self.project.site, file).ok();
        let own = open.run.ledger.work.jobs.values().filter_map(|job| path(job.file.as_deref()?));
        let own: Vec<_> = own.chain(path(&open.run.found.place)).collect();
        let folder = review.file.as_deref().and_then(path);
        let Some(folder) = folder.as_deref().and_then(Path::parent) else { return false };
        let is_new = |entry: &fs::DirEntry| {
            let time = entry.metadata().and_then(|meta| meta.modified()).ok();
            time.and_then(|time| Timestamp::try_from(time).ok()).is_some_and(|time| time > since)
        };
        let mut beside = fs::read_dir(folder).into_iter().flatten().flatten();
        beside.any(|entry| is_new(&entry) && !own.contains(&entry.path()))
    }
}

/// Follows the document through our own steps, so that an edit by somebody else is told from them. Who asks
/// for something, and gets it, wants the next review made.
pub(super) fn follow(ledger: &mut Ledger, event: &Event, before: &str, after: &str) {
    let jobs = ledger.work.jobs.values_mut().filter_map(|job| job.ended.as_mut());
    for verdict in jobs.filter_map(|ended| ended.verdict.as_mut()) {
        let is_asked_for = event.kind() == EventKind::Action && before != after;
        let is_edited = !verdict.document.is_empty() && verdict.document != before;
        if is_asked_for || is_edited {
            verdict.left = None;
        }
        if verdict.left.is_some() {
            verdict.document = after.to_string();
        }
    }
}

/// The answer where the rules want a review again that was not answered, and have no other word for it.
pub(super) fn unanswered(open: &Open, job: &Job) -> Answer {
    let before = open.run.ledger.work.jobs.get(&job.id);
    let file = before.and_then(|before| before.file.as_deref()).unwrap_or(&job.name);
    let reason = format!(
        "The review {file} found issues, and nothing has changed since. Read it and answer it: change what it \
         is about, or write your answer to a file beside it. Then stop again."
    );
    Answer::Block { reason }
}
