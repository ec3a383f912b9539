//! A run that was tampered with does not end as done before a person has accepted it.

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::step::{Event, Step};

use super::overrule::Overruled;
use super::signing::Now;
use super::standing::note_done;
use super::transaction::{Open, Then, line_about};
use super::{Found, Gate, GateError};
use crate::journal::Line;
use crate::ledger::{Ledger, Tampered};
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
    if on_tamper == OnTamper::Hold && event.is_question() {
        open.run.notes.push(sentence(&run, &step.to, Because::Tampered(&change)));
    }
    open.overrule(event, step, Overruled::Withheld { change });
}

impl Gate<'_> {
    /// A person accepts what somebody else has changed, also what nobody has noticed yet: the run may end as done,
    /// or has. The changes that were accepted, the last ones.
    pub fn accept_changes(&self, found: &Found, event: &Event) -> Result<Vec<Tampered>, GateError> {
        let seen = self.within_open(found, |mut open| {
            if !open.run.ledger.tamper.is_open() {
                return Ok(Then::Nothing(Vec::new()));
            }
            let position = Some(&open.run.ledger.position);
            let now = Now { position, definition: None, tree: &|| self.tree(found) };
            now.must_be_signed(&found.id, event)?;
            let accepted = accept(&mut open.run.ledger);
            let phase = phase_name(&open.workflow, &open.document);
            let line = Line {
                from: phase.clone(),
                to: phase,
                before: open.before.clone(),
                after: open.before,
                ..line_about(event.clone(), Timestamp::now())
            };
            Ok(Then::Write(open.run.note(line), accepted))
        });
        match seen {
            Ok((accepted, _)) => Ok(accepted),
            // Without its definition or its document there is nothing to notice: the rest can be accepted.
            Err(moved @ GateError::NotReady(_)) if event.signed.is_some() => Err(moved),
            Err(_) if found.ledger.tamper.is_open() => {
                let mut accepted = Vec::new();
                self.note(found, event, |run, _| {
                    accepted = accept(&mut run.ledger);
                    Ok(())
                })?;
                Ok(accepted)
            }
            Err(GateError::Over) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn accept(ledger: &mut Ledger) -> Vec<Tampered> {
    let Ledger { tamper, position, session, .. } = ledger;
    tamper.accepted = tamper.count;
    position.ended_by_hand = false;
    let withheld = [Some(Outcome::Waiting), Some(Outcome::Aborted)];
    if let (Some(last), Some(_)) = (&mut session.last, &position.finished)
        && withheld.contains(&last.answer.outcome())
    {
        last.answer = Answer::allow(Outcome::Done);
        note_done(session);
    }
    std::mem::take(&mut tamper.changes)
}
