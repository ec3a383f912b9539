//! A project: the folder that runs belong to, found by looking upward.

use std::path::{Path, PathBuf};

use phasegate_engine::glob;

use crate::catalog::{Entry, LoadError, catalog};
use crate::config::Config;
use crate::file_store::FileStore;

/// A project with its configuration and its workflows.
#[derive(Debug)]
pub struct Project {
    pub root: PathBuf,
    pub config: Config,
    pub workflows: Vec<Entry>,
    pub store: FileStore,
}

impl Project {
    /// The folder of the project that a folder belongs to: the nearest upward that has a
    /// `.phasegate` or a place where a known workflow keeps its documents.
    pub fn root_of(from: &Path) -> Option<PathBuf> {
        let config = Config::of_user().unwrap_or_default();
        let general = catalog(None);
        let places = general.iter().filter_map(|entry| entry.document(&config));
        let marks: Vec<String> = places
            .map(|place| glob::fixed_prefix(&place).to_string())
            // A pattern that starts with a `*` marks no folder.
            .filter(|mark| !mark.is_empty() && !mark.starts_with(".phasegate"))
            .chain([".phasegate".to_string()])
            .collect();
        let is_project = |folder: &&Path| marks.iter().any(|mark| folder.join(mark).exists());
        from.ancestors().find(is_project).map(Path::to_path_buf)
    }

    /// The project at a folder, whether or not anything is there yet.
    ///
    /// # Errors
    /// A sentence, where the configuration cannot be understood.
    pub fn open(root: &Path) -> Result<Project, String> {
        let config = Config::load(root)?;
        let workflows = catalog(Some(root));
        let store = FileStore::new(root);
        Ok(Project { root: root.to_path_buf(), config, workflows, store })
    }

    /// The workflow of that name.
    pub fn workflow(&self, name: &str) -> Option<&Entry> {
        self.workflows.iter().find(|entry| entry.name == name)
    }

    /// Reads and resolves a workflow.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(&self, entry: &Entry) -> Result<phasegate_engine::workflow::Workflow, LoadError> {
        entry.load(&self.config)
    }
}
