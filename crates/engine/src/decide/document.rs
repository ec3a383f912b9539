//! The document under a decision: going down to its elements, and changing it.

use std::collections::{BTreeSet, HashMap};

use super::facts::fault_at;
use super::{Bound, Deciding, Fault};
use crate::json::Json;
use crate::names::type_of;
use crate::workflow::{Assignment, MachineId, NewValue};

impl<'w> Deciding<'w> {
    /// Runs `visit` on each element of an inner machine; whether any visit returned something.
    pub(super) fn each(
        &mut self,
        inner: MachineId,
        mut visit: impl FnMut(&mut Self) -> Result<Option<()>, Fault>,
    ) -> Result<bool, Fault> {
        let mut any = false;
        self.each_until(inner, |this| {
            any |= visit(this)?.is_some();
            Ok(false)
        })?;
        Ok(any)
    }

    /// Runs `visit` on the elements of an inner machine, in order, until it returns true.
    pub(super) fn each_until(
        &mut self,
        inner: MachineId,
        mut visit: impl FnMut(&mut Self) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let machine = self.workflow.machine(inner);
        let Some(binding) = &machine.binding else { return Ok(()) };
        let base = self.path_of(binding.of)?;
        let path: Vec<String> = base.into_iter().chain(binding.path.iter().cloned()).collect();
        let container = self.document.at(path.iter().map(String::as_str));
        if matches!(container, None | Some(Json::Null)) {
            return Ok(());
        }
        let picked = match &binding.pick {
            None => None,
            Some(pick) => {
                let picked = self.evaluate(pick)?;
                let picked = Json::from_value(&picked).map_err(|error| fault_at(pick, &error))?;
                Some(match picked {
                    Json::List(list) => list.0.clone(),
                    one => vec![one],
                })
            }
        };
        let keys: Vec<Json> = match (self.document.at(path.iter().map(String::as_str)), picked) {
            (None | Some(Json::Null), _) => Vec::new(),
            (Some(Json::List(list)), None) => (0i64..).take(list.0.len()).map(Json::from).collect(),
            (Some(Json::List(list)), Some(picked)) => {
                let length = i64::try_from(list.0.len()).unwrap_or(i64::MAX);
                let positions = picked.iter().filter_map(Json::as_i64);
                let positions: BTreeSet<i64> =
                    positions.filter(|at| (0..length).contains(at)).collect();
                positions.into_iter().map(Json::from).collect()
            }
            (Some(Json::Object(map)), picked) => map
                .iter()
                .map(|(key, _)| Json::String(key.clone()))
                .filter(|key| picked.as_ref().is_none_or(|picked| picked.contains(key)))
                .collect(),
            (Some(other), _) => {
                let (path, kind, name) = (path.join("."), other.kind(), &machine.name);
                let message = format!("state.{path} is {kind}, but `{name}` runs on its elements");
                return Err(Fault::new(message));
            }
        };
        for key in keys {
            let step = key.as_str().map_or_else(|| key.brief(), str::to_string);
            let mut path = path.clone();
            path.push(step);
            self.bound.push(Bound { machine: inner, path, key, lets: HashMap::new() });
            self.visible = self.bound.len();
            let result = visit(self);
            self.bound.pop();
            self.visible = self.bound.len();
            if result? {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(super) fn assign(&mut self, assignment: &'w Assignment) -> Result<(), Fault> {
        let value = match &assignment.value {
            NewValue::Literal(value) => value.clone(),
            NewValue::Expression(expression) => {
                let value = self.evaluate(expression)?;
                Json::from_value(&value).map_err(|error| fault_at(expression, &error))?
            }
            NewValue::Rendered(id) => {
                let text = self.text(*id)?;
                Json::parse(text.as_bytes()).map_err(|error| {
                    let file = &self.workflow.texts[id.0].source.name;
                    Fault::new(format!("{file} did not become JSON: {error}"))
                })?
            }
        };
        let path = self.path_of(assignment.machine)?;
        match (&value, assignment.path.as_slice()) {
            // Of the object itself the members are set, and the others stay.
            (Json::Object(members), []) => members.iter().try_for_each(|(name, value)| {
                self.fit(assignment.machine, path.clone(), &[name.to_string()], value.clone())
            }),
            (_, []) => Err(Fault::new(format!("state is set to {}", value.kind()))),
            (_, steps) => self.fit(assignment.machine, path, steps, value),
        }
    }

    /// Sets a part of an object, if the value fits its type.
    fn fit(
        &mut self,
        machine: MachineId,
        mut path: Vec<String>,
        steps: &[String],
        mut value: Json,
    ) -> Result<(), Fault> {
        let ty = type_of(self.workflow, machine);
        let ty = self.workflow.records.type_at(&ty, steps.iter().map(String::as_str));
        path.extend(steps.iter().cloned());
        let name = format!("state.{}", path.join("."));
        if value != Json::Null {
            let fits = self.workflow.records.declare(&ty, &mut value, &name);
            fits.map_err(|found| Fault::new(format!("a rule sets what does not fit: {found}")))?;
        }
        let above = path.len() - steps.len();
        let at = |document: &Json, to: usize| {
            let found = document.at(path[..to].iter().map(String::as_str));
            matches!(found, None | Some(Json::Null))
        };
        // Where a part of the way is made by this, its absent members must read as declared, too.
        let made = (above + 1..path.len()).find(|to| at(&self.document, *to));
        self.put(&path, value)?;
        if let Some(to) = made {
            let way = steps[..to - above].iter().map(String::as_str);
            let ty = self.workflow.records.type_at(&type_of(self.workflow, machine), way);
            let made = self.document.at_mut(path[..to].iter().map(String::as_str));
            if let Some(made) = made {
                // What it lacks for now is told when the document is next read.
                let _ = self.workflow.records.declare(&ty, made, &name);
            }
        }
        Ok(())
    }

    pub(super) fn put(&mut self, path: &[String], value: Json) -> Result<(), Fault> {
        for bound in &mut self.bound {
            bound.lets.clear();
        }
        let place = self.document.at_mut(path.iter().map(String::as_str));
        let place = place.ok_or_else(|| {
            Fault::new(format!(
                "state.{} cannot be set: a part of it is not an object",
                path.join(".")
            ))
        })?;
        if *place != value {
            *place = value;
            self.changed = true;
        }
        Ok(())
    }

    fn path_of(&self, machine: MachineId) -> Result<Vec<String>, Fault> {
        let bound = self.bound.iter().rev().find(|bound| bound.machine == machine);
        bound.map(|bound| bound.path.clone()).ok_or_else(|| {
            Fault::new(format!("`{}` is not bound here", self.workflow.machine(machine).name))
        })
    }
}
