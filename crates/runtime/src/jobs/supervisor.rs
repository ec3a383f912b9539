//! The other side: the process that supervises a job holds its lock, and writes down its start and its
//! end. What came of a job is what the kernel told its supervisor, never what the job says.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use phasegate_clients::{Cost, Judged};
use phasegate_engine::digest::digest;
use phasegate_engine::job::CommandRun;
use phasegate_engine::test_count::{Counter, TestCount};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::group::{self, End, Orphans};
use super::{
    EndStatus, Ended, SUPERVISE, SUPERVISE_SESSION, Started, Supervisor, Verdict, place, read,
    tail, write,
};
use crate::fault_point;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::proc;
use crate::tree::{Apart, Content, Tree, in_tree};
use crate::variables;

/// How much of the end of a log is searched for what an agent has cost.
const MAX_SEARCHED: u64 = 256 << 10;

/// How much of the end of a log is kept with the result.
const MAX_TAIL: u64 = 4_000;

/// An answer longer than this is not read for a verdict.
const MAX_ANSWER: u64 = 16 << 20;

/// Files that are written within so short a time may have the same date.
const TICK: SignedDuration = SignedDuration::from_millis(1);

/// What a supervisor must know of its job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spec {
    /// What runs, one after the other, while each ends well.
    pub run: Vec<CommandRun>,
    /// What the job finds in its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// What it prints on stdout is an answer, which is kept apart from the log.
    #[serde(default)]
    pub answers: bool,
    /// The file that it writes, and judges in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What its result is about, where that is the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The end of its log is kept with the result.
    #[serde(default)]
    pub keeps_tail: bool,
    /// The tests that have run are counted, by what it prints.
    #[serde(default)]
    pub counts_tests: bool,
    /// The tree that it works on, where that is not the project's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<PathBuf>,
    /// A lock: when nobody holds it any more, nobody wants the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<PathBuf>,
}

/// The files that the result of a job is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct About {
    pub(crate) apart: Apart,
    /// Patterns of the files; all files where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inputs: Vec<String>,
    /// What they are known by, where the process that starts the job has just looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    /// The process that starts the job, and waits for it.
    #[serde(default)]
    pub(crate) starter: u32,
}

impl Spec {
    fn timeout(&self) -> Duration {
        self.run.iter().map(|run| run.timeout).sum()
    }
}

/// A job under supervision.
struct Supervised<'a> {
    root: &'a Path,
    folder: PathBuf,
    spec: Spec,
    log: File,
    orphans: Orphans,
    /// A signal has told us to go.
    told: Arc<AtomicBool>,
}

/// The supervisor's own main, for the job in a folder of the project. Its stdin is the lock.
///
/// # Errors
/// Where the job has run already, or its files cannot be used.
pub fn supervise(root: &Path, folder: &str, is_session: bool) -> io::Result<()> {
    let folder = place(root, folder)?;
    let own =
        outside::open_with(OpenOptions::new().create(true).append(true), &folder.join("lock"))?;
    let meta = own.metadata()?;
    if (meta.dev(), meta.ino()) != given()? && own.try_lock().is_err() {
        return Err(io::Error::other("another process supervises it"));
    }
    if folder.join("started.json").exists() || folder.join("end.json").exists() {
        return Err(io::Error::other("it has run already"));
    }
    let spec: Spec =
        read(&folder.join("job.json")).ok_or_else(|| io::Error::other("it has no job.json"))?;
    group::adopt_orphans();
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ = signal_hook::flag::register(signal, told.clone());
    }
    let mut private = OpenOptions::new();
    let private = private.create(true).append(true).mode(0o600);
    let log = outside::open_with(private, &folder.join("log"))?;
    let orphans = if is_session { Orphans::ButJobs } else { Orphans::All };
    Supervised { root, folder, spec, log, orphans, told }.supervise()
}

