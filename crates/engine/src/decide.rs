//! The decision: a pure function from workflow, document, event and evidence to a step.
//!
//! `always` rules run first and after every move, until none fires. Then the rules for the event
//! are tried in order and the first whose guard holds fires. A rule that moves without answering
//! carries a stop on into the new phase; an action is accepted by the first rule that fires.

mod about;
mod choices;
mod document;
mod facts;
pub mod missing;
mod possible;
mod properties;
mod rules;
mod run_facts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use minijinja::{Environment, Value};

use possible::Held;

pub use about::{guards, guidance, phase_name, render};
pub use run_facts::{FILES, RunFacts};

use crate::answer::{Answer, FAULT, NOT_POSSIBLE, Outcome, Until};
use crate::evidence::{Evidence, Recorder};
use crate::functions::{environment, object};
use crate::job::Job;
use crate::json::Json;
use crate::step::{Actor, Effect, Event, Move, Step, Trace};
use crate::workflow::{Choice, Expression, Machine, MachineId, OUTER, Phase, PhaseId, Workflow};

/// How many rules may fire on one object for one event.
pub const MOST_MICROSTEPS: usize = 32;

/// How many tried rules a trace lists.
const MOST_TRIED: usize = 64;

/// The parameter of a stop that is put again after a review: whose it was.
pub const REVIEWED: &str = "reviewed";

/// The parameter of a stop that is put again after a review that gave no verdict: whose it was.
pub const UNREVIEWED: &str = "unreviewed";

/// Why no decision could be made. It allows the stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub message: String,
    /// A check that has not run: not a fault, if somebody can run it.
    pub needs: Option<String>,
}

impl Fault {
    fn new(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), needs: None }
    }

    fn needs(check: &str) -> Fault {
        let message = format!("check {check} has not run on the tree as it is");
        Fault { message, needs: Some(check.to_string()) }
    }
}

/// Decides. A fault leaves the document as it was.
pub fn decide(
    workflow: &Workflow,
    document: Json,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
) -> Step {
    made(workflow, document, event, run, evidence, None)
}

/// Decides as if these parts of guards came out so, whatever is looked up.
pub(crate) fn decide_supposing(
    workflow: &Workflow,
    document: Json,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
    supposed: &BTreeMap<String, bool>,
) -> Step {
    made(workflow, document, event, run, evidence, Some(supposed))
}

/// A decision; one that supposes something does not look for what else could be supposed.
fn made(
    workflow: &Workflow,
    document: Json,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
    supposed: Option<&BTreeMap<String, bool>>,
) -> Step {
    let recorder = Arc::new(Recorder::new(evidence));
    let env = environment(&recorder, &workflow.records);
    let from = phase_name(workflow, &document);
    let mut deciding = Deciding::new(workflow, &env, &recorder, document, event, run);
    if let Some(supposed) = supposed {
        deciding.supposed.clone_from(supposed);
    }
    let fits = deciding.declare();
    // Taken only now: a document that is shared would be copied to be declared.
    let original = deciding.document.clone();
    if supposed.is_none() {
        deciding.beside = Some(Beside { event, run, recorder: &recorder, document: &original });
    }
    let decided = match fits {
        Ok(()) => deciding.decide(event),
        Err(fault) => deciding.misfit(event, fault),
    };
    let decided = decided.and_then(|answer| deciding.keep_to(answer));
    let Deciding { document: after, moves, trace, changed, effects, wants, passed, .. } = deciding;
    let unheard = deciding.unheard;
    let (readings, account) = recorder.taken();
    match decided {
        Ok(answer) => {
            let to = phase_name(workflow, &after);
            let passed = passed.into_iter().skip(run.passed.len()).collect();
            Step {
                answer,
                unheard,
                document: after,
                original,
                changed,
                from,
                to,
                moves,
                trace,
                readings,
                account,
                wants,
                effects,
                passed,
            }
        }
        Err(fault) => Step {
            // Nothing is done: a stop is let go, and an action is refused.
            answer: if event.is_question() {
                Answer::allow_saying(Outcome::Fault, fault.message)
            } else {
                Answer::deny_as(FAULT, fault.message)
            },
            unheard: false,
            document: original.clone(),
            original,
            changed: false,
            from: from.clone(),
            to: from,
            moves: Vec::new(),
            trace,
            readings,
            account,
            wants: fault.needs.and_then(|name| workflow.check(&name)?.fixed().map(Box::new)),
            effects: Vec::new(),
            passed: Vec::new(),
        },
    }
}

