//! A step of the rules as it is written down, and as it is answered.

use jiff::Timestamp;
use phasegate_clients::MAX_REASON;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::decide;
use phasegate_engine::definition::MayCancel;
use phasegate_engine::digest::digest;
use phasegate_engine::events::EventKind;
use phasegate_engine::evidence::Reading;
use phasegate_engine::job::Bound;
use phasegate_engine::step::{Actor, Effect, Event, Step};
use phasegate_engine::workflow::Workflow;

use super::asked::Asked;
use super::put::{Attempt, Progress, refusal};
use super::questions::{drop_question, waiting};
use super::repeat::follow;
use super::standing::note_done;
use super::tamper::protected;
use super::transaction::{Change, Open, Then, line_about};
use super::trees::note_checks;
use super::withhold::withhold;
use super::{Answered, Gate, GateError};
use crate::fault_point;
use crate::journal::Line;
use crate::ledger::{Last, LastBlock, Ledger, remembered};
use crate::run::RunId;
use crate::store::StoreError;
use crate::world::ClientReport;

impl Gate<'_> {
    /// Decides on the document, which is taken: a second owner would force a copy of it.
    pub(super) fn decide(
        &self,
        open: &mut Open,
        event: &Event,
        told: &ClientReport,
        attempt: &Attempt,
    ) -> Step {
        let mut run = self.run_facts(open.run.found, &open.ground, open.read.problem.clone());
        // What was noticed only now counts, too.
        run.tampered = open.run.ledger.tamper.count;
        run.unaccepted = open.run.ledger.tamper.unaccepted();
        run.last_review = open.run.ledger.work.last_review();
        run.passed.clone_from(&open.run.ledger.position.passed);
        let world = self.world(&open.workflow, &open.ground, &open.run.ledger.work, told, attempt);
        let document = std::mem::take(&mut open.document);
        let mut step = decide(&open.workflow, document, event, &run, world);
        open.asked = Some(Asked::new(event, run, &mut step));
        step
    }

    /// What is written of a step, and what is answered; `new` is the text of its document, if that has
    /// changed.
    pub(super) fn commit(
        &self,
        mut open: Open,
        event: &Event,
        mut step: Step,
        mut new: Option<Vec<u8>>,
        attempt: &Attempt,
    ) -> Result<Then<Progress>, GateError> {
        if !event.is_question() {
            self.notice_guards(&mut open, event, (&ClientReport::default(), attempt), &step);
            withhold(&mut open, event, &mut step);
            new = new.filter(|_| step.changed);
        }
        let acts = step.effects.contains(&Effect::Remove) || new.is_some();
        if let (Some(problem), true) = (&open.read.problem, acts) {
            // What cannot be read is not overwritten.
            step.undo(refusal(event, format!("{problem}. Repair it, or remove it.")));
            new = None;
        }
        let now = Timestamp::now();
        if event.kind() != EventKind::Fact {
            use_up(&mut open, &step.readings);
        }
        note_checks(&mut open, attempt);
        let removed = self.act_or_refuse(&mut open, event, &mut step)?;
        new = new.filter(|_| step.changed);
        let Open { run, workflow, .. } = &mut open;
        self.pin(run, workflow)?;
        let basis = self.basis(&mut open, &step.answer);
        let Open { run, workflow, read, before, .. } = &mut open;
        let (found, ledger) = (run.found, &mut run.ledger);
        let after = new.as_ref().map_or_else(|| before.clone(), |bytes| digest(bytes));
        follow(ledger, event, before, &after);
        if event.is_question() {
            ledger.session.last_block = insisting(ledger, event, &step, before, &after, now);
        }
        // Of a question people were told when it was asked.
        let asked = ledger.open_question().map(|question| waiting(&found.id, question));
        let before_that = || ledger.session.last.as_ref().map(|last| last.answer.clone());
        let answered_before = asked.filter(|asked| *asked == step.answer).or_else(before_that);
        ledger.session.last = Some(Last {
            at: now,
            event: event.name.clone(),
            answer: step.answer.clone(),
            signed: event.signed.as_ref().map(ToString::to_string),
            waits_for: attempt.given_up.as_ref().map(|(id, _)| id.clone()),
        });
        ledger.position.document.clone_from(&found.place);
        // What is presumed was not read.
        if read.problem.is_none() {
            ledger.tamper.protected = protected(workflow, &step.document);
        }
        ledger.position.passed.append(&mut step.passed);
        let ends = advance(ledger, workflow, &step);
        if ends {
            run.notes.extend(drop_question(&found.id, &mut ledger.session));
        }
        let phase = step.to.clone();
        let line = Line {
            from: step.from,
            to: step.to,
            answer: step.answer.clone(),
            moves: step.moves,
            trace: step.trace,
            evidence: self.told(step.readings),
            before: before.clone(),
            after,
            basis: Some(basis),
            ..line_about(event.clone(), now)
        };
        let answered = Answered {
            started: started(&step.effects),
            block_exit: workflow.block_exit,
            ends,
            phase,
            ..given(&found.id, &step.answer, workflow, ledger.session.stands.is_some())
        };
        let version = read.version.clone();
        let mut writes = open.run.note(line);
        writes.document = match new {
            _ if removed => Change::Remove(version),
            Some(bytes) => Change::Put(version, bytes),
            None => Change::None,
        };
        writes.effects = step.effects;
        writes.ends = ends;
        writes.tells = event.is_question().then_some((step.answer, answered_before));
        let answered = Answered { document: step.document, ..answered };
        Ok(Then::Write(writes, Progress::Done(Some(answered))))
    }

    /// Does what a step does in the world; whether the document is to be removed. An action that cannot be
    /// carried out is refused, and that is written down.
    fn act_or_refuse(
        &self,
        open: &mut Open,
        event: &Event,
        step: &mut Step,
    ) -> Result<bool, GateError> {
        match self.act_in_the_world(open, event.actor, &step.effects) {
            Err(GateError::Effect(reason)) if !event.is_question() => {
                step.undo(Answer::deny_as("failed", reason));
                Ok(false)
            }
            acted => acted,
        }
    }

    /// Does what a step does in the world before it counts, if the document is still what it was; whether
    /// that is to be removed.
    pub(super) fn act_in_the_world(
        &self,
        open: &mut Open,
        by: Actor,
        effects: &[Effect],
    ) -> Result<bool, GateError> {
        // The last moment at which the step can be thrown away without a trace.
        if self.home().version(&open.run.found.place)? != open.read.version {
            return Err(StoreError::Conflict(open.run.found.place.clone()).into());
        }
        fault_point::reach("before-effects");
        let removed = self.carry_out(effects)?;
        self.note_written(&mut open.run.ledger, effects);
        self.enlist(open, by, effects)?;
        Ok(removed)
    }
}

