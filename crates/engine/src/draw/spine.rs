//! Where things are in a picture of a workflow: the phases of each machine stand below each other in the order of
//! the file, like a spine. A step to the next phase is a line down, a step further on goes round at the right, a
//! return goes back at the left.
//!
//! The order is the author's, so that a picture stays as it was when a rule is added. A layout that breaks cycles by
//! itself draws a workflow with returns in an order that nobody has written.

use std::collections::BTreeMap;

use super::{Walk, answer, event, has_general_rules, label, shorten};
use crate::answer::Outcome;
use crate::graph::edges;
use crate::workflow::{Machine, PhaseId, Reply, Rule, Workflow};

/// A machine, laid out.
pub struct Column {
    /// `each entry`; none for the workflow's own machine.
    pub title: Option<String>,
    pub boxes: Vec<Node>,
    /// `steps[i]`: the rules that lead from a phase to the next one.
    pub steps: Vec<Vec<String>>,
    pub arcs: Vec<Arc>,
    /// Rules of every phase, which would be a line from each box.
    pub general: Vec<String>,
    /// Whether the boxes have a line for what a run has done there.
    pub has_past: bool,
    /// The last step of the run, as two boxes.
    pub last: Option<(usize, usize)>,
}

/// A phase.
pub struct Node {
    pub name: String,
    /// What it does with a stop: `blocks, waits`, `end: done`.
    pub about: String,
    /// What a run has done there: `2 visits · 14 min · 3 blocks`.
    pub past: String,
    pub is_initial: bool,
    pub is_final: bool,
    pub is_current: bool,
}

/// On which side of the spine a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Returns.
    Left,
    /// Steps that pass over phases.
    Right,
}

/// A phase that a line comes from, and the rules that lead from there.
pub type Source = (usize, Vec<String>);

/// All ways round the spine into one phase: they join, so that there is one arrowhead.
pub struct Arc {
    pub side: Side,
    pub to: usize,
    pub from: Vec<Source>,
    /// How far out it runs; 0 is nearest to the boxes.
    pub lane: usize,
}

impl Arc {
    /// The boxes between which it runs, both included.
    pub fn span(&self) -> (usize, usize) {
        let ends = self.from.iter().map(|(from, _)| *from);
        ends.fold((self.to, self.to), |(first, last), at| (first.min(at), last.max(at)))
    }
}

impl Column {
    /// Puts in where a run is and has been.
    fn mark(&mut self, machine: &Machine, walk: &Walk) {
        let is_outer = machine.binding.is_none();
        for node in &mut self.boxes {
            node.is_current = is_outer && node.name == walk.current;
            node.past = if is_outer {
                walk.of_phase(&node.name)
            } else {
                walk.of_elements(&machine.name, &node.name)
            };
        }
        let elements = walk.elements.get(&*machine.name);
        self.has_past = if is_outer {
            walk.is_counted()
        } else {
            elements.is_some_and(|counts| !counts.is_empty())
        };
        let place = |name: &str| machine.phase(name).map(|phase| phase.0);
        let last = walk.last.as_ref().filter(|_| is_outer);
        self.last = last.and_then(|(from, to)| Some((place(from)?, place(to)?)));
    }

    /// Whether the run has gone this way last.
    pub fn is_last(&self, from: usize, to: usize) -> bool {
        self.last == Some((from, to))
    }

    /// How many lanes a side needs.
    pub fn lanes(&self, side: Side) -> usize {
        let of = self.arcs.iter().filter(|arc| arc.side == side);
        of.map(|arc| arc.lane + 1).max().unwrap_or(0)
    }
}

/// Lays a workflow out; `walk` is where a run has been.
pub fn columns(workflow: &Workflow, walk: Option<&Walk>) -> Vec<Column> {
    let column = |machine: &Machine| {
        let mut column = column(workflow, machine);
        if let Some(walk) = walk {
            column.mark(machine, walk);
        }
        column
    };
    workflow.machines.iter().map(column).collect()
}

