//! Failures of our own, kept where a person finds them: the stop was allowed, but not silently.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::world;

/// A failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultLine {
    pub at: Timestamp,
    pub what: String,
}

/// A log that grew beyond this is started anew; the old one is kept beside it.
const MOST_BYTES: u64 = 1 << 20;

/// Where failures are kept: in the project if there is one, else in the user's state folder.
fn path(project: Option<&Path>) -> Option<PathBuf> {
    if let Some(root) = project {
        return world::inside(root, ".phasegate/faults.jsonl").ok();
    }
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(base.join("phasegate/faults.jsonl"))
}

/// Notes a failure. That this fails too must not make things worse, so it says nothing then.
pub fn note(project: Option<&Path>, what: &str) {
    let Some(path) = path(project) else { return };
    let line = FaultLine { at: Timestamp::now(), what: what.to_string() };
    let Ok(text) = serde_json::to_string(&line) else { return };
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > MOST_BYTES) {
        let _ = fs::rename(&path, path.with_extension("old.jsonl"));
    }
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&path) {
        let _ = file.write_all(format!("{text}\n").as_bytes());
    }
}

/// The latest failures, newest last.
pub fn recent(project: Option<&Path>, most: usize) -> Vec<FaultLine> {
    let text = path(project).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let mut lines: Vec<FaultLine> =
        text.lines().rev().take(most).filter_map(|line| serde_json::from_str(line).ok()).collect();
    lines.reverse();
    lines
}
