//! Trees that go to other machines, and what comes back from there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{Kept, named, said};
use crate::git::names::{self, Mode};
use crate::git::transfer::Own;
use crate::outside;
use crate::paths;
use crate::tree::content::Patterns;

/// Who makes the commits that no person makes.
const AUTHOR: &str = "Phasegate";

/// The largest file that is brought back.
const MAX_FILE: u64 = 1 << 30;

/// A file in two trees: its mode and its digest in each, none where it is not there.
struct Changed {
    path: String,
    before: Option<(String, String)>,
    after: Option<(String, String)>,
}

impl Kept {
    /// The repository that they are kept in.
    pub(crate) fn repository(&self) -> Own {
        Own::at(&self.place)
    }

    /// Makes a commit of a tree that is kept.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn commit(
        &self,
        tree: &str,
        parent: Option<&str>,
        text: &str,
    ) -> Result<String, String> {
        let mut command = self.command();
        command.args(["commit-tree", named(tree)?, "-m", text]);
        if let Some(parent) = parent {
            command.args(["-p", named(parent)?]);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), AUTHOR);
            command.env(format!("GIT_{who}_EMAIL"), "phasegate@localhost");
        }
        Ok(String::from_utf8_lossy(&said(command, b"")?).trim().to_string())
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn tree_of(&self, commit: &str) -> Result<String, String> {
        let asked = format!("{}^{{tree}}", named(commit)?);
        let tree = self.ask(&["rev-parse", "--verify", "--quiet", &asked], b"")?;
        Ok(String::from_utf8_lossy(&tree).trim().to_string())
    }

    /// Brings what has changed from one commit to another into the files at `root`, but for those that match a pattern.
    /// Either all of it is brought, or nothing: what was changed here meanwhile wins, and is named. Only of what the
    /// rules have written themselves, below `own`, each file is brought that is still as it was.
    ///
    /// # Errors
    /// Why it was not brought, in words for people.
    pub(crate) fn bring(
        &self,
        root: &Path,
        (from, to): (&str, &str),
        (apart, own): (&[String], &str),
    ) -> Result<usize, String> {
        let apart = Patterns::new(apart);
        let is_own = |path: &str| path.starts_with(own);
        let changed: Vec<Changed> = self
            .changed(from, to)?
            .into_iter()
            .filter(|changed| is_own(&changed.path) || !apart.fit(&changed.path))
            .collect();
        let mut missing = Vec::new();
        for changed in &changed {
            let path = paths::inside(root, &changed.path).map_err(|why| why.to_string())?;
            let now = present(&path)?;
            // One that is as it will be was brought by a process that died.
            let is_changed = now != changed.before && now != changed.after;
            if is_changed && is_own(&changed.path) {
                continue;
            }
            if is_changed {
                return Err(format!("{} was changed here meanwhile", changed.path));
            }
            if now != changed.after {
                missing.push((path, changed));
            }
        }
        for (path, changed) in &missing {
            let done = self.put(path, changed);
            done.map_err(|why| format!("{}: {why}", changed.path))?;
        }
        Ok(changed.len())
    }

    fn put(&self, path: &Path, changed: &Changed) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let Some((mode, digest)) = &changed.after else {
            return fs::remove_file(path).map_err(failed);
        };
        let bytes = self.ask(&["cat-file", "blob", named(digest)?], b"")?;
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(failed)?;
        if mode == Mode::Link.text() {
            let _ = fs::remove_file(path);
            return symlink(String::from_utf8_lossy(&bytes).as_ref(), path).map_err(failed);
        }
        // Whole or not at all, and never through a link.
        let new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        fs::write(new.path(), bytes).map_err(failed)?;
        let bits = if mode == Mode::Program.text() { 0o755 } else { 0o644 };
        fs::set_permissions(new.path(), fs::Permissions::from_mode(bits)).map_err(failed)?;
        new.persist(path).map(drop).map_err(|error| error.error.to_string())
    }

    fn changed(&self, from: &str, to: &str) -> Result<Vec<Changed>, String> {
        let options = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
        let mut command = self.command();
        command.args(options).args([named(from)?, named(to)?]);
        let listed = said(command, b"")?;
        let listed = String::from_utf8_lossy(&listed);
        let mut parts = listed.split_terminator('\0');
        let mut found = Vec::new();
        while let (Some(facts), Some(path)) = (parts.next(), parts.next()) {
            let facts: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
            let [before, after, old, new, _] = facts.as_slice() else {
                return Err("git compares in an unexpected form".into());
            };
            let file = |mode: &str, digest: &str| {
                (mode != "000000").then(|| (mode.to_string(), digest.to_string()))
            };
            let (before, after) = (file(before, old), file(after, new));
            found.push(Changed { path: path.to_string(), before, after });
        }
        Ok(found)
    }
}

/// The mode and the digest of a file as it is; none where there is none.
fn present(path: &Path) -> Result<Option<(String, String)>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        meta => meta.map_err(failed)?,
    };
    let (mode, bytes) = if meta.is_symlink() {
        let target = fs::read_link(path).map_err(failed)?;
        (Mode::Link, target.as_os_str().as_encoded_bytes().to_vec())
    } else {
        let is_program = meta.permissions().mode() & 0o111 != 0;
        let mode = if is_program { Mode::Program } else { Mode::File };
        (mode, outside::read(path, MAX_FILE).map_err(failed)?)
    };
    Ok(Some((mode.to_string(), names::object("blob", &bytes).to_string())))
}
