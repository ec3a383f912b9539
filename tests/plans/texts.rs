//! Texts that the specification gives word for word, and the tests that it names.

use std::collections::BTreeMap;

use serde_json::json;

use super::Plans;

/// The block messages, as the specification has them: a kind of review, and its template.
const BLOCKS: [(&str, &str); 4] = [
    (
        "code-review",
        r#"A code review (iteration ${ITERATION}) has been written to .taskie/plans/${PLAN_ID}/task-${CURRENT_TASK}-review-${ITERATION}.md by an independent reviewer. Read this review file and perform the post-code-review action: address all issues, update the code, then create .taskie/plans/${PLAN_ID}/task-${CURRENT_TASK}-post-review-${ITERATION}.md documenting your fixes. AFTER completing all post-review work and writing the post-review file, update state.json atomically (read current file, modify only phase and next_phase, write complete JSON back): set phase to "post-code-review", set next_phase to "code-review". Keep all other fields (max_reviews, current_task, phase_iteration, review_model, consecutive_clean) unchanged. Write via temp file then mv to prevent corruption. Update tasks.md and push to remote. (To stop the review loop, set next_phase to null in state.json.)"#,
    ),
    (
        "plan-review",
        r#"A plan review (iteration ${ITERATION}) has been written to .taskie/plans/${PLAN_ID}/plan-review-${ITERATION}.md by an independent reviewer. Read this review file and perform the post-plan-review action: address all issues in plan.md, then create .taskie/plans/${PLAN_ID}/plan-post-review-${ITERATION}.md documenting your fixes. AFTER completing all post-review work and writing the post-review file, update state.json atomically (read current file, modify only phase and next_phase, write complete JSON back): set phase to "post-plan-review", set next_phase to "plan-review". Keep all other fields (max_reviews, current_task, phase_iteration, review_model, consecutive_clean) unchanged. Write via temp file then mv to prevent corruption. Push to remote. (To stop the review loop, set next_phase to null in state.json.)"#,
    ),
    (
        "tasks-review",
        r#"A tasks review (iteration ${ITERATION}) has been written to .taskie/plans/${PLAN_ID}/tasks-review-${ITERATION}.md by an independent reviewer. Read this review file and perform the post-tasks-review action: address all issues in tasks.md and task files, then create .taskie/plans/${PLAN_ID}/tasks-post-review-${ITERATION}.md documenting your fixes. AFTER completing all post-review work and writing the post-review file, update state.json atomically (read current file, modify only phase and next_phase, write complete JSON back): set phase to "post-tasks-review", set next_phase to "tasks-review". Keep all other fields (max_reviews, current_task, phase_iteration, review_model, consecutive_clean) unchanged. Write via temp file then mv to prevent corruption. Push to remote. (To stop the review loop, set next_phase to null in state.json.)"#,
    ),
    (
        "all-code-review",
        r#"An all-code review (iteration ${ITERATION}) has been written to .taskie/plans/${PLAN_ID}/all-code-review-${ITERATION}.md by an independent reviewer. Read this review file and perform the post-all-code-review action: address all issues across all tasks, then create .taskie/plans/${PLAN_ID}/all-code-post-review-${ITERATION}.md documenting your fixes. AFTER completing all post-review work and writing the post-review file, update state.json atomically (read current file, modify only phase and next_phase, write complete JSON back): set phase to "post-all-code-review", set next_phase to "all-code-review". Keep all other fields (max_reviews, current_task, phase_iteration, review_model, consecutive_clean) unchanged. Write via temp file then mv to prevent corruption. Update tasks.md and push to remote. (To stop the review loop, set next_phase to null in state.json.)"#,
    ),
];

#[test]
fn the_four_blocks_are_the_specifications_word_for_word() {
    for (review, template) in BLOCKS {
        let plans = Plans::with(&json!({ "next_phase": review, "phase_iteration": 1 }));
        let filled = [("${ITERATION}", "2"), ("${PLAN_ID}", "web"), ("${CURRENT_TASK}", "1")];
        let expected = filled
            .iter()
            .fold(template.to_string(), |text, (hole, value)| text.replace(hole, value));
        assert_eq!(plans.stop().json["reason"], expected, "{review}");
    }
}

/// 80 tests in six suites, each under its number, and each with a row of its own on the page that lists them.
#[test]
fn every_test_that_the_specification_names_is_here() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let source = std::fs::read_to_string(format!("{root}tests/plans/specification.rs")).unwrap();
    let page = std::fs::read_to_string(format!("{root}docs/conformance/plan.md")).unwrap();
    let mut counts = BTreeMap::new();
    let mut suite = 0;
    for line in source.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("mod suite_") {
            suite = rest.split('_').next().unwrap().parse::<usize>().unwrap();
        }
        let Some(name) = line.strip_prefix("fn t").and_then(|rest| rest.split('(').next()) else {
            continue;
        };
        let Ok(number) = name.split('_').next().unwrap().parse::<usize>() else { continue };
        let count = counts.entry(suite).or_insert(0);
        *count += 1;
        assert_eq!(number, *count, "suite {suite}: t{name}");
        let row = page.lines().find(|row| row.contains(&format!("| S{suite}.{number} ")));
        assert!(row.is_some_and(|row| row.contains(&format!("`t{name}`"))), "S{suite}.{number}");
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [17, 15, 16, 14, 6, 12]);
    // What must pass before a change lands runs them all.
    let ci = std::fs::read_to_string(format!("{root}.ci/run")).unwrap();
    assert!(ci.lines().any(|line| line.contains("cargo test") && !line.contains("--test ")));
}
