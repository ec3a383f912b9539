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
    let output = Command::new("git")
        .args(["-C"])
        .arg(root)
        .args(["ls-files", "-z", "--modified", "--others", "--exclude-standard"])
        .args(["--", ".", ":(exclude).phasegate"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else { return false };
    if !output.status.success() {
        return false;
    }
    let files = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    files.map(String::from_utf8_lossy).any(|name| newer(&root.join(&*name)))
        || newer(&root.join(".git/logs/HEAD"))
}
