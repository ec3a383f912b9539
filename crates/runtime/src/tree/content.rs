//! What a tree is known by: the content of every file that git does not ignore, committed or not. Without
//! git, of every file. It has the name that git would give to a tree of these files as they are, without what
//! filters make of them; the files of a repository in the repository are files like all others.
//!
//! Contents count, not what an index or a clock says about them: anyone who can mark a file as unchanged, or set
//! its time back, must not keep an old result alive. To be fast, the digest of a file is remembered with the
//! file's number, size and times, of which the time of its last change (`ctime`) is the kernel's and cannot
//! be set. Where a file was changed so lately that another change could bear the same time, its digest is not
//! remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use phasegate_engine::digest::digest_of;
use phasegate_engine::glob;

use super::Apart;
use super::memory::{File, Memory, Seen};
use crate::git::names::{self, Entry, Mode, Name};
use crate::git::{self, Paths};
use crate::paths::{self, Walk};

/// How many files are named that cannot be read.
const MAX_NAMED: usize = 3;

/// The content of a tree, or of some of its files.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// What it is known by.
    pub(crate) name: String,
    /// What it is without, and why.
    pub(crate) note: Option<String>,
}

/// A look at a tree: which files it has. What is in them is read once it is asked for.
#[derive(Debug)]
pub(crate) struct Look {
    root: PathBuf,
    /// Where the digests of files are remembered.
    memory: PathBuf,
    /// Of the files that are not apart from the tree, and of those that the workflow has written.
    paths: Arc<Paths>,
    apart: Apart,
    /// Those that are as the workflow has written them, which makes them no part of the tree.
    written: BTreeSet<String>,
    /// What the tree's name must tell and git's would not.
    beside: Vec<String>,
    notes: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    digests: Digests,
    /// What was asked for, by the patterns of the files.
    contents: BTreeMap<Vec<String>, Content>,
}

/// What a look leaves to the next one: the digests of files, the names of the trees that it has seen, and how
/// git is asked.
#[derive(Debug, Default)]
struct Digests {
    files: Memory,
    /// By the patterns of their files. A tree that has not changed is not worked out again: a look that takes the
    /// place of an earlier one mostly finds the same.
    trees: BTreeMap<Vec<String>, (Vec<Option<File>>, Name)>,
    settings: Option<git::Settings>,
}

impl Look {
    /// Looks at the tree at `root`, without what is apart from it; in the place of an earlier look, if there is one.
    ///
    /// # Errors
    /// Where its files cannot be listed.
    pub(super) fn new(
        root: &Path,
        memory: &Path,
        apart: &Apart,
        before: Option<&Look>,
    ) -> Result<Look, String> {
        let before = before.filter(|before| before.is_of(root, memory, apart));
        let (mut notes, mut beside) = (Vec::new(), Vec::new());
        let (listed, mut digests) = listed(root, memory, before);
        let all = || Walk::new(root).files("**").map_err(|why| why.to_string());
        let paths = match listed {
            Ok(Some(files)) => {
                digests.settings = Some(files.settings);
                beside.extend(files.ignoring);
                notes.extend(files.notes);
                files.paths
            }
            Ok(None) => Some(all()?.into_iter().collect()),
            Err(why) => {
                notes.push(format!(
                    "ignored files are a part of it, since git cannot list it ({why})"
                ));
                Some(all()?.into_iter().collect())
            }
        };
        let paths = match (paths, before) {
            (None, Some(before)) => Arc::clone(&before.paths),
            (paths, _) => Arc::new(meant(paths.unwrap_or_default(), apart)),
        };
        let is_listed = |path: &&String| paths.has(path.as_bytes());
        let written = apart.written.0.keys().filter(is_listed);
        let written = written.filter(|path| apart.has_written(root, path)).cloned().collect();
        if before.is_some_and(|it| !Arc::ptr_eq(&it.paths, &paths) || it.written != written) {
            digests.trees.clear();
        }
        let known = Mutex::new(Known { digests, contents: BTreeMap::new() });
        let (root, memory) = (root.to_path_buf(), memory.to_path_buf());
        let apart = apart.clone();
        Ok(Look { root, memory, paths, apart, written, beside, notes, known })
    }

    /// Whether it is a look at the same files, as far as that can be told in advance.
    fn is_of(&self, root: &Path, memory: &Path, apart: &Apart) -> bool {
        let same_files = self.apart.patterns == apart.patterns && self.apart.only == apart.only;
        self.root == root && self.memory == memory && same_files
    }

