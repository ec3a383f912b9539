//! An orchestrator, workers that wait to be told, and reviewers of every mood.

use serde_json::{Value, json};

use super::{agent, any_stop, noise, person, set, stop};
use crate::dice::Dice;
use crate::stage::Stage;
use crate::trace::{Op, Trace};

/// Those in which a run can come to rest.
pub const PHASES: [&str; 7] =
    ["PENDING", "ACTIVE", "UNDER_REVIEW", "APPROVED", "REJECTED", "REVISING", "ESCALATED"];

const DOCUMENT: &str = ".phasegate/phases/web/task.json";

const WAITS: &str = "cat > /dev/null
until [ -e \"go/$PHASEGATE_AGENT\" ]; do sleep 0.02; done
. \"./go/$PHASEGATE_AGENT\"
";

pub fn opening() -> Trace {
    let config = "[workflow.phases.const]\nWORKER = [\"sh\", \"waits.sh\"]\nREVIEWER = [\"sh\", \"waits.sh\"]\nREVIEWERS = [\"tests\", \"security\", \"style\"]\nROUNDS = 3\nREPLACEMENTS = 2\n";
    let committed =
        [("waits.sh", WAITS), ("work.txt", ""), (".gitignore", "home/\n.phasegate/\ngo/\n")];
    let committed = committed.map(|(path, text)| (path.to_string(), text.to_string()));
    let files = [(".phasegate/config.toml".to_string(), config.to_string())];
    Trace { committed: committed.into(), files: files.into(), ..Trace::default() }
}

pub fn begin() -> Vec<Op> {
    let planned = json!([{ "name": "Design", "deliverables": ["notes"] }, { "name": "Build" }]);
    vec![
        agent(&["phases", "create", "--title", "Web", "--phases", &planned.to_string()]),
        stop(false),
    ]
}

/// The state of the current phase, or of one that is still to come.
pub fn status(stage: &Stage) -> String {
    let task = stage.json(DOCUMENT);
    let current = task["current"].as_u64().unwrap_or(0);
    let status = |index: u64| {
        task["phases"][usize::try_from(index).unwrap()]["status"]
            .as_str()
            .unwrap_or("?")
            .to_string()
    };
    if stage.agents().is_empty() && current == 0 { status(current + 1) } else { status(current) }
}

fn goes(dice: &mut Dice, one: &Value) -> Op {
    let id = one["id"].as_str().unwrap().to_string();
    let verdict = |verdict: &str, findings: &str| {
        format!("\"$PHASEGATE\" phases verdict --verdict {verdict} --findings '{findings}'\n")
    };
    let finding = |kind: &str, severity: &str| {
        json!([{ "type": kind, "severity": severity, "message": "see a.rs:1" }]).to_string()
    };
    let does = if one["role"] == "worker" {
        match dice.below(6) {
            0 => "exit 3\n".to_string(),
            1 => "\"$PHASEGATE\" phases progress --status working --progress 40\n".into(),
            2 => "\"$PHASEGATE\" phases advance\n".into(),
            _ => format!("echo {} >> work.txt\n", dice.below(100)),
        }
    } else {
        match dice.below(9) {
            0 => "exit 3\n".to_string(),
            1 => verdict("rejected", &finding("issue", "high")),
            2 => verdict("changes_requested", &finding("suggestion", "low")),
            3 => verdict("approved", &finding("blocker", "critical")),
            4 => ":\n".into(),
            _ => verdict("approved", "[]"),
        }
    };
    Op::Goes { agent: id, does }
}

pub fn next(dice: &mut Dice, stage: &Stage) -> Vec<Op> {
    let agents = stage.agents();
    let working: Vec<&Value> = agents.iter().filter(|agent| agent["ended"] != true).collect();
    if !working.is_empty() && dice.percent(65) {
        let one = *dice.one(&working);
        return vec![goes(dice, one)];
    }
    if !working.is_empty() && dice.percent(8) {
        let agent = working[dice.below(working.len())]["id"].as_str().unwrap().to_string();
        return vec![Op::Killed { agent }];
    }
    let deploy = ["phases", "deploy", "--prompt", "Do it."];
    let usual = match status(stage).as_str() {
        "ACTIVE" | "REVISING" | "REJECTED" | "PENDING" => agent(&deploy),
        "APPROVED" => agent(&["phases", "advance"]),
        "ESCALATED" => {
            let force = ["phases", "approve", "--force-escalated", "--reason", "seen"];
            match dice.below(4) {
                0 => person(&force),
                1 => person(&["phases", "review"]),
                2 => agent(&["phases", "abort-review"]),
                _ => agent(&["phases", "review"]),
            }
        }
        _ => any_stop(dice),
    };
    if dice.percent(55) {
        return vec![usual];
    }
    let known =
        agents.first().and_then(|agent| agent["id"].as_str()).unwrap_or("worker-1").to_string();
    vec![match dice.below(14) {
        0 => agent(&["phases", "submit"]),
        1 => agent(&["phases", "review"]),
        2 => agent(&["phases", "advance"]),
        3 => agent(&["phases", "abort-review"]),
        4 => agent(&["phases", "approve"]),
        5 => agent(&["phases", "reject", "--reason", "no"]),
        6 => agent(&["phases", "kill", "--agent-id", &known]),
        7 => person(&["phases", "reject", "--reason", "no"]),
        8 => agent(&["phases", "verdict", "--verdict", "approved"]),
        9 if dice.percent(20) => set(DOCUMENT, "phases.0.status", json!("APPROVED")),
        10 => person(&["phases", "approve", "--reason", "fine"]),
        _ => noise(dice, "phases/web", "notes.json"),
    }]
}
