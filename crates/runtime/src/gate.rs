//! The one way that every event takes: find the run, lock it, load it, decide, commit, answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::{RunFacts, decide, phase_name, render};
use phasegate_engine::definition::Reentry;
use phasegate_engine::digest::digest;
use phasegate_engine::functions::filename;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event, Step, Trace};
use phasegate_engine::workflow::{TextId, Workflow};

use crate::catalog::{Entry, LoadError};
use crate::fault_point;
use crate::git;
use crate::journal::{self, Line};
use crate::ledger::{Cancelled, Last, Ledger, Owner, remembered};
use crate::project::Project;
use crate::run::RunId;
use crate::store::{Key, Store, StoreError, Stored};
use crate::world::{Told, World};

/// How long an owner may be silent before another session may take its run.
const LEASE: SignedDuration = SignedDuration::from_mins(30);

/// How often a step is decided again because somebody edited the document meanwhile.
const MOST_TRIES: usize = 5;

/// How many readings a journal line lists.
const MOST_EVIDENCE: usize = 64;

/// A stop, as a client reports it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    pub session: Option<String>,
    /// The stop follows a block, ours or another hook's.
    pub after_block: bool,
    /// The client still has background work.
    pub background: bool,
    pub told: Told,
}

/// What a run answered.
#[derive(Clone, Debug)]
pub struct Answered {
    pub run: RunId,
    pub answer: Answer,
    /// The state document after the step.
    pub document: Json,
    /// The exit code that the workflow wants for a block.
    pub block_exit: u8,
    /// Something that the user should know beside the answer.
    pub notes: Vec<String>,
}

/// All that came of a stop.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub answers: Vec<Answered>,
    /// Failures of our own: they allow the stop, loudly.
    pub faults: Vec<String>,
}

impl Verdict {
    /// The block, if any run blocks.
    pub fn block(&self) -> Option<&Answered> {
        self.answers.iter().find(|answered| answered.answer.is_block())
    }
}

/// Why an event got no decision.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("workflow {0}: {1}")]
    Workflow(String, LoadError),
    #[error("{0}")]
    Other(String),
}

/// A run that was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub id: RunId,
    /// The place of its state document.
    pub place: String,
    pub ledger: Ledger,
}

impl Found {
    /// Whether the run can still answer, as far as the ledger knows.
    fn is_open(&self, store: &dyn Store) -> bool {
        if self.ledger.cancelled.is_some() {
            return false;
        }
        match &self.ledger.finished {
            None => true,
            Some(finished) => {
                let now = store.version(&Key::Document(self.place.clone()));
                !matches!(now, Ok(Some(version)) if version.0 == *finished)
            }
        }
    }
}

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Report {
    pub phase: String,
    /// `working`, `waiting`, `stuck`, `done`, `ended`, `cancelled` or `broken`.
    pub condition: &'static str,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// A project's gate.
pub struct Gate<'p> {
    project: &'p Project,
    store: &'p dyn Store,
    loaded: RefCell<HashMap<String, Rc<Workflow>>>,
}

/// A run that is locked and read.
struct Open<'a> {
    found: &'a Found,
    workflow: Rc<Workflow>,
    ledger: Ledger,
    ledger_version: Option<crate::store::Version>,
    stored: Stored,
    /// The digest of the stored document.
    before: String,
    document: Json,
    notes: Vec<String>,
}