impl Supervised<'_> {
    fn supervise(&self) -> io::Result<()> {
        let about = self.spec.about.as_ref();
        let (before, no_tree) = match about.map(|about| self.files(about)) {
            None => (None, None),
            Some(Ok(before)) => (Some(before), None),
            Some(Err(why)) => (None, Some(why)),
        };
        let (before, tree_note) = before.map(|it| (it.name, it.note)).unzip();
        fault_point::reach("before-job");
        let since = Instant::now();
        let end = self.run()?;
        fault_point::reach("after-job");
        let seconds = since.elapsed().as_secs();
        let (judged, problem) = match &self.spec.verdict {
            None => (None, None),
            Some(file) => match self.judge(&end, file) {
                Ok((mut verdict, cost)) => {
                    let left = || self.left(about?, file, &verdict);
                    verdict.left = if verdict.pass { None } else { left() };
                    (Some((verdict, cost)), None)
                }
                Err(why) => (None, Some(why)),
            },
        };
        let tree = before.filter(|before| about.is_some_and(|about| self.holds(about, before)));
        let (verdict, cost) = judged.unzip();
        let cost = cost.unwrap_or_else(|| {
            let printed = tail(&self.folder.join("log"), MAX_SEARCHED).unwrap_or_default();
            phasegate_clients::headless().cost(&printed)
        });
        let (status, exit_code) = match &end {
            End::Exited(0) => (EndStatus::Exited, Some(0)),
            End::Exited(code) => (EndStatus::Failed, Some(*code)),
            End::TimedOut => (EndStatus::TimedOut, None),
            End::GivenUp | End::Flooded => (EndStatus::Killed, None),
            End::Killed(_) | End::NotStarted(_) => (EndStatus::Crashed, None),
        };
        let ended = Ended {
            at: Timestamp::now(),
            status,
            exit_code,
            words: end.in_words(self.spec.timeout()),
            seconds,
            micro_dollars: cost.micro_dollars,
            turns: cost.turns,
            tree,
            no_tree,
            tree_note: tree_note.flatten(),
            tests: self.spec.counts_tests.then(|| tests_in(&self.folder.join("log"))),
            tail: if self.spec.keeps_tail { self.tail(&end) } else { String::new() },
            verdict,
            note: None,
            problem,
        };
        write(&self.folder.join("end.json"), &ended)
    }

    /// The files that the result is about, as they are before the job runs.
    fn files(&self, about: &About) -> Result<Content, String> {
        if let Some(name) = about.before.clone() {
            return Ok(Content { name, note: None });
        }
        let look = Tree::new(self.root, self.site(), about.apart.clone()).look()?;
        Ok(look.content(&about.inputs))
    }

    /// The tree as a review has left it, without what the reviewer wrote.
    fn left(&self, about: &About, file: &str, verdict: &Verdict) -> Option<String> {
        let mut about = About { before: None, ..about.clone() };
        about.apart.written.note(&in_tree(self.site(), file), verdict.digest.clone());
        Some(self.files(&about).ok()?.name)
    }

    /// Whether the result is about the files as they were before. A verdict is about the tree as the judge has
    /// found it. A check holds for files that stay; a starter that still waits looks at them itself, once for
    /// all its checks.
    fn holds(&self, about: &About, before: &str) -> bool {
        let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
        let is_awaited = parent.is_some_and(|pid| i64::from(pid.get()) == i64::from(about.starter));
        let fresh = || self.files(&About { before: None, ..about.clone() });
        let is_same = || fresh().is_ok_and(|now| now.name == before);
        self.spec.verdict.is_some() || is_awaited || is_same()
    }

    /// Runs the commands, one after the other, while each ends well.
    fn run(&self) -> io::Result<End> {
        // By the clock of the files, which is behind ours: what the job writes is not older than this.
        let made = self.log.metadata()?.modified()?;
        let at = Timestamp::try_from(made).map_err(io::Error::other)? - TICK;
        let mut end = End::NotStarted("nothing to run".into());
        for command in &self.spec.run {
            end = match self.start(&command.words) {
                Err(why) => End::NotStarted(why),
                Ok(child) => {
                    let pid = child.id();
                    let started = Started { at, pid, birth: proc::birth(pid) };
                    write(&self.folder.join("started.json"), &started)?;
                    let gone = || self.is_unwanted();
                    let printed = || self.printed();
                    group::watch(child, command.timeout, &gone, &printed, self.orphans)
                }
            };
            if end != End::Exited(0) {
                break;
            }
        }
        Ok(end)
    }

    fn start(&self, words: &[String]) -> Result<Child, String> {
        let Some((program, arguments)) = words.split_first() else {
            return Err("nothing to run".into());
        };
        let streams = || -> io::Result<(Stdio, Stdio, Stdio)> {
            let input = match outside::open(&self.folder.join("prompt")) {
                Ok((prompt, _)) => Stdio::from(prompt),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Stdio::null(),
                Err(error) => return Err(error),
            };
            let output = if self.spec.answers {
                let answer = self.folder.join("answer");
                let mut private = OpenOptions::new();
                outside::open_with(private.create(true).append(true).mode(0o600), &answer)?
            } else {
                self.log.try_clone()?
            };
            Ok((input, output.into(), self.log.try_clone()?.into()))
        };
        let (input, output, errors) = streams().map_err(|error| error.to_string())?;
        let spawned = Command::new(program)
            .args(arguments)
            .current_dir(self.site())
            .envs(self.spec.variables.iter().map(|(name, value)| (name, value)))
            .env(variables::DISABLE, "1")
            .stdin(input)
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn();
        spawned.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.site().is_dir() => {
                format!(
                    "cannot run {program}: it is not on PATH; install it, or name another program"
                )
            }
            _ => format!("cannot run {program}: {error}"),
        })
    }

    fn site(&self) -> &Path {
        self.spec.site.as_deref().unwrap_or(self.root)
    }

    fn is_unwanted(&self) -> bool {
        let is_let_go = |lock: &PathBuf| match outside::open(lock) {
            Ok((lock, _)) => !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Err(_) => true,
        };
        self.told.load(Ordering::Relaxed)
            || self.folder.join("end-asked").exists()
            || !self.folder.exists()
            || self.spec.held.as_ref().is_some_and(is_let_go)
    }

    fn printed(&self) -> u64 {
        let answer = fs::metadata(self.folder.join("answer")).map_or(0, |meta| meta.len());
        answer + self.log.metadata().map_or(0, |meta| meta.len())
    }

    /// The end of the log, and why it ends there.
    fn tail(&self, end: &End) -> String {
        let tail = tail(&self.folder.join("log"), MAX_TAIL).unwrap_or_default();
        let note = match end {
            End::Exited(_) | End::GivenUp => return tail,
            End::NotStarted(why) => why.clone(),
            other => format!("It {}.", other.in_words(self.spec.timeout())),
        };
        format!("{tail}\n{note}").trim_start().to_string()
    }

    /// The verdict of a job that judges. It counts only as the structured output of the process that we
    /// started, and only if the file that it was asked for is there.
    fn judge(&self, end: &End, file: &str) -> Result<(Verdict, Cost), String> {
        let judged = self.verdict(end, file);
        if judged.is_err() {
            // What went wrong can be seen in the log.
            let said = outside::read(&self.folder.join("answer"), MAX_ANSWER);
            let said = said.unwrap_or_default();
            let _ = (&self.log).write_all(&[b"\n--- its answer ---\n", said.as_slice()].concat());
        }
        judged
    }

    fn verdict(&self, end: &End, file: &str) -> Result<(Verdict, Cost), String> {
        match end {
            End::Exited(0) => {}
            End::NotStarted(why) => return Err(why.clone()),
            other => return Err(format!("it {}", other.in_words(self.spec.timeout()))),
        }
        let answer = self.folder.join("answer");
        if fs::metadata(&answer).map_or(0, |meta| meta.len()) > MAX_ANSWER {
            return Err("its output is too long".into());
        }
        let printed = outside::read(&answer, MAX_ANSWER).unwrap_or_default();
        let client = phasegate_clients::headless();
        let judged = client.verdict(&printed);
        let path = paths::meant(self.root, self.site(), file).map_err(|why| why.to_string())?;
        let written = outside::read(&path, MAX_RECORD)
            .ok()
            .filter(|written| !written.trim_ascii().is_empty());
        let (written, Judged { pass, cost }) = match (written, judged) {
            (Some(written), Ok(judged)) => (written, judged),
            // What was found is there to be answered: without a verdict that it is nothing, it is something.
            (Some(written), Err(why)) => {
                let _ = writeln!(&self.log, "{why}: it counts as FAIL, since it wrote {file}");
                let cost = client.cost(&String::from_utf8_lossy(&printed));
                (written, Judged { pass: false, cost })
            }
            (None, Ok(_)) => return Err(format!("it gave a verdict, but wrote no {file}")),
            (None, Err(why)) => return Err(why),
        };
        Ok((Verdict { pass, digest: digest(&written), ..Verdict::default() }, cost))
    }
}

