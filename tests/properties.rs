//! Properties that hold for every input.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::step::Event;
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog::general;
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e12..1e12).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A triage document that is mostly right, with anything in some places.
fn triage_state() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![
        Just("triage"),
        Just("aggregation"),
        Just("meta-review"),
        Just("fix-planning"),
        Just("complete"),
        Just("banana")
    ];
    let stage = prop_oneof![
        Just(Value::Null),
        Just(json!({ "status": "pending" })),
        Just(json!({ "status": "completed" })),
        Just(json!({ "status": "failed" })),
        any_json(),
    ];
    let entry = (
        0..6i64,
        prop_oneof![Just("pending"), Just("completed"), Just("failed")],
        any::<Option<bool>>(),
        0..3u8,
    )
        .prop_map(|(index, status, verdict, group)| {
            let result = verdict
                .map(|is| json!({ "is_true_positive": is, "group_id": format!("g{group}") }));
            json!({ "entry_index": index, "status": status, "result": result })
        });
    let sub_phase = prop_oneof![
        Just("planning"),
        Just("synthesis"),
        Just("review"),
        Just("task-writing"),
        Just("complete")
    ];
    let group = (sub_phase, 0..7u8, any::<bool>(), 0..6u8, any::<Option<bool>>()).prop_map(|(phase, plans, synthesis, reviews, task)| {
        json!({ "group_id": "g", "sub_phase": phase, "plans_written": plans, "synthesis_written": synthesis,
            "reviews_written": reviews, "task_file": task.map(|_| "t.md") })
    });
    let planning = prop_oneof![
        Just(Value::Null),
        prop::collection::btree_map("[a-c]", group, 0..3)
            .prop_map(|groups| json!({ "fix_plans_dir": "plans", "groups": groups })),
        any_json(),
    ];
    let entries = prop_oneof![
        6 => prop::collection::vec(entry, 0..6).prop_map(Value::from),
        1 => any_json(),
    ];
    (phase, entries, stage.clone(), stage, planning, any_json()).prop_map(|(phase, entries, aggregation, meta, planning, extra)| {
        json!({ "phase": phase, "entries": entries, "aggregation": aggregation, "meta_review": meta,
            "fix_planning": planning, "extra": extra })
    })
}

fn triage() -> Workflow {
    let entry = general().into_iter().find(|entry| entry.name == "triage").unwrap();
    resolve(&entry.bundle().unwrap(), &Overrides::default(), Expressions::Checked).unwrap()
}

proptest! {
    #[test]
    fn json_survives_reading_and_writing(value in any_json()) {
        let text = value.to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        for indent in [None, Some("  "), Some("\t")] {
            let written = json.to_text(indent);
            prop_assert_eq!(&Json::parse(written.as_bytes()).unwrap(), &json);
            let other: Value = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&other, &value);
        }
    }

    /// Any document, any result files: an answer, never a panic, and what we do not know stays.
    #[test]
    fn every_document_gets_an_answer(state in triage_state(), results in prop::collection::btree_map(0..6u8, "\\PC{0,30}", 0..4)) {
        let workflow = triage();
        let files: BTreeMap<String, Vec<u8>> = results
            .into_iter()
            .map(|(index, text)| (format!(".phasegate/triage/results/{index}.json"), text.into_bytes()))
            .collect();
        let run = RunFacts {
            name: "p".into(),
            document: ".phasegate/triage/p_triage.json".into(),
            ..RunFacts::default()
        };
        let mut document = Json::parse(state.to_string().as_bytes()).unwrap();
        let extra = document.get("extra").cloned();
        // Stops without any change in the world come to rest: the same answer, the same document.
        let mut before = None;
        for round in 0..8 {
            let evidence = Arc::new(GivenEvidence { files: files.clone(), ..GivenEvidence::default() });
            let step = decide(&workflow, document.clone(), &Event::stop(None), &run, evidence);
            prop_assert_eq!(step.document.get("extra"), extra.as_ref());
            match &step.answer {
                // The next piece of work, or what in the document its author must correct.
                Answer::Block { reason } => {
                    let is_known = reason.contains("sub-agent") || reason.contains("cannot be used");
                    prop_assert!(is_known, "{}", reason);
                }
                Answer::Allow { outcome, .. } => {
                    prop_assert!(matches!(outcome, Some(Outcome::Done | Outcome::Fault)));
                    if *outcome == Some(Outcome::Fault) {
                        prop_assert!(!step.changed);
                    }
                }
                Answer::Deny { .. } => prop_assert!(false, "a stop is never denied"),
            }
            if round > 3 {
                prop_assert!(!step.changed, "round {} still changes the document", round);
                prop_assert_eq!(before.as_ref(), Some(&step.document));
            }
            document = step.document.clone();
            before = Some(step.document);
        }
    }

    /// Any text as a definition: findings, never a panic.
    #[test]
    fn any_text_as_a_definition_is_refused_or_resolved(text in "\\PC{0,200}", guard in "\\PC{0,40}") {
        use phasegate_engine::definition::Bundle;
        use phasegate_engine::diagnostic::Source;
        for source in [
            text,
            format!("name = \"w\"\nabout = \"a\"\ninitial = \"p\"\n[phase.p]\nrules = [{{ on = \"stop\", when = '''{guard}''', block = '''{guard}''' }}]\n"),
        ] {
            let bundle = Bundle { definition: Source::new("w.toml", source), files: BTreeMap::new() };
            if let Err(found) = resolve(&bundle, &Overrides::default(), Expressions::Checked) {
                prop_assert!(!found.0.is_empty());
                prop_assert!(!found.render(false).is_empty());
            }
        }
    }
}
