//! A project: the folder that runs belong to, found by looking upward.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use phasegate_engine::glob;
use phasegate_engine::workflow::Workflow;

use crate::catalog::{self, Entry, LoadError, Memory};
use crate::config::Config;
use crate::git;
use crate::outpost::Outpost;
use crate::site;
use crate::store::{FileStore, PostgresStore, Store};
use crate::trust;
use crate::variables;
use crate::workspace::place::Place;

/// A project with its configuration and its workflows.
#[derive(Debug)]
pub struct Project {
    pub root: PathBuf,
    /// The tree that evidence is from: the root, or the same folder in a linked worktree.
    pub site: PathBuf,
    pub config: Config,
    pub workflows: Vec<Entry>,
    pub store: Box<dyn Store>,
    /// Where resolved workflows are remembered, if anywhere.
    pub memory: Option<Arc<Memory>>,
}

/// Why a project cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    pub root: PathBuf,
    message: String,
}

impl Project {
    /// The project that a folder belongs to: the nearest folder upward that has a `.phasegate` or a
    /// place where a known workflow keeps its documents.
    ///
    /// # Errors
    /// Where its configuration cannot be understood.
    pub fn find(from: &Path) -> Result<Option<Project>, ConfigError> {
        let general = catalog::general();
        let config = Config::of_user().unwrap_or_default();
        let places = general.iter().flat_map(|entry| {
            let fallback = entry.fallback().map(str::to_string);
            entry.document(&config).into_iter().chain(fallback)
        });
        let marks: Vec<String> = places
            .map(|place| glob::fixed_prefix(Place::of(&place).path()).to_string())
            // A pattern that starts with a `*` marks no folder.
            .filter(|mark| !mark.is_empty() && !mark.starts_with(".phasegate"))
            .chain([".phasegate".to_string()])
            .collect();
        let is_project = |folder: &&Path| marks.iter().any(|mark| folder.join(mark).exists());
        let nearest = upward(from).find(is_project);
        // A linked worktree where rules make them belongs to the project that they made it for, whatever it has
        // checked out.
        let around = nearest.and_then(|found| {
            let worktree = git::top(found)?;
            site::kept_in(worktree).filter(|place| site::is_linked(place))?;
            let outer = upward(worktree).skip(1).find(is_project)?;
            let path = worktree.strip_prefix(outer).ok()?;
            let ours = WORKTREES.iter().any(|place| path.starts_with(place));
            let copied = worktree.join(outer.strip_prefix(git::top(outer)?).ok()?);
            (ours && copied == found).then_some(outer)
        });
        let root = around.or(nearest).map(Path::to_path_buf);
        // A worktree that has nothing of a project belongs to that of the tree that it is a copy of.
        let root = root.or_else(|| {
            let main = site::main_tree(from)?;
            upward(&main).find(is_project).map(Path::to_path_buf)
        });
        let project = root.map(|root| Project::with(&root, general)).transpose()?;
        Ok(project.map(|project| project.seen_from(from)))
    }

    /// The project as a session sees it that stands in a folder: in a linked worktree of its repository,
    /// evidence is from there.
    #[must_use]
    pub fn seen_from(self, folder: &Path) -> Project {
        Project { site: site::of(&self.root, folder), ..self }
    }

    /// The project at a folder, whether or not anything is there yet.
    ///
    /// # Errors
    /// Where its configuration cannot be understood.
    pub fn open(root: &Path) -> Result<Project, ConfigError> {
        Project::with(root, catalog::general())
    }

    /// The project at a folder as if nothing were configured, to look at it and to get out of its runs: who has broken a
    /// configuration needs both.
    pub fn unconfigured(root: &Path) -> Project {
        Project::configured(root.to_path_buf(), Config::default(), catalog::general())
    }

    fn with(root: &Path, general: Vec<Entry>) -> Result<Project, ConfigError> {
        // Whether a path leads out of the project is told by comparing real paths.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let config =
            Config::load(&root).map_err(|message| ConfigError { root: root.clone(), message })?;
        Ok(Project::configured(root, config, general))
    }

