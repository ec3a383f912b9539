//! What can be proved of a definition, and what is wrong with it: by its graph, by its guards as Boolean algebra, and by
//! exploring the real decision within bounds.

mod finding;
mod guards;
mod runs;
mod sources;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::case::Cases;
use crate::definition::Bundle;
use crate::diagnostic::Source;
use crate::json::Json;
use crate::lint::lint;
use crate::model::{Edge, Graph, Model};
use crate::resolve::{Expressions, Overrides, resolve};
use crate::workflow::{CommandLine, Workflow};

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
    pub seen: Seen,
    /// All that can happen in the model was looked at.
    pub complete: bool,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What holds of every run; within the bounds, unless all was looked at.
    pub proved: Vec<String>,
}

/// How far a definition was looked at, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Kinds of situations: as they are without names, texts and large numbers.
    pub kinds: usize,
    /// Rules that have fired.
    pub fired: usize,
    /// Rules that have not, by label.
    pub unfired: Vec<String>,
    /// Phases to which no run has come, those of inner machines as `group.completed`.
    pub unreached: Vec<String>,
    /// Situations that were reached, and that the bound has left no time to look at.
    pub left: usize,
    /// What was looked up of which only a few values were tried.
    pub sampled: Vec<&'static str>,
    /// Constants that were configured for a second look, since they are empty.
    pub configured: Vec<String>,
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
    let cases = Cases::of(bundle);
    let configured = configured(workflow, bundle);
    let mut models = vec![Model::new(workflow, &cases)];
    if let Some((workflow, constants)) = &configured {
        models.push(Model::new(workflow, &cases).configured(constants.clone()));
    }
    let share = decisions / models.len();
    let graphs: Vec<Graph> = models.iter().map(|model| model.explore(share)).collect();
    let mut proved: Option<Vec<String>> = None;
    for (model, graph) in models.iter().zip(&graphs) {
        let mut runs = runs::Runs::new(model, graph);
        runs.look();
        let known = |it: &Finding, all: &[Finding]| {
            all.iter().any(|other| other.code == it.code && other.span == it.span)
        };
        runs.findings.retain(|it| !known(it, &findings));
        findings.extend(runs.findings);
        proved = Some(match proved {
            None => runs.proved,
            Some(before) => before.into_iter().filter(|it| runs.proved.contains(it)).collect(),
        });
    }
    let mut proved = proved.unwrap_or_default();
    for finding in findings.iter_mut().filter(|it| it.severity > Severity::Note) {
        if finding.witness.is_none() {
            finding.witness = instead(&models[0], &graphs[0], finding);
        }
    }
    graph_findings(workflow, bundle, &mut findings);
    if !findings.iter().any(|it| ["dead", "shadowed"].contains(&it.code)) && !guards.gave_up {
        proved.push("every rule can fire, as far as guards tell".into());
    }
    findings.sort_by_key(|it| (std::cmp::Reverse(it.severity), it.span.start));
    let edges = || graphs.iter().flat_map(|graph| &graph.edges);
    let constants = configured.map(|(_, constants)| constants).unwrap_or_default();
    Report {
        source: bundle.definition.clone(),
        phases: workflow.machines.iter().map(|machine| machine.phases.len()).sum(),
        rules: workflow.rules().filter(|(_, rule)| rule.ask.is_none()).count(),
        atoms: guards.atoms,
        states: graphs.iter().map(|graph| graph.nodes.len()).sum(),
        decisions: graphs.iter().map(|graph| graph.decisions).sum(),
        successes: edges().filter(|edge| edge.done).count(),
        seen: Seen {
            configured: constants.into_iter().map(|(name, _)| name).collect(),
            ..seen(workflow, &graphs)
        },
        complete: graphs.iter().all(|graph| graph.complete) && !guards.gave_up,
        findings,
        proved,
    }
}

/// How far the graphs of a workflow reach.
fn seen(workflow: &Workflow, graphs: &[Graph]) -> Seen {
    let mut unreached = Vec::new();
    for (index, machine) in workflow.machines.iter().enumerate() {
        for phase in &machine.phases {
            let place = (index, phase.name.to_string());
            if !graphs.iter().any(|graph| graph.phases.contains(&place)) {
                let of = if index == 0 { String::new() } else { format!("{}.", machine.name) };
                unreached.push(format!("{of}{}", phase.name));
            }
        }
    }
    let fired: BTreeSet<&String> = graphs.iter().flat_map(|graph| &graph.fired).collect();
    // What asks an inner machine is covered by that machine's rules.
    let rules = workflow.rules().filter(|(_, rule)| rule.ask.is_none());
    let unfired = rules.map(|(_, rule)| rule.label.to_string());
    let unfired = unfired.filter(|label| !fired.contains(label)).collect();
    let sampled: BTreeSet<&'static str> =
        graphs.iter().flat_map(|graph| graph.sampled.iter().copied()).collect();
    Seen {
        kinds: graphs.iter().map(|graph| graph.outlines).sum(),
        fired: fired.len(),
        unfired,
        unreached,
        left: graphs.iter().map(|graph| graph.left).sum(),
        sampled: sampled.into_iter().collect(),
        configured: Vec::new(),
    }
}

/// The workflow with a value for each constant that is empty and that decides something: a command of a check, and what guards
/// read. Without that, what such a constant switches on is never seen.
fn configured(workflow: &Workflow, bundle: &Bundle) -> Option<(Workflow, Vec<(String, Json)>)> {
    let is_read = |name: &str| {
        let mut uses = workflow.guards().flat_map(|it| &it.names().variables);
        uses.any(|used| used.path.first().is_some_and(|root| root == name))
    };
    let is_command = |name: &str| {
        workflow.jobs.iter().any(|job| match &job.run {
            CommandLine::Expression(list) => list.text == *name,
            _ => job.constant.as_deref() == Some(name),
        })
    };
    let constants = workflow.constants.iter().filter_map(|(name, value)| {
        let on = match value {
            Json::List(list) if list.0.is_empty() && is_command(name) => {
                Json::from(vec![Json::from("true")])
            }
            Json::String(text) if text.is_empty() => Json::from("x"),
            value if *value == Json::from(false) => Json::from(true),
            value if value.as_i64() == Some(0) => Json::from(1),
            _ => return None,
        };
        let is_checked = workflow.checks().any(|it| it.constant.as_ref() == Some(name));
        (is_checked || is_read(name)).then(|| (name.clone(), on))
    });
    let constants: Vec<(String, Json)> = constants.collect();
    if constants.is_empty() {
        return None;
    }
    let overrides = Overrides { constants: constants.clone(), ..Overrides::default() };
    let workflow = resolve(bundle, &overrides, Expressions::Checked).ok()?;
    Some((workflow, constants))
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
