//! `phasegate init`: our entries in the settings of clients, and a gate to begin with.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use phasegate_clients::settings::{self, Scope as Whose, Settings};
use phasegate_clients::{CLIENTS, Client, Here, Quirk, named, splice, usual};
use phasegate_engine::bom;
use phasegate_engine::events::{TASK_COMPLETED, TEAMMATE_IDLE};
use phasegate_runtime::catalog::templates;
use phasegate_runtime::outside;
use phasegate_runtime::project::Project;
use phasegate_runtime::trust;
use phasegate_runtime::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::doctor::client_version;
use super::new::{Made, TESTS, tests_of};
use super::{Failed, Outcome};
use crate::openings;
use crate::print::{self, Paint, paint};

/// What git need not know of a project's folder.
const IGNORED: &str = "# Made by Phasegate: runs and their documents are local; settings and definitions are for everybody.
/*
!/.gitignore
!/config.toml
!/workflows/
";

/// The gate to begin with: the template that it is made from, and what it is called.
const STARTER: (&str, &str) = ("tests", "ship");

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Options {
    #[arg(long, value_delimiter = ',', help = which_client(), value_parser = client_parser())]
    client: Vec<&'static dyn Client>,
    /// For all projects of this user
    #[arg(long)]
    user: bool,
    /// The MCP server, too: its tools are in every session then, and the client asks for your consent
    #[arg(long)]
    mcp: bool,
    /// Only show what would be done
    #[arg(long)]
    print: bool,
    /// The settings for all users of an organisation; with --print, for the administrator to put in place
    #[arg(long, requires = "print", conflicts_with = "user")]
    managed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was put where, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Whether it was written, or only shown.
    written: bool,
    changes: Vec<Change>,
    /// What a person has to do before it works, or should know.
    next: Vec<String>,
}

/// What becomes of a file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Change {
    pub path: String,
    /// `new`, `change` or `remove`.
    pub change: String,
}

pub(super) fn which_client() -> String {
    let usual = usual().title();
    format!(
        "The client, or several; by default the ones with a folder of their own here, otherwise \
         {usual}, and to uninstall all"
    )
}

pub(super) fn client_parser() -> impl TypedValueParser<Value = &'static dyn Client> {
    let names = CLIENTS.iter().map(|client| client.name());
    PossibleValuesParser::new(names).map(|name| named(&name).unwrap_or(usual()))
}

/// What was put where, so that exactly that can be taken out again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Installed {
    pub(super) files: Vec<InstalledFile>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstalledFile {
    pub(super) path: PathBuf,
    /// The whole file is ours, if it still has this text.
    pub(super) created: Option<String>,
    /// What was there instead, where that was only blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blank: Option<String>,
    /// Its folder was made for it.
    #[serde(default)]
    pub(super) folder: bool,
    /// Texts that were put into it, in this order.
    #[serde(default)]
    pub(super) texts: Vec<String>,
}

/// Where a scope has its files, and where is noted what was put into them.
pub(super) struct Scope {
    pub(super) base: PathBuf,
    note: PathBuf,
    pub(super) whose: Whose,
    /// What becomes of files, as it is told.
    pub(super) changes: RefCell<Vec<Change>>,
}

impl Scope {
    pub(super) fn of(project: &Project, is_user: bool) -> Result<Scope, Failed> {
        if !is_user {
            let base = project.root.clone();
            let note = base.join(".phasegate/installed.json");
            return Ok(Scope { note, base, whose: Whose::Project, changes: RefCell::default() });
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let base = home.ok_or_else(|| Failed::new("HOME is not set".into()))?;
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.unwrap_or_else(|| base.join(".local/state"));
        let note = state.join("phasegate/installed.json");
        Ok(Scope { note, base, whose: Whose::User, changes: RefCell::default() })
    }

    pub(super) fn installed(&self) -> Installed {
        let text = outside::read(&self.note, outside::MAX_RECORD).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn keep(&self, installed: &Installed) -> Result<(), Failed> {
        if installed.files.is_empty() {
            let _ = std::fs::remove_file(&self.note);
            return Ok(());
        }
        write(&self.note, &serde_json::to_string_pretty(installed)?)
    }

    /// Tells what becomes of a file; for which client, where that is known.
    pub(super) fn tell(&self, change: &str, path: &str, client: Option<&str>) {
        let colour = match change {
            "new" => Paint::Green,
            "change" => Paint::Yellow,
            _ => Paint::Red,
        };
        let client = client.map(|client| format!(" ({client})")).unwrap_or_default();
        print::line(&format!("{} {path}{client}", paint(colour, change)));
        self.changes.borrow_mut().push(Change { path: path.into(), change: change.into() });
    }

    /// A path as it is noted: the project may be moved.
    pub(super) fn short(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.base).unwrap_or(path).to_path_buf()
    }

    /// A path as people read it.
    pub(super) fn shown(&self, path: &Path) -> String {
        let short = path.strip_prefix(&self.base).unwrap_or(path).display().to_string();
        if self.whose == Whose::User { format!("~/{short}") } else { short }
    }
}

/// The clients that are meant: the named ones, or the ones that are used here.
fn clients(named: &[&'static dyn Client], scope: &Scope) -> Vec<&'static dyn Client> {
    if !named.is_empty() {
        return named.to_vec();
    }
    let here = CLIENTS.iter().copied().filter(|client| client.is_here(&scope.base));
    let here: Vec<&dyn Client> = here.collect();
    if here.is_empty() { vec![usual()] } else { here }
}

/// Prints the settings by which an organisation gives the gate to all its users.
fn print_managed(options: &Options) -> Outcome {
    let named = options.client.clone();
    let clients = if named.is_empty() { vec![usual()] } else { named };
    for client in clients {
        let settings = client.managed().ok_or_else(|| {
            Failed::new(format!(
                "{} has no settings for organisations that we know",
                client.title()
            ))
        })?;
        print::note(&format!("{}: {}", client.title(), settings.path.display()));
        print::line(splice::new_file(&settings).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    print::aside_for(options.json && !options.managed);
    if options.managed {
        return print_managed(options);
    }
    let scope = Scope::of(project, options.user)?;
    let mut installed = scope.installed();
    let mut changed = false;
    // One file that cannot be changed does not keep the others from it.
    let mut problems = Vec::new();
    // What a person has to do where the client would not run what was written.
    let mut steps = Vec::new();
    let wanted = wanted(project);
    for client in clients(&options.client, &scope) {
        match client.settings_with(&scope.base, scope.whose, &wanted) {
            Err(why) => problems.push(why),
            Ok(files) => {
                let is_wanted = |settings: Settings| {
                    if options.mcp { Some(settings) } else { settings.hooks_alone() }
                };
                let is_old = client_version(client).is_some_and(|(_, version)| {
                    version.is_ok_and(|version| !client.passes_arguments(&version))
                });
                for settings in files.into_iter().filter_map(is_wanted) {
                    let settings = if is_old { settings.one_line() } else { settings };
                    match add(&scope, client, &settings, &mut installed, options.print) {
                        Ok(done) => changed |= done,
                        Err(failed) => problems.push(failed.message),
                    }
                }
                steps.extend(untrusted(project, client, &scope).filter(|_| !options.print));
            }
        }
    }
    if !options.user {
        changed |= fresh(&scope, ".phasegate/.gitignore", IGNORED, options.print)?;
        let (written, told) = starter(&scope, options.print)?;
        changed |= written;
        steps.extend(told);
    }
    if !options.print {
        scope.keep(&installed)?;
    }
    if !problems.is_empty() {
        return Err(Failed::new(problems.join("\nerror: ")));
    }
    let said = match (changed, options.print) {
        (false, _) => "Everything is already installed.",
        (true, true) => "Nothing was written. Run it without --print to write this.",
        (true, false) => {
            "Done. `phasegate doctor` checks that it works; `phasegate uninstall` removes it."
        }
    };
    print::line(said);
    for step in &steps {
        print::line(step);
    }
    if options.json {
        let changes = scope.changes.take();
        print::json(&Shown { written: !options.print, changes, next: steps });
    }
    for twice in openings::installed_twice(&project.root) {
        print::note(&format!("note: {twice}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The events, by our names, that workflows or the configuration of a project ask for and that cost something where nobody does.
pub(super) fn wanted(project: &Project) -> Vec<&'static str> {
    let enabled = project.workflows.iter().filter(|entry| project.config.enabled(&entry.name));
    let workflows: Vec<_> = enabled.filter_map(|entry| project.load(entry).ok()).collect();
    let mut wanted = Vec::new();
    if workflows.iter().any(|workflow| workflow.denies_tools()) {
        wanted.push("pre-tool-use");
    }
    wanted.extend(project.config.wakes().then_some(settings::WAKE));
    let asked = [TASK_COMPLETED, TEAMMATE_IDLE].into_iter();
    wanted.extend(asked.filter(|name| workflows.iter().any(|workflow| workflow.hears(name))));
    wanted
}

/// Writes a gate to begin with, where the project has none, and consents to it: it is ours. Without a known
/// command for the tests it stands for nothing, and what to fill in is told.
fn starter(scope: &Scope, only_print: bool) -> Result<(bool, Option<String>), Failed> {
    if scope.base.join(".phasegate/workflows").exists() {
        return Ok((false, None));
    }
    let made = gate(tests_of(&scope.base))?;
    let name = STARTER.1;
    let mut written = false;
    for (path, text) in &made.files {
        written |= fresh(scope, &path.display().to_string(), text, only_print)?;
    }
    if only_print || !written {
        return Ok((written, None));
    }
    let place = &made.files[0].0;
    let shown = place.display();
    let Some(command) = made.tests else {
        return Ok((
            written,
            Some(format!(
                "No command for the tests was found, so nothing stands yet. In {shown} fill in `run` and set \
             `standing = true`; then `phasegate trust {name}`."
            )),
        ));
    };
    let project = Project::open(&scope.base).map_err(|error| error.to_string())?;
    let entry = project.workflow(name).ok_or("the gate that was written is not found")?;
    let workflow = project.load(entry).map_err(|error| error.to_string())?;
    trust::trust(&project.root, &scope.base.join(place), &workflow.identity)?;
    Ok((
        written,
        Some(format!(
            "{} It runs {command}; change that in {shown}.",
            words::stands(name, &workflow.about)
        )),
    ))
}

/// What keeps a client from running the hooks that were just written, and what to do about it.
fn untrusted(project: &Project, client: &dyn Client, scope: &Scope) -> Option<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let here = Here { root: &project.root, home: &home };
    let mut files = client.files(&scope.base, scope.whose).into_iter();
    let problem = files.find_map(|file| {
        let hooks = client.hooks_in(&file).unwrap_or_default();
        hooks.first().and_then(|hook| client.untrusted(&hook.file, &here))
    })?;
    Some(format!("Before it works: {}. Now {}.", problem.remedy, problem.summary))
}

/// Puts what a client needs into a file, and shows it; whether there was something to do.
fn add(
    scope: &Scope,
    client: &dyn Client,
    settings: &Settings,
    installed: &mut Installed,
    only_print: bool,
) -> Result<bool, Failed> {
    let path = &settings.path;
    let shown = scope.shown(path);
    let before = match outside::read_text(path, outside::MAX_SETTINGS) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failed::new(format!("cannot read {shown}: {error}"))),
    };
    let title = client.title();
    let blank = before.clone().filter(|text| text.trim().is_empty());
    let Some(before) = before.filter(|text| !text.trim().is_empty()) else {
        let text = splice::new_file(settings);
        scope.tell("new", &shown, Some(title));
        show(&text, only_print);
        if !only_print {
            // The folder was made for it, or for another file of ours.
            let is_new = path.parent().is_some_and(|folder| !folder.exists());
            write(path, &text)?;
            let (path, texts) = (scope.short(path), Vec::new());
            let below =
                |file: &InstalledFile| path.parent().is_some_and(|it| file.path.starts_with(it));
            let ours = |file: &InstalledFile| file.folder && below(file);
            let folder = is_new || installed.files.iter().any(ours);
            installed.files.retain(|file| file.path != path);
            let created = Some(text);
            installed.files.push(InstalledFile { path, created, blank, folder, texts });
        }
        return Ok(true);
    };
    let mut after = before.clone();
    let mut texts = Vec::new();
    let mark = before.len() - bom::strip(&before).len();
    for entry in &settings.entries {
        let splice = splice::splice(&after[mark..], entry).map_err(|why| {
            Failed::new(format!("{shown} cannot be changed: {why}. Nothing was written to it"))
        })?;
        if let Some(splice) = splice {
            after.insert_str(mark + splice.at, &splice.text);
            texts.push(splice.text);
        }
    }
    // What the client cannot read, it ignores, and our hook with it.
    if client.has(Quirk::PlainJson) && !settings::is_plain(&after) {
        let plugin = if client.has(Quirk::HasPlugin) { "use the plugin, " } else { "use " };
        print::note(&format!(
            "warning: {shown} has comments or trailing commas, and {title} ignores such a file: \
             {plugin}`--user`, or take them out"
        ));
    }
    if texts.is_empty() {
        print::line(&format!("{shown} has it already ({title})"));
        return Ok(false);
    }
    scope.tell("change", &shown, Some(title));
    for text in &texts {
        show(text, only_print);
    }
    if !only_print {
        write(path, &after)?;
        let path = scope.short(path);
        match installed.files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.texts.extend(texts),
            None => {
                let (created, blank, folder) = (None, None, false);
                installed.files.push(InstalledFile { path, created, blank, folder, texts });
            }
        }
    }
    Ok(true)
}

/// Makes a file that is not there yet.
fn fresh(scope: &Scope, place: &str, text: &str, only_print: bool) -> Result<bool, Failed> {
    let path = scope.base.join(place);
    if path.exists() {
        return Ok(false);
    }
    scope.tell("new", place, None);
    show(text, only_print);
    if !only_print {
        write(&path, text)?;
    }
    Ok(true)
}

/// What is written, line by line, where that was asked for.
fn show(text: &str, only_print: bool) {
    for line in text.trim_matches('\n').lines().filter(|_| only_print) {
        print::line(&paint(Paint::Dim, &format!("  + {line}")));
    }
}

/// Writes a file, whole or not at all, through a link if it is one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failed> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut new, text.as_bytes())?;
    let mode = std::fs::metadata(&path).map(|meta| meta.permissions());
    let mode = mode.unwrap_or_else(|_| std::os::unix::fs::PermissionsExt::from_mode(0o644));
    new.as_file().set_permissions(mode)?;
    new.persist(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

/// The gate to begin with, for a command of the tests or for none.
fn gate(tests: Option<&'static str>) -> Result<Made, Failed> {
    let (template, name) = STARTER;
    let template = templates().find(|it| it.name == template).ok_or("the starter is missing")?;
    Ok(Made::new(&template, name, tests))
}

/// The files that `init` made in a project and that nobody has changed since.
pub(super) fn untouched(root: &Path) -> Vec<PathBuf> {
    let commands = TESTS.iter().map(|(_, command)| Some(*command)).chain([None]);
    let gates = commands.filter_map(|command| gate(command).ok());
    let mut ours: Vec<(PathBuf, String)> = gates.flat_map(|made| made.files).collect();
    ours.push((".phasegate/.gitignore".into(), IGNORED.into()));
    let is_there = |path: &Path, text: &str| {
        outside::read_text(&root.join(path), outside::MAX_SETTINGS).is_ok_and(|it| it == text)
    };
    let same = ours.into_iter().filter(|(path, text)| is_there(path, text));
    let mut found: Vec<PathBuf> = same.map(|(path, _)| root.join(path)).collect();
    // The cases are the same whatever the command is.
    found.sort();
    found.dedup();
    found
}
