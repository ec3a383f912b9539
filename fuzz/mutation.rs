//! How inputs are changed: bytes here and there, pieces that mean something, and values of JSON in the place of others.

use proptest::prelude::*;
use serde_json::Value;

/// One change. Places are fractions, so that they fit any input.
#[derive(Clone, Debug)]
pub enum Mutation {
    Set(u16, u8),
    Insert(u16, usize),
    Remove(u16, u16),
    Repeat(u16, u16, u8),
    Truncate(u16),
    /// A piece of another seed.
    Splice(prop::sample::Index, u16, u16),
    /// Another value in the place of one, in a text or in a line that is JSON.
    Json(u16, u16, usize),
    /// A line in the place of another.
    Lines(u16, u16),
}

/// How large an input becomes at most.
const MAX: usize = 1 << 18;

/// What has a meaning to one reader or another.
const PIECES: [&str; 34] = [
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\r\n",
    "\0",
    "\u{feff}",
    "\\",
    "\\u0000",
    "\\ud800",
    "//",
    "/*",
    "*/",
    "---\n",
    "@@ -1,9999999999 +1 @@\n",
    "diff --git a/x b/y\n",
    "{{",
    "{%",
    "}}",
    "'''",
    "\"\"\"",
    "=",
    "# ",
    "[[",
    "| a | b |",
    "99999999999999999999",
    "-1",
    "1e999",
    "\u{202e}",
    "ﬀ",
];

/// Values that a field may have and should not.
const VALUES: [&str; 22] = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e300",
    "9223372036854775807",
    "18446744073709551615",
    "0.5",
    "\"\"",
    "\"a\"",
    "\"../../etc/passwd\"",
    "\"\\u001b[31m\"",
    "\"2026-01-01T00:00:00Z\"",
    "\"9999-99-99\"",
    "[]",
    "{}",
    "[null]",
    "[[[[[[[[[[]]]]]]]]]]",
    "{\"a\":{\"a\":{\"a\":{}}}}",
    "\"{{ state }}\"",
    "\"complete\"",
];

pub fn mutations() -> impl Strategy<Value = Mutation> {
    let at = any::<u16>;
    prop_oneof![
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        4 => (at(), 0..PIECES.len()).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        2 => (at(), 0..200u16).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (at(), 0..60u16, any::<u8>()).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        1 => at().prop_map(Mutation::Truncate),
        1 => (any::<prop::sample::Index>(), at(), at()).prop_map(|(seed, from, at)| Mutation::Splice(seed, from, at)),
        6 => (at(), at(), 0..VALUES.len()).prop_map(|(line, node, value)| Mutation::Json(line, node, value)),
        1 => (at(), at()).prop_map(|(one, other)| Mutation::Lines(one, other)),
    ]
}

/// A place in something of this length.
fn place(fraction: u16, length: usize) -> usize {
    length * usize::from(fraction) / (usize::from(u16::MAX) + 1)
}

pub fn mutated(seeds: &[Vec<u8>], seed: usize, changes: &[Mutation]) -> Vec<u8> {
    let mut bytes = seeds[seed].clone();
    for change in changes {
        apply(&mut bytes, seeds, change);
        bytes.truncate(MAX);
    }
    bytes
}

fn apply(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], change: &Mutation) {
    let length = bytes.len();
    let span = |at: u16, most: u16| {
        let start = place(at, length);
        start..(start + usize::from(most)).min(length)
    };
    match *change {
        Mutation::Set(at, byte) => {
            if let Some(place) = bytes.get_mut(place(at, length)) {
                *place = byte;
            }
        }
        Mutation::Insert(at, piece) => {
            let at = place(at, length);
            bytes.splice(at..at, PIECES[piece].bytes());
        }
        Mutation::Remove(at, most) => {
            bytes.drain(span(at, most));
        }
        Mutation::Repeat(at, most, times) => {
            let span = span(at, most);
            let piece = bytes[span.clone()].repeat(usize::from(times));
            bytes.splice(span.end..span.end, piece);
        }
        Mutation::Truncate(at) => bytes.truncate(place(at, length)),
        Mutation::Splice(seed, from, at) => {
            let other = &seeds[seed.index(seeds.len())];
            let from = place(from, other.len());
            let piece = other[from..(from + 300).min(other.len())].to_vec();
            let at = place(at, length);
            bytes.splice(at..at, piece);
        }
        Mutation::Json(line, node, value) => replace_value(bytes, line, node, VALUES[value]),
        Mutation::Lines(one, other) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let mut lines: Vec<&str> = text.split('\n').collect();
            let (one, other) = (place(one, lines.len()), place(other, lines.len()));
            lines[one] = lines[other];
            *bytes = lines.join("\n").into_bytes();
        }
    }
}

/// Puts a value in the place of another, in the whole text or in one line of it.
fn replace_value(bytes: &mut Vec<u8>, line: u16, node: u16, value: &str) {
    let value: Value = serde_json::from_str(value).unwrap();
    if let Ok(mut whole) = serde_json::from_slice::<Value>(bytes) {
        replace_node(&mut whole, node, value);
        *bytes = serde_json::to_vec_pretty(&whole).unwrap();
        return;
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = text.split('\n').map(str::to_string).collect();
    let line = place(line, lines.len());
    if let Ok(mut parsed) = serde_json::from_str::<Value>(&lines[line]) {
        replace_node(&mut parsed, node, value);
        lines[line] = parsed.to_string();
        *bytes = lines.join("\n").into_bytes();
    }
}

fn replace_node(root: &mut Value, node: u16, value: Value) {
    let mut left = place(node, count(root));
    if let Some(found) = nth(root, &mut left) {
        *found = value;
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|it| nth(it, left)),
        Value::Object(members) => members.values_mut().find_map(|it| nth(it, left)),
        _ => None,
    }
}
