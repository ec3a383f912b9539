//! From the wish for a job to its supervisor.
//!
//! A job gets its folder, and the lock of it, before the step that wants it counts; its supervisor is
//! started after that. A process that dies in between lets the lock go, and the next one that looks at
//! the run starts the job: it is recorded once, and never runs twice.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_clients::Rights;
use phasegate_engine::digest::digest;
use phasegate_engine::functions::filename;
use phasegate_engine::job::{self, Bound, CommandRun, Gives, Job};
use phasegate_engine::workflow::{CommandLine, Workflow};

use super::order::{Order, UsualClient, command};
use super::token::{secret, token};
use super::{About, Elsewhere, FOLDER, POLL, Record, SUPERVISE, Seen, Spec, place, read, write};
use crate::fault_point;
use crate::outside;
use crate::paths;
use crate::project::Project;
use crate::run::RunId;
use crate::store::Queued;
use crate::variables;
use crate::workspace::topics;

/// How long the look of another process may keep us from a lock.
const LOOK: Duration = Duration::from_millis(200);

/// A job whose supervisor can be started: its lock, and its secret.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) id: String,
    pub(crate) record: Record,
    secret: Option<String>,
    /// What the machine needs that does it, where that is another.
    pub(crate) order: Option<Box<Order>>,
    lock: File,
    /// The folder of a job that does not count yet: it goes where the step comes to nothing.
    unwritten: Option<PathBuf>,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(folder) = self.unwritten.take() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Record {
    /// Takes the place of the supervisor of a job that nobody has started yet.
    pub(crate) fn claim(&self, root: &Path, id: &str) -> io::Result<Option<Claimed>> {
        if self.elsewhere.is_none() && !matches!(self.look(root)?, Seen::Waiting) {
            return Ok(None);
        }
        let folder = self.place(root)?;
        let lock =
            outside::open_with(OpenOptions::new().create(true).append(true), &folder.join("lock"))?;
        let since = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // Another process may only be looking.
                Err(TryLockError::WouldBlock) if since.elapsed() < LOOK => {
                    std::thread::sleep(POLL);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        // Between the look and the lock another process may have started it, and seen it end.
        if folder.join("started.json").exists() || folder.join("end.json").exists() {
            return Ok(None);
        }
        // What the tree was when the job was recorded says nothing about the tree as it is now.
        let job = folder.join("job.json");
        if let Some(mut spec) = read::<Spec>(&job)
            && let Some(about) = &mut spec.about
        {
            (about.before, about.starter) = (None, std::process::id());
            write(&job, &spec)?;
        }
        let (id, record) = (id.to_string(), self.clone());
        // That of a job which was queued has been read from the queue.
        let order = None;
        let mut claimed = Claimed { id, record, secret: None, order, lock, unwritten: None };
        claimed.arm()?;
        Ok(Some(claimed))
    }
}

/// What a project on this machine is called in a store of several machines.
fn known_as(project: &Project) -> io::Result<Option<String>> {
    let Some(store) = project.store.shared() else { return Ok(None) };
    let identity = store.identity().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Some(identity.site.clone()))
}

impl Claimed {
    /// A job with its folder, what its supervisor must know, and its lock. One that this process does not
    /// start gives the lock up.
    pub(crate) fn new(
        project: &Project,
        site: &Path,
        run: &RunId,
        job: &Job,
        document: &str,
        workflow: &Workflow,
        (about, elsewhere): (Option<About>, Option<Elsewhere>),
    ) -> io::Result<Claimed> {
        let root = &project.root;
        let name = format!("{}-{}", filename(&job.id), topics::new_id()?);
        let folder = format!("{FOLDER}/{}/{name}", filename(&run.to_string()));
        let client = elsewhere.as_ref().filter(|_| job.run.is_empty());
        let client = client.map(|_| UsualClient::of(job.rights, workflow));
        // Where the usual client is, only the machine knows that runs it.
        let run = if client.is_some() { Vec::new() } else { commands(site, job, workflow)? };
        let full = place(root, &folder)?;
        fs::create_dir_all(&full)?;
        paths::ignored_by_git(&root.join(FOLDER))?;
        fault_point::reach("before-prompt");
        if let Some(prompt) = &job.prompt {
            fs::write(full.join("prompt"), prompt)?;
        }
        let told = [(variables::REVIEW, &job.file), (variables::MODEL, &job.model)];
        let judges = job.manner.gives == Gives::Verdict;
        let told = told.into_iter().filter(|_| judges);
        let spec = Spec {
            run: run.clone(),
            variables: told
                .map(|(name, value)| (name.to_string(), value.clone().unwrap_or_default()))
                .collect(),
            answers: judges,
            verdict: job.file.clone().filter(|_| judges),
            about,
            keeps_tail: job.manner.bound == Bound::Tree || job.manner.alone,
            counts_tests: job.min_tests.is_some(),
            held: None,
            site: (site != root).then(|| site.to_path_buf()),
        };
        write(&full.join("job.json"), &spec)?;
        let lock =
            outside::open_with(OpenOptions::new().create(true).append(true), &full.join("lock"))?;
        lock.lock()?;
        let record = Record {
            kind: job.kind.clone(),
            name: job.name.clone(),
            manner: job.manner,
            role: job.role,
            facts: job.facts.clone(),
            folder,
            site: known_as(project)?,
            elsewhere,
            run,
            inputs: job.inputs.clone(),
            file: job.file.clone(),
            model: job.model.clone(),
            timeout: job.timeout,
            recorded: Timestamp::now(),
            document: document.to_string(),
            secret: String::new(),
            starts: 0,
            started: None,
            ended: None,
            ended_by: None,
            answer: None,
            used: false,
        };
        let order = record.elsewhere.is_some().then(|| {
            let (prompt, site) = (job.prompt.clone(), site.to_string_lossy().into_owned());
            Box::new(Order::new(record.clone(), spec, (prompt, client), site))
        });
        let (id, unwritten) = (job.id.clone(), Some(full));
        let mut claimed = Claimed { id, record, secret: None, order, lock, unwritten };
        claimed.arm()?;
        Ok(claimed)
    }

