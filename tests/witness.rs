//! The second witness: what the user's state folder remembers of a run. Who edits its ledger is told of, and
//! nobody else.

use serde_json::{Value, json};

use crate::scene::{STATE, Scene};

const LEDGER: &str = ".phasegate/runs/triage/web/run.json";
const JOURNAL: &str = ".phasegate/runs/triage/web/journal.jsonl";

fn held() -> Scene {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    scene
}

fn edit(scene: &Scene, change: impl Fn(&mut Value)) {
    let mut ledger = scene.json(LEDGER);
    change(&mut ledger);
    scene.file(LEDGER, format!("{ledger}\n"));
}

/// A change behind our back is told by all who look, once at a stop, and is the person's to accept.
#[track_caller]
fn is_told(scene: &Scene, told: &str) {
    let status = scene.ok(&["status", "--all"]);
    assert!(status.contains(told), "{status}");
    let verified = scene.run(&["log", "triage/web", "--verify"]);
    assert!(verified.code == Some(1) && verified.stderr.contains(told), "{verified:?}");
    let said = scene.stop();
    assert!(said.told().unwrap_or_default().contains(told), "{said:?}");
    assert!(!scene.stop().told().unwrap_or_default().contains(told), "once is enough");
    assert!(scene.ok(&["status", "--all"]).contains(told));
    scene.by_hand(&["accept", "triage/web", "--reason", "it was me"]);
    assert!(!scene.ok(&["status", "--all"]).contains(told));
}

#[test]
fn an_edited_ledger_is_told() {
    let told =
        "`ledger` was changed from that of line 1 to another one of line 1, and not by Phasegate";
    let at = "2026-01-01T00:00:00Z";
    let cancelled = json!({ "at": at, "reason": null, "by": "human", "told": true });
    let changes: [&dyn Fn(&mut Value); 4] = [
        &|ledger| ledger["session"]["cancelled"] = cancelled.clone(),
        &|ledger| ledger["position"]["removed"] = true.into(),
        &|ledger| {
            ledger["session"]["owner"] =
                json!({ "session": "other", "seen": jiff::Timestamp::now() });
        },
        &|ledger| ledger["tamper"]["protected"]["phase"] = "\"complete\"".into(),
    ];
    for change in changes {
        let scene = held();
        edit(&scene, change);
        is_told(&scene, told);
    }
}

#[test]
fn a_ledger_and_a_journal_that_vanish_together_leave_a_trace() {
    let scene = held();
    std::fs::remove_dir_all(scene.path(".phasegate/runs")).unwrap();
    let said = scene.stop();
    said.blocks("2 of 2");
    let told = "`ledger` was changed from that of line 1 to nothing, and not by Phasegate";
    assert!(said.told().unwrap().contains(told), "{said:?}");
    assert!(scene.ok(&["status"]).contains(told));
}

#[test]
fn where_a_workflow_holds_a_deleted_ledger_opens_no_gate() {
    for (on_tamper, holds) in [("tell", false), ("hold", true)] {
        let scene = Scene::new();
        scene.file(
            ".phasegate/workflows/w.toml",
            format!(
                r#"
name = "w"
about = "a"
document = "w/*.json"
initial = "a"
on_tamper = "{on_tamper}"
[phase.a]
rules = [
  {{ on = "stop", when = "not exists('ok')", block = "make ok" }},
  {{ on = "stop", goto = "b", allow = "done" }},
]
[phase.b]
final = true
"#
            ),
        );
        scene.ok(&["start", "w"]);
        scene.stop().blocks("make ok");
        std::fs::remove_dir_all(scene.path(".phasegate/runs")).unwrap();
        // The agent was told to go on: by a block that nothing but the witness remembers.
        let said = scene.stop_again();
        let told = "`ledger` was changed from that of line 2 to nothing, and not by Phasegate";
        assert!(said.told().unwrap_or_default().contains(told), "{said:?}");
        if holds {
            said.blocks("make ok");
            scene.file("ok", "");
            scene.stop_again().blocks("Run w/w cannot end: `ledger` was changed");
        } else {
            said.allows_saying("hook");
        }
    }
}

#[test]
fn a_ledger_and_a_journal_that_are_set_back_are_told() {
    let scene = held();
    let old = (scene.read(LEDGER), scene.read(JOURNAL));
    scene.stop().blocks("2 of 2");
    scene.file(LEDGER, old.0).file(JOURNAL, old.1);
    is_told(&scene, "`ledger` was changed from that of line 2 to an older one, of line 1");
}

/// A sandbox, a container, another user's home, one that cannot be written: none of it is tampering.
#[test]
fn another_home_is_not_tampering() {
    let scene = held();
    let other = tempfile::tempdir().unwrap();
    let other = other.path().display().to_string();
    for home in [&*other, "/dev/null", "/nowhere", ""] {
        for _ in 0..2 {
            let payload = scene.payload().to_string();
            let said = scene.hook_raw(payload.as_bytes(), &[("HOME", home)]);
            assert!(
                !said.told().unwrap_or_default().contains("not by Phasegate"),
                "{home}: {said:?}"
            );
            let said = scene.stop();
            assert!(
                !said.told().unwrap_or_default().contains("not by Phasegate"),
                "{home}: {said:?}"
            );
        }
    }
    scene.ok(&["log", "--verify"]);
    assert_eq!(scene.json(LEDGER)["tamper"]["count"], Value::Null);
    // What it remembers may be lost, or be unusable.
    let witness = scene.path("home/.local/state/phasegate/witness");
    let folder = std::fs::read_dir(&witness).unwrap().next().unwrap().unwrap().path();
    for text in ["", "rubbish", "1 2 3\n"] {
        std::fs::write(folder.join("triage%2Fweb"), text).unwrap();
        assert_eq!(scene.json(LEDGER)["tamper"]["count"], Value::Null);
        assert!(!scene.stop().told().unwrap_or_default().contains("not by Phasegate"));
    }
    std::fs::remove_dir_all(&witness).unwrap();
    assert!(!scene.stop().told().unwrap_or_default().contains("not by Phasegate"));
}

/// The same place may have another project one day, and a project another place.
#[test]
fn a_new_project_in_the_same_place_is_another_one() {
    let home = tempfile::tempdir().unwrap();
    let scene = held();
    let hook = |root: &str| {
        let mut command = scene.command();
        command.args(["hook", "stop"]).current_dir(scene.path(root)).env("HOME", home.path());
        let payload = json!({ "session_id": "s1", "cwd": scene.path(root) });
        crate::scene::finish(scene.spawn(command, payload.to_string().as_bytes()))
    };
    let project = |root: &str| {
        scene.file(&format!("{root}/.phasegate/config.toml"), "");
        scene.file(&format!("{root}/{STATE}"), scene.read(STATE));
        std::fs::create_dir_all(scene.path(&format!("{root}/.git"))).unwrap();
    };
    project("a");
    assert!(hook("a").stdout.contains("2 of 2"));
    std::fs::remove_dir_all(scene.path("a")).unwrap();
    project("a");
    let said = hook("a");
    assert!(said.stdout.contains("2 of 2") && !said.stdout.contains("not by"), "{said:?}");
    std::fs::rename(scene.path("a"), scene.path("b")).unwrap();
    let said = hook("b");
    assert!(said.stdout.contains("triage/web") && !said.stdout.contains("not by"), "{said:?}");
}
