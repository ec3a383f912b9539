//! The light path: a small change needs one clean review.

use serde_json::json;

use super::{Plans, TASKS};

const ONE_MORE: &str =
    "1 more clean review of the code, since 2 changed lines are at most LIGHT_LINES = 2";

/// A plan in a repository whose second task is to be built.
fn before_a_task(lines: u64) -> Plans {
    let plans = Plans::new();
    let config = format!("[workflow.plan.const]\nLIGHT_LINES = {lines}\n");
    plans.scene.file(".phasegate/config.toml", config);
    plans.scene.file("page.html", "<p>Hello\n");
    plans.scene.file(".gitignore", "claude.log*\nbin/\nhome/\n");
    plans.scene.git(&["init", "-q"]);
    plans.scene.git(&["add", "page.html"]);
    plans.scene.git(&["commit", "-qm", "page"]);
    assert_eq!(plans.scene.by_hand(&["trust", "plan", "--yes"]).code, Some(0));
    let waiting =
        json!({ "phase": "tasks-review", "next_phase": "tasks-review", "max_reviews": 0 });
    plans.set(&waiting).stop_as("PASS").allows_saying("no reviews are wanted");
    plans.file("task-2.md", "# Two\n\n- [x] it\n").file("tasks.md", TASKS);
    assert_eq!(plans.scene.by_hand(&["plan", "limit", "web", "--reviews", "8"]).code, Some(0));
    plans
}

#[test]
fn a_small_change_needs_one_clean_review_where_that_is_configured_and_it_is_said() {
    let plans = before_a_task(2);
    plans.scene.file("page.html", "<p>Hello, you\n");
    plans.scene.git(&["commit", "-qam", "two"]);
    plans.ok(&["complete-task", "--task", "2"]);
    let said = plans.stop_as("PASS");
    said.allows_saying(&format!("task 2: one review is clean. Skipped: {ONE_MORE}."));
    plans
        .is(&json!({ "phase": "code-review", "next_phase": "complete-task", "skipped": ONE_MORE }));
    let line = plans.scene.journal("plan/web").pop().unwrap().to_string();
    assert!(line.contains(ONE_MORE), "{line}");
}

#[test]
fn one_line_more_needs_two_and_so_does_a_change_that_found_issues() {
    let plans = before_a_task(1);
    plans.scene.file("page.html", "<p>Hello, you\n");
    plans.ok(&["complete-task", "--task", "2"]);
    plans.stop_as("PASS").blocks("task-2-review-1.md");
    plans.is(&json!({ "next_phase": "post-code-review", "consecutive_clean": 1, "skipped": null }));
    let plans = before_a_task(2);
    plans.scene.file("page.html", "<p>Hello, you\n");
    plans.ok(&["complete-task", "--task", "2"]);
    plans.stop_as("FAIL").blocks("task-2-review-1.md");
}

#[test]
fn who_sets_the_files_that_it_is_counted_from_has_them_put_back() {
    let plans = before_a_task(2);
    plans.scene.file("page.html", "<p>One\n<p>Two\n<p>Three\n");
    plans.ok(&["complete-task", "--task", "2"]);
    let mut state = plans.state();
    let base = state["base"].clone();
    let now = plans.scene.git(&["stash", "create"]);
    state["base"] = json!(now.trim());
    plans.file("state.json", &state.to_string());
    plans.stop_as("PASS").blocks("task-2-review-1.md");
    plans.is(&json!({ "base": base, "next_phase": "post-code-review", "skipped": null }));
}
