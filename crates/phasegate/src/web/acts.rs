//! What a person does from the page. The page alone is not enough, since an agent could open it too: an act is bound
//! to what the person looked at, and counts only with a code that is shown by the terminal at which
//! `phasegate web --actions` was started.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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
use serde_json::{Map, Value};

use super::object::{Object, quoted};
use super::refused::Refused;
use crate::perform::Asked;
use crate::{print, request};

/// How long a code counts.
const LIFE: SignedDuration = SignedDuration::from_mins(5);

/// How many wrong codes an act survives: one in a million is guessed, not one in three.
const MAX_WRONG: u32 = 3;

/// How many acts wait for their codes; the oldest gives way.
const MAX_PENDING: usize = 16;

/// What is asked for from the page.
struct Proposal {
    run: String,
    /// What the person looked at when they began to act.
    seen: Seen,
    act: String,
    params: Map<String, Value>,
}

impl Proposal {
    fn read(given: &Value) -> Option<Proposal> {
        let params = match &given["params"] {
            Value::Null => Map::new(),
            other => other.as_object()?.clone(),
        };
        let (run, act) = (text(&given["run"])?, text(&given["act"])?);
        Some(Proposal { run, seen: Seen::read(&given["seen"])?, act, params })
    }
}

fn text(given: &Value) -> Option<String> {
    given.as_str().map(str::to_string)
}

/// What there is to see of a run; where any of it changes, a person who acts looks again.
pub struct Seen {
    /// When the run began: another run of that name is another one.
    began: Option<String>,
    /// Its last line.
    seq: u64,
    /// The files.
    tree: Option<String>,
    definition: Option<String>,
}

impl Seen {
    fn read(given: &Value) -> Option<Seen> {
        let [began, tree, definition] = ["began", "tree", "definition"].map(|it| text(&given[it]));
        Some(Seen { began, seq: given["seq"].as_u64()?, tree, definition })
    }

    pub fn to_json(&self) -> String {
        let mut told = Object::new();
        told.maybe("began", self.began.as_deref());
        told.number("seq", Some(self.seq));
        told.maybe("tree", self.tree.as_deref());
        told.maybe("definition", self.definition.as_deref());
        told.end()
    }
}

/// Something that a person can do, with what it asks for, as JSON.
pub struct Act {
    name: String,
    about: String,
    fields: Vec<String>,
}

impl Act {
    fn new(name: &str, about: &str, fields: Vec<String>) -> Act {
        Act { name: name.into(), about: about.into(), fields }
    }

    pub fn to_json(&self) -> String {
        let mut told = Object::new();
        told.text("act", &self.name);
        told.text("about", &self.about);
        told.list("fields", &self.fields);
        told.end()
    }
}

struct Pending {
    id: String,
    proposal: Proposal,
    code: String,
    wrong: u32,
    since: Timestamp,
}

/// The acts that wait for their codes.
#[derive(Default)]
pub struct Desk(Mutex<Vec<Pending>>);

impl Desk {
    /// Takes an act down, and shows its code at the terminal.
    pub fn propose(&self, root: &Path, given: &Value) -> Result<String, Refused> {
        let proposal = Proposal::read(given).ok_or_else(unfit)?;
        let project = open(root)?;
        let gate = Gate::new(&project);
        let run = found(&gate, &proposal.run)?;
        must_be_as_seen(&gate, &run, &proposal)?;
        let what = described(&gate, &run, &proposal)?;
        let failed = |error: std::io::Error| Refused::Failed(error.to_string());
        let (id, random) = (jobs::secret().map_err(failed)?, jobs::secret().map_err(failed)?);
        let number = u64::from_str_radix(&random[..15], 16).unwrap_or_default() % 1_000_000;
        let (code, since) = (format!("{number:06}"), Timestamp::now());
        print::note(&print::one_line(&format!("Code {code}: {what}")));
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The oldest is the first.
        pending.retain(|it| since.duration_since(it.since) < LIFE);
        if pending.len() >= MAX_PENDING {
            pending.remove(0);
        }
        let mut told = Object::new();
        told.text("id", &id);
        told.text("what", &what);
        pending.push(Pending { id, proposal, code, wrong: 0, since });
        Ok(told.end())
    }

