//! The machine against the specification's diagram: every edge of it, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phasegate_engine::check::CheckResult;
use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::graph;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog;
use phasegate_runtime::config::Config;

/// The edges of the diagram, as the specification draws them.
const DIAGRAM: &str = "
    planning --> plan_review: planning succeeded
    planning --> planning: re-plan (redo)
    plan_review --> codegen: review ok
    plan_review --> planning: review needs changes
    plan_review --> planning: review blocked
    codegen --> review: codegen completed
    codegen --> planning: scope mismatch
    codegen --> plan_review: plan unclear
    codegen --> codegen: re-run codegen
    review --> test: review passes
    review --> codegen: needs code changes
    review --> planning: plan flawed
    test --> accept: tests complete
    test --> codegen: test failures
    accept --> done: accepted
    accept --> codegen: requires further changes
    accept --> review: unclear / needs review
    accept --> planning: upstream problem
    accept --> revert: revert requested
    revert --> done
";

type Edges = BTreeSet<(String, String)>;

fn diagram() -> Edges {
    let lines = DIAGRAM.lines().filter_map(|line| line.trim().split_once(" --> "));
    lines
        .map(|(from, to)| {
            let to = to.split(':').next().unwrap_or(to);
            (from.to_string(), to.to_string())
        })
        .collect()
}

fn workflow() -> Workflow {
    let entries = catalog::general();
    let entry = entries.iter().find(|entry| entry.name == "task").unwrap();
    entry.load(&Config::default()).unwrap()
}

#[test]
fn the_machine_has_the_edges_of_the_diagram_and_one_more() {
    let workflow = workflow();
    let outer = workflow.outer();
    let name = |id| outer.get(id).name.to_string();
    let edges = graph::edges(outer).into_iter().filter(|edge| edge.rule.goto.is_some());
    let mut found: Edges = edges.map(|edge| (name(edge.from), name(edge.to))).collect();
    // What is over is opened again by `redo` alone.
    assert!(found.remove(&("done".to_string(), "planning".to_string())));
    assert_eq!(found, diagram());
    let drawn = crate::scene::Scene::new().ok(&["draw", "task", "--format", "mermaid"]);
    for (from, to) in diagram() {
        assert!(drawn.contains(&format!("    {from} --> {to}: ")), "{from} --> {to}");
    }
}