    /// Counts the start, and makes the secret of a job that may ask for things: it is on record before
    /// the job can show it.
    fn arm(&mut self) -> io::Result<()> {
        self.record.starts += 1;
        // The secret of one that is done elsewhere is made there.
        if self.record.role.is_some() && self.record.elsewhere.is_none() {
            let secret = secret()?;
            self.record.secret = digest(secret.as_bytes());
            self.secret = Some(secret);
        }
        Ok(())
    }

    /// The record of a job that another process starts.
    pub(crate) fn leave(mut self) -> Record {
        self.unwritten = None;
        Record { starts: 0, secret: String::new(), ..self.record.clone() }
    }

    /// The job as the queue is told of it, where another machine does it.
    pub(crate) fn queued(&self) -> Option<io::Result<Queued>> {
        let (order, record) = (self.order.as_ref()?, &self.record);
        let labels = record.elsewhere.as_ref().map(|it| it.labels.clone()).unwrap_or_default();
        let spec = serde_json::to_value(order).map_err(io::Error::from);
        Some(spec.map(|spec| Queued {
            job: self.id.clone(),
            folder: record.folder.clone(),
            kind: record.kind.to_string(),
            labels,
            spec,
        }))
    }

    /// The step that wants it counts: its folder stays.
    pub(crate) fn counts(&mut self) {
        self.unwritten = None;
    }

    /// Starts the supervisor, which is given the lock.
    pub(crate) fn start(mut self, root: &Path, run: &RunId) -> io::Result<Record> {
        self.unwritten = None;
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        command
            .arg(SUPERVISE)
            .arg(root)
            .arg(&self.record.folder)
            .arg(run.to_string())
            // So that `ps` shows what the process is for.
            .arg(&self.id)
            .env_remove(variables::HTTP_TOKEN)
            .env_remove(variables::TOKEN);
        if let Some(secret) = &self.secret {
            command
                .env(variables::TOKEN, token(run, &self.id, secret))
                .env("PHASEGATE", &program)
                .env(variables::RUN, run.to_string())
                .env(variables::AGENT, &self.id);
        }
        let mut supervisor = command
            .stdin(self.lock.try_clone()?)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends us does not reach it.
            .process_group(0)
            .spawn()?;
        // Where we live on, nothing is left of it when it ends.
        let reaper = std::thread::Builder::new().stack_size(64 << 10);
        let _ = reaper.spawn(move || supervisor.wait());
        Ok(self.record.clone())
    }
}

/// What a job runs: the commands of the workflow, or the usual client.
fn commands(root: &Path, job: &Job, workflow: &Workflow) -> io::Result<Vec<CommandRun>> {
    if !job.run.is_empty() {
        return Ok(job.run.clone());
    }
    let rights = rights(root, job.rights, job.file.clone(), workflow);
    let words = command(job.manner, job.role, job.model.as_deref(), &rights)?;
    Ok(vec![CommandRun { words, timeout: job.timeout }])
}

/// What an agent of a workflow may do in a project.
pub fn rights(
    root: &Path,
    rights: job::Rights,
    file: Option<String>,
    workflow: &Workflow,
) -> Rights {
    let checks = workflow.checks().filter_map(|check| match &check.run {
        CommandLine::Words(words) if !words.is_empty() => Some(words.clone()),
        _ => None,
    });
    let all = rights == job::Rights::All;
    Rights { all, root: root.to_path_buf(), file, commands: checks.collect() }
}
