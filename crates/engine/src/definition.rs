//! A workflow as it is written.

mod expand;
mod jobs;
mod property;
mod read;
mod shared;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::answer::{Outcome, Until};
use crate::diagnostic::Source;

use crate::step::Actor;

pub use jobs::{
    AgentText, CheckText, CommandLineText, CommandText, JobText, PassesText, ReviewerText,
    WorkerText,
};
pub use property::{PropertyText, ThroughText};
pub(crate) use shared::EachText;
pub use shared::{CarryText, ChoiceText, LiteralText, ParamTypeText, RowText};

/// A workflow with the files that lie beside it.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub definition: Arc<Source>,
    /// Prompts, templates, cases and the demo, by path relative to the definition.
    pub files: BTreeMap<String, Arc<Source>>,
}

impl Bundle {
    /// Whether a decision can depend on a file that lies beside the definition.
    pub fn decides(path: &str) -> bool {
        path.starts_with("prompts/") || path.starts_with("templates/")
    }

    /// Everything that a decision can depend on: the definition, its prompts and its templates.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let files = self.files.iter().filter(|(path, _)| Bundle::decides(path));
        let files = files.flat_map(|(path, file)| [path.as_bytes(), file.text.as_bytes()]);
        std::iter::once(self.definition.text.as_bytes()).chain(files)
    }
}

/// The keys before the first table. They say what the workflow is and where its runs are found.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "head")]
pub struct Head {
    /// What the workflow is called.
    pub name: String,
    /// One sentence for people.
    pub about: String,
    /// Where the state documents are, relative to the project. A `*` stands for the run's name.
    pub document: Option<String>,
    /// Where a state document is looked for too: another place, never a new one.
    pub fallback: Option<String>,
    /// The phase in which a run starts.
    #[schemars(with = "String")]
    pub initial: Spanned<String>,
    /// The field of the state document that holds the phase.
    #[serde(default = "Head::field")]
    pub field: String,
    /// An expression that tells the phase from the state document, where no field holds it.
    #[schemars(with = "Option<String>")]
    pub derive: Option<Spanned<String>>,
    /// A template in `templates/` for the document that takes the place of one that cannot be read
    /// or does not fit: the run is given up. Without one, that is a fault.
    #[schemars(with = "Option<String>")]
    pub unreadable: Option<Spanned<String>>,
    /// A template in `templates/` for what the document is taken for where the run's folder has none,
    /// or one that cannot be read or does not fit: the rules decide all the same.
    #[schemars(with = "Option<String>")]
    pub presumed: Option<Spanned<String>>,
    /// The block of a stop at which the document does not fit, with `run.problem` for the reason: its
    /// author can correct it. Without one, that is a fault.
    #[schemars(with = "Option<Text>")]
    pub misfit: Option<Spanned<Text>>,
    /// An environment variable: while it is 1, no run of the workflow is looked at.
    pub disable: Option<String>,
    /// Whether it holds every session of the project that changes files, without being started.
    #[serde(default)]
    pub standing: bool,
    /// What an agent is told about the run when its session starts or goes on after a compaction.
    #[schemars(with = "Option<Text>")]
    pub note: Option<Spanned<Text>>,
    /// A template in `templates/` whose JSON programs are told with every answer.
    #[schemars(with = "Option<String>")]
    pub guidance: Option<Spanned<String>>,
    /// A file to which a line is added for every action that is accepted and every move.
    pub transcript: Option<TranscriptText>,
    /// A field that is set to the time of every change.
    pub updated: Option<String>,
    /// A field with the path of a git worktree below the project, or null. The agents of a run work there, and
    /// its evidence is from there.
    pub worktree: Option<String>,
    /// A field with a list of path patterns: the files that are a run's tree; all where it is empty.
    pub scope: Option<String>,
    /// Fields that only the rules may change, by path. A change from outside is put back, journaled
    /// and shown.
    #[serde(default)]
    pub protected: Vec<String>,
    /// Fields that others may change as well, by path. A change from outside is shown; a number that
    /// becomes smaller counts as tampering.
    #[serde(default)]
    pub watched: Vec<String>,
    /// What becomes of a run that was tampered with.
    #[serde(default)]
    pub on_tamper: OnTamper,
    /// What a stop that follows a block means.
    #[serde(default)]
    pub reentry: Reentry,
    /// How many blocks in a row are insisted on while nothing changes.
    #[serde(default = "Head::patience")]
    pub patience: u32,
    /// The exit code of a block, for clients whose contract wants one.
    #[serde(default)]
    pub block_exit: u8,
    /// Whether the person is told the way out of the run beside a block.
    #[serde(default = "Head::way_out")]
    pub way_out: bool,
    /// Who may cancel a run.
    #[serde(default)]
    pub cancel: MayCancel,
}

