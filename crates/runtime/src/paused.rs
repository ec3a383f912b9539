//! Standing gates that a person has switched off for a project. A small file for each, in the user's state
//! folder: what a checkout brings along switches nothing off, as it switches nothing on.

use std::path::{Path, PathBuf};
use std::{fs, io};

use phasegate_engine::digest::digest;

use crate::config::state_folder;
use crate::ledger::Paused;
use crate::outside::{self, MAX_SETTINGS};

/// When and why a gate was switched off in the project at `root`; none where it was not.
pub fn of(root: &Path, gate: &str) -> Option<Paused> {
    let bytes = outside::read(&place(root, gate)?, MAX_SETTINGS).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Switches a gate off in a project, or on again; whether that changed anything.
///
/// # Errors
/// Where that cannot be written.
pub fn set(root: &Path, gate: &str, paused: Option<&Paused>) -> io::Result<bool> {
    let place = place(root, gate).ok_or_else(|| io::Error::other("there is no home folder"))?;
    let was = place.exists();
    match paused {
        Some(paused) => {
            fs::create_dir_all(place.parent().unwrap_or(&place))?;
            fs::write(&place, serde_json::to_vec(paused)?)?;
        }
        None if was => fs::remove_file(&place)?,
        None => {}
    }
    Ok(was != paused.is_some())
}

/// Where it is noted that a gate is paused.
pub(crate) fn place(root: &Path, gate: &str) -> Option<PathBuf> {
    let name = digest(format!("{}\0{gate}", root.display()).as_bytes());
    Some(state_folder()?.join("paused").join(name))
}
