//! Mutants: a definition with one mistake in it. A mutant that passes every case shows what no case
//! looks at, and is the next case to write.
//!
//! Some mutants decide exactly as the original does, whatever happens. They are listed in a file of
//! cases, each with the reason, so that all others must be killed:
//!
//! ```toml
//! [[equivalent]]
//! rule = "review 3"
//! when = "state.a and state.b"
//! change = "without `state.a`"
//! why = "`state.b` is only ever set together with `state.a`."
//! ```

use std::fmt;

use serde::Serialize;

use crate::answer::{Outcome, Until};
use crate::case::{CaseIn, CaseResult, Cases, Equivalent};
use crate::diagnostic::Source;
use crate::model::{Decided, Model, case_text};
use crate::syntax::Parts;
use crate::workflow::{Expression, Guard, Machine, Reply, Rule, RuleSet, Workflow};

/// A definition with one mistake in it.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The label of the rule with the mistake.
    pub rule: String,
    pub line: usize,
    /// Its guard.
    pub when: Option<String>,
    pub change: Change,
    place: Place,
}

/// The mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The rule is not there.
    Deleted,
    /// The guard holds where it should not, and the other way round.
    Negated(String),
    /// The guard always holds.
    Unguarded,
    /// A part of the guard is missing; the text is the part, and what is left of the guard.
    Without(String, String),
    /// An ALLOW means something else.
    Outcome(Outcome, Outcome),
    /// A refusal to go on has become an ALLOW; the text is the key that refused.
    Opened(&'static str),
    /// The rule and the one behind it, whose label this is, have changed places.
    Swapped(String),
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Change::Deleted => out.write_str("deleted"),
            Change::Negated(_) => out.write_str("negated"),
            Change::Unguarded => out.write_str("unguarded"),
            Change::Without(part, _) => write!(out, "without `{part}`"),
            Change::Outcome(from, to) => write!(out, "{from} becomes {to}"),
            Change::Opened(key) => write!(out, "{key} becomes allow"),
            Change::Swapped(next) => write!(out, "swapped with `{next}`"),
        }
    }
}

/// Where a rule stands in its workflow.
#[derive(Clone, Copy, Debug)]
struct Place {
    machine: usize,
    /// The phase; none for rules of every phase.
    phase: Option<usize>,
    always: bool,
    index: usize,
}

impl Place {
    fn list(self, workflow: &Workflow) -> &[Rule] {
        let machine = &workflow.machines[self.machine];
        let set = self.phase.map_or(&machine.any, |phase| &machine.phases[phase].rules);
        if self.always { &set.always } else { &set.rules }
    }

    fn list_mut(self, workflow: &mut Workflow) -> &mut Vec<Rule> {
        let machine = &mut workflow.machines[self.machine];
        let set = match self.phase {
            None => &mut machine.any,
            Some(phase) => &mut machine.phases[phase].rules,
        };
        if self.always { &mut set.always } else { &mut set.rules }
    }
}

/// Every mutant of a workflow.
pub fn mutants(workflow: &Workflow) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (machine, it) in workflow.machines.iter().enumerate() {
        for (phase, set) in sets(it) {
            for (always, list) in [(true, &set.always), (false, &set.rules)] {
                for (index, rule) in list.iter().enumerate() {
                    let place = Place { machine, phase, always, index };
                    let next = list.get(index + 1);
                    found.extend(changes(rule, next).into_iter().map(|change| Mutant {
                        rule: rule.label.to_string(),
                        line: rule.line,
                        when: rule.when.as_ref().map(|guard| guard.whole.text.clone()),
                        change,
                        place,
                    }));
                }
            }
        }
    }
    found
}

fn sets(machine: &Machine) -> impl Iterator<Item = (Option<usize>, &RuleSet)> {
    let phases = machine.phases.iter().enumerate();
    let phases = phases.map(|(index, phase)| (Some(index), &phase.rules));
    std::iter::once((None, &machine.any)).chain(phases)
}