impl Head {
    /// Where state documents are.
    pub fn place(&self) -> String {
        self.document.clone().unwrap_or_else(|| format!(".phasegate/{}/*.json", self.name))
    }

    fn field() -> String {
        "phase".into()
    }

    fn patience() -> u32 {
        1
    }

    fn way_out() -> bool {
        true
    }
}

/// A file that grows by a line for every step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "transcript")]
pub struct TranscriptText {
    /// The file, a text with holes.
    #[schemars(with = "String")]
    pub place: Spanned<String>,
    /// A template in `templates/` for the line. Beside what others see it has `moves`.
    #[schemars(with = "String")]
    pub line: Spanned<String>,
}

/// Who may cancel a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MayCancel {
    /// Also an agent, of which the person is told: inside a client it cannot be told from the person.
    #[default]
    Everybody,
    /// A person, in a terminal outside the client.
    Human,
}

/// What becomes of a run of which somebody else has changed what only the rules may.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnTamper {
    /// The person is told, and the run does not end as done before a person has accepted it.
    #[default]
    Tell,
    /// The agent is also held before that, and nobody else ends the run by its phase.
    Hold,
    /// The rules decide, by `run.unaccepted`; nothing is put back.
    Rules,
}

/// What a stop that follows a block means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reentry {
    /// Go on if the last block was ours and something has changed since.
    #[default]
    Progress,
    /// Always go on: the workflow has a limit of its own.
    Always,
    /// Allow every such stop.
    Never,
}

/// A machine bound to the elements of a list or map of the state document.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "machine")]
pub struct MachineHead {
    /// The list or map whose elements this machine runs on, in order.
    #[schemars(with = "String")]
    pub each: Spanned<String>,
    /// An expression for the element, or the list of elements, to run on instead of each: keys or
    /// positions.
    #[schemars(with = "Option<String>")]
    pub pick: Option<Spanned<String>>,
    /// The element's field that holds its phase.
    #[serde(default = "Head::field")]
    pub field: String,
    /// The phase of an element that has none yet.
    #[schemars(with = "Option<String>")]
    pub initial: Option<Spanned<String>>,
}

/// A phase's own keys.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "phase")]
pub struct PhaseHead {
    /// One sentence for people.
    pub about: Option<String>,
    /// The run ends here.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// What a stop in a final phase is answered with.
    pub outcome: Option<Outcome>,
    /// Fields that every rule sets which goes to this phase, by path; what the rule sets itself, it
    /// sets alone.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ValueText>")]
    pub enter: IndexMap<Spanned<String>, Spanned<ValueText>>,
    /// The field, by path, that keeps how the phase ended: what a rule that leaves it says with `as`.
    #[schemars(with = "Option<String>")]
    pub result: Option<Spanned<String>>,
    /// The agent's tools in this phase, where the client asks before each use.
    pub tools: Option<ToolsText>,
}

/// Which tools an agent may not use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tools")]
pub struct ToolsText {
    /// Their names, as the client has them.
    pub deny: Vec<String>,
    /// Why, as a sentence for the agent.
    pub because: Option<String>,
}

