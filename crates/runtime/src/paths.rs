//! Places in a project: none leads out of it, neither by its name nor through a link.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use phasegate_engine::evidence::{NoEvidence, contained};
use phasegate_engine::glob;

/// A search that meets more files than this is given up.
const MAX_FILES: usize = 100_000;

/// The path in the project, unless it leads out of it. The root is a real path, without links.
///
/// # Errors
/// Refused where the path itself leads out, unreadable where a link on it does: the author of the
/// link must not be able to turn a missing artifact into a fault that opens the gate.
pub fn inside(root: &Path, path: &str) -> Result<PathBuf, NoEvidence> {
    // An absolute path in the project is what it is relative to it.
    let relative = Path::new(path).strip_prefix(root).ok().and_then(Path::to_str);
    let path = relative.filter(|relative| !relative.is_empty()).unwrap_or(path);
    contained(path)?;
    let full = root.join(path);
    // Links are followed as far as the path exists; what does not exist leads nowhere.
    let mut existing = full.as_path();
    let real = loop {
        match existing.canonicalize() {
            Ok(real) => break real,
            // A link whose target is missing would be made there.
            Err(_) if existing.is_symlink() => {
                let why = format!("{path} is a link that leads nowhere");
                return Err(NoEvidence::Unreadable(why));
            }
            Err(_) => match existing.parent() {
                Some(parent) => existing = parent,
                None => return Ok(full),
            },
        }
    };
    if real.starts_with(root) {
        Ok(full)
    } else {
        Err(NoEvidence::Unreadable(format!("{path} leads out of the project through a link")))
    }
}

/// The path as a session means it that works on the tree at `site` for the project at `home`: an absolute one is
/// in the project, another one in that tree.
///
/// # Errors
/// The same as for [`inside`].
pub fn meant(home: &Path, site: &Path, path: &str) -> Result<PathBuf, NoEvidence> {
    inside(if path.starts_with('/') { home } else { site }, path)
}

/// Finds files by pattern below a folder.
pub struct Walk<'r> {
    root: &'r Path,
    found: Vec<String>,
    met: usize,
    /// Whether links that lead out of the project are found too, so that they can be reported.
    with_links_out: bool,
}

impl<'r> Walk<'r> {
    /// A search below `root` for files in the project.
    pub fn new(root: &'r Path) -> Walk<'r> {
        Walk { root, found: Vec::new(), met: 0, with_links_out: false }
    }

    /// A search that also finds links that lead out of the project.
    pub fn with_links_out(root: &'r Path) -> Walk<'r> {
        Walk { with_links_out: true, ..Walk::new(root) }
    }

    /// The files that match, relative to the root, sorted.
    ///
    /// # Errors
    /// Where the pattern leads out of the project, or the search meets far too much.
    pub fn files(mut self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        contained(pattern)?;
        let prefix = glob::fixed_prefix(pattern);
        if prefix == pattern {
            if self.is_file(pattern) {
                self.found.push(pattern.to_string());
            }
            return Ok(self.found);
        }
        if !prefix.is_empty() && !self.is_folder(prefix) {
            return Ok(Vec::new());
        }
        let mut rest: Vec<&str> =
            pattern[prefix.len()..].trim_start_matches('/').split('/').collect();
        rest.dedup_by(|a, b| *a == "**" && *b == "**");
        self.folder(prefix, &rest)?;
        self.found.sort();
        self.found.dedup();
        Ok(self.found)
    }

    fn is_file(&self, path: &str) -> bool {
        match inside(self.root, path) {
            Ok(full) => full.is_file(),
            Err(_) => self.with_links_out && self.root.join(path).is_symlink(),
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        inside(self.root, path).is_ok_and(|full| full.is_dir())
    }

    fn folder(&mut self, folder: &str, pattern: &[&str]) -> Result<(), NoEvidence> {
        let Some((first, rest)) = pattern.split_first() else { return Ok(()) };
        let join = |name: &str| match folder {
            "" => name.to_string(),
            folder => format!("{folder}/{name}"),
        };
        if *first == "**" {
            if rest.is_empty() {
                self.folder(folder, &["*"])?;
            } else {
                self.folder(folder, rest)?;
            }
        } else if !glob::is_pattern(first) {
            let path = join(first);
            if rest.is_empty() && self.is_file(&path) {
                self.found.push(path);
            } else if !rest.is_empty() && self.is_folder(&path) {
                self.folder(&path, rest)?;
            }
            return Ok(());
        }
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else { return Ok(()) };
        for entry in entries.flatten() {
            self.met += 1;
            if self.met > MAX_FILES {
                let why = format!("a search below {folder} finds more than {MAX_FILES} files");
                return Err(NoEvidence::Refused(why));
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            if *first == "**" {
                // Folders behind links are not descended into: they may lead out or in circles.
                if kind.is_dir() && !name.starts_with('.') {
                    self.folder(&join(name), pattern)?;
                }
            } else if glob::component(first, name) {
                let path = join(name);
                let is_link = kind.is_symlink();
                let is_file = kind.is_file() || (is_link && self.is_file(&path));
                let is_folder = kind.is_dir() || (is_link && self.is_folder(&path));
                if rest.is_empty() && is_file {
                    self.found.push(path);
                } else if !rest.is_empty() && is_folder {
                    self.folder(&path, rest)?;
                }
            }
        }
        Ok(())
    }
}

/// Makes git pass over a folder of ours: what is in it belongs to this machine.
pub fn ignored_by_git(folder: &Path) -> io::Result<()> {
    let mark = OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore"));
    match mark {
        Ok(mut mark) => mark.write_all(b"*\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
