//! What agents may set in a document: what guards read, no rule sets, and nobody protects; never what tells the phase.

use super::values::values;
use super::{Model, Move, Situation, World};
use crate::functions::object;
use crate::json::Json;
use crate::names::type_of;
use crate::types::Type;
use crate::workflow::{Expression, MachineId, Workflow};

impl Model<'_> {
    /// What agents may set in the document: what guards read, no rule sets, and nobody protects.
    pub(super) fn edits(&self, situation: &Situation) -> Vec<Move> {
        let workflow = self.workflow;
        let phases = self.phases_in(&self.phase(situation), situation);
        let mut found = Vec::new();
        for index in 0..workflow.machines.len() {
            let id = MachineId(index);
            let mut fields = free_fields(workflow, id);
            fields.retain(|field| self.relevant.is_read(workflow, &phases, index, field));
            for (object, path) in objects(workflow, id, &situation.document) {
                for field in fields.clone() {
                    let mut path = path.clone();
                    path.push(field.clone());
                    let now = object.get(&field).cloned();
                    for value in self.field_values(id, &field) {
                        if now.as_ref() != Some(&value) && (now.is_some() || value != Json::Null) {
                            found.push(Move::Edit(path.clone(), value));
                        }
                    }
                }
            }
        }
        found
    }

    pub(super) fn field_values(&self, id: MachineId, field: &str) -> Vec<Json> {
        let workflow = self.workflow;
        let ty = workflow.records.type_at(&type_of(workflow, id), [field]);
        let mut found = self.subjects.values(&format!("{}.{field}", workflow.machine(id).name));
        if ty == Type::Any {
            let below = format!("{}.{field}.", workflow.machine(id).name);
            let inner = self.subjects.all.iter().map(|subject| subject.name.as_str());
            for name in inner.filter(|name| name.starts_with(&below)) {
                let member = name[below.len()..].split('.').next().unwrap_or_default();
                let values = self.subjects.values(name).into_iter();
                found.extend(values.map(|value| object([(member.to_string(), value)])));
            }
        }
        if !matches!(ty, Type::Any | Type::Boolean) || found.is_empty() {
            for value in values(&workflow.records, &ty, 0) {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
        }
        found.retain(|value| {
            let mut value = value.clone();
            value == Json::Null || workflow.records.declare(&ty, &mut value, field).is_ok()
        });
        found
    }

    /// The phases of everything in a situation, each with the place of its machine.
    pub(super) fn phases_in(&self, outer: &str, situation: &Situation) -> Vec<(usize, String)> {
        let workflow = self.workflow;
        let mut found = vec![(0, outer.to_string())];
        for index in 1..workflow.machines.len() {
            let machine = &workflow.machines[index];
            let initial = machine.initial.map(|id| &*machine.get(id).name).unwrap_or_default();
            for (object, _) in objects(workflow, MachineId(index), &situation.document) {
                let phase = object.get(&machine.field).and_then(Json::as_str).unwrap_or(initial);
                found.push((index, phase.to_string()));
            }
        }
        found
    }
}

/// What a situation looks like: from afar, the phases of everything in it and how agents stand; and more closely, with the
/// shape of the document, the files and the results that there are.
pub(super) fn outlines(phases: &[(usize, String)], situation: &Situation) -> (String, String) {
    let world = &situation.world;
    let mut names: Vec<&str> = phases.iter().skip(1).map(|(_, phase)| phase.as_str()).collect();
    names.sort_unstable();
    let text = |agent: &Json, name: &str| {
        agent.get(name).and_then(Json::as_str).unwrap_or_default().to_string()
    };
    let mut agents: Vec<String> = world
        .agents
        .iter()
        .map(|agent| format!("{} {}", text(agent, "kind"), text(agent, "status")))
        .collect();
    agents.sort_unstable();
    let rough = format!("{} {names:?} {agents:?}", phases[0].1);
    let mut fine = rough.clone();
    shape(&situation.document, &mut fine);
    let files: Vec<&String> = world.files.keys().collect();
    let verdict = world.last_review.as_ref().map(|(_, verdict)| verdict);
    let World { checks, days, env, owner, message, .. } = world;
    (rough, format!("{fine} {files:?} {checks:?} {verdict:?} {days} {env:?} {owner:?} {message:?}"))
}

