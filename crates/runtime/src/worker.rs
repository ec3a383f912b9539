//! A worker: a machine that does jobs for the runs of others.
//!
//! It takes jobs from the store's queue, each for a time (a lease) that it lengthens while it lives. A worker that does
//! not hear from the store stops at its own deadline, counted from the moment at which it sent the question: then another
//! one has the job, or will. What it brings after that is refused by the job's fence, so that each result counts once.
//!
//! A row of a database names what is run here. So nothing runs that the user of this machine has not consented to: by
//! `phasegate trust` in the clone in which the worker runs, or to everything in a store by a flag of its own.

mod consent;
mod errand;
mod hold;
mod place;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use phasegate_engine::digest::digest;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::jobs::{Order, secret};
use crate::machine::{machine, state_folder};
use crate::project::{Project, store_place};
use crate::store::postgres::queue::{Lease, Wanted};
use crate::store::{PostgresStore, StoreError};
use crate::variables;
use crate::workspace::topics::new_id;

use consent::Consent;
use errand::Errand;
use hold::{Holdings, Moment};

/// For how long a job is taken: longer than the store may take to have another first server.
const LEASE: Duration = Duration::from_mins(1);

/// How often the store is asked for work, and whether what is done is still wanted.
const POLL: Duration = Duration::from_secs(1);

/// How often everything on this machine is looked at.
const TICK: Duration = Duration::from_millis(50);

/// What a worker is to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What this machine has; without any it takes jobs whatever they need.
    pub labels: Option<Vec<String>>,
    /// How many jobs it does at the same time.
    pub jobs: usize,
    /// Where it works.
    pub folder: Option<PathBuf>,
    /// Everything in the store is consented to, of all projects.
    pub trusts_store: bool,
}

/// Who is told what happens.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// What all jobs of a worker know.
#[derive(Clone)]
pub(crate) struct Shop {
    url: String,
    owner: String,
    machine: String,
    folder: PathBuf,
    lease: Duration,
    held: Holdings,
    say: Say,
}

/// A worker.
pub struct Worker<'p> {
    project: &'p Project,
    store: &'p PostgresStore,
    options: Options,
    shop: Shop,
    consent: Consent<'p>,
    at_work: Vec<JoinHandle<()>>,
    /// What was said last about the store.
    trouble: Option<String>,
}

