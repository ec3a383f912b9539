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
    /// The project that a folder belongs to: the nearest folder upward that has a `.phasegate`
    /// or a place where a known workflow keeps its documents.
    ///
    /// # Errors
    /// A sentence, where the configuration cannot be understood.
    pub fn find(from: &Path) -> Result<Option<Project>, String> {
        let general = catalog(None);
        let defaults = Config::default();
        let mut marks: Vec<String> = general
            .iter()
            .filter_map(|entry| entry.document(&defaults))
            .map(|place| glob::fixed_prefix(&place).to_string())
            .filter(|mark| !mark.starts_with(".phasegate"))
            .collect();
        marks.push(".phasegate".into());
        let root =
            from.ancestors().find(|folder| marks.iter().any(|mark| folder.join(mark).exists()));
        root.map(Project::open).transpose()
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
