//! A run that was tampered with does not end as done before a person has accepted it.

use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::definition::OnTamper;
use phasegate_engine::step::{Event, Step};

use super::transaction::Open;
use super::{Found, Gate, GateError};
use crate::ledger::Ledger;
use crate::words::{Because, sentence};

/// Does not let a run end as done that was tampered with, before a person has accepted it.
pub(super) fn withhold(open: &mut Open, event: &Event, step: &mut Step) {
    let on_tamper = open.workflow.on_tamper;
    let tamper = &open.run.ledger.tamper;
    let is_done = step.answer.outcome() == Some(Outcome::Done);
    if !is_done || !tamper.is_open() || on_tamper == OnTamper::Rules {
        return;
    }
    let run = open.run.found.id.to_string();
    let change = tamper.changes.last().map(ToString::to_string).unwrap_or_default();
    let told = sentence(&run, &step.to, Because::Tampered(&change));
    if on_tamper == OnTamper::Tell {
        step.answer = Answer::waiting(Until::Human, told);
        return;
    }
    let reason = format!(
        "Run {run} cannot end: {change}. A person has to look at that first, and was told how. Leave the state \
         document to Phasegate."
    );
    if event.is_question() {
        open.run.notes.push(told);
        step.undo(Answer::Block { reason });
    } else {
        step.undo(Answer::deny_as("tampered", reason));
    }
}

impl Gate<'_> {
    /// A person accepts what somebody else has changed: the run may end as done, or has.
    pub fn accept_changes(&self, found: &Found, event: &Event) -> Result<(), GateError> {
        self.note(found, event, |run, _| {
            let Ledger { tamper, position, session, .. } = &mut run.ledger;
            tamper.accepted = tamper.count;
            tamper.changes.clear();
            position.ended_by_hand = false;
            let withheld = [Some(Outcome::Waiting), Some(Outcome::Aborted)];
            if let (Some(last), Some(_)) = (&mut session.last, &position.finished)
                && withheld.contains(&last.answer.outcome())
            {
                last.answer = Answer::allow(Outcome::Done);
            }
            Ok(())
        })
    }
}
