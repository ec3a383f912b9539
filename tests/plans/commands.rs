//! The commands of the workflow, and those of the plugin that lead to them.

use serde_json::{Value, json};

use super::{DIR, Plans, due};

/// All commands of the specification.
const STEPS: &[&str] = &[
    "new-plan",
    "plan-review",
    "post-plan-review",
    "create-tasks",
    "tasks-review",
    "post-tasks-review",
    "next-task",
    "next-task-tdd",
    "complete-task",
    "complete-task-tdd",
    "continue-task",
    "continue-plan",
    "code-review",
    "post-code-review",
    "all-code-review",
    "post-all-code-review",
    "add-task",
];

#[track_caller]
fn routes(plans: &Plans, state: &Value, expected: &str) {
    plans.set(state);
    let route: Value = serde_json::from_str(&plans.ok(&["next", "--json"])).unwrap();
    assert_eq!(route["route"], expected, "{state}");
    let told = plans.ok(&["next"]);
    assert!(told.contains("Plan web: .taskie/plans/web/state.json says phase"), "{told}");
}

/// Each row of the specification's routing.
#[test]
fn what_comes_next_is_told() {
    let plans = Plans::new();
    let next = |phase: &str, next: &str| json!({ "phase": phase, "next_phase": next });
    for review in ["plan-review", "tasks-review", "code-review", "all-code-review"] {
        let post = format!("post-{review}");
        // There is nothing to answer where the review is gone: it is made again.
        routes(&plans, &next(review, &post), "stop");
        let base = review.replace("code-review", "task-1-review").replace("all-task-1", "all-code");
        plans.file(&format!("{base}-1.md"), "x");
        routes(&plans, &next(review, &post), &post);
        routes(&plans, &next(&post, review), "stop");
    }
    // Where the work before a review was interrupted, it goes on.
    plans.file("task-1.md", "- [x] one\n- [ ] two\n");
    routes(&plans, &next("complete-task", "code-review"), "continue-task");
    routes(&plans, &next("complete-task", "all-code-review"), "continue-task");
    plans.file("task-1.md", "- [x] one\n- [x] two\n\n```\n- [ ] an example\n```\n");
    routes(&plans, &next("complete-task", "code-review"), "stop");
    plans.file("task-1.md", "## Subtask 1.1\n\n- **Status:** in progress\n");
    routes(&plans, &next("complete-task", "code-review"), "continue-task");
    routes(&plans, &next("new-plan", "plan-review"), "stop");
    plans.file("plan.md", "# Half a plan\n");
    routes(&plans, &next("new-plan", "plan-review"), "new-plan");
    plans.file("plan.md", &"a line\n".repeat(51));
    routes(&plans, &next("new-plan", "plan-review"), "stop");
    routes(&plans, &next("create-tasks", "tasks-review"), "stop");
    plans.file("tasks.md", "| Id | Status |\n|--|--|\n");
    routes(&plans, &next("create-tasks", "tasks-review"), "create-tasks");
    for step in ["complete-task", "complete-task-tdd", "create-tasks"] {
        routes(&plans, &next("code-review", step), step);
    }
    routes(&plans, &next("all-code-review", "complete"), "complete");
    for phase in
        ["continue-task", "next-task", "next-task-tdd", "complete-task", "complete-task-tdd"]
    {
        routes(&plans, &json!({ "phase": phase, "next_phase": null }), "continue-task");
    }
    routes(&plans, &json!({ "phase": "complete", "next_phase": null }), "complete");
    for phase in ["code-review", "plan-review", "post-code-review", "new-plan"] {
        routes(&plans, &json!({ "phase": phase, "next_phase": null }), "ask");
    }
    plans.remove("state.json");
    assert!(plans.ok(&["next"]).contains("Look at `git log`"));
    plans.file("state.json", "{");
    assert!(plans.ok(&["next"]).contains("state.json cannot be used"));
}

