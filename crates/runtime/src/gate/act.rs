//! What people and agents ask of a workflow: to start a run, to show it, to act on it, to end it.

use std::sync::Arc;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::{RunFacts, decide, params, phase_name, render};
use phasegate_engine::digest::digest;
use phasegate_engine::events::CANCEL;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event, Step};
use phasegate_engine::workflow::{Param, TextId, Workflow};

use super::document::run_facts;
use super::errands::NO_LIMIT;
use super::sessions::{Standing, standing};
use super::tamper::protected;
use super::transaction::{Change, Locked, Open, Then, line_about};
use super::{Answered, Found, Gate, GateError, Runs};
use crate::journal::Line;
use crate::ledger::{Cancelled, Last, Owner};
use crate::run::{RunId, plain_name};
use crate::store::{Key, Lock};
use crate::world::{ClientReport, World};

impl Runs<'_> {
    /// Why no more money is spent on a run; none where there is some left.
    pub fn spent(&self, found: &Found) -> Option<String> {
        let limits = self.project.config.limits(&found.id.workflow);
        found.ledger.work.tally.spent(&found.id.to_string(), &limits)
    }
}

impl Gate<'_> {
    /// Puts an action to a run.
    pub fn act(&self, found: &Found, event: &Event) -> Result<Answered, GateError> {
        // What has become of its agents comes before what is asked for now.
        self.settle_now(found)?;
        let told = self.claim(found, event)?;
        let mut answered = self.act_on(found, event, &ClientReport::default(), false)?;
        answered.notes.extend(told);
        if answered.agents {
            self.settle_now(found)?;
        }
        Ok(answered)
    }

    /// Puts what came of something that was begun for a state document, if that is still the same.
    pub(super) fn act_bound(
        &self,
        found: &Found,
        event: &Event,
        document: &str,
    ) -> Result<Answered, GateError> {
        self.act_once(found, event, &ClientReport::default(), false, Some(document))
    }

    /// Starts a run: a new one, or, where a workflow has one document for all its runs and a rule
    /// hears the event, by putting the event to it.
    pub fn start(
        &self,
        workflow: &Workflow,
        texts: (Option<TextId>, TextId),
        event: &Event,
    ) -> Result<(Found, Option<Answered>), GateError> {
        let action = workflow.action(&event.name);
        if action.is_some_and(|action| !action.is_for(event.actor)) {
            let message = format!("`{}` is not for {}", event.name, event.actor);
            return Err(GateError::NotPermitted(message));
        }
        match self.create(workflow, Some(texts), event) {
            Err(GateError::Exists(place, _)) if workflow.hears(&event.name) => {
                let own = |run: &Found| run.id.workflow == workflow.name && run.place == place;
                let run = self.runs().runs.into_iter().find(own);
                let gone = || GateError::Other(format!("{place} is gone again"));
                let run = run.ok_or_else(gone)?;
                let answered = self.act_on(&run, event, &ClientReport::default(), true)?;
                Ok((self.refreshed(&run), Some(answered)))
            }
            created => Ok((self.run(&created?.to_string())?, None)),
        }
    }

    /// Puts an event to a run. One that `starts` begins a new run where the last one is over.
    pub(super) fn act_on(
        &self,
        found: &Found,
        event: &Event,
        told: &ClientReport,
        starts: bool,
    ) -> Result<Answered, GateError> {
        match self.act_once(found, event, told, starts, None) {
            Err(GateError::Unreadable(why)) => {
                let given_up = self.give_up(found, event, &why)?;
                if !starts {
                    return Ok(given_up);
                }
                self.act_once(found, event, told, starts, None)
            }
            result => result,
        }
    }

    /// Gives a run up whose document cannot be read: another takes its place, and the old one stays
    /// beside it.
    pub(super) fn give_up(
        &self,
        found: &Found,
        event: &Event,
        why: &str,
    ) -> Result<Answered, GateError> {
        let workflow = self.workflow_of(found)?;
        let text = workflow.unreadable.ok_or_else(|| GateError::Other(why.to_string()))?;
        let run = run_facts(found, None);
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        let rendered = render(&workflow, text, None, event, &run, world)?;
        let message = format!("Run {} was given up: {why}.", found.id);
        let answer = Answer::allow_saying(Outcome::Aborted, message);
        self.note_saying(found, event, &answer, |run, at| {
            let (event, answer) = (event.name.clone(), answer.clone());
            run.ledger.session.last = Some(Last { at, event, answer, elsewhere: false });
            run.ledger.tamper.protected.clear();
            Ok(Change::Instead(rendered.clone().into_bytes()))
        })?;
        Ok(Answered::new(&found.id, answer))
    }

    fn act_once(
        &self,
        found: &Found,
        event: &Event,
        told: &ClientReport,
        starts: bool,
        bound: Option<&str>,
    ) -> Result<Answered, GateError> {
        let answered = self.put(found, NO_LIMIT, |errands, mut open| {
            let over = is_over(&open);
            let own = standing(&open.run.ledger, event.session.as_deref(), Timestamp::now());
            if starts && own == Standing::Foreign && !over {
                return Err(GateError::NotReady(format!(
                    "run {0} belongs to another session; `phasegate adopt {0}` takes it over",
                    found.id
                )));
            }
            let mut before = None;
            if starts && (over || open.run.ledger.session.cancelled.is_some()) {
                let new = open.run.ledger.begin_again(event.session.as_deref());
                before = Some(std::mem::replace(&mut open.run.ledger, new));
                open.workflow = self.workflow(&found.id.workflow)?;
            } else if open.run.ledger.session.cancelled.is_some() {
                return Err(GateError::NotReady(format!("run {} is cancelled", found.id)));
            }
            let refused = refused(&open.workflow, &found.id, event);
            let mut step = self.decide(&mut open, event, told, errands);
            if let Some(answer) = refused {
                step.undo(answer);
            }
            if let Some(reason) = self.busy(&open, event) {
                step.undo(Answer::deny_as("busy", reason));
            }
            if bound.is_some_and(|document| document != open.before) {
                let reason = format!("{} was changed meanwhile", found.place);
                step.undo(Answer::deny_as("changed", reason));
            }
            if let Some(then) = self.missing(&mut open, errands, event, &mut step)? {
                return Ok(then);
            }
            if let (Some(before), Answer::Deny { .. }) = (before, &step.answer) {
                open.run.ledger = before;
            }
            let new = open.written(&step);
            self.commit(open, event, step, new, errands)
        })?;
        answered.ok_or_else(|| GateError::Gone(found.id.clone(), found.place.clone()))
    }

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
        let (name, document_place) = (id.name.clone(), place.clone());
        let run = RunFacts { name, document: document_place, ..RunFacts::default() };
        let document = self.new_document(workflow, texts.map(|(_, text)| text), event, &run)?;
        let (document, step) = self.begin(workflow, document, event, &run)?;
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
        let found = Found::new(id, place);
        let (is_new, _) = self.within(&found, |mut locked| {
            // A process that died had begun it: the lock has brought that to its end.
            if self.workspace.version(&found.place)?.is_some() {
                return Ok(Then::Nothing(false));
            }
            let (trace, evidence, effects) = match &step {
                Some(step) => {
                    self.carry_out(&step.effects)?;
                    (step.trace.clone(), step.readings.clone(), step.effects.clone())
                }
                None => Default::default(),
            };
            // There may be a ledger already: of an earlier run, or of one without a document.
            locked.ledger = locked.ledger.begin_again(event.session.as_deref());
            locked.ledger.position.document.clone_from(&found.place);
            locked.ledger.tamper.protected = protected(workflow, &document);
            locked.notes.clear();
            self.enlist(&found.id, event.actor, &mut locked.ledger, &effects)?;
            self.pin(&mut locked, workflow)?;
            let mut writes = locked.note(Line {
                to: phase.clone(),
                after: digest(&bytes),
                trace,
                evidence,
                ..line_about(event.clone(), Timestamp::now())
            });
            writes.document = Change::Put(None, bytes.clone());
            writes.effects = effects;
            Ok(Then::Write(writes, true))
        })?;
        Ok(is_new.then_some(found.id))
    }

    fn rendered(
        &self,
        workflow: &Workflow,
        text: TextId,
        event: &Event,
        run: &RunFacts,
    ) -> Result<String, GateError> {
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        Ok(render(workflow, text, None, event, run, world)?)
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
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        let step = decide(workflow, document, event, run, world);
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
            let exists = self.workspace.version(&place)?.is_some();
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
                    "it is not written over: choose another name".to_string()
                };
                return Err(GateError::Exists(place.clone(), format!("{place} exists, and {why}")));
            }
        }
        Err(GateError::Other("no name is free".into()))
    }

    /// Ends a run for good.
    pub fn cancel(
        &self,
        found: &Found,
        event: &Event,
        reason: Option<&str>,
    ) -> Result<(), GateError> {
        // A workflow that knows what giving up means, does that.
        let own = self.workflow_of(found).is_ok_and(|workflow| workflow.hears(CANCEL));
        if own && event.params.get("reason").is_none() {
            let given = reason.map_or(Json::Null, Json::from);
            let event = Event { params: params([("reason".into(), given)]), ..event.clone() };
            let answered = self.act(found, &event);
            if answered.is_ok_and(|it| !matches!(it.answer, Answer::Deny { .. })) {
                return Ok(());
            }
        }
        let message = reason.map(str::to_string);
        let answer = Answer::Allow { outcome: Some(Outcome::Aborted), until: None, message };
        self.note_saying(found, event, &answer, |run, at| {
            let told = event.actor == Actor::Human;
            let reason = reason.map(str::to_string);
            run.ledger.session.cancelled = Some(Cancelled { at, reason, by: event.actor, told });
            Ok(Change::None)
        })?;
        // Nobody works for a run that is over.
        self.end_all(found.ledger.work.agents.values().collect());
        self.settle_now(found)
    }

    /// Gives a run to a session at once, whoever owns it; without a session, to the next that stops.
    pub fn give(
        &self,
        found: &Found,
        event: &Event,
        session: Option<&str>,
    ) -> Result<(), GateError> {
        self.note(found, event, |run, seen| {
            run.ledger.session.owner =
                session.map(|session| Owner { session: session.to_string(), seen });
            Ok(())
        })
    }

    /// Counts what a review or a turn has cost.
    pub fn spend(&self, found: &Found, micro_dollars: u64) -> Result<(), GateError> {
        self.within(found, |mut locked| {
            locked.ledger.work.tally.micro_dollars += micro_dollars;
            Ok(Then::Write(locked.keep(), ()))
        })?;
        Ok(())
    }

    /// Changes only the ledger of a run, and journals that.
    pub(super) fn note(
        &self,
        found: &Found,
        event: &Event,
        mut change: impl FnMut(&mut Locked, Timestamp) -> Result<(), GateError>,
    ) -> Result<(), GateError> {
        self.note_saying(found, event, &Answer::accepted(), |run, now| {
            change(run, now)?;
            Ok(Change::None)
        })
    }

    fn note_saying(
        &self,
        found: &Found,
        event: &Event,
        answer: &Answer,
        mut change: impl FnMut(&mut Locked, Timestamp) -> Result<Change, GateError>,
    ) -> Result<(), GateError> {
        self.within(found, |mut locked| {
            let now = Timestamp::now();
            let document = change(&mut locked, now)?;
            let stored = self.workspace.get(&found.place)?;
            let mark = |bytes: &[u8]| digest(bytes);
            let before = mark(&stored.map(|stored| stored.bytes).unwrap_or_default());
            let after = match &document {
                Change::Instead(bytes) => mark(bytes),
                _ => before.clone(),
            };
            let answer = answer.clone();
            let mut writes =
                locked.note(Line { answer, before, after, ..line_about(event.clone(), now) });
            writes.ends = matches!(document, Change::Instead(_));
            writes.document = document;
            Ok(Then::Write(writes, ()))
        })?;
        Ok(())
    }
}

