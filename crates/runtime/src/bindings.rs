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

use crate::baseline::Baseline;
use crate::config::state_folder;
use crate::outside::{self, MAX_RECORD};

/// How long a session is remembered that gives no sign.
const MAX_AGE: Duration = Duration::from_hours(30 * 24);

/// How many projects a session is bound to at most: the latest ones.
const MAX_PROJECTS: usize = 16;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// What is remembered of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Binding {
    format: u32,
    /// When its first hook fired.
    pub began: Timestamp,
    /// The roots of its projects, the first one first.
    pub projects: Vec<PathBuf>,
    /// The trees in which a gate stands, as they were when it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// The gates that stood then, each with the root of its project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<(PathBuf, String)>,
    /// The files of the client's settings that had our hook then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooked: Vec<PathBuf>,
    /// What the person is told at the next stop, where no run can tell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// The shells that its last stop has shown: no later run waits for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shells: Vec<String>,
    /// Its last stop, where it is to be woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<LastStop>,
}

/// A stop, for the hook that the client starts beside the one which answers: that hook waits for what the answer
/// waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LastStop {
    /// A digest of the payload, which both hooks get.
    pub payload: String,
    /// When the hook began that answers it.
    pub begun: Timestamp,
    /// When it was answered; none where that is still to come.
    pub answered: Option<Timestamp>,
    /// The runs that have let the session go because of a job, each with the root of its project.
    pub runs: Vec<(PathBuf, String)>,
}

impl Binding {
    fn new() -> Binding {
        Binding {
            format: FORMAT,
            began: Timestamp::now(),
            projects: Vec::new(),
            baselines: Vec::new(),
            gates: Vec::new(),
            hooked: Vec::new(),
            notices: Vec::new(),
            shells: Vec::new(),
            stop: None,
        }
    }

    /// The tree at a folder as it was when the session began, if that is known.
    pub fn baseline(&self, site: &Path) -> Option<&Baseline> {
        self.baselines.iter().find(|baseline| baseline.site == site)
    }
}

fn place(session: &str) -> Option<PathBuf> {
    Some(state_folder()?.join("sessions").join(filename(session)).with_extension("json"))
}

/// What is remembered of a session.
pub fn of(session: &str) -> Option<Binding> {
    let bytes = outside::read(&place(session)?, MAX_RECORD).ok()?;
    let binding: Binding = serde_json::from_slice(&bytes).ok()?;
    (binding.format == FORMAT).then_some(binding)
}

/// Binds a session to one more project. That this cannot be written down is
/// no reason to hold or to free anybody.
pub fn bind(session: &str, root: &Path) {
    let known = of(session);
    let mut binding = known.clone().unwrap_or_else(Binding::new);
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
        let _ = keep(session, &Binding::new());
    }
}

/// Remembers the tree as it was when a session began, and which gates stood in a project then.
///
/// # Errors
/// Where that cannot be written.
pub fn remember(
    session: &str,
    baseline: &Baseline,
    root: &Path,
    gates: &[String],
) -> std::io::Result<()> {
    let mut binding = of(session).unwrap_or_else(Binding::new);
    binding.baselines.retain(|known| known.site != baseline.site);
    binding.baselines.push(baseline.clone());
    let more = binding.baselines.len().saturating_sub(MAX_PROJECTS);
    binding.baselines.drain(..more);
    for gate in gates {
        let gate = (root.to_path_buf(), gate.clone());
        if !binding.gates.contains(&gate) {
            binding.gates.push(gate);
        }
    }
    keep(session, &binding)
}

/// Forgets that a gate stood, of which the person was told that it stands no longer.
pub fn forget_gate(session: &str, root: &Path, gate: &str) {
    if let Some(mut binding) = of(session) {
        binding.gates.retain(|(known, name)| known != root || name != gate);
        let _ = keep(session, &binding);
    }
}

/// Remembers which files of settings had our hook when a session began. Of one that goes on, that is known.
pub fn remember_hooks(session: &str, files: &[PathBuf]) {
    let mut binding = of(session).unwrap_or_else(Binding::new);
    if binding.hooked.is_empty() && !files.is_empty() {
        binding.hooked = files.to_vec();
        let _ = keep(session, &binding);
    }
}

/// Has something told at the next stop of a session.
pub fn give_notice(session: &str, notice: &str) {
    let mut binding = of(session).unwrap_or_else(Binding::new);
    if !binding.notices.iter().any(|known| known == notice) {
        binding.notices.push(notice.to_string());
        let _ = keep(session, &binding);
    }
}

/// What is to be told at a stop of a session, once.
pub fn take_notices(session: &str) -> Vec<String> {
    let Some(mut binding) = of(session).filter(|known| !known.notices.is_empty()) else {
        return Vec::new();
    };
    let notices = std::mem::take(&mut binding.notices);
    let _ = keep(session, &binding);
    notices
}

/// Remembers the shells that a stop of a session has shown.
pub fn remember_shells(session: &str, shells: &[String]) {
    let known = of(session);
    if known.as_ref().map_or(&[][..], |binding| &binding.shells) != shells {
        let mut binding = known.unwrap_or_else(Binding::new);
        binding.shells = shells.to_vec();
        let _ = keep(session, &binding);
    }
}

/// Remembers how far the stop of a session has come. Nobody is woken where that cannot be written.
pub fn remember_stop(session: &str, stop: LastStop) {
    let mut binding = of(session).unwrap_or_else(Binding::new);
    binding.stop = Some(stop);
    let _ = keep(session, &binding);
}

fn keep(session: &str, binding: &Binding) -> std::io::Result<()> {
    let none = || std::io::Error::other("there is no home folder");
    let path = place(session).ok_or_else(none)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, serde_json::to_vec(binding)?)?;
    fs::rename(new, path)
}

/// What is remembered of sessions that were bound to this project alone.
pub fn only_of(root: &Path) -> Vec<PathBuf> {
    let files = state_folder().and_then(|folder| fs::read_dir(folder.join("sessions")).ok());
    let is_of = |path: &PathBuf| {
        let bytes = outside::read(path, MAX_RECORD).unwrap_or_default();
        let binding = serde_json::from_slice::<Binding>(&bytes);
        binding.is_ok_and(|it| !it.projects.is_empty() && it.projects.iter().all(|it| it == root))
    };
    files.into_iter().flatten().flatten().map(|file| file.path()).filter(is_of).collect()
}

/// Forgets the sessions that have given no sign for long.
pub fn prune() {
    if let Some(folder) = state_folder().map(|folder| folder.join("sessions")) {
        remove_older(&folder, MAX_AGE);
    }
}

/// Removes the files of a folder that were not written for long.
pub(crate) fn remove_older(folder: &Path, most: Duration) {
    let now = SystemTime::now();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let time = entry.metadata().and_then(|meta| meta.modified());
        let age = time.ok().and_then(|time| now.duration_since(time).ok());
        if age.is_some_and(|age| age > most) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
