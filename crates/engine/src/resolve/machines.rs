//! Whether the machines of a workflow form a tree, and whether the paths in them lead somewhere.

use std::sync::Arc;

use crate::diagnostic::{Diagnostics, Source, closest};
use crate::names::type_of;
use crate::types::Type;
use crate::workflow::{MachineId, OUTER, Workflow};

/// Finds machines that no decision could run on. Where the machines form no tree, nothing else can
/// be checked: the answer is false.
pub(super) fn check(workflow: &Workflow, source: &Arc<Source>, found: &mut Diagnostics) -> bool {
    let mut tree = true;
    for (index, machine) in workflow.machines.iter().enumerate() {
        let header = format!("[machine.{}]", machine.name);
        let at = source.text.find(&header).unwrap_or(0);
        let span = at..at + if at > 0 { header.len() } else { 0 };
        if machine.phases.is_empty() {
            tree = false;
            found.error("shape", source, span.clone(), format!("`{}` has no phase", machine.name));
        }
        let mut here = MachineId(index);
        for _ in 0..workflow.machines.len() {
            match &workflow.machine(here).binding {
                Some(binding) => here = binding.of,
                None => break,
            }
        }
        if here != OUTER {
            tree = false;
            let message =
                format!("machine `{}` runs on elements of its own elements", machine.name);
            found.error("cycle", source, span, message);
        }
    }
    if tree {
        asks(workflow, source, found);
        paths(workflow, source, found);
    }
    tree
}

/// A machine is asked by the one on whose object its elements are, so that asking always ends.
fn asks(workflow: &Workflow, source: &Arc<Source>, found: &mut Diagnostics) {
    for (index, machine) in workflow.machines.iter().enumerate() {
        let phases = machine.phases.iter().map(|phase| &phase.rules);
        for rules in std::iter::once(&machine.any).chain(phases) {
            for rule in rules.rules.iter().chain(&rules.always) {
                let Some(asked) = rule.ask else { continue };
                let owner = workflow.machine(asked).binding.as_ref().map(|binding| binding.of);
                if owner != Some(MachineId(index)) {
                    let (inner, here) = (&workflow.machine(asked).name, &machine.name);
                    let message = format!(
                        "`{inner}` does not run on elements of `{here}`, so it cannot be asked here"
                    );
                    found.error("ask", source, rule.span.clone(), message);
                }
            }
        }
    }
}

/// Paths that are not expressions: where elements are, what a rule sets, what holds a phase.
fn paths(workflow: &Workflow, source: &Arc<Source>, found: &mut Diagnostics) {
    let mut check = |machine: MachineId, path: &[String], span: std::ops::Range<usize>| {
        let mut ty = type_of(workflow, machine);
        for step in path {
            let Type::Record(id) = ty else { return };
            let record = workflow.records.get(id);
            let Some(field) = record.field(step) else {
                let hint = closest(step, record.fields.iter().map(|field| &*field.name));
                let message = format!("`{}` has no field `{step}`", record.name);
                found.error("unknown", source, span, message).hint =
                    hint.map(|name| format!("did you mean `{name}`?"));
                return;
            };
            ty = field.ty.clone();
        }
    };
    for (index, machine) in workflow.machines.iter().enumerate() {
        let id = MachineId(index);
        let span = machine.phases[0].span.clone();
        if let Some(binding) = &machine.binding {
            check(binding.of, &binding.path, span.clone());
        }
        if machine.derive.is_none() {
            check(id, std::slice::from_ref(&machine.field), span.clone());
        }
        if id == OUTER {
            let fields = [&workflow.updated, &workflow.worktree, &workflow.scope];
            for field in fields.into_iter().flatten() {
                check(id, std::slice::from_ref(field), span.clone());
            }
        }
    }
    for path in workflow.protected.iter().chain(&workflow.watched) {
        let at = source.text.find(&format!("\"{path}\"")).unwrap_or(0);
        let path: Vec<String> = path.split('.').map(str::to_string).collect();
        check(OUTER, &path, at..at);
    }
    for (_, rule) in workflow.rules() {
        for set in &rule.set {
            check(set.machine, &set.path, rule.span.clone());
        }
    }
}
