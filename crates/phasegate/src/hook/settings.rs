//! What a changed file of a client's settings does to the gate.

use std::path::{Path, PathBuf};

use phasegate_clients::{Client, Reply};
use phasegate_runtime::bindings;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::Project;

use crate::openings;

/// The answer to a change of settings: refused, where it would open the gate for a session that is held.
pub fn changed(
    project: &Project,
    client: &'static dyn Client,
    session: &str,
    file: Option<&Path>,
) -> Reply {
    let Some(what) = file.and_then(|file| opens(project, client, session, file)) else {
        return Reply::default();
    };
    let gate = Gate::new(project);
    let (block, faults) = gate.refuse_settings(session, &what);
    for fault in &faults {
        fault_log::note(Some(&project.root), fault);
    }
    let message = (!faults.is_empty()).then(|| format!("phasegate: {}", faults.join(" ")));
    Reply { block, message, ..Reply::default() }
}

/// How a file opens the gate as it is now; none where it does not.
fn opens(
    project: &Project,
    client: &'static dyn Client,
    session: &str,
    file: &Path,
) -> Option<String> {
    let problem = openings::in_file(client, file, &project.root).into_iter().next();
    let problem = problem.map(|problem| problem.trim_end_matches('.').to_string());
    problem.or_else(|| {
        let had = bindings::of(session).map(|bound| bound.hooked).unwrap_or_default();
        let is_dropped = had.iter().any(|had| is_same(had, file))
            && client.facts().plugin_variable.and_then(std::env::var_os).is_none()
            && openings::hooked(client, &project.root).is_empty();
        let shown = file.strip_prefix(&project.root).unwrap_or(file).display();
        is_dropped.then(|| format!("{shown} no longer has the hook of Phasegate"))
    })
}

/// Whether two paths are one file, which may be gone.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| -> PathBuf {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        folder.map_or_else(
            || path.to_path_buf(),
            |folder| folder.join(path.file_name().unwrap_or_default()),
        )
    };
    real(one) == real(other)
}
