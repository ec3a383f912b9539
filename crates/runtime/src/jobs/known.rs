//! How a supervisor is known among the processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::proc;

/// The command of this program that supervises a job.
pub const SUPERVISE: &str = "supervise";

/// The same for a job that leads the work itself, as a session of a client does.
pub const SUPERVISE_SESSION: &str = "supervise-session";

/// The command that tells the rules of a run what has become of its jobs; a worker gives it.
pub const SETTLE: &str = "settle-run";

/// The words of the command that supervised an agent in version 0.1.0.
const AGENT_RUN: [&[u8]; 2] = [b"agent", b"run"];

/// What a supervisor watches over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// A job of a run.
    Job,
    /// An agent that leads the work itself.
    Session,
}

/// What a process supervises; none where it is not a supervisor of ours.
pub fn supervises(pid: u32) -> Option<Supervisor> {
    let words = proc::words(pid, 5);
    let (program, words) = words.split_first()?;
    if !program.ends_with(b"phasegate") {
        return None;
    }
    let is = |word: &str| words.first().is_some_and(|first| first == word.as_bytes());
    // It was told first where it works.
    let is_old = words.windows(2).any(|pair| pair == AGENT_RUN);
    match () {
        () if is(SUPERVISE) || is_old => Some(Supervisor::Job),
        () if is(SUPERVISE_SESSION) => Some(Supervisor::Session),
        () => None,
    }
}

/// The project and the folder of the job that a process supervises; none where it is not the supervisor of a
/// job of a run.
pub fn supervised(pid: u32) -> Option<(PathBuf, PathBuf)> {
    folders(pid, Supervisor::Job)
}

/// The same for an agent that leads the work itself.
pub fn driven_by(pid: u32) -> Option<(PathBuf, PathBuf)> {
    folders(pid, Supervisor::Session)
}

fn folders(pid: u32, kind: Supervisor) -> Option<(PathBuf, PathBuf)> {
    if supervises(pid) != Some(kind) {
        return None;
    }
    let words = proc::words(pid, 4);
    let path = |at: usize| words.get(at).map(|word| PathBuf::from(OsStr::from_bytes(word)));
    Some((path(2)?, path(3)?))
}
