//! A workflow, resolved: every name is a number, every expression is known to parse.

mod choice;
mod job_spec;
mod property;
mod sight;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::actor::Actor;
use crate::answer::{Outcome, Until};
use crate::definition::{MayCancel, OnTamper, ParamType, Reentry};
use crate::diagnostic::Source;
use crate::identity::Identity;
use crate::job::Bound;
use crate::json::Json;
use crate::syntax::{Names, Parts};
use crate::types::{Records, Type};

pub use choice::{Choice, Row};
pub use job_spec::JobSpec;
pub use property::{Claim, OF_PROPERTIES, Property};

/// Phases, and rules between them.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub name: String,
    pub about: String,
    /// What the definition is known by, with its prompts, templates and configured constants.
    pub identity: Identity,
    /// Where state documents are: a path with at most one `*`, which stands for the run's name.
    pub document: String,
    /// Where they are looked for too.
    pub fallback: Option<String>,
    /// What an agent is told about a run.
    pub note: Option<TextId>,
    /// What a stop is blocked with at which the document does not fit.
    pub misfit: Option<TextId>,
    /// What takes the place of a document that cannot be read.
    pub unreadable: Option<TextId>,
    /// What a document is taken for that is missing, or cannot be read.
    pub presumed: Option<TextId>,
    /// What programs are told with every answer: JSON, once rendered.
    pub guidance: Option<TextId>,
    /// A file, and the line that is added to it at every step.
    pub transcript: Option<(TextId, TextId)>,
    /// The field that is set to the time of every change.
    pub updated: Option<String>,
    /// The field that has the worktree in which a run's agents work.
    pub worktree: Option<String>,
    /// The field that has the patterns of the files that are a run's tree.
    pub scope: Option<String>,
    /// Paths of fields that only the rules may change.
    pub protected: Vec<String>,
    /// Paths of fields that others may change as well, visibly.
    pub watched: Vec<String>,
    pub on_tamper: OnTamper,
    pub reentry: Reentry,
    pub patience: u32,
    pub block_exit: u8,
    pub way_out: bool,
    pub cancel: MayCancel,
    pub constants: Vec<(String, Json)>,
    pub records: Records,
    /// The type of the state document.
    pub state: Type,
    /// The machine on the state document first, then the inner ones.
    pub machines: Vec<Machine>,
    pub actions: Vec<Action>,
    pub jobs: Vec<JobSpec>,
    /// What must hold of every run.
    pub properties: Vec<Property>,
    pub texts: Vec<TextTemplate>,
    /// Files that are parts of texts.
    pub included: Vec<Arc<Source>>,
}

/// The machine on the state document.
pub const OUTER: MachineId = MachineId(0);

/// A machine's place in a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineId(pub usize);

/// A phase's place in its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhaseId(pub usize);

/// A text's place in a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextId(pub usize);

/// A machine on the state document or on an element of it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `state`, or what an element is called in expressions.
    pub name: Arc<str>,
    /// Which elements an inner machine runs on.
    pub binding: Option<Binding>,
    /// The field that holds the phase.
    pub field: String,
    /// Tells the phase, where no field holds it.
    pub derive: Option<Expression>,
    pub initial: Option<PhaseId>,
    pub lets: Vec<(Arc<str>, Expression)>,
    pub choices: Vec<Choice>,
    pub any: RuleSet,
    pub phases: Vec<Phase>,
}

/// Where an inner machine's elements are.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The machine of whose object `path` is a part.
    pub of: MachineId,
    pub path: Vec<String>,
    pub pick: Option<Expression>,
}

/// A phase.
#[derive(Clone, Debug)]
pub struct Phase {
    pub name: Arc<str>,
    pub about: Option<String>,
    /// What a stop in a final phase is answered with.
    pub ends: Option<Outcome>,
    pub rules: RuleSet,
    pub span: Range<usize>,
    /// The tools that the agent may not use here, and why.
    pub denied: Option<Denied>,
}

/// Tools that an agent may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub tools: Vec<String>,
    pub because: Option<String>,
}

