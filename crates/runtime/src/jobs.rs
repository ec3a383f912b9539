//! Jobs: every process that a run wants, of whatever kind.
//!
//! The ledger of a run lists its jobs. Each has a folder with what its supervisor must know, what the
//! job is told, what it prints, and what the supervisor has written down. The supervisor is this
//! program, started again: it is given the lock of the folder by the process that starts it, and holds
//! it while it lives. So whether a job is alive is asked of the kernel, never guessed from a process
//! number or the age of a log; and a job outlives the process that wanted it.

mod claim;
mod group;
mod known;
mod leftovers;
mod log;
mod order;
mod supervisor;
mod token;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::check::CheckResult;
use phasegate_engine::digest::digest;
use phasegate_engine::job::{CommandRun, JobKind, Manner, with_facts};
use phasegate_engine::json::Json;
use phasegate_engine::step::Actor;
use phasegate_engine::test_count::TestCount;
use phasegate_engine::workflow::{JobSpec, Workflow};
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::fault_point;
use crate::machine;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::proc;

pub(crate) use claim::Claimed;
pub use claim::rights;
pub use group::End;
pub use known::{
    SETTLE, SUPERVISE, SUPERVISE_SESSION, Supervisor, driven_by, supervised, supervises,
};
pub(crate) use leftovers::remove_of;
pub use leftovers::{left_by, orphans, remove_all};
pub(crate) use log::{follow, last_line, message, part};
pub use log::{last_line_of, tail};
pub use order::Elsewhere;
pub(crate) use order::{Branch, Order, Outcome, Sent, UsualClient};
pub(crate) use supervisor::run_with;
pub use supervisor::{About, Spec, run_attached, supervise};
pub(crate) use token::token;
pub use token::{parts, secret};

/// Where jobs have their folders.
pub const FOLDER: &str = ".phasegate/jobs";

/// How often a job is tried to be started.
const MAX_STARTS: u32 = 3;

/// How long the process that starts a job waits to see it start.
const MAX_START: Duration = Duration::from_secs(5);

/// How long the process that ends a job waits to see it end: longer than its supervisor gives it.
const MAX_END: Duration = Duration::from_secs(4);

/// How much longer than it may run a job on another machine is waited for.
const GRACE_AFAR: Duration = Duration::from_mins(10);

/// How often a job is looked at that is about to start or to end.
const POLL: Duration = Duration::from_millis(5);

/// A job, as the ledger of its run knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub kind: JobKind,
    /// What the workflow calls such jobs.
    pub name: String,
    pub manner: Manner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Actor>,
    pub facts: Json,
    /// Its folder in the project; no two jobs ever share one.
    pub folder: String,
    /// `MACHINE:ROOT` of that project, where the run is in a store of several machines: only there can it be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// It is done on another machine, which takes it from the store's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
    pub run: Vec<CommandRun>,
    /// Patterns of the files that its result depends on, where it is bound to the tree; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The file that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub timeout: Duration,
    pub recorded: Timestamp,
    /// The digest of the state document that it was begun for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub document: String,
    /// The digest of its secret, once it was started.
    #[serde(default)]
    pub secret: String,
    #[serde(default)]
    pub starts: u32,
    /// When it started, once the rules have heard of that.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// How it ended, once the rules have heard of that.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// Who wanted it to end, where somebody did.
    #[serde(default)]
    pub ended_by: Option<Actor>,
    /// What was answered to its end: the answer for the event that wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// A failure that has been answered counts no more: what the job lacked may not be a part of what
    /// its result is bound to, so the next event runs it again.
    #[serde(default)]
    pub used: bool,
}

/// How a job ended.
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
    /// The tree that its result is about; none where that is not the tree, or it changed meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Why there is no tree that its result could be about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tree: Option<String>,
    /// What that tree is without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_note: Option<String>,
    /// The end of what it printed, where its result is bound to the tree or stops an action.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// How many tests have run, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What a person should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a job found that judges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub pass: bool,
    /// The digest of the file that it wrote.
    pub digest: String,
    /// The tree as a judge has left it who found issues: while it is that, nobody has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The digest of the state document as our steps have left it since, while nobody else has changed it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub document: String,
}

impl Verdict {
    /// The verdict as a reviewer says it.
    pub fn word(&self) -> &'static str {
        if self.pass { "PASS" } else { "FAIL" }
    }
}

