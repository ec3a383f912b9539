//! What decisions know of checks: the results of jobs that are bound to the tree. A result counts while
//! the tree is what it was.

use std::collections::BTreeMap;

use phasegate_engine::check::CheckResult;
use phasegate_engine::workflow::{CommandLine, Workflow};

use crate::flakes::Flakes;
use crate::ledger::Work;
use crate::tree::{Snapshot, Tree};

/// How often one job runs for one event, while what it is bound to changes under it, or it is flaky.
pub(crate) const MAX_RUNS: usize = 2;

/// The checks of a workflow in a project, and their results.
#[derive(Debug)]
pub struct Checks {
    tree: Tree,
    snapshot: Snapshot,
    /// How each ended when it last ran as it is declared now.
    ended: BTreeMap<String, Known>,
}

/// What is known of a check.
#[derive(Debug)]
struct Known {
    result: CheckResult,
    /// The files that it is about, as they were; none where they changed meanwhile.
    files: Option<String>,
    /// It counts although the files may have changed: it failed for the event that is being decided.
    is_fresh: bool,
    /// A failure that was answered already, or a pass that is not believed any more.
    is_used: bool,
    /// A failure on files on which it has passed: it is run once more before it counts.
    is_doubtful: bool,
}

impl Checks {
    /// The checks of a workflow, with the work of a run; those in `fresh` have just run for the event
    /// that is being decided.
    pub(crate) fn new(
        tree: Tree,
        snapshot: Snapshot,
        workflow: &Workflow,
        work: &Work,
        fresh: &[String],
    ) -> Checks {
        let mut ended = BTreeMap::new();
        for check in workflow.checks() {
            let id = check.only_id();
            let Some(job) = work.jobs.get(&id) else { continue };
            let same = match (&check.run, job.run.as_slice()) {
                (CommandLine::Words(words), [run]) => *words == run.words,
                _ => false,
            };
            let Some(end) = job.ended.as_ref().filter(|_| same) else { continue };
            let Some(result) = end.result_of(check) else { continue };
            let files = end.tree.clone();
            let on = |about: fn(&Flakes, &str, &str) -> bool| {
                files.as_deref().is_some_and(|files| about(&work.flakes, &check.name, files))
            };
            let runs = fresh.iter().filter(|it| **it == id).count();
            let inputs = check.inputs.iter().map(|(pattern, _)| pattern.clone()).collect();
            let known = Known {
                result: CheckResult { flaky: on(Flakes::is_flaky), inputs, ..result },
                is_fresh: runs > 0,
                is_used: job.used,
                is_doubtful: runs < MAX_RUNS && on(Flakes::is_doubtful),
                files,
            };
            ended.insert(check.name.clone(), known);
        }
        Checks { tree, snapshot, ended }
    }

    /// What came of a check on the files as they are now, and a mark of both; none where it must run first.
    ///
    /// A check that failed for an event that nobody waited for any more counts once, if the files are the
    /// same. After that it runs again: what it lacked may not be one of them.
    pub fn result(&self, name: &str) -> Option<(CheckResult, String)> {
        let Known { result, files, is_fresh, is_used, is_doubtful } = self.ended.get(name)?;
        let now = self.snapshot.of(&self.tree).map(|look| look.content(&result.inputs).name);
        let same = files.is_some() && *files == now;
        let fits = if result.ok {
            same && !is_used
        } else {
            !is_doubtful && (*is_fresh || same && !is_used)
        };
        let mark = format!("{} {}", now.as_deref().unwrap_or_default(), result.summary());
        fits.then(|| (result.clone(), mark))
    }

    /// The tree that they are about.
    pub(crate) fn files(&self) -> &Tree {
        &self.tree
    }

    /// What the tree is known by, looked up once.
    pub fn tree(&self) -> Option<String> {
        Some(self.snapshot.of(&self.tree)?.content(&[]).name)
    }
}
