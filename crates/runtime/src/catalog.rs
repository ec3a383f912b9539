//! The workflows that are known: the project's own, the user's, and the built-in ones. Of two with
//! one name the first in that order wins.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use phasegate_engine::definition::{Bundle, Head};
use phasegate_engine::diagnostic::{Diagnostics, Source};
use phasegate_engine::identity::Identity;
use phasegate_engine::resolve::{Expressions, Overrides, identity, resolve};
use phasegate_engine::workflow::Workflow;

use crate::config::{Config, user_folder};
use crate::outside;
use crate::workspace::place::in_store;

mod builtin {
    /// What finding the runs of a built-in workflow needs, without reading its definition.
    pub struct BuiltIn {
        pub name: &'static str,
        pub version: &'static str,
        pub about: Option<&'static str>,
        pub document: Option<&'static str>,
        pub fallback: Option<&'static str>,
        pub disable: Option<&'static str>,
        pub presumed: bool,
    }

    include!(concat!(env!("OUT_DIR"), "/builtin_files.rs"));
}

/// A workflow that others begin as.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub name: &'static str,
}

impl Template {
    /// Its files, by path below its folder.
    pub fn files(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = move |(path, text): &(&'static str, &'static str)| {
            Some((path.strip_prefix(self.name)?.strip_prefix('/')?, *text))
        };
        builtin::TEMPLATES.iter().filter_map(own)
    }

    /// What it is for, in a sentence.
    pub fn about(self) -> String {
        let definition = self.files().find(|(path, _)| *path == DEFINITION);
        let head = definition.and_then(|(_, text)| Head::read(text).ok());
        head.map(|head| head.about).unwrap_or_default()
    }
}

/// The templates, by name.
pub fn templates() -> impl Iterator<Item = Template> {
    let definitions = builtin::TEMPLATES.iter().filter_map(|(path, _)| path.split_once('/'));
    let definitions = definitions.filter(|(_, file)| *file == DEFINITION);
    definitions.map(|(name, _)| Template { name })
}

/// The definition's file in a workflow's folder.
const DEFINITION: &str = "workflow.toml";

/// Where a workflow comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    /// A definition file, alone or in a folder of its own.
    File(PathBuf),
}

/// A workflow that is known, not yet read as a whole.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub origin: Origin,
    /// What the head of its definition says, or why it cannot be read.
    pub head: Result<Summary, String>,
}

/// What is told of a workflow, and what finding its runs needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub about: String,
    pub document: String,
    /// The definition says where.
    pub declares_document: bool,
    pub fallback: Option<String>,
    pub disable: Option<String>,
    /// A folder is a run, whether or not the document is in it.
    pub presumed: bool,
    /// It holds sessions without being started.
    pub standing: bool,
}

impl From<Head> for Summary {
    fn from(head: Head) -> Summary {
        let (document, declares_document) = (head.place(), head.document.is_some());
        let (fallback, disable) = (head.fallback, head.disable);
        Summary {
            about: head.about,
            document,
            declares_document,
            fallback,
            disable,
            presumed: head.presumed.is_some(),
            standing: head.standing,
        }
    }
}

impl Entry {
    /// Where its state documents are.
    pub fn document(&self, config: &Config) -> Option<String> {
        let head = self.head.as_ref().ok()?;
        Some(self.overrides(config).document.unwrap_or_else(|| head.document.clone()))
    }

    /// What the configuration changes about it. Where it names no place for its documents, the store may keep them.
    pub fn overrides(&self, config: &Config) -> Overrides {
        let mut overrides = config.overrides(&self.name);
        let is_free = || self.head.as_ref().is_ok_and(|head| !head.declares_document);
        if config.keeps_documents && overrides.document.is_none() && is_free() {
            overrides.document = Some(in_store(&self.name));
        }
        overrides
    }

    /// Where they are looked for too.
    pub fn fallback(&self) -> Option<&str> {
        self.head.as_ref().ok()?.fallback.as_deref()
    }

    /// Whether a folder is a run of it, also without a document.
    pub fn presumes(&self) -> bool {
        self.head.as_ref().is_ok_and(|head| head.presumed)
    }

