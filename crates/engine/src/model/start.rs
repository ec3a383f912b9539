//! How runs begin: as the workflow's own actions begin them, as its types say, or as somebody writes the document.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edits::told_by;
use super::params::{Tried, together};
use super::values::values;
use super::{Model, Move, Situation};
use crate::answer::Answer;
use crate::decide::{phase_name, render};
use crate::functions::object;
use crate::graph::{reachable, steps};
use crate::json::Json;
use crate::step::{Actor, Event};
use crate::workflow::{Does, MachineId, PhaseId, TextId};

/// How many beginnings are looked at, and how many documents are made up to find one in a phase.
const MAX_STARTS: usize = 8;
const MAX_WRITTEN: usize = 500;

/// How a run begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// The action that begins it.
    pub name: String,
    pub situation: Situation,
    /// The rules that have fired, by label.
    pub fired: Vec<String>,
}

impl Start {
    fn new(name: &str, document: Json) -> Start {
        let situation = Situation::new(document);
        Start { name: name.to_string(), situation, fired: Vec::new() }
    }
}

impl Model<'_> {
    /// The situations in which runs begin, each with how it came about.
    pub fn starts(&self) -> Vec<Start> {
        let mut found = self.created();
        let is_created = !found.is_empty();
        if !is_created {
            found = self.plain();
        }
        self.keep(&mut found);
        let written = self.written(&found);
        found.truncate(MAX_STARTS - written.len().min(MAX_STARTS / 2));
        found.extend(written);
        found.truncate(MAX_STARTS);
        found
    }

    /// As the workflow's actions begin them.
    fn created(&self) -> Vec<Start> {
        let mut found = Vec::new();
        for action in &self.workflow.actions {
            let Does::Create { document, .. } = &action.does else { continue };
            let mut tried: Vec<Tried> = Vec::new();
            for params in self.parameters(action, Actor::Human, true, &[]) {
                let event = Event { params, ..Event::new(&action.name, Actor::Human) };
                let start = self.create(*document, &event);
                tried.push((Move::Event(event), start.is_some()));
                found.extend(start);
            }
            together(&tried, |event| {
                let start = self.create(*document, &event);
                let is_accepted = start.is_some();
                found.extend(start);
                is_accepted
            });
        }
        found
    }

    fn create(&self, document: TextId, event: &Event) -> Option<Start> {
        let workflow = self.workflow;
        let before = Situation::new(Json::object());
        let world = Arc::new(self.evidence(&before));
        let text = render(workflow, document, None, event, &self.facts(&before), world).ok()?;
        let mut begun = Start::new(&event.name, Json::parse(text.as_bytes()).ok()?);
        if workflow.hears(&event.name) {
            let step = self.decide(&begun.situation, event);
            if matches!(step.answer, Answer::Deny { .. }) {
                return None;
            }
            begun.situation = self.after(&begun.situation, &step);
            begun.fired = step.trace.fired;
        }
        Some(begun)
    }

    /// Without an action of its own a run begins with nothing but its phase, or with what its types allow.
    fn plain(&self) -> Vec<Start> {
        let workflow = self.workflow;
        let outer = workflow.outer();
        let initial = outer.get(outer.initial.unwrap_or(PhaseId(0))).name.to_string();
        let nothing = Json::from([(outer.field.as_str(), Json::from(initial.as_str()))]);
        let mut found = vec![Start::new("start", nothing)];
        for value in values(&workflow.records, &workflow.state, 0) {
            let members = match &value {
                Json::Object(members) => {
                    members.iter().map(|(name, it)| (name.to_string(), it.clone())).collect()
                }
                _ => Vec::new(),
            };
            let own = members.into_iter().filter(|(name, _)| *name != outer.field);
            let phase = (outer.field.clone(), Json::from(initial.as_str()));
            found.push(Start::new("start", object(std::iter::once(phase).chain(own))));
        }
        found
    }

    /// Where the phase is told by the rest of the document: one in each phase to which no rule leads, so that only somebody
    /// who writes the document brings a run there.
    fn written(&self, starts: &[Start]) -> Vec<Start> {
        let outer = self.workflow.outer();
        if outer.derive.is_none() {
            return Vec::new();
        }
        let begun = starts.iter().filter_map(|it| outer.phase(&self.phase(&it.situation)));
        let reached = reachable(begun, &steps(outer));
        let mut missing: BTreeSet<PhaseId> = (0..outer.phases.len()).map(PhaseId).collect();
        missing.retain(|id| !reached.contains(id) && outer.get(*id).ends.is_none());
        let mut documents = vec![Json::object()];
        for field in told_by(self.workflow, MachineId(0)) {
            let values = self.field_values(MachineId(0), &field);
            for document in documents.clone() {
                for value in values.iter().filter(|value| **value != Json::Null) {
                    let mut document = document.clone();
                    if let Some(place) = document.at_mut([field.as_str()]) {
                        *place = value.clone();
                    }
                    documents.push(document);
                }
            }
            documents.truncate(MAX_WRITTEN);
        }
        let mut found = Vec::new();
        for document in documents {
            let phase = outer.phase(&phase_name(self.workflow, &document));
            if phase.is_some_and(|id| missing.remove(&id)) {
                found.push(Start::new("written by hand", document));
            }
        }
        found
    }

    /// Keeps what fits the types, each situation once.
    fn keep(&self, found: &mut Vec<Start>) {
        let workflow = self.workflow;
        let mut seen = Vec::new();
        found.retain(|Start { situation, .. }| {
            let mut document = situation.document.clone();
            let fits = workflow.records.declare(&workflow.state, &mut document, "state").is_ok();
            let mark = self.mark(situation);
            let is_new = fits
                && !phase_name(workflow, &situation.document).is_empty()
                && !seen.contains(&mark);
            seen.push(mark);
            is_new
        });
    }
}
