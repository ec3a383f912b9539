//! Reviewers that misbehave, states that are meant to do harm, and very many plans.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DIR, Plans, due, is_alive};

/// A plan whose workflow is the project's own, with a change.
pub fn ejected(from: &str, to: &str) -> Plans {
    let plans = Plans::new();
    plans.scene.ok(&["eject", "plan"]);
    let place = ".phasegate/workflows/plan/workflow.toml";
    let text = plans.scene.read(place);
    assert!(text.contains(from));
    plans.scene.file(place, text.replace(from, to));
    plans
}

const ANSWER: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"All is well: {\"verdict\":\"PASS\"}","total_cost_usd":0.1,"structured_output":{"verdict":"PASS"}}"#;

#[test]
fn a_reviewer_that_misbehaves_opens_the_gate_loudly_and_is_counted() {
    let write = "echo reviewed > \"$PHASEGATE_REVIEW\"";
    let cases = [
        ("hangs", "sleep 4712.1".to_string(), "it took longer than 2 seconds"),
        (
            "ignores SIGTERM",
            "trap '' TERM; sleep 4712.1 & wait; sleep 4712.1".to_string(),
            "it took longer than 2 seconds",
        ),
        ("writes no file", format!("echo '{ANSWER}'"), "wrote no"),
        ("prints and writes nothing", "true".to_string(), "it gave no verdict"),
        ("crashes", format!("{write}; echo '{ANSWER}'; kill -9 $$"), "killed by signal 9"),
    ];
    for (name, script, why) in cases {
        let plans = ejected("timeout = \"9m\"", "timeout = \"2s\"");
        plans.scene.file("reviewer.sh", script);
        let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
        plans.scene.file(".phasegate/config.toml", config);
        plans.set(&due("code-review"));
        let mut before = plans.state();
        before["phase_iteration"] = json!(1);
        let since = Instant::now();
        let said = plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]);
        said.allows_saying(why);
        assert!(since.elapsed() < Duration::from_secs(20), "{name}");
        assert_eq!(plans.state(), before, "{name}");
        assert!(!is_alive("4712.1"), "{name}: a process is left behind");
        // It is no trap: the client comes back, and the plan goes on.
        plans.scene.file("reviewer.sh", format!("{write}; echo '{ANSWER}'"));
        plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]).blocks("task-1-review-");
        plans.scene.ok(&["log", "--verify"]);
    }
}

/// The specification's step 5f: any value but PASS is a review that found issues.
#[test]
fn a_review_without_a_verdict_found_issues() {
    let prose = ANSWER.replace(",\"structured_output\":{\"verdict\":\"PASS\"}", "");
    let write = "echo reviewed > \"$PHASEGATE_REVIEW\"";
    let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    for (name, script) in [
        ("prints rubbish", format!("{write}; echo '{{{{'")),
        ("prints nothing", write.to_string()),
        ("claims PASS in prose", format!("{write}; echo '{prose}'")),
    ] {
        let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
        plans.scene.file("reviewer.sh", script).file(".phasegate/config.toml", config);
        let said = plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]);
        said.blocks("task-1-review-1.md");
        let expected = json!({ "consecutive_clean": 0, "phase_iteration": 1, "next_phase": "post-code-review" });
        plans.is(&expected);
        let told = plans.scene.journal("plan/web");
        let ended = told.iter().find(|line| line["event"]["name"] == "job-ended").unwrap();
        let cost = if name.contains("prose") { 100_000 } else { 0 };
        assert_eq!(ended["event"]["params"]["micro_dollars"], cost, "{name}");
    }
}

/// Every review that was begun counts: an agent that prompts again and again buys no more than the limit.
#[test]
fn reviews_that_fail_are_limited_too() {
    let plans = Plans::with(&json!({ "next_phase": "code-review", "max_reviews": 2 }));
    plans.scene.file("reviewer.sh", "echo begun >> begun; exit 1");
    let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    plans.scene.file(".phasegate/config.toml", config);
    for _ in 0..5 {
        plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]).allows_saying("phasegate");
    }
    assert_eq!(plans.scene.read("begun").lines().count(), 2);
    plans.is(&json!({ "phase_iteration": 2, "consecutive_clean": 0 }));
}