    /// Whether it is to hold sessions without being started: by its definition or by the configuration.
    pub fn stands(&self, config: &Config) -> bool {
        let by_itself = || self.head.as_ref().is_ok_and(|head| head.standing);
        config.stands(&self.name).unwrap_or_else(by_itself)
    }

    /// What a person consents to who lets it stand: the definition, and that the project's own
    /// configuration makes it stand, where that does.
    ///
    /// # Errors
    /// Where its files cannot be read.
    pub fn standing_identity(&self, config: &Config) -> std::io::Result<Identity> {
        let mut overrides = self.overrides(config);
        if config.stands_by_project(&self.name) {
            // No constant has a name with a space.
            overrides.constants.push(("it stands".into(), true.into()));
        }
        Ok(identity(&self.bundle()?, &overrides, self.expressions()))
    }

    /// Whether its runs are passed over, by an environment variable that it names.
    pub fn is_disabled(&self) -> bool {
        self.disabled_by().is_some()
    }

    /// That variable, while it is set.
    pub fn disabled_by(&self) -> Option<&str> {
        let variable = self.head.as_ref().ok()?.disable.as_deref()?;
        std::env::var_os(variable).is_some_and(|value| value == "1").then_some(variable)
    }

    /// Where its cases are; none where it is built in.
    pub fn cases(&self) -> Option<PathBuf> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::File(path) => Some(folder_of(path).join("cases")),
        }
    }

    /// Whether it can have agents of its own, told without resolving it: each has a role.
    pub fn may_have_agents(&self) -> bool {
        self.bundle().is_ok_and(|bundle| bundle.definition.text.contains("role"))
    }

    /// Reads the whole workflow with its files.
    pub fn bundle(&self) -> std::io::Result<Bundle> {
        match &self.origin {
            Origin::BuiltIn => Ok(builtin_bundle(&self.name)),
            Origin::File(path) => file_bundle(path),
        }
    }

    /// Reads and resolves the workflow.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(&self, config: &Config) -> Result<Workflow, LoadError> {
        let (bundle, overrides) = (self.read()?, self.overrides(config));
        resolve(&bundle, &overrides, self.expressions()).map_err(LoadError::Definition)
    }

    /// The same, from a memory where it has not changed since.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn recall(&self, config: &Config, memory: &Memory) -> Result<Arc<Workflow>, LoadError> {
        let (bundle, overrides) = (self.read()?, self.overrides(config));
        let identity = identity(&bundle, &overrides, self.expressions());
        let mut known = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |it: &&Remembered| it.identity == identity && it.document == overrides.document;
        if let Some(it) = known.get(&self.name).filter(same) {
            return Ok(it.workflow.clone());
        }
        let resolved = resolve(&bundle, &overrides, self.expressions());
        let workflow = Arc::new(resolved.map_err(LoadError::Definition)?);
        let document = overrides.document;
        let it = Remembered { identity, document, workflow: workflow.clone() };
        known.insert(self.name.clone(), it);
        Ok(workflow)
    }

    fn read(&self) -> Result<Bundle, LoadError> {
        self.bundle().map_err(|error| LoadError::Io(self.name.clone(), error))
    }

    fn expressions(&self) -> Expressions {
        match self.origin {
            Origin::BuiltIn => Expressions::Trusted(builtin_version(&self.name)),
            Origin::File(_) => Expressions::Checked,
        }
    }
}

/// Workflows that were resolved before, for a process that lives on.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

/// A workflow, and what it was made from.
#[derive(Debug)]
struct Remembered {
    identity: Identity,
    document: Option<String>,
    workflow: Arc<Workflow>,
}

/// Why a workflow cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read workflow {0}: {1}")]
    Io(String, std::io::Error),
    #[error("{0}")]
    Definition(Diagnostics),
}

/// The workflows that are known everywhere: the user's and the built-in ones, by name.
pub fn general() -> Vec<Entry> {
    let builtin = builtin::BUILT_IN.iter().map(|it| {
        let document = it.document.map(str::to_string);
        let head = Ok(Summary {
            about: it.about.unwrap_or_default().to_string(),
            declares_document: document.is_some(),
            document: document.unwrap_or_else(|| format!(".phasegate/{}/*.json", it.name)),
            fallback: it.fallback.map(str::to_string),
            disable: it.disable.map(str::to_string),
            presumed: it.presumed,
            standing: false,
        });
        Entry { name: it.name.to_string(), origin: Origin::BuiltIn, head }
    });
    let own = user_folder().map(|folder| in_folder(&folder)).unwrap_or_default();
    merged(own, builtin.collect())
}

