//! The workflow `task`: the agent writes what each phase wants, and the gate runs the tests.

use std::path::Path;

use serde_json::json;

use crate::api::{Api, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;

const TASK: &str = ".phasegate/tasks/greet";

const CONFIG: &str = "[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\n";

#[test]
fn a_task_goes_from_its_plan_to_a_person() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/config.toml", CONFIG);
    scene.file("test.sh", "test \"$(sh greeting.sh Ada)\" = 'Hello, Ada'\n");
    let root = scene.root();
    let api = Api::start(move |request| answer(&root, request));
    let session = Session::new(&scene, &api, "Greet by name.").with_plugin();
    session.env("PHASEGATE_TRUST_ALL", "1").run().result();

    // The plan, its review, the code, its review, the code again after the tests, its review.
    scene.assert_stops("task/greet", 6, "waiting");
    let phases: Vec<String> = scene.stops("task/greet").into_iter().map(|stop| stop.to).collect();
    let expected = ["planning", "plan_review", "codegen", "review", "codegen", "review", "accept"];
    assert_eq!(phases, expected);
    let state = scene.json(&format!("{TASK}/state.json"));
    assert_eq!(state["phase"], "accept");
    assert_eq!(state["actors"]["test"]["status"], "passed");
    assert_eq!(scene.json(&format!("{TASK}/eval/eval-report.json"))["overall_pass"], true);
    scene.end();
}

/// A small repository with a mistake in it, a person who reads what they accept, and a reviewer that is a client of
/// its own. The agent commits its work and writes neither patch nor copies.
#[test]
fn a_mistake_in_a_repository_is_put_right_from_new_to_accept() {
    let Some(scene) = Scene::new() else { return };
    let reviewer = r#"["claude", "-p", "--permission-mode", "acceptEdits", "--model", "sonnet"]"#;
    scene.file(".phasegate/config.toml", format!("{CONFIG}CODE_REVIEWER = {reviewer}\n"));
    scene.file("greeting.sh", "echo \"Hello, world\"\n").file("notes.txt", "mine\n");
    scene.file("test.sh", "test \"$(sh greeting.sh Ada)\" = 'Hello, Ada'\n");
    scene.file(".gitignore", ".phasegate/\n");
    for args in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-qm", "all"]] {
        scene.git(args);
    }
    scene.file("notes.txt", "mine, and changed\n");
    scene.ok_by_hand(&["trust", "task", "--yes"]);
    let root = scene.root();
    let api = Api::start(move |request| {
        let review = root.join(TASK).join("review/code-review.json");
        let first = request.first();
        if first.contains("# Review the code of task greet") {
            assert!(first.contains("- greeting.sh +1 -1"), "{first}");
            return if request.used().is_empty() {
                Reply::write(review, r#"{"ok": true, "issues": []}"#)
            } else {
                Reply::text("Reviewed.")
            };
        }
        let (order, used) = request.order();
        match order.lines().next() {
            Some(it) if used.is_empty() && it.starts_with("# Write the code") => Reply::bash(
                "echo 'echo \"Hello, $1\"' > greeting.sh && git commit -qm 'Greet by name' greeting.sh",
            ),
            Some(it) if used.is_empty() && it.contains("is done by a configured agent") => {
                let wait = "phasegate wait task/greet --settled --seconds 50";
                Reply::bash(format!("phasegate task review code greet && {wait}"))
            }
            _ => answer(&root, request),
        }
    });
    Session::new(&scene, &api, "Greet by name.").with_plugin().run().result();

    scene.assert_stops("task/greet", 4, "waiting");
    let patch = scene.read(&format!("{TASK}/code/diff.patch"));
    assert!(patch.contains("+echo \"Hello, $1\"") && !patch.contains("notes.txt"), "{patch}");
    assert_eq!(scene.read(&format!("{TASK}/code/files/greeting.sh")), "echo \"Hello, $1\"\n");
    let page = scene.ok_by_hand(&["task", "status", "greet"]);
    for part in
        ["- greeting.sh +1 -1", "- code: ok (the configured reviewer)", "passed at", "- nothing"]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    scene.ok_by_hand(&["task", "accept", "greet", "--reason", "it greets"]);
    assert_eq!(scene.json(&format!("{TASK}/accept/decision.json"))["verdict"], "accepted");
    assert!(scene.ok(&["status"]).contains("done in phase done"));
    scene.end();
}

