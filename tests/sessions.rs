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

#[test]
fn a_run_is_taken_over_at_once_by_adopt() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    let said = scene.ok(&["adopt", "--session", "two"]);
    assert!(said.contains("belongs to session two now"), "{said}");
    scene.stop_of("one", false).allows();
    // What the first session was told does not count against the second.
    scene.stop_of("two", true).allows();
    scene.stop_of("two", false).blocks("2 of 2");
    let last =
        scene.journal("triage/web").into_iter().find(|line| line["event"]["name"] == "adopt");
    assert_eq!(last.unwrap()["event"]["actor"], "human");
    scene.ok(&["log", "--verify"]);
    let ran = scene.run(&["adopt"]);
    assert!(ran.stderr.contains("which session?"), "{ran:?}");
}

#[test]
fn inside_of_a_client_adopt_knows_the_session() {
    let scene = Scene::with_triage(1);
    scene.stop_of("one", false).blocks("1 of 1");
    let mut command = scene.command();
    command.args(["adopt", "web"]).env("CLAUDE_CODE_SESSION_ID", "two").env("CLAUDECODE", "1");
    let ran = crate::scene::finish(scene.spawn(command, b""));
    assert!(ran.stdout.contains("session two"), "{ran:?}");
    scene.stop_of("two", false).blocks("1 of 1");
    let adopted =
        scene.journal("triage/web").into_iter().find(|line| line["event"]["name"] == "adopt");
    assert_eq!(adopted.unwrap()["event"]["actor"], "worker");
}

#[test]
fn a_run_that_is_released_goes_to_the_next_session() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    assert!(scene.ok(&["release"]).contains("is free"));
    scene.stop_of("two", false).blocks("2 of 2");
    scene.stop_of("one", false).allows();
    scene.ok(&["cancel"]);
    let ran = scene.run(&["release"]);
    assert!(ran.stderr.contains("is cancelled: it answers no one"), "{ran:?}");
}
