//! A run as a bundle that a stranger can decide again.

use std::path::PathBuf;
use std::process::Command;

use phasegate_engine::digest::digest;

use crate::scene::{Ran, Scene, finish};

const SHIP: &str = r#"name = "ship"
about = "No stop before the work is done."
initial = "working"
document = ".phasegate/ship/*.json"

[check.tests]
run = ["sh", "tests.sh"]

[phase.working]
rules = [
  { on = "stop", when = "not exists('finished')", block = "Make `finished`." },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

pub const PROOF: &str = ".phasegate/proofs/ship.json";

/// A run that is done, and its work committed.
pub fn done() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.file("tests.sh", "test -e home/here\n");
    scene.file("home/here", "");
    scene.file(".gitignore", "home\n.phasegate/ship\n");
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "begin"]);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok_by_hand(&["start", "ship"]);
    scene.stop().blocks("Make `finished`");
    scene.file("finished", "");
    scene.stop_again().allows_saying("is done");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "finished"]);
    let key = scene.path("home/key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "someone@example.org", "-f"])
        .arg(key)
        .status();
    assert!(made.unwrap().success());
    scene
}

/// The same with its proof.
pub fn proved() -> Scene {
    let scene = done();
    let told = scene.ok_by_hand(&["prove", "ship/ship", "-o", PROOF, "--key", "home/key", "--yes"]);
    assert!(told.contains("the document before line"), "{told}");
    assert!(told.contains("what line 2 looked up"), "{told}");
    scene
}

fn verified(scene: &Scene) -> Ran {
    scene.run(&["verify-proof", PROOF])
}

#[test]
fn a_proof_is_decided_again_line_by_line() {
    let scene = proved();
    let ran = verified(&scene);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("ship/ship: ALLOW done"), "{ran:?}");
    assert!(ran.stdout.contains("· 0 different · 0 unknown"), "{ran:?}");
    assert!(ran.stdout.contains("nobody vouches for it"), "{ran:?}");
    // To commit it changes nothing about the tree that it is about.
    scene.git(&["add", "-f", PROOF]);
    scene.git(&["commit", "-qm", "proof"]);
    assert_eq!(verified(&scene).code, Some(0));
    // Nothing of the run is needed.
    std::fs::remove_dir_all(scene.path(".phasegate/runs")).unwrap();
    assert_eq!(verified(&scene).code, Some(0));
}

#[test]
fn whose_key_it_is_stands_in_the_list_of_signers() {
    let scene = proved();
    let public = scene.read("home/key.pub");
    scene.file("home/signers", format!("someone@example.org {public}"));
    let ran = scene.run(&["verify-proof", PROOF, "--signers", "home/signers"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("signed by someone@example.org, key SHA256:"), "{ran:?}");
    scene.file("home/signers", "");
    let ran = scene.run(&["verify-proof", PROOF, "--signers", "home/signers"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is not in the list of signers"), "{ran:?}");
}

#[test]
fn a_flipped_byte_anywhere_is_found() {
    let scene = proved();
    let bytes = std::fs::read(scene.path(PROOF)).unwrap();
    // The first and last bytes, and places all over it; every bit in turn.
    let places = (0..80).map(|part| part * (bytes.len() - 1) / 79);
    for (at, place) in places.enumerate() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (at % 8);
        scene.file(PROOF, &flipped);
        let ran = verified(&scene);
        assert_eq!(ran.code, Some(1), "byte {place} of {}: {ran:?}", bytes.len());
    }
}

#[test]
fn who_seals_a_change_again_is_found_out_by_the_signature_and_the_rules() {
    let scene = proved();
    let text = scene.read(PROOF);
    let sealed = |text: &str| {
        let (body, _) = text.rsplit_once(",\"seal\":\"").unwrap();
        let seal = digest(body.as_bytes());
        format!("{body},\"seal\":\"{seal}\"}}\n")
    };
    assert_eq!(sealed(&text), text, "that is how it is sealed");
    // Another run in the statement; other evidence; another definition.
    for (was, now, why) in [
        ("\\\"run\\\":\\\"ship/ship\\\"", "\\\"run\\\":\\\"ship/other\\\"", "ssh-keygen"),
        ("modified finished", "modified finishee", "is not what it is called"),
        ("\"definition\":\"{", "\"definition\":\" {", "definition"),
    ] {
        let changed = sealed(&text.replacen(was, now, 1));
        assert_ne!(changed, text, "{was} is not in it");
        scene.file(PROOF, changed);
        let ran = verified(&scene);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}

#[test]
fn another_tree_is_refused() {
    let scene = proved();
    scene.file("more", "");
    scene.git(&["add", "more"]);
    scene.git(&["commit", "-qm", "more"]);
    let ran = verified(&scene);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("but this is tree"), "{ran:?}");
}

#[test]
fn a_proof_is_about_what_is_committed_and_is_asked_for_by_a_person() {
    let scene = done();
    let args = ["prove", "ship/ship", "-o", PROOF, "--key", "home/key"];
    let ran = scene.by_agent(&args);
    assert!(ran.code == Some(1) && !scene.exists(PROOF), "{ran:?}");
    let mut command = scene.command();
    command.args(args);
    let ran = scene.typing("n\n", command);
    assert!(ran.stderr.contains("Go on?") && !scene.exists(PROOF), "{ran:?}");
    scene.file("finished", "changed");
    let ran = scene.by_hand(&args);
    assert!(ran.stderr.contains("commit first: finished"), "{ran:?}");
}

fn pipeline(scene: &Scene) -> Ran {
    let mut command = scene.command();
    command.arg("ci").env("PHASEGATE_TRUST_ALL", "1").env("GITHUB_STEP_SUMMARY", summary(scene));
    finish(scene.spawn(command, b""))
}

fn summary(scene: &Scene) -> PathBuf {
    scene.path("home/summary.md")
}

#[test]
fn a_pipeline_checks_the_proof_the_definition_and_the_checks() {
    let scene = proved();
    let ran = pipeline(&scene);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for row in [
        "every line is decided again",
        "ended as done",
        "is the one of this tree",
        "check tests passed",
    ] {
        assert!(ran.stdout.contains(row), "{row}: {ran:?}");
    }
    assert!(std::fs::read_to_string(summary(&scene)).unwrap().contains("| ok |"));
    std::fs::remove_file(scene.path(PROOF)).unwrap();
    let ran = pipeline(&scene);
    assert!(ran.code == Some(1) && ran.stderr.contains("there is no proof"), "{ran:?}");
}

#[test]
fn a_check_that_fails_in_the_pipeline_fails_it() {
    let scene = proved();
    // It passes where the agent works, and nowhere else.
    std::fs::remove_file(scene.path("home/here")).unwrap();
    let ran = pipeline(&scene);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("FAILED  .phasegate/proofs/ship.json: check tests failed"),
        "{ran:?}"
    );
}
