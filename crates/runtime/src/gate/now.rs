//! What a stop would be answered now, and what would change that. Nothing is written and nothing is started.

use std::sync::Arc;

use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::missing::{MAX_DECISIONS, MAX_FACTS, Situation, Ways};
use phasegate_engine::decide::phase_name;
use phasegate_engine::digest::digest;
use phasegate_engine::step::{Event, Step};
use serde_json::{Value, json};

use super::document::Read;
use super::{Found, GateError, Runs};
use crate::run::RunId;
use crate::world::{ClientReport, Unrun, World};

/// What a stop would be answered now.
#[derive(Debug)]
pub struct Now {
    /// The step that the rules would take; none where they would not be asked, since the run is over or parked.
    pub step: Option<Step>,
    pub answer: Answer,
    /// What would have to end first: a check, a review, a command.
    pub waits_for: Option<String>,
    /// Nothing has changed since the agent was told to go on, so that a stop which follows that is let go.
    pub is_stuck: bool,
    /// What would open the gate, or at least lift this block.
    pub ways: Ways,
}

impl Now {
    /// Whether what is told opens the gate.
    pub fn opens(&self) -> bool {
        self.ways.found.iter().any(|way| !way.answer.is_block())
    }

    /// What the ways are, as a sentence for people; why there are none, where there are none.
    pub fn about_ways(&self) -> String {
        let (found, is_held) =
            (&self.ways.found, self.answer.is_block() || self.waits_for.is_some());
        if self.opens() {
            "What would open the gate".into()
        } else if !found.is_empty() {
            format!("What would lift this block; the gate is further away than {MAX_FACTS} facts")
        } else if !is_held {
            "A stop would be let go now.".into()
        } else if self.ways.is_cut {
            format!(
                "What would open the gate was not computed, because more than {MAX_DECISIONS} sets of facts would \
                 have to be tried."
            )
        } else {
            format!("No change of at most {MAX_FACTS} facts lifts this block.")
        }
    }

    /// For programs.
    pub fn to_json(&self, run: &RunId) -> Value {
        let ways = self.ways.found.iter().map(|way| {
            let facts = way.facts.iter();
            let facts = facts.map(|fact| json!({ "fact": fact.text, "by_agent": fact.by_agent }));
            let facts: Vec<Value> = facts.collect();
            json!({ "answer": way.answer, "by_agent": way.by_agent(), "facts": facts })
        });
        json!({
            "run": run.to_string(),
            "answer": self.answer,
            "waits_for": self.waits_for,
            "stuck": self.is_stuck,
            "opens": self.opens(),
            "about_ways": self.about_ways(),
            "ways": ways.collect::<Vec<_>>(),
        })
    }

    fn saying(answer: Answer) -> Now {
        Now { step: None, answer, waits_for: None, is_stuck: false, ways: Ways::default() }
    }
}

impl Runs<'_> {
    /// What a stop of the session that owns a run would be answered now.
    pub fn now(&self, found: &Found) -> Result<Now, GateError> {
        let session = &found.ledger.session;
        if session.cancelled.is_some() {
            let why = format!("Run {} is cancelled.", found.id);
            return Ok(Now::saying(Answer::allow_saying(Outcome::Aborted, why)));
        }
        if session.paused.is_some() {
            let why = format!("Run {0} is paused; `phasegate resume {0}` resumes it.", found.id);
            return Ok(Now::saying(Answer::allow_saying(Outcome::Inactive, why)));
        }
        let workflow = self.workflow_of(found)?;
        let Read { document, problem, text, .. } = self.read(found, &workflow)?;
        let outer = workflow.outer();
        let phase = outer.phase(&phase_name(&workflow, &document));
        if let Some(ends) = phase.and_then(|phase| outer.get(phase).ends) {
            return Ok(Now::saying(Answer::allow(ends)));
        }
        let ground = self.ground(&workflow, &document);
        let mut run = self.run_facts(found, &ground, problem);
        run.passed.clone_from(&found.ledger.position.passed);
        let event = Event::stop(session.owner.as_ref().map(|owner| owner.session.clone()));
        let world = |unrun: Unrun| -> Result<Arc<World>, GateError> {
            let world = self.seen_now(&workflow, found, &ground, &ClientReport::default());
            let own = Arc::try_unwrap(world).map_err(|_| GateError::Other("in use".into()))?;
            Ok(Arc::new(own.looked_at(unrun)))
        };
        let situation = Situation {
            workflow: &workflow,
            document,
            event: &event,
            run: &run,
            evidence: world(Unrun::Missing)?,
        };
        let step = situation.decide();
        let waits_for = step.wants.as_ref().map(|job| format!("{} {}", job.kind, job.name));
        let unmoved = |last: &crate::ledger::LastBlock| {
            last.blocks >= workflow.patience && !last.moved_on(&digest(&text), &step.readings)
        };
        let is_stuck = step.answer.is_block() && session.last_block.as_ref().is_some_and(unmoved);
        let ways = if step.answer.is_block() || waits_for.is_some() {
            // What has not run is taken to fail, so that its passing can be told as what is missing.
            Situation { evidence: world(Unrun::Failed)?, ..situation }.ways()
        } else {
            Ways::default()
        };
        let answer = step.answer.clone();
        Ok(Now { step: Some(step), answer, waits_for, is_stuck, ways })
    }
}