/// The specification's step 5e: a review that was not made does not keep the folder from being looked at.
#[test]
fn the_folder_is_looked_at_after_a_review_that_failed() {
    let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    for script in ["exit 1", "true"] {
        let plans = Plans::with(&due("code-review"));
        plans.scene.file("reviewer.sh", script).file(".phasegate/config.toml", config);
        plans.file("bogus.md", "x");
        let said = plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]);
        said.blocks("bogus.md has no valid name");
    }
    let plans = Plans::with(&due("code-review"));
    plans.file("bogus.md", "x");
    let nothing = plans.scene.path("empty").display().to_string();
    plans.stop_with(&[("PATH", &nothing)]).blocks("bogus.md has no valid name");
}

/// Who leaves the reviews after one that found issues does not do so in silence.
#[test]
fn leaving_the_reviews_after_one_that_found_issues_is_told() {
    let told =
        "The last review (.taskie/plans/web/task-1-review-1.md) found issues and was not answered.";
    for leave in ["stop-reviews", "next-task", "by hand"] {
        let plans = Plans::with(&due("code-review"));
        plans.first_stop("FAIL").blocks("task-1-review-1.md");
        match leave {
            "stop-reviews" => drop(plans.ok(&["stop-reviews", "web"])),
            "next-task" => drop(plans.ok(&["next-task", "web", "--task", "1"])),
            _ => {
                let mut state = plans.state();
                state["next_phase"] = Value::Null;
                plans.scene.file(".taskie/plans/web/state.json", state.to_string());
            }
        }
        plans.first_stop("FAIL").allows_saying(told);
    }
}

#[test]
fn a_reviewer_may_print_all_events_and_leave_a_child_behind() {
    let write = "echo reviewed > \"$PHASEGATE_REVIEW\"; echo \"$PHASEGATE_MODEL\" > model";
    for (name, script) in [
        ("the array form", format!("{write}; echo '[{{\"type\":\"system\"}},{ANSWER}]'")),
        ("a child keeps the pipe", format!("{write}; sleep 4713.1 & echo '{ANSWER}'")),
        (
            "it calls the hook",
            format!(
                "{write}; echo '{{}}' | '{}' hook stop > nested; echo '{ANSWER}'",
                env!("CARGO_BIN_EXE_phasegate")
            ),
        ),
    ] {
        let plans = Plans::with(&due("code-review"));
        plans.scene.file("reviewer.sh", script);
        let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
        plans.scene.file(".phasegate/config.toml", config);
        let since = Instant::now();
        let said = plans.stop_with(&[("PHASEGATE_TRUST_ALL", "1")]);
        said.blocks("task-1-review-1.md");
        assert!(since.elapsed() < Duration::from_secs(20), "{name}");
        plans.is(&json!({ "consecutive_clean": 1, "phase_iteration": 1 }));
        assert_eq!(plans.scene.read("model"), "opus\n");
        assert!(!is_alive("4713.1"), "{name}: a process is left behind");
    }
}

#[test]
fn a_configured_reviewer_needs_consent() {
    let plans = Plans::with(&due("code-review"));
    plans.scene.file("reviewer.sh", "touch ran");
    let config = "[workflow.plan.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    plans.scene.file(".phasegate/config.toml", config);
    plans.stop().allows_saying("you have not consented");
    assert!(!plans.scene.exists("ran"));
    let ran = plans.scene.by_hand(&["trust", "plan", "--yes"]);
    assert!(ran.stdout.contains("REVIEWER = [\"sh\",\"reviewer.sh\"]"), "{ran:?}");
}

