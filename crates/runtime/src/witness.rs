//! The second witness of each run, in the user's state folder: how far its ledger had come when we last wrote
//! it. Who edits a ledger or rolls it back, or deletes it together with its journal, leaves this behind.
//!
//! It is a witness and nothing else: where it is absent, cannot be written or is behind the ledger, as in a
//! sandbox, a container or under another home, that says nothing. Each commit of a ledger has a number, its
//! turn, so that "behind" is told from "another": two ledgers of one turn are the same ledger. The number
//! of the project's folder goes with it: a new clone in the same place is another project.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use phasegate_engine::digest::digest;
use phasegate_engine::functions::filename;

use crate::bindings::remove_older;
use crate::config::state_folder;
use crate::ledger::Position;
use crate::outside::{self, MAX_SETTINGS};
use crate::paths;
use crate::run::RunId;

/// The version of the format.
pub const FORMAT: &str = "1";

/// How much of a digest names a project.
const NAME: usize = 32;

/// How long a run is remembered of which nothing is heard.
const MAX_AGE: Duration = Duration::from_hours(180 * 24);

/// Forgets runs of which nothing was heard for long, and projects without any.
pub fn prune() {
    let Some(folder) = state_folder().map(|folder| folder.join("witness")) else { return };
    for project in fs::read_dir(folder).into_iter().flatten().flatten() {
        remove_older(&project.path(), MAX_AGE);
        // One that still has runs stays.
        let _ = fs::remove_dir(project.path());
    }
}

/// What is remembered of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The number of the ledger's last commit.
    pub turn: u64,
    /// The number of the journal's last line, and its hash.
    pub seq: u64,
    pub head: String,
    /// The digest of the ledger.
    pub ledger: String,
}

fn place(root: &Path, run: &RunId) -> Option<PathBuf> {
    // Tests within the crate leave the user's folder alone.
    if cfg!(test) {
        return None;
    }
    Some(folder(root)?.join(filename(&run.to_string())))
}

/// Where the runs of a project are remembered.
pub fn folder(root: &Path) -> Option<PathBuf> {
    let project = &digest(root.as_os_str().as_encoded_bytes())[..NAME];
    Some(state_folder()?.join("witness").join(project))
}

/// What tells a project from another one that was in its place.
fn project(root: &Path) -> Option<String> {
    let meta = fs::metadata(root).ok()?;
    // A number is given again once its folder is gone, the time at which it was made is not.
    let made = meta.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    Some(format!("{}:{}:{}", meta.dev(), meta.ino(), made.map_or(0, |made| made.as_nanos())))
}

impl Witness {
    /// The witness of a ledger with this text.
    pub fn of(position: &Position, bytes: &[u8]) -> Witness {
        let Position { turn, seq, head, .. } = position;
        Witness { turn: *turn, seq: *seq, head: head.clone(), ledger: digest(bytes) }
    }

    /// Remembers it. That this cannot be done is no reason to hold or to free anybody, and it is not worth a
    /// wait for the disk: after a power cut it is behind.
    pub fn keep(&self, root: &Path, run: &RunId) {
        let (Some(path), Some(project)) = (place(root, run), project(root)) else { return };
        let Witness { turn, seq, head, ledger } = self;
        let text = format!("{FORMAT} {project} {turn} {seq} {head} {ledger}\n");
        if fs::write(&path, &text).is_ok() {
            return;
        }
        let (Some(own), Some(folder)) = (state_folder(), path.parent()) else { return };
        if fs::create_dir_all(folder).is_ok() {
            // A home folder may be a repository.
            let _ = paths::ignored_by_git(&own);
            let _ = fs::write(&path, &text);
        }
    }

    /// What is remembered of a run of this project.
    pub fn recall(root: &Path, run: &RunId) -> Option<Witness> {
        let bytes = outside::read(&place(root, run)?, MAX_SETTINGS).ok()?;
        let mut words = std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?.split(' ');
        let is_ours = words.next()? == FORMAT && *words.next()? == project(root)?;
        let (turn, seq) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (head, ledger) = (words.next()?.to_string(), words.next()?.to_string());
        is_ours.then_some(Witness { turn, seq, head, ledger })
    }

    /// Forgets a run that is taken back.
    pub fn forget(root: &Path, run: &RunId) {
        if let Some(path) = place(root, run) {
            let _ = fs::remove_file(path);
        }
    }

    /// What the ledger is instead of what is remembered, where that contradicts it; `stored` is the digest of its
    /// text, empty where there is none.
    pub fn contradicts(&self, position: &Position, stored: &str) -> Option<String> {
        if stored.is_empty() {
            return Some("nothing".into());
        }
        match position.turn.cmp(&self.turn) {
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Equal if stored == self.ledger => None,
            std::cmp::Ordering::Equal => Some(format!("another one of line {}", position.seq)),
            std::cmp::Ordering::Less => Some(format!("an older one, of line {}", position.seq)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_contradicts_what_is_older_other_or_gone_and_nothing_else() {
        let at = |turn: u64| Position { turn, seq: turn, ..Position::default() };
        let witness = Witness::of(&at(7), b"seven");
        let says = |turn, text: &[u8]| witness.contradicts(&at(turn), &digest(text));
        assert_eq!(says(7, b"seven"), None);
        assert_eq!(says(8, b"eight"), None, "written under another home");
        assert_eq!(says(7, b"edited"), Some("another one of line 7".into()));
        assert_eq!(says(6, b"six"), Some("an older one, of line 6".into()));
        assert_eq!(witness.contradicts(&at(0), ""), Some("nothing".into()));
    }
}
