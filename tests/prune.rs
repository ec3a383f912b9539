//! `prune` removes what runs that are over have left, and nothing that anybody still needs.

use serde_json::{Value, json};

use crate::scene::{STATE, Scene};

const OWN: &str = r#"name = "own"
about = "x"
initial = "a"

[phase.a]
rules = [
  { on = "stop", when = "not exists('ok')", block = "not yet" },
  { on = "stop", goto = "b", allow = "done" },
]

[phase.b]
final = true
"#;

const DOCUMENT: &str = ".phasegate/own/x.json";
const FOLDER: &str = ".phasegate/runs/own/x";
const NOW: [&str; 4] = ["prune", "--yes", "--older-than", "0s"];

/// A run that has blocked twice and is done; its document is still there.
fn done() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/own.toml", OWN);
    scene.ok(&["start", "own", "--name", "x"]);
    scene.stop().blocks("not yet");
    scene.file("ok", "");
    scene.stop();
    assert!(scene.ok(&["status", "--all"]).contains("done"));
    scene
}

/// A triage that a person has cancelled; its document would be gated.
fn cancelled() -> Scene {
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2");
    scene.ok_by_hand(&["cancel", "triage/web"]);
    scene
}

fn is_gone(scene: &Scene, run: &str) -> bool {
    let folder = format!(".phasegate/runs/{run}");
    !scene.exists(&format!("{folder}/evidence"))
        && !scene.exists(&format!("{folder}/definition.json"))
}

/// The run is over, its journal fits, and nobody is accused.
#[track_caller]
fn stays_over(scene: &Scene, run: &str) {
    let said = scene.stop();
    assert_eq!(said.json["decision"], Value::Null, "{said:?}");
    let verified = scene.run(&["log", run, "--verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let status = scene.ok(&["status", "--all"]);
    assert!(!status.contains("not by Phasegate"), "{status}");
}

#[test]
fn a_cancelled_run_stays_cancelled_with_its_document_in_place() {
    let scene = cancelled();
    let before = scene.snapshot();
    let shown = scene.ok_by_hand(&["prune", "--print", "--older-than", "0s"]);
    assert!(shown.contains("remove triage/web") && shown.contains("stays ended"), "{shown}");
    assert_eq!(scene.snapshot(), before, "--print removes nothing");
    scene.ok_by_hand(&NOW);
    assert!(is_gone(&scene, "triage/web"));
    stays_over(&scene, "triage/web");
    assert!(scene.ok(&["status", "--all"]).contains("cancelled"));
    // The end, and that it was pruned.
    let events: Vec<Value> =
        scene.journal("triage/web").iter().map(|line| line["event"]["name"].clone()).collect();
    assert_eq!(events, ["cancel", "prune"]);
    let again = scene.ok_by_hand(&NOW);
    assert!(again.contains("There is nothing to remove."), "{again}");
}

#[test]
fn what_was_pruned_is_called_that_and_not_broken() {
    let scene = done();
    scene.ok_by_hand(&NOW);
    stays_over(&scene, "own/x");
    let verified = scene.ok(&["log", "own/x", "--verify"]);
    assert!(verified.contains("2 entries, chain intact; 2 before them were pruned"), "{verified}");
    let replayed = scene.ok(&["replay", "own/x"]);
    assert!(replayed.contains("0 different · 1 unknown"), "{replayed}");
    assert!(replayed.contains("its evidence was pruned on"), "{replayed}");
    assert!(scene.ok(&["why", "own/x"]).contains("done"));
    scene.git(&["init", "-q"]);
    scene.file(".gitignore", "*\n!.gitignore\n");
    scene.git(&["add", ".gitignore"]);
    scene.git(&["commit", "-qm", "x"]);
    let proved = scene.by_hand(&["prove", "own/x", "-o", "proof.json", "--yes"]);
    assert!(proved.code == Some(1) && proved.stderr.contains("was pruned"), "{proved:?}");
    // Its definition may go, too: how it ended is known.
    std::fs::remove_file(scene.path(".phasegate/workflows/own.toml")).unwrap();
    let status = scene.ok(&["status", "--all"]);
    assert!(status.contains("own/x  done in phase b"), "{status}");
}

#[test]
fn a_new_document_in_the_place_of_a_pruned_run_is_a_new_run() {
    let scene = done();
    scene.ok_by_hand(&NOW);
    std::fs::remove_file(scene.path("ok")).unwrap();
    scene.file(DOCUMENT, "{\"phase\": \"a\"}\n");
    scene.stop().blocks("not yet");
    scene.file("ok", "");
    scene.stop();
    let verified = scene.ok(&["log", "own/x", "--verify"]);
    assert!(verified.contains("4 entries, chain intact; 2 before them"), "{verified}");
    assert!(scene.ok(&["replay", "own/x"]).contains("2 same · 0 different · 1 unknown"));
    // And it can be pruned again.
    scene.ok_by_hand(&NOW);
    assert!(is_gone(&scene, "own/x"));
    stays_over(&scene, "own/x");
    assert!(scene.ok(&["log", "own/x", "--verify"]).contains("2 entries, chain intact; 5 before"));
}

#[test]
fn a_run_without_a_document_goes_as_a_whole() {
    let scene = done();
    std::fs::remove_file(scene.path(DOCUMENT)).unwrap();
    let shown: Value =
        serde_json::from_str(&scene.ok(&["prune", "--print", "--json", "--older-than", "0s"]))
            .unwrap();
    assert_eq!(shown["rows"][0]["what"], "run", "{shown}");
    assert_eq!((&shown["rows"][0]["name"], &shown["removed"]), (&json!("own/x"), &json!(false)));
    scene.ok_by_hand(&NOW);
    assert!(!scene.exists(FOLDER));
    let left: Vec<_> = scene.snapshot().into_iter().map(|(path, _)| path).collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("witness/")), "{left:?}");
    assert!(!scene.ok(&["status", "--all"]).contains("own/x"));
    // Its name is free.
    std::fs::remove_file(scene.path("ok")).unwrap();
    scene.ok(&["start", "own", "--name", "x"]);
    scene.stop().blocks("not yet");
    assert!(scene.ok(&["log", "own/x", "--verify"]).contains("2 entries, chain intact\n"));
}