/// Every phase, every event, with all combinations of evidence: no move but those of the diagram, and
/// each of them.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn no_evidence_leads_anywhere_else() {
    let mut workflow = workflow();
    workflow.constants.iter_mut().find(|(name, _)| name == "TESTS").unwrap().1 =
        Json::parse(b"[\"t\"]").unwrap();
    let plan = r#"{"title":"T","goals":[],"acceptance_criteria":[],"file_plan":[{"path":"a"}]}"#;
    let asked = r#"{"title":"T","goals":[],"acceptance_criteria":[],"file_plan":[{"path":"a"}],"questions":[{"id":"q","text":"?","blocking":true}]}"#;
    let patch = |file: &str| format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-x\n+y\n");
    let issue = |target: &str| {
        format!(
            r#"{{"ok":false,"issues":[{{"id":"i","severity":"blocking","target":"{target}","message":"m"}}]}}"#
        )
    };
    let plans = [None, Some("{".to_string()), Some(plan.to_string()), Some(asked.to_string())];
    let plan_reviews =
        [None, Some(r#"{"ok":true}"#.to_string()), Some(r#"{"ok":false}"#.to_string())];
    let patches = [None, Some(patch("a")), Some(patch("b"))];
    let code_reviews =
        [None, Some(r#"{"ok":true}"#.to_string()), Some(issue("code")), Some(issue("plan"))];
    let params = r#"{"override":null,"to":null}"#;
    let mut events: Vec<(String, String)> =
        ["stop", "plan", "review plan", "codegen", "review code", "test", "revert", "redo"]
            .map(|name| (name.to_string(), r#"{"reason":null}"#.to_string()))
            .to_vec();
    events.push(("next".into(), params.into()));
    for verdict in ["accepted", "changes", "unclear", "upstream", "revert", "banana"] {
        events.push(("accept".into(), format!(r#"{{"verdict":"{verdict}","reason":null}}"#)));
    }
    let phases =
        ["planning", "plan_review", "codegen", "review", "test", "accept", "revert", "done"];
    for to in phases {
        events.push(("next".into(), format!(r#"{{"override":"why","to":"{to}"}}"#)));
    }
    let allowed = diagram();
    let mut seen = Edges::new();
    let mut decisions = 0;
    for plan in &plans {
        for plan_review in &plan_reviews {
            for patch in &patches {
                for code_review in &code_reviews {
                    let artifacts = [
                        ("planning/planning.ai.json", plan),
                        ("review/plan-review.json", plan_review),
                        ("code/diff.patch", patch),
                        ("code/files/a", &Some("x".to_string())),
                        ("review/code-review.json", code_review),
                        ("eval/eval-report.json", &Some(r#"{"status":"complete","overall_pass":true,"suites":[],"meta":{"tree":"t"}}"#.to_string())),
                    ];
                    let files: BTreeMap<String, Vec<u8>> = artifacts
                        .into_iter()
                        .filter_map(|(name, text)| {
                            let text = text.as_ref()?.clone().into_bytes();
                            Some((format!(".phasegate/tasks/x/{name}"), text))
                        })
                        .collect();
                    let ok = plan_review.is_some();
                    let result = CheckResult { ok, exit_code: Some(0), ..CheckResult::default() };
                    let evidence = Arc::new(GivenEvidence {
                        files,
                        checks: [("tests".to_string(), result)].into(),
                        tree: Some("t".into()),
                        ..GivenEvidence::default()
                    });
                    for phase in phases {
                        for (name, params) in &events {
                            let digest = |name: &str| {
                                let found =
                                    evidence.files.get(&format!(".phasegate/tasks/x/{name}"));
                                found.map_or("none".to_string(), |text| {
                                    phasegate_engine::digest::digest(text)
                                })
                            };
                            let (plan, code) =
                                (digest("planning/planning.ai.json"), digest("code/diff.patch"));
                            // The files of the patch are not there.
                            let names = phasegate_engine::patch::files(
                                patch.as_deref().unwrap_or("").as_bytes(),
                            );
                            let names: Vec<String> =
                                names.iter().map(|name| format!("{name}\0absent\0")).collect();
                            let names = names.iter().map(String::as_bytes);
                            let tree = format!("t {}", phasegate_engine::digest::digest_of(names));
                            let state = format!(
                                r#"{{"phase":"{phase}","actors":{{"plan_review":{{"subject":"{plan} -"}},"codegen":{{"subject":"{plan} -","status":"done"}},"review":{{"subject":"{code}","tree":"{tree}"}}}}}}"#
                            );
                            let document = Json::parse(state.as_bytes()).unwrap();
                            let params = Json::parse(params.as_bytes()).unwrap();
                            let event = Event { params, ..Event::new(name, Actor::Human) };
                            let run = RunFacts {
                                name: "x".into(),
                                document: ".phasegate/tasks/x/state.json".into(),
                                ..RunFacts::default()
                            };
                            let step = decide(&workflow, document, &event, &run, evidence.clone());
                            decisions += 1;
                            for (index, step) in step.moves.iter().enumerate() {
                                let edge = (step.from.clone(), step.to.clone());
                                let reopens = edge.0 == "done" && name == "redo";
                                assert!(
                                    reopens || allowed.contains(&edge),
                                    "{phase} {name}: {edge:?}"
                                );
                                assert!(index == 0 || *name != "next", "one step at a time");
                                seen.insert(edge);
                            }
                        }
                    }
                }
            }
        }
    }
    seen.remove(&("done".to_string(), "planning".to_string()));
    assert_eq!(seen, allowed, "after {decisions} decisions");
}