    /// Carries an act out whose code is right, once, if everything is as the person saw it.
    pub fn confirm(&self, root: &Path, given: &Value) -> Result<String, Refused> {
        let (id, code) = (given["id"].as_str(), given["code"].as_str());
        let proposal = self.take(id.ok_or_else(unfit)?, code.ok_or_else(unfit)?.trim())?;
        let project = open(root)?;
        let mut gate = Gate::new(&project);
        if rests_on_what_was_seen(&proposal.act) {
            // Asked again under the lock.
            gate = gate.meant_for(proposal.seen.seq);
        }
        let run = found(&gate, &proposal.run)?;
        must_be_as_seen(&gate, &run, &proposal)?;
        let mut told = Object::new();
        told.text("said", &carry_out(&gate, &run, &proposal)?);
        Ok(told.end())
    }

    fn take(&self, id: &str, code: &str) -> Result<Proposal, Refused> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Refused::Unknown("nothing waits for this code any more; ask again".into());
        let at = pending.iter().position(|it| it.id == id).ok_or_else(gone)?;
        if Timestamp::now().duration_since(pending[at].since) >= LIFE {
            pending.remove(at);
            return Err(gone());
        }
        if code == pending[at].code {
            return Ok(pending.remove(at).proposal);
        }
        pending[at].wrong += 1;
        let left = MAX_WRONG - pending[at].wrong;
        if left == 0 {
            pending.remove(at);
        }
        Err(Refused::Wrong(format!("this is not the code; {left} more tries")))
    }
}

fn unfit() -> Refused {
    Refused::Wrong("this is not what the page sends".into())
}

fn open(root: &Path) -> Result<Project, Refused> {
    Project::open(root).map_err(|error| Refused::Failed(error.to_string()))
}

fn found(gate: &Runs, run: &str) -> Result<Found, Refused> {
    gate.run(run).map_err(|error| Refused::Unknown(error.to_string()))
}

/// What there is to see of a run now.
pub fn seen(gate: &Runs, run: &Found) -> Seen {
    Seen {
        began: began(run),
        seq: run.ledger.position.seq,
        tree: gate.tree(run),
        definition: gate.workflow_of(run).ok().map(|it| it.identity.as_str().to_string()),
    }
}

fn began(run: &Found) -> Option<String> {
    run.ledger.started_at.map(|at| at.to_string())
}

/// Whether an act would be another one if something else had been seen. Parking and ending a run are not: they are
/// wanted most while an agent goes on.
fn rests_on_what_was_seen(act: &str) -> bool {
    !matches!(act, CANCEL | "pause" | "resume")
}

/// Refuses an act on what the person has not seen.
fn must_be_as_seen(gate: &Runs, run: &Found, proposal: &Proposal) -> Result<(), Refused> {
    let (then, id) = (&proposal.seen, &run.id);
    let moved = |what: String| Err(Refused::Moved(format!("{what}; look again")));
    if then.began != began(run) {
        return moved(format!("run {id} is another one of that name, begun since you looked"));
    }
    if !rests_on_what_was_seen(&proposal.act) {
        return Ok(());
    }
    let now = seen(gate, run);
    if then.definition != now.definition {
        return moved(format!("the definition of run {id} has changed since you looked"));
    }
    if then.seq != now.seq {
        let (then, now) = (then.seq, now.seq);
        return moved(format!(
            "run {id} has moved on: you looked at line {then}, and it is at line {now}"
        ));
    }
    if then.tree != now.tree {
        return moved(format!("the files have changed since you looked at run {id}"));
    }
    Ok(())
}

/// Who acts: a person, as was seen when the server was started at a terminal.
fn person() -> Caller {
    Caller { actor: Actor::Human, agent: None }
}

fn event(name: &str) -> Event {
    Event::new(name, Actor::Human)
}

