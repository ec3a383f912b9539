//! The jobs of a run: recorded with the step that wants them, started after it, and heard of again by the
//! process that acts on the run next, or by their own supervisors. Every end is an event, on every path
//! the same.

use std::sync::Arc;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::check::CheckResult;
use phasegate_engine::decide::params;
use phasegate_engine::events::{JOB_ENDED, JOB_STARTED};
use phasegate_engine::functions::filename;
use phasegate_engine::job::{Bound, Gives, JobKind};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event};
use phasegate_engine::workflow::Workflow;

use super::ground::Ground;
use super::put::{Attempt, NO_LIMIT, Progress};
use super::transaction::{Open, Then};
use super::{Answered, Found, Gate, GateError, Runs};
use crate::bindings;
use crate::caller::{self, Caller};
use crate::checks::Checks;
use crate::exclusive::try_exclusive;
use crate::jobs::{self, Claimed, EndStatus, Ended, Record, Seen, Spec, Supervisor, Verdict};
use crate::ledger::{Last, Ledger, Work};
use crate::run::RunId;
use crate::variables;
use crate::words::{self, Because};
use crate::world::{ClientReport, World};

/// Where jobs have their folders that are run by hand.
pub(super) const BY_HAND: &str = ".phasegate/jobs/by-hand";

/// The event after which a pass of a check is not believed any more: it has failed for somebody who ran it.
const WITHDRAWN: &str = "pass-withdrawn";

/// How often what jobs do may lead to other jobs, for one look at a run.
const MAX_ROUNDS: usize = 16;

/// What is to be put to the rules about a job.
enum News {
    Started(Timestamp),
    Ended(Option<Timestamp>, Box<Ended>),
}

impl Runs<'_> {
    /// Who gives a command: an agent with its secret, an agent inside a client, or a person.
    ///
    /// # Errors
    /// Where a secret is shown that is nobody's, or no longer anybody's.
    pub fn caller(&self) -> Result<Caller, GateError> {
        match std::env::var(variables::TOKEN) {
            Ok(token) => self.caller_with(&token),
            Err(_) => Ok(Caller { actor: caller::actor(), agent: None }),
        }
    }

    /// Who holds a token.
    ///
    /// # Errors
    /// Where it is nobody's, or no longer anybody's.
    pub fn caller_with(&self, token: &str) -> Result<Caller, GateError> {
        let (run, id, actor) = self.identify(token)?;
        Ok(Caller { actor, agent: Some((run, id)) })
    }

    /// The job that a token proves its holder to be, and its run.
    pub fn identify(&self, token: &str) -> Result<(RunId, String, Actor), GateError> {
        let unknown = || {
            GateError::NotPermitted("the token does not belong to an agent of this project".into())
        };
        let (secret, run, id) = jobs::parts(token).ok_or_else(unknown)?;
        let run = RunId::try_from(run.to_string()).map_err(|_| unknown())?;
        let (ledger, _) = self.peek(&run);
        let job = ledger.work.jobs.get(id).filter(|job| {
            job.knows(secret) || job.elsewhere.is_some() && self.is_holder(job, secret)
        });
        let job = job.ok_or_else(unknown)?;
        if job.is_over() || ledger.session.cancelled.is_some() {
            return Err(GateError::NotPermitted(format!("agent {id} of run {run} has ended")));
        }
        Ok((run, id.to_string(), job.role.ok_or_else(unknown)?))
    }

    /// What a decision about a run can look up, for an event that is put to the rules.
    pub(super) fn world(
        &self,
        workflow: &Workflow,
        ground: &Ground,
        work: &Work,
        told: &ClientReport,
        attempt: &Attempt,
    ) -> Arc<World> {
        let mut world =
            World::of(self.project, told.clone()).at(&ground.site).with_jobs(&work.jobs);
        // A workflow that is not trusted has no checks: not even a look at the tree runs for it.
        let looks = !workflow.jobs.is_empty() || workflow.looks_at_tree();
        if looks && self.is_trusted(workflow) {
            let tree = ground.tree(self.project, workflow, &work.written);
            let snapshot = attempt.tree.borrow().clone();
            let checks = Checks::new(tree, snapshot, workflow, work, &attempt.ended);
            world = world.with_checks(checks);
        }
        Arc::new(world)
    }

    /// The jobs of a run as they are now: one that has ended or whose supervisor is gone is shown so, also
    /// where the rules have not heard of that yet.
    pub fn jobs_of(&self, found: &Found) -> IndexMap<String, Record> {
        let jobs = found.ledger.work.jobs.clone();
        jobs.into_iter().map(|(id, job)| (id, self.as_seen(job))).collect()
    }

    /// Whether no job of a run is at work, and the rules have heard of every end: until then, others may
    /// follow. Of one whose supervisor was killed nobody hears by itself.
    pub fn is_settled(&self, found: &Found) -> bool {
        let is_lost = |job: &Record| matches!(self.look(job), Ok(Seen::Lost(..)));
        found.ledger.work.jobs.values().all(|job| job.is_over() || is_lost(job))
    }

    /// A job as it is now.
    #[must_use]
    pub fn job_now(&self, job: &Record) -> Record {
        self.as_seen(job.clone())
    }

    /// The jobs of all runs, by run.
    pub fn jobs(&self) -> Vec<(Found, IndexMap<String, Record>)> {
        let runs = self.runs().runs.into_iter().filter(|run| !run.ledger.work.jobs.is_empty());
        runs.map(|run| {
            let jobs = self.jobs_of(&run);
            (run, jobs)
        })
        .collect()
    }

    /// What an agent said last; none where it has said nothing, or is not one whose words we know.
    pub fn job_message(&self, job: &Record) -> Option<String> {
        jobs::message(&self.project.root, job)
    }

    /// A part of what a job has printed, without secrets, and how much there is.
    pub fn job_log(&self, job: &Record, from: u64, most: u64) -> std::io::Result<(Vec<u8>, u64)> {
        jobs::part(&self.project.root, job, from, most)
    }
}

