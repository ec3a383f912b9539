//! Two sessions in one project.

use serde_json::json;

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
    let path = ".phasegate/runs/triage/web/run.json";
    let mut ledger = scene.json(path);
    ledger["session"]["owner"]["seen"] = "2020-01-01T00:00:00Z".into();
    scene.file(path, ledger.to_string());
    let said = scene.stop_of("two", false);
    said.blocks("2 of 2");
    assert!(said.json["systemMessage"].as_str().unwrap().contains("taken over from session one"));
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
    assert!(
        scene.ok_by_hand(&["cancel", "--reason", "enough"]).contains("triage/web is cancelled")
    );
    scene.stop().allows_saying("was cancelled from a terminal: enough");
    scene.result(0, true, "g");
    scene.stop().allows();
    scene.stop_of("other", false).allows();
    assert!(scene.ok(&["status"]).contains("cancelled"));
    let last = scene.journal("triage/web").pop().unwrap();
    assert_eq!(last["answer"]["outcome"], "aborted");
    assert_eq!(last["answer"]["message"], "enough");
    scene.ok_by_hand(&["cancel", "triage/web"]);
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_run_is_taken_over_at_once_by_adopt() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    let said = scene.ok_by_hand(&["adopt", "--session", "two"]);
    assert!(said.contains("now belongs to session two"), "{said}");
    scene
        .stop_of("one", false)
        .allows_saying("was given to session two and no longer holds this one");
    // What the first session was told does not count against the second.
    scene.stop_of("two", true).allows_saying("another hook has already told the agent to go on");
    scene.stop_of("two", false).blocks("2 of 2");
    let last =
        scene.journal("triage/web").into_iter().find(|line| line["event"]["name"] == "adopt");
    assert_eq!(last.unwrap()["event"]["actor"], "human");
    scene.ok(&["log", "--verify"]);
    let ran = scene.run(&["adopt"]);
    assert!(ran.stderr.contains("name the session with --session ID"), "{ran:?}");
}

#[test]
fn inside_of_a_client_adopt_knows_the_session() {
    let scene = Scene::with_triage(1);
    scene.stop_of("one", false).blocks("1 of 1");
    // Of a session that is at work, an agent takes nothing.
    let adopt = |mut command: std::process::Command| {
        command.args(["adopt", "web"]).env("CLAUDE_CODE_SESSION_ID", "two").env("CLAUDECODE", "1");
        crate::scene::finish(scene.spawn(command, b""))
    };
    let ran = adopt(scene.command());
    assert!(ran.stderr.contains("belongs to a session that is still active"), "{ran:?}");
    scene.stop_of("two", false).allows();
    scene.hook_of("session-end", "one", &json!({ "reason": "other" })).allows();
    let ran = adopt(scene.command());
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
    scene.ok_by_hand(&["cancel"]);
    let ran = scene.run(&["release"]);
    assert!(ran.stderr.contains("is cancelled and does not answer stops"), "{ran:?}");
}