/// Rules for events, and rules that need none.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub rules: Vec<Rule>,
    pub always: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Names the rule in traces and coverage: `triage 2`, `any always 1`.
    pub label: Arc<str>,
    pub line: usize,
    pub span: Range<usize>,
    pub on: Vec<String>,
    pub when: Option<Guard>,
    pub set: Vec<Assignment>,
    pub goto: Option<PhaseId>,
    /// The actions among its events that go on in the new phase.
    pub carry: Vec<String>,
    pub ask: Option<MachineId>,
    pub reply: Option<Reply>,
    /// Places, and what is written there.
    pub write: Vec<(TextId, Written)>,
    /// Places, and where what is there is moved to.
    pub moved: Vec<(TextId, TextId)>,
    /// The jobs of an action that run before anything else of the rule is done, by their positions.
    pub run: Vec<usize>,
    pub remove: bool,
    /// The job that is started, by its position.
    pub start: Option<usize>,
    /// Which jobs are ended.
    pub end: Option<Expression>,
    /// What programs know a refusal by.
    pub code: Option<String>,
}

/// What a rule writes.
#[derive(Clone, Debug)]
pub enum Written {
    /// A text.
    Text(TextId),
    /// The patch that makes these changes.
    Patch(Expression),
    /// Copies of these files.
    Copies(Expression),
}

/// A guard: an expression, and its parts for explanations.
#[derive(Clone, Debug)]
pub struct Guard {
    pub whole: Expression,
    parts: OnceLock<GuardParts>,
}

impl Guard {
    pub(crate) fn new(whole: Expression) -> Guard {
        Guard { whole, parts: OnceLock::new() }
    }

    /// The guard taken apart at its `and`, `or` and `not`.
    pub fn parts(&self) -> &GuardParts {
        self.parts.get_or_init(|| GuardParts::build(&Parts::of(&self.whole.text), &self.whole))
    }
}

/// A part of a guard.
#[derive(Clone, Debug)]
pub enum GuardParts {
    All(Vec<GuardParts>),
    Any(Vec<GuardParts>),
    Not(Box<GuardParts>),
    Leaf(Expression),
}

/// A field to set.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub machine: MachineId,
    pub path: Vec<String>,
    pub value: NewValue,
}

/// What a field is set to.
#[derive(Clone, Debug)]
pub enum NewValue {
    Literal(Json),
    Expression(Expression),
    /// A text that is JSON once rendered.
    Rendered(TextId),
}

/// What a rule answers.
#[derive(Clone, Debug)]
pub enum Reply {
    Block(TextId),
    Allow { outcome: Outcome, until: Option<Until>, message: Option<TextId> },
    Deny(TextId),
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub enum CommandLine {
    /// As they are.
    Words(Vec<String>),
    /// A text with holes each.
    Texts(Vec<TextId>),
    /// An expression for the list of them.
    Expression(Expression),
}

impl CommandLine {
    /// The texts, where it is written as texts.
    pub fn texts(&self) -> &[TextId] {
        match self {
            CommandLine::Texts(parts) => parts,
            CommandLine::Words(_) | CommandLine::Expression(_) => &[],
        }
    }

    /// The expression, where it is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self {
            CommandLine::Words(_) | CommandLine::Texts(_) => None,
            CommandLine::Expression(list) => Some(list),
        }
    }
}

/// Something that can be asked of a workflow.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    pub about: String,
    /// What its command is called, where that differs.
    pub command: String,
    /// Who may ask for it; everybody where it is empty.
    pub by: Vec<Actor>,
    /// Whether it counts only with a signature.
    pub signed: bool,
    pub params: Vec<Param>,
    pub does: Does,
}

impl Action {
    /// Whether only a person may ask for it.
    pub fn people_only(&self) -> bool {
        self.by == [Actor::Human]
    }

    /// Whether somebody in a role may ask for it.
    pub fn is_for(&self, actor: Actor) -> bool {
        self.by.is_empty() || self.by.contains(&actor)
    }
}

