//! The project's tree on this machine, as far as runs write in it: their state documents, where a workflow
//! keeps them in files, and the files that rules write, append to and move. What rules only look at is
//! [`world`](crate::world)'s.

mod documents;
pub mod frontmatter;
pub mod place;
pub mod topics;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use phasegate_engine::json::Json;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::fault_point;
use crate::outside;
use crate::paths::inside;
use crate::store::{StoreError, Stored, Version};
use crate::whole_file::{self, NewFile, failed};
use place::Place;
use topics::Topic;

pub use documents::Documents;

/// The tree of a project.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
    /// A larger document is refused.
    most: u64,
}

/// A new state document that lies ready beside the old one. Where it is not put, nothing is left of it.
pub struct Prepared {
    kind: Kind,
    file: NewFile,
    version: Version,
}

enum Kind {
    File,
    Frontmatter(PathBuf),
    /// A message of a topic: the file is only where it lies ready.
    Message {
        topic: Topic,
        expected: Option<Version>,
        message: Message,
    },
}

/// A message that lies ready.
#[derive(Serialize, Deserialize)]
struct Message {
    id: String,
    body: String,
}

impl Prepared {
    /// The version that the document will have.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// What will be read there.
    pub fn stored(&self) -> Result<Stored, StoreError> {
        let bytes = match &self.kind {
            Kind::File => self.file.bytes()?,
            Kind::Frontmatter(path) => frontmatter_of(path, &self.file.bytes()?)?,
            Kind::Message { message, .. } => message.body.clone().into_bytes(),
        };
        Ok(Stored { bytes, version: self.version.clone() })
    }

    /// Leaves it where it is, because readers change nothing.
    pub fn leave(self) {
        self.file.leave();
    }

    /// Puts it in its place, whole or not at all, if the old one is still what was expected.
    pub fn put(self) -> Result<(), StoreError> {
        match self.kind {
            Kind::File | Kind::Frontmatter(_) => self.file.put(),
            Kind::Message { topic, expected, message } => {
                let expected = expected.as_ref().map(Version::as_str);
                let posted = topic.post(expected, &message.id, &message.body);
                if !posted.map_err(failed("write", topic.folder()))? {
                    return Err(StoreError::Conflict(topic.folder().display().to_string()));
                }
                Ok(())
            }
        }
    }
}

impl Workspace {
    /// The tree of the project at `root`, whose documents have at most so many bytes.
    pub fn new(root: &Path, most: u64) -> Workspace {
        Workspace { root: root.to_path_buf(), most }
    }

    /// How many bytes a document may have.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The file at a place; of a topic, its folder.
    fn path(&self, place: &str) -> Result<PathBuf, StoreError> {
        match Place::of(place) {
            Place::Store(_) => Err(StoreError::Refused(format!("{place} is not a file"))),
            place => Ok(inside(&self.root, place.path())?),
        }
    }

    fn topic(&self, folder: &Path, name: &str) -> Topic {
        Topic::new(&self.root, folder.to_path_buf(), name)
    }

