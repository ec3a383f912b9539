//! What the tree of a project is known by: results of checks hold while it is the same.

use std::fs;
use std::path::{Path, PathBuf};

use phasegate_engine::digest::digest_of;
use phasegate_engine::glob;
use phasegate_engine::workflow::Workflow;

use crate::git;
use crate::paths::{self, Walk};
use crate::workspace::place::Place;

/// Where git is given an index of ours.
const FOLDER: &str = ".phasegate/tree";

/// The files of a project, without what Phasegate writes itself.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// Patterns of what is not a part of it.
    apart: Vec<String>,
}

impl Tree {
    /// The tree without what matches some patterns.
    pub(crate) fn new(root: &Path, apart: Vec<String>) -> Tree {
        Tree { root: root.to_path_buf(), apart }
    }

    /// The tree as the jobs of a workflow see it: without our own files, and the documents that we write.
    pub(crate) fn of(root: &Path, workflow: &Workflow) -> Tree {
        Tree::new(root, Tree::apart(workflow))
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
        let place = paths::inside(&self.root, FOLDER).ok()?;
        fs::create_dir_all(&place).ok()?;
        paths::ignored_by_git(&place).ok()?;
        // Two kinds of marks never compare equal, so one that fails for a moment is asked again.
        let by_git = || git::tree(&self.root, &place, &self.apart);
        let by_names = || if git::is_there() { None } else { self.listing() };
        by_git().or_else(by_git).or_else(by_names)
    }

    /// Without git: which files there are, how large, and when each was changed.
    fn listing(&self) -> Option<String> {
        let files = Walk::new(&self.root).files("**").ok()?;
        let files =
            files.iter().filter(|file| !self.apart.iter().any(|it| glob::matches(it, file)));
        let lines = files.map(|file| {
            let meta = fs::metadata(self.root.join(file)).ok();
            let time = meta.as_ref().and_then(|meta| meta.modified().ok());
            format!("{file} {:?} {time:?}\n", meta.map(|meta| meta.len()))
        });
        let lines: Vec<String> = lines.collect();
        Some(digest_of(lines.iter().map(String::as_bytes)))
    }
}
