//! Several tasks in one project that do not get in each other's way: worktrees, and parts of the files.

use serde_json::json;

use super::Phases;
use crate::scene::finish;

/// The worker writes a file that is named after its task.
const WORK: &str = "cat > /dev/null; echo work > \"${PHASEGATE_RUN#*/}.txt\"\n";

pub fn project() -> Phases {
    let phases = Phases::without_task("");
    phases.scene.file("worker.sh", WORK);
    for args in [["add", "."].as_slice(), &["commit", "-qm", "worker"]] {
        phases.scene.git(args);
    }
    phases
}

pub fn create(phases: &Phases, title: &str, more: &[&str]) {
    let planned = json!([{ "name": "Design" }]).to_string();
    let create = ["create", "--title", title, "--phases", &planned];
    phases.ok(&[&create, more].concat());
}

pub fn approved(phases: &Phases, run: &str) {
    let mut command = phases.command();
    command.args(["wait", &format!("phases/{run}"), "--status", "APPROVED", "--seconds", "60"]);
    let ran = finish(phases.scene.spawn(command, b""));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn tasks_beside_another_work_in_worktrees_of_their_own() {
    let phases = project();
    for title in ["A", "B", "C"] {
        create(&phases, title, &[]);
    }
    assert!(phases.scene.json(".phasegate/phases/a/task.json")["worktree"].is_null());
    for run in ["a", "b", "c"] {
        phases.ok(&["deploy", run, "--prompt", "x"]);
    }
    for run in ["a", "b", "c"] {
        approved(&phases, run);
    }
    // Each has its own file, and no approval is stale.
    assert!(phases.scene.exists("a.txt") && !phases.scene.exists("b.txt"));
    assert!(phases.scene.exists(".phasegate/worktrees/b/b.txt"));
    assert!(!phases.scene.exists(".phasegate/worktrees/b/a.txt"));
    let patch = phases.scene.read(".phasegate/phases/b/phase-1.patch");
    assert!(patch.contains("b.txt") && !patch.contains("c.txt"), "{patch}");
    phases.refused_of(&["merge", "b"], "is not complete");
    for run in ["a", "b", "c"] {
        phases.ok(&["advance", run]);
    }
    // What was approved is on the branch, by the gate.
    let log = phases.scene.git(&["log", "-1", "--format=%an %s", "phasegate/b"]);
    assert_eq!(log.trim(), "Phasegate b: phase 1 'Design'");
    let handover = phases.ok(&["handover", "b"]);
    assert!(handover.contains("on the branch phasegate/b"), "{handover}");
    // To merge it is an action of its own.
    assert!(!phases.scene.exists("b.txt"));
    phases.ok(&["merge", "b"]);
    assert_eq!(phases.scene.read("b.txt"), "work\n");
    phases.refused_of(&["merge", "b"], "TASK COMPLETE");
    phases.refused_of(&["merge", "a"], "TASK COMPLETE");
}

/// What a project has of ours is mostly committed, and then in every worktree too.
#[test]
fn a_worktree_with_a_configuration_of_its_own_belongs_to_the_same_project() {
    let phases = project();
    phases.scene.git(&["add", "-f", ".phasegate/config.toml"]);
    phases.scene.git(&["commit", "-qm", "configuration"]);
    create(&phases, "A", &["--tree", "own"]);
    // No session of a client tells the agents' commands where they belong.
    let ran = phases.by_person(&["deploy", "a", "--prompt", "x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    approved(&phases, "a");
    assert!(phases.scene.exists(".phasegate/worktrees/a/.phasegate/config.toml"));
    assert!(phases.scene.exists(".phasegate/worktrees/a/a.txt"));
}

#[test]
fn a_merge_with_conflicts_changes_nothing() {
    let phases = project();
    phases.scene.file("worker.sh", "cat > /dev/null; echo \"$PHASEGATE_RUN\" > work.txt\n");
    phases.scene.git(&["commit", "-qam", "the same file"]);
    create(&phases, "A", &["--tree", "own"]);
    phases.ok(&["deploy", "a", "--prompt", "x"]);
    approved(&phases, "a");
    phases.ok(&["advance", "a"]);
    phases.scene.file("work.txt", "by hand\n");
    phases.scene.git(&["commit", "-qam", "by hand"]);
    phases.refused_of(&["merge", "a"], "work.txt");
    assert_eq!(phases.scene.read("work.txt"), "by hand\n");
    assert_eq!(phases.scene.git(&["status", "--porcelain"]).trim(), "");
}

#[test]
fn tasks_with_a_part_of_the_files_make_each_other_not_stale() {
    let phases = project();
    phases
        .scene
        .file("worker.sh", "cat > /dev/null; f=${PHASEGATE_RUN#*/}; mkdir -p $f; echo x > $f/x\n");
    phases.scene.git(&["commit", "-qam", "folders"]);
    create(&phases, "A", &["--scope", "[\"a/**\"]"]);
    create(&phases, "B", &["--scope", "[\"b/**\"]"]);
    phases.ok(&["deploy", "a", "--prompt", "x"]);
    approved(&phases, "a");
    phases.ok(&["deploy", "b", "--prompt", "x"]);
    approved(&phases, "b");
    assert!(
        phases.scene.exists("b/x")
            && phases.scene.json(".phasegate/phases/b/task.json")["worktree"].is_null()
    );
    phases.ok(&["advance", "a"]);
    phases.scene.file("b/x", "smuggled in");
    phases.refused_of(&["advance", "b"], "STALE");
}

#[test]
fn a_worktree_that_somebody_else_names_is_no_evidence() {
    let phases = project();
    create(&phases, "A", &["--tree", "own"]);
    phases.ok(&["deploy", "a", "--prompt", "x"]);
    approved(&phases, "a");
    let place = ".phasegate/phases/a/task.json";
    let mut task = phases.scene.json(place);
    task["worktree"] = json!("../elsewhere");
    phases.scene.file(place, task.to_string());
    phases.refused_of(&["advance", "a"], "BOOKS CHANGED");
}
