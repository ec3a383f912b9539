//! What git knows about a project's tree.
//!
//! **No program that the repository names is run.** A clone brings no configuration along, but an archive, a
//! shared folder and an agent do, and in it stand commands: filters, a monitor, hooks. What the repository's
//! own configuration (with the files that it includes, and that of its worktree) says about filters is put
//! back to what the user's and the system's say, so that filters of the user, as those of LFS, are run as
//! ever. Submodules have a configuration of their own: git never looks into one, we do, one by one.
//!
//! **The repository does not choose the tree.** Its `core.worktree` and a broken `.git` are passed over: the
//! tree is the folder that has the `.git`.

mod files;
pub(crate) mod names;
pub(crate) mod transfer;
mod worktrees;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};

use crate::config::state_folder;
use crate::outside::{self, MAX_SETTINGS};
use crate::paths::Walk;
use crate::proc;

pub(crate) use files::{Files, Paths, files};
pub use worktrees::{merged_branch, remove_worktree};

/// How deep repositories are looked for in each other.
const MAX_NESTED: usize = 8;

/// The folder upward, itself included, that has a `.git`: the root of a repository.
pub fn top(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
}

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
    let Some(repository) = Repository::of(root) else { return any_file(root, changed) };
    let options = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
    let ours = ["--", ".", ":(exclude).phasegate"];
    let files = repository.ask(options.iter().chain(&ours)).unwrap_or_default();
    let files = files.split('\0').filter(|name| !name.is_empty());
    let log = repository.ask(["rev-parse", "--git-path", "logs/HEAD"]).unwrap_or_default();
    files.map(|name| root.join(name)).any(|path| changed(&path))
        || (!log.is_empty() && newer(&root.join(log.trim_end())))
}

/// Whether one of all files of a folder that is in no repository is such. What we write ourselves does not count.
fn any_file(root: &Path, is_such: impl Fn(&Path) -> bool) -> bool {
    let files = Walk::new(root).files("**").unwrap_or_default();
    let memory = state_folder();
    let is_ours = |path: &Path| {
        path.starts_with(root.join(".phasegate"))
            || memory.as_ref().is_some_and(|memory| path.starts_with(memory))
    };
    files.iter().map(|name| root.join(name)).any(|path| !is_ours(&path) && is_such(&path))
}

/// The name of the tree of the last commit as it would be without a folder, and the name of the commit. The
/// folder is for what speaks about the tree, as a proof: otherwise to commit that would make it wrong.
///
/// # Errors
/// Where there is no commit, or git cannot tell.
pub fn committed_tree(root: &Path, without: &str) -> Result<(String, String), String> {
    let repository = Repository::of(root).ok_or("this is not a git repository")?;
    let commit = repository.ask(["rev-parse", "--verify", "HEAD^{commit}"])?.trim().to_string();
    let path: Vec<&str> = without.split('/').collect();
    let tree = tree_without(&repository, &format!("{commit}:"), &path)?;
    Ok((tree.unwrap_or_else(|| names::object("tree", &[]).to_string()), commit))
}

/// The name of a tree without what is at a path; none where nothing is left of it.
fn tree_without(
    repository: &Repository,
    at: &str,
    path: &[&str],
) -> Result<Option<String>, String> {
    let listed = repository.ask(["ls-tree", "-z", "--full-tree", at])?;
    let mut content = Vec::new();
    for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
        let told = entry.split_once('\t').and_then(|(head, name)| {
            let mut head = head.split(' ');
            Some((head.next()?, head.next()?, head.next()?, name))
        });
        let (mode, kind, object, name) = told.ok_or("git lists a tree in an unexpected form")?;
        let object = match path {
            [last] if *last == name => continue,
            [first, rest @ ..] if *first == name && kind == "tree" => {
                match tree_without(repository, object, rest)? {
                    Some(object) => object,
                    None => continue,
                }
            }
            _ => object.to_string(),
        };
        let digits = object.as_bytes().chunks(2).map(|pair| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        });
        let digits: Vec<u8> = digits.collect::<Option<_>>().unwrap_or_default();
        if digits.len() != 20 {
            return Err("only SHA-1 repositories are supported".into());
        }
        content.extend_from_slice(mode.trim_start_matches('0').as_bytes());
        content.push(b' ');
        content.extend_from_slice(name.as_bytes());
        content.push(0);
        content.extend(digits);
    }
    Ok((!content.is_empty()).then(|| names::object("tree", &content).to_string()))
}

