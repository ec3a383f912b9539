//! Agents that outlive whoever asked for them. The ledger of a run lists them; each has a folder with
//! its prompt, its log, and what its supervisor has written down.
//!
//! The supervisor is this program, started again as `phasegate agent run`. It is given the lock of
//! the folder by whoever starts it, and holds it while it lives: whether an agent is alive is asked of
//! the kernel, never guessed from a process number or the age of a log.

mod supervisor;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::functions::{filename, object};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Agent};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::fault_point;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::proc;
use crate::process;
use crate::run::RunId;
use crate::variables;
use crate::workspace::topics;

pub use supervisor::supervise;

/// Where agents have their folders.
pub const FOLDER: &str = ".phasegate/agents";

/// How often an agent is tried to be started.
const MAX_STARTS: u32 = 3;

/// How long whoever starts an agent waits to see it start.
const MAX_START: Duration = Duration::from_secs(5);

/// And whoever ends one, to see it end: longer than the supervisor gives it.
const MAX_END: Duration = Duration::from_secs(4);

/// How long the look of somebody else may keep us from a lock.
const LOOK: Duration = Duration::from_millis(200);

/// How often is looked.
const POLL: Duration = Duration::from_millis(5);

/// An agent, as the ledger of its run knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub kind: String,
    pub role: Actor,
    pub facts: Json,
    /// Its folder below [`FOLDER`]; no two agents ever share one.
    pub folder: String,
    pub run: Vec<String>,
    pub timeout: Duration,
    pub recorded: Timestamp,
    /// The digest of its secret, once it was started.
    #[serde(default)]
    pub secret: String,
    #[serde(default)]
    pub starts: u32,
    /// What was put to the rules about it.
    #[serde(default)]
    pub started: Option<Timestamp>,
    #[serde(default)]
    pub ended: Option<Ended>,
    /// Who wanted it to end, where somebody did.
    #[serde(default)]
    pub ended_by: Option<Actor>,
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub at: Timestamp,
    pub status: EndStatus,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// How it ended, as a sentence for people.
    pub words: String,
    pub seconds: u64,
    #[serde(default)]
    pub micro_dollars: u64,
    #[serde(default)]
    pub turns: u64,
}

/// How an agent ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndStatus {
    /// By itself, with exit code 0.
    Exited,
    /// By itself, with another exit code.
    Failed,
    /// Somebody wanted it to end, or it printed too much.
    Killed,
    #[serde(rename = "timed out")]
    TimedOut,
    /// It could not be started, or nobody knows how it ended.
    Crashed,
}

impl EndStatus {
    /// The word by which rules and programs know it.
    pub fn as_str(self) -> &'static str {
        match self {
            EndStatus::Exited => "exited",
            EndStatus::Failed => "failed",
            EndStatus::Killed => "killed",
            EndStatus::TimedOut => "timed out",
            EndStatus::Crashed => "crashed",
        }
    }
}

/// What a supervisor writes when its agent has started.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    at: Timestamp,
    /// The agent's process, which leads its group, and since when it runs, as the kernel counts.
    pid: u32,
    birth: Option<String>,
}

/// How an agent stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Nobody has started it yet.
    Waiting,
    /// A supervisor is about to start it.
    Starting,
    Working(Timestamp),
    Ended(Option<Timestamp>, Ended),
    /// It can give no sign any more: its supervisor or its folder is gone.
    Lost(Option<Timestamp>, Ended),
}

impl Record {
    /// What is kept of an agent that is to be started; its prompt is written.
    ///
    /// # Errors
    /// Where its folder cannot be made.
    pub fn new(root: &Path, run: &RunId, agent: &Agent) -> io::Result<Record> {
        let name = format!("{}-{}", agent.id, topics::new_id()?);
        let folder = format!("{}/{name}", filename(&run.to_string()));
        let command = match agent.run.as_slice() {
            [] => phasegate_clients::headless().agent(agent.role, agent.model.as_deref(), root)?,
            given => given.to_vec(),
        };
        let full = place(root, &folder)?;
        fs::create_dir_all(&full)?;
        paths::ignored_by_git(&root.join(FOLDER))?;
        fault_point::reach("before-prompt");
        fs::write(full.join("prompt"), &agent.prompt)?;
        Ok(Record {
            kind: agent.kind.clone(),
            role: agent.role,
            facts: agent.facts.clone(),
            folder,
            run: command,
            timeout: agent.timeout,
            recorded: Timestamp::now(),
            secret: String::new(),
            starts: 0,
            started: None,
            ended: None,
            ended_by: None,
        })
    }

