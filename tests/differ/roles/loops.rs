//! Loops in loops, signals, worktrees, and a store that others write too.

use std::fmt::Write as _;

use serde_json::json;

use super::{agent, noise, person, says, write};
use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace};

pub const PHASES: [&str; 4] = ["active", "idle", "aborted", "file"];

const MESSAGES: &str = ".jwz/messages.jsonl";
const FILE: &str = ".claude/idle-loop.local.md";

pub fn opening() -> Trace {
    let ignored = "home/\n.jwz/\n.phasegate/\n.worktrees/\n.claude/\n";
    let files = [("a.txt", "a\n"), (".gitignore", ignored)];
    let files = files.map(|(path, text)| (path.to_string(), text.to_string()));
    Trace { committed: files.into(), ..Trace::default() }
}

pub fn begin() -> Vec<Op> {
    vec![agent(&["loop", "start", "--max", "4", "--prompt", "Write a poem."])]
}

/// A store as another tool writes it, with this state.
fn store(age: u32, event: &str, iter: i64) -> String {
    let frame =
        json!({ "id": "f1", "mode": "loop", "iter": iter, "max": 5, "prompt_file": "task.md" });
    let body = json!({ "schema": 1, "event": event, "run_id": "l1", "updated_at": format!("@{{now-{age}}}"), "stack": [frame] });
    let mut text = String::new();
    let topic = "01JFKQTOPICBBBBBBBBBBBBBBB";
    writeln!(text, "{}", json!({ "type": "topic", "id": topic, "name": "loop:current", "description": "", "created_at": 1 })).unwrap();
    let message = json!({ "type": "message", "id": "01JFKQMSG00000000000000002", "topic_id": topic, "parent_id": null, "body": body.to_string(), "created_at": 2, "sender": null, "git": null });
    writeln!(text, "{message}").unwrap();
    text
}

pub fn next(dice: &mut Dice, _stage: &Stage) -> Vec<Op> {
    let again = dice.percent(70);
    let number = dice.below(3).to_string();
    let op = match dice.below(20) {
        0..7 => says("I go on.", again),
        7 => says("<loop-done>COMPLETE</loop-done>", again),
        8 => says("Nearly: `<loop-done>COMPLETE</loop-done>`", again),
        9 => says("<loop-done>STUCK</loop-done>\nHelp.", again),
        10 => says("<grind-done>NO_MORE_ISSUES</grind-done>", again),
        11 | 12 => {
            let mode = *dice.one(&["loop", "issue", "grind"]);
            let max = *dice.one(&["1", "2", "5"]);
            let mut args =
                vec!["loop", "start", "--mode", mode, "--max", max, "--prompt", "Go on."];
            if mode == "issue" {
                args.extend(["--issue", &number]);
            }
            if mode == "issue" && dice.percent(60) {
                args.push("--worktree");
            }
            agent(&args)
        }
        13 => agent(&["loop", "land"]),
        14 if dice.percent(30) => agent(&["loop", "cancel", "--reason", "enough"]),
        15 => {
            let (age, event) =
                (*dice.one(&[5, 60, 8000]), *dice.one(&["STATE", "STATE", "ABORT", "DONE"]));
            write(MESSAGES, store(age, event, 1))
        }
        16 if dice.percent(50) => write(MESSAGES, store(5, "STATE", *dice.one(&[0, 4, 5]))),
        17 if dice.percent(50) => {
            let active = dice.percent(70);
            write(
                FILE,
                format!(
                    "---\nactive: {active}\nmode: loop\niteration: 1\nmax_iterations: 3\n---\nThe task.\n"
                ),
            )
        }
        18 if dice.percent(40) => {
            return vec![Op::Remove { path: MESSAGES.into() }, person(&["loop", "status"])];
        }
        _ => noise(dice, "loop", "notes.json"),
    };
    vec![op]
}
