//! The client's transcript: JSONL, read from its end and never more than a bounded part of it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

/// How much of the end is read at first, and at the most.
const FIRST: u64 = 128 << 10;
const MOST: u64 = 4 << 20;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "isMeta", default)]
    is_meta: bool,
    #[serde(rename = "isSidechain", default)]
    is_sidechain: bool,
    timestamp: Option<Timestamp>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
    #[default]
    Nothing,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
}

/// What the agent said since the user last spoke, oldest first. Lines that cannot be read are
/// skipped; a file that is not there says nothing.
pub fn current_turn(path: &Path) -> Vec<String> {
    texts_since(path, false, None)
}

/// What the agent said since the user or a hook last spoke to it, and not before a time, oldest
/// first.
pub fn since_spoken_to(path: &Path, since: Option<Timestamp>) -> Vec<String> {
    texts_since(path, true, since)
}

fn texts_since(path: &Path, hooks_count: bool, since: Option<Timestamp>) -> Vec<String> {
    let mut size = FIRST;
    loop {
        let Some((tail, from_start)) = tail(path, size) else { return Vec::new() };
        let (turn, complete) = turn_in(&tail, hooks_count, since);
        if complete || from_start || size >= MOST {
            return turn;
        }
        size = (size * 4).min(MOST);
    }
}

/// Whether the agent used a tool since the user or a hook last spoke; none where the transcript
/// does not reach back to that.
pub fn used_tools(path: &Path) -> Option<bool> {
    let (tail, _) = tail(path, FIRST)?;
    for line in tail.rsplit(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        let Some(message) = line.message.filter(|_| !line.is_sidechain) else { continue };
        match line.kind.as_deref() {
            Some("assistant") if has_block(&message.content, "tool_use") => return Some(true),
            Some("user") if line.is_meta || is_speech(&message.content) => return Some(false),
            Some("user") if has_block(&message.content, "tool_result") => return Some(true),
            _ => {}
        }
    }
    None
}

fn has_block(content: &Content, kind: &str) -> bool {
    match content {
        Content::Blocks(blocks) => blocks.iter().any(|block| block.kind.as_deref() == Some(kind)),
        _ => false,
    }
}

/// The last `size` bytes, from the first whole line on, and whether that is all of the file.
fn tail(path: &Path, size: u64) -> Option<(Vec<u8>, bool)> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let start = length.saturating_sub(size);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).ok()?;
    if start > 0 {
        let newline = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..newline);
    }
    Some((bytes, start == 0))
}

/// The texts since somebody spoke, and whether that was seen.
fn turn_in(tail: &[u8], hooks_count: bool, since: Option<Timestamp>) -> (Vec<String>, bool) {
    let mut texts = Vec::new();
    for line in tail.rsplit(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        if line.is_sidechain {
            continue;
        }
        if line.timestamp.zip(since).is_some_and(|(time, since)| time < since) {
            texts.reverse();
            return (texts, true);
        }
        let Some(message) = line.message else { continue };
        match line.kind.as_deref() {
            Some("assistant") => match message.content {
                Content::Text(text) => texts.push(text),
                Content::Blocks(blocks) => {
                    let said = blocks
                        .into_iter()
                        .rev()
                        .filter(|block| block.kind.as_deref() == Some("text"));
                    texts.extend(said.filter_map(|block| block.text));
                }
                Content::Nothing => {}
            },
            Some("user") if (hooks_count || !line.is_meta) && is_speech(&message.content) => {
                texts.reverse();
                return (texts, true);
            }
            _ => {}
        }
    }
    texts.reverse();
    (texts, false)
}

/// Whether the user spoke; the results of tools are `user` lines too.
fn is_speech(content: &Content) -> bool {
    match content {
        Content::Text(_) => true,
        Content::Blocks(_) => has_block(content, "text"),
        Content::Nothing => false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn said(lines: &[&str]) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        current_turn(file.path())
    }

    #[test]
    fn only_the_current_turn_counts() {
        let lines = [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"old"}]}}"#,
            r#"{"type":"user","message":{"role":"user","content":"go"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"one"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"Stop hook feedback: go on"}}"#,
            r"not json at all",
            r#"{"type":"assistant","isSidechain":true,"message":{"content":[{"type":"text","text":"sub"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"},{"type":"text","text":"two"}]}}"#,
            r#"{"type":"summary","text":"ignored"}"#,
            r#"{"type":"assistant","mess"#,
        ];
        assert_eq!(said(&lines), ["one", "two"]);
        assert_eq!(current_turn(Path::new("/does/not/exist")), Vec::<String>::new());
    }

    #[test]
    fn tools_count_since_someone_last_spoke() {
        let used = |lines: &[&str]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), lines.join("\n")).unwrap();
            used_tools(file.path())
        };
        let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"one"}]}}"#;
        let tool = r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#;
        let hook = r#"{"type":"user","isMeta":true,"message":{"content":"Stop hook feedback"}}"#;
        assert_eq!(used(&[tool, hook, said]), Some(false));
        assert_eq!(used(&[hook, tool, said]), Some(true));
        assert_eq!(used(&[said]), None);
    }

    #[test]
    fn the_bytes_read_are_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::from("{\"type\":\"user\",\"message\":{\"content\":\"go\"}}\n");
        for index in 0..60_000 {
            let filler = "x".repeat(100);
            writeln!(text, r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{index} {filler}"}}]}}}}"#).unwrap();
        }
        std::fs::write(file.path(), &text).unwrap();
        let turn = current_turn(file.path());
        assert!(turn.last().unwrap().starts_with("59999 "));
        let bytes: usize = turn.iter().map(String::len).sum();
        assert!(bytes < usize::try_from(MOST).unwrap(), "{bytes} bytes of {}", text.len());
    }
}