/// Notes how far a step has brought a run; whether that is its end.
fn advance(ledger: &mut Ledger, workflow: &Workflow, step: &Step) -> bool {
    // Where nobody but others have moved the run, that is still to be noticed.
    if ledger.position.phase.is_empty() || !step.moves.is_empty() {
        ledger.position.arrive(workflow, &step.to);
        ledger.position.ended_by_hand = false;
    }
    ledger.position.finished = None;
    ledger.position.removed = false;
    let outer = workflow.outer();
    let outcome = outer.phase(&step.to).and_then(|phase| outer.get(phase).ends);
    let outcome = outcome.filter(|_| !ledger.is_left_by_hand(&step.to));
    // What is withheld does not become the baseline before a person has accepted it.
    let is_withheld = ledger.tamper.is_open() && step.answer.outcome() != Some(Outcome::Done);
    if outcome.or(step.answer.outcome()) == Some(Outcome::Done) && !is_withheld {
        note_done(&mut ledger.session);
    }
    if outcome.is_some() {
        ledger.session.disown();
    }
    outcome.is_some()
}

/// The jobs in the background that a step starts, by id.
fn started(effects: &[Effect]) -> Vec<String> {
    let started = effects.iter().filter_map(|effect| match effect {
        Effect::Start(job) => Some(job.id.clone()),
        _ => None,
    });
    started.collect()
}

/// Notes which failures have been answered: they count no more.
fn use_up(open: &mut Open, readings: &[Reading]) {
    let is_read = |name: &str| readings.iter().any(|it| it.query == format!("check {name}"));
    let jobs = open.run.ledger.work.jobs.values_mut();
    for check in jobs.filter(|job| job.manner.bound == Bound::Tree && is_read(&job.name)) {
        check.used = check.passes(&open.workflow) == Some(false);
    }
}

/// The block that the agent works on after a stop: a new one, or the one that it still works on
/// while it waits for its own background work.
fn insisting(
    ledger: &Ledger,
    event: &Event,
    step: &Step,
    before: &str,
    after: &str,
    now: Timestamp,
) -> Option<LastBlock> {
    let last = ledger.session.last_block.as_ref();
    match &step.answer {
        Answer::Block { .. } => {
            let unmoved = last.filter(|last| !last.moved_on(before, &step.readings));
            Some(LastBlock {
                since: now,
                session: event.session.clone(),
                document: after.to_string(),
                readings: remembered(&step.readings),
                blocks: unmoved.map_or(0, |last| last.blocks) + 1,
            })
        }
        Answer::Allow { until: Some(Until::Background), .. } => last.cloned(),
        _ => None,
    }
}

/// An answer as it is given: short enough, and with the way out for the person.
pub(super) fn given(run: &RunId, answer: &Answer, workflow: &Workflow, stands: bool) -> Answered {
    Answered {
        way_out: answer.is_block().then(|| way_out(run, workflow, stands)).flatten(),
        ..Answered::new(run, trimmed(answer.clone().shortened(MAX_REASON), workflow))
    }
}

/// An answer without blank space behind its reason, unless the workflow wants exactly its own text.
fn trimmed(answer: Answer, workflow: &Workflow) -> Answer {
    match answer {
        Answer::Block { mut reason } if workflow.way_out => {
            reason.truncate(reason.trim_end().len());
            Answer::Block { reason }
        }
        answer => answer,
    }
}

/// The way out of a run, for the person: the model, which reads the reason, is not told how to get away.
fn way_out(run: &RunId, workflow: &Workflow, stands: bool) -> Option<String> {
    let place = match workflow.cancel {
        MayCancel::Everybody if !stands => "",
        MayCancel::Everybody | MayCancel::Human => ", in a terminal of your own",
    };
    let what = if stands { "To switch the gate off for this session" } else { "To end it" };
    let text = || format!("This is run {run}. {what}{place}: `phasegate cancel {run}`.");
    workflow.way_out.then(text)
}
