//! What a definition says once for several places, and choices.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{OneOrMore, ParamType};

/// A fact that is chosen by rows: the first one that holds says what it is.
#[derive(Clone, Debug)]
pub struct ChoiceText {
    pub name: Spanned<String>,
    pub rows: Vec<(Range<usize>, RowText)>,
}

/// A row of a choice.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "row")]
pub struct RowText {
    /// When the row holds: an expression. The last row has none.
    #[schemars(with = "Option<String>")]
    pub when: Option<Spanned<String>>,
    /// What the fact is then: this very text, number, true or false.
    pub is: Option<LiteralText>,
    /// Instead of that: an expression for it.
    #[schemars(with = "Option<String>")]
    pub value: Option<Spanned<String>>,
}

/// A value that is meant as it is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, a number, true or false")]
pub enum LiteralText {
    Bool(bool),
    Integer(i64),
    Text(String),
}

/// Which actions a rule carries on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "true, false, or actions")]
#[schemars(rename = "carry")]
pub enum CarryText {
    All(bool),
    These(OneOrMore),
}

impl Default for CarryText {
    fn default() -> CarryText {
        CarryText::All(false)
    }
}

/// Names, or names and texts: there is a rule, or a phase, for each, with `{each}` and `{value}` filled in.
/// Only for the schema: it is written out before a rule or a phase is read.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "each")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum EachText {
    Names(Vec<String>),
    Texts(BTreeMap<String, String>),
}

/// The type of a parameter, and whether it may be left out: `integer`, `integer?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamTypeText {
    pub ty: ParamType,
    pub optional: bool,
}

impl<'de> Deserialize<'de> for ParamTypeText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ParamTypeText, D::Error> {
        let text = String::deserialize(from)?;
        let name = text.strip_suffix('?');
        let ty = ParamType::deserialize(name.unwrap_or(&text).into_deserializer())?;
        Ok(ParamTypeText { ty, optional: name.is_some() })
    }
}

impl JsonSchema for ParamTypeText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "param_type".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names = ["string", "integer", "boolean", "json-file", "file"];
        let names = names.into_iter().flat_map(|name| [name.to_string(), format!("{name}?")]);
        schemars::json_schema!({
            "description": "What a parameter takes; with `?` where it may be left out.",
            "type": "string",
            "enum": names.collect::<Vec<String>>(),
        })
    }
}
