//! Waking a session that was let go because a job of its run was still at work: whether that has ended, and the line
//! which says that the session was woken.

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Until};
use phasegate_engine::step::{Actor, Event};

use super::stop::Verdict;
use super::transaction::Then;
use super::{Found, Gate, GateError, Runs};
use crate::ledger::{Last, LastBlock, Owner};
use crate::words;

/// The event of a line that says that a session was woken.
const WOKEN: &str = "woken";

/// What has become of a run that has let its session go because of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It still waits.
    GoesOn,
    /// It has ended, and the session can be woken.
    Ended,
    /// The session has gone on meanwhile, or the run no longer holds it: nobody is to be woken.
    Over,
}

impl Runs<'_> {
    /// The runs that have let a session go because of a job.
    pub fn let_go_for_jobs(&self, verdict: &Verdict) -> Vec<String> {
        if verdict.block().is_some() {
            return Vec::new();
        }
        let waiting = verdict.answers.iter().filter(|answered| {
            matches!(answered.answer, Answer::Allow { until: Some(Until::Background), .. })
        });
        let names = waiting.map(|answered| answered.run.to_string());
        let has_job = |name: &String| {
            self.run(name).is_ok_and(|run| awaited(&run).is_some() || !self.is_settled(&run))
        };
        names.filter(has_job).collect()
    }

    /// What has become of the wait of a run for which a session was let go.
    pub fn wait_of(&self, run: &Found, session: &str, since: Timestamp) -> Wait {
        let own = &run.ledger.session;
        let is_over = own.cancelled.is_some()
            || own.paused.is_some()
            || !run.is_open(&self.home())
            // Another stop, a prompt, or somebody who has woken it.
            || own.fired.is_none_or(|fired| fired > since)
            // A session that has ended is not there to be woken, though it would have the run back.
            || own.owner.as_ref().is_none_or(|owner| owner.session != session);
        if is_over {
            return Wait::Over;
        }
        let job = awaited(run).and_then(|id| run.ledger.work.jobs.get(id));
        let has_ended = job.is_some_and(|job| self.job_now(job).is_over());
        if has_ended || self.is_settled(run) { Wait::Ended } else { Wait::GoesOn }
    }
}

impl Gate<'_> {
    /// Writes down that a session is woken, and returns what it is told; nothing where it is not to be woken any more.
    ///
    /// # Errors
    /// Where that cannot be written down: then nobody is woken.
    pub fn wake(
        &self,
        run: &Found,
        session: &str,
        since: Timestamp,
    ) -> Result<Option<String>, GateError> {
        let (told, _) = self.within(run, |mut locked| {
            let now = Found { ledger: locked.ledger.clone().into(), ..run.clone() };
            if self.wait_of(&now, session, since) != Wait::Ended {
                return Ok(Then::Nothing(None));
            }
            let job = awaited(&now).and_then(|id| now.ledger.work.jobs.get(id));
            let job = job.map(|job| self.job_now(job));
            let told = words::woken(&run.id.to_string(), job.as_ref());
            let session_of = Some(session.to_string());
            let event = Event { session: session_of, ..Event::new(WOKEN, Actor::Engine) };
            let (at, answer) = (Timestamp::now(), Answer::accepted());
            let own = &mut locked.ledger.session;
            own.fired = Some(at);
            own.owner = Some(Owner { session: session.to_string(), seen: at });
            own.last = Some(Last {
                at,
                event: WOKEN.into(),
                answer: answer.clone(),
                waits_for: None,
                signed: None,
            });
            // The client calls the stop that follows one after a block. It is ours, and the job's end is progress.
            let blocks = own.last_block.as_ref().map_or(0, |last| last.blocks);
            own.last_block = Some(LastBlock {
                since: at,
                session: Some(session.to_string()),
                document: String::new(),
                readings: BTreeMap::default(),
                blocks,
            });
            let line = self.line_in_place(run, &event, &answer)?;
            Ok(Then::Write(locked.note(line), Some(told)))
        })?;
        Ok(told)
    }
}

/// The job that a run waits for, by id.
fn awaited(run: &Found) -> Option<&String> {
    run.ledger.session.last.as_ref()?.waits_for.as_ref()
}
