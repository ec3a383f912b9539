//! Consent: a project's own workflow runs commands only after the user has said so, once for its
//! content. A cloned repository must not run anything because somebody stopped in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use phasegate_engine::digest::digest;
use phasegate_engine::identity::Identity;

use crate::catalog::Origin;
use crate::config::user_folder;
use crate::outside;
use crate::site;
use crate::variables;

/// The folder of the consents.
const TRUSTED: &str = "trusted";

/// Whether a definition may run commands: a built-in one, the user's own, or one that the user has
/// consented to.
pub fn is_trusted(root: &Path, origin: &Origin, definition: &Identity) -> bool {
    let own = match origin {
        // A project's configuration can change what it runs.
        Origin::BuiltIn => !definition.is_configured(),
        Origin::File(path) => user_folder().is_some_and(|folder| path.starts_with(folder)),
    };
    own || is_consented(root, definition)
}

/// Whether the user has consented to a definition in this project.
pub fn is_consented(root: &Path, definition: &Identity) -> bool {
    variables::is_on(variables::TRUST_ALL) || is_remembered(root, definition)
}

/// Whether a consent is kept, whatever the environment says: an agent sets that as it likes.
pub fn is_remembered(root: &Path, what: &Identity) -> bool {
    let is_kept = |root: &Path| place(root, what).is_some_and(|place| place.is_file());
    // A linked worktree has what its repository has: who consented there would only be asked again for the same. Another
    // branch can be checked out there as well, and nobody would be asked.
    is_kept(root) || site::main_tree(root).is_some_and(|main| is_kept(&main))
}

/// Whether the user has consented to keep the runs of this project in a store that its configuration names.
pub fn is_store_trusted(root: &Path, url: &str) -> bool {
    is_consented(root, &store(url))
}

/// What a store is known by.
pub fn store(url: &str) -> Identity {
    Identity::new(format!("store {}", digest(url.as_bytes())), &[])
}

/// Remembers the consent to a definition.
///
/// # Errors
/// Where that cannot be written.
pub fn trust(root: &Path, path: &Path, definition: &Identity) -> io::Result<()> {
    trust_named(root, path, definition.as_str())
}

/// The same for a definition of which only that is known.
///
/// # Errors
/// Where that cannot be written.
pub(crate) fn trust_named(root: &Path, path: &Path, definition: &str) -> io::Result<()> {
    let place =
        named(root, definition).ok_or_else(|| io::Error::other("there is no home folder"))?;
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(place, format!("{}\n", path.display()))
}

/// Forgets the consent; whether there was one.
///
/// # Errors
/// Where that cannot be removed.
pub fn distrust(root: &Path, definition: &Identity) -> io::Result<bool> {
    distrust_named(root, definition.as_str())
}

/// The same for a definition of which only that is known.
///
/// # Errors
/// Where that cannot be removed.
pub(crate) fn distrust_named(root: &Path, definition: &str) -> io::Result<bool> {
    let Some(place) = named(root, definition) else { return Ok(false) };
    match fs::remove_file(place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where the consent is kept. It is for one project: the same command line runs another program in
/// another one.
fn place(root: &Path, definition: &Identity) -> Option<PathBuf> {
    named(root, definition.as_str())
}

fn named(root: &Path, definition: &str) -> Option<PathBuf> {
    let name = digest(format!("{}\0{definition}", root.display()).as_bytes());
    Some(folder()?.join(TRUSTED).join(name))
}

/// The user's folder for consents, which has nothing else in it.
pub fn folder() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_DATA_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".local/share"),
    };
    Some(base.join("phasegate"))
}

/// The consents to definitions that are in a project, by the path that each of them names.
pub fn all_of(root: &Path) -> Vec<PathBuf> {
    let files = folder().and_then(|folder| fs::read_dir(folder.join(TRUSTED)).ok());
    let is_of = |path: &PathBuf| {
        let named = outside::read_text(path, outside::MAX_SETTINGS);
        named.is_ok_and(|named| Path::new(named.trim_end()).starts_with(root))
    };
    files.into_iter().flatten().flatten().map(|file| file.path()).filter(is_of).collect()
}
