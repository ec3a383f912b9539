//! How runs begin: as the workflow's own actions begin them, or as its types say.

use std::sync::Arc;

use super::{Model, Situation};
use crate::answer::Answer;
use crate::decide::{phase_name, render};
use crate::functions::object;
use crate::json::Json;
use crate::step::{Actor, Event};
use crate::workflow::{Does, PhaseId};

use super::values::values;

/// How many beginnings are looked at.
const MAX_STARTS: usize = 6;

impl Model<'_> {
    /// The situations in which runs begin, each with how it came about.
    pub fn starts(&self) -> Vec<(String, Situation)> {
        let mut found: Vec<(String, Situation)> = Vec::new();
        let workflow = self.workflow;
        for action in &workflow.actions {
            let Does::Create { document, .. } = &action.does else { continue };
            for params in self.parameters(action, Actor::Human) {
                let event = Event { params, ..Event::new(&action.name, Actor::Human) };
                let before = Situation::new(Json::object());
                let world = Arc::new(self.evidence(&before));
                let text = render(workflow, *document, None, &event, &self.facts(&before), world);
                let Some(text) = text.ok() else { continue };
                let Ok(document) = Json::parse(text.as_bytes()) else { continue };
                let mut begun = Situation::new(document);
                if workflow.hears(&event.name) {
                    let step = self.decide(&begun, &event);
                    if matches!(step.answer, Answer::Deny { .. }) {
                        continue;
                    }
                    begun = self.after(&begun, &step);
                }
                found.push((action.name.clone(), begun));
            }
        }
        if found.is_empty() {
            let outer = workflow.outer();
            let initial = outer.get(outer.initial.unwrap_or(PhaseId(0))).name.to_string();
            for value in values(&workflow.records, &workflow.state, 0) {
                let members = match &value {
                    Json::Object(members) => {
                        members.iter().map(|(name, it)| (name.to_string(), it.clone())).collect()
                    }
                    _ => Vec::new(),
                };
                let own = members.into_iter().filter(|(name, _)| *name != outer.field);
                let phase = (outer.field.clone(), Json::from(initial.as_str()));
                let document = object(std::iter::once(phase).chain(own));
                found.push(("start".to_string(), Situation::new(document)));
            }
            // Without an action of its own a run begins with nothing but its phase.
            let plain = Json::from([(outer.field.as_str(), Json::from(initial.as_str()))]);
            found.insert(0, ("start".to_string(), Situation::new(plain)));
        }
        let mut seen = Vec::new();
        found.retain(|(_, situation)| {
            let mut document = situation.document.clone();
            let fits = workflow.records.declare(&workflow.state, &mut document, "state").is_ok();
            let mark = situation.mark(workflow.updated.as_deref());
            let is_new = fits
                && !phase_name(workflow, &situation.document).is_empty()
                && !seen.contains(&mark);
            seen.push(mark);
            is_new
        });
        found.truncate(MAX_STARTS);
        found
    }
}
