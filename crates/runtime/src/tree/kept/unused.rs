//! Trees that nobody asks about any more. Git itself tells what belongs to the others, and removes the rest: whatever
//! was written lately stays, with all that belongs to it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::{FOLDER, Kept};
use crate::paths;

/// How many bytes the trees take that were kept before, and are not among these names.
///
/// # Errors
/// Why that cannot be told.
pub fn unused_bytes(home: &Path, in_use: &BTreeSet<String>, age: Duration) -> Result<u64, String> {
    let Some(kept) = existing(home)? else { return Ok(0) };
    let listed = kept.prune(in_use, age, &["--dry-run"])?;
    let objects = listed.lines().filter_map(|line| line.split(' ').next());
    let size = |name: &str| {
        let (folder, file) = name.split_at_checked(2)?;
        let path = kept.place.join("objects").join(folder).join(file);
        Some(path.symlink_metadata().ok()?.len())
    };
    Ok(objects.filter_map(size).sum())
}

/// Removes them.
///
/// # Errors
/// What git says.
pub fn remove_unused(home: &Path, in_use: &BTreeSet<String>, age: Duration) -> Result<(), String> {
    let Some(kept) = existing(home)? else { return Ok(()) };
    kept.prune(in_use, age, &[]).map(drop)
}

/// The trees of a project that has kept some, for this process alone.
fn existing(home: &Path) -> Result<Option<Kept>, String> {
    let place = paths::inside(home, FOLDER).map_err(|why| why.to_string())?;
    if !place.join("HEAD").is_file() {
        return Ok(None);
    }
    Kept::alone(home).map(Some)
}

impl Kept {
    fn prune(
        &self,
        in_use: &BTreeSet<String>,
        age: Duration,
        options: &[&str],
    ) -> Result<String, String> {
        let asked = in_use.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        let known = self.ask(&["cat-file", "--batch-check"], asked.as_bytes())?;
        let known = String::from_utf8_lossy(&known);
        let trees = known.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            (words.next()? == "tree").then_some(name)
        });
        let expire = format!("--expire={}.seconds.ago", age.as_secs());
        let mut arguments = vec!["prune", expire.as_str()];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(trees);
        let said = self.ask(&arguments, b"")?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}
