//! How many instructions a hook takes, from its start to its end, against a budget. Counted by
//! callgrind, so that the numbers do not depend on what else the machine does.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

mod count;
mod program;
mod project;

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};

use count::{Call, instructions};
use project::{payload, project, state};
use serde_json::{Value, json};

/// A situation and the most instructions it may take.
struct Budget {
    name: &'static str,
    most: u64,
    /// The run has answered a stop before. The first stop also copies the definition.
    known: bool,
    made: fn(&Path) -> std::io::Result<()>,
    /// What is measured; a stop, where nothing else is said.
    asks: Option<fn(&Path) -> Call>,
}

/// A phase that denies tools, so that the client asks before each use of one.
const PLANNED: &str = r#"
name = "planned"
about = "A plan comes before code."
initial = "planning"
document = ".phasegate/planned/*.json"
[phase.planning]
tools = { deny = ["Edit", "Write"] }
rules = [{ on = "stop", block = "Plan." }]
[phase.done]
final = true
"#;

/// A project with a run in that phase.
fn planned(folder: &Path) -> std::io::Result<()> {
    let root = project(folder, None)?;
    std::fs::create_dir_all(root.join(".phasegate/workflows"))?;
    std::fs::write(root.join(".phasegate/workflows/planned.toml"), PLANNED)?;
    std::fs::create_dir_all(root.join(".phasegate/planned"))?;
    std::fs::write(root.join(".phasegate/planned/x.json"), "{\"phase\":\"planning\"}\n")
}

/// What the client asks before the use of a tool.
fn use_of(root: &Path, tool: &str) -> Call {
    let mut asked: Value = serde_json::from_str(&payload(root)).unwrap_or_default();
    asked["hook_event_name"] = json!("PreToolUse");
    asked["tool_name"] = json!(tool);
    asked["tool_input"] =
        json!({ "file_path": "src/lib.rs", "old_string": "a", "new_string": "b" });
    Call::new(&["hook", "pre-tool-use"], &asked.to_string())
}

/// What a client sends before it asks for anything.
const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
);

/// A project with a task of twelve phases, and fifty others.
fn tasks(folder: &Path) -> std::io::Result<()> {
    let root = project(folder, None)?;
    let phases: Vec<Value> = (0..12).map(|at| json!({ "name": format!("Phase {at}") })).collect();
    let phases = Value::from(phases).to_string();
    let create = ["phases", "create", "--title", "Web", "--tree", "shared", "--phases", &phases];
    let created = Call::new(&create, "").run(&root);
    created.map_err(|error| std::io::Error::other(error.to_string()))?;
    let tasks = root.join(".phasegate/phases");
    for number in 0..50 {
        let other = tasks.join(format!("other-{number}"));
        std::fs::create_dir_all(&other)?;
        std::fs::copy(tasks.join("web/task.json"), other.join("task.json"))?;
    }
    Ok(())
}

/// A server that is started and asked so often where the task stands.
fn reads(count: usize) -> Call {
    let mut input = HELLO.to_string();
    for id in 1..=count {
        let params = json!({ "name": "get_phase_status", "arguments": { "run": "web" } });
        let read = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        input.push_str(&read.to_string());
        input.push('\n');
    }
    Call::new(&["mcp"], &input)
}