/// The SSH key that the user signs commits with, as the user's configuration has it.
pub fn signing_key(root: &Path) -> Option<String> {
    let repository = Repository::of(root)?;
    // A repository must not choose the key.
    let ask = |name: &str| repository.ask(["config", "--global", "--get", name]).ok();
    let is_ssh = ask("gpg.format")?.trim() == "ssh";
    let key = ask("user.signingKey").filter(|_| is_ssh)?;
    let key = key.trim();
    Some(key.strip_suffix(".pub").unwrap_or(key).to_string())
}

/// The list of SSH signers that git is configured with.
pub fn allowed_signers(root: &Path) -> Option<String> {
    let repository = Repository::of(root)?;
    let list = repository.ask(["config", "--get", "gpg.ssh.allowedSignersFile"]).ok()?;
    Some(list.trim().to_string()).filter(|list| !list.is_empty())
}

/// The last commit of the repository that a folder is in; none before the first one.
pub fn head(root: &Path) -> Option<String> {
    let repository = Repository { root, top: top(root)?, settings: Settings::default() };
    let head = repository.ask(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).ok()?;
    Some(head.trim().to_string()).filter(|head| !head.is_empty())
}

/// A URL without the password that may be in it: whoever uses it has another.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    match host.rsplit_once('@') {
        Some((user, host)) if scheme.starts_with("http") || user.contains(':') => {
            let user = user.split(':').next().filter(|_| !scheme.starts_with("http"));
            let user = user.map(|user| format!("{user}@")).unwrap_or_default();
            format!("{scheme}://{user}{host}/{path}")
        }
        _ => url.to_string(),
    }
}

/// The URL of a remote, as the repository has it.
pub fn remote(root: &Path, name: &str) -> Option<String> {
    let repository = Repository { root, top: top(root)?, settings: Settings::default() };
    let url = repository.ask(["config", "--get", &format!("remote.{name}.url")]).ok()?;
    Some(url.trim().to_string()).filter(|url| !url.is_empty())
}

/// The files that are not as the last commit has them, our own left out.
///
/// # Errors
/// Where git cannot tell.
pub fn uncommitted(root: &Path) -> Result<Vec<String>, String> {
    let repository = Repository::of(root).ok_or("this is not a git repository")?;
    let options = ["status", "--porcelain", "-z", "--untracked-files=all"];
    let status = repository.ask(options.iter().chain(&["--", ".", ":(exclude).phasegate"]))?;
    let files = status.split('\0').filter_map(|entry| entry.get(3..));
    Ok(files.map(str::to_string).collect())
}

/// Whether a path is what the last commit has there: git knows files in it, and none differs. Without git it is
/// not.
pub fn is_as_committed(root: &Path, path: &str) -> bool {
    if top(root).is_none() {
        return false;
    }
    let Some(repository) = Repository::of(root) else { return false };
    let known = repository.ask(["ls-files", "-z", "--", path]).unwrap_or_default();
    let options = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignored", "--", path];
    !known.is_empty() && repository.ask(options).is_ok_and(|differ| differ.is_empty())
}

/// Files that differ from the last commit, and new ones that are not ignored. Of a repository in this one, its
/// folder, where anything in it differs.
pub fn changed_files(root: &Path) -> Vec<String> {
    changed_in(root, 0)
}

fn changed_in(root: &Path, depth: usize) -> Vec<String> {
    let Some(repository) = Repository::of(root) else { return Vec::new() };
    let options = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
    // Git would look into a submodule with the programs that are named there.
    let options = options.iter().chain(&["--ignore-submodules=dirty", "--", "."]);
    let listed = repository.ask(options).unwrap_or_default();
    let mut changed: Vec<String> =
        listed.split('\0').filter_map(|entry| entry.get(3..)).map(str::to_string).collect();
    for nested in repository.nested() {
        let is_new = !changed.contains(&nested) && depth < MAX_NESTED;
        if is_new && !changed_in(&root.join(&nested), depth + 1).is_empty() {
            changed.push(nested);
        }
    }
    changed
}

/// Where the repository that a folder is in keeps its objects; none where they are not of the usual kind.
pub fn objects(root: &Path) -> Option<PathBuf> {
    let repository = Repository::of(root)?;
    let format = repository.ask(["rev-parse", "--show-object-format"]).ok()?;
    let place = repository.ask(["rev-parse", "--git-path", "objects"]).ok()?;
    let place = root.join(place.trim_end_matches('\n')).canonicalize().ok()?;
    (format.trim() == "sha1" && !place.to_string_lossy().contains('\n')).then_some(place)
}

