//! Topics: a folder with an append-only store of messages, `messages.jsonl`, and a lock beside it.
//! The latest message of a topic is a value; a new value is a new message.
//!
//! The format is that of the `jwz` tool: lines `{"type":"topic",…}` and `{"type":"message",…}`, ids
//! are ULIDs, a message's body is JSON as a string. Lines that cannot be read are passed over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A store larger than this is refused.
const MOST_BYTES: u64 = 256 << 20;

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
        body: String,
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

/// Adds a message, if the latest is still the expected one; its id.
pub fn post(
    folder: &Path,
    topic: &str,
    expected: Option<Option<&str>>,
    body: &str,
) -> io::Result<Option<String>> {
    fs::create_dir_all(folder)?;
    let lock = OpenOptions::new().create(true).append(true).open(folder.join("lock"))?;
    lock.lock()?;
    let (known, last) = look(folder, topic)?;
    let last = last.map(|message| message.id);
    if expected.is_some_and(|expected| expected != last.as_deref()) {
        return Ok(None);
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
    let id = new_id()?;
    add(NewLine::Message {
        id: &id,
        topic_id: &topic_id,
        parent_id: None,
        body,
        created_at,
        sender: None,
        git: None,
    })?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    Ok(Some(id))
}

/// The topic's id and its latest message.
fn look(folder: &Path, topic: &str) -> io::Result<(Option<String>, Option<Message>)> {
    let mut file = match File::open(folder.join("messages.jsonl")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, None)),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length > MOST_BYTES {
        let size = length >> 20;
        return Err(io::Error::other(format!("the messages have {size} MB, which is too much")));
    }
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.read_to_end(&mut text)?;
    let mut topic_id = None;
    for line in lines(&text).filter(|line| contains(line, topic.as_bytes())) {
        if let Ok(Line::Topic { id, name }) = serde_json::from_slice(line)
            && name == topic
        {
            topic_id = Some(id);
            break;
        }
    }
    let Some(own) = topic_id else { return Ok((None, None)) };
    for line in lines(&text).rev().filter(|line| contains(line, own.as_bytes())) {
        if let Ok(Line::Message { id, topic_id, body }) = serde_json::from_slice(line)
            && topic_id == own
        {
            return Ok((Some(own), Some(Message { id, body })));
        }
    }
    Ok((Some(own), None))
}

fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Told before a line is read as JSON, which costs far more.
fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len().max(1)).any(|window| window == part)
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
