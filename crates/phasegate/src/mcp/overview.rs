//! What every workflow has beside its own actions: its tasks, their agents, the end of a task.

use jiff::Timestamp;
use phasegate_engine::decide::params;
use phasegate_engine::job::JobKind;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_runtime::cost::Cost;
use phasegate_runtime::gate::{Found, Gate, Runs};
use phasegate_runtime::jobs::Record;
use serde_json::{Map, Value, json};

use super::tools::{Refusal, Tool, Tools, Who, answered, cut, run_schema, shorten, success, told};
use crate::request;

/// Tools that every workflow has, beside its own actions.
pub const TASKS: &str = "list_tasks";
pub const AGENTS: &str = "list_agents";
pub const CANCEL: &str = "cancel_task";
pub const ASK: &str = "ask_human";
pub const MISSING: &str = "what_is_missing";

/// How many rows a page has where nothing is said, and at most.
const LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 100;

/// How much of an agent's last message a row has.
const MAX_SAID: usize = 300;

/// How long a page may be, in bytes: the rows behind that are on the next one.
const MAX_PAGE: usize = 8_000;

/// The tools, for somebody who may use them.
pub fn tools(who: &Who) -> Vec<Tool> {
    let page = |mut properties: Map<String, Value>| {
        properties.insert(
            "offset".into(),
            json!({ "type": "integer", "minimum": 0, "default": 0, "description": "Where to go on: `next_offset` of the page before" }),
        );
        properties.insert(
            "limit".into(),
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": LIMIT, "description": "How many rows at most" }),
        );
        properties
    };
    let one_of = |words: &[&str], about: &str| json!({ "type": "string", "enum": words, "default": words[0], "description": about });
    let mut tasks = Map::new();
    tasks.insert("state".into(), one_of(&["open", "ended", "all"], "Which tasks"));
    let mut agents = Map::new();
    agents.insert(
        "run".into(),
        json!({ "type": "string", "description": "The run; by default all" }),
    );
    agents.insert("state".into(), one_of(&["all", "working", "ended", "failed"], "Which agents"));
    agents.insert("role".into(), one_of(&["any", "worker", "reviewer"], "Whose"));
    let mut tools = vec![
        tool(
            TASKS,
            "List the tasks: where each stands, who works on it, its time and cost.",
            &page(tasks),
        ),
        tool(
            AGENTS,
            "List the agents of all tasks, the last first: status, time, cost, and what each said last.",
            &page(agents),
        ),
    ];
    if !matches!(who, Who::Stranger) {
        let mut ask = Map::new();
        ask.insert("run".into(), run_schema());
        let about = "What the person should decide or tell you";
        ask.insert("question".into(), json!({ "type": "string", "description": about }));
        let mut asks = tool(
            ASK,
            "Ask the person. One question of a run can be open. Stop after it, or wait with `wait_for_change`: the \
             answer comes with that, as `answer`.",
            &ask,
        );
        asks.input.insert("required".into(), json!(["question"]));
        tools.push(Tool { looks: false, ..asks });
    }
    let mut missing = Map::new();
    missing.insert("run".into(), run_schema());
    tools.push(tool(
        MISSING,
        "What a stop would be answered now, and the fewest facts that would open the gate. Starts nothing.",
        &missing,
    ));
    if matches!(who, Who::Orchestrator) {
        let mut cancel = Map::new();
        cancel.insert("run".into(), run_schema());
        cancel.insert(
            "reason".into(),
            json!({ "type": "string", "description": "Why; it is written down" }),
        );
        let mut end = tool(
            CANCEL,
            "End a task for good, with all its agents. What they have written stays.",
            &cancel,
        );
        end.input.insert("required".into(), json!(["run", "reason"]));
        tools.push(Tool { looks: false, destroys: true, ..end });
    }
    tools
}

fn tool(name: &str, about: &str, properties: &Map<String, Value>) -> Tool {
    let schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let input = schema.as_object().cloned().unwrap_or_default();
    Tool { name: name.into(), about: about.into(), input, looks: true, destroys: false }
}

/// The arguments of a call, each taken once.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::new("invalid_params", format!("{name} is not a string"))),
        }
    }

    /// One of these words; the first where nothing is said.
    fn word(&mut self, name: &str, words: &[&'static str]) -> Result<&'static str, Refusal> {
        let Some(given) = self.text(name)? else { return Ok(words[0]) };
        let known = words.iter().find(|word| **word == given).copied();
        known.ok_or_else(|| {
            Refusal::new("invalid_params", format!("{name} is one of: {}", words.join(", ")))
        })
    }

    fn number(&mut self, name: &str, usual: u64, most: u64) -> Result<u64, Refusal> {
        match self.take(name).map(|value| value.as_u64()) {
            None => Ok(usual),
            Some(Some(number)) if number <= most => Ok(number),
            Some(_) => {
                let message = format!("{name} is a whole number, at most {most}");
                Err(Refusal::new("invalid_params", message))
            }
        }
    }

    fn page(&mut self) -> Result<(usize, usize), Refusal> {
        let offset = self.number("offset", 0, u64::MAX)?;
        let limit = self.number("limit", LIMIT, MAX_LIMIT)?;
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok((size(offset), size(limit.max(1))))
    }

    fn end(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(Refusal::new("invalid_params", format!("there is no parameter `{name}`")))
            }
        }
    }
}

