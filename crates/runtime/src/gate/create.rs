//! How a run begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::{RunFacts, decide, phase_name, render};
use phasegate_engine::digest::digest;
use phasegate_engine::job::{Bound, Job};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Event, Step};
use phasegate_engine::workflow::{TextId, Workflow};

use super::asked::Asked;
use super::begin::{Deferred, begun, list};
use super::put::{Attempt, NO_LIMIT};
use super::tamper::protected;
use super::transaction::{Change, Locked, Open, Then, line_about};
use super::{Found, Gate, GateError};
use crate::bindings;
use crate::journal::Line;
use crate::ledger::{Stands, Work};
use crate::run::{RunId, plain_name};
use crate::store::{Key, Lock, Version};
use crate::world::{ClientReport, World};

/// How a run is to begin.
pub(super) struct Beginning<'b> {
    pub(super) workflow: &'b Workflow,
    /// The text of its document; the plain beginning where there is none.
    pub(super) text: Option<TextId>,
    pub(super) event: &'b Event,
    /// The document of the run that was there before, and is over.
    pub(super) replaces: Option<Version>,
    /// It is that of a standing gate.
    pub(super) stands: Option<Stands>,
}

/// What came of a name that seemed to be free.
pub(super) enum Created {
    /// It was not.
    Taken,
    Begun,
    /// The run begins when this job has ended well.
    Waits(String),
}

