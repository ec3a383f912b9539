//! The answer to a stop.

use std::time::Duration;

use jiff::Timestamp;
use phasegate_clients::Work;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::events::STOP;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Event, Step};

use super::caused::{note, recall, shells};
use super::commit::given;
use super::jobs::busy;
use super::overrule::{At, Counted, Overruled, foreign_loop, is_stuck, judges, starts_agent};
use super::put::{Attempt, Progress};
use super::questions::put_answer;
use super::sessions::{Standing, standing};
use super::standing::{Sight, rests};
use super::transaction::{Open, Then, line_about};
use super::waits::wait;
use super::withhold::withhold;
use super::{Answered, Found, Gate, GateError};
use crate::baseline::Baseline;
use crate::bindings;
use crate::git;
use crate::governor::state_without;
use crate::journal::Line;
use crate::ledger::{Delivery, Last, LastBlock, Ledger, Owner};
use crate::run::RunId;
use crate::words::{self, Because};
use crate::world::ClientReport;

/// A stop, as a client reports it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    pub session: Option<String>,
    /// Whether the stop follows a block, ours or another hook's; not every client says.
    pub after_block: Option<bool>,
    /// What the client still has at work in the background.
    pub background: Vec<Work>,
    /// The shells that the session has shown at its last stop, as [`Stop::shells`] names them.
    pub shown: Vec<String>,
    /// The agent may only plan, and not write.
    pub is_planning: bool,
    /// How many blocks the client takes before it ends the turn on its own, and whether work in
    /// between does not count.
    pub client_cap: Option<(u64, bool)>,
    /// How long the client waits for an answer.
    pub time: Duration,
    pub told: ClientReport,
    /// When the hook began that reports it.
    pub received: Option<Timestamp>,
    /// What tells it from the same stop delivered again; none where that cannot be told.
    pub delivery: Option<Delivery>,
}

impl Stop {
    /// The shells that are at work in the background.
    pub fn shells(&self) -> Vec<String> {
        shells(&self.background)
    }

    /// What the agent itself may have caused to be let go.
    fn caused(&self) -> (&[Work], bool) {
        (&self.background, self.is_planning)
    }
}

