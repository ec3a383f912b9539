//! What a reviewer may do that nobody has given more: look, ask git, and write its one file.

use serde_json::json;

use crate::api::{Api, Asker, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;

#[test]
fn a_reviewer_looks_and_writes_its_one_file() {
    let Some(scene) = Scene::new() else { return };
    scene.file("code.txt", "as it was\n");
    scene.file(".taskie/plans/web/plan.md", "# Web\n\n## Overview\n\nA site.\n");
    scene.commit();
    let root = scene.root();
    let api = Api::start(move |request| match request.asker {
        Asker::Reviewer => {
            let (order, used) = request.order();
            let (_, place) = order.split_once("Write your review to ").unwrap();
            let (place, _) = place.split_once(".\n").unwrap();
            match used.len() {
                0 => Reply::tool("Read", json!({ "file_path": root.join("code.txt") })),
                1 => Reply::bash("git log --oneline"),
                2 => Reply::bash("echo shell > code.txt"),
                3 => Reply::write(root.join("code.txt"), "edited\n"),
                4 => Reply::write(root.join("new.txt"), "new\n"),
                5 => Reply::write(root.join(place), "# Review\n\nNothing.\n"),
                6 => Reply::tool("StructuredOutput", json!({ "verdict": "PASS" })),
                _ => Reply::text("Done."),
            }
        }
        _ if request.used().is_empty() => Reply::bash("phasegate plan new-plan --name web"),
        _ => Reply::text("The plan is written."),
    });
    Session::new(&scene, &api, "Plan a web site.").with_plugin().run().result();
    let asked = api.requests_of(Asker::Reviewer);
    let results = results(asked.last().unwrap());
    assert_eq!(results.len(), 6, "{results:#?}");
    // Reading, git and its own file.
    assert!(results[0].contains("as it was"), "{results:#?}");
    assert!(results[1].contains("All there is"), "{results:#?}");
    assert!(scene.exists(".taskie/plans/web/plan-review-1.md"), "{results:#?}");
    // Nothing else.
    assert_eq!(scene.read("code.txt"), "as it was\n");
    assert!(!scene.exists("new.txt"));
    scene.end();
}

/// What the tools of a conversation have answered, in their order.
fn results(request: &Request) -> Vec<String> {
    let blocks = request.messages.iter().filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].to_string()).collect()
}
