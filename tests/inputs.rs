//! What the result of a check is bound to: its inputs, without what the workflow itself writes.

use crate::scene::Scene;

/// The answer of the real client to a review.
const ANSWER: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"","session_id":"x","total_cost_usd":0.01,"structured_output":{"verdict":"PASS"}}"#;

/// A check, and as many clean reviews as there are in `clean`, whose files are in the tree.
const POLISH: &str = r#"
name = "polish"
about = "Tests, and clean reviews in a row."
initial = "working"

[state]
phase = "string"
clean = { type = "integer", default = 0 }

[check.tests]
run = ["sh", "test.sh"]

[reviewer.code]
prompt = "review.md"
writes = "reviews/review-{{ state.clean + 1 }}.md"
run = ["sh", "reviewer.sh", "reviews/review-{{ state.clean + 1 }}.md"]

[phase.working]
rules = [
  { on = "review-finished", when = "params.verdict == 'PASS'", set = { "state.clean" = "state.clean + 1" } },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", when = "state.clean < CLEAN", review = "code" },
  { on = "stop", goto = "done", allow = "done", write = { "reviews/summary.md" = "summary.md" } },
]
[phase.done]
final = true
"#;

fn polish(clean: usize, reviewer: &str) -> Scene {
    let scene = Scene::new();
    let gate = POLISH.replace("CLEAN", &clean.to_string());
    let folder = ".phasegate/workflows/polish";
    scene.file(&format!("{folder}/workflow.toml"), gate);
    scene.file(&format!("{folder}/prompts/review.md"), "Review.");
    scene.file(&format!("{folder}/templates/summary.md"), "{{ state.clean }} clean reviews");
    scene.file("test.sh", "echo x >> ran").file(".gitignore", "ran\nhome\n");
    scene.file("reviewer.sh", format!("{reviewer}\necho '{ANSWER}'\n"));
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.by_hand(&["trust", "polish", "--yes"]);
    scene.ok(&["polish", "start"]);
    scene
}

fn runs(scene: &Scene) -> usize {
    std::fs::read_to_string(scene.path("ran")).unwrap_or_default().lines().count()
}

#[test]
fn checks_and_clean_reviews_in_one_stop_do_not_undo_each_other() {
    for clean in [2, 4] {
        let scene = polish(clean, "echo reviewed > \"$1\"");
        scene.stop().allows_saying("is done");
        assert_eq!(runs(&scene), 1, "a review is not a change of what was checked");
        assert!(scene.exists(&format!("reviews/review-{clean}.md")));
        assert!(scene.exists("reviews/summary.md"));
    }
}

#[test]
fn a_review_that_changes_what_was_checked_has_it_checked_again() {
    let scene = polish(1, "echo reviewed > \"$1\"; echo x > code.txt");
    scene.stop().allows_saying("is done");
    assert_eq!(runs(&scene), 2);
}

#[test]
fn what_the_workflow_wrote_is_a_part_of_the_tree_once_somebody_changes_it() {
    let scene = polish(1, "echo reviewed > \"$1\"");
    let gate = scene.read(".phasegate/workflows/polish/workflow.toml");
    let gate = gate.replace(
        r#"{ on = "stop", goto = "done","#,
        r#"{ on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done","#,
    );
    scene.file(".phasegate/workflows/polish/workflow.toml", gate);
    scene.by_hand(&["trust", "polish", "--yes"]);
    scene.ok(&["cancel", "polish/polish"]);
    scene.ok(&["polish", "start"]);
    scene.stop().blocks("NOTES.md");
    scene.stop().blocks("NOTES.md");
    assert_eq!(runs(&scene), 1);
    scene.file("reviews/review-1.md", "all is well");
    scene.stop().blocks("NOTES.md");
    assert_eq!(runs(&scene), 2);
}

#[test]
fn what_a_rule_writes_does_not_undo_what_was_checked() {
    let scene = polish(0, "");
    let gate = scene.read(".phasegate/workflows/polish/workflow.toml");
    let gate = gate.replace(
        r#"{ on = "stop", goto = "done","#,
        r#"{ on = "stop", when = "not exists('reviews/plan.md')", write = { "reviews/plan.md" = "summary.md" }, block = "Read reviews/plan.md." },
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done","#,
    );
    scene.file(".phasegate/workflows/polish/workflow.toml", gate);
    scene.by_hand(&["trust", "polish", "--yes"]);
    scene.ok(&["cancel", "polish/polish"]);
    scene.ok(&["polish", "start"]);
    scene.stop().blocks("Read reviews/plan.md.");
    scene.stop().blocks("Write NOTES.md.");
    assert_eq!(runs(&scene), 1, "what the workflow writes is not a change of what was checked");
    scene.file("reviews/plan.md", "changed by somebody else");
    scene.stop().blocks("Write NOTES.md.");
    assert_eq!(runs(&scene), 2);
}

