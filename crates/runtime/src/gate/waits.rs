//! Waits that the agent itself can cause: for its background work, for a person whom it has asked, and in plan
//! mode.
//!
//! They let the agent stop although the rules would hold it, so they are bounded: what will come back is
//! waited for once, a shell only at the first stop that shows it, a monitor never; and after two waits in a
//! row without any change the rules decide as if there were nothing to wait for.

use jiff::Timestamp;
use phasegate_clients::Work;
use phasegate_engine::step::{Event, Step};

use super::caused::{Caused, awaited};
use super::overrule::Overruled;
use super::questions::waiting;
use super::transaction::Open;
use crate::git;
use crate::project::Project;

/// Lets a stop go for what the agent has caused, and counts that; whether it does.
pub(super) fn wait(
    project: &Project,
    open: &mut Open,
    (background, is_planning): (&[Work], bool),
    event: &Event,
    step: &mut Step,
    now: Timestamp,
) -> bool {
    let waits = &open.run.ledger.session.waits;
    let kinds = awaited(waits, background);
    // The question of a job that works for the run does not let the session go.
    let question = open.run.ledger.open_question();
    let question = question.filter(|question| question.is_of(event.session.as_deref()));
    let asked = question.map(|question| waiting(&open.run.found.id, question));
    if kinds.is_empty() && !is_planning && asked.is_none() {
        return false;
    }
    let is_changed = waits.document != open.before
        || waits.since.is_some_and(|since| git::changed_since(&project.root, since));
    let caused = Caused {
        waits: waits.clone(),
        background: background.to_vec(),
        is_planning,
        asked,
        is_changed,
        document: open.before.clone(),
        now,
    };
    let run = open.run.found.id.to_string();
    open.run.ledger.session.waits = caused.answer(&run, &step.to).0;
    open.overrule(event, step, Overruled::Waits(Box::new(caused)))
}
