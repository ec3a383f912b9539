//! The graph of a machine: phases, and the rules that lead from one to another.

use std::collections::BTreeSet;

use crate::workflow::{Machine, PhaseId, Rule};

/// A rule in a phase, and where it leads. A rule that stays leads to its own phase.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'w> {
    pub from: PhaseId,
    pub to: PhaseId,
    pub rule: &'w Rule,
}

/// All edges, phase by phase, in the order in which the rules are tried.
pub fn edges(machine: &Machine) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for (index, phase) in machine.phases.iter().enumerate() {
        let from = PhaseId(index);
        for rule in machine.always_in(phase).chain(machine.rules_in(phase)) {
            edges.push(Edge { from, to: rule.goto.unwrap_or(from), rule });
        }
    }
    edges
}

/// The phases that can be reached from some phases, those included.
pub fn reachable(
    from: impl IntoIterator<Item = PhaseId>,
    steps: &[(PhaseId, PhaseId)],
) -> BTreeSet<PhaseId> {
    let mut open: Vec<PhaseId> = from.into_iter().collect();
    let mut seen: BTreeSet<PhaseId> = open.iter().copied().collect();
    while let Some(here) = open.pop() {
        for (_, to) in steps.iter().filter(|(from, _)| *from == here) {
            if seen.insert(*to) {
                open.push(*to);
            }
        }
    }
    seen
}

/// Moves between phases, each once.
pub fn steps(machine: &Machine) -> Vec<(PhaseId, PhaseId)> {
    let moves: BTreeSet<(PhaseId, PhaseId)> =
        edges(machine).iter().map(|edge| (edge.from, edge.to)).filter(|(a, b)| a != b).collect();
    moves.into_iter().collect()
}