    fn configured(root: PathBuf, mut config: Config, general: Vec<Entry>) -> Project {
        let workflows = catalog::of_project(&root, general);
        // Only whoever does jobs for others sets up such places, and names the store.
        let outpost = std::env::var_os(variables::STORE).and_then(|_| Outpost::of(&root));
        if let Some(outpost) = outpost {
            config.follow(&outpost.workflow);
            config.store.project = Some(outpost.project);
        }
        let store = store_of(&root, &config);
        config.keeps_documents = store.shared().is_some();
        let site = root.clone();
        Project { root, site, config, workflows, store, memory: None }
    }

    /// The workflow of that name.
    pub fn workflow(&self, name: &str) -> Option<&Entry> {
        self.workflows.iter().find(|entry| entry.name == name)
    }

    /// Reads and resolves a workflow.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(&self, entry: &Entry) -> Result<Arc<Workflow>, LoadError> {
        match &self.memory {
            Some(memory) => entry.recall(&self.config, memory),
            None => Ok(Arc::new(entry.load(&self.config)?)),
        }
    }
}

/// Where the runs of a project are kept, for one who wants to know nothing else of it.
pub(crate) fn store_at(root: &Path) -> Box<dyn Store> {
    if std::env::var_os(variables::STORE).is_none() && !Config::mentions_store(root) {
        return Box::new(FileStore::new(root));
    }
    match Config::load(root) {
        Ok(config) => store_of(root, &config),
        Err(_) => Box::new(FileStore::new(root)),
    }
}

/// Where rules make worktrees.
const WORKTREES: [&str; 2] = [".worktrees", ".phasegate/worktrees"];

/// What stands for the project's own folder where a store could be named.
const FILES: &str = "files";

/// What says where runs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePlace {
    Environment,
    User,
    Project,
}

/// The store that is named, and by what: the environment, else the project's configuration, else the user's.
pub fn store_place(config: &Config) -> Option<(StorePlace, String)> {
    let chosen = std::env::var(variables::STORE).ok().filter(|url| !url.is_empty());
    if let Some(url) = chosen {
        return Some((StorePlace::Environment, url));
    }
    let by = if config.store.is_by_project { StorePlace::Project } else { StorePlace::User };
    Some((by, config.store.url.clone()?))
}

/// Where the runs of a project are kept. What a project's own configuration says counts only with the user's consent:
/// what decisions rest on would go there.
fn store_of(root: &Path, config: &Config) -> Box<dyn Store> {
    let Some((by, url)) = store_place(config).filter(|(_, url)| url != FILES) else {
        return Box::new(FileStore::new(root));
    };
    if by == StorePlace::Project && !trust::is_store_trusted(root, &url) {
        let why = "the project's configuration names a store, and you have not consented to send \
             anything there: `phasegate store trust` does that, and PHASEGATE_STORE=files keeps \
             runs in the project";
        return Box::new(PostgresStore::refusing(root, why.into()));
    }
    Box::new(PostgresStore::new(root, &url, config.store.project.as_deref()))
}

/// The folders in which the project of a folder is looked for, the nearest first: up to the root of the
/// repository. The home folder, and what is above it, is a project only for a caller that stands in it: otherwise a
/// project there would hold every session of the user.
pub fn upward(from: &Path) -> impl Iterator<Item = &Path> {
    let top = repository(from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let home = home.filter(|home| from.starts_with(home));
    let is_far = move |folder: &Path| {
        let is_beyond = top.is_some_and(|top| !folder.starts_with(top));
        // The root of the file system is nobody's project.
        is_beyond
            || home.as_ref().is_some_and(|home| home.starts_with(folder))
            || folder.parent().is_none()
    };
    from.ancestors().take_while(move |folder| *folder == from || !is_far(folder))
}

/// The root of the repository that a folder is in. A linked worktree and a submodule in the folder of the
/// repository that they belong to are a part of it.
fn repository(from: &Path) -> Option<&Path> {
    let mut top = git::top(from)?;
    while let Some(home) = site::kept_in(top) {
        let outer = top.ancestors().skip(1).find(|outer| home.starts_with(outer.join(".git")));
        let Some(outer) = outer else { break };
        top = outer;
    }
    Some(top)
}
