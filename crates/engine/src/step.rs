//! What came of an event: the answer, the document as it is now, and how it came about.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::events::{ALIASES, EventKind, KIND, STOP, VERDICT};
use crate::evidence::{Account, Reading};
use crate::functions::object;
use crate::job::{CommandRun, Job};
use crate::json::Json;
use crate::signed::Signed;

pub use crate::actor::Actor;

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
    /// The signature of the person who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Box<Signed>>,
}

fn is_empty(params: &Json) -> bool {
    matches!(params, Json::Object(object) if object.is_empty())
}

impl Event {
    /// An event without parameters.
    pub fn new(name: &str, actor: Actor) -> Event {
        Event {
            name: name.into(),
            actor,
            session: None,
            agent: None,
            params: Json::object(),
            signed: None,
        }
    }

    /// A stop of an agent.
    pub fn stop(session: Option<String>) -> Event {
        Event { session, ..Event::new(STOP, Actor::Worker) }
    }

    /// The event under its own name, where it was given under a shorter one.
    #[must_use]
    pub fn unaliased(mut self) -> Event {
        if let Some(alias) = ALIASES.iter().find(|alias| alias.name == self.name) {
            self.name = alias.event.into();
            if self.params.get(KIND).is_none() {
                let kind = (KIND.to_string(), Json::from(alias.kind));
                let params = match &self.params {
                    Json::Object(params) => {
                        params.iter().map(|(name, it)| (name.to_string(), it.clone())).collect()
                    }
                    _ => Vec::new(),
                };
                self.params = object(std::iter::once(kind).chain(params));
            }
        }
        self
    }

    /// The name by which expressions know it: the shorter one, where it has one.
    pub fn short_name(&self) -> &str {
        let own = |name: &str| self.params.get(name).and_then(Json::as_str);
        let alias = ALIASES.iter().find(|alias| {
            alias.event == self.name
                && own(KIND) == Some(alias.kind)
                && (!alias.judged || own(VERDICT).is_some())
        });
        alias.map_or(&self.name, |alias| alias.name)
    }

    /// Whether a rule about events of that name is about this one.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.short_name() == name
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
    /// The same, whole.
    pub account: Account,
    /// The job whose end the event waits for: before it, nothing can be decided.
    pub wants: Option<Box<Job>>,
    /// What the runtime carries out before the step counts.
    pub effects: Vec<Effect>,
    /// The properties whose `pass` has held here for the first time, by name.
    pub passed: Vec<String>,
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
        self.wants = None;
        self.passed.clear();
    }
}

/// Something to be done in the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Move a file or folder to a place where nothing is yet.
    Move { from: String, to: String },
    /// Add a line to a file, once all else is done.
    Append { place: String, line: String },
    /// Write a text to a place.
    Write { place: String, text: String },
    /// Write the patch that leads from one tree that is kept to another.
    Patch { place: String, from: String, to: String },
    /// Copy files of the project, as far as they are there, to below a place.
    Copy { place: String, paths: Vec<String> },
    /// Run a command of this name. All commands of a step are one job, and the rest of the step is done
    /// only if every one of them ends well.
    Run { name: String, command: CommandRun },
    /// Start a job that works in the background, once the step counts.
    Start(Box<Job>),
    /// End a job, once the step counts.
    End(String),
    /// Remove the state document.
    Remove,
}

impl Job {
    /// The commands among the effects of a step: one job, which must end well before the rest is done.
    pub fn of_commands(effects: &[Effect]) -> Option<Job> {
        let commands = effects.iter().filter_map(|effect| match effect {
            Effect::Run { name, command } => Some((name.clone(), command.clone())),
            _ => None,
        });
        let mut commands = commands.peekable();
        commands.peek()?;
        Some(Job::commands(commands))
    }
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
    /// Properties that do not hold after the step, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violated: Vec<String>,
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
