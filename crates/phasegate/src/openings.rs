//! What opens the gate from outside, by settings and by the environment: people who rely on the gate must see that.

use std::path::{Path, PathBuf};

use phasegate_clients::settings::{self, Hook, Scope};
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
    let files = settings_of(root).flat_map(|(client, files)| {
        files.into_iter().flat_map(move |file| in_file(client, &file, root))
    });
    let mut found: Vec<String> = files.collect();
    found.dedup();
    found
}

/// Which clients fire the hook more than once at a stop, since it is installed in several places.
pub fn installed_twice(root: &Path) -> Vec<String> {
    let twice = settings_of(root).filter_map(|(client, files)| {
        let hooks = files.iter().filter_map(|file| client.hooks_in(file).ok());
        let hooks: Vec<Hook> = hooks.flatten().collect();
        let title = client.title();
        client.fires_twice(&hooks).then(|| {
            format!(
                "{title} has the hook installed {} times, and fires each of them. `phasegate doctor` says \
                 where.",
                hooks.len()
            )
        })
    });
    twice.collect()
}

/// Each client with the files of its settings, in the project and of the user.
fn settings_of(root: &Path) -> impl Iterator<Item = (&'static dyn Client, Vec<PathBuf>)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let root = root.to_path_buf();
    CLIENTS.iter().map(move |client| {
        let mut files = client.files(&root, Scope::Project);
        files.extend(home.iter().flat_map(|home| client.files(home, Scope::User)));
        (*client, files)
    })
}

/// The files of a client's settings that have our hook.
pub fn hooked(client: &'static dyn Client, root: &Path) -> Vec<PathBuf> {
    let files = settings_of(root).filter(|(it, _)| it.name() == client.name());
    let files = files.flat_map(|(_, files)| files);
    files.filter(|file| client.hooks_in(file).is_ok_and(|hooks| !hooks.is_empty())).collect()
}

/// What a file of settings switches off.
pub fn in_file(client: &dyn Client, file: &Path, root: &Path) -> Vec<String> {
    let Ok(text) = outside::read_text(file, outside::MAX_SETTINGS) else { return Vec::new() };
    let Ok(value) = settings::value(&text) else { return Vec::new() };
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let problems = client.problems(&shown, &text, &value).into_iter();
    problems
        .filter(|problem| problem.opens)
        .map(|problem| format!("{}.", problem.summary))
        .collect()
}
