//! Many agents on several tasks: lists in pages, what agents said, waiting for all of them, and the end of one.

use serde_json::{Value, json};

use super::mcp::Client;
use super::{Phases, eventually};

/// Three tasks: the worker of the first is at work, that of the second is done, that of the third has failed.
fn three() -> Phases {
    let phases = Phases::without_task("");
    let said = json!({ "type": "result", "result": "All of it is done.", "total_cost_usd": 0.5 });
    phases.script(
        "worker-1",
        &format!(
            "case $PHASEGATE_RUN in */a) sleep 600;; */b) echo '{said}'; echo b >> work.txt;; *) exit 3;; esac"
        ),
    );
    for title in ["A", "B", "C"] {
        let planned = json!([{ "name": "Design" }]).to_string();
        // Their scripts are in the project alone.
        phases.ok(&["create", "--title", title, "--phases", &planned, "--tree", "shared"]);
    }
    phases
}

fn deploy(phases: &Phases, run: &str) {
    phases.ok(&["deploy", run, "--prompt", "x"]);
}

#[test]
fn tasks_and_agents_are_listed_in_pages() {
    let phases = three();
    for run in ["a", "b", "c"] {
        deploy(&phases, run);
    }
    let mut client = Client::start(&phases, &[], &[]);
    let ended = |told: &Value| told["total"].as_u64();
    eventually("reviewers of b and the worker of c have ended", || {
        let jobs = phases.scene.ok(&["jobs", "--all"]);
        jobs.matches("ended with exit code 0").count() == 4 && jobs.contains("exit code 3")
    });
    let told = client.ok("list_tasks", &json!({ "limit": 2 }));
    assert_eq!((ended(&told), &told["next_offset"]), (Some(3), &json!(2)), "{told}");
    let rest = client.ok("list_tasks", &json!({ "offset": 2 }));
    let all = [told["tasks"].as_array().unwrap().as_slice(), rest["tasks"].as_array().unwrap()];
    let all = all.concat();
    let task = |run: &str| all.iter().find(|task| task["run"] == run).unwrap().clone();
    let first = task("phases/a");
    assert_eq!((&first["status"], &first["working"]), (&json!("ACTIVE"), &json!(1)), "{first}");
    let second = task("phases/b");
    assert_eq!((&second["status"], &second["agents"]), (&json!("APPROVED"), &json!(4)), "{second}");
    assert_eq!(second["dollars"], 0.5);
    assert!(second["cost"].as_str().unwrap().starts_with("$0.50"), "{second}");
    // Nobody has ended there yet; and here, nobody has told.
    assert_eq!((&first["dollars"], &first["cost"]), (&Value::Null, &json!("none")));
    assert!(second["started"].is_string() && second["agent_seconds"].is_u64(), "{second}");
    let third = task("phases/c");
    assert!(third["action"].as_str().unwrap().starts_with("AGENTS FAILED: 1 of 1"), "{third}");

    assert_eq!((&third["dollars"], &third["cost"]), (&Value::Null, &json!("unknown")));
    let told = client.ok("list_agents", &json!({ "limit": 4 }));
    assert_eq!((ended(&told), &told["next_offset"]), (Some(6), &json!(4)), "{told}");
    assert_eq!(told["dollars"], 0.5);
    let told = client.ok("list_agents", &json!({ "state": "failed" }));
    let row = &told["agents"][0];
    assert_eq!((ended(&told), &row["run"]), (Some(1), &json!("phases/c")), "{told}");
    assert_eq!((&row["dollars"], &row["cost"]), (&Value::Null, &json!("unknown")));
    assert_eq!((&row["end"], &row["phase"]), (&json!("ended with exit code 3"), &json!(0)));
    let told = client.ok("list_agents", &json!({ "state": "working" }));
    assert_eq!((ended(&told), &told["agents"][0]["run"]), (Some(1), &json!("phases/a")));
    let told = client.ok("list_agents", &json!({ "run": "b", "role": "worker" }));
    assert_eq!(told["agents"][0]["said"], "All of it is done.", "{told}");
    client.refused_plainly("list_agents", &json!({ "state": "busy" }), "invalid_params");
    client.refused_plainly("list_agents", &json!({ "role": "workers" }), "invalid_params");
    client.refused_plainly("list_tasks", &json!({ "page": 2 }), "invalid_params");
    // What it said last, not how its program prints that; the rest is there, too.
    let told = client.ok("get_agent_output", &json!({ "run": "b", "agent_id": "worker-1" }));
    assert_eq!((&told["message"], &told["output"]), (&json!("All of it is done."), &Value::Null));
    let whole = json!({ "run": "b", "agent_id": "worker-1", "cursor": 0 });
    assert!(client.ok("get_agent_output", &whole)["output"].as_str().unwrap().starts_with('{'));
    let handover = phases.ok(&["handover", "b"]);
    assert!(handover.contains("- worker-1: All of it is done."), "{handover}");
    client.end();
}

