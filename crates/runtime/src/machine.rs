//! This machine, and where its user's state is.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::outside::{self, MAX_SETTINGS};
use crate::store::StoreError;
use crate::whole_file::failed;
use crate::workspace::topics::new_id;

/// The file in the user's state folder that has the name of this machine.
const MACHINE: &str = "machine";

/// How long its random part is.
const LENGTH: usize = 12;

/// The folder for what Phasegate remembers for a user.
pub fn state_folder() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?)
            .join(".local/state"),
    };
    Some(base.join("phasegate"))
}

/// A project on this machine.
pub fn site(root: &Path) -> Result<String, StoreError> {
    Ok(format!("{}:{}", machine()?, root.display()))
}

/// That there is no such folder.
pub(crate) fn homeless() -> StoreError {
    StoreError::Failed("there is no state folder: HOME is not set".into())
}

/// What this machine is called in the store: its name for people, and what no other has.
pub fn machine() -> Result<String, StoreError> {
    let folder = state_folder().ok_or_else(homeless)?;
    let file = folder.join(MACHINE);
    let read = || outside::read_text(&file, MAX_SETTINGS).map(|text| text.trim().to_string());
    match read() {
        Ok(name) if !name.is_empty() => return Ok(name),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed("read", &file)(error));
        }
        _ => {}
    }
    let made = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().replace([':', '/'], "-");
        let new = tempfile::NamedTempFile::new_in(&folder)?;
        // The end of it is by chance.
        let chance = new_id()?.to_lowercase();
        fs::write(new.path(), format!("{host}-{}\n", &chance[chance.len() - LENGTH..]))?;
        // Two at once: the first one's counts.
        match new.persist_noclobber(&file) {
            Err(error) if error.error.kind() != ErrorKind::AlreadyExists => Err(error.error),
            _ => Ok(()),
        }
    };
    made().map_err(failed("write", &file))?;
    read().map_err(failed("read", &file))
}
