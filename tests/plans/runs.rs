//! Plans as a client drives them: stop after stop.

use serde_json::json;

use super::{DIR, Plans, due};

const BUILT: &str = "# Task\n\n- [x] build it\n";

/// Writes the answer to a review, as an agent does.
fn answer(plans: &Plans, base: &str, number: usize) {
    plans.file(&format!("{base}-post-review-{number}.md"), "What was done about it.");
}

#[test]
fn a_plan_with_two_tasks_goes_from_its_beginning_to_its_end_by_stops_alone() {
    let plans = Plans::new();
    plans.remove("tasks.md").remove("task-1.md");
    plans.ok(&["new-plan", "--name", "web"]);
    // The plan: one review with issues, then two clean ones.
    plans.first_stop("FAIL").blocks("plan-review-1.md");
    answer(&plans, "plan", 1);
    plans.stop_again("PASS").blocks("plan-review-2.md");
    answer(&plans, "plan", 2);
    plans.stop_again("PASS").allows_saying("Read .taskie/plans/web/plan.md");
    assert!(plans.ok(&["next"]).contains("Next step: create-tasks"));
    // The tasks.
    plans.file("tasks.md", "| Id | Status |\n|--|--|\n| 1 | pending |\n| 2 | pending |\n");
    plans.file("task-1.md", "- [ ] build it").file("task-2.md", "- [ ] build it");
    plans.ok(&["create-tasks"]);
    plans.first_stop("PASS").blocks("tasks-review-1.md");
    answer(&plans, "tasks", 1);
    plans.stop_again("PASS").allows_saying("builds the first task");
    assert!(plans.ok(&["next"]).contains("Next step: complete-task"));
    // The first task.
    plans.file("task-1.md", BUILT);
    plans.file("tasks.md", "| Id | Status |\n|--|--|\n| 1 | done |\n| 2 | pending |\n");
    plans.ok(&["complete-task", "--task", "1"]);
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    answer(&plans, "task-1", 1);
    plans.stop_again("PASS").blocks("task-1-review-2.md");
    answer(&plans, "task-1", 2);
    plans.stop_again("PASS").allows_saying("builds the next task (2 remains)");
    // The second one, with the state edited by hand as the specification says.
    plans.file("task-2.md", BUILT);
    plans.set(
        &json!({ "phase": "complete-task", "next_phase": "code-review", "current_task": "2" }),
    );
    plans.first_stop("PASS").blocks("task-2-review-1.md");
    answer(&plans, "task-2", 1);
    plans.stop_again("PASS").allows_saying("has all code reviewed together");
    plans.is(
        &json!({ "next_phase": "all-code-review", "phase_iteration": 0, "review_model": "opus" }),
    );
    assert!(plans.ok(&["next"]).contains("Next step: stop."));
    // All of it together.
    plans.first_stop("PASS").blocks("all-code-review-1.md");
    answer(&plans, "all-code", 1);
    plans.stop_again("PASS").allows_saying("Plan web is complete");
    plans.is(&json!({ "phase": "all-code-review", "next_phase": "complete" }));
    assert!(plans.scene.ok(&["status"]).contains("done in phase complete"));
    plans.ok(&["close"]);
    plans.is(&json!({ "phase": "complete", "next_phase": null }));
    plans.first_stop("FAIL").allows();
    // Each cycle begins with the strongest model.
    let models = ["opus", "sonnet", "opus", "opus", "sonnet", "opus", "sonnet", "opus"];
    let more = ["opus", "sonnet", "opus", "sonnet"];
    assert_eq!(plans.models(), [models.as_slice(), &more].concat());
    for (base, count) in [("plan", 3), ("tasks", 2), ("task-1", 3), ("task-2", 2), ("all-code", 2)]
    {
        assert!(plans.has(&format!("{base}-review-{count}.md")), "{base}");
        assert!(!plans.has(&format!("{base}-review-{}.md", count + 1)), "{base}");
    }
    plans.scene.ok(&["log", "--verify"]);
}

#[test]
fn the_second_and_third_stop_go_on_as_the_first() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    // Some work, but no answer: the review still waits for one.
    plans.scene.file("src/main.rs", "fn main() {}");
    plans.file("tasks.md", &super::TASKS.replace("two", "2"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    answer(&plans, "task-1", 1);
    plans.stop_again("FAIL").blocks("task-1-review-2.md");
    answer(&plans, "task-1", 2);
    plans.stop_again("FAIL").blocks("task-1-review-3.md");
    assert_eq!(plans.calls().len(), 3);
}

#[test]
fn an_agent_that_does_nothing_is_not_held_for_ever() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    plans.stop_again("FAIL").allows_saying("is stuck in phase post-code-review");
    assert_eq!(plans.calls().len(), 1);
    // The next prompt of the user arms it again.
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
}

#[test]
fn reviews_end_when_the_user_says_so() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("set next_phase to null in state.json");
    let mut state = plans.state();
    state["next_phase"] = json!(null);
    plans.set(&state);
    plans.stop_again("FAIL").allows_saying("validated");
    plans.set(&due("code-review"));
    plans.ok(&["stop-reviews"]);
    plans.is(&json!({ "next_phase": null }));
    assert_eq!(plans.calls().len(), 1);
}