    /// What it knows, for a later look that takes its place.
    fn hand_over(&self) -> Digests {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut known.digests)
    }

    /// The content of the files that match one of some patterns; of all files where there are none. Patterns
    /// that match no file would make a result that holds forever, so that they mean all files, too.
    pub(crate) fn content(&self, inputs: &[String]) -> Content {
        // A poisoned lock guards a memory, of which nothing is lost but time.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = known.contents.get(inputs) {
            return content.clone();
        }
        let patterns = Patterns::new(inputs);
        let is_meant = |path: &&str| inputs.is_empty() || patterns.fit(path);
        let mut meant: Vec<&str> = self.files().filter(is_meant).collect();
        let mut notes = self.notes.clone();
        if meant.is_empty() && !inputs.is_empty() {
            let named = inputs.join(", ");
            notes.push(format!("no file matches the inputs {named}, so that all files count"));
            meant = self.files().collect();
        }
        let content = self.digest(inputs, &meant, &mut known.digests, notes);
        known.contents.insert(inputs.to_vec(), content.clone());
        content
    }

    /// The files of the tree, in their order.
    fn files(&self) -> impl Iterator<Item = &str> {
        let is_apart = |path: &str| !self.written.is_empty() && self.written.contains(path);
        self.paths.iter().filter(move |path| !is_apart(path))
    }

    /// All files, and these, whether git ignores them or not; with the name of a tree of them.
    pub(super) fn entries(&self, named: &[String]) -> (String, Vec<(String, Mode, Name)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let patterns = Patterns::new(&self.apart.patterns);
        let is_part = |path: &&str| {
            paths::inside(&self.root, path).is_ok()
                && !patterns.fit(path)
                && !self.apart.has_written(&self.root, path)
        };
        let named = named.iter().map(String::as_str).filter(is_part);
        let mut all: Vec<&str> = self.files().chain(named).collect();
        all.sort_unstable();
        all.dedup();
        let seen = self.gather(&all, &mut known.digests.files);
        let files: Vec<Entry> = entries(&all, &seen.files).collect();
        let owned = |(path, mode, digest): &Entry| ((*path).to_string(), *mode, *digest);
        (names::tree(&files).to_string(), files.iter().map(owned).collect())
    }

    /// Files as they are. The paths are sorted.
    fn gather(&self, paths: &[&str], memory: &mut Memory) -> Seen {
        let seen = memory.look(&self.root, paths);
        memory.learn(paths, &seen);
        memory.keep(&self.memory, &self.paths);
        seen
    }

    fn digest(
        &self,
        inputs: &[String],
        paths: &[&str],
        digests: &mut Digests,
        mut notes: Vec<String>,
    ) -> Content {
        let Seen { files, unread, .. } = self.gather(paths, &mut digests.files);
        let mut beside = self.beside.clone();
        beside.extend(unread.iter().map(|(at, mark, _)| format!("{} {mark:?}", paths[*at])));
        let mut unread: Vec<String> =
            unread.iter().map(|(at, _, error)| format!("{} ({error})", paths[*at])).collect();
        if !unread.is_empty() {
            let more = unread.len().saturating_sub(MAX_NAMED);
            unread.truncate(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!(
                "what cannot be read is not a part of it: {}{more}",
                unread.join(", ")
            ));
        }
        let name = match digests.trees.get(inputs) {
            Some((known, name)) if *known == files => *name,
            _ => {
                let name = names::tree(&entries(paths, &files).collect::<Vec<_>>());
                digests.trees.insert(inputs.to_vec(), (files, name));
                name
            }
        };
        let mut name = name.to_string();
        if !beside.is_empty() {
            let all = [&name].into_iter().chain(&beside).map(String::as_bytes);
            name = digest_of(all);
            name.truncate(40);
        }
        Content { name, note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }

    /// Whether a file of the tree matches a pattern.
    pub(crate) fn has(&self, pattern: &str) -> bool {
        let pattern = [pattern.to_string()];
        let pattern = Patterns::new(&pattern);
        self.files().any(|path| pattern.fit(path))
    }

    /// Everything that was asked for, by the patterns of the files.
    pub(super) fn contents(&self) -> BTreeMap<Vec<String>, Content> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contents.clone()
    }
}

/// The files that were found at some paths.
fn entries<'p>(
    paths: &'p [&str],
    files: &'p [Option<File>],
) -> impl Iterator<Item = Entry<'p>> + 'p {
    let found = paths.iter().zip(files);
    found.filter_map(|(path, file)| file.map(|(mode, digest)| (*path, mode, digest)))
}

/// Those of some paths that are not apart from the tree by their names.
fn meant(mut paths: Paths, apart: &Apart) -> Paths {
    let (patterns, only) = (Patterns::new(&apart.patterns), Patterns::new(&apart.only));
    paths.retain(|path| (apart.only.is_empty() || only.fit(path)) && !patterns.fit(path));
    paths
}

