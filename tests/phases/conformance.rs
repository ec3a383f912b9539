//! What `docs/conformance/phases.md` says is seen by a case or a test that exists.

use std::path::Path;

use crate::scene::Scene;

/// All sources of tests below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let texts = entries.map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path if path.extension().is_some_and(|it| it == "rs") => {
            std::fs::read_to_string(path).unwrap()
        }
        _ => String::new(),
    });
    texts.collect()
}

#[test]
fn every_statement_is_seen_by_a_case_or_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/conformance/phases.md")).unwrap();
    let tests = sources(&root.join("tests"));
    let cases = ["matrix", "moves", "stops"].map(|name| {
        std::fs::read_to_string(root.join(format!("workflows/phases/cases/{name}.toml"))).unwrap()
    });
    let cases = cases.concat();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        let seen = row.trim_end_matches(" |").rsplit_once(" | ").unwrap().1;
        let mut named = 0;
        for (index, part) in seen.split('`').enumerate().filter(|(index, _)| index % 2 == 1) {
            let before = seen.split('`').nth(index - 1).unwrap_or_default();
            let is_test =
                part.contains('_') && part.chars().all(|it| it.is_lowercase() || it == '_');
            if before.ends_with("case ") {
                assert!(cases.contains(&format!("name = \"{part}\"")), "no case {part:?}: {row}");
                named += 1;
            } else if is_test {
                assert!(tests.contains(&format!("fn {part}()")), "no test {part}: {row}");
                named += 1;
            }
        }
        assert!(named > 0 || row.contains("| seen by"), "nothing is named: {row}");
    }
}

#[test]
fn the_table_has_every_action_in_every_state() {
    let table = Scene::new().ok(&["draw", "phases", "--format", "table"]);
    let (_, inner) = table.split_once("## Actions, each step").unwrap();
    let row = |name: &str| {
        let row = inner.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap();
        row.split('|').map(str::trim).filter(|it| !it.is_empty()).skip(1).collect::<Vec<_>>()
    };
    let states = row("action");
    assert_eq!(states.len(), 9, "{states:?}");
    assert_eq!(
        row("deploy_headless_agent"),
        ["no", "if", "no", "no", "no", "if", "if", "if", "no"]
    );
    assert_eq!(
        row("advance_to_next_phase"),
        ["no", "no", "no", "no", "if", "no", "no", "no", "no"]
    );
    let outer = table.lines().find(|line| line.starts_with("| reject_phase_review")).unwrap();
    assert!(outer.contains("| no ") && !outer.contains("yes"), "{outer}");
}
