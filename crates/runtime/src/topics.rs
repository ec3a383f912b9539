//! Topics: a folder with an append-only store of messages, `messages.jsonl`, and a lock beside it.
//! The latest message of a topic is a value; a new value is a new message.
//!
//! The format is that of the `jwz` tool: lines `{"type":"topic",…}` and `{"type":"message",…}`, ids
//! are ULIDs, a message's body is JSON as a string. Lines that cannot be read are passed over.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::fault_point;

/// A store larger than this is refused.
const MOST_BYTES: u64 = 256 << 20;

/// How long the store's lock is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message, as far as we look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
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
        parent_id: Option<serde_json::Value>,
        body: serde_json::Value,
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

/// The latest message of a topic.
pub fn latest(folder: &Path, topic: &str) -> io::Result<Option<Message>> {
    Ok(look(folder, topic)?.1)
}

/// Adds a message with an id of its own, if the latest is still the expected one; whether it was.
pub fn post(
    folder: &Path,
    topic: &str,
    expected: Option<&str>,
    id: &str,
    body: &str,
) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let _lock = locked(folder)?;
    let (known, last) = look(folder, topic)?;
    let last = last.map(|message| message.id);
    if expected != last.as_deref() {
        return Ok(false);
    }
    let path = folder.join("messages.jsonl");
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    let mut text = String::new();
    if !ends_with_newline(&file)? {
        text.push('\n');
    }
    let created_at = Timestamp::now().as_millisecond();
    let mut add = |line: NewLine| -> io::Result<()> {
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
        Ok(())
    };
    let topic_id = match known {
        Some(id) => id,
        None => {
            let id = new_id()?;
            let description = "made by phasegate";
            add(NewLine::Topic { id: &id, name: topic, description, created_at })?;
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
    Ok(true)
}

/// The topic's id and its latest message. Of several topics with one name, as a merge of two
/// branches leaves them, all count. An answer to a message is no value.
fn look(folder: &Path, topic: &str) -> io::Result<(Option<String>, Option<Message>)> {
    let path = folder.join("messages.jsonl");
    if !is_plain(&path)? {
        return Ok((None, None));
    }
    let mut file = File::open(&path)?;
    let length = file.metadata()?.len();
    if length > MOST_BYTES {
        let size = length >> 20;
        return Err(io::Error::other(format!("the messages have {size} MB, which is too much")));
    }
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.read_to_end(&mut text)?;
    let mut topics = Vec::new();
    let named = memmem::Finder::new(topic);
    for line in lines(&text).filter(|line| named.find(line).is_some()) {
        if let Ok(Line::Topic { id, name }) = serde_json::from_slice(line)
            && name == topic
        {
            topics.push(id);
        }
    }
    let mut latest: Option<(i64, Message)> = None;
    let own: Vec<memmem::Finder> = topics.iter().map(memmem::Finder::new).collect();
    for line in lines(&text).filter(|line| own.iter().any(|id| id.find(line).is_some())) {
        let Ok(Line::Message { id, topic_id, parent_id, body, created_at }) =
            serde_json::from_slice(line)
        else {
            continue;
        };
        let answers = parent_id.is_some_and(|parent| !parent.is_null());
        let newer = latest.as_ref().is_none_or(|(time, _)| created_at >= *time);
        if topics.contains(&topic_id) && !answers && newer {
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_string);
            latest = Some((created_at, Message { id, body }));
        }
    }
    Ok((topics.pop(), latest.map(|(_, message)| message)))
}

/// Whether there is such a file, and one of its own: no link, which could lead anywhere, and no pipe,
/// which could keep us waiting.
fn is_plain(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(true),
        Ok(_) => Err(io::Error::other(format!("{} is no ordinary file", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The store's own lock, for no longer than one waits for it.
fn locked(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    is_plain(&path)?;
    let lock = OpenOptions::new().create(true).append(true).open(&path)?;
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

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
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