fn changes(rule: &Rule, next: Option<&Rule>) -> Vec<Change> {
    let mut found = vec![Change::Deleted];
    if let Some(guard) = &rule.when {
        let text = &guard.whole.text;
        found.push(Change::Negated(format!("not ({text})")));
        found.push(Change::Unguarded);
        let parts = Parts::of(text);
        let left = without_one(&parts, text);
        found.extend(
            left.into_iter().map(|(part, rest)| Change::Without(part, written(&rest, text))),
        );
    }
    match &rule.reply {
        Some(Reply::Allow { outcome: Outcome::Done, .. }) => {
            found.push(Change::Outcome(Outcome::Done, Outcome::Waiting));
        }
        Some(Reply::Allow { outcome, .. }) => found.push(Change::Outcome(*outcome, Outcome::Done)),
        Some(Reply::Block(_)) => found.push(Change::Opened("block")),
        Some(Reply::Deny(_)) => found.push(Change::Opened("deny")),
        None => {}
    }
    // Where no event is heard by both, their order cannot matter.
    if let Some(next) = next
        && (rule.on.is_empty() || rule.on.iter().any(|event| next.on.contains(event)))
    {
        found.push(Change::Swapped(next.label.to_string()));
    }
    found
}

/// A guard without one of its parts, at any depth: the part, and what is left.
fn without_one(parts: &Parts, guard: &str) -> Vec<(String, Parts)> {
    let of_list = |items: &[Parts], join: fn(Vec<Parts>) -> Parts| {
        let mut found = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let mut rest = items.to_vec();
            rest.remove(index);
            let rest = if rest.len() == 1 { rest.remove(0) } else { join(rest) };
            found.push((written(item, guard), rest));
            for (part, smaller) in without_one(item, guard) {
                let mut rest = items.to_vec();
                rest[index] = smaller;
                found.push((part, join(rest)));
            }
        }
        found
    };
    match parts {
        Parts::All(items) => of_list(items, Parts::All),
        Parts::Any(items) => of_list(items, Parts::Any),
        Parts::Not(inner) => {
            let inner = without_one(inner, guard).into_iter();
            inner.map(|(part, rest)| (part, Parts::Not(Box::new(rest)))).collect()
        }
        Parts::Leaf(_) => Vec::new(),
    }
}

/// A guard as it would be written.
fn written(parts: &Parts, guard: &str) -> String {
    let bracketed = |item: &Parts| match item {
        Parts::All(_) | Parts::Any(_) => format!("({})", written(item, guard)),
        _ => written(item, guard),
    };
    let joined =
        |items: &[Parts], by: &str| items.iter().map(bracketed).collect::<Vec<_>>().join(by);
    match parts {
        Parts::All(items) => joined(items, " and "),
        Parts::Any(items) => joined(items, " or "),
        Parts::Not(inner) => format!("not {}", bracketed(inner)),
        // A choice binds less than `and`; its brackets are not a part of it.
        Parts::Leaf(range) if guard[range.clone()].contains(" if ") => {
            format!("({})", &guard[range.clone()])
        }
        Parts::Leaf(range) => guard[range.clone()].to_string(),
    }
}

impl Mutant {
    /// The workflow with the mistake in it.
    pub fn of(&self, workflow: &Workflow) -> Workflow {
        let mut mutant = workflow.clone();
        let list = self.place.list_mut(&mut mutant);
        let rule = &mut list[self.place.index];
        match &self.change {
            Change::Deleted => drop(list.remove(self.place.index)),
            Change::Negated(guard) | Change::Without(_, guard) => {
                if let Some(was) = &rule.when {
                    let (source, span) = (was.whole.source.clone(), was.whole.span.clone());
                    rule.when = Some(Guard::new(Expression::new(guard.clone(), source, span)));
                }
            }
            Change::Unguarded => rule.when = None,
            Change::Outcome(_, to) => {
                if let Some(Reply::Allow { outcome, until, .. }) = &mut rule.reply {
                    *outcome = *to;
                    *until = (*to == Outcome::Waiting).then_some(Until::External);
                }
            }
            Change::Opened(_) => {
                if let Some(Reply::Block(text) | Reply::Deny(text)) = rule.reply {
                    let (outcome, message) = (Outcome::Done, Some(text));
                    rule.reply = Some(Reply::Allow { outcome, until: None, message });
                }
            }
            Change::Swapped(_) => list.swap(self.place.index, self.place.index + 1),
        }
        mutant
    }

