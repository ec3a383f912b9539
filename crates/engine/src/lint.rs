//! What a definition may do that its author hardly meant.

mod written;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::definition::{Bundle, Reentry};
use crate::diagnostic::{Diagnostics, Source};
use crate::events::EventKind;
use crate::graph::{edges, reachable, steps};
use crate::job::Gives;
use crate::workflow::{
    Assignment, Does, Expression, JobSpec, Machine, MachineId, NewValue, Phase, PhaseId, Property,
    Reply, Rule, TextTemplate, Workflow, Written,
};

/// Looks for everything that resolving does not already refuse.
pub fn lint(workflow: &Workflow, bundle: &Bundle) -> Diagnostics {
    let mut lint = Lint { workflow, source: &bundle.definition, found: Diagnostics::default() };
    for (index, machine) in workflow.machines.iter().enumerate() {
        lint.phases(machine);
        lint.shadows(machine);
        lint.silent_phases(machine, index);
        lint.endless_blocks(machine);
        lint.unasked(machine, MachineId(index));
    }
    lint.unused(bundle);
    lint.unused_parts();
    lint.wide();
    lint.found.sort();
    lint.found
}

struct Lint<'a> {
    workflow: &'a Workflow,
    source: &'a Arc<Source>,
    found: Diagnostics,
}

