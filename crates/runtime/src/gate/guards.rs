//! Files that checks rest on: a session that has changed them does not pass by those checks alone.
//!
//! Which files a session has changed is known where a gate stands, by its baseline. Elsewhere the rules of a
//! workflow can tell it themselves (`guards`, and `changes` since a snapshot).

use jiff::Timestamp;
use phasegate_engine::answer::Outcome;
use phasegate_engine::decide::guards;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::glob;
use phasegate_engine::step::{Event, Step};

use super::Gate;
use super::put::Attempt;
use super::transaction::Open;
use crate::ledger::Tampered;
use crate::world::ClientReport;

impl Gate<'_> {
    /// Writes down which files that checks rest on the session has changed, where the run would be done.
    pub(super) fn notice_guards(
        &self,
        open: &mut Open,
        event: &Event,
        (told, attempt): (&ClientReport, &Attempt),
        step: &Step,
    ) {
        let is_done = step.answer.outcome() == Some(Outcome::Done);
        let stands = open.run.ledger.session.stands.as_ref();
        let trees = stands.and_then(|it| it.baseline.as_ref().zip(it.seen.as_ref()));
        let Some((then, now)) = trees.filter(|_| is_done) else { return };
        let has_checks = open.workflow.checks().next().is_some();
        if !has_checks || open.workflow.on_tamper == OnTamper::Rules {
            return;
        }
        let run = self.run_facts(open.run.found, &open.ground, None);
        let world = self.world(&open.workflow, &open.ground, &open.run.ledger.work, told, attempt);
        // A pattern that cannot be told is a mistake of the definition, and holds nobody.
        let patterns = guards(&open.workflow, step.document.clone(), event, &run, world);
        let patterns = patterns.unwrap_or_default();
        for file in then.changed(now) {
            let Ok(file) = file.strip_prefix(&now.site) else { continue };
            let field = file.to_string_lossy().into_owned();
            if patterns.iter().any(|pattern| glob::matches(pattern, &field)) {
                let from = "what the checks rested on before".to_string();
                let change =
                    Tampered { at: Timestamp::now(), field, from, to: "something else".into() };
                open.run.ledger.tamper.note(change);
            }
        }
    }
}