/// What an action does.
#[derive(Clone, Debug)]
pub enum Does {
    /// Makes a new run, and shows a text about it.
    Create { name: Option<TextId>, document: TextId, shows: Option<TextId> },
    /// Shows a text, and JSON with `--json`; about a run, unless it stands alone.
    Show { text: TextId, json: Option<TextId>, alone: bool },
    /// Is an event for the rules.
    Event,
}

/// A parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    pub about: String,
    pub ty: ParamType,
    /// What fits.
    pub value: Type,
    pub default: Option<Json>,
    pub optional: bool,
    /// Only a person may give it.
    pub people_only: bool,
}

impl Param {
    fn may_be_left_out(&self) -> bool {
        self.optional || self.default.is_some()
    }
}

/// An expression and where it was written.
#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub source: Arc<Source>,
    pub span: Range<usize>,
    names: OnceLock<Names>,
}

impl Expression {
    pub(crate) fn new(text: String, source: Arc<Source>, span: Range<usize>) -> Expression {
        Expression { text, source, span, names: OnceLock::new() }
    }

    /// The names it uses; none where it does not parse.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::of_expression(&self.text).unwrap_or_default())
    }
}

/// A text with holes and where it was written.
#[derive(Clone, Debug)]
pub struct TextTemplate {
    pub text: String,
    pub source: Arc<Source>,
    pub span: Range<usize>,
    names: OnceLock<Names>,
}

impl TextTemplate {
    pub(crate) fn new(text: String, source: Arc<Source>, span: Range<usize>) -> TextTemplate {
        TextTemplate { text, source, span, names: OnceLock::new() }
    }

    /// The names it uses; none where it does not parse.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::of_text(&self.text).unwrap_or_default())
    }
}

impl Workflow {
    /// The machine.
    pub fn machine(&self, id: MachineId) -> &Machine {
        &self.machines[id.0]
    }

    /// The machine on the state document.
    pub fn outer(&self) -> &Machine {
        &self.machines[0]
    }

    /// The action of that name.
    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions.iter().find(|action| action.name == name)
    }

    /// Whether some of a workflow's jobs can ask for things themselves.
    pub fn has_agents(&self) -> bool {
        self.jobs.iter().any(|job| job.role.is_some())
    }

    /// The jobs whose results hold for the tree: what expressions read as `check.NAME`.
    pub fn checks(&self) -> impl Iterator<Item = &JobSpec> {
        self.jobs.iter().filter(|job| job.manner.bound == Bound::Tree)
    }

    /// The check of that name.
    pub fn check(&self, name: &str) -> Option<&JobSpec> {
        self.checks().find(|job| job.name == name)
    }

    /// Whether the command of a check is a constant that is empty.
    pub fn has_nothing_to_check(&self, name: &str) -> bool {
        let constant = self.check(name).and_then(|check| check.constant.as_ref());
        constant.is_some_and(|constant| {
            let found = self.constants.iter().find(|(known, _)| known == constant);
            matches!(found, Some((_, Json::List(list))) if list.0.is_empty())
        })
    }

    /// Whether a phase refuses tools to the agent.
    pub fn denies_tools(&self) -> bool {
        self.outer().phases.iter().any(|phase| phase.denied.is_some())
    }

    /// Whether a rule is about the event.
    pub fn hears(&self, event: &str) -> bool {
        self.rules().any(|(_, rule)| rule.on.iter().any(|on| on == event))
    }

    /// The state document's place for a run of that name.
    pub fn document_of(&self, run: &str) -> String {
        self.document.replacen('*', run, 1)
    }

    /// The action that begins a run without being told anything; none where the workflow declares no action
    /// for that, and every run begins in the same way.
    pub fn plain_start(&self) -> Option<&Action> {
        self.starts().find(|action| action.params.iter().all(Param::may_be_left_out))
    }

    /// Why it cannot hold sessions without being started; none where it can.
    pub fn why_not_standing(&self) -> Option<String> {
        if !self.document.contains('*') || self.presumed.is_some() {
            return Some("its sessions would share one document, and each needs its own".into());
        }
        let first = self.starts().next()?;
        let name = &first.name;
        self.plain_start().is_none().then(|| format!("`{name}` needs parameters to start a run"))
    }

    fn starts(&self) -> impl Iterator<Item = &Action> {
        self.actions.iter().filter(|action| matches!(action.does, Does::Create { .. }))
    }

    /// Adds a text that is not the definition's own, to be rendered about its documents.
    pub fn add_text(&mut self, source: &Arc<Source>) -> TextId {
        let text = source.text.to_string();
        self.texts.push(TextTemplate::new(text, source.clone(), 0..source.text.len()));
        TextId(self.texts.len() - 1)
    }

    /// Every expression that decides: guards, the facts behind them, what is picked, and properties.
    pub(crate) fn guards(&self) -> impl Iterator<Item = &Expression> {
        let rules = self.rules().filter_map(|(_, rule)| Some(&rule.when.as_ref()?.whole));
        let facts = self.machines.iter().flat_map(|machine| {
            let pick = machine.binding.iter().filter_map(|binding| binding.pick.as_ref());
            machine.facts().flat_map(|(.., by)| by).chain(pick).chain(&machine.derive)
        });
        let properties = self.properties.iter().flat_map(Property::expressions);
        rules.chain(facts).chain(properties)
    }

    /// Every rule, machine by machine, in the order of the definition.
    pub fn rules(&self) -> impl Iterator<Item = (&Machine, &Rule)> {
        let machines = self.machines.iter();
        machines.flat_map(|machine| machine.all_rules().map(move |rule| (machine, rule)))
    }
}

