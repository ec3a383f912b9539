//! What is shown of a run: texts of its workflow, and what programs are told with every answer.

use std::ops::Range;
use std::sync::Arc;

use phasegate_engine::decide::{RunFacts, guidance, render};
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::workflow::{TextId, Workflow};

use super::document::Read;
use super::ground::Ground;
use super::jobs;
use super::put::{Attempt, NO_LIMIT};
use super::{Found, GateError, Runs};
use crate::jobs::Record;
use crate::ledger::Work;
use crate::tree::{Snapshot, Tree, Written};
use crate::world::{ClientReport, World};

impl Runs<'_> {
    /// Renders a text about a run.
    pub fn show(
        &self,
        workflow: &Workflow,
        found: &Found,
        text: TextId,
        event: &Event,
    ) -> Result<String, GateError> {
        self.show_told(workflow, found, text, event, &ClientReport::default())
    }

    /// Where a run stands and what to do next, in the words of a workflow that has some.
    pub fn headline(&self, found: &Found, event: &Event) -> Option<(String, String)> {
        self.workflow_of(found).ok()?.guidance?;
        let told = self.guidance(found, event).ok()?;
        let text = |name: &str| {
            let text = told.get("guidance").and_then(|guidance| guidance.get(name));
            text.and_then(Json::as_str).map(str::to_string)
        };
        Some((text("status")?, text("action")?))
    }

    /// What programs are told about a run with every answer.
    pub fn guidance(&self, found: &Found, event: &Event) -> Result<Json, GateError> {
        if found.ledger.session.cancelled.is_some() {
            let action = format!("Run {} was cancelled. Nothing more can be done in it.", found.id);
            let none = Json::from(Vec::<Json>::new());
            let status = Json::from("CANCELLED");
            let own = [("status", status), ("action", Json::from(action)), ("can", none)];
            return Ok(Json::from([("guidance", Json::from(own))]));
        }
        let workflow = self.workflow_of(found)?;
        let Read { document, problem, .. } = self.read(found, &workflow)?;
        let ground = self.ground(&workflow, &document);
        let run = self.facts_now(&workflow, found, &ground, problem);
        let world = self.seen_now(&workflow, found, &ground, &ClientReport::default());
        Ok(guidance(&workflow, document, event, &run, world)?)
    }

    /// Renders a text that is about no run.
    pub fn show_alone(
        &self,
        workflow: &Workflow,
        text: TextId,
        event: &Event,
    ) -> Result<String, GateError> {
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        Ok(render(workflow, text, None, event, &RunFacts::default(), world)?)
    }

    /// The inputs of a workflow's checks that match no file of the project, each with its place in the definition.
    pub fn unmatched_inputs(&self, workflow: &Workflow) -> Vec<(String, Range<usize>)> {
        let inputs: Vec<_> = workflow.checks().flat_map(|check| check.inputs.clone()).collect();
        let tree = Tree::of(self.project, workflow, &Written::default());
        let look = (!inputs.is_empty()).then(|| tree.look().ok()).flatten();
        let is_unmatched =
            |(input, _): &(String, _)| look.as_ref().is_some_and(|look| !look.has(input));
        inputs.into_iter().filter(is_unmatched).collect()
    }

    /// What the files that a run is about are known by, as they are now.
    pub fn tree(&self, found: &Found) -> Option<String> {
        let workflow = self.workflow_of(found).ok()?;
        let document = self.read(found, &workflow).ok()?.document;
        let ground = self.ground(&workflow, &document);
        let tree = ground.tree(self.project, &workflow, &found.ledger.work.written);
        tree.look().ok().map(|look| look.content(&[]).name)
    }

    /// The jobs whose results are about files, and whether those are still as they were.
    pub fn results_hold(&self, found: &Found) -> Vec<(String, bool)> {
        let known = || {
            let workflow = self.workflow_of(found).ok()?;
            let document = self.read(found, &workflow).ok()?.document;
            let ground = self.ground(&workflow, &document);
            let look =
                ground.tree(self.project, &workflow, &found.ledger.work.written).look().ok()?;
            let holds = |(id, job): (String, Record)| {
                let tree = job.ended?.tree?;
                Some((id, look.content(&job.inputs).name == tree))
            };
            Some(self.jobs_of(found).into_iter().filter_map(holds).collect())
        };
        known().unwrap_or_default()
    }

    /// What a text about a run can look up: its jobs as they are now.
    pub(super) fn seen_now(
        &self,
        workflow: &Workflow,
        found: &Found,
        ground: &Ground,
        told: &ClientReport,
    ) -> Arc<World> {
        let work = Work { jobs: self.jobs_of(found), ..found.ledger.work.clone() };
        let attempt = Attempt::new(NO_LIMIT);
        let tree = ground.tree(self.project, workflow, &work.written);
        attempt.tree.replace(self.shared_tree(tree.plain()));
        self.world(workflow, ground, &work, told, &attempt)
    }

    /// A tree as this look sees it: whatever is told of several runs, or in several words of one, the tree is
    /// looked at once.
    fn shared_tree(&self, tree: Tree) -> Snapshot {
        let mut trees = self.trees.borrow_mut();
        if let Some((_, known)) = trees.iter().find(|(other, _)| *other == tree) {
            return known.clone();
        }
        let new = Snapshot::default();
        trees.push((tree, new.clone()));
        new
    }

    /// What a text about a run sees as `run`, with what stands in the way of actions.
    pub(super) fn facts_now(
        &self,
        workflow: &Workflow,
        found: &Found,
        ground: &Ground,
        problem: Option<String>,
    ) -> RunFacts {
        RunFacts {
            untrusted: self.untrusted(workflow, &found.id),
            busy: jobs::alone(&found.ledger).is_some(),
            ..self.run_facts(found, ground, problem)
        }
    }

    pub(super) fn show_told(
        &self,
        workflow: &Workflow,
        found: &Found,
        text: TextId,
        event: &Event,
        told: &ClientReport,
    ) -> Result<String, GateError> {
        let Read { document, problem, .. } = self.read(found, workflow)?;
        let ground = self.ground(workflow, &document);
        let run = self.facts_now(workflow, found, &ground, problem);
        let world = self.seen_now(workflow, found, &ground, told);
        Ok(render(workflow, text, Some(document), event, &run, world)?)
    }
}
