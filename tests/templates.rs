//! `phasegate new`: each template becomes a workflow that lints, whose cases pass, and whose every mistake they notice.

use crate::scene::Scene;

const TEMPLATES: [&str; 5] = ["approval", "changelog", "items", "review", "tests"];

#[test]
fn every_template_lints_tests_and_notices_every_mistake() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates");
    let found = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    let mut found: Vec<String> = found.map(|name| name.into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, TEMPLATES);
    for template in TEMPLATES {
        for name in [template, "mine"] {
            let scene = Scene::new();
            scene.file("Cargo.toml", "[package]\n");
            let shown = scene.ok(&["new", name, "--template", template]);
            assert!(shown.contains(&format!("new .phasegate/workflows/{name}.toml")), "{shown}");
            assert!(shown.contains(&format!("phasegate test {name}")), "{shown}");
            assert!(shown.contains(&format!("phasegate trust {name}")), "{shown}");
            let linted = scene.run(&["lint", name, "--strict"]);
            assert_eq!(linted.code, Some(0), "{linted:?}");
            scene.ok(&["test", name, "--full-coverage"]);
            let mutated = scene.ok(&["mutate", name]);
            assert!(mutated.contains(" 0 survived"), "{mutated}");
            let text = scene.read(&format!(".phasegate/workflows/{name}.toml"));
            assert!(!text.contains("the-command-of-your-tests"), "{text}");
            assert!(text.contains(&format!("`phasegate trust {name}` again")), "{text}");
        }
    }
}

#[test]
fn a_template_without_a_known_command_says_what_to_fill_in_and_holds_nobody() {
    let scene = Scene::new();
    let shown = scene.ok(&["new", "ship", "--template", "tests"]);
    assert!(
        shown.contains("fill in the command of your tests, and set `standing = true`"),
        "{shown}"
    );
    assert!(scene.read(".phasegate/workflows/ship.toml").contains("standing = false"));
}

#[test]
fn nothing_is_overwritten_and_nothing_is_half_written() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ship/cases/tests.toml", "mine");
    let ran = scene.run(&["new", "ship", "--template", "tests"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("exists; nothing was written"), "{ran:?}");
    assert!(!scene.exists(".phasegate/workflows/ship.toml"));
    for name in ["a/b", "..", "a b", ""] {
        let ran = scene.run(&["new", name, "--template", "tests"]);
        assert!(ran.stderr.contains("cannot be the name of a workflow"), "{ran:?}");
    }
}

#[test]
fn on_a_terminal_it_asks() {
    let scene = Scene::new();
    let mut command = scene.command();
    command.arg("new");
    let ran = scene.typing("changelog\nnotes\n", command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("What should it do?") && ran.stderr.contains("approval"),
        "{ran:?}"
    );
    assert!(scene.read(".phasegate/workflows/notes.toml").contains("\nname = \"notes\"\n"));
    let ran = scene.run(&["new", "x"]);
    assert!(ran.stderr.contains("there are: approval, changelog, items, review, tests"), "{ran:?}");
}