impl Gate<'_> {
    /// Starts a run: its name and its document are texts of the workflow, or the plain beginning
    /// where the workflow has none.
    pub fn create(
        &self,
        workflow: &Workflow,
        texts: Option<(Option<TextId>, TextId)>,
        event: &Event,
    ) -> Result<RunId, GateError> {
        if !self.project.config.enabled(&workflow.name) {
            let message = format!("workflow {} is disabled in the configuration", workflow.name);
            return Err(GateError::NotReady(message));
        }
        // Two that start at once must not choose one name, nor miss each other's runs.
        let _starting = self.store.lock(&Lock::Workflow(workflow.name.clone()))?;
        loop {
            if let Some(run) = self.create_once(workflow, texts, event)? {
                return Ok(run);
            }
        }
    }

    /// Starts a run with a name that seems to be free; none where it turns out not to be.
    fn create_once(
        &self,
        workflow: &Workflow,
        texts: Option<(Option<TextId>, TextId)>,
        event: &Event,
    ) -> Result<Option<RunId>, GateError> {
        let wanted = match texts {
            Some((Some(name), _)) => self.rendered(workflow, name, event, &RunFacts::default())?,
            _ => match event.params.get("name").and_then(Json::as_str) {
                Some(name) => name.to_string(),
                None => workflow.name.clone(),
            },
        };
        let (id, place) = self.free_name(workflow, wanted.trim())?;
        let text = texts.map(|(_, text)| text);
        let found = Found::new(id, place);
        let beginning = Beginning { workflow, text, event, replaces: None, stands: None };
        let created = self.begin_at(&found, &beginning)?;
        self.begins(found, created)
    }

    /// Begins a run in a place that is free, or whose document is that of one which is over.
    pub(super) fn begin_at(
        &self,
        found: &Found,
        beginning: &Beginning,
    ) -> Result<Created, GateError> {
        let Beginning { workflow, text, event, replaces, .. } = beginning;
        let (name, place) = (found.id.name.clone(), found.place.clone());
        let others = self.others(workflow);
        let run = RunFacts { name, document: place, others, ..RunFacts::default() };
        let document = self.new_document(workflow, *text, event, &run)?;
        let (new, run) = (document.clone(), &run);
        let (document, step) = self.begin(workflow, document, event, run)?;
        let mut checked = document.clone();
        workflow.records.declare(&workflow.state, &mut checked, "state").map_err(|found| {
            GateError::Other(format!("the new state document does not fit: {found}"))
        })?;
        let bytes = document.to_text(Some("  ")).into_bytes();
        let phase = phase_name(workflow, &document);
        if let Some(step) = &step
            && !step.effects.is_empty()
            && !self.is_trusted(workflow)
        {
            let message = format!("`phasegate trust {}` first", workflow.name);
            return Err(GateError::NotReady(format!(
                "{message}: it runs commands or writes files"
            )));
        }
        let commands = step.as_ref().and_then(|step| Job::of_commands(&step.effects));
        // A standing gate knows the whole tree as it was.
        let guards = match beginning.stands {
            None => self.guarded(workflow, &document, event, run),
            Some(_) => BTreeMap::new(),
        };
        let (created, written) = self.within(found, |mut locked| {
            // A process that died had begun it: the lock has brought that to its end.
            if self.home().version(&found.place)? != *replaces {
                return Ok(Then::Nothing(Created::Taken));
            }
            anew(&mut locked, beginning);
            locked.ledger.work.guards.clone_from(&guards);
            self.pin(&mut locked, workflow)?;
            let workflow = self.workflow(&workflow.name)?;
            let ground = self.ground(&workflow, &document);
            let mut open = Open::begun(locked, workflow, ground);
            open.asked = step
                .as_ref()
                .map(|step| Asked::beginning(event, run.clone(), &mut step.clone(), &new));
            if let (Some(job), Some(step)) = (&commands, &step) {
                let deferred = Deferred::new(event, step, Some(&bytes), replaces.clone());
                let deferred = deferred.resting_on(self.ruling(&mut open, None));
                open.run.ledger.position.begins_with = Some(job.id.clone());
                let claimed = self.claim_job(&mut open, job, "", Some(&deferred), None)?;
                list(&mut open, claimed);
                let basis = Some(self.basis(&mut open, &Answer::accepted()));
                let line = Line { basis, ..line_about(begun(job, event), Timestamp::now()) };
                return Ok(Then::Write(open.run.note(line), Created::Waits(job.id.clone())));
            }
            let (trace, evidence, effects) = match &step {
                Some(step) => {
                    self.carry_out(&step.effects)?;
                    let evidence = self.told(step.readings.clone());
                    (step.trace.clone(), evidence, step.effects.clone())
                }
                None => Default::default(),
            };
            let basis = Some(self.basis(&mut open, &Answer::accepted()));
            open.run.ledger.tamper.protected = protected(&open.workflow, &document);
            let passed = step.iter().flat_map(|step| step.passed.iter().cloned());
            open.run.ledger.position.passed.extend(passed);
            self.enlist(&mut open, event.actor, &effects)?;
            let mut writes = open.run.note(Line {
                to: phase.clone(),
                after: digest(&bytes),
                trace,
                evidence,
                basis,
                ..line_about((*event).clone(), Timestamp::now())
            });
            writes.document = Change::Put(replaces.clone(), bytes.clone());
            writes.effects = effects;
            Ok(Then::Write(writes, Created::Begun))
        })?;
        if let Some(session) = &event.session {
            bindings::bind(session, &self.project.root);
        }
        self.launch(&found.id, written.starting)?;
        Ok(created)
    }

    /// The name of a run that has begun, once the commands have ended that it begins with.
    fn begins(&self, found: Found, created: Created) -> Result<Option<RunId>, GateError> {
        let job = match created {
            Created::Taken => return Ok(None),
            Created::Begun => return Ok(Some(found.id)),
            Created::Waits(job) => job,
        };
        let answered = self.await_beginning(&found, &job)?;
        match answered.map(|answered| answered.answer) {
            Some(Answer::Deny { reason, .. }) => Err(GateError::Effect(reason)),
            _ => Ok(Some(found.id)),
        }
    }

    /// How many runs of a workflow are open.
    fn others(&self, workflow: &Workflow) -> u64 {
        let (runs, _) = self.open_runs();
        let is_other = |run: &&Found| run.id.workflow == workflow.name && self.is_working(run);
        u64::try_from(runs.iter().filter(is_other).count()).unwrap_or(u64::MAX)
    }

    fn rendered(
        &self,
        workflow: &Workflow,
        text: TextId,
        event: &Event,
        run: &RunFacts,
    ) -> Result<String, GateError> {
        Ok(render(workflow, text, None, event, run, self.first_look(workflow))?)
    }

    /// What a run can look up that is about to begin: the files as they are, too.
    pub(super) fn first_look(&self, workflow: &Workflow) -> Arc<World> {
        let ground = self.ground(workflow, &Json::object());
        let told = ClientReport::default();
        self.world(workflow, &ground, &Work::default(), &told, &Attempt::new(NO_LIMIT))
    }

    /// The document with which a run begins: a text of the workflow, or only its first phase.
    fn new_document(
        &self,
        workflow: &Workflow,
        text: Option<TextId>,
        event: &Event,
        run: &RunFacts,
    ) -> Result<Json, GateError> {
        let Some(text) = text else {
            let outer = workflow.outer();
            let phase = outer.initial.map(|id| outer.get(id).name.to_string());
            return Ok(Json::from([(outer.field.as_str(), Json::from(phase.unwrap_or_default()))]));
        };
        let text = self.rendered(workflow, text, event, run)?;
        Json::parse(text.as_bytes()).map_err(|error| {
            GateError::Other(format!("the new state document is not JSON: {error}"))
        })
    }

    /// A new document after the event that made it, where a rule hears that.
    fn begin(
        &self,
        workflow: &Workflow,
        document: Json,
        event: &Event,
        run: &RunFacts,
    ) -> Result<(Json, Option<Step>), GateError> {
        if !workflow.hears(&event.name) {
            return Ok((document, None));
        }
        let step = decide(workflow, document, event, run, self.first_look(workflow));
        match &step.answer {
            Answer::Deny { reason, .. } => Err(GateError::Other(reason.clone())),
            _ => Ok((step.document.clone(), Some(step))),
        }
    }

    fn free_name(&self, workflow: &Workflow, wanted: &str) -> Result<(RunId, String), GateError> {
        let base = plain_name(wanted);
        if base.is_empty() {
            return Err(GateError::UnknownRun("the run needs a name".into()));
        }
        for number in 1.. {
            let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
            let place = workflow.document_of(&name);
            let id = RunId::of_document(&workflow.name, &workflow.document, &place);
            let id =
                id.ok_or_else(|| GateError::UnknownRun(format!("{name:?} cannot name a run")))?;
            let exists = self.home().version(&place)?.is_some();
            let only_one = place == workflow.document;
            let named = only_one || workflow.presumed.is_some();
            let known = self.store.version(&Key::Ledger(id.clone()))?.is_some();
            if !exists && (named || !known) {
                return Ok((id, place));
            }
            if named {
                let name = &workflow.name;
                let why = if only_one {
                    format!("workflow {name} has one run at a time: move it away first")
                } else {
                    "it is not overwritten: choose another name".to_string()
                };
                return Err(GateError::Exists(place.clone(), format!("{place} exists, and {why}")));
            }
        }
        Err(GateError::Other("no name is free".into()))
    }
}

/// Gives a run that begins a ledger of its own. There may be one already: of an earlier run, or of one without a
/// document.
fn anew(locked: &mut Locked, beginning: &Beginning) {
    let former = std::mem::take(&mut locked.ledger);
    locked.ledger = former.begin_again(beginning.event.session.as_deref());
    if beginning.stands.is_some() {
        // What a check said of the tree holds for as long as the tree does.
        let checks = former.work.jobs.into_iter();
        let checks = checks.filter(|(_, job)| job.manner.bound == Bound::Tree);
        locked.ledger.work.jobs = checks.filter(|(_, job)| job.is_over()).collect();
    }
    locked.ledger.position.document.clone_from(&locked.found.place);
    locked.ledger.session.stands.clone_from(&beginning.stands);
    if !locked.is_contradicted {
        locked.notes.clear();
    }
}
