//! What is left of us where we are no longer wanted: all that was kept for a project or for a user, and nothing
//! that a person has written.

use std::fs;
use std::path::PathBuf;

use crate::bindings;
use crate::config::state_folder;
use crate::paused;
use crate::project::Project;
use crate::trust;
use crate::witness;

/// What people write into a project's folder, and share: it stays.
const WRITTEN: [&str; 3] = ["config.toml", "workflows", ".gitignore"];

/// What was kept for a project: its runs with their evidence, jobs and logs, and what the user's folders
/// remember of it.
pub fn of_project(project: &Project) -> Vec<PathBuf> {
    let root = &project.root;
    let own = fs::read_dir(root.join(".phasegate")).into_iter().flatten().flatten();
    let own = own.filter(|entry| !WRITTEN.iter().any(|name| entry.file_name() == *name));
    let mut found: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
    found.sort();
    found.extend(witness::folder(root));
    let gates = project.workflows.iter().map(|entry| entry.name.as_str());
    found.extend(gates.filter_map(|gate| paused::place(root, gate)));
    found.extend(trust::all_of(root));
    found.extend(bindings::only_of(root));
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// What was kept for a user: our folders for state and for consent are ours as a whole.
pub fn of_user() -> Vec<PathBuf> {
    let all = [state_folder(), trust::folder()];
    all.into_iter().flatten().filter(|path| path.symlink_metadata().is_ok()).collect()
}
