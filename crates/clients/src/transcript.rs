//! The client's transcript: JSONL, read from its end and never more than a bounded part of it.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;

use crate::outside;

/// How much of the end is read at first, and at the most.
const FIRST: u64 = 128 << 10;
const MOST: u64 = 4 << 20;

/// The most where nothing was said in that.
const MOST_SILENT: u64 = 256 << 20;

/// How long a client may lag behind, and how often that is looked at. 73 to 85 ms were measured.
const MAX_LAG: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);

/// Who spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    Agent,
    User,
    /// A hook, or the client itself.
    Hook,
}

/// A line of a transcript that is about the conversation.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Option<Timestamp>,
    /// None where the line only tells the time.
    pub speaker: Option<Speaker>,
    /// What was said, oldest first.
    pub texts: Vec<String>,
    /// A tool was called, or has answered.
    pub has_tool: bool,
    /// The names of the tools that were called, where they are told.
    pub tools: Vec<String>,
}

/// How a line is read.
pub type Reading<'r> = &'r dyn Fn(&[u8]) -> Option<Line>;

/// What the agent said since the user last spoke, or since a hook did where `hooks_count`, and not
/// before a time.
pub fn texts(
    path: &Path,
    read: Reading,
    hooks_count: bool,
    since: Option<Timestamp>,
) -> Vec<String> {
    let mut size = FIRST;
    loop {
        let Some((tail, from_start)) = tail(path, size) else { return Vec::new() };
        let (turn, complete) = turn_in(&tail, read, hooks_count, since);
        // What a tool printed may be longer than all that was said: the bytes are bounded once something was.
        let most = if turn.is_empty() { MOST_SILENT } else { MOST };
        if complete || from_start || size >= most {
            return turn;
        }
        size = (size * 4).min(most);
    }
}

/// Whether the agent used a tool since the user or a hook last spoke; none where the transcript
/// does not reach back to that.
pub fn used_tools(path: &Path, read: Reading) -> Option<bool> {
    let (tail, _) = tail(path, FIRST)?;
    for line in tail.rsplit(|byte| *byte == b'\n').filter_map(read) {
        match line.speaker {
            Some(Speaker::Hook) => return Some(false),
            Some(Speaker::User) if !line.texts.is_empty() => return Some(false),
            Some(_) if line.has_tool => return Some(true),
            _ => {}
        }
    }
    None
}

/// Whether the agent called a tool since a moment that does more than look; none where the transcript does
/// not tell.
pub fn wrote_since(path: &Path, read: Reading, looks: &[&str], since: Timestamp) -> Option<bool> {
    let mut is_unnamed = false;
    let found = lines_since(path, read, since, |line| {
        is_unnamed |=
            line.has_tool && line.tools.is_empty() && line.speaker == Some(Speaker::Agent);
        line.tools.iter().any(|tool| !looks.contains(&tool.as_str()))
    })?;
    (found || !is_unnamed).then_some(found)
}

/// Whether the user spoke since a moment; none where the transcript does not tell.
pub fn prompted_since(path: &Path, read: Reading, since: Timestamp) -> Option<bool> {
    lines_since(path, read, since, speaks)
}

/// When the user spoke last; none where the transcript does not tell.
pub fn prompted_at(path: &Path, read: Reading) -> Option<Timestamp> {
    let mut at = None;
    lines_since(path, read, Timestamp::UNIX_EPOCH, |line| {
        let speaks = speaks(line);
        at = line.at.filter(|_| speaks);
        speaks
    })?;
    at
}

/// Whether a line is what the user said.
fn speaks(line: &Line) -> bool {
    line.speaker == Some(Speaker::User) && line.texts.iter().any(|it| is_said(it))
}

/// Whether a text is what somebody said: what the client itself adds is marked as XML.
fn is_said(text: &str) -> bool {
    !text.trim().is_empty() && !text.starts_with('<')
}

/// Whether a line since a moment is of some kind; none where the transcript does not reach back so far, or
/// tells no times.
fn lines_since(
    path: &Path,
    read: Reading,
    since: Timestamp,
    mut is_such: impl FnMut(&Line) -> bool,
) -> Option<bool> {
    let mut size = FIRST;
    loop {
        let (tail, from_start) = tail(path, size)?;
        let mut reaches = false;
        for line in tail.rsplit(|byte| *byte == b'\n').filter_map(read) {
            let Some(at) = line.at else { continue };
            reaches = at < since || from_start;
            if at < since {
                break;
            }
            if is_such(&line) {
                return Some(true);
            }
        }
        if reaches || from_start || size >= MOST {
            return reaches.then_some(false);
        }
        size = (size * 4).min(MOST);
    }
}

