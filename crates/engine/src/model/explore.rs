//! Every situation that a workflow can come to, within bounds. What is looked at next is chosen in turns, so that what is
//! found is found by a short way, and far ends are seen as well.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::edits::outlines;
use super::frontier::Frontier;
use super::params::{Tried, together};
use super::{Model, Move, Situation, Taken, Who};
use crate::actor::Actor;
use crate::answer::{Answer, FAULT, Outcome};
use crate::decide::phase_name;
use crate::events::STOP;
use crate::json::Json;
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
    /// A reviewer has judged on the way, not against it.
    pub(crate) judged: bool,
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
    /// The edge by which it was first reached; none for a beginning.
    pub(crate) by: Option<usize>,
    /// How it began.
    pub(crate) start: usize,
    /// The edges that lead on.
    pub(crate) edges: Vec<usize>,
    /// Events that were tried before everything else, and what they looked up.
    tried: Vec<String>,
    queries: BTreeSet<String>,
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
    /// The rules that have fired, by label.
    pub(crate) fired: BTreeSet<String>,
    /// The phases that were seen, each with its machine's place.
    pub(crate) phases: BTreeSet<(usize, String)>,
    /// How many kinds of situations were seen, as they look from afar.
    pub(crate) outlines: usize,
    /// Situations that were reached and not looked at.
    pub(crate) left: usize,
    /// What was looked up of which only a few values were tried.
    pub(crate) sampled: BTreeSet<&'static str>,
    /// Nothing was left out: no situation, and no value of what was looked up.
    pub(crate) complete: bool,
}

/// How many stops in a row are put to a new situation before all else that may happen in it.
const MAX_PEEKS: usize = 12;

/// Readings of which only a few of many possible values are tried, each with what it is about.
const OPEN: &[(&str, &str)] = &[
    ("read", "what files say"),
    ("list", "which files there are"),
    ("last", "what the agent says"),
    ("said", "what the agent says"),
    ("transcript", "what the agent says"),
    ("changes", "what was changed"),
    ("changed", "what was changed"),
    ("applied", "what was changed"),
    ("tree", "what was changed"),
    ("agents", "what becomes of agents"),
    ("now", "the time"),
    ("modified", "the time"),
    ("env", "the environment"),
];

/// What a reading is about, where only a few of its values are tried.
fn sampled(query: &str) -> Option<&'static str> {
    let word = query.split(' ').next().unwrap_or_default();
    OPEN.iter().find(|(known, _)| *known == word).map(|(_, what)| *what)
}

