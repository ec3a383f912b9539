//! One job of a worker: from the commit that was sent to the result that is handed in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use phasegate_engine::digest::digest;
use phasegate_engine::job::{Bound, CommandRun, Gives};

use super::Shop;
use super::place::Place;
use crate::gate::public_id;
use crate::git::transfer::branch;
use crate::jobs::{
    self, Branch, Ended, FOLDER, Order, Outcome, SETTLE, Sent, Spec, Supervisor, run_with, token,
};
use crate::outpost::Outpost;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::run::RunId;
use crate::store::postgres::queue::Lease;
use crate::store::{Piece, PostgresStore};
use crate::tree::{Apart, Kept, Tree, in_tree};
use crate::trust;
use crate::variables;

/// How much of the end of a log is handed in.
const MAX_LOG: u64 = 1 << 20;

/// How long to wait before the store is asked again that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// A job that a worker has taken.
pub(super) struct Errand {
    pub(super) shop: Shop,
    pub(super) lease: Lease,
    pub(super) order: Order,
    pub(super) secret: String,
    /// The run and the job, for people.
    pub(super) name: String,
    /// Whether the job is what its definition says.
    pub(super) fits: Result<(), String>,
    /// The project in which the worker runs.
    pub(super) root: PathBuf,
}

impl Errand {
    /// Does the job, and hands its result in.
    pub(super) fn run(self) {
        let name = &self.name;
        if let Err(why) = self.work() {
            self.say(&format!("{name}: {why}"));
        }
        self.shop.held.remove(self.lease.id);
    }

