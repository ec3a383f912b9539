//! Gates that stand: workflows that hold every session which changes files, without being started.
//!
//! Nothing else is special about them. A standing gate has an ordinary run for each session, called after it,
//! which begins at the first stop that it is about: the tree differs from the session's baseline, and the
//! session has used a tool since that can change files. Done, the run keeps the tree as its next baseline.

use std::cell::OnceCell;

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::workflow::{Does, Workflow};

use super::create::{Beginning, Created};
use super::transaction::{Change, Open};
use super::{Found, Gate, GateError, Runs};
use crate::baseline::Baseline;
use crate::bindings;
use crate::catalog::Entry;
use crate::ledger::{Ledger, Paused, Session, Stands};
use crate::paused;
use crate::run::{RunId, plain_name};
use crate::trust;
use crate::variables;
use crate::words;
use crate::world::ClientReport;

/// The event by which a run begins whose workflow declares no action for that.
const START: &str = "start";

/// After how long without a sign the run of a session is ended that never said that it was over.
const MAX_SILENCE: SignedDuration = SignedDuration::from_hours(24);

/// A workflow that is to hold sessions without being started.
#[derive(Clone, Debug)]
pub struct StandingGate {
    pub name: String,
    pub about: String,
    pub state: GateState,
}

/// Whether such a workflow does hold sessions.
#[derive(Clone, Debug)]
pub enum GateState {
    Stands,
    /// Nobody has consented to it as it is.
    Untrusted,
    /// A person has switched it off for the project.
    Paused(Paused),
    /// It cannot stand, and why.
    Unusable(String),
}

impl StandingGate {
    /// Whether it holds sessions.
    pub fn stands(&self) -> bool {
        matches!(self.state, GateState::Stands)
    }

    /// Whether a person has switched it off for the project.
    pub fn is_paused(&self) -> bool {
        matches!(self.state, GateState::Paused(_))
    }

    /// That, in a few words.
    pub fn in_short(&self) -> String {
        let state = match &self.state {
            GateState::Stands => "stands",
            GateState::Untrusted => "does not stand: you have not consented",
            GateState::Paused(_) => "is paused",
            GateState::Unusable(_) => "cannot stand",
        };
        format!("gate {} {state}", self.name)
    }

    /// That, in a sentence for people.
    pub fn sentence(&self) -> String {
        let name = &self.name;
        match &self.state {
            GateState::Stands => words::stands(name, &self.about),
            GateState::Untrusted => words::stands_untrusted(name),
            GateState::Paused(paused) => words::stands_paused(name, paused.reason.as_deref()),
            GateState::Unusable(why) => words::cannot_stand(name, why),
        }
    }
}

/// Whether the run of a standing gate is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    No,
    Yes,
    /// The tree has changed, and the client does not tell whether the session has used a tool.
    ByTheTreeAlone,
}

/// A stop as standing gates see it: the tree is looked at once, and only if one of them asks.
pub(super) struct Sight<'s> {
    session: &'s str,
    told: &'s ClientReport,
    tree: OnceCell<Result<Baseline, String>>,
}

impl Sight<'_> {
    /// The tree as it was when the stop came, before anything was checked: a change that is made while a
    /// check runs is one of the next stop.
    pub(super) fn tree(&self, gate: &Runs) -> Result<&Baseline, String> {
        let tree = self.tree.get_or_init(|| Baseline::now(gate.project));
        tree.as_ref().map_err(Clone::clone)
    }
}

