//! Issues in worktrees of their own, and how they land.

use serde_json::json;

use super::{DONE, MESSAGES, iterates, states, store};
use crate::scene::Scene;

#[test]
fn an_issue_is_worked_on_in_a_worktree_and_landed() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.file(".gitignore", ".worktrees\n.jwz\n.phasegate\nhome\n").file("a.txt", "1\n");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    let start = |issue: &str| {
        scene.run(&[
            "loop",
            "start",
            "--mode",
            "issue",
            "--issue",
            issue,
            "--worktree",
            "--prompt",
            "x",
        ])
    };
    let ran = start("ABC-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Ids that differ only by case do not collide.
    let ran = start("abc-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let frames = states(&scene).pop().unwrap()["stack"].clone();
    let trees: Vec<String> = frames
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["worktree"].as_str().unwrap().to_lowercase())
        .collect();
    assert_ne!(trees[0], trees[1]);
    assert!(trees.iter().all(|tree| scene.path(tree).join("a.txt").exists()), "{trees:?}");
    assert!(scene.git(&["branch"]).contains("phasegate/issue/abc-1"));
    // A branch without its worktree is git's to complain about, and pushes no frame.
    scene.git(&["branch", "phasegate/issue/taken"]);
    let ran = start("taken");
    assert!(ran.code == Some(1) && ran.stdout.contains("git worktree add"), "{ran:?}");
    assert_eq!(states(&scene).pop().unwrap()["stack"].as_array().unwrap().len(), 2);
    // An issue that was given up is taken up again where it was.
    scene.ok(&["loop", "cancel"]);
    let ran = start("abc-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let tree = &trees[1];
    scene.file(&format!("{tree}/a.txt"), "2\n");
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("not committed: a.txt"), "{ran:?}");
    scene.git(&["-C", tree, "commit", "-qam", "second"]);
    // Not fast-forward: somebody has committed to main meanwhile.
    scene.git(&["commit", "-q", "--allow-empty", "-m", "other"]);
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("git merge --ff-only"), "{ran:?}");
    assert!(scene.path(tree).exists());
    scene.git(&["-C", tree, "rebase", "-q", "main"]);
    let ran = scene.run(&["loop", "land"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.read("a.txt"), "2\n");
    assert!(!scene.path(tree).exists());
    assert!(!scene.git(&["branch"]).lines().any(|line| line.trim() == "phasegate/issue/abc-1"));
}

#[test]
fn a_branch_lands_only_after_its_check() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.file(".gitignore", ".worktrees\n.jwz\n.phasegate\nhome\n").file("a.txt", "1\n");
    scene.file("check.sh", "#!/bin/sh\necho looked in $PWD; grep -q good a.txt\n");
    std::fs::set_permissions(
        scene.path("check.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.file(".phasegate/config.toml", "[workflow.loop.const]\nLAND_CHECK = \"check.sh\"\n");
    let start = ["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "x"];
    // What a project's configuration makes a built-in workflow run needs consent.
    let ran = scene.run(&start);
    assert!(ran.code == Some(1) && ran.stderr.contains("phasegate trust loop"), "{ran:?}");
    assert_eq!(scene.by_hand(&["trust", "loop", "--yes"]).code, Some(0));
    let said = scene.ok(&start);
    assert!(said.contains("Work in .worktrees/phasegate/x") && said.contains(DONE), "{said}");
    scene.file(".worktrees/phasegate/x/a.txt", "bad\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "bad"]);
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("looked in"), "{ran:?}");
    assert_eq!(scene.read("a.txt"), "1\n");
    let refused = scene.journal("loop/current").pop().unwrap();
    assert_eq!(refused["answer"]["decision"], "deny", "a refusal is written down");
    // The agent cannot change the check in its branch.
    scene.file(".worktrees/phasegate/x/check.sh", "#!/bin/true\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "weaker"]);
    assert_eq!(scene.run(&["loop", "land"]).code, Some(1));
    scene.file(".worktrees/phasegate/x/a.txt", "good\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "good"]);
    scene.ok(&["loop", "land"]);
    assert_eq!(scene.read("a.txt"), "good\n");
}

#[test]
fn a_worktree_inside_of_a_project_is_gated_by_the_project() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene
        .file(".gitignore", ".worktrees\nhome\n")
        .file(".phasegate/config.toml", "[limits]\nblocks = 99\n");
    scene.file(MESSAGES, store(&json!({ "schema": 1, "event": "DONE", "stack": [] })));
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok(&["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "p"]);
    let mut payload = scene.payload();
    payload["cwd"] = json!(scene.path(".worktrees/phasegate/x"));
    iterates(&scene.hook(&payload), 1, 10);
}

#[test]
fn what_a_loop_writes_is_passed_over_by_git() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    scene.ok(&["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "p"]);
    let status = scene.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains(".worktrees") && !status.contains(".phasegate"), "{status}");
}
