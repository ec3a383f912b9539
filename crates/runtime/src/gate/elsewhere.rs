//! Jobs that are done on other machines: which are, what is sent for them, how they stand, and what comes back.
//!
//! Such a job is recorded as every other, and put into the store's queue by the same transaction. What it works on is
//! sent after that, as a supervisor is started after that: where a process dies in between, the next one sends it. What
//! came of it is brought into the tree before the rules hear of its end, so that from there on nothing tells it from a
//! job that was done here.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::job::{Job, JobKind};
use serde_json::Value;

use super::transaction::Open;
use super::{Gate, GateError, Runs};
use crate::git;
use crate::jobs::{About, Claimed, Elsewhere, Order, Outcome, Record, Seen, Sent};
use crate::ledger::Ledger;
use crate::outpost::{Configured, Outpost};
use crate::project::Project;
use crate::store::PostgresStore;
use crate::store::postgres::queue::Entry;
use crate::tree::{Apart, Kept, Tree, in_tree};
use crate::workspace::place::Place;

/// How long the process that ends a job on another machine waits to see it end.
const MAX_END: Duration = Duration::from_secs(4);

/// How often it looks.
const POLL: Duration = Duration::from_millis(100);

/// The usual name of the remote by which others get the tree.
const ORIGIN: &str = "origin";

/// Where trees are sent to.
const REFERENCES: &str = "refs/phasegate/jobs";

/// Where a job is that is done on another machine.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    pub labels: Vec<String>,
    /// `waiting`, `queued`, `working`, `lost` or `done`.
    pub state: &'static str,
    /// The machine that has it, or had it last.
    pub machine: Option<String>,
    /// Until when that machine has it, if nothing more is heard of it.
    pub lease: Option<Timestamp>,
    /// How often it was taken.
    pub attempts: i32,
    /// The branch that has what it changed.
    pub branch: Option<String>,
}

/// What a job is called where everybody can see it.
pub(crate) fn public_id(folder: &str) -> String {
    digest(folder.as_bytes())[..20].to_string()
}

impl Runs<'_> {
    /// How a job stands. This only looks.
    pub(super) fn look(&self, job: &Record) -> Result<Seen, GateError> {
        let root = &self.project.root;
        if job.elsewhere.is_none() {
            return Ok(job.look(root)?);
        }
        let is_here = !job.is_elsewhere(root);
        if let (true, Some((since, ended))) = (is_here, job.written_end(root)) {
            return Ok(Seen::Ended(since, ended));
        }
        let entry = self.queue()?.queued(&job.folder)?;
        Ok(job.look_in(entry.as_ref(), is_here))
    }

    /// A job as it is now, with its end, also where the rules have not heard of that yet.
    pub(super) fn as_seen(&self, mut job: Record) -> Record {
        if !job.is_over() {
            match self.look(&job) {
                Ok(Seen::Lost(since, ended) | Seen::Ended(since, ended)) => {
                    job.started = job.started.or(since);
                    job.ended = Some(ended);
                }
                Ok(Seen::Working(since)) if job.elsewhere.is_some() => {
                    job.started = job.started.or(Some(since));
                }
                _ => {}
            }
        }
        job
    }

    /// Where a job is that is done on another machine; none where it is done here.
    pub fn whereabouts(&self, job: &Record) -> Option<Whereabouts> {
        let elsewhere = job.elsewhere.as_ref()?;
        let entry = self.queue().ok()?.queued(&job.folder).ok()?;
        let is_here = !job.is_elsewhere(&self.project.root);
        let state = match job.look_in(entry.as_ref(), is_here) {
            Seen::Waiting | Seen::Starting => "waiting",
            Seen::Queued => "queued",
            Seen::Working(_) => "working",
            Seen::Lost(..) => "lost",
            Seen::Ended(..) => "done",
        };
        let outcome = entry.as_ref().and_then(outcome);
        Some(Whereabouts {
            labels: elsewhere.labels.clone(),
            state,
            machine: entry.as_ref().and_then(|entry| entry.owner.clone()),
            lease: entry.as_ref().and_then(|entry| entry.held_until),
            attempts: entry.as_ref().map_or(0, |entry| entry.attempts),
            branch: outcome.and_then(|outcome| Some(outcome.branch?.name)),
        })
    }

    /// Whether a secret is that of the agent that has a job now. Whoever had it before shows another.
    pub(super) fn is_holder(&self, job: &Record, secret: &str) -> bool {
        let entry = self.queue().ok().and_then(|queue| queue.queued(&job.folder).ok()?);
        job.elsewhere.is_some()
            && entry.is_some_and(|entry| {
                entry.held_until.is_some()
                    && entry.secret.as_deref() == Some(&digest(secret.as_bytes()))
            })
    }

    /// The store's queue.
    pub(super) fn queue(&self) -> Result<&PostgresStore, GateError> {
        let why = "the job is in the queue of a store that this project does not use now";
        self.store.shared().ok_or_else(|| GateError::Other(why.into()))
    }

    /// What this project on this machine is called in the store.
    pub(super) fn own_site(&self) -> Option<String> {
        Some(self.store.shared()?.identity().ok()?.site.clone())
    }
}

