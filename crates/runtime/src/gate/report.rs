//! How a run stands, as its bookkeeping tells it. `status`, the page and the view over many machines say it in these
//! words: whoever can look at the run's files looks at them first, and the store is told what the ledger knows.

use jiff::Timestamp;
use phasegate_engine::answer::Outcome;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::events::STOP;
use phasegate_engine::workflow::Workflow;

use super::questions::waits_for_person;
use crate::condition::Condition;
use crate::jobs::Record;
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::Summary;
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

impl Report {
    /// A run that cannot be decided about, and why.
    pub(super) fn broken(problem: String) -> Report {
        let (phase, condition) = ("?".into(), Condition::Broken);
        Report { phase, about: None, condition, problem: Some(problem) }
    }

    /// A run of which the ledger alone is left.
    pub(super) fn pruned(ledger: &Ledger) -> Report {
        let condition = match (&ledger.session.cancelled, ledger.outcome()) {
            (Some(_), _) => Condition::Cancelled,
            (None, Some(Outcome::Done)) if !ledger.tamper.is_open() => Condition::Done,
            (None, _) => Condition::Ended,
        };
        Report { phase: ledger.position.phase.clone(), about: None, condition, problem: None }
    }

    /// A run that is over and whose document is gone.
    pub(super) fn without_document(ledger: &Ledger) -> Report {
        let condition = match (ledger.position.removed, ledger.outcome()) {
            (true, Some(Outcome::Done)) => Condition::Done,
            (true, _) => Condition::Ended,
            (false, _) => Condition::Cancelled,
        };
        Report { phase: "?".into(), about: None, condition, problem: None }
    }

    /// A run whose document is in a phase.
    pub(super) fn of(
        id: &RunId,
        place: &str,
        ledger: &Ledger,
        workflow: &Workflow,
        phase: &str,
    ) -> Report {
        let outer = workflow.outer();
        let Some(known) = outer.phase(phase) else {
            return Report::broken(format!("{place} is in an unknown phase {phase:?}"));
        };
        // A phase that somebody else has set is not a success.
        let set = ledger.tamper.protected.get(&outer.field);
        let derived = outer.derive.is_some()
            && (ledger.position.ended_by_hand || ledger.is_left_by_hand(phase));
        let by_hand = derived
            || ledger.is_ended_by_hand(&outer.field, phase)
            || set.is_some_and(|set| set.trim_matches('"') != phase)
            || ledger.tamper.is_open() && workflow.on_tamper != OnTamper::Rules;
        let session = &ledger.session;
        let condition = match (&session.cancelled, outer.get(known).ends, ledger.outcome()) {
            (Some(_), ..) => Condition::Cancelled,
            (None, Some(Outcome::Done), None | Some(Outcome::Done)) if !by_hand => Condition::Done,
            (None, Some(_), _) => Condition::Ended,
            (None, None, _) if session.paused.is_some() => Condition::Paused,
            (None, None, Some(Outcome::Stuck)) => Condition::Stuck,
            (None, None, Some(Outcome::Capped)) => Condition::Capped,
            (None, None, Some(Outcome::Budget)) => Condition::Budget,
            (None, None, Some(Outcome::Waiting)) => Condition::Waiting,
            (None, None, Some(Outcome::Fault)) => Condition::Broken,
            (None, None, _) => Condition::Working,
        };
        let last = session.last.as_ref().filter(|_| condition.is_trouble());
        let problem = last.and_then(|last| words::told(&id.to_string(), phase, &last.answer));
        let about = outer.get(known).about.clone();
        Report { phase: phase.to_string(), about, condition, problem }
    }

    /// How the run stands, in a few words. `is_ready`: what it has waited for is there.
    pub(super) fn standing(&self, ledger: &Ledger, is_ready: bool) -> String {
        let last = ledger.session.last.as_ref().map(|last| &last.answer);
        let question = ledger.open_question().or_else(|| ledger.answered_question());
        words::standing(self.condition, last, is_ready, question)
    }

    /// What people were told at the last stop, as it stands now; nothing where the agent was sent on or the run is
    /// over.
    pub(super) fn told(&self, id: &RunId, ledger: &Ledger, is_ready: bool) -> Option<String> {
        let (run, phase) = (id.to_string(), &self.phase);
        if self.condition.is_over() {
            return None;
        }
        if let Some(question) = ledger.open_question() {
            return Some(words::sentence(&run, phase, Because::Asked(&question.text)));
        }
        if ledger.answered_question().is_some_and(|question| question.agent.is_none()) {
            return Some(words::sentence(&run, phase, Because::Answered));
        }
        let last = ledger.session.last.as_ref().filter(|last| last.event == STOP)?;
        if is_too_late(ledger) {
            return Some(words::sentence(&run, phase, Because::TooLong));
        }
        if is_ready {
            return Some(words::sentence(&run, phase, Because::Ready));
        }
        words::told(&run, phase, &last.answer)
    }

    /// Why a person is needed; none where none is.
    pub(super) fn needs_you(&self, id: &RunId, ledger: &Ledger, is_ready: bool) -> Option<String> {
        let waits = self.condition == Condition::Waiting && waits_for_person(&ledger.session);
        let asks = ledger.open_question().is_some() && !self.condition.is_over();
        (asks || waits).then(|| self.told(id, ledger, is_ready)).flatten()
    }

    /// What a view over many runs shows of this one.
    pub(super) fn summary(self, id: &RunId, ledger: &Ledger) -> Summary {
        let is_ready = is_ready(ledger, Record::is_over);
        let session = &ledger.session;
        let cost = ledger.work.tally.cost();
        let needs = self.problem.clone().or_else(|| self.told(id, ledger, is_ready));
        // A server takes no such character, and must not refuse a transition because of one.
        let plain = |text: String| text.replace('\0', "");
        Summary {
            standing: plain(self.standing(ledger, is_ready)),
            needs: needs.map(plain),
            condition: self.condition.to_string(),
            phase: plain(self.phase),
            owner: session.owner.as_ref().map(|owner| plain(owner.session.clone())),
            since: ledger.last_heard(),
            // Where it stands so for another reason, that time changes nothing.
            until: session
                .waits
                .until
                .filter(|_| self.condition == Condition::Waiting && !is_ready),
            fired: session.fired,
            started: ledger.started_at,
            micro_dollars: cost.micro_dollars,
            untold: cost.untold,
        }
    }
}

/// Whether the job has ended that a run waits for, or the time is over for which it does.
pub(super) fn is_ready(ledger: &Ledger, has_ended: impl Fn(&Record) -> bool) -> bool {
    let awaited = ledger.session.last.as_ref().and_then(|last| last.waits_for.as_ref());
    let job = awaited.and_then(|id| ledger.work.jobs.get(id));
    is_too_late(ledger) || job.is_some_and(has_ended)
}

/// Whether the time is over for which a run waits.
fn is_too_late(ledger: &Ledger) -> bool {
    ledger.session.waits.until.is_some_and(|until| until < Timestamp::now())
}
