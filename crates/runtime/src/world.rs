//! Evidence from the disk, the clock, the environment and the client's payload.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use phasegate_engine::evidence::{Evidence, NoEvidence, contained};
use phasegate_engine::glob;

use crate::transcript;

/// A file larger than this is no evidence.
const MOST_BYTES: u64 = 64 << 20;

/// A search that meets more files than this is given up.
const MOST_FILES: usize = 200_000;

/// What the client told about the agent.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The last message, where the payload has it.
    pub last_message: Option<String>,
    /// The transcript's file.
    pub transcript: Option<PathBuf>,
}

/// The world as seen from a project.
#[derive(Debug)]
pub struct World {
    root: PathBuf,
    told: Told,
    turn: OnceLock<Vec<String>>,
}

impl World {
    /// The world of the project at `root`.
    pub fn new(root: &Path, told: Told) -> World {
        World { root: root.to_path_buf(), told, turn: OnceLock::new() }
    }
}

/// The path in the project, unless it leads out of it.
///
/// # Errors
/// A sentence that says why not.
pub fn inside(root: &Path, path: &str) -> Result<PathBuf, String> {
    contained(path).map_err(|refused| match refused {
        NoEvidence::Refused(why) | NoEvidence::Unreadable(why) => why,
    })?;
    let full = root.join(path);
    // Links are followed as far as the path exists; what does not exist leads nowhere.
    let mut existing = full.as_path();
    let real = loop {
        match existing.canonicalize() {
            Ok(real) => break real,
            Err(_) => match existing.parent() {
                Some(parent) => existing = parent,
                None => return Ok(full),
            },
        }
    };
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    if real.starts_with(&root) {
        Ok(full)
    } else {
        Err(format!("the path {path:?} leads out of the project through a link"))
    }
}

/// Finds files by pattern below a folder.
pub struct Walk<'r> {
    root: &'r Path,
    found: Vec<String>,
}

impl<'r> Walk<'r> {
    /// A search below `root`.
    pub fn new(root: &'r Path) -> Walk<'r> {
        Walk { root, found: Vec::new() }
    }

    /// The files that match, relative to the root, sorted.
    ///
    /// # Errors
    /// A sentence, where the pattern leads out of the project or matches far too much.
    pub fn files(mut self, pattern: &str) -> Result<Vec<String>, String> {
        let prefix = glob::fixed_prefix(pattern);
        if prefix == pattern {
            let path = inside(self.root, pattern)?;
            return Ok(if path.is_file() { vec![pattern.to_string()] } else { Vec::new() });
        }
        if !prefix.is_empty() && !inside(self.root, prefix)?.is_dir() {
            return Ok(Vec::new());
        }
        let rest: Vec<&str> = pattern[prefix.len()..].trim_start_matches('/').split('/').collect();
        self.folder(prefix, &rest)?;
        self.found.sort();
        self.found.dedup();
        Ok(self.found)
    }

    fn folder(&mut self, folder: &str, pattern: &[&str]) -> Result<(), String> {
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
            let full = inside(self.root, &path)?;
            if rest.is_empty() {
                if full.is_file() {
                    self.keep(path)?;
                }
            } else if full.is_dir() {
                self.folder(&path, rest)?;
            }
            return Ok(());
        }
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else { return Ok(()) };
        for entry in entries.flatten() {
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
                let (is_file, is_dir) = if kind.is_symlink() {
                    match inside(self.root, &path) {
                        Ok(full) => (full.is_file(), full.is_dir()),
                        Err(_) => (false, false),
                    }
                } else {
                    (kind.is_file(), kind.is_dir())
                };
                if rest.is_empty() && is_file {
                    self.keep(path)?;
                } else if !rest.is_empty() && is_dir {
                    self.folder(&path, rest)?;
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, path: String) -> Result<(), String> {
        self.found.push(path);
        if self.found.len() > MOST_FILES {
            return Err(format!("the pattern matches more than {MOST_FILES} files"));
        }
        Ok(())
    }
}

impl Evidence for World {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, NoEvidence> {
        let full = inside(&self.root, path).map_err(NoEvidence::Refused)?;
        match fs::metadata(&full) {
            Ok(meta) if meta.is_dir() => Ok(None),
            Ok(meta) if meta.len() > MOST_BYTES => Err(NoEvidence::Unreadable(format!(
                "{path} has {} MB, which is too large",
                meta.len() >> 20
            ))),
            Ok(meta) if !meta.is_file() => {
                Err(NoEvidence::Unreadable(format!("{path} is no ordinary file")))
            }
            Ok(_) => match fs::read(&full) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => Err(NoEvidence::Unreadable(format!("cannot read {path}: {error}"))),
            },
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(NoEvidence::Unreadable(format!("cannot read {path}: {error}"))),
        }
    }

    fn list(&self, pattern: &str) -> Result<Vec<String>, NoEvidence> {
        Walk::new(&self.root).files(pattern).map_err(NoEvidence::Refused)
    }

    fn modified(&self, path: &str) -> Result<Option<Timestamp>, NoEvidence> {
        let full = inside(&self.root, path).map_err(NoEvidence::Refused)?;
        let time = fs::metadata(&full).ok().and_then(|meta| meta.modified().ok());
        Ok(time.and_then(|time| Timestamp::try_from(time).ok()))
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn last_message(&self) -> Option<String> {
        match &self.told.last_message {
            Some(message) => Some(message.clone()),
            None => self.turn().pop(),
        }
    }

    fn turn(&self) -> Vec<String> {
        let turn = self.turn.get_or_init(|| {
            let mut turn = match &self.told.transcript {
                Some(path) => transcript::current_turn(path),
                None => Vec::new(),
            };
            // The transcript lags behind the payload: the last message may not be in it yet.
            if let Some(message) = &self.told.last_message
                && turn.last() != Some(message)
            {
                turn.push(message.clone());
            }
            turn
        });
        turn.clone()
    }
}