/// Why somebody may not ask for an action at all; none where he may.
fn refused(workflow: &Workflow, run: &RunId, event: &Event) -> Option<Answer> {
    let action = workflow.action(&event.name)?;
    let (name, command, actor) = (&action.name, &action.command, event.actor);
    let own = format!("phasegate {} {command} {}", workflow.name, run.name);
    let way = format!("a person gives the command `{own}");
    if action.people_only() && actor != Actor::Human {
        let reason = format!("`{name}` is for people: {way}` in a terminal");
        return Some(Answer::deny_as("needs_human", reason));
    }
    if !action.is_for(actor) {
        let by: Vec<String> = action.by.iter().map(ToString::to_string).collect();
        let reason = format!("`{name}` is for {}, and you are {actor} here", by.join(" or "));
        return Some(Answer::deny_as("not_permitted", reason));
    }
    let given = |param: &&Param| {
        let value = event.params.get(&param.name);
        !matches!(value, None | Some(Json::Null | Json::Bool(false)))
    };
    let people = action.params.iter().filter(|param| param.people_only);
    let param = people.filter(|_| actor != Actor::Human).find(given)?;
    let flag = param.name.replace('_', "-");
    let reason = action.params.iter().any(|param| param.name == "reason");
    let reason = if reason && param.name != "reason" { " --reason WHY" } else { "" };
    let reason = format!("`{}` is for people: {way} --{flag}{reason}` in a terminal", param.name);
    Some(Answer::deny_as("needs_human", reason))
}

/// Whether the run has come to its end.
fn is_over(open: &Open) -> bool {
    let outer = open.workflow.outer();
    let phase = outer.phase(&phase_name(&open.workflow, &open.document));
    phase.is_some_and(|phase| outer.get(phase).ends.is_some())
}
