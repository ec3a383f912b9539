//! What the tools do: each call is an action of the workflow, by somebody, about a run.

use std::path::PathBuf;
use std::sync::Arc;

use phasegate_engine::answer::Answer;
use phasegate_engine::draw::{Format, draw};
use phasegate_engine::json::Json;
use phasegate_engine::schema;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::workflow::{Action, Does, Workflow};
use phasegate_runtime::caller::Caller;
use phasegate_runtime::catalog::Memory;
use phasegate_runtime::gate::{Answered, Asker, Found, Gate, GateError, Listed, Runs};
use phasegate_runtime::project::Project;
use phasegate_runtime::question::Question;
use phasegate_runtime::store::Watch;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::perform::{Asked, NotPerformed, Performed, Shown};
use crate::request;
use crate::waiting::{self, Wait};

/// The tool that waits, which is nobody's action.
pub const WAIT: &str = "wait_for_change";

/// The code of a call of a tool that does not exist.
pub const UNKNOWN_TOOL: &str = "unknown_tool";

/// Why a process below an agent is refused what changes something.
const STRANGER: &str = "this process was started by an agent and has no token, so it may only read";

/// How long a wait takes where nothing is said, and at most. Most clients give a call about a minute.
pub const SECONDS: u64 = 20;
pub const MAX_SECONDS: u64 = 3_600;

/// How much of a refusal or a note is passed on.
const MAX_TEXT: usize = 600;

/// How much of what somebody is to do is passed on: all of it, unless it has no end.
const MAX_MESSAGE: usize = 9_000;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub enum Who {
    /// The orchestrator, which has others work.
    Orchestrator,
    /// An agent, by its token.
    Agent(String),
    /// Somebody below an agent who does not show who he is: he may look.
    Stranger,
}

/// A tool, for the list.
#[derive(Clone, Debug)]
pub struct Tool {
    pub name: String,
    pub about: String,
    pub input: Map<String, Value>,
    pub looks: bool,
    /// It ends something that cannot be brought back.
    pub destroys: bool,
}

/// A call that was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    /// What else is told, as the guidance.
    pub more: Map<String, Value>,
}

impl Refusal {
    pub fn new(code: &str, message: impl Into<String>) -> Refusal {
        Refusal { code: code.into(), message: message.into(), more: Map::new() }
    }

    /// The same, with what else is told.
    fn with(self, more: Map<String, Value>) -> Refusal {
        Refusal { more, ..self }
    }

    /// The whole answer.
    pub fn into_value(self) -> Value {
        let mut answer = self.more;
        answer.insert("success".into(), false.into());
        answer.insert("code".into(), self.code.into());
        answer.insert("error".into(), shorten(&self.message).into());
        Value::Object(answer)
    }
}

