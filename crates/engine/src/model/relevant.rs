//! Which fields of a document matter: in a phase, and at all.
//!
//! What an agent may set and no rule sets, it may set as well just before somebody reads it. So it is changed only where the
//! rules of the phase read it. And of what no rule ever reads two situations may differ, and are one all the same.

use std::collections::BTreeSet;

use crate::syntax::Names;
use crate::workflow::{Expression, JobSpec, MachineId, NewValue, Property, Rule, Workflow};

/// All fields of a machine's object.
const ALL: &str = "*";

/// Fields, each with the place of the machine on whose object it is.
type Fields = BTreeSet<(usize, String)>;

/// Which fields matter.
#[derive(Debug, Default)]
pub(super) struct Relevant {
    /// Those that each phase of each machine reads.
    by_phase: Vec<Vec<Fields>>,
    /// Those that properties read.
    claimed: Fields,
    /// Those that decide anything at all.
    all: Fields,
}

impl Relevant {
    pub(super) fn new(workflow: &Workflow) -> Relevant {
        let of = |expression: &Expression| {
            let mut found = Fields::new();
            reads(workflow, expression.names(), &mut BTreeSet::new(), &mut found);
            found
        };
        let by_phase = workflow.machines.iter().map(|machine| {
            let phases = machine.phases.iter().map(|phase| {
                let mut found: Fields = machine.derive.iter().flat_map(of).collect();
                for rule in machine.always_in(phase).chain(machine.rules_in(phase)) {
                    found.extend(rule_reads(workflow, rule));
                }
                found
            });
            phases.collect()
        });
        let claimed = workflow.properties.iter().flat_map(Property::expressions).flat_map(of);
        let jobs = workflow.jobs.iter().flat_map(JobSpec::expressions);
        let mut all: Fields = workflow.guards().chain(jobs).flat_map(of).collect();
        // What leads to what matters, matters.
        loop {
            let before = all.len();
            for set in workflow.rules().flat_map(|(_, rule)| &rule.set) {
                let target = set.path.first().map_or(ALL, String::as_str);
                if target == ALL || has(&all, set.machine.0, target) {
                    all.extend(value_reads(workflow, &set.value));
                }
            }
            if all.len() == before {
                break;
            }
        }
        Relevant { by_phase: by_phase.collect(), claimed: claimed.collect(), all }
    }

    /// Whether the rules of some phases read a field.
    pub(super) fn is_read(
        &self,
        workflow: &Workflow,
        phases: &[(usize, String)],
        machine: usize,
        field: &str,
    ) -> bool {
        let in_phase = |(of, name): &(usize, String)| {
            let id = workflow.machines[*of].phase(name);
            id.is_none_or(|id| has(&self.by_phase[*of][id.0], machine, field))
        };
        has(&self.claimed, machine, field) || phases.iter().any(in_phase)
    }

    /// Whether anything that decides reads a field of the document.
    pub(super) fn is_ever_read(&self, field: &str) -> bool {
        has(&self.all, 0, field)
    }

    /// Whether a field of the document decides anything.
    pub(super) fn matters(&self, workflow: &Workflow, field: &str) -> bool {
        let outer = workflow.outer();
        let holds = |at: usize| {
            let binding = workflow.machines[at].binding.as_ref();
            binding.is_some_and(|it| it.path.first().is_some_and(|first| first == field))
        };
        field == outer.field
            || outer.derive.is_some()
            || self.is_ever_read(field)
            || (1..workflow.machines.len()).any(holds)
    }
}

fn has(fields: &Fields, machine: usize, field: &str) -> bool {
    fields.contains(&(machine, ALL.to_string())) || fields.contains(&(machine, field.to_string()))
}

fn rule_reads(workflow: &Workflow, rule: &Rule) -> Fields {
    let mut found = Fields::new();
    let mut seen = BTreeSet::new();
    let jobs = rule.start.iter().flat_map(|at| workflow.jobs[*at].expressions());
    let pick = rule.ask.and_then(|id| workflow.machine(id).binding.as_ref()?.pick.as_ref());
    let own = rule.when.iter().map(|guard| &guard.whole).chain(&rule.end).chain(pick);
    for expression in own.chain(jobs) {
        reads(workflow, expression.names(), &mut seen, &mut found);
    }
    for set in &rule.set {
        found.extend(value_reads(workflow, &set.value));
    }
    found
}

fn value_reads(workflow: &Workflow, value: &NewValue) -> Fields {
    let mut found = Fields::new();
    let names = match value {
        NewValue::Literal(_) => return found,
        NewValue::Expression(expression) => expression.names(),
        NewValue::Rendered(text) => workflow.texts[text.0].names(),
    };
    reads(workflow, names, &mut BTreeSet::new(), &mut found);
    found
}

/// The fields behind names, those of facts included.
fn reads(workflow: &Workflow, names: &Names, seen: &mut BTreeSet<String>, found: &mut Fields) {
    for used in &names.variables {
        let Some((root, rest)) = used.path.split_first() else { continue };
        let machine = workflow.machines.iter().position(|it| *it.name == **root);
        if let Some(machine) = machine {
            let field = rest.first().map_or(ALL, String::as_str);
            found.insert((machine, field.to_string()));
            // Who reads a list may read all that its elements have.
            for (index, inner) in workflow.machines.iter().enumerate() {
                let binding = inner.binding.as_ref().filter(|it| it.of == MachineId(machine));
                let first = binding.and_then(|it| it.path.first());
                if first.is_some_and(|first| field == ALL || first == field) {
                    found.insert((index, ALL.to_string()));
                }
            }
            continue;
        }
        if !seen.insert(root.clone()) {
            continue;
        }
        for machine in &workflow.machines {
            for (_, _, by) in machine.facts().filter(|(name, ..)| name == root) {
                for expression in by {
                    reads(workflow, expression.names(), seen, found);
                }
            }
        }
    }
}
