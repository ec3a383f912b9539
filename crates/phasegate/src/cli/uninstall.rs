//! `phasegate uninstall`: takes our entries out of the settings of clients, and with `--purge` all that was kept.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use phasegate_clients::settings::{Scope as Whose, Settings};
use phasegate_clients::{CLIENTS, Client, splice};
use phasegate_engine::bom;
use phasegate_runtime::jobs;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, filesystem, outside, remains};
use schemars::JsonSchema;
use serde::Serialize;

use super::init::{self, Change, Installed, Scope, client_parser, which_client, write};
use super::{Failed, Outcome, lint};
use crate::print;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Options {
    #[arg(long, value_delimiter = ',', help = which_client(), value_parser = client_parser())]
    client: Vec<&'static dyn Client>,
    /// From the settings of this user, which are for all projects
    #[arg(long)]
    user: bool,
    /// All that was kept, too: runs with their journals and evidence, consents, what is remembered of sessions.
    /// What people have written stays: workflows, configuration, documents outside `.phasegate`
    #[arg(long, conflicts_with = "client")]
    purge: bool,
    /// Do not ask
    #[arg(long, requires = "purge")]
    yes: bool,
    /// Only show what would be done
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was taken away, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Whether it was removed, or only shown.
    removed: bool,
    changes: Vec<Change>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    print::aside_for(options.json);
    let scope = Scope::of(project, options.user)?;
    let kept = if options.purge { kept(project, options, &scope)? } else { Vec::new() };
    let found = from_settings(&scope, options)?;
    if !options.purge {
        print::line(match (found, options.print) {
            (false, _) => "There is nothing to remove from the settings.",
            (true, true) => "Nothing was removed. Run it without --print to remove this.",
            (true, false) if scope.whose == Whose::User => "Done.",
            (true, false) => "Done. The project's own `.phasegate/` stays; `--purge` removes it.",
        });
        return Ok(told(&scope, options));
    }
    if options.print {
        print::line("Nothing was removed. Run it without --print to remove this.");
        return Ok(told(&scope, options));
    }
    let mut failed = Vec::new();
    for path in &kept {
        // Another process may have been faster.
        if path.symlink_metadata().is_ok()
            && let Err(error) = filesystem::remove(path)
        {
            failed.push(format!("cannot remove {}: {error}", path.display()));
        }
    }
    // A folder with something in it stays.
    for path in &kept {
        remove_empty(path, &project.root);
    }
    if !failed.is_empty() {
        return Err(Failed::new(failed.join("\nerror: ")));
    }
    print::line("Done.");
    Ok(told(&scope, options))
}

fn told(scope: &Scope, options: &Options) -> ExitCode {
    if options.json {
        let changes = scope.changes.take();
        print::json(&Shown { removed: !options.print, changes });
    }
    ExitCode::SUCCESS
}

/// What was kept and goes: it is listed, and the person is asked.
fn kept(project: &Project, options: &Options, scope: &Scope) -> Result<Vec<PathBuf>, Failed> {
    if !options.print {
        caller::must_be_human("removing what was kept")?;
    }
    let alive = jobs::alive(&project.root).len();
    if alive > 0 && !options.user && !options.print {
        let jobs = lint::counted(alive, "job");
        return Err(Failed::new(format!(
            "{jobs} still running here: `phasegate jobs` shows how to end one"
        )));
    }
    let kept = if options.user {
        remains::of_user()
    } else {
        let mut kept = remains::of_project(project);
        kept.extend(init::untouched(&project.root));
        kept
    };
    for path in &kept {
        let shown = path.strip_prefix(&project.root).unwrap_or(path);
        scope.tell("remove", &shown.display().to_string(), None);
    }
    if kept.is_empty() {
        print::line("Nothing was kept.");
    }
    if options.yes || options.print || kept.is_empty() {
        return Ok(kept);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failed::new("nobody can be asked here: add --yes".into()));
    }
    print::ask("Remove all of that, for good? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Err(Failed::new("nothing was removed".into()));
    }
    Ok(kept)
}

/// Takes our entries out of the settings; whether there were any.
fn from_settings(scope: &Scope, options: &Options) -> Result<bool, Failed> {
    let mut installed = scope.installed();
    let all = if options.client.is_empty() { CLIENTS.to_vec() } else { options.client.clone() };
    let mut found = false;
    let mut problems = Vec::new();
    for client in all {
        // A client that has no such place has nothing in it.
        let files =
            client.settings_with(&scope.base, scope.whose, &all_events(client)).unwrap_or_default();
        for settings in files {
            match remove(scope, client, &settings, &mut installed, options.print) {
                Ok(done) => found |= done,
                Err(failed) => problems.push(failed.message),
            }
        }
    }
    if !options.print {
        scope.keep(&installed)?;
    }
    if problems.is_empty() { Ok(found) } else { Err(Failed::new(problems.join("\nerror: "))) }
}

fn remove(
    scope: &Scope,
    client: &dyn Client,
    settings: &Settings,
    installed: &mut Installed,
    only_print: bool,
) -> Result<bool, Failed> {
    let before = outside::read_text(&settings.path, outside::MAX_SETTINGS);
    let Ok(before) = before else { return Ok(false) };
    let (shown, title) = (scope.shown(&settings.path), client.title());
    let own = scope.short(&settings.path);
    let noted = installed.files.iter().position(|file| file.path == own);
    let note = noted.map(|at| &installed.files[at]);
    let mut after = before.clone();
    // Exactly what was put in, where that is still there; else whatever is ours.
    for text in note.iter().flat_map(|file| file.texts.iter().rev()) {
        if after.matches(text.as_str()).count() == 1 {
            let without = after.replacen(text.as_str(), "", 1);
            // Somebody may have written something behind it meanwhile.
            if settings.is_valid(&without) {
                after = without;
            }
        }
    }
    let is_noted = note.is_some_and(|file| file.created.as_ref() == Some(&after));
    let is_whole = is_noted || settings.is_own(&before);
    if is_whole {
        scope.tell("remove", &shown, Some(title));
        if !only_print {
            match note.and_then(|file| file.blank.clone()) {
                Some(blank) => write(&settings.path, &blank)?,
                None => std::fs::remove_file(&settings.path)?,
            }
            if note.is_some_and(|file| file.folder) {
                remove_empty(&settings.path, &scope.base);
            }
            installed.files.retain(|file| file.path != own);
        }
        return Ok(true);
    }
    let mark = after.len() - bom::strip(&after).len();
    let rest = splice::without(&after[mark..], settings)
        .map_err(|why| Failed::new(format!("{shown} cannot be changed: {why}")))?;
    let after = format!("{}{rest}", &after[..mark]);
    if after == before {
        return Ok(false);
    }
    scope.tell("change", &shown, Some(title));
    if !only_print {
        write(&settings.path, &after)?;
        installed.files.retain(|file| file.path != own);
    }
    Ok(true)
}

/// Removes folders that were made for a file, if nothing else is in them.
fn remove_empty(file: &Path, base: &Path) {
    let mut folder = file.parent();
    while let Some(here) = folder.filter(|here| *here != base && here.starts_with(base)) {
        if std::fs::remove_dir(here).is_err() {
            return;
        }
        folder = here.parent();
    }
}

/// Our names for the events that a client may have a hook for beside the usual ones.
fn all_events(client: &dyn Client) -> Vec<&'static str> {
    client.facts().on_demand.iter().map(|(_, name, _)| *name).collect()
}