/// An object that a machine runs on.
struct Bound {
    machine: MachineId,
    /// Where it is in the document.
    path: Vec<String>,
    key: Json,
    /// Derived facts, as far as they have been asked for since the last change.
    lets: HashMap<Arc<str>, Value>,
}

/// What is needed to decide beside a decision, as if something were otherwise.
struct Beside<'w> {
    event: &'w Event,
    run: &'w RunFacts,
    recorder: &'w Arc<Recorder>,
    /// The document before the decision.
    document: &'w Json,
}

/// What kind of text is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renders {
    Block,
    Other,
}

struct Deciding<'w> {
    workflow: &'w Workflow,
    env: &'w Environment<'w>,
    recorder: &'w Recorder,
    compiled: HashMap<*const Expression, Arc<minijinja::Expression<'w, 'w>>>,
    /// The row of each choice that held last.
    rows: HashMap<*const Choice, usize>,
    document: Json,
    changed: bool,
    /// The document, and the elements that the question has gone down to.
    bound: Vec<Bound>,
    /// How many of them an expression sees: a fact of the document does not see its elements.
    visible: usize,
    run: Json,
    event: Json,
    params: Json,
    moves: Vec<Move>,
    effects: Vec<Effect>,
    wants: Option<Box<Job>>,
    /// No rule was about the event.
    unheard: bool,
    trace: Trace,
    /// Who asks, by role.
    actor: Actor,
    /// The agent that the event is about, or that is being started; none where there is none.
    agent: Json,
    /// Agents that are started by this step.
    started: Vec<Json>,
    /// Whether it is only looked at what could be asked.
    trial: bool,
    /// What would not be done, whatever the rules say.
    held: Held,
    /// Parts of guards that come out so, whatever is looked up.
    supposed: BTreeMap<String, bool>,
    /// None where it is itself made beside another.
    beside: Option<Beside<'w>>,
    renders: Renders,
    /// What the step has come to, while properties are looked at.
    reached: Option<[(&'static str, Json); 3]>,
    /// The properties whose `pass` has held, by name.
    passed: Vec<String>,
}

impl<'w> Deciding<'w> {
    fn new(
        workflow: &'w Workflow,
        env: &'w Environment<'w>,
        recorder: &'w Recorder,
        document: Json,
        event: &Event,
        run: &RunFacts,
    ) -> Deciding<'w> {
        let actor = serde_json::to_value(event.actor).unwrap_or_default();
        let event_facts = Json::from([
            ("name", Json::from(event.short_name())),
            ("actor", Json::from(actor.as_str().unwrap_or_default())),
            ("session", event.session.as_deref().map_or(Json::Null, Json::from)),
            ("reviewed", event.params.get(REVIEWED).cloned().unwrap_or(Json::Null)),
            ("unreviewed", event.params.get(UNREVIEWED).cloned().unwrap_or(Json::Null)),
            (
                "signed_by",
                event.signed.as_ref().map_or(Json::Null, |it| it.principal.as_str().into()),
            ),
        ]);
        let outer =
            Bound { machine: OUTER, path: Vec::new(), key: Json::Null, lets: HashMap::new() };
        let agent = event.agent.as_deref().map_or(Json::Null, |id| agent_called(recorder, id));
        Deciding {
            workflow,
            env,
            recorder,
            compiled: HashMap::new(),
            rows: HashMap::new(),
            document,
            changed: false,
            bound: vec![outer],
            visible: 1,
            run: run.to_json(workflow),
            event: event_facts,
            params: event.params.clone(),
            moves: Vec::new(),
            effects: Vec::new(),
            wants: None,
            unheard: false,
            trace: Trace::default(),
            actor: event.actor,
            agent,
            started: Vec::new(),
            trial: false,
            held: Held::of(run),
            supposed: BTreeMap::new(),
            beside: None,
            renders: Renders::Other,
            reached: None,
            passed: run.passed.clone(),
        }
    }

    fn declare(&mut self) -> Result<(), Fault> {
        let checked =
            self.workflow.records.declare(&self.workflow.state, &mut self.document, "state");
        checked.map_err(|found| Fault::new(format!("the state document does not fit: {found}")))
    }

    /// The answer where the document does not fit.
    fn misfit(&mut self, event: &Event, fault: Fault) -> Result<Answer, Fault> {
        let Some(text) = self.workflow.misfit.filter(|_| event.is_question()) else {
            return Err(fault);
        };
        if let Some(problem) = self.run.at_mut(["problem"]) {
            *problem = Json::from(fault.message.as_str());
        }
        Ok(Answer::Block { reason: self.text(text)? })
    }

    fn decide(&mut self, event: &Event) -> Result<Answer, Fault> {
        let answer = self.question(event)?;
        if answer.is_some() {
            self.settle()?;
        }
        if self.changed
            && let Some(field) = &self.workflow.updated
        {
            // Whole seconds: not every reader of a document knows fractions.
            let now = Timestamp::from_second(self.recorder.now().as_second());
            let now = Json::from(now.unwrap_or_default().to_string());
            if let Some(place) = self.document.at_mut([field.as_str()]) {
                *place = now;
            }
        }
        if let Some(answer) = answer {
            self.transcribe(event, &answer)?;
            return Ok(answer);
        }
        let phase = self.phase()?;
        let name = &phase.name;
        Ok(match (event.is_question(), phase.ends) {
            (true, Some(outcome)) => Answer::allow(outcome),
            (true, None) => {
                let message = format!("phase `{name}` has no rule for this stop");
                Answer::allow_saying(Outcome::Inactive, message)
            }
            (false, _) => {
                self.unheard = true;
                let reason = format!("`{}` is not possible in phase `{name}`", event.name);
                Answer::deny_as(NOT_POSSIBLE, reason)
            }
        })
    }

    fn here(&self) -> &Bound {
        &self.bound[self.bound.len() - 1]
    }

    fn machine(&self) -> &'w Machine {
        self.workflow.machine(self.here().machine)
    }

    fn object(&self) -> Option<&Json> {
        self.document.at(self.here().path.iter().map(String::as_str))
    }

    fn phase_id(&mut self) -> Result<PhaseId, Fault> {
        let machine = self.machine();
        if let Some(derive) = &machine.derive {
            let phase = self.evaluate(derive)?;
            let found = phase.as_str().and_then(|name| machine.phase(name));
            return found.ok_or_else(|| Fault::new(format!("there is no phase {phase}")));
        }
        let place = self.element_name().unwrap_or_else(|| machine.name.to_string());
        match self.object().and_then(|object| object.get(&machine.field)) {
            None | Some(Json::Null) => machine.initial.ok_or_else(|| {
                Fault::new(format!("{place} has no `{}`, so its phase is not known", machine.field))
            }),
            Some(value) => value.as_str().and_then(|name| machine.phase(name)).ok_or_else(|| {
                let known: Vec<&str> = machine.phases.iter().map(|phase| &*phase.name).collect();
                let field = &machine.field;
                let (value, known) = (value.brief(), known.join(", "));
                Fault::new(format!("{place}: `{field}` is {value}, but the phases are {known}"))
            }),
        }
    }

    fn phase(&mut self) -> Result<&'w Phase, Fault> {
        let id = self.phase_id()?;
        Ok(self.machine().get(id))
    }

    fn element_name(&self) -> Option<String> {
        let here = self.here();
        let key = match &here.key {
            Json::Null => return None,
            Json::String(key) => key.to_string(),
            other => other.brief(),
        };
        Some(format!("{} {key}", self.machine().name))
    }

    /// Runs `always` rules until none fires.
    fn settle(&mut self) -> Result<(), Fault> {
        for _ in 0..MOST_MICROSTEPS {
            if !self.settle_once()? {
                return Ok(());
            }
        }
        Err(self.endless("`always` rules of"))
    }

    fn settle_once(&mut self) -> Result<bool, Fault> {
        let phase = self.phase()?;
        let mut below = false;
        for rule in self.machine().always_in(phase) {
            if !self.holds(rule)? {
                continue;
            }
            if let Some(inner) = rule.ask {
                below |= self.each(inner, |this| {
                    let changes = this.moves.len();
                    let before = this.changed;
                    this.changed = false;
                    this.settle()?;
                    let moved = this.changed || this.moves.len() > changes;
                    this.changed |= before;
                    Ok(moved.then_some(()))
                })?;
                continue;
            }
            self.fire(rule)?;
            return Ok(true);
        }
        Ok(below)
    }

    /// Puts the event to the innermost bound object; `None` where no rule answers.
    fn question(&mut self, event: &Event) -> Result<Option<Answer>, Fault> {
        let mut carried = false;
        for _ in 0..MOST_MICROSTEPS {
            self.settle()?;
            let phase = self.phase()?;
            let mut fired = false;
            for rule in self.machine().rules_in(phase) {
                if !rule.on.iter().any(|on| event.is(on)) || !self.holds(rule)? {
                    continue;
                }
                if let Some(inner) = rule.ask {
                    let mut answer = None;
                    self.each_until(inner, |this| {
                        answer = this.question(event)?;
                        Ok(answer.is_some())
                    })?;
                    if answer.is_some() {
                        return Ok(answer);
                    }
                    continue;
                }
                if let Some(spec) = rule.start.map(|start| &self.workflow.jobs[start])
                    && spec.manner.waits
                {
                    let job = self.start_one(spec, Json::Null)?;
                    self.note_fired(rule);
                    let message = job.at_work();
                    self.wants = Some(Box::new(job));
                    return Ok(Some(Answer::waiting(Until::Background, message)));
                }
                if let Some(answer) = self.fire(rule)? {
                    return Ok(Some(answer));
                }
                let carries = rule.carry.contains(&event.name);
                carried |= carries;
                if !event.is_question() && !carries {
                    return Ok(Some(Answer::accepted()));
                }
                fired = true;
                break;
            }
            if !fired {
                let accepted = Answer::accepted();
                return Ok(carried.then_some(accepted));
            }
        }
        Err(self.endless(&format!("rules for `{}` of", event.name)))
    }

    fn endless(&self, which: &str) -> Fault {
        let place = self.element_name().unwrap_or_else(|| self.machine().name.to_string());
        let last = self.trace.fired.last().map_or("none", String::as_str);
        Fault::new(format!(
            "the {which} {place} fired {MOST_MICROSTEPS} times without coming to rest \
             (the last was `{last}`): a guard stays true after its own rule"
        ))
    }
}

/// An agent of the run, as expressions see it.
fn agent_called(recorder: &Recorder, id: &str) -> Json {
    let Json::List(agents) = recorder.agents() else { return Json::Null };
    let own = |agent: &&Json| agent.get("id").and_then(Json::as_str) == Some(id);
    agents.0.iter().find(own).cloned().unwrap_or(Json::Null)
}

/// Parameters for an event.
pub fn params(members: impl IntoIterator<Item = (String, Json)>) -> Json {
    object(members)
}
