//! The `plan` workflow. The 80 tests that its specification names are in `specification`, by suite
//! and number.

mod commands;
mod light;
mod runs;
mod specification;
mod texts;
mod trouble;

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::scene::{Said, Scene, finish};

/// The plan's folder.
pub const DIR: &str = ".taskie/plans/web";

/// The client as a reviewer sees it called: it reads its prompt from stdin, writes the file that the
/// prompt names, and prints what the real one prints. What it does is set by the variables of the
/// specification's mock.
const MOCK: &str = r#"#!/bin/sh
prompt=$(cat)
printf '%s\n' "$*" >> "$MOCK_CLAUDE_LOG"
printf '%s\n' "$prompt" > "$MOCK_CLAUDE_LOG.prompt"
[ -n "$MOCK_CLAUDE_DELAY" ] && sleep "$MOCK_CLAUDE_DELAY"
file=$(printf '%s\n' "$prompt" | sed -n 's/^Write your review to \(.*\.md\)\.$/\1/p')
[ -z "$MOCK_CLAUDE_NO_FILE" ] && printf '# Review\n\nVERDICT: %s\n' "$MOCK_CLAUDE_VERDICT" > "$file"
printf '{"type":"result","subtype":"success","is_error":false,"duration_ms":4711,"num_turns":3,"result":"I have written the review.","session_id":"x","total_cost_usd":0.25,"usage":{},"structured_output":{"verdict":"%s"}}\n' "${MOCK_CLAUDE_VERDICT:-FAIL}"
exit "${MOCK_CLAUDE_EXIT_CODE:-0}"
"#;

pub const TASKS: &str = "| Id | Status | Description |\n|----|--------|-------------|\n| 1 | done | one |\n| 2 | pending | two |\n| 3 | pending | three |\n";

/// A project with a plan, and a client that reviews.
pub struct Plans {
    pub scene: Scene,
}

impl Plans {
    /// A plan without a state.
    pub fn new() -> Plans {
        let scene = Scene::bare();
        scene.file("bin/claude", MOCK);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scene.path("bin/claude"), mode).unwrap();
        scene.file(&format!("{DIR}/plan.md"), "# Web\n\n## Overview\n\nA page.\n");
        scene.file(&format!("{DIR}/tasks.md"), TASKS);
        scene.file(&format!("{DIR}/task-1.md"), "# One\n\n- [x] it\n");
        Plans { scene }
    }

    /// A plan with a state: the eight fields, and these in their place.
    pub fn with(state: &Value) -> Plans {
        let plans = Plans::new();
        plans.set(state);
        plans
    }

    /// Writes the state, as an edit by hand does.
    pub fn set(&self, changes: &Value) -> &Plans {
        let mut state = json!({
            "max_reviews": 8, "current_task": "1", "phase": "next-task", "phase_iteration": 0,
            "next_phase": null, "review_model": "opus", "consecutive_clean": 0, "tdd": false,
        });
        for (field, value) in changes.as_object().unwrap() {
            state[field] = value.clone();
        }
        self.scene
            .file(&format!("{DIR}/state.json"), serde_json::to_string_pretty(&state).unwrap());
        self
    }

    /// Writes a file of the plan.
    pub fn file(&self, name: &str, text: &str) -> &Plans {
        self.scene.file(&format!("{DIR}/{name}"), text);
        self
    }

    pub fn remove(&self, name: &str) -> &Plans {
        std::fs::remove_file(self.scene.path(&format!("{DIR}/{name}"))).unwrap();
        self
    }

    /// Makes the files of a folder so many hours old.
    pub fn make_old(&self, folder: &str, hours: u64) {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(hours * 3600);
        for entry in std::fs::read_dir(self.scene.path(folder)).unwrap() {
            std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.scene.exists(&format!("{DIR}/{name}"))
    }

    pub fn state(&self) -> Value {
        self.scene.json(&format!("{DIR}/state.json"))
    }

    /// The state has these values.
    #[track_caller]
    pub fn is(&self, expected: &Value) {
        let state = self.state();
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&state[field], value, "{field} in {state}");
        }
    }

    /// The environment of a hook with the client on its path.
    pub fn environment(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.scene.path("bin").display());
        let log = self.scene.path("claude.log").display().to_string();
        let own = [("PATH", path.as_str()), ("MOCK_CLAUDE_LOG", &log), ("IS_SANDBOX", "1")];
        let all = own.into_iter().chain(more.iter().copied());
        all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// Fires the hook with a payload and an environment.
    pub fn hook(&self, payload: &str, more: &[(&str, &str)]) -> Said {
        let environment = self.environment(more);
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.scene.hook_raw(payload.as_bytes(), &environment)
    }

    /// A stop as the specification knows it: a folder, and whether it follows a block.
    pub fn stop_with(&self, more: &[(&str, &str)]) -> Said {
        self.hook(&json!({ "cwd": self.scene.root(), "stop_hook_active": false }).to_string(), more)
    }

    pub fn stop(&self) -> Said {
        self.stop_with(&[])
    }

    /// A stop whose review has this verdict.
    pub fn stop_as(&self, verdict: &str) -> Said {
        self.stop_with(&[("MOCK_CLAUDE_VERDICT", verdict)])
    }

    /// A stop of the real client that follows a block.
    pub fn stop_again(&self, verdict: &str) -> Said {
        let mut payload = self.scene.payload();
        payload["stop_hook_active"] = json!(true);
        self.hook(&payload.to_string(), &[("MOCK_CLAUDE_VERDICT", verdict)])
    }

    /// The first stop of a prompt, as the real client sends it.
    pub fn first_stop(&self, verdict: &str) -> Said {
        self.hook(&self.scene.payload().to_string(), &[("MOCK_CLAUDE_VERDICT", verdict)])
    }

    /// A command of the workflow.
    pub fn run(&self, args: &[&str]) -> crate::scene::Ran {
        let mut command = self.scene.command();
        command.arg("plan").args(args).envs(self.environment(&[]));
        finish(self.scene.spawn(command, b""))
    }

    /// A command of the workflow that must succeed; what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// The arguments of each call of the client.
    pub fn calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.scene.path("claude.log")).unwrap_or_default();
        log.lines().map(str::to_string).collect()
    }

    /// The models that reviewed.
    pub fn models(&self) -> Vec<String> {
        let model = |call: &String| call.split("--model ").nth(1).unwrap().to_string();
        self.calls().iter().map(model).collect()
    }

    /// What the client was last told.
    pub fn prompt(&self) -> String {
        self.scene.read("claude.log.prompt")
    }
}

/// A state in which a review comes next.
pub fn due(review: &str) -> Value {
    json!({ "next_phase": review })
}

/// Whether a process with this text in its command line is alive.
pub fn is_alive(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(text))
}
