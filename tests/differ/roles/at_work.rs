//! Projects as 0.1.0 leaves them with something at work, and after that was killed.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Role, spawn};
use crate::dice::Dice;
use crate::stage::{Stage, afterwards};
use crate::trace::{Op, Trace};

/// The traces that this makes.
pub const AT_WORK: [&str; 8] = [
    "task/check-open",
    "task/check-killed",
    "task/worker-open",
    "task/worker-killed",
    "plan/review-open",
    "plan/review-killed",
    "phases/agent-open",
    "phases/agent-killed",
];

/// What is at work, what must have happened before, and what starts it.
struct Scene {
    name: &'static str,
    waits: &'static str,
    before: Vec<Op>,
    start: &'static [&'static str],
}

fn scenes(role: &Role) -> Vec<Scene> {
    let dir = ".phasegate/tasks/greet";
    let task = |phase: &str| {
        let mut ops = super::task::begin();
        let plan = json!({ "title": "t", "goals": ["g"], "acceptance_criteria": [], "file_plan": [{ "path": "greet.sh" }] });
        let review = json!({ "ok": true, "issues": [], "reviewers": [] });
        let patch = "diff --git a/greet.sh b/greet.sh\n--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Hello\n+echo Hello, you\n";
        let files = [
            (format!("{dir}/planning/planning.ai.json"), plan.to_string()),
            (format!("{dir}/review/plan-review.json"), review.to_string()),
            ("greet.sh".into(), "echo Hello, you\n".into()),
            (format!("{dir}/code/diff.patch"), patch.into()),
            (format!("{dir}/code/files/greet.sh"), "echo Hello, you\n".into()),
            (format!("{dir}/review/code-review.json"), review.to_string()),
        ];
        if phase == "test" {
            for (index, (path, text)) in files.into_iter().enumerate() {
                ops.push(super::write(path, text));
                if [0, 1, 4, 5].contains(&index) {
                    ops.push(super::agent(&["task", "next"]));
                }
            }
        }
        ops
    };
    match role {
        Role::Task => vec![
            Scene {
                name: "check",
                waits: "go/check",
                before: task("test"),
                start: &["hook", "stop"],
            },
            Scene {
                name: "worker",
                waits: "go/work",
                before: task("planning"),
                start: &["task", "plan"],
            },
        ],
        Role::Plan => {
            let before = super::plan::begin();
            vec![Scene { name: "review", waits: "go/review", before, start: &["hook", "stop"] }]
        }
        Role::Phases => {
            let mut before = super::phases::begin();
            before.push(super::agent(&["phases", "deploy", "--prompt", "Do it."]));
            vec![Scene { name: "agent", waits: "", before, start: &[] }]
        }
        _ => Vec::new(),
    }
}

/// Makes the traces of a workflow that has something at work.
pub fn at_work(role: &Role, binary: &Path, mut keep: impl FnMut(&str, &Trace)) {
    for scene in scenes(role) {
        let Scene { name, waits, before, start } = scene;
        // With workers, where the dice decide.
        let opening = (0..).map(|seed| role.opening(&mut Dice::new(seed)));
        let mut opening = opening.filter(|it| {
            let config = it.files.iter().find(|(path, _)| path.ends_with("config.toml"));
            config.is_some_and(|(_, text)| text.contains("PLANNER") == (name == "worker"))
        });
        let mut stage = Stage::new(binary, &opening.next().unwrap());
        for op in &before {
            stage.play(op);
        }
        let mut child = None;
        if !start.is_empty() {
            stage.play(&super::write(waits, ""));
            let mut started = spawn(binary, &stage, start);
            let payload = json!({ "session_id": "s1", "cwd": stage.root(), "hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "Done." });
            let _ = started.stdin.take().unwrap().write_all(payload.to_string().as_bytes());
            let since = Instant::now();
            while !stage.path("begun").exists() {
                assert!(since.elapsed() < Duration::from_secs(20), "{name} does not begin");
                std::thread::sleep(Duration::from_millis(20));
            }
            child = Some(started);
        }
        let open = stage.left();
        match &mut child {
            Some(child) => {
                child.kill().unwrap();
                child.wait().unwrap();
                std::thread::sleep(Duration::from_millis(500));
            }
            None => stage.kill_agents(),
        }
        let killed = stage.left();
        drop(stage);
        for (left, how) in [(open, "open"), (killed, "killed")] {
            keep(&format!("{}/{name}-{how}", role.name()), &afterwards(left, binary));
        }
    }
}