impl Machine {
    /// Its rules, in the order of the definition.
    pub(crate) fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        let phases = self.phases.iter().map(|phase| &phase.rules);
        let sets = std::iter::once(&self.any).chain(phases);
        sets.flat_map(|set| set.always.iter().chain(&set.rules))
    }

    /// The facts that are derived, each with its name, its place and what it is derived by.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &Range<usize>, Vec<&Expression>)> {
        let lets = self.lets.iter().map(|(name, it)| (&**name, &it.span, vec![it]));
        let choices = self.choices.iter();
        lets.chain(choices.map(|it| (&*it.name, &it.span, it.expressions().collect())))
    }

    /// The phase of that name.
    pub fn phase(&self, name: &str) -> Option<PhaseId> {
        self.phases.iter().position(|phase| &*phase.name == name).map(PhaseId)
    }

    /// The rules for events in a phase, in the order in which they are tried: those of every phase
    /// first, except in a final phase, which has only its own.
    pub fn rules_in<'m>(&'m self, phase: &'m Phase) -> impl Iterator<Item = &'m Rule> {
        let any = if phase.ends.is_none() { self.any.rules.as_slice() } else { &[] };
        any.iter().chain(&phase.rules.rules)
    }

    /// The rules that need no event, in the order in which they are tried: those of every phase first, except in
    /// a final phase.
    pub fn always_in<'m>(&'m self, phase: &'m Phase) -> impl Iterator<Item = &'m Rule> {
        let any = if phase.ends.is_none() { self.any.always.as_slice() } else { &[] };
        any.iter().chain(&phase.rules.always)
    }

    /// The phase.
    pub fn get(&self, id: PhaseId) -> &Phase {
        &self.phases[id.0]
    }
}

impl GuardParts {
    fn build(parts: &Parts, whole: &Expression) -> GuardParts {
        let all =
            |items: &[Parts]| items.iter().map(|item| GuardParts::build(item, whole)).collect();
        match parts {
            Parts::All(items) => GuardParts::All(all(items)),
            Parts::Any(items) => GuardParts::Any(all(items)),
            Parts::Not(inner) => GuardParts::Not(Box::new(GuardParts::build(inner, whole))),
            Parts::Leaf(range) => GuardParts::Leaf(Expression::new(
                whole.text[range.clone()].to_string(),
                whole.source.clone(),
                whole.span.clone(),
            )),
        }
    }
}
