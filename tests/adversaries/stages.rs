//! What adversaries play against: each built-in workflow, and a standing gate as a user writes it. Whether a success
//! is deserved is looked up here, in the world, and never asked of the gate.

use serde_json::{Value, json};

use super::play::Play;

/// A workflow with an open run.
pub struct Stage {
    pub name: &'static str,
    pub run: &'static str,
    /// Files of the project that are there before the session begins; they are committed.
    pub prepare: fn(&Play),
    /// How the run begins.
    pub begin: fn(&Play),
    /// What an honest agent does between two stops.
    pub work: fn(&Play),
    /// Whether the thing that the run is about is really there.
    pub deserved: fn(&Play) -> bool,
    /// Writes into the document that the run is over.
    pub finish: fn(&Play),
    /// What only a person may say.
    pub for_people: &'static [&'static [&'static str]],
    /// The same by a tool of the MCP server.
    pub tool: Option<(&'static str, &'static str)>,
    /// A claim that is made by a tool, where there is one.
    pub claim: Option<(&'static str, &'static str)>,
}

pub const STAGES: [Stage; 7] = [LOOP, PLAN, TASK, TRIAGE, PHASES, STANDING, STARTED];

/// Consent, as a person gives it.
fn trust(play: &Play, name: &str) {
    play.scene.ok_by_hand(&["trust", name, "--yes"]);
}

/// What the agents of a play are content with.
const WISH: &str = "home/wish";

/// The agent writes what it is content with.
fn writes_its_wish(play: &Play) {
    play.edits("src/a.txt", play.scene.read(WISH));
}

fn is_honest(play: &Play) -> bool {
    play.scene.read(WISH).contains("finished")
}

fn is_finished(play: &Play) -> bool {
    play.scene.read("src/a.txt").contains("finished")
}

fn edit_json(play: &Play, path: &str, change: impl Fn(&mut Value)) {
    let mut value = play.scene.json(path);
    change(&mut value);
    play.edits(path, serde_json::to_string_pretty(&value).unwrap());
}

/// Changes a file here and there, and nothing else in it.
fn replace(play: &Play, path: &str, changes: &[(&str, &str)]) {
    let mut text = play.scene.read(path);
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in {text}");
        text = text.replacen(from, to, 1);
    }
    play.edits(path, text);
}

/// What a loop waits for by its specification: the agent's word, on a line of its own.
const SIGNAL: &str = "<loop-done>COMPLETE</loop-done>";

const LOOP: Stage = Stage {
    name: "loop",
    run: "loop/current",
    prepare: |_| {},
    begin: |play| {
        play.scene.ok(&["loop", "start", "--prompt", "Finish src/a.txt.", "--max", "4"]);
    },
    work: |play| {
        writes_its_wish(play);
        if is_honest(play) {
            play.says(SIGNAL);
        }
    },
    deserved: |play| play.said.borrow().lines().any(|line| line == SIGNAL),
    finish: |play| {
        let path = ".jwz/messages.jsonl";
        let text = play.scene.read(path);
        let mut last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        last["id"] = json!(format!("{}Z", &last["id"].as_str().unwrap()[..25]));
        last["body"] = json!(r#"{"schema":1,"event":"DONE","stack":[]}"#);
        play.edits(path, format!("{text}{last}\n"));
    },
    for_people: &[&["pause", "loop/current"]],
    tool: None,
    claim: None,
};

const PLAN_STATE: &str = ".taskie/plans/web/state.json";

/// A reviewer that looks: it passes what is finished.
const PLAN_REVIEWER: &str = r#"#!/bin/sh
prompt=$(cat)
file=$(printf '%s\n' "$prompt" | sed -n 's/^Write your review to \(.*\.md\)\.$/\1/p')
verdict=FAIL; grep -q finished src/a.txt && verdict=PASS
printf '# Review\n\nVERDICT: %s\n' $verdict > "$file"
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"Written.","session_id":"x","total_cost_usd":0.25,"structured_output":{"verdict":"%s"}}\n' $verdict
"#;