#[test]
fn every_step_has_a_guide() {
    let plans = Plans::with(&json!({ "phase_iteration": 1 }));
    for base in ["plan", "tasks", "task-1", "all-code"] {
        plans.file(&format!("{base}-review-1.md"), "x");
    }
    for step in STEPS.iter().filter(|step| **step != "continue-plan") {
        let guide = plans.ok(&["guide", "--step", step]);
        assert!(guide.contains("Ground rules of plans"), "{step}");
        assert!(
            guide.contains(&format!("phasegate plan {step}")) || *step == "continue-task",
            "{guide}"
        );
        assert!(!guide.contains("{{") && !guide.contains("{%"), "{guide}");
    }
    // An answer need not do what would do harm.
    let guide = plans.ok(&["guide", "--step", "post-code-review"]);
    assert!(
        guide.contains("would take something away that works, say why you leave it"),
        "{guide}"
    );
    let guide = plans.ok(&["guide", "--step", "complete-task-tdd"]);
    assert!(guide.contains("# Build task 2 of plan web"), "{guide}");
    assert!(guide.contains("phasegate plan complete-task-tdd web --task 2"), "{guide}");
    assert!(guide.contains("write a test that fails"), "{guide}");
    plans.set(&due("code-review"));
    let guide = plans.ok(&["guide", "--step", "continue-task"]);
    assert!(guide.contains("# Go on with task 1"), "{guide}");
    assert!(guide.contains("phasegate plan complete-task web --task 1"), "{guide}");
    let ran = plans.run(&["guide", "--step", "nonsense"]);
    assert!(ran.stderr.contains("there is no step nonsense; there are new-plan"), "{ran:?}");
}

/// The reviewer and a person who reviews by hand are told the same.
#[test]
fn the_reviewer_is_told_what_the_guide_says() {
    for review in ["plan-review", "tasks-review", "code-review", "all-code-review"] {
        let plans = Plans::with(&due(review));
        let guide = plans.ok(&["guide", "--step", review]);
        plans.stop();
        let told = plans.prompt();
        assert!(guide.starts_with(told.trim_end()), "{review}: {guide}\n---\n{told}");
    }
}

#[test]
fn a_plan_begins_in_the_folder_that_has_it() {
    let plans = Plans::new();
    // A stop before the state is made: the run is known, and has no document.
    plans.first_stop("FAIL").allows_saying("validated");
    let said = plans.ok(&["new-plan", "--name", "web", "--max-reviews", "3"]);
    assert!(said.contains("Run plan/web has started"), "{said}");
    assert!(said.contains("To have no reviews: `phasegate plan stop-reviews web`"), "{said}");
    plans.is(&json!({
        "max_reviews": 3, "current_task": null, "phase": "new-plan", "phase_iteration": 0,
        "next_phase": "plan-review", "review_model": "opus", "consecutive_clean": 0, "tdd": false,
    }));
    plans.first_stop("FAIL").blocks("plan-review-1.md");
    // Once more: the reviews begin anew, and the files stay.
    plans.ok(&["new-plan", "--name", "web"]);
    plans.is(&json!({ "phase_iteration": 0, "next_phase": "plan-review", "max_reviews": 3 }));
    plans.first_stop("FAIL").blocks("plan-review-2.md");
    plans.scene.ok(&["log", "--verify"]);
}

#[test]
fn rules_need_no_plan() {
    let plans = Plans::new();
    plans.scene.file(".taskie/plans/other/plan.md", "x");
    let rules = plans.ok(&["rules"]);
    assert!(rules.contains("Ground rules of plans"), "{rules}");
    assert!(rules.contains("phasegate plan new-plan --name NAME"), "{rules}");
    // The state is in the structure, with its fields; it changes after every step, and nothing else tells.
    assert!(
        rules.contains("| `state.json` | where the plan is: the only source for that"),
        "{rules}"
    );
    assert!(rules.contains("It changes after every step"), "{rules}");
    for field in Plans::with(&json!({})).state().as_object().unwrap().keys() {
        assert!(rules.contains(&format!("`{field}`")), "{field}: {rules}");
    }
}

#[test]
fn who_wants_no_reviews_is_told_of_none() {
    let plans = Plans::new();
    let said = plans.ok(&["new-plan", "--name", "web", "--max-reviews", "0"]);
    assert!(said.contains("No reviews are wanted: stop now"), "{said}");
    assert!(!said.contains("reviewed when you stop"), "{said}");
}

/// A client without hooks has the two prompts that do not need any: one begins a state, one goes by it.
#[test]
fn codex_has_a_prompt_to_begin_and_one_to_go_on() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../codex/prompts/");
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        files.map(|file| file.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["phasegate-continue-plan.md", "phasegate-new-plan.md"]);
    let text = |name: &str| std::fs::read_to_string(format!("{folder}{name}")).unwrap();
    assert!(text(&names[0]).contains("`phasegate plan next`"));
    assert!(text(&names[1]).contains("`phasegate plan new-plan --name NAME`"));
}

#[test]
fn of_a_plan_that_was_cancelled_it_is_said_that_it_was() {
    let plans = Plans::with(&due("code-review"));
    plans.first_stop("FAIL").blocks("task-1-review-1.md");
    plans.scene.ok_by_hand(&["cancel", "plan/web"]);
    for args in [["next", "web"].as_slice(), &["guide", "web", "--step", "code-review"]] {
        let ran = plans.run(args);
        assert!(
            ran.stderr.contains("note: run plan/web is cancelled: it holds no stop"),
            "{ran:?}"
        );
    }
}