/// The workflows that are known in a project, by name.
pub fn of_project(root: &Path, general: Vec<Entry>) -> Vec<Entry> {
    merged(in_folder(&root.join(".phasegate")), general)
}

fn in_folder(folder: &Path) -> Vec<Entry> {
    definitions(&folder.join("workflows")).iter().map(|path| file_entry(path)).collect()
}

/// Of two with one name, the first counts.
fn merged(first: Vec<Entry>, second: Vec<Entry>) -> Vec<Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in first.into_iter().chain(second) {
        entries.entry(entry.name.clone()).or_insert(entry);
    }
    entries.into_values().collect()
}

/// Definition files in a folder: `NAME.toml` and `NAME/workflow.toml`.
fn definitions(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter_map(|path| {
            if path.is_dir() {
                Some(path.join(DEFINITION)).filter(|path| path.is_file())
            } else {
                path.extension().is_some_and(|extension| extension == "toml").then_some(path)
            }
        })
        .collect();
    found.sort();
    found
}

/// The workflow defined in a file. Its name is the file's, or that of its folder.
pub fn file_entry(path: &Path) -> Entry {
    let own_folder = path.file_name().is_some_and(|name| name == DEFINITION);
    let named = if own_folder { path.parent().and_then(Path::file_name) } else { path.file_stem() };
    let name = named.unwrap_or_default().to_string_lossy().into_owned();
    let text = outside::read_text(path, outside::MAX_SETTINGS);
    let head = text.map_err(|error| error.to_string()).and_then(|text| {
        let head = Head::read(&text).map_err(|error| error.to_string())?;
        if head.name == name {
            return Ok(Summary::from(head));
        }
        Err(format!("the workflow is called `{}`, but its file is called `{name}`", head.name))
    });
    Entry { name, origin: Origin::File(path.to_path_buf()), head }
}

fn builtin_bundle(name: &str) -> Bundle {
    let mut files = BTreeMap::new();
    for (path, text) in builtin::FILES {
        if let Some(own) = path.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) {
            files.insert(own.to_string(), Source::new(&format!("workflows/{path}"), *text));
        }
    }
    split(files)
}

/// A definition in a folder of its own has its prompts, templates and cases beside it; one that stands
/// alone has a folder with its name.
fn folder_of(path: &Path) -> PathBuf {
    let folder = match path.file_name() {
        Some(name) if name == DEFINITION => path.parent().map(Path::to_path_buf),
        _ => Some(path.with_extension("")),
    };
    folder.unwrap_or_default()
}

fn file_bundle(path: &Path) -> std::io::Result<Bundle> {
    let mut files = BTreeMap::new();
    let mut read = |path: &Path, name: String| {
        let text = outside::read_text(path, outside::MAX_SETTINGS)?;
        files.insert(name, Source::new(&shown(path), text));
        Ok::<(), std::io::Error>(())
    };
    read(path, DEFINITION.to_string())?;
    let folder = folder_of(path);
    for part in ["prompts", "templates", "cases", "demo"] {
        let Ok(entries) = fs::read_dir(folder.join(part)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            read(&entry.path(), format!("{part}/{}", entry.file_name().to_string_lossy()))?;
        }
    }
    Ok(split(files))
}

/// A path as a person who stands in the working folder would write it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

fn split(mut files: BTreeMap<String, Arc<Source>>) -> Bundle {
    let definition = files.remove(DEFINITION).unwrap_or_else(|| Source::new(DEFINITION, ""));
    Bundle { definition, files }
}

/// What a built-in workflow is known by.
fn builtin_version(name: &str) -> &'static str {
    let found = builtin::BUILT_IN.iter().find(|it| it.name == name);
    found.map_or("built-in", |it| it.version)
}

/// The files of a built-in workflow, relative to its folder.
pub fn builtin_files(name: &str) -> Vec<(&'static str, &'static str)> {
    let own = |path: &'static str| path.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
    builtin::FILES.iter().filter_map(|(path, text)| Some((own(path)?, *text))).collect()
}
