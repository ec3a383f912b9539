//! An event on its way: put to the rules, and put again after the jobs that it waits for.
//!
//! A job is recorded under the lock and runs without it. The event waits for its end as long as
//! its client does; then it is answered that the run waits, and the job goes on. What came of it is
//! in the ledger, for this event or for the next.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::{REVIEWED, UNREVIEWED, params};
use phasegate_engine::job::{Bound, Gives, Job, JobKind};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Effect, Event, Step};

use super::overrule::Overruled;
use super::repeat::unanswered;
use super::transaction::{Open, Then};
use super::{Answered, Found, Gate, GateError};
use crate::checks::MAX_RUNS;
use crate::jobs::{self, Record, Seen};
use crate::paths;
use crate::tree::Snapshot;
use crate::words::{Because, sentence};

/// How many verdicts at one stop may be against what was reviewed: nobody has answered them in between.
const MAX_FAILED: usize = 3;

/// How long the jobs of an action may take together: somebody waits for it.
pub(super) const NO_LIMIT: Duration = Duration::from_hours(24);

/// When an answer must be on its way, before the time of the client is over.
const MARGIN: Duration = Duration::from_secs(3);

/// How often a job is looked at that is waited for, at first and in the long run.
const POLL: Duration = Duration::from_millis(2);
const SLOW_POLL: Duration = Duration::from_millis(50);

/// The same for one that is done on another machine.
const FAR_POLL: Duration = Duration::from_millis(500);

/// What is known of an event while it is put again and again.
#[derive(Debug)]
pub(super) struct Attempt {
    since: Instant,
    /// How long all its jobs may take together.
    most: Duration,
    /// The jobs that have ended for it, by id, in order.
    pub(super) ended: Vec<String>,
    /// Whose verdict was put to the rules.
    reviewed: Option<String>,
    /// Who was to judge, and gave no verdict.
    unreviewed: Option<String>,
    /// How many of the verdicts it has heard were not a pass.
    failed: usize,
    /// The job that is not waited for any longer, and why.
    pub(super) given_up: Option<(String, String)>,
    /// The tree that it is decided on.
    pub(super) tree: RefCell<Snapshot>,
    /// A job has ended since the tree was looked at.
    pub(super) is_dated: Cell<bool>,
}

impl Attempt {
    pub(super) fn new(most: Duration) -> Attempt {
        Attempt {
            since: Instant::now(),
            most,
            ended: Vec::new(),
            reviewed: None,
            unreviewed: None,
            failed: 0,
            given_up: None,
            tree: RefCell::default(),
            is_dated: Cell::new(false),
        }
    }

    /// A stop, which knows of the verdict that was given for it.
    pub(super) fn stop(&self, session: Option<String>) -> Event {
        let given = [(REVIEWED, &self.reviewed), (UNREVIEWED, &self.unreviewed)];
        let given = given.into_iter().filter_map(|(name, who)| Some((name, who.as_deref()?)));
        let params = params(given.map(|(name, who)| (name.to_string(), Json::from(who))));
        Event { params, ..Event::stop(session) }
    }

    /// Whether the event is put for the first time: no job has ended or was given up for it.
    pub(super) fn is_first(&self) -> bool {
        self.ended.is_empty() && self.given_up.is_none()
    }

    /// Whether a verdict was given for this event.
    pub(super) fn has_verdict(&self) -> bool {
        self.reviewed.is_some()
    }

    fn left(&self) -> Duration {
        self.most.saturating_sub(MARGIN).saturating_sub(self.since.elapsed())
    }
}

/// How far an event has come.
pub(super) enum Progress {
    /// It is answered; none where the run has nothing to say.
    Done(Option<Answered>),
    /// The job of this id must end first; then the event is put again.
    Waits(String),
    /// It is put again at once: the tree has changed under it.
    Again,
    /// The verdict of this job stands, and the event is put again as if it had just been given.
    Stands(String),
}

