//! The JSON schema of a definition, for editors.

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};

use crate::definition::{
    ActionText, CheckText, CommandText, FieldText, Head, MachineHead, PhaseHead, ReviewerText,
    RuleText,
};

/// A whole definition, as far as a schema can tell.
#[derive(JsonSchema)]
#[schemars(rename = "workflow", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct File {
    #[serde(flatten)]
    head: Head,
    /// Constants; the configuration can override them.
    #[serde(rename = "const")]
    constants: Option<BTreeMap<String, serde_json::Value>>,
    /// The fields of the state document.
    state: Option<BTreeMap<String, FieldText>>,
    /// Records, by name.
    record: Option<BTreeMap<String, BTreeMap<String, FieldText>>>,
    /// Facts that are derived when they are asked for: name and expression.
    #[serde(rename = "let")]
    lets: Option<BTreeMap<String, String>>,
    /// Rules of every phase, tried before the phase's own.
    any: Option<RuleLists>,
    /// Phases, by name.
    phase: BTreeMap<String, PhaseFile>,
    /// Machines on the elements of the state document, by what an element is called.
    machine: Option<BTreeMap<String, MachineFile>>,
    /// Actions, by name.
    action: Option<BTreeMap<String, ActionText>>,
    /// Commands that Phasegate runs itself, by name.
    check: Option<BTreeMap<String, CheckText>>,
    /// Commands that rules run, by name.
    command: Option<BTreeMap<String, CommandText>>,
    /// Agents that judge, by name.
    reviewer: Option<BTreeMap<String, ReviewerText>>,
}

#[derive(JsonSchema)]
#[schemars(rename = "rule_lists")]
#[expect(dead_code, reason = "only its schema is used")]
struct RuleLists {
    /// Rules for events: the first whose guard holds fires.
    rules: Option<Vec<RuleText>>,
    /// Rules that need no event: they run until none fires.
    always: Option<Vec<RuleText>>,
}

#[derive(JsonSchema)]
#[schemars(rename = "phase_with_rules", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct PhaseFile {
    #[serde(flatten)]
    head: PhaseHead,
    #[serde(flatten)]
    rules: RuleLists,
}

#[derive(JsonSchema)]
#[schemars(rename = "machine_with_phases", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct MachineFile {
    #[serde(flatten)]
    head: MachineHead,
    /// Facts that are derived when they are asked for: name and expression.
    #[serde(rename = "let")]
    lets: Option<BTreeMap<String, String>>,
    /// Rules of every phase, tried before the phase's own.
    any: Option<RuleLists>,
    /// Phases, by name.
    phase: BTreeMap<String, PhaseFile>,
}

/// The schema's text.
pub fn schema() -> String {
    let schema = schema_for!(File);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
