//! Whose run it is: a session owns a run by a lease, which it renews by being heard of.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use phasegate_clients::Quirk;
use phasegate_engine::answer::Answer;
use phasegate_engine::step::{Actor, Event};

use super::standing::{StandingGate, is_for};
use super::transaction::{Then, line_about};
use super::{Found, Gate, GateError, Runs};
use crate::bindings;
use crate::git;
use crate::ledger::{Ledger, Owner};
use crate::workspace::place::Place;
use crate::world::ClientReport;

/// The event of a line that says what the second witness knows.
const TAMPERED: &str = "tampered";

/// How long ago a folder may have been changed that is taken for what a session works on.
const RECENTLY: SignedDuration = SignedDuration::from_hours(24);

/// How many folders may be meant: the latest ones, of which most have ended.
const MAX_GUESSED: usize = 16;

/// How much of a block's reason a note repeats.
const MAX_REASON: usize = 4_000;

/// The event that tells of a prompt: a person has said something.
const PROMPT: &str = "user-prompt-submit";

/// What a run is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Own,
    /// It never was anybody's, or was given up.
    Free,
    /// Its session is gone, since then.
    Left(Timestamp),
    Foreign,
}

/// What a client tells of a session, beside its stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It began, or goes on with a shorter memory.
    Started,
    /// It is at work.
    Alive,
    /// It is over.
    Ended,
}

pub(super) fn standing(ledger: &Ledger, session: Option<&str>, now: Timestamp) -> Standing {
    let Some(session) = session else { return Standing::Free };
    match (&ledger.session.owner, &ledger.session.former) {
        (Some(owner), _) if owner.session == session => Standing::Own,
        (Some(owner), _) if owner.is_held(now) => Standing::Foreign,
        // One that says it was heard of tomorrow says nothing.
        (Some(owner), _) if owner.seen > now => Standing::Left(Timestamp::UNIX_EPOCH),
        (Some(owner), _) => Standing::Left(owner.seen),
        (None, Some(former)) if former.session == session => Standing::Own,
        (None, Some(former)) => Standing::Left(former.seen),
        (None, None) => Standing::Free,
    }
}

/// What a session has not been told yet of a run that it has lost.
fn lost(run: &Found, session: Option<&str>) -> Option<String> {
    let (id, ledger) = (&run.id, &run.ledger.session);
    let owner = ledger.owner.as_ref().map(|owner| owner.session.as_str());
    if let Some(cancelled) = ledger.cancelled.as_ref().filter(|it| !it.told) {
        let concerned = session.is_none() || owner.is_none() || owner == session;
        let from = if cancelled.by == Actor::Human { "a terminal" } else { cancelled.from() };
        let why = cancelled.reason.as_deref().unwrap_or("no reason was given");
        return concerned.then(|| format!("Run {id} was cancelled from {from}: {why}"));
    }
    let former =
        ledger.former.as_ref().filter(|former| Some(former.session.as_str()) == session)?;
    let owner = owner.filter(|owner| *owner != former.session)?;
    Some(format!("Run {id} was given to session {owner} and no longer holds this one."))
}

/// What a run is to a session. That of a standing gate is the session's that it is named after, and nobody
/// else's.
fn standing_of(run: &Found, session: Option<&str>, now: Timestamp) -> Standing {
    match &run.ledger.session.stands {
        Some(_) if is_for(run, session) => Standing::Own,
        Some(_) => Standing::Foreign,
        None => standing(&run.ledger, session, now),
    }
}

