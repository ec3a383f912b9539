//! What exploring tells: properties that do not hold, faults, stops that no rule answers, blocks that no agent can lift,
//! runs that cannot end, stops that lead round in a circle, and success without a check.

use std::collections::BTreeSet;
use std::ops::Range;

use super::finding::{Finding, Severity};
use crate::answer::{Answer, Outcome};
use crate::model::{Edge, Graph, Model, Who};
use crate::workflow::{Property, Rule};

pub(super) struct Runs<'g> {
    model: &'g Model<'g>,
    graph: &'g Graph,
    pub(super) findings: Vec<Finding>,
    pub(super) proved: Vec<String>,
}

impl<'g> Runs<'g> {
    pub(super) fn new(model: &'g Model<'g>, graph: &'g Graph) -> Runs<'g> {
        Runs { model, graph, findings: Vec::new(), proved: Vec::new() }
    }

    pub(super) fn look(&mut self) {
        self.properties();
        self.faults();
        self.holes();
        self.traps();
        self.ends();
        self.circles();
        self.bypasses();
        self.passages();
    }

    fn proved(&mut self, what: String) {
        self.proved.push(what);
    }

    fn found(&mut self, mut finding: Finding, edge: usize) {
        let name = format!("{}: {}", finding.code, finding.message);
        finding.witness = self.model.witness(self.graph, edge, &name);
        self.findings.push(finding);
    }

    fn rule(&self, label: &str) -> Option<&'g Rule> {
        self.model.workflow.rules().map(|(_, rule)| rule).find(|rule| *rule.label == *label)
    }

    /// Where the rule stands that fired last, or the phase where none did.
    fn place(&self, edge: &Edge) -> Range<usize> {
        if let Some(rule) = edge.fired.last().and_then(|label| self.rule(label)) {
            return rule.span.clone();
        }
        let outer = self.model.workflow.outer();
        let phase = outer.phase(&self.graph.nodes[edge.from].phase);
        phase.map_or(0..0, |id| outer.get(id).span.clone())
    }

    fn properties(&mut self) {
        let workflow = self.model.workflow;
        for property in &workflow.properties {
            let broken =
                self.graph.edges.iter().position(|it| it.violated.contains(&property.name));
            match broken {
                Some(edge) => {
                    let message =
                        format!("\"{}\" does not hold: {}", property.name, property.says());
                    let span = property.span.clone();
                    self.found(Finding::new(Severity::Error, "property", span, message), edge);
                }
                None => self.proved(property.name.clone()),
            }
        }
    }

    /// Decisions that cannot be made: an absent member, a wrong type, rules that do not come to rest.
    fn faults(&mut self) {
        let mut told: BTreeSet<String> = BTreeSet::new();
        let name = &self.model.workflow.outer().name;
        for (index, edge) in self.graph.edges.iter().enumerate() {
            if !edge.is_fault() || !edge.violated.is_empty() {
                continue;
            }
            let Some(text) = edge.answer.as_ref().and_then(Answer::text) else { continue };
            // What a workflow says with `fail` it means; a fault of its own has a place, or names a rule.
            let own = [
                ".toml:",
                "without coming to rest",
                "should lead to",
                "a rule sets what",
                "there is no phase",
                "cannot be set",
            ];
            let is_meant = !own.iter().any(|it| text.contains(it)) && !text.starts_with(&**name);
            if is_meant || !told.insert(text.to_string()) {
                continue;
            }
            let message = format!("a decision cannot be made: {text}");
            let mut finding =
                Finding::new(Severity::Error, "fault", self.blame(edge, text), message);
            finding.hint =
                Some("declare the field in `[state]`, or ask whether it is there first".into());
            self.found(finding, index);
        }
        if told.is_empty() {
            self.proved("every decision can be made".into());
        }
    }

    /// The rule whose expression a fault names.
    fn blame(&self, edge: &Edge, text: &str) -> Range<usize> {
        let named = self.model.workflow.guards().find(|it| {
            let (line, column) = it.source.position(it.span.start);
            text.starts_with(&format!("{}:{line}:{column}:", it.source.name))
        });
        named.map_or_else(|| self.place(edge), |it| it.span.clone())
    }

