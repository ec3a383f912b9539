//! A job that an event waits for, from the step that wants it to the step that it was wanted for.
//!
//! The step that wants a check, a review or work is written down as far as it has come, and the event is
//! put again when the job has ended. A step with commands is different: its rule has decided already, and
//! only its commands can still refuse it. So the whole step is laid aside, in the job's folder, and is
//! taken when the commands have ended well and the document is still the same. Nothing is decided twice.

use std::fs;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params;
use phasegate_engine::digest::digest;
use phasegate_engine::events::JOB_STARTED;
use phasegate_engine::evidence::{Account, Reading};
use phasegate_engine::job::{Job, JobKind};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event, Move, Step, Trace};
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::jobs::answered_to;
use super::put::{Attempt, Progress, refusal};
use super::repeat::follow;
use super::tamper::protected;
use super::transaction::{Change, Open, Then, line_about};
use super::{Gate, GateError};
use crate::jobs::{About, Claimed, Record};
use crate::journal::{Line, Ruling};
use crate::outside::{self, MAX_RECORD};
use crate::paths;
use crate::store::Version;

/// Where a step lies that waits for its commands, in the job's folder.
const STEP: &str = "step.json";

/// A step that is taken when its commands have ended well.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Deferred {
    event: Event,
    answer: Answer,
    /// The text of the document after the step, if that has changed.
    new: Option<String>,
    /// The version of the document that it was decided on.
    version: Option<Version>,
    /// The run was over, and begins again with the step.
    #[serde(default)]
    begins_again: bool,
    from: String,
    to: String,
    moves: Vec<Move>,
    trace: Trace,
    readings: Vec<Reading>,
    effects: Vec<Effect>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passed: Vec<String>,
    /// What its answer rests on.
    #[serde(default)]
    ruling: Option<Ruling>,
}

impl Deferred {
    /// A step without its commands.
    pub(super) fn new(
        event: &Event,
        step: &Step,
        new: Option<&[u8]>,
        version: Option<Version>,
    ) -> Deferred {
        let rest = step.effects.iter().filter(|effect| !matches!(effect, Effect::Run { .. }));
        Deferred {
            event: event.clone(),
            answer: step.answer.clone(),
            new: new.map(|text| String::from_utf8_lossy(text).into_owned()),
            version,
            begins_again: false,
            from: step.from.clone(),
            to: step.to.clone(),
            moves: step.moves.clone(),
            trace: step.trace.clone(),
            readings: step.readings.clone(),
            effects: rest.cloned().collect(),
            passed: step.passed.clone(),
            ruling: None,
        }
    }

    /// The same, with what its answer rests on.
    #[must_use]
    pub(super) fn resting_on(self, ruling: Option<(Ruling, Answer)>) -> Deferred {
        Deferred { ruling: ruling.map(|(ruling, _)| ruling), ..self }
    }
}