    /// The mistake as a diff of the definition.
    pub fn diff(&self, workflow: &Workflow, source: &Source) -> String {
        let list = self.place.list(workflow);
        let rule = &list[self.place.index];
        let row = |rule: &Rule| source.text.get(rule.span.clone()).unwrap_or_default().to_string();
        let (was, guard) = (row(rule), rule.when.as_ref().map(|guard| guard.whole.span.clone()));
        let guarded = |text: &str| {
            let mut row = was.clone();
            if let Some(span) = guard
                && let (Some(start), Some(end)) =
                    (span.start.checked_sub(rule.span.start), span.end.checked_sub(rule.span.start))
                && row.get(start..end).is_some()
            {
                row.replace_range(start..end, text);
            }
            row
        };
        // Where the answer stands elsewhere, as in `[codes]`, the row itself says what it would be.
        let marked =
            |now: String| if now == was { format!("{was}  # {}", self.change) } else { now };
        let (removed, kept, added) = match &self.change {
            Change::Deleted => (was.clone(), None, None),
            Change::Negated(text) | Change::Without(_, text) => {
                let now = guarded(text);
                (was.clone(), None, Some(now))
            }
            Change::Unguarded => {
                let now = guarded("true");
                (was.clone(), None, Some(now))
            }
            Change::Outcome(from, to) => {
                let now =
                    was.replacen(&format!("allow = \"{from}\""), &format!("allow = \"{to}\""), 1);
                (was.clone(), None, Some(marked(now)))
            }
            Change::Opened(key) => {
                let now = was.replacen(&format!("{key} ="), "allow = \"done\", message =", 1);
                (was.clone(), None, Some(marked(now)))
            }
            Change::Swapped(_) => {
                let next = list.get(self.place.index + 1).map(row);
                (was.clone(), next, Some(was.clone()))
            }
        };
        let parts = [('-', Some(removed)), (' ', kept), ('+', added)];
        let lines = parts.iter().flat_map(|(mark, text)| {
            let lines = text.iter().flat_map(|text| text.lines());
            lines.map(move |line| format!("{mark} {}", line.trim()))
        });
        lines.collect::<Vec<String>>().join("\n")
    }

    /// Whether a case can tell: one that never tries the rule decides as before.
    fn concerns(&self, result: &CaseResult) -> bool {
        let Some(tried) = &result.tried else { return true };
        let next = match &self.change {
            Change::Swapped(next) => Some(next),
            _ => None,
        };
        tried.iter().any(|rule| *rule == self.rule || Some(rule) == next)
    }

    fn is(&self, listed: &Equivalent) -> bool {
        listed.rule == self.rule
            && listed.when == self.when
            && listed.change == self.change.to_string()
    }
}

/// What came of all mutants of a workflow.
#[derive(Clone, Debug, Default)]
pub struct Mutation {
    pub mutants: usize,
    /// How many of them fail a case.
    pub killed: usize,
    /// How many are listed as equivalent.
    pub equivalent: usize,
    /// The mutants that pass every case and are not listed.
    pub survivors: Vec<Survivor>,
    /// Rows of the list that no longer name a survivor.
    pub stale: Vec<String>,
}

