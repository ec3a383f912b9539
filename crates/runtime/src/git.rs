//! What git knows about a project's tree.

use std::fs::{self, OpenOptions};
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

/// Files that differ from the last commit, and new ones that are not ignored.
pub fn changed_files(root: &Path) -> Vec<String> {
    let options = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
    let listed = git(root, options.into_iter().chain(["--", "."])).unwrap_or_default();
    listed.split('\0').filter_map(|entry| entry.get(3..)).map(str::to_string).collect()
}

/// The content of the tree, as git names it: every file that is not ignored, committed or not,
/// without those that match a pattern in `apart`. None without git.
///
/// It is written as a tree of an index and an object folder of our own, in `place`, so that the
/// user's repository stays untouched; a folder that is no repository gets one there.
pub fn tree(root: &Path, place: &Path, apart: &[String]) -> Option<String> {
    fs::create_dir_all(place).ok()?;
    let lock = OpenOptions::new().create(true).append(true).open(place.join("lock")).ok()?;
    lock.lock().ok()?;
    // Only now: whoever had the lock before us has removed it.
    fs::create_dir_all(place.join("objects")).ok()?;
    let index = place.join("index");
    // Left by a git that was killed: we have the lock, so nobody else is writing.
    let _ = fs::remove_file(place.join("index.lock"));
    let asked = ["rev-parse", "--show-prefix", "--path-format=absolute", "--git-common-dir"];
    let theirs = git(root, asked);
    let own = place.join("git");
    let (prefix, common) = match theirs.as_deref().and_then(|it| it.split_once('\n')) {
        Some((prefix, common)) => (prefix.to_string(), common.trim_end().to_string()),
        None => {
            // Made anew each time: one that was already there could bring settings along.
            let _ = fs::remove_dir_all(&own);
            let made = Command::new("git").args(["init", "--quiet", "--bare"]).arg(&own).output();
            made.ok().filter(|made| made.status.success())?;
            (String::new(), own.to_string_lossy().into_owned())
        }
    };
    let unfiltered = without_filters(root);
    let ours = |arguments: &[&str]| {
        let mut command = command(root, arguments);
        command
            .envs(unfiltered.iter().map(|(name, value)| (name, value)))
            .env("GIT_INDEX_FILE", &index)
            .env("GIT_OBJECT_DIRECTORY", place.join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", Path::new(&common).join("objects"));
        if theirs.is_none() {
            command.env("GIT_DIR", &own).env("GIT_WORK_TREE", root);
        }
        said(&mut command)
    };
    ours(&["-c", "core.safecrlf=false", "add", "--all", "--", "."])?;
    let apart: Vec<String> = apart.iter().map(|path| format!(":(glob){path}")).collect();
    let mut without = vec!["rm", "-r", "--quiet", "--cached", "--ignore-unmatch", "--"];
    without.extend(apart.iter().map(String::as_str));
    ours(&without)?;
    let prefix = format!("--prefix={prefix}");
    let tree = match prefix.as_str() {
        "--prefix=" => ours(&["write-tree", "--missing-ok"]),
        prefix => ours(&["write-tree", "--missing-ok", prefix]),
    };
    // Only the name was wanted.
    let _ = fs::remove_dir_all(place.join("objects"));
    tree.map(|tree| tree.trim_end().to_string())
}

/// Whether there is a git at all.
pub fn is_there() -> bool {
    said(Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null())).is_some()
}

/// Settings, by environment, without which a file's content would be what a filter makes of it: a
/// program that a repository's settings name.
fn without_filters(root: &Path) -> Vec<(String, String)> {
    let named = git(root, ["config", "--null", "--name-only", "--get-regexp", "^filter\\."]);
    let named = named.unwrap_or_default();
    let keys = named.split('\0').filter(|key| !key.is_empty());
    let mut settings = Vec::new();
    for (index, key) in keys.enumerate() {
        let value = if key.ends_with(".required") { "false" } else { "" };
        settings.push((format!("GIT_CONFIG_KEY_{index}"), key.to_string()));
        settings.push((format!("GIT_CONFIG_VALUE_{index}"), value.to_string()));
    }
    settings.push(("GIT_CONFIG_COUNT".into(), (settings.len() / 2).to_string()));
    settings
}

fn git<'a>(root: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Option<String> {
    said(&mut command(root, &arguments.into_iter().collect::<Vec<_>>()))
}

fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    // Nothing that a repository's settings name is run.
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]).args(arguments);
    // Set by a git hook that runs us, these would point to another repository.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