impl From<GateError> for Refusal {
    fn from(error: GateError) -> Refusal {
        let code = match &error {
            GateError::Store(_) => "store",
            GateError::Workflow(..) => "workflow",
            GateError::Gone(..) => "gone",
            GateError::Over => "over",
            GateError::Exists(..) => "exists",
            GateError::NotPermitted(_) => "not_permitted",
            GateError::Text(_) => "invalid_params",
            _ => "failed",
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<NotPerformed<Refusal>> for Refusal {
    fn from(error: NotPerformed<Refusal>) -> Refusal {
        match error {
            NotPerformed::UnknownRun(error) => Refusal::new("unknown_run", error.to_string()),
            NotPerformed::Params(refusal) => refusal,
            NotPerformed::Gate(error) => Refusal::from(error),
        }
    }
}

/// The tools of a workflow in a project.
#[derive(Clone, Debug)]
pub struct Tools {
    pub root: PathBuf,
    pub workflow: String,
    pub memory: Arc<Memory>,
}

impl Tools {
    /// The project as it is now, with the workflows that have not changed since the last call.
    pub fn open(&self) -> Result<Project, String> {
        let project = Project::open(&self.root).map_err(|error| error.to_string())?;
        Ok(Project { memory: Some(self.memory.clone()), ..project })
    }

    /// The tools that somebody may use.
    pub fn list(&self, who: &Who) -> Result<Vec<Tool>, String> {
        let project = self.open()?;
        let gate = Runs::new(&project);
        let workflow = gate.workflow(&self.workflow).map_err(|error| error.to_string())?;
        // A token that is no longer anybody's still sees what there is to look at.
        let actor = caller(&gate, &workflow, who).map_or(Actor::Worker, |caller| caller.actor);
        let is_stranger = matches!(who, Who::Stranger);
        let usable = |action: &&Action| {
            let looks = matches!(action.does, Does::Show { .. });
            action.is_for(actor) && !action.people_only() && (looks || !is_stranger)
        };
        let mut tools: Vec<Tool> =
            workflow.actions.iter().filter(usable).map(|action| tool(&workflow, action)).collect();
        tools.push(waiting());
        Ok(tools)
    }

    /// Calls a tool.
    pub fn call(
        &self,
        who: &Who,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Refusal> {
        let project = self.open().map_err(|why| Refusal::new("project", why))?;
        let gate = Gate::new(&project);
        let workflow = gate.workflow(&self.workflow)?;
        let caller = caller(&gate, &workflow, who)
            .map_err(|error| Refusal::new("unknown_agent", error.to_string()))?;
        let action = workflow.actions.iter().find(|action| tool_name(action) == name);
        let action = action.ok_or_else(|| Refusal::new(UNKNOWN_TOOL, name))?;
        if matches!(who, Who::Stranger) && !matches!(action.does, Does::Show { .. }) {
            return Err(Refusal::new("not_permitted", STRANGER));
        }
        let run = arguments.get("run").and_then(Value::as_str).map(str::to_string);
        let run = run.as_deref();
        let asked =
            Asked { gate: &gate, workflow: &workflow, action, caller: &caller, run, key: None };
        let performed = asked.perform(|run| {
            let given = given(&workflow, action, arguments);
            given.map_err(|refusal| match run {
                Some(run) => refusal.with(told(&gate, run, &asked.event(Json::object()))),
                None => refusal,
            })
        });
        let (performed, event) = performed?;
        let (answer, run) = match performed {
            Performed::Created { run, answered, .. } => {
                (created(&gate, &workflow, &run, answered, event)?, Some(run))
            }
            Performed::Shown(shown) => (self::shown(&asked, &shown, &event)?, shown.run),
            Performed::Acted { run, answered } => {
                (acted(&gate, &run, answered, &event)?, Some(run))
            }
        };
        Ok(success(self.with_answer(&gate, who, run.as_ref(), answer)))
    }

    /// Who asks the person something, or gets the answer.
    pub fn asker(&self, gate: &Runs, who: &Who) -> Result<(Caller, Asker), Refusal> {
        let workflow = gate.workflow(&self.workflow)?;
        let caller = caller(gate, &workflow, who)
            .map_err(|error| Refusal::new("unknown_agent", error.to_string()))?;
        if matches!(who, Who::Stranger) {
            return Err(Refusal::new("not_permitted", STRANGER));
        }
        let asker = gate.asker(&caller, request::session())?;
        Ok((caller, asker))
    }

    /// The run that has an answer for the caller. It is not kept waiting for that.
    fn has_answer<'r>(&self, gate: &Runs, who: &Who, runs: &'r [Found]) -> Option<&'r Found> {
        let run = runs.iter().find(|run| run.ledger.answered_question().is_some())?;
        let (_, asker) = self.asker(gate, who).ok()?;
        run.ledger.answered_question().filter(|it| asker.has_asked(it)).map(|_| run)
    }

    /// What is told about a run, with the person's answer to a question of the caller, once.
    fn with_answer(
        &self,
        gate: &Gate,
        who: &Who,
        run: Option<&Found>,
        mut told: Map<String, Value>,
    ) -> Map<String, Value> {
        let run = run.filter(|run| run.ledger.answered_question().is_some());
        // Who asks is told by the processes above us, and to look at those takes as long as the call.
        if let Some(run) = run
            && let Ok((caller, asker)) = self.asker(gate, who)
        {
            let event = request::event(WAIT, &caller, request::session(), Json::object());
            // Where it cannot be written that the answer was given, it is given later.
            if let Ok(Some(question)) = gate.collect_answer(run, &event, &asker) {
                told.insert("answer".into(), answered(&question));
            }
        }
        told
    }

    /// The runs in which something is waited for: the one that is named, or all that are open.
    fn awaited(
        &self,
        gate: &Runs,
        who: &Who,
        run: Option<&str>,
    ) -> Result<(Caller, Vec<Found>), Refusal> {
        let is_own = |found: &Found| found.id.workflow == self.workflow && gate.is_working(found);
        let open: Vec<Found> = gate.runs().runs.into_iter().filter(is_own).collect();
        if run.is_some() || open.is_empty() || matches!(who, Who::Agent(_)) {
            let (caller, found) = self.found(gate, who, run)?;
            return Ok((caller, vec![found]));
        }
        let workflow = gate.workflow(&self.workflow)?;
        let caller = caller(gate, &workflow, who)
            .map_err(|error| Refusal::new("unknown_agent", error.to_string()))?;
        Ok((caller, open))
    }

    /// Looks whether what is waited for has happened; the answer if it has, or where the wait is over.
    pub fn look(
        &self,
        who: &Who,
        run: Option<&str>,
        wait: &mut Wait,
        is_over: bool,
    ) -> Result<Option<Value>, Refusal> {
        let project = self.open().map_err(|why| Refusal::new("project", why))?;
        let gate = Gate::new(&project);
        let (caller, runs) = self.awaited(&gate, who, run)?;
        if let Some(why) = wait.why_never(&gate, &runs)? {
            return Err(Refusal::new("invalid_params", format!("until: {why}")));
        }
        let event = request::event(WAIT, &caller, request::session(), Json::object());
        let happened =
            wait.look(&gate, &runs, &event).or_else(|| self.has_answer(&gate, who, &runs));
        let Some(about) = happened.or_else(|| waiting::last(&runs).filter(|_| is_over)) else {
            return Ok(None);
        };
        let mut answer = told(&gate, about, &event);
        answer.insert("run".into(), about.id.to_string().into());
        answer.insert("changed".into(), happened.is_some().into());
        answer.insert("revision".into(), waiting::revision(&runs).into());
        if runs.len() > 1 {
            let rows = runs.iter().map(|run| {
                let status = waiting::status(&gate, run, &event);
                json!({ "run": run.id.to_string(), "status": status, "settled": gate.is_settled(run) })
            });
            answer.insert("runs".into(), rows.collect());
        }
        Ok(Some(success(self.with_answer(&gate, who, Some(about), answer))))
    }

    /// Wakes somebody at every change of the runs; those of which that can be told.
    pub fn watch(&self, who: &Who, run: Option<&str>, wake: &Arc<Notify>) -> Vec<Box<dyn Watch>> {
        let Ok(project) = self.open() else { return Vec::new() };
        let gate = Runs::new(&project);
        let runs = self.awaited(&gate, who, run).map(|(_, runs)| runs).unwrap_or_default();
        let watches = runs.iter().filter_map(|run| {
            let wake = wake.clone();
            gate.watch(&run.id, move || wake.notify_one()).ok()
        });
        watches.collect()
    }

    /// Who asks, and the run that is meant.
    pub fn found(
        &self,
        gate: &Runs,
        who: &Who,
        run: Option<&str>,
    ) -> Result<(Caller, Found), Refusal> {
        let workflow = gate.workflow(&self.workflow)?;
        let caller = caller(gate, &workflow, who)
            .map_err(|error| Refusal::new("unknown_agent", error.to_string()))?;
        let found = request::run(gate, &self.workflow, &caller, run, true);
        let found = found.map_err(|error| Refusal::new("unknown_run", error.to_string()))?;
        Ok((caller, found))
    }

    /// Whether a token is that of an agent that lives.
    pub fn knows(&self, token: &str) -> bool {
        let project = self.open();
        project.is_ok_and(|project| Runs::new(&project).identify(token).is_ok())
    }

    /// The runs of the workflow, as JSON.
    pub fn status(&self) -> Result<String, String> {
        let project = self.open()?;
        let gate = Runs::new(&project);
        let Listed { runs, faults: problems, .. } = gate.runs();
        let own = runs.iter().filter(|run| run.id.workflow == self.workflow);
        let runs = own.map(|run| {
            let report = gate.report(run);
            let event = Event::new("status", Actor::Orchestrator);
            let mut row = told(&gate, run, &event);
            row.insert("run".into(), run.id.to_string().into());
            row.insert("phase".into(), report.phase.into());
            row.insert("condition".into(), report.condition.to_string().into());
            row
        });
        let runs: Vec<Map<String, Value>> = runs.collect();
        Ok(json!({ "workflow": self.workflow, "runs": runs, "problems": problems }).to_string())
    }

    /// The workflow as a diagram.
    pub fn diagram(&self) -> Result<String, String> {
        let project = self.open()?;
        let gate = Runs::new(&project);
        let workflow = gate.workflow(&self.workflow).map_err(|error| error.to_string())?;
        Ok(draw(&workflow, Format::Mermaid, None))
    }
}

fn caller(gate: &Runs, workflow: &Workflow, who: &Who) -> Result<Caller, GateError> {
    match who {
        Who::Agent(token) => gate.caller_with(token),
        // A workflow without agents has only the worker itself.
        Who::Orchestrator if !workflow.has_agents() => {
            Ok(Caller { actor: Actor::Worker, agent: None })
        }
        Who::Orchestrator => Ok(Caller { actor: Actor::Orchestrator, agent: None }),
        Who::Stranger => Ok(Caller { actor: Actor::Worker, agent: None }),
    }
}

fn tool_name(action: &Action) -> String {
    tool_named(&action.name)
}

/// What the tool of an action is called.
fn tool_named(action: &str) -> String {
    action.replace(' ', "_")
}

fn tool(workflow: &Workflow, action: &Action) -> Tool {
    let looks = matches!(action.does, Does::Show { .. });
    let mut input = match schema::of_params(workflow, action) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let about_a_run = !matches!(action.does, Does::Create { .. } | Does::Show { alone: true, .. });
    if about_a_run && let Some(Value::Object(properties)) = input.get_mut("properties") {
        properties.insert("run".into(), run_schema());
    }
    Tool { name: tool_name(action), about: action.about.clone(), input, looks, destroys: false }
}

/// The parameter that names a run.
pub fn run_schema() -> Value {
    json!({ "type": "string", "description": "The run; needed only if there are several" })
}

fn waiting() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "run": { "type": "string", "description": "The run; by default all that are open" },
            "until": {
                "type": "string", "default": "change",
                "description": "`change`: something happens. `settled`: nobody works any more in a run, and \
                                it is your turn. Or a status, as APPROVED"
            },
            "since": {
                "type": "integer",
                "description": "For `change`: the revision that an earlier wait told; by default now"
            },
            "seconds": {
                "type": "integer", "minimum": 0, "maximum": MAX_SECONDS, "default": SECONDS,
                "description": "How long to wait at most; most clients give a call a minute"
            },
        },
        "additionalProperties": false,
    });
    let input = match input {
        Value::Object(input) => input,
        _ => Map::new(),
    };
    let about = "Wait until something happens in the runs: an agent starts or ends, a verdict comes in, all work \
                 is done. Returns at once when it does, with the run in which it did.";
    Tool { name: WAIT.into(), about: about.into(), input, looks: true, destroys: false }
}

