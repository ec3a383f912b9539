//! `uninstall --purge` removes what is ours, and nothing else.

use serde_json::json;

use crate::scene::{STATE, Scene};

/// A project in which everything was used once, and beside it another one of the same user.
fn used() -> (Scene, String) {
    let scene = Scene::bare();
    scene.file("Makefile", "test:\n\t@true\n").file("src/a.txt", "one\n");
    scene.git(&["init", "-q"]);
    scene.ok(&["init", "--client", "claude"]);
    scene.file(".phasegate/config.toml", "# mine\n");
    let own = "name = \"own\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", goto = \"b\", allow = \"done\" }]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/own.toml", own);
    scene.ok(&["own", "start", "--name", "x"]);
    let triage = json!({ "phase": "triage", "entries": [{ "entry_index": 0, "name": "e", "status": "pending" }] });
    scene.file(STATE, triage.to_string());
    scene.stop().blocks("");
    scene.ok_by_hand(&["pause", "ship"]);
    let other = tempfile::tempdir().unwrap().keep();
    let mut command = scene.command();
    std::fs::write(other.join("Makefile"), "test:\n\t@true\n").unwrap();
    command.args(["init"]).current_dir(&other);
    assert!(command.status().unwrap().success());
    (scene, other.canonicalize().unwrap().display().to_string())
}

/// The paths that are there, below the project and its home.
fn files(scene: &Scene) -> Vec<String> {
    let root = scene.root().to_path_buf();
    let paths = scene.snapshot().into_iter().map(|(path, _)| path);
    let paths = paths.map(|path| path.strip_prefix(&root).unwrap().display().to_string());
    paths.filter(|path| !path.starts_with(".git/")).collect()
}

#[test]
fn a_purge_removes_what_was_kept_and_leaves_what_people_wrote() {
    let (scene, other) = used();
    let before = files(&scene);
    let has = |files: &[String], part: &str| files.iter().any(|path| path.contains(part));
    for part in [".phasegate/runs/", "witness/", "phasegate/trusted/", "phasegate/paused/"] {
        assert!(has(&before, part), "{part}: {before:#?}");
    }
    let shown = scene.ok_by_hand(&["uninstall", "--purge", "--print"]);
    assert!(shown.contains("remove .phasegate/runs") && shown.contains("witness"), "{shown}");
    assert_eq!(files(&scene), before, "--print removes nothing");
    scene.ok_by_hand(&["uninstall", "--purge", "--yes"]);
    let left = files(&scene);
    let consents = before.iter().filter(|path| path.contains("phasegate/trusted/")).count();
    let consents_left: Vec<&String> =
        left.iter().filter(|path| path.contains("phasegate/trusted/")).collect();
    assert!(!consents_left.is_empty() && consents_left.len() < consents, "{left:#?}");
    for path in consents_left {
        assert!(scene.read(path).starts_with(&other), "the consent of another project stays");
    }
    let rest: Vec<&String> = left.iter().filter(|path| !path.starts_with("home/")).collect();
    assert_eq!(
        rest,
        [
            ".phasegate/.gitignore",
            ".phasegate/config.toml",
            ".phasegate/workflows/own.toml",
            "Makefile",
            "src/a.txt"
        ]
        .iter()
        .filter(|path| **path != ".phasegate/.gitignore")
        .collect::<Vec<_>>()
    );
    assert!(!has(&left, "witness/") && !has(&left, "paused/"), "{left:#?}");
    // And all of the user's.
    let ran = scene.by_hand(&["uninstall", "--user", "--purge", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!has(&files(&scene), "home/"), "{:#?}", files(&scene));
    std::fs::remove_dir_all(other).unwrap();
}

#[test]
fn a_project_without_anything_of_a_person_has_no_folder_afterwards() {
    let scene = Scene::bare();
    scene.file("Makefile", "test:\n\t@true\n");
    scene.git(&["init", "-q"]);
    scene.ok(&["init", "--client", "claude"]);
    scene.ok_by_hand(&["uninstall", "--purge", "--yes"]);
    assert!(!scene.exists(".phasegate") && !scene.exists(".claude"), "{:#?}", files(&scene));
}

#[test]
fn a_purge_asks_and_is_for_people() {
    let (scene, other) = used();
    let before = files(&scene);
    let refused = scene.by_agent(&["uninstall", "--purge", "--yes"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is for people"), "{refused:?}");
    let mut command = scene.command();
    command.args(["uninstall", "--purge"]);
    let ran = scene.typing("n\n", command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("nothing was removed"), "{ran:?}");
    assert_eq!(files(&scene), before);
    let mut command = scene.command();
    command.args(["uninstall", "--purge"]);
    let ran = scene.typing("y\n", command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!scene.exists(".phasegate/runs") && !scene.exists(".claude"));
    std::fs::remove_dir_all(other).unwrap();
}