    /// Stops that no rule answers.
    fn holes(&mut self) {
        let mut told: BTreeSet<&str> = BTreeSet::new();
        let mut any = false;
        for (index, edge) in self.graph.edges.iter().enumerate() {
            let inactive = matches!(
                &edge.answer,
                Some(Answer::Allow { outcome: Some(Outcome::Inactive), message: Some(text), .. })
                    if text.ends_with("has no rule for this stop")
            );
            let phase = self.graph.nodes[edge.to].phase.as_str();
            if !inactive || !told.insert(phase) {
                continue;
            }
            any = true;
            let outer = self.model.workflow.outer();
            let span = outer.phase(phase).map_or(0..0, |id| outer.get(id).span.clone());
            let message =
                format!("no rule of phase `{phase}` answers this stop, so the agent is let go");
            let mut finding = Finding::new(Severity::Error, "hole", span, message);
            finding.hint = Some("end with a rule for `stop` that has no `when`".into());
            self.found(finding, index);
        }
        if !any {
            self.proved("every stop is answered by a rule".into());
        }
    }

    /// Blocks that no agent can lift: whatever an agent can do, it is blocked again, by the same rule or by others in turn.
    fn traps(&mut self) {
        let graph = self.graph;
        let (free, open) = self.free();
        let mut told: BTreeSet<&str> = BTreeSet::new();
        for (index, edge) in graph.edges.iter().enumerate() {
            let Some(rule) = edge.fired.last().filter(|_| is_blocked_stop(edge)) else { continue };
            if free[edge.to] || told.contains(rule.as_str()) {
                continue;
            }
            let (held, _) = graph.reach(edge.to, |edge| edge.who == Who::Agent);
            // What only leads to where an agent is held is not what holds it.
            if !self.comes_back(edge.to, &held) {
                continue;
            }
            let edges = held.iter().flat_map(|at| &graph.nodes[*at].edges);
            let edges = edges.map(|at| &graph.edges[*at]).filter(|it| is_blocked_stop(it));
            let mut rules: Vec<&str> =
                edges.filter_map(|it| it.fired.last()).map(String::as_str).collect();
            rules.push(rule);
            rules.sort_unstable();
            rules.dedup();
            told.extend(rules.iter().copied());
            let (all, _) = graph.reach(edge.to, |_| true);
            let lifted = all.iter().any(|at| self.lets_go(*at, |_| true));
            let by = self.lifters(&all);
            let ways = if lifted {
                format!("only {by} can change that")
            } else {
                "nothing changes that".into()
            };
            let place = self.place(edge);
            let mut finding = if let [rule] = rules.as_slice() {
                let guard = self.rule(rule).and_then(|it| it.when.as_ref());
                let guard = guard.map_or("whatever holds".to_string(), |it| {
                    format!("while `{}`", it.whole.text)
                });
                let message = "a block that no agent can lift".to_string();
                let mut finding = Finding::new(Severity::Error, "trap", place, message);
                finding.there = Some(format!("rule `{rule}` blocks {guard}; {ways}"));
                finding
            } else {
                let message = "blocks that lead to one another, and no agent can leave".to_string();
                let mut finding = Finding::new(Severity::Error, "livelock", place, message);
                let rules = rules.join("`, `");
                finding.there = Some(format!("rules `{rules}` block in turn; {ways}"));
                finding
            };
            finding.hint =
                Some(if lifted { "wait = \"human\"".into() } else { "give it a way out".into() });
            self.found(finding, index);
        }
        if told.is_empty() && !open {
            self.proved("every block can be lifted by an agent".into());
        }
    }

    /// Whether an agent can come back to a situation from all that it can reach from there.
    fn comes_back(&self, to: usize, held: &[usize]) -> bool {
        let mut seen = BTreeSet::from([to]);
        loop {
            let before = seen.len();
            for at in held {
                let mut edges = self.graph.nodes[*at].edges.iter().map(|it| &self.graph.edges[*it]);
                if edges.any(|edge| edge.who == Who::Agent && seen.contains(&edge.to)) {
                    seen.insert(*at);
                }
            }
            if seen.len() == before {
                return held.iter().all(|at| seen.contains(at));
            }
        }
    }

    /// Whether a stop is let go in a situation, or the run can end there: by moves that may be made.
    fn lets_go(&self, at: usize, may: impl Fn(&Edge) -> bool) -> bool {
        let edges = self.graph.nodes[at].edges.iter().map(|it| &self.graph.edges[*it]);
        edges.filter(|edge| may(edge)).any(|edge| {
            let held = is_blocked_stop(edge) || edge.is_fault();
            edge.step.is_stop() && !held || self.graph.nodes[edge.to].situation.over
        })
    }

