//! Every line of a journal can be decided again from what was kept of it.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::scene::{STATE, Scene};

const SHIP: &str = r#"name = "ship"
about = "No stop before the work is done."
initial = "working"
document = "ship/*.json"

[phase.working]
rules = [
  { on = "stop", when = "not exists('finished')", block = "Make `finished`. You said: {{ last_message() }}" },
  { on = "stop", when = "text('finished') | trim != 'yes'", block = "Write `yes` into it." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

fn shipping(config: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.file(".phasegate/config.toml", config);
    scene.ok_by_hand(&["start", "ship"]);
    scene
}

/// Two blocks and the end.
fn shipped(config: &str) -> Scene {
    let scene = shipping(config);
    scene.stop().blocks("Make `finished`. You said: Done.");
    scene.file("finished", "no\n");
    scene.stop_again().blocks("Write `yes`");
    scene.file("finished", "yes\n");
    scene.stop_again().allows_saying("is done");
    scene
}

fn replayed(scene: &Scene, args: &[&str]) -> (Option<i32>, Value) {
    let ran = scene.run(&[&["replay", "--json"], args].concat());
    let told = serde_json::from_str(&ran.stdout);
    (ran.code, told.unwrap_or_else(|error| panic!("{error}: {ran:?}")))
}

const RUN: &str = ".phasegate/runs/ship/ship";

/// The pieces of evidence of the run.
fn pieces(scene: &Scene) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(scene.path(&format!("{RUN}/evidence")));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_run_is_decided_again_with_its_own_definition() {
    let scene = shipped("");
    // Nothing of what the lines rest on is looked up any more.
    std::fs::remove_file(scene.path("finished")).unwrap();
    std::fs::remove_file(scene.path("ship/ship.json")).unwrap();
    scene.file(".phasegate/workflows/ship.toml", SHIP.replace("yes", "perhaps"));
    let (code, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!(
        (code, &told["same"], &told["decisions"]),
        (Some(0), &json!(3), &json!(3)),
        "{told:#}"
    );
    let shown = scene.ok(&["replay", "--all"]);
    assert_eq!(shown, "1 run, 3 decisions: 3 same · 0 different · 0 unknown\n");
}

#[test]
fn another_definition_shows_the_lines_that_it_changes_and_which_of_them_open_the_gate() {
    let scene = shipped("");
    let other = SHIP.replace("text('finished') | trim != 'yes'", "text('finished') | trim == ''");
    scene.file("other.toml", other);
    let (code, told) = replayed(&scene, &["--all", "--definition", "other.toml"]);
    assert_eq!(code, Some(1), "a gate that opens");
    assert_eq!((&told["same"], &told["unknown"]), (&json!(2), &json!([])), "{told:#}");
    let line = &told["different"][0];
    assert_eq!((&line["line"], &line["opens"]), (&json!(3), &json!(true)), "{told:#}");
    assert_eq!(line["now"], json!({ "decision": "allow", "outcome": "done" }));
    let shown = scene.run(&["replay", "ship/ship", "--definition", "other.toml"]).stdout;
    assert!(
        shown.contains("ship/ship line 3  BLOCK \"Write `yes` into it.\" → ALLOW done"),
        "{shown}"
    );
    // One that asks for more than was looked up then is not guessed at.
    scene.file("other.toml", SHIP.replace("not exists('finished')", "not exists('more')"));
    let (code, told) = replayed(&scene, &["ship/ship", "--definition", "other.toml"]);
    assert_eq!((code, &told["different"]), (Some(0), &json!([])), "{told:#}");
    assert_eq!(told["unknown"].as_array().unwrap().len(), 3);
    assert!(told["unknown"][0]["why"].as_str().unwrap().contains("modified more"), "{told:#}");
}

#[test]
fn a_rule_more_changes_nothing_where_it_does_not_fire() {
    let scene = shipped("");
    let more = "rules = [\n  { on = \"stop\", when = \"false\", block = \"Never.\" },";
    scene.file("other.toml", SHIP.replacen("rules = [", more, 1));
    let (code, told) = replayed(&scene, &["ship/ship", "--definition", "other.toml"]);
    assert_eq!((code, &told["same"]), (Some(0), &json!(3)), "{told:#}");
}

/// The scene of the last line, by its path, and what it says.
fn last_scene(scene: &Scene) -> (std::path::PathBuf, Value) {
    let line = scene.journal("ship/ship").pop().unwrap();
    let name = line["basis"]["rules"]["scene"].as_str().unwrap().to_string();
    let path = scene.path(&format!("{RUN}/evidence/{name}"));
    let kept = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (path, kept)
}

/// Changes the scene of the last line, which then has another name and another line.
fn rewrite(scene: &Scene, change: impl Fn(&mut Value)) {
    let (_, mut kept) = last_scene(scene);
    change(&mut kept);
    let text = kept.to_string();
    let name = phasegate_engine::digest::digest(text.as_bytes());
    scene.file(&format!("{RUN}/evidence/{name}"), text);
    let mut lines = scene.journal("ship/ship");
    lines.last_mut().unwrap()["basis"]["rules"]["scene"] = json!(name);
    let lines: Vec<String> = lines.iter().map(|line| line.to_string() + "\n").collect();
    scene.file(&format!("{RUN}/journal.jsonl"), lines.concat());
}

#[test]
fn what_the_gate_made_of_an_answer_is_decided_again() {
    let scene = shipping("");
    scene.stop().blocks("Make");
    scene.stop_again().allows_saying("");
    let line = scene.journal("ship/ship").pop().unwrap();
    assert_eq!(line["answer"]["outcome"], "stuck");
    assert_eq!(line["basis"]["rules"]["answer"]["decision"], "block", "{line:#}");
    let (code, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!((code, &told["same"], &told["recorded"]), (Some(0), &json!(2), &json!(0)));
    assert_eq!((&told["different"], &told["decisions"]), (&json!([]), &json!(2)));
    // With another definition, what its rules answer, and beside that what the gate answered then.
    scene.file("other.toml", SHIP.replace("Make", "Please make"));
    let shown = scene.ok(&["replay", "ship/ship", "--definition", "other.toml"]);
    assert!(shown.contains("; the gate answered ALLOW stuck"), "{shown}");
    // One that insists more often blocks once more.
    scene.file("other.toml", format!("patience = 3\n{SHIP}"));
    let (code, told) = replayed(&scene, &["ship/ship", "--definition", "other.toml"]);
    let line = &told["different"][0];
    assert_eq!(
        (code, &line["differs"]),
        (Some(0), &json!(["what the gate makes of it"])),
        "{told:#}"
    );
    assert_eq!(
        (&line["was"]["outcome"], &line["now"]["decision"]),
        (&json!("stuck"), &json!("block"))
    );
}

#[test]
fn the_reason_of_the_gate_is_weighed_again_and_not_believed() {
    let scene = shipping("");
    scene.stop().blocks("Make");
    scene.stop_again().allows_saying("");
    let (_, kept) = last_scene(&scene);
    let why = &kept["gate"]["because"][0]["unchanged"];
    assert_eq!(
        (&why["after_block"], &why["last"]["blocks"]),
        (&json!(true), &json!(1)),
        "{kept:#}"
    );
    // Another document at the last block: then the agent had moved on, and was to be held.
    rewrite(&scene, |kept| {
        kept["gate"]["because"][0]["unchanged"]["last"]["document"] = json!("another");
    });
    let (code, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!((code, &told["same"]), (Some(0), &json!(1)), "{told:#}");
    let line = &told["different"][0];
    assert_eq!(
        (&line["now"]["decision"], &line["opens"]),
        (&json!("block"), &json!(false)),
        "{told:#}"
    );
    // A version that kept no reasons leaves the answer on record.
    rewrite(&scene, |kept| kept["gate"] = json!({ "tally": {} }));
    let (_, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!((&told["same"], &told["recorded"]), (&json!(1), &json!(1)), "{told:#}");
    let shown = scene.ok(&["replay", "ship/ship"]);
    assert!(shown.contains("2 decisions: 1 same · 1 recorded · 0 different"), "{shown}");
}

#[test]
fn limits_other_hooks_and_waits_are_decided_again() {
    // A limit: the second block in a row is one too many.
    let scene = shipping("[limits]\nblocks_in_a_row = 1\n");
    scene.stop().blocks("Make");
    scene.file("finished", "no\n");
    scene.stop_again().allows_saying("limit of 1 blocks in a row");
    let (_, kept) = last_scene(&scene);
    assert_eq!(kept["gate"]["because"][0]["limit"]["limits"]["blocks_in_a_row"], 1, "{kept:#}");
    let all = |scene: &Scene, same: usize| {
        let (code, told) = replayed(scene, &["ship/ship"]);
        assert_eq!(
            (code, &told["same"], &told["recorded"]),
            (Some(0), &json!(same), &json!(0)),
            "{told:#}"
        );
    };
    all(&scene, 2);
    rewrite(&scene, |kept| {
        kept["gate"]["because"][0]["limit"]["limits"]["blocks_in_a_row"] = json!(9);
    });
    let (_, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!(told["different"][0]["now"]["decision"], "block", "{told:#}");
    // Another hook has told the agent to go on.
    let scene = shipping("");
    scene.stop_again().allows_saying("another hook");
    let (_, kept) = last_scene(&scene);
    assert_eq!(
        kept["gate"]["because"],
        json!([{ "other-hook": { "after_block": true, "ours": false } }])
    );
    all(&scene, 1);
    // Background work is waited for, and only once.
    let scene = shipping("");
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{ "id": "t1", "type": "subagent", "status": "running" }]);
    scene.hook(&payload).allows_saying("background work");
    let (_, kept) = last_scene(&scene);
    assert_eq!(
        kept["gate"]["because"][0]["waits"]["background"][0]["kind"], "sub-agent",
        "{kept:#}"
    );
    all(&scene, 1);
    rewrite(&scene, |kept| {
        kept["gate"]["because"][0]["waits"]["waits"]["known"] = json!(["+t1"]);
    });
    let (_, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!(told["different"][0]["now"]["decision"], "block", "{told:#}");
}

#[test]
fn evidence_is_kept_once_for_the_user_only_and_ignored_by_git() {
    let scene = shipping("");
    scene.git(&["init", "-q"]);
    scene.stop().blocks("Make");
    let first = pieces(&scene).len();
    assert_eq!(first, 2, "the document, and what was looked up");
    scene.stop_of("s1", false).blocks("Make");
    assert_eq!(pieces(&scene).len(), first + 1, "the document is the same");
    for path in pieces(&scene) {
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
    let status = scene.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains("evidence"), "{status}");
}

#[test]
fn evidence_that_is_lost_or_was_changed_makes_a_line_unknown() {
    let scene = shipped("");
    for path in pieces(&scene) {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let (code, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!((code, told["unknown"].as_array().unwrap().len()), (Some(0), 3), "{told:#}");
    assert_eq!((&told["same"], &told["different"]), (&json!(0), &json!([])));
}

#[test]
fn what_is_too_large_is_not_kept_and_its_line_is_unknown() {
    let large = |bytes: usize| "no ".repeat(bytes / 3);
    // A file up to 256 kB, and the document up to 4 MB.
    for (file, document, same) in [(200 << 10, 300 << 10, 1), (300 << 10, 0, 0), (0, 5 << 20, 0)] {
        let scene = shipping("");
        scene.file("finished", format!("no {}", large(file)));
        let state = json!({ "phase": "working", "notes": large(document) });
        scene.file("ship/ship.json", state.to_string());
        scene.stop().blocks("Write `yes`");
        let largest = pieces(&scene).iter().map(|it| it.metadata().unwrap().len()).max().unwrap();
        assert!(largest < 4 << 20, "{largest}");
        let (code, told) = replayed(&scene, &["ship/ship"]);
        assert_eq!((code, &told["same"]), (Some(0), &json!(same)), "{told:#}");
        assert_eq!(told["unknown"].as_array().unwrap().len(), 1 - same, "{told:#}");
    }
}

#[test]
fn what_is_kept_is_configured() {
    for (keep, has_digest) in [("digest", true), ("none", false)] {
        let scene = shipped(&format!("[evidence]\nkeep = \"{keep}\"\n"));
        assert_eq!(pieces(&scene), Vec::<std::path::PathBuf>::new());
        let line = scene.journal("ship/ship").pop().unwrap();
        let read =
            line["evidence"].as_array().unwrap().iter().find(|it| it["query"] == "read finished");
        assert_eq!(read.unwrap().get("digest").is_some(), has_digest, "{line:#}");
        let (code, told) = replayed(&scene, &["ship/ship"]);
        assert_eq!((code, told["unknown"].as_array().unwrap().len()), (Some(0), 3), "{told:#}");
    }
    let scene = Scene::new();
    scene.file(".phasegate/config.toml", "[evidence]\nredact = [\"(\"]\n");
    let ran = scene.run(&["start", "loop"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is not a regular expression"), "{ran:?}");
}

#[test]
fn what_must_not_be_kept_is_taken_out_before_anything_is_written() {
    let scene = shipping("[evidence]\nredact = [\"sk-[a-z0-9]+\"]\n");
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!("The key is sk-12ab.");
    scene.hook(&payload).blocks("Make");
    scene.file("finished", "sk-34cd\n");
    scene.stop_again().blocks("Write");
    scene.file("finished", "yes\n");
    scene.stop_again().allows_saying("is done");
    for path in pieces(&scene) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("sk-"), "{text}");
    }
    let (_, told) = replayed(&scene, &["ship/ship"]);
    let why = "a part of its evidence was redacted";
    assert_eq!((&told["same"], &told["unknown"][0]["why"]), (&json!(1), &json!(why)), "{told:#}");
    assert_eq!(told["unknown"][1]["why"], why, "{told:#}");
}

#[test]
fn values_of_environment_variables_are_not_kept() {
    let scene = Scene::new();
    let rule = "{ on = \"stop\", when = \"env('SECRET') == 'open sesame'\", goto = \"done\", allow = \"done\" }";
    let ship = SHIP.replacen("rules = [", &format!("rules = [\n  {rule},"), 1);
    scene.file(".phasegate/workflows/ship.toml", ship);
    scene.ok_by_hand(&["start", "ship"]);
    let payload = scene.payload().to_string();
    scene.hook_raw(payload.as_bytes(), &[("SECRET", "open sesame")]).allows_saying("is done");
    for path in pieces(&scene) {
        assert!(!std::fs::read_to_string(&path).unwrap().contains("sesame"));
    }
    let (_, told) = replayed(&scene, &["ship/ship"]);
    assert!(told["unknown"][0]["why"].as_str().unwrap().contains("SECRET"), "{told:#}");
    // Who has the value can decide it again.
    let mut command = scene.command();
    command.args(["replay", "ship/ship"]).env("SECRET", "open sesame");
    let ran = crate::scene::finish(scene.spawn(command, b""));
    assert!(ran.stdout.contains("1 same"), "{ran:?}");
}

#[test]
fn journals_of_older_versions_stay_readable_and_their_lines_are_unknown() {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("");
    let path = ".phasegate/runs/triage/web/journal.jsonl";
    let old: Vec<String> = scene
        .journal("triage/web")
        .into_iter()
        .map(|mut line| {
            line.as_object_mut().unwrap().remove("basis");
            line.to_string() + "\n"
        })
        .collect();
    scene.file(path, old.concat());
    let (code, told) = replayed(&scene, &["triage/web"]);
    assert_eq!((code, &told["same"]), (Some(0), &json!(0)));
    assert!(told["unknown"][0]["why"].as_str().unwrap().contains("older version"), "{told:#}");
    assert!(scene.exists(STATE));
}

#[test]
fn a_link_in_the_place_of_a_piece_is_not_followed() {
    let scene = shipping("");
    scene.stop().blocks("Make");
    scene.file("home/mine", "mine");
    for path in pieces(&scene) {
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(scene.path("home/mine"), &path).unwrap();
    }
    scene.stop_of("s1", false).blocks("Make");
    assert_eq!(scene.read("home/mine"), "mine");
    let (_, told) = replayed(&scene, &["ship/ship"]);
    assert_eq!(
        (&told["same"], told["unknown"].as_array().unwrap().len()),
        (&json!(1), 1),
        "{told:#}"
    );
}