/// A gate with more to do after its tests, so that their result is asked for again.
const SHIP: &str = r#"
name = "ship"
about = "Tests."
initial = "working"

[check.tests]
run = ["sh", "test.sh"]
CHECK

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\n{{ check.tests.tail }}" },
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

fn ship(check: &str, script: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", SHIP.replace("CHECK", check));
    scene.file(".phasegate/config.toml", "[limits]\nsame_reason = 0\n");
    scene.file("test.sh", script).file(".gitignore", "ran\nseen\nbroken\nhome\n");
    scene.file("src/a.rs", "1").file("src/deep/b.rs", "1").file("Cargo.toml", "1");
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.by_hand(&["trust", "ship", "--yes"]);
    scene.ok(&["ship", "start"]);
    scene
}

const NARROW: &str = r#"inputs = ["src/**", "Cargo.*"]"#;

#[test]
fn a_check_with_inputs_runs_again_only_when_one_of_them_changes() {
    let scene = ship(NARROW, "echo x >> ran");
    scene.stop().blocks("NOTES.md");
    assert_eq!(runs(&scene), 1);
    scene.file("README.md", "new").file("docs/a.md", "new").file("Makefile", "all:");
    scene.stop().blocks("NOTES.md");
    assert_eq!(runs(&scene), 1, "a changed README runs nothing");
    for (count, change) in [(2, "src/a.rs"), (3, "src/deep/new.rs"), (4, "Cargo.lock")] {
        scene.file(change, "2");
        scene.stop().blocks("NOTES.md");
        assert_eq!(runs(&scene), count, "{change}");
    }
    std::fs::remove_file(scene.path("src/a.rs")).unwrap();
    scene.stop().blocks("NOTES.md");
    assert_eq!(runs(&scene), 5, "a file that is gone");
    assert!(scene.ok(&["why"]).contains("for src/**, Cargo.*"), "{}", scene.ok(&["why"]));
    assert!(scene.ok(&["jobs"]).contains("for src/**, Cargo.*"));
    assert!(scene.ok(&["status"]).contains("check tests is run again when src/**, Cargo.* change"));
    scene.file("NOTES.md", "");
    scene.stop().allows_saying("is done");
    assert_eq!(runs(&scene), 5);
}

