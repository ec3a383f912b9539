//! What a person does from the page. The page alone is not enough, since an agent could open it too: an act is bound
//! to the run, the line and the files that the person looked at, and counts only with a code that is shown by the
//! terminal at which `phasegate web --actions` was started.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params;
use phasegate_engine::events::CANCEL;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::types::Type;
use phasegate_engine::workflow::{Action, Does, Param};
use phasegate_runtime::caller::Caller;
use phasegate_runtime::gate::{Found, Gate, GateError, Runs};
use phasegate_runtime::jobs;
use phasegate_runtime::ledger::Paused;
use phasegate_runtime::project::Project;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::refused::Refused;
use crate::perform::{Asked, NotPerformed};
use crate::{print, request};

/// How long a code counts.
const LIFE: SignedDuration = SignedDuration::from_mins(5);

/// How many wrong codes an act survives: one in a million is guessed, not one in three.
const MAX_WRONG: u32 = 3;

/// How many acts wait for their codes; the oldest gives way.
const MAX_PENDING: usize = 16;

/// What is asked for from the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    run: String,
    /// The line that the person looked at.
    seq: u64,
    act: String,
    #[serde(default)]
    params: Map<String, Value>,
}

/// An act with its code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    id: String,
    code: String,
}

struct Pending {
    proposal: Proposal,
    /// The files as they were.
    tree: Option<String>,
    code: String,
    wrong: u32,
    since: Timestamp,
}

/// The acts that wait for their codes.
#[derive(Default)]
pub struct Desk(Mutex<HashMap<String, Pending>>);

impl Desk {
    /// Takes an act down, and shows its code at the terminal.
    pub fn propose(&self, root: &Path, proposal: Proposal) -> Result<Value, Refused> {
        let project = open(root)?;
        let gate = Gate::new(&project);
        let run = found(&gate, &proposal.run)?;
        if run.ledger.position.seq != proposal.seq {
            return Err(Refused::Moved(format!(
                "run {} has moved on since line {}; look again",
                run.id, proposal.seq
            )));
        }
        let what = described(&gate, &run, &proposal)?;
        let failed = |error: std::io::Error| Refused::Failed(error.to_string());
        let (id, random) = (jobs::secret().map_err(failed)?, jobs::secret().map_err(failed)?);
        let number = u64::from_str_radix(&random[..15], 16).unwrap_or_default() % 1_000_000;
        let (code, since) = (format!("{number:06}"), Timestamp::now());
        print::note(&print::one_line(&format!("Code {code}: {what}")));
        let tree = gate.tree(&run);
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|_, it| since.duration_since(it.since) < LIFE);
        if pending.len() >= MAX_PENDING {
            let oldest = pending.iter().min_by_key(|(_, it)| it.since).map(|(id, _)| id.clone());
            oldest.and_then(|id| pending.remove(&id));
        }
        pending.insert(id.clone(), Pending { proposal, tree, code, wrong: 0, since });
        Ok(json!({ "id": id, "what": what }))
    }

    /// Carries an act out whose code is right, once, if everything is as the person saw it.
    pub fn confirm(&self, root: &Path, given: &Confirmation) -> Result<Value, Refused> {
        let Pending { proposal, tree, .. } = self.take(given)?;
        let project = open(root)?;
        let gate = Gate::new(&project).meant_for(proposal.seq);
        let run = found(&gate, &proposal.run)?;
        if gate.tree(&run) != tree {
            return Err(Refused::Moved(format!(
                "the files have changed since you looked at run {}; look again",
                run.id
            )));
        }
        let said = carry_out(&gate, &run, &proposal)?;
        Ok(json!({ "said": said }))
    }

    fn take(&self, given: &Confirmation) -> Result<Pending, Refused> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Refused::Unknown("nothing waits for this code any more; ask again".into());
        let waiting = pending.get_mut(&given.id).ok_or_else(gone)?;
        if Timestamp::now().duration_since(waiting.since) >= LIFE {
            pending.remove(&given.id);
            return Err(gone());
        }
        if given.code.trim() != waiting.code {
            waiting.wrong += 1;
            let left = MAX_WRONG - waiting.wrong;
            if left == 0 {
                pending.remove(&given.id);
            }
            return Err(Refused::Wrong(format!("this is not the code; {left} more tries")));
        }
        pending.remove(&given.id).ok_or_else(gone)
    }
}

fn open(root: &Path) -> Result<Project, Refused> {
    Project::open(root).map_err(|error| Refused::Failed(error.to_string()))
}

fn found(gate: &Runs, run: &str) -> Result<Found, Refused> {
    gate.run(run).map_err(|error| Refused::Unknown(error.to_string()))
}

/// Who acts: a person, as was seen when the server was started at a terminal.
fn person() -> Caller {
    Caller { actor: Actor::Human, agent: None }
}

fn event(name: &str) -> Event {
    Event::new(name, Actor::Human)
}

