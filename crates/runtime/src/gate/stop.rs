//! The answer to a stop.

use std::time::Duration;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::Reentry;
use phasegate_engine::job::{Gives, Job};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Event, Step};

use super::jobs::busy;
use super::put::{Attempt, Progress};
use super::sessions::{Standing, standing};
use super::transaction::{Open, Then, line_about};
use super::{Answered, Found, Gate, GateError};
use crate::git;
use crate::governor::{Situation, state_without};
use crate::journal::Line;
use crate::ledger::{Last, LastBlock, Owner};
use crate::run::RunId;
use crate::world::ClientReport;

/// A stop, as a client reports it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    pub session: Option<String>,
    /// Whether the stop follows a block, ours or another hook's; not every client says.
    pub after_block: Option<bool>,
    /// The client still has background work.
    pub background: bool,
    /// How many blocks the client takes before it ends the turn on its own, and whether work in
    /// between does not count.
    pub client_cap: Option<(u64, bool)>,
    /// How long the client waits for an answer.
    pub time: Duration,
    pub told: ClientReport,
}

/// All that came of a stop.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub answers: Vec<Answered>,
    /// Failures of our own: they allow the stop, loudly.
    pub faults: Vec<String>,
    /// What the user should know, whatever the answer.
    pub notes: Vec<String>,
}

impl Verdict {
    /// The block, if any run blocks.
    pub fn block(&self) -> Option<&Answered> {
        self.answers.iter().find(|answered| answered.answer.is_block())
    }
}