/// What came of a job, as the machine says that did it.
pub(super) fn outcome(entry: &Entry) -> Option<Outcome> {
    serde_json::from_value(entry.result.clone()?).ok()
}

impl Gate<'_> {
    /// A job with its folder, on this machine or in the queue.
    pub(super) fn claimed(
        &self,
        open: &mut Open,
        site: &Path,
        job: &Job,
        document: &str,
        about: Option<About>,
    ) -> io::Result<Claimed> {
        let elsewhere = self.elsewhere(open, site, job);
        let run = open.run.found.id.clone();
        let workflow = open.workflow.clone();
        let both = (about, elsewhere);
        let mut claimed = Claimed::new(self.project, site, &run, job, document, &workflow, both)?;
        if let Some(order) = &mut claimed.order {
            // The machine that does it reads what the run keeps to, and asks its user about that.
            let pinned = self.pin(&mut open.run, &workflow);
            pinned.map_err(|error| io::Error::other(error.to_string()))?;
            order.definition = workflow.identity.to_string();
            order.run = run.to_string();
            order.shared = Place::of(&open.run.found.place).is_store();
            order.beside = beside(&open.run.ledger, &open.run.found.place);
            let entry = self.project.workflow(&workflow.name);
            let overrides = entry.map(|entry| entry.overrides(&self.project.config));
            let overrides = overrides.unwrap_or_default();
            order.workflow = Configured {
                name: workflow.name.clone(),
                document: workflow.document.clone(),
                constants: overrides.constants,
                rights: overrides.rights,
            };
        }
        Ok(claimed)
    }

    /// Whether a job is done on another machine. One that has labels and is done here all the same says why.
    fn elsewhere(&self, open: &mut Open, site: &Path, job: &Job) -> Option<Elsewhere> {
        let store = self.store.shared()?;
        let outpost = Outpost::of(&self.project.root);
        let configured = self.project.config.labels(&open.workflow.name);
        let labels = job.labels.clone().or(configured);
        // Who does a job for others has no place for the jobs that it leads to.
        let labels = labels.or_else(|| Some(outpost.as_ref()?.labels.clone()))?;
        // Commands are the gate's own: they work in the project.
        if labels.is_empty() && outpost.is_none() || job.kind == JobKind::Command {
            return None;
        }
        let is_shared = Place::of(&open.run.found.place).is_store();
        let why = if job.role.is_some() && !is_shared {
            "it acts on the run, whose document is a file of this machine".to_string()
        } else {
            match remote(self.project).and_then(|_| git::objects(site).ok_or_else(no_objects)) {
                Ok(_) => {
                    let own = store.identity().ok()?.site.clone();
                    let origin = outpost.map_or(own, |outpost| outpost.origin);
                    return Some(Elsewhere { labels, origin });
                }
                Err(why) => why,
            }
        };
        let (run, what) = (&open.run.found.id, format!("{} {}", job.kind, job.name));
        open.run.notes.push(format!("run {run}: {what} has labels, but runs here: {why}."));
        None
    }

    /// Sends what a job works on, and lets machines take it.
    pub(super) fn send(&self, claimed: &Claimed) -> Result<Record, GateError> {
        let record = &claimed.record;
        let queue = self.queue()?;
        let entry = queue.queued(&record.folder)?;
        let Some(entry) = entry.filter(|entry| !entry.is_sent && entry.result.is_none()) else {
            return Ok(record.clone());
        };
        let order: Order = read(&entry.spec)?;
        let sent = self.pack(&order).map_err(|why| {
            let (kind, name) = (&record.kind, &record.name);
            GateError::Other(format!("{kind} {name} cannot be sent to other machines: {why}"))
        })?;
        let sent = serde_json::to_value(sent).map_err(io::Error::from)?;
        queue.release(&record.folder, &sent)?;
        Ok(record.clone())
    }

    /// Makes a commit of the tree that a job works on, and pushes it.
    fn pack(&self, order: &Order) -> Result<Sent, String> {
        let (root, site) = (&self.project.root, Path::new(&order.site));
        let remote = remote(self.project)?;
        let whole = Tree::new(root, site, Apart::default());
        let about = order.spec.about.as_ref();
        let name = || -> Result<Option<String>, String> {
            let Some(about) = about else { return Ok(None) };
            let look = Tree::new(root, site, about.apart.clone()).look()?;
            Ok(Some(look.content(&about.inputs).name))
        };
        let before = name()?;
        let tree = whole.keep(&order.beside)?.ok_or_else(no_objects)?;
        // What changes meanwhile is not what the result is about.
        let tree_name =
            before.filter(|before| name().is_ok_and(|now| now.as_ref() == Some(before)));
        let kept = Kept::open(root)?;
        let head = git::head(site);
        let is_whole = git::top(site) == Some(site);
        let head = head.filter(|_| is_whole);
        let is_clean = |head: &String| kept.tree_of(head).is_ok_and(|own| own == tree);
        let (commit, parent) = match head {
            Some(head) if is_clean(&head) => (head, None),
            head => {
                let text = format!("The tree of run {}, for a job", order.run);
                (kept.commit(&tree, head.as_deref(), &text)?, head)
            }
        };
        let reference = format!("{REFERENCES}/{}", public_id(&order.record.folder));
        let repository = kept.repository();
        repository.name(&reference, &commit)?;
        repository.push(&remote, &commit, &reference)?;
        let remote = git::without_password(&remote);
        Ok(Sent { remote, reference, commit, parent, tree: tree_name })
    }

    /// Asks for the end of a job.
    pub(super) fn ask_to_end(&self, job: &Record) {
        if job.elsewhere.is_none() {
            return job.ask_to_end(&self.project.root);
        }
        let ended = serde_json::to_value(Outcome::none(job.killed()));
        if let (Ok(queue), Ok(ended)) = (self.queue(), ended) {
            // Who cannot ask now finds the job at work, and asks again.
            let _ = queue.end_queued(&job.folder, true, &ended);
        }
    }

    /// Waits until a job has ended.
    pub(super) fn await_end(&self, job: &Record) {
        if job.elsewhere.is_none() {
            return job.await_end(&self.project.root);
        }
        let since = Instant::now();
        let works = || matches!(self.look(job), Ok(Seen::Working(_) | Seen::Queued));
        while works() && since.elapsed() < MAX_END {
            std::thread::sleep(POLL);
        }
    }
}