impl Runs<'_> {
    /// The workflows that are to hold sessions here without being started, and whether they do.
    pub fn standing_gates(&self) -> Vec<StandingGate> {
        let gates = self.standing_entries().map(|entry| StandingGate {
            name: entry.name.clone(),
            about: entry.head.as_ref().map(|head| head.about.clone()).unwrap_or_default(),
            state: self.gate_state(entry),
        });
        gates.collect()
    }

    /// Whether a workflow is to hold sessions without being started, and nobody has consented to that.
    pub fn lacks_consent_to_stand(&self, name: &str) -> bool {
        let entry = self.standing_entries().find(|entry| entry.name == name);
        entry.is_some_and(|entry| !self.may_stand(entry))
    }

    fn standing_entries(&self) -> impl Iterator<Item = &Entry> {
        let config = &self.project.config;
        self.project.workflows.iter().filter(|entry| {
            entry.stands(config) && config.enabled(&entry.name) && !entry.is_disabled()
        })
    }

    fn gate_state(&self, entry: &Entry) -> GateState {
        match self.workflow(&entry.name).map(|workflow| workflow.why_not_standing()) {
            Err(error) => GateState::Unusable(error.to_string()),
            Ok(Some(why)) => GateState::Unusable(why),
            Ok(None) if !self.may_stand(entry) => GateState::Untrusted,
            Ok(None) => match paused::of(&self.project.root, &entry.name) {
                Some(paused) => GateState::Paused(paused),
                None => GateState::Stands,
            },
        }
    }

    /// Whether a person has consented to it as it is now. A clone must not hold anybody by what it brings
    /// along, so this is needed also where nothing is run.
    fn may_stand(&self, entry: &Entry) -> bool {
        let (root, config) = (&self.project.root, &self.project.config);
        let Ok(identity) = entry.standing_identity(config) else { return false };
        // The user's own workflow is made to stand by the project: that is not the user's word.
        if config.stands_by_project(&entry.name) {
            return trust::is_consented(root, &identity);
        }
        trust::is_trusted(root, &entry.origin, &identity)
    }

    /// Whether only the configuration of the project makes something stand.
    pub(super) fn stands_by_configuration(&self) -> bool {
        self.standing_entries().any(|entry| self.project.config.stands_by_project(&entry.name))
    }

    /// Which gates hold nobody although they are to stand, in sentences for people: a pause is easily forgotten.
    pub(super) fn fallen_gates(&self) -> Vec<String> {
        let gates = self.standing_gates().into_iter();
        gates.filter(|gate| !gate.stands()).map(|gate| gate.sentence()).collect()
    }

    /// Whether anything stands here for the sessions of this process. Those of our own jobs are exempt.
    fn is_guarded(&self) -> bool {
        self.standing_entries().next().is_some() && std::env::var_os(variables::TOKEN).is_none()
    }

    /// The run of a standing gate for a session, whether or not it has begun.
    fn run_for(&self, entry: &Entry, session: &str) -> Option<Found> {
        let id = RunId { workflow: entry.name.clone(), name: plain_name(session) };
        let place = id.place(&entry.document(&self.project.config)?);
        Some(self.refreshed(&Found::new(id, place)))
    }

    /// The run of a standing gate by its whole name, whether or not it has begun, if there is such a session.
    pub fn standing_run(&self, name: &str) -> Option<Found> {
        let id = RunId::try_from(name.to_string()).ok()?;
        let entry = self.standing_entries().find(|entry| entry.name == id.workflow)?;
        bindings::of(&id.name)?;
        self.run_for(entry, &id.name)
    }
}

/// Whether a run is that of a standing gate for a session.
pub(super) fn is_for(run: &Found, session: Option<&str>) -> bool {
    session.is_some_and(|session| plain_name(session) == run.id.name)
}

