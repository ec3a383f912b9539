//! The tree that evidence is from: the project's own, or the same folder in a linked worktree of the same
//! repository, where a session has gone to work there.

use std::path::{Path, PathBuf};

use crate::git;
use crate::outside::{self, MAX_SETTINGS};

/// Where a session works that stands in `folder` and belongs to the project at `root`.
pub fn of(root: &Path, folder: &Path) -> PathBuf {
    in_worktree(root, folder).unwrap_or_else(|| root.to_path_buf())
}

/// The project's folder in the linked worktree of its repository that a folder is in.
fn in_worktree(root: &Path, folder: &Path) -> Option<PathBuf> {
    let here = git::top(folder)?;
    // Most often the session is where the project is, and nothing is read.
    if root.starts_with(here) {
        return None;
    }
    let home = git::top(root)?;
    let site = here.join(root.strip_prefix(home).ok()?);
    (repository(here)? == repository(home)? && site.is_dir()).then_some(site)
}

/// The tree that a folder in a linked worktree is a copy of, as the same folder there.
pub fn main_tree(folder: &Path) -> Option<PathBuf> {
    let here = git::top(folder)?;
    kept_in(here).filter(|place| is_linked(place))?;
    let main = repository(here)?.parent()?.to_path_buf();
    let same = main.join(folder.strip_prefix(here).ok()?);
    // To join nothing leaves a slash at the end, and a consent is kept by the name of the folder.
    Some(same.components().collect())
}

/// Where the repository of a tree is kept: shared by all its worktrees.
fn repository(top: &Path) -> Option<PathBuf> {
    let place = match kept_in(top) {
        Some(place) if is_linked(&place) => place.parent()?.parent()?.to_path_buf(),
        Some(place) => place,
        None => top.join(".git"),
    };
    place.canonicalize().ok()
}

/// Where the repository of a folder is kept, if that is elsewhere: its `.git` is a file that says so.
pub(crate) fn kept_in(folder: &Path) -> Option<PathBuf> {
    let mark = outside::read_text(&folder.join(".git"), MAX_SETTINGS).ok()?;
    let place = folder.join(mark.strip_prefix("gitdir:")?.trim());
    Some(place.canonicalize().unwrap_or(place))
}

/// Whether that is the place of a worktree that `git worktree add` has made.
pub(crate) fn is_linked(place: &Path) -> bool {
    place.parent().and_then(Path::file_name).is_some_and(|name| name == "worktrees")
}
