//! The second and the third stop (`stop_hook_active: true`), which ended every earlier gate.

use serde_json::json;

use crate::scene::{STATE, Scene};

#[test]
fn after_our_own_block_a_run_that_moved_on_goes_on() {
    let scene = Scene::with_triage(3);
    scene.stop().blocks("3 of 3 entries");
    scene.result(0, true, "g");
    scene.stop_again().blocks("2 of 3 entries");
    scene.result(1, true, "g");
    scene.stop_again().blocks("1 of 3 entries");
    scene.result(2, true, "g");
    scene.stop_again().blocks("**triage-aggregator**");
}

#[test]
fn an_edit_of_the_state_document_is_moving_on() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2 entries");
    let mut state = scene.json(STATE);
    state["entries"][0]["status"] = json!("completed");
    scene.file(STATE, state.to_string());
    scene.stop_again().blocks("1 of 2 entries");
}

#[test]
fn after_our_own_block_without_any_change_the_run_is_stuck() {
    let scene = Scene::with_triage(3);
    scene.stop().blocks("3 of 3 entries");
    let said = scene.stop_again();
    said.allows_saying("triage/web is stuck");
    said.allows_saying("phasegate cancel triage/web");
    assert_eq!(scene.journal("triage/web")[1]["answer"]["outcome"], "stuck");
    assert!(scene.ok(&["status"]).contains("stuck"));
}

#[test]
fn a_transition_of_our_own_is_not_the_agents_progress() {
    let scene = Scene::with_triage(1);
    scene.result(0, true, "g");
    scene.stop().blocks("**triage-aggregator**");
    assert_eq!(scene.json(STATE)["phase"], "aggregation");
    scene.stop_again().allows_saying("stuck");
}

#[test]
fn a_new_prompt_after_stuck_is_blocked_again() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.stop_again().allows_saying("stuck");
    scene.stop().blocks("1 of 1");
}

#[test]
fn a_stop_that_another_hook_caused_is_decided_and_not_blocked() {
    let scene = Scene::with_triage(1);
    scene.stop_again().allows_saying("another hook has already told the agent to go on");
    scene.result(0, true, "g");
    scene.stop_again().allows_saying("in phase aggregation");
    assert_eq!(scene.json(STATE)["phase"], "aggregation", "what has moved on stays");
}

#[test]
fn a_run_is_completed_at_a_stop_that_another_hook_caused() {
    let scene = with_head("");
    scene.stop_again().allows_saying("another hook has already told the agent to go on");
    scene.file("ok", "");
    scene.stop_again().allows_saying("Run w/w is done.");
    assert!(scene.ok(&["status"]).contains("done in phase b"));
}

#[test]
fn a_change_of_the_git_tree_is_moving_on() {
    let scene = Scene::with_triage(1);
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command
            .current_dir(scene.root())
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args);
        assert!(command.output().unwrap().status.success());
    };
    git(&["init", "-q"]);
    scene.file("src.txt", "one");
    git(&["add", "src.txt"]);
    git(&["commit", "-qm", "one"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    scene.stop().blocks("1 of 1");
    std::thread::sleep(std::time::Duration::from_millis(20));
    scene.file("src.txt", "two");
    scene.stop_again().blocks("1 of 1");
    scene.stop_again().allows_saying("stuck");
    scene.stop().blocks("1 of 1");
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::remove_file(scene.path("src.txt")).unwrap();
    scene.stop_again().blocks("1 of 1");
    std::thread::sleep(std::time::Duration::from_millis(20));
    git(&["commit", "-qam", "two"]);
    scene.stop_again().blocks("1 of 1");
    scene.stop_again().allows_saying("stuck");
}

/// A gate that counts how often it insists.
fn with_head(head: &str) -> Scene {
    let scene = Scene::new();
    let definition = format!(
        "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n{head}\n\
         [phase.a]\nrules = [{{ on = \"stop\", when = \"not exists('ok')\", block = \"make ok\" }}, {{ on = \"stop\", goto = \"b\", allow = \"done\" }}]\n\
         [phase.b]\nfinal = true\n"
    );
    scene.file(".phasegate/workflows/w.toml", definition);
    scene.ok(&["w", "start"]);
    scene
}

#[test]
fn patience_says_how_often_a_workflow_insists() {
    let scene = with_head("patience = 3");
    scene.stop().blocks("make ok");
    scene.stop_again().blocks("make ok");
    scene.stop_again().blocks("make ok");
    scene.stop_again().allows_saying("stuck");
}

#[test]
fn reentry_always_goes_on_without_a_change_and_never_allows_with_one() {
    let scene = with_head("reentry = \"always\"");
    for _ in 0..3 {
        scene.stop_again().blocks("make ok");
    }
    let scene = with_head("reentry = \"never\"");
    scene.stop().blocks("make ok");
    scene.file("other", "x");
    scene.stop_again().allows_saying("another hook has already told the agent to go on");
}

#[test]
fn a_workflow_says_the_exit_code_of_its_blocks() {
    let scene = with_head("block_exit = 2\nway_out = false");
    let said = scene.stop();
    assert_eq!(said.code, Some(2));
    assert_eq!(said.json, json!({ "decision": "block", "reason": "make ok" }));
    scene.file("ok", "");
    assert_eq!(scene.stop_again().code, Some(0));
}

const WITH_ACTION: &str = r#"
[action.note]
about = "Say something."
[action.nope]
about = "Is always refused."
[phase.a]
rules = [
  { on = "note", set = { "state.n" = "(state.get('n') or 0) + 1" } },
  { on = "nope", deny = "no" },
  { on = "stop", when = "not exists('ok')", block = "make ok" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true
"#;

#[test]
fn an_action_between_two_stops_does_not_open_the_gate() {
    let scene = Scene::new();
    let head = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n";
    scene.file(".phasegate/workflows/w.toml", format!("{head}{WITH_ACTION}"));
    scene.ok(&["w", "start"]);
    scene.stop().blocks("make ok");
    scene.ok(&["w", "note"]);
    scene.stop_again().blocks("make ok");
    assert_eq!(scene.run(&["w", "nope"]).code, Some(1));
    scene.stop_again().allows_saying("stuck");
    scene.stop().blocks("make ok");
    scene.run(&["w", "nope"]);
    scene.file("ok", "");
    scene.stop_again().allows_saying("is done");
    assert_eq!(scene.json(".phasegate/w/w.json")["phase"], "b");
}

#[test]
fn background_work_between_two_stops_does_not_open_the_gate() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    let mut payload = scene.payload();
    payload["stop_hook_active"] = json!(true);
    payload["background_tasks"] = json!([{ "status": "running" }]);
    scene.hook(&payload).allows_saying("background work");
    scene.result(0, true, "g");
    scene.stop_again().blocks("1 of 2");
}

#[test]
fn a_client_that_does_not_say_whether_a_stop_follows_a_block_is_not_kept_for_ever() {
    let scene = Scene::with_triage(2);
    let mut payload = scene.payload();
    payload.as_object_mut().unwrap().remove("stop_hook_active");
    scene.hook(&payload).blocks("2 of 2");
    scene.result(0, true, "g");
    scene.hook(&payload).blocks("1 of 2");
    scene.hook(&payload).allows_saying("stuck");
}

#[test]
fn a_stop_of_another_hook_is_told_as_that() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.stop_again().allows_saying("stuck");
    scene.stop_again().allows_saying("another hook has already told the agent to go on");
    for command in ["status", "why"] {
        assert!(scene.ok(&[command]).contains("another hook has already told the agent to go on"));
    }
}
