//! What the kernel tells of processes: Linux's `/proc`. A system without it tells nothing, and
//! silence must not be taken for an answer: see [`tells`].

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the system tells anything at all.
pub fn tells() -> bool {
    stat(std::process::id()).is_some()
}

/// All processes.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes above this one, the nearest first, with their names; at most so many.
pub fn ancestors(most: usize) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut next = std::os::unix::process::parent_id();
    while found.len() < most && next != 0 {
        let Some((name, fields)) = stat(next) else { break };
        found.push((name, next));
        let Some(parent) = parent_in(&fields) else { break };
        next = parent;
    }
    found
}

/// The name of a process, and the one that started it.
pub fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    let (name, fields) = stat(pid)?;
    Some((name, parent_in(&fields)?))
}

/// The process that started it, or the one that has taken its place.
pub fn parent(pid: u32) -> Option<u32> {
    parent_in(&stat(pid)?.1)
}

/// The name of a process.
pub fn name(pid: u32) -> Option<String> {
    Some(stat(pid)?.0)
}

/// Since when a process runs, as the kernel counts: with its number it names one process forever.
pub fn birth(pid: u32) -> Option<String> {
    stat(pid)?.1.split_whitespace().nth(19).map(str::to_string)
}

/// The first words of its command line.
pub fn words(pid: u32, most: usize) -> Vec<Vec<u8>> {
    parts(&place(pid).join("cmdline"), most)
}

/// The program that it runs, where that may be known.
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(place(pid).join("exe")).ok()
}

/// Its environment as it began: `NAME=value`.
pub fn variables(pid: u32) -> Vec<Vec<u8>> {
    parts(&place(pid).join("environ"), usize::MAX)
}

fn place(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn parts(path: &Path, most: usize) -> Vec<Vec<u8>> {
    let text = fs::read(path).unwrap_or_default();
    text.split(|byte| *byte == 0).take(most).map(<[u8]>::to_vec).collect()
}

/// The name of a process, and the fields behind it. The line is `pid (name) state parent …`, and the
/// name may have spaces and parentheses.
fn stat(pid: u32) -> Option<(String, String)> {
    let stat = fs::read_to_string(place(pid).join("stat")).ok()?;
    let (head, fields) = stat.rsplit_once(')')?;
    let name = head.split_once('(').map_or("", |(_, name)| name);
    Some((name.to_string(), fields.to_string()))
}

fn parent_in(fields: &str) -> Option<u32> {
    fields.split_whitespace().nth(1)?.parse().ok()
}