impl Gate<'_> {
    /// Settles a run, by its name, for a supervisor whose job has ended or a driver that waits.
    pub fn settle_run(&self, name: &str) -> Result<(), GateError> {
        let mut found = self.run(name)?;
        self.settle(&mut found)
    }

    /// Submits the ends of the jobs of several runs to their rules. Returns what failed.
    pub(super) fn settle_all(&self, runs: &mut [Found]) -> Vec<String> {
        let settled = runs.iter_mut().filter_map(|run| Some((self.settle(run).err()?, run)));
        settled.map(|(error, run)| format!("run {}: {error}", run.id)).collect()
    }

    /// Tells a run's rules how its jobs ended, and starts the jobs that were waiting for that.
    pub(super) fn settle(&self, found: &mut Found) -> Result<(), GateError> {
        self.fetch_changes(found)?;
        for _ in 0..MAX_ROUNDS {
            if found.ledger.work.jobs.values().all(Record::is_over) {
                return Ok(());
            }
            // What was just started is seen to start, so that the rules hear of it now.
            let is_new = |job: &&Record| {
                job.is_background() && job.started.is_none() && job.elsewhere.is_none()
            };
            for job in found.ledger.work.jobs.values().filter(is_new) {
                job.await_start(&self.project.root);
            }
            let started = self.start_waiting(found)?;
            let ids: Vec<String> = found.ledger.work.jobs.keys().cloned().collect();
            let mut heard = false;
            for id in ids {
                heard |= self.hear_of(found, &id)?.is_some();
            }
            *found = self.refreshed(found);
            if !heard && started.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Settles a run in which something has just happened.
    pub(super) fn settle_now(&self, found: &Found) -> Result<(), GateError> {
        self.settle(&mut self.refreshed(found))
    }

    /// Starts the supervisors of jobs that were recorded.
    pub(super) fn launch(
        &self,
        run: &RunId,
        claimed: Vec<Claimed>,
    ) -> Result<Vec<Record>, GateError> {
        let started = claimed.into_iter().map(|mut job| {
            if job.record.elsewhere.is_none() {
                return Ok(job.start(&self.project.root, run)?);
            }
            job.counts();
            self.send(&job)
        });
        started.collect()
    }

    /// Starts jobs that were recorded by a process which died, or which could not start them.
    pub(super) fn start_waiting(&self, found: &Found) -> Result<Vec<Record>, GateError> {
        let is_new = |job: &Record| job.started.is_none() && !job.is_over();
        // One that waits for another machine is sent by whoever has its folder.
        let is_unsent = |job: &Record| matches!(self.look(job), Ok(Seen::Waiting));
        let may_start = |job: &Record| {
            is_new(job)
                && if job.elsewhere.is_some() { is_unsent(job) } else { self.may_start(job) }
        };
        if !found.ledger.work.jobs.values().any(may_start) {
            return Ok(Vec::new());
        }
        let (claimed, _) = self.within(found, |mut locked| {
            let mut claimed = Vec::new();
            if locked.ledger.session.cancelled.is_some() {
                return Ok(Then::Nothing(claimed));
            }
            let jobs = locked.ledger.work.jobs.iter_mut();
            for (id, job) in jobs.filter(|(_, job)| may_start(job)) {
                if let Some(found) = job.claim(&self.project.root, id)? {
                    *job = found.record.clone();
                    claimed.push(found);
                }
            }
            Ok(if claimed.is_empty() {
                Then::Nothing(claimed)
            } else {
                Then::Write(locked.keep(), claimed)
            })
        })?;
        self.launch(&found.id, claimed)
    }

    /// Whether this process may start a job. One that is started below an agent would end with it, so
    /// that those in the background are left to another process.
    fn may_start(&self, job: &Record) -> bool {
        !job.is_background() || self.supervises || !caller::is_supervised()
    }

    /// Puts the start and the end of a job to the rules, if they have not heard of it; the last answer.
    pub(super) fn hear_of(&self, found: &Found, id: &str) -> Result<Option<Answered>, GateError> {
        let mut last = None;
        if let Some(job) = found.ledger.work.jobs.get(id) {
            self.fetch_end(found, job)?;
        }
        // A job that ends at once has started, too.
        loop {
            let heard =
                self.put(found, NO_LIMIT, |attempt, open| self.hear_news(open, id, attempt));
            match heard {
                Ok(Some(heard)) => last = Some(heard),
                Ok(None) | Err(GateError::Over | GateError::Gone(..)) => return Ok(last),
                Err(error) => return Err(error),
            }
        }
    }

    fn hear_news(
        &self,
        mut open: Open,
        id: &str,
        attempt: &Attempt,
    ) -> Result<Then<Progress>, GateError> {
        let Some(job) = open.run.ledger.work.jobs.get_mut(id) else {
            return Ok(Then::Nothing(Progress::Done(None)));
        };
        let Some(news) = self.news(job)? else {
            return Ok(Then::Nothing(Progress::Done(None)));
        };
        let event = tell(job, id, news);
        let last = open.run.ledger.session.last.clone();
        let (job, tally) = (job.clone(), &mut open.run.ledger.work.tally);
        if let Some(cost) = job.cost() {
            tally.spend(cost);
        }
        if let Some(note) = job.ended.as_ref().and_then(|ended| ended.note.as_ref()) {
            open.run.notes.push(format!("run {}: {note}.", open.run.found.id));
        }
        self.note_output(&mut open.run.ledger, &job);
        note_result(&mut open, &job);
        if job.is_over()
            && let Some(deferred) = self.deferred(&job)
        {
            return self.resume(open, id, &job, deferred, attempt);
        }
        let is_over = open.run.ledger.session.cancelled.is_some();
        let is_stale = job.manner.bound == Bound::Document && job.document != open.before;
        let mut step = self.decide(&mut open, &event, &ClientReport::default(), attempt);
        if is_over {
            step.undo(Answer::accepted());
        } else if is_stale {
            let reason = format!("{} changed in the meantime", open.run.found.place);
            step.undo(Answer::deny_as("changed", reason));
        } else if step.unheard {
            // What a workflow has no rule for has happened all the same.
            step.answer = Answer::accepted();
        }
        if let Some(then) = self.obtain(&mut open, attempt, &event, &mut step)? {
            return Ok(then);
        }
        // A check that is wanted again because the tree has changed is wanted by the next event.
        let new = open.written(&step);
        let outer = open.workflow.outer();
        let ends = outer.phase(&step.to).and_then(|phase| outer.get(phase).ends);
        let owner = open.run.ledger.session.owner.clone();
        let then = self.commit(open, &event, step, new, attempt)?;
        let then = answered_to(then, id, &job, last.clone());
        if let (Some(last), Some(ends), Some(owner)) = (last, ends, owner) {
            tell_end(&then, (id, &last), ends, &owner.session);
        }
        Ok(then)
    }

    /// What the rules have not heard of a job.
    fn news(&self, job: &Record) -> Result<Option<News>, GateError> {
        if job.is_over() {
            return Ok(None);
        }
        // The rules hear of the start of jobs in the background; of others, the event that wanted them
        // knows.
        let is_told = job.started.is_some() || !job.is_background();
        Ok(match self.look(job)? {
            Seen::Working(since) if !is_told => Some(News::Started(since)),
            Seen::Ended(Some(since), _) if !is_told => Some(News::Started(since)),
            Seen::Ended(since, ended) => Some(News::Ended(since, Box::new(ended))),
            Seen::Lost(since, ended) if job.elsewhere.is_some() => {
                Some(News::Ended(since, Box::new(ended)))
            }
            Seen::Lost(since, ended) => {
                job.end_leftovers(&self.project.root);
                Some(News::Ended(since, Box::new(ended)))
            }
            Seen::Waiting | Seen::Queued | Seen::Starting | Seen::Working(_) => None,
        })
    }

    /// Records the background jobs that a step starts and ends.
    pub(super) fn enlist(
        &self,
        open: &mut Open,
        by: Actor,
        effects: &[Effect],
    ) -> Result<(), GateError> {
        for effect in effects {
            match effect {
                Effect::Start(job) => {
                    let about = self.about(open, job, None);
                    let (site, before) = (open.ground.site.clone(), open.before.clone());
                    let claimed = self.claimed(open, &site, job, &before, about);
                    let claimed = claimed.map_err(|error| {
                        GateError::Effect(format!("{} cannot be started: {error}", job.id))
                    })?;
                    if claimed.order.is_some() || self.may_start(&claimed.record) {
                        open.run.ledger.work.jobs.insert(job.id.clone(), claimed.record.clone());
                        open.run.starting.push(claimed);
                    } else {
                        open.run.ledger.work.jobs.insert(job.id.clone(), claimed.leave());
                    }
                }
                Effect::End(id) => {
                    let job = open.run.ledger.work.jobs.get_mut(id);
                    let job = job.filter(|job| job.is_background()).ok_or_else(|| {
                        let run = &open.run.found.id;
                        GateError::Effect(format!("there is no agent {id:?} in run {run}"))
                    })?;
                    job.ended_by = Some(by);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs a check of a workflow for somebody who wants to see it. A pass counts for nothing; after a failure the
    /// gate runs the check again where it remembers a pass. It ends with this process.
    pub fn run_check(&self, workflow: &Workflow, name: &str) -> Result<CheckResult, GateError> {
        if !self.is_trusted(workflow) {
            let message = format!("`phasegate trust {}` first: it runs commands", workflow.name);
            return Err(GateError::NotReady(message));
        }
        let spec = workflow.check(name);
        let check = spec.and_then(|spec| Some((spec, spec.fixed()?)));
        let (declared, check) =
            check.ok_or_else(|| GateError::Other(format!("there is no check {name}")))?;
        let root = &self.project.root;
        let id = RunId { workflow: workflow.name.clone(), name: name.to_string() };
        let Some(alone) = try_exclusive(root, BY_HAND, &id)? else {
            return Err(GateError::NotReady(format!("check {name} is already running")));
        };
        let held = Some(alone.path().to_path_buf());
        let counts_tests = check.min_tests.is_some();
        let spec = Spec { run: check.run, keeps_tail: true, counts_tests, held, ..Spec::default() };
        let folder = format!("{BY_HAND}/{}", filename(&id.to_string()));
        let (ended, _) = jobs::run_attached(root, &folder, &spec, Supervisor::Job)?;
        let result = ended.result_of(declared).unwrap_or_else(|| ended.result());
        if !result.ok {
            self.withdraw(workflow, &declared.only_id())?;
        }
        Ok(result)
    }

    /// Has the open runs of a workflow not believe a pass of a check any more.
    fn withdraw(&self, workflow: &Workflow, id: &str) -> Result<(), GateError> {
        let passed = |job: &Record| !job.used && job.passes(workflow) == Some(true);
        let (runs, _) = self.find_open();
        let runs = runs.iter().filter(|run| run.id.workflow == workflow.name);
        for run in runs.filter(|run| run.ledger.work.jobs.get(id).is_some_and(passed)) {
            let event = Event::new(WITHDRAWN, Actor::Engine);
            self.note(run, &event, |locked, _| {
                if let Some(job) = locked.ledger.work.jobs.get_mut(id).filter(|job| passed(job)) {
                    job.used = true;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Ends the jobs that a step wants ended, now that it counts.
    pub(super) fn dismiss(&self, ledger: &Ledger, effects: &[Effect]) {
        let ended = effects.iter().filter_map(|effect| match effect {
            Effect::End(id) => ledger.work.jobs.get(id),
            _ => None,
        });
        self.end_all(ended.collect());
    }

    /// Ends jobs, all at once, and sees them end.
    pub fn end_all(&self, jobs: Vec<&Record>) {
        let open: Vec<&Record> = jobs.into_iter().filter(|job| !job.is_over()).collect();
        for job in &open {
            self.ask_to_end(job);
        }
        for job in &open {
            self.await_end(job);
        }
    }
}

/// The job at work that wants the run for itself.
pub(super) fn alone(ledger: &Ledger) -> Option<&Record> {
    ledger.work.jobs.values().find(|job| job.manner.alone && !job.is_over())
}

/// Why nothing else is done while a job is at work that wants the run for itself; none where there is
/// none.
pub(super) fn busy(open: &Open) -> Option<String> {
    let job = alone(&open.run.ledger)?;
    let run = &open.run.found.id;
    Some(match job.kind {
        JobKind::Command => format!("A command of run {run} is running: {}.", job.name),
        _ => format!("A {} is already working on run {run}: {}.", job.kind, job.name),
    })
}

/// Notes what a check has said about its files. One that was killed has said nothing.
fn note_result(open: &mut Open, job: &Record) {
    let Some(ended) = job.ended.as_ref().filter(|_| job.manner.bound == Bound::Tree) else {
        return;
    };
    let has_said =
        matches!(ended.status, EndStatus::Exited | EndStatus::Failed | EndStatus::TimedOut);
    if let (true, Some(files), Some(passed)) = (has_said, &ended.tree, job.passes(&open.workflow)) {
        open.run.ledger.work.flakes.note(&job.name, files, passed);
    }
}

/// Writes down what was answered to the end of a job, for the event that wanted it; and tells the
/// person that it has ended, where nobody waits for it any more.
pub(super) fn answered_to(
    then: Then<Progress>,
    id: &str,
    job: &Record,
    last: Option<Last>,
) -> Then<Progress> {
    let Then::Write(mut writes, progress) = then else { return then };
    if let (Progress::Done(Some(answered)), true) = (&progress, job.is_over()) {
        let ledger = &mut writes.ledger;
        let waited_for = last.as_ref().and_then(|last| last.waits_for.as_deref());
        let is_awaited = waited_for == Some(id);
        // The end of a check or of a review is not an answer to anybody: the last one still stands. But a run
        // that has come to its end by it waits for nothing.
        if job.manner.waits && !job.manner.alone && !answered.ends {
            ledger.session.last = last;
        }
        if let Some(job) = ledger.work.jobs.get_mut(id).filter(|job| job.manner.waits) {
            job.answer = Some(answered.answer.clone());
        }
        if is_awaited && !answered.ends && answered.answer.outcome().is_none() {
            let run = &answered.run;
            let text = format!(
                "What run {run} was waiting for is done. Send the agent a message to go on."
            );
            writes.tells = Some((Answer::waiting(Until::Human, text), None));
        }
    }
    Then::Write(writes, progress)
}

/// Has a session told that its run has come to its end by a job for which its last stop could not wait: no stop is
/// put to a run that is over.
fn tell_end(then: &Then<Progress>, (id, last): (&str, &Last), ends: Outcome, session: &str) {
    let Then::Write(_, Progress::Done(Some(answered))) = then else { return };
    if answered.ends && last.waits_for.as_deref() == Some(id) {
        let run = answered.run.to_string();
        let told = words::sentence(&run, &answered.phase, Because::Outcome(Some(ends), None));
        bindings::give_notice(session, &told);
    }
}

/// Notes the news, and makes it an event.
fn tell(job: &mut Record, id: &str, news: News) -> Event {
    let text = |text: &str| Json::from(text);
    let number = |number: u64| Json::from(i64::try_from(number).unwrap_or(i64::MAX));
    let mut members =
        vec![("id", text(id)), ("kind", text(&job.kind.to_string())), ("name", text(&job.name))];
    let name = match news {
        News::Started(since) => {
            job.started = Some(since);
            JOB_STARTED
        }
        News::Ended(since, ended) => {
            job.started = job.started.or(since);
            let code = ended.exit_code.map_or(Json::Null, |code| Json::from(i64::from(code)));
            let verdict = ended.verdict.as_ref();
            let word = verdict.map(Verdict::word);
            // What the rules knew a worker and a reviewer by before they were jobs.
            let word_for_name = match job.kind {
                JobKind::Worker => Some("worker"),
                JobKind::Reviewer => Some("reviewer"),
                _ => None,
            };
            members.extend(word_for_name.map(|word| (word, text(&job.name))));
            members.extend([
                ("status", text(ended.status.as_str())),
                ("ok", Json::from(ended.exit_code == Some(0))),
                ("exit_code", code),
                ("end", text(&ended.words)),
                ("seconds", number(ended.seconds)),
                ("micro_dollars", number(ended.micro_dollars)),
                ("turns", number(ended.turns)),
                ("log", text(&job.log_place())),
            ]);
            if let Some(started) = job.started {
                members.push(("started", Json::from(started.to_string())));
            }
            if let Some(file) = &job.file {
                members.push(("file", text(file)));
                members.push(("model", job.model.as_deref().map_or(Json::Null, Json::from)));
                members.push(("verdict", word.map_or(Json::Null, Json::from)));
                let digest = verdict.map(|verdict| verdict.digest.as_str());
                members.push(("digest", digest.map_or(Json::Null, Json::from)));
                members.push(("problem", ended.problem.as_deref().map_or(Json::Null, Json::from)));
            }
            if job.manner.bound == Bound::Tree || job.file.is_some() {
                members.push(("tree", ended.tree.as_deref().map_or(Json::Null, Json::from)));
            }
            job.ended = Some(*ended);
            JOB_ENDED
        }
    };
    let agent = job.is_background().then(|| id.to_string());
    let params = params(members.into_iter().map(|(name, value)| (name.to_string(), value)));
    let judges = job.manner.gives == Gives::Verdict;
    let actor = if judges { Actor::Reviewer } else { Actor::Engine };
    Event { agent, params, ..Event::new(name, actor) }
}