/// What a tree is beside its last commit.
#[derive(Debug, Default)]
pub struct Difference {
    /// That commit; none before the first one.
    pub commit: Option<String>,
    /// The files below a folder that differ from it, and new ones that are not ignored, as full paths. A
    /// repository in this one is there by its folder, with its own commit.
    pub files: Vec<(PathBuf, Option<String>)>,
}

/// How the tree below a folder differs from its last commit; none where the folder is in no repository.
///
/// # Errors
/// What git says where it cannot tell.
pub fn difference(root: &Path) -> Result<Option<Difference>, String> {
    let Some(repository) = Repository::of(root) else { return Ok(None) };
    Ok(Some(difference_in(&repository, 0)?))
}

fn difference_in(repository: &Repository, depth: usize) -> Result<Difference, String> {
    let options = ["status", "--porcelain=v2", "--branch", "-z", "--no-renames"];
    // Git would look into a submodule with the programs that are named there.
    let options = options.iter().chain(&["--untracked-files=all", "--ignore-submodules=dirty"]);
    let listed = repository.ask(options.chain(&["--", ".", ":(exclude).phasegate"]))?;
    let mut found = Difference::default();
    let mut nested: Vec<PathBuf> = Vec::new();
    for entry in listed.split('\0') {
        // How many words stand before the path.
        let words = match entry.as_bytes().first() {
            Some(b'#') => {
                let commit = entry.strip_prefix("# branch.oid ").filter(|it| *it != "(initial)");
                found.commit = found.commit.or(commit.map(str::to_string));
                continue;
            }
            Some(b'?') => 1,
            Some(b'1') => 8,
            Some(b'u') => 10,
            _ => continue,
        };
        let Some(path) = entry.splitn(words + 1, ' ').nth(words) else { continue };
        let full = repository.top.join(path.trim_end_matches('/'));
        if path.ends_with('/') {
            nested.push(full);
        } else {
            found.files.push((full, None));
        }
    }
    // What is recorded costs a list of all files, so that is asked for only where there can be some.
    if repository.top.join(".gitmodules").symlink_metadata().is_ok() {
        nested.extend(repository.nested().into_iter().map(|folder| repository.root.join(folder)));
    }
    for folder in nested.into_iter().filter(|_| depth < MAX_NESTED) {
        let inner = Repository::of(&folder).filter(|inner| inner.top == folder);
        if let Some(inner) = inner.and_then(|inner| difference_in(&inner, depth + 1).ok()) {
            found.files.extend(inner.files);
            found.files.push((folder, inner.commit));
        }
    }
    Ok(found)
}

/// The files below a folder in which two commits differ, as full paths.
///
/// # Errors
/// What git says where it cannot tell, as about a commit that is gone.
pub fn between(root: &Path, from: &str, to: &str) -> Result<Vec<PathBuf>, String> {
    let Some(repository) = Repository::of(root) else { return Ok(Vec::new()) };
    let options = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", from, to];
    let listed = repository.ask(options.iter().chain(&["--", ".", ":(exclude).phasegate"]))?;
    let files = listed.split('\0').filter(|name| !name.is_empty());
    Ok(files.map(|name| repository.top.join(name)).collect())
}

/// The commit that was checked out at a moment, as far as git remembers.
pub fn commit_at(root: &Path, moment: Timestamp) -> Option<String> {
    let then = format!("HEAD@{{{}}}", moment.strftime("%Y-%m-%d %H:%M:%S +0000"));
    let commit = Repository::of(root)?.ask(["rev-parse", "--verify", "--quiet", &then]).ok()?;
    Some(commit.trim().to_string()).filter(|commit| !commit.is_empty())
}

/// Ends every git that this process has started: nobody waits for it any more.
pub fn end_all() {
    let own = std::process::id();
    for pid in proc::all().filter(|pid| proc::parent(*pid) == Some(own)) {
        if proc::name(pid).as_deref() == Some("git")
            && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A repository, and what is set against what it has set.
struct Repository<'r> {
    root: &'r Path,
    top: &'r Path,
    settings: Settings,
}

/// What a repository has set, as far as that matters here.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What wins over the repository's.
    winning: Vec<(String, String)>,
    /// The repository's own lists of ignored files.
    excludes: Vec<PathBuf>,
    /// Why nothing else is asked of it.
    refused: Option<String>,
}

