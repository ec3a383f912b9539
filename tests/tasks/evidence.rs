//! What the gate sees by itself of a task's code, and shows to the person who decides.

use serde_json::json;

use super::{DIR, Tasks};
use crate::phases::mcp::Client;

const CONFIG: &str = "[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\n";

/// A client of the MCP server for tasks.
fn over_mcp(tasks: &Tasks) -> Client {
    let mut command = tasks.scene.command();
    command.args(["mcp", "--workflow", "task"]).env("PHASEGATE_TRUST_ALL", "1");
    Client::of(command)
}

#[test]
fn the_gate_writes_patch_and_copies_of_what_was_committed_or_not() {
    let tasks = Tasks::new();
    tasks.scene.file("mine.txt", "not the task's\n");
    tasks.up_to("codegen").refused(&["next"], "no file has changed since codegen began");
    // Neither a patch nor copies help without a change.
    let patch = "--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Hello\n+echo Hello, you\n";
    tasks.file("code/diff.patch", patch).file("code/files/junk", "x");
    tasks.refused(&["next"], "no file has changed since codegen began");
    tasks.code("Hello, you");
    tasks.scene.git(&["add", "."]);
    tasks.scene.git(&["commit", "-qm", "done"]);
    tasks.scene.file(&format!("{DIR}/code/diff.patch"), patch.replace("you", "them"));
    tasks.ok(&["next"]);
    tasks.is_in("review");
    let written = tasks.scene.read(&format!("{DIR}/code/diff.patch"));
    assert!(written.starts_with("diff --git a/greet.sh b/greet.sh\n"), "{written}");
    assert!(written.contains("+echo Hello, you\n") && !written.contains("mine.txt"), "{written}");
    assert_eq!(tasks.scene.read(&format!("{DIR}/code/files/greet.sh")), "echo Hello, you\n");
    // What was there is kept, and not among the copies.
    assert!(!tasks.scene.exists(&format!("{DIR}/code/files/junk")));
    assert_eq!(tasks.scene.read(&format!("{DIR}/archive/code-1/files/junk")), "x");
    // The patch of the gate can be undone.
    tasks.up_to("accept").by_hand(&["revert", "--reason", "no"]);
    assert_eq!(tasks.by_hand(&["revert"]).code, Some(0));
    assert_eq!(tasks.scene.read("greet.sh"), "echo Hello\n");
    let record = tasks.scene.json(&format!("{DIR}/revert/record.json"));
    assert_eq!((&record["reason"], &record["files"]), (&json!("no"), &json!(["greet.sh"])));
    let status = tasks.scene.ok(&["status", "--all"]);
    assert!(
        status.contains("ended in phase done") && !status.contains("done in phase"),
        "{status}"
    );
}

#[test]
fn what_is_changed_beside_the_plan_is_a_scope_mismatch() {
    let tasks = Tasks::new();
    tasks.up_to("codegen").code("Goodbye");
    // The agent makes the test pass, commits it, and writes a patch that does not tell.
    tasks.scene.file("test.sh", "true\n");
    let patch = tasks.scene.git(&["diff", "greet.sh"]);
    tasks.file("code/diff.patch", patch).file("code/files/greet.sh", "x");
    tasks.scene.git(&["commit", "-qam", "all of it"]);
    tasks.stop().blocks("The changes are not those of the plan: test.sh.");
    tasks.is_in("planning");
    assert_eq!(tasks.state()["actors"]["codegen"]["status"], "scope_mismatch");
    // An agent cannot take the files as they are for the beginning; a person can.
    tasks.ok(&["redo"]);
    tasks.up_to("codegen").refused(&["review", "code"], "are not planned: test.sh");
    tasks.ok(&["next"]);
    assert_eq!(tasks.is_in("planning").by_hand(&["redo"]).code, Some(0));
    tasks.up_to("codegen").refused(&["next"], "no file has changed");
}

#[test]
fn a_patch_that_is_there_stands_if_it_is_true() {
    let tasks = Tasks::new();
    tasks.up_to("codegen").code("Hello, you");
    let patch = tasks.scene.git(&["diff"]);
    tasks.file("code/diff.patch", &patch).ok(&["next"]);
    assert_eq!(tasks.is_in("review").scene.read(&format!("{DIR}/code/diff.patch")), patch);
    // In the next round the gate makes it anew.
    tasks.review_code(&json!({ "ok": false })).ok(&["next"]);
    tasks.is_in("codegen").refused(&["next"], "no file has changed since the code was sent back");
    tasks.code("Hello, all").stop().blocks("an earlier round");
    assert!(tasks.scene.read(&format!("{DIR}/code/diff.patch")).contains("+echo Hello, all"));
    // One of other files is not.
    let tasks = Tasks::new();
    tasks.up_to("codegen").code("Hello, you");
    tasks.file("code/diff.patch", patch.replace("greet.sh", "other.sh")).ok(&["next"]);
    tasks.is_in("planning");
}