#[test]
fn only_a_person_goes_on_without_reviews() {
    let plans = Plans::with(&json!({ "next_phase": "plan-review", "phase_iteration": 8 }));
    plans.first_stop("FAIL").allows_saying("8 of 8 reviews were made");
    let args = ["plan", "advance", "web", "--reason", "I have read it"];
    let ran = plans.scene.by_agent(&args);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is for people"), "{ran:?}");
    assert!(plans.run(&["advance", "--reason", "x"]).stderr.contains("there is no terminal"));
    plans.is(&json!({ "next_phase": "plan-review" }));
    let ran = plans.scene.by_hand(&args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    plans.is(&json!({ "next_phase": "create-tasks", "phase_iteration": 8 }));
    let line = plans.scene.journal("plan/web").pop().unwrap();
    assert_eq!(line["event"]["params"]["reason"], "I have read it");
    assert_eq!(line["event"]["actor"], "human");
    assert_eq!(plans.scene.by_hand(&["plan", "complete", "--reason", "small"]).code, Some(0));
    plans.is(&json!({ "phase": "complete", "next_phase": null }));
}

#[test]
fn more_reviews_are_made_when_the_limit_is_raised() {
    let plans = Plans::with(&json!({ "next_phase": "plan-review", "phase_iteration": 8 }));
    plans.first_stop("FAIL").allows_saying("phasegate plan limit web --reviews 12");
    assert!(plans.run(&["limit", "--reviews", "12"]).stderr.contains("is for people"));
    assert_eq!(plans.scene.by_hand(&["plan", "limit", "--reviews", "12"]).code, Some(0));
    plans.first_stop("FAIL").blocks("plan-review-9.md");
}

#[test]
fn what_cannot_be_read_is_not_written_over() {
    let plans = Plans::new();
    for text in ["{", r#"{"phase_iteration": "many"}"#] {
        plans.file("state.json", text);
        let ran = plans.run(&["create-tasks"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.stdout.contains("cannot be used") && ran.stdout.contains("Repair it"),
            "{ran:?}"
        );
        assert_eq!(plans.scene.read(&format!("{DIR}/state.json")), text);
    }
}

#[test]
fn a_plan_of_before_there_was_a_state_gets_one() {
    let plans = Plans::new();
    plans.file("task-2.md", "- [x] it");
    plans.ok(&["complete-task", "--task", "2"]);
    assert_eq!(plans.state().as_object().unwrap().len(), 8);
    plans.first_stop("FAIL").blocks("task-2-review-1.md");
}

/// The plugin's commands and the prompts name no command that does not exist.
#[test]
fn commands_of_the_plugin_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let help = Plans::new().ok(&["--help"]);
    let mut texts = Vec::new();
    for step in STEPS {
        let path = format!("{root}plugin/commands/{step}.md");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(text.starts_with("---\ndescription: "), "{path}");
        texts.push(text);
    }
    for folder in ["workflows/plan/prompts", "workflows/plan/templates", "codex/prompts"] {
        for entry in std::fs::read_dir(format!("{root}{folder}")).unwrap() {
            texts.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
    }
    let mut named = 0;
    for text in texts {
        for rest in text.split("phasegate plan ").skip(1) {
            let command: String =
                rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            if !command.is_empty() {
                named += 1;
                assert!(help.contains(&format!("  {command} ")), "{command}: {text}");
            }
        }
    }
    assert!(named > 30, "{named}");
}

#[test]
fn the_next_task_is_one_that_can_be_built() {
    let plans = Plans::with(&json!({ "current_task": null }));
    for (rows, expected) in [
        ("| 1 | done | |\n| 2 | pending | 3 |\n| 3 | pending | 1 |", "# Build task 3 of plan web"),
        ("| 1 | postponed | |\n| 2 | blocked | |\n| 3 | pending | |", "# Build task 3 of plan web"),
        ("| 1 | pending | 2 |\n| 2 | pending | 1 |", "# Build the next task of plan web"),
        ("| 1 | done | |\n| 2 | pending | 1 |\n| 3 | pending | 1 |", "# Build task 2 of plan web"),
    ] {
        let table = format!("| Id | Status | Prerequisites |\n|--|--|--|\n{rows}\n");
        plans.file("tasks.md", &table);
        let guide = plans.ok(&["guide", "--step", "complete-task"]);
        assert!(guide.contains(expected), "{rows}: {guide}");
    }
}