/// On an event, when a guard holds: set, go to, answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "rule")]
pub struct RuleText {
    /// The event, or several, or a list of `[events]`. Rules under `always` have none.
    pub on: Option<OneOrMore>,
    /// The guard: an expression. Without one the rule always holds.
    #[schemars(with = "Option<String>")]
    pub when: Option<Spanned<String>>,
    /// Fields to set, by path; or the name of a table `[set.NAME]`.
    #[serde(default)]
    #[schemars(with = "NameOr<BTreeMap<String, ValueText>>")]
    pub set: IndexMap<Spanned<String>, Spanned<ValueText>>,
    /// The phase to go to.
    #[schemars(with = "Option<String>")]
    pub goto: Option<Spanned<String>>,
    /// How the phase ends that the rule leaves: what its `result` is set to.
    #[serde(rename = "as")]
    #[schemars(with = "Option<String>")]
    pub result: Option<Spanned<String>>,
    /// An action that it accepts is put again in the new phase, as a stop is: all that the rule is
    /// about, or these.
    #[serde(default)]
    pub carry: CarryText,
    /// The inner machine to ask first: the first of its elements that answers, answers for all.
    #[schemars(with = "Option<String>")]
    pub ask: Option<Spanned<String>>,
    /// Answer: go on, with this reason.
    #[schemars(with = "Option<Text>")]
    pub block: Option<Spanned<Text>>,
    /// Answer: stop, with this outcome.
    pub allow: Option<Outcome>,
    /// Answer to an action: no, with this reason.
    #[schemars(with = "Option<Text>")]
    pub deny: Option<Spanned<Text>>,
    /// What a `waiting` waits for.
    pub until: Option<Until>,
    /// Answer: stop, since this is waited for. The same as `allow = "waiting"` with `until`.
    pub wait: Option<Until>,
    /// What the user is told with an `allow`.
    #[schemars(with = "Option<Text>")]
    pub message: Option<Spanned<Text>>,
    /// Places to write, a text with holes each, and what is written there; or the name of a table
    /// `[write.NAME]`.
    #[serde(default)]
    #[schemars(with = "NameOr<BTreeMap<String, WriteText>>")]
    pub write: IndexMap<Spanned<String>, Spanned<WriteText>>,
    /// Files and folders to move, each to a new place; both are texts with holes. What is not there
    /// is not moved. Or the name of a table `[move.NAME]`.
    #[serde(default, rename = "move")]
    #[schemars(with = "NameOr<BTreeMap<String, String>>")]
    pub moved: IndexMap<Spanned<String>, Spanned<String>>,
    /// A worker to start, for an action. Its end comes back as the event `work-finished`.
    #[schemars(with = "Option<String>")]
    pub work: Option<Spanned<String>>,
    /// Commands to run, in order, before the step counts. One that fails refuses the action.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub run: Vec<Spanned<String>>,
    /// The state document is removed: the run is over.
    #[serde(default)]
    pub remove: bool,
    /// A reviewer to ask. Its verdict comes back as the event `review-finished`, and then the stop
    /// is put again.
    #[schemars(with = "Option<String>")]
    pub review: Option<Spanned<String>>,
    /// A job to start. One in the background is started once the step counts, and its start and end come
    /// back as the events `job-started` and `job-ended`; one that is waited for does nothing else.
    #[schemars(with = "Option<String>")]
    pub start: Option<Spanned<String>>,
    /// An expression for the ids of jobs to end.
    #[schemars(with = "Option<String>")]
    pub end: Option<Spanned<String>>,
    /// What programs know a refusal by. Without `deny` it says what `[codes]` has for it.
    pub code: Option<String>,
}

/// A table, or the name of one that stands elsewhere: only for the schema, since names are replaced
/// before a rule is read.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum NameOr<T> {
    Name(String),
    Table(T),
}

/// A name or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    /// All of them.
    pub fn names(&self) -> &[String] {
        match self {
            OneOrMore::One(name) => std::slice::from_ref(name),
            OneOrMore::More(names) => names,
        }
    }
}

/// A text with `{{ }}` holes: here, or in a file of the workflow's `prompts/`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or { prompt = \"file\" }")]
pub enum Text {
    Inline(String),
    File {
        /// A file in `prompts/`.
        prompt: String,
    },
}

/// What a field is set to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an expression, a number, true, false, or { template = \"file\" }")]
pub enum ValueText {
    Bool(bool),
    Integer(i64),
    Expression(String),
    Template {
        /// A file in `templates/` whose rendered text is JSON.
        template: String,
    },
}

/// What is written to a place.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a file in `templates/`, { patch = \"changes(…)\" } or { copies = \"paths\" }"
)]
pub enum WriteText {
    /// A file in `templates/`.
    Template(String),
    Patch {
        /// An expression for `changes(…)`: the patch that makes them. Where it is none, or they cannot be told,
        /// nothing is written.
        patch: String,
    },
    Copies {
        /// An expression for a list of paths: a copy of each file that is there, below the place.
        copies: String,
    },
}

/// The type of a field: its name, with `?` where it may be absent and `*` for a list that is empty
/// where it is absent; or a table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a type's name, or a table of type, list, map, one_of, default")]
pub enum FieldText {
    Name(String),
    Full(Box<FieldTable>),
}

/// The long form of a field's type.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "field")]
pub struct FieldTable {
    /// string, integer, number, boolean, any, or a record's name.
    #[serde(rename = "type")]
    pub ty: Option<String>,
    /// A list of this type.
    pub list: Option<String>,
    /// An object whose members have this type.
    pub map: Option<String>,
    /// One of these strings.
    pub one_of: Option<Vec<String>>,
    /// May be absent or null.
    #[serde(default)]
    pub optional: bool,
    /// What it reads as when absent.
    #[schemars(with = "Option<serde_json::Value>")]
    pub default: Option<toml::Value>,
    /// Of a list: the members that an element is given which does not fit, with `{why}` for the reason. The
    /// other elements are decided on as they are.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub misfit: Option<toml::Value>,
}

