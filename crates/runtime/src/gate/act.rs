//! What people and agents ask of a workflow: to start a run, to show it, to act on it, to end it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::{params, phase_name, render};
use phasegate_engine::definition::MayCancel;
use phasegate_engine::digest::digest;
use phasegate_engine::events::CANCEL;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::workflow::{Param, TextId, Workflow};

use super::jobs::busy;
use super::put::NO_LIMIT;
use super::sessions::{Standing, standing};
use super::signing::Now;
use super::transaction::{Change, Locked, Open, Then, line_about};
use super::{Answered, Found, Gate, GateError, Runs};
use crate::bindings;
use crate::caller::{self, Caller};
use crate::cost::Cost;
use crate::journal::Line;
use crate::ledger::{Cancelled, Last, Owner, Paused};
use crate::run::RunId;
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
        // The ends of its agents come before what is asked for now.
        self.settle_now(found)?;
        let told = self.claim(found, event)?;
        let mut answered = self.act_on(found, event, &ClientReport::default(), false)?;
        answered.notes.extend(told);
        if answered.has_jobs {
            self.settle_now(found)?;
        }
        Ok(answered)
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
                let gone = || GateError::Other(format!("{place} has disappeared"));
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
        match self.act_once(found, event, told, (starts, NO_LIMIT)) {
            Err(GateError::Unreadable(why)) => {
                let given_up = self.give_up(found, event, &why)?;
                if !starts {
                    return Ok(given_up);
                }
                self.act_once(found, event, told, (starts, NO_LIMIT))
            }
            result => result,
        }
    }

    /// Puts an event to a run for which a client waits no longer than that.
    pub(super) fn act_within(
        &self,
        found: &Found,
        event: &Event,
        told: &ClientReport,
        most: Duration,
    ) -> Result<Answered, GateError> {
        self.act_once(found, event, told, (false, most))
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
        let run = self.run_facts(found, &self.ground(&workflow, &Json::object()), None);
        let world = Arc::new(World::of(self.project, ClientReport::default()));
        let rendered = render(&workflow, text, None, event, &run, world)?;
        let message = format!("Run {} was cancelled: {why}.", found.id);
        let answer = Answer::allow_saying(Outcome::Aborted, message);
        self.note_saying(found, event, &answer, |run, at| {
            let (event, answer) = (event.name.clone(), answer.clone());
            run.ledger.session.last =
                Some(Last { at, event, answer, waits_for: None, signed: None });
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
        (starts, most): (bool, Duration),
    ) -> Result<Answered, GateError> {
        let answered = self.put(found, most, |attempt, mut open| {
            let Locked { ledger, .. } = &open.run;
            self.must_be_meant(&found.id, ledger.position.seq)?;
            let pinned = &ledger.definition.digest;
            let pinned = if pinned.is_empty() { open.workflow.identity.as_str() } else { pinned };
            let now = Now {
                position: attempt.is_first().then_some(&ledger.position),
                definition: Some(pinned),
                tree: &|| self.tree_now(&open, attempt),
            };
            now.must_be_signed(&found.id, event)?;
            let over = is_over(&open);
            let own = standing(&open.run.ledger, event.session.as_deref(), Timestamp::now());
            if starts && own == Standing::Foreign && !over {
                return Err(GateError::NotReady(format!(
                    "run {0} belongs to another session; `phasegate adopt {0}` takes it over",
                    found.id
                )));
            }
            if starts && (over || open.run.ledger.session.cancelled.is_some()) {
                let new = open.run.ledger.begin_again(event.session.as_deref());
                open.former = Some(std::mem::replace(&mut open.run.ledger, new));
                open.workflow = self.workflow(&found.id.workflow)?;
            } else if open.run.ledger.session.cancelled.is_some() {
                return Err(GateError::NotReady(format!("run {} is cancelled", found.id)));
            }
            let refused = refused(&open.workflow, &found.id, event);
            let mut step = self.decide(&mut open, event, told, attempt);
            if let Some(answer) = refused {
                step.undo(answer);
            }
            if let Some(reason) = busy(&open) {
                step.undo(Answer::deny_as("busy", reason));
            }
            if let Some(then) = self.obtain(&mut open, attempt, event, &mut step)? {
                return Ok(then);
            }
            if let (Some(former), Answer::Deny { .. }) = (open.former.take(), &step.answer) {
                open.run.ledger = former;
            }
            self.insist_once(&open, event, &mut step);
            let new = open.written(&step);
            self.commit(open, event, step, new, attempt)
        })?;
        answered.ok_or_else(|| GateError::Gone(found.id.clone(), found.place.clone()))
    }

    /// Ends a run for good.
    pub fn cancel(
        &self,
        found: &Found,
        event: &Event,
        reason: Option<&str>,
    ) -> Result<(), GateError> {
        self.may_cancel(found, event)?;
        // A workflow that knows what giving up means, does that.
        let stands = found.ledger.session.stands.is_some();
        let own = !stands && self.workflow_of(found).is_ok_and(|workflow| workflow.hears(CANCEL));
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
            // The session that it held hears of it at its next stop, also where a person has ended it elsewhere.
            let (is_person, by) = (event.actor == Actor::Human, event.actor);
            let told = is_person && run.ledger.session.owner.is_none();
            let from = (!is_person).then(|| caller::place().to_string());
            let reason = reason.map(str::to_string);
            run.ledger.session.cancelled = Some(Cancelled { at, reason, by, from, told });
            Ok(Change::None)
        })?;
        // Nobody works for a run that is over.
        self.end_all(found.ledger.work.jobs.values().collect());
        self.settle_now(found)
    }

    /// Refuses to end a run where only a person may; the journal tells that somebody tried.
    fn may_cancel(&self, found: &Found, event: &Event) -> Result<(), GateError> {
        let workflow = self.workflow_of(found);
        let for_people = found.ledger.session.stands.is_some()
            || workflow.is_ok_and(|workflow| workflow.cancel == MayCancel::Human);
        if !for_people || event.actor == Actor::Human {
            return Ok(());
        }
        let reason = format!(
            "only people can cancel run {0}: run `phasegate cancel {0}` in a terminal of your own",
            found.id
        );
        self.refuse(found, event, "needs_human", &reason)?;
        Err(GateError::NotPermitted(reason))
    }

    /// Refuses what a reviewer asks for where the process that asks is not below that reviewer's supervisor: it
    /// shows a secret that was given to another.
    pub fn must_be_itself(
        &self,
        found: &Found,
        caller: &Caller,
        event: &Event,
    ) -> Result<(), GateError> {
        let Some((_, id)) = caller.agent.as_ref().filter(|_| caller.actor == Actor::Reviewer)
        else {
            return Ok(());
        };
        let job = found.ledger.work.jobs.get(id);
        if job.is_some_and(|job| caller::is_below(&self.project.root, &job.folder)) {
            return Ok(());
        }
        let reason = format!(
            "this process has the token of reviewer {id} of run {} but was not started by it",
            found.id
        );
        self.refuse(found, event, "not_permitted", &reason)?;
        Err(GateError::NotPermitted(reason))
    }

    /// Journals that somebody was refused something.
    pub fn refuse(
        &self,
        found: &Found,
        event: &Event,
        code: &str,
        reason: &str,
    ) -> Result<(), GateError> {
        let answer = Answer::deny_as(code, reason.to_string());
        self.note_saying(found, event, &answer, |_, _| Ok(Change::None))
    }

    /// Parks a run, so that it holds nobody, or takes it up again; whether that changed anything.
    pub fn pause(
        &self,
        found: &Found,
        event: &Event,
        paused: Option<&Paused>,
    ) -> Result<bool, GateError> {
        let mut changed = false;
        self.note(found, event, |run, _| {
            changed = run.ledger.session.paused.is_some() != paused.is_some();
            run.ledger.session.paused = paused.cloned();
            Ok(())
        })?;
        Ok(changed)
    }

    /// Gives a run to a session at once, even if another owns it; without a session, to the next one that stops.
    pub fn give(
        &self,
        found: &Found,
        event: &Event,
        session: Option<&str>,
    ) -> Result<(), GateError> {
        if found.ledger.session.stands.is_some() {
            return Err(GateError::NotReady(format!(
                "run {} is that of a standing gate for one session, and no other can have it",
                found.id
            )));
        }
        if let Some(session) = session {
            bindings::bind(session, &self.project.root);
        }
        self.note(found, event, |run, seen| {
            let owner = session.map(|session| Owner { session: session.to_string(), seen });
            let before = std::mem::replace(&mut run.ledger.session.owner, owner);
            // The session that it is taken from hears of it at its next stop.
            run.ledger.session.former =
                before.filter(|before| session.is_some_and(|session| session != before.session));
            Ok(())
        })
    }

    /// Counts what a review or a turn has cost.
    pub fn spend(&self, found: &Found, cost: Cost) -> Result<(), GateError> {
        self.within(found, |mut locked| {
            locked.ledger.work.tally.spend(cost);
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

    pub(super) fn note_saying(
        &self,
        found: &Found,
        event: &Event,
        answer: &Answer,
        mut change: impl FnMut(&mut Locked, Timestamp) -> Result<Change, GateError>,
    ) -> Result<(), GateError> {
        self.within(found, |mut locked| {
            self.must_be_meant(&found.id, locked.ledger.position.seq)?;
            let now = Now {
                position: Some(&locked.ledger.position),
                definition: None,
                tree: &|| self.tree(found),
            };
            now.must_be_signed(&found.id, event)?;
            let document = change(&mut locked, Timestamp::now())?;
            let mut line = self.line_in_place(found, event, answer)?;
            if let Change::Instead(bytes) = &document {
                line.after = digest(bytes);
            }
            let mut writes = locked.note(line);
            writes.ends = matches!(document, Change::Instead(_));
            writes.document = document;
            Ok(Then::Write(writes, ()))
        })?;
        Ok(())
    }

    /// A line about an event that leaves the document as it is.
    pub(super) fn line_in_place(
        &self,
        found: &Found,
        event: &Event,
        answer: &Answer,
    ) -> Result<Line, GateError> {
        let stored = self.home().get(&found.place)?;
        let before = digest(&stored.map(|stored| stored.bytes).unwrap_or_default());
        let (answer, after) = (answer.clone(), before.clone());
        Ok(Line { answer, before, after, ..line_about(event.clone(), Timestamp::now()) })
    }
}

/// Why somebody may not ask for an action at all; none where he may.
fn refused(workflow: &Workflow, run: &RunId, event: &Event) -> Option<Answer> {
    let action = workflow.action(&event.name)?;
    let (name, command, actor) = (&action.name, &action.command, event.actor);
    let own = format!("phasegate {} {command} {}", workflow.name, run.name);
    let way = format!("a person can run `{own}");
    if action.people_only() && actor != Actor::Human {
        let reason = format!("`{name}` is for people: {way}` in a terminal");
        return Some(Answer::deny_as("needs_human", reason));
    }
    if !action.is_for(actor) {
        let by: Vec<String> = action.by.iter().map(ToString::to_string).collect();
        let reason = format!("`{name}` is for {}, and this caller is {actor}", by.join(" or "));
        return Some(Answer::deny_as("not_permitted", reason));
    }
    if action.signed && event.signed.is_none() {
        let reason = format!("`{name}` must be signed: {way}`, which signs it");
        return Some(Answer::deny_as("needs_signature", reason));
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
