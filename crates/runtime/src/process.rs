//! Processes of our own: each in a process group, under a supervisor that ends the whole group when
//! its time is over, when it prints without end, or when we are gone.
//!
//! The supervisor is this program, started again. It lives as long as whoever asked holds its
//! stdin: however that process dies, nothing is left behind.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::functions::filename;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::outside;
use crate::paths;
use crate::plain;
use crate::proc;
use crate::run::RunId;
use crate::variables;

/// The words of the command that supervises.
pub const AGENT_RUN: [&str; 2] = ["agent", "run"];

/// The command of this program that supervises.
pub const SUPERVISE: &str = "supervise";

/// The same for an agent that leads the work itself, as a session of a client does.
pub const SUPERVISE_SESSION: &str = "supervise-session";

/// How much of its output is kept.
const MAX_TAIL: u64 = 4_000;

/// How long a group may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How deep the descendants of a process are followed.
const MAX_GENERATIONS: usize = 64;

/// More output than this is a fault of the program.
const MAX_OUTPUT: u64 = 64 << 20;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Exited(i32),
    /// By this signal, which was not ours.
    Killed(i32),
    TimedOut,
    /// It printed too much.
    Flooded,
    /// Whoever asked has gone, or told us to go.
    GivenUp,
    NotStarted(String),
}

impl End {
    /// That, in words that follow the name of whoever has ended.
    pub fn in_words(&self, timeout: Duration) -> String {
        match self {
            End::Exited(code) => format!("ended with exit code {code}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
            End::TimedOut => format!("took longer than {} seconds", timeout.as_secs()),
            End::Flooded => "printed without end and was stopped".into(),
            End::GivenUp => "was given up".into(),
            End::NotStarted(why) => why.clone(),
        }
    }
}

/// What a process reads, and where what it prints goes.
#[derive(Clone, Copy, Debug)]
pub struct Streams<'a> {
    /// Its stdin; nothing where there is none.
    pub input: Option<&'a Path>,
    /// Its stdout; the log where there is none.
    pub output: Option<&'a Path>,
    pub log: &'a Path,
}

/// Runs a command and waits for its end. The log is made anew.
///
/// # Errors
/// Where the supervisor itself cannot be started or understood.
pub fn run(
    command: &[String],
    folder: &Path,
    timeout: Duration,
    streams: &Streams,
    variables: &[(&str, &str)],
) -> io::Result<End> {
    run_as(SUPERVISE, command, folder, timeout, streams, variables)
}

/// The same for an agent that leads the work itself.
///
/// # Errors
/// As above.
pub fn run_session(
    command: &[String],
    folder: &Path,
    timeout: Duration,
    streams: &Streams,
) -> io::Result<End> {
    run_as(SUPERVISE_SESSION, command, folder, timeout, streams, &[])
}

