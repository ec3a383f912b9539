//! A kill between every two writes, one after another and not at random: of a stop, a start, an action,
//! a check, a review, a worker, an agent and its supervisor. Whatever the moment, the same call again
//! comes to what it would have come to, and nothing that was answered is lost.
#![cfg(debug_assertions)]

use std::process::Command;

use serde_json::{Value, json};

use crate::loops::{iterates, states, with_loop};
use crate::phases::{Phases, RUN, eventually, processes};
use crate::plans::{Plans, due};
use crate::scene::{Ran, STATE, Scene, finish};
use crate::tasks::{DIR as TASK, Tasks};

/// More places than any call reaches.
const MOST: usize = 120;

/// Kills a process at its first place, then, in a new scene, at its second, and so on, until it comes to
/// its end. Each time `check` says what must be true then; it is told whether the process was killed.
fn sweep<S>(
    word: &str,
    least: usize,
    scene: impl Fn() -> S,
    call: impl Fn(&S, &str) -> Ran,
    check: impl Fn(&S, usize, bool),
) {
    for place in 1..MOST {
        let scene = scene();
        let ran = call(&scene, &format!("{word} {place}"));
        // It dies by a signal, so it has no exit code.
        let killed = ran.code.is_none();
        assert!(
            !killed || ran.stdout.is_empty(),
            "{place}: it answered before its commit: {ran:?}"
        );
        check(&scene, place, killed);
        if !killed {
            assert!(place > least, "only {place} places were reached");
            return;
        }
    }
    panic!("{word} reaches more than {MOST} places");
}

fn fire(scene: &Scene, mut command: Command, point: &str, input: &[u8]) -> Ran {
    command.env("PHASEGATE_FAULT_POINT", point);
    finish(scene.spawn(command, input))
}

fn stop_at(scene: &Scene, point: &str) -> Ran {
    let mut command = scene.command();
    command.args(["hook", "stop", "--client", "claude"]);
    fire(scene, command, point, scene.payload().to_string().as_bytes())
}

/// No half-written file outlives the next look at its run, and every journal can be followed.
#[track_caller]
fn is_tidy(scene: &Scene, place: usize) {
    for folder in std::fs::read_dir(scene.path(".phasegate/runs")).unwrap().flatten() {
        for run in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if run.path().join("journal.jsonl").exists() {
                let workflow = folder.file_name().into_string().unwrap();
                let name = format!("{workflow}/{}", run.file_name().to_string_lossy());
                scene.run(&["release", &name]);
                let ran = scene.run(&["log", "--verify", &name]);
                assert_eq!(ran.code, Some(0), "{place}: {ran:?}");
            }
        }
    }
    for (path, _) in scene.snapshot() {
        let path = path.to_string_lossy().into_owned();
        assert!(!path.contains("phasegate-tmp"), "{place}: {path} is left");
    }
}

/// Lets the next transaction of a run come, which brings to its end what a dead process has decided.
fn settle(scene: &Scene, run: &str) {
    scene.run(&["release", run]);
}

/// How often an event about an agent took effect. A line whose process died before it answered did
/// not: a later line says so.
fn took_effect(phases: &Phases, event: &str, agent: &str) -> usize {
    let journal = phases.scene.journal(RUN);
    let died = |line: &Value| {
        let note = format!("line {} was written, but its process died", line["seq"]);
        journal.iter().any(|later| later["notes"].to_string().contains(&note))
    };
    let own = journal
        .iter()
        .filter(|line| line["event"]["name"] == event && line["event"]["agent"] == agent);
    own.filter(|line| !died(line)).count()
}

#[test]
fn a_stop_that_moves() {
    let scene = || {
        let scene = Scene::with_triage(1);
        scene.stop().blocks("1 of 1");
        scene.result(0, true, "g");
        scene
    };
    sweep("hook", 7, scene, stop_at, |scene, place, _| {
        let state = scene.json(STATE);
        let now = (&state["phase"], &state["entries"][0]["status"]);
        let is_old = now == (&json!("triage"), &json!("pending"));
        let is_new = now == (&json!("aggregation"), &json!("completed"));
        assert!(is_old || is_new, "{place}: neither old nor new: {state}");
        scene.stop().blocks("**triage-aggregator**");
        assert_eq!(scene.json(STATE)["phase"], "aggregation", "{place}");
        is_tidy(scene, place);
    });
}

#[test]
fn the_first_stop_of_a_run() {
    let scene = || Scene::with_triage(1);
    sweep("hook", 7, scene, stop_at, |scene, place, _| {
        scene.stop().blocks("1 of 1");
        is_tidy(scene, place);
    });
}

#[test]
fn an_iteration_of_a_loop_is_counted_once_for_each_block() {
    let scene = || {
        let scene = with_loop(0, 9);
        iterates(&scene.stop(), 1, 9);
        scene
    };
    sweep("hook", 5, scene, stop_at, |scene, place, killed| {
        settle(scene, "loop/current");
        let iter = |state: &Value| state["stack"][0]["iter"].as_u64().unwrap();
        let now = iter(states(scene).last().unwrap());
        // A step that was persisted and not answered has happened: it is not taken back.
        assert!(now == 2 || killed && now == 1, "{place}: {now}");
        iterates(&scene.stop(), now + 1, 9);
        is_tidy(scene, place);
    });
}

