//! Errands that would outlast the client: somebody else runs them, and the stop waits.

use std::time::{Duration, Instant};

use phasegate_engine::answer::{Answer, Until};
use phasegate_engine::step::{Event, Step};

use super::errands::{Detached, Errands, NO_LIMIT, Progress};
use super::transaction::{Open, Then};
use super::{Found, Gate, GateError, Runs};
use crate::process;
use crate::world::ClientReport;

/// A client that waits for less than this has long errands run by somebody else.
const PATIENT: Duration = Duration::from_mins(2);

/// How often is looked whether they are done, and when an answer must be on its way.
const POLL: Duration = Duration::from_millis(100);
const MARGIN: Duration = Duration::from_secs(3);

/// Where it is told that somebody does.
const FOLDER: &str = ".phasegate/errands";

/// The command of this program that does.
pub const ERRANDS: &str = "errands";

impl Runs<'_> {
    /// Whether somebody runs errands of a run elsewhere.
    pub fn runs_errands(&self, found: &Found) -> bool {
        process::is_taken(&self.project.root, FOLDER, &found.id)
    }
}

impl Gate<'_> {
    /// Has somebody else run what would outlast the client's patience. None where it can be run here.
    pub(super) fn detached(
        &self,
        open: &Open,
        errands: &Errands,
        event: &Event,
        step: &Step,
    ) -> Result<Option<Detached>, GateError> {
        if !event.is_question() || errands.most >= PATIENT || errands.unsettled.is_some() {
            return Ok(None);
        }
        if step.review.is_some() && open.run.ledger.work.unreviewed.is_some() {
            return Ok(None);
        }
        let check = step.needs.as_ref().and_then(|name| {
            let check = open.workflow.checks.iter().find(|check| check.name == *name);
            check.map(|check| (format!("check {name}"), check.timeout))
        });
        let review = step.review.as_ref();
        let review = review.map(|it| (format!("the review by {}", it.reviewer), it.timeout));
        let Some((what, _)) = check.or(review).filter(|(_, time)| *time > errands.most) else {
            return Ok(None);
        };
        let run = &open.run.found.id;
        if let Some(free) = process::try_exclusive(&self.project.root, FOLDER, run)? {
            let words = [ERRANDS, &run.to_string()];
            process::start_detached(&self.project.root, &words, free)?;
        }
        if !errands.waited {
            return Ok(Some(Detached::Wait));
        }
        Ok(Some(Detached::Waits(format!(
            "Run {run} waits for {what}, which takes longer than this client waits: it runs in the \
             background. Say something to the agent when it is done; `phasegate status` shows it."
        ))))
    }

    /// Waits for whoever runs the errands of a run, as long as the client does.
    pub(super) fn await_detached(&self, found: &Found, most: Duration) {
        let since = Instant::now();
        while since.elapsed() + MARGIN < most {
            std::thread::sleep(POLL);
            if matches!(process::try_exclusive(&self.project.root, FOLDER, &found.id), Ok(Some(_)))
            {
                return;
            }
        }
    }

    /// The other side of that: runs what a stop of the run would need, and stops nobody. Its stdin is the
    /// lock that tells of it.
    pub fn run_errands(&self, found: &Found) -> Result<(), GateError> {
        self.put(found, NO_LIMIT, |errands, mut open| {
            let session = open.run.ledger.session.owner.as_ref().map(|owner| owner.session.clone());
            let event = errands.stop(session);
            let mut step = self.decide(&mut open, &event, &ClientReport::default(), errands);
            if let Some(then) = self.missing(&mut open, errands, &event, &mut step)? {
                return Ok(then);
            }
            // Nothing is missing any more: what was found out is kept for the next stop.
            let ledger = &mut open.run.ledger;
            ledger.work.checking = None;
            ledger.work.unreviewed = errands.unreviewed().map(str::to_string);
            for (name, ran) in &errands.fresh {
                match ran.passed() {
                    Some(passed) => drop(ledger.work.checks.insert(name.clone(), passed)),
                    None => drop(ledger.work.failed.insert(name.clone(), ran.clone())),
                }
            }
            Ok(Then::Write(open.run.keep(), Progress::Done(None)))
        })?;
        // Nobody is there to go on by himself.
        let text = format!("What run {} waited for is done: say something to the agent.", found.id);
        let ready = Answer::waiting(Until::Human, text);
        self.project.config.notify.tell(&found.id, &found.ledger.position.phase, &ready, None);
        Ok(())
    }
}
