//! Errands on the way of an event: checks, reviews and the work of agents. They are asked for under
//! the lock and run without it; then the event is put again, or what came of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::check::CheckResult;
use phasegate_engine::decide::{REVIEWED, params};
use phasegate_engine::digest::digest;
use phasegate_engine::events::{REVIEW_FINISHED, WORK_FINISHED};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event, Review, Step, Work};
use phasegate_engine::workflow::Workflow;

use super::tamper::protected;
use super::transaction::{Change, Open, Then, Writes, line_about};
use super::{Answered, Found, Gate, GateError, Runs};
use crate::catalog::Origin;
use crate::checks::{CheckError, Checks, Ran};
use crate::journal::Line;
use crate::ledger::{Intent, JobKind};
use crate::process::{self, Exclusive};
use crate::reviewer;
use crate::trust;
use crate::worker::{self, FOLDER as WORK};

/// How often one check runs for one event, while the tree changes under it.
const MAX_RUNS: usize = 2;

/// How many reviews may follow each other at one stop.
const MAX_REVIEWS: usize = 3;

/// How long all checks and reviews of an action may take together: somebody waits for it.
pub(super) const NO_LIMIT: Duration = Duration::from_hours(24);

/// What is known of its errands while an event is put again and again.
#[derive(Debug)]
pub(super) struct Errands {
    since: Instant,
    /// How long all checks and reviews may take together.
    pub(super) most: Duration,
    ran: Vec<String>,
    /// What came of them.
    pub(super) fresh: BTreeMap<String, Ran>,
    /// Why no check can be run any more.
    pub(super) unsettled: Option<String>,
    reviews: usize,
    /// Whoever runs them elsewhere was waited for.
    pub(super) waited: bool,
    /// The answer is that the run waits for whoever runs them elsewhere.
    pub(super) elsewhere: Cell<bool>,
    /// Whose verdict was put.
    reviewed: Option<String>,
    /// Why there is no verdict.
    unreviewed: Option<String>,
    /// Held from the intent to the end of the event.
    reviewing: RefCell<Option<Exclusive>>,
    /// Held while a worker is at work.
    working: RefCell<Option<Exclusive>>,
    /// The digest of the document for which something was begun.
    document: RefCell<String>,
}

impl Errands {
    /// Whether nothing is running any more.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.is_none()
    }

    /// A stop, which knows of the review that was made for it.
    pub(super) fn stop(&self, session: Option<String>) -> Event {
        let reviewed = self.reviewed.as_deref().map(Json::from);
        let params = params(reviewed.map(|reviewed| (REVIEWED.to_string(), reviewed)));
        Event { params, ..Event::stop(session) }
    }

    /// Why there is no verdict.
    pub(super) fn unreviewed(&self) -> Option<&str> {
        self.unreviewed.as_deref()
    }

    /// Whether a review was made for this event.
    pub(super) fn has_reviewed(&self) -> bool {
        self.reviewed.is_some()
    }
}

/// What comes of an errand that somebody else runs.
pub(super) enum Detached {
    /// It is waited for.
    Wait,
    /// It was waited for, and this is said.
    Waits(String),
}

/// How far an event has come.
pub(super) enum Progress {
    /// It is answered; none where the run has nothing to say.
    Done(Option<Answered>),
    /// This must be done first, without the lock; then the event is put again.
    Needs(Job),
}

/// What must be done before an event can be decided.
pub(super) enum Job {
    Check(String),
    /// The review is made, and its verdict is put.
    Review(Box<Review>),
    /// The worker works, and its end is put.
    Work(Box<Work>),
    /// Somebody else does what is needed, and is waited for.
    Elsewhere,
}

impl Job {
    /// What it is in the journal and the ledger: its kind, and its name.
    fn words(&self) -> Option<(JobKind, &str)> {
        match self {
            Job::Check(name) => Some((JobKind::Check, name)),
            Job::Review(review) => Some((JobKind::Review, &review.reviewer)),
            Job::Work(work) => Some((JobKind::Work, &work.worker)),
            Job::Elsewhere => None,
        }
    }
}

impl Runs<'_> {
    /// Whether what a run has begun is still going on, as far as a lock tells.
    pub fn is_going_on(&self, found: &Found, intent: &Intent) -> bool {
        let folder = match intent.what {
            JobKind::Review => reviewer::FOLDER,
            JobKind::Work => WORK,
            JobKind::Check => return true,
        };
        process::is_taken(&self.project.root, folder, &found.id)
    }

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

