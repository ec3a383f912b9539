//! Plans, tasks and code, and a reviewer with moods.

use super::{agent, noise, person, set, stop, write};
use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace};
use serde_json::json;

pub const PHASES: [&str; 13] = [
    "plan-review",
    "post-plan-review",
    "create-tasks",
    "tasks-review",
    "post-tasks-review",
    "complete-task",
    "complete-task-tdd",
    "code-review",
    "post-code-review",
    "all-code-review",
    "post-all-code-review",
    "standalone",
    "complete",
];

const DIR: &str = ".taskie/plans/web";
const STATE: &str = ".taskie/plans/web/state.json";

/// Its mood is in a file: a verdict, or something that a reviewer should not do.
const REVIEWER: &str = r#"cat > prompt.txt
[ -e go/review ] && { : > begun; until [ -e go/done ]; do sleep 0.02; done; }
mood=$(cat mood)
[ "$mood" = crash ] && exit 3
[ "$mood" = silent ] || printf '# Review by %s: %s\n' "$PHASEGATE_MODEL" "$mood" > "$PHASEGATE_REVIEW"
[ "$mood" = none ] && exit 0
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"","total_cost_usd":0.25,"structured_output":{"verdict":"%s"}}\n' "$mood"
"#;

pub fn opening() -> Trace {
    let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    let files = [
        ("reviewer.sh", REVIEWER),
        ("mood", "PASS"),
        (".phasegate/config.toml", config),
        (".taskie/plans/web/plan.md", "# Web\n\n## Overview\n\nA page.\n"),
    ];
    let files = files.map(|(path, text)| (path.to_string(), text.to_string()));
    Trace { files: files.into(), ..Trace::default() }
}

pub fn begin() -> Vec<Op> {
    vec![agent(&["plan", "new-plan", "--name", "web", "--max-reviews", "4"])]
}

fn tasks(status: [&str; 2]) -> Op {
    let text = format!(
        "| Id | Status | Description |\n|----|--------|-------------|\n| 1 | {} | one |\n| 2 | {} | two |\n",
        status[0], status[1]
    );
    write(format!("{DIR}/tasks.md"), text)
}

pub fn next(dice: &mut Dice, stage: &Stage) -> Vec<Op> {
    if dice.percent(20) {
        return vec![noise(dice, "plan/web", STATE)];
    }
    let mood = *dice.one(&["PASS", "PASS", "PASS", "FAIL", "crash", "none", "silent"]);
    let mut ops = vec![write("mood", mood)];
    let phase = stage.phase();
    let task = *dice.one(&["1", "2"]);
    match phase.as_str() {
        "create-tasks" => {
            ops.push(tasks(["pending", "pending"]));
            ops.extend([
                write(format!("{DIR}/task-1.md"), "# One\n"),
                write(format!("{DIR}/task-2.md"), "# Two\n"),
            ]);
            ops.push(agent(&["plan", "create-tasks"]));
        }
        "complete-task" | "complete-task-tdd" | "standalone" => {
            let verb = *dice.one(&[
                "complete-task",
                "complete-task",
                "complete-task-tdd",
                "next-task",
                "next-task-tdd",
            ]);
            ops.push(tasks(["done", if dice.percent(60) { "done" } else { "pending" }]));
            ops.push(agent(&["plan", verb, "--task", task]));
        }
        "complete" if dice.percent(30) => {
            ops.push(agent(&["plan", *dice.one(&["close", "all-code-review", "plan-review"])]));
        }
        "complete" => ops.push(agent(&["plan", "add-task", "--task", task])),
        review => {
            let kind = review.replace("post-", "");
            let base = match kind.as_str() {
                "plan-review" => "plan".to_string(),
                "tasks-review" => "tasks".into(),
                "all-code-review" => "all-code".into(),
                _ => format!("task-{}", stage.json(STATE)["current_task"].as_str().unwrap_or("1")),
            };
            let last = (1..20)
                .rev()
                .find(|number| stage.path(&format!("{DIR}/{base}-review-{number}.md")).exists());
            if let (Some(last), true) = (last, dice.percent(75)) {
                ops.push(write(format!("{DIR}/{base}-post-review-{last}.md"), "Done.\n"));
                if dice.percent(30) {
                    ops.push(agent(&["plan", &format!("post-{kind}")]));
                }
            }
        }
    }
    match dice.below(24) {
        0 => ops.push(agent(&["plan", "stop-reviews"])),
        1 => ops.push(person(&["plan", "advance", "--reason", "go"])),
        2 if dice.percent(30) => ops.push(person(&["plan", "complete", "--reason", "enough"])),
        3 => ops.push(person(&["plan", "limit", "--reviews", *dice.one(&["0", "2", "9"])])),
        4 => ops.push(set(STATE, "next_phase", json!(null))),
        5 => ops.push(set(STATE, "phase_iteration", json!(null))),
        6 => ops.push(set(STATE, "consecutive_clean", json!(1))),
        7 => ops.push(write(format!("{DIR}/notes.md"), "odd\n")),
        8 => ops.push(Op::Remove { path: format!("{DIR}/notes.md") }),
        9 => ops.push(Op::Remove { path: STATE.into() }),
        10 => ops.push(agent(&["plan", "code-review", "--task", task])),
        _ => {}
    }
    ops.push(stop(dice.percent(60)));
    ops
}
