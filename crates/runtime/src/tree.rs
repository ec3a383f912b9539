//! What the tree of a project is known by: results of checks hold while it is the same.

mod content;
mod kept;
mod memory;
mod presence;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use phasegate_engine::digest::digest;
use phasegate_engine::functions::filename;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use crate::config::state_folder;
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::project::Project;
use crate::workspace::place::Place;

use content::Patterns;

pub(crate) use content::{Content, Look};
pub(crate) use kept::{FOLDER as KEPT, Kept, remove_unused, unused_bytes};

/// Where the digests of files are remembered.
const FOLDER: &str = ".phasegate/tree";

/// How many files of its own a run knows; of more, the oldest are a part of the tree again.
const MAX_WRITTEN: usize = 256;

/// Files that a workflow itself has written for a run: reviews, reports, records. Each with the digest of what
/// was written, or with nothing where it is only added to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Written(IndexMap<String, String>);

impl Written {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their paths in the tree.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Notes a file as it was written: its path in the tree.
    pub(crate) fn note(&mut self, path: &str, digest: String) {
        self.0.shift_remove(path);
        self.0.insert(path.to_string(), digest);
        if self.0.len() > MAX_WRITTEN {
            self.0.shift_remove_index(0);
        }
    }
}

/// What is not a part of the tree that results are bound to: what Phasegate and the workflow write themselves.
/// Otherwise the review of a tree would change the tree, and the checks before it would count no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// Our own files, and the documents.
    pub(crate) patterns: Vec<String>,
    /// A file that a workflow has written is apart while it is as it was written: who changes it, or has the
    /// workflow write over a file of the project, changes the tree.
    #[serde(default, skip_serializing_if = "Written::is_empty")]
    pub(crate) written: Written,
    /// Patterns of the files that are a part of it; all others where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) only: Vec<String>,
}

impl Apart {
    /// What is apart from the tree for a run of a workflow.
    pub(crate) fn of(workflow: &Workflow, written: &Written) -> Apart {
        let documents = match Place::of(&workflow.document) {
            Place::Topic(folder, _) => format!("{folder}/**"),
            place => place.path().to_string(),
        };
        let patterns = vec![".phasegate/**".into(), documents];
        Apart { patterns, written: written.clone(), only: Vec::new() }
    }

    /// The same, where only the files that match one of these patterns are a part of the tree.
    #[must_use]
    pub(crate) fn within(self, scope: &[String]) -> Apart {
        Apart { only: scope.to_vec(), ..self }
    }

    /// Whether a file is as the workflow has written it.
    fn has_written(&self, root: &Path, path: &str) -> bool {
        let Some(known) = self.written.0.get(path) else { return false };
        let is_same = || {
            let now = outside::read(&root.join(path), MAX_RECORD);
            now.is_ok_and(|now| digest(&now) == *known)
        };
        known.is_empty() || is_same()
    }
}

/// The files of a project, without what Phasegate and the workflow write themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Where its files are.
    root: PathBuf,
    /// The project, which keeps what is remembered of it.
    home: PathBuf,
    apart: Apart,
}

impl Tree {
    /// The tree at `root` of the project at `home`.
    pub(crate) fn new(home: &Path, root: &Path, mut apart: Apart) -> Tree {
        // A home folder may be the project.
        let own = state_folder().and_then(|own| Some(own.strip_prefix(root).ok()?.to_path_buf()));
        apart.patterns.extend(own.map(|own| format!("{}/**", own.display())));
        Tree { root: root.to_path_buf(), home: home.to_path_buf(), apart }
    }

    /// The same tree, without what is noted of files that are apart from it in any case: so two runs can be told
    /// to have one tree.
    #[must_use]
    pub(crate) fn plain(mut self) -> Tree {
        let patterns = Patterns::new(&self.apart.patterns);
        self.apart.written.0.retain(|path, _| !patterns.fit(path));
        self
    }

    /// The tree as the jobs of a run see it.
    pub(crate) fn of(project: &Project, workflow: &Workflow, written: &Written) -> Tree {
        Tree::new(&project.root, &project.site, Apart::of(workflow, written))
    }

    /// Looks at the tree as it is now.
    ///
    /// # Errors
    /// Why it cannot be told, in words for people.
    pub(crate) fn look(&self) -> Result<Look, String> {
        Look::new(&self.root, &self.memory()?, &self.apart, None)
    }

    /// The same, in the place of an earlier look.
    fn look_again(&self, before: &Look) -> Result<Look, String> {
        Look::new(&self.root, &self.memory()?, &self.apart, Some(before))
    }

    /// Where the digests of its files are remembered.
    fn memory(&self) -> Result<PathBuf, String> {
        // Each tree has its own memory: the same names mean other files.
        let own = match self.apart.only.as_slice() {
            [] if self.root == self.home => FOLDER.into(),
            [] => worktree(&self.root),
            only => worktree(&self.root.join(&digest(only.join("\n").as_bytes())[..16])),
        };
        let place = paths::inside(&self.home, &own).map_err(|why| why.to_string())?;
        let kept = fs::create_dir_all(&place).and_then(|()| paths::ignored_by_git(&place));
        kept.map_err(|error| format!("{}: {error}", place.display()))?;
        Ok(place)
    }
}

/// The tree as it was when it was first asked for. An event is put to the rules again after each job that it
/// waits for; to look at a large tree each time would cost more than the checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot(Arc<OnceLock<Result<Look, String>>>);

impl Snapshot {
    /// The tree; none where it cannot be looked at.
    pub(crate) fn of(&self, tree: &Tree) -> Option<&Look> {
        self.0.get_or_init(|| tree.look()).as_ref().ok()
    }

    /// What was asked for until now and what that is missing, as notes for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        let look = self.0.get().and_then(|look| look.as_ref().ok());
        let contents = look.map(Look::contents).unwrap_or_default();
        contents.into_values().filter_map(|content| content.note).collect()
    }

    /// A new look at the tree, if all that was asked for until now is still the same; else an empty one.
    pub(crate) fn renewed(&self, tree: &Tree) -> (Snapshot, bool) {
        let new = Snapshot::default();
        let Some(Ok(old)) = self.0.get() else { return (new, true) };
        let now = new.0.get_or_init(|| tree.look_again(old));
        let Ok(now) = now.as_ref() else { return (new, false) };
        let is_same =
            |(inputs, content): (Vec<String>, Content)| now.content(&inputs).name == content.name;
        let is_same = old.contents().into_iter().all(is_same);
        (new, is_same)
    }
}

/// The path of a file as the tree at `site` lists it.
pub(crate) fn in_tree(site: &Path, path: &str) -> String {
    let own = path.strip_prefix(&*site.to_string_lossy());
    let own = own.map_or(path, |path| path.trim_start_matches('/'));
    let parts = own.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

/// Where the digests of the files of a linked worktree are remembered.
fn worktree(root: &Path) -> String {
    format!("{FOLDER}-of/{}", filename(&root.to_string_lossy()))
}
