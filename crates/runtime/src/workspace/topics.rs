//! Topics: a folder with an append-only store of messages, `messages.jsonl`, and a lock beside it.
//! The latest message of a topic is a value; a new value is a new message.
//!
//! The format is that of the `jwz` tool: lines `{"type":"topic",…}` and `{"type":"message",…}`, ids
//! are ULIDs, a message's body is JSON as a string. Lines that cannot be read are passed over.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::functions::filename;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault_point;
use crate::outside::{self, MAX_RECORD};

/// The file of a store.
pub const MESSAGES: &str = "messages.jsonl";

/// A store larger than this is refused.
const MAX_BYTES: u64 = 256 << 20;

/// How much is read at first for a message.
const FIRST: usize = 16 << 10;

/// How many of a store's last bytes tell whether it was rewritten.
const END: u64 = 256;

/// How long the store's lock is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message, as far as we look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
    /// When it was written; none where the store does not say.
    pub at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Topic {
        id: String,
        name: String,
    },
    Message {
        id: String,
        topic_id: String,
        parent_id: Option<Value>,
        body: Value,
        #[serde(default)]
        created_at: i64,
    },
    #[serde(other)]
    Other,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum NewLine<'a> {
    Topic {
        id: &'a str,
        name: &'a str,
        description: &'a str,
        created_at: i64,
    },
    Message {
        id: &'a str,
        topic_id: &'a str,
        parent_id: Option<&'a str>,
        body: &'a str,
        created_at: i64,
        sender: Option<&'a str>,
        git: Option<&'a str>,
    },
}

/// A topic of a store.
#[derive(Clone, Debug)]
pub struct Topic {
    folder: PathBuf,
    name: String,
    /// Where is kept what was found out about the store, so that nobody need read all of it again.
    memory: PathBuf,
}

/// What is known of a store up to a certain length: others only add to it, so only what is behind that is
/// new. Where it was rewritten, as by a merge, nothing is known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The file, how long it was, and the digest of its last bytes.
    inode: u64,
    length: u64,
    end: String,
    /// The ids of each topic. Of several with one name, as a merge of two branches leaves them, all count.
    topics: BTreeMap<String, Vec<String>>,
    /// By a topic's id, when its latest message was made, and where it stands.
    latest: BTreeMap<String, (i64, u64)>,
}

impl Known {
    /// When the latest message of a topic was made, and where it stands.
    fn latest(&self, topic: &str) -> Option<(i64, u64)> {
        let ids = self.topics.get(topic)?.iter();
        ids.filter_map(|id| self.latest.get(id)).max().copied()
    }

    /// Takes note of a line, and of where it begins.
    fn add(&mut self, line: &[u8], at: u64) {
        match serde_json::from_slice(line) {
            Ok(Line::Topic { id, name }) => self.topics.entry(name).or_default().push(id),
            // An answer to a message is not a value.
            Ok(Line::Message {
                topic_id, parent_id: None | Some(Value::Null), created_at, ..
            }) => {
                let latest = self.latest.entry(topic_id).or_insert((created_at, at));
                *latest = (*latest).max((created_at, at));
            }
            _ => {}
        }
    }
}

impl Topic {
    /// A topic in a folder of the project at `root`.
    pub fn new(root: &Path, folder: PathBuf, name: &str) -> Topic {
        let memory = filename(&folder.display().to_string());
        let memory = root.join(".phasegate/runs/.topics").join(memory);
        Topic { folder, name: name.to_string(), memory }
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self) -> PathBuf {
        self.folder.join(MESSAGES)
    }

    /// The latest message.
    pub fn latest(&self) -> io::Result<Option<Message>> {
        if !is_plain(&self.path())? {
            return Ok(None);
        }
        let (file, _) = outside::open(&self.path())?;
        let known = self.look(&file, true)?;
        let Some((_, at)) = known.latest(&self.name) else { return Ok(None) };
        if let Some(message) = message_at(&file, at)? {
            return Ok(Some(message));
        }
        // What was remembered is wrong, or the file was rewritten this moment.
        let known = self.look(&file, false)?;
        let Some((_, at)) = known.latest(&self.name) else { return Ok(None) };
        let changing = || io::Error::other("the messages changed while they were read");
        message_at(&file, at)?.ok_or_else(changing).map(Some)
    }

    /// Adds a message with an id of its own, if the latest is still the expected one; whether it was.
    pub fn post(&self, expected: Option<&str>, id: &str, body: &str) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let _lock = locked(&self.folder)?;
        let last = self.latest()?.map(|message| message.id);
        if expected != last.as_deref() {
            return Ok(false);
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).read(true).append(true);
        let mut file = outside::open_with(options, &self.path())?;
        let known = self.look(&file, true)?;
        let mut text = String::new();
        if !ends_with_newline(&file)? {
            text.push('\n');
        }
        // A clock that was ahead must not make an older message the latest for good.
        let latest = known.latest(&self.name).map_or(0, |(time, _)| time);
        let created_at = Timestamp::now().as_millisecond().max(latest);
        let mut add = |line: NewLine| -> io::Result<()> {
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
            Ok(())
        };
        let topic_id = match known.topics.get(&self.name).and_then(|ids| ids.last()) {
            Some(id) => id.clone(),
            None => {
                let id = new_id()?;
                let description = "made by phasegate";
                add(NewLine::Topic { id: &id, name: &self.name, description, created_at })?;
                id
            }
        };
        add(NewLine::Message {
            id,
            topic_id: &topic_id,
            parent_id: None,
            body,
            created_at,
            sender: None,
            git: None,
        })?;
        if fault_point::tears("torn-message") {
            let _ = file.write_all(&text.as_bytes()[..text.len() / 2]);
            std::process::abort();
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.remember(&self.look(&file, true)?);
        Ok(true)
    }

