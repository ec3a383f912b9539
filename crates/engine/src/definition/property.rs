//! Properties, as they are written: what must hold of every run.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// Something that must hold of every run, whatever the rules do. Beside what other expressions see it has
/// `phase`, `outcome` and `answer` (`block`, `allow`, `deny`), as they are after the step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "property")]
pub struct PropertyText {
    /// One sentence for people.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// An expression that holds after no step.
    #[schemars(with = "Option<String>")]
    pub never: Option<Spanned<String>>,
    /// An expression that holds after every step.
    #[schemars(with = "Option<String>")]
    pub always: Option<Spanned<String>>,
    /// No run comes to one thing without another at that step or before.
    pub through: Option<ThroughText>,
}

/// What a run comes to, and what it must have come through.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "through")]
pub struct ThroughText {
    /// An expression that holds where the run has come to it.
    #[schemars(with = "String")]
    pub to: Spanned<String>,
    /// An expression that must hold at that step, or have held after an earlier one.
    #[schemars(with = "String")]
    pub pass: Spanned<String>,
}