    /// Whether nothing is at a path, told without following links: most workflows have no run.
    fn is_missing(&self, path: &str) -> bool {
        let found = self.root.join(path).symlink_metadata();
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// The document at a place, as JSON; none where there is none.
    pub fn get(&self, place: &str) -> Result<Option<Stored>, StoreError> {
        let path = self.path(place)?;
        match Place::of(place) {
            Place::Topic(_, topic) => {
                let message = self.topic(&path, topic).latest().map_err(failed("read", &path))?;
                Ok(message.map(|message| Stored {
                    bytes: message.body.into_bytes(),
                    version: Version::new(message.id),
                }))
            }
            Place::Frontmatter(_) => {
                let Some(stored) = whole_file::read(&path, self.most)? else { return Ok(None) };
                let bytes = frontmatter_of(&path, &stored.bytes)?;
                Ok(Some(Stored { bytes, ..stored }))
            }
            Place::File(_) | Place::Store(_) => whole_file::read(&path, self.most),
        }
    }

    /// The version of the document at a place.
    pub fn version(&self, place: &str) -> Result<Option<Version>, StoreError> {
        if self.is_missing(Place::of(place).path()) {
            return Ok(None);
        }
        let path = self.path(place)?;
        match Place::of(place) {
            Place::Topic(_, topic) => {
                let message = self.topic(&path, topic).latest().map_err(failed("read", &path))?;
                Ok(message.map(|message| Version::new(message.id)))
            }
            _ => whole_file::version_of(&path),
        }
    }

    /// Gets a new document ready: whatever can fail for want of room or rights fails now, and nobody sees
    /// it yet. It replaces one that is what `expected` says (`None`: absent).
    pub fn prepare(
        &self,
        place: &str,
        expected: Option<&Version>,
        bytes: &[u8],
    ) -> Result<Prepared, StoreError> {
        let path = self.path(place)?;
        let expected = expected.cloned();
        match Place::of(place) {
            Place::File(_) | Place::Store(_) => {
                let file = NewFile::write(&path, expected, bytes)?;
                let version = file.version().clone();
                Ok(Prepared { kind: Kind::File, file, version })
            }
            Place::Frontmatter(_) => {
                let object = serde_json::from_slice(bytes);
                let object = object.map_err(|error| StoreError::Refused(error.to_string()))?;
                let old = String::from_utf8(match outside::read(&path, self.most) {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                    Err(error) => return Err(failed("read", &path)(error)),
                });
                let old = old.map_err(|_| {
                    StoreError::Refused(format!("{} is not UTF-8 text", path.display()))
                })?;
                let text = frontmatter::write(&old, &object).into_bytes();
                let file = NewFile::write(&path, expected, &text)?;
                let version = file.version().clone();
                Ok(Prepared { kind: Kind::Frontmatter(path), file, version })
            }
            Place::Topic(_, topic) => {
                let body = Json::parse(bytes).map(|body| body.to_text(None));
                let body = body.map_err(|error| StoreError::Refused(error.to_string()))?;
                let id = topics::new_id().map_err(failed("write", &path))?;
                let message = Message { id, body: body.trim_end().to_string() };
                let text = serde_json::to_vec(&message)
                    .map_err(|error| StoreError::Refused(error.to_string()))?;
                let file = NewFile::write(&ready(&path, topic), None, &text)?;
                Ok(message_ready(self.topic(&path, topic), expected, message, file))
            }
        }
    }

    /// The new document that a process left which died before it could put it in its place.
    pub fn left_behind(&self, place: &str) -> Option<Prepared> {
        let path = self.root.join(Place::of(place).path());
        match Place::of(place) {
            Place::Store(_) => None,
            Place::Topic(_, topic) => {
                let file = NewFile::left_behind(&ready(&path, topic))?;
                let path = self.path(place).ok()?;
                let bytes = file.bytes().ok().unwrap_or_default();
                let Ok(message) = serde_json::from_slice(&bytes) else {
                    // The next message that lies ready takes its place.
                    file.leave();
                    return None;
                };
                let expected = self.topic(&path, topic).latest().ok()?;
                let expected = expected.map(|message| Version::new(message.id));
                Some(message_ready(self.topic(&path, topic), expected, message, file))
            }
            kind @ (Place::File(_) | Place::Frontmatter(_)) => {
                let file = NewFile::left_behind(&path)?;
                let path = self.path(place).ok()?;
                let version = file.version().clone();
                let kind = match kind {
                    Place::Frontmatter(_) => Kind::Frontmatter(path),
                    _ => Kind::File,
                };
                Some(Prepared { kind, file, version })
            }
        }
    }

    /// Removes a document, if it is still what `expected` says.
    pub fn remove(&self, place: &str, expected: &Version) -> Result<(), StoreError> {
        let path = self.path(place)?;
        if let Place::Topic(..) = Place::of(place) {
            let message = format!("{}: messages are never removed", path.display());
            return Err(StoreError::Refused(message));
        }
        whole_file::remove(&path, expected)
    }

    /// Moves a document that cannot be understood out of the way; where to. Where every value is kept
    /// anyway, it stays, and the next one comes after it.
    pub fn set_aside(&self, place: &str) -> Result<String, StoreError> {
        let path = self.path(place)?;
        match Place::of(place) {
            Place::Topic(..) => Ok(path.display().to_string()),
            _ => whole_file::set_aside(&path),
        }
    }

    /// Whether there is a file.
    pub fn has(&self, path: &str) -> Result<bool, StoreError> {
        Ok(whole_file::version_of(&self.file(path)?)?.is_some())
    }

    /// Writes a file, whole or not at all, or a message of a topic.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if let Place::Topic(..) = Place::of(path) {
            let before = self.version(path)?;
            return self.prepare(path, before.as_ref(), bytes)?.put();
        }
        let path = self.file(path)?;
        let before = whole_file::version_of(&path)?;
        NewFile::write(&path, before, bytes)?.put()
    }

    /// Adds a line to a file, made where there is none.
    pub fn append(&self, path: &str, line: &str) -> Result<(), StoreError> {
        let path = self.file(path)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fault_point::reach("before-transcript");
        let file = outside::open_with(OpenOptions::new().create(true).append(true), &path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(failed("write", &path))
    }

    /// Moves what is at a path to another, where nothing may be yet. What is not there is not moved.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let (old, new) = (self.file(from)?, self.file(to)?);
        if old.symlink_metadata().is_err() {
            return Ok(());
        }
        if let Some(folder) = new.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fault_point::reach("before-move");
        match renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                Err(StoreError::Refused(format!("{to} exists, so {from} is not moved there")))
            }
            Err(error) => Err(failed("move", &old)(error.into())),
        }
    }

    fn file(&self, path: &str) -> Result<PathBuf, StoreError> {
        Ok(inside(&self.root, path)?)
    }
}

/// The frontmatter of a Markdown file, as JSON.
fn frontmatter_of(path: &Path, text: &[u8]) -> Result<Vec<u8>, StoreError> {
    let object = frontmatter::read(&String::from_utf8_lossy(text));
    let object = object
        .ok_or_else(|| StoreError::Refused(format!("{} has no frontmatter", path.display())))?;
    Ok(object.to_string().into_bytes())
}

/// Where a message lies ready.
fn ready(folder: &Path, topic: &str) -> PathBuf {
    folder.join(phasegate_engine::functions::filename(topic))
}

fn message_ready(
    topic: Topic,
    expected: Option<Version>,
    message: Message,
    file: NewFile,
) -> Prepared {
    let version = Version::new(message.id.clone());
    Prepared { kind: Kind::Message { topic, expected, message }, file, version }
}
