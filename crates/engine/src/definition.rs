//! A workflow as it is written.

mod action;
mod expand;
mod jobs;
mod property;
mod read;
mod rule;
mod shared;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::answer::Outcome;
use crate::diagnostic::Source;

pub use action::{ActionText, By, Everybody, ParamText, ParamType};
pub use jobs::{
    AgentText, CheckText, CommandLineText, CommandText, JobText, PassesText, ReviewerText,
    WorkerText,
};
pub use property::{PropertyText, ThroughText};
pub use rule::{OneOrMore, RuleText, Text, ValueText, WriteText};
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
