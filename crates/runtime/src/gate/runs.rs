//! How runs stand.

use jiff::Timestamp;
use phasegate_engine::answer::Outcome;
use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::events::STOP;
use phasegate_engine::json::Json;
use phasegate_engine::workflow::Workflow;

use super::{Found, Gate, GateError, Runs};
use crate::condition::Condition;
use crate::run::RunId;
use crate::store::Watch;
use crate::words::{self, Because};

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Report {
    pub phase: String,
    /// What the workflow says about the phase.
    pub about: Option<String>,
    pub condition: Condition,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Runs<'_> {
    /// How a run stands, for people.
    pub fn report(&self, found: &Found) -> Report {
        let broken = |problem: String| Report {
            phase: "?".into(),
            about: None,
            condition: Condition::Broken,
            problem: Some(problem),
        };
        // An unreadable ledger is an error; the journal is not used to guess how the run stands.
        if found.version.is_none()
            && !found.untouched
            && let Err(error) = self.stored(&found.id)
        {
            return broken(error.to_string());
        }
        let workflow = match self.workflow_of(found) {
            Ok(workflow) => workflow,
            Err(error) => return broken(error.to_string()),
        };
        let document = match self.read(found, &workflow) {
            Ok(read) => read.document,
            Err(_) if found.ledger.session.cancelled.is_some() || found.ledger.position.removed => {
                let ended = match (found.ledger.position.removed, found.ledger.outcome()) {
                    (true, Some(Outcome::Done)) => Condition::Done,
                    (true, _) => Condition::Ended,
                    (false, _) => Condition::Cancelled,
                };
                let (phase, about) = ("?".into(), None);
                return Report { phase, about, condition: ended, problem: None };
            }
            Err(error) => return broken(error.to_string()),
        };
        let phase = phase_name(&workflow, &document);
        let outer = workflow.outer();
        let Some(id) = outer.phase(&phase) else {
            let problem = format!("{} is in an unknown phase {phase:?}", found.place);
            return broken(problem);
        };
        // A phase that somebody else has set is not a success.
        let set = found.ledger.tamper.protected.get(&outer.field);
        let derived = outer.derive.is_some()
            && (found.ledger.position.ended_by_hand || found.ledger.is_left_by_hand(&phase));
        let by_hand = derived
            || found.ledger.is_ended_by_hand(&outer.field, &phase)
            || set.is_some_and(|set| set.trim_matches('"') != phase)
            || found.ledger.tamper.is_open() && workflow.on_tamper != OnTamper::Rules;
        let condition =
            match (&found.ledger.session.cancelled, outer.get(id).ends, found.ledger.outcome()) {
                (Some(_), ..) => Condition::Cancelled,
                (None, Some(Outcome::Done), None | Some(Outcome::Done)) if !by_hand => {
                    Condition::Done
                }
                (None, Some(_), _) => Condition::Ended,
                (None, None, _) if found.ledger.session.paused.is_some() => Condition::Paused,
                (None, None, Some(Outcome::Stuck)) => Condition::Stuck,
                (None, None, Some(Outcome::Capped)) => Condition::Capped,
                (None, None, Some(Outcome::Budget)) => Condition::Budget,
                (None, None, Some(Outcome::Waiting)) => Condition::Waiting,
                (None, None, Some(Outcome::Fault)) => Condition::Broken,
                (None, None, _) => Condition::Working,
            };
        let last = found.ledger.session.last.as_ref().filter(|_| condition.is_trouble());
        let run = found.id.to_string();
        let problem = last.and_then(|last| words::told(&run, &phase, &last.answer));
        let about = outer.get(id).about.clone();
        Report { phase, about, condition, problem }
    }

    /// What people were told at the last stop, as it stands now; nothing where the agent was sent on or
    /// the run is over.
    pub fn told(&self, found: &Found, report: &Report) -> Option<String> {
        let run = found.id.to_string();
        let (ledger, phase) = (&found.ledger, &report.phase);
        if report.condition.is_over() {
            return None;
        }
        if let Some(question) = ledger.open_question() {
            return Some(words::sentence(&run, phase, Because::Asked(&question.text)));
        }
        if ledger.answered_question().is_some_and(|question| question.agent.is_none()) {
            return Some(words::sentence(&run, phase, Because::Answered));
        }
        let last = ledger.session.last.as_ref().filter(|last| last.event == STOP)?;
        let waits = &found.ledger.session.waits;
        if waits.until.is_some_and(|until| until < Timestamp::now()) {
            return Some(words::sentence(&run, &report.phase, Because::TooLong));
        }
        if self.is_ready(found) {
            return Some(words::sentence(&run, &report.phase, Because::Ready));
        }
        words::told(&run, &report.phase, &last.answer)
    }

    /// That a run holds nothing, since nobody has consented to what its workflow does.
    pub fn untrusted(&self, workflow: &Workflow, run: &RunId) -> Option<String> {
        let because = Because::Untrusted(&workflow.name);
        (!self.is_trusted(workflow)).then(|| words::sentence(&run.to_string(), "", because))
    }

    /// How a run stands, in a few words.
    pub fn standing(&self, found: &Found, report: &Report) -> String {
        let last = found.ledger.session.last.as_ref().map(|last| &last.answer);
        let question = found.ledger.open_question().or_else(|| found.ledger.answered_question());
        words::standing(report.condition, last, self.is_ready(found), question)
    }

    /// Whether the job has ended that the run waits for, or the time is over for which it does.
    fn is_ready(&self, found: &Found) -> bool {
        if found.ledger.session.waits.until.is_some_and(|until| until < Timestamp::now()) {
            return true;
        }
        let awaited = found.ledger.session.last.as_ref().and_then(|last| last.waits_for.as_ref());
        let job = awaited.and_then(|id| found.ledger.work.jobs.get(id));
        job.is_some_and(|job| self.job_now(job).is_over())
    }

    /// Whether a run can still answer.
    pub fn is_working(&self, found: &Found) -> bool {
        !self.report(found).condition.is_over()
    }

    /// A run's state document, as it is or as it is presumed to be.
    pub fn document(&self, found: &Found) -> Result<Json, GateError> {
        let workflow = self.workflow_of(found)?;
        Ok(self.read(found, &workflow)?.document)
    }

    /// A run's journal, as text.
    pub fn journal(&self, found: &Found) -> Result<Vec<String>, GateError> {
        Ok(self.store.forwards(&found.id).collect::<Result<_, _>>()?)
    }

    /// Calls back after every change of a run, and perhaps more often, until what it returns is dropped.
    pub fn watch(
        &self,
        run: &RunId,
        changed: impl Fn() + Send + 'static,
    ) -> Result<Box<dyn Watch>, GateError> {
        Ok(self.store.watch(run, Box::new(changed))?)
    }

    /// A run's journal from its end, line by line.
    pub fn journal_backwards(
        &self,
        found: &Found,
    ) -> impl Iterator<Item = Result<String, GateError>> {
        self.store.backwards(&found.id).map(|line| Ok(line?))
    }
}

impl Gate<'_> {
    /// Whether the document of a run says that it has ended, as far as it can be read.
    pub(super) fn is_ended(&self, found: &Found) -> bool {
        let Ok(workflow) = self.workflow_of(found) else { return false };
        let Ok(read) = self.read(found, &workflow) else { return false };
        let outer = workflow.outer();
        let phase = outer.phase(&phase_name(&workflow, &read.document));
        let ended = phase.is_some_and(|phase| outer.get(phase).ends.is_some());
        if let (true, Some(version)) = (ended, &read.version) {
            self.note_ended(found, version);
        }
        ended
    }
}
