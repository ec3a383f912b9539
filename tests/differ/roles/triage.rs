//! Findings that are triaged, grouped and planned for.

use serde_json::{Value, json};

use super::{agent, noise, set, stop, write};
use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace};

pub const PHASES: [&str; 5] = ["triage", "aggregation", "meta-review", "fix-planning", "complete"];

const DOCUMENT: &str = ".phasegate/triage/web_triage.json";

pub fn opening() -> Trace {
    let findings: Vec<Value> =
        (0..5).map(|it| json!({ "name": format!("f{it}"), "file_path": "src/a.ts" })).collect();
    let config = "[workflow.triage.const]\nREQUIRED_PLANS = 2\nREQUIRED_REVIEWS = 1\n";
    let files =
        [("findings.json", json!(findings).to_string()), (".phasegate/config.toml", config.into())];
    let files = files.map(|(path, text)| (path.to_string(), text));
    Trace { files: files.into(), ..Trace::default() }
}

pub fn begin() -> Vec<Op> {
    let start =
        ["triage", "start", "--from", "findings.json", "--name", "web", "--batch-size", "2"];
    vec![agent(&start), stop(false)]
}

pub fn next(dice: &mut Dice, stage: &Stage) -> Vec<Op> {
    if dice.percent(30) {
        return vec![noise(dice, "triage/web", DOCUMENT)];
    }
    let state = stage.json(DOCUMENT);
    let mut ops = match state["phase"].as_str().unwrap_or_default() {
        "triage" => triage(dice, &state),
        "aggregation" => {
            let status = if dice.percent(10) { "failed" } else { "completed" };
            vec![set(DOCUMENT, "aggregation", json!({ "status": status }))]
        }
        "meta-review" => {
            vec![set(DOCUMENT, "meta_review", json!({ "status": "completed", "patterns": ["p"] }))]
        }
        "fix-planning" => vec![fix_planning(dice, &state)],
        // Broken or over: somebody puts a document there again.
        _ if dice.percent(40) => {
            let entries = json!([{ "entry_index": 0, "status": "pending" }, { "entry_index": 1, "status": "pending" }]);
            vec![write(DOCUMENT, json!({ "phase": "triage", "entries": entries }).to_string())]
        }
        _ => Vec::new(),
    };
    if dice.percent(5) {
        ops.push(set(DOCUMENT, "phase", json!(*dice.one(&["complete", "triage", "banana"]))));
    }
    ops.push(stop(dice.percent(70)));
    ops
}

fn triage(dice: &mut Dice, state: &Value) -> Vec<Op> {
    let folder = state["results_dir"].as_str().unwrap_or(".phasegate/triage/results").to_string();
    let entries = state["entries"].as_array().map_or(0, Vec::len);
    let result = |dice: &mut Dice| {
        let entry = dice.below(entries);
        let result = json!({
            "is_true_positive": dice.percent(30), "group_id": dice.one(&["a", "b"]),
            "is_likely_dead_code": dice.percent(10),
        });
        let text = if dice.percent(8) { "rubbish".to_string() } else { result.to_string() };
        write(format!("{folder}/{entry}.json"), text)
    };
    let mut ops: Vec<Op> = (0..=dice.below(3)).map(|_| result(dice)).collect();
    if dice.percent(10) {
        let entry = dice.below(entries);
        ops.push(set(DOCUMENT, format!("entries.{entry}.status"), json!("failed")));
    }
    ops
}

fn fix_planning(dice: &mut Dice, state: &Value) -> Op {
    let folder = state["fix_planning"]["fix_plans_dir"].as_str().unwrap_or_default();
    let groups = state["fix_planning"]["groups"].as_object();
    let open = groups.into_iter().flatten().find(|(_, group)| group["sub_phase"] != "complete");
    let Some((id, group)) = open else { return stop(false) };
    let name = match group["sub_phase"].as_str().unwrap_or_default() {
        "planning" => format!("plan_{}.md", dice.below(3)),
        "synthesis" => "synthesis.md".into(),
        "review" => "review_risk.md".into(),
        _ => "task.md".into(),
    };
    write(format!("{folder}/{id}/{name}"), "# Text\n")
}