impl Gate<'_> {
    /// Puts an event to a run, and waits for the jobs that it needs, for no longer than `most`.
    pub(super) fn put(
        &self,
        found: &Found,
        most: Duration,
        body: impl Fn(&Attempt, Open) -> Result<Then<Progress>, GateError>,
    ) -> Result<Option<Answered>, GateError> {
        let mut attempt = Attempt::new(most);
        loop {
            let (progress, written) = self.within_open(found, |open| body(&attempt, open))?;
            self.launch(&found.id, written.starting)?;
            match progress {
                Progress::Done(answered) => {
                    return Ok(answered.map(|answered| Answered {
                        notes: written.notes,
                        has_jobs: written.has_jobs,
                        ..answered
                    }));
                }
                Progress::Again => {}
                Progress::Stands(name) => attempt.reviewed = Some(name),
                Progress::Waits(id) => {
                    if let Some(answered) = self.await_job(found, &id, &mut attempt)? {
                        return Ok(Some(answered));
                    }
                }
            }
        }
    }

    /// Waits for the commands with which a run begins; the answer to their end.
    pub(super) fn await_beginning(
        &self,
        found: &Found,
        id: &str,
    ) -> Result<Option<Answered>, GateError> {
        self.await_job(found, id, &mut Attempt::new(NO_LIMIT))
    }

    /// Waits for the end of a job, as long as there is time. Where the answer to its end is the answer to
    /// the event, that is returned.
    fn await_job(
        &self,
        found: &Found,
        id: &str,
        attempt: &mut Attempt,
    ) -> Result<Option<Answered>, GateError> {
        let (mut pause, mut shown) = (POLL, 0);
        loop {
            let found = self.refreshed(found);
            let Some(job) = found.ledger.work.jobs.get(id) else { return Ok(None) };
            let show = |shown: &mut u64| {
                // Who waits for a worker sees it work.
                let is_shown = job.manner.alone && job.kind != JobKind::Command;
                if let Some(watch) = self.watch.filter(|_| is_shown) {
                    *shown = jobs::follow(&self.project.root, job, *shown, watch);
                }
            };
            if job.is_over() {
                show(&mut shown);
                return self.note_end(&found, id, job, attempt);
            }
            match self.look(job)? {
                Seen::Waiting => drop(self.start_waiting(&found)?),
                Seen::Ended(..) | Seen::Lost(..) => {
                    let heard = self.hear_of(&found, id)?;
                    show(&mut shown);
                    if job.manner.alone && heard.is_some() {
                        return Ok(heard);
                    }
                }
                Seen::Starting | Seen::Queued | Seen::Working(_) if attempt.left().is_zero() => {
                    let job = format!("{} {}", job.kind, job.name);
                    let why = sentence(&found.id.to_string(), "", Because::Longer(&job));
                    attempt.given_up = Some((id.to_string(), why));
                    return Ok(None);
                }
                Seen::Starting | Seen::Queued | Seen::Working(_) => {
                    show(&mut shown);
                    if self.is_interrupted() {
                        self.ask_to_end(job);
                    }
                    std::thread::sleep(pause.min(attempt.left()));
                    let slow = if job.elsewhere.is_some() { FAR_POLL } else { SLOW_POLL };
                    pause = (pause * 2).min(slow);
                }
            }
        }
    }

    /// Whether the person who waits has pressed Ctrl-C. From the first time that this is asked it no longer
    /// ends us: it ends the job, and its rules hear of that.
    fn is_interrupted(&self) -> bool {
        if self.watch.is_none() {
            return false;
        }
        let flag = self.interrupted.get_or_init(|| {
            let flag = Arc::new(AtomicBool::new(false));
            let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, flag.clone());
            flag
        });
        flag.swap(false, Ordering::Relaxed)
    }

    /// Notes the end of a job that an event has waited for.
    fn note_end(
        &self,
        found: &Found,
        id: &str,
        job: &Record,
        attempt: &mut Attempt,
    ) -> Result<Option<Answered>, GateError> {
        attempt.ended.push(id.to_string());
        attempt.is_dated.set(true);
        if job.manner.bound != Bound::Tree && job.manner.gives != Gives::Verdict {
            // It was there to change something.
            attempt.tree.take();
        }
        let refused = matches!(job.answer, Some(Answer::Deny { .. }));
        if job.manner.gives == Gives::Verdict {
            let verdict = job.ended.as_ref().and_then(|ended| ended.verdict.as_ref());
            let has_verdict = verdict.is_some();
            attempt.failed += usize::from(!verdict.is_some_and(|verdict| verdict.pass));
            attempt.reviewed = (has_verdict && !refused).then(|| job.name.clone());
            attempt.unreviewed = (!has_verdict).then(|| job.name.clone());
        }
        let Some(answer) = job.answer.clone().filter(|_| job.manner.alone) else {
            return Ok(None);
        };
        // The ledger tells of it before the document is in its place: the lock is free after that.
        self.within(found, |_| Ok(Then::Nothing(())))?;
        let document = self.document(found).unwrap_or_else(|_| Json::object());
        Ok(Some(Answered { document, has_jobs: true, ..Answered::new(&found.id, answer) }))
    }

    /// Gets what must be there before a step can count: the job that it wants is recorded, with how far
    /// the rules have come before it. None where nothing is missing, or where the step now says why it
    /// cannot be had.
    pub(super) fn obtain(
        &self,
        open: &mut Open,
        attempt: &Attempt,
        event: &Event,
        step: &mut Step,
    ) -> Result<Option<Then<Progress>>, GateError> {
        if self.is_refused(open, event, step) {
            return Ok(None);
        }
        let job = step.wants.take().map(|job| *job).or_else(|| Job::of_commands(&step.effects));
        let judges = job.as_ref().is_some_and(|job| job.manner.gives == Gives::Verdict);
        if (job.is_none() || judges) && self.has_moved(open, attempt, step) {
            return Ok(Some(Then::Nothing(Progress::Again)));
        }
        let Some(job) = job else { return Ok(None) };
        let known = open.run.ledger.work.jobs.get(&job.id).filter(|known| !known.is_over());
        if let Some((_, why)) = &attempt.given_up {
            step.answer = without(event, Until::Background, why.clone());
            return Ok(None);
        }
        // Another process wants it as well, or one that died has wanted it.
        if known.is_some() {
            return Ok(Some(Then::Nothing(Progress::Waits(job.id))));
        }
        let ran = attempt.ended.iter().filter(|id| **id == job.id).count();
        if job.manner.bound == Bound::Tree && ran >= MAX_RUNS {
            let (run, name) = (open.run.found.id.to_string(), format!("{} {}", job.kind, job.name));
            let ended = open.run.ledger.work.jobs.get(&job.id).and_then(|job| job.ended.as_ref());
            let because = match ended.and_then(|ended| ended.no_tree.as_ref()) {
                Some(why) => Because::NoTree(&name, why),
                None => Because::Changing(&name),
            };
            step.answer = without(event, Until::Background, sentence(&run, &step.to, because));
            return Ok(None);
        }
        let judges = job.manner.gives == Gives::Verdict;
        let tree = || self.tree_now(open, attempt);
        if judges && event.is_question() && self.is_unanswered(open, &job, tree) {
            if attempt.reviewed.as_ref() != Some(&job.name) {
                return Ok(Some(Then::Nothing(Progress::Stands(job.name))));
            }
            step.undo(unanswered(open, &job));
            return Ok(None);
        }
        if judges && !self.may_judge(open, attempt, &job, step) {
            return Ok(None);
        }
        self.record(open, event, step, &job, attempt)
    }

    /// Whether a step is not taken, because nobody has consented to it or the money is spent.
    fn is_refused(&self, open: &mut Open, event: &Event, step: &mut Step) -> bool {
        let name = &open.workflow.name;
        // To remove its own document harms nobody.
        let acts = step.effects.iter().any(|effect| *effect != Effect::Remove);
        if (step.wants.is_some() || acts) && !self.is_trusted(&open.workflow) {
            let run = open.run.found.id.to_string();
            let message = sentence(&run, &step.to, Because::Untrusted(name));
            step.undo(without(event, Until::Human, message));
            return true;
        }
        let starts = step.effects.iter().any(|effect| matches!(effect, Effect::Start(_)));
        let limits = self.project.config.limits(&open.workflow.name);
        let run = open.run.found.id.to_string();
        let Some(why) = open.run.ledger.work.tally.spent(&run, &limits).filter(|_| starts) else {
            return false;
        };
        if event.is_question() {
            step.undo(Answer::allow_saying(Outcome::Budget, why));
        } else {
            // Nobody may be there to hear it now.
            open.run.ledger.session.pending_notices.push(why.clone());
            step.undo(Answer::deny_as("budget", why));
        }
        true
    }

    /// Whether there is something where a job is to write; where it may not, there is.
    pub(super) fn is_there(&self, file: &str) -> bool {
        let path = paths::meant(&self.project.root, &self.project.site, file);
        path.map_or(true, |path| path.symlink_metadata().is_ok())
    }

    /// Whether a verdict may be asked for. Why an earlier one did not come is said once, instead of asking
    /// again at once.
    fn may_judge(&self, open: &mut Open, attempt: &Attempt, job: &Job, step: &mut Step) -> bool {
        let before = open.run.ledger.work.jobs.get_mut(&job.id).filter(|known| !known.used);
        if let Some(why) = before.and_then(|before| {
            let why = why_no_verdict(before)?;
            before.used = true;
            Some(why)
        }) {
            step.answer = Answer::allow_saying(Outcome::Fault, why);
            return false;
        }
        if attempt.failed >= MAX_FAILED {
            let why = format!(
                "The rules asked for another verdict after {MAX_FAILED} at one stop that failed. The next one \
                 is made at the next stop."
            );
            step.answer = Answer::allow_saying(Outcome::Fault, why);
            return false;
        }
        // A client that waits for nothing still has its first job begun, in the background.
        if !attempt.ended.is_empty() && attempt.left().is_zero() {
            let name = format!("{} {}", job.kind, job.name);
            let why = sentence(&open.run.found.id.to_string(), &step.to, Because::NoTime(&name));
            step.answer = Answer::waiting(Until::Human, why);
            return false;
        }
        if let Some(file) = &job.file
            && self.is_there(file)
        {
            let why = format!("{file} exists already, and reviews are not overwritten");
            step.answer = Answer::allow_saying(Outcome::Fault, why);
            return false;
        }
        let run = &open.run.found.id;
        let limits = self.project.config.limits(&run.workflow);
        let tally = &mut open.run.ledger.work.tally;
        let (answer, warning) = tally.count_review(&run.to_string(), &limits);
        open.run.notes.extend(warning);
        if let Some(answer) = answer {
            step.answer = answer;
            let tally = Box::new(tally.clone());
            open.overruled.note(Overruled::Reviews { tally, limits }, step);
            return false;
        }
        true
    }
}

/// Why a job that was to judge has given no verdict, or none that counts.
fn why_no_verdict(job: &Record) -> Option<String> {
    let ended = job.ended.as_ref()?;
    let what = format!("{} {}", job.kind, job.name);
    if let Some(problem) = &ended.problem {
        return Some(format!("{what}: {problem} (see {})", job.log_place()));
    }
    let Some(Answer::Deny { reason, .. }) = &job.answer else { return None };
    let verdict = ended.verdict.as_ref()?.word();
    Some(format!("{what}: its verdict was {verdict}, and {reason}"))
}

/// The answer where nothing is done: a stop is let go, an action is refused.
pub(super) fn refusal(event: &Event, why: String) -> Answer {
    if event.is_question() { Answer::allow_saying(Outcome::Fault, why) } else { Answer::deny(why) }
}

/// The answer where nothing could be decided: a stop waits, an action is refused.
fn without(event: &Event, until: Until, why: String) -> Answer {
    if event.is_question() { Answer::waiting(until, why) } else { Answer::deny(why) }
}
