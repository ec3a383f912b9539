//! The hook that waits beside a stop. Where the stop was let go because a job is still at work, this one waits for the
//! job's end and then wakes the session, by exit code 2. Otherwise it ends as soon as the stop is answered: a client
//! without a terminal waits for it.
//!
//! Both hooks get the same payload, and the one that answers tells this one by the binding of the session how far it is.

use std::io;
use std::os::unix::process::parent_id;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use phasegate_clients::Client;
use phasegate_clients::settings::MAX_WAKE;
use phasegate_runtime::bindings::{self, LastStop};
use phasegate_runtime::gate::{Gate, Runs, Stop, Verdict, Wait};
use phasegate_runtime::origin::Origin;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, fault_log, plain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::asked::{Happened, read};
use super::{MARGIN, named_plainly};
use crate::print;

/// How long the hook that answers may take to begin.
const MAX_BEGIN: Duration = Duration::from_secs(5);

/// How far apart the two hooks of a stop may begin. An agent that stops twice with the same words sends the same payload,
/// but not so soon.
const MAX_APART: SignedDuration = SignedDuration::from_secs(3);

/// When is first looked whether the stop is answered: by then the hook that answers has put what it knows in the place
/// of what was there.
const SOON: Duration = Duration::from_millis(200);

/// How often is looked whether the stop is answered, and whether the job has ended.
const POLL: Duration = Duration::from_millis(500);

/// What the hook that answers a stop tells the one beside it; nothing where no project wakes sessions.
pub struct Beside(Option<(String, LastStop)>);

impl Beside {
    /// The stop has come.
    pub fn begin(projects: &[Project], stop: &Stop, happened: Happened, payload: u64) -> Beside {
        let is_told = matches!(happened, Happened::Stop)
            && projects.iter().any(|project| project.config.wakes())
            && stop.told.shell().is_none();
        let session = stop.session.clone().filter(|_| is_told);
        Beside(session.map(|session| {
            let payload = digest(payload);
            let begun = stop.received.unwrap_or_else(Timestamp::now);
            let begun = LastStop { payload, begun, answered: None, runs: Vec::new() };
            bindings::remember_stop(&session, begun.clone());
            (session, begun)
        }))
    }

    /// A project has answered it.
    pub fn note(&mut self, project: &Project, gate: &Gate, verdict: &Verdict) {
        if let Some((_, stop)) = self.0.as_mut().filter(|_| project.config.wakes()) {
            let runs = gate.let_go_for_jobs(verdict).into_iter();
            stop.runs.extend(runs.map(|run| (project.root.clone(), run)));
        }
    }

    /// All have answered.
    pub fn end(self) {
        if let Some((session, stop)) = self.0 {
            bindings::remember_stop(
                &session,
                LastStop { answered: Some(Timestamp::now()), ..stop },
            );
        }
    }
}

/// `phasegate hook wake`. No failure of our own wakes anybody.
pub fn main(client: &'static dyn Client) -> ExitCode {
    let woken = catch_unwind(AssertUnwindSafe(|| wait(client))).ok().flatten();
    match woken {
        Some(told) => {
            print::note(&plain::text(&told));
            ExitCode::from(2)
        }
        None => {
            print::json_line("{}");
            ExitCode::SUCCESS
        }
    }
}

/// Waits as long as there is something to wait for; what the agent is told that is woken.
fn wait(client: &'static dyn Client) -> Option<String> {
    let (began, received) = (Instant::now(), Timestamp::now());
    let (payload, digest_of) = read(client).ok()?;
    let session = payload.session.as_deref().filter(|_| !payload.is_sub_agent)?;
    let session = named_plainly(session);
    let bound = bindings::of(&session)?;
    let opened = bound.projects.iter().filter_map(|root| Project::open(root).ok());
    let projects: Vec<Project> = opened.filter(|project| project.config.wakes()).collect();
    // A program that reads the client's settings may know nothing of hooks that wake, and wait for this one.
    let is_called_by_it = || Origin::of_hook(client) == Origin::Client;
    if projects.is_empty() || caller::is_ancestry_known() && !is_called_by_it() {
        return None;
    }
    let caller = Caller { parent: parent_id() };
    let payload = digest(digest_of);
    let is_meant = |stop: &LastStop| {
        stop.payload == payload && received.duration_since(stop.begun) < MAX_APART
    };
    let (since, runs) = answered(&session, is_meant, client, began, &caller)?;
    let most = Duration::from_secs(MAX_WAKE).saturating_sub(MARGIN);
    while began.elapsed() < most && caller.is_there() {
        let mut goes_on = false;
        for (root, run) in &runs {
            let Some(project) = projects.iter().find(|project| project.root == *root) else {
                continue;
            };
            match look(project, run, &session, since) {
                Ok(Look::Woken(told)) => return Some(told),
                Ok(Look::GoesOn) => goes_on = true,
                Ok(Look::Over) => {}
                Err(why) => {
                    fault_log::note(Some(root), &format!("the session was not woken: {why}"));
                    return None;
                }
            }
        }
        if !goes_on {
            return None;
        }
        std::thread::sleep(POLL);
    }
    None
}

/// Waits until the stop is answered: when that was, and the runs that wait for a job.
fn answered(
    session: &str,
    is_meant: impl Fn(&LastStop) -> bool,
    client: &dyn Client,
    began: Instant,
    caller: &Caller,
) -> Option<(Timestamp, Vec<(PathBuf, String)>)> {
    let time = client.time();
    let most = time + time / 12 + MARGIN + MAX_BEGIN;
    std::thread::sleep(SOON);
    loop {
        let stop = bindings::of(session).and_then(|bound| bound.stop).filter(&is_meant);
        if let Some(LastStop { answered: Some(at), runs, .. }) = stop {
            return (!runs.is_empty()).then_some((at, runs));
        }
        let most = if stop.is_some() { most } else { MAX_BEGIN };
        if began.elapsed() > most || !caller.is_there() {
            return None;
        }
        std::thread::sleep(SOON);
    }
}

/// What a look at a run has shown.
enum Look {
    Woken(String),
    GoesOn,
    Over,
}

fn look(project: &Project, run: &str, session: &str, since: Timestamp) -> Result<Look, String> {
    let runs = Runs::new(project);
    let Ok(found) = runs.run(run) else { return Ok(Look::Over) };
    match runs.wait_of(&found, session, since) {
        Wait::GoesOn => Ok(Look::GoesOn),
        Wait::Over => Ok(Look::Over),
        Wait::Ended => {
            let told = Gate::new(project).wake(&found, session, since);
            Ok(told.map_err(|error| error.to_string())?.map_or(Look::Over, Look::Woken))
        }
    }
}

/// The process that has started this one, and hears it.
struct Caller {
    parent: u32,
}

impl Caller {
    /// Whether it still is there. A shell may stand between the client and us, so that our own parent says little; but
    /// nobody reads any more what we would say.
    fn is_there(&self) -> bool {
        let stderr = io::stderr();
        let mut heard = [PollFd::new(&stderr, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_closed = poll(&mut heard, Some(&at_once)).is_ok()
            && heard[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        self.parent == parent_id() && !is_closed
    }
}

/// A digest of a payload, as text.
fn digest(payload: u64) -> String {
    format!("{payload:x}")
}