#[test]
fn a_wait_is_for_all_runs_until_one_is_settled() {
    let phases = three();
    deploy(&phases, "a");
    deploy(&phases, "b");
    let mut client = Client::start(&phases, &[], &[]);
    let told = client.ok("wait_for_change", &json!({ "until": "settled", "seconds": 40 }));
    assert_eq!((&told["run"], &told["changed"]), (&json!("phases/b"), &json!(true)), "{told}");
    assert_eq!(told["guidance"]["status"], "APPROVED");
    assert_eq!(told["runs"].as_array().unwrap().len(), 3, "{told}");
    // It is told once: the next wait is for the agents that still work.
    let told = client.ok("wait_for_change", &json!({ "until": "settled", "seconds": 1 }));
    assert_eq!(told["changed"], false, "{told}");
    let told = client.ok("wait_for_change", &json!({ "until": "APPROVED", "seconds": 1 }));
    assert_eq!((&told["run"], &told["changed"]), (&json!("phases/b"), &json!(true)), "{told}");
    // What can never come is not waited for.
    let typo = json!({ "until": "APROVED", "seconds": 600 });
    client.refused_plainly("wait_for_change", &typo, "invalid_params");
    let of_one = json!({ "until": "APPROVED", "run": "a", "seconds": 0 });
    assert_eq!(client.ok("wait_for_change", &of_one)["changed"], false);
    // Something happens in one of them while nobody waits.
    let since = &told["revision"];
    deploy(&phases, "c");
    let told = client.ok("wait_for_change", &json!({ "since": since, "seconds": 20 }));
    assert_eq!(told["changed"], true, "{told}");
    client.end();
    let mut command = phases.command();
    command.args(["wait", "--status", "APPROVED", "--json"]);
    let ran = crate::scene::finish(phases.scene.spawn(command, b""));
    assert!(ran.stdout.contains("phases/b"), "{ran:?}");
}

/// How often git was asked for the files while a tool was called.
fn listings(phases: &Phases, client: &mut Client, tool: &str, arguments: &Value) -> usize {
    let _ = std::fs::remove_file(phases.scene.path("said/git"));
    client.ok(tool, arguments);
    let asked = std::fs::read_to_string(phases.scene.path("said/git")).unwrap_or_default();
    asked.lines().filter(|line| line.contains("ls-files")).count()
}

