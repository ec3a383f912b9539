//! Files that checks rest on: a session that has changed them does not pass by those checks alone.
//!
//! Where a gate stands, its baseline tells which files the session has changed. A run that was started remembers those files as
//! they were then. One that nobody has started remembers nothing; its rules can tell it themselves (`guards`, and `changes` since a
//! snapshot).

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::answer::Outcome;
use phasegate_engine::decide::{RunFacts, guards};
use phasegate_engine::definition::OnTamper;
use phasegate_engine::digest::digest;
use phasegate_engine::glob;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Event, Step};
use phasegate_engine::workflow::Workflow;

use super::Gate;
use super::put::Attempt;
use super::transaction::Open;
use crate::ledger::{Tampered, Work};
use crate::outside::{self, MAX_RECORD};
use crate::paths::{self, Walk};
use crate::world::ClientReport;

/// Of how many such files a run that is started remembers the state.
const MAX_FILES: usize = 2_000;

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
        if !is_done || !may_be_withheld(&open.workflow) {
            return;
        }
        let stands = open.run.ledger.session.stands.is_some();
        let changed = if stands {
            self.changed_since_baseline(open, event, (told, attempt), step)
        } else {
            self.changed_since_start(&mut open.run.ledger.work)
        };
        for field in changed {
            let from = "what the checks rested on before".to_string();
            let change =
                Tampered { at: Timestamp::now(), field, from, to: "something else".into() };
            open.run.ledger.tamper.note(change);
        }
    }

    fn changed_since_baseline(
        &self,
        open: &Open,
        event: &Event,
        (told, attempt): (&ClientReport, &Attempt),
        step: &Step,
    ) -> Vec<String> {
        let stands = open.run.ledger.session.stands.as_ref();
        let trees = stands.and_then(|it| it.baseline.as_ref().zip(it.seen.as_ref()));
        let Some((then, now)) = trees else { return Vec::new() };
        let run = self.run_facts(open.run.found, &open.ground, None);
        let world = self.world(&open.workflow, &open.ground, &open.run.ledger.work, told, attempt);
        // A pattern that cannot be told is a mistake of the definition, and holds nobody.
        let patterns = guards(&open.workflow, step.document.clone(), event, &run, world);
        let patterns = patterns.unwrap_or_default();
        let files = then.changed(now).into_iter().filter_map(|file| {
            Some(file.strip_prefix(&now.site).ok()?.to_string_lossy().into_owned())
        });
        let is_meant = |file: &String| patterns.iter().any(|it| glob::matches(it, file));
        files.filter(is_meant).collect()
    }

    /// What was there when the run was started and is another now. It is remembered as it is now: it is told once.
    fn changed_since_start(&self, work: &mut Work) -> Vec<String> {
        let mut changed = Vec::new();
        for (file, was) in &mut work.guards {
            let is = self.state_of(file);
            if is != *was {
                changed.push(file.clone());
                *was = is;
            }
        }
        changed
    }

    /// The files that the checks of a run rest on that is about to begin, each with what tells its state. What is not there yet,
    /// as a report that a check looks for, is what the run is to make.
    pub(super) fn guarded(
        &self,
        workflow: &Workflow,
        document: &Json,
        event: &Event,
        run: &RunFacts,
    ) -> BTreeMap<String, String> {
        if !may_be_withheld(workflow) {
            return BTreeMap::new();
        }
        let patterns = guards(workflow, document.clone(), event, run, self.first_look(workflow));
        let patterns = patterns.unwrap_or_default().into_iter();
        let files = patterns.flat_map(|it| Walk::new(&self.project.site).files(&it));
        let files = files.flatten().take(MAX_FILES);
        files.map(|file| (file.clone(), self.state_of(&file))).collect()
    }

    /// What tells the content of a file from another.
    fn state_of(&self, file: &str) -> String {
        let path = paths::inside(&self.project.site, file).ok();
        match path.map(|path| outside::read(&path, MAX_RECORD)) {
            Some(Ok(bytes)) => digest(&bytes),
            _ => String::new(),
        }
    }
}

/// Whether there are checks, and a person is asked before a run counts that was tampered with.
fn may_be_withheld(workflow: &Workflow) -> bool {
    workflow.checks().next().is_some() && workflow.on_tamper != OnTamper::Rules
}
