//! Checks: run by Phasegate itself, bound to the tree, and only with the user's consent.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::scene::{Ran, Said, Scene, finish};

/// The gate of the design, with a script for the tests.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass on the tree as it is now."
initial = "working"

[check.tests]
run = ["sh", "test.sh"]
timeout = "20s"

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\n{{ check.tests.tail }}\nFix them, then stop again." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// A repository with the gate, and a script that leaves a mark each time it runs.
fn ship(script: &str) -> Scene {
    let scene = Scene::new();
    scene.file("test.sh", script).file(".gitignore", "ran\n*.out\nhome\n");
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene
}

fn started(script: &str) -> Scene {
    let scene = ship(script);
    let trusted = scene.by_hand(&["trust", "ship", "--yes"]);
    assert!(trusted.stdout.contains(r#"check tests: ["sh", "test.sh"]"#), "{trusted:?}");
    assert!(trusted.stdout.contains("It is trusted as it is now"), "{trusted:?}");
    scene.ok(&["ship", "start"]);
    scene
}

fn runs(scene: &Scene) -> usize {
    std::fs::read_to_string(scene.path("ran")).unwrap_or_default().lines().count()
}

#[test]
fn a_failing_test_blocks_with_its_output_and_a_fixed_one_lets_go() {
    let scene = started("echo x >> ran; echo assertion failed; test -e fixed");
    let said = scene.stop();
    said.blocks("The tests fail:\nassertion failed\nFix them");
    assert_eq!(runs(&scene), 1);
    // A failure is looked at again: what was missing may not be a part of the tree.
    scene.stop_again().allows_saying("is stuck");
    assert_eq!(runs(&scene), 2);
    scene.file("fixed", "");
    scene.stop().allows_saying("is done");
    assert_eq!(runs(&scene), 3);
    assert!(scene.ok(&["status"]).contains("done in phase done"));
    let line = scene.journal("ship/ship").pop().unwrap();
    assert!(line["evidence"].to_string().contains("check tests"), "{line}");
}

/// A gate that wants more than its tests, so that a result is asked for again.
const NOTES_TOO: &str = r#"{ on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done","#;

fn started_with_notes(script: &str) -> Scene {
    let scene = ship(script);
    let gate = SHIP.replace(r#"{ on = "stop", goto = "done","#, NOTES_TOO);
    scene.file(".phasegate/workflows/ship.toml", gate);
    scene.file(".phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "notes"]);
    assert_eq!(scene.by_hand(&["trust", "ship", "--yes"]).code, Some(0));
    scene.ok(&["ship", "start"]);
    scene
}

#[test]
fn a_pass_counts_only_for_the_tree_it_was_worked_out_on() {
    let scene = started_with_notes("echo x >> ran");
    assert!(scene.ok(&["jobs"]).contains("No open run has a job"));
    scene.stop().blocks("Write NOTES.md");
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(runs(&scene), 1, "a pass is not worked out again");
    // What git ignores and what we write ourselves is no change.
    scene.file("build.out", "x");
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(runs(&scene), 1);
    for (count, change) in [(2, "new.txt"), (3, "test.sh")] {
        scene.file(change, "echo x >> ran # changed");
        scene.stop().blocks("Write NOTES.md");
        assert_eq!(runs(&scene), count, "{change}");
    }
    // A commit of the same content is the same tree.
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "second"]);
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(runs(&scene), 3);
    let mut status = Command::new("git");
    let status = status.args(["status", "--porcelain"]).current_dir(scene.root()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&status.stdout), "", "the repository is untouched");
    // Broken after it passed.
    scene.file("test.sh", "echo broken; exit 1").file("NOTES.md", "");
    scene.stop().blocks("broken");
}

#[test]
fn nobody_else_can_make_a_check_pass() {
    let scene = started("echo x >> ran; echo red; exit 1");
    scene.stop().blocks("red");
    let rows: serde_json::Value = serde_json::from_str(&scene.ok(&["jobs", "--json"])).unwrap();
    let end = rows["jobs"][0]["job"]["log"].as_str().unwrap().replace("/log", "/end.json");
    let kept = scene.read(&end).replace("\"exit_code\":1", "\"exit_code\":0");
    scene.file(&end, kept);
    scene.stop().blocks("red");
    // Run by an agent with a shell of its own making: shown, and not believed.
    scene.file("bin/sh", "#!/bin/true\n");
    let mut command = scene.command();
    command.args(["jobs", "run", "tests"]).env("PATH", scene.path("bin"));
    finish(scene.spawn(command, b""));
    scene.stop().blocks("red");
}

#[test]
fn our_own_folder_may_be_ignored_and_a_document_may_lie_in_the_source() {
    let scene = ship("echo x >> ran; cat src/*.rs; ! grep -q broken src/*.rs");
    let gate = SHIP.replace("initial =", "document = \"src/*.state.json\"\ninitial =");
    let gate = gate.replace(r#"{ on = "stop", goto = "done","#, NOTES_TOO);
    scene.file(".phasegate/workflows/ship.toml", gate);
    scene.file(".gitignore", "ran\n.phasegate/\nhome\n").file("src/a.rs", "fine");
    assert_eq!(scene.by_hand(&["trust", "ship", "--yes"]).code, Some(0));
    scene.ok(&["ship", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(runs(&scene), 1);
    scene.file("src/a.rs", "broken").file("NOTES.md", "");
    scene.stop().blocks("The tests fail");
}

#[test]
fn without_consent_nothing_runs_and_the_stop_is_allowed_saying_so() {
    let scene = ship("echo x >> ran; exit 1");
    let ran = scene.run(&["ship", "start"]);
    assert!(ran.stderr.contains("Run ship/ship holds nothing"), "{ran:?}");
    assert!(scene.ok(&["status"]).contains("Run ship/ship holds nothing"));
    scene.stop().allows_saying("`phasegate trust ship` shows them and consents");
    let status = scene.ok(&["status"]);
    assert!(status.contains("waiting in phase working") && status.contains("phasegate trust ship"));
    for ran in [scene.by_agent(&["trust", "ship"]), scene.run(&["trust", "ship"])] {
        assert!(ran.stderr.contains("consenting to commands is for people"), "{ran:?}");
    }
    let ran = scene.run(&["jobs", "run", "tests"]);
    assert!(ran.stderr.contains("`phasegate trust ship` first"), "{ran:?}");
    assert_eq!(runs(&scene), 0);
    let payload = scene.payload().to_string();
    scene.hook_raw(payload.as_bytes(), &[("PHASEGATE_TRUST_ALL", "1")]).blocks("The tests fail");
    scene.file("another", "");
    scene.stop().allows_saying("trust ship");
    scene.by_hand(&["trust", "ship", "--yes"]);
    scene.stop().blocks("The tests fail");
    scene.by_hand(&["trust", "ship", "--revoke"]);
    scene.file("other", "");
    scene.stop().allows_saying("trust ship");
}

#[test]
fn a_change_of_the_definition_needs_consent_again() {
    let scene = started("exit 1");
    scene.stop().blocks("The tests fail");
    scene.file(
        ".phasegate/workflows/ship.toml",
        SHIP.replace("\"sh\", \"test.sh\"", "\"touch\", \"bad\""),
    );
    // The run keeps to what it began with; a new one would begin with the change.
    scene.file("other", "").stop().blocks("The tests fail");
    scene.ok(&["ship", "start"]);
    let mut payload = scene.payload();
    payload["session_id"] = "s2".into();
    scene.hook(&payload).allows_saying("trust ship");
    assert!(!scene.exists("bad"));
}

#[test]
fn a_check_that_cannot_run_hangs_or_dies_is_a_check_that_fails() {
    let cases = [
        (r#"["no-such-program"]"#, "cannot run no-such-program"),
        (r#"["sh", "-c", "echo slow; sleep 60"]"#, "slow\nIt took longer than 1 second."),
        (r#"["sh", "-c", "trap '' TERM; sleep 60"]"#, "It took longer than 1 second."),
        (r#"["sh", "-c", "kill -9 $$"]"#, "It was killed by signal 9."),
        (r#"["sh", "-c", "exit 3"]"#, "code 3"),
        (r#"["sh", "-c", "printf 'a\\377b'; exit 1"]"#, "a\u{fffd}b"),
    ];
    for (run, text) in cases {
        let scene = ship("");
        let gate = SHIP.replace(r#"["sh", "test.sh"]"#, run).replace("20s", "1s");
        let gate = gate.replace(
            "{{ check.tests.tail }}",
            "{{ check.tests.tail }} code {{ check.tests.exit_code }}",
        );
        scene.file(".phasegate/workflows/ship.toml", gate);
        assert_eq!(scene.by_hand(&["trust", "ship", "--yes"]).code, Some(0));
        scene.ok(&["ship", "start"]);
        let since = Instant::now();
        scene.stop().blocks(text);
        assert!(since.elapsed() < Duration::from_secs(30), "{run}");
    }
}

/// Whether a process runs whose command line has this text.
fn runs_still(text: &str) -> bool {
    let ours = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    ours.into_iter().any(|line| line.contains(text))
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(20) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn what_a_check_leaves_behind_is_ended_with_it() {
    // A child in the background that keeps the output open.
    let scene = started(
        "setsid sleep 4711.1 & timeout 900 sleep 4711.1 & sleep 4711.1 & sleep 0.2; echo started; exit 1",
    );
    let since = Instant::now();
    scene.stop().blocks("started");
    assert!(since.elapsed() < Duration::from_secs(15));
    assert!(wait_until(|| !runs_still("sleep 4711.1")));
}

#[test]
fn a_hook_that_is_killed_leaves_its_check_at_work_and_the_next_stop_uses_it() {
    let scene = started("echo x >> ran; while ! test -e fast; do sleep 0.05; done; exit 1");
    scene.file(".gitignore", "ran\nfast\nhome\n");
    for signal in ["-9", "-15"] {
        let _ = std::fs::remove_file(scene.path("fast"));
        let before = runs(&scene);
        let mut command = scene.command();
        command.args(["hook", "stop"]);
        let mut hook = scene.spawn(command, scene.payload().to_string().as_bytes());
        assert!(wait_until(|| runs(&scene) == before + 1));
        // Another session is not concerned.
        scene.stop_of("s2", false).allows();
        assert!(scene.ok(&["jobs"]).contains("check.tests"));
        let kill = Command::new("kill").args([signal, &hook.id().to_string()]).status();
        assert!(kill.unwrap().success());
        hook.wait().unwrap();
        assert!(scene.ok(&["status"]).contains("check tests was started"), "{signal}");
        scene.file("fast", "");
        scene.stop().blocks("The tests fail");
        assert_eq!(runs(&scene), before + 1, "{signal}: it is started once");
    }
    let lines = scene.journal("ship/ship");
    let begun = lines.iter().find(|line| line["event"]["name"] == "job-started").unwrap();
    assert_eq!(begun["event"]["params"]["name"], "tests", "the intent is written down");
    let ended = lines.iter().filter(|line| line["event"]["name"] == "job-ended");
    assert_eq!(ended.count(), 2);
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_check_that_changes_the_tree_is_run_again_and_then_counts() {
    let scene = started("echo x >> ran; echo formatted > code.txt; exit 0");
    scene.stop().allows_saying("is done");
    assert_eq!(runs(&scene), 2);
    let scene = started("echo x >> ran; date +%N > code.txt; exit 1");
    scene.stop().blocks("The tests fail");
    scene.stop().blocks("The tests fail");
    assert_eq!(runs(&scene), 2, "a failure counts at once");
    let scene = started("echo x >> ran; date +%N > code.txt");
    scene.stop().allows_saying("Files keep changing while check tests of run ship/ship runs");
    assert_eq!(runs(&scene), 2, "a pass does not count for a tree that it has not seen");
    assert!(scene.ok(&["status"]).contains("waiting"));
}

#[test]
fn checks_work_without_a_repository_and_without_git() {
    let script = "echo red; test -e fixed";
    let without_git = |scene: &Scene| -> Said {
        let mut command = scene.command();
        command.args(["hook", "stop"]).env("PATH", scene.path("bin"));
        let ran: Ran = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
        Said { code: ran.code, json: serde_json::from_str(&ran.stdout).unwrap() }
    };
    let shell = Command::new("sh").args(["-c", "command -v sh"]).stdout(Stdio::piped()).output();
    let shell = String::from_utf8(shell.unwrap().stdout).unwrap();
    for with_git in [true, false] {
        let scene = Scene::new();
        scene.file("test.sh", script).file(".gitignore", "ran\nbin\nhome\n");
        scene.file(".phasegate/workflows/ship.toml", SHIP);
        std::fs::create_dir(scene.path("bin")).unwrap();
        std::os::unix::fs::symlink(shell.trim(), scene.path("bin/sh")).unwrap();
        scene.by_hand(&["trust", "ship", "--yes"]);
        scene.ok(&["ship", "start"]);
        let stop = || if with_git { scene.stop() } else { without_git(&scene) };
        stop().blocks("red");
        scene.file("fixed", "");
        stop().allows_saying("is done");
    }
}

#[test]
fn mistakes_in_checks_are_found_by_lint() {
    let scene = Scene::new();
    let gate = SHIP
        .replace("not check.tests.ok", "check.test.ok or check.tests.okay or check")
        .replace("20s", "soon")
        .replace("[\"sh\", \"test.sh\"]", "[]");
    scene.file(".phasegate/workflows/ship.toml", gate);
    let ran = scene.run(&["lint", "ship"]);
    for text in [
        "there is no check `test`",
        "did you mean `tests`",
        "there is no member of a check `okay`",
        "`check` needs the name of a check",
        "\"soon\" is not a duration",
        "`run` is empty",
    ] {
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(text), "{text}: {ran:?}");
    }
}

#[test]
fn cases_are_given_what_came_of_checks() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    let cases = r#"
state = '{"phase":"working"}'
[[case]]
name = "red"
check.tests = { ok = false, tail = "boom" }
expect = { decision = "BLOCK", says = ["boom"] }
[[case]]
name = "green"
check.tests = { ok = true }
expect = { decision = "ALLOW", outcome = "done" }
"#;
    scene.file(".phasegate/workflows/ship/cases/all.toml", cases);
    assert!(scene.ok(&["test", "ship", "--full-coverage"]).contains("(100 %)"));
}

#[test]
fn no_filter_of_the_repository_hides_a_change() {
    let scene = started_with_notes("echo x >> ran");
    scene.file("a.txt", "old\n").file(".git/info/attributes", "a.txt filter=frozen\n");
    scene.git(&["config", "filter.frozen.clean", "touch filtered.out; echo old"]);
    scene.git(&["config", "filter.frozen.required", "true"]);
    scene.stop().blocks("Write NOTES.md");
    scene.file("a.txt", "new\n");
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(runs(&scene), 2, "the change is seen");
    assert!(!scene.exists("filtered.out"), "and the filter is not run");
}