/// Calls one of these tools; none where the name is another's.
pub fn call(
    tools: &Tools,
    who: &Who,
    name: &str,
    arguments: Map<String, Value>,
) -> Option<Result<Value, Refusal>> {
    if ![TASKS, AGENTS, CANCEL, ASK, MISSING].contains(&name) {
        return None;
    }
    let project = match tools.open() {
        Ok(project) => project,
        Err(why) => return Some(Err(Refusal::new("project", why))),
    };
    let (gate, given) = (Gate::new(&project), Arguments(arguments));
    let answer = match name {
        TASKS => tasks(tools, &gate, given),
        AGENTS => agents(tools, &gate, who, given),
        ASK => ask(tools, &gate, who, given),
        MISSING => missing(tools, &gate, who, given),
        _ => cancel(tools, &gate, who, given),
    };
    Some(answer.map(success))
}

fn tasks(tools: &Tools, gate: &Runs, mut given: Arguments) -> Result<Map<String, Value>, Refusal> {
    let state = given.word("state", &["open", "ended", "all"])?;
    let (offset, limit) = given.page()?;
    given.end()?;
    let mut runs = own(tools, gate);
    runs.retain(|run| match state {
        "open" => gate.is_working(run),
        "ended" => !gate.is_working(run),
        _ => true,
    });
    Ok(page("tasks", runs.len(), offset, limit, |at| task(gate, &runs[at])))
}

fn missing(
    tools: &Tools,
    gate: &Runs,
    who: &Who,
    mut given: Arguments,
) -> Result<Map<String, Value>, Refusal> {
    let run = given.text("run")?;
    given.end()?;
    let (_, found) = tools.found(gate, who, run.as_deref())?;
    match gate.now(&found)?.to_json(&found.id) {
        Value::Object(told) => Ok(told),
        _ => Ok(Map::new()),
    }
}

/// The runs of the workflow, the one that moved last first.
fn own(tools: &Tools, gate: &Runs) -> Vec<Found> {
    let mut runs = gate.all_runs().runs;
    runs.retain(|run| run.id.workflow == tools.workflow);
    let last = |run: &Found| run.ledger.session.last.as_ref().map(|last| last.at);
    runs.sort_by(|a, b| last(b).cmp(&last(a)).then_with(|| a.id.cmp(&b.id)));
    runs
}

fn task(gate: &Runs, run: &Found) -> Value {
    let report = gate.report(run);
    let headline = gate.headline(run, &Event::new("status", Actor::Orchestrator));
    let (status, action) = headline.map_or((report.phase, None), |(is, what)| (is, Some(what)));
    let jobs = gate.jobs_of(run);
    let agents = jobs.values().filter(|job| is_agent(job));
    let working = agents.clone().filter(|job| !job.is_over()).count();
    let tally = &run.ledger.work.tally;
    json!({
        "run": run.id.to_string(),
        "status": status,
        "action": action.map(|action| shorten(&action)),
        "condition": report.condition.to_string(),
        "agents": agents.clone().count(),
        "working": working,
        "started": run.ledger.started_at.map(|at| at.to_string()),
        "agent_seconds": agents.map(seconds).sum::<u64>(),
        "dollars": tally.cost().dollars(),
        "cost": tally.cost().to_string(),
        "revision": run.ledger.position.seq,
        "last": run.ledger.session.last.as_ref().map(|last| last.at.to_string()),
    })
}

fn agents(
    tools: &Tools,
    gate: &Runs,
    who: &Who,
    mut given: Arguments,
) -> Result<Map<String, Value>, Refusal> {
    let state = given.word("state", &["all", "working", "ended", "failed"])?;
    let run = given.text("run")?;
    let role = given.word("role", &["any", "worker", "reviewer"])?;
    let (offset, limit) = given.page()?;
    given.end()?;
    let runs = match run {
        Some(_) => vec![tools.found(gate, who, run.as_deref())?.1],
        None => own(tools, gate),
    };
    let mut rows: Vec<(&Found, String, Record)> = Vec::new();
    for run in &runs {
        rows.extend(gate.jobs_of(run).into_iter().map(|(id, job)| (run, id, job)));
    }
    rows.retain(|(_, _, job)| {
        let fits = match (state, &job.ended) {
            ("working", ended) => ended.is_none(),
            ("ended", ended) => ended.is_some(),
            ("failed", ended) => ended.as_ref().is_some_and(|it| it.exit_code != Some(0)),
            _ => true,
        };
        let own = job.role.map(|role| role.to_string());
        is_agent(job) && fits && (role == "any" || own.as_deref() == Some(role))
    });
    rows.sort_by_key(|(_, _, job)| std::cmp::Reverse(job.recorded));
    let cost: Cost = rows.iter().filter_map(|(_, _, job)| job.cost()).sum();
    let mut answer = page("agents", rows.len(), offset, limit, |at| {
        let (run, id, job) = &rows[at];
        agent(gate, run, id, job)
    });
    answer.insert("dollars".into(), json!(cost.dollars()));
    answer.insert("cost".into(), cost.to_string().into());
    Ok(answer)
}

