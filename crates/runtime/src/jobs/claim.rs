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

use super::{About, FOLDER, POLL, Record, SUPERVISE, Seen, Spec, place, read, token, write};
use crate::fault_point;
use crate::outside;
use crate::paths;
use crate::project::Project;
use crate::run::RunId;
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
        if !matches!(self.look(root)?, Seen::Waiting) {
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
        let mut claimed = Claimed { id, record, secret: None, lock, unwritten: None };
        claimed.arm()?;
        Ok(Some(claimed))
    }
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
        about: Option<About>,
    ) -> io::Result<Claimed> {
        let root = &project.root;
        let name = format!("{}-{}", filename(&job.id), topics::new_id()?);
        let folder = format!("{FOLDER}/{}/{name}", filename(&run.to_string()));
        let run = commands(site, job, workflow)?;
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
        let mut claimed =
            Claimed { id: job.id.clone(), record, secret: None, lock, unwritten: Some(full) };
        claimed.arm()?;
        Ok(claimed)
    }

    /// Counts the start, and makes the secret of a job that may ask for things: it is on record before
    /// the job can show it.
    fn arm(&mut self) -> io::Result<()> {
        self.record.starts += 1;
        if self.record.role.is_some() {
            let secret = token::secret()?;
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
                .env(variables::TOKEN, token::token(run, &self.id, secret))
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
    let client = phasegate_clients::headless();
    let model = job.model.as_deref();
    let rights = rights(root, job.rights, job.file.clone(), workflow);
    let words = match (job.manner.gives, job.role) {
        (Gives::Verdict, _) => client.reviewer(model, &rights).map_err(io::Error::other)?,
        (Gives::Exit, role) => {
            let role = role.unwrap_or(phasegate_engine::step::Actor::Worker);
            client.agent(role, model, &rights)?
        }
    };
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