/// How many tests have run, by what is in a log.
fn tests_in(log: &Path) -> TestCount {
    let mut counter = Counter::default();
    if let Ok((log, _)) = outside::open(log) {
        let mut lines = BufReader::new(log);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            counter.line(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    counter.count()
}

/// Which file our stdin is.
fn given() -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(io::stdin())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Runs a job of no run in a folder of the project, and waits for its end: how it ended, and what it
/// answered. It ends when we do.
///
/// # Errors
/// Where its files cannot be made, or its supervisor was killed.
pub fn run_attached(
    root: &Path,
    folder: &str,
    spec: &Spec,
    supervisor: Supervisor,
) -> io::Result<(Ended, Vec<u8>)> {
    run_with(root, folder, spec, supervisor, |_| {})
}

/// The same, with what its environment needs beside.
pub(crate) fn run_with(
    root: &Path,
    folder: &str,
    spec: &Spec,
    supervisor: Supervisor,
    equip: impl FnOnce(&mut Command),
) -> io::Result<(Ended, Vec<u8>)> {
    let full = place(root, folder)?;
    fs::create_dir_all(&full)?;
    for left in ["started.json", "end.json", "end-asked", "answer", "log"] {
        match fs::remove_file(full.join(left)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    write(&full.join("job.json"), spec)?;
    let lock =
        outside::open_with(OpenOptions::new().create(true).append(true), &full.join("lock"))?;
    lock.lock()?;
    let word = match supervisor {
        Supervisor::Job => SUPERVISE,
        Supervisor::Session => SUPERVISE_SESSION,
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(word).arg(root).arg(folder).env_remove(variables::HTTP_TOKEN);
    equip(&mut command);
    command.stdin(lock).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn()?.wait()?;
    let ended = read(&full.join("end.json"));
    let ended = ended.ok_or_else(|| io::Error::other("its supervisor was killed"))?;
    Ok((ended, outside::read(&full.join("answer"), MAX_RECORD).unwrap_or_default()))
}
