//! Values that documents, files and parameters may have: a few of each kind that rules tell apart.

use crate::functions::object;
use crate::json::Json;
use crate::types::{Records, Type};
use crate::workflow::Workflow;

/// How many values of one type are made.
const MAX_VALUES: usize = 8;

/// A few values of a type, the plainest first.
pub(super) fn values(records: &Records, ty: &Type, depth: usize) -> Vec<Json> {
    if depth > 4 {
        return vec![Json::Null];
    }
    let mut found = match ty {
        Type::Any | Type::String => vec![Json::from("x")],
        Type::Integer | Type::Number => vec![Json::from(0), Json::from(1)],
        Type::Boolean => vec![Json::from(false), Json::from(true)],
        Type::OneOf(names) => names.iter().map(|name| Json::from(&**name)).collect(),
        Type::List(of) => {
            let items = values(records, of, depth + 1);
            let one = items.first().cloned().unwrap_or(Json::Null);
            let other = items.get(1).cloned().unwrap_or_else(|| one.clone());
            vec![
                Json::from(vec![one.clone()]),
                Json::from(Vec::new()),
                Json::from(vec![one, other]),
            ]
        }
        Type::Map(of) => {
            let items = values(records, of, depth + 1);
            let one = items.first().cloned().unwrap_or(Json::Null);
            vec![Json::object(), object([("a".to_string(), one)])]
        }
        Type::Record(id) => {
            let record = records.get(*id);
            let mut base: Vec<(String, Json)> = Vec::new();
            let mut more: Vec<(String, Json)> = Vec::new();
            for field in &record.fields {
                let mut own = values(records, &field.ty, depth + 1).into_iter();
                let name = field.name.to_string();
                // All members are there, so that they can be read also where nobody declares them.
                let plain = if field.optional || field.default.is_some() {
                    Some(field.when_absent().clone())
                } else {
                    own.next()
                };
                base.extend(plain.map(|value| (name.clone(), value)));
                more.extend(own.map(|value| (name.clone(), value)));
            }
            let mut all = vec![object(base.clone())];
            for (name, value) in more {
                let mut members = base.clone();
                match members.iter_mut().find(|(known, _)| *known == name) {
                    Some(member) => member.1 = value,
                    None => members.push((name, value)),
                }
                all.push(object(members));
            }
            all
        }
    };
    found.truncate(MAX_VALUES);
    found
}

/// Texts in the lists of a workflow's constants: what an agent may say that rules look for.
pub(super) fn texts(workflow: &Workflow) -> Vec<String> {
    fn walk(value: &Json, inside: bool, found: &mut Vec<String>) {
        match value {
            Json::String(text) if inside && text.len() > 2 => found.push(text.to_string()),
            Json::List(list) => list.0.iter().for_each(|it| walk(it, true, found)),
            Json::Object(members) => members.iter().for_each(|(_, it)| walk(it, inside, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    workflow.constants.iter().for_each(|(_, value)| walk(value, false, &mut found));
    found
}