impl Gate<'_> {
    /// Answers a stop.
    ///
    /// A session is answered by the runs it owns. One that owns none takes the oldest run that is
    /// free. A stop without a session is answered by every open run, until one blocks.
    pub fn stop(&self, stop: &Stop) -> Verdict {
        let (mut runs, mut faults) = self.find_open();
        faults.extend(self.settle_all(&mut runs));
        let notes = self.untold(&runs, stop.session.as_deref());
        let mut verdict = Verdict { answers: Vec::new(), faults, notes };
        let runs = self.in_order(runs, stop.session.as_deref());
        let insisting = |(run, _): &(Found, Standing)| run.ledger.has_blocked(&stop.session);
        let ours = runs.iter().any(insisting);
        let mut guessed: Vec<&RunId> = Vec::new();
        for (run, standing) in &runs {
            if verdict.block().is_some() {
                break;
            }
            if *standing == Standing::Free {
                if !self.is_asked(run, stop, &verdict, &guessed) {
                    continue;
                }
                guessed.extend(run.presumed.then_some(&run.id));
            }
            let answered = self
                .put(run, stop.time, |attempt, open| self.answer_stop(open, stop, ours, attempt));
            let has_jobs = matches!(&answered, Ok(Some(answered)) if answered.has_jobs);
            if has_jobs && let Err(error) = self.settle_now(run) {
                verdict.faults.push(format!("run {}: {error}", run.id));
            }
            match answered {
                Ok(answered) => verdict.answers.extend(answered),
                Err(GateError::Over) => {}
                Err(GateError::Gone(..)) if run.ledger.position.seq == 0 => {}
                Err(GateError::Unreadable(why)) => {
                    match self.give_up(run, &Event::stop(stop.session.clone()), &why) {
                        Ok(answered) => verdict.answers.push(answered),
                        Err(error) => verdict.faults.push(format!("run {}: {error}", run.id)),
                    }
                }
                Err(error) => verdict.faults.push(format!("run {}: {error}", run.id)),
            }
        }
        self.keep_documents();
        verdict
    }

    /// Whether a run that is nobody's answers, after what others have answered.
    fn is_asked(&self, run: &Found, stop: &Stop, verdict: &Verdict, guessed: &[&RunId]) -> bool {
        let answers = || verdict.answers.iter().filter(|answered| !answered.over);
        let has_session = stop.session.is_some();
        if !run.presumed {
            return !has_session || answers().next().is_none();
        }
        // Where folders are runs, the one that was changed last is asked beside the session's own.
        let others = answers().any(|answered| answered.run.workflow != run.id.workflow);
        let taken = answers().any(|answered| guessed.contains(&&answered.run));
        !(taken || has_session && others || run.untouched && self.is_ended(run))
    }

    fn answer_stop(
        &self,
        mut open: Open,
        stop: &Stop,
        ours: bool,
        attempt: &Attempt,
    ) -> Result<Then<Progress>, GateError> {
        let event = attempt.stop(stop.session.clone());
        let found = open.run.found;
        let now = Timestamp::now();
        let foreign = standing(&open.run.ledger, stop.session.as_deref(), now) == Standing::Foreign;
        if open.run.ledger.session.cancelled.is_some() || foreign {
            return Ok(Then::Nothing(Progress::Done(None)));
        }
        open.run.ledger.session.fired = Some(now);
        if open.run.ledger.session.paused.is_some() {
            let why = format!("Run {0} is paused. `phasegate resume {0}` takes it up.", found.id);
            return Ok(pass(open, &event, Answer::waiting(Until::Human, why), None));
        }
        if let Some(why) = busy(&open).filter(|_| open.run.ledger.position.begins_with.is_some()) {
            return Ok(pass(open, &event, Answer::waiting(Until::Background, why), None));
        }
        let outer = open.workflow.outer();
        let phase = phase_name(&open.workflow, &open.document);
        let ends = outer.phase(&phase).and_then(|phase| outer.get(phase).ends);
        // Where the review that was just made has ended the run, its rules may speak of that.
        if let (Some(ends), false) = (ends, attempt.has_verdict()) {
            return Ok(answer_ended(open, &event, &phase, ends, now));
        }
        if let Some(session) = &stop.session {
            if let Some(before) =
                open.run.ledger.session.owner.as_ref().filter(|owner| owner.session != *session)
            {
                let note = format!("run {} was adopted from session {}", found.id, before.session);
                open.run.notes.push(note);
            }
            open.run.ledger.session.owner = Some(Owner { session: session.clone(), seen: now });
        }
        // What another session was told does not count against this one.
        if !open.run.ledger.has_blocked(&stop.session) {
            open.run.ledger.session.last_block = None;
        }
        let told = open.run.ledger.session.last_block.clone();
        if foreign_loop(open.workflow.reentry, stop, ours || told.is_some()) {
            let why = "another hook's block caused this stop, so nothing was decided";
            let outcome = Some(Outcome::Waiting);
            let until = Some(Until::External);
            let answer = Answer::Allow { outcome, until, message: None };
            return Ok(pass(open, &event, answer, Some(why)));
        }
        if let Some(why) = busy(&open) {
            let answer = Answer::waiting(Until::Background, why);
            return Ok(pass(open, &event, answer, None));
        }
        let mut step = self.decide(&mut open, &event, &stop.told, attempt);
        // What is still being made is not reviewed.
        let judges = |job: &Job| job.manner.gives == Gives::Verdict;
        if stop.background && step.wants.take_if(|job| judges(job)).is_some() {
            let message = format!("Run {} waits for background work.", found.id);
            step.answer = Answer::waiting(Until::Background, message);
        }
        if let Some(then) = self.obtain(&mut open, attempt, &event, &mut step)? {
            return Ok(then);
        }
        self.reenter(&open, stop, told.as_ref(), &mut step);
        let new = open.written(&step);
        self.govern(&mut open, stop, new.as_deref(), &mut step, now);
        let new = new.filter(|_| step.changed);
        self.commit(open, &event, step, new, attempt)
    }

    /// Counts a block, and lets the stop go where a limit is reached.
    fn govern(
        &self,
        open: &mut Open,
        stop: &Stop,
        new: Option<&[u8]>,
        step: &mut Step,
        now: Timestamp,
    ) {
        let Answer::Block { reason } = &step.answer else { return };
        let workflow = &open.workflow;
        let text = new.unwrap_or(&open.read.text);
        let updated = workflow.updated.as_ref().and_then(|field| step.document.get(field));
        let left = step.moves.iter().any(|step| step.from != step.to);
        let state = left.then(|| state_without(text, updated.and_then(Json::as_str)));
        let limits = self.project.config.limits(&workflow.name);
        let insisting = open.run.ledger.session.last_block.as_ref();
        let unmoved = insisting.filter(|last| !last.moved_on(&open.before, &step.readings));
        // The tree is looked at only where it would be called stuck without.
        let near = open.run.ledger.work.tally.same_reason >= limits.same_reason.unwrap_or(0);
        let moved_on =
            unmoved.is_none_or(|last| near && git::changed_since(&self.project.root, last.since));
        let situation = Situation {
            now,
            last: open.run.ledger.session.last.as_ref().map(|last| last.at),
            // Who does not say whether a stop follows a block, is taken by our own last answer.
            fresh: stop.after_block.map_or(insisting.is_none(), |after| !after),
            moved_on,
            used_tools: stop.told.used_tools(),
            // Whether an agent has worked in between is not known where the client says nothing.
            client_cap: stop.client_cap.filter(|(_, on_all)| *on_all || stop.after_block.is_some()),
            reason,
            patience: u64::from(workflow.patience),
            state,
        };
        let run = open.run.found.id.to_string();
        let (answer, warnings) = open.run.ledger.work.tally.count(&run, &limits, &situation);
        open.run.notes.extend(warnings);
        if let Some(answer) = answer {
            step.let_go(answer);
        }
    }

    /// Lets a stop go where insisting would only repeat itself, or where background work goes on.
    fn reenter(&self, open: &Open, stop: &Stop, ours: Option<&LastBlock>, step: &mut Step) {
        if !step.answer.is_block() {
            return;
        }
        if stop.background {
            let message = format!("Run {} waits for background work.", open.run.found.id);
            step.let_go(Answer::waiting(Until::Background, message));
            return;
        }
        let insisted = ours.filter(|last| !last.moved_on(&open.before, &step.readings));
        if let Some(last) = insisted
            && stop.after_block != Some(false)
            && open.workflow.reentry == Reentry::Progress
            && last.blocks >= open.workflow.patience
            && !git::changed_since(&self.project.root, last.since)
        {
            let run = &open.run.found.id;
            let message = format!(
                "Run {run} is stuck in phase {}: the agent stopped again and nothing has changed \
                 since it was told to go on. Say something to the agent to go on, `phasegate why {run}` \
                 to see what is missing, or `phasegate cancel {run}` to end the run.",
                step.to
            );
            step.let_go(Answer::allow_saying(Outcome::Stuck, message));
        }
    }
}

