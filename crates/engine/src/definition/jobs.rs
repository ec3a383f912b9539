//! Jobs as they are written: five words for the usual kinds, and jobs that say themselves what they are.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::job::{Bound, Gives, Rights};
use crate::step::Actor;

/// A command that Phasegate runs itself, to know and not to be told.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "check")]
pub struct CheckText {
    /// One sentence for people.
    #[serde(default)]
    pub about: String,
    /// The program and its arguments, or the constant that has them. No shell reads them.
    #[schemars(with = "CommandLineText")]
    pub run: Spanned<CommandLineText>,
    /// Patterns of the files that its result depends on, as `src/**` or `Cargo.*`: while these are the same, it
    /// is not run again. Where nothing is said, all files of the project.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub inputs: Vec<Spanned<String>>,
    /// What a run must show beside exit code 0.
    pub passes: Option<PassesText>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
    /// What a machine must have to take the job from a team's queue, as `["gpu"]`. Without a store that has a queue,
    /// and where the list is empty, the job runs here.
    pub labels: Option<Vec<String>>,
    /// Patterns of files that its result rests on, or an expression for the list of them: rules see all of
    /// them as `guards`. The words of its command are always among them.
    #[schemars(with = "Option<CommandLineText>")]
    pub guards: Option<Spanned<CommandLineText>>,
}

/// What a run of a check must show beside exit code 0.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "passes")]
pub struct PassesText {
    /// How many tests must have run at least, by what the test runner prints at its end.
    #[schemars(range(min = 1))]
    pub min_tests: u64,
}

/// An agent that does the work of a phase: a process of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "worker")]
pub struct WorkerText {
    /// A file in `prompts/`: what the worker is told, on its stdin.
    #[schemars(with = "String")]
    pub prompt: Spanned<String>,
    /// The program and its arguments, each a text with holes, or an expression for the list of them.
    #[schemars(with = "CommandLineText")]
    pub run: Spanned<CommandLineText>,
    /// What the usual client may do: `least` is what the role needs, `all` is everything.
    pub rights: Option<Rights>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
    /// What a machine must have to take the job from a team's queue, as `["gpu"]`. Without a store that has a queue,
    /// and where the list is empty, the job runs here.
    pub labels: Option<Vec<String>>,
}

/// An agent that judges: a process of its own, which writes a review and gives a verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "reviewer")]
pub struct ReviewerText {
    /// A file in `prompts/`: what the reviewer is told, on its stdin.
    #[schemars(with = "String")]
    pub prompt: Spanned<String>,
    /// The file that it writes, a text with holes. It must be new.
    #[schemars(with = "String")]
    pub writes: Spanned<String>,
    /// The model that it uses, a text with holes.
    #[schemars(with = "Option<String>")]
    pub model: Option<Spanned<String>>,
    /// The program and its arguments, each a text with holes, or an expression for the list of them.
    /// Where nothing is said, or the list is empty: Claude Code.
    #[schemars(with = "Option<CommandLineText>")]
    pub run: Option<Spanned<CommandLineText>>,
    /// What the usual client may do: `least` is what the role needs, `all` is everything.
    pub rights: Option<Rights>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
    /// What a machine must have to take the job from a team's queue, as `["gpu"]`. Without a store that has a queue,
    /// and where the list is empty, the job runs here.
    pub labels: Option<Vec<String>>,
}

/// An agent that outlives its caller: a process of its own, with a secret of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "agent")]
pub struct AgentText {
    /// What it may ask for: the actions that are `by` this role.
    pub role: Actor,
    /// A file in `prompts/`: what the agent is told, on its stdin.
    #[schemars(with = "String")]
    pub prompt: Spanned<String>,
    /// The model that it uses, a text with holes.
    #[schemars(with = "Option<String>")]
    pub model: Option<Spanned<String>>,
    /// The program and its arguments, each a text with holes, or an expression for the list of them.
    /// Where nothing is said, or the list is empty: Claude Code.
    #[schemars(with = "Option<CommandLineText>")]
    pub run: Option<Spanned<CommandLineText>>,
    /// What the usual client may do: `least` is what the role needs, `all` is everything.
    pub rights: Option<Rights>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
    /// What a machine must have to take the job from a team's queue, as `["gpu"]`. Without a store that has a queue,
    /// and where the list is empty, the job runs here.
    pub labels: Option<Vec<String>>,
    /// An expression for a list: one agent is started for each element, `agent.item`.
    #[schemars(with = "Option<String>")]
    pub each: Option<Spanned<String>>,
    /// What the rules know the agent by: name and expression.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub facts: IndexMap<String, Spanned<String>>,
}

/// A job of a kind of your own. What it is for is said by `gives`, `bound`, `waits` and `alone`: checks,
/// commands, reviewers, workers and agents are names for the usual combinations.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "job")]
pub struct JobText {
    /// What such jobs are called; `job` where nothing is said.
    pub kind: Option<String>,
    /// One sentence for people.
    #[serde(default)]
    pub about: String,
    /// The program and its arguments, each a text with holes, or an expression for the list of them.
    /// Where nothing is said, or the list is empty: Claude Code.
    #[schemars(with = "Option<CommandLineText>")]
    pub run: Option<Spanned<CommandLineText>>,
    /// A file in `prompts/`: what it is told, on its stdin.
    #[schemars(with = "Option<String>")]
    pub prompt: Option<Spanned<String>>,
    /// The file that it writes, a text with holes. It must be new.
    #[schemars(with = "Option<String>")]
    pub writes: Option<Spanned<String>>,
    /// The model that it uses, a text with holes.
    #[schemars(with = "Option<String>")]
    pub model: Option<Spanned<String>>,
    /// What the usual client may do: `least` is what the role needs, `all` is everything.
    pub rights: Option<Rights>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
    /// What a machine must have to take the job from a team's queue, as `["gpu"]`. Without a store that has a queue,
    /// and where the list is empty, the job runs here.
    pub labels: Option<Vec<String>>,
    /// What it may ask for itself: the actions that are `by` this role. Without it, nothing.
    pub role: Option<Actor>,
    /// An expression for a list: one job is started for each element, `agent.item`.
    #[schemars(with = "Option<String>")]
    pub each: Option<Spanned<String>>,
    /// What the rules know the job by: name and expression.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub facts: IndexMap<String, Spanned<String>>,
    /// What its result is: how it ended, or a verdict.
    #[serde(default)]
    pub gives: Gives,
    /// What the result holds for. One for the tree is read as `check.NAME`.
    #[serde(default)]
    pub bound: Bound,
    /// For one that is bound to the tree: patterns of the files that its result depends on.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub inputs: Vec<Spanned<String>>,
    /// For one that is bound to the tree: what a run must show beside exit code 0.
    pub passes: Option<PassesText>,
    /// The event that wants it waits for its end. Otherwise it works in the background.
    #[serde(default)]
    pub waits: bool,
    /// Nothing else is done in the run meanwhile, and the answer to its end is the answer to the event
    /// that wanted it.
    #[serde(default)]
    pub alone: bool,
}

/// A program and its arguments: a text with holes each, or an expression for the list of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list of texts, or an expression for one")]
#[schemars(rename = "command line")]
pub enum CommandLineText {
    Texts(Vec<String>),
    Expression(String),
}

/// A command that a rule runs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "command")]
pub struct CommandText {
    /// The program and its arguments, each a text with holes. No shell reads them.
    #[schemars(with = "Vec<String>")]
    pub run: Vec<Spanned<String>>,
    /// How long it may take, as `90s` or `10m`; five minutes where nothing is said.
    pub timeout: Option<String>,
}
