//! What can be removed of a project because the runs that it was for are over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use phasegate_engine::step::Event;

use crate::bindings;
use crate::filesystem;
use crate::gate::{Gate, GateError, Remnant, Runs};
use crate::git;
use crate::jobs;
use crate::project::Project;
use crate::run::RunId;
use crate::tree;
use crate::witness;

/// Trees that were kept later than this stay: the step that keeps them may not be written down yet.
const MIN_TREE_AGE: Duration = Duration::from_hours(1);

/// Everything that can go.
#[derive(Debug)]
pub struct Prunable {
    before: Timestamp,
    pub runs: Vec<Remnant>,
    pub worktrees: Vec<Worktree>,
    /// Folders of jobs that no run knows.
    pub jobs: Vec<(PathBuf, u64)>,
    /// The bytes of trees that were kept for runs that are over.
    pub trees: u64,
    /// The bytes that a removal has left whose process died.
    pub half_removed: u64,
    /// Worktrees that stay, and why; and what could not be looked at.
    pub kept: Vec<(String, String)>,
    /// Names of trees that are still needed.
    in_use: BTreeSet<String>,
}

/// A worktree whose branch is merged.
#[derive(Clone, Debug)]
pub struct Worktree {
    pub path: PathBuf,
    pub branch: String,
    pub bytes: u64,
}

impl Prunable {
    /// What can go in a project of all that was over before a moment. This only looks.
    pub fn of(project: &Project, before: Timestamp) -> Prunable {
        let (gate, root) = (Runs::new(project), &project.root);
        let runs = gate.remnants(before);
        let (mut worktrees, mut kept) = (Vec::new(), Vec::new());
        for run in gate.runs_over_since(before) {
            let Some(path) = gate.own_worktree(&run) else { continue };
            match git::merged_branch(root, &path) {
                Ok(branch) => {
                    let bytes = filesystem::size(&path);
                    worktrees.push(Worktree { path, branch, bytes });
                }
                Err(why) => kept.push((shown(root, &path), why)),
            }
        }
        let known: BTreeSet<RunId> = gate.all_runs().runs.into_iter().map(|run| run.id).collect();
        let jobs = jobs::orphans(root, SystemTime::from(before), |run| known.contains(run));
        let jobs = jobs.into_iter().map(|path| (path.clone(), filesystem::size(&path))).collect();
        let gone: BTreeSet<RunId> = runs.iter().map(|it| it.run.id.clone()).collect();
        let mut prunable = Prunable {
            before,
            runs,
            worktrees,
            jobs,
            trees: 0,
            half_removed: gate.half_removed(),
            kept,
            in_use: gate.tree_names(&gone),
        };
        match tree::unused_bytes(root, &prunable.in_use, prunable.tree_age()) {
            Ok(bytes) => prunable.trees = bytes,
            Err(why) => prunable.kept.push((tree::KEPT.into(), why)),
        }
        prunable
    }

    pub fn is_empty(&self) -> bool {
        let Prunable { runs, worktrees, jobs, trees, half_removed, .. } = self;
        let none = runs.is_empty() && worktrees.is_empty() && jobs.is_empty();
        none && *trees == 0 && *half_removed == 0
    }

    /// How many bytes would go.
    pub fn bytes(&self) -> u64 {
        let runs: u64 = self.runs.iter().map(|it| it.bytes).sum();
        let worktrees: u64 = self.worktrees.iter().map(|it| it.bytes).sum();
        let jobs: u64 = self.jobs.iter().map(|(_, bytes)| bytes).sum();
        runs + worktrees + jobs + self.trees + self.half_removed
    }

    fn tree_age(&self) -> Duration {
        let age = Timestamp::now().duration_since(self.before);
        Duration::try_from(age).unwrap_or_default().max(MIN_TREE_AGE)
    }

    /// Removes it. What has changed since the look stays; what cannot be removed is told at the end, and the rest
    /// goes.
    ///
    /// # Errors
    /// Where another process is pruning.
    pub fn remove(&self, project: &Project, event: &Event) -> Result<Vec<String>, GateError> {
        let (gate, root) = (Gate::new(project), &project.root);
        let held = gate.begin_pruning()?;
        let mut failed = Vec::new();
        // Before the runs, which know which worktrees are theirs.
        for Worktree { path, branch, .. } in &self.worktrees {
            if let Err(why) = git::merged_branch(root, path)
                .and_then(|_| git::remove_worktree(root, path, branch))
            {
                failed.push(format!("{}: {why}", shown(root, path)));
            }
        }
        for remnant in &self.runs {
            match gate.prune(remnant, self.before, event) {
                Ok(true) => {}
                Ok(false) => failed.push(format!("run {} is in use again", remnant.run.id)),
                Err(error) => failed.push(format!("run {}: {error}", remnant.run.id)),
            }
        }
        for (path, _) in &self.jobs {
            if let Err(error) = jobs::remove_all(path) {
                failed.push(format!("{}: {error}", shown(root, path)));
            }
        }
        if self.trees > 0
            && let Err(why) = tree::remove_unused(root, &self.in_use, self.tree_age())
        {
            failed.push(format!("{}: {why}", tree::KEPT));
        }
        // Sessions and witnesses that nobody has heard of for long, as at the beginning of a session.
        bindings::prune();
        witness::prune();
        gate.end_pruning(held)?;
        Ok(failed)
    }
}

/// A path as it is told.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