impl Lint<'_> {
    fn warn(
        &mut self,
        code: &'static str,
        span: std::ops::Range<usize>,
        message: String,
        hint: &str,
    ) {
        self.found.warning(code, self.source, span, message).hint = Some(hint.to_string());
    }

    fn phases(&mut self, machine: &Machine) {
        let steps = steps(machine);
        let ends =
            |phase: &Phase| phase.ends.is_some() || machine.rules_in(phase).any(|rule| rule.remove);
        if machine.binding.is_some() && steps.is_empty() && !machine.phases.iter().any(ends) {
            // Its phases are kinds of elements, and no way leads from one to another.
            return;
        }
        let first = machine.initial.unwrap_or(PhaseId(0));
        // A phase that is derived can be that of a document which somebody else has made.
        let reached = match machine.derive {
            Some(_) => (0..machine.phases.len()).map(PhaseId).collect(),
            None => reachable([first], &steps),
        };
        let back: Vec<(PhaseId, PhaseId)> = steps.iter().map(|(from, to)| (*to, *from)).collect();
        let finals = (0..machine.phases.len()).map(PhaseId).filter(|id| ends(machine.get(*id)));
        let ending = reachable(finals, &back);
        for (index, phase) in machine.phases.iter().enumerate() {
            let name = &phase.name;
            if !reached.contains(&PhaseId(index)) {
                let start = &machine.get(first).name;
                let message = format!("phase `{name}` cannot be reached from `{start}`");
                self.warn(
                    "unreachable",
                    phase.span.clone(),
                    message,
                    "add a rule with `goto`, or remove the phase",
                );
            }
            if !ending.contains(&PhaseId(index)) {
                let message = format!("no way leads from phase `{name}` to a final phase");
                self.warn(
                    "no-end",
                    phase.span.clone(),
                    message,
                    "a run in it ends only by a limit or by `phasegate cancel`",
                );
            }
        }
    }

    fn shadows(&mut self, machine: &Machine) {
        for phase in &machine.phases {
            let lists = [
                machine.always_in(phase).collect::<Vec<&Rule>>(),
                machine.rules_in(phase).collect::<Vec<&Rule>>(),
            ];
            for rules in lists {
                for (index, rule) in rules.iter().enumerate() {
                    let hides = |earlier: &&&Rule| {
                        earlier.when.is_none()
                            && earlier.ask.is_none()
                            && (rule.on.is_empty()
                                || rule.on.iter().all(|event| earlier.on.contains(event)))
                    };
                    if let Some(earlier) = rules[..index].iter().find(hides) {
                        let message = format!(
                            "this rule is never tried in phase `{}`: rule `{}` (line {}) always holds",
                            phase.name, earlier.label, earlier.line
                        );
                        self.warn(
                            "shadowed",
                            rule.span.clone(),
                            message,
                            "move it before the other, or give the other a `when`",
                        );
                    }
                }
            }
        }
    }

    fn silent_phases(&mut self, machine: &Machine, index: usize) {
        if index > 0 {
            return;
        }
        for phase in machine.phases.iter().filter(|phase| phase.ends.is_some()) {
            let stop =
                |rule: &&Rule| rule.on.iter().any(|event| EventKind::of(event) == EventKind::Stop);
            // A review can end a run, and then the stop is put again.
            let reviews = |job: &JobSpec| job.manner.gives == Gives::Verdict;
            let unreviewed = !self.workflow.jobs.iter().any(reviews);
            if let Some(rule) = phase.rules.rules.iter().find(stop).filter(|_| unreviewed) {
                let message = format!(
                    "this rule is never tried: a run in `{}` has ended and does not answer stops",
                    phase.name
                );
                self.warn("shadowed", rule.span.clone(), message, "remove it, or the `final`");
            }
        }
        for phase in machine.phases.iter().filter(|phase| phase.ends.is_none()) {
            let is_stop = |event: &String| EventKind::of(event) == EventKind::Stop;
            let rules = machine.rules_in(phase).filter(|rule| rule.on.iter().any(is_stop));
            let rules: Vec<&Rule> = rules.collect();
            let Some(last) = rules.last() else {
                let message = format!(
                    "phase `{}` has no rule for `stop`, so every stop is allowed",
                    phase.name
                );
                self.warn(
                    "silent",
                    phase.span.clone(),
                    message,
                    "say what a stop means there: `block`, or `allow = \"waiting\"`",
                );
                continue;
            };
            if !rules.iter().any(|rule| rule.when.is_none()) {
                let message = format!(
                    "phase `{}` lets the agent stop where none of its rules for `stop` holds: each has a \
                     condition",
                    phase.name
                );
                self.warn(
                    "unanswered",
                    last.span.clone(),
                    message,
                    "end with a rule for `stop` that has no `when`",
                );
            }
        }
    }

    /// Where `reentry = "always"` switches patience off, a cycle of blocks must be bounded by the
    /// workflow itself: something that a rule of the cycle changes must be what a rule out of the
    /// cycle looks at.
    fn endless_blocks(&mut self, machine: &Machine) {
        if self.workflow.reentry != Reentry::Always {
            return;
        }
        let edges = edges(machine);
        let steps = steps(machine);
        for edge in edges.iter().filter(|edge| matches!(edge.rule.reply, Some(Reply::Block(_)))) {
            let after = reachable([edge.to], &steps);
            if !after.contains(&edge.from) {
                continue;
            }
            let cycle: BTreeSet<PhaseId> = after
                .into_iter()
                .filter(|phase| reachable([*phase], &steps).contains(&edge.from))
                .collect();
            let inside = |phase: &PhaseId| cycle.contains(phase);
            let changed: HashSet<String> = edges
                .iter()
                .filter(|edge| inside(&edge.from) && inside(&edge.to))
                .flat_map(|edge| edge.rule.set.iter())
                .map(|set| self.place(set))
                .collect();
            let own = edges.iter().filter(|exit| inside(&exit.from)).map(|exit| {
                let leaves =
                    !inside(&exit.to) || matches!(exit.rule.reply, Some(Reply::Allow { .. }));
                (exit.rule, leaves)
            });
            // An element's blocks are bounded by the rules of what it is an element of, too.
            let outer = self.workflow.rules().filter(|(other, rule)| {
                machine.binding.is_some()
                    && other.name != machine.name
                    && matches!(rule.reply, Some(Reply::Allow { .. }))
            });
            let mut exits = own.chain(outer.map(|(_, rule)| (rule, true)));
            let bounded = exits.any(|(rule, leaves)| {
                let looks_at = rule.when.as_ref().map(|guard| self.looks_at(&guard.whole));
                let touches = |name: &String| {
                    changed.iter().any(|place| place.starts_with(name) || name.starts_with(place))
                };
                leaves && looks_at.iter().flatten().any(touches)
            });
            if !bounded {
                let message = format!(
                    "phase `{}` can block forever: with `reentry = \"always\"` nothing bounds its blocks",
                    machine.get(edge.from).name
                );
                self.warn(
                    "endless",
                    edge.rule.span.clone(),
                    message,
                    "count with `set`, and leave by a rule that looks at the count",
                );
            }
        }
    }

    /// What a rule sets, as a path of the document; an element's place is that of its list.
    fn place(&self, set: &Assignment) -> String {
        match &self.workflow.machine(set.machine).binding {
            None => format!("{}.{}", self.workflow.outer().name, set.path.join(".")),
            Some(binding) => {
                let of = &self.workflow.machine(binding.of).name;
                format!("{of}.{}", binding.path.join("."))
            }
        }
    }

    /// The names that an expression looks at, also by way of derived facts.
    fn looks_at(&self, expression: &Expression) -> HashSet<String> {
        let mut found = HashSet::new();
        let mut open = vec![expression];
        while let Some(expression) = open.pop() {
            for used in &expression.names().variables {
                if found.insert(used.dotted()) {
                    let facts = self.workflow.machines.iter().flat_map(Machine::facts);
                    let facts = facts.filter(|(name, ..)| *name == used.path[0]);
                    open.extend(facts.flat_map(|(.., by)| by));
                }
            }
        }
        found
    }

    fn unasked(&mut self, machine: &Machine, id: MachineId) {
        let asked = self.workflow.rules().any(|(_, rule)| rule.ask == Some(id));
        if machine.binding.is_some() && !asked {
            let span = machine.phases.first().map_or(0..0, |phase| phase.span.clone());
            let message = format!("no rule asks machine `{}`", machine.name);
            self.warn("unused", span, message, "add a rule with `ask`, or remove the machine");
        }
    }

    fn unused(&mut self, bundle: &Bundle) {
        let workflow = self.workflow;
        let facts = workflow.machines.iter().flat_map(|machine| {
            let pick = machine.binding.iter().filter_map(|binding| binding.pick.as_ref());
            machine.facts().flat_map(|(.., by)| by).chain(pick)
        });
        let in_rules = workflow.rules().flat_map(|(_, rule)| {
            let values = rule.set.iter().filter_map(|set| match &set.value {
                NewValue::Expression(expression) => Some(expression),
                _ => None,
            });
            rule.when.iter().map(|guard| &guard.whole).chain(values)
        });
        let jobs = workflow.jobs.iter().flat_map(JobSpec::expressions);
        let guards = workflow.checks().filter_map(|check| check.guards.expression());
        let jobs = jobs.chain(guards);
        let written = workflow.rules().flat_map(|(_, rule)| &rule.write);
        let written = written.filter_map(|(_, written)| match written {
            Written::Patch(it) | Written::Copies(it) => Some(it),
            Written::Text(_) => None,
        });
        let ended = workflow.rules().filter_map(|(_, rule)| rule.end.as_ref()).chain(written);
        let claims = workflow.properties.iter().flat_map(Property::expressions);
        let derived = workflow.outer().derive.iter().chain(claims);
        let expressions = facts.chain(in_rules).chain(jobs).chain(ended).chain(derived);
        let expressions = expressions.map(Expression::names);
        let names = expressions.chain(workflow.texts.iter().map(TextTemplate::names));
        let used: HashSet<&str> = names
            .flat_map(|names| names.variables.iter().map(|used| used.path[0].as_str()))
            .collect();
        for machine in &workflow.machines {
            for (name, span, _) in machine.facts() {
                if !used.contains(name) {
                    let message = format!("`{name}` is never used");
                    self.warn("unused", span.clone(), message, "remove it");
                }
            }
        }
        for (name, _) in &workflow.constants {
            if !used.contains(name.as_str()) {
                let span =
                    self.source.text.find(name.as_str()).map_or(0..0, |at| at..at + name.len());
                self.warn("unused", span, format!("constant `{name}` is never used"), "remove it");
            }
        }
        for (path, file) in &bundle.files {
            let is_text = path.starts_with("prompts/") || path.starts_with("templates/");
            let texts = workflow.texts.iter().map(|text| &text.source);
            let used = texts.chain(&workflow.included).any(|used| Arc::ptr_eq(used, file));
            if is_text && !used {
                let message = format!("{} is never used", file.name);
                self.found.warning("unused", file, 0..0, message).hint = Some("remove it".into());
            }
        }
        for action in workflow.actions.iter().filter(|action| matches!(action.does, Does::Event)) {
            if !workflow.rules().any(|(_, rule)| rule.on.contains(&action.name)) {
                let message =
                    format!("no rule is about action `{}`, so it is always refused", action.name);
                let span = self
                    .source
                    .text
                    .find(&format!("[action.{}]", action.name))
                    .map_or(0..0, |at| at..at + 1);
                self.warn("unused", span, message, "add a rule with `on`, or `creates` or `shows`");
            }
        }
    }
}
