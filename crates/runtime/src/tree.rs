//! What the tree of a project is known by: results of checks hold while it is the same.

mod content;
mod kept;

use std::fs;
use std::path::{Path, PathBuf};

use phasegate_engine::functions::filename;
use phasegate_engine::workflow::Workflow;

use crate::paths;
use crate::project::Project;
use crate::workspace::place::Place;

pub(crate) use content::Content;
pub(crate) use kept::Kept;

/// Where the digests of files are remembered.
const FOLDER: &str = ".phasegate/tree";

/// The files of a project, without what Phasegate writes itself.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Where its files are.
    root: PathBuf,
    /// The project, which keeps what is remembered of it.
    home: PathBuf,
    /// Patterns of what is not a part of it.
    apart: Vec<String>,
    /// Patterns of what is; everything else where there are none.
    only: Vec<String>,
}

impl Tree {
    /// The tree without what matches some patterns.
    pub(crate) fn new(home: &Path, root: &Path, apart: Vec<String>) -> Tree {
        Tree { root: root.to_path_buf(), home: home.to_path_buf(), apart, only: Vec::new() }
    }

    /// The tree of these files only; of all, where there are no patterns.
    #[must_use]
    pub(crate) fn of_only(self, only: Vec<String>) -> Tree {
        Tree { only, ..self }
    }

    /// The tree as the jobs of a workflow see it: without our own files, and the documents that we write.
    pub(crate) fn of(project: &Project, workflow: &Workflow) -> Tree {
        Tree::new(&project.root, &project.site, Tree::apart(workflow))
    }

    /// What is not a part of the tree of a workflow.
    pub(crate) fn apart(workflow: &Workflow) -> Vec<String> {
        let documents = match Place::of(&workflow.document) {
            Place::Topic(folder, _) => format!("{folder}/**"),
            place => place.path().to_string(),
        };
        vec![".phasegate/**".into(), documents]
    }

    /// What the tree is known by, as it is now; none where that cannot be told.
    pub(crate) fn now(&self) -> Option<String> {
        Some(self.look().ok()?.name)
    }

    /// The same, with what is to be known about it.
    ///
    /// # Errors
    /// Why it cannot be told, in words for people.
    pub(crate) fn look(&self) -> Result<Content, String> {
        content::look(&self.root, &self.memory()?, (&self.apart, &self.only))
    }

    /// Where the digests of its files are remembered.
    fn memory(&self) -> Result<PathBuf, String> {
        // Each tree has its own memory: the same names mean other files.
        let own = if self.root == self.home { FOLDER.into() } else { worktree(&self.root) };
        let place = paths::inside(&self.home, &own).map_err(|why| why.to_string())?;
        let kept = fs::create_dir_all(&place).and_then(|()| paths::ignored_by_git(&place));
        kept.map_err(|error| format!("{}: {error}", place.display()))?;
        Ok(place)
    }
}

/// Where the digests of the files of a linked worktree are remembered.
fn worktree(root: &Path) -> String {
    format!("{FOLDER}-of/{}", filename(&root.to_string_lossy()))
}
