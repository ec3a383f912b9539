//! Which runs there are.
//!
//! A run is known by its document, by its bookkeeping, or by both: a tool may have written the one, and
//! somebody may have removed it. Runs that are noted as ended are skipped,
//! so that finding the open ones costs the same after years.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use jiff::Timestamp;

use super::home::Home;
use super::stored::Stored;
use super::transaction::Then;
use super::{Gate, GateError, Runs};
use crate::catalog::Entry;
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::{StoreError, Version};
use crate::workspace::Documents;
use crate::workspace::place::Place;

/// How many of the runs that are over are listed with the open ones.
const RECENT: usize = 1;

/// How many runs are named to somebody who has named none of them.
const MAX_KNOWN: usize = 20;

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
    pub(super) untouched: bool,
    /// What is to be said about its beginning, where it begins at a stop.
    pub(super) remark: Option<String>,
}

impl Found {
    /// A run that is about to begin.
    pub(super) fn new(id: RunId, place: String) -> Found {
        let (ledger, version) = (Rc::default(), None);
        Found { id, place, ledger, version, presumed: false, untouched: false, remark: None }
    }

    /// Whether the store keeps its document.
    pub fn is_in_store(&self) -> bool {
        Place::of(&self.place).is_store()
    }

    /// Whether the run can still answer, as far as the ledger knows.
    pub(super) fn is_open(&self, home: &Home) -> bool {
        if self.ledger.session.cancelled.is_some() {
            return false;
        }
        if self.ledger.position.removed {
            // Unless somebody has put a document there again, which nobody does in the store.
            let is_file = !Place::of(&self.place).is_store();
            return is_file && matches!(home.version(&self.place), Ok(Some(_)));
        }
        match &self.ledger.position.finished {
            None => true,
            Some(finished) => match home.version(&self.place) {
                Ok(Some(version)) => version != *finished,
                Ok(None) => false,
                // The reader reports why it cannot be read.
                Err(_) => true,
            },
        }
    }
}

/// The runs of a project.
#[derive(Debug)]
pub struct Listed {
    pub runs: Vec<Found>,
    /// What could not be looked at.
    pub faults: Vec<String>,
    /// Whether there are others that are over.
    pub has_more: bool,
}

/// Which runs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// The open ones. Some that are over may be among them.
    Open,
    /// The open runs, and so many of those that ended last.
    Recent(usize),
    All,
}

/// What was found.
#[derive(Default)]
struct Findings {
    runs: Vec<Found>,
    /// What could not be looked at.
    faults: Vec<String>,
    /// The documents of each workflow.
    documents: HashMap<String, Documents>,
    /// Whether there are others that are over.
    has_more: bool,
    /// The runs that the index has.
    indexed: BTreeSet<RunId>,
}

