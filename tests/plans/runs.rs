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
    plans.is(&json!({ "phase_iteration": 1, "consecutive_clean": 0, "next_phase": "plan-review" }));
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
    // The first session has the folder that was changed last. The other one has nothing to do with it,
    // also when it touches it.
    plans.scene.file(".taskie/plans/api/plan.md", "# Touched by s2\n");
    of("s2").allows();
    let ledger = plans.scene.json(".phasegate/runs/plan/api/run.json");
    assert_eq!(ledger["session"]["owner"]["session"], "s1");
    // What it writes itself is its own.
    plans.scene.file(".taskie/plans/new/plan.md", "# New\n");
    of("s2").allows_saying("Plan new: structure validated");
    of("s1").allows_saying("Plan api: structure validated");
}

#[test]
fn a_finished_plan_masks_no_other() {
    let plans = Plans::with(&due("code-review"));
    plans.make_old(DIR, 1);
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
    assert_eq!(said.told(), None, "{said:?}");
}

/// After our first step our own count is the one that counts.
#[test]
fn a_clean_count_that_somebody_else_raises_is_put_back() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    let mut state = plans.state();
    state["consecutive_clean"] = json!(1);
    plans.set(&state);
    answer(&plans, "task-1", 1);
    let said = plans.stop_again("PASS");
    said.blocks("task-1-review-2.md");
    assert!(said.told().unwrap().contains("it was put back"), "{said:?}");
    plans.is(&json!({ "consecutive_clean": 1, "next_phase": "post-code-review" }));
}

/// One that was there before us stands, and the journal says whose it is.
#[test]
fn a_clean_count_that_was_there_before_is_taken_and_told() {
    let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
    let told = "Run plan/web begins with `consecutive_clean` as its document has it (1); Phasegate has not set it.";
    plans.first_stop("PASS").allows_saying(told);
    let lines = plans.scene.journal("plan/web");
    assert!(lines.iter().any(|line| line["notes"].to_string().contains(told)), "{lines:?}");
    // Of what is as a plan begins there is nothing to say.
    let plans = Plans::with(&due("code-review"));
    assert_eq!(plans.first_stop("FAIL").told(), None);
}

/// The specification lets the limit be changed in mid-plan. An edit is used and shown; one that makes it smaller is
/// the agent's way out as well as the user's, so that a person says what it was.
#[test]
fn an_edit_of_the_limit_is_used_and_shown() {
    let plans = Plans::with(&json!({ "next_phase": "all-code-review" }));
    plans.first_stop("FAIL").blocks("all-code-review-1.md");
    let edit = |limit: u64| {
        let mut state = plans.state();
        state["max_reviews"] = json!(limit);
        plans.set(&state);
    };
    edit(12);
    answer(&plans, "all-code", 1);
    let said = plans.stop_again("FAIL");
    said.blocks("all-code-review-2.md");
    assert!(said.told().unwrap().contains("`max_reviews` is 12 now; it was 8."), "{said:?}");
    assert!(!plans.scene.ok(&["status"]).contains("not by Phasegate"));
    edit(0);
    let said = plans.stop_again("FAIL");
    said.allows_saying("`max_reviews` was changed from 12 to 0, and not by Phasegate");
    said.allows_saying("does not count as done");
    assert_eq!(plans.calls().len(), 2);
    plans.is(&json!({ "max_reviews": 0, "next_phase": "complete" }));
    assert!(plans.scene.ok(&["status"]).contains("ended in phase complete"));
    plans.scene.ok_by_hand(&["accept", "plan/web", "--reason", "it is small"]);
    assert!(plans.scene.ok(&["status", "--all"]).contains("done in phase complete"));
}