impl Runs<'_> {
    /// What a run is to a session now.
    pub fn standing_of(&self, run: &Found, session: Option<&str>) -> Standing {
        standing_of(run, session, Timestamp::now())
    }

    /// The open runs that may answer a session, in the order in which they do: its own first, then
    /// the free runs, oldest first.
    pub fn runs_of(&self, session: Option<&str>) -> (Vec<(Found, Standing)>, Vec<String>) {
        let (runs, faults) = self.open_runs();
        (self.in_order(runs, session), faults)
    }

    pub(super) fn in_order(
        &self,
        runs: Vec<Found>,
        session: Option<&str>,
    ) -> Vec<(Found, Standing)> {
        let now = Timestamp::now();
        let open = runs.into_iter().filter(|run| run.is_open(&self.home()));
        let runs = open.map(|run| {
            let standing = standing_of(&run, session, now);
            (run, standing)
        });
        let runs = runs.map(|(run, standing)| match standing {
            Standing::Free if self.came_with_checkout(&run) => (run, Standing::Foreign),
            Standing::Left(since) if !self.may_take(session, since) => (run, Standing::Foreign),
            standing => (run, standing),
        });
        let (folders, mut runs): (Vec<_>, Vec<_>) = runs.partition(|(run, _)| run.presumed);
        runs.retain(|(_, standing)| *standing != Standing::Foreign);
        runs.extend(self.meant(folders, now));
        runs.sort_by_key(|(_, standing)| *standing != Standing::Own);
        runs
    }

    /// Of folders that are runs, those of the session; and the one that was changed last, if it is
    /// nobody's and was changed lately. Behind it come some others like it, in case it has ended.
    fn meant(&self, folders: Vec<(Found, Standing)>, now: Timestamp) -> Vec<(Found, Standing)> {
        let places: Vec<&str> = folders.iter().map(|(run, _)| &*run.place).collect();
        let order = self.workspace.latest_first(&places);
        let (mut own, mut guessed, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        let mut folders: Vec<Option<_>> = folders.into_iter().map(Some).collect();
        for (run, standing) in order.into_iter().filter_map(|index| folders[index].take()) {
            let workflow = run.id.workflow.clone();
            match standing {
                Standing::Own => {
                    settled.push(workflow);
                    own.push((run, standing));
                }
                Standing::Foreign => settled.push(workflow),
                Standing::Free | Standing::Left(_) if settled.contains(&workflow) => {}
                Standing::Free | Standing::Left(_) => match self.workspace.changed_at(&run.place) {
                    Some(at)
                        if now.duration_since(at) < RECENTLY && guessed.len() < MAX_GUESSED =>
                    {
                        guessed.push((run, standing));
                    }
                    Some(_) => {
                        self.passed_over(&run);
                        settled.push(workflow);
                    }
                    None => {}
                },
            }
        }
        own.sort_by_key(|(run, _)| run.ledger.started_at);
        own.extend(guessed);
        own
    }

    /// Notes a run in which something has happened, and which is not asked because nobody has touched it for
    /// long. One that ended needs no word.
    fn passed_over(&self, run: &Found) {
        if run.ledger.position.seq > 0 && self.is_working(run) {
            self.untouched.borrow_mut().push(run.id.clone());
        }
    }

    /// Whether a session takes a run whose own session has been gone since then: one that began after that,
    /// and has changed something. Who was already at work then, or only asks something, is left alone.
    fn may_take(&self, session: Option<&str>, since: Timestamp) -> bool {
        let Some(bound) = session.and_then(bindings::of) else { return true };
        let site = &self.project.site;
        bound.began > since && (git::top(site).is_none() || git::changed_since(site, bound.began))
    }

    /// Whether nothing has happened in a run here, and its document is what git has checked out: it may be
    /// anybody's, of long ago. One that a tool has written is not like that.
    pub(super) fn came_with_checkout(&self, run: &Found) -> bool {
        let folder = run.place.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let place = if run.presumed { folder } else { &run.place };
        run.ledger.position.seq == 0
            && !Place::of(&run.place).is_store()
            && self.is_in_git()
            && git::is_as_committed(&self.project.root, place)
    }

    /// Where a run stands, told to an agent that may have forgotten it.
    fn position(
        &self,
        run: &Found,
        standing: Standing,
        heard: &Event,
        told: &ClientReport,
    ) -> String {
        let report = self.report(run);
        let mut note = match standing {
            Standing::Own => format!("This session works on run {}", run.id),
            Standing::Left(_) => format!(
                "Run {0} is open, and its session is gone: this session takes it when it stops after it has \
                 changed something (`phasegate adopt {0}` takes it at once)",
                run.id
            ),
            _ => format!("Run {} is open, and this session takes it when it stops", run.id),
        };
        let _ = write!(note, ". It is {} in phase `{}`", report.condition, report.phase);
        if let Some(about) = &report.about {
            let _ = write!(note, ": {}", about.trim_end_matches('.'));
        }
        let _ = write!(note, ". Its state document is {}.", run.place);
        if let Some(told) = self.told(run, &report) {
            let _ = write!(note, " At the last stop: {told}");
        }
        let own = self.workflow_of(run).ok().and_then(|workflow| {
            let text = workflow.note?;
            Some(self.show_told(&workflow, run, text, heard, told))
        });
        if let Some(own) = own {
            let _ = match own {
                Ok(own) => write!(note, "\n\n{}", own.trim()),
                Err(error) => write!(note, " (Its own note failed: {error})"),
            };
            return note;
        }
        if let Some(Answer::Block { reason }) =
            run.ledger.session.last.as_ref().map(|last| &last.answer)
        {
            let answer = Answer::Block { reason: reason.clone() }.shortened(MAX_REASON);
            let _ = write!(note, " What it last asked for:\n\n{}", answer.text().unwrap_or(""));
        }
        note
    }
}

