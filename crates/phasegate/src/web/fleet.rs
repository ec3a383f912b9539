//! The page over all projects and machines of a store. Runs of this project that this machine may act on are shown as
//! ever; of the others, what the store knows: their bookkeeping, journals and definitions, but no file of theirs.

use jiff::Timestamp;
use phasegate_engine::draw::{Format, draw};
use phasegate_runtime::condition::Group;
use phasegate_runtime::config::Config;
use phasegate_runtime::course::Course;
use phasegate_runtime::fleet::{Fleet, FleetRun, Lookout};
use phasegate_runtime::gate::{Found, Runs};
use phasegate_runtime::project::Project;
use phasegate_runtime::store::postgres::fleet::{Machine, Wanted};
use phasegate_runtime::store::{PostgresStore, StoreError};

use super::Query;
use super::object::Object;
use super::refused::Refused;
use super::view::{self, chain, job_row, lines_before, sign};
use crate::cli::fleet;
use crate::cli::status;
use crate::openings;

/// How a run is called that this machine may only look at: this, and its row in the store.
const MARK: char = '@';

/// How many runs of each group the page has: of the rest it is told how many there are.
const MAX_ROWS: usize = 100;

/// Looks at the fleet of a page.
pub fn lookout() -> Lookout {
    Lookout::new(Wanted { ended: i64::try_from(view::MAX_ENDED).unwrap_or(0), ..Wanted::default() })
}

/// The row of a run that this machine may only look at, by what the page calls it.
pub fn elsewhere(name: &str) -> Option<i64> {
    name.strip_prefix(MARK)?.parse().ok()
}

/// All runs of the store, in the order in which somebody should look at them.
pub fn overview(project: &Project, lookout: &mut Lookout) -> String {
    let (store, looked) = match project.store.shared() {
        Some(store) => (store.name(), lookout.look(store)),
        None => (String::new(), Err(StoreError::Refused("runs are kept in files".into()))),
    };
    let (fleet, problems) = match looked {
        Ok(fleet) => (fleet, Vec::new()),
        Err(error) => (Fleet::default(), vec![error.to_string()]),
    };
    let (mut rows, mut counts) = (Vec::new(), Object::new());
    for group in Group::ALL {
        let runs = fleet.runs.iter().filter(|run| run.group == group);
        counts.number(&group.to_string(), Some(runs.clone().count() as u64));
        rows.extend(runs.take(MAX_ROWS).map(|run| inbox_row(project, run)));
    }
    let jobs: Vec<String> = fleet.jobs.iter().map(fleet::of_job).collect();
    let machine = |it: &Machine| {
        let mut row = Object::new();
        row.text("machine", &it.name);
        row.text("seen", &it.seen.to_string());
        row.end()
    };
    let openings = openings::in_environment().into_iter();
    let openings: Vec<String> = openings.chain(openings::in_settings(&project.root)).collect();
    let mut told = Object::new();
    told.text("project", &store);
    told.list("gates", &[]);
    told.list("runs", &rows);
    told.json("counts", &counts.end());
    told.flag("has_more", fleet.has_more);
    told.texts("problems", &problems);
    told.texts("openings", &openings);
    told.list("faults", &[]);
    told.texts("jobs", &jobs);
    told.list("machines", &fleet.machines.iter().map(machine).collect::<Vec<_>>());
    told.end()
}

/// Whether a run is one that this machine may act on in this project.
fn is_ours(project: &Project, run: &FleetRun) -> bool {
    let ours = project.store.shared().and_then(|store| store.identity().ok());
    ours.is_some_and(|ours| {
        ours.project == run.place.project && (run.is_shared() || run.place.site == ours.site)
    })
}

fn inbox_row(project: &Project, run: &FleetRun) -> String {
    let is_ours = is_ours(project, run);
    let mut row = Object::new();
    row.text("run", &if is_ours { run.id.to_string() } else { name_of(run) });
    row.text("name", &run.id.to_string());
    row.text("where", &place(run));
    row.text("group", &run.group.to_string());
    row.text("phase", &run.phase);
    row.text("standing", &run.standing);
    row.maybe("told", run.needs.as_deref());
    row.end()
}

/// What the page calls a run that this machine may only look at.
fn name_of(run: &FleetRun) -> String {
    format!("{MARK}{}", run.row)
}

/// The project of a run, and where it is.
fn place(run: &FleetRun) -> String {
    let (project, machine) = (&run.place.project, &run.machine);
    let last = if run.is_shared() { "any machine, last " } else { "" };
    format!("{project} · {last}{machine}")
}

