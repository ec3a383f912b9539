//! Projects to measure in: a triage with a number of entries.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A triage in the making: every second entry is done.
pub fn state(entries: usize) -> Value {
    let entries: Vec<Value> = (0..entries)
        .map(|index| {
            let done = index % 2 == 0;
            let result = json!({
                "is_true_positive": index % 3 == 0, "is_likely_dead_code": false,
                "group_id": format!("group-{}", index % 7),
                "root_cause": "dynamic dispatch is not resolved",
                "reasoning": "The method is called through an interface.",
            });
            json!({
                "entry_index": index, "name": format!("finding_{index}"),
                "file_path": format!("src/module_{}/file_{}.ts", index % 97, index % 13),
                "start_line": index % 900 + 1, "kind": "function", "signature": null,
                "route": "llm-triage", "diagnosis": "no callers found in the call graph",
                "deterministic_group_id": null, "known_source": null,
                "status": if done { "completed" } else { "pending" },
                "result": if done { result } else { Value::Null },
                "error": null, "attempt_count": 0,
            })
        })
        .collect();
    json!({
        "project_name": "bench", "project_path": ".", "analysis_file": "findings.json",
        "phase": "triage", "batch_size": 5, "entries": entries,
        "aggregation": null, "meta_review": null, "fix_planning": null,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
    })
}

/// A project with that state document, or with none.
pub fn project(folder: &Path, state: Option<&Value>) -> std::io::Result<PathBuf> {
    let triage = folder.join(".phasegate/triage");
    std::fs::create_dir_all(&triage)?;
    if let Some(state) = state {
        std::fs::write(triage.join("bench_triage.json"), format!("{state:#}\n"))?;
    }
    Ok(folder.to_path_buf())
}

/// The payload of a stop there.
pub fn payload(root: &Path) -> String {
    json!({
        "session_id": "bench", "transcript_path": root.join("transcript.jsonl"), "cwd": root,
        "permission_mode": "default", "hook_event_name": "Stop", "stop_hook_active": false,
        "last_assistant_message": "Done.", "background_tasks": [], "session_crons": [],
    })
    .to_string()
}
