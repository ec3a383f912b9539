//! A process and all that it starts: a group, which ends as a whole.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::known;
use crate::proc;

/// How long a group may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How deep the descendants of a process are followed.
const MAX_GENERATIONS: usize = 64;

/// More output than this is a fault of the program.
const MAX_OUTPUT: u64 = 64 << 20;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// By this signal, which was not ours.
    Killed(i32),
    TimedOut,
    /// It printed too much.
    Flooded,
    /// Somebody wanted it to end.
    GivenUp,
    NotStarted(String),
}

impl End {
    /// How a process ended, in words that follow its name.
    pub fn in_words(&self, timeout: Duration) -> String {
        match self {
            End::Exited(code) => format!("ended with exit code {code}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
            End::TimedOut if timeout.as_secs() == 1 => "took longer than 1 second".to_string(),
            End::TimedOut => format!("took longer than {} seconds", timeout.as_secs()),
            End::Flooded => "printed without end and was stopped".into(),
            End::GivenUp => "was given up".into(),
            End::NotStarted(why) => why.clone(),
        }
    }
}

/// What is ended with a process, of what it leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphans {
    All,
    /// Jobs of a run outlive the session that wanted them.
    ButJobs,
}

/// Waits for the end of a process that leads a group, and ends all of it: then, when its time is
/// over, when it prints without end, or when nobody wants it any more.
pub(super) fn watch(
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

/// Ends a group at once.
pub(super) fn end(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Whatever a descendant leaves behind becomes a child of ours, also from another group or session.
#[cfg(target_os = "linux")]
pub(super) fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt_orphans() {}

/// Ends all children and any orphans that they leave behind.
fn end_orphans(which: Orphans) {
    for _ in 0..MAX_GENERATIONS {
        let mut children = children();
        if which == Orphans::ButJobs {
            children.retain(|child| {
                known::supervises(child.as_raw_nonzero().get().unsigned_abs()).is_none()
            });
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
