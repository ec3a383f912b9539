//! What a definition may do that its author hardly meant.

mod expressions;
mod kinds;
mod written;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::definition::{Bundle, Reentry};
use crate::diagnostic::{Diagnostics, Source};
use crate::events::EventKind;
use crate::graph::{edges, reachable, steps};
use crate::job::Gives;
use crate::workflow::{
    Assignment, Expression, JobSpec, Machine, MachineId, Phase, PhaseId, Reply, Rule, Workflow,
};

/// The filter that tells how old something is.
const AGE: &str = "age";

/// Looks for everything that resolving does not already refuse.
pub fn lint(workflow: &Workflow, bundle: &Bundle) -> Diagnostics {
    let mut lint = Lint { workflow, source: &bundle.definition, found: Diagnostics::default() };
    for (index, machine) in workflow.machines.iter().enumerate() {
        lint.phases(machine);
        lint.shadows(machine);
        lint.repeats(machine);
        lint.silent_phases(machine, index);
        lint.endless_blocks(machine);
        lint.unasked(machine, MachineId(index));
    }
    lint.expressions();
    lint.unused(bundle);
    lint.unused_parts();
    lint.empty_blocks();
    lint.wide();
    lint.found.sort();
    lint.found
}

/// Whether a rule fires whenever it is tried.
fn always_holds(rule: &Rule) -> bool {
    let guard = rule.when.as_ref();
    guard.is_none_or(|guard| expressions::constant(&guard.whole.text) == Some(true))
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
        if machine.binding.is_none()
            && machine.get(first).ends.is_some()
            && machine.derive.is_none()
        {
            let message =
                format!("a run is over as it begins: `{}` is final", machine.get(first).name);
            let span = self.source.key("", "initial");
            self.warn("no-end", span, message, "begin in a phase that is not final");
        }
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
                        always_holds(earlier)
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

    /// Rules that answer nothing and go nowhere: the stop is put again, and they fire again.
    fn repeats(&mut self, machine: &Machine) {
        for (index, phase) in machine.phases.iter().enumerate() {
            let is_stop = |event: &String| EventKind::of(event) == EventKind::Stop;
            let rules = machine.rules_in(phase).filter(|rule| rule.on.iter().any(is_stop));
            let rules: Vec<&Rule> = rules.collect();
            for (at, rule) in rules.iter().enumerate() {
                let stays = rule.goto.is_none_or(|to| to.0 == index);
                let acts = rule.ask.is_some() || rule.start.is_some() || rule.remove;
                if !stays || acts || rule.reply.is_some() || !always_holds(rule) {
                    continue;
                }
                let set: Vec<String> = rule.set.iter().map(|set| self.place(set)).collect();
                let ends = rules[..at].iter().any(|earlier| {
                    let looks = earlier.when.as_ref().map(|guard| self.looks_at(&guard.whole));
                    let mut names = looks.into_iter().flatten();
                    names.any(|name| {
                        set.iter().any(|set| set.starts_with(&name) || name.starts_with(set))
                    })
                });
                if !ends {
                    let message = format!(
                        "in phase `{}` this rule fires again and again: it neither answers nor leaves",
                        phase.name
                    );
                    let hint = "add an answer (`block` or `allow`), or `goto` another phase";
                    self.warn("endless", rule.span.clone(), message, hint);
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
                let by_time = rule.when.as_ref().is_some_and(|guard| self.waits(&guard.whole));
                leaves && (by_time || looks_at.iter().flatten().any(touches))
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

    /// Whether an expression looks at how old something is: that changes by itself.
    fn waits(&self, expression: &Expression) -> bool {
        let has = |expression: &Expression| {
            expression.names().filters.iter().any(|filter| filter.path[0] == AGE)
        };
        let names = self.looks_at(expression);
        let facts = self.workflow.machines.iter().flat_map(Machine::facts);
        let mut facts = facts.filter(|(name, ..)| names.contains(*name));
        has(expression) || facts.any(|(.., by)| by.iter().any(|it| has(it)))
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
}
