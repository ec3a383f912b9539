//! What doctor looks at in the settings of clients.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::fire::{fire, on_path, run_bounded};
use super::{Doctor, Status};
use crate::client::install::{self, Hook};
use crate::client::{CLIENTS, Client};

impl Doctor<'_> {
    pub(super) fn clients(&mut self) {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut any = false;
        let mut claude = false;
        for client in CLIENTS {
            let root = self.project.root.clone();
            let scopes = [Some((root, false)), home.clone().map(|home| (home, true))];
            let mut hooks: Vec<Hook> = Vec::new();
            for (base, is_user) in scopes.into_iter().flatten() {
                for file in install::files(client, &base, is_user) {
                    self.settings(client, &file);
                    hooks.extend(install::hooks(client, &file).unwrap_or_default());
                }
            }
            self.version(client);
            any |= !hooks.is_empty();
            claude |= client == Client::Claude && !hooks.is_empty();
            if !hooks.is_empty() {
                self.installed(client, &hooks);
            }
        }
        if !any {
            let summary = "no client has our hook: nothing holds an agent";
            let remedy = "`phasegate init`, or the plugin for Claude Code";
            self.row("hook", "client", Status::Fail, summary, Some(remedy.into()));
        }
        // Others read Claude's files, too.
        let readers = [Client::Copilot, Client::Vscode, Client::Cursor];
        let root = &self.project.root;
        let own = |client: &Client| {
            let mut files = install::files(*client, root, false).into_iter();
            files.any(|file| install::hooks(*client, &file).is_ok_and(|it| !it.is_empty()))
        };
        let twice: Vec<Client> = readers.into_iter().filter(own).collect();
        let both = [Client::Copilot, Client::Vscode].iter().all(|client| twice.contains(client));
        if both {
            let summary = "Copilot CLI and VS Code both read .github/hooks: each may fire the hook of the other, too";
            let remedy = "install it in one of them: `phasegate uninstall --client …`";
            self.row("hook.twice", "client", Status::Warn, summary, Some(remedy.into()));
        }
        if claude && !twice.is_empty() {
            let names: Vec<&str> = twice.iter().map(|client| client.title()).collect();
            let names = names.join(", ");
            let summary = format!(
                "{names}: the hook may fire twice, since .claude/settings.json is read there, too"
            );
            let remedy = "install it in one of them: `phasegate uninstall --client …`";
            self.row("hook.twice", "client", Status::Warn, summary, Some(remedy.into()));
        }
    }

    /// The client's own program, where it is found.
    fn version(&mut self, client: Client) {
        let Some(program) = client.program().and_then(on_path) else { return };
        let shown = program.display().to_string();
        let words = vec![shown.clone(), "--version".to_string()];
        let (id, title) = (format!("client.{}", client.name()), client.title());
        match run_bounded(&words, Path::new("."), "") {
            Ok(text) => {
                let version = text.lines().next().unwrap_or_default().trim().to_string();
                if client == Client::Claude && ignores_arguments(&version) {
                    let summary = format!("{title} {version} starts hooks without their arguments");
                    let remedy = "upgrade it to 2.1.140 or later, or write the hook as one line: \"command\": \"phasegate hook stop --client claude\"";
                    self.row(id, "client", Status::Fail, summary, Some(remedy.into()));
                    return;
                }
                self.ok(&id, "client", format!("{title}: {version} ({shown})"));
            }
            Err(why) => {
                let remedy = format!("see that `{shown} --version` works");
                self.row(id, "client", Status::Warn, format!("{title}: {why}"), Some(remedy));
            }
        }
    }

    /// A file of settings: whether it can be read, and whether it switches hooks off.
    fn settings(&mut self, client: Client, file: &Path) {
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let shown = shown(file, &self.project.root);
        let id = format!("settings.{}", client.name());
        let value = match install::value(&text) {
            Ok(value) => value,
            Err(why) => {
                let summary = format!("{shown} is no valid JSON: {why}");
                let remedy = format!("mend {shown}: {} ignores it as it is", client.title());
                self.row(id, "client", Status::Fail, summary, Some(remedy));
                return;
            }
        };
        let plain_text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if client == Client::Claude && serde_json::from_str::<Value>(plain_text).is_err() {
            let summary =
                format!("{shown} has comments or trailing commas: Claude Code ignores it");
            let remedy = format!("take them out of {shown}, or use the plugin");
            self.row(id.clone(), "client", Status::Fail, summary, Some(remedy));
        }
        if value.get("disableAllHooks") == Some(&json!(true)) {
            let summary = format!("{shown} has `disableAllHooks`: no hook runs");
            self.row(
                id.clone(),
                "client",
                Status::Fail,
                summary,
                Some(format!("remove it from {shown}")),
            );
        }
        let variable = |name: &str| value.pointer(&format!("/env/{name}")).map(plain);
        if variable("PHASEGATE_DISABLE").as_deref() == Some("1") {
            let summary = format!("{shown} sets PHASEGATE_DISABLE=1: every stop is allowed");
            self.row(
                id.clone(),
                "client",
                Status::Fail,
                summary,
                Some(format!("remove it from {shown}")),
            );
        }
        let cap =
            variable("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").and_then(|cap| cap.parse::<u64>().ok());
        if let Some(cap) = cap.filter(|cap| (1..3).contains(cap)) {
            let summary = format!("{shown} lets a hook block only {cap} times without a tool call");
            let remedy = "raise CLAUDE_CODE_STOP_HOOK_BLOCK_CAP (8 is the default, 0 is no cap)";
            self.row(id, "client", Status::Warn, summary, Some(remedy.into()));
        }
    }

    /// The hooks of a client: how often, for how long, and what they answer.
    fn installed(&mut self, client: Client, hooks: &[Hook]) {
        let (name, title) = (client.name(), client.title());
        let root = self.project.root.clone();
        let places: Vec<String> = hooks.iter().map(|hook| shown(&hook.file, &root)).collect();
        // The same command in two places is run once by Claude Code.
        let mut commands: Vec<&Vec<String>> = hooks.iter().map(|hook| &hook.command).collect();
        commands.sort();
        commands.dedup();
        let is_twice = if client == Client::Claude { commands.len() > 1 } else { hooks.len() > 1 };
        if is_twice {
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
            let needed = client.time().as_secs();
            let place = shown(&hook.file, &root);
            if let Some(seconds) = hook.seconds.filter(|seconds| *seconds < needed) {
                let summary = format!(
                    "{title}: the hook in {place} has only {seconds} seconds; a stop that takes longer is allowed"
                );
                let remedy = "give it as much as `phasegate init --print` shows".to_string();
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
                        "`phasegate uninstall --client {name}`, then `phasegate init --client {name}`; and see that `phasegate` is on the client's PATH"
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

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Whether a version of Claude Code is from before hooks had arguments: it starts the bare program.
fn ignores_arguments(version: &str) -> bool {
    let number = version.split_whitespace().next().unwrap_or_default();
    let parts: Vec<u64> = number.split('.').filter_map(|part| part.parse().ok()).collect();
    matches!(parts.as_slice(), [major, minor, patch] if (*major, *minor, *patch) < (2, 1, 140))
}
