//! Trees that are kept, so that what has changed since can be told, whatever was committed meanwhile.
//!
//! They are kept as git objects in a store of our own, which borrows what the repository has already: its
//! objects are never written to, its settings and attributes are not read, and no filter runs. A tree has the name
//! that [`content`](super::content) gives it. Names are those of contents, so nobody can change what a name
//! stands for; where an object has been deleted, git says so, and the changes cannot be told.

mod sent;
mod unused;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use phasegate_engine::changes::{Changed, Changes};
use phasegate_engine::digest::digest;

use super::Tree;
use crate::git::names::{Mode, Name};
use crate::outside::{self, MAX_SETTINGS};
use crate::{git, paths};

pub(crate) use unused::{remove_unused, unused_bytes};

/// Where they are kept.
pub(crate) const FOLDER: &str = ".phasegate/kept";

/// How many files are handed to git at once.
const BATCH: usize = 200;

/// The name, in git, of a tree without files.
const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The trees that a project keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    place: PathBuf,
    /// Held by all who keep or compare trees, and by the one who removes some.
    _lock: File,
}

impl Tree {
    /// Keeps the files as they are now, and those at paths that git ignores; what they are kept under, none where
    /// they are in no repository.
    ///
    /// # Errors
    /// Why they cannot be kept, in words for people.
    pub(crate) fn keep(&self, beside: &[String]) -> Result<Option<String>, String> {
        if git::top(&self.root).is_none() {
            return Ok(None);
        }
        let kept = Kept::open(&self.home)?;
        kept.borrow(&self.root)?;
        let entries = self.entries(beside)?.1;
        let asked: Vec<String> = entries.iter().map(|(_, _, digest)| digest.to_string()).collect();
        let known = kept.ask(&["cat-file", "--batch-check"], asked.join("\n").as_bytes())?;
        let known = String::from_utf8_lossy(&known);
        let missing = entries.iter().zip(known.lines()).filter(|(_, it)| it.ends_with(" missing"));
        self.store(&kept, missing.map(|(entry, _)| entry))?;
        kept.tree(&entries).map(Some)
    }

    /// What has changed since the files were kept.
    ///
    /// # Errors
    /// Why it cannot be told, in words for people.
    pub(crate) fn changes(&self, base: &str, beside: &[String]) -> Result<Changes, String> {
        let kept = Kept::open(&self.home)?;
        let (now, entries) = self.entries(beside)?;
        if now == base {
            return Ok(Changes { tree: now, digest: digest(b""), files: Vec::new() });
        }
        let known = kept.listed(base)?;
        let is_new =
            |entry: &&Entry| known.get(&entry.0).is_none_or(|it| *it != entry.2.to_string());
        self.store(&kept, entries.iter().filter(is_new))?;
        let tree = kept.tree(&entries)?;
        let stat =
            kept.ask(&["diff-tree", "-r", "-z", "--no-renames", "--numstat", base, &tree], b"")?;
        let stat = String::from_utf8_lossy(&stat);
        let files = stat.split_terminator('\0').filter_map(|row| {
            let mut parts = row.splitn(3, '\t');
            let (added, removed) = (parts.next()?.parse().ok(), parts.next()?.parse().ok());
            Some(Changed { path: parts.next()?.to_string(), added, removed })
        });
        let files = files.collect();
        Ok(Changes { digest: digest(&kept.patch(base, &tree)?), tree, files })
    }

    /// What the files are known by now, and each of them.
    fn entries(&self, beside: &[String]) -> Result<(String, Vec<Entry>), String> {
        Ok(self.look()?.entries(beside))
    }

    /// Puts the contents of files into the store.
    fn store<'e>(
        &self,
        kept: &Kept,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<(), String> {
        let (links, files): (Vec<&Entry>, Vec<&Entry>) = entries.partition(|it| it.1 == Mode::Link);
        for (path, ..) in links {
            let target = fs::read_link(self.root.join(path));
            let target = target.map_err(|error| format!("{path}: {error}"))?;
            let target = target.as_os_str().as_encoded_bytes();
            kept.ask(&["hash-object", "-w", "--stdin"], target)?;
        }
        for files in files.chunks(BATCH) {
            let full = files.iter().map(|(path, ..)| self.root.join(path));
            let mut command = kept.command();
            command.args(["hash-object", "-w", "--no-filters", "--"]).args(full);
            said(command, b"")?;
        }
        Ok(())
    }
}

/// The path of a file, its mode and its digest.
type Entry = (String, Mode, Name);

impl Kept {
    /// The trees of the project at `home`.
    ///
    /// # Errors
    /// Where there is no place for them.
    pub(crate) fn open(home: &Path) -> Result<Kept, String> {
        Kept::locked(home, File::lock_shared)
    }

    /// The same, while nobody else keeps or compares trees.
    fn alone(home: &Path) -> Result<Kept, String> {
        Kept::locked(home, File::lock)
    }

