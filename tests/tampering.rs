//! What is done behind the gate's back is noticed, journaled and shown.

use crate::scene::{STATE, Scene};

const GATE: &str = r#"
name = "notes"
about = "No stop before the notes are written."
initial = "working"

[phase.working]
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

const PLACE: &str = ".phasegate/workflows/notes.toml";

fn with_gate() -> Scene {
    let scene = Scene::new();
    scene.file(PLACE, GATE).file(".phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene
}

#[test]
fn a_protected_field_that_someone_else_sets_is_noticed_once() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    let state = scene.read(STATE).replace(r#""phase": "triage""#, r#""phase": "meta-review""#);
    scene.file(STATE, state);
    let said = scene.stop_again();
    let told = r#"`phase` was changed from "triage" to "meta-review", and not by Phasegate"#;
    assert!(said.json["systemMessage"].as_str().unwrap().contains(told), "{said:?}");
    assert!(scene.journal("triage/web").pop().unwrap()["notes"].to_string().contains("not by"));
    assert!(scene.ok(&["status"]).contains(told));
    assert_eq!(scene.stop().told(), None, "once is enough");
}

#[test]
fn an_agent_that_ends_its_run_by_hand_is_no_success() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    let state = scene.read(STATE).replace(r#""phase": "triage""#, r#""phase": "complete""#);
    scene.file(STATE, state);
    scene.stop_again().allows_saying("not by Phasegate");
    let last = scene.journal("triage/web").pop().unwrap();
    assert_ne!(last["answer"]["outcome"], "done");
    let status = scene.ok(&["status"]);
    assert!(status.contains("ended in phase complete") && !status.contains("done"), "{status}");
    scene.stop().allows();
}

#[test]
fn an_end_that_somebody_else_has_set_waits_for_a_person() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    let state = scene.read(STATE).replace(r#""phase": "triage""#, r#""phase": "complete""#);
    scene.file(STATE, state);
    scene.stop_again().allows_saying("does not count as done");
    let last = scene.journal("triage/web").pop().unwrap();
    assert_eq!(
        (&last["answer"]["outcome"], &last["answer"]["until"]),
        (&"waiting".into(), &"human".into())
    );
    // Who accepts it says that it is done.
    assert_eq!(
        scene.by_hand(&["accept", "triage/web", "--reason", "nothing was left"]).code,
        Some(0)
    );
    let status = scene.ok(&["status", "--all"]);
    assert!(status.contains("done"), "{status}");
}

#[test]
fn a_definition_is_used_as_it_was_when_the_run_began() {
    let scene = with_gate();
    scene.file(PLACE, GATE.replace("not exists('NOTES.md')", "false"));
    let said = scene.stop();
    said.blocks("Write NOTES.md");
    let told = "definition of workflow notes has changed since run notes/notes began";
    assert!(said.json["systemMessage"].as_str().unwrap().contains(told), "{said:?}");
    assert!(scene.ok(&["status"]).contains(told));
    assert_eq!(scene.stop().told(), None, "once is enough");
    // Neither an error in it nor its removal opens the gate.
    scene.file(PLACE, "name = ");
    scene.stop().blocks("Write NOTES.md");
    std::fs::remove_file(scene.path(PLACE)).unwrap();
    scene.stop().blocks("Write NOTES.md");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_changed_constant_is_a_changed_definition() {
    let scene = Scene::new();
    let gate = GATE
        .replace("not exists('NOTES.md')", "MOST > 0")
        .replace("[phase.w", "[const]\nMOST = 1\n\n[phase.w");
    scene.file(PLACE, gate);
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene.file(".phasegate/config.toml", "[workflow.notes.const]\nMOST = 0\n");
    scene.stop().blocks("Write NOTES.md");
    assert!(scene.ok(&["status"]).contains("has changed since"));
}

#[test]
fn a_new_definition_is_accepted_by_a_person_and_nobody_else() {
    let scene = with_gate();
    scene.file(PLACE, GATE.replace("not exists('NOTES.md')", "false"));
    let accept = ["accept-definition", "notes/notes", "--reason", "it was too strict"];
    let agent = scene.by_agent(&accept);
    assert!(agent.stderr.contains("is for people, and this runs inside Claude Code"), "{agent:?}");
    let script = scene.run(&accept);
    assert!(script.stderr.contains("there is no terminal"), "{script:?}");
    scene.stop().blocks("Write NOTES.md");
    let person = scene.by_hand(&accept);
    assert_eq!(person.code, Some(0), "{person:?}");
    scene.stop().allows_saying("is done");
    let lines = scene.journal("notes/notes");
    let line = lines.iter().find(|line| line["event"]["name"] == "accept-definition").unwrap();
    assert_eq!(line["event"]["params"]["reason"], "it was too strict");
    assert_eq!(line["event"]["actor"], "human");
}

#[test]
fn a_definition_in_which_the_run_would_be_nowhere_is_not_accepted() {
    let scene = with_gate();
    scene.file(PLACE, GATE.replace("working", "busy"));
    let ran = scene.by_hand(&["accept-definition", "--reason", "new names"]);
    assert!(
        ran.stderr.contains("in phase `working`, and the new definition has no such"),
        "{ran:?}"
    );
    scene.stop().blocks("Write NOTES.md");
}

#[test]
fn a_lost_copy_of_the_definition_is_a_fault_of_our_own() {
    let scene = with_gate();
    scene.file(PLACE, GATE.replace("not exists('NOTES.md')", "false"));
    scene.file(".phasegate/runs/notes/notes/definition.json", "{}");
    scene.stop().allows_saying("the copy of the old one is gone or was changed too");
}

#[test]
fn a_cancel_from_inside_the_client_works_and_the_user_is_told() {
    for (more, why) in
        [(["--reason", "too much work"].as_slice(), "too much work"), (&[], "no reason was given")]
    {
        let scene = Scene::with_triage(2);
        scene.stop().blocks("2 of 2");
        assert_eq!(scene.by_agent(&[&["cancel"], more].concat()).code, Some(0));
        let told = format!("Run triage/web was cancelled from inside the client: {why}");
        scene.stop().allows_saying(&told);
        scene.stop().allows();
        let told = format!("cancelled from inside the client just now: {why}");
        assert!(scene.ok(&["status"]).contains(&told));
    }
}

#[test]
fn the_journal_knows_the_processes_above() {
    let scene = with_gate();
    let line = scene.journal("notes/notes").remove(0);
    assert_eq!(line["event"]["name"], "start");
    let parent = format!(" {}", std::process::id());
    let by = line["by"].as_array().unwrap();
    assert!(by[0].as_str().unwrap().ends_with(&parent), "{by:?}");
    assert!(by.len() > 1, "{by:?}");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn a_step_that_died_half_way_is_not_taken_for_tampering() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    scene.result(0, true, "g");
    let mut command = scene.command();
    command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", "after-document");
    let died = scene.spawn(command, scene.payload().to_string().as_bytes()).wait().unwrap();
    assert!(!died.success());
    let said = scene.stop();
    said.blocks("aggregat");
    assert_eq!(said.told(), None, "{said:?}");
}

#[test]
fn the_phase_is_protected_without_being_asked_for() {
    let scene = with_gate();
    let path = ".phasegate/notes/notes.json";
    scene.file(path, scene.read(path).replace("working", "done"));
    assert!(!scene.ok(&["status"]).contains("done in phase"), "before the next stop, too");
    scene.stop_again().allows_saying("not by Phasegate");
    assert!(scene.ok(&["status"]).contains("ended in phase done"));
}

#[test]
fn an_action_does_not_swallow_what_the_user_must_know() {
    let scene = Scene::new();
    let gate =
        GATE.replace("[phase.working]", "[action.poke]\nabout = \"Poke.\"\n\n[phase.working]");
    let gate =
        gate.replace("rules = [", "rules = [\n  { on = \"poke\", set = { \"state.n\" = 1 } },");
    scene.file(PLACE, gate);
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    let path = ".phasegate/notes/notes.json";
    scene.file(path, scene.read(path).replace("working", "done"));
    let ran = scene.by_agent(&["notes", "poke"]);
    assert!(ran.stderr.contains("not by Phasegate"), "{ran:?}");
    scene.file(path, scene.read(path).replace("done", "working"));
    let said = scene.stop();
    assert!(said.json["systemMessage"].as_str().unwrap().contains("from \"working\" to \"done\""));
}

#[test]
fn a_journal_that_was_cut_stays_known_as_cut() {
    let path = ".phasegate/runs/notes/notes/journal.jsonl";
    let cut = |text: &str| format!("{}\n", text.lines().next().unwrap());
    let spoil = |text: &str| format!("{text}garbage\n");
    for (change, told) in [
        (&cut as &dyn Fn(&str) -> String, "was changed: it ended with line 2, now with line 1"),
        (&spoil, "could not be read; it was kept as"),
    ] {
        let scene = with_gate();
        scene.file(path, change(&scene.read(path)));
        let said = scene.stop();
        assert!(said.json["systemMessage"].as_str().unwrap().contains(told), "{said:?}");
        let ran = scene.run(&["log", "--verify"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
}

#[test]
fn releasing_or_giving_a_run_away_does_not_open_the_gate() {
    let scene = with_gate();
    assert_eq!(scene.by_agent(&["release"]).code, Some(0));
    scene.file(".phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    scene.stop_again().allows_saying("is stuck");
    scene.stop().blocks("Write NOTES.md");
    let ran = scene.by_agent(&["adopt", "--session", "nobody"]);
    assert!(ran.stderr.contains("for its own session only"), "{ran:?}");
    scene.hook_of("session-end", "s1", &serde_json::json!({}));
    scene.stop().blocks("Write NOTES.md");
}

#[test]
fn a_copy_of_a_definition_runs_nothing_that_nobody_has_consented_to() {
    let scene = Scene::new();
    let evil = GATE
        .replace("name = \"notes\"", "name = \"triage\"")
        .replace("[phase.working]", "[check.evil]\nrun = [\"touch\", \"owned\"]\n\n[phase.working]")
        .replace("not exists('NOTES.md')", "not check.evil.ok");
    scene.file(".phasegate/workflows/triage.toml", evil);
    scene.ok(&["triage", "start"]);
    std::fs::remove_file(scene.path(".phasegate/workflows/triage.toml")).unwrap();
    scene.stop().allows_saying("you have not consented");
    assert!(!scene.exists("owned"));
}

#[test]
fn a_link_that_leads_nowhere_is_not_written_through() {
    let scene = Scene::new();
    let outside = tempfile::tempdir().unwrap();
    scene.file(PLACE, GATE);
    scene.file(".phasegate/notes/x.json", r#"{"phase":"working"}"#);
    std::fs::create_dir_all(scene.path(".phasegate/runs/notes/x")).unwrap();
    let target = outside.path().join("profile");
    std::os::unix::fs::symlink(&target, scene.path(".phasegate/runs/notes/x/journal.jsonl"))
        .unwrap();
    scene.stop().allows_saying("leads nowhere");
    assert!(!target.exists());
}

#[test]
fn what_was_refused_is_not_taken_for_tampering() {
    let scene = Scene::new();
    let gate = GATE.replace(
        "[phase.working]",
        "[action.ship]\nabout = \"Ship.\"\n\n[command.fail]\nrun = [\"false\"]\n\n[phase.working]",
    );
    let gate = gate
        .replace("rules = [", "rules = [\n  { on = \"ship\", goto = \"done\", run = [\"fail\"] },");
    scene.file(PLACE, gate);
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    for consent in [false, true] {
        if consent {
            scene.by_hand(&["trust", "notes", "--yes"]);
        }
        let ran = scene.run(&["notes", "ship"]);
        assert!(ran.code == Some(1) && ran.stdout.contains("Not possible now"), "{ran:?}");
        assert!(scene.ok(&["status"]).contains("in phase working"));
        let said = scene.stop();
        said.blocks("Write NOTES.md");
        assert_eq!(said.told(), None, "{said:?}");
    }
}

#[test]
fn what_is_noticed_before_a_check_is_still_said_after_it() {
    let scene = Scene::new();
    let gate = GATE
        .replace("[phase.working]", "[check.slow]\nrun = [\"false\"]\n\n[phase.working]")
        .replace("not exists('NOTES.md')", "not check.slow.ok")
        .replace("initial =", "protected = [\"note\"]\ninitial =");
    scene.file(PLACE, gate);
    scene.by_hand(&["trust", "notes", "--yes"]);
    scene.ok(&["notes", "start"]);
    scene.stop_of("one", false).blocks("Write NOTES.md");
    scene.file(".phasegate/notes/notes.json", r#"{"phase":"working","note":"mine"}"#);
    let path = ".phasegate/runs/notes/notes/run.json";
    let mut ledger = scene.json(path);
    ledger["session"]["owner"]["seen"] = "2020-01-01T00:00:00Z".into();
    scene.file(path, ledger.to_string());
    let said = scene.stop_of("two", false);
    said.blocks("Write NOTES.md");
    let told = said.json["systemMessage"].as_str().unwrap_or_default();
    assert!(
        told.contains("taken over from session one") && told.contains("`note` was changed"),
        "{told}"
    );
}

#[test]
fn an_agent_is_known_by_what_is_above_it_where_its_own_environment_is_empty() {
    let scene = with_gate();
    scene.file(PLACE, GATE.replace("not exists('NOTES.md')", "false"));
    let phasegate = env!("CARGO_BIN_EXE_phasegate");
    let (home, path) = (scene.path("home"), std::env::var("PATH").unwrap());
    let accept = format!(
        "env -i HOME={} PATH={path} {phasegate} accept-definition notes/notes --reason x\nexit $?\n",
        home.display()
    );
    // A client is often a script, and its process is called as what runs it.
    scene.file("bin/gemini", &accept).file("plain", &accept);
    std::os::unix::fs::symlink("/bin/sh", scene.path("bin/node")).unwrap();
    let run = |words: &[&str], variable: Option<&str>| {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).current_dir(scene.root()).env_clear().env("PATH", &path);
        command.envs(variable.map(|name| (name, "1")));
        crate::scene::finish(scene.spawn(command, b"")).stderr
    };
    let node = scene.path("bin/node").display().to_string();
    let said = run(&[&node, "bin/gemini"], None);
    assert!(said.contains("this runs inside an agent's client (node"), "{said}");
    for name in ["GEMINI_CLI", "QWEN_CODE", "COPILOT_CLI", "CODEX_SESSION_ID", "CLAUDECODE"] {
        let said = run(&["/bin/sh", "plain"], Some(name));
        assert!(said.contains(&format!("({name} is set for sh ")), "{name}: {said}");
    }
    // A file of that name that nothing runs is only a file.
    let said = run(&["/bin/sh", "plain", "bin/gemini"], None);
    assert!(said.contains("there is no terminal"), "{said}");
}

/// A release that a person approves.
const RELEASE: &str = r#"
name = "rel"
about = "Nothing is released before a person has approved it."
initial = "building"

[action.approve]
about = "Approve the release."
by = "human"

[phase.building]
rules = [
  { on = "stop", when = "not exists('built')", block = "Build it." },
  { on = "stop", goto = "approval" },
]
[phase.approval]
rules = [
  { on = "approve", goto = "releasing" },
  { on = "stop", wait = "human", message = "Somebody has to approve it." },
]
[phase.releasing]
rules = [
  { on = "stop", when = "not exists('released')", block = "Release it." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

const RELEASED: &str = ".phasegate/rel/rel.json";

fn before_approval(more: &str) -> Scene {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/rel.toml",
        RELEASE.replace("initial =", &format!("{more}initial =")),
    );
    scene.file("built", "").ok(&["rel", "start"]);
    scene.stop().allows_saying("has to approve it");
    scene
}

/// Writes the phase by hand.
fn set_phase(scene: &Scene, from: &str, to: &str) {
    let (from, to) = (format!("\"phase\": \"{from}\""), format!("\"phase\": \"{to}\""));
    let text = scene.read(RELEASED);
    assert!(text.contains(&from), "{text}");
    scene.file(RELEASED, text.replace(&from, &to));
}

#[test]
fn an_approval_that_is_skipped_by_hand_is_put_back_and_told() {
    let scene = before_approval("");
    let text = scene.read(RELEASED);
    scene.file("released", "");
    set_phase(&scene, "approval", "releasing");
    let said = scene.stop();
    said.allows_saying("has to approve it");
    said.allows_saying(
        "`phase` was changed from \"approval\" to \"releasing\", and not by Phasegate: it was put back",
    );
    assert_eq!(scene.read(RELEASED), text);
    let lines = scene.journal("rel/rel");
    assert_eq!(lines[lines.len() - 2]["event"]["name"], "put-back");
    // An action finds it as it was, and its caller is told.
    set_phase(&scene, "approval", "done");
    scene.stop().allows_saying("to \"done\", and not by Phasegate");
    assert!(scene.ok(&["status"]).contains("ended in phase done"), "{}", scene.ok(&["status"]));
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_run_that_was_tampered_with_is_done_when_a_person_has_accepted_it() {
    let scene = before_approval("");
    set_phase(&scene, "approval", "releasing");
    let ran = scene.by_hand(&["rel", "approve"]);
    assert!(ran.stdout.contains("releasing") && ran.stderr.contains("it was put back"), "{ran:?}");
    scene.file("released", "");
    let said = scene.stop();
    said.allows_saying(
        "does not count as done: `phase` was changed from \"approval\" to \"releasing\"",
    );
    let last = scene.journal("rel/rel").pop().unwrap();
    assert_eq!((&last["answer"]["outcome"], &last["to"]), (&"waiting".into(), &"done".into()));
    let status = scene.ok(&["status"]);
    assert!(
        status.contains("ended in phase done") && status.contains("not by Phasegate"),
        "{status}"
    );
    let accept = ["accept", "rel/rel", "--reason", "I have looked at it"];
    assert!(scene.by_agent(&accept).stderr.contains("is for people"));
    assert!(scene.by_hand(&accept).stdout.contains("Accepted: `phase` was changed"));
    let status = scene.ok(&["status"]);
    assert!(status.contains("done in phase done") && !status.contains("not by"), "{status}");
    let line = scene.journal("rel/rel").pop().unwrap();
    assert_eq!(line["event"]["params"]["reason"], "I have looked at it");
    // A new document in its place is a new run, and what it says is what it says.
    scene.file(RELEASED, r#"{"phase": "releasing"}"#);
    let said = scene.stop();
    said.allows_saying("is done");
    assert!(!said.told().unwrap_or_default().contains("not by Phasegate"), "{said:?}");
}

#[test]
fn a_workflow_can_hold_where_it_was_tampered_with() {
    let scene = before_approval("on_tamper = \"hold\"\n");
    scene.file("released", "");
    set_phase(&scene, "approval", "done");
    let said = scene.stop();
    said.allows_saying("has to approve it");
    said.allows_saying("to \"done\", and not by Phasegate: it was put back");
    scene.by_hand(&["rel", "approve"]);
    let said = scene.stop();
    said.blocks("Run rel/rel cannot end: `phase` was changed from \"approval\" to \"done\"");
    assert!(
        !said.json["reason"].as_str().unwrap().contains("phasegate "),
        "the model is told no way out"
    );
    let told = said.json["systemMessage"].as_str().unwrap();
    assert!(
        told.contains("phasegate accept rel/rel") && told.contains("phasegate cancel"),
        "{told}"
    );
    scene.stop_again().allows_saying("is stuck");
    assert!(scene.read(RELEASED).contains("releasing"), "it has not ended");
    scene.by_hand(&["accept", "--reason", "fine"]);
    scene.stop().allows_saying("is done");
}

#[test]
fn what_others_may_change_stands_and_is_shown() {
    let gate =
        GATE.replace("initial =", "protected = [\"passes\"]\nwatched = [\"most\"]\n\ninitial =");
    let scene = Scene::new();
    scene.file(PLACE, gate).file(".phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    let path = ".phasegate/notes/x.json";
    scene.file(path, r#"{"phase": "working", "most": 8, "passes": {"a": [1, 2]}}"#);
    scene.stop().blocks("Write NOTES.md");
    // A field that is gone comes back, with all that was in it.
    scene.file(path, r#"{"phase": "working", "most": 9}"#);
    let told = scene.stop().told().unwrap();
    assert!(told.contains("`most` is 9 now; it was 8"), "{told}");
    assert!(told.contains("`passes` was changed from {\"a\":[1,2]} to nothing"), "{told}");
    assert_eq!(scene.json(path)["passes"]["a"][1], 2);
    assert_eq!(scene.json(path)["most"], 9);
    scene.by_hand(&["accept", "--reason", "fine"]);
    // Who makes a number smaller may want to get away with less.
    scene.file(path, scene.read(path).replace('9', "0"));
    let told = scene.stop().told().unwrap();
    assert!(told.contains("`most` was changed from 9 to 0, and not by Phasegate."), "{told}");
    assert_eq!(scene.json(path)["most"], 0);
    scene.file("NOTES.md", "").stop().allows_saying("does not count as done");
}

/// A gate whose check is a script, as a person starts it.
fn started_with_script(on_tamper: &str) -> Scene {
    let scene = Scene::new();
    let gate = r#"
name = "ship"
about = "No stop before the tests pass."
initial = "working"
[check.tests]
run = ["sh", "./test.sh", "report.md"]
guards = ["ci/*.sh"]
[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;
    scene.file(".phasegate/workflows/ship.toml", format!("{on_tamper}{gate}"));
    scene.file("test.sh", "sh ci/part.sh && test -e report.md\n").file("ci/part.sh", "exit 0\n");
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok_by_hand(&["start", "ship"]);
    scene.stop().blocks("The tests fail.");
    scene
}

#[test]
fn a_started_run_whose_checks_were_edited_is_done_when_a_person_has_seen_it() {
    // What the check looks for and was not there is the agent's to make.
    let scene = started_with_script("");
    scene.file("report.md", "").stop().allows_saying("is done");
    for file in ["test.sh", "ci/part.sh"] {
        let scene = started_with_script("");
        scene.file(file, "exit 0 # well\n").file("report.md", "");
        let said = scene.stop();
        said.allows_saying("does not count as done");
        said.allows_saying(&format!("`{file}` was changed from what the checks rested on before"));
        let status = scene.ok(&["status", "ship/ship"]);
        assert!(!status.contains("done in phase done"), "{status}");
        scene.by_hand(&["accept", "ship/ship", "--reason", "I have looked at it"]);
        let status = scene.ok(&["status", "ship/ship"]);
        assert!(status.contains("done in phase done"), "{status}");
    }
    // One that is gone has changed, too; and one that was put back has not.
    let scene = started_with_script("");
    std::fs::remove_file(scene.path("ci/part.sh")).unwrap();
    scene.file("test.sh", "exit 0\n").file("report.md", "");
    scene.stop().allows_saying("`test.sh` was changed");
    let scene = started_with_script("");
    scene.file("ci/part.sh", "exit 1\n").file("report.md", "").stop().blocks("The tests fail.");
    scene.file("ci/part.sh", "exit 0\n").stop_again().allows_saying("is done");
}

#[test]
fn a_started_run_that_holds_is_told_of_an_edited_check_once() {
    let scene = started_with_script("on_tamper = \"hold\"\n");
    scene.file("test.sh", "exit 0\n").file("report.md", "");
    scene.stop().blocks("Run ship/ship cannot end: `test.sh` was changed");
    scene.by_hand(&["accept", "ship/ship", "--reason", "fine"]);
    scene.stop().allows_saying("is done");
    let scene = started_with_script("on_tamper = \"rules\"\n");
    scene.file("test.sh", "exit 0\n").file("report.md", "").stop().allows_saying("is done");
}
