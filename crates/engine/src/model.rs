//! Runs that nobody makes: the real decision on documents and evidence that are made up, step by step.
//!
//! `verify` explores all of them within bounds, `simulate` goes through them by hand, and `mutate` looks among them for one that
//! tells a mutant from the original. The model is the program: every step is made by [`decide`](crate::decide::decide).

mod edits;
mod explore;
mod frontier;
mod moves;
mod params;
mod recorded;
mod relevant;
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
use crate::syntax::Use;
use crate::workflow::Workflow;
use relevant::Relevant;

pub(crate) use explore::{Decided, Edge, Graph};
pub use moves::{Move, Who};
pub use params::{Tried, together};
pub use recorded::Recorded;
pub use start::Start;
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
    /// The results of the checks that have run on the tree as it is.
    pub checks: BTreeMap<String, CheckResult>,
    pub env: BTreeMap<String, String>,
    /// How often the agent has changed the tree, as far as that matters.
    pub tree: u8,
    /// How many days have gone by.
    pub days: u8,
    pub agents: Vec<Json>,
    pub reviews: u64,
    pub last_review: Option<(String, Option<String>)>,
    /// The session that the run belongs to, where rules ask for that.
    pub owner: Option<String>,
    /// What a line of a journal was decided on, where it begins with that.
    pub recorded: Option<Arc<Recorded>>,
}

impl World {
    /// What was recorded, as long as nobody has changed the tree.
    fn unchanged(&self) -> Option<&Recorded> {
        self.recorded.as_deref().filter(|_| self.tree == 0)
    }

    fn tree(&self) -> String {
        let recorded = self.unchanged().and_then(|it| it.tree.clone());
        recorded.unwrap_or_else(|| format!("tree-{}", self.tree))
    }

    fn applied(&self) -> String {
        self.unchanged().and_then(|it| it.applied.clone()).unwrap_or_else(|| self.tree())
    }

    fn changes(&self) -> Changes {
        if let Some(changes) = self.unchanged().and_then(|it| it.changes.clone()) {
            return changes;
        }
        let file = Changed { path: "src/lib.rs".into(), added: Some(1), removed: Some(0) };
        let files = if self.tree == 0 { Vec::new() } else { vec![file] };
        Changes { tree: self.tree(), digest: format!("patch-{}", self.tree), files }
    }

    fn now(&self) -> Timestamp {
        let recorded = self.recorded.as_ref().and_then(|it| it.now);
        let beginning = recorded.unwrap_or_else(|| BEGINNING.parse().unwrap_or_default());
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
    relevant: Relevant,
    /// What the workflow's own cases put into files, by path, and what agents say in them.
    files: BTreeMap<String, Vec<String>>,
    messages: Vec<String>,
    /// Rules tell the session that a run belongs to from others.
    tells_sessions: bool,
    /// Constants that have another value than the definition gives them.
    constants: Vec<(String, Json)>,
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
        let said = cases.messages().map(str::to_string);
        for message in values::texts(workflow).into_iter().chain(said) {
            if messages.len() < 12 && !messages.contains(&message) {
                messages.push(message);
            }
        }
        let asks = |used: &Use| used.path == ["run", "owner"];
        Model {
            workflow,
            subjects,
            relevant: Relevant::new(workflow),
            files,
            messages,
            tells_sessions: workflow.guards().any(|it| it.names().variables.iter().any(asks)),
            constants: Vec::new(),
            shapes: Arc::default(),
        }
    }

    /// The same for a workflow in which these constants were configured.
    #[must_use]
    pub(crate) fn configured(self, constants: Vec<(String, Json)>) -> Model<'w> {
        Model { constants, ..self }
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
        let mut checks = world.checks.clone();
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
            applied: Some(world.applied()),
            agents: Json::from(world.agents.clone()),
            shapes: self.shapes.clone(),
        }
    }

    pub(crate) fn facts(&self, situation: &Situation) -> RunFacts {
        let recorded = situation.world.recorded.as_ref().map(|it| it.run.clone());
        let recorded = recorded.unwrap_or_default();
        RunFacts {
            name: RUN.into(),
            document: self.place(),
            reviews: situation.world.reviews,
            last_review: situation.world.last_review.clone(),
            passed: situation.passed.clone(),
            owner: situation.world.owner.clone().or(recorded.owner),
            ..recorded
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
}

impl Model<'_> {
    /// What tells a situation from others, as far as it matters to the rules.
    pub(crate) fn mark(&self, situation: &Situation) -> String {
        let workflow = self.workflow;
        let document = match &situation.document {
            Json::Object(members) => {
                let members = members
                    .iter()
                    .filter(|(name, _)| match workflow.updated.as_deref() {
                        Some(updated) if *updated == ***name => self.relevant.is_ever_read(name),
                        _ => self.relevant.matters(workflow, name),
                    })
                    .map(|(name, value)| format!("{name}:{}", value.to_text(None)));
                members.collect::<Vec<_>>().concat()
            }
            other => other.to_text(None),
        };
        let Situation { world, passed, over, .. } = situation;
        let agents = Json::from(world.agents.clone()).to_text(None);
        let rest = format!(
            "{:?}{:?}{:?}{:?}{}{}{agents}{:?}{:?}{passed:?}{over}",
            world.files,
            world.message,
            world.checks,
            world.env,
            world.tree,
            world.days,
            world.last_review,
            world.owner
        );
        crate::digest::digest(format!("{document}{rest}").as_bytes())
    }
}