    /// The situations from which an agent can come to where a stop is let go, as far as is known; and whether one of them counts
    /// only because not all is known of it.
    fn free(&self) -> (Vec<bool>, bool) {
        let graph = self.graph;
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
        for edge in graph.edges.iter().filter(|edge| edge.who == Who::Agent) {
            back[edge.to].push(edge.from);
        }
        let spread = |free: &mut Vec<bool>| {
            let mut open: Vec<usize> = (0..free.len()).filter(|at| free[*at]).collect();
            while let Some(at) = open.pop() {
                for from in &back[at] {
                    if !free[*from] {
                        free[*from] = true;
                        open.push(*from);
                    }
                }
            }
        };
        let nodes = || 0..graph.nodes.len();
        let by_agent = |edge: &Edge| edge.who == Who::Agent;
        let mut free: Vec<bool> = nodes()
            .map(|at| graph.nodes[at].situation.over || self.lets_go(at, by_agent))
            .collect();
        spread(&mut free);
        // What is in a file or a message is not known: other words may well lift a block.
        let unknown = |at: usize| {
            let node = &graph.nodes[at];
            let mut edges = node.edges.iter().map(|it| &graph.edges[*it]);
            !node.expanded || edges.any(|edge| edge.open && is_blocked_stop(edge))
        };
        let unknown: Vec<usize> = nodes().filter(|at| !free[*at] && unknown(*at)).collect();
        for at in &unknown {
            free[*at] = true;
        }
        spread(&mut free);
        (free, !unknown.is_empty())
    }

    /// What others than agents can do in some situations, in words.
    fn lifters(&self, nodes: &[usize]) -> String {
        let edges = nodes.iter().flat_map(|at| &self.graph.nodes[*at].edges);
        let edges = edges.map(|at| &self.graph.edges[*at]).filter(|edge| edge.who != Who::Agent);
        let names: BTreeSet<String> =
            edges.filter(|it| !it.fired.is_empty()).map(|it| format!("`{}`", it.step)).collect();
        if names.is_empty() {
            return "somebody else".into();
        }
        names.into_iter().take(3).collect::<Vec<_>>().join(" or ")
    }

    /// From every situation a run can come to an end.
    fn ends(&mut self) {
        let graph = self.graph;
        let mut ending = vec![false; graph.nodes.len()];
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
        for edge in &graph.edges {
            back[edge.to].push(edge.from);
            ending[edge.from] |= edge.ends();
        }
        for (at, node) in graph.nodes.iter().enumerate() {
            // What was not looked at may well lead to an end.
            ending[at] |= node.situation.over || !node.expanded;
        }
        let mut open: Vec<usize> = (0..graph.nodes.len()).filter(|at| ending[*at]).collect();
        while let Some(at) = open.pop() {
            for from in &back[at] {
                if !ending[*from] {
                    ending[*from] = true;
                    open.push(*from);
                }
            }
        }
        let Some(lost) = (0..graph.nodes.len()).find(|at| !ending[*at]) else {
            if graph.complete {
                self.proved("every run can come to an end".into());
            }
            return;
        };
        let node = &graph.nodes[lost];
        // The step by which a stop is answered there shows it.
        let stop = node.edges.iter().copied().find(|at| graph.edges[*at].step.is_stop());
        let Some(stop) = stop.or(node.by) else { return };
        let outer = self.model.workflow.outer();
        let span = outer.phase(&node.phase).map_or(0..0, |id| outer.get(id).span.clone());
        let open = graph
            .reach(lost, |_| true)
            .0
            .iter()
            .any(|at| graph.nodes[*at].edges.iter().any(|it| graph.edges[*it].open));
        if open {
            return;
        }
        let message = format!("no run can reach an end from phase `{}`", node.phase);
        let mut finding = Finding::new(Severity::Error, "no-end", span, message);
        finding.hint = Some("such a run ends only by a limit or by `phasegate cancel`".into());
        self.found(finding, stop);
    }

