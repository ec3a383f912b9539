//! The workflow `phases`: orchestrator, workers and reviewers are clients, each with a server of
//! its own that tells them apart.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, Asker, Hold, LONG, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn clients_work_on_phases_and_other_clients_approve_them() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.root();
    let api = Api::start(move |request| answer(&root, request));
    Session::new(&scene, &api, "Build a shop.").with_plugin().with_mcp().run().result();

    // Deploy, advance, deploy again; then all is done.
    scene.assert_stops("phases/shop", 3, "done");
    let task = scene.json(".phasegate/phases/shop/task.json");
    assert_eq!(task["phase"], "complete");
    for phase in task["phases"].as_array().unwrap() {
        assert_eq!(phase["status"], "COMPLETED", "{task}");
        assert_eq!(phase["review"]["final_verdict"], "approved", "{task}");
        assert_eq!(phase["review"]["verdicts"].as_array().unwrap().len(), 3, "{task}");
    }
    // Agents are numbered as they come: three reviewers lie between the workers.
    for worker in ["worker-1", "worker-5"] {
        assert_eq!(scene.read(&format!("{worker}.txt")), "made\n");
    }
    // Nobody but a reviewer is offered a verdict.
    for request in api.requests() {
        let judges = request.first().contains("an independent reviewer");
        let told = serde_json::to_string(&(&request.messages, &request.tools)).unwrap();
        let may = told.contains("mcp__phasegate__submit_review_verdict");
        assert!(judges == may || request.asker == Asker::Side, "{request:?}");
    }
    scene.end();
}

#[test]
fn agents_have_what_they_need_outside_of_a_sandbox_too() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.root();
    let api = Api::start(move |request| answer(&root, request));
    let phases = json!([{ "name": "Design" }]).to_string();
    scene.ok(&["phases", "create", "--title", "Shop", "--phases", &phases]);
    scene.ok_asking(&api, &["phases", "deploy", "--prompt", "Do it."]);
    scene.ok_asking(&api, &["wait", "--settled", "--seconds", "90"]);
    let task = scene.json(".phasegate/phases/shop/task.json");
    assert_eq!(task["phases"][0]["status"], "APPROVED", "{task}");
    assert_eq!(task["claims"][0]["status"], "completed", "{task}");
    assert_eq!(scene.read("worker-1.txt"), "made\n");
    scene.end();
}

#[test]
fn an_orchestrator_that_was_killed_finds_what_its_agents_have_done() {
    let Some(scene) = Scene::new() else { return };
    let root = scene.root();
    let (hold, arrival, opening) = Hold::new();
    let is_first = AtomicBool::new(true);
    let api = Api::start(move |request| {
        let is_worker = request.first().contains("You are agent worker-");
        if is_worker && is_first.swap(false, Ordering::SeqCst) {
            hold.wait();
        }
        answer(&root, request)
    });
    // As the README says.
    scene.client_ok(&["mcp", "add", "phasegate", "--", "phasegate", "mcp"]);
    let killed = Session::new(&scene, &api, "Build a shop.").with_plugin().id(SESSION).start();
    arrival.recv_timeout(LONG).unwrap();
    killed.crash();
    opening.send(()).unwrap();
    // The worker ends, and the review is made, with nobody there.
    scene.assert_quiet();
    let task = scene.json(".phasegate/phases/shop/task.json");
    assert_eq!(task["phases"][0]["status"], "APPROVED", "{task}");
    Session::new(&scene, &api, "Go on.").with_plugin().resuming(SESSION).run().result();
    // One before the crash; then it is told to advance and to deploy.
    scene.assert_stops("phases/shop", 3, "done");
    assert_eq!(scene.json(".phasegate/phases/shop/task.json")["phase"], "complete");
    scene.end();
}

#[test]
fn five_tasks_are_worked_on_at_once_by_twenty_agents() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".gitignore", ".phasegate\n").commit();
    let root = scene.root();
    let api = Api::start(move |request| {
        if request.first().contains("You are agent ") {
            answer(&root, request)
        } else {
            lead_five(request)
        }
    });
    let session = Session::new(&scene, &api, "Build five shops.").with_plugin().with_mcp();
    session.within(Duration::from_mins(6)).run().result();
    for number in 1..=5 {
        let place = format!(".phasegate/phases/shop-{number}/task.json");
        let task = scene.json(&place);
        assert_eq!(task["phase"], "complete", "{task}");
        assert_eq!(task["phases"][0]["attempts"], 1, "reviewed once, and never stale: {task}");
        let review = &task["phases"][0]["review"];
        assert_eq!(review["verdicts"].as_array().unwrap().len(), 3, "{task}");
        assert_eq!(task["worktree"].is_string(), number > 1, "{task}");
        if number > 1 {
            let files = scene.git(&["ls-tree", "--name-only", &format!("phasegate/shop-{number}")]);
            assert!(files.contains("worker-1.txt"), "{files}");
        }
    }
    scene.end();
}