/// Where other machines get the tree of a project.
///
/// # Errors
/// That there is none, in words for people.
pub(crate) fn remote(project: &Project) -> Result<String, String> {
    let root = &project.root;
    if let Some(outpost) = Outpost::of(root) {
        return Ok(outpost.remote);
    }
    let name = project.config.store.remote.as_deref().unwrap_or(ORIGIN);
    let is_place = name.contains(['/', ':']);
    let url = git::remote(root, name).or_else(|| is_place.then(|| name.to_string()));
    url.ok_or_else(|| format!("the project has no git remote `{name}`"))
}

/// What a job may want to see although git may ignore it: the document, and what the workflow has written.
fn beside(ledger: &Ledger, place: &str) -> Vec<String> {
    let document = match Place::of(place) {
        Place::File(path) | Place::Frontmatter(path) => Some(path.to_string()),
        _ => None,
    };
    let written = ledger.work.written.paths().map(str::to_string);
    document.into_iter().chain(written).map(|path| in_tree(Path::new(""), &path)).collect()
}

fn no_objects() -> String {
    "the tree is not in a git repository of the usual kind".into()
}

pub(super) fn read<T: for<'d> serde::Deserialize<'d>>(value: &Value) -> Result<T, GateError> {
    serde_json::from_value(value.clone())
        .map_err(|error| GateError::Other(format!("the queue has what cannot be read: {error}")))
}
