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
    /// The root of the project that could not keep it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<PathBuf>,
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
    let mut line = FaultLine { at: Timestamp::now(), what: what.to_string(), project: None };
    let kept = project.and_then(in_project).is_some_and(|path| append(&path, &line).is_ok());
    if !kept && let Some(path) = of_user() {
        line.project = project.map(Path::to_path_buf);
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
    // A disk that was full has maybe left half a line: the next one must not become a part of it.
    let is_torn = outside::read(path, 2 * MAX_BYTES)
        .is_ok_and(|all| !all.is_empty() && !all.ends_with(b"\n"));
    let before = if is_torn { "\n" } else { "" };
    let mut file = outside::open_with(OpenOptions::new().create(true).append(true), path)?;
    file.write_all(format!("{before}{text}\n").as_bytes())
}

/// The latest failures, newest last: of a project also those that it could not keep itself.
pub fn recent(project: Option<&Path>, most: usize) -> Vec<FaultLine> {
    let elsewhere = lines(of_user(), most).into_iter();
    let mut all: Vec<FaultLine> = match project {
        None => elsewhere.collect(),
        Some(root) => {
            let elsewhere = elsewhere.filter(|line| line.project.as_deref() == Some(root));
            lines(in_project(root), most).into_iter().chain(elsewhere).collect()
        }
    };
    all.sort_by_key(|line| line.at);
    all.split_off(all.len().saturating_sub(most))
}

fn lines(path: Option<PathBuf>, most: usize) -> Vec<FaultLine> {
    let text = path.and_then(|path| outside::read_text(&path, 2 * MAX_BYTES).ok());
    let text = text.unwrap_or_default();
    let lines = text.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
    lines.take(most).collect()
}