impl<'r> Repository<'r> {
    /// The repository that a folder is in.
    fn of(root: &'r Path) -> Option<Repository<'r>> {
        Some(Repository::new(root, top(root)?))
    }

    fn new(root: &'r Path, top: &'r Path) -> Repository<'r> {
        let mut repository = Repository { root, top, settings: Settings::default() };
        match repository.ask(["config", "--list", "--show-scope", "-z"]) {
            Ok(listed) => repository.disarm(&listed),
            // What it would have run is not known, as where git is older than 2.26.
            Err(why) => repository.settings.refused = Some(why),
        }
        repository
    }

    /// Puts back what the repository says about filters: to what the user says, else to nothing. The settings
    /// come with the most general first, each behind its scope.
    fn disarm(&mut self, listed: &str) {
        let parts: Vec<&str> = listed.split('\0').collect();
        let mut users: Vec<(&str, &str)> = Vec::new();
        let mut own: Vec<&str> = Vec::new();
        for pair in parts.chunks_exact(2) {
            let (scope, setting) = (pair[0], pair[1]);
            // A setting without a value is true.
            let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
            let is_own = matches!(scope, "local" | "worktree");
            if is_own && key == "core.excludesfile" {
                self.settings.excludes.push(self.top.join(value));
            }
            if !key.starts_with("filter.") {
                continue;
            }
            if is_own {
                own.push(key);
            } else {
                users.push((key, value));
            }
        }
        for key in own {
            let set = users.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| *value);
            let none = if key.ends_with(".required") { "false" } else { "" };
            self.settings.winning.push((key.to_string(), set.unwrap_or(none).to_string()));
        }
    }

    /// The folders of repositories that are recorded in this one.
    fn nested(&self) -> Vec<String> {
        let listed = self.ask(["ls-files", "--stage", "-z", "--", "."]).unwrap_or_default();
        let links = listed.split('\0').filter(|entry| entry.starts_with("160000 "));
        links.filter_map(|entry| Some(entry.split_once('\t')?.1.to_string())).collect()
    }

    /// What decides about ignored files and is not a part of the tree: what stands in the repository's own
    /// lists of them.
    fn ignoring(&self) -> Vec<String> {
        let folder = self.top.join(".git");
        // A linked worktree shares the list of its repository, and git knows where that is.
        let is_own = folder.symlink_metadata().is_ok_and(|meta| meta.is_dir())
            && folder.join("commondir").symlink_metadata().is_err();
        let place = if is_own {
            folder.join("info/exclude")
        } else {
            let place = self.ask(["rev-parse", "--git-path", "info/exclude"]).unwrap_or_default();
            self.root.join(place.trim_end())
        };
        let mut patterns = Vec::new();
        for list in [&place].into_iter().chain(&self.settings.excludes) {
            let text = outside::read(list, MAX_SETTINGS).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let is_pattern = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
            patterns.extend(text.lines().filter(is_pattern).map(str::to_string));
        }
        patterns
    }

    /// What git says, or why it does not.
    fn ask<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, String> {
        if let Some(why) = &self.settings.refused {
            return Err(why.clone());
        }
        let output = self.command().args(arguments).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        if output.status.success() {
            let said = String::from_utf8(output.stdout);
            return Ok(
                said.unwrap_or_else(|other| String::from_utf8_lossy(other.as_bytes()).into_owned())
            );
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(if said.is_empty() { output.status.to_string() } else { said })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.root).args(["--no-pager", "--no-optional-locks"]);
        command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
        // Times and sizes that a repository wants to be passed over are looked at.
        command.args(["-c", "core.trustctime=true", "-c", "core.checkStat=default"]);
        // Set by a git hook that runs us, these would point to another repository.
        for variable in [
            "GIT_DIR",
            "GIT_COMMON_DIR",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_NAMESPACE",
            "GIT_PREFIX",
            "GIT_EXTERNAL_DIFF",
        ] {
            command.env_remove(variable);
        }
        command.env("GIT_WORK_TREE", self.top);
        // Where the `.git` is not a repository, an enclosing repository must not answer for it.
        command.env("GIT_CEILING_DIRECTORIES", self.top.parent().unwrap_or(self.top));
        // What a partial clone lacks is not fetched: that would run the transport that it names.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        // After the ones that the environment sets.
        let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok());
        let first: usize = count.unwrap_or(0);
        for (index, (key, value)) in self.settings.winning.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{}", first + index), key);
            command.env(format!("GIT_CONFIG_VALUE_{}", first + index), value);
        }
        command.env("GIT_CONFIG_COUNT", (first + self.settings.winning.len()).to_string());
        command.stdin(Stdio::null());
        command
    }
}
