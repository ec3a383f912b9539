//! The one way that every event takes: find the run, lock it, load it, decide, commit, answer.

mod act;
mod asked;
mod basis;
mod begin;
mod broken;
mod brought;
mod caused;
mod commit;
mod consent;
mod copies;
mod create;
mod document;
mod effects;
mod elsewhere;
mod find;
mod ground;
mod guards;
mod home;
mod jobs;
mod now;
#[cfg(test)]
mod on_memory;
mod overheard;
mod overrule;
mod pin;
mod progress;
mod put;
mod questions;
mod remnants;
mod repeat;
mod replay;
mod report;
mod runs;
mod sessions;
mod settings;
mod show;
mod signing;
mod standing;
mod stop;
mod stored;
mod tamper;
mod tasks;
pub mod tools;
mod transaction;
mod trees;
mod waits;
mod wake;
mod withhold;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use phasegate_engine::answer::Answer;
use phasegate_engine::decide::Fault;
use phasegate_engine::json::Json;
use phasegate_engine::workflow::Workflow;

use crate::catalog::{Entry, LoadError};
use crate::git;
use crate::project::Project;
use crate::question::BadText;
use crate::run::RunId;
use crate::store::{Piece, Store, StoreError};
use crate::tree::{Snapshot, Tree};
use crate::words;
use crate::workspace::{Documents, Workspace};

pub use crate::ledger::LEASE;
pub use elsewhere::Whereabouts;
pub(crate) use elsewhere::{public_id, remote};
pub use find::{Found, Listed};
pub use now::Now;
pub(crate) use pin::resolve_copy;
pub use progress::Progress;
pub use questions::Asker;
pub use remnants::Remnant;
pub use replay::{Comparison, Decided, Recorded, Replay};
pub use report::Report;
pub use sessions::{Sign, Standing};
pub use signing::ACCEPT_DEFINITION;
pub use standing::{GateState, StandingGate};
pub use stop::{Stop, Verdict};
pub use wake::Wait;

/// What a run answered.
#[derive(Clone, Debug)]
pub struct Answered {
    pub run: RunId,
    pub answer: Answer,
    /// The phase after the step; empty where that does not matter.
    pub phase: String,
    /// The state document after the step.
    pub document: Json,
    /// The exit code that the workflow wants for a block.
    pub block_exit: u8,
    /// Something that the user should know beside the answer.
    pub notes: Vec<String>,
    /// How a person ends the run that blocks.
    pub way_out: Option<String>,
    /// The run was over already, and only that was said.
    pub over: bool,
    /// The run has come to its end by this answer.
    pub ends: bool,
    /// The run has jobs.
    pub has_jobs: bool,
    /// The jobs in the background that were recorded, by id: they start at once.
    pub started: Vec<String>,
}

impl Answered {
    /// What a person is told of it; nothing of a block.
    pub fn told(&self) -> Option<String> {
        words::told(&self.run.to_string(), &self.phase, &self.answer)
    }

    /// An answer and nothing else.
    fn new(run: &RunId, answer: Answer) -> Answered {
        Answered {
            run: run.clone(),
            answer,
            phase: String::new(),
            document: Json::object(),
            block_exit: 0,
            notes: Vec::new(),
            way_out: None,
            over: false,
            ends: false,
            has_jobs: false,
            started: Vec::new(),
        }
    }
}

/// Why an event got no decision.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("workflow {0}: {1}")]
    Workflow(String, LoadError),
    #[error("the state document {1} of run {0} is gone; `phasegate cancel {0}` ends the run")]
    Gone(RunId, String),
    #[error("the run is over")]
    Over,
    /// The document of a run that was to be started, and what to do about it.
    #[error("{1}")]
    Exists(String, String),
    #[error("{0}")]
    NotPermitted(String),
    #[error("{0}")]
    Unreadable(String),
    /// Which run is meant is not known, or there is none.
    #[error("{0}")]
    UnknownRun(String),
    #[error("there is no workflow {0:?}")]
    UnknownWorkflow(String),
    /// What somebody must do first: consent, or take the run over.
    #[error("{0}")]
    NotReady(String),
    /// What a step wanted done in the world could not be done.
    #[error("{0}")]
    Effect(String),
    /// A process could not be started, or its files could not be used.
    #[error(transparent)]
    Process(#[from] std::io::Error),
    /// What cannot be asked or answered.
    #[error(transparent)]
    Text(#[from] BadText),
    /// A text or a guard of the workflow failed.
    #[error("{0}")]
    Fault(String),
    #[error("{0}")]
    Other(String),
}

impl From<Fault> for GateError {
    fn from(fault: Fault) -> GateError {
        GateError::Fault(fault.message)
    }
}

/// Who sees what a job prints, as it prints it.
pub type Watch = dyn Fn(&[u8]);

/// The runs of a project, to look at: nothing here writes, starts or ends anything.
pub struct Runs<'p> {
    project: &'p Project,
    store: &'p dyn Store,
    workspace: Workspace,
    loaded: RefCell<HashMap<String, Arc<Workflow>>>,
    /// Runs that are nobody's and were passed over, because nobody has touched them for long.
    untouched: RefCell<Vec<RunId>>,
    /// Whether the project is in a repository.
    in_git: OnceCell<bool>,
    /// The list of signers as it is now, once somebody has looked at a journal; none where there is none.
    list: OnceCell<Option<Vec<u8>>>,
    /// Trees as they were when somebody who only looks first asked for them.
    trees: RefCell<Vec<(Tree, Snapshot)>>,
}