    /// What is known of the store, the latest messages included.
    fn look(&self, file: &File, remembers: bool) -> io::Result<Known> {
        let meta = file.metadata()?;
        let known = outside::read(&self.memory, MAX_RECORD).ok().filter(|_| remembers);
        let known = known.and_then(|bytes| serde_json::from_slice::<Known>(&bytes).ok());
        let is_right = |known: &Known| {
            known.inode == meta.ino()
                && known.length <= meta.len()
                && end_of(file, known.length).is_ok_and(|end| end == known.end)
        };
        let mut known = known.filter(is_right).unwrap_or_default();
        let new = meta.len() - known.length;
        if new > MAX_BYTES {
            let size = new >> 20;
            return Err(io::Error::other(format!(
                "the messages are {size} MB, which is too large"
            )));
        }
        let mut text = vec![0; usize::try_from(new).map_err(io::Error::other)?];
        file.read_exact_at(&mut text, known.length)?;
        for (at, line) in lines(&text).filter(|(_, line)| !line.is_empty()) {
            known.add(line, known.length + at as u64);
        }
        // What has no end yet is looked at again.
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |newline| newline as u64 + 1);
        Ok(Known { inode: meta.ino(), length: known.length + whole, ..known })
    }

    /// Keeps what is known. What is lost of it costs only time.
    fn remember(&self, known: &Known) {
        let keep = || -> io::Result<()> {
            let end = end_of(&outside::open(&self.path())?.0, known.length)?;
            let text = serde_json::to_vec(&Known { end, ..known.clone() })?;
            let folder = self.memory.parent().unwrap_or(Path::new(""));
            // Where no run is kept, nothing is worth remembering.
            if folder.parent().is_some_and(Path::is_dir) {
                fs::create_dir_all(folder)?;
                // Not through a link: a cloned repository could bring one along.
                if fs::canonicalize(folder)? != *folder {
                    return Ok(());
                }
                let new = self.memory.with_extension("new");
                fs::write(&new, text)?;
                fs::rename(new, &self.memory)?;
            }
            Ok(())
        };
        let _ = keep();
    }
}

/// The message that begins at a place of a file, if one does.
fn message_at(file: &File, at: u64) -> io::Result<Option<Message>> {
    let size = file.metadata()?.len().saturating_sub(at);
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let mut bytes = vec![0; size.min(FIRST)];
    file.read_exact_at(&mut bytes, at)?;
    if memchr::memchr(b'\n', &bytes).is_none() && size > FIRST {
        bytes = vec![0; size];
        file.read_exact_at(&mut bytes, at)?;
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(match serde_json::from_slice(line) {
        Ok(Line::Message { id, body, created_at, .. }) => {
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_string);
            let at = Timestamp::from_millisecond(created_at).ok().filter(|_| created_at > 0);
            Some(Message { id, body, at })
        }
        _ => None,
    })
}

/// The digest of what stands before a place in a file.
fn end_of(file: &File, length: u64) -> io::Result<String> {
    let size = length.min(END);
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, length - size)?;
    Ok(digest(&bytes))
}

/// Whether there is such a file, and one of its own: no link, which could lead anywhere, and no pipe,
/// which could keep us waiting.
fn is_plain(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(true),
        Ok(_) => Err(io::Error::other(format!("{} is not a regular file", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The store's own lock, for no longer than one waits for it.
fn locked(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    is_plain(&path)?;
    let lock = outside::open_with(OpenOptions::new().create(true).append(true), &path)?;
    let since = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let waited = PATIENCE.as_secs();
                let why = format!("another process has held {} for {waited} s", path.display());
                return Err(io::Error::other(why));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// The lines of a text, each with where it begins.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', text).chain([text.len()]).map(move |newline| {
        let line = (start, &text[start..newline]);
        start = (newline + 1).min(text.len());
        line
    })
}

fn ends_with_newline(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let mut end = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut end, length - 1)?;
    }
    Ok(end == *b"\n")
}

/// A ULID: 48 bits of time and 80 of chance, in Crockford's base 32.
pub fn new_id() -> io::Result<String> {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut chance = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut chance[6..])?;
    let time = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    chance[..6].copy_from_slice(&time.to_be_bytes()[2..]);
    let number = u128::from_be_bytes(chance);
    let digits = (0..26).rev().map(|place| DIGITS[((number >> (place * 5)) & 31) as usize]);
    Ok(digits.map(char::from).collect())
}