/// The parameters of a call, without the run that it is about.
fn given(
    workflow: &Workflow,
    action: &Action,
    mut arguments: Map<String, Value>,
) -> Result<Json, Refusal> {
    let invalid = |message: String| Refusal::new("invalid_params", message);
    if !matches!(arguments.remove("run"), None | Some(Value::Null | Value::String(_))) {
        return Err(invalid("run is not a string".into()));
    }
    request::given(workflow, action, arguments).map_err(invalid)
}

/// The answer to a call that started a run.
fn created(
    gate: &Gate,
    workflow: &Workflow,
    run: &Found,
    answered: Option<Answered>,
    event: Event,
) -> Result<Map<String, Value>, Refusal> {
    if let Some(Answer::Deny { reason, code }) = answered.map(|answered| answered.answer) {
        return Err(Refusal::new(code.as_deref().unwrap_or("refused"), reason));
    }
    let mut answer = told(gate, run, &Event { params: Json::object(), ..event });
    answer.insert("run".into(), run.id.to_string().into());
    answer.insert("document".into(), workflow.document_of(&run.id.name).into());
    Ok(answer)
}

/// The answer to a call that looks at something.
fn shown(asked: &Asked, shown: &Shown, event: &Event) -> Result<Map<String, Value>, Refusal> {
    let Some(run) = &shown.run else {
        return Ok(one("text", asked.render(shown, shown.text, event)?));
    };
    let mut answer = told(asked.gate, run, event);
    let text = asked
        .render(shown, shown.json.unwrap_or(shown.text), event)
        .map_err(|error| Refusal::new("invalid_params", error.to_string()).with(answer.clone()))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) if shown.json.is_some() => answer.extend(members),
        _ => drop(answer.insert("text".into(), text.into())),
    }
    answer.insert("run".into(), run.id.to_string().into());
    Ok(answer)
}

