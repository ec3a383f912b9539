//! `verify`: mistakes in definitions are found, each with what shows it; what is right is not complained about.

use std::path::Path;

use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::verify::{Severity, verify};
use phasegate_runtime::catalog::{Origin, general};
use serde_json::Value;

use crate::scene::{Ran, Scene, finish};

/// The definitions with one mistake each, by what is wrong with them.
const PLANTED: &[&str] = &[
    "always-true",
    "bypass",
    "dead",
    "fault",
    "hole",
    "livelock",
    "no-end",
    "no-source",
    "property",
    "shadowed",
    "trap",
];

fn planted(name: &str) -> Scene {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verify");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    let scene = Scene::new();
    scene.file(&format!(".phasegate/workflows/{name}.toml"), text);
    scene
}

fn typing(scene: &Scene, name: &str, lines: &str) -> Ran {
    let mut command = scene.command();
    command.args(["simulate", name]);
    finish(scene.spawn(command, lines.as_bytes()))
}

#[test]
fn each_planted_mistake_is_found_and_its_case_passes() {
    for name in PLANTED {
        let scene = planted(name);
        let ran = scene.run(&["verify", name, "--write", "--json"]);
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found = report["workflows"][0]["findings"].as_array().unwrap();
        let bad: Vec<&Value> = found.iter().filter(|it| it["severity"] != "note").collect();
        assert_eq!(bad.len(), 1, "{name}: {found:#?}");
        assert_eq!(bad[0]["code"], *name);
        assert!(bad[0]["line"].as_u64().unwrap() > 1, "{}", bad[0]);
        assert!(!bad[0]["path"].as_array().unwrap().is_empty(), "{}", bad[0]);
        assert!(scene.exists(&format!(".phasegate/workflows/{name}/cases/{name}.toml")));
        let tested = scene.ok(&["test", name]);
        assert!(tested.contains("1 passed, 0 failed"), "{name}: {tested}");
        // The same again writes nothing new.
        scene.run(&["verify", name, "--write"]);
        assert!(!scene.exists(&format!(".phasegate/workflows/{name}/cases/{name}-2.toml")));
    }
}

#[test]
fn the_report_says_how_a_run_comes_to_it_and_what_to_do() {
    let scene = planted("trap");
    let ran = scene.run(&["verify", "trap"]);
    for told in [
        "trap: 3 phases, 5 rules,",
        "complete",
        "error[trap]",
        "trap.toml:18",
        "a block that no agent can lift",
        "working: write report.md",
        "working ─stop→ review: BLOCK",
        "rule `review 2` blocks while `not state.approved`; only `approve by human` can change that",
        "wait = \"human\"",
        "every run can come to an end",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
}

#[test]
fn a_gate_without_a_mistake_is_proved() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/ship.toml",
        r#"
name = "ship"
about = "No stop before the tests pass on the tree as it is now."
initial = "working"

[[property]]
name = "no success without green tests"
never = "outcome == 'done' and not check.tests.ok"

[check.tests]
run = ["cargo", "test"]

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#,
    );
    let ran = scene.run(&["verify", "ship"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("complete"), "{}", ran.stdout);
    for proved in [
        "no success without green tests",
        "every run can come to an end",
        "every block can be lifted",
    ] {
        assert!(ran.stdout.contains(proved), "{proved}: {}", ran.stdout);
    }
}

#[test]
fn the_gates_of_the_documentation_have_no_mistake() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for file in
        ["README.md", "docs/first-gate.md", "docs/standing.md", "templates/tests/workflow.toml"]
    {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let blocks: Vec<&str> = match file.strip_suffix(".toml") {
            Some(_) => vec![&text],
            None => {
                text.split("```toml\n").skip(1).map(|it| it.split("```").next().unwrap()).collect()
            }
        };
        for block in blocks.into_iter().filter(|block| block.contains("\ninitial = ")) {
            let name = block.split("name = \"").nth(1).unwrap().split('"').next().unwrap();
            let scene = Scene::new();
            scene.file(&format!(".phasegate/workflows/{name}.toml"), block);
            let ran = scene.run(&["verify", name]);
            // What is in a file is not known, so that not everything is seen of a gate that reads one.
            let expected = if block.contains("text(") { 2 } else { 0 };
            assert_eq!(ran.code, Some(expected), "{file}: {}", ran.stdout);
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn what_is_seen_of_the_built_in_workflows_has_no_mistake() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bounded = std::fs::read_to_string(root.join(".ci/bounded")).unwrap();
    for entry in general().into_iter().filter(|entry| entry.origin == Origin::BuiltIn) {
        let bundle = entry.bundle().unwrap();
        let workflow = resolve(&bundle, &Overrides::default(), Expressions::Checked).unwrap();
        let report = verify(&workflow, &bundle, 1_500);
        let bad = report.findings.iter().filter(|it| it.severity > Severity::Note);
        let bad: Vec<String> =
            bad.map(|it| format!("{}: {} {:#?}", it.code, it.message, it.witness)).collect();
        assert!(bad.is_empty(), "{}: {}", entry.name, bad.join("\n"));
        let listed =
            bounded.lines().any(|line| line.split('#').next().unwrap().trim() == entry.name);
        assert_eq!(listed, !report.complete, "{} in .ci/bounded", entry.name);
        assert!(!workflow.properties.is_empty(), "{} says what must hold", entry.name);
        for property in &workflow.properties {
            assert!(report.proved.contains(&property.name), "{}: {}", entry.name, property.name);
        }
    }
}

#[test]
fn a_simulation_is_driven_by_lines_and_ends_as_a_case() {
    let scene = planted("bypass");
    // A stop whose check fails, taken back; one whose check passes; and a file instead of it.
    let ran = typing(
        &scene,
        "bypass",
        "1\n2\nundo\n1\n1\nundo\ndraw\nnonsense\n99\n2\nstate\n1\nsave bypass\nquit\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for told in [
        "check tests passes",
        "BLOCK by rule `working 2`",
        "state working → done by `working 3`",
        "agent    write docs-only",
        "file docs-only: x",
        "ALLOW done by rule `working 1`",
        "done (over)> save bypass",
        "saved",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    assert!(ran.stderr.contains("\"nonsense\" is not a move"), "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no move 99"), "{}", ran.stderr);
    let case = scene.read(".phasegate/workflows/bypass/cases/bypass.toml");
    assert!(case.contains("expect.outcome = \"done\""), "{case}");
    assert!(scene.ok(&["test", "bypass"]).contains("1 passed, 0 failed"));
}

#[test]
fn the_case_that_kills_a_survivor_is_found_and_kills_it() {
    let scene = planted("trap");
    let before = scene.run(&["mutate", "trap"]);
    assert!(!before.stdout.contains(", 0 survived"), "{}", before.stdout);
    let ran = scene.run(&["mutate", "trap", "--write"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("case for working 1:"), "{ran:?}");
    let after = scene.run(&["mutate", "trap"]);
    let survivors = |text: &str| -> usize {
        let count = text.split(" survived").next().unwrap().rsplit(", ").next().unwrap();
        count.trim().parse().unwrap()
    };
    assert!(
        survivors(&after.stdout) * 4 < survivors(&before.stdout),
        "{} {}",
        before.stdout,
        after.stdout
    );
    scene.ok(&["test", "trap"]);
}