impl Gate<'_> {
    /// How a session lost runs that it had, told once: one was cancelled, or given to another session.
    pub(super) fn lost(&self, runs: &[Found], session: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        for run in runs {
            let Some(note) = lost(run, session) else { continue };
            let told = self.within(run, |mut locked| {
                if let Some(cancelled) = locked.ledger.session.cancelled.as_mut() {
                    cancelled.told = true;
                }
                if locked.ledger.session.owner.is_some() {
                    locked.ledger.session.former = None;
                }
                Ok(Then::Write(locked.keep(), ()))
            });
            notes.push(told.map_or_else(|error| format!("run {}: {error}", run.id), |_| note));
        }
        notes
    }

    /// What the second witness says of runs that seem to be over or somebody else's, and so are not asked. It is
    /// said once.
    pub(super) fn attested(&self, runs: &[Found], session: Option<&str>) -> Vec<String> {
        let now = Timestamp::now();
        let is_asked = |run: &Found| {
            run.is_open(&self.home()) && standing(&run.ledger, session, now) != Standing::Foreign
        };
        let mut notes = Vec::new();
        for run in runs.iter().filter(|run| !is_asked(run)) {
            if self.contradiction(run).is_none() {
                continue;
            }
            let told = self.within(run, |locked| {
                let event = Event::new(TAMPERED, Actor::Engine);
                Ok(if locked.is_contradicted {
                    Then::Write(locked.note(line_about(event, Timestamp::now())), ())
                } else {
                    Then::Nothing(())
                })
            });
            match told {
                Ok(((), written)) => notes.extend(written.notes),
                Err(error) => notes.push(format!("run {}: {error}", run.id)),
            }
        }
        notes
    }

    /// Takes note of a session. What comes back is what its agent should know, and what failed.
    pub fn sign(
        &self,
        session: &str,
        sign: Sign,
        heard: &Event,
        told: &ClientReport,
    ) -> (Vec<String>, Vec<String>) {
        let (mut runs, mut faults) = self.find_open();
        faults.extend(self.settle_all(&mut runs));
        if let Some(shell) = told.shell() {
            let own = self.in_order(runs, Some(session)).into_iter();
            let own =
                own.filter(|(run, standing)| *standing == Standing::Own && self.is_working(run));
            let mut notes = Vec::new();
            for (run, _) in own {
                match self.overhear_sign(&run, &heard.name, session, shell) {
                    Ok(said) => notes.extend(said),
                    Err(error) => faults.push(format!("run {}: {error}", run.id)),
                }
            }
            return (notes, faults);
        }
        faults.extend(self.note_baseline(session, told).filter(|_| sign != Sign::Ended));
        let mut notes = Vec::new();
        if sign == Sign::Started {
            self.end_silent(&runs, heard);
            let gates = self.standing_gates().into_iter().filter(StandingGate::stands);
            notes.extend(gates.map(|gate| gate.sentence()));
        }
        let (mut runs, aside) = match sign {
            // A session that begins has changed nothing yet, and is told of all that it may take.
            Sign::Started => self.offered(runs, session),
            _ => (self.in_order(runs, Some(session)), Vec::new()),
        };
        runs.sort_by_key(|(_, standing)| *standing != Standing::Own);
        for run in aside.iter().filter(|run| self.is_working(run)) {
            notes.push(format!(
                "Run {0} came with this checkout, so it holds no session; `phasegate adopt {0}` activates it.",
                run.id
            ));
        }
        let mut taken = false;
        for (run, standing) in &runs {
            if !self.is_working(run) {
                continue;
            }
            let noted = match (standing, sign) {
                (Standing::Own, Sign::Ended) => self.leave(run, heard, session).map(|()| None),
                (Standing::Own, _) => self.hear_own(run, sign, heard, told),
                _ => Ok(None),
            };
            let answer = noted.unwrap_or_else(|error| {
                faults.push(format!("run {}: {error}", run.id));
                None
            });
            // Of the free runs, the session would take the first, and that only if it has none.
            let concerned = *standing == Standing::Own || !taken;
            if sign == Sign::Started && concerned {
                // An answer that is told now waits for nobody.
                let now = answer.as_ref().map(|_| self.refreshed(run));
                notes.push(self.position(now.as_ref().unwrap_or(run), *standing, heard, told));
            }
            notes.extend(answer);
            taken = true;
        }
        self.keep_documents();
        (notes, faults)
    }

    /// Hears a sign of the session that a run is of; a person's answer that the agent is to be told.
    fn hear_own(
        &self,
        run: &Found,
        sign: Sign,
        heard: &Event,
        told: &ClientReport,
    ) -> Result<Option<String>, GateError> {
        let is_prompt = heard.name == PROMPT;
        let is_passed_on = match sign {
            Sign::Started => told.client.has(Quirk::TakesContext),
            _ => is_prompt && told.client.has(Quirk::TakesContextAtPrompts),
        };
        self.renew(run, heard.session.as_deref().unwrap_or_default(), is_prompt)?;
        let answer = self.hear_of_question(run, heard, is_prompt, is_passed_on)?;
        self.hear(run, heard, told)?;
        Ok(answer)
    }

    /// The runs that a newly started session may answer for, and the runs that came with the checkout.
    fn offered(&self, runs: Vec<Found>, session: &str) -> (Vec<(Found, Standing)>, Vec<Found>) {
        let now = Timestamp::now();
        let is_old = |run: &Found| self.came_with_checkout(run) && !run.presumed;
        let (aside, runs): (Vec<Found>, Vec<Found>) = runs.into_iter().partition(is_old);
        let left = |run: &Found| matches!(standing_of(run, Some(session), now), Standing::Left(_));
        let (left, runs): (Vec<Found>, Vec<Found>) = runs.into_iter().partition(left);
        let left = left.into_iter().filter(|run| run.is_open(&self.home()));
        let mut offered = self.in_order(runs, Some(session));
        offered.extend(left.map(|run| (run, Standing::Left(now))));
        (offered, aside)
    }

    /// Notes that the session of a run is gone. The same session, resumed, has it back.
    fn leave(&self, run: &Found, event: &Event, session: &str) -> Result<(), GateError> {
        if run.ledger.session.stands.is_some() {
            return self.end_standing(run, event);
        }
        self.note(run, event, |run, seen| {
            run.ledger.session.owner = None;
            run.ledger.session.former = Some(Owner { session: session.to_string(), seen });
            Ok(())
        })
    }

    /// Gives a run that a folder makes to the session that asks for it, if it is nobody's. Where it is
    /// somebody's, or cancelled, that is told.
    pub fn claim(&self, found: &Found, event: &Event) -> Result<Option<String>, GateError> {
        if found.ledger.session.cancelled.is_some() {
            let why = format!(
                "run {} is cancelled: it holds no stop, and nothing is started for it",
                found.id
            );
            return Ok(Some(why));
        }
        let Some(session) = event.session.as_deref().filter(|_| found.presumed) else {
            return Ok(None);
        };
        // A run that is over is nobody's.
        if !self.is_working(found) {
            return Ok(None);
        }
        let now = Timestamp::now();
        let mut held = standing(&found.ledger, Some(session), now);
        let is_free = |held: Standing| matches!(held, Standing::Free | Standing::Left(_));
        if is_free(held) {
            // Under the lock: somebody else may have been faster.
            self.note(found, event, |run, seen| {
                held = standing(&run.ledger, Some(session), now);
                if is_free(held) {
                    run.ledger.session.owner = Some(Owner { session: session.to_string(), seen });
                }
                Ok(())
            })?;
        }
        Ok((held == Standing::Foreign).then(|| {
            format!(
                "run {0} belongs to another session, so it does not answer the stops of this one; \
                 `phasegate adopt {0}` takes it over",
                found.id
            )
        }))
    }

    /// Puts what a client tells to the rules, if they are about it.
    fn hear(&self, run: &Found, heard: &Event, told: &ClientReport) -> Result<(), GateError> {
        if self.workflow_of(run)?.hears(&heard.name) {
            self.act_on(run, heard, told, false)?;
        }
        Ok(())
    }

    /// A sign of life changes the ledger alone: it decides nothing, so the journal has no line.
    fn renew(&self, run: &Found, session: &str, is_prompt: bool) -> Result<(), GateError> {
        self.within(run, |mut locked| {
            let now = Timestamp::now();
            let stands = locked.ledger.session.stands.as_mut();
            let is_own = stands.is_some();
            if let Some(stands) = stands.filter(|_| is_prompt) {
                stands.prompted = Some(now);
            }
            if !is_own && standing(&locked.ledger, Some(session), now) != Standing::Own {
                return Ok(Then::Nothing(()));
            }
            locked.ledger.session.owner = Some(Owner { session: session.to_string(), seen: now });
            locked.ledger.session.fired = Some(now);
            Ok(Then::Write(locked.keep(), ()))
        })?;
        Ok(())
    }
}
