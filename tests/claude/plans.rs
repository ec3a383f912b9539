//! The workflow `plan`: its reviewers are clients of their own, started by the hook.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::api::{Api, Asker, Hold, LONG, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn a_plan_is_reviewed_by_other_clients_until_two_reviews_are_clean() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.root();
    let api = Api::start(move |request| match request.asker {
        Asker::Reviewer => review(&root, request),
        _ => answer(&root, request),
    });
    Session::new(&scene, &api, "Plan a web site.").with_plugin().run().result();

    // FAIL, PASS, and PASS again: the user's turn.
    scene.assert_stops("plan/web", 2, "waiting");
    let state = scene.json(".taskie/plans/web/state.json");
    assert_eq!(state["next_phase"], "create-tasks");
    assert_eq!(state["phase"], "plan-review");
    assert_eq!(verdicts(&scene), ["FAIL", "PASS", "PASS"]);
    for number in 1..=3 {
        assert!(scene.exists(&format!(".taskie/plans/web/plan-review-{number}.md")));
    }
    // Three sessions of their own, by one model and the other in turn.
    let reviewers = reviewers(&api);
    let models: Vec<bool> = reviewers.iter().map(|(_, model)| model.contains("opus")).collect();
    assert_eq!(models, [true, false, true], "{reviewers:?}");
    scene.end();
}

#[test]
fn a_session_that_was_killed_in_the_middle_of_a_review_goes_on_when_it_is_resumed() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.root();
    let (hold, arrival, opening) = Hold::new();
    let is_first = AtomicBool::new(true);
    let api = Api::start(move |request| match request.asker {
        Asker::Reviewer => {
            if is_first.swap(false, Ordering::SeqCst) {
                hold.wait();
            }
            review(&root, request)
        }
        _ => answer(&root, request),
    });
    let killed = Session::new(&scene, &api, "Plan a web site.").with_plugin().id(SESSION).start();
    arrival.recv_timeout(LONG).unwrap();
    killed.crash();

    // The review goes on, and is not made twice: the session that comes back waits for it.
    opening.send(()).unwrap();
    let session = Session::new(&scene, &api, "Go on.").with_plugin().resuming(SESSION);
    session.run().result();
    assert_eq!(scene.answers("plan/web"), ["block", "block", "block", "waiting"]);
    assert_eq!(verdicts(&scene), ["FAIL", "PASS", "PASS"]);
    assert_eq!(reviewers(&api).len(), 3);
    scene.end();
}

/// The verdicts that have counted.
fn verdicts(scene: &Scene) -> Vec<String> {
    let journal = scene.journal("plan/web");
    let reviews = journal.iter().filter(|line| line["event"]["name"] == "job-ended");
    reviews.map(|line| line["event"]["params"]["verdict"].as_str().unwrap().into()).collect()
}

/// The sessions of reviewers, and their models.
fn reviewers(api: &Api) -> Vec<(String, String)> {
    let requests = api.requests_of(Asker::Reviewer).into_iter();
    let mut all: Vec<(String, String)> =
        requests.map(|request| (request.session, request.model)).collect();
    all.dedup();
    all
}

/// Writes its review, then gives its verdict: the first one is not content.
fn review(root: &Path, request: &Request) -> Reply {
    let (order, used) = request.order();
    let (_, place) = order.split_once("Write your review to ").unwrap();
    let (place, _) = place.split_once(".\n").unwrap();
    match used.len() {
        0 => Reply::write(root.join(place), "# Review\n\n1. plan.md: says too little.\n"),
        1 => {
            let verdict = if place.ends_with("-1.md") { "FAIL" } else { "PASS" };
            Reply::tool("StructuredOutput", json!({ "verdict": verdict }))
        }
        _ => Reply::text("Done."),
    }
}

/// Writes a plan, and an answer to each review of it.
fn answer(root: &Path, request: &Request) -> Reply {
    let (order, used) = request.order();
    if let Some((_, rest)) = order.split_once("then create ") {
        let (place, _) = rest.split_once(" documenting").unwrap();
        return match used.len() {
            0 => Reply::write(root.join(place), "1. Says more now.\n"),
            _ => Reply::text("It is answered."),
        };
    }
    match used.len() {
        _ if order.ends_with("Go on.") => Reply::text("I go on."),
        0 => Reply::write(
            root.join(".taskie/plans/web/plan.md"),
            "# Web\n\n## Overview\n\nA site.\n",
        ),
        1 => Reply::bash("phasegate plan new-plan --name web"),
        _ => Reply::text("The plan is written."),
    }
}