/// How a job ended, in one word.
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

impl Ended {
    /// As rules see a check.
    pub fn result(&self) -> CheckResult {
        CheckResult {
            ok: self.exit_code == Some(0),
            exit_code: self.exit_code,
            timed_out: self.status == EndStatus::TimedOut,
            seconds: self.seconds,
            tail: self.tail.clone(),
            ..CheckResult::default()
        }
    }

    /// The same for a check as it is declared; none where it ran without what is now asked of it.
    pub fn result_of(&self, check: &JobSpec) -> Option<CheckResult> {
        let is_asked = check.min_tests.is_some();
        if is_asked && self.tests.is_none() && self.exit_code == Some(0) {
            return None;
        }
        Some(self.result().with_tests(check.min_tests, self.tests.as_ref()))
    }
}

/// What a supervisor writes when its job has started.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    at: Timestamp,
    /// The job's process, which leads its group, and since when it runs, as the kernel counts.
    pid: u32,
    birth: Option<String>,
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Nobody has started it yet.
    Waiting,
    /// It waits for a machine that takes it.
    Queued,
    /// A supervisor is about to start it.
    Starting,
    Working(Timestamp),
    Ended(Option<Timestamp>, Ended),
    /// It can give no sign any more: its supervisor or its folder is gone.
    Lost(Option<Timestamp>, Ended),
}

impl Record {
    /// Whether the rules have heard of its end.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it works for itself, and rules see it among `agents`.
    pub fn is_background(&self) -> bool {
        !self.manner.waits
    }

    /// Whether a job that is bound to the tree has passed, as the workflow declares it now; none where it has
    /// not ended, or must run again to tell.
    pub fn passes(&self, workflow: &Workflow) -> Option<bool> {
        let check = workflow.check(&self.name).filter(|check| check.kind == self.kind)?;
        Some(self.ended.as_ref()?.result_of(check)?.ok)
    }

