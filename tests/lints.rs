//! Typical mistakes in definitions: each is found at its place, with a hint. One file in `tests/lint` is one mistake and
//! one snapshot of the whole output.

use crate::scene::Scene;

#[test]
fn typical_mistakes_are_found_at_their_place_with_a_hint() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/lint");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    files.sort();
    assert!(files.len() >= 40, "{}", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let scene = Scene::new();
        scene.file(".phasegate/workflows/gate.toml", std::fs::read(&path).unwrap());
        let ran = scene.run(&["lint", "gate"]);
        let shown = format!("{}{}(exit code {})\n", ran.stdout, ran.stderr, ran.code.unwrap());
        let root = scene.root().canonicalize().unwrap();
        let shown = shown
            .replace(&format!("{}/", root.display()), "")
            .replace(&format!("{}/", scene.root().display()), "");
        let is_clean = shown.contains("gate: 0 errors, 0 warnings");
        if is_clean != name.starts_with("clean-") {
            wrong.push(format!("{name}: what was found is not what was expected"));
        }
        if !is_clean && !shown.contains("help: ") {
            wrong.push(format!("{name}: there is no hint"));
        }
        if !is_clean && !shown.contains("gate.toml:") {
            wrong.push(format!("{name}: there is no place"));
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name.clone(), shown));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What we wrote ourselves has no finding: built-in workflows, templates, and examples of the docs.
#[test]
fn our_own_definitions_have_no_finding() {
    let ran = Scene::new().run(&["lint", "--strict"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