/// Whether another hook's block caused the stop, so that it is not ours to answer.
fn foreign_loop(reentry: Reentry, stop: &Stop, ours: bool) -> bool {
    stop.after_block == Some(true)
        && match reentry {
            Reentry::Always => false,
            Reentry::Never => true,
            Reentry::Progress => !ours,
        }
}

/// A stop after the run has ended. That somebody has ended it by hand must not pass in silence.
fn answer_ended(
    mut open: Open,
    event: &Event,
    phase: &str,
    ends: Outcome,
    now: Timestamp,
) -> Then<Progress> {
    let outer = open.workflow.outer();
    open.run.ledger.position.finished.clone_from(&open.read.version);
    let derived =
        outer.derive.is_some() && ends == Outcome::Done && open.run.ledger.is_left_by_hand(phase);
    if derived {
        open.run.notes.push(format!(
            "run {}: somebody has ended it in phase `{phase}`, and not Phasegate.",
            open.run.found.id
        ));
        open.run.ledger.position.phase = phase.to_string();
        open.run.ledger.position.ended_by_hand = true;
    }
    let by_hand = derived || open.run.ledger.is_ended_by_hand(&outer.field, phase);
    if !by_hand || open.run.notes.is_empty() {
        return Then::Write(open.run.keep(), Progress::Done(None));
    }
    let answer = Answer::allow(Outcome::Aborted);
    let (event_name, answer_given) = (event.name.clone(), answer.clone());
    open.run.ledger.session.last =
        Some(Last { at: now, event: event_name, answer: answer_given, waits_for: None });
    match pass(open, event, answer, None) {
        Then::Write(writes, Progress::Done(Some(answered))) => {
            Then::Write(writes, Progress::Done(Some(Answered { over: true, ..answered })))
        }
        then => then,
    }
}

/// Allows a stop that is not put to the rules, and journals that it was.
fn pass(mut open: Open, event: &Event, answer: Answer, why: Option<&str>) -> Then<Progress> {
    let phase = phase_name(&open.workflow, &open.document);
    let line = Line {
        from: phase.clone(),
        to: phase,
        answer: answer.clone(),
        before: open.before.clone(),
        after: open.before.clone(),
        notes: why.map(str::to_string).into_iter().collect(),
        ..line_about(event.clone(), Timestamp::now())
    };
    let answered = Answered {
        document: std::mem::take(&mut open.document),
        ..Answered::new(&open.run.found.id, answer)
    };
    Then::Write(open.run.note(line), Progress::Done(Some(answered)))
}
