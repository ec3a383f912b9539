//! What can be proved of a definition, and what is wrong with it: by its graph, by its guards as Boolean algebra, and by
//! exploring the real decision within bounds.

mod finding;
mod guards;
mod runs;
mod sources;

use std::sync::Arc;

use crate::case::Cases;
use crate::definition::Bundle;
use crate::diagnostic::Source;
use crate::lint::lint;
use crate::model::{Edge, Graph, Model};
use crate::workflow::Workflow;

pub use crate::model::Witness;
pub use finding::{Finding, Severity};

/// How many decisions are made unless somebody says otherwise.
pub const DECISIONS: usize = 20_000;

/// What was looked at, found and proved.
#[derive(Clone, Debug)]
pub struct Report {
    pub source: Arc<Source>,
    pub phases: usize,
    pub rules: usize,
    pub atoms: usize,
    pub states: usize,
    pub decisions: usize,
    /// How many steps were seen that end a run as done.
    pub successes: usize,
    /// All that can happen in the model was looked at.
    pub complete: bool,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What holds of every run; within the bounds, unless all was looked at.
    pub proved: Vec<String>,
}

impl Report {
    /// Whether something is wrong.
    pub fn is_bad(&self) -> bool {
        self.findings.iter().any(|found| found.severity > Severity::Note)
    }
}

/// Looks at a definition; at most so many decisions are made.
pub fn verify(workflow: &Workflow, bundle: &Bundle, decisions: usize) -> Report {
    let guards = guards::guards(workflow);
    let mut findings = guards.findings;
    findings.extend(sources::sources(workflow, &guards.subjects));
    let model = Model::new(workflow, &Cases::of(bundle));
    let graph = model.explore(decisions);
    let mut runs = runs::Runs::new(&model, &graph);
    runs.look();
    let (found, mut proved) = (runs.findings, runs.proved);
    findings.extend(found);
    for finding in findings.iter_mut().filter(|it| it.severity > Severity::Note) {
        if finding.witness.is_none() {
            finding.witness = instead(&model, &graph, finding);
        }
    }
    graph_findings(workflow, bundle, &mut findings);
    if !findings.iter().any(|it| ["dead", "shadowed"].contains(&it.code)) && !guards.gave_up {
        proved.push("every rule can fire, as far as guards tell".into());
    }
    findings.sort_by_key(|it| (std::cmp::Reverse(it.severity), it.span.start));
    Report {
        source: bundle.definition.clone(),
        phases: workflow.machines.iter().map(|machine| machine.phases.len()).sum(),
        rules: workflow.rules().count(),
        atoms: guards.atoms,
        states: graph.nodes.len(),
        decisions: graph.decisions,
        successes: graph.edges.iter().filter(|edge| edge.done).count(),
        complete: graph.complete && !guards.gave_up,
        findings,
        proved,
    }
}

/// What happens where a rule should fire that never does.
fn instead(model: &Model, graph: &Graph, finding: &Finding) -> Option<Witness> {
    let rule = finding.rule.as_ref()?;
    let (phase, _) = rule.rsplit_once(' ')?;
    let at = |edge: &Edge| graph.nodes[edge.from].phase == phase && edge.step.is_stop();
    let fires = |edge: &Edge| edge.fired.iter().any(|it| finding.instead.contains(it));
    let edges = || graph.edges.iter();
    let shown = edges().position(|edge| at(edge) && fires(edge));
    let shown = shown.or_else(|| edges().position(fires)).or_else(|| edges().position(at))?;
    model.witness(graph, shown, &format!("{}: {}", finding.code, finding.message))
}

/// What the graph of phases tells: `lint` knows it already.
fn graph_findings(workflow: &Workflow, bundle: &Bundle, findings: &mut Vec<Finding>) {
    for found in lint(workflow, bundle).0 {
        let known = |code: &str, span: &std::ops::Range<usize>| {
            findings.iter().any(|it| it.code == code && it.span == *span)
        };
        if ["unreachable", "endless"].contains(&found.code) && !known(found.code, &found.span) {
            let finding = Finding::new(Severity::Error, found.code, found.span, found.message);
            findings.push(Finding { hint: found.hint, ..finding });
        }
    }
}
