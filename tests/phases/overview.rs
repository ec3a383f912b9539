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
    let third = task("phases/c");
    assert!(third["action"].as_str().unwrap().starts_with("AGENTS FAILED: 1 of 1"), "{third}");

    let told = client.ok("list_agents", &json!({ "limit": 4 }));
    assert_eq!((ended(&told), &told["next_offset"]), (Some(6), &json!(4)), "{told}");
    assert_eq!(told["dollars"], 0.5);
    let told = client.ok("list_agents", &json!({ "state": "failed" }));
    let row = &told["agents"][0];
    assert_eq!((ended(&told), &row["run"]), (Some(1), &json!("phases/c")), "{told}");
    assert_eq!((&row["end"], &row["phase"]), (&json!("ended with exit code 3"), &json!(0)));
    let told = client.ok("list_agents", &json!({ "state": "working" }));
    assert_eq!((ended(&told), &told["agents"][0]["run"]), (Some(1), &json!("phases/a")));
    let told = client.ok("list_agents", &json!({ "run": "b", "role": "worker" }));
    assert_eq!(told["agents"][0]["said"], "All of it is done.", "{told}");
    client.refused_plainly("list_agents", &json!({ "state": "busy" }), "invalid_params");
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
    assert!(super::processes(phases.scene.root(), None).is_empty());
    client.refused_plainly("cancel_task", &why, "over");
    let told = client.ok("list_tasks", &json!({ "state": "ended" }));
    assert_eq!(told["tasks"][0]["run"], "phases/web", "{told}");
    assert_eq!(client.ok("list_tasks", &json!({}))["total"], 1);
    client.end();
}
