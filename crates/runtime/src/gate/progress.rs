//! What a job that is at work has come to: its name, how long it has run, and the last thing that it said.

use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use phasegate_engine::functions::filename;

use super::jobs::BY_HAND;
use super::{Found, Runs};
use crate::jobs::{self, Record};
use crate::run::RunId;

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Its kind and name.
    pub what: String,
    pub seconds: u64,
    /// The last line that it printed, or the last thing that an agent said.
    pub line: Option<String>,
}

impl Progress {
    /// How far a job of this name has come that began at some moment and printed this.
    pub fn new(what: String, since: Timestamp, line: Option<String>) -> Progress {
        let seconds = Timestamp::now().as_second() - since.as_second();
        Progress { what, seconds: u64::try_from(seconds).unwrap_or(0), line }
    }
}

/// `check tests 12 s: running 34 tests`
impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} {} s", self.what, self.seconds)?;
        self.line.iter().try_for_each(|line| write!(out, ": {line}"))
    }
}

impl Runs<'_> {
    /// How far the jobs of a run have come that are at work, the oldest first.
    pub fn at_work(&self, found: &Found) -> Vec<Progress> {
        let jobs = self.jobs_of(found);
        let progress = jobs.values().filter(|job| !job.is_over()).map(|job| {
            let since = job.started.unwrap_or(job.recorded);
            Progress::new(format!("{} {}", job.kind, job.name), since, self.last_line(job))
        });
        progress.collect()
    }

    /// The last line that a job has printed, or the last thing that an agent said; none where there is nothing yet.
    pub fn last_line(&self, job: &Record) -> Option<String> {
        jobs::last_line(&self.project.root, job)
    }

    /// Where a check prints that is run by hand.
    pub fn log_by_hand(&self, workflow: &str, check: &str) -> PathBuf {
        let id = RunId { workflow: workflow.to_string(), name: check.to_string() };
        self.project.root.join(BY_HAND).join(filename(&id.to_string())).join("log")
    }
}