/// Something that a person or an agent can ask of the workflow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "action")]
pub struct ActionText {
    /// One sentence for people.
    pub about: String,
    /// A template in `templates/` that makes a new state document.
    #[schemars(with = "Option<String>")]
    pub creates: Option<Spanned<String>>,
    /// The name of the run that is created, a text with holes.
    #[schemars(with = "Option<String>")]
    pub name: Option<Spanned<String>>,
    /// A template in `templates/` whose text is shown.
    #[schemars(with = "Option<String>")]
    pub shows: Option<Spanned<String>>,
    /// A template in `templates/` whose JSON is shown with `--json`.
    #[schemars(with = "Option<String>")]
    pub shows_json: Option<Spanned<String>>,
    /// What it shows is about no run.
    #[serde(default)]
    pub alone: bool,
    /// What its command is called, where that is not the action's name.
    pub command: Option<String>,
    /// Who may ask for it. Without it, everybody.
    pub by: Option<By>,
    /// Parameters, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ParamText>")]
    pub param: IndexMap<String, ParamText>,
    /// Parameters that stand in `[param]`, behind its own.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub params: Vec<Spanned<String>>,
}

/// Who may ask for something: a role, or several. `human` alone is a person at a terminal, and no
/// agent.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(
    untagged,
    expecting = "a role (human, orchestrator, worker, reviewer), a list of roles, or everybody"
)]
pub enum By {
    One(Actor),
    More(Vec<Actor>),
    All(Everybody),
}

/// Everybody: what an action is for that says nothing, and where nothing is said for all actions.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Everybody {
    Everybody,
}

impl By {
    /// All of them.
    pub fn actors(&self) -> &[Actor] {
        match self {
            By::One(actor) => std::slice::from_ref(actor),
            By::More(actors) => actors,
            By::All(Everybody::Everybody) => &[],
        }
    }
}

/// A parameter of an action.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "param")]
pub struct ParamText {
    /// What kind of value it takes.
    #[serde(rename = "type")]
    pub ty: Option<ParamTypeText>,
    /// Instead of that: a list of this type, as in a record.
    pub list: Option<String>,
    /// Instead of that: one of these strings.
    pub one_of: Option<Vec<String>>,
    /// One sentence for people.
    #[serde(default)]
    pub about: String,
    /// What it is when not given. Without a default it must be given.
    #[schemars(with = "Option<serde_json::Value>")]
    pub default: Option<toml::Value>,
    /// It may be left out, and is then none.
    #[serde(default)]
    pub optional: bool,
    /// Who may give it. Without it, everybody.
    pub by: Option<By>,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParamType {
    String,
    Integer,
    Boolean,
    /// The path of a file whose JSON is the value.
    JsonFile,
    /// The path of a file in the project, as its path there.
    File,
    /// What `list` or `one_of` says.
    #[serde(skip)]
    Value,
}

/// A whole definition, as written.
#[derive(Clone, Debug)]
pub struct Definition {
    pub head: Head,
    pub constants: Vec<(Spanned<String>, toml::Value)>,
    /// Lists of events, by name.
    pub events: Vec<(Spanned<String>, Vec<Spanned<String>>)>,
    /// Parameters that actions share.
    pub params: Vec<(Spanned<String>, ParamText)>,
    pub records: Vec<RecordText>,
    pub outer: MachineText,
    pub inner: Vec<InnerText>,
    pub actions: Vec<(Spanned<String>, ActionText)>,
    pub checks: Vec<(Spanned<String>, CheckText)>,
    pub commands: Vec<(Spanned<String>, CommandText)>,
    pub reviewers: Vec<(Spanned<String>, ReviewerText)>,
    pub workers: Vec<(Spanned<String>, WorkerText)>,
    pub agents: Vec<(Spanned<String>, AgentText)>,
    pub jobs: Vec<(Spanned<String>, JobText)>,
    pub properties: Vec<PropertyText>,
    /// Tables that no rule names: what kind it is of, and its name.
    pub unused: Vec<(&'static str, Spanned<String>)>,
}

/// A record and its fields.
#[derive(Clone, Debug)]
pub struct RecordText {
    pub name: Spanned<String>,
    pub fields: Vec<(Spanned<String>, Spanned<FieldText>)>,
}

/// The parts that every machine has.
#[derive(Clone, Debug, Default)]
pub struct MachineText {
    pub lets: Vec<(Spanned<String>, Spanned<String>)>,
    pub choices: Vec<ChoiceText>,
    pub any: Rules,
    pub phases: Vec<PhaseText>,
}

/// An inner machine.
#[derive(Clone, Debug)]
pub struct InnerText {
    pub name: Spanned<String>,
    pub head: MachineHead,
    pub machine: MachineText,
}

/// A phase with its rules.
#[derive(Clone, Debug)]
pub struct PhaseText {
    pub name: Spanned<String>,
    pub head: PhaseHead,
    pub rules: Rules,
}

/// Rules for events, rules that need none, and refusals, which are tried last.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<(Range<usize>, RuleText)>,
    pub always: Vec<(Range<usize>, RuleText)>,
    pub denies: Vec<(Range<usize>, RuleText)>,
}