/// The acts that would be accepted from a person now, each with what it asks for.
pub fn offered(gate: &Runs, run: &Found) -> Vec<Act> {
    let report = gate.report(run);
    let mut acts = Vec::new();
    if report.condition.is_over() {
        return acts;
    }
    if let Ok(workflow) = gate.workflow_of(run) {
        let can = possible(gate, run);
        for action in workflow.actions.iter().filter(|it| is_act(it) && can.contains(&it.name)) {
            let fields = action.params.iter().map(asked).collect();
            acts.push(Act::new(&action.name, &action.about, fields));
        }
    }
    let reason = || vec![field("reason", "Why, for the journal", "text", None, false)];
    let (park, about) = match run.ledger.session.paused {
        Some(_) => ("resume", "Take the run up again."),
        None => ("pause", "Park the run: it holds nobody until it is resumed."),
    };
    if gate.needs_you(run, &report).is_some() {
        let text = field("text", "Your answer", "text", None, true);
        acts.push(Act::new("answer", "Answer what the agent, or the run, asks you.", vec![text]));
    }
    acts.push(Act::new(park, about, reason()));
    if !acts.iter().any(|act| act.name == CANCEL) {
        acts.push(Act::new(CANCEL, "End the run for good.", reason()));
    }
    acts
}

fn field(
    name: &str,
    about: &str,
    kind: &str,
    choices: Option<&[Arc<str>]>,
    needed: bool,
) -> String {
    let mut told = Object::new();
    told.text("name", name);
    told.text("about", about);
    told.text("kind", kind);
    if let Some(choices) = choices {
        told.list("choices", &choices.iter().map(|it| quoted(it)).collect::<Vec<_>>());
    }
    told.flag("needed", needed);
    told.end()
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
fn asked(param: &Param) -> String {
    let (kind, choices) = match &param.value {
        Type::Boolean => ("flag", None),
        Type::Integer => ("number", None),
        Type::OneOf(choices) => ("choice", Some(choices.as_slice())),
        Type::String => ("text", None),
        _ => ("json", None),
    };
    let needed = !param.optional && param.default.is_none() && kind != "flag";
    field(&param.name, &param.about, kind, choices, needed)
}

/// An act in a sentence, for the terminal; refused where it could not be carried out.
fn described(gate: &Runs, run: &Found, proposal: &Proposal) -> Result<String, Refused> {
    if !offered(gate, run).iter().any(|act| act.name == proposal.act) {
        let what = format!("`{}` is not possible now for run {}", proposal.act, run.id);
        return Err(Refused::Wrong(what));
    }
    let workflow = gate.workflow_of(run).map_err(refused)?;
    if let Some(action) = workflow.action(&proposal.act).filter(|action| is_act(action)) {
        if action.signed {
            let (act, name) = (&proposal.act, &workflow.name);
            let command = format!("phasegate {name} {} {}", action.command, run.id.name);
            let why = format!("`{act}` must be signed: run `{command}` in a terminal");
            return Err(Refused::Wrong(why));
        }
        request::given(&workflow, action, proposal.params.clone()).map_err(Refused::Wrong)?;
    }
    let mut what = format!("{} {}", proposal.act, run.id);
    if rests_on_what_was_seen(&proposal.act) {
        let _ = write!(what, " at line {}", proposal.seen.seq);
    }
    for (name, value) in &proposal.params {
        let _ = write!(what, ", {name} = {value}");
    }
    Ok(what)
}

fn carry_out(gate: &Gate, run: &Found, proposal: &Proposal) -> Result<String, Refused> {
    let workflow = gate.workflow_of(run).map_err(refused)?;
    let own = workflow.action(&proposal.act).filter(|action| is_act(action));
    if let Some(action) = own {
        let given = request::given(&workflow, action, proposal.params.clone());
        let given = given.map_err(Refused::Wrong)?;
        let (caller, run_name, key) = (&person(), None, None);
        let asked = Asked { gate, workflow: &workflow, action, caller, run: run_name, key };
        let event = asked.event(given);
        return match asked.act(run, &event).map_err(refused)?.answer {
            Answer::Deny { reason, .. } => Err(Refused::Wrong(reason)),
            answer => Ok(answer.text().unwrap_or("accepted").to_string()),
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
