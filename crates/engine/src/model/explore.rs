//! Every situation that a workflow can come to, within bounds: breadth first, so that what is found is found by the
//! shortest way, and where that does not see all, then what looks strangest first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{Model, Move, Situation, Taken, Who};
use crate::answer::{Answer, FAULT, Outcome};
use crate::decide::phase_name;
use crate::step::{Event, Step};

/// A decision: what it was about, and what came of it.
pub(crate) type Decided = (Situation, Event, Step);

/// What leads from one situation to another.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) step: Move,
    /// Which of the situations that the move leads to.
    pub(crate) way: usize,
    pub(crate) who: Who,
    /// What was answered; none where nothing was decided.
    pub(crate) answer: Option<Answer>,
    /// The rules that fired, by label.
    pub(crate) fired: Vec<String>,
    pub(crate) violated: Vec<String>,
    /// It ends the run as done.
    pub(crate) done: bool,
    /// The checks whose result at that moment was a pass.
    pub(crate) green: Vec<String>,
    /// Something was looked up of which only a few values are tried.
    pub(crate) open: bool,
}

impl Edge {
    pub(crate) fn is_fault(&self) -> bool {
        match &self.answer {
            Some(Answer::Allow { outcome, .. }) => *outcome == Some(Outcome::Fault),
            Some(Answer::Deny { code, .. }) => code.as_deref() == Some(FAULT),
            _ => false,
        }
    }

    /// Whether a run ends with it.
    pub(crate) fn ends(&self) -> bool {
        let outcome = self.answer.as_ref().and_then(Answer::outcome);
        self.done || matches!(outcome, Some(Outcome::Done | Outcome::Aborted))
    }
}

/// A situation that was reached.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) situation: Situation,
    pub(crate) phase: String,
    /// What it looks like from afar.
    outline: String,
    /// The edge by which it was first reached; none for a beginning.
    pub(crate) by: Option<usize>,
    /// How it began.
    pub(crate) start: usize,
    /// The edges that lead on.
    pub(crate) edges: Vec<usize>,
    /// Everything that may happen next was tried.
    pub(crate) expanded: bool,
}

/// All situations that were reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) starts: Vec<String>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) decisions: usize,
    /// Nothing was left out: no situation, and no value of what was looked up.
    pub(crate) complete: bool,
}

/// How many of the situations that were found last are weighed against each other.
const MAX_WEIGHED: usize = 400;

/// Readings of which only a few of many possible values are tried.
const OPEN: &[&str] = &[
    "read",
    "list",
    "last",
    "said",
    "transcript",
    "changes",
    "changed",
    "agents",
    "now",
    "env",
    "modified",
    "applied",
    "tree",
];