    fn locked(home: &Path, lock: impl Fn(&File) -> std::io::Result<()>) -> Result<Kept, String> {
        let place = paths::inside(home, FOLDER).map_err(|why| why.to_string())?;
        let made = || {
            fs::create_dir_all(place.join("objects/info"))?;
            fs::create_dir_all(place.join("refs"))?;
            paths::ignored_by_git(&place)?;
            if !place.join("HEAD").exists() {
                fs::write(place.join("config"), "[core]\n\tbare = true\n")?;
                fs::write(place.join("HEAD"), "ref: refs/heads/none\n")?;
            }
            let mut options = OpenOptions::new();
            let file = outside::open_with(options.create(true).append(true), &place.join("lock"))?;
            // Not every file system has locks.
            let _ = lock(&file);
            Ok(file)
        };
        let made = made().map_err(|error: std::io::Error| format!("{}: {error}", place.display()));
        Ok(Kept { _lock: made?, place })
    }

    /// Has what the repository of a folder has: nothing of that is stored twice.
    fn borrow(&self, root: &Path) -> Result<(), String> {
        let Some(objects) = git::objects(root) else { return Ok(()) };
        let place = self.place.join("objects/info/alternates");
        let known = outside::read_text(&place, MAX_SETTINGS).unwrap_or_default();
        let own = objects.to_string_lossy();
        if known.lines().any(|line| line == own) {
            return Ok(());
        }
        fs::write(&place, format!("{known}{own}\n")).map_err(|error| error.to_string())
    }

    /// The files of a tree, by path, with their digests.
    fn listed(&self, tree: &str) -> Result<HashMap<String, String>, String> {
        let listed = self.ask(&["ls-tree", "-r", "-z", named(tree)?], b"")?;
        let listed = String::from_utf8_lossy(&listed);
        let rows = listed.split_terminator('\0').filter_map(|row| {
            let (facts, path) = row.split_once('\t')?;
            Some((path.to_string(), facts.rsplit(' ').next()?.to_string()))
        });
        Ok(rows.collect())
    }

    /// Makes a tree of files whose contents are stored.
    fn tree(&self, entries: &[Entry]) -> Result<String, String> {
        let mut listed = Vec::new();
        for (path, mode, digest) in entries {
            listed.extend_from_slice(format!("{mode} {digest}\t{path}\0").as_bytes());
        }
        let index = Index::new(self);
        index.ask(&["update-index", "-z", "--index-info"], &listed)?;
        index.tree()
    }

    /// The patch that leads from one tree to another.
    ///
    /// # Errors
    /// What git says where one of them is not there.
    pub(crate) fn patch(&self, from: &str, to: &str) -> Result<Vec<u8>, String> {
        let options = ["-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color"];
        let mut command = self.command();
        command.arg("diff-tree").args(options).args([named(from)?, named(to)?]);
        said(command, b"")
    }

    /// What a tree becomes with a patch applied; none where it does not apply.
    ///
    /// # Errors
    /// What git says where the tree is not there.
    pub(crate) fn applied(&self, base: &str, patch: &[u8]) -> Result<Option<String>, String> {
        let index = Index::new(self);
        index.ask(&["read-tree", named(base)?], b"")?;
        match index.ask(&["apply", "--cached", "--whitespace=nowarn", "-"], patch) {
            Ok(_) => index.tree().map(Some),
            Err(_) => Ok(None),
        }
    }

    fn ask(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let mut command = self.command();
        command.args(arguments);
        said(command, input)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"GIT_") {
                command.env_remove(variable);
            }
        }
        command.env("GIT_DIR", &self.place).env("LC_ALL", "C");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_ATTR_NOSYSTEM", "1");
        command.args(["-c", "core.quotePath=false", "-c", "core.hooksPath=/dev/null"]);
        // Git looks for attributes in the folder where it runs.
        command.current_dir(&self.place);
        command
    }
}

/// An index of its own, for one use.
struct Index<'k> {
    kept: &'k Kept,
    file: PathBuf,
}

impl Index<'_> {
    fn new(kept: &Kept) -> Index<'_> {
        // A server looks at several runs at once.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = kept.place.join(format!("index.{}.{number}", std::process::id()));
        let _ = fs::remove_file(&file);
        Index { kept, file }
    }

    fn ask(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let mut command = self.kept.command();
        command.env("GIT_INDEX_FILE", &self.file).args(arguments);
        said(command, input)
    }

    /// The tree of what is in it.
    fn tree(&self) -> Result<String, String> {
        if !self.file.exists() {
            // Git makes no index of nothing.
            self.kept.ask(&["hash-object", "-t", "tree", "-w", "--stdin"], b"")?;
            return Ok(EMPTY.into());
        }
        let tree = self.ask(&["write-tree"], b"")?;
        Ok(String::from_utf8_lossy(&tree).trim_end().to_string())
    }
}

