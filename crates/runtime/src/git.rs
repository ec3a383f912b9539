//! What git knows about a project's tree.

use std::path::Path;
use std::process::{Command, Stdio};

use jiff::Timestamp;

/// Whether a file of the tree was changed after a moment: a tracked one that differs, an untracked
/// one that is not ignored, or a commit. Asked only where a run is about to be called stuck, since
/// it looks at the whole tree. Without git the answer is no.
pub fn changed_since(root: &Path, moment: Timestamp) -> bool {
    let newer = |path: &Path| {
        let time = path.symlink_metadata().ok().and_then(|meta| meta.modified().ok());
        time.and_then(|time| Timestamp::try_from(time).ok()).is_some_and(|time| time > moment)
    };
    // A file that is gone shows in its folder.
    let changed =
        |path: &Path| newer(path) || (!path.exists() && path.parent().is_some_and(&newer));
    let ours = ["--", ".", ":(exclude).phasegate"];
    let options = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
    let files = git(root, options.into_iter().chain(ours)).unwrap_or_default();
    let files = files.split('\0').filter(|name| !name.is_empty());
    let log = git(root, ["rev-parse", "--git-path", "logs/HEAD"]).unwrap_or_default();
    files.map(|name| root.join(name)).any(|path| changed(&path))
        || (!log.is_empty() && newer(&root.join(log.trim_end())))
}

fn git<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        // Set by a git hook that runs us, these would point to another repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
