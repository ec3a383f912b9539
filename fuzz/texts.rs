//! What clients send and write down, patches, and frontmatter.

use jiff::Timestamp;
use phasegate_clients::CLIENTS;
use phasegate_engine::patch;
use phasegate_runtime::frontmatter;
use serde_json::Value;

use crate::{files_in, fuzz};

/// What was recorded from the clients.
fn recorded(ending: &str) -> Vec<Vec<u8>> {
    let files = files_in("tests/payloads").into_iter();
    files.filter(|(name, _)| name.ends_with(ending)).map(|(_, bytes)| bytes).collect()
}

#[test]
fn payloads() {
    fuzz("payloads", 12_000, recorded(".json"), |input| {
        for client in CLIENTS {
            if let Ok(payload) = client.payload(input) {
                // What it says of itself is never longer than what was sent.
                let message = payload.last_message.as_ref().map_or(0, String::len);
                if message > input.len() * 3 {
                    return Err(format!("{}: a message out of nothing", client.name()));
                }
            }
            client.status_line(input);
        }
        Ok(())
    });
}

#[test]
fn transcripts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transcript.jsonl");
    let now = Timestamp::now();
    fuzz("transcripts", 2_000, recorded(".jsonl"), |input| {
        std::fs::write(&path, input).unwrap();
        for client in CLIENTS {
            let texts = client.current_turn(&path);
            let all = client.since_spoken_to(&path, Some(Timestamp::UNIX_EPOCH));
            let long = texts.iter().chain(&all).map(String::len).sum::<usize>();
            if long > input.len() * 8 {
                return Err(format!("{}: more was said than is written", client.name()));
            }
            client.used_tools(&path);
            client.prompted_since(&path, now);
            // What has happened before a moment happens not after it, too.
            let (ever, later) = (
                client.wrote_since(&path, Timestamp::UNIX_EPOCH),
                client.wrote_since(&path, Timestamp::MAX),
            );
            if later == Some(true) && ever == Some(false) {
                return Err(format!("{}: it wrote later, but never", client.name()));
            }
        }
        Ok(())
    });
}

#[test]
fn patches() {
    fuzz("patches", 12_000, Vec::new(), |input| {
        let files = patch::files(input);
        let lines = input.split(|byte| *byte == b'\n').count();
        if files.len() > lines * 2 {
            return Err(format!("{} files in {lines} lines", files.len()));
        }
        if !files.is_sorted() || files.iter().any(String::is_empty) {
            return Err(format!("{files:?}"));
        }
        Ok(())
    });
}

#[test]
fn frontmatter_is_written_as_it_was_read() {
    fuzz("frontmatter", 12_000, Vec::new(), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        let Some(read) = frontmatter::read(text) else { return Ok(()) };
        let object = read.as_object().unwrap();
        let written = frontmatter::write(text, object);
        if frontmatter::read(&written).as_ref() != Some(&read) {
            return Err(format!("{read} is written as {written:?}"));
        }
        // A number that changes changes nothing else.
        let mut changed = object.clone();
        changed.insert("iteration".into(), 41.into());
        let written = frontmatter::write(text, &changed);
        if frontmatter::read(&written) != Some(Value::Object(changed)) {
            return Err(format!("41 iterations are written as {written:?}"));
        }
        Ok(())
    });
}