const BUDGETS: [Budget; 13] = [
    Budget {
        name: "MCP: from the start to the first answer",
        most: 11_500_000,
        known: false,
        made: tasks,
        asks: Some(|_| reads(0)),
    },
    Budget {
        name: "MCP: the same, and ten reads of a task beside fifty others",
        // About 4.7 M each, of which two fifths compile texts and guards.
        most: 60_000_000,
        known: false,
        made: tasks,
        asks: Some(|_| reads(10)),
    },
    Budget {
        name: "a tool that the phase denies",
        most: 1_500_000,
        known: true,
        made: planned,
        asks: Some(|root| use_of(root, "Edit")),
    },
    Budget {
        name: "a tool that no phase denies",
        most: 1_500_000,
        known: true,
        made: planned,
        asks: Some(|root| use_of(root, "Read")),
    },
    Budget { name: "no project", most: 350_000, known: true, made: |_| Ok(()), asks: None },
    Budget {
        name: "a project in which nothing stands and nothing runs",
        most: 600_000,
        known: true,
        made: |folder| project(folder, None).map(drop),
        asks: None,
    },
    Budget {
        name: "a standing gate, nothing has changed: beside one `git status`",
        most: 800_000,
        known: true,
        made: standing,
        asks: None,
    },
    Budget {
        name: "triage, 100 entries: first stop, block and commit",
        // More than in 0.1.0: the session's binding, that the same stop is not answered twice, and the second
        // witness in the user's state folder, which every commit writes (0.2 M), and the evidence that is kept, so
        // that the line can be decided again (0.3 M).
        most: 6_300_000,
        known: false,
        made: |folder| project(folder, Some(&state(100))).map(drop),
        asks: None,
    },
    Budget {
        name: "triage, 100 entries: block and commit",
        // 0.1 M for the watchdog's thread, the lock of the folder, the check of the journal's end, and fuel;
        // 0.2 M for the second witness; 0.3 M for the evidence that is kept.
        most: 5_850_000,
        known: true,
        made: |folder| project(folder, Some(&state(100))).map(drop),
        asks: None,
    },
    Budget {
        name: "triage, 100 entries: move on, write the document, commit",
        most: 7_500_000,
        known: false,
        made: |folder| {
            let mut state = state(100);
            for entry in state["entries"].as_array_mut().into_iter().flatten() {
                entry["status"] = json!("completed");
            }
            project(folder, Some(&state)).map(drop)
        },
        asks: None,
    },
    Budget {
        name: "triage, 100 entries: absorb a batch of five results, commit",
        // With the second witness, every result looked up that the document claims, and the evidence kept.
        most: 9_650_000,
        known: false,
        made: |folder| {
            let root = project(folder, Some(&state(100)))?;
            let results = root.join(".phasegate/triage/results");
            std::fs::create_dir_all(&results)?;
            for entry in [1, 3, 5, 7, 9] {
                let result = json!({ "is_true_positive": false, "group_id": "g" });
                std::fs::write(results.join(format!("{entry}.json")), result.to_string())?;
            }
            Ok(())
        },
        asks: None,
    },
    Budget {
        name: "plan: nothing due, validate and commit",
        most: PLAN,
        known: true,
        made: |folder| plans(folder, 1),
        asks: None,
    },
    Budget {
        name: "plan, 1,000 of them: at most three times as much",
        most: 3 * PLAN,
        known: true,
        made: |folder| plans(folder, 1000),
        asks: None,
    },
];

/// A repository with a gate that stands, and a session that has changed nothing in it.
fn standing(folder: &Path) -> std::io::Result<()> {
    let root = project(folder, None)?;
    let config = root.join(".config/phasegate");
    std::fs::create_dir_all(config.join("workflows"))?;
    std::fs::write(config.join("workflows/ship.toml"), SHIP)?;
    std::fs::write(root.join(".gitignore"), ".*\n")?;
    std::fs::write(root.join("lib.rs"), "pub fn one() -> u8 { 1 }\n")?;
    for arguments in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-q", "-m", "one"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
        if !git.current_dir(&root).status()?.success() {
            return Err(std::io::Error::other("git fails"));
        }
    }
    Ok(())
}

/// The first gate of the documentation, as a user's own: nobody has to consent to that.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass on the tree as it is now."
initial = "working"
standing = true

[check.tests]
run = ["cargo", "test"]

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

/// What a stop on a plan may take that is the only one.
const PLAN: u64 = 8_500_000;

/// Plans, half of them complete, of which the last is worked on.
fn plans(folder: &Path, count: usize) -> std::io::Result<()> {
    let root = project(folder, None)?;
    for number in 0..count {
        let plan = root.join(format!(".taskie/plans/plan-{number}"));
        std::fs::create_dir_all(&plan)?;
        std::fs::write(plan.join("plan.md"), "# A plan\n")?;
        let phase = if number % 2 == 0 && number + 1 < count { "complete" } else { "next-task" };
        let state = json!({ "phase": phase, "next_phase": null, "max_reviews": 8, "tdd": false });
        std::fs::write(plan.join("state.json"), state.to_string())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if !count::is_possible() {
        return count::skipped();
    }
    let mut failed = 0;
    for budget in &BUDGETS {
        match measure(budget) {
            Ok(count) => {
                let over = count > budget.most;
                failed += usize::from(over);
                let verdict = if over { "OVER BUDGET" } else { "ok" };
                let (count, most) = (millions(count), millions(budget.most));
                println!("{count:>6} M of {most:>5} M  {verdict:<11}  {}", budget.name);
            }
            Err(error) => {
                failed += 1;
                println!("failed: {}: {error}", budget.name);
            }
        }
    }
    println!("{} passed, {failed} failed", BUDGETS.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn millions(count: u64) -> String {
    format!("{}.{:02}", count / 1_000_000, count % 1_000_000 / 10_000)
}

fn measure(budget: &Budget) -> Result<u64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    (budget.made)(root)?;
    let stop = Call::new(&["hook", "stop"], &payload(root));
    if budget.known {
        let said = stop.run(root)?;
        let blocks = said.contains("\"decision\": \"block\"");
        let is_held = root.join(".phasegate/triage/bench_triage.json").exists();
        if blocks != (is_held || budget.asks.is_some()) {
            return Err(format!("the hook answered {said}").into());
        }
    }
    let call = budget.asks.map_or(stop, |asks| asks(root));
    if !budget.known && budget.asks.is_some() {
        let said = call.run(root)?;
        if said.is_empty() || said.contains("\"error\"") {
            return Err(format!("the server answered {said}").into());
        }
    }
    instructions(root, &call)
}