impl<'p> Gate<'p> {
    /// The gate of a project.
    pub fn new(project: &'p Project) -> Gate<'p> {
        Gate { project, store: &project.store, loaded: RefCell::default() }
    }

    // --- finding ----------------------------------------------------------------------------

    /// All runs of the project, and what could not be looked at.
    pub fn runs(&self) -> (Vec<Found>, Vec<String>) {
        let mut found = Vec::new();
        let mut faults = Vec::new();
        for entry in &self.project.workflows {
            if !self.project.config.enabled(&entry.name) {
                continue;
            }
            if let Err(error) = &entry.head {
                faults.push(format!("workflow {}: {error}", entry.name));
            }
            let Some(pattern) = entry.document(&self.project.config) else { continue };
            match self.store.documents(&pattern) {
                Ok(places) => found.extend(places.into_iter().filter_map(|place| {
                    let id = RunId::of_document(&entry.name, &pattern, &place)?;
                    let ledger = self.peek(&id);
                    Some(Found { id, place, ledger })
                })),
                Err(error) => faults.push(format!("workflow {}: {error}", entry.name)),
            }
        }
        (found, faults)
    }

    /// The ledger as it is, without a lock; an unreadable one reads as new.
    fn peek(&self, id: &RunId) -> Ledger {
        let stored = self.store.get(&Key::Ledger(id.clone())).ok().flatten();
        stored.and_then(|stored| serde_json::from_slice(&stored.bytes).ok()).unwrap_or_default()
    }

    /// The run of that name: `triage/web`, or `web` where that is unambiguous.
    pub fn run(&self, name: &str) -> Result<Found, GateError> {
        let (runs, _) = self.runs();
        let known: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
        let mut matching: Vec<Found> = runs
            .into_iter()
            .filter(|run| run.id.to_string() == name || run.id.name == name || run.id.workflow == name)
            .collect();
        if let Some(exact) = matching.iter().position(|run| run.id.to_string() == name) {
            return Ok(matching.swap_remove(exact));
        }
        match matching.len() {
            1 => Ok(matching.remove(0)),
            0 if known.is_empty() => Err(GateError::Other("there is no run in this project".into())),
            0 => Err(GateError::Other(format!("there is no run {name:?}; there are: {}", known.join(", ")))),
            _ => {
                let names: Vec<String> = matching.iter().map(|run| run.id.to_string()).collect();
                Err(GateError::Other(format!("{name:?} could be {}", names.join(" or "))))
            }
        }
    }

    /// The workflow, read once.
    pub fn workflow(&self, name: &str) -> Result<Rc<Workflow>, GateError> {
        if let Some(workflow) = self.loaded.borrow().get(name) {
            return Ok(workflow.clone());
        }
        let entry: &Entry = self
            .project
            .workflow(name)
            .ok_or_else(|| GateError::Other(format!("there is no workflow {name:?}")))?;
        let loaded = self.project.load(entry);
        let workflow = Rc::new(loaded.map_err(|error| GateError::Workflow(name.into(), error))?);
        self.loaded.borrow_mut().insert(name.into(), workflow.clone());
        Ok(workflow)
    }

    /// How a run stands, for people.
    pub fn report(&self, found: &Found) -> Report {
        let broken = |problem: String| Report { phase: "?".into(), condition: "broken", problem: Some(problem) };
        let workflow = match self.workflow(&found.id.workflow) {
            Ok(workflow) => workflow,
            Err(error) => return broken(error.to_string()),
        };
        let document = match self.document(found) {
            Ok(document) => document,
            Err(error) => return broken(error.to_string()),
        };
        let phase = phase_name(&workflow, &document);
        let outer = workflow.outer();
        let Some(id) = outer.phase(&phase) else {
            let problem = format!("{} is in an unknown phase {phase:?}", found.place);
            return broken(problem);
        };
        let condition = match (&found.ledger.cancelled, outer.get(id).ends, found.ledger.outcome()) {
            (Some(_), ..) => "cancelled",
            (None, Some(Outcome::Done), _) => "done",
            (None, Some(_), _) => "ended",
            (None, None, Some(Outcome::Stuck)) => "stuck",
            (None, None, Some(Outcome::Waiting)) => "waiting",
            (None, None, Some(Outcome::Fault)) => "broken",
            (None, None, _) => "working",
        };
        let problem = match (&found.ledger.last, condition) {
            (Some(last), "broken" | "stuck") => last.answer.text().map(str::to_string),
            _ => None,
        };
        Report { phase, condition, problem }
    }

    /// Whether a run can still answer.
    pub fn is_working(&self, found: &Found) -> bool {
        !matches!(self.report(found).condition, "cancelled" | "done" | "ended")
    }

    // --- stops ------------------------------------------------------------------------------

    /// Answers a stop.
    ///
    /// A session is answered by the runs it owns. One that owns none takes the first run, by name,
    /// that is free. A stop without a session is answered by every open run, until one blocks.
    pub fn stop(&self, stop: &Stop) -> Verdict {
        let (runs, faults) = self.runs();
        let mut verdict = Verdict { answers: Vec::new(), faults };
        let now = Timestamp::now();
        let open: Vec<Found> = runs.into_iter().filter(|run| run.is_open(self.store)).collect();
        let (own, free): (Vec<&Found>, Vec<&Found>) = open
            .iter()
            .filter(|run| standing(&run.ledger, stop, now) != Standing::Foreign)
            .partition(|run| standing(&run.ledger, stop, now) == Standing::Own);
        for run in own.iter().chain(&free) {
            let is_free = free.iter().any(|free| free.id == run.id);
            let taken = is_free && stop.session.is_some() && !verdict.answers.is_empty();
            if taken || verdict.block().is_some() {
                break;
            }
            match self.answer_stop(run, stop) {
                Ok(answered) => verdict.answers.extend(answered),
                Err(error) => verdict.faults.push(format!("run {}: {error}", run.id)),
            }
        }
        verdict
    }

    fn answer_stop(&self, found: &Found, stop: &Stop) -> Result<Option<Answered>, GateError> {
        let event = Event::stop(stop.session.clone());
        self.with_retries(found, |mut open| {
            if open.ledger.cancelled.is_some() {
                return Ok(None);
            }
            let now = Timestamp::now();
            let standing = standing(&open.ledger, stop, now);
            if standing == Standing::Foreign {
                return Ok(None);
            }
            let outer = open.workflow.outer();
            let phase = phase_name(&open.workflow, &open.document);
            if outer.phase(&phase).is_some_and(|phase| outer.get(phase).ends.is_some()) {
                open.ledger.finished = Some(open.stored.version.0.clone());
                self.put_ledger(&open)?;
                return Ok(None);
            }
            if let Some(session) = &stop.session {
                if let Some(before) = open.ledger.owner.as_ref().filter(|owner| owner.session != *session) {
                    let note = format!("run {} was adopted from session {}", found.id, before.session);
                    open.notes.push(note);
                    open.ledger.last = None;
                }
                open.ledger.owner = Some(Owner { session: session.clone(), seen: now });
            }
            let ours = open.ledger.last.clone().filter(|last| last.answer.is_block());
            let step = match foreign_loop(open.workflow.reentry, stop, ours.is_some()) {
                Some(answer) => idle(&mut open, answer),
                None => {
                    let mut step = self.decide(&mut open, &event, &stop.told);
                    self.reenter(&open, stop, ours.as_ref(), &mut step);
                    step
                }
            };
            self.commit(open, &event, step).map(Some)
        })
    }

    /// Lets a stop go where insisting would only repeat itself, or where background work goes on.
    fn reenter(&self, open: &Open, stop: &Stop, ours: Option<&Last>, step: &mut Step) {
        if !step.answer.is_block() {
            return;
        }
        if stop.background {
            let message = format!("Run {} waits for background work.", open.found.id);
            step.answer = Answer::waiting(Until::Background, message);
            return;
        }
        let insisted = ours.filter(|last| !last.moved_on(&open.before, &step.readings));
        if let Some(last) = insisted
            && stop.after_block
            && open.workflow.reentry == Reentry::Progress
            && last.unchanged_blocks >= open.workflow.patience
            && !git::changed_since(&self.project.root, last.at)
        {
            let run = &open.found.id;
            let message = format!(
                "Run {run} is stuck in phase {}: the agent stopped again and nothing has changed \
                 since it was told to go on. Say something to the agent to go on, `phasegate why {run}` \
                 to see what is missing, or `phasegate cancel {run}` to end the run.",
                step.to
            );
            step.answer = Answer::allow_saying(Outcome::Stuck, message);
        }
    }

    // --- actions ----------------------------------------------------------------------------

    /// Puts an action to a run.
    pub fn act(&self, found: &Found, event: &Event) -> Result<Answered, GateError> {
        let answered = self.with_retries(found, |mut open| {
            let step = self.decide(&mut open, event, &Told::default());
            self.commit(open, event, step).map(Some)
        })?;
        answered.ok_or_else(|| GateError::Other(format!("{} is gone", found.place)))
    }

    /// Starts a run: its name and its document are texts of the workflow, or the plain beginning
    /// where the workflow has none.
    pub fn create(
        &self,
        workflow: &Workflow,
        texts: Option<(Option<TextId>, TextId)>,
        event: &Event,
    ) -> Result<RunId, GateError> {
        let world = || Arc::new(World::new(&self.project.root, Told::default()));
        let text = |id: TextId, run: &RunFacts| {
            let rendered = render(workflow, id, None, event, run, world());
            rendered.map_err(|fault| GateError::Other(fault.message))
        };
        let wanted = match texts {
            Some((Some(name), _)) => text(name, &RunFacts::default())?,
            _ => match event.params.get("name").and_then(Json::as_str) {
                Some(name) => name.to_string(),
                None => workflow.name.clone(),
            },
        };
        let (id, place) = self.free_name(workflow, wanted.trim())?;
        let run = RunFacts { name: id.name.clone(), document: place.clone() };
        let document = match texts {
            Some((_, document)) => {
                let text = text(document, &run)?;
                Json::parse(text.as_bytes()).map_err(|error| {
                    GateError::Other(format!("the new state document is not JSON: {error}"))
                })?
            }
            None => {
                let initial = workflow.outer().initial;
                let phase = initial.map(|id| workflow.outer().get(id).name.to_string());
                Json::from([(workflow.outer().field.as_str(), Json::from(phase.unwrap_or_default()))])
            }
        };
        let mut checked = document.clone();
        workflow.records.declare(&workflow.state, &mut checked, "state").map_err(|found| {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            GateError::Other(format!("the new state document does not fit: {}", found.join("; ")))
        })?;
        let key = Key::Document(place);
        let _lease = self.store.lease(&id, &key)?;
        let bytes = document.to_text(Some("  ")).into_bytes();
        let now = Timestamp::now();
        let phase = phase_name(workflow, &document);
        let answer = Answer::Allow { outcome: None, until: None, message: None };
        let ledger = Ledger {
            schema: 1,
            run: id.to_string(),
            started_at: Some(now),
            definition: workflow.digest.clone(),
            owner: event.session.clone().map(|session| Owner { session, seen: now }),
            ..Ledger::default()
        };
        let ledger = self.write_line(&id, ledger, Line {
            event: event.clone(),
            answer,
            to: phase,
            after: digest(&bytes),
            ..blank_line(now)
        })?;
        self.store.put(&key, None, &bytes)?;
        self.store.put(&Key::Ledger(id.clone()), None, &to_bytes(&ledger)?)?;
        Ok(id)
    }

    fn free_name(&self, workflow: &Workflow, wanted: &str) -> Result<(RunId, String), GateError> {
        let base = filename(wanted);
        if base.is_empty() {
            return Err(GateError::Other("the run needs a name".into()));
        }
        for number in 1.. {
            let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
            let place = workflow.document_of(&name);
            let id = RunId::of_document(&workflow.name, &workflow.document, &place);
            let id = id.ok_or_else(|| GateError::Other(format!("{name:?} cannot name a run")))?;
            let taken = self.store.version(&Key::Document(place.clone()))?.is_some()
                || self.store.version(&Key::Ledger(id.clone()))?.is_some();
            if !taken {
                return Ok((id, place));
            }
            if place == workflow.document {
                let message = format!("{place} exists: workflow {} has only one run at a time", workflow.name);
                return Err(GateError::Other(message));
            }
        }
        Err(GateError::Other("no name is free".into()))
    }

    /// Renders a text about a run.
    pub fn show(&self, found: &Found, text: TextId, event: &Event) -> Result<String, GateError> {
        let workflow = self.workflow(&found.id.workflow)?;
        let document = self.document(found)?;
        let run = RunFacts { name: found.id.name.clone(), document: found.place.clone() };
        let world = Arc::new(World::new(&self.project.root, Told::default()));
        render(&workflow, text, Some(document), event, &run, world)
            .map_err(|fault| GateError::Other(fault.message))
    }

    /// A run's state document.
    pub fn document(&self, found: &Found) -> Result<Json, GateError> {
        let stored = self.store.get(&Key::Document(found.place.clone()))?;
        let stored = stored.ok_or_else(|| GateError::Other(format!("{} is gone", found.place)))?;
        parse(&found.place, &stored.bytes)
    }

    /// A run's journal, as text.
    pub fn journal(&self, found: &Found) -> Result<Vec<String>, GateError> {
        Ok(self.store.lines(&found.id)?)
    }

    /// Ends a run for good.
    pub fn cancel(&self, found: &Found, event: &Event, reason: Option<String>) -> Result<(), GateError> {
        let key = Key::Document(found.place.clone());
        let _lease = self.store.lease(&found.id, &key)?;
        let (mut ledger, version, notes) = self.ledger(&found.id)?;
        if ledger.cancelled.is_some() {
            return Ok(());
        }
        let now = Timestamp::now();
        ledger.cancelled = Some(Cancelled { at: now, reason: reason.clone() });
        let bytes = self.store.get(&key)?.map(|stored| stored.bytes).unwrap_or_default();
        let mark = digest(&bytes);
        let answer = Answer::Allow { outcome: Some(Outcome::Aborted), until: None, message: reason };
        let line = Line {
            event: event.clone(),
            answer,
            before: mark.clone(),
            after: mark,
            notes,
            ..blank_line(now)
        };
        let ledger = self.write_line(&found.id, ledger, line)?;
        self.store.put(&Key::Ledger(found.id.clone()), version.as_ref(), &to_bytes(&ledger)?)?;
        Ok(())
    }

    // --- read, decide, write ----------------------------------------------------------------

    /// Locks and reads a run, and does it again if somebody edits the document in the meantime.
    fn with_retries<T>(
        &self,
        found: &Found,
        mut body: impl FnMut(Open) -> Result<Option<T>, GateError>,
    ) -> Result<Option<T>, GateError> {
        let key = Key::Document(found.place.clone());
        let _lease = self.store.lease(&found.id, &key)?;
        let mut tries = 0;
        loop {
            let Some(open) = self.open(found)? else { return Ok(None) };
            match body(open) {
                Err(GateError::Store(StoreError::Conflict(_))) if tries < MOST_TRIES => tries += 1,
                result => return result,
            }
        }
    }

    fn open<'f>(&self, found: &'f Found) -> Result<Option<Open<'f>>, GateError> {
        let (ledger, ledger_version, notes) = self.ledger(&found.id)?;
        let Some(stored) = self.store.get(&Key::Document(found.place.clone()))? else {
            return Ok(None);
        };
        let document = parse(&found.place, &stored.bytes)?;
        let workflow = self.workflow(&found.id.workflow)?;
        let before = digest(&stored.bytes);
        Ok(Some(Open { found, workflow, ledger, ledger_version, stored, before, document, notes }))
    }

    fn ledger(
        &self,
        id: &RunId,
    ) -> Result<(Ledger, Option<crate::store::Version>, Vec<String>), GateError> {
        let key = Key::Ledger(id.clone());
        let new = || Ledger {
            schema: 1,
            run: id.to_string(),
            started_at: Some(Timestamp::now()),
            ..Ledger::default()
        };
        match self.store.get(&key)? {
            None => Ok((new(), None, Vec::new())),
            Some(stored) => match serde_json::from_slice(&stored.bytes) {
                Ok(ledger) => Ok((ledger, Some(stored.version), Vec::new())),
                Err(error) => {
                    let aside = self.store.set_aside(&key)?;
                    let note = format!("the ledger could not be read ({error}); it was kept as {aside}");
                    Ok((new(), None, vec![note]))
                }
            },
        }
    }

    /// Decides on the document, which is taken: a second owner would force a copy of it.
    fn decide(&self, open: &mut Open, event: &Event, told: &Told) -> Step {
        let run = RunFacts { name: open.found.id.name.clone(), document: open.found.place.clone() };
        let world = Arc::new(World::new(&self.project.root, told.clone()));
        decide(&open.workflow, std::mem::take(&mut open.document), event, &run, world)
    }

    fn commit(&self, open: Open, event: &Event, step: Step) -> Result<Answered, GateError> {
        let Open { found, workflow, mut ledger, ledger_version, stored, before, notes, .. } = open;
        let now = Timestamp::now();
        let key = Key::Document(found.place.clone());
        let new = step.changed.then(|| restyle(&step.document, &stored.bytes));
        let after = new.as_ref().map_or_else(|| before.clone(), |bytes| digest(bytes));
        // The last moment at which the step can be thrown away without a trace.
        if self.store.version(&key)?.as_ref() != Some(&stored.version) {
            return Err(StoreError::Conflict(found.place.clone()).into());
        }
        fault_point::reach("before-journal");
        let unchanged_blocks = unchanged_blocks(&ledger, &step, &before);
        ledger.last = Some(Last {
            at: now,
            event: event.name.clone(),
            answer: step.answer.clone(),
            document: after.clone(),
            readings: remembered(&step.readings),
            unchanged_blocks,
        });
        ledger.blocks += u64::from(step.answer.is_block());
        ledger.definition.clone_from(&workflow.digest);
        ledger.finished = None;
        let mut evidence = step.readings;
        evidence.truncate(MOST_EVIDENCE);
        let line = Line {
            event: event.clone(),
            from: step.from,
            to: step.to,
            answer: step.answer.clone(),
            moves: step.moves,
            trace: step.trace,
            evidence,
            before,
            after,
            notes: notes.clone(),
            ..blank_line(now)
        };
        let ledger = self.write_line(&found.id, ledger, line)?;
        fault_point::reach("after-journal");
        if let Some(bytes) = new {
            self.store.put(&key, Some(&stored.version), &bytes)?;
        }
        fault_point::reach("after-document");
        let ledger_key = Key::Ledger(found.id.clone());
        self.store.put(&ledger_key, ledger_version.as_ref(), &to_bytes(&ledger)?)?;
        fault_point::reach("after-ledger");
        let block_exit = workflow.block_exit;
        let answer = way_out(step.answer, &found.id, workflow.way_out);
        let (run, document) = (found.id.clone(), step.document);
        Ok(Answered { run, answer, document, block_exit, notes })
    }

    /// Appends a journal line that continues the chain, and counts it.
    fn write_line(&self, id: &RunId, mut ledger: Ledger, mut line: Line) -> Result<Ledger, GateError> {
        let (last, torn) = self.store.last_line(id)?;
        let (seq, prev) = journal::continue_from(last.as_deref());
        if torn > 0 {
            line.notes.push(format!("{torn} bytes of an unfinished line were dropped"));
        } else if seq > ledger.seq {
            line.notes.push(format!("line {seq} was written, but its process died before it answered"));
        }
        line.seq = seq + 1;
        line.prev = prev;
        ledger.seq = line.seq;
        let text = line.seal().map_err(|error| GateError::Other(error.to_string()))?;
        self.store.append(id, &text)?;
        Ok(ledger)
    }

    fn put_ledger(&self, open: &Open) -> Result<(), GateError> {
        let key = Key::Ledger(open.found.id.clone());
        Ok(self.store.put(&key, open.ledger_version.as_ref(), &to_bytes(&open.ledger)?)?)
    }
}