    /// How it stands, in a word.
    pub fn status(&self) -> &'static str {
        match (&self.ended, self.started) {
            (Some(ended), _) => ended.status.as_str(),
            (None, Some(_)) => "working",
            (None, None) if self.manner.waits => "working",
            (None, None) => "starting",
        }
    }

    /// Where its log is, in the project.
    pub fn log_place(&self) -> String {
        format!("{}/log", self.folder)
    }

    /// What it has cost, once it has ended; none where nobody is paid for it: a check, a command, or what never began.
    pub fn cost(&self) -> Option<Cost> {
        let ended = self.ended.as_ref()?;
        let is_paid = !matches!(self.kind, JobKind::Check | JobKind::Command);
        let cost = Cost::told(ended.micro_dollars);
        (cost.untold == 0 || is_paid && self.started.is_some()).then_some(cost)
    }

    /// The job as expressions see it among `agents`.
    pub fn row(&self, id: &str) -> Json {
        let number = |number: u64| Json::from(i64::try_from(number).unwrap_or(i64::MAX));
        let time =
            |time: Option<Timestamp>| time.map_or(Json::Null, |it| Json::from(it.to_string()));
        let ended = self.ended.as_ref();
        let code = ended.and_then(|ended| ended.exit_code);
        let known = ended.map(|ended| ended.micro_dollars).filter(|known| *known > 0);
        let own = [
            ("id", Json::from(id)),
            ("kind", Json::from(self.name.as_str())),
            ("role", self.role.map_or(Json::Null, |role| Json::from(role.to_string()))),
            ("status", Json::from(self.status())),
            ("ended", Json::from(ended.is_some())),
            ("ok", Json::from(code == Some(0))),
            ("started", time(self.started)),
            ("ended_at", time(ended.map(|ended| ended.at))),
            ("exit_code", code.map_or(Json::Null, |code| Json::from(i64::from(code)))),
            ("end", ended.map_or(Json::Null, |ended| Json::from(ended.words.as_str()))),
            ("seconds", ended.map_or(Json::Null, |ended| number(ended.seconds))),
            ("micro_dollars", known.map_or(Json::Null, number)),
            ("log", Json::from(self.log_place())),
        ];
        with_facts(own, &self.facts)
    }

    /// Whether it is at work in another project or on another machine.
    pub(crate) fn is_elsewhere(&self, root: &Path) -> bool {
        let Some(site) = &self.site else { return false };
        machine::site(root).is_ok_and(|own| own != *site)
    }

    /// How a job stands on another machine, as far as can be told: it is given up when its time is long over.
    fn seen_afar(&self) -> Seen {
        let since = self.started.unwrap_or(self.recorded);
        let seconds = Timestamp::now().duration_since(since).as_secs();
        let is_late = u64::try_from(seconds)
            .is_ok_and(|seconds| seconds > (self.timeout + GRACE_AFAR).as_secs());
        match (&self.ended, is_late) {
            (Some(ended), _) => Seen::Ended(self.started, ended.clone()),
            (None, false) => Seen::Working(since),
            (None, true) => Seen::Lost(self.started, self.crash("its machine gave no sign")),
        }
    }

    /// How it stands in the world. This only looks.
    ///
    /// # Errors
    /// Where its folder cannot be looked at.
    pub fn look(&self, root: &Path) -> io::Result<Seen> {
        if self.is_elsewhere(root) {
            return Ok(self.seen_afar());
        }
        let folder = self.place(root)?;
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

    pub(crate) fn crash(&self, why: &str) -> Ended {
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
            tree: None,
            no_tree: None,
            tree_note: None,
            tail: String::new(),
            tests: None,
            verdict: None,
            note: None,
            problem: Some(format!("it crashed: {why}")),
        }
    }

    /// Waits until a supervisor has told that its job has started or ended.
    pub fn await_start(&self, root: &Path) {
        wait(MAX_START, || !matches!(self.look(root), Ok(Seen::Starting)));
    }

    /// Asks the supervisor to end the job.
    pub fn ask_to_end(&self, root: &Path) {
        if let Ok(folder) = self.place(root) {
            fault_point::reach("before-end-asked");
            let _ = File::create(folder.join("end-asked"));
        }
    }

    /// Waits until the job has ended.
    pub fn await_end(&self, root: &Path) {
        let alive = || matches!(self.look(root), Ok(Seen::Starting | Seen::Working(_)));
        wait(MAX_END, || !alive());
    }

    /// What its supervisor has written down on this machine: its end, and since when it ran.
    pub(crate) fn written_end(&self, root: &Path) -> Option<(Option<Timestamp>, Ended)> {
        let folder = self.place(root).ok()?;
        let ended: Ended = read(&folder.join("end.json"))?;
        let started: Option<Started> = read(&folder.join("started.json"));
        Some((started.map(|started| started.at), ended))
    }

    /// Writes down how it ended on another machine, as its supervisor would have here.
    pub(crate) fn write_end(&self, root: &Path, ended: &Ended) -> io::Result<()> {
        write(&self.place(root)?.join("end.json"), ended)
    }

    /// Removes its folder: another job of the same name has taken its place.
    pub fn forget(&self, root: &Path) {
        if let Ok(folder) = self.place(root) {
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Ends what a supervisor that was killed has left behind.
    pub fn end_leftovers(&self, root: &Path) {
        let folder = self.place(root).ok();
        let started: Option<Started> = folder.and_then(|folder| read(&folder.join("started.json")));
        if let Some(Started { pid, birth: Some(birth), .. }) = started {
            if proc::birth(pid).as_ref() == Some(&birth) {
                group::end(pid);
            }
            token::end_holders(|secret| self.knows(secret));
        }
    }

    /// Whether a secret is the job's.
    pub fn knows(&self, secret: &str) -> bool {
        !self.secret.is_empty() && self.secret == digest(secret.as_bytes())
    }

    /// Its folder.
    fn place(&self, root: &Path) -> io::Result<PathBuf> {
        place(root, &self.folder)
    }
}

/// The folders of jobs that are alive, whether a ledger knows them or not.
pub fn alive(root: &Path) -> Vec<String> {
    let all =
        leftovers::folders(&root.join(FOLDER)).into_iter().flat_map(|run| leftovers::folders(&run));
    let held = |folder: &PathBuf| leftovers::is_alive(folder);
    let names = all.filter(held).filter_map(|folder| {
        folder.strip_prefix(root).ok().map(|name| name.to_string_lossy().into_owned())
    });
    names.collect()
}

/// A folder of the project.
fn place(root: &Path, folder: &str) -> io::Result<PathBuf> {
    paths::inside(root, folder).map_err(|why| io::Error::other(why.to_string()))
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
