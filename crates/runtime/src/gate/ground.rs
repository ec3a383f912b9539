//! Where the jobs of a run work, and which files its evidence is about: those of the project, or of a worktree
//! or a part of the project that is the run's own.

use std::path::PathBuf;

use phasegate_engine::json::Json;
use phasegate_engine::workflow::Workflow;

use super::Runs;
use crate::paths;
use crate::project::Project;
use crate::tree::{Apart, Tree, Written};

/// A place that never exists: there is no evidence in it, and no job can be started there.
const NOWHERE: &str = ".phasegate/nowhere";

/// The files that a run is about.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// The folder that they are in.
    pub(super) site: PathBuf,
    /// Patterns of the files that count; without any, all files do.
    pub(super) scope: Vec<String>,
}

impl Ground {
    /// The tree of a run on it.
    pub(super) fn tree(&self, project: &Project, workflow: &Workflow, written: &Written) -> Tree {
        let apart = Apart::of(workflow, written).within(&self.scope);
        Tree::new(&project.root, &self.site, apart)
    }
}

impl Runs<'_> {
    /// The ground of a run with this document. A worktree that leads out of the project is nowhere: it would be
    /// evidence of somebody's choice.
    pub(super) fn ground(&self, workflow: &Workflow, document: &Json) -> Ground {
        let field = |name: &Option<String>| document.get(name.as_deref()?);
        let own = field(&workflow.worktree).and_then(Json::as_str);
        let site = own.map(|path| {
            let nowhere = |_| self.project.root.join(NOWHERE);
            paths::inside(&self.project.root, path).unwrap_or_else(nowhere)
        });
        let scope = match field(&workflow.scope) {
            Some(Json::List(patterns)) => patterns.0.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        let scope = scope.into_iter().map(str::to_string).collect();
        Ground { site: site.unwrap_or_else(|| self.project.site.clone()), scope }
    }
}