/// The shape of a value: which members there are, how long lists are, and short words; numbers only as far as 3.
fn shape(value: &Json, found: &mut String) {
    use std::fmt::Write as _;
    match value {
        Json::Object(members) => members.iter().for_each(|(name, it)| {
            let _ = write!(found, "{name}:");
            shape(it, found);
        }),
        Json::List(list) => {
            found.push('[');
            list.0.iter().take(3).for_each(|it| shape(it, found));
            found.push(']');
        }
        Json::String(text) if text.len() > 20 || text.contains(|it: char| it.is_ascii_digit()) => {
            found.push('"');
        }
        other => match other.as_i64() {
            Some(number) => drop(write!(found, "{} ", number.clamp(-1, 3))),
            None => drop(write!(found, "{} ", other.to_text(None))),
        },
    }
}

/// The objects of a document that a machine runs on, each with its path.
fn objects<'d>(
    workflow: &Workflow,
    id: MachineId,
    document: &'d Json,
) -> Vec<(&'d Json, Vec<String>)> {
    let Some(binding) = &workflow.machine(id).binding else {
        return vec![(document, Vec::new())];
    };
    let mut found = Vec::new();
    for (object, path) in objects(workflow, binding.of, document) {
        let Some(container) = object.at(binding.path.iter().map(String::as_str)) else { continue };
        let path: Vec<String> = path.into_iter().chain(binding.path.iter().cloned()).collect();
        let keyed: Vec<(String, &Json)> = match container {
            Json::List(list) => {
                list.0.iter().enumerate().map(|(at, it)| (at.to_string(), it)).collect()
            }
            Json::Object(map) => map.iter().map(|(key, it)| (key.to_string(), it)).collect(),
            _ => Vec::new(),
        };
        found.extend(keyed.into_iter().map(|(key, it)| {
            let mut path = path.clone();
            path.push(key);
            (it, path)
        }));
    }
    found
}

/// The fields from which a machine's phase is derived.
pub(super) fn told_by(workflow: &Workflow, id: MachineId) -> Vec<String> {
    let machine = workflow.machine(id);
    let mut open: Vec<&Expression> = machine.derive.iter().collect();
    let (mut seen, mut found): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    while let Some(expression) = open.pop() {
        for used in &expression.names().variables {
            match used.path.as_slice() {
                [root, field, ..] if **root == *machine.name => found.push(field.clone()),
                [name, ..] => {
                    let fact = machine.facts().find(|(known, ..)| known == name);
                    if let Some((known, _, by)) = fact.filter(|(known, ..)| !seen.contains(known)) {
                        seen.push(known);
                        open.extend(by);
                    }
                }
                [] => {}
            }
        }
    }
    found
}

/// The fields of a machine's object that are read, and that are nobody's but the agent's.
fn free_fields(workflow: &Workflow, id: MachineId) -> Vec<String> {
    let machine = workflow.machine(id);
    let mut top: Vec<&str> = Vec::new();
    let mut here = machine;
    let mut chain = Vec::new();
    while let Some(binding) = &here.binding {
        chain.push(binding);
        here = workflow.machine(binding.of);
    }
    if let Some(outermost) = chain.last() {
        top.extend(outermost.path.first().map(String::as_str));
    }
    let is_protected = |field: &str| {
        let root = top.first().copied().unwrap_or(field);
        workflow.protected.iter().any(|it| it.split('.').next() == Some(root))
    };
    let sets = |field: &str| {
        workflow
            .rules()
            .flat_map(|(_, rule)| &rule.set)
            .any(|set| set.machine == id && set.path.first().is_none_or(|it| it == field))
    };
    let holds_machine = |field: &str| {
        let inner = workflow.machines.iter().filter_map(|it| it.binding.as_ref());
        inner.into_iter().any(|it| it.of == id && it.path.first().is_some_and(|it| it == field))
    };
    // What tells the phase is the rules', as the field is that holds it.
    let tells = told_by(workflow, id);
    let mut found: Vec<String> = Vec::new();
    for expression in workflow.guards() {
        for used in &expression.names().variables {
            let [root, field, ..] = used.path.as_slice() else { continue };
            let own = **root == *machine.name && *field != machine.field;
            let updated = workflow.updated.as_ref() == Some(field);
            if own
                && !tells.contains(field)
                && !updated
                && !found.contains(field)
                && !is_protected(field)
                && !sets(field)
                && !holds_machine(field)
            {
                found.push(field.clone());
            }
        }
    }
    found
}
