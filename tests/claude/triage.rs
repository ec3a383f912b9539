//! The workflow `triage`, through the plugin: what the agent does, it has from the blocks alone.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{Api, Asker, LONG, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;

const STATE: &str = ".phasegate/triage/found_triage.json";

#[test]
fn a_triage_goes_through_all_its_phases() {
    let Some(scene) = Scene::new() else { return };
    let finding = |name: &str| json!({ "name": name, "file_path": "src/a.ts", "start_line": 1 });
    let findings = ["onResize", "onBlur", "unused", "SagaA", "SagaB"].map(finding);
    scene.file("found.json", json!(findings).to_string());
    scene.ok(&["triage", "start", "--from", "found.json", "--batch-size", "2"]);
    let root = scene.root();
    let api = Api::start(move |request| answer(&root, request));
    Session::new(&scene, &api, "Triage the findings.").with_plugin().run().result();

    // Three batches, the aggregation, the meta-review, and four steps for each of two groups.
    // While the sub-agent is at work, in the background as is usual, the session waits.
    let mut expected = vec!["block"; 13];
    expected.insert(1, "waiting");
    expected.push("done");
    assert_eq!(scene.answers("triage/found"), expected);
    let state = scene.json(STATE);
    assert_eq!(state["phase"], "complete");
    let entries = state["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["status"] == "completed"), "{state}");
    let groups = state["fix_planning"]["groups"].as_object().unwrap();
    assert_eq!(groups.keys().collect::<Vec<_>>(), ["dispatch", "handlers"]);
    assert!(groups.values().all(|group| group["sub_phase"] == "complete"), "{state}");
    // The stops of sub-agents are no stops of the session.
    assert_eq!(api.requests_of(Asker::SubAgent).len(), 2);
    scene.end();
}

fn answer(root: &Path, request: &Request) -> Reply {
    let (order, used) = request.order();
    let write = |reply: Reply, place: &str, text: &str| reply.and_write(root.join(place), text);
    if request.asker == Asker::SubAgent {
        // It investigates what it is told, in one step, and is not done before the session waits.
        if !used.is_empty() {
            return Reply::text("Done.");
        }
        until_waiting(root);
        return investigate(root, &order);
    }
    let sets = |member: &str, value: Value| match used.len() {
        // The client lets no file be overwritten that was not read.
        0 => Reply::tool("Read", json!({ "file_path": root.join(STATE) })),
        1 => {
            let text = std::fs::read_to_string(root.join(STATE)).unwrap();
            let mut state: Value = serde_json::from_str(&text).unwrap();
            state[member] = value;
            write(Reply::default(), STATE, &serde_json::to_string_pretty(&state).unwrap())
        }
        _ => Reply::text("It is set."),
    };
    if order.contains("**triage-aggregator**") {
        return sets("aggregation", json!({ "status": "completed", "completed_at": "now" }));
    } else if order.contains("**triage-rule-reviewer**") {
        return sets("meta_review", json!({ "status": "completed", "patterns": ["calls"] }));
    } else if !used.is_empty() {
        return Reply::text("That is done.");
    } else if order.contains("**triage-investigator**") {
        // The first batch by a sub-agent, as asked for; the others by itself.
        if order.contains("5 of 5") {
            let input = json!({ "description": "Investigate", "prompt": order, "subagent_type": "general-purpose", "run_in_background": true });
            return Reply::tool("Agent", input);
        }
        return investigate(root, &order);
    }
    let file = |end: &str| {
        let places = order.split('`').find(|word| word.ends_with(end));
        places.unwrap_or_else(|| panic!("no {end} in {order}")).to_string()
    };
    if order.contains("**fix-planner**") {
        let place = file("/plan_<n>.md");
        (1..=5).fold(Reply::default(), |reply, number| {
            write(reply, &place.replace("<n>", &number.to_string()), "# Plan\n")
        })
    } else if order.contains("**plan-synthesizer**") {
        write(Reply::default(), &file("/synthesis.md"), "# The plan\n")
    } else if order.contains("**plan-reviewer**") {
        let place = file("/review_<angle>.md");
        ["correctness", "simplicity", "risk", "testing"]
            .iter()
            .fold(Reply::default(), |reply, angle| {
                write(reply, &place.replace("<angle>", angle), "# Review\n")
            })
    } else if order.contains("**task-writer**") {
        write(Reply::default(), &file("/task.md"), "# Task\n")
    } else {
        Reply::text("I look at the findings.")
    }
}

/// Waits until the session waits.
fn until_waiting(root: &Path) {
    let journal = root.join(".phasegate/runs/triage/found/journal.jsonl");
    let began = Instant::now();
    while !std::fs::read_to_string(&journal).unwrap_or_default().contains("\"waiting\"") {
        assert!(began.elapsed() < LONG, "the session does not wait");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a result for each entry of a batch.
fn investigate(root: &Path, order: &str) -> Reply {
    let place = order.split('`').find(|word| word.ends_with("/<entry_index>.json")).unwrap();
    let entries = order.lines().filter_map(|line| line.strip_prefix("- entry ")?.split_once(": "));
    entries.fold(Reply::default(), |reply, (index, name)| {
        let group = match name {
            name if name.starts_with("on") => "handlers",
            name if name.starts_with("Saga") => "dispatch",
            _ => "unused",
        };
        let result = json!({ "is_true_positive": group == "unused", "group_id": group, "root_cause": group });
        reply.and_write(root.join(place.replace("<entry_index>", index)), result.to_string())
    })
}
