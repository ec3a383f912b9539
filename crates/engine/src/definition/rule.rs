//! Rules as they are written.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::CarryText;
use crate::answer::{Outcome, Until};

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