impl Gate<'_> {
    /// Records a job that an event waits for, and writes down how far the rules have come before it.
    /// Nothing is begun where that cannot be written: the step says so.
    pub(super) fn record(
        &self,
        open: &mut Open,
        event: &Event,
        step: &mut Step,
        job: &Job,
        attempt: &Attempt,
    ) -> Result<Option<Then<Progress>>, GateError> {
        let new = open.written(step);
        if let (Some(problem), true) = (&open.read.problem, step.changed) {
            step.undo(refusal(event, format!("{problem}. Repair it, or remove it.")));
            return Ok(None);
        }
        let version = open.read.version.clone();
        let deferred = (job.kind == JobKind::Command)
            .then(|| Deferred::new(event, step, new.as_deref(), version.clone()));
        let begins_again = open.former.is_some();
        let deferred = deferred.map(|it| {
            let ruling = self.ruling(open, None);
            Deferred { begins_again, ..it }.resting_on(ruling)
        });
        let new = new.filter(|_| deferred.is_none());
        if deferred.is_some() {
            step.undo(Answer::accepted());
            // Until its commands have ended, the run is what it was.
            if let Some(former) = open.former.take() {
                open.run.ledger = former;
            }
        }
        match self.act_in_the_world(open, event.actor, &step.effects) {
            Err(GateError::Effect(reason)) => {
                step.undo(refusal(event, reason));
                return Ok(None);
            }
            done => done?,
        };
        let after = new.as_ref().map_or_else(|| open.before.clone(), |bytes| digest(bytes));
        let about = self.about(open, job, Some(attempt));
        let claimed = match self.claim_job(open, job, &after, deferred.as_ref(), about) {
            Ok(claimed) => claimed,
            Err(error) => {
                let (kind, name) = (&job.kind, &job.name);
                step.undo(refusal(event, format!("{kind} {name} cannot be started: {error}")));
                return Ok(None);
            }
        };
        list(open, claimed);
        follow(&mut open.run.ledger, event, &open.before, &after);
        let line = Line {
            from: step.from.clone(),
            to: step.to.clone(),
            moves: step.moves.clone(),
            before: open.before.clone(),
            after,
            basis: Some(self.basis(open, &Answer::accepted())),
            ..line_about(begun(job, event), Timestamp::now())
        };
        if new.is_some() {
            open.run.ledger.tamper.protected = protected(&open.workflow, &step.document);
            open.run.ledger.position.document.clone_from(&open.run.found.place);
        }
        if open.run.ledger.position.phase.is_empty() || !step.moves.is_empty() {
            open.run.ledger.position.arrive(&open.workflow, &step.to);
        }
        // What was noticed now is not noticed again when the event is put again.
        let mut writes = open.run.take().note(line);
        if let Some(bytes) = new {
            writes.document = Change::Put(version, bytes);
        }
        writes.effects.clone_from(&step.effects);
        Ok(Some(Then::Write(writes, Progress::Waits(job.id.clone()))))
    }

    /// Makes the folder of a job, with the step that waits for it, if one does.
    pub(super) fn claim_job(
        &self,
        open: &mut Open,
        job: &Job,
        document: &str,
        deferred: Option<&Deferred>,
        about: Option<About>,
    ) -> std::io::Result<Claimed> {
        let root = &self.project.root;
        if let Some(file) = &job.file {
            let file = paths::meant(root, &self.project.site, file);
            let file = file.map_err(|why| std::io::Error::other(why.to_string()))?;
            fs::create_dir_all(file.parent().unwrap_or(root))?;
        }
        // Commands are the gate's own: they work in the project, and make the worktree of a run.
        let site =
            if job.kind == JobKind::Command { &self.project.site } else { &open.ground.site };
        let site = site.clone();
        let claimed = self.claimed(open, &site, job, document, about)?;
        if let Some(deferred) = deferred {
            let step = serde_json::to_vec(deferred)?;
            fs::write(root.join(&claimed.record.folder).join(STEP), step)?;
        }
        Ok(claimed)
    }

    /// The step that waits for the commands of a job.
    pub(super) fn deferred(&self, job: &Record) -> Option<Deferred> {
        let file = paths::inside(&self.project.root, &format!("{}/{STEP}", job.folder)).ok()?;
        serde_json::from_slice(&outside::read(&file, MAX_RECORD).ok()?).ok()
    }

    /// Takes the step that has waited for its commands, if they ended well; otherwise its action is
    /// refused, and says why.
    pub(super) fn resume(
        &self,
        mut open: Open,
        id: &str,
        job: &Record,
        deferred: Deferred,
        attempt: &Attempt,
    ) -> Result<Then<Progress>, GateError> {
        let Deferred { event, answer, new, version, begins_again, effects, .. } = deferred;
        let Deferred { from, to, moves, trace, readings, passed, ruling, .. } = deferred;
        open.asked = ruling.map(|ruling| Asked::Kept(ruling, answer.clone()));
        let document = match &new {
            Some(text) => Json::parse(text.as_bytes())
                .map_err(|error| GateError::Other(format!("{}: {error}", job.folder)))?,
            None => open.document.clone(),
        };
        let mut step = Step {
            answer,
            unheard: false,
            changed: new.is_some(),
            document,
            original: std::mem::take(&mut open.document),
            from,
            to,
            moves,
            trace,
            readings,
            account: Account::default(),
            wants: None,
            effects,
            passed,
        };
        let ended = job.ended.as_ref();
        let is_well = ended.is_some_and(|ended| ended.exit_code == Some(0));
        if open.run.ledger.session.cancelled.is_some() && !begins_again {
            step.undo(Answer::accepted());
        } else if !is_well {
            step.undo(Answer::deny_as("failed", why_failed(job)));
        } else if open.read.version != version {
            let place = &open.run.found.place;
            let reason = format!(
                "{place} changed in the meantime: the commands have run, but nothing else was done"
            );
            step.undo(Answer::deny_as("changed", reason));
        }
        if begins_again && !matches!(step.answer, Answer::Deny { .. }) {
            let mut new = open.run.ledger.begin_again(event.session.as_deref());
            new.work.jobs.insert(id.to_string(), job.clone());
            open.run.ledger = new;
        }
        let is_beginning = open.run.ledger.position.begins_with.take().is_some();
        // A run that could not begin is over before it began.
        let never_began = is_beginning && matches!(step.answer, Answer::Deny { .. });
        let new = new.filter(|_| step.changed).map(String::into_bytes);
        let mut then = self.commit(open, &event, step, new, attempt)?;
        if let (Then::Write(writes, _), true) = (&mut then, never_began) {
            writes.ledger.position.removed = true;
        }
        Ok(answered_to(then, id, job, None))
    }
}

/// Puts a job into the ledger, in the place of an earlier one of that name.
pub(super) fn list(open: &mut Open, claimed: Claimed) {
    let jobs = &mut open.run.ledger.work.jobs;
    let before = jobs.insert(claimed.id.clone(), claimed.record.clone());
    open.run.replaced.extend(before);
    open.run.starting.push(claimed);
}

/// That a job was begun, for the journal.
pub(super) fn begun(job: &Job, event: &Event) -> Event {
    let members = [
        ("id", Json::from(job.id.as_str())),
        ("kind", Json::from(job.kind.to_string())),
        ("name", Json::from(job.name.as_str())),
        ("for", Json::from(event.name.as_str())),
    ];
    let params = params(members.map(|(name, value)| (name.to_string(), value)));
    let session = event.session.clone();
    Event { session, params, ..Event::new(JOB_STARTED, Actor::Engine) }
}

/// Which of the commands has failed, and what it printed.
fn why_failed(job: &Record) -> String {
    let commands: Vec<String> = job.run.iter().map(|run| run.words.join(" ")).collect();
    let ended = job.ended.as_ref();
    let tail = ended.map_or("", |ended| ended.tail.trim_end());
    let words = ended.map_or("", |ended| ended.words.as_str());
    let said = if tail.is_empty() { words } else { tail };
    format!("{}: {said}", commands.join(" && "))
}
