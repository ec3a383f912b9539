//! The built-in workflows: they resolve, lint clean, and every rule has a case.

use phasegate_engine::case::{Cases, uncovered};
use phasegate_engine::lint::lint;
use phasegate_engine::mutate::mutate;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_runtime::catalog::{Entry, Origin, general};
use phasegate_runtime::config::Config;

use crate::scene::Scene;

fn built_in() -> Vec<Entry> {
    let entries = general().into_iter().filter(|entry| entry.origin == Origin::BuiltIn);
    let entries: Vec<Entry> = entries.collect();
    assert_eq!(entries.len(), 5);
    entries
}

#[test]
fn every_built_in_workflow_resolves_lints_clean_and_is_covered_by_its_cases() {
    for entry in built_in() {
        let bundle = entry.bundle().unwrap();
        let workflow = resolve(&bundle, &Overrides::default(), Expressions::Checked)
            .unwrap_or_else(|found| panic!("{}", found.render(false)));
        assert_eq!(workflow.name, entry.name);
        let found = lint(&workflow, &bundle);
        assert!(found.0.is_empty(), "{}", found.render(false));
        let results = Cases::of(&bundle).run(&workflow);
        for result in &results {
            assert!(result.passed(), "{}: {}: {:#?}", result.file, result.name, result.differences);
        }
        assert_eq!(uncovered(&workflow, &results), Vec::<String>::new(), "{}", entry.name);
    }
}

#[test]
fn the_schema_in_the_repository_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workflows/workflow.schema.json");
    let generated = phasegate_engine::schema::schema();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == generated, "run `just schema` and commit the result");
    // `[reviewer] writes = …` is for all reviewers, so none of them needs one of its own.
    let schema: serde_json::Value = serde_json::from_str(&generated).unwrap();
    assert!(schema["$defs"]["reviewer"]["properties"]["writes"].is_object());
    assert!(schema["$defs"]["reviewer"]["required"].is_null());
}

#[test]
fn the_pictures_in_the_documentation_are_drawn_from_the_definitions() {
    use phasegate_engine::draw::{Format, draw};
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    for entry in built_in() {
        let workflow = entry.load(&Config::default()).unwrap();
        let drawn = draw(&workflow, Format::Svg, None);
        let path = format!("{docs}/pictures/{}.svg", entry.name);
        if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
            std::fs::write(&path, &drawn).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == drawn, "`INSTA_UPDATE=always cargo test the_pictures` draws {path}");
        let page = std::fs::read_to_string(format!("{docs}/{}.md", entry.name)).unwrap();
        assert!(page.contains(&format!("(pictures/{}.svg)", entry.name)), "{}", entry.name);
    }
}

#[test]
fn what_is_embedded_of_a_head_is_what_the_head_says() {
    use phasegate_engine::definition::Head;
    use phasegate_runtime::catalog::{Summary, general};
    for entry in general() {
        let bundle = entry.bundle().unwrap();
        let head = Head::read(&bundle.definition.text).unwrap();
        assert_eq!(entry.head, Ok(Summary::from(head)), "{}", entry.name);
    }
}

#[test]
fn the_documentation_has_every_function_and_filter() {
    use phasegate_engine::functions::{FILTERS, FUNCTIONS, TESTS};
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workflows.md");
    let docs = std::fs::read_to_string(path).unwrap();
    for (name, text) in FUNCTIONS.iter().chain(FILTERS).chain(TESTS) {
        assert!(docs.contains(text), "docs/workflows.md does not say of {name}: {text}");
    }
}

#[test]
fn no_mistake_in_a_built_in_workflow_goes_unnoticed_by_its_cases() {
    for entry in built_in() {
        let (workflow, bundle) = (entry.load(&Config::default()).unwrap(), entry.bundle().unwrap());
        let found = mutate(&workflow, &Cases::of(&bundle), &bundle.definition, 0).unwrap();
        let survivors = found.survivors.iter();
        let survivors: Vec<String> =
            survivors.map(|it| format!("{}: {}\n{}", it.rule, it.change, it.diff)).collect();
        assert!(survivors.is_empty(), "{}:\n{}", entry.name, survivors.join("\n"));
        assert_eq!(found.stale, Vec::<String>::new(), "{}", entry.name);
        assert!(found.killed > 3 * workflow.rules().count(), "{}: too few mutants", entry.name);
    }
}

#[test]
fn every_built_in_workflow_has_a_demo_that_plays() {
    let scene = Scene::new();
    for Entry { name, .. } in built_in() {
        let said = scene.ok(&["demo", &name, "--keep"]);
        assert!(
            said.contains("Without the gate the agent would have stopped at the first."),
            "{said}"
        );
        // Also where nobody is told: what the rules make of a job's end is only in the journal.
        let (_, folder) = said.rsplit_once("The project was kept: ").unwrap();
        let folder = folder.lines().next().unwrap();
        let runs = std::path::Path::new(folder).join(".phasegate/runs");
        let journals: Vec<String> = files_below(&runs)
            .filter(|file| file.ends_with("journal.jsonl"))
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        std::fs::remove_dir_all(folder).unwrap();
        assert!(!journals.is_empty(), "{name} has no journal");
        for line in journals.iter().flat_map(|journal| journal.lines()) {
            let answer = &serde_json::from_str::<serde_json::Value>(line).unwrap()["answer"];
            let is_fault = answer["code"] == "fault" || answer["outcome"] == "fault";
            assert!(!is_fault, "{name}: {line}");
        }
    }
}

fn files_below(folder: &std::path::Path) -> impl Iterator<Item = std::path::PathBuf> {
    let mut open = vec![folder.to_path_buf()];
    std::iter::from_fn(move || {
        loop {
            let path = open.pop()?;
            let Ok(entries) = std::fs::read_dir(&path) else { return Some(path) };
            open.extend(entries.map(|entry| entry.unwrap().path()));
        }
    })
}

/// Lines of a definition that say what it does: not blank, not a comment, not a property, and not the text of an action.
fn lines_that_count(text: &str) -> usize {
    let (mut count, mut is_property, mut is_action, mut is_text) = (0, false, false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') && !is_text {
            is_property = line.starts_with("[[property");
            is_action = line.starts_with("[action");
        }
        let ends = |line: &str| line.matches("\"\"\"").count() + line.matches("'''").count();
        let is_of_text = is_text;
        if ends(line) % 2 == 1 {
            is_text = !is_text;
        }
        let is_skipped = line.is_empty() || line.starts_with('#') || is_property;
        count += usize::from(!(is_skipped || is_action && is_of_text));
    }
    count
}

#[test]
fn the_five_definitions_together_stay_short_and_narrow() {
    let mut all = Vec::new();
    for entry in built_in() {
        let text = entry.bundle().unwrap().definition.text.to_string();
        let wide = text.lines().find(|line| line.chars().count() > 160);
        assert_eq!(wide, None, "{}: a row of more than 160 columns", entry.name);
        all.push((entry.name.clone(), lines_that_count(&text)));
    }
    let sum: usize = all.iter().map(|(_, count)| count).sum();
    assert!(sum > 1_000 && sum <= 1_500, "{sum} lines: {all:?}");
}
