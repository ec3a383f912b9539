//! A task from its plan to its acceptance, by hand or by workers.

use std::fmt::Write as _;

use serde_json::json;

use super::{agent, noise, person, set, stop, write};
use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace};

pub const PHASES: [&str; 8] =
    ["planning", "plan_review", "codegen", "review", "test", "accept", "revert", "done"];

const DIR: &str = ".phasegate/tasks/greet";
const STATE: &str = ".phasegate/tasks/greet/state.json";

/// What a worker does is in a file of its name; without one it only talks.
const WORKER: &str = "cat > /dev/null; echo \"$1 is at work\"
[ -e go/work ] && { : > begun; until [ -e go/done ]; do sleep 0.02; done; }
[ -e \"does-$1\" ] && . \"./does-$1\"
";

pub fn opening(dice: &mut Dice) -> Trace {
    let ignored = "home/\n.phasegate/\ngo/\nbegun\ndoes-*\n";
    let tests = "[ -e go/check ] && { : > begun; until [ -e go/done ]; do sleep 0.02; done; }
sh greet.sh | grep -q Hello || { echo greet.sh is wrong; exit 1; }\n";
    let committed = [
        ("greet.sh", "echo Hello\n"),
        ("other.sh", "echo other\n"),
        ("test.sh", tests),
        ("worker.sh", WORKER),
        (".gitignore", ignored),
    ];
    let mut config = "[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\n".to_string();
    if dice.percent(40) {
        for worker in ["PLANNER", "PLAN_REVIEWER", "CODER", "CODE_REVIEWER"] {
            writeln!(config, "{worker} = [\"sh\", \"worker.sh\", \"{worker}\"]").unwrap();
        }
    }
    let committed = committed.map(|(path, text)| (path.to_string(), text.to_string()));
    let files = [(".phasegate/config.toml".to_string(), config)];
    Trace { committed: committed.into(), files: files.into(), ..Trace::default() }
}

pub fn begin() -> Vec<Op> {
    vec![agent(&["task", "new", "--title", "Greet"])]
}

fn plan(dice: &mut Dice) -> Op {
    let criteria = if dice.percent(80) {
        json!([{ "id": "a", "description": "it greets" }])
    } else {
        json!([])
    };
    let plan = json!({
        "title": dice.one(&["one", "two"]), "goals": ["greet"], "acceptance_criteria": criteria,
        "file_plan": [{ "path": "greet.sh", "intent": "modify" }],
    });
    let text = if dice.percent(8) { "{}".to_string() } else { plan.to_string() };
    write(format!("{DIR}/planning/planning.ai.json"), text)
}

fn review(dice: &mut Dice, name: &str) -> Op {
    let text = match dice.below(6) {
        0 => {
            json!({ "ok": false, "issues": [{ "id": "i", "severity": "major", "target": "code", "message": "no" }], "reviewers": [] })
        }
        1 => json!({ "ok": false, "blocked": true, "reviewers": [{ "id": "r", "ok": false }] }),
        _ => json!({ "ok": true, "issues": [], "reviewers": [] }),
    };
    write(format!("{DIR}/review/{name}.json"), text.to_string())
}

fn code(dice: &mut Dice) -> Vec<Op> {
    let greeting = *dice.one(&["Hello, you", "Hello, Ada", "Bye"]);
    let patch = format!(
        "diff --git a/greet.sh b/greet.sh\n--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Hello\n+echo {greeting}\n"
    );
    vec![
        write("greet.sh", format!("echo {greeting}\n")),
        write(format!("{DIR}/code/diff.patch"), patch),
        write(format!("{DIR}/code/files/greet.sh"), format!("echo {greeting}\n")),
    ]
}

/// The worker of a phase leaves behind what somebody would write by hand.
fn by_worker(worker: &str, ops: &[Op]) -> Vec<Op> {
    let mut script = String::new();
    for op in ops {
        if let Op::Write { path, text } = op {
            writeln!(script, "mkdir -p \"$(dirname {path})\"").unwrap();
            writeln!(script, "cat > {path} <<'END'\n{text}\nEND").unwrap();
        }
    }
    vec![write(format!("does-{worker}"), script)]
}

pub fn next(dice: &mut Dice, stage: &Stage) -> Vec<Op> {
    if dice.percent(20) {
        return vec![noise(dice, "task/greet", STATE)];
    }
    let phase = stage.phase();
    let mut ops = match phase.as_str() {
        "planning" => vec![plan(dice)],
        "plan_review" => vec![review(dice, "plan-review")],
        "codegen" => code(dice),
        "review" => vec![review(dice, "code-review")],
        "accept" if dice.percent(60) => {
            let verdict =
                *dice.one(&["accepted", "accepted", "changes", "unclear", "upstream", "revert"]);
            vec![person(&["task", "accept", "--verdict", verdict, "--reason", "because"])]
        }
        "revert" => vec![person(&["task", "revert"])],
        "done" if dice.percent(50) => vec![agent(&["task", "redo"])],
        _ => Vec::new(),
    };
    let with_workers = stage.read(".phasegate/config.toml").contains("PLANNER");
    if with_workers && dice.percent(80) {
        let (worker, verb): (&str, &[&str]) = match phase.as_str() {
            "planning" => ("PLANNER", &["task", "plan"]),
            "plan_review" => ("PLAN_REVIEWER", &["task", "review", "plan"]),
            "codegen" => ("CODER", &["task", "codegen"]),
            "review" => ("CODE_REVIEWER", &["task", "review", "code"]),
            _ => ("", &["task", "next"]),
        };
        if !worker.is_empty() {
            ops = by_worker(worker, &ops);
        }
        ops.extend([agent(verb), agent(&["task", "next"])]);
    }
    let op = match dice.below(22) {
        0..6 => stop(dice.percent(60)),
        6..12 => agent(&["task", "next"]),
        12 => agent(&["task", "plan"]),
        13 => agent(&["task", "review", "plan"]),
        14 => agent(&["task", "codegen"]),
        15 => agent(&["task", "review", "code"]),
        16 => agent(&["task", "test"]),
        17 => agent(&["task", "redo"]),
        18 if dice.percent(40) => person(&["task", "next", "--override", "trust me"]),
        19 if dice.percent(40) => {
            let to = *dice.one(&["planning", "codegen", "accept", "done", "revert"]);
            person(&["task", "next", "--override", "trust me", "--to", to])
        }
        20 => write("other.sh", format!("echo {}\n", dice.below(9))),
        21 if dice.percent(40) => {
            set(STATE, "phase", json!(*dice.one(&["done", "accept", "planning"])))
        }
        _ => agent(&["task", "accept"]),
    };
    ops.push(op);
    ops
}