impl Drop for Index<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// A tree's name, unless it is not one: it comes from a document that others can write.
fn named(tree: &str) -> Result<&str, String> {
    let is_name = tree.len() == 40 && tree.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_name {
        Ok(tree)
    } else {
        Err(format!("{tree:?} is not the name of files that were kept"))
    }
}

/// What git prints, or why it does not.
fn said(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut git = command.spawn().map_err(|error| format!("cannot run git: {error}"))?;
    let stdin = git.stdin.take();
    let output = std::thread::scope(|scope| {
        // Git may print before it has read everything.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        git.wait_with_output()
    });
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(if why.is_empty() { output.status.to_string() } else { why })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::super::Apart;
    use super::*;

    fn git(root: &Path, arguments: &[&str]) {
        let mut command = Command::new("git");
        let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        command.arg("-C").arg(root).args(who).args(arguments).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    }

    fn paths(changes: &Changes) -> Vec<&str> {
        changes.files.iter().map(|file| file.path.as_str()).collect()
    }

    /// A repository with a committed file, one that is changed and one that is new.
    fn repository() -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        git(&root, &["init", "-q"]);
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/a.txt"), "one\ntwo\n").unwrap();
        fs::write(root.join(".gitattributes"), "*.txt eol=crlf diff=none -text\n").unwrap();
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-qm", "a"]);
        fs::write(root.join("dirty.txt"), "mine\n").unwrap();
        let patterns = vec![".phasegate/**".into()];
        let tree = Tree::new(&root, &root, Apart { patterns, ..Apart::default() });
        (folder, tree)
    }

    #[test]
    fn a_change_is_told_whether_it_was_committed_or_not() {
        let (folder, tree) = repository();
        let root = folder.path();
        fs::write(root.join(".git/info/exclude"), "ignored\n").unwrap();
        let base = tree.keep(&[]).unwrap().unwrap();
        assert_eq!(tree.changes(&base, &[]).unwrap().files, []);
        fs::write(root.join("ignored"), "x\n").unwrap();
        assert_eq!(tree.changes(&base, &[]).unwrap().files, []);
        let named = ["ignored".to_string(), "../out".to_string(), "src/a.txt".to_string()];
        assert_eq!(paths(&tree.changes(&base, &named).unwrap()), ["ignored"]);
        fs::write(root.join("src/a.txt"), "one\nzwei\ndrei\n").unwrap();
        git(root, &["commit", "-qam", "b"]);
        fs::write(root.join("latin"), b"\xe4\n").unwrap();
        fs::write(root.join("binary"), b"\0\x01").unwrap();
        fs::remove_file(root.join("dirty.txt")).unwrap();
        std::os::unix::fs::symlink("src", root.join("link")).unwrap();
        let changes = tree.changes(&base, &[]).unwrap();
        assert_eq!(paths(&changes), ["binary", "dirty.txt", "latin", "link", "src/a.txt"]);
        let lines: Vec<_> = changes.files.iter().map(|it| (it.added, it.removed)).collect();
        let some = |added, removed| (Some(added), Some(removed));
        assert_eq!(lines, [(None, None), some(0, 1), some(1, 0), some(1, 0), some(2, 1)]);
        // The patch is what it says, and leads to the files as they are.
        let kept = Kept::open(&tree.home).unwrap();
        let patch = kept.patch(&base, &changes.tree).unwrap();
        assert_eq!(digest(&patch), changes.digest);
        assert_eq!(kept.applied(&base, &patch).unwrap(), Some(changes.tree.clone()));
        assert_eq!(phasegate_engine::patch::files(&patch), paths(&changes));
        assert_eq!(kept.applied(&changes.tree, &patch).unwrap(), None, "it is applied already");
    }

    #[test]
    fn nothing_of_the_repository_is_written_or_run() {
        let (folder, tree) = repository();
        let root = folder.path();
        git(root, &["config", "diff.none.command", "touch ran"]);
        git(root, &["config", "filter.x.clean", "touch ran"]);
        fs::write(root.join(".gitattributes"), "*.txt filter=x diff=none\n").unwrap();
        let count = || walk(&root.join(".git/objects"));
        let before = count();
        let base = tree.keep(&[]).unwrap().unwrap();
        fs::write(root.join("src/a.txt"), "three\n").unwrap();
        assert_eq!(paths(&tree.changes(&base, &[]).unwrap()), ["src/a.txt"]);
        assert_eq!(count(), before);
        assert!(!root.join("ran").exists());
        // What the repository has is borrowed.
        assert!(walk(&root.join(".phasegate/kept/objects")) < 12);
    }

    fn walk(folder: &Path) -> usize {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        let (folder, tree) = repository();
        assert!(tree.changes("--output=/tmp/x", &[]).unwrap_err().contains("is not the name"));
        assert!(tree.changes(&"0".repeat(40), &[]).is_err());
        let bare = tempfile::tempdir().unwrap();
        let root = bare.path().canonicalize().unwrap();
        assert_eq!(Tree::new(&root, &root, Apart::default()).keep(&[]), Ok(None));
        drop(folder);
    }
}