/// What git lists, and the digests that are known: those of an earlier look, if there is one. To ask about the
/// files of a large tree takes about as long as git takes to list them, so both are done at once.
fn listed(
    root: &Path,
    memory: &Path,
    before: Option<&Look>,
) -> (Result<Option<git::Files>, String>, Digests) {
    let mut known = before.map(Look::hand_over).unwrap_or_default();
    let settings = known.settings.take();
    let list = || git::files(root, settings, before.map(|before| &*before.paths));
    let remember = |known: &mut Digests| {
        if before.is_none() {
            known.files = Memory::read(memory);
        }
    };
    if !Memory::is_large(memory) {
        remember(&mut known);
        known.files.forget_the_present();
        return (list(), known);
    }
    std::thread::scope(|scope| {
        let files = scope.spawn(list);
        remember(&mut known);
        known.files.ask_in_advance(root);
        let files = files.join().unwrap_or_else(|_| Err("the listing failed".into()));
        (files, known)
    })
}

/// Patterns of paths. Most paths differ from most patterns in their beginning, which is cheap to see.
pub(super) struct Patterns<'p>(Vec<(&'p str, &'p String)>);

impl Patterns<'_> {
    pub(super) fn new(patterns: &[String]) -> Patterns<'_> {
        Patterns(patterns.iter().map(|it| (glob::fixed_prefix(it), it)).collect())
    }

    pub(super) fn fit(&self, path: &str) -> bool {
        let fits = |(prefix, pattern): &(&str, &String)| {
            path.starts_with(prefix) && glob::matches(pattern, path)
        };
        self.0.iter().any(fits)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn git(root: &Path, arguments: &[&str]) -> String {
        let said = Command::new("git").args(arguments).current_dir(root).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_string()
    }

    /// So many files are remembered that they are asked about while git lists.
    #[test]
    fn a_large_tree_is_never_taken_for_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (root, memory) = (folder.path().join("tree"), folder.path().join("memory"));
        fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "-q"]);
        for number in 0..1_200 {
            fs::create_dir_all(root.join((number / 100).to_string())).unwrap();
            fs::write(root.join(format!("{}/{number}", number / 100)), "one").unwrap();
        }
        // Until times tell that a file is the same.
        std::thread::sleep(Duration::from_millis(2_200));
        let look =
            |before: Option<&Look>| Look::new(&root, &memory, &Apart::default(), before).unwrap();
        let true_name = || {
            git(&root, &["add", "-A"]);
            git(&root, &["write-tree"])
        };
        let first = look(None);
        assert_eq!(first.content(&[]).name, true_name());
        assert!(Memory::is_large(&memory));
        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(root.join("3/301"), "two").unwrap(),
            &|| fs::write(root.join("3/new"), "new").unwrap(),
            &|| fs::remove_file(root.join("4/404")).unwrap(),
            &|| fs::rename(root.join("5/505"), root.join("5/506")).unwrap(),
            &|| fs::remove_dir_all(root.join("6")).unwrap(),
        ];
        let mut before = first;
        for change in changes {
            change();
            let (fresh, after) = (look(None), look(Some(&before)));
            let name = after.content(&[]).name;
            assert_ne!(name, before.content(&[]).name);
            assert_eq!(name, fresh.content(&[]).name);
            assert_eq!(name, true_name());
            let again = look(Some(&after));
            assert_eq!(again.content(&[]).name, name);
            before = again;
        }
    }

    /// Git says the same about a recorded repository, whether it is there or not.
    #[test]
    fn a_repository_that_comes_back_is_seen_by_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let (root, memory) = (folder.path().join("tree"), folder.path().join("memory"));
        let inner = root.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "one").unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        for at in [&root, &inner] {
            git(at, &["init", "-q"]);
        }
        git(&inner, &["add", "file"]);
        git(&inner, &[who.as_slice(), &["commit", "-qm", "one"]].concat());
        git(&root, &["add", "inner"]);
        fs::rename(inner.join(".git"), folder.path().join("away")).unwrap();
        let look =
            |before: Option<&Look>| Look::new(&root, &memory, &Apart::default(), before).unwrap();
        let first = look(None);
        assert!(!first.has("inner/file"));
        fs::rename(folder.path().join("away"), inner.join(".git")).unwrap();
        assert!(look(Some(&first)).has("inner/file"));
    }

    #[test]
    fn what_a_workflow_has_written_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let (root, memory) = (folder.path().join("tree"), folder.path().join("memory"));
        fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "-q"]);
        let mut apart = Apart::default();
        for report in ["x", "y"] {
            apart.written.note(report, phasegate_engine::digest::digest(b"written"));
        }
        let write = |x: &str, y: &str| {
            fs::write(root.join("x"), x).unwrap();
            fs::write(root.join("y"), y).unwrap();
        };
        let look = |before: Option<&Look>| Look::new(&root, &memory, &apart, before).unwrap();
        write("written", "changed");
        let first = look(None);
        assert!(!first.has("x") && first.has("y"));
        let name = first.content(&[]).name;
        // The same content, at another path.
        write("changed", "written");
        let second = look(Some(&first));
        assert!(second.has("x") && !second.has("y"));
        assert_ne!(second.content(&[]).name, name);
        write("written", "changed");
        assert_eq!(look(Some(&second)).content(&[]).name, name);
    }
}