#[test]
fn a_session_that_ends_gives_its_run_up() {
    let scene = Scene::with_triage(2);
    scene.stop_of("one", false).blocks("2 of 2");
    scene.hook_of("session-end", "two", &json!({ "reason": "other" })).allows();
    scene.stop_of("two", false).allows();
    scene.hook_of("session-end", "one", &json!({ "reason": "clear" })).allows();
    // Who was at work already is left alone; the same session, resumed, has its run back.
    scene.stop_of("two", false).allows();
    scene.stop_of("one", false).blocks("2 of 2");
    scene.hook_of("session-end", "one", &json!({ "reason": "clear" })).allows();
    // One that begins after that takes it, visibly.
    let said = scene.stop_of("three", false);
    said.blocks("2 of 2");
    let told = said.json["systemMessage"].as_str().unwrap();
    assert!(told.contains("was taken over from session one, which has ended"), "{told}");
    scene.stop_of("one", false).allows();
    let lines = scene.journal("triage/web");
    let end = lines.iter().find(|line| line["event"]["name"] == "session-end").unwrap();
    assert_eq!(
        (&end["event"]["session"], &end["event"]["actor"]),
        (&json!("one"), &json!("engine"))
    );
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_session_is_told_where_its_run_is() {
    let scene = Scene::with_triage(2);
    let note = |said: &crate::scene::Said| {
        let specific = &said.json["hookSpecificOutput"];
        assert_eq!(specific["hookEventName"], "SessionStart", "{said:?}");
        specific["additionalContext"].as_str().unwrap().to_string()
    };
    let start = |session: &str, source: &str| {
        scene.hook_of("session-start", session, &json!({ "source": source }))
    };
    let free = note(&start("one", "startup"));
    assert!(free.contains("triage/web is open, and this session takes it when it stops"), "{free}");
    scene.stop_of("one", false).blocks("2 of 2");
    let own = note(&start("one", "compact"));
    assert!(own.contains("This session works on run triage/web. It is working in phase `triage`"));
    assert!(own.contains(".phasegate/triage/web_triage.json") && own.contains("2 of 2"), "{own}");
    start("two", "startup").allows();
    scene.ok_by_hand(&["cancel"]);
    start("one", "resume").allows();
    Scene::bare().hook_of("session-start", "one", &json!({})).allows();
}

#[test]
fn every_hook_of_the_owner_is_a_sign_of_life() {
    let path = ".phasegate/runs/triage/web/run.json";
    for event in ["session-start", "user-prompt-submit", "subagent-stop", "pre-compact"] {
        let scene = Scene::with_triage(2);
        scene.stop_of("one", false).blocks("2 of 2");
        let mut ledger = scene.json(path);
        ledger["session"]["owner"]["seen"] = "2020-01-01T00:00:00Z".into();
        scene.file(path, ledger.to_string());
        scene.hook_of(event, "two", &json!({}));
        assert_eq!(scene.json(path)["session"]["owner"]["session"], "one", "a sign takes nothing");
        let said = scene.hook_of(event, "one", &json!({}));
        assert_eq!((said.code, said.json.get("decision")), (Some(0), None));
        scene.stop_of("two", false).allows();
    }
}

#[test]
fn a_hook_that_is_installed_for_another_event_is_a_fault() {
    let scene = Scene::with_triage(1);
    let mut payload = scene.payload();
    payload["hook_event_name"] = json!("SessionStart");
    scene.hook(&payload).allows_saying("the payload is for the event SessionStart, not for Stop");
    scene.fire("banana", b"{}", &[]).allows_saying("there are: stop, subagent-stop");
}

#[test]
fn the_status_line_has_the_sessions_run() {
    let scene = Scene::with_triage(2);
    let line = |session: &str| {
        let mut command = scene.command();
        command.arg("statusline");
        let payload = json!({ "hook_event_name": "Status", "session_id": session,
            "cwd": scene.root(), "model": { "id": "m", "display_name": "M" },
            "workspace": { "current_dir": scene.root(), "project_dir": scene.root() } });
        let ran = crate::scene::finish(scene.spawn(command, payload.to_string().as_bytes()));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    assert_eq!(line("one"), "triage/web · triage · working · 0/500 blocks · free\n");
    scene.stop_of("one", false).blocks("2 of 2");
    assert_eq!(line("one"), "triage/web · triage · working · 1/500 blocks\n");
    assert_eq!(line("two"), "", "another session's run is no news");
    scene.ok_by_hand(&["cancel"]);
    assert_eq!(line("one"), "");
}

#[test]
fn a_run_without_a_hook_says_that_nothing_holds_the_agent() {
    let scene = Scene::new();
    scene.file("findings.json", r#"[{"name":"a"}]"#);
    scene.ok(&["triage", "start", "--from", "findings.json"]);
    assert!(scene.ok(&["status"]).contains("no session has stopped here since "));
    scene.stop().blocks("1 of 1");
    assert!(scene.ok(&["status"]).contains("the hook fired just now"));
}

#[test]
fn a_block_of_one_run_is_not_taken_for_another_hooks_block_by_the_next() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        let gate = format!(
            "name = \"{name}\"\nabout = \"x\"\ninitial = \"w\"\n[phase.w]\nrules = [\n  \
             {{ on = \"stop\", when = \"not exists('{name}.txt')\", block = \"Write {name}.txt.\" }},\n  \
             {{ on = \"stop\", goto = \"d\", allow = \"done\" }},\n]\n[phase.d]\nfinal = true\n"
        );
        scene.file(&format!(".phasegate/workflows/{name}.toml"), gate);
        assert_eq!(scene.by_agent(&[name, "start"]).code, Some(0));
    }
    scene.stop_of("s1", false).blocks("Write a.txt");
    scene.file("a.txt", "");
    scene.stop_of("s1", true).blocks("Write b.txt");
    scene.file("b.txt", "");
    scene.stop_of("s1", true).allows_saying("is done");
}

#[test]
fn an_owner_who_was_seen_in_the_future_holds_nothing() {
    let scene = Scene::with_triage(1);
    scene.stop_of("s1", false).blocks("1 of 1");
    let path = ".phasegate/runs/triage/web/run.json";
    let text = scene.read(path);
    let mut ledger = scene.json(path);
    ledger["session"]["owner"]["seen"] = json!("2999-01-01T00:00:00Z");
    // Members stay in their order, in which the version comes first.
    let seen = text.split("\"seen\":\"").nth(1).unwrap().split('"').next().unwrap();
    scene.file(path, text.replacen(seen, "2999-01-01T00:00:00Z", 1));
    assert_eq!(scene.json(path)["session"]["owner"], ledger["session"]["owner"]);
    let said = scene.stop_of("s2", false);
    said.blocks("1 of 1");
    assert!(said.json.to_string().contains("was taken over from session s1"), "{said:?}");
}
