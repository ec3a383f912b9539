//! A tree in which a job of another machine is done, and what the worker there has written down about it: so that an
//! agent's commands in it mean the run of that machine, and not one of this folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use phasegate_engine::job::Rights;
use phasegate_engine::json::Json;
use serde::{Deserialize, Serialize};

use crate::outside::{self, MAX_RECORD};

/// Where it is written down: not a part of the tree.
const FILE: &str = ".git/phasegate.json";

/// What is known of a tree in which a job of another machine is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outpost {
    /// What the project is called in the store.
    pub project: String,
    /// `MACHINE:ROOT` of the tree that the changes are for.
    pub origin: String,
    /// What a machine must have that takes what is wanted from here.
    pub labels: Vec<String>,
    /// Where git gets the tree, for others.
    pub remote: String,
    pub workflow: Configured,
}

/// What the configuration of the machine that wants a job says about its workflow: so it means the same elsewhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Configured {
    pub name: String,
    pub document: String,
    #[serde(default)]
    pub constants: Vec<(String, Json)>,
    #[serde(default)]
    pub rights: Option<Rights>,
}

impl Outpost {
    /// What is known of the tree at a folder; none where it is nothing of that kind.
    pub fn of(root: &Path) -> Option<Outpost> {
        serde_json::from_slice(&outside::read(&place(root), MAX_RECORD).ok()?).ok()
    }

    /// Writes it down.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        fs::write(place(root), serde_json::to_vec(self)?)
    }
}

fn place(root: &Path) -> PathBuf {
    root.join(FILE)
}