/// A run of another machine or project, as the store knows it.
pub struct Elsewhere {
    run: FleetRun,
    project: Project,
}

impl Elsewhere {
    /// The run in a row of a project's store.
    pub fn find(project: Project, row: i64) -> Result<Elsewhere, Refused> {
        let failed = |error: StoreError| Refused::Failed(error.to_string());
        let gone = || Refused::Unknown("this run is not in the store any more".into());
        let store: &PostgresStore = project.store.shared().ok_or_else(gone)?;
        let run = FleetRun::from(store.member(row).map_err(failed)?.ok_or_else(gone)?);
        let theirs = Box::new(store.seen_as(run.place.clone()));
        // What is configured here is not what is configured there.
        let config = Config::default();
        Ok(Elsewhere { run, project: Project { store: theirs, config, ..project } })
    }

    /// The run, to look at; only what is in the store may be asked of it.
    fn found(&self) -> Result<(Runs<'_>, Found), Refused> {
        let runs = Runs::new(&self.project);
        let found = runs.elsewhere(&self.run.id);
        let found = found.ok_or_else(|| {
            Refused::Unknown(format!("the store keeps nothing of run {}", self.run.id))
        })?;
        Ok((runs, found))
    }

    /// Answers a question of the page about it.
    pub fn answer(&self, name: &str, query: &Query) -> Result<String, Refused> {
        let (runs, found) = self.found()?;
        let machine = &self.run.machine;
        match name {
            "run" => self.details(&mut Course::default()),
            "log" => Ok(lines_before(&runs, &found, query.number("before"))),
            "health" => {
                let mut told = Object::new();
                told.json("chain", &chain(&runs, &found));
                told.json("holds", "{}");
                Ok(told.end())
            }
            "now" => {
                let mut told = Object::new();
                let why =
                    "the files that it depends on are there, and `phasegate why --now` tells it";
                told.text("not_computed", &format!("on {machine} only: {why}"));
                Ok(told.end())
            }
            "job" => Err(Refused::Unknown(format!("what the job has printed is on {machine}"))),
            _ => Err(Refused::Unknown(format!("run {} is only to look at here", self.run.id))),
        }
    }

    /// The new lines of its journal.
    pub fn lines_after(&self, seen: u64) -> Vec<(u64, String)> {
        let Ok((runs, found)) = self.found() else { return Vec::new() };
        view::lines_after(&runs, &found, seen)
    }

    /// Everything that the page shows of it but its journal.
    pub fn details(&self, course: &mut Course) -> Result<String, Refused> {
        let (runs, found) = self.found()?;
        let run = &self.run;
        let report = runs.report_elsewhere(&found, &run.phase);
        runs.follow(&found, course, view::MAX_COUNTED);
        let walk = course.walk(&run.phase, (!run.condition.is_over()).then(Timestamp::now));
        let workflow = runs.workflow_of(&found).ok();
        let picture = workflow.map(|workflow| draw(&workflow, Format::Svg, Some(&walk)));
        let jobs = found.ledger.work.jobs.iter().map(|(id, job)| job_row(id, job));
        let mut told = Object::new();
        told.text("run", &name_of(run));
        told.text("name", &run.id.to_string());
        told.text("where", &place(run));
        told.text("phase", &run.phase);
        told.maybe("phase_about", report.about.as_deref());
        told.flag("is_over", run.condition.is_over());
        told.text("standing", &run.standing);
        told.texts("remarks", run.needs.as_slice());
        told.text("document", &found.place);
        told.number("seq", Some(found.ledger.position.seq));
        told.maybe("picture", picture.as_deref());
        told.json("limits", &view::limits(&self.project, &found));
        told.list("jobs", &jobs.collect::<Vec<_>>());
        told.list("health", &self.signs(&found));
        told.list("acts", &[]);
        Ok(told.end())
    }

    /// What tells whether it can be relied on, as far as that can be told from afar.
    fn signs(&self, found: &Found) -> Vec<String> {
        let run = &self.run;
        let mut signs = Vec::new();
        if !run.condition.is_over() {
            signs.push(sign(&status::armed(found), true));
            signs.extend(run.owner.as_ref().map(|owner| sign(&format!("owner {owner}"), true)));
        }
        let changes = found.ledger.tamper.changes.iter();
        signs.extend(changes.map(|change| sign(&change.to_string(), false)));
        signs
    }
}
