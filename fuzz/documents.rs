//! State documents of the built-in workflows: an answer, never a panic, and nothing lost.

use std::sync::Arc;

use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::step::Event;
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog::general;

use crate::fuzz;

/// A member that no workflow knows.
const FOREIGN: &str = "zz_of_somebody_else";

fn workflow(name: &str) -> Workflow {
    let entry = general().into_iter().find(|entry| entry.name == name).unwrap();
    resolve(&entry.bundle().unwrap(), &Overrides::default(), Expressions::Checked).unwrap()
}

fn of(name: &str) {
    let workflow = workflow(name);
    let run = RunFacts {
        name: "web".into(),
        document: ".phasegate/web/web.json".into(),
        ..RunFacts::default()
    };
    fuzz(&format!("documents/{name}"), 1_500, Vec::new(), |input| {
        let Ok(mut document) = Json::parse(input) else { return Ok(()) };
        for indent in [None, Some("  ")] {
            let again = Json::parse(document.to_text(indent).as_bytes());
            if again.as_ref().ok() != Some(&document) {
                return Err("what is written is not what was read".into());
            }
        }
        if let Json::Object(object) = &mut document {
            Arc::make_mut(object).insert(FOREIGN, Json::from("kept"));
        }
        let foreign = document.get(FOREIGN).cloned();
        for _ in 0..3 {
            let evidence = Arc::new(GivenEvidence::default());
            let step = decide(&workflow, document.clone(), &Event::stop(None), &run, evidence);
            if step.document.get(FOREIGN) != foreign.as_ref() {
                return Err("what somebody else has written is lost".into());
            }
            match &step.answer {
                Answer::Deny { .. } => return Err("a stop is never denied".into()),
                Answer::Block { reason } if reason.trim().is_empty() => {
                    return Err("a block without a reason".into());
                }
                Answer::Allow { outcome: Some(Outcome::Fault), message, .. } => {
                    if step.changed || !step.effects.is_empty() || step.wants.is_some() {
                        return Err("a fault has changed the document".into());
                    }
                    if message.as_ref().is_none_or(|it| it.trim().is_empty()) {
                        return Err("a fault that is not told".into());
                    }
                }
                _ => {}
            }
            document = step.document;
        }
        Ok(())
    });
}

#[test]
fn of_loop() {
    of("loop");
}

#[test]
fn of_plan() {
    of("plan");
}

#[test]
fn of_task() {
    of("task");
}

#[test]
fn of_triage() {
    of("triage");
}

#[test]
fn of_phases() {
    of("phases");
}