#[test]
fn who_decides_sees_what_about() {
    let tasks = Tasks::with(CONFIG);
    let plan = json!({ "title": "t", "goals": [{ "id": "g" }], "acceptance_criteria": [],
        "file_plan": [{ "path": "greet.sh" }, { "path": "test.sh" }] });
    tasks.file("planning/planning.ai.json", plan.to_string()).ok(&["next"]);
    tasks.up_to("codegen").scene.file("test.sh", "sh greet.sh | grep Hello\n");
    tasks.up_to("accept");
    let page = [
        "- greet.sh +1 -1\n- test.sh +1 -1\n",
        "- plan: ok by reviewers without a name",
        "- code: ok",
        "- tests (`sh test.sh`): passed at ",
        "What is odd:\n- the tests depend on files that were changed: test.sh",
    ];
    let status = tasks.ok(&["status"]);
    let stop = tasks.stop().told().unwrap();
    let mut server = over_mcp(&tasks);
    let told = server.ok("status", &json!({ "run": "greet" }));
    for part in page {
        assert!(status.contains(part), "{part} is not in {status}");
        assert!(stop.contains(part), "{part} is not in {stop}");
        let shown = told["decision_page"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}

#[test]
fn without_git_it_is_said_that_nothing_was_verified() {
    let tasks = Tasks::with(CONFIG);
    std::fs::remove_dir_all(tasks.scene.path(".git")).unwrap();
    tasks.up_to("codegen").code("Hello, you").refused(&["next"], "diff.patch is missing");
    let patch = "--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Hello\n+echo Hello, you\n";
    tasks.file("code/diff.patch", patch).file("code/files/greet.sh", "x");
    tasks.up_to("accept");
    let said = tasks.ok(&["status"]);
    assert!(said.contains("What has changed (not verified: "), "{said}");
    assert_eq!(tasks.by_hand(&["accept"]).code, Some(0));
}

#[test]
fn a_small_change_is_not_reviewed_where_that_is_configured_and_it_is_said() {
    let tasks = Tasks::with(&format!("{CONFIG}LIGHT_LINES = 2\n"));
    tasks.up_to("codegen").code("Hello, you");
    let said = tasks.stop();
    said.allows_saying("code: not reviewed: 2 changed lines are at most LIGHT_LINES = 2");
    tasks.is_in("accept");
    let line = tasks.scene.journal("task/greet").pop().unwrap().to_string();
    assert!(line.contains("not reviewed: 2 changed lines"), "{line}");
    let transcript = tasks.scene.read(&format!("{DIR}/transcript.jsonl"));
    assert!(transcript.contains(r#""skipped": "the review of the code"#), "{transcript}");
    // One line more, and it is.
    let tasks = Tasks::with(&format!("{CONFIG}LIGHT_LINES = 1\n"));
    tasks.up_to("codegen").code("Hello, you").stop().blocks("code-review.json is missing");
}

#[test]
fn over_mcp_the_tools_have_their_names_and_lead() {
    let tasks = Tasks::with(CONFIG);
    let mut server = over_mcp(&tasks);
    let told = server.ok("status", &json!({ "run": "greet" }));
    assert!(told["ways"].as_str().unwrap().contains("planning.ai.json is missing"), "{told}");
    let guidance = &told["guidance"];
    assert!(guidance["action"].as_str().unwrap().starts_with("Write the plan"), "{told}");
    tasks.plan("one");
    let told = server.ok("next", &json!({ "run": "greet" }));
    let can: Vec<&str> =
        told["guidance"]["can"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert!(can.contains(&"review_plan"), "{told}");
    let tools = server.tools();
    for name in can {
        assert!(tools.iter().any(|tool| tool == name), "{name} is not one of {tools:?}");
    }
    // What only a person may give is not offered to a program.
    let listed = server.ask("tools/list", &json!({}));
    let next = listed["result"]["tools"].as_array().unwrap().iter().find(|it| it["name"] == "next");
    let properties = next.unwrap()["inputSchema"]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["run"]);
    server.refused("next", &json!({ "run": "greet", "override": "I want to" }), "needs_human");
    server.refused("next", &json!({ "run": "greet", "to": "test" }), "needs_human");
}

/// A regression that the files do not show: who doubts a pass runs the tests again, and what fails is not accepted.
#[test]
fn a_pass_that_failed_when_somebody_ran_it_again_is_not_believed() {
    let tasks = Tasks::with(CONFIG);
    tasks.scene.file("test.sh", "test ! -f home/broken || { echo a regression; exit 1; }\n");
    tasks.scene.git(&["commit", "-qam", "tests"]);
    tasks.up_to("accept").scene.file("home/broken", "");
    let said = tasks.ok(&["status"]);
    assert!(said.contains("`phasegate jobs run tests` runs the tests again"), "{said}");
    let mut command = tasks.scene.command();
    command.args(["jobs", "run", "task/tests"]).env("PHASEGATE_TRUST_ALL", "1");
    let ran = crate::scene::finish(tasks.scene.spawn(command, b""));
    assert!(ran.code == Some(1) && ran.stdout.contains("a regression"), "{ran:?}");
    let ran = tasks.by_hand(&["accept"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("a regression"), "{ran:?}");
    tasks.is_in("accept");
    // It was not the files: without what broke them, they are accepted.
    std::fs::remove_file(tasks.scene.path("home/broken")).unwrap();
    assert_eq!(tasks.by_hand(&["accept"]).code, Some(0));
    tasks.is_in("done");
    tasks.scene.ok(&["log", "--verify"]);
}
