//! What an agent is about to do beside stopping, where rules may keep it from that: to call a task of its own list done,
//! to let a teammate go idle.

use std::time::Duration;

use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::step::{Event, Step};

use super::sessions::Standing;
use super::transaction::Open;
use super::{Answered, Gate};
use crate::git;
use crate::words::{self, Because};
use crate::world::ClientReport;

impl Gate<'_> {
    /// Puts what an agent is about to do to the runs of its session whose rules are about it, until one blocks. What
    /// comes back is their answers, and what failed.
    pub fn question(
        &self,
        session: &str,
        event: &Event,
        told: &ClientReport,
        time: Duration,
    ) -> (Vec<Answered>, Vec<String>) {
        let (mut runs, mut faults) = self.find_open();
        faults.extend(self.settle_all(&mut runs));
        let mut answers: Vec<Answered> = Vec::new();
        for (run, standing) in self.in_order(runs, Some(session)) {
            let is_asked = standing == Standing::Own
                && run.ledger.session.paused.is_none()
                && self.is_working(&run)
                && self.workflow_of(&run).is_ok_and(|workflow| workflow.hears(&event.name));
            if !is_asked {
                continue;
            }
            match self.act_within(&run, event, told, time) {
                Ok(answered) => answers.push(answered),
                Err(error) => faults.push(format!("run {}: {error}", run.id)),
            }
            if answers.last().is_some_and(|answered| answered.answer.is_block()) {
                break;
            }
        }
        (answers, faults)
    }

    /// Lets an agent go that was told the same before and has changed nothing since: nobody counts these blocks.
    pub(super) fn insist_once(&self, open: &Open, event: &Event, step: &mut Step) {
        let Some(last) = open.run.ledger.session.last.as_ref() else { return };
        let is_repeated = step.answer.is_block()
            && !event.is_question()
            && last.event == event.name
            && last.answer == step.answer
            && !git::changed_since(&self.project.site, last.at);
        if is_repeated {
            let run = open.run.found.id.to_string();
            let message = words::sentence(&run, &step.to, Because::Unchanged);
            step.let_go(Answer::allow_saying(Outcome::Stuck, message));
        }
    }
}