impl Gate<'_> {
    /// The stop as standing gates see it; none where none can hold the session.
    pub(super) fn sight<'s>(
        &self,
        session: Option<&'s str>,
        told: &'s ClientReport,
    ) -> Option<Sight<'s>> {
        let session = session?;
        self.is_guarded().then(|| Sight { session, told, tree: OnceCell::new() })
    }

    /// Remembers the tree as it was when a session began, where a gate stands. Returns what
    /// failed. A tree that cannot be kept has not failed where the transcript tells what is needed at the stop.
    pub(super) fn note_baseline(&self, session: &str, told: &ClientReport) -> Option<String> {
        if !self.is_guarded() {
            return None;
        }
        match self.session_baseline(session, told) {
            Ok((_, unkept)) => unkept.filter(|_| told.transcript.is_none()),
            Err(why) => Some(why),
        }
    }

    /// The tree as it was when a session began, and why it could not be kept, where it tells nothing for that reason. If
    /// nobody has looked at it then, it is told from what has changed since: since the session began, or, where nothing
    /// is remembered of that (a home folder that cannot be written, or is another one), since a person last spoke.
    /// Before that the session has stopped, and was asked.
    fn session_baseline(
        &self,
        session: &str,
        told: &ClientReport,
    ) -> Result<(Baseline, Option<String>), String> {
        let bound = bindings::of(session);
        let site = &self.project.site;
        if let Some(known) = bound.as_ref().and_then(|bound| bound.baseline(site)) {
            return Ok((known.clone(), None));
        }
        let began = bound.map(|bound| bound.began).or_else(|| told.prompted_at());
        let moment = began.unwrap_or_else(Timestamp::now);
        let baseline =
            Baseline::since(self.project, moment).map_err(|why| words::no_baseline(&why))?;
        let stand = self.standing_gates().into_iter().filter(StandingGate::stands);
        let stand: Vec<String> = stand.map(|gate| gate.name).collect();
        let kept = bindings::remember(session, &baseline, &self.project.root, &stand);
        let unkept = kept.err().filter(|_| began.is_none());
        Ok((baseline, unkept.map(|error| words::no_baseline(&error.to_string()))))
    }

    /// Which gates stood when the session began and do not any more, told once: an agent that changes a
    /// definition must not switch it off in silence.
    pub(super) fn fallen_since(&self, session: &str) -> Vec<String> {
        let gates = bindings::of(session).map(|bound| bound.gates).unwrap_or_default();
        let here = gates.into_iter().filter(|(root, _)| *root == self.project.root);
        let is_gone = |name: &String| self.standing_entries().all(|entry| entry.name != *name);
        let gone: Vec<String> = here.map(|(_, name)| name).filter(is_gone).collect();
        for name in &gone {
            bindings::forget_gate(session, &self.project.root, name);
        }
        gone.iter().map(|name| words::stands_no_longer(name)).collect()
    }

    /// The answer of a run that does not hold its session now: a person has parked it or switched its gate
    /// off, or the gate has given up and nobody has spoken since.
    pub(super) fn held_off(&self, open: &Open) -> Option<Answer> {
        let (id, ledger) = (&open.run.found.id, &open.run.ledger);
        if ledger.session.paused.is_some() {
            let why = format!("Run {id} is paused. `phasegate resume {id}` resumes it.");
            return Some(Answer::waiting(Until::Human, why));
        }
        ledger.session.stands.as_ref()?;
        if let Some(paused) = paused::of(&self.project.root, &id.workflow) {
            let why = words::stands_paused(&id.workflow, paused.reason.as_deref());
            return Some(Answer::waiting(Until::Human, why));
        }
        let last = ledger.session.last.as_ref().filter(|_| ledger.has_given_up());
        last.map(|last| last.answer.clone())
    }

    /// Begins the runs that are due at a stop, one by one, each behind its gate's name. Runs that were asked
    /// already are passed over.
    pub(super) fn due<'r>(
        &'r self,
        sight: &'r Sight,
        asked: &'r [RunId],
    ) -> impl Iterator<Item = (String, Result<Found, GateError>)> + 'r {
        self.standing_entries().filter_map(move |entry| {
            let run = self.run_for(entry, sight.session)?;
            if asked.contains(&run.id) {
                return None;
            }
            let begun = self.begin_due(entry, &run, sight).transpose()?;
            Some((entry.name.clone(), begun))
        })
    }

    /// Begins the run of the first gate that is due for a session whose agent acts right now: where the tree has
    /// changed, it may have changed it.
    pub(super) fn begun_for(&self, session: Option<&str>) -> Result<Option<Found>, GateError> {
        let told = ClientReport::default();
        let Some(sight) = self.sight(session, &told) else { return Ok(None) };
        self.due(&sight, &[]).next().map(|(_, begun)| begun).transpose()
    }

    fn begin_due(
        &self,
        entry: &Entry,
        run: &Found,
        sight: &Sight,
    ) -> Result<Option<Found>, GateError> {
        if run.ledger.session.cancelled.is_some() {
            return Ok(None);
        }
        let baseline = self.baseline_of(run, sight).map_err(GateError::Other)?;
        let due = self.is_due(&baseline, sight).map_err(GateError::Other)?;
        if due == Due::No {
            return Ok(None);
        }
        let is_off = paused::of(&self.project.root, &entry.name).is_some();
        if is_off || !self.may_stand(entry) {
            return Ok(None);
        }
        let workflow = self.workflow(&entry.name)?;
        if workflow.why_not_standing().is_some() {
            return Ok(None);
        }
        let event = beginning_event(&workflow, sight.session);
        let text = workflow.plain_start().and_then(|action| match action.does {
            Does::Create { document, .. } => Some(document),
            _ => None,
        });
        let stands = Some(Stands { baseline: Some(baseline), ..Stands::default() });
        let replaces = self.home().version(&run.place)?;
        let beginning = Beginning { workflow: &workflow, text, event: &event, replaces, stands };
        // Where another process was faster, the run is there, and is asked.
        let created = self.begin_at(run, &beginning)?;
        let mut begun = self.refreshed(run);
        if matches!(created, Created::Begun) && due == Due::ByTheTreeAlone {
            let client = sight.told.client.title();
            begun.remark = Some(words::tree_alone(&run.id.to_string(), client));
        }
        Ok(Some(begun))
    }

    /// The tree that the run of a standing gate is compared with: the one that it was done with last, or the one
    /// with which the session began.
    fn baseline_of(&self, run: &Found, sight: &Sight) -> Result<Baseline, String> {
        match run.ledger.session.stands.as_ref().and_then(|it| it.baseline.clone()) {
            Some(kept) if kept.site == self.project.site => Ok(kept),
            Some(kept) => Baseline::since(self.project, kept.at),
            None => match self.session_baseline(sight.session, sight.told)? {
                (baseline, None) => Ok(baseline),
                (_, Some(why)) => Err(why),
            },
        }
    }

    /// Whether the run of a standing gate is due: the tree is not that of the baseline, and the session used
    /// a tool since that can change files.
    fn is_due(&self, baseline: &Baseline, sight: &Sight) -> Result<Due, String> {
        if !baseline.differs(sight.tree(self)?) {
            return Ok(Due::No);
        }
        Ok(match sight.told.wrote_since(baseline.at) {
            Some(false) => Due::No,
            Some(true) => Due::Yes,
            None => Due::ByTheTreeAlone,
        })
    }

    /// Ends the run of a standing gate with its session. Resumed, the session has a new one where it is due.
    pub(super) fn end_standing(&self, run: &Found, event: &Event) -> Result<(), GateError> {
        let version = self.home().version(&run.place)?;
        self.note_saying(run, event, &Answer::accepted(), |_, _| {
            Ok(Change::Remove(version.clone()))
        })
    }

    /// Ends the runs of sessions that are gone without a word, so that they are not looked at forever.
    pub(super) fn end_silent(&self, runs: &[Found], event: &Event) {
        let now = Timestamp::now();
        let is_silent = |ledger: &Ledger| {
            ledger.session.fired.is_none_or(|fired| now.duration_since(fired) > MAX_SILENCE)
        };
        let left = runs.iter().filter(|run| run.ledger.session.stands.is_some());
        for run in
            left.filter(|run| is_silent(&run.ledger) && !is_for(run, event.session.as_deref()))
        {
            // What cannot be ended now is ended by the next session.
            let _ = self.end_standing(run, event);
        }
    }
}