impl Model<'_> {
    /// Explores until so many decisions were made.
    pub(crate) fn explore(&self, most: usize) -> Graph {
        let mut graph = Graph::default();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut open = Frontier::new(self.workflow);
        for begun in self.starts() {
            let start = graph.starts.len();
            graph.starts.push(begun.name);
            graph.fired.extend(begun.fired);
            let at = self.arrive(&mut graph, &mut known, begun.situation, None, start);
            if at.1 {
                self.note(&mut graph, &mut open, at.0, true);
            }
        }
        // A move of which nothing is decided costs less.
        while graph.decisions + graph.edges.len() / 4 < most {
            let Some(next) = open.next(&graph.fired) else { break };
            let known_before = graph.nodes.len();
            match &next.only {
                Some(only) => {
                    self.ask(&mut graph, &mut known, &mut open, next.node, only, None);
                }
                None => self.look(&mut graph, &mut known, &mut open, next.node, next.rough),
            }
            // What a stop would be answered costs one decision: mostly that tells what a change is worth.
            for at in known_before..graph.nodes.len() {
                self.peek(&mut graph, &mut known, &mut open, at);
            }
        }
        graph.outlines = open.kinds();
        graph.left = graph.nodes.iter().filter(|node| !node.expanded).count();
        graph.complete = graph.left == 0 && !graph.nodes.is_empty() && graph.sampled.is_empty();
        graph
    }

    /// Tries everything that may happen next in a situation.
    fn look(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        open: &mut Frontier,
        at: usize,
        rough: Option<usize>,
    ) {
        let situation = graph.nodes[at].situation.clone();
        if rough.is_none() {
            graph.nodes[at].tried.clear();
        }
        let names: BTreeSet<String> =
            self.events(&situation).iter().filter_map(Move::event).cloned().collect();
        let names: Vec<String> = names.into_iter().collect();
        let is_whole = self.ask(graph, known, open, at, &names, rough);
        graph.nodes[at].expanded = is_whole;
        if !is_whole {
            open.put_off(at);
        }
        let queries: Vec<String> =
            std::mem::take(&mut graph.nodes[at].queries).into_iter().collect();
        for step in self.changes(&situation, &queries) {
            self.follow(graph, known, open, at, &step, &mut BTreeSet::new());
        }
    }

    /// Tries some events in a situation, as far as they were not tried there; whether none of them was put off.
    fn ask(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        open: &mut Frontier,
        at: usize,
        names: &[String],
        rough: Option<usize>,
    ) -> bool {
        let node = &mut graph.nodes[at];
        let situation = node.situation.clone();
        let before = std::mem::take(&mut node.tried);
        let is_meant = |step: &Move| {
            step.event().is_some_and(|name| names.contains(name) && !before.contains(name))
        };
        let mut queries: BTreeSet<String> = BTreeSet::new();
        let mut tried: Vec<Tried> = Vec::new();
        let events = self.events(&situation).into_iter().filter(is_meant).collect();
        let mut is_whole = true;
        for step in distinct(&situation, events) {
            let what = rough.filter(|_| step.is_action()).map(|rough| (rough, step.to_string()));
            if what.as_ref().is_some_and(|(rough, what)| open.is_idle(*rough, what)) {
                is_whole = false;
                continue;
            }
            let fired = graph.fired.len();
            let ok = self.follow(graph, known, open, at, &step, &mut queries);
            if let Some((rough, what)) = what {
                open.answered(rough, what, ok || graph.fired.len() > fired);
            }
            tried.push((step, ok));
        }
        together(&tried, |event| {
            self.follow(graph, known, open, at, &Move::Event(event), &mut queries)
        });
        let node = &mut graph.nodes[at];
        node.tried = before;
        let more: Vec<String> =
            names.iter().filter(|it| !node.tried.contains(it)).cloned().collect();
        node.tried.extend(more);
        node.queries.extend(queries);
        is_whole
    }

    /// Has an agent stop in a situation, and again where that leads to another, before anything else is tried there.
    fn peek(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        open: &mut Frontier,
        at: usize,
    ) {
        let stop = [STOP.to_string()];
        let mut at = at;
        for _ in 0..MAX_PEEKS {
            let node = &graph.nodes[at];
            if node.situation.over || node.tried.contains(&stop[0]) {
                return;
            }
            let before = graph.nodes.len();
            self.ask(graph, known, open, at, &stop, None);
            if graph.nodes.len() != before + 1 {
                return;
            }
            at = before;
        }
    }

    /// Has a new situation looked at later; soon where it is the first of its kind.
    fn note(&self, graph: &mut Graph, open: &mut Frontier, at: usize, mut is_new: bool) {
        let node = &graph.nodes[at];
        let phases = self.phases_in(&node.phase, &node.situation);
        let (rough, fine) = outlines(&phases, &node.situation);
        let known = graph.phases.len();
        graph.phases.extend(phases.iter().cloned());
        is_new |= graph.phases.len() > known;
        open.push(at, &phases, (rough, fine), is_new);
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
        let mark = self.mark(&situation);
        if let Some(at) = known.get(&mark) {
            return (*at, false);
        }
        let phase = phase_name(self.workflow, &situation.document);
        let (edges, tried, queries, expanded) = Default::default();
        graph.nodes.push(Node { situation, phase, by, start, edges, tried, queries, expanded });
        known.insert(mark, graph.nodes.len() - 1);
        (graph.nodes.len() - 1, true)
    }

    /// Makes a move; whether it was accepted, where somebody asked for something.
    fn follow(
        &self,
        graph: &mut Graph,
        known: &mut HashMap<String, usize>,
        open: &mut Frontier,
        from: usize,
        step: &Move,
        queries: &mut BTreeSet<String>,
    ) -> bool {
        let situation = graph.nodes[from].situation.clone();
        let start = graph.nodes[from].start;
        let mut accepted = false;
        for (way, taken) in self.take(&situation, step).into_iter().enumerate() {
            graph.decisions += usize::from(taken.decided.is_some()) + taken.on_the_way.len();
            if let Some(decided) = taken.step() {
                queries.extend(decided.readings.iter().map(|reading| reading.query.clone()));
                // An action that no rule is about leads nowhere; a job that has ended has ended, whether or not a rule hears of it.
                if decided.unheard && step.is_action() {
                    continue;
                }
                accepted |= !matches!(decided.answer, Answer::Deny { .. });
            }
            let index = graph.edges.len();
            let mut edge = self.edge(from, step, way, &taken);
            let fired = graph.fired.len();
            for decided in taken.on_the_way.iter().chain(taken.step()) {
                let readings = decided.readings.iter();
                graph.sampled.extend(readings.filter_map(|reading| sampled(&reading.query)));
                graph.fired.extend(decided.trace.fired.iter().cloned());
                graph.phases.insert((0, decided.to.clone()));
            }
            let (to, is_new) = self.arrive(graph, known, taken.after, Some(index), start);
            edge.to = to;
            graph.edges.push(edge);
            graph.nodes[from].edges.push(index);
            if is_new {
                self.note(graph, open, to, graph.fired.len() > fired);
            }
        }
        accepted
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
            judged: taken.jobs.iter().any(|said| said.ends_with("says PASS"))
                || matches!(step, Move::Event(event) if event.actor == Actor::Reviewer),
            open: false,
        };
        if let Some((before, _, decided)) = &taken.decided {
            let checks = &before.world.checks;
            edge.green =
                checks.iter().filter(|(_, it)| it.ok).map(|(name, _)| name.clone()).collect();
            let outer = self.workflow.outer();
            let ends = outer.phase(&decided.to).and_then(|id| outer.get(id).ends);
            let ends = ends.filter(|_| !decided.moves.is_empty());
            edge.done = decided.answer.outcome().or(ends) == Some(Outcome::Done);
            edge.answer = Some(decided.answer.clone());
            edge.fired.clone_from(&decided.trace.fired);
            let all = taken.on_the_way.iter().chain(taken.step());
            edge.violated = all.flat_map(|it| it.trace.violated.iter().cloned()).collect();
            edge.open = decided.readings.iter().any(|reading| sampled(&reading.query).is_some());
        }
        edge
    }
}

