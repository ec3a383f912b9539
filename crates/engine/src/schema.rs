//! The JSON schema of a definition, for editors.

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};

use crate::definition::{
    ActionText, AgentText, CheckText, CommandText, EachText, FieldText, Head, JobText, MachineHead,
    ParamText, ParamType, PhaseHead, PropertyText, ReviewerText, RowText, RuleText, Text,
    ValueText, WorkerText, WriteText,
};
use crate::types::{RecordId, Type};
use crate::workflow::{Action, Workflow};

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
    /// Facts that are chosen by rows: the first one that holds says what the fact is.
    choose: Option<BTreeMap<String, ChoiceFile>>,
    /// Rules of every phase, tried before the phase's own.
    any: Option<RuleLists>,
    /// Phases, by name.
    phase: BTreeMap<String, PhaseFile>,
    /// Machines on the elements of the state document, by what an element is called.
    machine: Option<BTreeMap<String, MachineFile>>,
    /// Lists of events, by name: a rule that is `on` one is about each of them.
    events: Option<BTreeMap<String, Vec<String>>>,
    /// What refusals say, by code, where a rule has a `code` and no `deny`.
    codes: Option<BTreeMap<String, Text>>,
    /// Fields to set, by path, for rules that name the table.
    set: Option<BTreeMap<String, BTreeMap<String, ValueText>>>,
    /// Places to write, for rules that name the table.
    write: Option<BTreeMap<String, BTreeMap<String, WriteText>>>,
    /// Files and folders to move, for rules that name the table.
    #[serde(rename = "move")]
    moved: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// Parameters that actions share, by name.
    param: Option<BTreeMap<String, ParamText>>,
    /// Actions, by name, and what all have that do not say otherwise.
    action: Option<BTreeMap<String, OrDefault<ActionText>>>,
    /// Commands that Phasegate runs itself, by name.
    check: Option<BTreeMap<String, OrDefault<CheckText>>>,
    /// Commands that rules run, by name.
    command: Option<BTreeMap<String, OrDefault<CommandText>>>,
    /// Agents that work, by name.
    worker: Option<BTreeMap<String, OrDefault<WorkerText>>>,
    /// Agents that outlive their caller, by kind.
    agent: Option<BTreeMap<String, OrDefault<AgentText>>>,
    /// Agents that judge, by name.
    reviewer: Option<BTreeMap<String, OrDefault<ReviewerText>>>,
    /// What must hold of every run, whatever the rules do.
    property: Option<Vec<PropertyText>>,
    /// Jobs of a kind of your own, by name.
    job: Option<BTreeMap<String, OrDefault<JobText>>>,
}

/// One of a kind, or what all of that kind have that do not say otherwise.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OrDefault<T> {
    One(T),
    Text(String),
    List(Vec<serde_json::Value>),
    Flag(bool),
}

#[derive(JsonSchema)]
#[schemars(rename = "choice", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct ChoiceFile {
    /// The rows, in order. The last one has no `when`.
    rows: Vec<RowText>,
}

/// A code of `[codes]`, or codes with their texts.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "refusal")]
#[expect(dead_code, reason = "only its schema is used")]
enum RefusalFile {
    Code(String),
    Texts(BTreeMap<String, Text>),
}

#[derive(JsonSchema)]
#[schemars(rename = "rule_lists")]
#[expect(dead_code, reason = "only its schema is used")]
struct RuleLists {
    /// Rules for events: the first whose guard holds fires.
    rules: Option<Vec<RuleFile>>,
    /// Rules that need no event: they run until none fires.
    always: Option<Vec<RuleFile>>,
}

#[derive(JsonSchema)]
#[schemars(rename = "rule_for_each", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct RuleFile {
    #[serde(flatten)]
    rule: RuleText,
    /// There is a rule for each of these names.
    each: Option<EachText>,
}

#[derive(JsonSchema)]
#[schemars(rename = "phase_with_rules", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used")]
struct PhaseFile {
    #[serde(flatten)]
    head: PhaseHead,
    #[serde(flatten)]
    rules: RuleLists,
    /// What is refused here once no rule has answered: by event, list of events, or `else`.
    denies: Option<BTreeMap<String, RefusalFile>>,
    /// There is a phase for each of these names.
    each: Option<EachText>,
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
    /// Facts that are chosen by rows: the first one that holds says what the fact is.
    choose: Option<BTreeMap<String, ChoiceFile>>,
    /// Rules of every phase, tried before the phase's own.
    any: Option<RuleLists>,
    /// Phases, by name.
    phase: BTreeMap<String, PhaseFile>,
}

