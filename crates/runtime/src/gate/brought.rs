//! What comes back of jobs that other machines have done: brought here before the rules hear of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use phasegate_engine::decide::FILES;
use phasegate_engine::step::{Actor, Event};
use serde_json::Value;

use super::elsewhere::{read, remote};
use super::{Found, Gate, GateError};
use crate::git::transfer::branch;
use crate::jobs::{FOLDER, Order, Outcome, Record, Seen};
use crate::outside;
use crate::paths;
use crate::store::postgres::queue::Entry;
use crate::tree::{Apart, Kept};

/// The event of a line that says that what a job changed is not in the tree.
const LEFT: &str = "changes-left";

impl Gate<'_> {
    /// Sees to it that what came of a job is final and here, before the rules hear of its end.
    pub(super) fn fetch_end(&self, found: &Found, job: &Record) -> Result<(), GateError> {
        if job.elsewhere.is_none() || job.is_over() {
            return Ok(());
        }
        let queue = self.queue()?;
        let is_here = !job.is_elsewhere(&self.project.root);
        if let Seen::Lost(_, ended) = self.look(job)? {
            // From here on no machine can bring a result.
            let outcome = serde_json::to_value(Outcome::none(ended)).map_err(io::Error::from)?;
            queue.end_queued(&job.folder, false, &outcome)?;
        }
        let is_ours = is_here || self.is_origin(job);
        if is_ours && let Some(entry) = queue.queued(&job.folder)?.filter(|it| it.result.is_some())
        {
            self.bring(found, job, &entry)?;
        }
        Ok(())
    }

    /// Brings what jobs have changed that another machine has settled: the tree that it was wanted for is here.
    pub(super) fn fetch_changes(&self, found: &Found) -> Result<(), GateError> {
        let jobs = found.ledger.work.jobs.values();
        for job in jobs.filter(|job| job.is_over() && self.is_origin(job)) {
            if job.written_end(&self.project.root).is_none()
                && let Some(entry) = self.queue()?.queued(&job.folder)?
                && entry.result.is_some()
            {
                self.bring(found, job, &entry)?;
                self.tell_what_is_left(found, job)?;
            }
        }
        Ok(())
    }

    /// Says what was not brought, where the rules have heard of the job's end elsewhere.
    fn tell_what_is_left(&self, found: &Found, job: &Record) -> Result<(), GateError> {
        let end = job.written_end(&self.project.root);
        let Some(note) = end.and_then(|(_, ended)| ended.note) else { return Ok(()) };
        let event = Event::new(LEFT, Actor::Engine);
        self.note(found, &event, |locked, _| {
            locked.notes.push(format!("run {}: {note}.", found.id));
            Ok(())
        })
    }

    /// Whether the changes of a job are for the tree that is here.
    fn is_origin(&self, job: &Record) -> bool {
        let origin = job.elsewhere.as_ref().map(|elsewhere| &elsewhere.origin);
        origin.is_some() && self.own_site().as_ref() == origin
    }

    /// Brings the log, the file and the changes of a job here, and writes down how it ended. What was brought before is
    /// not brought again.
    fn bring(&self, found: &Found, job: &Record, entry: &Entry) -> Result<(), GateError> {
        let root = &self.project.root;
        let folder =
            paths::inside(root, &job.folder).map_err(|why| io::Error::other(why.to_string()))?;
        fs::create_dir_all(&folder)?;
        paths::ignored_by_git(&root.join(FOLDER))?;
        let mut options = File::options();
        let lock = outside::open_with(options.create(true).append(true), &folder.join("lock"))?;
        lock.lock()?;
        if job.written_end(root).is_some() {
            return Ok(());
        }
        let order: Order = read(&entry.spec)?;
        let outcome: Outcome = read(entry.result.as_ref().unwrap_or(&Value::Null))?;
        let mut ended = outcome.ended.clone();
        if let Some(log) = outcome.log.as_ref().and_then(|log| self.store.piece(&found.id, log)) {
            fs::write(folder.join("log"), log)?;
        }
        let site = if job.is_elsewhere(root) { root.clone() } else { PathBuf::from(&order.site) };
        if let Err(why) = self.bring_file(found, job, &outcome, &site) {
            ended.verdict = None;
            ended.problem = Some(why);
        }
        if let (Some(own), Some(sent)) = (&outcome.branch, &order.sent) {
            let mut apart = vec![".phasegate/**".to_string()];
            let workflow = self.workflow_of(found)?;
            apart.extend(Apart::of(&workflow, &found.ledger.work.written).patterns);
            let kept = Kept::open(root);
            let brought = kept.and_then(|kept| {
                let repository = kept.repository();
                let remote = remote(self.project).unwrap_or_else(|_| sent.remote.clone());
                repository.fetch(&remote, &branch(&own.name), &own.commit)?;
                let files = format!("{FILES}/{}/", found.id);
                kept.bring(&site, (&sent.commit, &own.commit), (&apart, &files))?;
                // What is here need not be there any more.
                let _ = repository.forget(&remote, &[branch(&own.name)]);
                repository.unname(&[&sent.reference, &branch(&own.name)])
            });
            if let Err(why) = brought {
                let (kind, name) = (&job.kind, &job.name);
                ended.note = Some(format!(
                    "what {kind} {name} changed on {} is not in the tree, but on branch {} of {}: {why}",
                    outcome.machine, own.name, sent.remote
                ));
            }
        }
        if let (true, Some(sent)) = (outcome.machine.is_empty(), &order.sent) {
            // Nobody has done it, so that nobody else removes what was sent for it.
            let _ = Kept::open(root).map(|kept| {
                let remote = remote(self.project).unwrap_or_else(|_| sent.remote.clone());
                let _ = kept.repository().forget(&remote, std::slice::from_ref(&sent.reference));
                kept.repository().unname(&[&sent.reference])
            });
        }
        Ok(job.write_end(root, &ended)?)
    }

    /// Writes the file that a job was asked for, as it was written elsewhere.
    fn bring_file(
        &self,
        found: &Found,
        job: &Record,
        outcome: &Outcome,
        site: &Path,
    ) -> Result<(), String> {
        let (Some(file), Some(wanted)) = (&job.file, &outcome.file) else { return Ok(()) };
        let machine = &outcome.machine;
        let bytes = self.store.piece(&found.id, wanted);
        let bytes = bytes.ok_or_else(|| format!("{file}, as {machine} wrote it, is lost"))?;
        let path = paths::meant(&self.project.root, site, file).map_err(|why| why.to_string())?;
        match outside::read(&path, outside::MAX_RECORD) {
            Ok(there) if there == bytes => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Err(format!("{file} exists already, and what {machine} wrote is not it")),
        }
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| format!("{file}: {error}"))
    }
}
