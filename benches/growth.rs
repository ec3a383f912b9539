//! Whether the past costs anything: instructions of hooks and commands with a short and with a long
//! history. Both are counted by callgrind in one run, so that only their ratio matters.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

mod count;
mod program;
mod project;

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use count::{Call, instructions};
use phasegate_runtime::journal::Line;
use project::{payload, project, state};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How much more a long history may cost.
const MOST: f64 = 1.2;

/// A history: its name, how long it is at first and at last, and who makes it.
struct History {
    name: &'static str,
    lengths: [usize; 2],
    run: &'static str,
    made: fn(&Path, usize) -> Result<()>,
}

const HISTORIES: [History; 3] = [
    History {
        name: "lines in the journal",
        lengths: [1, 10_000],
        run: "triage/bench",
        made: journal,
    },
    History {
        name: "iterations of a loop",
        lengths: [1, 5_000],
        run: "loop/current",
        made: iterations,
    },
    History { name: "ended runs", lengths: [1, 5_000], run: "triage/bench", made: ended },
];

/// What is asked, in each history.
fn calls(root: &Path, run: &str) -> Vec<(&'static str, Call)> {
    let start = json!({
        "session_id": "bench", "cwd": root, "hook_event_name": "SessionStart", "source": "compact",
    });
    let workflow = run.split('/').next().unwrap_or_default();
    let show = if workflow == "loop" { "status" } else { "report" };
    let mcp = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": show, "arguments": { "run": run } } }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {
            "uri": "phasegate://status" } }),
    ];
    let mcp: Vec<String> = mcp.iter().map(Value::to_string).collect();
    vec![
        ("stop", Call::new(&["hook", "stop"], &payload(root))),
        ("session-start", Call::new(&["hook", "session-start"], &start.to_string())),
        ("status", Call::new(&["status"], "")),
        ("why", Call::new(&["why", run], "")),
        ("log -n 5", Call::new(&["log", "-n", "5", run], "")),
        ("MCP read", Call::new(&["mcp", "--workflow", workflow], &format!("{}\n", mcp.join("\n")))),
    ]
}

fn main() -> ExitCode {
    if !count::is_possible() {
        return count::skipped();
    }
    let mut failed = 0;
    for history in &HISTORIES {
        match measured(history) {
            Ok(over) => failed += over,
            Err(error) => {
                failed += 1;
                println!("failed: {}: {error}", history.name);
            }
        }
    }
    println!("{failed} of them cost more than {MOST} times as much");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a table for a history; how many of its rows grow.
fn measured(history: &History) -> Result<usize> {
    let [first, last] = history.lengths;
    println!("\n{:<16} {first:>9} {last:>11} {}", "", history.name);
    let mut columns = Vec::new();
    for length in history.lengths {
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?;
        (history.made)(&root, length)?;
        let mut column = Vec::new();
        for (name, call) in calls(&root, history.run) {
            // What is found out once and remembered is not counted.
            call.run(&root)?;
            column.push((name, instructions(&root, &call)?));
        }
        columns.push(column);
    }
    let mut grown = 0;
    for ((name, before), (_, after)) in columns[0].iter().zip(&columns[1]) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = *after as f64 / *before as f64;
        let verdict = if ratio > MOST { "GROWS" } else { "flat" };
        grown += usize::from(ratio > MOST);
        let millions =
            |count: u64| format!("{}.{:02} M", count / 1_000_000, count % 1_000_000 / 10_000);
        println!(
            "{name:<16} {:>9} {:>11} {ratio:>6.2}  {verdict}",
            millions(*before),
            millions(*after)
        );
    }
    Ok(grown)
}

/// A run that has decided so often.
fn journal(root: &Path, length: usize) -> Result<()> {
    project(root, Some(&state(20)))?;
    Call::new(&["hook", "stop"], &payload(root)).run(root)?;
    lengthen(&root.join(".phasegate/runs/triage/bench"), length)
}

/// Repeats the first line of a journal, each bound to the one before.
fn lengthen(run: &Path, length: usize) -> Result<()> {
    let path = run.join("journal.jsonl");
    let text = fs::read_to_string(&path)?;
    let first: Line = serde_json::from_str(text.lines().last().ok_or("no line")?)?;
    let mut all = text.clone();
    let (mut seq, mut head) = (first.seq, first.hash.clone());
    while seq < length as u64 {
        seq += 1;
        let line = Line { seq, prev: head, ..first.clone() }.seal()?;
        head = serde_json::from_str::<Line>(&line)?.hash;
        all.push_str(&line);
        all.push('\n');
    }
    fs::write(path, all)?;
    let ledger = run.join("run.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&ledger)?)?;
    value["position"]["seq"] = seq.into();
    value["position"]["head"] = head.into();
    // Its first member says which version it is.
    Ok(fs::write(ledger, format!("{}\n", ordered(&value)))?)
}

/// A ledger's text, with its version first.
fn ordered(value: &Value) -> String {
    let text = value.to_string();
    let schema = format!("\"schema\":{}", value["schema"]);
    let rest = text.replacen(&format!(",{schema}"), "", 1).replacen(&format!("{schema},"), "", 1);
    format!("{{{schema},{}", &rest[1..])
}

/// A loop that has gone round so often.
fn iterations(root: &Path, length: usize) -> Result<()> {
    fs::create_dir_all(root.join(".phasegate"))?;
    Call::new(&["loop", "start", "--prompt", "Go on.", "--max", "100000"], "").run(root)?;
    Call::new(&["hook", "stop"], &payload(root)).run(root)?;
    let path = root.join(".jwz/messages.jsonl");
    let text = fs::read_to_string(&path)?;
    let last = text.lines().last().ok_or("no message")?.to_string();
    let mut message: Value = serde_json::from_str(&last)?;
    let mut all = text.clone();
    for _ in 2..length {
        message["created_at"] = (message["created_at"].as_i64().unwrap_or(0) + 1).into();
        all.push_str(&message.to_string());
        all.push('\n');
    }
    fs::write(path, all)?;
    lengthen(&root.join(".phasegate/runs/loop/current"), length)
}

/// A run among many that have ended.
fn ended(root: &Path, length: usize) -> Result<()> {
    let mut done = state(1);
    done["phase"] = "complete".into();
    project(root, Some(&state(20)))?;
    Call::new(&["hook", "stop"], &payload(root)).run(root)?;
    let run = root.join(".phasegate/runs/triage/bench");
    let ledger: Value = serde_json::from_slice(&fs::read(run.join("run.json"))?)?;
    for number in 0..length {
        let name = format!("ended-{number}");
        let place = format!(".phasegate/triage/{name}_triage.json");
        fs::write(root.join(&place), done.to_string())?;
        let meta = fs::metadata(root.join(&place))?;
        let version =
            format!("{}:{}:{}.{}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        let own = run.with_file_name(&name);
        fs::create_dir(&own)?;
        fs::copy(run.join("journal.jsonl"), own.join("journal.jsonl"))?;
        fs::copy(run.join("definition.json"), own.join("definition.json"))?;
        let mut ledger = ledger.clone();
        ledger["run"] = format!("triage/{name}").into();
        ledger["position"]["document"] = place.into();
        ledger["position"]["phase"] = "complete".into();
        ledger["position"]["finished"] = version.into();
        fs::write(own.join("run.json"), format!("{}\n", ordered(&ledger)))?;
    }
    // The index is made anew, as after an upgrade: it has all of them, and the next stop finds out that
    // they are over.
    Ok(fs::remove_dir_all(root.join(".phasegate/runs/.open"))?)
}