/// The schema's text.
pub fn schema() -> String {
    let mut schema = schema_for!(File);
    // What one of a kind must have may be said for all of them.
    let kinds = ["agent", "check", "command", "job", "reviewer", "worker"];
    for kind in kinds.map(|kind| format!("/$defs/{kind}")) {
        if let Some(serde_json::Value::Object(kind)) = schema.pointer_mut(&kind) {
            kind.remove("required");
        }
    }
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// The schema of what fits a record of a workflow; none where it has no such record.
pub fn of_record(workflow: &Workflow, record: &str) -> Option<serde_json::Value> {
    let id = workflow.records.named(record)?;
    let mut parts = serde_json::Map::new();
    let mut schema = object(workflow, id, &mut parts);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = format!("{record} of {}", workflow.name).into();
    if !parts.is_empty() {
        schema["$defs"] = parts.into();
    }
    Some(schema)
}

/// The schema of the parameters of an action, without those that only a person may give: who reads it is a program.
pub fn of_params(workflow: &Workflow, action: &Action) -> serde_json::Value {
    let mut parts = serde_json::Map::new();
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for param in action.params.iter().filter(|param| !param.people_only) {
        let mut schema = of_type(workflow, &param.value, &mut parts);
        if !param.about.is_empty() {
            schema["description"] = param.about.as_str().into();
        }
        if let Some(default) = &param.default {
            schema["default"] = serde_json::from_str(&default.to_text(None)).unwrap_or_default();
        } else if !param.optional && param.ty != ParamType::Boolean {
            required.push(param.name.clone());
        }
        properties.insert(param.name.clone(), schema);
    }
    let mut schema = serde_json::json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if !parts.is_empty() {
        schema["$defs"] = parts.into();
    }
    schema["additionalProperties"] = false.into();
    schema
}

fn object(
    workflow: &Workflow,
    id: RecordId,
    parts: &mut serde_json::Map<String, serde_json::Value>,
) -> serde_json::Value {
    let record = workflow.records.get(id).clone();
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for field in &record.fields {
        let mut schema = of_type(workflow, &field.ty, parts);
        if let Some(default) = &field.default {
            let default = serde_json::from_str(&default.to_text(None)).unwrap_or_default();
            schema["default"] = default;
        }
        if field.optional {
            schema = serde_json::json!({ "anyOf": [schema, { "type": "null" }] });
        } else if field.default.is_none() {
            required.push(field.name.to_string());
        }
        properties.insert(field.name.to_string(), schema);
    }
    serde_json::json!({ "type": "object", "properties": properties, "required": required })
}

fn of_type(
    workflow: &Workflow,
    ty: &Type,
    parts: &mut serde_json::Map<String, serde_json::Value>,
) -> serde_json::Value {
    use serde_json::json;
    match ty {
        Type::Any => json!({}),
        Type::String => json!({ "type": "string" }),
        Type::Integer => json!({ "type": "integer" }),
        Type::Number => json!({ "type": "number" }),
        Type::Boolean => json!({ "type": "boolean" }),
        Type::OneOf(values) => {
            let values: Vec<&str> = values.iter().map(|value| &**value).collect();
            json!({ "type": "string", "enum": values })
        }
        Type::List(inner) => {
            json!({ "type": "array", "items": of_type(workflow, inner, parts) })
        }
        Type::Map(inner) => {
            json!({ "type": "object", "additionalProperties": of_type(workflow, inner, parts) })
        }
        Type::Record(id) => {
            let name = workflow.records.get(*id).name.to_string();
            if !parts.contains_key(&name) {
                // Known before it is made: a record may have itself in it.
                parts.insert(name.clone(), serde_json::Value::Null);
                let schema = object(workflow, *id, parts);
                parts.insert(name.clone(), schema);
            }
            json!({ "$ref": format!("#/$defs/{name}") })
        }
    }
}