    /// Stops between which nothing happens, and that lead round from one situation to another.
    fn circles(&mut self) {
        let graph = self.graph;
        let next = |at: usize| {
            let mut stops =
                graph.nodes[at].edges.iter().copied().filter(|it| graph.edges[*it].step.is_stop());
            let first = stops.next()?;
            // Where a job is asked, what it says is a change.
            stops
                .next()
                .is_none()
                .then_some(first)
                .filter(|it| !graph.nodes[graph.edges[*it].to].situation.over)
        };
        let mut clear = vec![false; graph.nodes.len()];
        let mut told: BTreeSet<String> = BTreeSet::new();
        let known: BTreeSet<usize> = self
            .findings
            .iter()
            .filter(|it| it.code == "livelock")
            .map(|it| it.span.start)
            .collect();
        for start in 0..graph.nodes.len() {
            let mut way: Vec<(usize, usize)> = Vec::new();
            let mut here = start;
            while !clear[here] {
                let Some(edge) = next(here) else { break };
                if let Some(first) = way.iter().position(|(at, _)| *at == here) {
                    let circle = &way[first..];
                    let phases: Vec<&str> =
                        circle.iter().map(|(at, _)| graph.nodes[*at].phase.as_str()).collect();
                    let blocks = circle.iter().any(|(_, it)| {
                        matches!(graph.edges[*it].answer, Some(Answer::Block { .. }))
                    });
                    let mut names = phases.clone();
                    names.sort_unstable();
                    let is_known = circle
                        .iter()
                        .any(|(_, it)| known.contains(&self.place(&graph.edges[*it]).start));
                    if circle.len() > 1 && blocks && !is_known && told.insert(names.join(" ")) {
                        let message = format!(
                            "stops go round in a circle although nothing changes: {} → {}",
                            phases.join(" → "),
                            phases[0]
                        );
                        let mut finding = Finding::new(
                            Severity::Error,
                            "livelock",
                            self.place(&graph.edges[circle[0].1]),
                            message,
                        );
                        finding.hint = Some("move on only where something has changed".into());
                        self.found(finding, circle[circle.len() - 1].1);
                    }
                    break;
                }
                way.push((here, edge));
                here = graph.edges[edge].to;
            }
            for (at, _) in way {
                clear[at] = true;
            }
        }
        if told.is_empty() && known.is_empty() && graph.complete {
            self.proved("no circle of stops".into());
        }
    }

    /// What every way to success goes through: a verdict, a person, or one of both.
    fn passages(&mut self) {
        let successes = || self.graph.edges.iter().filter(|edge| edge.done);
        if successes().next().is_none() {
            return;
        }
        let by_person = |edge: &Edge| edge.who == Who::Person;
        let judged = |edge: &Edge| edge.judged;
        let without = |is_passage: &dyn Fn(&Edge) -> bool| {
            let starts: Vec<usize> = (0..self.graph.nodes.len())
                .filter(|at| self.graph.nodes[*at].by.is_none())
                .collect();
            starts.into_iter().any(|start| {
                let (reached, _) = self.graph.reach(start, |edge| !is_passage(edge));
                let edges = reached.iter().flat_map(|at| &self.graph.nodes[*at].edges);
                edges.map(|at| &self.graph.edges[*at]).any(|it| it.done && !is_passage(it))
            })
        };
        let said = match (without(&judged), without(&by_person)) {
            (false, false) => {
                vec!["no success without a reviewer's verdict", "no success without a person"]
            }
            (false, true) => vec!["no success without a reviewer's verdict"],
            (true, false) => vec!["no success without a person"],
            (true, true) if !without(&|edge| judged(edge) || by_person(edge)) => {
                vec!["no success without a reviewer's verdict or a person"]
            }
            (true, true) => Vec::new(),
        };
        self.proved.extend(said.into_iter().map(str::to_string));
    }

    /// Success on a tree on which a check has not passed.
    fn bypasses(&mut self) {
        let workflow = self.model.workflow;
        for check in workflow.checks() {
            // One that may have nothing to run cannot be asked for.
            let member = format!("check.{}", check.name);
            let said = workflow
                .properties
                .iter()
                .flat_map(Property::expressions)
                .any(|it| it.text.contains(&member));
            if check.constant.is_some() || said {
                continue;
            }
            let without =
                self.graph.edges.iter().position(|it| it.done && !it.green.contains(&check.name));
            match without {
                Some(edge) => {
                    let message = format!("a run can end as `done` without check `{}`", check.name);
                    let place = self.place(&self.graph.edges[edge]);
                    let mut finding = Finding::new(Severity::Warning, "bypass", place, message);
                    let hint =
                        "say with a `[[property]]` what must hold, or ask for the check there";
                    finding.hint = Some(hint.into());
                    self.found(finding, edge);
                }
                None => self.proved(format!("no success without check {}", check.name)),
            }
        }
    }
}

/// Whether a stop was blocked.
fn is_blocked_stop(edge: &Edge) -> bool {
    edge.step.is_stop() && matches!(edge.answer, Some(Answer::Block { .. }))
}
