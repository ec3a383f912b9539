//! What came of an event: the answer, the document as it is now, and how it came about.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::events::{EventKind, STOP};
use crate::evidence::Reading;
use crate::functions::object;
use crate::json::Json;

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// One of the names in [`events`](crate::events), or that of an action.
    pub name: String,
    pub actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent that it is about, or that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default = "Json::object", skip_serializing_if = "is_empty")]
    pub params: Json,
}

fn is_empty(params: &Json) -> bool {
    matches!(params, Json::Object(object) if object.is_empty())
}

impl Event {
    /// An event without parameters.
    pub fn new(name: &str, actor: Actor) -> Event {
        Event { name: name.into(), actor, session: None, agent: None, params: Json::object() }
    }

    /// A stop of an agent.
    pub fn stop(session: Option<String>) -> Event {
        Event { session, ..Event::new(STOP, Actor::Worker) }
    }

    /// What kind of event it is.
    pub fn kind(&self) -> EventKind {
        EventKind::of(&self.name)
    }

    /// Whether the event wants an answer from every phase it passes through.
    pub fn is_question(&self) -> bool {
        self.kind() == EventKind::Stop
    }
}

/// Who caused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "actor")]
pub enum Actor {
    Human,
    Worker,
    Reviewer,
    Orchestrator,
    Engine,
}

impl fmt::Display for Actor {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Actor::Human => "human",
            Actor::Worker => "worker",
            Actor::Reviewer => "reviewer",
            Actor::Orchestrator => "orchestrator",
            Actor::Engine => "engine",
        })
    }
}

/// The result of a decision.
#[derive(Clone, Debug)]
pub struct Step {
    pub answer: Answer,
    /// No rule was about the event, and the answer only says so.
    pub unheard: bool,
    /// The state document after the step, and before it.
    pub document: Json,
    pub original: Json,
    pub changed: bool,
    pub from: String,
    pub to: String,
    pub moves: Vec<Move>,
    pub trace: Trace,
    pub readings: Vec<Reading>,
    /// The check that must run before anything can be decided.
    pub needs: Option<String>,
    /// The review that must be made before anything can be decided.
    pub review: Option<Review>,
    /// The work that is asked for.
    pub work: Option<Work>,
    /// What the runtime carries out before the step counts.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Gives another answer than the block that the rules wanted. What has moved on stays; what the
    /// block alone has changed, as a count of blocks, is not done.
    pub fn let_go(&mut self, answer: Answer) {
        if self.moves.is_empty() {
            self.undo(answer);
        } else {
            self.answer = answer;
        }
    }

    /// Gives this answer, and does nothing else.
    pub fn undo(&mut self, answer: Answer) {
        self.answer = answer;
        self.unheard = false;
        self.document = self.original.clone();
        self.changed = false;
        self.to.clone_from(&self.from);
        self.moves.clear();
        self.effects.clear();
        self.needs = None;
        self.review = None;
        self.work = None;
    }
}

/// A review to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub reviewer: String,
    pub prompt: String,
    /// The file to be written.
    pub file: String,
    pub model: Option<String>,
    pub run: Vec<String>,
    pub timeout: Duration,
}

/// Work to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub worker: String,
    pub prompt: String,
    pub run: Vec<String>,
    pub timeout: Duration,
}

/// An agent to be started, which outlives whoever asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// No other agent of the run has it.
    pub id: String,
    /// What the workflow calls such agents.
    pub kind: String,
    pub role: Actor,
    /// What the rules want to know it by.
    pub facts: Json,
    pub prompt: String,
    /// Empty where the usual client is meant.
    pub run: Vec<String>,
    pub model: Option<String>,
    pub timeout: Duration,
}

impl Agent {
    /// The agent as expressions see it before it has started.
    pub fn row(&self) -> Json {
        let own = [
            ("id", Json::from(self.id.as_str())),
            ("kind", Json::from(self.kind.as_str())),
            ("role", Json::from(self.role.to_string())),
            ("status", Json::from("starting")),
            ("ended", Json::from(false)),
            ("ok", Json::from(false)),
        ];
        let own = own.map(|(name, value)| (name.to_string(), value));
        let facts = match &self.facts {
            Json::Object(facts) => {
                facts.iter().map(|(name, it)| (name.to_string(), it.clone())).collect()
            }
            _ => Vec::new(),
        };
        object(own.into_iter().chain(facts))
    }
}

/// Something to be done in the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Move a file or folder to a place where nothing is yet.
    Move { from: String, to: String },
    /// Add a line to a file, once all else is done.
    Append { place: String, line: String },
    /// Write a text to a place.
    Write { place: String, text: String },
    /// Run a command, for no longer than this.
    Run(Vec<String>, Duration),
    /// Start an agent, once the step counts.
    Start(Box<Agent>),
    /// End an agent, likewise.
    End(String),
    /// Remove the state document.
    Remove,
}

/// A change of phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// `state`, or the element: `group auth`.
    pub of: String,
    pub from: String,
    pub to: String,
    /// The rule's label.
    pub by: String,
}

/// Which rules were tried, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub tried: Vec<Tried>,
    /// How many more were tried than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Labels of the rules that fired, each once: for coverage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub rule: String,
    pub line: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    pub held: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Tried {
    /// Whether the rule stands under `always`, as its label says.
    pub fn is_always(&self) -> bool {
        self.rule.rsplit_once(' ').is_some_and(|(of, _)| of.ends_with(ALWAYS))
    }
}

/// The end of what comes before the number in the label of a rule under `always`.
const ALWAYS: &str = " always";

/// The label of a rule under `always`: of which machine and phase it is, and its number there.
pub fn always_label(of: &str, number: usize) -> String {
    format!("{of}{ALWAYS} {number}")
}

/// A part of a guard and what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub text: String,
    pub held: bool,
    /// The values of the names in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<(String, String)>,
}
