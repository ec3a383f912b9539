//! What `docs/conformance/task.md` says is shown by a case or a test that exists.

use std::collections::BTreeSet;
use std::path::Path;

/// The names of all tests below a folder.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let parts = text.split("#[test]").skip(1);
            let names = parts.filter_map(|part| part.split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|(name, _)| name.to_string()));
        }
    }
}

/// The names of the cases of the workflow.
fn cases(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let file: toml::Table = text.parse().unwrap();
        let cases = file.get("case").and_then(toml::Value::as_array).into_iter().flatten();
        found.extend(cases.map(|case| case["name"].as_str().unwrap().to_string()));
    }
}

#[test]
fn every_statement_is_shown_by_a_case_or_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known = BTreeSet::new();
    tests_below(&root.join("tests"), &mut known);
    cases(&root.join("workflows/task/cases"), &mut known);
    let page = std::fs::read_to_string(root.join("docs/conformance/task.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.ends_with("| shown by |");
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    for (number, row) in (1..=80).zip(&rows) {
        assert!(row.starts_with(&format!("| {number} | ")), "{row}");
        let verdict = row.split(" | ").nth(2).unwrap();
        let has_reason = verdict.strip_prefix("deviates: ").is_some_and(|why| why.len() > 40);
        assert!(verdict.starts_with("holds") || has_reason, "{row}");
    }
    for row in rows {
        let shown = row.trim_end_matches(" |").rsplit_once(" | ").unwrap().1;
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(known.contains(name), "there is no {name:?}: {row}");
        }
    }
}