/// Whether the run of a standing gate, found open, is not to be asked as it is: it was done with, or has given
/// up and a person has spoken since. Then it may begin again.
pub(super) fn rests(run: &Found, told: &ClientReport, after_block: Option<bool>) -> bool {
    let Some(stands) = &run.ledger.session.stands else { return false };
    let last = run.ledger.session.last.as_ref();
    let since = last.map_or(Timestamp::UNIX_EPOCH, |last| last.at);
    let heard = || stands.prompted.is_some_and(|at| at > since);
    // A client that writes nothing down still tells that a stop does not follow a block.
    let seen = || told.prompted_since(since).unwrap_or(after_block == Some(false));
    run.ledger.outcome() == Some(Outcome::Done) || run.ledger.has_given_up() && (heard() || seen())
}

/// Keeps the tree with which the run of a standing gate is done, as its next baseline: the one of the stop
/// that it was asked about last, also where a job has brought it to its end since.
pub(super) fn note_done(session: &mut Session) {
    if let Some(stands) = &mut session.stands {
        stands.baseline = stands.seen.take().or(stands.baseline.take());
    }
}

/// The event by which a run begins without being told anything.
fn beginning_event(workflow: &Workflow, session: &str) -> Event {
    let action = workflow.plain_start();
    let given = action.iter().flat_map(|action| &action.params);
    let given = given.map(|param| {
        let value = param.default.clone().unwrap_or(Json::Null);
        (param.name.clone(), value)
    });
    let name = action.map_or(START, |action| action.name.as_str());
    let session = Some(session.to_string());
    Event { session, params: params(given), ..Event::new(name, Actor::Engine) }
}