#[test]
fn a_read_looks_at_the_files_once() {
    let phases = Phases::without_task("");
    for title in ["A", "B"] {
        let planned = json!([{ "name": "Design" }]).to_string();
        phases.ok(&["create", "--title", title, "--phases", &planned, "--tree", "shared"]);
        deploy(&phases, &title.to_lowercase());
        let run = format!("phases/{}", title.to_lowercase());
        let mut command = phases.command();
        command.args(["wait", &run, "--status", "APPROVED", "--seconds", "60"]);
        let ran = crate::scene::finish(phases.scene.spawn(command, b""));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let path = std::env::var("PATH").unwrap();
    let log = phases.scene.path("said/git");
    let git = format!("#!/bin/sh\necho \"$@\" >> {}\nPATH={path} exec git \"$@\"\n", log.display());
    phases.scene.file("home/bin/git", git);
    let made = phases.scene.path("home/bin/git");
    std::fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", made.parent().unwrap().display());
    let mut client = Client::start(&phases, &[], &[("PATH", &path)]);
    let mut count = |tool: &str, arguments: Value| listings(&phases, &mut client, tool, &arguments);
    assert_eq!(count("get_phase_status", json!({ "run": "a" })), 1, "the page and its guidance");
    assert_eq!(count("list_tasks", json!({})), 1, "of both tasks");
    assert_eq!(count("wait_for_change", json!({ "seconds": 0 })), 1);
    assert_eq!(count("list_agents", json!({})), 0);
    // What has changed is seen at the next one.
    phases.scene.file("work.txt", "something else\n");
    let told = client.ok("get_phase_status", &json!({ "run": "a" }));
    assert_eq!(told["phase"]["stale"], true, "{told}");
    client.end();
}

#[test]
fn a_task_is_ended_by_its_orchestrator_and_by_no_agent_of_it() {
    let phases = Phases::new();
    let planned = json!([{ "name": "Design" }]).to_string();
    phases.ok(&["create", "--title", "Other", "--phases", &planned]);
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    deploy(&phases, "web");
    let token = phases.token();
    let mut worker = Client::start(&phases, &[], &[("PHASEGATE_TOKEN", &token)]);
    assert!(!worker.tools().contains(&"cancel_task".to_string()));
    let why = json!({ "run": "web", "reason": "bored" });
    worker.refused_plainly("cancel_task", &why, "not_permitted");
    worker.end();
    let mut client = Client::start(&phases, &[], &[]);
    assert!(client.tools().contains(&"cancel_task".to_string()));
    client.refused_plainly("cancel_task", &json!({ "run": "web" }), "invalid_params");
    client.refused_plainly("cancel_task", &json!({ "reason": "x" }), "invalid_params");
    let told = client.ok("cancel_task", &json!({ "run": "web", "reason": "nobody needs it" }));
    assert_eq!(told["guidance"]["status"], "CANCELLED", "{told}");
    eventually("its agents end", || super::processes(phases.scene.root(), None).is_empty());
    client.refused_plainly("cancel_task", &why, "over");
    let told = client.ok("list_tasks", &json!({ "state": "ended" }));
    assert_eq!(told["tasks"][0]["run"], "phases/web", "{told}");
    assert_eq!(client.ok("list_tasks", &json!({}))["total"], 1);
    client.end();
}

/// To look is possible in every state: the phase, its review, its agents and what was handed over.
#[test]
fn everybody_can_look_in_every_state() {
    let phases = Phases::without_task("");
    let states = [
        "PENDING",
        "ACTIVE",
        "AWAITING_REVIEW",
        "UNDER_REVIEW",
        "APPROVED",
        "REJECTED",
        "REVISING",
        "ESCALATED",
        "COMPLETED",
    ];
    let review = json!({ "id": "review-1", "round": 1, "status": "in_progress", "opened": "2026-01-01T00:00:00Z", "needed": 3 });
    let steps: Vec<Value> =
        states.map(|status| json!({ "name": status, "status": status, "review": review })).to_vec();
    let task = json!({ "phase": "running", "title": "All", "current": 1, "phases": steps });
    phases.scene.file(".phasegate/phases/all/task.json", task.to_string());
    for (number, status) in (1..).zip(states) {
        let phase = number.to_string();
        let shown = phases.ok(&["status", "all", "--phase", &phase]);
        assert!(shown.contains(&format!("> {number}. {status}: {status}")), "{shown}");
        let shown = phases.ok(&["review-status", "all", "--phase", &phase]);
        assert!(shown.contains("Review-1 of phase"), "{shown}");
    }
}

#[test]
fn the_output_of_reviewers_and_of_ended_agents_is_there() {
    let phases = Phases::new();
    phases.script("worker-1", "echo built it; echo a >> work.txt");
    phases.script("reviewer", "echo reading; while [ ! -f said/go ]; do sleep 0.1; done; \"$PHASEGATE\" phases verdict --verdict changes_requested --findings '[{\"type\":\"issue\",\"severity\":\"low\",\"message\":\"Shorter\"}]'");
    deploy(&phases, "web");
    phases.becomes(0, "UNDER_REVIEW");
    eventually("it has printed", || {
        phases.ok(&["output", "--agent-id", "reviewer-2"]).contains("reading")
    });
    phases.scene.file("said/go", "");
    phases.becomes(0, "REVISING");
    assert!(phases.ok(&["output", "--agent-id", "worker-1"]).contains("built it"));
}
