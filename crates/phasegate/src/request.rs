//! What every door asks of a workflow: an action, by somebody, about a run.

pub use phasegate_clients::surroundings::session;
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::types::Type;
use phasegate_engine::workflow::{Param, Workflow};
use phasegate_runtime::caller::Caller;
use phasegate_runtime::gate::{Found, GateError, Runs};

/// The event that an action is.
pub fn event(action: &str, caller: &Caller, session: Option<String>, params: Json) -> Event {
    let agent = caller.agent.as_ref().map(|(_, id)| id.clone());
    Event { session, agent, params, ..Event::new(action, caller.actor) }
}

/// A parameter, if it fits; null where it was not given.
pub fn fitting(workflow: &Workflow, param: &Param, value: Json) -> Result<Json, String> {
    let mut value = match value {
        Json::Null => param.default.clone().unwrap_or(Json::Null),
        given => given,
    };
    if value == Json::Null {
        return Ok(value);
    }
    if let Some(unknown) = unknown(workflow, &param.value, &value, &param.name) {
        return Err(unknown);
    }
    let fits = workflow.records.declare(&param.value, &mut value, &param.name);
    fits.map_err(|found| found.to_string())?;
    Ok(value)
}

/// A member that no record has. Documents may have such members; what somebody has just typed is a
/// mistake.
fn unknown(workflow: &Workflow, ty: &Type, value: &Json, place: &str) -> Option<String> {
    match (ty, value) {
        (Type::List(of), Json::List(items)) => {
            let mut items = items.0.iter().enumerate();
            items.find_map(|(at, item)| unknown(workflow, of, item, &format!("{place}[{at}]")))
        }
        (Type::Record(id), Json::Object(members)) => {
            let record = workflow.records.get(*id);
            members.iter().find_map(|(name, value)| match record.field(name) {
                Some(field) => unknown(workflow, &field.ty, value, &format!("{place}.{name}")),
                None => {
                    let known: Vec<&str> = record.fields.iter().map(|it| &*it.name).collect();
                    let known = known.join(", ");
                    Some(format!("{place} has no `{name}`; there are: {known}"))
                }
            })
        }
        _ => None,
    }
}

/// The run of a workflow that somebody means. An agent has one, and no other.
pub fn run(
    gate: &Runs,
    workflow: &str,
    caller: &Caller,
    name: Option<&str>,
    looks: bool,
) -> Result<Found, GateError> {
    // A run may be called as its workflow is; else the workflow's name means the run that is meant without one.
    let is_run = |name: &str| gate.run(&format!("{workflow}/{name}")).is_ok();
    let name = name.filter(|name| *name != workflow || is_run(name));
    let full = |name: &str| {
        if name.contains('/') { name.to_string() } else { format!("{workflow}/{name}") }
    };
    let wanted = name.map(full);
    if let Some((own, id)) = &caller.agent {
        let other = own.workflow != workflow;
        let own = own.to_string();
        if other || wanted.is_some_and(|wanted| wanted != own) {
            return Err(GateError::UnknownRun(format!(
                "this caller is agent {id} of run {own} and may act only there"
            )));
        }
        return gate.run(&own);
    }
    if let Some(wanted) = wanted {
        let run = gate.run(&wanted)?;
        if run.id.workflow != workflow {
            return Err(GateError::UnknownRun(format!("run {} is not one of {workflow}", run.id)));
        }
        return Ok(run);
    }
    let mut runs = gate.runs().runs;
    runs.retain(|run| run.id.workflow == workflow);
    if runs.is_empty() {
        let help = format!("`phasegate {workflow} --help` says how one begins");
        let message = format!("there is no run of workflow {workflow} in this project; {help}");
        return Err(GateError::UnknownRun(message));
    }
    chosen_among(gate, runs, session().as_deref(), looks)
}

/// Which of these runs is meant where none is named: the only one that is open, or the only one; of
/// several that have all ended, the one that was active last.
pub fn chosen_among(
    gate: &Runs,
    runs: Vec<Found>,
    session: Option<&str>,
    guess: bool,
) -> Result<Found, GateError> {
    let mut open: Vec<Found> = runs.iter().filter(|run| gate.is_working(run)).cloned().collect();
    // Of several, the session's own is meant. To look at, one may be guessed: one in which something
    // has happened, or the one whose folder was changed last.
    let is_own = |run: &Found| {
        let owner = run.ledger.session.owner.as_ref().map(|it| it.session.as_str());
        session.is_some() && owner == session
    };
    if open.len() > 1 && open.iter().filter(|run| is_own(run)).count() == 1 {
        open.retain(is_own);
    } else if open.len() > 1 && guess {
        open = gate.likely(open);
    }
    if open.len() > 1 {
        let names: Vec<String> = open.iter().map(|run| run.id.to_string()).collect();
        return Err(GateError::UnknownRun(format!("which run? There are: {}", names.join(", "))));
    }
    let last = |run: &Found| run.ledger.session.last.as_ref().map(|last| last.at);
    let ended = runs.into_iter().max_by_key(last);
    let chosen = open.into_iter().next().or(ended);
    chosen.ok_or_else(|| GateError::UnknownRun("there is no run in this project".into()))
}
