//! Hooks that an agent's shell calls instead of the client. They are answered as the client would be, so that nothing is
//! lost where that is a mistake; but they count for nothing: no run is taken, used up, given up or ended by them.
//! The journal has a line that says who called, and the person is told at the next stop.

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Until};
use phasegate_engine::decide::{params, phase_name};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};

use super::jobs::busy;
use super::overrule::{foreign_loop, starts_agent};
use super::put::{Attempt, Progress};
use super::stop::Stop;
use super::transaction::{Locked, Open, Then, line_about};
use super::{Answered, Found, Gate, GateError};
use crate::journal::Line;
use crate::words::{self, Because};

/// The event of a line that says that a hook was called from a shell.
const HOOK_CALL: &str = "hook-call";

/// The parameter of it that names the hook.
const HOOK: &str = "hook";

impl Gate<'_> {
    /// Answers a stop that an agent's shell reports. Checks that it needs are run, since their results are facts; nobody
    /// is asked to judge or to work for it.
    pub(super) fn overhear_stop(
        &self,
        mut open: Open,
        stop: &Stop,
        attempt: &Attempt,
        shell: &str,
    ) -> Result<Then<Progress>, GateError> {
        let kept = open.run.ledger.clone();
        let event = attempt.stop(stop.session.clone());
        let run = open.run.found.id.to_string();
        let phase = phase_name(&open.workflow, &open.document);
        let outer = open.workflow.outer();
        let ends = outer.phase(&phase).and_then(|phase| outer.get(phase).ends);
        let answer = if let Some(answer) = self.held_off(&open) {
            answer
        } else if let Some(why) = busy(&open) {
            Answer::waiting(Until::Background, why)
        } else if let Some(ends) = ends {
            Answer::allow(ends)
        } else {
            let mut step = self.decide(&mut open, &event, &stop.told, attempt);
            if starts_agent(&step) {
                let why = words::sentence(&run, &step.to, Because::Shell);
                step.undo(Answer::waiting(Until::External, why));
            }
            if let Some(then) = self.obtain(&mut open, attempt, &event, &mut step)? {
                return Ok(then);
            }
            let ours = kept.session.last_block.is_some();
            if step.answer.is_block() && foreign_loop(open.workflow.reentry, stop.after_block, ours)
            {
                let why = words::sentence(&run, &step.to, Because::OtherHook);
                step.let_go(Answer::waiting(Until::External, why));
            }
            step.answer
        };
        open.run.ledger = kept;
        let answered = Answered {
            phase: phase.clone(),
            block_exit: open.workflow.block_exit,
            ..Answered::new(&open.run.found.id, answer.clone())
        };
        let call = called("stop", stop.session.as_deref());
        let line = Line { from: phase.clone(), to: phase, answer, ..call };
        let line = Line { before: open.before.clone(), after: open.before.clone(), ..line };
        say(&mut open.run, "stop", stop.session.as_deref(), shell);
        Ok(Then::Write(open.run.note(line), Progress::Done(Some(answered))))
    }

    /// Notes a sign of a session that an agent's shell gives.
    pub(super) fn overhear_sign(
        &self,
        run: &Found,
        hook: &str,
        session: &str,
        shell: &str,
    ) -> Result<Vec<String>, GateError> {
        let ((), written) = self.within(run, |mut locked| {
            say(&mut locked, hook, Some(session), shell);
            Ok(Then::Write(locked.note(called(hook, Some(session))), ()))
        })?;
        Ok(written.notes)
    }
}

/// The line about a call.
fn called(hook: &str, session: Option<&str>) -> Line {
    let params = params([(HOOK.to_string(), Json::from(hook))]);
    let session = session.map(str::to_string);
    let event = Event { session, params, ..Event::new(HOOK_CALL, Actor::Worker) };
    line_about(event, Timestamp::now())
}

/// Has the person told at the next stop, once for all calls until then.
fn say(run: &mut Locked, hook: &str, session: Option<&str>, shell: &str) {
    let note = words::called_from_shell(&run.found.id.to_string(), hook, session, shell);
    run.ledger.session.pending_notices.retain(|pending| *pending != note);
    run.notes.push(note);
}
