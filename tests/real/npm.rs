//! Clients from npm, each installed once and kept, and what is skipped where that cannot be done.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::running::Running;

/// How long an installation may take.
const INSTALLATION: Duration = Duration::from_mins(5);

/// The folder in which packages are installed, once for all tests. It has this program.
///
/// # Errors
/// Where they cannot be installed.
pub fn install(name: &str, packages: &[&str], program: &Path) -> Result<PathBuf, String> {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let place = |end: &str| cache.join(format!("{name}{end}"));
    let (folder, new) = (place(""), place(".new"));
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&cache).map_err(failed)?;
    // Other processes may be at it.
    let lock = File::create(place(".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !folder.join(program).exists() {
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).map_err(failed)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        npm.arg(&new).args(packages).stdin(Stdio::null());
        let ended = Running::start(npm, INSTALLATION).map_err(|error| format!("npm: {error}"))?;
        let ended = ended.wait();
        if !ended.is_success() || !new.join(program).exists() {
            let said = ended.stderr.lines().next().unwrap_or("it cannot be installed").to_string();
            let _ = fs::remove_dir_all(&new);
            return Err(format!("npm: {said}"));
        }
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&new, &folder).map_err(failed)?;
    }
    Ok(folder)
}

/// Says that something is not tested. `.ci/run` counts these lines, and fails unless `.ci/skips` has
/// what they begin with.
pub fn skip(what: &str) {
    // Not by a macro: the test harness hides what those print.
    let _ = std::io::stderr().write_all(format!("SKIPPED: {what}\n").as_bytes());
}