/// What a run is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Own,
    Free,
    Foreign,
}

fn standing(ledger: &Ledger, stop: &Stop, now: Timestamp) -> Standing {
    match (&ledger.owner, &stop.session) {
        (None, _) | (_, None) => Standing::Free,
        (Some(owner), Some(session)) if owner.session == *session => Standing::Own,
        (Some(owner), Some(_)) if now.duration_since(owner.seen) > LEASE => Standing::Free,
        _ => Standing::Foreign,
    }
}

/// The answer to a stop that another hook's block caused.
fn foreign_loop(reentry: Reentry, stop: &Stop, ours: bool) -> Option<Answer> {
    let let_go = stop.after_block
        && match reentry {
            Reentry::Always => false,
            Reentry::Never => true,
            Reentry::Progress => !ours,
        };
    // Said in the journal only: the user did not ask about another hook's loop.
    let answer = Answer::Allow { outcome: Some(Outcome::Waiting), until: Some(Until::External), message: None };
    let_go.then_some(answer)
}

/// A step that answers and does nothing else.
fn idle(open: &mut Open, answer: Answer) -> Step {
    let phase = phase_name(&open.workflow, &open.document);
    Step {
        answer,
        document: std::mem::take(&mut open.document),
        changed: false,
        from: phase.clone(),
        to: phase,
        moves: Vec::new(),
        trace: Trace::default(),
        readings: Vec::new(),
    }
}

