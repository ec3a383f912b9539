//! Worktrees that runs have had for themselves: whether one can go, and its removal.

use std::path::Path;

use super::Repository;

/// The branch of a worktree that can go: it is merged into what is checked out at `root`, and nothing there is
/// uncommitted.
///
/// # Errors
/// Why the worktree has to stay, in words for people.
pub fn merged_branch(root: &Path, worktree: &Path) -> Result<String, String> {
    let own = Repository::of(worktree).ok_or("it is not in a git repository")?;
    let place = |repository: &Repository| {
        let asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        repository.ask(asked).map(|place| place.trim_end().to_string())
    };
    let main = Repository::of(root).ok_or("the project is not in a git repository")?;
    if own.top != worktree || place(&own)? != place(&main)? {
        return Err("it is not a worktree of this repository".into());
    }
    let branch = own.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]);
    let branch = branch.map_err(|_| "no branch is checked out in it".to_string())?;
    let branch = branch.trim_end().to_string();
    if !own.ask(["status", "--porcelain", "--untracked-files=all"])?.is_empty() {
        return Err("it has changes that are not committed".into());
    }
    let head = own.ask(["rev-parse", "--verify", "HEAD"])?;
    match main.ask(["merge-base", "--is-ancestor", head.trim_end(), "HEAD"]) {
        Ok(_) => Ok(branch),
        Err(_) => Err(format!("its branch {branch} is not merged")),
    }
}

/// Removes a worktree and its branch. Git refuses where something in it is not committed, or the branch is not
/// merged.
///
/// # Errors
/// What git says.
pub fn remove_worktree(root: &Path, worktree: &Path, branch: &str) -> Result<(), String> {
    let main = Repository::of(root).ok_or("the project is not in a git repository")?;
    main.ask([Path::new("worktree"), Path::new("remove"), worktree])?;
    main.ask(["branch", "--delete", branch]).map(drop)
}