#[test]
fn inputs_that_match_nothing_are_all_files_and_lint_says_so() {
    let scene = ship(r#"inputs = ["lib/**"]"#, "echo x >> ran");
    scene.stop().blocks("NOTES.md");
    scene.file("README.md", "new");
    let said = scene.stop();
    said.blocks("NOTES.md");
    assert!(
        said.told().is_some_and(|it| it.contains("no file matches the inputs lib/**")),
        "{said:?}"
    );
    assert_eq!(runs(&scene), 2, "a result that nothing could undo would be worse");
    let linted = scene.run(&["lint", "ship"]);
    assert!(linted.stdout.contains("the input \"lib/**\" matches no file"), "{linted:?}");
    assert!(!scene.run(&["lint", "triage"]).stdout.contains("matches no file"));
}

#[test]
fn mistakes_in_inputs_and_passes_are_found() {
    for (check, message) in [
        (r#"inputs = ["../other/**"]"#, "leaves the project"),
        (r#"inputs = ["/etc/passwd"]"#, "is not relative to the project"),
        ("passes = { min_tests = 0 }", "`min_tests` is at least 1"),
        ("passes = { tests = 1 }", "unknown field `tests`"),
    ] {
        let scene = Scene::new();
        scene.file(".phasegate/workflows/ship.toml", SHIP.replace("CHECK", check));
        let linted = scene.run(&["lint", "ship"]);
        let all = format!("{}{}", linted.stdout, linted.stderr);
        assert!(all.contains(message) && linted.code == Some(1), "{check}: {all}");
    }
    let scene = Scene::new();
    let own = "[job.soak]\nrun = [\"true\"]\ninputs = [\"src/**\"]\n[phase.working]";
    let gate = SHIP.replace("CHECK", "").replace("[phase.working]", own);
    scene.file(".phasegate/workflows/ship.toml", gate);
    let linted = scene.run(&["lint", "ship"]);
    assert!(linted.stdout.contains("only a job whose result holds for the tree"), "{linted:?}");
}

#[test]
fn a_run_without_a_test_is_not_green() {
    let count = "passes = { min_tests = 1 }";
    let empty = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s";
    let scene = ship(count, &format!("echo '{empty}'"));
    scene.stop().blocks("no test has run, as cargo test says, and `min_tests` wants 1");
    assert!(scene.ok(&["why"]).contains("since only 0 tests have run"), "{}", scene.ok(&["why"]));
    let ran = scene.run(&["jobs", "run", "tests"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("no test has run"), "{ran:?}");
    // Far more is printed behind it than is kept.
    let some = empty.replace("0 passed", "2 passed");
    let noise = "for i in $(seq 1000); do echo line $i; done";
    scene.file("test.sh", format!("echo '{some}'; {noise}; echo '{empty}'"));
    scene.stop().blocks("NOTES.md");
    // What an unknown runner prints is not guessed.
    scene.file("test.sh", "echo all 3 tests passed");
    scene.stop().blocks("how many tests have run is not known");
    scene.file("test.sh", "echo boom; exit 1");
    let said = scene.stop();
    said.blocks("boom");
    assert!(!said.json.to_string().contains("min_tests"), "{said:?}");
}

/// A script that fails where `broken` says so, and takes a line of it away.
const FLAKY: &str =
    "echo x >> ran; if test -s broken; then sed -i 1d broken; echo boom; exit 1; fi";

#[test]
fn a_check_that_passed_on_the_same_files_is_run_once_more_before_it_blocks() {
    let scene = ship("", FLAKY);
    scene.stop().blocks("NOTES.md");
    let change = |text: &str| {
        scene.file("src/a.rs", text);
    };
    let back_and_forth = |fails: usize| {
        change("2");
        scene.stop().blocks("NOTES.md");
        let before = runs(&scene);
        scene.file("broken", "x\n".repeat(fails));
        change("1");
        (scene.stop(), before)
    };
    // On files that it passed on it fails once.
    let (said, before) = back_and_forth(1);
    said.blocks("NOTES.md");
    assert!(said.told().is_some_and(|it| it.contains("check tests is flaky")), "{said:?}");
    assert_eq!(runs(&scene), before + 2);
    // It fails twice: that blocks.
    let (said, before) = back_and_forth(2);
    said.blocks("boom");
    assert!(said.told().is_some_and(|it| it.contains("It failed last")), "{said:?}");
    assert_eq!(runs(&scene), before + 2);
    let status = scene.ok(&["status"]);
    assert!(status.contains("its result on the same files has changed 3 times"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&scene.ok(&["status", "--json"])).unwrap();
    assert_eq!(json["runs"][0]["flakes"]["tests"], 3);
    assert!(scene.ok(&["why"]).contains("it is flaky"));
}

#[test]
fn a_first_failure_blocks_at_once_and_a_pass_after_it_is_a_flake() {
    let scene = ship("", FLAKY);
    scene.file("broken", "x\n");
    scene.stop().blocks("boom");
    assert_eq!(runs(&scene), 1, "nothing is known that it contradicts");
    let said = scene.stop();
    said.blocks("NOTES.md");
    assert!(said.told().is_some_and(|it| it.contains("check tests is flaky")), "{said:?}");
    assert!(scene.ok(&["status"]).contains("has changed once"));
}

#[test]
fn the_tree_is_looked_at_twice_however_many_checks_there_are() {
    let scene = ship("", "echo x >> ran");
    let gate =
        SHIP.replace("CHECK", "[check.lint]\nrun = [\"true\"]\n[check.types]\nrun = [\"true\"]");
    let gate = gate
        .replace("not check.tests.ok", "not (check.tests.ok and check.lint.ok and check.types.ok)");
    scene.file(".phasegate/workflows/ship.toml", gate);
    scene.by_hand(&["trust", "ship", "--yes"]);
    scene.ok(&["cancel", "ship/ship"]);
    scene.ok(&["ship", "start"]);
    // A git that counts how often it lists the tree.
    scene.file("home/bin/git", "#!/bin/sh\ncase \"$*\" in *'ls-files -z -t'*) echo x >> seen;; esac\nPATH=${PATH#*:} exec git \"$@\"\n");
    let path = scene.path("home/bin/git");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scene.path("home/bin").display(), std::env::var("PATH").unwrap());
    let looks = || {
        let before =
            std::fs::read_to_string(scene.path("seen")).unwrap_or_default().lines().count();
        scene
            .hook_raw(scene.payload().to_string().as_bytes(), &[("PATH", &path)])
            .blocks("NOTES.md");
        scene.read("seen").lines().count() - before
    };
    assert_eq!(looks(), 2, "three checks that must run");
    assert_eq!(looks(), 1, "nothing has changed");
    scene.file("src/a.rs", "2");
    assert_eq!(looks(), 2);
}
