//! Two sessions in one project.

use crate::scene::Scene;

#[test]
fn the_second_session_is_not_blocked_by_the_first_ones_run() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    scene.stop_of("two", false).allows();
    scene.stop_of("two", true).allows();
    scene.result(0, true, "g");
    scene.stop_of("one", true).blocks("1 of 2");
}

#[test]
fn each_session_takes_a_run_of_its_own() {
    let scene = Scene::with_triage(2);
    let state = scene.read(".phasegate/triage/web_triage.json");
    scene.file(
        ".phasegate/triage/api_triage.json",
        state.replace("entries\": [", "results_dir\": \"elsewhere\", \"entries\": ["),
    );
    scene.stop_of("one", false).blocks("api_triage.json");
    scene.stop_of("two", false).blocks("web_triage.json");
    scene.stop_of("three", false).allows();
    scene.stop_of("one", false).blocks("api_triage.json");
}

#[test]
fn a_run_whose_owner_is_silent_is_adopted_visibly() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    let path = ".phasegate/runs/triage/web/ledger.json";
    let mut ledger = scene.json(path);
    ledger["owner"]["seen"] = "2020-01-01T00:00:00Z".into();
    scene.file(path, ledger.to_string());
    let said = scene.stop_of("two", false);
    said.blocks("2 of 2");
    assert!(said.json["systemMessage"].as_str().unwrap().contains("adopted from session one"));
    scene.stop_of("one", false).allows();
}

#[test]
fn a_stop_without_a_session_shares_the_run() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    let mut payload = scene.payload();
    payload.as_object_mut().unwrap().remove("session_id");
    scene.hook(&payload).blocks("2 of 2");
    scene.stop_of("one", false).blocks("2 of 2");
}

#[test]
fn a_cancelled_run_never_comes_back() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    assert!(scene.ok(&["cancel", "--reason", "enough"]).contains("triage/web is cancelled"));
    scene.stop().allows();
    scene.result(0, true, "g");
    scene.stop().allows();
    scene.stop_of("other", false).allows();
    assert!(scene.ok(&["status"]).contains("cancelled"));
    let last = scene.journal("triage/web").pop().unwrap();
    assert_eq!(last["answer"]["outcome"], "aborted");
    assert_eq!(last["answer"]["message"], "enough");
    scene.ok(&["cancel", "triage/web"]);
    scene.ok(&["log", "--verify"]);
}