    /// Whether the rules have heard of its end.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// How it stands, in a word.
    pub fn status(&self) -> &'static str {
        match (&self.ended, self.started) {
            (Some(ended), _) => ended.status.as_str(),
            (None, Some(_)) => "working",
            (None, None) => "starting",
        }
    }

    /// The agent as expressions see it.
    pub fn row(&self, id: &str) -> Json {
        let number = |number: u64| Json::from(i64::try_from(number).unwrap_or(i64::MAX));
        let time =
            |time: Option<Timestamp>| time.map_or(Json::Null, |it| Json::from(it.to_string()));
        let ended = self.ended.as_ref();
        let code = ended.and_then(|ended| ended.exit_code);
        let own = [
            ("id", Json::from(id)),
            ("kind", Json::from(self.kind.as_str())),
            ("role", Json::from(self.role.to_string())),
            ("status", Json::from(self.status())),
            ("ended", Json::from(ended.is_some())),
            ("ok", Json::from(code == Some(0))),
            ("started", time(self.started)),
            ("ended_at", time(ended.map(|ended| ended.at))),
            ("exit_code", code.map_or(Json::Null, |code| Json::from(i64::from(code)))),
            ("end", ended.map_or(Json::Null, |ended| Json::from(ended.words.as_str()))),
            ("seconds", ended.map_or(Json::Null, |ended| number(ended.seconds))),
            ("micro_dollars", ended.map_or(Json::Null, |ended| number(ended.micro_dollars))),
            ("log", Json::from(format!("{FOLDER}/{}/log", self.folder))),
        ];
        let own = own.map(|(name, value)| (name.to_string(), value));
        let facts = match &self.facts {
            Json::Object(facts) => {
                facts.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
            }
            _ => Vec::new(),
        };
        object(own.into_iter().chain(facts))
    }

    /// How it stands in the world. This only looks.
    ///
    /// # Errors
    /// Where its folder cannot be looked at.
    pub fn look(&self, root: &Path) -> io::Result<Seen> {
        let folder = place(root, &self.folder)?;
        if !folder.is_dir() {
            return Ok(Seen::Lost(None, self.crash("its folder is gone")));
        }
        let is_free = match outside::open(&folder.join("lock")) {
            Ok((lock, _)) => match lock.try_lock_shared() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        // Looked at after the lock: a supervisor writes before it lets go.
        let started: Option<Started> = read(&folder.join("started.json"));
        let ended: Option<Ended> = read(&folder.join("end.json"));
        let since = started.as_ref().map(|started| started.at);
        Ok(match (is_free, started, ended) {
            (_, _, Some(ended)) => Seen::Ended(since, ended),
            (false, Some(started), None) => Seen::Working(started.at),
            (false, None, None) => Seen::Starting,
            (true, Some(_), None) => Seen::Lost(since, self.crash("its supervisor was killed")),
            (true, None, None) if self.starts >= MAX_STARTS => {
                let why = format!("it could not be started, {MAX_STARTS} times");
                Seen::Lost(None, self.crash(&why))
            }
            (true, None, None) => Seen::Waiting,
        })
    }

    /// Takes the place of its supervisor, where nobody has started it yet.
    ///
    /// # Errors
    /// Where its folder cannot be looked at.
    pub fn claim(&self, root: &Path) -> io::Result<Option<File>> {
        if !matches!(self.look(root)?, Seen::Waiting) {
            return Ok(None);
        }
        let path = place(root, &self.folder)?.join("lock");
        let lock = outside::open_with(OpenOptions::new().create(true).append(true), &path)?;
        let since = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // Somebody may only be looking.
                Err(TryLockError::WouldBlock) if since.elapsed() < LOOK => {
                    std::thread::sleep(POLL);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        // Between the look and the lock somebody else may have started it, and seen it end.
        let folder = place(root, &self.folder)?;
        let ran = folder.join("started.json").exists() || folder.join("end.json").exists();
        Ok((!ran).then_some(lock))
    }

    /// Ends what a supervisor that was killed has left behind.
    pub fn end_leftovers(&self, root: &Path) {
        let folder = place(root, &self.folder).ok();
        let started: Option<Started> = folder.and_then(|folder| read(&folder.join("started.json")));
        if let Some(started) = started {
            started.end_group();
            self.end_strays();
        }
    }

    fn crash(&self, why: &str) -> Ended {
        let now = Timestamp::now();
        let since = self.started.unwrap_or(now);
        Ended {
            at: now,
            status: EndStatus::Crashed,
            exit_code: None,
            words: format!("crashed: {why}"),
            seconds: u64::try_from(now.as_second() - since.as_second()).unwrap_or(0),
            micro_dollars: 0,
            turns: 0,
        }
    }

    /// Ends what a supervisor that was killed has left behind in other groups: whatever has the secret
    /// in its environment.
    fn end_strays(&self) {
        let mark = format!("{}=", variables::TOKEN);
        for pid in proc::all() {
            let variables = proc::variables(pid);
            let mut tokens = variables.iter().filter_map(|it| it.strip_prefix(mark.as_bytes()));
            let token = tokens.next().map(String::from_utf8_lossy);
            let secret = token.as_deref().and_then(parts).map(|(secret, ..)| secret);
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let (Some(pid), true) = (pid, secret.is_some_and(|secret| self.knows(secret))) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Starts the supervisor, which is given the lock.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(
        &self,
        root: &Path,
        run: &RunId,
        id: &str,
        secret: &str,
        lock: File,
    ) -> io::Result<()> {
        let program = std::env::current_exe()?;
        let mut supervisor = Command::new(&program)
            .arg("-C")
            .arg(root)
            .args(process::AGENT_RUN)
            .arg(run.to_string())
            .arg(id)
            .env_remove(variables::HTTP_TOKEN)
            .env(variables::TOKEN, token(run, id, secret))
            .env("PHASEGATE", &program)
            .env(variables::RUN, run.to_string())
            .env(variables::AGENT, id)
            .stdin(lock)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends us does not reach it.
            .process_group(0)
            .spawn()?;
        // Where we live on, nothing is left of it when it ends.
        let reaper = std::thread::Builder::new().stack_size(64 << 10);
        let _ = reaper.spawn(move || supervisor.wait());
        Ok(())
    }

    /// Waits until a supervisor has told that its agent has started or ended.
    pub fn await_start(&self, root: &Path) {
        wait(MAX_START, || !matches!(self.look(root), Ok(Seen::Starting)));
    }

    /// Asks the supervisor to end the agent.
    pub fn ask_to_end(&self, root: &Path) {
        if let Ok(folder) = place(root, &self.folder) {
            fault_point::reach("before-end-asked");
            let _ = File::create(folder.join("end-asked"));
        }
    }

    /// Waits until the agent has ended.
    pub fn await_end(&self, root: &Path) {
        let alive = || matches!(self.look(root), Ok(Seen::Starting | Seen::Working(_)));
        wait(MAX_END, || !alive());
    }

    /// A part of its log, and how long that is.
    pub fn log(&self, root: &Path, from: u64, most: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut log = match outside::open(&self.log_file(root)?) {
            Ok((log, _)) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(error),
        };
        let size = log.metadata()?.len();
        let (from, most) = (from.min(size), most.min(size));
        // With what is around it: a secret may begin before, or end after.
        let start = from.saturating_sub(SECRET as u64);
        log.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        log.take(from - start + most + SECRET as u64).read_to_end(&mut bytes)?;
        mask(&mut bytes);
        let skipped = usize::try_from(from - start).unwrap_or(usize::MAX);
        let wanted = bytes.into_iter().skip(skipped);
        Ok((wanted.take(usize::try_from(most).unwrap_or(usize::MAX)).collect(), size))
    }

    /// Where its log is.
    pub fn log_file(&self, root: &Path) -> io::Result<PathBuf> {
        Ok(place(root, &self.folder)?.join("log"))
    }

    /// Whether a secret is the agent's.
    pub fn knows(&self, secret: &str) -> bool {
        !self.secret.is_empty() && self.secret == digest(secret.as_bytes())
    }
}

impl Started {
    /// Ends what a supervisor that was killed has left behind: the group, if it is still the same.
    fn end_group(&self) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(group) = group
            && self.birth.is_some()
            && proc::birth(self.pid) == self.birth
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// How long a secret is, with the sign that follows it in a token.
const SECRET: usize = 65;

/// Makes secrets unreadable: an agent that prints its environment must not give its own away.
fn mask(bytes: &mut [u8]) {
    let mut run = 0;
    for at in 0..bytes.len() {
        if bytes[at].is_ascii_hexdigit() {
            run += 1;
        } else {
            if bytes[at] == b'~' && run >= SECRET - 1 {
                bytes[at + 1 - SECRET..at].fill(b'x');
            }
            run = 0;
        }
    }
}

/// The folders of agents that are alive, whoever knows of them.
pub fn alive(root: &Path) -> Vec<String> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let base = root.join(FOLDER);
    let all = folders(&base).into_iter().flat_map(|run| folders(&run));
    let held = |folder: &PathBuf| {
        let lock = outside::open_with(OpenOptions::new().append(true), &folder.join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    };
    let names = all.filter(held).filter_map(|folder| {
        folder.strip_prefix(&base).ok().map(|name| name.to_string_lossy().into_owned())
    });
    names.collect()
}

/// The secret of an agent that is to be started.
///
/// # Errors
/// Where there is no chance to be had.
pub fn secret() -> io::Result<String> {
    let mut chance = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut chance)?;
    // The digest of chance is as good as chance, and has a text.
    Ok(digest(&chance))
}

/// What an agent shows to prove who it is.
fn token(run: &RunId, id: &str, secret: &str) -> String {
    format!("{secret}~{run}~{id}")
}

/// The secret, the run and the agent that a token names.
pub fn parts(token: &str) -> Option<(&str, &str, &str)> {
    let (secret, rest) = token.split_once('~')?;
    let (run, id) = rest.rsplit_once('~')?;
    Some((secret, run, id))
}

/// The folder of an agent.
fn place(root: &Path, folder: &str) -> io::Result<PathBuf> {
    let place = format!("{FOLDER}/{folder}");
    paths::inside(root, &place).map_err(|why| io::Error::other(why.to_string()))
}

fn read<T: for<'d> Deserialize<'d>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&outside::read(path, MAX_RECORD).ok()?).ok()
}

/// Writes a file, whole or not at all.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    fault_point::reach("before-record");
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(value)?)?;
    File::open(&new)?.sync_all()?;
    fault_point::reach("record-written");
    fs::rename(new, path)
}

fn wait(most: Duration, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() && since.elapsed() < most {
        std::thread::sleep(POLL);
    }
}