/// Whether a job is somebody who works or judges, and not a command.
fn is_agent(job: &Record) -> bool {
    !matches!(job.kind, JobKind::Check | JobKind::Command)
}

fn agent(gate: &Runs, run: &Found, id: &str, job: &Record) -> Value {
    let ended = job.ended.as_ref();
    let mut row = json!({
        "run": run.id.to_string(),
        "id": id,
        "kind": job.name,
        "role": job.role.map(|role| role.to_string()),
        "status": job.status(),
        "started": since(job).to_string(),
        "seconds": seconds(job),
        "dollars": job.cost().and_then(Cost::dollars),
        "cost": job.cost().map(|cost| cost.to_string()),
        "end": ended.map(|ended| ended.words.as_str()),
        "said": gate.job_message(job).map(|said| cut(&said, MAX_SAID)),
    });
    // What its workflow knows it by, as its phase and round.
    let facts = serde_json::to_value(&job.facts).unwrap_or_default();
    if let (Some(row), Value::Object(facts)) = (row.as_object_mut(), facts) {
        for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_null()) {
            row.entry(name).or_insert(value);
        }
    }
    row
}

fn since(job: &Record) -> Timestamp {
    job.started.unwrap_or(job.recorded)
}

/// How long an agent has worked.
fn seconds(job: &Record) -> u64 {
    let now = || u64::try_from(Timestamp::now().as_second() - since(job).as_second()).unwrap_or(0);
    job.ended.as_ref().map_or_else(now, |ended| ended.seconds)
}

/// A page of a list: rows from a place on, as many as are wanted and fit, but one at least.
fn page(
    name: &str,
    total: usize,
    offset: usize,
    limit: usize,
    row: impl Fn(usize) -> Value,
) -> Map<String, Value> {
    let (mut rows, mut size, mut at) = (Vec::new(), 0, offset.min(total));
    while at < total && rows.len() < limit {
        let row = row(at);
        size += row.to_string().len();
        if size > MAX_PAGE && !rows.is_empty() {
            break;
        }
        rows.push(row);
        at += 1;
    }
    let next = if at < total { json!(at) } else { Value::Null };
    Map::from_iter([
        (name.to_string(), Value::Array(rows)),
        ("total".into(), total.into()),
        ("next_offset".into(), next),
    ])
}

fn cancel(
    tools: &Tools,
    gate: &Gate,
    who: &Who,
    mut given: Arguments,
) -> Result<Map<String, Value>, Refusal> {
    let (run, reason) = (given.text("run")?, given.text("reason")?);
    given.end()?;
    if !matches!(who, Who::Orchestrator) {
        let message = "an agent does not end the task that it works for";
        return Err(Refusal::new("not_permitted", message));
    }
    let missing = |name: &str| Refusal::new("invalid_params", format!("`{name}` is missing"));
    let run = run.ok_or_else(|| missing("run"))?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.ok_or_else(|| missing("reason"))?;
    let (caller, found) = tools.found(gate, who, Some(&run))?;
    if !gate.is_working(&found) {
        return Err(Refusal::new("over", format!("run {} is over already", found.id)));
    }
    let event = request::event("cancel", &caller, request::session(), Json::object());
    gate.cancel(&found, &event, Some(&reason))?;
    let found = gate.refreshed(&found);
    let mut answer = told(gate, &found, &event);
    answer.insert("run".into(), found.id.to_string().into());
    Ok(answer)
}

fn ask(
    tools: &Tools,
    gate: &Gate,
    who: &Who,
    mut given: Arguments,
) -> Result<Map<String, Value>, Refusal> {
    let (run, question) = (given.text("run")?, given.text("question")?);
    given.end()?;
    let (caller, asker) = tools.asker(gate, who)?;
    let question =
        question.ok_or_else(|| Refusal::new("invalid_params", "`question` is missing"))?;
    let full = |run: String| {
        if run.contains('/') { run } else { format!("{}/{run}", tools.workflow) }
    };
    let found = gate.asking_run(&asker, run.map(full).as_deref())?;
    let asked = params([("question".to_string(), Json::from(question.as_str()))]);
    let event = request::event(ASK, &caller, request::session(), asked);
    gate.must_be_itself(&found, &caller, &event)?;
    let earlier = gate.ask_human(&found, &event, &asker, &question)?;
    let found = gate.refreshed(&found);
    let mut answer = told(gate, &found, &event);
    answer.insert("run".into(), found.id.to_string().into());
    if let Some(earlier) = earlier {
        answer.insert("answer".into(), answered(&earlier));
    }
    Ok(answer)
}
