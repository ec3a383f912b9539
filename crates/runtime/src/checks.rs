//! What decisions know of checks: the results of jobs that are bound to the tree. A result counts while
//! the tree is what it was.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use indexmap::IndexMap;
use phasegate_engine::check::CheckResult;
use phasegate_engine::workflow::{CommandLine, Workflow};

use crate::jobs::{Ended, Record};
use crate::tree::Tree;

/// The checks of a workflow in a project, and their results.
#[derive(Debug)]
pub struct Checks {
    tree: Tree,
    now: OnceLock<Option<String>>,
    /// How each ended when it last ran as it is declared now.
    ended: BTreeMap<String, Known>,
}

/// What is known of a check.
#[derive(Debug)]
struct Known {
    ended: Ended,
    /// It counts although the tree may have changed: it failed for the event that is being decided.
    is_fresh: bool,
    /// A failure that was answered already.
    is_used: bool,
}

impl Checks {
    /// The checks of a workflow, with the jobs of a run; those in `fresh` have just run for the event
    /// that is being decided.
    pub(crate) fn new(
        tree: Tree,
        workflow: &Workflow,
        jobs: &IndexMap<String, Record>,
        fresh: &[String],
    ) -> Checks {
        let mut ended = BTreeMap::new();
        for check in workflow.checks() {
            let id = check.only_id();
            let Some(job) = jobs.get(&id) else { continue };
            let same = match (&check.run, job.run.as_slice()) {
                (CommandLine::Words(words), [run]) => *words == run.words,
                _ => false,
            };
            if let (Some(end), true) = (&job.ended, same) {
                let is_fresh = fresh.contains(&id);
                let known = Known { ended: end.clone(), is_fresh, is_used: job.used };
                ended.insert(check.name.clone(), known);
            }
        }
        Checks { tree, now: OnceLock::new(), ended }
    }

    /// What came of a check on the tree as it is now, and a mark of both; none where it must run first.
    ///
    /// A check that failed for an event that nobody waited for any more counts once, if the tree is the
    /// same. After that it runs again: what it lacked may not be a part of the tree.
    pub fn result(&self, name: &str) -> Option<(CheckResult, String)> {
        let Known { ended, is_fresh, is_used } = self.ended.get(name)?;
        let tree = self.tree();
        let same = ended.tree.is_some() && ended.tree == tree;
        let result = ended.result();
        let fits = if result.ok { same } else { *is_fresh || same && !is_used };
        let mark = format!("{} {}", tree.as_deref().unwrap_or_default(), result.summary());
        fits.then_some((result, mark))
    }

    /// The tree that they are about.
    pub(crate) fn files(&self) -> &Tree {
        &self.tree
    }

    /// What the tree is known by, looked up once.
    pub fn tree(&self) -> Option<String> {
        self.now.get_or_init(|| self.tree.now()).clone()
    }
}
