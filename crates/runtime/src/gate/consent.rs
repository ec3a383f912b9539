//! Whether a person has consented to what a workflow does.

use phasegate_engine::workflow::Workflow;

use super::Runs;
use crate::catalog::Origin;
use crate::trust;

impl Runs<'_> {
    /// Whether the workflow may run commands and write files.
    pub fn is_trusted(&self, workflow: &Workflow) -> bool {
        let present = self.workflow(&workflow.name);
        let is_present = present.is_ok_and(|present| present.identity == workflow.identity);
        let entry = self.project.workflow(&workflow.name).filter(|_| is_present);
        // A copy lies in the project, whatever it is a copy of.
        let copy = Origin::File(self.project.root.clone());
        let origin = entry.map_or(&copy, |entry| &entry.origin);
        !workflow.acts() || trust::is_trusted(&self.project.root, origin, &workflow.identity)
    }
}