#[test]
fn open_and_recent_runs_are_left_alone() {
    let scene = done();
    let triage = json!({ "phase": "triage", "entries": [{ "entry_index": 0, "name": "e", "status": "pending" }] });
    scene.file(STATE, triage.to_string());
    scene.stop().blocks("1 of 1");
    let before = scene.snapshot();
    let shown = scene.ok_by_hand(&["prune", "--yes"]);
    assert!(shown.contains("There is nothing to remove."), "it has just ended: {shown}");
    assert_eq!(scene.snapshot(), before);
    let shown = scene.ok_by_hand(&["prune", "--print", "--older-than", "0s"]);
    assert!(shown.contains("own/x") && !shown.contains("triage/web"), "{shown}");
    scene.ok_by_hand(&NOW);
    assert!(scene.exists(".phasegate/runs/triage/web/evidence"));
    scene.result(0, true, "g");
    scene.stop().blocks("**triage-aggregator**");
}

#[test]
fn it_asks_and_is_for_people() {
    let scene = done();
    let before = scene.snapshot();
    let refused = scene.by_agent(&NOW);
    assert!(refused.code == Some(1) && refused.stderr.contains("is for people"), "{refused:?}");
    let mut command = scene.command();
    command.args(["prune", "--older-than", "0s"]);
    let ran = scene.typing("n\n", command);
    assert!(ran.code == Some(1) && ran.stderr.contains("nothing was removed"), "{ran:?}");
    let asked = scene.by_hand(&["prune", "--older-than", "0s", "--json"]);
    assert!(asked.code == Some(1) && asked.stdout.contains("add --yes"), "{asked:?}");
    assert_eq!(scene.snapshot(), before);
    let wrong = scene.by_hand(&["prune", "--older-than", "yesterday"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("such as 12h, 30d or 8w"), "{wrong:?}");
    let mut command = scene.command();
    command.args(["prune", "--older-than", "0s"]);
    assert_eq!(scene.typing("y\n", command).code, Some(0));
    assert!(is_gone(&scene, "own/x"));
}

/// Kills `prune` at its first place, then, in a new scene, at its second, and so on. Whenever it dies, the run
/// stays over, nobody is accused of anything, and the next one brings it to its end.
#[cfg(debug_assertions)]
fn sweep(least: usize, scene: impl Fn() -> Scene, run: &str, whole: bool) {
    for place in 1..80 {
        let scene = scene();
        let point = format!("prune {place}");
        let ran = scene.by_hand_with(&NOW, &[("PHASEGATE_FAULT_POINT", &point)]);
        let killed = ran.code.is_none();
        let folder = format!(".phasegate/runs/{run}");
        if !whole || scene.exists(&folder) {
            stays_over(&scene, run);
        }
        scene.ok_by_hand(&NOW);
        assert!(is_gone(&scene, run), "{place}");
        assert_eq!(scene.exists(&folder), !whole, "{place}");
        assert!(!scene.exists(&format!(".phasegate/jobs/{}", run.replace('/', "%2F"))), "{place}");
        let gone = std::fs::read_dir(scene.path(".phasegate/runs/.gone")).unwrap().flatten();
        assert_eq!(gone.count(), 1, "{place}: only its lock");
        if !whole {
            stays_over(&scene, run);
            assert_eq!(scene.journal(run).len(), 2, "{place}");
        }
        for (path, _) in scene.snapshot() {
            let path = path.to_string_lossy().into_owned();
            assert!(!path.contains("phasegate-tmp"), "{place}: {path}");
        }
        if !killed {
            assert!(place > least, "only {place} places were reached");
            return;
        }
    }
    panic!("it reaches more places than that");
}

#[cfg(debug_assertions)]
#[test]
fn a_kill_at_any_moment_leaves_a_run_that_is_over() {
    sweep(10, cancelled, "triage/web", false);
}

#[cfg(debug_assertions)]
#[test]
fn a_kill_at_any_moment_leaves_all_of_a_run_or_nothing() {
    let scene = || {
        let scene = done();
        std::fs::remove_file(scene.path(DOCUMENT)).unwrap();
        scene
    };
    sweep(3, scene, "own/x", true);
}

#[cfg(debug_assertions)]
#[test]
fn a_run_that_begins_again_meanwhile_keeps_what_it_has() {
    let scene = done();
    // Between the word and the deed, an agent's tool writes a new document, and the agent stops.
    std::fs::remove_file(scene.path("ok")).unwrap();
    scene.file("payload", scene.payload().to_string());
    let program = scene.command().get_program().to_string_lossy().into_owned();
    let begins = format!(
        "echo '{{\"phase\": \"a\"}}' > {DOCUMENT}; env -u PHASEGATE_FAULT_POINT {program} hook stop < payload"
    );
    let env = [("PHASEGATE_FAULT_POINT", "said"), ("PHASEGATE_FAULT_COMMAND", &begins)];
    let ran = scene.by_hand_with(&NOW, &env);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(scene.exists(&format!("{FOLDER}/evidence")));
    assert!(scene.ok(&["status"]).contains("own/x"));
    let verified = scene.ok(&["log", "own/x", "--verify"]);
    assert!(verified.contains("chain intact"), "{verified}");
    scene.file("ok", "");
    scene.stop();
    assert!(scene.ok(&["status", "--all"]).contains("own/x  done"));
}
