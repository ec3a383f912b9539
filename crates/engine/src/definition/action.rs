//! Actions and their parameters, as they are written.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::ParamTypeText;
use crate::step::Actor;

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
    /// It counts only with a signature of one of the project's signers.
    #[serde(default)]
    pub signed: bool,
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