/// Creates five tasks, deploys an agent in each, waits until all are approved, and advances them.
fn lead_five(request: &Request) -> Reply {
    let used = request.used();
    let count = |tool: &str| {
        let name = format!("mcp__phasegate__{tool}");
        used.iter().filter(|(known, _)| *known == name).count()
    };
    let run = |done: usize| format!("shop-{}", done + 1);
    let (created, deployed) = (count("create_task"), count("deploy_headless_agent"));
    if created < 5 {
        let title = format!("Shop {}", created + 1);
        let phases = json!([{ "name": "Build" }]);
        return call(request, "create_task", json!({ "title": title, "phases": phases }));
    }
    if deployed < 5 {
        let input = json!({ "run": run(deployed), "prompt": "Build it." });
        return call(request, "deploy_headless_agent", input);
    }
    let advanced = count("advance_to_next_phase");
    let told: Value = serde_json::from_str(&request.last()).unwrap_or_default();
    let runs = told["runs"].as_array().cloned().unwrap_or_default();
    let is_approved = runs.len() == 5 && runs.iter().all(|run| run["status"] == "APPROVED");
    match advanced {
        0 if !is_approved => {
            call(request, "wait_for_change", json!({ "until": "settled", "seconds": 40 }))
        }
        0..5 => call(request, "advance_to_next_phase", json!({ "run": run(advanced) })),
        _ => Reply::text("All five are done."),
    }
}

fn answer(root: &Path, request: &Request) -> Reply {
    let first = request.first();
    let Some((_, agent)) = first.split_once("You are agent ") else { return orchestrate(request) };
    match agent.split_once(',').unwrap().0 {
        worker if worker.starts_with("worker-") => work(root, worker, request),
        _ => review(request),
    }
}

/// Calls a tool of ours, which the client may want to be looked up first.
fn call(request: &Request, tool: &str, input: Value) -> Reply {
    let name = format!("mcp__phasegate__{tool}");
    if request.offers(&name) {
        return Reply::tool(&name, input);
    }
    assert!(request.offers("ToolSearch"), "{name} is not there: {:?}", request.tools);
    Reply::tool("ToolSearch", json!({ "query": format!("select:{name}"), "max_results": 5 }))
}

fn orchestrate(request: &Request) -> Reply {
    let (order, used) = request.order();
    let last = used.iter().rev().find(|(name, _)| name != "ToolSearch");
    let last = last.map(|(name, _)| name.trim_start_matches("mcp__phasegate__"));
    let told: Value = serde_json::from_str(&request.last()).unwrap_or_default();
    match last {
        None if order.contains("DEPLOY AGENTS") => {
            let input = json!({ "prompt": "Do what the phase asks for." });
            call(request, "deploy_headless_agent", input)
        }
        None if order.contains("PROCEED") => call(request, "advance_to_next_phase", json!({})),
        None if order.ends_with("Go on.") => Reply::text("I go on."),
        None => {
            let phases = json!([{ "name": "Design" }, { "name": "Build" }]);
            call(request, "create_task", json!({ "title": "Shop", "phases": phases }))
        }
        Some("deploy_headless_agent" | "wait_for_change") => {
            if told["guidance"]["status"] == "APPROVED" {
                return Reply::text("It is approved.");
            }
            let since = &told["revision"];
            let input = if since.is_u64() { json!({ "since": since }) } else { json!({}) };
            call(request, "wait_for_change", input)
        }
        Some(_) => Reply::text("That is done."),
    }
}

fn work(root: &Path, worker: &str, request: &Request) -> Reply {
    let used = request.used();
    let used = |name: &str| used.iter().any(|(known, _)| known == name);
    if !used("Write") {
        // Where its files are, if not in the project.
        let first = request.first();
        let own = first.split_once("in which you are (").and_then(|(_, rest)| rest.split_once(','));
        let folder = own.map_or_else(|| root.to_path_buf(), |(path, _)| root.join(path));
        Reply::write(folder.join(format!("{worker}.txt")), "made\n")
    } else if !used("mcp__phasegate__update_agent_progress") {
        call(request, "update_agent_progress", json!({ "status": "completed", "progress": 100 }))
    } else {
        Reply::text("Done.")
    }
}

fn review(request: &Request) -> Reply {
    let used = request.used();
    if used.iter().any(|(name, _)| name == "mcp__phasegate__submit_review_verdict") {
        return Reply::text("Done.");
    }
    let input = json!({ "verdict": "approved", "summary": "As asked for.", "findings": [] });
    call(request, "submit_review_verdict", input)
}