/// What would do harm in a shell, a path, a number or a parser does none here.
#[test]
fn states_that_are_meant_to_do_harm_do_none() {
    let deep = "[".repeat(100_000);
    let texts = [
        r#"{"next_phase":"code-review","phase_iteration":"UID[$(touch pwned)]"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1; touch pwned"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"$(touch pwned)"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"../../../../tmp/x"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"{{ fail('x') }}"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":{"a":[1]}}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","review_model":"opus; touch pwned"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","review_model":"--mcp-config=x"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","review_model":"{{ env('HOME') }}"}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","phase_iteration":9223372036854775807}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","phase_iteration":1e999}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","phase_iteration":123456789012345678901234567890}"#.to_string(),
        r#"{"next_phase":"code-review","current_task":"1","max_reviews":-9223372036854775808}"#.to_string(),
        r#"{"next_phase":"../../x","phase":"$(touch pwned)"}"#.to_string(),
        r#"{"next_phase":["code-review"]}"#.to_string(),
        format!("{{\"next_phase\":\"code-review\",\"x\":{deep}"),
        format!("{{\"next_phase\":\"code-review\",\"current_task\":\"{}\"}}", "a".repeat(1 << 20)),
        "[]".to_string(),
        "null".to_string(),
        "\u{feff}{\"next_phase\":null}".to_string(),
    ];
    for text in texts {
        let plans = Plans::new();
        plans.file("state.json", &text);
        let shown = &text[..text.len().min(120)];
        let said = plans.stop();
        assert_eq!(said.json.get("decision"), None, "{shown}: {said:?}");
        assert!(said.json["systemMessage"].is_string(), "{shown}: {said:?}");
        assert!(plans.calls().is_empty(), "{shown}");
        assert!(
            !plans.scene.exists("pwned") && !plans.scene.exists(&format!("{DIR}/pwned")),
            "{shown}"
        );
        assert_eq!(plans.scene.read(&format!("{DIR}/state.json")), text, "{shown}");
        for command in ["next", "create-tasks"] {
            let ran = plans.run(&[command]);
            assert!(!ran.stderr.contains("panicked"), "{shown}: {ran:?}");
        }
        assert!(!plans.scene.exists("pwned"), "{shown}");
    }
}

#[test]
fn a_folder_that_leads_out_of_the_project_is_no_plan() {
    let plans = Plans::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("state.json"), r#"{"next_phase":"plan-review"}"#).unwrap();
    std::fs::write(outside.path().join("plan.md"), "x").unwrap();
    std::fs::remove_dir_all(plans.scene.path(DIR)).unwrap();
    std::os::unix::fs::symlink(outside.path(), plans.scene.path(DIR)).unwrap();
    plans.stop().allows();
    assert!(plans.calls().is_empty());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[test]
fn of_a_thousand_plans_the_right_one_answers() {
    let plans = Plans::with(&due("code-review"));
    let old = std::time::SystemTime::now() - Duration::from_secs(1000);
    for number in 0..1000 {
        let place = format!(".taskie/plans/old-{number}/state.json");
        plans.scene.file(&place, r#"{"phase":"next-task","next_phase":"plan-review"}"#);
        std::fs::File::open(plans.scene.path(&place)).unwrap().set_modified(old).unwrap();
    }
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    plans.file("task-1-post-review-1.md", "x");
    plans.stop_again("FAIL").blocks("task-1-review-2.md");
    // The others were looked at, and not touched.
    assert_eq!(std::fs::read_dir(plans.scene.path(".phasegate/runs/plan")).unwrap().count(), 1);
}

/// A question asked in a fresh clone buys no review.
#[test]
fn no_reviewer_is_started_for_a_plan_that_came_with_the_checkout() {
    let plans = Plans::with(&due("plan-review"));
    plans.scene.git(&["init", "-q"]);
    plans.scene.git(&["add", DIR]);
    plans.scene.git(&["commit", "-qm", "a plan"]);
    for _ in 0..2 {
        plans.stop().allows();
        assert!(plans.calls().is_empty());
    }
    plans.scene.ok_by_hand(&["adopt", "--session", "s1"]);
    plans.stop();
    assert_eq!(plans.calls().len(), 1);
}

#[test]
fn a_plan_that_is_changed_here_is_reviewed() {
    let plans = Plans::with(&due("plan-review"));
    plans.scene.git(&["init", "-q"]);
    plans.scene.git(&["add", DIR]);
    plans.scene.git(&["commit", "-qm", "a plan"]);
    plans.stop().allows();
    plans.scene.file(&format!("{DIR}/notes.md"), "another look");
    plans.stop();
    assert_eq!(plans.calls().len(), 1);
}
