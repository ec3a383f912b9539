//! What programs are told: the specification's examples, and that what is said to be possible is.

use std::sync::Arc;

use phasegate_engine::answer::Answer;
use phasegate_engine::case::{Case, CaseFile};
use phasegate_engine::decide::{RunFacts, decide, guidance};
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog;
use phasegate_runtime::config::Config;
use serde_json::{Value, json};

/// The workflow, and all its cases.
fn cases() -> (Workflow, Vec<Case>) {
    let all = catalog::general();
    let entry = all.iter().find(|entry| entry.name == "phases").unwrap();
    let workflow = entry.load(&Config::default()).unwrap();
    let bundle = entry.bundle().unwrap();
    let files = bundle.files.iter().filter(|(path, _)| path.starts_with("cases/"));
    let files = files.map(|(_, source)| toml::from_str::<CaseFile>(&source.text).unwrap());
    (workflow, files.flat_map(|file| file.case).collect())
}

fn json_of(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// A case's workflow, document and evidence.
fn scene(workflow: &Workflow, case: &Case) -> (Workflow, Json, Arc<GivenEvidence>) {
    let mut workflow = workflow.clone();
    for (name, value) in &case.constants {
        let known = workflow.constants.iter_mut().find(|(known, _)| known == name);
        known.unwrap().1 = json_of(value);
    }
    let evidence = GivenEvidence {
        now: case.now.as_ref().unwrap().parse().unwrap(),
        tree: case.tree.clone(),
        agents: case.agents.as_ref().map_or(Json::Null, |agents| json_of(agents)),
        ..GivenEvidence::default()
    };
    (workflow, json_of(case.state.as_ref().unwrap()), Arc::new(evidence))
}

/// What is told about a case; none where it asks about a phase that does not exist.
fn told(workflow: &Workflow, case: &Case) -> Option<Value> {
    let (workflow, document, evidence) = scene(workflow, case);
    let params = case.params.as_ref().map_or(Json::object(), |params| json_of(params));
    let event = Event { params, agent: case.agent.clone(), ..Event::new(&case.event, case.actor) };
    let run = RunFacts { name: "case".into(), ..RunFacts::default() };
    let told = guidance(&workflow, document, &event, &run, evidence).ok()?;
    Some(serde_json::from_str(&told.to_text(None)).unwrap())
}

#[test]
fn every_example_of_the_specification_is_produced() {
    let (workflow, cases) = cases();
    let escalated = "ESCALATED - MANUAL INTERVENTION REQUIRED: All reviewers crashed. Options: (1) Use abort_stalled_review and trigger_agentic_review to retry with new reviewers, (2) Use approve_phase_review with force flag if work is actually complete.";
    let examples = [
        (
            "PENDING: deploy_headless_agent is blocked",
            json!({ "status": "PENDING", "action": "WAIT: Phase queued. Will activate after current phase completes.", "blocked_reason": "Not the current active phase" }),
        ),
        (
            "ACTIVE, no agents deployed",
            json!({ "status": "ACTIVE", "action": "DEPLOY AGENTS: No agents deployed. Use deploy_headless_agent to start work.", "blocked_reason": null }),
        ),
        (
            "ACTIVE, agents working",
            json!({ "status": "ACTIVE", "action": "WAIT: 3 agents still working. Monitor with get_agent_output.", "blocked_reason": null }),
        ),
        (
            "all agents have finished: reviewers are spawned",
            json!({ "status": "ACTIVE", "action": "REVIEW PENDING: All agents done. System will auto-trigger review.", "blocked_reason": null }),
        ),
        (
            "AWAITING_REVIEW",
            json!({ "status": "AWAITING_REVIEW", "action": "REVIEWERS SPAWNING: Agentic reviewers being deployed. Wait for UNDER_REVIEW status.", "blocked_reason": null }),
        ),
        (
            "UNDER_REVIEW",
            json!({ "status": "UNDER_REVIEW", "action": "REVIEW IN PROGRESS: 2/3 reviewers submitted. Wait for verdicts.", "blocked_reason": null }),
        ),
        (
            "APPROVED, more phases exist",
            json!({ "status": "APPROVED", "action": "PROCEED: Phase approved. Use advance_to_next_phase to start 'Implementation Phase'.", "blocked_reason": null }),
        ),
        (
            "the last phase: the task is complete",
            json!({ "status": "APPROVED", "action": "TASK COMPLETE: All phases approved. Task finished successfully.", "blocked_reason": null }),
        ),
        (
            "REJECTED",
            json!({ "status": "REJECTED", "action": "PHASE REJECTED: Critical issues found. Review findings and deploy fix agents.", "blocked_reason": ["Add input validation to form fields", "Implement proper error boundaries"] }),
        ),
        (
            "REVISING",
            json!({ "status": "REVISING", "action": "FIX REQUIRED: Address blockers and re-submit for review.", "blocked_reason": ["Add input validation to form fields", "Implement proper error boundaries"] }),
        ),
        (
            "ESCALATED",
            json!({ "status": "ESCALATED", "action": escalated, "blocked_reason": "All 3 reviewer agents terminated without submitting verdicts", "escalated": true }),
        ),
    ];
    for (name, expected) in examples {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let told = told(&workflow, case).unwrap();
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&told["guidance"][member], value, "{name}: {member}");
        }
    }
    let case = cases.iter().find(|case| case.name == "UNDER_REVIEW").unwrap();
    let review = told(&workflow, case).unwrap()["review"].clone();
    let expected = json!({
        "review_id": "review-1", "status": "in_progress",
        "reviewers_submitted": 2, "reviewers_expected": 3, "final_verdict": null,
        "findings_summary": { "total": 0, "critical": 0, "high": 0, "blockers": 0 },
    });
    assert_eq!(review, expected);
}

#[test]
fn what_is_said_to_be_possible_is_what_is_accepted() {
    let (workflow, cases) = cases();
    // Refusals that are about the parameters, or about who it is, and not about the state.
    let personal =
        ["invalid_params", "unknown_agent", "agent_ended", "wrong_review", "unknown_phase"];
    let mut compared = 0;
    let is_asked = |case: &&Case| {
        // What creates a task is asked of no task.
        case.actor == Actor::Orchestrator && case.event != "create_task"
    };
    for case in cases.iter().filter(is_asked) {
        let Some(told) = told(&workflow, case) else { continue };
        let (own, document, evidence) = scene(&workflow, case);
        let params = case.params.as_ref().map_or(Json::object(), |params| json_of(params));
        let event = Event { params, ..Event::new(&case.event, case.actor) };
        let run = RunFacts { name: "case".into(), ..RunFacts::default() };
        let step = decide(&own, document, &event, &run, evidence);
        let possible = told["guidance"]["can"].as_array().unwrap().contains(&json!(case.event));
        match step.answer {
            Answer::Deny { code: Some(code), .. } if personal.contains(&code.as_str()) => continue,
            Answer::Deny { code: Some(code), .. } if code == "not_permitted" => continue,
            Answer::Deny { .. } => assert!(!possible, "{}: told it can", case.name),
            _ => assert!(possible, "{}: told it cannot: {told}", case.name),
        }
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}
