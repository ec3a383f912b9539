//! What is waited for, in one run or in several: that something happens, that nobody works any more, or that
//! a run stands somewhere. The command line and the MCP server both ask here.

use std::collections::{BTreeSet, HashMap};

use phasegate_engine::diagnostic::closest;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::types::Type;
use phasegate_engine::workflow::{NewValue, Workflow};
use phasegate_runtime::gate::{Found, GateError, Runs};
use phasegate_runtime::run::RunId;

/// What is waited for.
#[derive(Clone, Debug)]
pub enum Until {
    /// Something happens, after a revision if one is told.
    Change(Option<u64>),
    /// No job is at work any more in one of the runs that had some.
    Settled,
    /// A run stands here.
    Status(String),
}

impl Until {
    /// What a word stands for: `change`, `settled`, or a status.
    pub fn named(word: &str, since: Option<u64>) -> Until {
        match word {
            "change" => Until::Change(since),
            "settled" => Until::Settled,
            status => Until::Status(status.to_string()),
        }
    }
}

/// Somebody who waits.
#[derive(Clone, Debug)]
pub struct Wait {
    until: Until,
    /// How far each run had come at the first look, and whether somebody worked in it.
    first: Option<HashMap<RunId, (u64, bool)>>,
}

impl Wait {
    pub fn new(until: Until) -> Wait {
        Wait { until, first: None }
    }

    /// Why it can never happen, asked before the first look: then a wait would be one for nothing.
    pub fn why_never(&self, gate: &Runs, runs: &[Found]) -> Result<Option<String>, GateError> {
        match (&self.until, &self.first) {
            (Until::Status(wanted), None) => why_never(gate, runs, wanted),
            _ => Ok(None),
        }
    }

    /// The run in which it has happened.
    pub fn look<'r>(&mut self, gate: &Runs, runs: &'r [Found], event: &Event) -> Option<&'r Found> {
        let first = self.first.get_or_insert_with(|| {
            let now = |run: &Found| (run.ledger.position.seq, !gate.is_settled(run));
            runs.iter().map(|run| (run.id.clone(), now(run))).collect()
        });
        match &self.until {
            Until::Status(wanted) => runs.iter().find(|run| status(gate, run, event) == *wanted),
            Until::Settled if first.values().any(|(_, works)| *works) => runs.iter().find(|run| {
                first.get(&run.id).is_some_and(|(_, works)| *works) && gate.is_settled(run)
            }),
            Until::Settled => last(runs),
            Until::Change(since) => {
                let before = |run: &Found| first.get(&run.id).map_or(0, |(seq, _)| *seq);
                let moved = runs.iter().find(|run| run.ledger.position.seq > before(run));
                moved.or_else(|| last(runs).filter(|_| since.is_some_and(|it| it < revision(runs))))
            }
        }
    }
}

/// How far runs have come: a number that grows with everything that happens in them.
pub fn revision(runs: &[Found]) -> u64 {
    runs.iter().map(|run| run.ledger.position.seq).sum()
}

/// Where a run stands, in the workflow's own words where it has some.
pub fn status(gate: &Runs, run: &Found, event: &Event) -> String {
    gate.headline(run, event).map_or_else(|| gate.report(run).phase, |(status, _)| status)
}

/// Why none of these runs can ever have a status, and which there are; none where one can.
pub fn why_never(gate: &Runs, runs: &[Found], wanted: &str) -> Result<Option<String>, GateError> {
    let mut known = BTreeSet::new();
    for run in runs {
        known.extend(statuses(gate, run)?);
    }
    if known.contains(wanted) {
        return Ok(None);
    }
    let meant = closest(wanted, known.iter().map(String::as_str));
    let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    let known = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Ok(Some(format!("no run here can have the status {wanted:?}\nhint: {meant}There are: {known}")))
}

/// The places where a run can stand, as far as its definition tells: its phases, and where it has words of its own the
/// texts by which its facts are chosen.
fn statuses(gate: &Runs, run: &Found) -> Result<Vec<String>, GateError> {
    let workflow = gate.workflow_of(run)?;
    let mut known: Vec<String> =
        workflow.outer().phases.iter().map(|phase| phase.name.to_string()).collect();
    known.push(status(gate, run, &Event::new("wait", Actor::Human)));
    if workflow.guidance.is_some() {
        known.push("CANCELLED".into());
        known.extend(words(&workflow));
    }
    Ok(known)
}

/// The texts by which a workflow says where something stands: phases of its elements, and what its fields and the facts
/// that it chooses can be.
fn words(workflow: &Workflow) -> Vec<String> {
    let phases = workflow.machines.iter().flat_map(|machine| &machine.phases);
    let phases = phases.map(|phase| phase.name.to_string());
    let fields = workflow.records.0.iter().flat_map(|record| &record.fields);
    let fields = fields.flat_map(|field| match &field.ty {
        Type::OneOf(names) => names.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    });
    let choices = workflow.machines.iter().flat_map(|machine| &machine.choices);
    let chosen = choices.flat_map(|choice| &choice.rows).filter_map(|row| match &row.value {
        NewValue::Literal(value) => value.as_str().map(str::to_string),
        _ => None,
    });
    phases.chain(fields).chain(chosen).collect()
}

/// The run in which something was answered last.
pub fn last(runs: &[Found]) -> Option<&Found> {
    runs.iter().max_by_key(|run| run.ledger.session.last.as_ref().map(|last| last.at))
}