impl<'p> Worker<'p> {
    /// A worker for the project, or for all projects of its store.
    ///
    /// # Errors
    /// Why there is nothing that it could do, in words for people.
    pub fn new(project: &'p Project, options: Options, say: Say) -> Result<Worker<'p>, String> {
        let store = project.store.shared().ok_or(
            "a worker takes jobs from a store of several machines: name it with `[store] url` in the \
             configuration, or with PHASEGATE_STORE",
        )?;
        let url = store_place(&project.config).ok_or("the store has no URL")?.1;
        let machine = machine().map_err(|error| error.to_string())?;
        let chance = new_id().map_err(|error| error.to_string())?;
        let usual = || state_folder().map(|folder| folder.join("worker"));
        let folder = options.folder.clone().or_else(usual).ok_or("there is no home folder")?;
        let made = std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
        let folder = made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let shop = Shop {
            url,
            owner: format!("{machine}/{}-{chance}", std::process::id()),
            machine,
            folder,
            lease: lease(),
            held: Holdings::default(),
            say,
        };
        let consent = Consent::new(project, store, options.trusts_store);
        let (at_work, trouble) = (Vec::new(), None);
        Ok(Worker { project, store, options, shop, consent, at_work, trouble })
    }

    /// Works until it is told to end. A first SIGTERM lets it finish what it has; a second one gives that back.
    ///
    /// # Errors
    /// Where the store does not have what is needed, before any work.
    pub fn run(mut self) -> Result<(), String> {
        let identity = self.store.identity().map_err(|error| error.to_string())?.clone();
        self.store.offers(Some(&identity.project)).map_err(|error| error.to_string())?;
        place::remove_left(&self.shop.folder);
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, told.clone()).map_err(|error| error.to_string())?;
        }
        let guard = self.shop.held.guard(TICK);
        let what = match (&self.options.trusts_store, &self.options.labels) {
            (true, _) => format!("all projects of {}", self.store.name()),
            (false, _) => format!("{} in {}", identity.project, self.store.name()),
        };
        let labels = self.options.labels.as_ref().map(|it| format!(", labels {}", it.join(", ")));
        let jobs = self.options.jobs;
        let owner = &self.shop.owner;
        self.say(&format!(
            "{owner} works for {what}{}, {jobs} at a time",
            labels.unwrap_or_default()
        ));
        let (mut drains, mut asked, mut beaten) = (false, None, Moment::now());
        loop {
            if told.swap(false, Ordering::Relaxed) {
                if drains {
                    self.give_back();
                } else {
                    let count = self.shop.held.count();
                    self.say(&format!("draining: {count} at work, nothing new is taken"));
                }
                drains = true;
            }
            self.at_work.retain(|thread| !thread.is_finished());
            if drains && self.at_work.is_empty() {
                break;
            }
            if beaten.age() >= self.shop.lease / 3 {
                beaten = Moment::now();
                self.beat();
            }
            if asked.is_none_or(|asked: Moment| asked.age() >= POLL.min(self.shop.lease / 3)) {
                asked = Some(Moment::now());
                self.look_for_unwanted();
                while !drains && self.at_work.len() < jobs && self.take() {}
            }
            std::thread::sleep(TICK);
        }
        drop(guard);
        self.say("ended");
        Ok(())
    }

    /// Takes a job, if there is one; whether there may be more.
    fn take(&mut self) -> bool {
        let wanted = match self.wanted() {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return false,
            Err(error) => return self.complain(&error),
        };
        let Ok(secret) = secret() else { return false };
        let sent = Moment::now();
        let known = self.shop.held.ids();
        let mark = digest(secret.as_bytes());
        let (owner, lease) = (&self.shop.owner, self.shop.lease);
        let taken = self.store.take(owner, &known, &wanted, &mark, lease);
        match taken {
            Ok(Some(lease)) => {
                self.recover();
                self.begin(lease, secret, sent);
                true
            }
            Ok(None) => {
                self.recover();
                false
            }
            Err(error) => self.complain(&error),
        }
    }

    /// What may be taken now; none where nothing that waits is consented to.
    fn wanted(&mut self) -> Result<Option<Wanted>, StoreError> {
        let labels = self.options.labels.clone();
        if self.options.trusts_store {
            return Ok(Some(Wanted { labels, ..Wanted::default() }));
        }
        let project = self.store.identity()?.project.clone();
        let say = self.shop.say.clone();
        let definitions = self.consent.definitions(&project, &*say)?;
        let (project, definitions) = (Some(project), Some(definitions));
        let is_any = definitions.as_ref().is_some_and(|all| !all.is_empty());
        Ok(is_any.then_some(Wanted { project, definitions, labels }))
    }

    fn begin(&mut self, lease: Lease, secret: String, sent: Moment) {
        let mut order: Order = match serde_json::from_value(lease.spec.clone()) {
            Ok(order) => order,
            Err(error) => {
                let job = &lease.job;
                self.say(&format!("job {job} cannot be read, and is given back: {error}"));
                let _ = self.store.give_back(&self.shop.owner, (lease.id, lease.fence), true);
                return;
            }
        };
        let name = format!("{}/{}", order.run, lease.job);
        let fits = self.consent.fits(&mut order);
        let again = if lease.attempts > 1 {
            format!(", which was taken {} times", lease.attempts)
        } else {
            String::new()
        };
        self.say(&format!("took {name}{again}"));
        self.shop.held.add(lease.id, lease.fence, sent.after(self.shop.lease));
        let root = self.project.root.clone();
        let errand = Errand { shop: self.shop.clone(), lease, order, secret, name, fits, root };
        self.at_work.push(std::thread::spawn(move || errand.run()));
    }

    /// Says that we live, and hears which jobs are still ours.
    fn beat(&mut self) {
        let held = self.shop.held.fences();
        if held.is_empty() {
            return;
        }
        let sent = Moment::now();
        match self.store.beat(&self.shop.owner, &held, self.shop.lease) {
            Ok(alive) => {
                self.recover();
                let ids: BTreeSet<i64> = alive.iter().map(|(id, _)| *id).collect();
                for (id, fence) in held {
                    if ids.contains(&id) {
                        self.shop.held.extend(id, fence, sent.after(self.shop.lease));
                    } else {
                        self.shop.held.lose(id, fence);
                    }
                }
                for (id, _) in alive.iter().filter(|(_, is_wanted)| !is_wanted) {
                    self.shop.held.end(*id);
                }
            }
            // What we have ends at its own deadline.
            Err(error) => drop(self.complain(&error)),
        }
    }

    /// Ends what nobody wants any more.
    fn look_for_unwanted(&mut self) {
        if self.shop.held.count() == 0 {
            return;
        }
        if let Ok(unwanted) = self.store.unwanted(&self.shop.owner) {
            for id in unwanted {
                self.shop.held.end(id);
            }
        }
    }

    /// Gives everything back, so that others can take it at once.
    fn give_back(&self) {
        for (id, fence) in self.shop.held.fences() {
            match self.store.give_back(&self.shop.owner, (id, fence), false) {
                Ok(()) => self.say(&format!("gave job {id} back")),
                Err(error) => self.say(&format!("job {id}: {error}")),
            }
            self.shop.held.lose(id, fence);
        }
    }

    fn say(&self, text: &str) {
        (self.shop.say)(text);
    }

    /// Says once what is wrong with the store; there is nothing to be had from it now.
    fn complain(&mut self, error: &StoreError) -> bool {
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            self.say(&text);
            self.trouble = Some(text);
        }
        false
    }

    fn recover(&mut self) {
        if self.trouble.take().is_some() {
            self.say("the store answers again");
        }
    }
}

/// How long a lease lasts; tests have less time.
fn lease() -> Duration {
    let told = std::env::var(variables::LEASE).ok().and_then(|text| text.parse().ok());
    told.map_or(LEASE, Duration::from_millis)
}
