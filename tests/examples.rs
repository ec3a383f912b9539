//! The examples of the docs: each is linted, its cases notice every mistake, and it is played with the real program.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|it| it.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let new = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &new);
        } else {
            std::fs::copy(&path, new).unwrap();
        }
    }
}

/// A repository with an example in it, and programs that answer in the place of `cargo`.
struct Play {
    scene: Scene,
}

impl Play {
    fn of(name: &str) -> Play {
        let scene = Scene::new();
        copy(&folder().join(name), &scene.path(&format!(".phasegate/workflows/{name}")));
        scene
            .file(".phasegate/.gitignore", "*\n")
            .file("bin/cargo", "#!/bin/sh\nexec sh \"cargo-$1.sh\"\n");
        scene.file(".gitignore", "home/\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(scene.path("bin/cargo"), mode).unwrap();
        scene.git(&["init", "-q"]);
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-qm", "begin"]);
        Play { scene }
    }

    fn path(&self) -> String {
        let own = self.scene.path("bin").display().to_string();
        format!("{own}:{}", std::env::var("PATH").unwrap_or_default())
    }

    /// What `cargo fmt` or `cargo test` does from now on.
    fn cargo(&self, what: &str, script: &str) -> &Play {
        self.scene.file(&format!("cargo-{what}.sh"), script);
        self
    }

    fn file(&self, path: &str, text: &str) -> &Play {
        self.scene.file(path, text);
        self
    }

    /// A command of a person at a terminal.
    fn by_hand(&self, args: &[&str]) -> &Play {
        let ran = self.scene.by_hand_with(args, &[("PATH", &self.path())]);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        self
    }

    /// The agent stops, after a block or for the first time.
    fn stop(&self) -> Said {
        let journals = self.scene.snapshot();
        let after = journals.iter().any(|(path, text)| {
            path.ends_with("journal.jsonl") && String::from_utf8_lossy(text).contains("\"block\"")
        });
        let mut payload: Value = self.scene.payload();
        payload["stop_hook_active"] = json!(after);
        self.scene.hook_raw(payload.to_string().as_bytes(), &[("PATH", &self.path())])
    }
}

#[test]
fn every_example_is_linted_and_its_cases_notice_every_mistake() {
    let names = names();
    assert!(names.len() >= 10, "{names:?}");
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for name in names {
        let play = Play::of(&name);
        play.file("migrations/try.sh", "true\n");
        let scene = &play.scene;
        let linted = scene.run(&["lint", &name, "--strict"]);
        assert_eq!(linted.code, Some(0), "{linted:?}");
        scene.ok(&["test", &name, "--full-coverage"]);
        scene.ok(&["mutate", &name]);
        assert!(page.contains(&format!("({name}/workflow.toml)")), "{name} is not on the page");
    }
}

#[test]
fn tests_and_format() {
    let play = Play::of("tests-and-format");
    play.cargo("fmt", "exit 1\n").cargo("test", "echo one failed; exit 1\n");
    play.by_hand(&["trust", "tests-and-format", "--yes"]).by_hand(&["start", "tests-and-format"]);
    play.stop().blocks("cargo fmt");
    play.cargo("fmt", "exit 0\n").stop().blocks("one failed");
    play.cargo("test", "exit 0\n").stop().allows_saying("done");
}

#[test]
fn changelog_entry() {
    let play = Play::of("changelog-entry");
    play.by_hand(&["start", "changelog-entry"]);
    play.file("src/a.rs", "fn a() {}\n");
    // A commit hides nothing.
    play.scene.git(&["add", "-A"]);
    play.scene.git(&["commit", "-qm", "a"]);
    play.stop().blocks("You changed src/a.rs");
    play.file("CHANGELOG.md", "- A.\n").stop().allows_saying("done");
}

#[test]
fn docs_with_code() {
    let play = Play::of("docs-with-code");
    play.by_hand(&["start", "docs-with-code"]);
    play.file("src/a.rs", "fn a() {}\n").stop().blocks("You changed src/a.rs and none of docs/**");
    let ran = play.scene.by_agent(&["do", "docs-with-code", "waive", "--reason", "x"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    play.by_hand(&["do", "docs-with-code", "waive", "--reason", "internal"]);
    play.stop().allows_saying("done");
}

#[test]
fn release_approval() {
    let play = Play::of("release-approval");
    play.cargo("test", "exit 0\n");
    play.by_hand(&["trust", "release-approval", "--yes"]);
    play.by_hand(&["start", "release-approval", "--version", "1.2.0"]);
    play.stop().blocks("## [1.2.0]");
    play.file("CHANGELOG.md", "## [1.2.0]\n").stop().allows_saying("is ready");
    assert_eq!(play.scene.git(&["tag"]), "");
    let ran = play.scene.by_agent(&["do", "release-approval", "approve"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    play.by_hand(&["do", "release-approval", "approve"]);
    assert_eq!(play.scene.git(&["tag"]), "v1.2.0\n");
}

#[test]
fn review_until_clean() {
    let play = Play::of("review-until-clean");
    let config = "[workflow.review-until-clean.const]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n";
    play.file(".phasegate/config.toml", config);
    let reviewer = |verdict: &str| {
        format!(
            "cat > /dev/null; echo findings > \"$PHASEGATE_REVIEW\"; echo '{{\"verdict\": \"{verdict}\"}}'\n"
        )
    };
    play.file("reviewer.sh", &reviewer("FAIL"));
    play.by_hand(&["trust", "review-until-clean", "--yes"])
        .by_hand(&["start", "review-until-clean"]);
    play.stop().blocks("Read reviews/review-1.md");
    play.file("reviewer.sh", &reviewer("PASS")).file("reviews/answer-1.md", "mended\n");
    play.stop().allows_saying("done");
}

#[test]
fn item_list() {
    let play = Play::of("item-list");
    play.file("items.json", "[\"login\", \"log out\"]");
    play.by_hand(&["start", "item-list", "--items", "items.json"]);
    play.stop().blocks("Do login");
    play.file("notes/login.md", "With a form.\n");
    let said = play.stop();
    said.blocks("1 of 2 are open");
    let reason = said.json["reason"].as_str().unwrap();
    let note = reason.split("say how in ").nth(1).unwrap().split(".md").next().unwrap();
    play.file(&format!("{note}.md"), "With a link.\n").stop().allows_saying("done");
}

#[test]
fn migration_rollback() {
    let play = Play::of("migration-rollback");
    play.file("migrations/try.sh", "test -s migrations/1.down.sql\n");
    play.by_hand(&["trust", "migration-rollback", "--yes"])
        .by_hand(&["start", "migration-rollback"]);
    play.file("migrations/1.up.sql", "create table a;\n")
        .stop()
        .blocks("Write migrations/1.down.sql");
    play.file("migrations/1.down.sql", "").stop().blocks("Up and down again does not work");
    play.file("migrations/1.down.sql", "drop table a;\n").stop().allows_saying("done");
}

#[test]
fn security_review() {
    let play = Play::of("security-review");
    play.by_hand(&["start", "security-review"]);
    play.file("auth/login.rs", "fn login() {}\n").stop().allows_saying("auth/login.rs");
    let ran = play.scene.by_agent(&["do", "security-review", "sign"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    play.by_hand(&["do", "security-review", "sign"]);
    play.file("auth/login.rs", "fn login() { all_may() }\n");
    play.stop().allows_saying("They have changed since they were signed.");
    play.by_hand(&["do", "security-review", "sign"]).stop().allows_saying("done");
}

#[test]
fn test_first() {
    let play = Play::of("test-first");
    play.file("tests/a.rs", "old\n").cargo("test", "exit 0\n");
    play.by_hand(&["trust", "test-first", "--yes"]).by_hand(&["start", "test-first"]);
    play.stop().blocks("First write a test");
    play.file("tests/b.rs", "fails\n")
        .cargo("test", "exit 1\n")
        .stop()
        .blocks("Now write the code");
    play.file("tests/b.rs", "passes\n")
        .cargo("test", "exit 0\n")
        .stop()
        .blocks("Put the tests back");
    play.file("tests/b.rs", "fails\n").stop().allows_saying("done");
}

#[test]
fn time_boxed_spike() {
    let play = Play::of("time-boxed-spike");
    play.by_hand(&["start", "time-boxed-spike", "--json"]);
    play.stop().blocks("minutes are left");
    play.file("SPIKE.md", "Tried both.\n\n## Decision\n\nThe first.\n")
        .stop()
        .allows_saying("done");
    // Another one, whose time is over.
    play.by_hand(&["start", "time-boxed-spike"]);
    let place = ".phasegate/time-boxed-spike/time-boxed-spike-2.json";
    let mut state = play.scene.json(place);
    state["started"] = json!("2026-01-01T00:00:00Z");
    play.file("SPIKE.md", "Nothing yet.\n").file(place, &state.to_string());
    play.stop().allows_saying("time-boxed-spike");
    let status = play.scene.ok(&["status", "time-boxed-spike/time-boxed-spike-2"]);
    assert!(status.contains("over"), "{status}");
}