#[test]
fn an_agent_does_not_pass_for_a_person() {
    let Some(scene) = Scene::new() else { return };
    scene.ok(&["task", "new", "--title", "Greet"]);
    scene.file(".phasegate/config.toml", CONFIG);
    let skip = "phasegate task next greet --override Because --to accept";
    // Without what the client leaves in the environment, and with a terminal.
    let bare = "env -i PATH=\"$PATH\" HOME=\"$HOME\"";
    let tries = [
        "phasegate trust task".to_string(),
        skip.into(),
        format!("{bare} {skip}"),
        format!("{bare} script -qec '{skip}' /dev/null"),
        "phasegate task accept greet".into(),
    ];
    let commands = tries.clone();
    let api = Api::start(move |request| match commands.get(request.used().len()) {
        Some(command) => Reply::bash(command),
        None => Reply::text("I have tried."),
    });
    Session::new(&scene, &api, "Greet by name.").with_plugin().run().result();
    for (command, told) in tries.iter().zip(&api.requests()[1..]) {
        assert!(told.last().starts_with("Exit code "), "{command}: {}", told.last());
    }
    scene.assert_stops("task/greet", 1, "stuck");
    assert_eq!(scene.json(&format!("{TASK}/state.json"))["phase"], "planning");
    scene.end();
}

fn answer(root: &Path, request: &Request) -> Reply {
    let (order, used) = request.order();
    let own = |name: &str| root.join(TASK).join(name);
    if !used.is_empty() {
        return Reply::text("That is done.");
    }
    if request.used().is_empty() && request.blocks() == 0 {
        return Reply::bash("phasegate task new --title Greet");
    }
    let first = order.lines().next().unwrap();
    if first.starts_with("# Plan task") {
        let plan = json!({
            "title": "Greet", "goals": ["greet"],
            "acceptance_criteria": [{ "id": "name", "description": "greets by name" }],
            "file_plan": [{ "path": "greeting.sh", "intent": "create" }],
        });
        Reply::write(own("planning/planning.ai.json"), plan.to_string())
    } else if first.starts_with("# Have the plan") {
        let review = json!({ "ok": true, "reviewers": [{ "id": "scope", "ok": true }] });
        Reply::write(own("review/plan-review.json"), review.to_string())
    } else if first.starts_with("# Write the code") {
        code(root, "echo \"Hello, world\"")
    } else if first.starts_with("The tests of task") {
        code(root, "echo \"Hello, $1\"")
    } else if first.starts_with("# Have the code") {
        // The second review is another text: the gate knows the first one again.
        let issues = match request.all().matches("# Have the code").count() {
            1 => json!([]),
            _ => json!([{ "id": "r", "severity": "minor", "message": "no usage text" }]),
        };
        let review = json!({ "ok": true, "issues": issues });
        Reply::write(own("review/code-review.json"), review.to_string())
    } else {
        panic!("nobody knows what to do: {order}")
    }
}

/// The code, a copy of it, and the patch.
fn code(root: &Path, line: &str) -> Reply {
    let own = |name: &str| root.join(TASK).join("code").join(name);
    Reply::write(root.join("greeting.sh"), format!("{line}\n"))
        .and_write(own("files/greeting.sh"), format!("{line}\n"))
        .and_write(
            own("diff.patch"),
            format!("--- /dev/null\n+++ b/greeting.sh\n@@ -0,0 +1 @@\n+{line}\n"),
        )
}