#[test]
fn a_state_that_disappears_is_missed() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    plans.remove("state.json");
    plans
        .first_stop("FAIL")
        .allows_saying("its state document .taskie/plans/web/state.json is missing");
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
    let facts: Vec<_> = lines.iter().filter(|line| line["event"]["name"] == "job-ended").collect();
    let tree = |at: usize| facts[at]["event"]["params"]["tree"].as_str().unwrap();
    assert_eq!(facts.len(), 2);
    assert_ne!(tree(0), tree(1));
    // The second review followed from the answer on the disk; that was written down before it.
    assert!(lines.iter().any(|line| {
        line["event"]["name"] == "job-started" && line["moves"][0]["to"] == "code-review"
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

fn as_session(plans: &Plans, session: &str, args: &[&str]) -> crate::scene::Ran {
    let mut command = plans.scene.command();
    command.arg("plan").args(args).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", session);
    crate::scene::finish(plans.scene.spawn(command, b""))
}

#[test]
fn a_session_goes_from_one_plan_to_another() {
    let plans = Plans::with(&json!({}));
    plans.first_stop("FAIL").allows_saying("Plan web");
    // By a command of its own, and by a state that is written by hand.
    plans.scene.file(".taskie/plans/b/plan.md", "# B\n");
    plans.scene.file(".taskie/plans/b/tasks.md", super::TASKS);
    plans.make_old(".taskie/plans/b", 30);
    assert_eq!(as_session(&plans, "s1", &["create-tasks", "b"]).code, Some(0));
    plans.first_stop("FAIL").blocks("b/tasks-review-1.md");
    plans.scene.file(".taskie/plans/b/tasks-post-review-1.md", "done");
    as_session(&plans, "s1", &["stop-reviews", "b"]);
    let due = r#"{"phase":"new-plan","next_phase":"plan-review","phase_iteration":0}"#;
    plans.scene.file(".taskie/plans/c/plan.md", "# C\n").file(".taskie/plans/c/state.json", due);
    plans.first_stop("FAIL").blocks("c/plan-review-1.md");
}

#[test]
fn plans_that_nobody_has_touched_for_a_day_are_left_alone() {
    let plans = Plans::with(&due("plan-review"));
    plans.file("odd.md", "x");
    plans.make_old(DIR, 48);
    plans.first_stop("FAIL").allows();
    assert!(plans.calls().is_empty());
    // Whoever asks what comes next takes it up.
    assert!(as_session(&plans, "s1", &["next"]).stdout.contains("Next step: stop"));
    plans.first_stop("FAIL").blocks("plan-review-1.md");
    // Somebody else is told that it is not his.
    let ran = as_session(&plans, "s2", &["next", "web"]);
    assert!(ran.stderr.contains("belongs to another session"), "{ran:?}");
}

#[test]
fn empty_folders_and_ended_plans_hide_nothing() {
    let plans = Plans::with(&due("plan-review"));
    for number in 0..20 {
        std::fs::create_dir(plans.scene.path(&format!(".taskie/plans/empty-{number}"))).unwrap();
    }
    assert!(!plans.scene.ok(&["status"]).contains("empty-"));
    plans.first_stop("FAIL").blocks("web/plan-review-1.md");
    // A plan behind a link in the project is one, too.
    let plans = Plans::new();
    std::fs::rename(plans.scene.path(DIR), plans.scene.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../../elsewhere", plans.scene.path(DIR)).unwrap();
    plans.scene.file("elsewhere/odd.md", "x");
    plans.first_stop("FAIL").blocks("odd.md has no valid name");
}

#[test]
fn a_plan_that_the_agent_ends_by_hand_is_no_success() {
    for end in
        [json!({ "phase": "complete", "next_phase": null }), json!({ "next_phase": "complete" })]
    {
        let plans = Plans::with(&due("code-review"));
        plans.first_stop("FAIL").blocks("task-1-review-1.md");
        let mut state = plans.state();
        for (field, value) in end.as_object().unwrap() {
            state[field] = value.clone();
        }
        plans.set(&state);
        assert!(plans.scene.ok(&["status"]).contains("ended in phase complete"));
        // An action in between does not hide it.
        assert_eq!(plans.run(&["continue-task"]).code, Some(1));
        plans.stop_again("FAIL").allows_saying("moved to the final phase `complete`");
        assert!(plans.scene.ok(&["status"]).contains("ended in phase complete"));
        let line = plans.scene.journal("plan/web").pop().unwrap();
        assert_eq!(line["answer"]["outcome"], "aborted");
    }
}

/// The specification lets the user skip the review of all code so. That is an end, and not a success of the rules.
#[test]
fn a_plan_that_the_user_ends_by_hand_has_ended() {
    let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
    plans.file("tasks.md", "| Id | Status |\n|--|--|\n| 1 | done |\n");
    plans.first_stop("PASS").allows_saying("has all code reviewed together");
    let mut state = plans.state();
    state["phase"] = json!("complete");
    state["next_phase"] = json!(null);
    plans.set(&state);
    let said = plans.first_stop("FAIL");
    said.allows_saying("Run plan/web has ended in phase complete.");
    assert!(!said.told().unwrap().contains("is done"), "{said:?}");
    assert!(plans.scene.ok(&["status"]).contains("ended in phase complete"));
    assert_eq!(plans.calls().len(), 1);
}

/// The last review may take longer than the client waits: it goes on, and what it ends is told.
#[test]
fn a_plan_whose_last_review_was_slow_is_done() {
    let plans = Plans::with(&json!({ "next_phase": "all-code-review", "consecutive_clean": 1 }));
    let slow = [
        ("MOCK_CLAUDE_VERDICT", "PASS"),
        ("MOCK_CLAUDE_DELAY", "4"),
        ("PHASEGATE_HOOK_SECONDS", "2"),
    ];
    plans
        .hook(&plans.scene.payload().to_string(), &slow)
        .allows_saying("goes on in the background");
    let since = std::time::Instant::now();
    while plans.state()["next_phase"] != "complete" {
        assert!(since.elapsed().as_secs() < 30, "the review has been lost");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(plans.scene.ok(&["status", "--all"]).contains("done in phase complete"));
    plans.first_stop("FAIL").allows_saying("Run plan/web is done.");
    plans.first_stop("FAIL").allows();
}

#[test]
fn a_verdict_counts_for_what_was_reviewed() {
    let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
    plans.file("task-2.md", "- [x] it");
    let mut command = plans.scene.command();
    command
        .args(["hook", "stop"])
        .envs(plans.environment(&[("MOCK_CLAUDE_VERDICT", "PASS"), ("MOCK_CLAUDE_DELAY", "2")]));
    let stop = plans.scene.spawn(command, plans.scene.payload().to_string().as_bytes());
    while plans.calls().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    plans.ok(&["complete-task", "web", "--task", "2"]);
    let ran = crate::scene::finish(stop);
    assert!(ran.stdout.contains("changed in the meantime"), "{ran:?}");
    plans.is(&json!({ "current_task": "2", "phase_iteration": 0, "consecutive_clean": 0 }));
    plans.scene.ok(&["log", "--verify"]);
}

#[test]
fn two_plans_that_are_reviewed_at_once_keep_their_verdicts() {
    let plans = Plans::with(&due("plan-review"));
    plans.scene.file(".taskie/plans/api/plan.md", "# Api\n");
    plans
        .scene
        .file(".taskie/plans/api/state.json", r#"{"phase":"new-plan","next_phase":"plan-review"}"#);
    for (session, plan) in [("a", "web"), ("b", "api")] {
        assert_eq!(as_session(&plans, session, &["next", plan]).code, Some(0));
    }
    let stop = |session: &str, verdict: &str| {
        let mut payload = plans.scene.payload();
        payload["session_id"] = json!(session);
        let mut command = plans.scene.command();
        let slow = [("MOCK_CLAUDE_VERDICT", verdict), ("MOCK_CLAUDE_DELAY", "1")];
        command.args(["hook", "stop"]).envs(plans.environment(&slow));
        plans.scene.spawn(command, payload.to_string().as_bytes())
    };
    let both = [stop("a", "FAIL"), stop("b", "PASS")];
    for child in both {
        let ran = crate::scene::finish(child);
        assert!(ran.stdout.contains("\"block\""), "{ran:?}");
    }
    plans.is(&json!({ "consecutive_clean": 0, "phase_iteration": 1 }));
    assert_eq!(plans.scene.json(".taskie/plans/api/state.json")["consecutive_clean"], 1);
}

#[test]
fn a_kill_during_a_review_loses_nothing() {
    let plans = Plans::with(
        &json!({ "phase": "code-review", "next_phase": "post-code-review", "phase_iteration": 1 }),
    );
    plans.file("task-1-review-1.md", "x").file("task-1-post-review-1.md", "x");
    let mut command = plans.scene.command();
    command.args(["hook", "stop"]).envs(plans.environment(&[("MOCK_CLAUDE_DELAY", "60")]));
    let mut stop = plans.scene.spawn(command, plans.scene.payload().to_string().as_bytes());
    while plans.calls().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // That the review was answered is kept already.
    plans.is(
        &json!({ "phase": "post-code-review", "next_phase": "code-review", "phase_iteration": 1 }),
    );
    stop.kill().unwrap();
    stop.wait().unwrap();
    plans.first_stop("FAIL").blocks("task-1-review-2.md");
    plans.is(&json!({ "phase_iteration": 2 }));
    plans.scene.ok(&["log", "--verify"]);
}

#[test]
fn an_answer_from_before_its_review_is_none() {
    let plans = Plans::with(&due("plan-review"));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    for number in 1..=5 {
        let name = format!("plan-post-review-{number}.md");
        plans.file(&name, "left over");
        let file = std::fs::File::open(plans.scene.path(&format!("{DIR}/{name}"))).unwrap();
        file.set_modified(old).unwrap();
    }
    plans.first_stop("PASS").blocks("plan-review-1.md");
    plans.first_stop("PASS").blocks("plan-review-1.md");
    assert_eq!(plans.calls().len(), 1);
}

#[test]
fn nothing_is_reviewed_while_background_work_goes_on() {
    let plans = Plans::with(&due("plan-review"));
    let mut payload = plans.scene.payload();
    payload["background_tasks"] = json!([{ "status": "running" }]);
    plans.hook(&payload.to_string(), &[]).allows_saying("background work");
    assert!(plans.calls().is_empty());
    plans.is(&json!({ "phase_iteration": 0 }));
}

#[test]
fn a_worktree_of_ones_own_has_its_own_plans() {
    let plans = Plans::with(&due("plan-review"));
    for args in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-qm", "x"]] {
        plans.scene.git(args);
    }
    plans.scene.git(&["worktree", "add", "-q", "-b", "feature", ".claude/worktrees/feature"]);
    let root = plans.scene.path(".claude/worktrees/feature");
    let payload = json!({ "session_id": "s1", "cwd": root, "stop_hook_active": false });
    // What came with the checkout is nobody's plan yet, and no reviewer is paid for it.
    plans.hook(&payload.to_string(), &[]).allows();
    assert!(plans.calls().is_empty());
    std::fs::write(root.join(DIR).join("plan.md"), "# Another plan\n").unwrap();
    plans.hook(&payload.to_string(), &[]).blocks("plan-review-1.md");
    assert!(root.join(DIR).join("plan-review-1.md").exists());
    assert!(!plans.has("plan-review-1.md"));
}

#[test]
fn our_files_are_not_the_users() {
    let plans = Plans::with(&due("plan-review"));
    plans.scene.git(&["init", "-q"]);
    plans.stop();
    let status = plans.scene.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains(".phasegate/"), "{status}");
}

#[test]
fn a_state_that_is_broken_for_a_moment_is_no_tampering() {
    let plans = Plans::with(&json!({ "next_phase": null, "consecutive_clean": 1 }));
    plans.first_stop("FAIL").allows_saying("validated");
    let state = plans.scene.read(&format!("{DIR}/state.json"));
    plans.file("state.json", &state[..20]);
    plans.first_stop("FAIL").allows_saying("Warning");
    plans.file("state.json", &state);
    let said = plans.first_stop("FAIL");
    assert!(!said.json.to_string().contains("was changed from"), "{said:?}");
}

#[test]
fn a_plan_may_be_called_ended() {
    let plans = Plans::with(&json!({ "phase": "complete", "next_phase": null }));
    plans.stop().allows();
    plans.scene.file(".taskie/plans/ended/plan.md", "# Ended\n");
    plans.stop().allows_saying("Plan ended: structure validated");
    plans.stop().allows_saying("Plan ended: structure validated");
}

#[test]
fn of_many_sessions_that_ask_at_once_one_gets_the_plan() {
    let plans = Plans::with(&due("plan-review"));
    let ask = |session: &str| {
        let mut command = plans.scene.command();
        command.args(["plan", "next", "web"]).env("CLAUDE_CODE_SESSION_ID", session);
        plans.scene.spawn(command, b"")
    };
    let children: Vec<_> = (0..8).map(|number| ask(&format!("s{number}"))).collect();
    let told = children.into_iter().map(crate::scene::finish);
    let told = told.filter(|ran| ran.stderr.contains("belongs to another session"));
    assert_eq!(told.count(), 7);
}
