//! Whose run it is: a session owns a run by a lease, which it renews by being heard of.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::Answer;
use phasegate_engine::step::Event;

use super::transaction::Then;
use super::{Found, Gate, GateError, Runs};
use crate::ledger::{Ledger, Owner};
use crate::world::ClientReport;

/// How long an owner may be silent before another session may take its run. After so long without a
/// sign of life, a hook may be missing.
pub const LEASE: SignedDuration = SignedDuration::from_mins(30);

/// How far clocks may be apart.
const MAX_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// How long ago a folder may have been changed that is taken for what a session works on.
const RECENTLY: SignedDuration = SignedDuration::from_hours(24);

/// How many folders may be meant: the latest ones, of which most have ended.
const MAX_GUESSED: usize = 16;

/// How much of a block's reason a note repeats.
const MAX_REASON: usize = 4_000;

/// What a run is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Own,
    Free,
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
    match (&ledger.session.owner, session) {
        (None, _) | (_, None) => Standing::Free,
        (Some(owner), Some(session)) if owner.session == session => Standing::Own,
        (Some(owner), Some(_)) if !is_held(owner, now) => Standing::Free,
        _ => Standing::Foreign,
    }
}

/// Whether the lease of an owner holds. One that says it was heard of tomorrow, as a clock that was set back
/// or somebody's edit leaves it, would hold until then and longer.
fn is_held(owner: &Owner, now: Timestamp) -> bool {
    let silent = now.duration_since(owner.seen);
    silent <= LEASE && silent >= -MAX_AHEAD
}

impl Runs<'_> {
    /// The open runs that may answer a session, in the order in which they do: its own first, then
    /// those that are free, the oldest first.
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
        let open = runs.into_iter().filter(|run| run.is_open(&self.workspace));
        let runs = open.map(|run| {
            let standing = standing(&run.ledger, session, now);
            (run, standing)
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
                Standing::Free if settled.contains(&workflow) => {}
                Standing::Free => match self.workspace.changed_at(&run.place) {
                    Some(at)
                        if now.duration_since(at) < RECENTLY && guessed.len() < MAX_GUESSED =>
                    {
                        guessed.push((run, standing));
                    }
                    Some(_) => settled.push(workflow),
                    None => {}
                },
            }
        }
        own.sort_by_key(|(run, _)| run.ledger.started_at);
        own.extend(guessed);
        own
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
            _ => format!("Run {} is open, and this session takes it when it stops", run.id),
        };
        let _ = write!(note, ". It is {} in phase `{}`", report.condition, report.phase);
        if let Some(about) = &report.about {
            let _ = write!(note, ": {}", about.trim_end_matches('.'));
        }
        let _ = write!(note, ". Its state document is {}.", run.place);
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
    /// Runs of a session that were cancelled, not by a person at a terminal, of which the user is told once.
    pub(super) fn untold(&self, runs: &[Found], session: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        for run in runs {
            let owner = run.ledger.session.owner.as_ref().map(|owner| owner.session.as_str());
            let concerned = session.is_none() || owner.is_none() || owner == session;
            let untold = run.ledger.session.cancelled.as_ref().filter(|it| !it.told && concerned);
            let Some(cancelled) = untold else { continue };
            let why = cancelled.reason.as_deref().unwrap_or("no reason was given");
            let told = self.within(run, |mut locked| {
                if let Some(cancelled) = locked.ledger.session.cancelled.as_mut() {
                    cancelled.told = true;
                }
                Ok(Then::Write(locked.keep(), ()))
            });
            match told {
                Ok(_) => notes.push(format!(
                    "Run {} was cancelled from {}: {why}",
                    run.id,
                    cancelled.from()
                )),
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
        let runs = self.in_order(runs, Some(session));
        let mut notes = Vec::new();
        let mut taken = false;
        for (run, standing) in &runs {
            if !self.is_working(run) {
                continue;
            }
            let noted = match (standing, sign) {
                (Standing::Own, Sign::Ended) => self.give(run, heard, None),
                (Standing::Own, _) => {
                    self.renew(run, session).and_then(|()| self.hear(run, heard, told))
                }
                _ => Ok(()),
            };
            if let Err(error) = noted {
                faults.push(format!("run {}: {error}", run.id));
            }
            // Of the free runs, the session would take the first, and that only if it has none.
            let concerned = *standing == Standing::Own || !taken;
            if sign == Sign::Started && concerned {
                notes.push(self.position(run, *standing, heard, told));
            }
            taken = true;
        }
        self.keep_documents();
        (notes, faults)
    }

    /// Gives a run that a folder makes to the session that asks for it, if it is nobody's. Where it is
    /// somebody's, that is told.
    pub fn claim(&self, found: &Found, event: &Event) -> Result<Option<String>, GateError> {
        let Some(session) = event.session.as_deref().filter(|_| found.presumed) else {
            return Ok(None);
        };
        let now = Timestamp::now();
        let mut held = standing(&found.ledger, Some(session), now);
        if held == Standing::Free {
            // Under the lock: somebody else may have been faster.
            self.note(found, event, |run, seen| {
                held = standing(&run.ledger, Some(session), now);
                if held == Standing::Free {
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
    fn renew(&self, run: &Found, session: &str) -> Result<(), GateError> {
        self.within(run, |mut locked| {
            let now = Timestamp::now();
            if standing(&locked.ledger, Some(session), now) != Standing::Own {
                return Ok(Then::Nothing(()));
            }
            locked.ledger.session.owner = Some(Owner { session: session.to_string(), seen: now });
            locked.ledger.session.fired = Some(now);
            Ok(Then::Write(locked.keep(), ()))
        })?;
        Ok(())
    }
}