impl Gate<'_> {
    /// Puts an event, and does what is missing, until it is answered.
    pub(super) fn put(
        &self,
        found: &Found,
        most: Duration,
        mut body: impl FnMut(&Errands, Open) -> Result<Then<Progress>, GateError>,
    ) -> Result<Option<Answered>, GateError> {
        let (since, ran, fresh) = (Instant::now(), Vec::new(), BTreeMap::new());
        let (unsettled, reviewed, unreviewed) = (None, None, None);
        let (reviews, reviewing, document) = (0, RefCell::default(), RefCell::default());
        let working = RefCell::default();
        let mut errands = Errands {
            since,
            most,
            ran,
            fresh,
            unsettled,
            reviews,
            reviewed,
            unreviewed,
            reviewing,
            working,
            document,
            waited: false,
            elsewhere: Cell::new(false),
        };
        loop {
            let (progress, written) = self.within_open(found, |open| body(&errands, open))?;
            match progress {
                Progress::Done(answered) => {
                    return Ok(answered.map(|answered| Answered {
                        notes: written.notes,
                        agents: written.has_agents,
                        ..answered
                    }));
                }
                Progress::Needs(Job::Check(name)) => {
                    let workflow = self.workflow_of(found)?;
                    self.check(found, &workflow, &name, &mut errands)?;
                }
                Progress::Needs(Job::Elsewhere) => {
                    let left = errands.most.saturating_sub(errands.since.elapsed());
                    self.await_detached(found, left);
                    errands.waited = true;
                }
                Progress::Needs(Job::Review(review)) => {
                    self.review(found, &review, &mut errands)?;
                }
                Progress::Needs(Job::Work(work)) => {
                    return self.work(found, &work, &errands).map(Some);
                }
            }
        }
    }

    /// Has a review made, and puts its verdict to the rules. Without one, the state stays as it is.
    fn review(
        &self,
        found: &Found,
        review: &Review,
        errands: &mut Errands,
    ) -> Result<(), GateError> {
        errands.reviews += 1;
        if errands.reviews > MAX_REVIEWS {
            let why = format!("after {MAX_REVIEWS} reviews the rules want another one at once");
            errands.unreviewed = Some(why);
            return Ok(());
        }
        let left = errands.most.saturating_sub(errands.since.elapsed());
        let review = &Review { timeout: review.timeout.min(left), ..review.clone() };
        let workflow = self.workflow_of(found)?;
        let tree = Checks::new(&self.project.root, &workflow).tree_now();
        let reviewed = match reviewer::review(&self.project.root, &found.id, review) {
            Ok(reviewed) => reviewed,
            Err(why) => {
                errands.unreviewed = Some(why);
                return Ok(());
            }
        };
        let verdict = if reviewed.pass { "PASS" } else { "FAIL" };
        let turns = i64::try_from(reviewed.turns).unwrap_or(i64::MAX);
        let members = [
            ("reviewer", Json::from(review.reviewer.as_str())),
            ("verdict", Json::from(verdict)),
            ("file", Json::from(review.file.as_str())),
            ("model", review.model.as_deref().map_or(Json::Null, Json::from)),
            ("digest", Json::from(reviewed.digest.as_str())),
            ("tree", tree.map_or(Json::Null, Json::from)),
            (
                "micro_dollars",
                Json::from(i64::try_from(reviewed.micro_dollars).unwrap_or(i64::MAX)),
            ),
            ("turns", Json::from(turns)),
        ];
        let params = params(members.map(|(name, value)| (name.to_string(), value)));
        let fact = Event { params, ..Event::new(REVIEW_FINISHED, Actor::Reviewer) };
        self.spend(found, reviewed.micro_dollars)?;
        let document = errands.document.borrow().clone();
        let answered = self.act_bound(found, &fact, &document)?;
        if let Answer::Deny { reason, .. } = answered.answer {
            errands.unreviewed = Some(format!("its verdict was {verdict}, and {reason}"));
        } else {
            errands.reviewed = Some(review.reviewer.clone());
        }
        Ok(())
    }

    /// Has work done, and puts its end to the rules.
    fn work(&self, found: &Found, work: &Work, errands: &Errands) -> Result<Answered, GateError> {
        let worked = worker::work(&self.project.root, &found.id, work, self.watch)?;
        let exit_code = worked.exit_code.map_or(Json::Null, |code| Json::from(i64::from(code)));
        let members = [
            ("worker", Json::from(work.worker.as_str())),
            ("ok", Json::from(worked.exit_code == Some(0))),
            ("exit_code", exit_code),
            ("end", Json::from(worked.end.as_str())),
            ("seconds", Json::from(i64::try_from(worked.seconds).unwrap_or(i64::MAX))),
            ("started", Json::from(worked.started.to_string())),
            ("log", Json::from(worked.log.as_str())),
        ];
        let params = params(members.map(|(name, value)| (name.to_string(), value)));
        let fact = Event { params, ..Event::new(WORK_FINISHED, Actor::Engine) };
        let document = errands.document.borrow().clone();
        self.act_bound(found, &fact, &document)
    }

    /// Why nothing else is done while a worker is at work; none where there is no worker.
    pub(super) fn busy(&self, open: &Open, event: &Event) -> Option<String> {
        if open.workflow.workers.is_empty() || event.name == WORK_FINISHED {
            return None;
        }
        let taken = process::is_taken(&self.project.root, WORK, &open.run.found.id);
        taken.then(|| at_work(open.run.found))
    }

    fn check(
        &self,
        found: &Found,
        workflow: &Workflow,
        name: &str,
        errands: &mut Errands,
    ) -> Result<(), GateError> {
        if errands.ran.iter().filter(|ran| *ran == name).count() >= MAX_RUNS {
            let changing =
                || format!("The files change while check {name} of run {} runs.", found.id);
            let without = errands.fresh.get(name).and_then(Ran::has_no_tree);
            let say = |why: &str| format!("Check {name} of run {}: {why}.", found.id);
            let text = without.map_or_else(changing, say);
            errands.unsettled = Some(text);
            return Ok(());
        }
        let left = errands.most.saturating_sub(errands.since.elapsed());
        if left.is_zero() {
            let text = format!("The checks of run {} take longer than a hook may.", found.id);
            errands.unsettled = Some(text);
            return Ok(());
        }
        errands.ran.push(name.to_string());
        match Checks::new(&self.project.root, workflow).run(name, left) {
            Ok(ran) => {
                errands.fresh.insert(name.to_string(), ran);
                Ok(())
            }
            Err(CheckError::Running(_)) => {
                let text = format!("Check {name} of run {} is still running.", found.id);
                errands.unsettled = Some(text);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What must be done before a step can count, and what is written of that: that it is begun, and
    /// how far the rules have come before it. None where nothing is missing, or where the step now says
    /// why it cannot be done.
    pub(super) fn missing(
        &self,
        open: &mut Open,
        errands: &Errands,
        event: &Event,
        step: &mut Step,
    ) -> Result<Option<Then<Progress>>, GateError> {
        let Some(job) = self.next_job(open, errands, event, step)? else { return Ok(None) };
        let Some((what, name)) = job.words() else {
            return Ok(Some(Then::Nothing(Progress::Needs(job))));
        };
        let Some((writes, document)) = self.intend(open, what, name, event, step)? else {
            return Ok(None);
        };
        if !matches!(job, Job::Check(_)) {
            *errands.document.borrow_mut() = document;
        }
        Ok(Some(Then::Write(writes, Progress::Needs(job))))
    }

    fn next_job(
        &self,
        open: &mut Open,
        errands: &Errands,
        event: &Event,
        step: &mut Step,
    ) -> Result<Option<Job>, GateError> {
        let name = &open.workflow.name;
        // To remove its own document harms nobody.
        let acts = step.effects.iter().any(|effect| *effect != Effect::Remove);
        if (step.needs.is_some() || step.review.is_some() || step.work.is_some() || acts)
            && !self.is_trusted(&open.workflow)
        {
            let message = format!(
                "Workflow {name} runs commands or writes files, and you have not consented to \
                 that: nothing was done. `phasegate trust {name}` shows them and consents."
            );
            step.undo(without(event, Until::Human, message));
            return Ok(None);
        }
        let starts = step.effects.iter().any(|effect| matches!(effect, Effect::Start(_)));
        let limits = self.project.config.limits(&open.run.found.id.workflow);
        let run = open.run.found.id.to_string();
        if let Some(why) = open.run.ledger.work.tally.spent(&run, &limits).filter(|_| starts) {
            if event.is_question() {
                step.undo(Answer::allow_saying(Outcome::Budget, why));
            } else {
                // Nobody may be there to hear it now.
                open.run.ledger.session.pending_notices.push(why.clone());
                step.undo(Answer::deny_as("budget", why));
            }
            return Ok(None);
        }
        match self.detached(open, errands, event, step)? {
            None => {}
            Some(Detached::Wait) => return Ok(Some(Job::Elsewhere)),
            Some(Detached::Waits(why)) => {
                errands.elsewhere.set(true);
                step.undo(Answer::waiting(Until::Background, why));
                return Ok(None);
            }
        }
        if let Some(review) = step.review.take() {
            return self.ask_reviewer(open, errands, review, step);
        }
        if let Some(work) = step.work.take() {
            let alone = process::try_exclusive(&self.project.root, WORK, &open.run.found.id);
            let alone = alone?;
            if alone.is_none() {
                step.undo(Answer::deny_as("busy", at_work(open.run.found)));
                return Ok(None);
            }
            *errands.working.borrow_mut() = alone;
            return Ok(Some(Job::Work(Box::new(work))));
        }
        let Some(name) = step.needs.take() else { return Ok(None) };
        // A step that lacks a check has come to nothing yet.
        let Some(why) = &errands.unsettled else { return Ok(Some(Job::Check(name))) };
        step.answer = without(event, Until::Background, why.clone());
        Ok(None)
    }

    fn ask_reviewer(
        &self,
        open: &mut Open,
        errands: &Errands,
        review: Review,
        step: &mut Step,
    ) -> Result<Option<Job>, GateError> {
        let failed = open.run.ledger.work.unreviewed.take();
        if let Some(why) = errands.unreviewed.as_ref().or(failed.as_ref()) {
            step.answer = Answer::allow_saying(Outcome::Fault, why.as_str());
            return Ok(None);
        }
        if errands.reviewing.borrow().is_none() {
            let begun =
                process::try_exclusive(&self.project.root, reviewer::FOLDER, &open.run.found.id);
            let begun = begun?;
            if begun.is_none() {
                let run = &open.run.found.id;
                let message = format!("A review of run {run} is being made.");
                step.answer = Answer::waiting(Until::Background, message);
                return Ok(None);
            }
            *errands.reviewing.borrow_mut() = begun;
        }
        let (run, limits) =
            (&open.run.found.id, self.project.config.limits(&open.run.found.id.workflow));
        let (answer, warning) = open.run.ledger.work.tally.count_review(&run.to_string(), &limits);
        open.run.notes.extend(warning);
        if let Some(answer) = answer {
            step.answer = answer;
            return Ok(None);
        }
        Ok(Some(Job::Review(Box::new(review))))
    }

    /// What is written when something is begun: that it is, and where the rules have come to before it;
    /// with it, the digest of the document then. Nothing is begun where that cannot be written: the step
    /// says so.
    fn intend(
        &self,
        open: &mut Open,
        what: JobKind,
        name: &str,
        event: &Event,
        step: &mut Step,
    ) -> Result<Option<(Box<Writes>, String)>, GateError> {
        if let (Some(problem), true) = (&open.read.problem, step.changed) {
            step.undo(refusal(event, format!("{problem}. Mend it, or remove it.")));
            return Ok(None);
        }
        match self.act_in_the_world(open, event.actor, &step.effects) {
            Err(GateError::Effect(reason)) => {
                step.undo(refusal(event, reason));
                return Ok(None);
            }
            done => done?,
        };
        let now = Timestamp::now();
        open.run.ledger.work.checking = Some(Intent { what, name: name.to_string(), since: now });
        let what = what.to_string();
        let params = params([(what.clone(), Json::from(name))]);
        let session = event.session.clone();
        let begun = Event { session, params, ..Event::new(&what, Actor::Engine) };
        let new = open.written(step);
        let after = new.as_ref().map_or_else(|| open.before.clone(), |bytes| digest(bytes));
        let line = Line {
            from: step.from.clone(),
            to: step.to.clone(),
            moves: step.moves.clone(),
            before: open.before.clone(),
            after: after.clone(),
            ..line_about(begun, now)
        };
        if new.is_some() {
            open.run.ledger.tamper.protected = protected(&open.workflow, &step.document);
            open.run.ledger.position.document.clone_from(&open.run.found.place);
        }
        if open.run.ledger.position.phase.is_empty() || !step.moves.is_empty() {
            open.run.ledger.position.phase.clone_from(&step.to);
        }
        // What was noticed now is not noticed again when the event is put again.
        let mut writes = open.run.take().note(line);
        if let Some(bytes) = new {
            writes.document = Change::Put(open.read.version.clone(), bytes);
        }
        writes.effects.clone_from(&step.effects);
        Ok(Some((writes, after)))
    }

    /// Runs a check of a workflow, whoever has a result already.
    pub fn run_check(&self, workflow: &Workflow, name: &str) -> Result<CheckResult, GateError> {
        if !self.is_trusted(workflow) {
            let message = format!("`phasegate trust {}` first: it runs commands", workflow.name);
            return Err(GateError::NotReady(message));
        }
        let run = Checks::new(&self.project.root, workflow).run(name, Duration::MAX);
        Ok(run?.result)
    }
}

fn at_work(found: &Found) -> String {
    format!("A worker is at work on run {} already.", found.id)
}

/// The answer where nothing is done: a stop is let go, an action is refused.
pub(super) fn refusal(event: &Event, why: String) -> Answer {
    if event.is_question() { Answer::allow_saying(Outcome::Fault, why) } else { Answer::deny(why) }
}

/// The answer where nothing could be decided: a stop waits, an action is refused.
fn without(event: &Event, until: Until, why: String) -> Answer {
    if event.is_question() { Answer::waiting(until, why) } else { Answer::deny(why) }
}
