//! Checks on the way of an event: asked for under the lock, run without it, and then the event is
//! put again.

use phasegate_engine::answer::{Answer, Until};
use phasegate_engine::check::CheckResult;
use phasegate_engine::step::Step;
use phasegate_engine::workflow::Workflow;

use super::commit::Open;
use super::{Found, Gate, GateError};
use crate::catalog::Origin;
use crate::checks::{CheckError, Checks};
use crate::trust;

/// How often one check runs for one event, while the tree changes under it.
const MOST_RUNS: usize = 2;

/// What is known of checks while an event is put again and again.
#[derive(Debug, Default)]
pub(super) struct Checking {
    ran: Vec<String>,
    /// Why no check can be run any more.
    unsettled: Option<String>,
}

impl Gate<'_> {
    /// Puts an event until no check is missing.
    pub(super) fn with_checks<T>(
        &self,
        found: &Found,
        mut put: impl FnMut(&Checking) -> Result<T, GateError>,
    ) -> Result<T, GateError> {
        let mut checking = Checking::default();
        loop {
            match put(&checking) {
                Err(GateError::Needs(name)) if checking.unsettled.is_none() => {
                    let workflow = self.workflow_of(found)?;
                    self.check(found, &workflow, &name, &mut checking)?;
                }
                result => return result,
            }
        }
    }

    fn check(
        &self,
        found: &Found,
        workflow: &Workflow,
        name: &str,
        checking: &mut Checking,
    ) -> Result<(), GateError> {
        if checking.ran.iter().filter(|ran| *ran == name).count() >= MOST_RUNS {
            let text = format!("The files change while check {name} of run {} runs.", found.id);
            checking.unsettled = Some(text);
            return Ok(());
        }
        checking.ran.push(name.to_string());
        match Checks::new(&self.project.root, workflow).run(name) {
            Ok(_) => Ok(()),
            Err(CheckError::Running(_)) => {
                let text = format!("Check {name} of run {} is still running.", found.id);
                checking.unsettled = Some(text);
                Ok(())
            }
            Err(error) => Err(GateError::Other(error.to_string())),
        }
    }

    /// Asks for the check that a step needs, or answers without it where it cannot run.
    pub(super) fn missing(
        &self,
        open: &Open,
        checking: &Checking,
        step: &mut Step,
    ) -> Result<(), GateError> {
        let Some(name) = step.needs.take() else { return Ok(()) };
        let workflow = &open.workflow;
        if !self.is_trusted(workflow) {
            let message = format!(
                "Workflow {0} runs commands, and you have not consented to that: nothing was \
                 checked. `phasegate trust {0}` shows them and consents.",
                workflow.name
            );
            step.answer = Answer::waiting(Until::Human, message);
            return Ok(());
        }
        match &checking.unsettled {
            Some(why) => {
                step.answer = Answer::waiting(Until::Background, why.as_str());
                Ok(())
            }
            None => Err(GateError::Needs(name)),
        }
    }

    /// Whether the workflow may run commands.
    pub fn is_trusted(&self, workflow: &Workflow) -> bool {
        let entry = self.project.workflow(&workflow.name);
        // A definition that is gone can only have been one of the project's own.
        let gone = Origin::File(self.project.root.clone());
        let origin = entry.map_or(&gone, |entry| &entry.origin);
        workflow.checks.is_empty() || trust::is_trusted(origin, &workflow.digest)
    }

    /// Runs a check of a workflow, whoever has a result already.
    pub fn run_check(&self, workflow: &Workflow, name: &str) -> Result<CheckResult, GateError> {
        if !self.is_trusted(workflow) {
            let message = format!("`phasegate trust {}` first: it runs commands", workflow.name);
            return Err(GateError::Other(message));
        }
        let run = Checks::new(&self.project.root, workflow).run(name);
        run.map_err(|error| GateError::Other(error.to_string()))
    }
}