fn unchanged_blocks(ledger: &Ledger, step: &Step, before: &str) -> u32 {
    let last = ledger.last.as_ref().filter(|last| last.answer.is_block());
    match (step.answer.is_block(), last) {
        (false, _) => 0,
        (true, Some(last)) if !last.moved_on(before, &step.readings) => last.unchanged_blocks + 1,
        (true, _) => 1,
    }
}

/// Clients promise to pass on 10,000 characters of a reason.
const MOST_REASON: usize = 9_000;

fn way_out(answer: Answer, run: &RunId, wanted: bool) -> Answer {
    let Answer::Block { mut reason } = answer else { return answer };
    if let Some((cut, _)) = reason.char_indices().nth(MOST_REASON) {
        reason.truncate(cut);
        reason.push_str("…");
    }
    if wanted {
        let reason_end = reason.trim_end().len();
        reason.truncate(reason_end);
        reason.push_str(&format!("\n\n(This is run {run}. To end it: `phasegate cancel {run}`.)"));
    }
    Answer::Block { reason }
}

fn parse(place: &str, bytes: &[u8]) -> Result<Json, GateError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Json::parse(text).map_err(|error| GateError::Other(format!("{place} is not valid JSON: {error}")))
}

/// The document's text in the style of the text it replaces.
fn restyle(document: &Json, old: &[u8]) -> Vec<u8> {
    let old = std::str::from_utf8(old).unwrap_or_default();
    let mut text = document.to_text(Json::indent_of(old));
    if !old.ends_with('\n') {
        text.pop();
    }
    text.into_bytes()
}

fn to_bytes(ledger: &Ledger) -> Result<Vec<u8>, GateError> {
    let mut bytes = serde_json::to_vec_pretty(ledger).map_err(|error| GateError::Other(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn blank_line(at: Timestamp) -> Line {
    Line {
        seq: 0,
        at,
        event: Event { name: String::new(), actor: Actor::Engine, session: None, params: Json::object() },
        from: String::new(),
        to: String::new(),
        answer: Answer::Allow { outcome: None, until: None, message: None },
        moves: Vec::new(),
        trace: Trace::default(),
        evidence: Vec::new(),
        before: String::new(),
        after: String::new(),
        notes: Vec::new(),
        prev: String::new(),
        hash: String::new(),
    }
}