#[test]
fn a_start() {
    let scene = || {
        let scene = Scene::new();
        scene.file("f.json", r#"[{"name":"a"},{"name":"b"}]"#);
        scene
    };
    let start = |scene: &Scene, point: &str| {
        let mut command = scene.command();
        command.args(["triage", "start", "--from", "f.json", "--name", "r"]);
        fire(scene, command, point, b"")
    };
    sweep("start", 6, scene, start, |scene, place, _| {
        // Whoever repeats it has a run; the one that was begun is whole, or is not there.
        scene.ok(&["triage", "start", "--from", "f.json", "--name", "r"]);
        let status = scene.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let runs = status.as_array().or(status["runs"].as_array()).unwrap();
        assert!(!runs.is_empty(), "{place}: {status}");
        for run in runs {
            assert_eq!(run["condition"], "working", "{place}: {run}");
        }
        scene.stop().blocks("2 of 2");
        is_tidy(scene, place);
    });
}

#[test]
fn an_action_that_moves_files() {
    let scene = || {
        let tasks = Tasks::new();
        tasks.plan("one").file("planning/plan.md", "one").file("planning/plan.files.json", "[]");
        tasks
    };
    let redo = |tasks: &Tasks, point: &str| {
        let mut command = tasks.scene.command();
        command.args(["task", "redo"]).env("PHASEGATE_TRUST_ALL", "1");
        fire(&tasks.scene, command, point, b"")
    };
    sweep("redo", 8, scene, redo, |tasks, place, killed| {
        settle(&tasks.scene, "task/greet");
        let round = |tasks: &Tasks| tasks.state()["actors"]["planning"]["round"].clone();
        if round(tasks) == 1 {
            assert!(killed, "{place}");
            tasks.ok(&["redo"]);
        }
        assert_eq!(round(tasks), 2, "{place}");
        for name in ["planning.ai.json", "plan.md", "plan.files.json"] {
            let archived = tasks.scene.exists(&format!("{TASK}/archive/planning-1/{name}"));
            let left = tasks.scene.exists(&format!("{TASK}/planning/{name}"));
            assert!(archived && !left, "{place}: {name}");
        }
        is_tidy(&tasks.scene, place);
    });
}

#[test]
fn an_action_that_writes_files() {
    let next = |tasks: &Tasks, point: &str| {
        let mut command = tasks.scene.command();
        command.args(["task", "test"]).env("PHASEGATE_TRUST_ALL", "1");
        fire(&tasks.scene, command, point, b"")
    };
    let scene = || {
        let tasks = Tasks::new();
        tasks.up_to("test");
        tasks
    };
    sweep("test", 8, scene, next, |tasks, place, _| {
        settle(&tasks.scene, "task/greet");
        if tasks.phase() == "test" {
            tasks.ok(&["test"]);
        }
        tasks.is_in("accept");
        let report = tasks.scene.json(&format!("{TASK}/eval/eval-report.json"));
        assert_eq!(report["overall_pass"], true, "{place}");
        is_tidy(&tasks.scene, place);
    });
}

#[test]
fn a_stop_with_a_check() {
    let scene = || {
        let scene = Scene::new();
        scene.file(
            ".phasegate/workflows/ship.toml",
            r#"name = "ship"
about = "No stop before the tests pass."
initial = "working"
[check.tests]
run = ["sh", "test.sh"]
[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#,
        );
        scene.file("test.sh", "echo x >> .phasegate/ran; test -e fixed");
        assert_eq!(scene.by_hand(&["trust", "ship", "--yes"]).code, Some(0));
        scene.ok(&["ship", "start"]);
        scene
    };
    sweep("hook", 6, scene, stop_at, |scene, place, _| {
        scene.stop().blocks("The tests fail.");
        scene.file("fixed", "");
        let said = scene.stop();
        assert_eq!(said.json.get("decision"), None, "{place}: {said:?}");
        assert_eq!(scene.json(".phasegate/ship/ship.json")["phase"], "done", "{place}");
        is_tidy(scene, place);
    });
}

#[test]
fn a_stop_with_a_review() {
    let stop = |plans: &Plans, point: &str| {
        let mut command = plans.scene.command();
        command.args(["hook", "stop", "--client", "claude"]);
        command.envs(plans.environment(&[("MOCK_CLAUDE_VERDICT", "FAIL")]));
        fire(&plans.scene, command, point, plans.scene.payload().to_string().as_bytes())
    };
    let scene = || Plans::with(&due("plan-review"));
    sweep("hook", 12, scene, stop, |plans, place, killed| {
        // A review that was begun goes on without its hook, and is the next stop's.
        let said = plans.first_stop("FAIL");
        said.blocks("plan-review-");
        let state = plans.state();
        assert_eq!(state["next_phase"], "post-plan-review", "{place}: {state}");
        assert_eq!(state["phase_iteration"], 1, "{place}: a lost review is not counted: {state}");
        let calls = plans.calls().len();
        assert_eq!(calls, 1, "{place}, {killed}");
        is_tidy(&plans.scene, place);
    });
}

#[test]
fn an_action_that_starts_a_worker() {
    let plan = |tasks: &Tasks, point: &str| {
        let mut command = tasks.scene.command();
        command.args(["task", "plan"]).env("PHASEGATE_TRUST_ALL", "1");
        fire(&tasks.scene, command, point, b"")
    };
    let scene = || {
        let tasks = Tasks::with("[workflow.task.const]\nPLANNER = [\"sh\", \"planner.sh\"]\n");
        tasks.plan("by the planner");
        let text = tasks.scene.read(&format!("{TASK}/planning/planning.ai.json"));
        std::fs::remove_file(tasks.scene.path(&format!("{TASK}/planning/planning.ai.json")))
            .unwrap();
        let script = format!(
            "echo x >> .phasegate/planned; cat > {TASK}/planning/planning.ai.json <<'E'\n{text}\nE\n"
        );
        tasks.scene.file("planner.sh", script);
        tasks
    };
    sweep("plan", 8, scene, plan, |tasks, place, _| {
        let finished = |tasks: &Tasks| {
            // The last line may be torn.
            let journal = tasks.scene.read(".phasegate/runs/task/greet/journal.jsonl");
            journal.lines().any(|line| {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                line["event"]["name"] == "job-ended"
            })
        };
        // One that was recorded goes on by itself, or is started by the next action; it is never
        // started twice.
        eventually(&format!("{place}: the worker has ended"), || {
            finished(tasks) || {
                // What is refused settles the run all the same.
                let jobs = tasks.scene.ok(&["jobs", "--all"]);
                let next = if jobs.contains("planning-1") { "test" } else { "plan" };
                let mut command = tasks.scene.command();
                command.args(["task", next]).env("PHASEGATE_TRUST_ALL", "1");
                finish(tasks.scene.spawn(command, b""));
                finished(tasks)
            }
        });
        tasks.ok(&["next"]);
        tasks.is_in("plan_review");
        let planned = tasks.scene.read(".phasegate/planned").lines().count();
        assert_eq!(planned, 1, "{place}");
        is_tidy(&tasks.scene, place);
    });
}

#[test]
fn an_action_that_starts_an_agent() {
    let deploy = |phases: &Phases, point: &str| {
        let mut command = phases.command();
        command.args(["phases", "deploy", "--prompt", "x"]);
        fire(&phases.scene, command, point, b"")
    };
    sweep("deploy", 8, Phases::new, deploy, |phases, place, killed| {
        // Where nothing was recorded, it is asked for again; else the next to act starts it.
        phases.settle();
        if killed && phases.agents().is_empty() {
            phases.ok(&["deploy", "--prompt", "x"]);
        }
        eventually(&format!("{place}: it is approved"), || {
            phases.settle();
            phases.status(0) == "APPROVED"
        });
        assert_eq!(took_effect(phases, "job-started", "worker-1"), 1, "{place}");
        assert_eq!(took_effect(phases, "job-ended", "worker-1"), 1, "{place}");
        eventually("nobody is left", || processes(phases.scene.root(), None).is_empty());
        let ran = phases.scene.run(&["log", "--verify", RUN]);
        assert_eq!(ran.code, Some(0), "{place}: {ran:?}");
    });
}

#[test]
fn the_supervisor_of_an_agent() {
    // It writes the start and the end, and puts both to the rules.
    let mut crashed = 0;
    for place in 1..MOST {
        let phases = Phases::new();
        phases.script("worker-1", "sleep 0.2");
        let mut command = phases.command();
        command.args(["phases", "deploy", "--prompt", "x"]);
        // Only the first worker's: those of the reviewers have other words.
        command.env("PHASEGATE_FAULT_POINT", format!("worker-1 {place}"));
        let ran = finish(phases.scene.spawn(command, b""));
        assert_eq!(ran.code, Some(0), "{place}: {ran:?}");
        eventually("its end is known", || phases.agent("worker-1")["ended"] == true);
        phases.settle();
        let status = phases.agent("worker-1")["status"].clone();
        let heard = took_effect(&phases, "job-ended", "worker-1");
        assert_eq!(heard, 1, "{place}: {status}");
        if status == "crashed" {
            crashed += 1;
            assert_eq!(phases.status(0), "ACTIVE", "{place}: failed is not done");
            phases.ok(&["deploy", "--prompt", "again"]);
        }
        eventually(&format!("{place}: it is approved"), || {
            phases.settle();
            phases.status(0) == "APPROVED"
        });
        let ran = phases.scene.run(&["log", "--verify", RUN]);
        assert_eq!(ran.code, Some(0), "{place}: {ran:?}");
        if json!("exited") == status && place > crashed + 12 {
            assert!(crashed >= 2, "only {crashed} places were reached");
            return;
        }
    }
    panic!("the supervisor reaches more than {MOST} places");
}