/// A stop that is put to a run.
#[derive(Clone, Copy)]
struct Asking<'a> {
    stop: &'a Stop,
    /// A run of ours has told the session to go on.
    ours: bool,
    /// The tree when the stop came, where the run is that of a standing gate.
    seen: Option<&'a Baseline>,
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
        let mut notes = Vec::new();
        // What is said once is for the client, whose user reads it.
        let is_heard = stop.told.shell().is_none();
        if is_heard {
            notes.extend(self.lost(&runs, stop.session.as_deref()));
            notes.extend(self.attested(&runs, stop.session.as_deref()));
        }
        let mut verdict = Verdict { answers: Vec::new(), faults, notes };
        let runs = self.in_order(runs, stop.session.as_deref());
        let insisting = |(run, _): &(Found, Standing)| run.ledger.has_blocked(&stop.session);
        let ours = runs.iter().any(insisting);
        let sight = self.sight(stop.session.as_deref(), &stop.told);
        let (mut guessed, mut asked): (Vec<&RunId>, Vec<RunId>) = Default::default();
        for (run, standing) in &runs {
            if verdict.block().is_some() {
                break;
            }
            if *standing != Standing::Own {
                if !self.is_asked(run, stop, &verdict, &guessed) {
                    continue;
                }
                guessed.extend(run.presumed.then_some(&run.id));
            }
            if !rests(run, &stop.told, stop.after_block) {
                asked.push(run.id.clone());
                self.ask(run, stop, ours, sight.as_ref(), &mut verdict);
            }
        }
        if let Some(sight) = sight.as_ref().filter(|_| verdict.block().is_none()) {
            for (gate, begun) in self.due(sight, &asked) {
                match begun {
                    Ok(run) => self.ask(&run, stop, ours, Some(sight), &mut verdict),
                    Err(error) => verdict.faults.push(format!("gate {gate}: {error}")),
                }
                if verdict.block().is_some() {
                    break;
                }
            }
        }
        if let Some(session) = stop.session.as_ref().filter(|_| is_heard) {
            verdict.notes.extend(self.fallen_since(session));
            verdict.notes.extend(bindings::take_notices(session));
        }
        // A session that has nothing else to do hears of what waits for somebody.
        if verdict.answers.is_empty() {
            verdict.notes.extend(self.untouched.borrow().iter().map(|run| {
                format!(
                    "Run {run} is open, but nothing in its folder has changed for a day, so it did not \
                     hold this stop; `phasegate adopt {run}` activates it."
                )
            }));
        }
        self.keep_documents();
        verdict
    }

    /// Puts a stop to a run.
    fn ask(
        &self,
        run: &Found,
        stop: &Stop,
        ours: bool,
        sight: Option<&Sight>,
        verdict: &mut Verdict,
    ) {
        verdict.notes.extend(run.remark.clone());
        let stands = run.ledger.session.stands.is_some();
        let seen = sight.filter(|_| stands).and_then(|sight| sight.tree(self).ok());
        let asking = Asking { stop, ours, seen };
        let answered =
            self.put(run, stop.time, |attempt, open| self.answer_stop(open, &asking, attempt));
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
                    Err(error) => self.note_fault(run, &error, verdict),
                }
            }
            Err(error) => self.note_fault(run, &error, verdict),
        }
    }

    /// Notes that a run could not answer: in the verdict, and where other machines look.
    fn note_fault(&self, run: &Found, error: &GateError, verdict: &mut Verdict) {
        verdict.faults.push(format!("run {}: {error}", run.id));
        if !matches!(error, GateError::Store(_)) {
            self.note_standing(&run.id);
        }
    }

    /// Whether a run that is nobody's answers, after what others have answered.
    fn is_asked(&self, run: &Found, stop: &Stop, verdict: &Verdict, guessed: &[&RunId]) -> bool {
        let answers = || verdict.answers.iter().filter(|answered| !answered.over);
        let has_session = stop.session.is_some();
        if !run.presumed {
            // Beside what the session has to do, no other run is put on it; after that, the next one is.
            return !has_session || answers().all(|answered| answered.ends);
        }
        // Where folders are runs, the one that was changed last is asked beside the session's own.
        let others = answers().any(|answered| answered.run.workflow != run.id.workflow);
        let taken = answers().any(|answered| guessed.contains(&&answered.run));
        !(taken || has_session && others || run.untouched && self.is_ended(run))
    }

    fn answer_stop(
        &self,
        mut open: Open,
        asking: &Asking,
        attempt: &Attempt,
    ) -> Result<Then<Progress>, GateError> {
        let Asking { stop, ours, seen } = *asking;
        let event = attempt.stop(stop.session.clone());
        let now = Timestamp::now();
        let foreign = standing(&open.run.ledger, stop.session.as_deref(), now) == Standing::Foreign;
        if open.run.ledger.session.cancelled.is_some() || foreign {
            return Ok(Then::Nothing(Progress::Done(None)));
        }
        if let Some(shell) = stop.told.shell() {
            return self.overhear_stop(open, stop, attempt, shell);
        }
        if let Some(answered) = delivered_before(&open, stop) {
            return Ok(Then::Nothing(Progress::Done(Some(answered))));
        }
        open.run.ledger.session.fired = Some(now);
        self.note_copy(&mut open);
        if let Some(answer) = self.held_off(&open) {
            return Ok(pass(open, &event, answer));
        }
        if let Some(why) = busy(&open).filter(|_| open.run.ledger.position.begins_with.is_some()) {
            return Ok(pass(open, &event, Answer::waiting(Until::Background, why)));
        }
        let outer = open.workflow.outer();
        let phase = phase_name(&open.workflow, &open.document);
        let ends = outer.phase(&phase).and_then(|phase| outer.get(phase).ends);
        // Where the review that was just made has ended the run, its rules may speak of that.
        if let (Some(ends), false) = (ends, attempt.has_verdict()) {
            return Ok(answer_ended(open, &event, &phase, ends, now));
        }
        if let Some(session) = &stop.session {
            own(&mut open, session, now);
        }
        if let Some(stands) = &mut open.run.ledger.session.stands {
            stands.seen = seen.cloned();
        }
        // What another session was told does not count against this one.
        if !open.run.ledger.has_blocked(&stop.session) {
            open.run.ledger.session.last_block = None;
        }
        let told = open.run.ledger.session.last_block.clone();
        // A ledger that somebody has deleted does not say that the last block was ours.
        let is_hidden = open.run.is_contradicted && open.workflow.on_tamper == OnTamper::Hold;
        let ours = ours || told.is_some() || is_hidden;
        let foreign = foreign_loop(open.workflow.reentry, stop.after_block, ours);
        let beside =
            foreign.then_some(Overruled::OtherHook { after_block: stop.after_block, ours });
        if let Some(why) = busy(&open) {
            let answer = Answer::waiting(Until::Background, why);
            return Ok(pass(open, &event, answer));
        }
        let mut step = self.decide(&mut open, &event, &stop.told, attempt);
        open.run.ledger.session.waits.until = None;
        self.postpone(&mut open, stop, &event, beside.as_ref(), &mut step, now);
        if let Some(then) = self.obtain(&mut open, attempt, &event, &mut step)? {
            return Ok(then);
        }
        if step.answer.is_block() {
            recall(&mut open.run.ledger.session.waits, &stop.shown);
            wait(self.project, &mut open, stop.caused(), &event, &mut step, now);
        }
        self.notice_guards(&mut open, &event, (&stop.told, attempt), &step);
        withhold(&mut open, &event, &mut step);
        note(&mut open.run.ledger.session.waits, &stop.background);
        let is_answered = !foreign && put_answer(&mut open, &event, &mut step);
        // An agent that gets an answer has something new to go on with.
        let told = told.filter(|_| !is_answered);
        self.reenter(&mut open, stop, &event, beside, told, &mut step);
        let new = open.written(&step);
        self.govern(&mut open, stop, &event, new.as_deref(), &mut step, now);
        if is_answered && step.answer.is_block() {
            open.run.ledger.session.question = None;
        }
        let new = new.filter(|_| step.changed);
        open.run.ledger.session.delivered.clone_from(&stop.delivery);
        self.commit(open, &event, step, new, attempt)
    }

    /// Puts off what the step would start: in plan mode, beside another hook that has told the agent to go on, and
    /// while something is still being made that would be reviewed.
    fn postpone(
        &self,
        open: &mut Open,
        stop: &Stop,
        event: &Event,
        beside: Option<&Overruled>,
        step: &mut Step,
        now: Timestamp,
    ) {
        if stop.is_planning && starts_agent(step) {
            open.overrule(event, step, Overruled::PlanMode);
        } else if judges(step) {
            match beside {
                Some(beside) => drop(open.overrule(event, step, beside.clone())),
                None => drop(wait(self.project, open, stop.caused(), event, step, now)),
            }
        }
    }

    /// Counts a block, and lets the stop go where a limit is reached.
    fn govern(
        &self,
        open: &mut Open,
        stop: &Stop,
        event: &Event,
        new: Option<&[u8]>,
        step: &mut Step,
        now: Timestamp,
    ) {
        if !step.answer.is_block() {
            return;
        }
        let workflow = &open.workflow;
        let text = new.unwrap_or(&open.read.text);
        let updated = workflow.updated.as_ref().and_then(|field| step.document.get(field));
        let left = step.moves.iter().any(|step| step.from != step.to);
        let state = left.then(|| state_without(text, updated.and_then(Json::as_str)));
        let limits = self.project.config.limits(&workflow.name);
        let Ledger { session, work, .. } = &open.run.ledger;
        let insisting = session.last_block.as_ref();
        let unmoved = insisting.filter(|last| !last.moved_on(&open.before, &step.readings));
        // The tree is looked at only where it would be called stuck without.
        let near = work.tally.same_reason >= limits.same_reason.unwrap_or(0);
        let tree_changed =
            unmoved.is_some_and(|last| near && git::changed_since(&self.project.site, last.since));
        let counted = Counted {
            tally: work.tally.clone(),
            limits,
            now,
            answered: session.last.as_ref().map(|last| last.at),
            after_block: stop.after_block,
            last: insisting.cloned(),
            tree_changed,
            used_tools: stop.told.used_tools(),
            client_cap: stop.client_cap,
            state,
        };
        let run = open.run.found.id.to_string();
        let at = At { run: &run, workflow, event, before: &open.before };
        let (tally, answer, warnings) = counted.count(&at, step);
        open.run.ledger.work.tally = tally;
        open.run.notes.extend(warnings);
        if let Some(answer) = answer {
            step.let_go(answer);
            open.overruled.note(Overruled::Limit(Box::new(counted)), step);
        }
    }

    /// Lets a stop go where insisting would only repeat itself, or where another hook insists.
    fn reenter(
        &self,
        open: &mut Open,
        stop: &Stop,
        event: &Event,
        beside: Option<Overruled>,
        ours: Option<LastBlock>,
        step: &mut Step,
    ) {
        if !step.answer.is_block() {
            return;
        }
        if let Some(beside) = beside {
            open.overrule(event, step, beside);
            return;
        }
        let after_block = stop.after_block;
        let is_stuck = |last: &LastBlock| {
            is_stuck(&open.workflow, after_block, last, &open.before, step)
                && !git::changed_since(&self.project.site, last.since)
        };
        if let Some(last) = ours.filter(is_stuck) {
            let last = Box::new(last);
            let why = Overruled::Unchanged { after_block, last, tree_changed: false };
            open.overrule(event, step, why);
        }
    }
}