impl Model<'_> {
    /// Explores until so many decisions were made.
    pub(crate) fn explore(&self, most: usize) -> Graph {
        let mut graph = Graph::default();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut open: VecDeque<usize> = VecDeque::new();
        for (name, situation) in self.starts() {
            let start = graph.starts.len();
            graph.starts.push(name);
            let at = self.arrive(&mut graph, &mut known, situation, None, start);
            open.extend(at.1.then_some(at.0));
        }
        let mut looks: HashMap<String, usize> = HashMap::new();
        while graph.decisions < most {
            // Half of it breadth first; then what looks least familiar, so that far ends are seen, too.
            let near = graph.decisions < most / 2;
            let next = if near {
                open.pop_front()
            } else {
                Self::strangest(&graph, &mut open, &mut looks)
            };
            let Some(at) = next else { break };
            let situation = graph.nodes[at].situation.clone();
            if !situation.over {
                let mut queries: BTreeSet<String> = BTreeSet::new();
                for step in self.events(&situation) {
                    self.follow(&mut graph, &mut known, &mut open, at, &step, &mut queries);
                }
                let queries: Vec<String> = queries.into_iter().collect();
                for step in self.changes(&situation, &queries) {
                    self.follow(&mut graph, &mut known, &mut open, at, &step, &mut BTreeSet::new());
                }
            }
            graph.nodes[at].expanded = true;
        }
        let seen = !graph.nodes.is_empty() && graph.nodes.iter().all(|node| node.expanded);
        graph.complete = seen && !graph.edges.iter().any(|edge| edge.open);
        graph
    }

    /// Takes out the situation whose like was looked at least often; of those, the one that was found last.
    fn strangest(
        graph: &Graph,
        open: &mut VecDeque<usize>,
        looks: &mut HashMap<String, usize>,
    ) -> Option<usize> {
        let seen = |at: usize| looks.get(&graph.nodes[at].outline).copied().unwrap_or(0);
        let last = open.len().saturating_sub(MAX_WEIGHED);
        let (index, _) = open
            .iter()
            .enumerate()
            .skip(last)
            .min_by_key(|(index, at)| (seen(**at), Reverse(*index)))?;
        let at = open.remove(index)?;
        *looks.entry(graph.nodes[at].outline.clone()).or_default() += 1;
        Some(at)
    }

    /// So many decisions, each with what it was about.
    pub(crate) fn decisions(&self, most: usize) -> Vec<Decided> {
        let graph = self.explore(most);
        let decided = graph.edges.iter().filter(|edge| edge.answer.is_some()).filter_map(|edge| {
            let taken = self.take(&graph.nodes[edge.from].situation, &edge.step);
            let (before, event, step) = taken.into_iter().nth(edge.way)?.decided?;
            Some((before, event, *step))
        });
        decided.collect()
    }

    fn arrive(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        situation: Situation,
        by: Option<usize>,
        start: usize,
    ) -> (usize, bool) {
        let mark = situation.mark(self.workflow.updated.as_deref());
        if let Some(at) = known.get(&mark) {
            return (*at, false);
        }
        let phase = phase_name(self.workflow, &situation.document);
        let outline = self.outline(&phase, &situation);
        let (edges, expanded) = (Vec::new(), false);
        graph.nodes.push(Node { situation, phase, outline, by, start, edges, expanded });
        known.insert(mark, graph.nodes.len() - 1);
        (graph.nodes.len() - 1, true)
    }

    fn follow(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        open: &mut VecDeque<usize>,
        from: usize,
        step: &Move,
        queries: &mut BTreeSet<String>,
    ) {
        let situation = graph.nodes[from].situation.clone();
        let start = graph.nodes[from].start;
        for (way, taken) in self.take(&situation, step).into_iter().enumerate() {
            graph.decisions += usize::from(taken.decided.is_some());
            if let Some(decided) = taken.step() {
                queries.extend(decided.readings.iter().map(|reading| reading.query.clone()));
                // An action that no rule is about leads nowhere; a job that has ended has ended, whether or not a rule hears of it.
                if decided.unheard && step.is_action() {
                    continue;
                }
            }
            let index = graph.edges.len();
            let mut edge = self.edge(from, step, way, &taken);
            let (to, is_new) = self.arrive(graph, known, taken.after, Some(index), start);
            edge.to = to;
            graph.edges.push(edge);
            graph.nodes[from].edges.push(index);
            open.extend(is_new.then_some(to));
        }
    }

    fn edge(&self, from: usize, step: &Move, way: usize, taken: &Taken) -> Edge {
        let mut edge = Edge {
            from,
            to: from,
            step: step.clone(),
            way,
            who: step.who(),
            answer: None,
            fired: Vec::new(),
            violated: Vec::new(),
            done: false,
            green: Vec::new(),
            open: false,
        };
        if let Some((before, _, decided)) = &taken.decided {
            let checks = &before.world.checks;
            edge.green =
                checks.iter().filter(|(_, ok)| **ok).map(|(name, _)| name.clone()).collect();
            let outer = self.workflow.outer();
            let ends = outer.phase(&decided.to).and_then(|id| outer.get(id).ends);
            let ends = ends.filter(|_| !decided.moves.is_empty());
            edge.done = decided.answer.outcome().or(ends) == Some(Outcome::Done);
            edge.answer = Some(decided.answer.clone());
            edge.fired.clone_from(&decided.trace.fired);
            edge.violated.clone_from(&decided.trace.violated);
            edge.open = decided
                .readings
                .iter()
                .any(|reading| OPEN.contains(&reading.query.split(' ').next().unwrap_or_default()));
        }
        edge
    }
}

impl Graph {
    /// The edges by which a situation was first reached, in order.
    pub(crate) fn way_to(&self, node: usize) -> Vec<usize> {
        let mut way = Vec::new();
        let mut here = node;
        while let Some(edge) = self.nodes[here].by {
            way.push(edge);
            here = self.edges[edge].from;
        }
        way.reverse();
        way
    }

    /// The situations that can be reached from one, and whether that is all: by edges that may be taken.
    pub(crate) fn reach(&self, from: usize, may: impl Fn(&Edge) -> bool) -> (Vec<usize>, bool) {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![from];
        seen[from] = true;
        let (mut found, mut whole) = (Vec::new(), true);
        while let Some(here) = open.pop() {
            found.push(here);
            whole &= self.nodes[here].expanded;
            for edge in &self.nodes[here].edges {
                let edge = &self.edges[*edge];
                if may(edge) && !seen[edge.to] {
                    seen[edge.to] = true;
                    open.push(edge.to);
                }
            }
        }
        (found, whole)
    }
}