fn run_as(
    word: &str,
    command: &[String],
    folder: &Path,
    timeout: Duration,
    streams: &Streams,
    variables: &[(&str, &str)],
) -> io::Result<End> {
    let fresh = |path: &Path| {
        let _ = std::fs::remove_file(path);
        OpenOptions::new().create_new(true).read(true).append(true).open(path)
    };
    let log = fresh(streams.log)?;
    if let Some(output) = streams.output {
        fresh(output)?;
    }
    let mut supervisor = Command::new(std::env::current_exe()?)
        .arg(word)
        .arg(timeout.as_millis().to_string())
        .arg(streams.input.unwrap_or(Path::new("")))
        .arg(streams.output.unwrap_or(Path::new("")))
        .args(command)
        .current_dir(folder)
        .envs(variables.iter().copied())
        .env_remove(variables::HTTP_TOKEN)
        .env(variables::DISABLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        // A signal to our own group must not reach it before it can clean up.
        .process_group(0)
        .spawn()?;
    // Held to the end: when it closes, the supervisor knows that we are gone.
    let held = supervisor.stdin.take();
    let mut report = String::new();
    if let Some(mut stdout) = supervisor.stdout.take() {
        stdout.read_to_string(&mut report)?;
    }
    supervisor.wait()?;
    drop(held);
    serde_json::from_str(&report).map_err(|_| io::Error::other("its supervisor died"))
}

/// Starts this program again, and lets it go: whoever asked need not live on. What is held is handed over
/// as its stdin, so that nobody sees it free in between, and it is free when that process ends.
///
/// # Errors
/// Where it cannot be started.
pub fn start_detached(root: &Path, arguments: &[&str], held: Exclusive) -> io::Result<()> {
    let child = Command::new(std::env::current_exe()?)
        .arg("-C")
        .arg(root)
        .args(arguments)
        .stdin(held.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    drop(child);
    Ok(())
}

/// Runs a command; whether it ended well, and the end of what it printed.
///
/// # Errors
/// As for [`run`].
pub fn output(command: &[String], folder: &Path, timeout: Duration) -> io::Result<(bool, String)> {
    let log = tempfile::NamedTempFile::new()?;
    let streams = Streams { input: None, output: None, log: log.path() };
    let end = run(command, folder, timeout, &streams, &[])?;
    let text = tail(log.path(), MAX_TAIL)?;
    Ok(match end {
        End::Exited(0) => (true, text),
        End::Exited(_) => (false, text),
        other => (false, format!("{text} ({other:?})")),
    })
}

/// What the files of a process are called that works for a run: no two share a name.
pub fn log_name(run: &RunId, who: &str) -> String {
    let time = Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let (workflow, name) = (filename(&run.workflow), filename(&run.name));
    format!("{workflow}-{name}-{}-{time}-{}", filename(who), std::process::id())
}

/// Held while somebody is at work for a run: it ends with the process, so nothing has to be guessed.
#[derive(Debug)]
pub struct Exclusive(File);

/// Takes the place of the only one who works for a run in a folder; none where somebody has it.
///
/// # Errors
/// Where the lock cannot be made.
pub fn try_exclusive(root: &Path, folder: &str, run: &RunId) -> io::Result<Option<Exclusive>> {
    let place = format!("{folder}/{}.lock", filename(&run.to_string()));
    let path = paths::inside(root, &place).map_err(|why| io::Error::other(why.to_string()))?;
    std::fs::create_dir_all(root.join(folder))?;
    paths::ignored_by_git(&root.join(folder))?;
    let lock = outside::open_with(OpenOptions::new().create(true).append(true), &path)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Exclusive(lock))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether somebody has that place. This only looks.
pub fn is_taken(root: &Path, folder: &str, run: &RunId) -> bool {
    let place = format!("{folder}/{}.lock", filename(&run.to_string()));
    let lock = paths::inside(root, &place).ok().and_then(|path| outside::open(&path).ok());
    let lock = lock.map(|(lock, _)| lock);
    lock.is_some_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The end of a log, from a whole line on.
///
/// # Errors
/// Where it cannot be read.
pub fn tail(log: &Path, most: u64) -> io::Result<String> {
    let (mut log, _) = outside::open(log)?;
    let length = log.metadata()?.len();
    let start = length.saturating_sub(most);
    log.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    log.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = plain::text(&text).into_owned();
    let whole = match text.split_once('\n') {
        Some((_, rest)) if start > 0 => rest,
        _ => &text,
    };
    Ok(whole.trim_end().to_string())
}

/// The supervisor's own main: `supervise MILLISECONDS INPUT OUTPUT PROGRAM ARGUMENT…`, its stderr is
/// the log.
pub fn supervise(arguments: &[String], is_session: bool) -> End {
    let time = arguments.first().and_then(|time| time.parse().ok()).map(Duration::from_millis);
    let (Some(timeout), Some([input, output, program, rest @ ..])) = (time, arguments.get(1..))
    else {
        return End::NotStarted("nothing to run".into());
    };
    adopt_orphans();
    let gone = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ = signal_hook::flag::register(signal, gone.clone());
    }
    let ended = gone.clone();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        ended.store(true, Ordering::Relaxed);
    });
    let log = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let read = |path: &str| match path {
        "" => Ok(Stdio::null()),
        path => File::open(path).map(Stdio::from),
    };
    let write = |path: &str| match path {
        "" => log(),
        path => OpenOptions::new().append(true).open(path).map(Stdio::from),
    };
    let place = output.clone();
    let (Ok(input), Ok(out), Ok(err)) = (read(input), write(output), log()) else {
        return End::NotStarted("its input or output has no place".into());
    };
    let mut command = Command::new(program);
    command.args(rest).stdin(input).stdout(out).stderr(err).process_group(0);
    match command.spawn() {
        Ok(child) => {
            let said = || std::fs::metadata(&place).map_or(0, |meta| meta.len());
            let orphans = if is_session { Orphans::ButAgents } else { Orphans::All };
            let gone = || gone.load(Ordering::Relaxed);
            watch(child, timeout, &gone, &|| printed() + said(), orphans)
        }
        Err(error) => End::NotStarted(format!("cannot run {program}: {error}")),
    }
}

/// Waits for the end of a process that leads a group, and ends all of it: then, when its time is
/// over, when it prints without end, or when whoever asked is gone.
pub fn watch(
    mut child: Child,
    timeout: Duration,
    gone: &dyn Fn() -> bool,
    printed: &dyn Fn() -> u64,
    orphans: Orphans,
) -> End {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal: Signal| {
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    let since = Instant::now();
    let mut pause = Duration::from_millis(1);
    let end = loop {
        match child.try_wait() {
            Ok(Some(status)) => break ended(status),
            Ok(None) => {}
            Err(error) => break End::NotStarted(error.to_string()),
        }
        if gone() {
            break End::GivenUp;
        }
        if since.elapsed() > timeout {
            break End::TimedOut;
        }
        if printed() > MAX_OUTPUT {
            break End::Flooded;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    if !matches!(end, End::Exited(_) | End::Killed(_)) {
        signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // Whatever it has left behind goes with it.
    signal(Signal::KILL);
    let _ = child.wait();
    end_orphans(orphans);
    end
}

/// Whatever a descendant leaves behind becomes a child of ours, also from another group or session.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() {}

/// What is ended with a process, of what it leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    All,
    /// Agents of a run outlive whoever has asked for them.
    ButAgents,
}

/// Whether a process supervises an agent of a run.
fn is_agent(pid: Pid) -> bool {
    let words = proc::words(pid.as_raw_nonzero().get().unsigned_abs(), 5);
    words.windows(2).any(|pair| pair == AGENT_RUN.map(str::as_bytes))
}

/// Ends all children, and those that they leave behind.
fn end_orphans(which: Orphans) {
    for _ in 0..MAX_GENERATIONS {
        let mut children = children();
        if which == Orphans::ButAgents {
            children.retain(|child| !is_agent(*child));
        }
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        }
    }
}

/// The processes whose parent we are, where the system tells.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let children = proc::all().filter(|pid| proc::parent(*pid) == Some(own));
    children.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
}

fn ended(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Killed(signal.unwrap_or(0)),
    }
}

fn printed() -> u64 {
    let log = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    log.and_then(|log| log.metadata()).map_or(0, |meta| meta.len())
}
