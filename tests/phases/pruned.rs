//! What tasks that are over leave: worktrees, logs of their agents, and trees.

use std::process::Command;

use serde_json::{Value, json};

use super::Phases;
use super::worktrees::{approved, create, project};

fn prune(phases: &Phases) -> Value {
    let shown = phases.scene.by_hand(&["prune", "--yes", "--json", "--older-than", "0s"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str(&shown.stdout).unwrap()
}

fn complete(phases: &Phases, run: &str) {
    phases.ok(&["deploy", run, "--prompt", "x"]);
    approved(phases, run);
    phases.ok(&["advance", run]);
}

#[test]
fn a_worktree_goes_when_its_branch_is_merged_and_nothing_in_it_is_new() {
    let phases = project();
    for title in ["A", "B", "C"] {
        create(&phases, title, &["--tree", "own"]);
        complete(&phases, &title.to_lowercase());
    }
    phases.ok(&["merge", "a"]);
    phases.ok(&["merge", "c"]);
    phases.scene.file(".phasegate/worktrees/c/notes.txt", "mine");
    assert!(phases.scene.exists(".phasegate/jobs/phases%2Fa"), "the logs of its agents");
    let shown = prune(&phases);
    let kept: Vec<(&str, &str)> = shown["kept"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), it["why"].as_str().unwrap()))
        .collect();
    assert_eq!(
        kept,
        [
            (".phasegate/worktrees/b", "its branch phasegate/b is not merged"),
            (".phasegate/worktrees/c", "it has changes that are not committed"),
        ]
    );
    assert!(!phases.scene.exists(".phasegate/worktrees/a"));
    let branches = phases.scene.git(&["branch", "--format=%(refname:short)"]);
    assert!(!branches.contains("phasegate/a") && branches.contains("phasegate/b"), "{branches}");
    assert_eq!(phases.scene.read(".phasegate/worktrees/c/notes.txt"), "mine");
    assert_eq!(phases.scene.read("a.txt"), "work\n", "what was merged stays");
    assert!(!phases.scene.exists(".phasegate/jobs/phases%2Fa"));
    assert!(phases.scene.exists(".phasegate/phases/a/task.json"), "the document is the user's");
    // Once it is merged, it goes, though its run was pruned before.
    phases.scene.git(&["merge", "-q", "phasegate/b"]);
    let shown = prune(&phases);
    assert_eq!(shown["rows"][0]["name"], json!(".phasegate/worktrees/b"), "{shown}");
    assert!(!phases.scene.exists(".phasegate/worktrees/b"));
}

/// How many objects are kept.
fn objects(phases: &Phases) -> usize {
    let mut find = Command::new("find");
    find.arg(phases.scene.path(".phasegate/kept/objects")).args(["-type", "f", "-path", "*/??/*"]);
    String::from_utf8(find.output().unwrap().stdout).unwrap().lines().count()
}

#[test]
fn trees_that_an_open_task_is_compared_with_stay() {
    let phases = project();
    create(&phases, "A", &["--tree", "shared"]);
    phases.scene.file("uncommitted.txt", "of a\n");
    complete(&phases, "a");
    std::fs::remove_file(phases.scene.path("uncommitted.txt")).unwrap();
    create(&phases, "B", &["--tree", "shared"]);
    phases.scene.file("kept.txt", "of b\n");
    phases.ok(&["deploy", "b", "--prompt", "x"]);
    approved(&phases, "b");
    let mut age = Command::new("find");
    age.arg(phases.scene.path(".phasegate/kept/objects"));
    age.args(["-type", "f", "-exec", "touch", "-d", "3 days ago", "{}", "+"]);
    assert!(age.status().unwrap().success());
    let before = objects(&phases);
    let shown = prune(&phases);
    let trees = shown["rows"].as_array().unwrap().iter().find(|row| row["what"] == "trees");
    assert!(trees.is_some_and(|row| row["bytes"].as_u64() > Some(0)), "{shown}");
    let after = objects(&phases);
    assert!(0 < after && after < before, "{after} of {before}");
    // What has changed since its phase began can still be told.
    phases.scene.file("later.txt", "x\n");
    phases.refused_of(&["advance", "b"], "STALE");
    std::fs::remove_file(phases.scene.path("later.txt")).unwrap();
    phases.ok(&["advance", "b"]);
    assert!(prune(&phases)["problems"].as_array().unwrap().is_empty());
}