#[test]
fn no_review_is_written_over() {
    let plans = Plans::with(&due("code-review"));
    plans.file("task-1-review-1.md", "an earlier one");
    plans.stop().blocks("(iteration 1) has been written to .taskie/plans/web/task-1-review-2.md");
    assert_eq!(plans.scene.read(&format!("{DIR}/task-1-review-1.md")), "an earlier one");
    plans.is(&json!({ "phase_iteration": 1 }));
    // The answer goes with the number of the file.
    answer(&plans, "task-1", 2);
    plans.stop().blocks("(iteration 2) has been written to .taskie/plans/web/task-1-review-3.md");
}

#[test]
fn a_review_without_a_verdict_leaves_its_number_behind() {
    let plans = Plans::with(&due("plan-review"));
    plans.stop_with(&[("MOCK_CLAUDE_EXIT_CODE", "3")]).allows_saying("exit code 3");
    assert!(plans.has("plan-review-1.md"));
    plans.is(&json!({ "phase_iteration": 0 }));
    plans.stop().blocks("plan-review-2.md");
}

#[test]
fn two_sessions_do_not_take_each_others_plans() {
    let plans = Plans::with(&due("plan-review"));
    plans.scene.file(".taskie/plans/api/plan.md", "# Api\n");
    plans.first_stop("FAIL");
    let of = |session: &str| {
        let mut payload = plans.scene.payload();
        payload["session_id"] = json!(session);
        plans.hook(&payload.to_string(), &[])
    };
    // The latest folder belongs to the first session now; the other one gets the other plan.
    plans.scene.file(".taskie/plans/api/plan.md", "# Api again\n");
    let (first, second) = (of("s1"), of("s2"));
    assert_ne!(first.json.to_string(), second.json.to_string());
    let told = format!("{}{}", first.json, second.json);
    assert!(told.contains("Plan api: structure validated"), "{told}");
    plans.scene.file(".taskie/plans/web/plan.md", "# Touched by s2\n");
    of("s2");
    let ledger = plans.scene.json(".phasegate/runs/plan/web/ledger.json");
    let other = plans.scene.json(".phasegate/runs/plan/api/ledger.json");
    assert_ne!(ledger["owner"]["session"], other["owner"]["session"]);
}

#[test]
fn a_finished_plan_masks_no_other() {
    let plans = Plans::with(&due("code-review"));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    for name in ["plan.md", "tasks.md", "state.json"] {
        let file = std::fs::File::open(plans.scene.path(&format!("{DIR}/{name}"))).unwrap();
        file.set_modified(old).unwrap();
    }
    plans.scene.file(".taskie/plans/done/plan.md", "# Done\n");
    plans.scene.file(".taskie/plans/done/state.json", r#"{"phase":"complete","next_phase":null}"#);
    plans.stop().blocks("task-1-review-1.md");
}

#[test]
fn a_clean_count_that_somebody_else_raises_is_noticed() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL");
    let mut state = plans.state();
    state["consecutive_clean"] = json!(1);
    plans.set(&state);
    answer(&plans, "task-1", 1);
    let said = plans.stop_again("FAIL");
    let told = said.json["systemMessage"].as_str().unwrap();
    assert!(told.contains("`consecutive_clean` was changed from 0 to 1"), "{told}");
    // To begin a new cycle, as the specification has it, is no such thing.
    let mut state = plans.state();
    state["phase"] = json!("complete-task");
    state["next_phase"] = json!("code-review");
    state["consecutive_clean"] = json!(0);
    plans.set(&state);
    let said = plans.first_stop("PASS");
    assert_eq!(said.json.get("systemMessage"), None, "{said:?}");
}

#[test]
fn a_state_that_disappears_is_missed() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    plans.remove("state.json");
    plans
        .first_stop("FAIL")
        .allows_saying("its state document .taskie/plans/web/state.json is gone");
    assert_eq!(plans.calls().len(), 1);
}

#[test]
fn the_verdict_knows_what_was_reviewed() {
    let plans = Plans::with(&due("code-review"));
    plans.scene.git(&["init", "-q"]);
    plans.stop();
    plans.scene.file("src/main.rs", "fn main() {}");
    answer(&plans, "task-1", 1);
    plans.stop();
    let lines = plans.scene.journal("plan/web");
    let facts: Vec<_> =
        lines.iter().filter(|line| line["event"]["name"] == "review-finished").collect();
    let tree = |at: usize| facts[at]["event"]["params"]["tree"].as_str().unwrap();
    assert_eq!(facts.len(), 2);
    assert_ne!(tree(0), tree(1));
    // The second review followed from the answer on the disk; that was written down before it.
    assert!(lines.iter().any(|line| {
        line["event"]["name"] == "review" && line["moves"][0]["to"] == "code-review"
    }));
}

#[test]
fn a_session_that_comes_back_is_told_where_the_plan_is() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL");
    let said = plans.scene.hook_of("session-start", "s1", &json!({ "source": "compact" }));
    let told = said.json.to_string();
    assert!(told.contains("task-1-review-1.md is to be answered in"), "{told}");
    assert!(told.contains("phasegate plan next web"), "{told}");
}
