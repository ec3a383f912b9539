//! Runs that nobody makes: the real decision on documents and evidence that are made up, step by step.
//!
//! `verify` explores all of them within bounds, `simulate` goes through them by hand, and `mutate` looks among them for one that
//! tells a mutant from the original. The model is the program: every step is made by [`decide`](crate::decide::decide).

mod edits;
mod explore;
mod moves;
mod start;
mod take;
mod values;
mod witness;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::algebra::{self, Subjects};
use crate::case::Cases;
use crate::changes::{Changed, Changes};
use crate::check::CheckResult;
use crate::decide::{RunFacts, decide};
use crate::evidence::GivenEvidence;
use crate::json::Json;
use crate::step::{Event, Step};
use crate::workflow::Workflow;

pub(crate) use explore::{Decided, Edge, Graph};
pub use moves::{Move, Who};
pub use take::Taken;
pub use witness::{Witness, case_text};

/// What the run is called, as in a case.
const RUN: &str = "case";

/// When everything begins.
const BEGINNING: &str = "2026-01-31T10:00:00Z";

/// A run as it stands, and the world around it.
#[derive(Clone, Debug)]
pub struct Situation {
    pub document: Json,
    pub world: World,
    /// The properties whose `pass` has held, by name.
    pub passed: Vec<String>,
    /// Its document was removed, or it has come to a final phase.
    pub over: bool,
}

/// The evidence, as far as it is made up.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub files: BTreeMap<String, String>,
    pub message: Option<String>,
    /// The checks that have run on the tree as it is, and whether they passed.
    pub checks: BTreeMap<String, bool>,
    pub env: BTreeMap<String, String>,
    /// How often the agent has changed the tree, as far as that matters.
    pub tree: u8,
    /// How many days have gone by.
    pub days: u8,
    pub agents: Vec<Json>,
    pub reviews: u64,
    pub last_review: Option<(String, Option<String>)>,
}

impl World {
    fn tree(&self) -> String {
        format!("tree-{}", self.tree)
    }

    fn changes(&self) -> Changes {
        let file = Changed { path: "src/lib.rs".into(), added: Some(1), removed: Some(0) };
        let files = if self.tree == 0 { Vec::new() } else { vec![file] };
        Changes { tree: self.tree(), digest: format!("patch-{}", self.tree), files }
    }

    fn now(&self) -> Timestamp {
        let beginning: Timestamp = BEGINNING.parse().unwrap_or_default();
        beginning + SignedDuration::from_hours(24 * i64::from(self.days))
    }
}

/// The result of a check that is made up.
fn result_of(ok: bool) -> CheckResult {
    let (exit_code, tail) = if ok { (0, "") } else { (1, "1 test failed") };
    CheckResult {
        ok,
        exit_code: Some(exit_code),
        seconds: 1,
        tail: tail.into(),
        ..CheckResult::default()
    }
}

/// A workflow, and what is known of the values that tell its guards apart.
pub struct Model<'w> {
    pub workflow: &'w Workflow,
    subjects: Subjects,
    /// What the workflow's own cases put into files, by path, and what agents say in them.
    files: BTreeMap<String, Vec<String>>,
    messages: Vec<String>,
    /// Which record a file should have, as far as a rule has asked.
    shapes: Arc<Mutex<BTreeMap<String, String>>>,
}

impl<'w> Model<'w> {
    /// The model of a workflow; its cases say what files may have in them, and what agents may say.
    pub fn new(workflow: &'w Workflow, cases: &Cases) -> Model<'w> {
        let subjects = algebra::subjects(workflow);
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, text) in cases.evidence() {
            let known = files.entry(path.to_string()).or_default();
            if known.len() < 4 && !known.iter().any(|it| it == text) {
                known.push(text.to_string());
            }
        }
        let mut messages: Vec<String> = Vec::new();
        for message in cases.messages().map(str::to_string).chain(values::texts(workflow)) {
            if messages.len() < 12 && !messages.contains(&message) {
                messages.push(message);
            }
        }
        Model { workflow, subjects, files, messages, shapes: Arc::default() }
    }

    /// The place of the document.
    pub fn place(&self) -> String {
        self.workflow.document_of(RUN)
    }

    pub(crate) fn evidence(&self, situation: &Situation) -> GivenEvidence {
        let Situation { document, world, .. } = situation;
        let mut files: BTreeMap<String, Vec<u8>> = world
            .files
            .iter()
            .map(|(path, text)| (path.clone(), text.clone().into_bytes()))
            .collect();
        files.insert(self.place(), document.to_text(None).into_bytes());
        let mut checks: BTreeMap<String, CheckResult> =
            world.checks.iter().map(|(name, ok)| (name.clone(), result_of(*ok))).collect();
        for check in self.workflow.checks() {
            if self.workflow.has_nothing_to_check(&check.name) {
                checks.insert(check.name.clone(), CheckResult::default());
            }
        }
        GivenEvidence {
            files,
            now: world.now(),
            variables: world.env.clone(),
            last_message: world.message.clone(),
            checks,
            tree: Some(world.tree()),
            changes: Some(world.changes()),
            applied: Some(world.tree()),
            agents: Json::from(world.agents.clone()),
            shapes: self.shapes.clone(),
        }
    }

    pub(crate) fn facts(&self, situation: &Situation) -> RunFacts {
        RunFacts {
            name: RUN.into(),
            document: self.place(),
            reviews: situation.world.reviews,
            last_review: situation.world.last_review.clone(),
            passed: situation.passed.clone(),
            ..RunFacts::default()
        }
    }

    /// The decision on an event.
    pub fn decide(&self, situation: &Situation, event: &Event) -> Step {
        let (document, run) = (situation.document.clone(), self.facts(situation));
        decide(self.workflow, document, event, &run, Arc::new(self.evidence(situation)))
    }

    fn shape(&self, path: &str) -> Option<String> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }
}

impl Situation {
    pub(crate) fn new(document: Json) -> Situation {
        Situation { document, world: World::default(), passed: Vec::new(), over: false }
    }

    /// What tells it from others.
    pub(crate) fn mark(&self, updated: Option<&str>) -> String {
        let mut document = self.document.clone();
        if let Some(place) = updated.and_then(|field| document.at_mut([field])) {
            *place = Json::Null;
        }
        let Situation { world, passed, over, .. } = self;
        let agents = Json::from(world.agents.clone()).to_text(None);
        let rest = format!(
            "{:?}{:?}{:?}{:?}{}{}{agents}{}{:?}{passed:?}{over}",
            world.files,
            world.message,
            world.checks,
            world.env,
            world.tree,
            world.days,
            world.reviews,
            world.last_review
        );
        crate::digest::digest(format!("{}{rest}", document.to_text(None)).as_bytes())
    }
}
