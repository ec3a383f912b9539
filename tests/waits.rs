//! Waits that the agent can cause: they let it stop, but not again and again.

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

/// A gate that wants a file, in a repository.
fn gate() -> Scene {
    let scene = Scene::new();
    let definition = r#"
name = "w"
about = "a"
initial = "a"
[phase.a]
rules = [
  { on = "stop", when = "not exists('ok')", block = "make ok" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true
"#;
    scene.file(".phasegate/workflows/w.toml", definition).file(".gitignore", "home\n");
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok(&["w", "start"]);
    scene
}

/// A stop with something more in its payload.
fn stop(scene: &Scene, more: &Value) -> Said {
    let mut payload = scene.payload();
    for (key, value) in more.as_object().unwrap() {
        payload[key] = value.clone();
    }
    scene.hook(&payload)
}

fn task(kind: &str, id: &str) -> Value {
    json!({ "id": id, "type": kind, "status": "running" })
}

fn with_tasks(scene: &Scene, tasks: &[Value]) -> Said {
    stop(scene, &json!({ "background_tasks": tasks }))
}

#[test]
fn a_server_left_running_never_opens_the_gate() {
    let scene = gate();
    let server = [task("shell", "b1")];
    with_tasks(&scene, &server).allows_saying("waits for background work of the client: a shell");
    assert!(scene.ok(&["status"]).contains("waiting in phase a"));
    for _ in 0..3 {
        with_tasks(&scene, &server).blocks("make ok");
    }
    scene.file("ok", "");
    with_tasks(&scene, &server).allows_saying("is done");
}

#[test]
fn a_monitor_and_what_recurs_are_not_waited_for() {
    let scene = gate();
    with_tasks(&scene, &[task("monitor", "m1")]).blocks("make ok");
    let recurring = json!({ "session_crons": [{ "id": "c1", "recurring": true }] });
    stop(&scene, &recurring).blocks("make ok");
}

#[test]
fn what_comes_back_is_waited_for_once() {
    for kind in ["subagent", "teammate", "workflow", "mcp"] {
        let scene = gate();
        with_tasks(&scene, &[task(kind, "t")]).allows_saying("waits for background work");
        with_tasks(&scene, &[task(kind, "t")]).blocks("make ok");
    }
    let scene = gate();
    let wake_up = json!({ "session_crons": [{ "id": "c1", "recurring": false }] });
    stop(&scene, &wake_up).allows_saying("of the client: a wake-up");
    stop(&scene, &wake_up).blocks("make ok");
}

#[test]
fn the_rest_of_several_is_waited_for_when_one_has_come_back() {
    let scene = gate();
    let [a, b, c] = ["a", "b", "c"].map(|id| task("subagent", id));
    with_tasks(&scene, &[a.clone(), b.clone(), c.clone()]).allows_saying("a sub-agent");
    with_tasks(&scene, &[b.clone(), c.clone()]).allows_saying("a sub-agent");
    // Two waits in a row without a change are enough.
    with_tasks(&scene, std::slice::from_ref(&c)).blocks("make ok");
    scene.file("new.txt", "a change");
    with_tasks(&scene, &[task("subagent", "d")]).allows_saying("a sub-agent");
}

#[test]
fn new_work_at_each_stop_does_not_keep_the_gate_open() {
    let scene = gate();
    for id in ["1", "2"] {
        with_tasks(&scene, &[task("shell", id)]).allows_saying("waits for background work");
    }
    for id in ["3", "4"] {
        with_tasks(&scene, &[task("shell", id)]).blocks("make ok");
    }
}

#[test]
fn plan_mode_waits_and_is_counted() {
    let scene = gate();
    let planning = json!({ "permission_mode": "plan" });
    for _ in 0..2 {
        stop(&scene, &planning).allows_saying("the client is in plan mode");
    }
    assert!(scene.ok(&["status"]).contains("the client is in plan mode"));
    stop(&scene, &planning).blocks("make ok");
    let scene = gate();
    stop(&scene, &planning).allows_saying("plan mode");
    stop(&scene, &json!({})).blocks("make ok");
    // What is complete is complete in plan mode, too.
    scene.file("ok", "");
    stop(&scene, &planning).allows_saying("is done");
}

#[test]
fn a_shell_is_waited_for_ten_minutes() {
    let scene = gate();
    with_tasks(&scene, &[task("shell", "b1")]).allows_saying("a shell");
    let place = ".phasegate/runs/w/w/run.json";
    let mut ledger = scene.json(place);
    assert!(ledger["session"]["waits"]["until"].is_string(), "{ledger}");
    ledger["session"]["waits"]["until"] = json!("2026-01-01T00:00:00Z");
    scene.file(place, ledger.to_string());
    assert!(scene.ok(&["status"]).contains("waits no longer"));
}