fn column(workflow: &Workflow, machine: &Machine) -> Column {
    let leads = |rule: &Rule| !matches!(rule.reply, Some(Reply::Deny(_)));
    let general: Vec<String> = if has_general_rules(machine) {
        let rules = machine.any.always.iter().chain(&machine.any.rules);
        rules.filter(|rule| leads(rule)).map(|rule| general(workflow, machine, rule)).collect()
    } else {
        Vec::new()
    };
    let is_general = |rule: &Rule| {
        let mut rules = machine.any.always.iter().chain(&machine.any.rules);
        rules.any(|it| std::ptr::eq(it, rule))
    };
    let mut ways: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for edge in edges(machine) {
        if edge.from != edge.to && leads(edge.rule) && !is_general(edge.rule) {
            let way = ways.entry((edge.from.0, edge.to.0)).or_default();
            way.push(label(edge.rule, workflow));
        }
    }
    let mut steps = vec![Vec::new(); machine.phases.len()];
    let mut joined: BTreeMap<(Side, usize), Vec<Source>> = BTreeMap::new();
    for ((from, to), rules) in ways {
        if to == from + 1 {
            steps[from] = rules;
        } else {
            let side = if to > from { Side::Right } else { Side::Left };
            joined.entry((side, to)).or_default().push((from, rules));
        }
    }
    let mut arcs: Vec<Arc> =
        joined.into_iter().map(|((side, to), from)| Arc { side, to, from, lane: 0 }).collect();
    spread(&mut arcs);
    let first = machine.initial.unwrap_or(PhaseId(0));
    let boxes = machine.phases.iter().enumerate().map(|(index, phase)| Node {
        name: phase.name.to_string(),
        about: match phase.ends {
            Some(outcome) => format!("end: {outcome}"),
            None => stops(machine.rules_in(phase)),
        },
        past: String::new(),
        is_initial: first.0 == index,
        is_final: phase.ends.is_some(),
        is_current: false,
    });
    Column {
        title: machine.binding.as_ref().map(|_| format!("each {}", machine.name)),
        boxes: boxes.collect(),
        steps,
        arcs,
        general,
        has_past: false,
        last: None,
    }
}

/// Gives each arc the nearest lane that is free where it runs, the shortest first.
fn spread(arcs: &mut [Arc]) {
    arcs.sort_by_key(|arc| {
        let (first, last) = arc.span();
        (last - first, first, arc.side)
    });
    for index in 0..arcs.len() {
        let (first, last) = arcs[index].span();
        let side = arcs[index].side;
        let taken: Vec<usize> = arcs[..index]
            .iter()
            .filter(|other| {
                let (from, to) = other.span();
                // Arcs that only touch do not meet: in a box, one ends where the other does not begin.
                other.side == side && from < last && first < to
            })
            .map(|other| other.lane)
            .collect();
        arcs[index].lane = (0..index).find(|lane| !taken.contains(lane)).unwrap_or(index);
    }
}

/// What a phase answers to a stop without leaving it, in words.
fn stops<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let (mut blocks, mut waits) = (0, 0);
    for rule in rules {
        match rule.reply {
            Some(Reply::Block(_)) => blocks += 1,
            Some(Reply::Allow { outcome: Outcome::Waiting, .. }) => waits += 1,
            _ => {}
        }
    }
    let said = [("blocks", blocks), ("waits", waits)].into_iter().filter(|(_, count)| *count > 0);
    let said: Vec<String> = said
        .map(|(what, count)| if count == 1 { what.into() } else { format!("{what} ×{count}") })
        .collect();
    said.join(", ")
}

/// A rule of every phase, in a line.
fn general(workflow: &Workflow, machine: &Machine, rule: &Rule) -> String {
    let to = rule.goto.map(|to| format!(" → {}", machine.get(to).name));
    match (&to, answer(rule)) {
        (Some(to), _) => {
            let guard = rule.when.as_ref().map(|guard| shorten(&guard.whole.text, 60));
            let guard = guard.map_or(String::new(), |guard| format!(" [{guard}]"));
            format!("{}{guard}{to}", event(rule))
        }
        (None, _) => label(rule, workflow),
    }
}