/// Makes a session the owner of the run. That it was another's is told.
fn own(open: &mut Open, session: &str, now: Timestamp) {
    let former = open.run.ledger.session.former.take();
    let before = open.run.ledger.session.owner.take().or(former);
    if let Some(before) = before.filter(|before| before.session != session) {
        let id = &open.run.found.id;
        let from = before.session;
        open.run
            .notes
            .push(format!("run {id} was taken over from session {from}, which has ended"));
    }
    open.run.ledger.session.owner = Some(Owner { session: session.to_string(), seen: now });
}

/// The answer that was given to this stop when it was delivered first: a hook that is installed twice hears
/// of one stop twice, and that is one event.
fn delivered_before(open: &Open, stop: &Stop) -> Option<Answered> {
    let session = &open.run.ledger.session;
    let last = session.last.as_ref().filter(|last| last.event == STOP)?;
    let is_same = stop.delivery.is_some()
        && session.delivered == stop.delivery
        && session.owner.as_ref().map(|owner| &owner.session) == stop.session.as_ref()
        // It was on its way before the first was answered. A transcript lags, so that it tells nothing alone.
        && stop.received.is_some_and(|received| received <= last.at);
    is_same.then(|| Answered {
        block_exit: open.workflow.block_exit,
        phase: phase_name(&open.workflow, &open.document),
        document: open.document.clone(),
        ..given(&open.run.found.id, &last.answer, &open.workflow, session.stands.is_some())
    })
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
    let position = &mut open.run.ledger.position;
    // The session that it held until now is told that it is over.
    let is_news = position.finished.is_none() && position.seq > 0;
    position.finished.clone_from(&open.read.version);
    let derived =
        outer.derive.is_some() && ends == Outcome::Done && open.run.ledger.is_left_by_hand(phase);
    if derived {
        open.run.notes.push(format!(
            "run {}: its document was moved to the final phase `{phase}` from outside Phasegate.",
            open.run.found.id
        ));
        open.run.ledger.position.arrive(&open.workflow, phase);
        open.run.ledger.position.ended_by_hand = true;
    }
    let by_hand = derived || open.run.ledger.is_ended_by_hand(&outer.field, phase);
    if !by_hand || open.run.notes.is_empty() {
        let phase = phase.to_string();
        // Where our own last step left it waiting, it was not its rules that ended it.
        let is_own = matches!(open.run.ledger.outcome(), None | Some(Outcome::Done));
        let ended = if ends == Outcome::Done && !is_own { Outcome::Aborted } else { ends };
        let answered = Answered {
            over: true,
            phase,
            ..Answered::new(&open.run.found.id, Answer::allow(ended))
        };
        return Then::Write(open.run.keep(), Progress::Done(is_news.then_some(answered)));
    }
    // The specification lets the agent stop in a final phase even if somebody else has set it. A person says what that means.
    let change =
        open.run.ledger.tamper.changes.last().filter(|_| !derived).map(ToString::to_string);
    let answer = match change {
        Some(change) => {
            let run = open.run.found.id.to_string();
            let told = words::sentence(&run, phase, Because::Tampered(&change));
            Answer::waiting(Until::Human, told)
        }
        None => Answer::allow(Outcome::Aborted),
    };
    let (event_name, answer_given) = (event.name.clone(), answer.clone());
    open.run.ledger.session.last = Some(Last {
        at: now,
        event: event_name,
        answer: answer_given,
        waits_for: None,
        signed: None,
    });
    match pass(open, event, answer) {
        Then::Write(writes, Progress::Done(Some(answered))) => {
            Then::Write(writes, Progress::Done(Some(Answered { over: true, ..answered })))
        }
        then => then,
    }
}

/// Allows a stop that is not put to the rules, and journals that it was.
fn pass(mut open: Open, event: &Event, answer: Answer) -> Then<Progress> {
    let phase = phase_name(&open.workflow, &open.document);
    let line = Line {
        from: phase.clone(),
        to: phase.clone(),
        answer: answer.clone(),
        before: open.before.clone(),
        after: open.before.clone(),
        ..line_about(event.clone(), Timestamp::now())
    };
    let answered = Answered {
        phase,
        document: std::mem::take(&mut open.document),
        ..Answered::new(&open.run.found.id, answer)
    };
    Then::Write(open.run.note(line), Progress::Done(Some(answered)))
}