impl<'p> Runs<'p> {
    /// The runs of a project.
    pub fn new(project: &'p Project) -> Runs<'p> {
        let (store, workspace) =
            (&*project.store, Workspace::new(&project.root, project.config.sizes.document()));
        let (loaded, untouched) = (RefCell::default(), RefCell::default());
        let (in_git, list, trees) = (OnceCell::new(), OnceCell::new(), RefCell::default());
        Runs { project, store, workspace, loaded, untouched, in_git, list, trees }
    }

    /// Whether the project is in a repository. Looked up once: where every folder is a run, it is asked for each.
    fn is_in_git(&self) -> bool {
        *self.in_git.get_or_init(|| git::top(&self.project.root).is_some())
    }

    /// The workflow, read once.
    pub fn workflow(&self, name: &str) -> Result<Arc<Workflow>, GateError> {
        if let Some(workflow) = self.loaded.borrow().get(name) {
            return Ok(workflow.clone());
        }
        let entry: &Entry = self
            .project
            .workflow(name)
            .ok_or_else(|| GateError::UnknownWorkflow(name.to_string()))?;
        let loaded = self.project.load(entry);
        let workflow = loaded.map_err(|error| GateError::Workflow(name.into(), error))?;
        self.loaded.borrow_mut().insert(name.into(), workflow.clone());
        Ok(workflow)
    }
}

/// A project's gate: it acts on the runs, and settles the jobs that have ended.
pub struct Gate<'p> {
    runs: Runs<'p>,
    /// The journal line that this process wrote last: where its step did not take effect, because
    /// somebody edited the document, that is not the death of a process.
    own_line: RefCell<Option<(RunId, u64)>>,
    /// The documents of each workflow, as they were found.
    documents: RefCell<HashMap<String, Documents>>,
    /// Who sees what a job prints that is waited for.
    watch: Option<&'p Watch>,
    /// Set when the person who waits for a job presses Ctrl-C.
    interrupted: OnceLock<Arc<AtomicBool>>,
    /// Whether it is that of a supervisor whose job has ended.
    supervises: bool,
    /// The line of the journal behind which the next act is meant, where its author has looked at that.
    meant_for: Cell<Option<u64>>,
    /// The list of signers by which a signature counted: it is kept with the act.
    signers: RefCell<Option<Piece>>,
}

impl<'p> Deref for Gate<'p> {
    type Target = Runs<'p>;

    fn deref(&self) -> &Runs<'p> {
        &self.runs
    }
}

impl<'p> Gate<'p> {
    /// The gate of a project.
    pub fn new(project: &'p Project) -> Gate<'p> {
        let runs = Runs::new(project);
        let (own_line, documents) = (RefCell::default(), RefCell::default());
        let (watch, interrupted) = (None, OnceLock::new());
        Gate {
            runs,
            own_line,
            documents,
            watch,
            interrupted,
            supervises: false,
            meant_for: Cell::default(),
            signers: RefCell::default(),
        }
    }

    /// The same gate, for a person who waits for jobs: sees them work, and can end them by Ctrl-C.
    #[must_use]
    pub fn watched(self, watch: &'p Watch) -> Gate<'p> {
        Gate { watch: Some(watch), ..self }
    }

    /// The same gate, for somebody who has looked at a run and wants to act on that: the act is refused where
    /// the run has moved on since its line `seq`.
    #[must_use]
    pub fn meant_for(self, seq: u64) -> Gate<'p> {
        self.meant_for.set(Some(seq));
        self
    }

    /// Refuses an act that was meant for a run as it was. Asked under the lock; what follows from the act itself
    /// is not asked again.
    fn must_be_meant(&self, run: &RunId, seq: u64) -> Result<(), GateError> {
        match self.meant_for.take() {
            Some(meant) if meant != seq => Err(GateError::NotReady(format!(
                "run {run} has moved on: you looked at line {meant}, and it is at line {seq}; look again"
            ))),
            _ => Ok(()),
        }
    }

    /// The same gate, for a supervisor whose job has ended: nothing that it starts ends with it.
    #[must_use]
    pub fn supervising(self) -> Gate<'p> {
        Gate { supervises: true, ..self }
    }
}
