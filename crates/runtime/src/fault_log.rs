//! Failures of our own, kept where a person finds them: the stop was allowed, but not silently.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::outside;
use crate::paths;

/// A failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultLine {
    pub at: Timestamp,
    pub what: String,
}

/// A log that grew beyond this is started anew; the old one is kept beside it.
const MAX_BYTES: u64 = 1 << 20;

/// Where the failures of a project are kept.
fn in_project(root: &Path) -> Option<PathBuf> {
    paths::inside(root, ".phasegate/faults.jsonl").ok()
}

/// Where failures are kept that belong to no project, or that a project cannot keep.
fn of_user() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(base.join("phasegate/faults.jsonl"))
}

/// Notes a failure: in the project if there is one, else, and where its disk is full or not ours to
/// write, in the user's state folder. That this fails too must not make things worse, so it says nothing
/// then.
pub fn note(project: Option<&Path>, what: &str) {
    let line = FaultLine { at: Timestamp::now(), what: what.to_string() };
    let kept = project.and_then(in_project).is_some_and(|path| append(&path, &line).is_ok());
    if !kept && let Some(path) = of_user() {
        let _ = append(&path, &line);
    }
}

fn append(path: &Path, line: &FaultLine) -> io::Result<()> {
    let text = serde_json::to_string(line)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_BYTES) {
        fs::rename(path, path.with_extension("old.jsonl"))?;
    }
    let mut file = outside::open_with(OpenOptions::new().create(true).append(true), path)?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// The latest failures, newest last.
pub fn recent(project: Option<&Path>, most: usize) -> Vec<FaultLine> {
    let path = project.map_or_else(of_user, in_project);
    let text =
        path.and_then(|path| outside::read_text(&path, 2 * MAX_BYTES).ok()).unwrap_or_default();
    let mut lines: Vec<FaultLine> =
        text.lines().rev().take(most).filter_map(|line| serde_json::from_str(line).ok()).collect();
    lines.reverse();
    lines
}