/// The acts that would be accepted from a person now, each with what it asks for.
pub fn offered(gate: &Runs, run: &Found) -> Vec<Value> {
    let report = gate.report(run);
    if report.condition.is_over() {
        return Vec::new();
    }
    let own = gate.workflow_of(run).map(|workflow| {
        let can = possible(gate, run);
        let actions = workflow.actions.iter().filter(|action| is_act(action));
        let actions = actions.filter(|action| can.contains(&action.name));
        actions.map(|action| row(&action.name, &action.about, &fields(action))).collect()
    });
    let mut acts: Vec<Value> = own.unwrap_or_default();
    let reason = [json!({ "name": "reason", "about": "Why, for the journal", "kind": "text" })];
    let (park, about) = match run.ledger.session.paused {
        Some(_) => ("resume", "Take the run up again."),
        None => ("pause", "Park the run: it holds nobody until it is resumed."),
    };
    if gate.needs_you(run, &report).is_some() {
        let text =
            json!({ "name": "text", "about": "Your answer", "kind": "text", "needed": true });
        acts.push(row("answer", "Answer what the agent, or the run, asks you.", &[text]));
    }
    acts.push(row(park, about, &reason));
    if !acts.iter().any(|act| act["act"] == CANCEL) {
        acts.push(row(CANCEL, "End the run for good.", &reason));
    }
    acts
}

fn row(act: &str, about: &str, fields: &[Value]) -> Value {
    json!({ "act": act, "about": about, "fields": fields })
}

/// Whether the page can ask for an action: it is about a run that is there, and for people.
fn is_act(action: &Action) -> bool {
    matches!(action.does, Does::Event) && action.is_for(Actor::Human)
}

fn possible(gate: &Runs, run: &Found) -> Vec<String> {
    let guidance = gate.guidance(run, &event("status")).ok();
    let can = guidance.as_ref().and_then(|it| it.get("guidance")?.get("can"));
    let Some(Json::List(names)) = can else { return Vec::new() };
    let name = |name: &Json| name.as_str().map(str::to_string);
    names.0.iter().filter_map(name).collect()
}

/// What an action asks for, as the page can ask for it.
fn fields(action: &Action) -> Vec<Value> {
    let field = |param: &Param| {
        let (kind, choices) = match &param.value {
            Type::Boolean => ("flag", None),
            Type::Integer => ("number", None),
            Type::OneOf(choices) => ("choice", Some(choices.clone())),
            Type::String => ("text", None),
            _ => ("json", None),
        };
        json!({
            "name": param.name, "about": param.about, "kind": kind, "choices": choices,
            "needed": !param.optional && param.default.is_none() && kind != "flag",
        })
    };
    action.params.iter().map(field).collect()
}

/// An act in a sentence, for the terminal; refused where it could not be carried out.
fn described(gate: &Runs, run: &Found, proposal: &Proposal) -> Result<String, Refused> {
    let offered = offered(gate, run);
    if !offered.iter().any(|act| act["act"] == proposal.act.as_str()) {
        let what = format!("`{}` is not possible now for run {}", proposal.act, run.id);
        return Err(Refused::Wrong(what));
    }
    let workflow = gate.workflow_of(run).map_err(refused)?;
    if let Some(action) = workflow.action(&proposal.act).filter(|action| is_act(action)) {
        request::given(&workflow, action, proposal.params.clone()).map_err(Refused::Wrong)?;
    }
    let given: Vec<String> =
        proposal.params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let with = if given.is_empty() { String::new() } else { format!(", {}", given.join(", ")) };
    Ok(format!("{} {} at line {}{with}", proposal.act, run.id, proposal.seq))
}

fn carry_out(gate: &Gate, run: &Found, proposal: &Proposal) -> Result<String, Refused> {
    let workflow = gate.workflow_of(run).map_err(refused)?;
    let own = workflow.action(&proposal.act).filter(|action| is_act(action));
    if let Some(action) = own {
        let id = run.id.to_string();
        let asked = Asked { gate, workflow: &workflow, action, caller: &person(), run: Some(&id) };
        let given = |_: Option<&Found>| request::given(&workflow, action, proposal.params.clone());
        let (performed, _) = asked.perform(given).map_err(|error| match error {
            NotPerformed::Params(why) => Refused::Wrong(why),
            NotPerformed::UnknownRun(error) | NotPerformed::Gate(error) => refused(error),
        })?;
        return match performed.answer() {
            Some(Answer::Deny { reason, .. }) => Err(Refused::Wrong(reason.clone())),
            answer => Ok(answer.and_then(Answer::text).unwrap_or("accepted").to_string()),
        };
    }
    let reason = proposal.params.get("reason").and_then(Value::as_str).map(str::trim);
    let reason = reason.filter(|reason| !reason.is_empty());
    let given = reason.map(|reason| ("reason".to_string(), Json::from(reason)));
    let event = Event { params: params(given), ..event(&proposal.act) };
    let paused = Paused { at: Timestamp::now(), reason: reason.map(str::to_string) };
    match proposal.act.as_str() {
        "answer" => {
            let text = proposal.params.get("text").and_then(Value::as_str).unwrap_or_default();
            gate.answer_human(run, &event, text).map_err(refused)?;
        }
        CANCEL => gate.cancel(run, &event, reason).map_err(refused)?,
        "pause" => drop(gate.pause(run, &event, Some(&paused)).map_err(refused)?),
        "resume" => drop(gate.pause(run, &event, None).map_err(refused)?),
        other => return Err(Refused::Wrong(format!("there is no act {other:?}"))),
    }
    Ok(gate.report(&gate.refreshed(run)).condition.to_string())
}

fn refused(error: GateError) -> Refused {
    match error {
        GateError::NotReady(why) => Refused::Moved(why),
        other => Refused::Failed(other.to_string()),
    }
}