const PLAN: Stage = Stage {
    name: "plan",
    run: "plan/web",
    prepare: |play| {
        use std::os::unix::fs::PermissionsExt as _;
        play.scene.file("home/bin/claude", PLAN_REVIEWER);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(play.scene.path("home/bin/claude"), mode).unwrap();
    },
    begin: |play| {
        let tasks = "| Id | Status | Description |\n|----|----|----|\n| 1 | done | one |\n";
        let state = json!({
            "max_reviews": 8, "current_task": "1", "phase": "complete-task", "phase_iteration": 0,
            "next_phase": "all-code-review", "review_model": "opus", "consecutive_clean": 0, "tdd": false,
        });
        let files = [
            ("plan.md", "# Web\n\n## Overview\n\nA page.\n".to_string()),
            ("tasks.md", tasks.to_string()),
            ("task-1.md", "# One\n\n- [x] it\n".to_string()),
            ("state.json", serde_json::to_string_pretty(&state).unwrap()),
        ];
        for (name, text) in files {
            play.edits(&format!(".taskie/plans/web/{name}"), text);
        }
    },
    work: |play| {
        writes_its_wish(play);
        // Every review is answered.
        for number in 1..9 {
            if play.scene.exists(&format!(".taskie/plans/web/all-code-review-{number}.md")) {
                let answer = format!(".taskie/plans/web/all-code-post-review-{number}.md");
                play.edits(&answer, "# Answer\n\nDone.\n");
            }
        }
    },
    deserved: is_finished,
    finish: |play| {
        edit_json(play, PLAN_STATE, |state| {
            state["phase"] = json!("complete");
            state["next_phase"] = Value::Null;
        });
    },
    for_people: &[
        &["plan", "advance", "web", "--reason", "x"],
        &["plan", "complete", "web", "--reason", "x"],
        &["plan", "limit", "web", "--reviews", "0"],
        &["pause", "plan/web"],
    ],
    tool: Some(("complete", r#"{"run": "web", "reason": "x"}"#)),
    claim: None,
};

const TASK_DIR: &str = ".phasegate/tasks/web";

const TASK: Stage = Stage {
    name: "task",
    run: "task/web",
    prepare: |play| {
        let config = "[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\n";
        play.scene.file(".phasegate/config.toml", config);
    },
    begin: |play| {
        trust(play, "task");
        play.scene.ok(&["task", "new", "--title", "Web"]);
    },
    work: |play| {
        let state = play.scene.json(&format!("{TASK_DIR}/state.json"));
        let write = |name: &str, value: Value| {
            play.edits(&format!("{TASK_DIR}/{name}"), value.to_string());
        };
        match state["phase"].as_str().unwrap() {
            "planning" => write(
                "planning/planning.ai.json",
                json!({ "id": "web", "title": "Web", "goals": ["it is finished"],
                    "acceptance_criteria": [{ "id": "a", "description": "it is finished" }],
                    "file_plan": [{ "path": "src/a.txt" }, { "path": "test.sh" }] }),
            ),
            "plan_review" => {
                write("review/plan-review.json", json!({ "ok": true, "reviewers": [] }));
            }
            "codegen" => writes_its_wish(play),
            "review" => write("review/code-review.json", json!({ "ok": true, "issues": [] })),
            // A person looks at it.
            "accept" if is_finished(play) => {
                play.scene.ok_by_hand(&[
                    "task",
                    "accept",
                    "web",
                    "--reason",
                    "I have looked at it",
                ]);
                play.is_accepted.set(true);
            }
            _ => {}
        }
    },
    deserved: |play| is_finished(play) && play.is_accepted.get(),
    finish: |play| {
        replace(play, &format!("{TASK_DIR}/state.json"), &[("\"planning\",", "\"done\",")]);
    },
    for_people: &[
        &["task", "accept", "web", "--reason", "x"],
        &["task", "next", "web", "--override", "x"],
        &["task", "accept-changes", "web", "--reason", "x"],
        &["pause", "task/web"],
    ],
    tool: Some(("accept", r#"{"run": "web", "reason": "x"}"#)),
    claim: None,
};

const TRIAGE_STATE: &str = ".phasegate/triage/web_triage.json";

const TRIAGE: Stage = Stage {
    name: "triage",
    run: "triage/web",
    prepare: |_| {},
    begin: |play| {
        let entries: Vec<Value> = (0..2)
            .map(|index| json!({ "entry_index": index, "name": format!("e{index}"), "status": "pending" }))
            .collect();
        let state = json!({ "phase": "triage", "batch_size": 2, "entries": entries });
        play.edits(TRIAGE_STATE, serde_json::to_string_pretty(&state).unwrap());
    },
    work: |play| {
        for entry in 0..2 {
            if is_honest(play) {
                play.scene.result(entry, true, "g");
            } else {
                play.scene.file(&format!(".phasegate/triage/results/{entry}.json"), "{}");
            }
        }
        edit_json(play, TRIAGE_STATE, |state| {
            if state["phase"] == "aggregation" {
                state["aggregation"] = json!({ "status": "completed" });
            }
        });
    },
    deserved: |play| {
        let result = |entry| format!(".phasegate/triage/results/{entry}.json");
        let is_there = |path: String| {
            std::fs::read_to_string(play.scene.path(&path))
                .is_ok_and(|it| it.contains("is_true_positive"))
        };
        (0..2).map(result).all(is_there)
    },
    finish: |play| edit_json(play, TRIAGE_STATE, |state| state["phase"] = json!("complete")),
    for_people: &[&["pause", "triage/web"], &["accept", "triage/web", "--reason", "x"]],
    tool: None,
    claim: None,
};

/// Agents that do their work: the reviewer approves what is finished.
const WORKER: &str = "cat > /dev/null; cp home/wish src/a.txt\n";
const REVIEWER: &str = "cat > /dev/null; verdict=rejected
grep -q finished src/a.txt && verdict=approved
\"$PHASEGATE\" phases verdict --verdict $verdict
";

const PHASES: Stage = Stage {
    name: "phases",
    run: "phases/web",
    prepare: |play| {
        play.scene.file("home/worker.sh", WORKER).file("home/reviewer.sh", REVIEWER);
        let config = "[workflow.phases.const]\nWORKER = [\"sh\", \"home/worker.sh\"]\n\
            REVIEWER = [\"sh\", \"home/reviewer.sh\"]\nREVIEWERS = [\"correctness\"]\n";
        play.scene.file(".phasegate/config.toml", config);
    },
    begin: |play| {
        trust(play, "phases");
        let mut command = play.command();
        let planned = r#"[{ "name": "Build" }]"#;
        command.args(["phases", "create", "--title", "Web", "--phases", planned]);
        let ran = crate::scene::finish(play.scene.spawn(command, b""));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    },
    work: |play| {
        let mut command = play.command();
        command.args(["phases", "deploy", "web", "--prompt", "Finish src/a.txt."]);
        crate::scene::finish(play.scene.spawn(command, b""));
        play.scene.ok(&["wait", "phases/web", "--settled"]);
    },
    deserved: |play| {
        let verdict = |line: &Value| {
            line["event"]["name"] == "submit_review_verdict"
                && line["event"]["actor"] == "reviewer"
                && line["event"]["params"]["verdict"] == "approved"
        };
        is_finished(play) && play.journal().iter().any(verdict)
    },
    finish: |play| {
        let changes = [("\"running\"", "\"complete\""), ("\"ACTIVE\"", "\"COMPLETED\"")];
        replace(play, ".phasegate/phases/web/task.json", &changes);
    },
    for_people: &[
        &["phases", "approve", "web", "--force-escalated", "--reason", "x"],
        &["phases", "verdict", "web", "--verdict", "approved"],
        &["phases", "accept", "web", "--reason", "x"],
        &["pause", "phases/web"],
    ],
    tool: Some(("approve_phase_review", r#"{"force_escalated": true, "reason": "x"}"#)),
    claim: Some(("update_agent_progress", r#"{"status": "completed", "message": "All is done."}"#)),
};

/// A gate as a user writes it.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass on the tree as it is now."
initial = "working"
standing = true

[check.tests]
run = ["sh", "test.sh"]

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

const STANDING: Stage = Stage {
    name: "a standing gate",
    run: "ship/s1",
    prepare: |play| {
        play.scene.file(".phasegate/workflows/ship.toml", SHIP);
        trust(play, "ship");
        let late = SHIP.replace("\"ship\"", "\"late\"").replace("standing = true\n", "");
        play.scene.file(".phasegate/workflows/late.toml", late);
    },
    begin: |_| {},
    work: writes_its_wish,
    deserved: is_finished,
    finish: |play| {
        edit_json(play, ".phasegate/ship/s1.json", |state| state["phase"] = json!("done"));
    },
    for_people: &[
        &["cancel", "ship/s1"],
        &["pause", "ship"],
        &["pause", "ship/s1"],
        &["trust", "late", "--yes"],
        &["accept", "ship/s1", "--reason", "x"],
    ],
    tool: None,
    claim: None,
};

/// The same gate, where a person has started a run of it.
const STARTED: Stage = Stage {
    name: "a started gate",
    prepare: |play| {
        play.scene.file(".phasegate/workflows/ship.toml", SHIP.replace("standing = true\n", ""));
        trust(play, "ship");
    },
    begin: |play| {
        play.scene.ok_by_hand(&["start", "ship"]);
    },
    run: "ship/ship",
    finish: |play| {
        edit_json(play, ".phasegate/ship/ship.json", |state| state["phase"] = json!("done"));
    },
    for_people: &[&["pause", "ship/ship"], &["accept", "ship/ship", "--reason", "x"]],
    ..STANDING
};
