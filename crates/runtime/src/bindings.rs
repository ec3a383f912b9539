//! Which projects a session is bound to: that of its first hook, and those in which it has started or adopted
//! a run. Its runs answer wherever it goes: the folder of a stop follows every `cd` of the agent, and a
//! worktree or a nested project that it enters must not open the gate.
//!
//! A small file for each session, in the user's state folder. Where that cannot be written, or is another one
//! (a container, a client's sandbox), a session is bound by where it stands, as if each stop were its first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use phasegate_engine::functions::filename;
use serde::{Deserialize, Serialize};

use crate::outside::{self, MAX_SETTINGS};

/// How long a session is remembered that gives no sign.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);

/// How many projects a session is bound to at most: the latest ones.
const MAX_PROJECTS: usize = 16;

/// The version of the format.
const FORMAT: u32 = 1;

/// What is remembered of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Binding {
    format: u32,
    /// When its first hook fired.
    pub began: Timestamp,
    /// The roots of its projects, the first one first.
    pub projects: Vec<PathBuf>,
}

/// The folder for what Phasegate remembers for a user.
pub fn state_folder() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?)
            .join(".local/state"),
    };
    Some(base.join("phasegate"))
}

fn place(session: &str) -> Option<PathBuf> {
    Some(state_folder()?.join("sessions").join(filename(session)).with_extension("json"))
}

/// What is remembered of a session.
pub fn of(session: &str) -> Option<Binding> {
    let bytes = outside::read(&place(session)?, MAX_SETTINGS).ok()?;
    let binding: Binding = serde_json::from_slice(&bytes).ok()?;
    (binding.format == FORMAT).then_some(binding)
}

/// Binds a session to one more project. That this cannot be written down is
/// no reason to hold or to free anybody.
pub fn bind(session: &str, root: &Path) {
    let known = of(session);
    let mut binding = known.clone().unwrap_or_else(|| Binding {
        format: FORMAT,
        began: Timestamp::now(),
        projects: Vec::new(),
    });
    if known.is_some() && binding.projects.iter().any(|known| known == root) {
        return;
    }
    binding.projects.push(root.to_path_buf());
    let more = binding.projects.len().saturating_sub(MAX_PROJECTS);
    binding.projects.drain(..more);
    let _ = keep(session, &binding);
}

/// Remembers that a session has begun, in no project yet.
pub fn begin(session: &str) {
    if of(session).is_none() {
        let (began, projects) = (Timestamp::now(), Vec::new());
        let _ = keep(session, &Binding { format: FORMAT, began, projects });
    }
}

fn keep(session: &str, binding: &Binding) -> std::io::Result<()> {
    let Some(path) = place(session) else { return Ok(()) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, serde_json::to_vec(binding)?)?;
    fs::rename(new, path)
}

/// Forgets the sessions that have given no sign for long.
pub fn prune() {
    let Some(folder) = state_folder().map(|folder| folder.join("sessions")) else { return };
    let now = SystemTime::now();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let time = entry.metadata().and_then(|meta| meta.modified());
        let age = time.ok().and_then(|time| now.duration_since(time).ok());
        if age.is_some_and(|age| age > MAX_AGE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
