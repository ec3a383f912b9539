//! Which runs there are, and how they stand.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use phasegate_engine::answer::Outcome;
use phasegate_engine::decide::phase_name;
use phasegate_engine::json::Json;

use super::transaction::Stored;
use super::{Gate, GateError, Runs};
use crate::catalog::Entry;
use crate::condition::Condition;
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::{Key, Store, Version};

/// Up to so many runs, to look at each is as fast as to look up which have ended.
const FEW: usize = 16;

/// A run that was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub id: RunId,
    /// The place of its state document.
    pub place: String,
    pub ledger: Rc<Ledger>,
    /// Which ledger that is.
    pub(super) version: Option<Version>,
    /// A folder makes it a run.
    pub(super) presumed: bool,
    /// Only its folder tells of it: nothing has happened in the run yet.
    pub(super) unheard: bool,
}

impl Found {
    /// A run that is about to begin.
    pub(super) fn new(id: RunId, place: String) -> Found {
        let (ledger, version) = (Rc::default(), None);
        Found { id, place, ledger, version, presumed: false, unheard: false }
    }

    /// Whether the run can still answer, as far as the ledger knows.
    pub(super) fn is_open(&self, store: &dyn Store) -> bool {
        if self.ledger.session.cancelled.is_some() {
            return false;
        }
        if self.ledger.position.removed {
            // Unless somebody has put a document there again.
            let now = store.version(&Key::Document(self.place.clone()));
            return matches!(now, Ok(Some(_)));
        }
        match &self.ledger.position.finished {
            None => true,
            Some(finished) => {
                let now = store.version(&Key::Document(self.place.clone()));
                matches!(now, Ok(Some(version)) if version.0 != *finished)
            }
        }
    }
}

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Report {
    pub phase: String,
    /// What the workflow says about the phase.
    pub about: Option<String>,
    pub condition: Condition,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Runs<'_> {
    /// All runs of the project, the oldest first, and what could not be looked at.
    pub fn runs(&self) -> (Vec<Found>, Vec<String>) {
        let (mut runs, faults) = self.find(false);
        // A folder without a file in it is none.
        runs.retain(|run| !run.unheard || self.store.changed_at(&run.place).is_some());
        (runs, faults)
    }

    /// The runs without those that are known to have ended, as far as that saves time.
    pub(super) fn open_runs(&self) -> (Vec<Found>, Vec<String>) {
        self.find(true)
    }

    fn find(&self, only_open: bool) -> (Vec<Found>, Vec<String>) {
        let mut found: Vec<Found> = Vec::new();
        let mut faults = Vec::new();
        let mut known: BTreeSet<RunId> = self.store.runs().into_iter().collect();
        let none = Rc::new(Ledger::default());
        for entry in &self.project.workflows {
            if !self.project.config.enabled(&entry.name) {
                continue;
            }
            if entry.is_disabled() {
                continue;
            }
            if let Err(error) = &entry.head {
                faults.push(format!("workflow {}: {error}", entry.name));
            }
            let Some(pattern) = entry.document(&self.project.config) else { continue };
            let places = if entry.presumes() {
                self.store.places(&pattern)
            } else {
                self.store.documents(&pattern)
            };
            let places = places.unwrap_or_else(|error| {
                faults.push(format!("workflow {}: {error}", entry.name));
                Vec::new()
            });
            let other = entry.fallback().filter(|place| {
                let version = self.store.version(&Key::Document((*place).to_string()));
                matches!(version, Ok(Some(_)))
            });
            let other = other.map(|place| (RunId::of_fallback(&entry.name), place.to_string()));
            let many = only_open && places.len() > FEW;
            let ids = places.into_iter().filter_map(|place| {
                Some((RunId::of_document(&entry.name, &pattern, &place)?, place))
            });
            for (id, place) in ids.chain(other) {
                if many && self.store.has_ended(&id, &place) {
                    known.remove(&id);
                    continue;
                }
                let unheard = entry.presumes() && !known.contains(&id);
                let (ledger, version) = if unheard { (none.clone(), None) } else { self.peek(&id) };
                let presumed = entry.presumes();
                found.push(Found { id, place, ledger, version, presumed, unheard });
            }
        }
        let disabled = known.iter().filter(|id| !self.project.config.enabled(&id.workflow));
        faults.extend(self.abandoned(disabled));
        // A run whose document or whose definition was removed is still a run: it must not end
        // without a word.
        let mut places: HashMap<&str, &RunId> = HashMap::with_capacity(found.len());
        for run in &found {
            if let Some(other) = places.insert(&run.place, &run.id) {
                let (place, id) = (&run.place, &run.id);
                faults.push(format!("{place} is a document of both {other} and {id}"));
            }
        }
        let heard = found.iter().filter(|run| !run.unheard);
        let listed: HashSet<RunId> = heard.map(|run| run.id.clone()).collect();
        for id in known.iter().filter(|id| !listed.contains(id)) {
            let config = &self.project.config;
            let entry = self.project.workflow(&id.workflow);
            let passed_over =
                !config.enabled(&id.workflow) || entry.is_some_and(Entry::is_disabled);
            if passed_over {
                continue;
            }
            let (ledger, version) = self.peek(id);
            let pattern = entry.and_then(|entry| entry.document(config));
            let place = match pattern {
                _ if !ledger.position.document.is_empty() => ledger.position.document.clone(),
                Some(pattern) => id.place(&pattern),
                None => continue,
            };
            let (presumed, unheard) = (false, false);
            found.push(Found { id: id.clone(), place, ledger, version, presumed, unheard });
        }
        let started = |run: &Found| (run.ledger.started_at.is_none(), run.ledger.started_at);
        found.sort_by(|a, b| started(a).cmp(&started(b)).then_with(|| a.id.cmp(&b.id)));
        (found, faults)
    }

    /// Runs that are open although their workflow was disabled.
    fn abandoned<'r>(&self, ids: impl Iterator<Item = &'r RunId>) -> Vec<String> {
        let open = ids.filter(|id| {
            let (ledger, version) = self.peek(id);
            let (id, place) = ((*id).clone(), ledger.position.document.clone());
            let (presumed, unheard) = (false, false);
            let found = Found { id, place, ledger, version, presumed, unheard };
            !found.place.is_empty() && found.is_open(self.store)
        });
        let say = |id: &RunId| {
            format!(
                "run {id} is open, but its workflow is disabled in the configuration, so nothing \
                 holds the agent"
            )
        };
        open.map(say).collect()
    }

    /// The ledger as it is, without a lock; for one that is lost, what the journal knows.
    pub(super) fn peek(&self, id: &RunId) -> (Rc<Ledger>, Option<Version>) {
        let (ledger, version) = match self.stored(id) {
            Ok(Stored::Read(ledger, version, _)) => (*ledger, version),
            _ => (self.rebuilt(id, Ledger::default()).unwrap_or_default(), None),
        };
        (Rc::new(ledger), version)
    }

    /// The run of that name: `triage/web`, or `web` where that is unambiguous.
    pub fn run(&self, name: &str) -> Result<Found, GateError> {
        let (runs, _) = self.runs();
        let known: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
        let mut matching: Vec<Found> = runs
            .into_iter()
            .filter(|run| {
                run.id.to_string() == name || run.id.name == name || run.id.workflow == name
            })
            .collect();
        if let Some(exact) = matching.iter().position(|run| run.id.to_string() == name) {
            return Ok(matching.swap_remove(exact));
        }
        match matching.len() {
            1 => Ok(matching.remove(0)),
            0 if known.is_empty() => {
                Err(GateError::Other("there is no run in this project".into()))
            }
            0 => Err(GateError::Other(format!(
                "there is no run {name:?}; there are: {}",
                known.join(", ")
            ))),
            _ => {
                let names: Vec<String> = matching.iter().map(|run| run.id.to_string()).collect();
                Err(GateError::Other(format!("{name:?} could be {}", names.join(" or "))))
            }
        }
    }

    /// How a run stands, for people.
    pub fn report(&self, found: &Found) -> Report {
        let broken = |problem: String| Report {
            phase: "?".into(),
            about: None,
            condition: Condition::Broken,
            problem: Some(problem),
        };
        let workflow = match self.workflow_of(found) {
            Ok(workflow) => workflow,
            Err(error) => return broken(error.to_string()),
        };
        let document = match self.read(found, &workflow) {
            Ok(read) => read.document,
            Err(_) if found.ledger.session.cancelled.is_some() || found.ledger.position.removed => {
                let ended = match (found.ledger.position.removed, found.ledger.outcome()) {
                    (true, Some(Outcome::Done)) => Condition::Done,
                    (true, _) => Condition::Ended,
                    (false, _) => Condition::Cancelled,
                };
                let (phase, about) = ("?".into(), None);
                return Report { phase, about, condition: ended, problem: None };
            }
            Err(error) => return broken(error.to_string()),
        };
        let phase = phase_name(&workflow, &document);
        let outer = workflow.outer();
        let Some(id) = outer.phase(&phase) else {
            let problem = format!("{} is in an unknown phase {phase:?}", found.place);
            return broken(problem);
        };
        // A phase that somebody else has set is no success.
        let set = found.ledger.tamper.protected.get(&outer.field);
        let derived = outer.derive.is_some()
            && (found.ledger.position.ended_by_hand || found.ledger.is_left_by_hand(&phase));
        let by_hand = derived
            || found.ledger.is_ended_by_hand(&outer.field, &phase)
            || set.is_some_and(|set| set.trim_matches('"') != phase);
        let condition =
            match (&found.ledger.session.cancelled, outer.get(id).ends, found.ledger.outcome()) {
                (Some(_), ..) => Condition::Cancelled,
                (None, Some(Outcome::Done), None | Some(Outcome::Done)) if !by_hand => {
                    Condition::Done
                }
                (None, Some(_), _) => Condition::Ended,
                (None, None, Some(Outcome::Stuck)) => Condition::Stuck,
                (None, None, Some(Outcome::Capped)) => Condition::Capped,
                (None, None, Some(Outcome::Budget)) => Condition::Budget,
                (None, None, Some(Outcome::Waiting)) => Condition::Waiting,
                (None, None, Some(Outcome::Fault)) => Condition::Broken,
                (None, None, _) => Condition::Working,
            };
        let last = found.ledger.session.last.as_ref().filter(|_| condition.is_trouble());
        let problem = last.and_then(|last| last.answer.text()).map(str::to_string);
        let about = outer.get(id).about.clone();
        Report { phase, about, condition, problem }
    }

    /// Those in which something has happened; where there are none, the one whose folder was changed
    /// last.
    pub fn likely(&self, runs: Vec<Found>) -> Vec<Found> {
        if runs.iter().all(|run| run.unheard) {
            return runs
                .into_iter()
                .max_by_key(|run| self.store.changed_at(&run.place))
                .into_iter()
                .collect();
        }
        runs.into_iter().filter(|run| !run.unheard).collect()
    }

    /// Whether a run can still answer.
    pub fn is_working(&self, found: &Found) -> bool {
        !self.report(found).condition.is_over()
    }

    /// A run's state document, as it is or as it is presumed to be.
    pub fn document(&self, found: &Found) -> Result<Json, GateError> {
        let workflow = self.workflow_of(found)?;
        Ok(self.read(found, &workflow)?.document)
    }

    /// A run's journal, as text.
    pub fn journal(&self, found: &Found) -> Result<Vec<String>, GateError> {
        Ok(self.store.lines(&found.id)?)
    }
}

impl Gate<'_> {
    /// Whether the document of a run says that it has ended, as far as it can be read.
    pub(super) fn is_ended(&self, found: &Found) -> bool {
        let Ok(workflow) = self.workflow_of(found) else { return false };
        let Ok(read) = self.read(found, &workflow) else { return false };
        let outer = workflow.outer();
        let phase = outer.phase(&phase_name(&workflow, &read.document));
        let ended = phase.is_some_and(|phase| outer.get(phase).ends.is_some());
        if let (true, Some(version)) = (ended, &read.version) {
            self.store.note_ended(&found.id, version);
        }
        ended
    }
}