/// The answer to a call that the rules have decided about.
fn acted(
    gate: &Gate,
    run: &Found,
    answered: Answered,
    event: &Event,
) -> Result<Map<String, Value>, Refusal> {
    let mut answer = told(gate, run, event);
    answer.insert("run".into(), run.id.to_string().into());
    if !answered.notes.is_empty() {
        let notes: Vec<String> = answered.notes.iter().map(|note| shorten(note)).collect();
        answer.insert("notes".into(), notes.into());
    }
    if let Answer::Deny { reason, code } = answered.answer {
        return Err(Refusal::new(code.as_deref().unwrap_or("refused"), reason).with(answer));
    }
    if let Some(text) = answered.answer.shortened(MAX_MESSAGE).text() {
        answer.insert("message".into(), text.trim_end().into());
    }
    if !answered.started.is_empty() {
        answer.insert("agents".into(), answered.started.into());
    }
    Ok(answer)
}

/// The guidance of a run, and how far it has come.
pub fn told(gate: &Runs, found: &Found, event: &Event) -> Map<String, Value> {
    let guidance = gate.guidance(found, event).map_err(|error| error.to_string());
    let members = guidance.and_then(|guidance| match serde_json::to_value(guidance) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("the workflow's guidance is not an object".into()),
        Err(error) => Err(error.to_string()),
    });
    let mut told = members.unwrap_or_else(|why| one("guidance_problem", shorten(&why)));
    // Actions are called by the names of their tools here.
    if let Some(Value::Array(can)) = told.get_mut("guidance").and_then(|it| it.get_mut("can")) {
        for name in can {
            *name = name.as_str().map(tool_named).into();
        }
    }
    if let Some(question) = found.ledger.open_question() {
        told.insert("question".into(), cut(&question.text, MAX_TEXT).into());
    }
    told.insert("revision".into(), found.ledger.position.seq.into());
    told
}

/// A question with the person's answer.
pub fn answered(question: &Question) -> Value {
    json!({ "question": question.text, "answer": question.answer })
}

/// The answer to a call that was accepted.
pub fn success(mut answer: Map<String, Value>) -> Value {
    answer.insert("success".into(), true.into());
    Value::Object(answer)
}

fn one(name: &str, text: String) -> Map<String, Value> {
    Map::from_iter([(name.to_string(), Value::String(text))])
}

/// A refusal or a note, not too long.
pub fn shorten(text: &str) -> String {
    cut(text, MAX_TEXT)
}

/// A text of at most so many characters, and a mark where it is cut.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.trim_end().to_string(),
    }
}
