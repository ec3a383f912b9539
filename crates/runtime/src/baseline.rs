//! The tree as it was at a moment, remembered so that "has anything changed since?" costs one `git status`.
//!
//! With git it is the commit, and what tells one state of a file from another (number, size, times) for the
//! files that differed from it: the rest is in the commit. So a commit of what was there changes nothing, and
//! neither does an edit that is undone. Without git it is a digest of that for every file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::digest::digest;
use phasegate_engine::glob;
use serde::{Deserialize, Serialize};

use crate::config::state_folder;
use crate::git;
use crate::paths::Walk;
use crate::project::Project;
use crate::workspace::place::Place;

/// Of how many files the state is kept one by one. Of more, only all of them together are known.
const MAX_FILES: usize = 2_000;

/// How long ago a moment may be that is taken for now: no commit is looked up for it.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(2);

/// What a file is called that is not there.
const GONE: &str = "gone";

/// The tree as it was at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    pub at: Timestamp,
    /// The folder of the tree: the project's, or the same in a linked worktree.
    pub site: PathBuf,
    /// The commit; none without git, and before the first one.
    commit: Option<String>,
    /// A digest of the rest.
    digest: String,
    /// The state of each file that differed from the commit; none where there were too many, or no git.
    files: Option<BTreeMap<PathBuf, String>>,
}

impl Baseline {
    /// The tree as a session sees it now.
    ///
    /// # Errors
    /// Why that cannot be told, in words for people.
    pub fn now(project: &Project) -> Result<Baseline, String> {
        Ok(Baseline::made(project, Timestamp::now(), states(project)?))
    }

    /// The tree as it was at an earlier moment, as far as that can still be told: files that were changed
    /// since are left out, so that they count as changes.
    ///
    /// # Errors
    /// Why that cannot be told, in words for people.
    pub fn since(project: &Project, moment: Timestamp) -> Result<Baseline, String> {
        let mut states = states(project)?;
        states.files.retain(|(_, _, changed)| changed.is_none_or(|at| at <= moment));
        let is_old = Timestamp::now().duration_since(moment) > JUST_NOW;
        if is_old && let Some(commit) = git::commit_at(&project.site, moment) {
            states.commit = Some(commit);
        }
        Ok(Baseline::made(project, moment, states))
    }

    fn made(project: &Project, at: Timestamp, states: States) -> Baseline {
        let States { commit, files, is_in_git } = states;
        let mut text = String::new();
        for (path, state, _) in &files {
            let _ = writeln!(text, "{} {state}", path.display());
        }
        let is_kept = is_in_git && files.len() <= MAX_FILES;
        let files = is_kept.then(|| files.into_iter().map(|(path, state, _)| (path, state)));
        let files = files.map(Iterator::collect);
        Baseline { at, site: project.site.clone(), commit, digest: digest(text.as_bytes()), files }
    }

    /// Whether the tree is another one now.
    pub fn differs(&self, now: &Baseline) -> bool {
        self.changes(now).next().is_some()
    }

    /// The files that are others now, as far as they can be named.
    pub fn changed(&self, now: &Baseline) -> Vec<PathBuf> {
        self.changes(now).flatten().collect()
    }

    /// What is another now: a file, or something that cannot be named. What costs most to find comes last.
    fn changes(&self, now: &Baseline) -> Box<dyn Iterator<Item = Option<PathBuf>> + '_> {
        if self.commit == now.commit && self.digest == now.digest {
            return Box::new(std::iter::empty());
        }
        let (Some(then), Some(present)) = (&self.files, now.files.clone()) else {
            return Box::new(std::iter::once(None));
        };
        let new = present.keys().filter(|path| !then.contains_key(*path)).cloned();
        let new: Vec<PathBuf> = new.collect();
        let has_changed = move |(path, state): (&PathBuf, &String)| {
            let is_changed = match present.get(path) {
                Some(present) => present != state,
                // It was committed as it was, or taken back.
                None => state_of(path).0 != *state,
            };
            is_changed.then(|| path.clone())
        };
        let files = then.iter().filter_map(has_changed).chain(new).map(Some);
        let commits = (self.commit.clone(), now.commit.clone());
        let committed = std::iter::once_with(move || match commits {
            (from, to) if from == to => Vec::new(),
            (Some(from), Some(to)) => match git::between(&self.site, &from, &to) {
                Ok(files) => {
                    files.into_iter().filter(|it| !then.contains_key(it)).map(Some).collect()
                }
                Err(_) => vec![None],
            },
            _ => vec![None],
        });
        Box::new(files.chain(committed.flatten()))
    }
}

/// The files that are kept one by one, each with its state and when that last changed.
struct States {
    commit: Option<String>,
    files: Vec<(PathBuf, String, Option<Timestamp>)>,
    is_in_git: bool,
}

fn states(project: &Project) -> Result<States, String> {
    let site = &project.site;
    let (commit, paths, is_in_git) = match git::difference(site)? {
        Some(found) => (found.commit, found.files, true),
        None => {
            let files = Walk::new(site).files("**").map_err(|why| why.to_string())?;
            (None, files.into_iter().map(|path| (site.join(path), None)).collect(), false)
        }
    };
    let apart = if paths.is_empty() { Vec::new() } else { apart(project) };
    let memory = state_folder();
    let is_ours = |path: &Path| {
        if memory.as_ref().is_some_and(|memory| path.starts_with(memory)) {
            return true;
        }
        let path = path.strip_prefix(site).unwrap_or(path).to_string_lossy();
        apart.iter().any(|pattern| glob::matches(pattern, &path))
    };
    let files = paths.into_iter().filter(|(path, _)| !is_ours(path)).map(|(path, commit)| {
        let (state, changed) = commit.map_or_else(|| state_of(&path), |commit| (commit, None));
        (path, state, changed)
    });
    Ok(States { commit, files: files.collect(), is_in_git })
}

/// What we write ourselves: our own folder, and the documents of all workflows.
fn apart(project: &Project) -> Vec<String> {
    let documents = project.workflows.iter().filter_map(|entry| entry.document(&project.config));
    let documents = documents.map(|document| match Place::of(&document) {
        Place::Topic(folder, _) => format!("{folder}/**"),
        place => place.path().to_string(),
    });
    documents.chain([".phasegate/**".to_string()]).collect()
}

/// What tells the state of a file from another, and when it last changed. The time of the last change
/// (`ctime`) is the kernel's, and nobody can set it.
fn state_of(path: &Path) -> (String, Option<Timestamp>) {
    let time = |seconds: i64, rest: i64| {
        Timestamp::new(seconds, i32::try_from(rest).unwrap_or(0)).unwrap_or_default()
    };
    match path.symlink_metadata() {
        Ok(meta) => {
            let (number, size) = (meta.ino(), meta.len());
            let changed = (meta.ctime(), meta.ctime_nsec());
            let state = format!("{number} {size} {}.{}", changed.0, changed.1);
            (state, Some(time(changed.0, changed.1)))
        }
        // That a file is gone shows in its folder.
        Err(_) => {
            let folder = path.parent().and_then(|folder| folder.metadata().ok());
            (GONE.into(), folder.map(|meta| time(meta.mtime(), meta.mtime_nsec())))
        }
    }
}