/// Of moves by agents that nothing tells apart but their names, the first.
fn distinct(situation: &Situation, moves: Vec<Move>) -> Vec<Move> {
    let agents = &situation.world.agents;
    if agents.len() < 2 {
        return moves;
    }
    let document = situation.document.to_text(None);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut is_new = |step: &Move| {
        let Move::Event(event) = step else { return true };
        let Some(id) = event.agent.as_deref().filter(|id| !document.contains(*id)) else {
            return true;
        };
        let row = agents.iter().find(|row| row.get("id").and_then(Json::as_str) == Some(id));
        let Some(Json::Object(members)) = row else { return true };
        // What an agent looks at from its side is told to it, and no more.
        let members = members.iter().filter(|(name, _)| !["id", "item"].contains(&&***name));
        let row: Vec<String> =
            members.map(|(name, it)| format!("{name}={}", it.to_text(None))).collect();
        let row = row.concat();
        let params = event.params.to_text(None).replace(id, "");
        seen.insert(format!("{} {} {params} {row}", event.name, event.actor))
    };
    moves.into_iter().filter(|step| is_new(step)).collect()
}

impl Graph {
    /// The edges of a shortest way to a situation, in order, and how that way begins.
    pub(crate) fn way_to(&self, node: usize) -> (usize, Vec<usize>) {
        let mut by: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let starts = (0..self.nodes.len()).filter(|at| self.nodes[*at].by.is_none());
        let mut open: VecDeque<usize> = starts.collect();
        let mut seen = vec![false; self.nodes.len()];
        for at in &open {
            seen[*at] = true;
        }
        while let Some(here) = open.pop_front().filter(|here| *here != node) {
            for edge in &self.nodes[here].edges {
                let to = self.edges[*edge].to;
                if !seen[to] {
                    seen[to] = true;
                    by[to] = Some(*edge);
                    open.push_back(to);
                }
            }
        }
        let mut way = Vec::new();
        let mut here = node;
        while let Some(edge) = by[here] {
            way.push(edge);
            here = self.edges[edge].from;
        }
        way.reverse();
        (self.nodes[here].start, way)
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
