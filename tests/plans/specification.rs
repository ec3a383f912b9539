//! The tests of the specification, under their suites and numbers. Where the real client or the rules
//! of the gate differ from it, the test says so.

use serde_json::{Value, json};

use super::{DIR, Plans, due};

/// Rule by rule, what a plan's folder must look like.
mod suite_1_validation {
    use super::*;

    #[test]
    fn t01_no_outside_program_is_needed() {
        let plans = Plans::new();
        let nothing = plans.scene.path("empty").display().to_string();
        plans.stop_with(&[("PATH", &nothing)]).allows_saying("validated");
    }

    /// Exit 2 would hold the agent: a failure of our own allows the stop, loudly.
    #[test]
    fn t02_invalid_json_input() {
        Plans::new().hook("invalid json", &[]).allows_saying("the payload is not a JSON object");
    }

    #[test]
    fn t03_invalid_directory() {
        let said = Plans::new().hook(r#"{"cwd": "/nonexistent"}"#, &[]);
        said.allows_saying("/nonexistent");
    }

    #[test]
    fn t04_stop_hook_active_of_another_hook() {
        let plans = Plans::with(&due("plan-review"));
        let payload = json!({ "cwd": plans.scene.root(), "stop_hook_active": true });
        plans
            .hook(&payload.to_string(), &[])
            .allows_saying("another hook has already told the agent to go on");
        assert!(plans.calls().is_empty());
    }

    #[test]
    fn t05_no_plans() {
        let plans = Plans::new();
        std::fs::remove_dir_all(plans.scene.path(".taskie")).unwrap();
        plans.stop().allows();
    }

    #[test]
    fn t06_valid_structure() {
        Plans::new().stop().allows_saying("structure validated");
    }

    /// All violations come together.
    #[test]
    fn t07_missing_plan_and_invalid_name() {
        let plans = Plans::new();
        plans.remove("plan.md").file("invalid-file.md", "x");
        let said = plans.stop();
        said.blocks("plan.md is missing");
        said.blocks("invalid-file.md has no valid name");
    }

    #[test]
    fn t08_nested_directories() {
        let plans = Plans::new();
        plans.file("nested/extra.md", "x");
        plans.stop().blocks("nested/extra.md is nested");
    }

    #[test]
    fn t09_review_without_base() {
        let plans = Plans::new();
        plans.file("design-review-1.md", "x");
        plans.stop().blocks("a review of design.md");
    }

    #[test]
    fn t10_post_review_without_review() {
        let plans = Plans::new();
        plans.file("plan-post-review-1.md", "x");
        plans.stop().blocks("plan-post-review-1.md answers a review that does not exist");
    }

    #[test]
    fn t11_task_files_without_tasks() {
        let plans = Plans::new();
        plans.remove("tasks.md");
        plans.stop().blocks("There are task files (task-1), but no");
    }

    #[test]
    fn t12_tasks_with_prose() {
        let plans = Plans::new();
        plans.file("tasks.md", "First we do this.\n");
        plans.stop().blocks("non-table content");
    }

    #[test]
    fn t13_empty_tasks() {
        let plans = Plans::new();
        plans.file("tasks.md", "");
        plans.stop().blocks("no table rows");
    }

    #[test]
    fn t14_the_state_is_no_misnamed_file() {
        Plans::with(&json!({})).stop().allows_saying("validated");
    }

    #[test]
    fn t15_a_state_that_is_no_json_warns() {
        let plans = Plans::new();
        plans.file("state.json", "\"not valid json");
        let said = plans.stop();
        said.allows_saying("validated. Warning: ");
        said.allows_saying("not valid JSON");
        assert_eq!(plans.scene.read(&format!("{DIR}/state.json")), "\"not valid json");
    }

    #[test]
    fn t16_a_state_without_required_fields_warns() {
        let plans = Plans::new();
        plans.file("state.json", r#"{"phase": "new-plan"}"#);
        plans
            .stop()
            .allows_saying("lacks next_phase, review_model, max_reviews, consecutive_clean, tdd");
    }

    #[test]
    fn t17_a_whole_state_does_not_warn() {
        let said = Plans::with(&json!({})).stop();
        said.allows_saying("validated");
        assert!(!said.json.to_string().contains("Warning"), "{said:?}");
    }
}

/// When a review is made, and when not.
mod suite_2_auto_review {
    use super::*;

    #[test]
    fn t01_code_review() {
        let plans = Plans::with(&due("code-review"));
        plans.stop().blocks("task-1-review-1.md");
        assert_eq!(plans.calls().len(), 1);
    }

    #[test]
    fn t02_plan_review() {
        let plans = Plans::with(
            &json!({ "phase": "new-plan", "next_phase": "plan-review", "current_task": null }),
        );
        plans.stop().blocks("plan-review-1.md");
        assert_eq!(plans.calls().len(), 1);
    }

    #[test]
    fn t03_tasks_review() {
        let plans = Plans::with(
            &json!({ "phase": "create-tasks", "next_phase": "tasks-review", "current_task": null }),
        );
        plans.stop().blocks("tasks-review-1.md");
        assert_eq!(plans.calls().len(), 1);
    }

    #[track_caller]
    fn makes_no_review(state: &Value) -> Plans {
        let plans = Plans::with(state);
        plans.stop().allows_saying("Plan web");
        assert!(plans.calls().is_empty());
        plans.is(state);
        plans
    }

    #[test]
    fn t04_nothing_comes_next() {
        makes_no_review(&json!({ "phase": "next-task", "next_phase": null }));
    }

    /// By default the agent is sent back to the review, or it is made again where it is gone.
    #[test]
    fn t05_a_post_review_comes_next() {
        let plans =
            Plans::with(&json!({ "phase": "code-review", "next_phase": "post-code-review" }));
        let letter = "[workflow.plan.const]\nINSIST = false\n";
        plans.scene.file(".phasegate/config.toml", letter);
        plans.stop().allows_saying("validated");
        plans.file("task-1-review-1.md", "x");
        plans.stop().allows_saying("validated");
        assert!(plans.calls().is_empty());
        // The review that was just made is handed over all the same.
        plans.set(&due("code-review"));
        let all = ("PHASEGATE_TRUST_ALL", "1");
        plans.stop_with(&[("MOCK_CLAUDE_VERDICT", "FAIL"), all]).blocks("task-1-review-2.md");
        plans.stop_with(&[all]).allows_saying("found issues and was not answered");
    }

    #[test]
    fn t06_hard_stop_at_the_limit() {
        let plans = makes_no_review(
            &json!({ "phase": "post-code-review", "next_phase": "code-review", "phase_iteration": 8 }),
        );
        plans.stop().allows_saying("decide what to do");
    }

    #[test]
    fn t07_hard_stop_at_a_limit_of_ones_own() {
        makes_no_review(
            &json!({ "next_phase": "code-review", "phase_iteration": 3, "max_reviews": 3 }),
        );
    }

    #[test]
    fn t08_no_state() {
        let plans = Plans::new();
        plans.stop().allows_saying("validated");
        assert!(plans.calls().is_empty() && !plans.has("state.json"));
    }

    #[test]
    fn t09_a_malformed_state() {
        let plans = Plans::new();
        plans.file("state.json", "not json");
        plans.stop().allows_saying("Warning");
        assert!(plans.calls().is_empty());
    }

    #[test]
    fn t10_the_next_task_comes_next() {
        makes_no_review(&json!({ "phase": "post-code-review", "next_phase": "complete-task" }));
    }

    #[test]
    fn t11_tasks_come_next() {
        makes_no_review(&json!({ "phase": "post-plan-review", "next_phase": "create-tasks" }));
    }

    #[test]
    fn t12_review_of_all_code() {
        let plans =
            Plans::with(&json!({ "phase": "post-code-review", "next_phase": "all-code-review" }));
        plans.stop().blocks("all-code-review-1.md");
    }

    #[test]
    fn t13_one_clean_review_is_not_enough() {
        let plans = Plans::with(&due("code-review"));
        plans.stop_as("PASS").blocks("perform the post-code-review action");
        plans.is(&json!({ "consecutive_clean": 1 }));
    }

    #[test]
    fn t14_two_clean_reviews_in_a_row_advance() {
        let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
        plans.stop_as("PASS").allows_saying("task 1: two reviews in a row are clean");
        plans.is(&json!({ "next_phase": "complete-task", "consecutive_clean": 2 }));
    }

    #[test]
    fn t15_a_dirty_review_counts_anew() {
        let plans = Plans::with(&json!({ "next_phase": "code-review", "consecutive_clean": 1 }));
        plans.stop_as("FAIL").blocks("perform the post-code-review action");
        plans.is(&json!({ "consecutive_clean": 0 }));
    }
}

/// What a review makes of the state.
mod suite_3_state_transitions {
    use super::*;

    #[track_caller]
    fn becomes(before: &Value, verdict: &str, after: &Value) -> Plans {
        let plans = Plans::with(before);
        plans.file("task-3.md", "# Three\n\n- [x] it\n");
        plans.stop_as(verdict);
        assert_eq!(plans.calls().len(), 1, "a review is made");
        plans.is(after);
        plans
    }

    #[test]
    fn t01_code_review() {
        becomes(
            &json!({ "phase": "next-task", "next_phase": "code-review", "current_task": "1" }),
            "FAIL",
            &json!({ "phase": "code-review", "next_phase": "post-code-review", "phase_iteration": 1, "review_model": "sonnet", "current_task": "1", "consecutive_clean": 0 }),
        );
    }

    #[test]
    fn t02_plan_review() {
        becomes(
            &json!({ "phase": "new-plan", "next_phase": "plan-review", "current_task": null }),
            "FAIL",
            &json!({ "phase": "plan-review", "next_phase": "post-plan-review", "phase_iteration": 1, "review_model": "sonnet", "current_task": null, "consecutive_clean": 0 }),
        );
    }

    #[test]
    fn t03_tasks_review() {
        becomes(
            &json!({ "phase": "create-tasks", "next_phase": "tasks-review" }),
            "FAIL",
            &json!({ "phase": "tasks-review", "next_phase": "post-tasks-review", "phase_iteration": 1, "review_model": "sonnet", "consecutive_clean": 0 }),
        );
    }

    #[test]
    fn t04_sonnet_follows_opus() {
        becomes(
            &due("code-review"),
            "FAIL",
            &json!({ "review_model": "sonnet", "phase_iteration": 1 }),
        );
    }

    #[test]
    fn t05_opus_follows_sonnet() {
        becomes(
            &json!({ "review_model": "sonnet", "phase_iteration": 1, "next_phase": "code-review" }),
            "FAIL",
            &json!({ "review_model": "opus", "phase_iteration": 2 }),
        );
    }

    #[test]
    fn t06_iterations_are_counted() {
        becomes(
            &json!({ "phase_iteration": 4, "next_phase": "code-review" }),
            "FAIL",
            &json!({ "phase_iteration": 5 }),
        );
    }

    #[test]
    fn t07_the_limit_stays() {
        becomes(
            &json!({ "max_reviews": 5, "next_phase": "code-review" }),
            "FAIL",
            &json!({ "max_reviews": 5 }),
        );
    }

    #[test]
    fn t08_the_task_stays() {
        becomes(
            &json!({ "current_task": "3", "next_phase": "code-review" }),
            "FAIL",
            &json!({ "current_task": "3" }),
        );
    }

    #[test]
    fn t09_a_clean_review_is_counted() {
        becomes(&due("code-review"), "PASS", &json!({ "consecutive_clean": 1 }));
    }

    #[test]
    fn t10_one_with_issues_ends_the_count() {
        becomes(
            &json!({ "consecutive_clean": 1, "next_phase": "code-review" }),
            "FAIL",
            &json!({ "consecutive_clean": 0 }),
        );
    }

    #[test]
    fn t11_two_clean_code_reviews_lead_to_the_next_task() {
        for (tdd, next) in [(false, "complete-task"), (true, "complete-task-tdd")] {
            becomes(
                &json!({ "consecutive_clean": 1, "next_phase": "code-review", "tdd": tdd }),
                "PASS",
                &json!({ "next_phase": next, "phase": "code-review" }),
            );
        }
    }

    #[test]
    fn t12_two_clean_plan_reviews_lead_to_the_tasks() {
        becomes(
            &json!({ "consecutive_clean": 1, "next_phase": "plan-review" }),
            "PASS",
            &json!({ "next_phase": "create-tasks" }),
        );
    }

    #[test]
    fn t13_two_clean_tasks_reviews_lead_to_the_first_task() {
        for (tdd, next) in [(false, "complete-task"), (true, "complete-task-tdd")] {
            becomes(
                &json!({ "consecutive_clean": 1, "next_phase": "tasks-review", "tdd": tdd }),
                "PASS",
                &json!({ "next_phase": next }),
            );
        }
    }

    #[test]
    fn t14_two_clean_reviews_of_all_code_lead_to_the_end() {
        let plans = becomes(
            &json!({ "consecutive_clean": 1, "next_phase": "all-code-review" }),
            "PASS",
            &json!({ "next_phase": "complete" }),
        );
        plans.stop().allows();
    }

    #[test]
    fn t15_an_advance_writes_all_fields() {
        becomes(
            &json!({ "consecutive_clean": 1, "phase_iteration": 3, "review_model": "opus", "next_phase": "code-review" }),
            "PASS",
            &json!({ "phase_iteration": 4, "review_model": "sonnet", "consecutive_clean": 2 }),
        );
    }

    #[test]
    fn t16_the_state_stays_whole() {
        let plans = Plans::new();
        plans.file("state.json", r#"{"next_phase": "plan-review"}"#);
        plans.stop().blocks("plan-review-1.md");
        let state = plans.state();
        let fields: Vec<&String> = state.as_object().unwrap().keys().collect();
        assert_eq!(fields.len(), 8, "{state}");
        plans.is(&json!({ "max_reviews": 8, "tdd": false, "review_model": "sonnet" }));
    }
}

/// How the reviewer is called.
mod suite_4_cli_invocation {
    use super::*;

    #[track_caller]
    fn called_with(state: &Value, parts: &[&str]) {
        let plans = Plans::with(state);
        plans.stop();
        let calls = plans.calls();
        assert_eq!(calls.len(), 1);
        for part in parts {
            assert!(calls[0].contains(part), "{part} is not in {}", calls[0]);
        }
    }

    #[track_caller]
    fn told(state: &Value, parts: &[&str]) {
        let plans = Plans::with(state);
        plans.stop();
        let prompt = plans.prompt();
        for part in parts {
            assert!(prompt.contains(part), "{part} is not in {prompt}");
        }
    }

    #[test]
    fn t01_model_opus() {
        called_with(&due("code-review"), &["--model opus"]);
    }

    #[test]
    fn t02_model_sonnet() {
        called_with(
            &json!({ "next_phase": "code-review", "review_model": "sonnet" }),
            &["--model sonnet"],
        );
    }

    #[test]
    fn t03_permissions() {
        let plans = Plans::with(&due("plan-review"));
        plans.scene.file(".phasegate/config.toml", "[workflow.plan]\nrights = \"all\"\n");
        // Such rights need consent.
        plans.stop().allows_saying("you have not consented to that");
        assert!(plans.calls().is_empty());
        let ran = plans.scene.by_hand_with(&["trust", "plan", "--yes"], &[("IS_SANDBOX", "1")]);
        assert!(ran.stdout.contains("--dangerously-skip-permissions"), "{ran:?}");
        plans.stop();
        assert!(plans.calls()[0].contains("--dangerously-skip-permissions"), "{:?}", plans.calls());
    }

    /// What the specification's flags give is given only where somebody wants it.
    #[test]
    fn a_reviewer_has_the_rights_that_it_needs() {
        let plans = Plans::with(&due("plan-review"));
        plans.stop();
        let called = plans.calls().remove(0);
        assert!(!called.contains("dangerously"), "{called}");
        let root = plans.scene.root().canonicalize().unwrap();
        let file = format!("Edit(/{}/", root.display());
        for part in ["--permission-mode dontAsk", "Bash(git diff:*)", "Read,", &file] {
            assert!(called.contains(part), "{part} is not in {called}");
        }
    }

    #[test]
    fn t04_print() {
        called_with(&due("plan-review"), &["--print", "disableAllHooks"]);
    }

    /// The prompt goes in on stdin.
    #[test]
    fn t05_prompt_of_a_code_review() {
        told(
            &json!({ "next_phase": "code-review", "current_task": "1" }),
            &["task-1.md", "task-1-review-1.md", "plan.md"],
        );
    }

    #[test]
    fn t06_prompt_of_a_plan_review() {
        told(&due("plan-review"), &["plan.md", "plan-review-1.md", "Be very critical"]);
    }

    #[test]
    fn t07_prompt_of_a_tasks_review() {
        told(
            &due("tasks-review"),
            &[
                "tasks.md",
                "tasks-review-1.md",
                "web/task-1.md .taskie/plans/web/task-2.md .taskie/plans/web/task-3.md",
            ],
        );
    }

    #[test]
    fn t08_prompt_of_a_review_of_all_code() {
        told(
            &due("all-code-review"),
            &["all-code-review", "all-code-review-1.md", "web/task-3.md"],
        );
    }

    #[test]
    fn t09_the_review_is_where_it_belongs() {
        let plans = Plans::with(
            &json!({ "next_phase": "code-review", "current_task": "2", "phase_iteration": 2 }),
        );
        plans.file("task-2.md", "x").stop();
        assert!(plans.has("task-2-review-3.md"));
    }

    #[track_caller]
    fn fails(environment: &[(&str, &str)], why: &str) {
        let plans = Plans::with(&due("code-review"));
        let mut before = plans.state();
        // A review that was begun counts.
        let begun = environment.iter().all(|(name, _)| *name != "PATH");
        before["phase_iteration"] = json!(u8::from(begun));
        plans.stop_with(environment).allows_saying(why);
        assert_eq!(plans.state(), before);
        // The folder is looked at all the same.
        plans.file("bogus.md", "x");
        plans.stop_with(environment).blocks("bogus.md has no valid name");
    }

    #[test]
    fn t10_no_client() {
        let nothing = Plans::new().scene.path("empty").display().to_string();
        fails(&[("PATH", &nothing)], "cannot run claude");
    }

    #[test]
    fn t11_the_client_fails() {
        fails(&[("MOCK_CLAUDE_EXIT_CODE", "1")], "exit code 1");
    }

    #[test]
    fn t12_the_client_writes_no_review() {
        fails(&[("MOCK_CLAUDE_NO_FILE", "1")], "wrote no .taskie/plans/web/task-1-review-1.md");
    }

    #[test]
    fn t13_the_client_takes_too_long() {
        let plans = super::super::trouble::ejected("timeout = \"9m\"", "timeout = \"1s\"");
        plans.set(&due("code-review"));
        let mut before = plans.state();
        before["phase_iteration"] = json!(1);
        let slow = [("MOCK_CLAUDE_DELAY", "5"), ("PHASEGATE_TRUST_ALL", "1")];
        plans.stop_with(&slow).allows_saying("it took longer than 1 second");
        assert_eq!(plans.state(), before);
        plans.file("bogus.md", "x");
        plans.stop_with(&slow).blocks("bogus.md has no valid name");
    }

    #[test]
    fn t14_structured_output() {
        let schema = r#"--json-schema {"type":"object","properties":{"verdict":{"type":"string","enum":["PASS","FAIL"]}},"required":["verdict"]}"#;
        called_with(&due("plan-review"), &["--output-format json", schema]);
    }

    /// Each review begins with what is there, and with nothing that an earlier one has said.
    #[test]
    fn a_review_begins_with_a_clean_slate() {
        called_with(&due("code-review"), &["--no-session-persistence"]);
        told(&due("code-review"), &["Begin with a clean slate: read no earlier review"]);
    }

    /// What the client printed on its way is there after a failure, named, and not in the plan's folder.
    #[test]
    fn the_log_of_a_review_that_failed_is_kept_and_named() {
        let plans = Plans::with(&due("code-review"));
        let said = plans.stop_with(&[("MOCK_CLAUDE_EXIT_CODE", "1")]).told().unwrap();
        let log = said.split("see ").nth(1).unwrap().split([' ', ')', ';', ',']).next().unwrap();
        assert!(log.starts_with(".phasegate/jobs/"), "{said}");
        assert!(plans.scene.exists(log.trim_end_matches('.')), "{said}");
    }
}

/// What a block says.
mod suite_5_block_messages {
    use super::*;

    #[track_caller]
    fn says(state: &Value, parts: &[&str]) {
        let said = Plans::with(state).stop();
        for part in parts {
            said.blocks(part);
        }
    }

    #[test]
    fn t01_code_review() {
        says(
            &json!({ "next_phase": "code-review", "current_task": "1", "phase_iteration": 2 }),
            &["task-1-review-3.md", "post-code-review", "state.json", "(iteration 3)"],
        );
    }

    #[test]
    fn t02_plan_review() {
        says(&due("plan-review"), &["plan-review-1.md", "post-plan-review", "plan.md"]);
    }

    #[test]
    fn t03_tasks_review() {
        says(
            &json!({ "next_phase": "tasks-review", "phase_iteration": 1 }),
            &["tasks-review-2.md", "post-tasks-review", "tasks.md"],
        );
    }

    #[test]
    fn t04_review_of_all_code() {
        says(&due("all-code-review"), &["all-code-review-1.md", "post-all-code-review"]);
    }

    #[test]
    fn t05_the_folder_of_the_plan() {
        says(&due("plan-review"), &[".taskie/plans/web/"]);
    }

    /// Word for word what the specification says.
    #[test]
    fn t06_one_json_object() {
        let said = Plans::with(&due("code-review")).stop();
        assert_eq!(said.json["decision"], "block");
        assert_eq!(
            said.json["reason"],
            "A code review (iteration 1) has been written to .taskie/plans/web/task-1-review-1.md by an \
             independent reviewer. Read this review file and perform the post-code-review action: address \
             all issues, update the code, then create .taskie/plans/web/task-1-post-review-1.md documenting \
             your fixes. AFTER completing all post-review work and writing the post-review file, update \
             state.json atomically (read current file, modify only phase and next_phase, write complete JSON \
             back): set phase to \"post-code-review\", set next_phase to \"code-review\". Keep all other \
             fields (max_reviews, current_task, phase_iteration, review_model, consecutive_clean) unchanged. \
             Write via temp file then mv to prevent corruption. Update tasks.md and push to remote. (To stop \
             the review loop, set next_phase to null in state.json.)"
        );
    }
}

/// Edges, and all of it together.
mod suite_6_edge_cases {
    use super::*;

    #[test]
    fn t01_of_several_plans_the_latest() {
        let plans = Plans::with(&due("plan-review"));
        plans.make_old(DIR, 1);
        plans.scene.file(".taskie/plans/another/plan.md", "# Another\n");
        let said = plans.stop();
        said.allows_saying("Plan another: structure validated");
        assert!(plans.calls().is_empty(), "{said:?}");
    }

    #[test]
    fn t02_unknown_fields_stay() {
        let plans = Plans::with(&json!({ "next_phase": "code-review", "custom_field": 42 }));
        plans.stop().blocks("task-1-review-1.md");
        plans.is(&json!({ "custom_field": 42 }));
    }

    #[test]
    fn t03_no_iteration() {
        let plans = Plans::with(&json!({ "phase_iteration": null, "next_phase": null }));
        plans.stop().allows_saying("validated");
        assert!(plans.calls().is_empty());
    }

    #[test]
    fn t04_an_unexpected_model() {
        let plans = Plans::with(&json!({ "next_phase": "code-review", "review_model": "haiku" }));
        plans.stop();
        assert_eq!(plans.models(), ["haiku"]);
    }

    #[test]
    fn t05_a_state_without_a_plan() {
        for next in [json!(null), json!("plan-review")] {
            let plans = Plans::with(&json!({ "phase": "new-plan", "next_phase": next }));
            plans.remove("plan.md").remove("tasks.md").remove("task-1.md");
            plans.stop().blocks("plan.md is missing");
            assert!(plans.calls().is_empty());
        }
    }

    #[test]
    fn t06_a_review_comes_before_validation() {
        let plans = Plans::with(&due("code-review"));
        plans.file("nested/extra.md", "x");
        plans.stop().blocks("task-1-review-1.md");
        plans.set(&json!({ "next_phase": null }));
        plans.stop().blocks("nested");
    }

    #[test]
    fn t07_no_plan_at_all() {
        let plans = Plans::new();
        std::fs::remove_dir_all(plans.scene.path(DIR)).unwrap();
        plans.stop().allows();
        // An empty folder is none either.
        std::fs::create_dir(plans.scene.path(DIR)).unwrap();
        plans.stop().allows();
    }

    #[test]
    fn t08_no_reviews_are_wanted() {
        let plans = Plans::with(&json!({ "max_reviews": 0, "next_phase": "code-review" }));
        plans.stop().allows_saying("no reviews are wanted");
        assert!(plans.calls().is_empty());
        plans.is(
            &json!({ "phase": "code-review", "next_phase": "complete-task", "phase_iteration": 0 }),
        );
        // Nothing is pending in the next stop.
        plans.stop().allows_saying("validated");
    }

    #[test]
    fn t09_a_plan_of_before_there_was_a_state() {
        let plans = Plans::new();
        plans.stop().allows_saying("validated");
        assert!(plans.calls().is_empty());
    }

    #[test]
    fn t10_models_alternate() {
        let plans = Plans::with(&due("code-review"));
        for (number, next) in (1..).zip(["sonnet", "opus", "sonnet", "opus"]) {
            plans.stop().blocks(&format!("task-1-review-{number}.md"));
            plans.is(&json!({ "review_model": next, "phase_iteration": number }));
            // As the agent was told: the answer, and the two fields.
            plans.file(&format!("task-1-post-review-{number}.md"), "fixed");
            let mut state = plans.state();
            state["phase"] = json!("post-code-review");
            state["next_phase"] = json!("code-review");
            plans.set(&state);
        }
        assert_eq!(plans.models(), ["opus", "sonnet", "opus", "sonnet"]);
    }

    #[test]
    fn t11_two_clean_reviews_in_two_stops() {
        let plans = Plans::with(&due("code-review"));
        plans.stop_as("PASS").blocks("task-1-review-1.md");
        plans.file("task-1-post-review-1.md", "nothing to do");
        plans.stop_as("PASS").allows_saying("two reviews in a row are clean");
        plans.is(&json!({ "next_phase": "complete-task", "consecutive_clean": 2 }));
    }

    #[test]
    fn t12_nothing_is_left_behind() {
        let plans = Plans::with(&due("code-review"));
        plans.stop();
        let names = std::fs::read_dir(plans.scene.path(DIR)).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["plan.md", "state.json", "task-1-review-1.md", "task-1.md", "tasks.md"]);
    }
}