impl Runs<'_> {
    /// The runs of the project, oldest first. Of the ended ones only the last is included.
    pub fn runs(&self) -> Listed {
        self.recent_runs(RECENT)
    }

    /// The same, with so many of those that ended last.
    pub fn recent_runs(&self, most: usize) -> Listed {
        let mut listed = self.listed(Which::Recent(most));
        let is_over = |run: &Found| {
            run.ledger.is_settled() && !run.is_open(&self.home()) && !self.is_working(run)
        };
        let ended = |run: &Found| run.ledger.session.last.as_ref().map(|last| last.at);
        let mut over: Vec<(Option<Timestamp>, RunId)> = Vec::new();
        // To tell whether the last one is over, its document need not be read.
        if listed.runs.iter().filter(|run| run.ledger.is_settled()).count() > most {
            let found = listed.runs.iter().filter(|run| is_over(run));
            over.extend(found.map(|run| (ended(run), run.id.clone())));
        }
        over.sort_by_key(|(ended, _)| *ended);
        over.truncate(over.len().saturating_sub(most));
        let hidden: HashSet<RunId> = over.into_iter().map(|(_, id)| id).collect();
        listed.runs.retain(|run| !hidden.contains(&run.id));
        listed.has_more |= !hidden.is_empty();
        listed
    }

    /// The same, with all that were ever over.
    pub fn all_runs(&self) -> Listed {
        self.listed(Which::All)
    }

    fn listed(&self, which: Which) -> Listed {
        let Findings { mut runs, faults, has_more, .. } = self.find(which);
        // A folder without a file in it is none.
        runs.retain(|run| !run.untouched || self.workspace.changed_at(&run.place).is_some());
        Listed { runs, faults, has_more }
    }

    /// The runs that may answer a stop.
    pub(super) fn open_runs(&self) -> (Vec<Found>, Vec<String>) {
        let Findings { runs, faults, .. } = self.find(Which::Open);
        (runs, faults)
    }

    fn find(&self, which: Which) -> Findings {
        // A store that cannot be asked holds nobody, and nobody takes that for the end of all runs.
        self.find_in_store(which).unwrap_or_else(|error| Findings {
            faults: vec![error.to_string()],
            ..Findings::default()
        })
    }

    fn find_in_store(&self, which: Which) -> Result<Findings, StoreError> {
        let mut known: BTreeSet<RunId> = match which {
            Which::All => self.store.runs()?.into_iter().collect(),
            Which::Open | Which::Recent(_) => self.store.open_runs()?.into_iter().collect(),
        };
        let mut found = Findings::default();
        if let Which::Recent(most) = which {
            let over = self.store.over_runs(most + 1)?;
            found.has_more = over.len() > most;
            known.extend(over.into_iter().take(most));
        }
        for entry in &self.project.workflows {
            if self.project.config.enabled(&entry.name) && !entry.is_disabled() {
                self.find_documents(entry, which, &known, &mut found);
            }
        }
        let disabled = known.iter().filter(|id| !self.project.config.enabled(&id.workflow));
        found.faults.extend(self.abandoned(disabled));
        let mut places: HashMap<&str, &RunId> = HashMap::with_capacity(found.runs.len());
        for run in &found.runs {
            if let Some(other) = places.insert(&run.place, &run.id) {
                let (place, id) = (&run.place, &run.id);
                found.faults.push(format!("{place} is a document of both {other} and {id}"));
            }
        }
        // A run whose document or whose definition was removed is still a run: it must not end
        // without a word.
        let heard = found.runs.iter().filter(|run| !run.untouched);
        let listed: HashSet<&RunId> = heard.map(|run| &run.id).collect();
        let others = known.iter().filter(|id| !listed.contains(id));
        let others: Vec<Found> = others.filter_map(|id| self.find_alone(id)).collect();
        found.runs.extend(others);
        let started = |run: &Found| (run.ledger.started_at.is_none(), run.ledger.started_at);
        found.runs.sort_by(|a, b| started(a).cmp(&started(b)).then_with(|| a.id.cmp(&b.id)));
        found.indexed = known;
        Ok(found)
    }

    /// The runs of a workflow that have a document, or a folder for one.
    fn find_documents(
        &self,
        entry: &Entry,
        which: Which,
        known: &BTreeSet<RunId>,
        found: &mut Findings,
    ) {
        let Some(pattern) = entry.document(&self.project.config) else { return };
        let presumed = entry.presumes();
        let documents = match which {
            // They are known by their bookkeeping, which the store keeps as well.
            _ if Place::of(&pattern).is_store() => Ok(Vec::new()),
            Which::All => self.workspace.documents(&pattern, presumed),
            _ => self.workspace.open_documents(&entry.name, &pattern, presumed).map(|documents| {
                let places = documents.places.clone();
                found.documents.insert(entry.name.clone(), documents);
                places
            }),
        };
        let places = documents.unwrap_or_else(|error| {
            found.faults.push(format!("workflow {}: {error}", entry.name));
            Vec::new()
        });
        let other =
            entry.fallback().filter(|place| matches!(self.workspace.version(place), Ok(Some(_))));
        let other = other.map(|place| (RunId::of_fallback(&entry.name), place.to_string()));
        let ids = places
            .into_iter()
            .filter_map(|place| Some((RunId::of_document(&entry.name, &pattern, &place)?, place)));
        for (id, place) in ids.chain(other) {
            if id.name.contains(char::is_control) {
                let name = &entry.name;
                found.faults.push(format!(
                    "workflow {name}: {place:?} is ignored: rename it without control characters"
                ));
                continue;
            }
            // The name would be taken for that of a topic.
            if place.contains('#') && !pattern.contains('#') {
                let name = &entry.name;
                found
                    .faults
                    .push(format!("workflow {name}: {place} is ignored: rename it without `#`"));
                continue;
            }
            let untouched = presumed && !known.contains(&id) && !self.has(&id);
            let (ledger, version) = if untouched { Default::default() } else { self.peek(&id) };
            let run = Found::new(id, place);
            found.runs.push(Found { ledger, version, presumed, untouched, ..run });
        }
    }

    /// Whether the store keeps anything of a run. Where it cannot be asked, the run is not taken for one that is gone.
    pub(super) fn has(&self, id: &RunId) -> bool {
        self.store.has(id).unwrap_or(true)
    }

    /// A run that has bookkeeping and no document.
    fn find_alone(&self, id: &RunId) -> Option<Found> {
        let config = &self.project.config;
        let entry = self.project.workflow(&id.workflow);
        if !config.enabled(&id.workflow) || entry.is_some_and(Entry::is_disabled) {
            return None;
        }
        // A process that died before it began the run has left nothing of it but its name in the index.
        if !self.has(id) {
            return None;
        }
        let (ledger, version) = self.peek(id);
        let place = match entry.and_then(|entry| entry.document(config)) {
            _ if !ledger.position.document.is_empty() => ledger.position.document.clone(),
            pattern => id.place(&pattern?),
        };
        Some(Found { ledger, version, ..Found::new(id.clone(), place) })
    }

    /// Runs that are open although their workflow was disabled.
    fn abandoned<'r>(&self, ids: impl Iterator<Item = &'r RunId>) -> Vec<String> {
        let open = ids.filter(|id| {
            let (ledger, version) = self.peek(id);
            let place = ledger.position.document.clone();
            let found = Found { ledger, version, ..Found::new((*id).clone(), place) };
            !found.place.is_empty() && found.is_open(&self.home())
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
        // To find one, the others need not be looked at.
        let ids = match RunId::try_from(name.to_string()) {
            Ok(id) => vec![id],
            Err(_) => {
                let workflows = self.project.workflows.iter();
                let of = |entry: &Entry| RunId { workflow: entry.name.clone(), name: name.into() };
                workflows.map(of).collect()
            }
        };
        let mut matching: Vec<Found> = ids.iter().filter_map(|id| self.exact(id)).collect();
        if matching.len() == 1 && self.project.workflow(name).is_none() {
            return Ok(matching.remove(0));
        }
        let runs = self.all_runs().runs;
        let known = runs.iter().rev().take(MAX_KNOWN).map(|run| run.id.to_string());
        let known: Vec<String> = known.rev().collect();
        let is_new = |run: &Found| matching.iter().all(|other| other.id != run.id);
        let fits = |run: &Found| {
            [&run.id.to_string(), &run.id.name, &run.id.workflow].contains(&&name.to_string())
        };
        let more: Vec<Found> = runs.into_iter().filter(|run| fits(run) && is_new(run)).collect();
        matching.extend(more);
        // Of several the only one that is open is meant.
        if matching.iter().filter(|run| self.is_working(run)).count() == 1 {
            matching.retain(|run| self.is_working(run));
        }
        match matching.len() {
            1 => Ok(matching.remove(0)),
            0 if known.is_empty() => {
                Err(GateError::UnknownRun("there is no run in this project".into()))
            }
            0 => Err(GateError::UnknownRun(format!(
                "there is no run {name:?}; there are: {}",
                known.join(", ")
            ))),
            _ => {
                let names: Vec<String> = matching.iter().map(|run| run.id.to_string()).collect();
                Err(GateError::UnknownRun(format!("{name:?} could be {}", names.join(" or "))))
            }
        }
    }

    /// A run that was found earlier, with its ledger as it is now. The other runs are not looked at.
    #[must_use]
    pub fn refreshed(&self, found: &Found) -> Found {
        let (ledger, version) = self.peek(&found.id);
        let untouched = found.untouched && version.is_none();
        Found { ledger, version, untouched, ..found.clone() }
    }

    /// A run by its whole name, if there is one.
    pub(super) fn exact(&self, id: &RunId) -> Option<Found> {
        let config = &self.project.config;
        let entry = self.project.workflow(&id.workflow);
        if !config.enabled(&id.workflow) || entry.is_some_and(Entry::is_disabled) {
            return None;
        }
        if *id == RunId::of_fallback(&id.workflow) {
            let runs = self.runs().runs;
            return runs.into_iter().find(|run| run.id == *id);
        }
        let pattern = entry.and_then(|entry| entry.document(config));
        let place = pattern.as_ref().map(|pattern| id.place(pattern)).filter(|place| {
            let own = pattern.as_ref().and_then(|it| RunId::of_document(&id.workflow, it, place));
            own.as_ref() == Some(id)
        });
        let presumed = entry.is_some_and(Entry::presumes);
        let has_document = place.as_ref().is_some_and(|place| {
            let has_folder = presumed && self.workspace.changed_at(place).is_some();
            has_folder || matches!(self.home().version(place), Ok(Some(_)))
        });
        if !has_document {
            return self.find_alone(id);
        }
        let (ledger, version) = self.peek(id);
        let untouched = presumed && version.is_none() && ledger.position.seq == 0;
        Some(Found { ledger, version, presumed, untouched, ..Found::new(id.clone(), place?) })
    }

    /// Those in which something has happened; where there are none, the one whose folder was changed
    /// last.
    pub fn likely(&self, runs: Vec<Found>) -> Vec<Found> {
        if runs.iter().all(|run| run.untouched) {
            return runs
                .into_iter()
                .max_by_key(|run| self.workspace.changed_at(&run.place))
                .into_iter()
                .collect();
        }
        runs.into_iter().filter(|run| !run.untouched).collect()
    }
}

impl Gate<'_> {
    /// The runs that may answer a stop. Runs that turn out to have ended are noted, so that nobody need look
    /// at them again.
    pub(super) fn find_open(&self) -> (Vec<Found>, Vec<String>) {
        let Findings { mut runs, faults, mut documents, indexed, .. } = self.find(Which::Open);
        for run in &mut runs {
            if !run.ledger.is_settled() || run.is_open(&self.home()) {
                continue;
            }
            if indexed.contains(&run.id) && !self.close(run) {
                *run = self.refreshed(run);
                continue;
            }
            let finished = match &run.ledger.position.finished {
                Some(finished) => Some(finished.clone()),
                None => self.home().version(&run.place).ok().flatten(),
            };
            if let (Some(documents), Some(version)) =
                (documents.get_mut(&run.id.workflow), finished)
            {
                self.note_document(documents, run, &version);
            }
        }
        let is_found = |id: &RunId| runs.iter().any(|run| run.id == *id);
        for id in indexed.iter().filter(|id| !is_found(id) && !self.has(id)) {
            self.sweep(id);
        }
        *self.documents.borrow_mut() = documents;
        (runs, faults)
    }

    /// Takes a run out of the index that is over; whether it is. Under the lock: somebody may be beginning
    /// it again, or have died doing that, and then the lock brings it to its end.
    fn close(&self, run: &Found) -> bool {
        let closed = self.within(run, |locked| {
            let is_over = locked.ledger.is_settled();
            if is_over {
                self.store.note_over(&run.id);
            }
            Ok(Then::Nothing(is_over))
        });
        // Where it cannot be told, it is looked at again.
        closed.is_ok_and(|(is_over, _)| is_over)
    }

    /// Notes that a document in which nothing has happened says that it has ended.
    pub(super) fn note_ended(&self, found: &Found, version: &Version) {
        if let Some(documents) = self.documents.borrow_mut().get_mut(&found.id.workflow) {
            self.note_document(documents, found, version);
        }
    }

    fn note_document(&self, documents: &mut Documents, run: &Found, version: &Version) {
        let entry = self.project.workflow(&run.id.workflow);
        if let Some(pattern) = entry.and_then(|entry| entry.document(&self.project.config)) {
            self.workspace.note_over(documents, &pattern, &run.place, version);
        }
    }

    /// Writes down which documents are of runs that are over.
    pub(super) fn keep_documents(&self) {
        for (workflow, documents) in self.documents.borrow().iter() {
            self.workspace.keep(workflow, documents);
        }
    }
}