/// Waits until the end of a transcript has a mark, for a bounded time: some clients write what was
/// said only after they have started the hook that asks for it.
pub fn wait_for(path: &Path, mark: &str) {
    let began = Instant::now();
    while began.elapsed() < MAX_LAG {
        let end = tail(path, FIRST).map(|(end, _)| end).unwrap_or_default();
        if memmem(&end, mark.as_bytes()) {
            return;
        }
        std::thread::sleep(POLL);
    }
}

fn memmem(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

/// The last `size` bytes, from the first whole line on, and whether that is all of the file.
fn tail(path: &Path, size: u64) -> Option<(Vec<u8>, bool)> {
    let (mut file, meta) = outside::open(path).ok()?;
    let length = meta.len();
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
fn turn_in(
    tail: &[u8],
    read: Reading,
    hooks_count: bool,
    since: Option<Timestamp>,
) -> (Vec<String>, bool) {
    let mut texts = Vec::new();
    let mut complete = false;
    for line in tail.rsplit(|byte| *byte == b'\n').filter_map(read) {
        let speaks = match line.speaker {
            Some(Speaker::Agent) | None => false,
            Some(Speaker::User) => !line.texts.is_empty(),
            Some(Speaker::Hook) => hooks_count && !line.texts.is_empty(),
        };
        if speaks || line.at.zip(since).is_some_and(|(at, since)| at < since) {
            complete = true;
            break;
        }
        if line.speaker == Some(Speaker::Agent) {
            texts.extend(line.texts.into_iter().rev());
        }
    }
    texts.reverse();
    (texts, complete)
}

/// A line of the shape that most clients share.
#[derive(Deserialize)]
struct Common {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "isMeta", default)]
    is_meta: bool,
    /// It is about a sub-agent.
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
    /// Of a tool.
    name: Option<String>,
}

/// A line of the common shape. The results of tools are `user` lines, too.
pub fn common(line: &[u8]) -> Option<Line> {
    let line = serde_json::from_slice::<Common>(line).ok().filter(|line| !line.is_sidechain)?;
    let speaker = match (line.kind.as_deref(), line.is_meta) {
        (Some("assistant"), _) => Some(Speaker::Agent),
        (Some("user"), true) => Some(Speaker::Hook),
        (Some("user"), false) => Some(Speaker::User),
        _ => None,
    };
    let speaker = speaker.filter(|_| line.message.is_some());
    let (mut texts, mut tools, mut has_tool) = (Vec::new(), Vec::new(), false);
    match line.message.map(|message| message.content) {
        Some(Content::Text(text)) => texts.push(text),
        Some(Content::Blocks(blocks)) => {
            for block in blocks {
                match block.kind.as_deref() {
                    Some("text") => texts.extend(block.text),
                    Some("tool_use") => {
                        has_tool = true;
                        tools.extend(block.name);
                    }
                    Some("tool_result") => has_tool = true,
                    _ => {}
                }
            }
        }
        Some(Content::Nothing) | None => {}
    }
    Some(Line { at: line.timestamp, speaker, texts, has_tool, tools })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn current_turn(path: &Path) -> Vec<String> {
        texts(path, &common, false, None)
    }

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
            used_tools(file.path(), &common)
        };
        let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"one"}]}}"#;
        let tool = r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#;
        let hook = r#"{"type":"user","isMeta":true,"message":{"content":"Stop hook feedback"}}"#;
        assert_eq!(used(&[tool, hook, said]), Some(false));
        assert_eq!(used(&[hook, tool, said]), Some(true));
        assert_eq!(used(&[said]), None);
    }

    #[test]
    fn what_was_said_is_found_behind_any_output_of_tools() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = "x".repeat(6 << 20);
        let text = [
            r#"{"type":"user","message":{"content":"go"}}"#.to_string(),
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"done"}]}}"#.into(),
            format!(
                r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":"{output}"}}]}}}}"#
            ),
        ];
        std::fs::write(file.path(), text.join("\n")).unwrap();
        assert_eq!(current_turn(file.path()), ["done"]);
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
