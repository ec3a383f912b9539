//! What doctor looks at in the settings of clients.

use std::path::{Path, PathBuf};

use phasegate_clients::settings::{self, Hook, Scope};
use phasegate_clients::{CLIENTS, Client, Here, Problem, Quirk, outside};

use super::super::init::wanted;
use super::fire::{fire, version};
use super::{Doctor, Status};

impl Doctor<'_> {
    pub(super) fn clients(&mut self) {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut found: Vec<&dyn Client> = Vec::new();
        for client in CLIENTS.iter().copied() {
            let root = self.project.root.clone();
            let scopes =
                [Some((root, Scope::Project)), home.clone().map(|home| (home, Scope::User))];
            let mut hooks: Vec<Hook> = Vec::new();
            let mut files: Vec<PathBuf> = Vec::new();
            for (base, scope) in scopes.into_iter().flatten() {
                for file in client.files(&base, scope) {
                    self.settings(client, &file);
                    hooks.extend(client.hooks_in(&file).unwrap_or_default());
                    files.push(file);
                }
            }
            self.version(client, &hooks);
            if !hooks.is_empty() {
                found.push(client);
                self.installed(client, &hooks);
                self.lacking(client, &files, hooks.iter().any(|hook| hook.is_in_plugin));
            }
        }
        if found.is_empty() {
            let summary = "the hook is not installed in any client: no agent is held";
            let plugin = CLIENTS.iter().find(|client| client.has(Quirk::HasPlugin));
            let plugin = plugin.map(|client| format!(", or the plugin for {}", client.title()));
            let remedy = format!("`phasegate init`{}", plugin.unwrap_or_default());
            self.row("hook", "client", Status::Fail, summary, Some(remedy));
        }
        self.fired_twice(&found);
    }

    /// Events that a workflow or the configuration asks for, and for which the client has no hook.
    fn lacking(&mut self, client: &dyn Client, files: &[PathBuf], has_plugin: bool) {
        let lacking = client.lacks(files, &wanted(self.project), has_plugin);
        if lacking.is_empty() {
            return;
        }
        let (id, title) = (format!("hook.{}.asked", client.name()), client.title());
        let summary = format!(
            "{title} has no hook for what a workflow or the configuration asks for: {}",
            lacking.join(", ")
        );
        let remedy = format!("`phasegate init --client {}`", client.name());
        self.row(id, "client", Status::Warn, summary, Some(remedy));
    }

    /// Clients that read each other's settings may fire each other's hooks.
    fn fired_twice(&mut self, found: &[&dyn Client]) {
        let root = self.project.root.clone();
        let is_own = |client: &&dyn Client| {
            let mut files = client.files(&root, Scope::Project).into_iter();
            files.any(|file| client.hooks_in(&file).is_ok_and(|hooks| !hooks.is_empty()))
        };
        let own: Vec<&dyn Client> = CLIENTS.iter().copied().filter(is_own).collect();
        let titles = |clients: &[&dyn Client], between: &str| {
            clients.iter().map(|client| client.title()).collect::<Vec<_>>().join(between)
        };
        let mut folders: Vec<&str> =
            own.iter().filter_map(|client| client.facts().hooks_folder).collect();
        folders.dedup();
        let mut summaries = Vec::new();
        for folder in folders {
            let reads = |client: &&&dyn Client| client.facts().hooks_folder == Some(folder);
            let readers: Vec<&dyn Client> = own.iter().filter(reads).copied().collect();
            if readers.len() > 1 {
                let names = titles(&readers, " and ");
                summaries.push(format!(
                    "{names} both read {folder}: each may fire the hook of the other, too"
                ));
            }
        }
        for client in found {
            // A client that starts a hook without its arguments runs only one-line hooks.
            let lines = self.has_one_line(*client);
            let reads = |it: &&&dyn Client| {
                it.facts().also_reads.contains(&client.name())
                    && (lines || !it.has(Quirk::DropsArguments))
            };
            let readers: Vec<&dyn Client> = own.iter().filter(reads).copied().collect();
            let file = client.settings(Scope::Project).into_iter().next();
            if let (false, Some(file)) = (readers.is_empty(), file) {
                let (names, file) = (titles(&readers, ", "), file.path.display().to_string());
                summaries.push(format!(
                    "{names}: the hook may fire twice, since {file} is read there, too"
                ));
            }
        }
        for summary in summaries {
            let remedy = "install it in one of them: `phasegate uninstall --client …`";
            self.row("hook.twice", "client", Status::Warn, summary, Some(remedy.into()));
        }
    }

    /// Whether a hook of a client in this project is one line.
    fn has_one_line(&self, client: &dyn Client) -> bool {
        let mut files = client.files(&self.project.root, Scope::Project).into_iter();
        files.any(|file| {
            let hooks = client.hooks_in(&file).unwrap_or_default();
            hooks.iter().any(Hook::is_one_line)
        })
    }

    /// The client's own program, where it is found.
    fn version(&mut self, client: &dyn Client, hooks: &[Hook]) {
        let Some((program, version)) = version(client) else { return };
        let shown = program.display().to_string();
        let (id, title) = (format!("client.{}", client.name()), client.title());
        match version {
            Ok(version) => match client.outdated(&version, hooks) {
                Some(problem) => self.problem(&id, problem),
                None => self.ok(&id, "client", format!("{title}: {version} ({shown})")),
            },
            Err(why) => {
                let remedy = format!("check that `{shown} --version` works");
                self.row(id, "client", Status::Warn, format!("{title}: {why}"), Some(remedy));
            }
        }
    }

    fn problem(&mut self, id: &str, problem: Problem) {
        let status = if problem.is_fatal { Status::Fail } else { Status::Warn };
        self.row(id, "client", status, problem.summary, Some(problem.remedy));
    }

    /// A file of settings: whether it can be read, and whether it switches hooks off.
    fn settings(&mut self, client: &dyn Client, file: &Path) {
        let Ok(text) = outside::read_text(file, outside::MAX_SETTINGS) else { return };
        let shown = shown(file, &self.project.root);
        let id = format!("settings.{}", client.name());
        match settings::read(file, &text) {
            Ok(value) => {
                for problem in client.problems(&shown, &text, &value) {
                    self.problem(&id, problem);
                }
            }
            Err(why) => {
                let summary = format!("{shown} cannot be read: {why}");
                let remedy = format!("repair {shown}: {} ignores it as it is", client.title());
                self.row(id, "client", Status::Fail, summary, Some(remedy));
            }
        }
    }

    /// The hooks of a client: how often, for how long, and what they answer.
    fn installed(&mut self, client: &dyn Client, hooks: &[Hook]) {
        let (name, title) = (client.name(), client.title());
        let root = self.project.root.clone();
        let places: Vec<String> = hooks.iter().map(|hook| shown(&hook.file, &root)).collect();
        if client.fires_twice(hooks) {
            let summary = format!(
                "{title}: the hook is installed {} times, and may fire as often",
                hooks.len()
            );
            let remedy =
                "keep one: `phasegate uninstall`, with --user for your own settings, or the plugin";
            let row = self.row(
                format!("hook.{name}.twice"),
                "client",
                Status::Warn,
                summary,
                Some(remedy.into()),
            );
            row.details.clone_from(&places);
        }
        for hook in hooks {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let here = Here { root: &root, home: &home };
            if let Some(problem) = client.untrusted(&hook.file, &here) {
                self.problem(&format!("hook.{name}.trust"), problem);
            }
            let needed = client.time().as_secs();
            let place = shown(&hook.file, &root);
            if let Some(seconds) = hook.seconds.filter(|seconds| *seconds < needed) {
                let summary = format!(
                    "{title}: the hook in {place} has only {seconds} seconds; a stop that takes longer is allowed"
                );
                let remedy = "give it the time that `phasegate init --print` shows".to_string();
                self.row(
                    format!("hook.{name}.timeout"),
                    "client",
                    Status::Warn,
                    summary,
                    Some(remedy),
                );
            }
            match fire(client, hook) {
                Ok(took) => {
                    let summary = format!(
                        "{title}: the hook in {place} blocks and allows, in {} ms",
                        took.as_millis()
                    );
                    self.ok(&format!("hook.{name}"), "client", summary);
                }
                Err(why) => {
                    let summary = format!("{title}: the hook in {place} does not work: {why}");
                    let remedy = format!(
                        "`phasegate uninstall --client {name}`, then `phasegate init --client {name}`; check that `phasegate` is on the client's PATH"
                    );
                    let row = self.row(
                        format!("hook.{name}"),
                        "client",
                        Status::Fail,
                        summary,
                        Some(remedy),
                    );
                    row.details.push(hook.command.join(" "));
                }
            }
        }
    }
}

/// A path as people read it.
fn shown(path: &Path, root: &Path) -> String {
    if let Ok(short) = path.strip_prefix(root) {
        return short.display().to_string();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let short = home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_path_buf));
    short.map_or_else(|| path.display().to_string(), |short| format!("~/{}", short.display()))
}