/// A mutant that passes every case.
#[derive(Clone, Debug, Serialize)]
pub struct Survivor {
    pub rule: String,
    pub line: usize,
    pub when: Option<String>,
    pub change: String,
    pub diff: String,
    /// A case that would kill it, where one was looked for and found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
}

/// Runs the cases on every mutant. For those that pass them all, a case that would kill them is looked for among so
/// many decisions.
///
/// # Errors
/// Where a case fails on the definition as it is: then nothing can be said of mutants.
pub fn mutate(
    workflow: &Workflow,
    cases: &Cases,
    source: &Source,
    decisions: usize,
) -> Result<Mutation, String> {
    let all = cases;
    let results = cases.run(workflow);
    if let Some(failed) = results.iter().find(|result| !result.passed()) {
        let CaseResult { file, name, differences, .. } = failed;
        return Err(format!("{file}: {name}: {}", differences.join("; ")));
    }
    let listed: Vec<&Equivalent> = cases.equivalent().collect();
    let cases: Vec<(CaseIn, CaseResult)> = cases.each().zip(results).collect();
    let mut known = vec![false; listed.len()];
    let mut found = Mutation::default();
    let mut alive: Vec<(String, Workflow)> = Vec::new();
    for mutant in mutants(workflow) {
        found.mutants += 1;
        let changed = mutant.of(workflow);
        let mut concerned = cases.iter().filter(|(_, before)| mutant.concerns(before));
        if concerned.any(|(case, _)| !case.run(&changed).passed()) {
            found.killed += 1;
        } else if let Some(row) = listed.iter().position(|listed| mutant.is(listed)) {
            known[row] = true;
            found.equivalent += 1;
        } else {
            found.survivors.push(Survivor {
                diff: mutant.diff(workflow, source),
                rule: mutant.rule.clone(),
                line: mutant.line,
                when: mutant.when,
                change: mutant.change.to_string(),
                case: None,
            });
            alive.push((mutant.rule, changed));
        }
    }
    if decisions > 0 && !alive.is_empty() {
        let model = Model::new(workflow, all);
        let seen = model.decisions(decisions);
        for (survivor, (rule, changed)) in found.survivors.iter_mut().zip(&alive) {
            let name = format!("{rule} is not {}", survivor.change);
            survivor.case = killer(&seen, &name, rule, workflow, changed, &model.place());
        }
    }
    let stale = listed.iter().zip(&known).filter(|(_, known)| !**known);
    found.stale = stale.map(|(row, _)| format!("{}: {}", row.rule, row.change)).collect();
    Ok(found)
}

/// A decision that the mutant makes in another way, as a case.
fn killer(
    seen: &[Decided],
    name: &str,
    rule: &str,
    workflow: &Workflow,
    mutant: &Workflow,
    place: &str,
) -> Option<String> {
    seen.iter().find_map(|(before, event, step)| {
        let tried = step.trace.tried.iter().any(|tried| tried.rule == rule);
        if !tried && step.trace.more == 0 {
            return None;
        }
        let text = case_text(name, place, before, event, step);
        let cases = Cases::parse(&text);
        let passes = |workflow: &Workflow| cases.run(workflow).iter().all(CaseResult::passed);
        (!passes(mutant) && passes(workflow)).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_loses_one_part_at_any_depth() {
        let guard = "a and (b or not (c and d)) and e == 'x and y'";
        let left = without_one(&Parts::of(guard), guard);
        let left: Vec<String> =
            left.iter().map(|(part, rest)| format!("{part}: {}", written(rest, guard))).collect();
        assert_eq!(
            left,
            [
                "a: (b or not (c and d)) and e == 'x and y'",
                "b or not (c and d): a and e == 'x and y'",
                "b: a and not (c and d) and e == 'x and y'",
                "not (c and d): a and b and e == 'x and y'",
                "c: a and (b or not d) and e == 'x and y'",
                "d: a and (b or not c) and e == 'x and y'",
                "e == 'x and y': a and (b or not (c and d))",
            ]
        );
    }
}