    fn work(&self) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let Some(sent) = self.order.sent.clone() else { return Err("it was never sent".into()) };
        let id = format!("{}-{}", public_id(&self.lease.folder), self.lease.fence);
        let (place, held) = Place::new(&self.shop.folder, &id, &sent).map_err(failed)?;
        self.shop.held.keep(self.lease.id, held);
        let done = match self.fits.clone() {
            Ok(()) => self.do_it(&place, &sent),
            // Whoever takes it next would refuse it, too.
            Err(why) => Ok((self.crashed(&why), Vec::new())),
        };
        let (outcome, pieces) = match done {
            Ok(done) => done,
            // Another machine may have what this one lacks.
            Err(why) => {
                let (owner, lease) = (&self.shop.owner, (self.lease.id, self.lease.fence));
                let _ = self.store().give_back(owner, lease, true);
                place.remove(&sent);
                return Err(format!("given back, since it could not be done here: {why}"));
            }
        };
        let words = outcome.ended.words.clone();
        let is_accepted = self.hand_in(&outcome, &pieces);
        if is_accepted {
            self.say(&format!("{}: {words}", self.name));
            let _ = place.repository().forget(&sent.remote, std::slice::from_ref(&sent.reference));
            if self.order.shared {
                self.settle(&place.tree);
            }
        } else {
            self.say(&format!("{}: lost; what came of it does not count", self.name));
            if let Some(own) = &outcome.branch {
                let _ = place.repository().forget(&sent.remote, &[branch(&own.name)]);
            }
        }
        if self.order.shared {
            let _ = trust::distrust_named(&place.tree, &self.order.definition);
        }
        place.remove(&sent);
        Ok(())
    }

    /// Does the job in its own tree.
    fn do_it(&self, place: &Place, sent: &Sent) -> Result<(Outcome, Vec<Piece>), String> {
        let failed = |error: io::Error| error.to_string();
        place.fill(sent)?;
        let tree = &place.tree;
        let record = &self.order.record;
        let folder = paths::inside(tree, &record.folder).map_err(|why| why.to_string())?;
        fs::create_dir_all(&folder).map_err(failed)?;
        paths::ignored_by_git(&tree.join(FOLDER)).map_err(failed)?;
        if let Some(prompt) = &self.order.prompt {
            fs::write(folder.join("prompt"), self.here(prompt, tree)).map_err(failed)?;
        }
        let file = record.file.as_ref().map(|file| in_tree(Path::new(&self.order.site), file));
        if let Some(file) = &file {
            let path = paths::inside(tree, file).map_err(|why| why.to_string())?;
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            made.map_err(failed)?;
        }
        if self.order.shared {
            self.set_up(tree, sent).map_err(failed)?;
            self.settle(tree);
        }
        let spec = self.spec(place, file.as_deref()).map_err(failed)?;
        let run = RunId::try_from(self.order.run.clone())?;
        let (mut ended, _) = run_with(tree, &record.folder, &spec, Supervisor::Job, |command| {
            self.equip(command, &run);
        })
        .map_err(failed)?;
        Errand::translate(&mut ended, sent);
        let mut pieces = Vec::new();
        let mut add = |bytes: Vec<u8>| {
            let digest = digest(&bytes);
            pieces.push(Piece { digest: digest.clone(), bytes: bytes.into() });
            digest
        };
        let (_, size) = jobs::part(tree, record, 0, 0).map_err(failed)?;
        let log = jobs::part(tree, record, size.saturating_sub(MAX_LOG), MAX_LOG);
        let log = Some(add(log.map_err(failed)?.0));
        let written = file.as_deref().and_then(|file| {
            let path = paths::inside(tree, file).ok()?;
            outside::read(&path, MAX_RECORD).ok()
        });
        let written = written.map(&mut add);
        let machine = self.shop.machine.clone();
        let branch = self.changes(tree, sent, file)?;
        Ok((Outcome { ended, machine, log, file: written, branch }, pieces))
    }

    /// What the supervisor must know of the job on this machine.
    fn spec(&self, place: &Place, file: Option<&str>) -> io::Result<Spec> {
        let (tree, record) = (&place.tree, &self.order.record);
        let mut spec = self.order.spec.clone();
        spec.held = Some(place.held());
        if let Some(client) = &self.order.client {
            let words = record.usual(client, tree, file.map(str::to_string))?;
            spec.run = vec![CommandRun { words, timeout: record.timeout }];
        }
        for run in &mut spec.run {
            for word in &mut run.words {
                *word = self.here(word, tree);
            }
        }
        // Nobody else chooses the environment of what runs here.
        spec.variables.retain(|(name, _)| [variables::REVIEW, variables::MODEL].contains(&&**name));
        for (name, value) in &mut spec.variables {
            if let (variables::REVIEW, Some(file)) = (name.as_str(), file) {
                *value = file.to_string();
            }
        }
        spec.verdict = spec.verdict.and(file.map(str::to_string));
        Ok(spec)
    }

    /// A text in which places in the tree of the other machine are those in the tree here.
    fn here(&self, text: &str, tree: &Path) -> String {
        text.replace(&self.order.site, &tree.to_string_lossy())
    }

    /// Has commands that are given in the tree mean the run that the job is of.
    fn set_up(&self, tree: &Path, sent: &Sent) -> io::Result<()> {
        let elsewhere = self.order.record.elsewhere.as_ref();
        let outpost = Outpost {
            project: self.lease.project.clone(),
            origin: elsewhere.map(|it| it.origin.clone()).unwrap_or_default(),
            labels: self.lease.labels.clone(),
            remote: sent.remote.clone(),
            workflow: self.order.workflow.clone(),
        };
        outpost.write(tree)?;
        // What the user has consented to, the user has consented to in this tree.
        trust::trust_named(tree, &self.root, &self.order.definition)
    }

    /// Gives the job what it proves itself with. One whose run only its own machine may act on gets nothing.
    fn equip(&self, command: &mut Command, run: &RunId) {
        command.env_remove(variables::TOKEN).env_remove(variables::STORE);
        if !self.order.shared {
            return;
        }
        command.env(variables::STORE, &self.shop.url);
        if self.order.record.role.is_some() {
            let token = token(run, &self.lease.job, &self.secret);
            command.env(variables::TOKEN, token).env(variables::RUN, run.to_string());
            command.env(variables::AGENT, &self.lease.job);
            if let Ok(program) = std::env::current_exe() {
                command.env("PHASEGATE", program);
            }
        }
    }

    /// The files that the result is about are those that were sent, as they are called there.
    fn translate(ended: &mut Ended, sent: &Sent) {
        let here = std::mem::take(&mut ended.tree);
        if here.is_some() {
            ended.tree.clone_from(&sent.tree);
        }
        if let Some(verdict) = &mut ended.verdict {
            let is_same = verdict.left.is_some() && verdict.left == here;
            verdict.left = if is_same { sent.tree.clone() } else { None };
        }
    }

    /// Pushes what the job has changed; none where it is not there to change something, or has changed nothing.
    fn changes(
        &self,
        tree: &Path,
        sent: &Sent,
        file: Option<String>,
    ) -> Result<Option<Branch>, String> {
        let manner = self.order.record.manner;
        if manner.bound == Bound::Tree || manner.gives == Gives::Verdict {
            return Ok(None);
        }
        let apart = Apart { patterns: file.into_iter().collect(), ..Apart::default() };
        let now = Tree::new(tree, tree, apart).keep(&self.order.beside)?;
        let kept = Kept::open(tree)?;
        let Some(now) = now.filter(|now| kept.tree_of(&sent.commit).as_ref() != Ok(now)) else {
            return Ok(None);
        };
        let text = format!("What {} changed", self.name);
        let commit = kept.commit(&now, Some(&sent.commit), &text)?;
        // Whoever has the job next does not write over it, and it does not write over what another has handed in.
        let id = public_id(&self.lease.folder);
        let name = format!("phasegate/jobs/{id}-{}", self.lease.fence);
        if self.shop.held.is_lost(self.lease.id) {
            return Ok(None);
        }
        kept.repository().push(&sent.remote, &commit, &branch(&name))?;
        Ok(Some(Branch { name, commit }))
    }

    fn store(&self) -> PostgresStore {
        PostgresStore::new(&self.root, &self.shop.url, Some(&self.lease.project))
    }

    /// Hands the result in, for as long as the job is ours; whether it was accepted.
    fn hand_in(&self, outcome: &Outcome, pieces: &[Piece]) -> bool {
        let Ok(result) = serde_json::to_value(outcome) else { return false };
        let store = self.store();
        let lease = (self.lease.id, self.lease.fence);
        while !self.shop.held.is_lost(self.lease.id) {
            match store.finish(&self.shop.owner, lease, &result, pieces) {
                Ok(is_accepted) => return is_accepted,
                Err(error) => self.say(&format!("{}: {error}", self.name)),
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// Tells the rules of a run what has happened, in a process that takes the tree for the project.
    fn settle(&self, tree: &Path) {
        let settled = || -> io::Result<std::process::Output> {
            Command::new(std::env::current_exe()?)
                .args([SETTLE.as_ref(), tree.as_os_str(), self.order.run.as_ref()])
                .env(variables::STORE, &self.shop.url)
                .env_remove(variables::TOKEN)
                .stdin(Stdio::null())
                .output()
        };
        match settled() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                self.say(&format!("{}: {}", self.order.run, said.trim()));
            }
            Err(error) => self.say(&format!("{}: {error}", self.order.run)),
        }
    }

    /// The end of a job that could not be done.
    fn crashed(&self, why: &str) -> Outcome {
        let why = format!("{} refuses it: {why}", self.shop.machine);
        let ended = self.order.record.crash(&why);
        Outcome { machine: self.shop.machine.clone(), ..Outcome::none(ended) }
    }

    fn say(&self, text: &str) {
        (self.shop.say)(text);
    }
}
