//! What opens the gate from outside, by settings and by the environment: whoever relies on it must see that.

use std::path::{Path, PathBuf};

use phasegate_clients::settings::{self, Scope};
use phasegate_clients::{CLIENTS, Client, outside};
use phasegate_runtime::variables;

/// What the environment of this process switches off.
pub fn in_environment() -> Vec<String> {
    let on = |name: &str, what: &str| {
        variables::is_on(name).then(|| format!("{name}=1 is set: {what}."))
    };
    let all = [
        on(variables::DISABLE, "every stop is allowed"),
        on(variables::TRUST_ALL, "every workflow may run commands without consent"),
    ];
    all.into_iter().flatten().collect()
}

/// What the settings of the clients that are used here switch off.
pub fn in_settings(root: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let scopes = [Some((root.to_path_buf(), Scope::Project)), home.map(|home| (home, Scope::User))];
    let mut found = Vec::new();
    for (base, scope) in scopes.into_iter().flatten() {
        for client in CLIENTS {
            for file in client.files(&base, scope) {
                found.extend(in_file(*client, &file, root));
            }
        }
    }
    found.dedup();
    found
}

fn in_file(client: &dyn Client, file: &Path, root: &Path) -> Vec<String> {
    let Ok(text) = outside::read_text(file, outside::MAX_SETTINGS) else { return Vec::new() };
    let Ok(value) = settings::value(&text) else { return Vec::new() };
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let problems = client.problems(&shown, &text, &value).into_iter();
    problems
        .filter(|problem| problem.opens)
        .map(|problem| format!("{}.", problem.summary))
        .collect()
}
