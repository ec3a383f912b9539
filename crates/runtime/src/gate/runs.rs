//! How runs stand.

use jiff::Timestamp;
use phasegate_engine::decide::phase_name;
use phasegate_engine::draw::Walk;
use phasegate_engine::json::Json;
use phasegate_engine::workflow::Workflow;

use super::report::{Report, is_ready};
use super::{Found, Gate, GateError, Runs};
use crate::course::Course;
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::Watch;
use crate::words::{self, Because};

impl Runs<'_> {
    /// How a run stands, for people.
    pub fn report(&self, found: &Found) -> Report {
        // An unreadable ledger is an error; the journal is not used to guess how the run stands.
        if found.version.is_none()
            && !found.untouched
            && let Err(error) = self.stored(&found.id)
        {
            return Report::broken(error.to_string());
        }
        let (id, ledger) = (&found.id, &found.ledger);
        // Of one that was pruned the ledger says how it ended: the definition that it kept to is gone.
        if ledger.position.pruned.is_some() && !found.is_open(&self.home()) {
            return Report::pruned(ledger);
        }
        let workflow = match self.workflow_of(found) {
            Ok(workflow) => workflow,
            Err(error) => return Report::broken(error.to_string()),
        };
        match self.read(found, &workflow) {
            Ok(read) => {
                let phase = phase_name(&workflow, &read.document);
                Report::of(id, &found.place, ledger, &workflow, &phase)
            }
            Err(_) if ledger.session.cancelled.is_some() || ledger.position.removed => {
                Report::without_document(ledger)
            }
            Err(error) => Report::broken(error.to_string()),
        }
    }

    /// A run whose document is a file of another machine, as the store knows it; none where it has no bookkeeping.
    pub fn elsewhere(&self, id: &RunId) -> Option<Found> {
        let (ledger, version) = self.peek(id);
        let place = ledger.position.document.clone();
        version.is_some().then(|| Found { ledger, version, ..Found::new(id.clone(), place) })
    }

    /// How a run stands that is known to be in a phase, by its bookkeeping alone.
    pub fn report_elsewhere(&self, found: &Found, phase: &str) -> Report {
        self.report_in(&found.id, &found.place, &found.ledger, phase)
    }

    /// The same, with a ledger that is about to be written.
    pub(super) fn report_in(
        &self,
        id: &RunId,
        place: &str,
        ledger: &Ledger,
        phase: &str,
    ) -> Report {
        if ledger.position.pruned.is_some() && ledger.is_settled() {
            return Report::pruned(ledger);
        }
        match self.pinned(id, &mut ledger.clone(), &mut Vec::new()) {
            Err(error) => Report::broken(error.to_string()),
            Ok(_) if ledger.position.removed => Report::without_document(ledger),
            Ok(workflow) => Report::of(id, place, ledger, &workflow, phase),
        }
    }

    /// What people were told at the last stop, as it stands now; nothing where the agent was sent on or
    /// the run is over.
    pub fn told(&self, found: &Found, report: &Report) -> Option<String> {
        report.told(&found.id, &found.ledger, self.is_ready(found))
    }

    /// That a run holds nothing, since nobody has consented to what its workflow does.
    pub fn untrusted(&self, workflow: &Workflow, run: &RunId) -> Option<String> {
        let because = Because::Untrusted(&workflow.name);
        (!self.is_trusted(workflow)).then(|| words::sentence(&run.to_string(), "", because))
    }

    /// How a run stands, in a few words.
    pub fn standing(&self, found: &Found, report: &Report) -> String {
        report.standing(&found.ledger, self.is_ready(found))
    }

    /// Why a person is needed; none where none is.
    pub fn needs_you(&self, found: &Found, report: &Report) -> Option<String> {
        report.needs_you(&found.id, &found.ledger, self.is_ready(found))
    }

    /// Whether the job has ended that the run waits for, or the time is over for which it does.
    fn is_ready(&self, found: &Found) -> bool {
        is_ready(&found.ledger, |job| self.job_now(job).is_over())
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
        Ok(self.store.forwards(&found.id).collect::<Result<_, _>>()?)
    }

    /// Calls back after every change of a run, and perhaps more often, until what it returns is dropped.
    pub fn watch(
        &self,
        run: &RunId,
        changed: impl Fn() + Send + 'static,
    ) -> Result<Box<dyn Watch>, GateError> {
        Ok(self.store.watch(run, Box::new(changed))?)
    }

    /// A run's journal from its end, line by line.
    pub fn journal_backwards(
        &self,
        found: &Found,
    ) -> impl Iterator<Item = Result<String, GateError>> {
        self.store.backwards(&found.id).map(|line| Ok(line?))
    }

    /// A run's journal behind a line, the oldest first.
    pub fn journal_after(&self, found: &Found, seq: u64) -> impl Iterator<Item = String> {
        self.store.after(&found.id, seq).map_while(Result::ok)
    }

    /// A run's journal before a line, the newest first.
    pub fn journal_before(&self, found: &Found, seq: u64) -> impl Iterator<Item = String> {
        self.store.before(&found.id, seq).map_while(Result::ok)
    }

    /// Brings what is known of where a run has been up to its last line. Of a journal that is longer only the newest
    /// `most` lines are read.
    pub fn follow(&self, found: &Found, course: &mut Course, most: u64) {
        let Ok(workflow) = self.workflow_of(found) else { return };
        let outer = &workflow.outer().name;
        let newest = found.ledger.position.seq.saturating_sub(most);
        let lines = self.journal_after(found, course.seq().max(newest));
        lines.for_each(|line| course.follow(&line, outer));
    }

    /// Where a run is and has been, to be drawn.
    pub fn walk(&self, found: &Found, report: &Report, course: &Course) -> Walk {
        let until = (!report.condition.is_over()).then(Timestamp::now);
        let walk = course.walk(&report.phase, until);
        let read = self.workflow_of(found).and_then(|workflow| {
            let document = self.read(found, &workflow)?.document;
            Ok(walk.clone().through(&workflow, &document))
        });
        read.unwrap_or(walk)
    }
}

impl Gate<'_> {
    /// Has a store of several machines show how a run stands, where no transition has said so: one that was brought
    /// there, or that cannot be decided about.
    pub fn note_standing(&self, id: &RunId) {
        let Some(store) = self.store.shared() else { return };
        if let Some(found) = self.exact(id) {
            let summary = self.report(&found).summary(id, &found.ledger);
            // Where that fails, the view is behind until the next transition.
            let _ = store.note_standing(id, &summary);
        }
    }

    /// Whether the document of a run says that it has ended, as far as it can be read.
    pub(super) fn is_ended(&self, found: &Found) -> bool {
        let Ok(workflow) = self.workflow_of(found) else { return false };
        let Ok(read) = self.read(found, &workflow) else { return false };
        let outer = workflow.outer();
        let phase = outer.phase(&phase_name(&workflow, &read.document));
        let ended = phase.is_some_and(|phase| outer.get(phase).ends.is_some());
        if let (true, Some(version)) = (ended, &read.version) {
            self.note_ended(found, version);
        }
        ended
    }
}
