//! `verify`: mistakes in definitions are found, each with what shows it; what is right is not complained about.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

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
        let told = bad[0]["path"].as_array().unwrap().last().unwrap().as_str().unwrap();
        is_simulated(&scene, name, &bad[0]["script"], told);
    }
}

/// What `verify` has found is come to by its script, step by step, and the case that is saved there passes.
#[track_caller]
fn is_simulated(scene: &Scene, name: &str, script: &Value, told: &str) {
    let script: Vec<&str> =
        script.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let typed = format!("{}\nsave simulated\nquit\n", script.join("\n"));
    let ran = typing(scene, name, &typed);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}: {ran:?}");
    // `working ─stop→ done: ALLOW done (check tests passes)`
    let answer = told.rsplit("→ ").next().unwrap().split(": ").nth(1).unwrap();
    let lines = || ran.stdout.lines().map(str::trim);
    let is_answer = |line: &&str| ["BLOCK", "ALLOW", "DENY"].iter().any(|it| line.starts_with(it));
    let last = lines().rfind(is_answer).unwrap().split(" by rule").next().unwrap();
    assert!(answer.starts_with(last), "{name}: {told}: {}", ran.stdout);
    let tested = scene.ok(&["test", name]);
    assert!(tested.contains("2 passed, 0 failed"), "{name}: {tested}");
}

#[test]
fn blocks_that_lead_to_one_another_and_that_no_agent_can_leave_are_a_livelock() {
    let scene = Scene::new();
    let definition = |stop: &str| {
        format!(
            r#"
name = "rounds"
about = "A writer and a checker, and only a person can end it."
initial = "writing"

[phase.writing]
rules = [
  {{ on = "approve", goto = "done" }},
  {{ on = "stop", when = "exists('A')", goto = "checking", block = "Check A." }},
  {{ on = "stop", block = "Write A." }},
]
[phase.checking]
rules = [
  {{ on = "approve", goto = "done" }},
  {{ on = "stop", when = "exists('B')", {stop} }},
  {{ on = "stop", block = "Write B." }},
]
[phase.done]
final = true

[action.approve]
about = "Approve; for people."
by = "human"
"#
        )
    };
    scene.file(
        ".phasegate/workflows/rounds.toml",
        definition(r#"goto = "writing", block = "Again.""#),
    );
    let ran = scene.run(&["verify", "rounds"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stdout.matches("error[").count(), 1, "{}", ran.stdout);
    for told in ["error[livelock]", "block in turn; only `approve by human` can change that"] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    // One place where an agent may stop is a way out.
    scene.file(".phasegate/workflows/rounds.toml", definition("wait = \"human\""));
    let ran = scene.run(&["verify", "rounds"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("no success without a person"), "{}", ran.stdout);
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
    let bounded: toml::Table = bounded.parse().unwrap();
    for entry in general().into_iter().filter(|entry| entry.origin == Origin::BuiltIn) {
        let bundle = entry.bundle().unwrap();
        let workflow = resolve(&bundle, &Overrides::default(), Expressions::Checked).unwrap();
        let bound = &bounded.get(&entry.name).unwrap_or_else(|| panic!("{} is listed", entry.name));
        let number = |name: &str| usize::try_from(bound[name].as_integer().unwrap()).unwrap();
        let report = verify(&workflow, &bundle, number("decisions"));
        let bad = report.findings.iter().filter(|it| it.severity > Severity::Note);
        let bad: Vec<String> =
            bad.map(|it| format!("{}: {} {:#?}", it.code, it.message, it.witness)).collect();
        assert!(bad.is_empty(), "{}: {}", entry.name, bad.join("\n"));
        assert!(!report.complete, "{} is proved: it is not to stand in .ci/bounded", entry.name);
        let (seen, name) = (&report.seen, &entry.name);
        assert!(
            seen.fired >= number("rules"),
            "{name}: {} fired, not {:?}",
            seen.fired,
            seen.unfired
        );
        let values: Vec<&str> =
            bound["values"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(values, seen.sampled, "{name}");
        let never = bound.get("never").and_then(toml::Value::as_table);
        for rule in never.into_iter().flat_map(toml::Table::keys) {
            assert!(seen.unfired.contains(rule), "{name}: {rule} fires, or is not a rule");
        }
        assert!(!workflow.properties.is_empty(), "{} says what must hold", entry.name);
        for property in &workflow.properties {
            assert!(report.proved.contains(&property.name), "{}: {}", entry.name, property.name);
        }
        // Nothing is known about success before a run was seen that comes to it.
        let unreached = &report.seen.unreached;
        for machine in &workflow.machines {
            for phase in machine.phases.iter().filter(|phase| phase.ends.is_some()) {
                let is_outer = machine.binding.is_none();
                let of = if is_outer { String::new() } else { format!("{}.", machine.name) };
                let name = format!("{of}{}", phase.name);
                assert!(!unreached.contains(&name), "{}: {unreached:?}", entry.name);
            }
        }
        assert!(report.successes > 0, "{}", entry.name);
        if entry.name == "phases" {
            let judged = "no success without a reviewer's verdict";
            assert!(report.proved.iter().any(|it| it.starts_with(judged)), "{:?}", report.proved);
        }
    }
}

#[test]
fn what_was_not_looked_at_is_said() {
    let ran = Scene::new().run(&["verify", "triage", "--decisions", "300"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for told in [
        "13 phases, ",
        "of 31 rules",
        "unfired  aggregation 4, ",
        "unseen   ",
        "decisions (--decisions): ",
        "only a few values were tried of the time, what files say, which files there are",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    // All situations were looked at, but not all that a file may say.
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/notes.toml",
        r#"
name = "notes"
about = "No stop without notes."
initial = "working"
[phase.working]
rules = [
  { on = "stop", when = "not text('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#,
    );
    let ran = scene.run(&["verify", "notes"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("proved for the values that were tried"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("--decisions"), "{}", ran.stdout);
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

/// Runs a command at a terminal, where each line is typed when it is asked for.
fn at_prompts(mut command: Command, script: &str) -> Ran {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let line = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut terminal = std::fs::File::from(terminal);
    command.stdin(line).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = child.stdout.take().unwrap();
    let mut text = Vec::new();
    for line in script.lines() {
        // What is typed before the editor has drawn its line is lost.
        let ready = b"\x1b[?2026l";
        while !text.ends_with(ready) {
            let mut piece = [0; 1];
            if shown.read(&mut piece).unwrap() == 0 {
                break;
            }
            text.extend(piece);
        }
        text.extend(b"\n");
        terminal.write_all(format!("{line}\r").as_bytes()).unwrap();
        // The echo of a key ends in the same way: only the line after it counts.
        let mut piece = [0; 1];
        while !text.ends_with(b"\x1b[?2004l") && shown.read(&mut piece).unwrap() > 0 {
            text.extend(piece);
        }
    }
    shown.read_to_end(&mut text).unwrap();
    let ended = finish(child);
    Ran { stdout: String::from_utf8_lossy(&text).replace('\r', ""), ..ended }
}

/// A gate whose line 1 blocks: the tests fail, and there is no report.
fn blocked() -> Scene {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/ship.toml",
        r#"
name = "ship"
about = "No stop before the tests pass and a report is written."
initial = "working"

[state]
phase = "string"
kind = { type = "string", default = "bug" }

[check.tests]
run = ["sh", "-c", "test -e fixed || { echo 3 of 7 failed; exit 3; }"]

[phase.working]
rules = [
  { on = "stop", when = "state.kind == 'docs'", goto = "done", allow = "done" },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail: {{ check.tests.tail }}" },
  { on = "stop", when = "not exists('report.md')", block = "Write report.md." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#,
    );
    assert_eq!(scene.by_hand(&["trust", "ship", "--yes"]).code, Some(0));
    scene.ok(&["start", "ship"]);
    scene.stop().blocks("3 of 7 failed");
    scene
}

#[test]
fn a_line_of_a_journal_is_gone_on_from_with_its_evidence() {
    let scene = blocked();
    let log = scene.ok(&["log", "--json"]);
    let seqs = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["event"]["name"] == "stop").then(|| line["seq"].as_u64().unwrap())
    });
    let line = format!("ship/ship@{}", seqs.max().unwrap());
    let script = "set state.kind = \"docs\"\nstop\nundo\nundo\nchange the tree\nstop\ncheck tests passes\n\
                  write report.md: \"x\"\nstop\nsave from-the-journal\nquit\n";
    let told = |ran: &Ran| {
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let mut rest = ran.stdout.as_str();
        for told in [
            "was answered: BLOCK",
            "BLOCK by rule `working 2`",
            "The tests fail: 3 of 7 failed",
            "ALLOW done by rule `working 1`",
            "BLOCK by rule `working 3`",
            "ALLOW done by rule `working 4`",
            "saved",
        ] {
            let at = rest.find(told).unwrap_or_else(|| panic!("{told}: {}", ran.stdout));
            rest = &rest[at + told.len()..];
        }
    };
    told(&typing(&scene, &line, script));
    assert!(scene.ok(&["test", "ship"]).contains("1 passed, 0 failed"));
    // The same at a terminal.
    let mut command = scene.command();
    command.args(["simulate", &line]);
    told(&at_prompts(command, script));
    for (line, why) in [("ship/ship@999", "the journal has no such line"), ("ship/none@1", "none")]
    {
        let ran = typing(&scene, line, "");
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}

#[test]
fn the_line_itself_can_be_saved_as_a_case() {
    let scene = blocked();
    let log = scene.ok(&["log", "--json"]);
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let line = format!("ship/ship@{}", last["seq"]);
    let ran = typing(&scene, &line, "save as-it-was\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let case = scene.read(".phasegate/workflows/ship/cases/as-it-was.toml");
    assert!(case.contains("3 of 7 failed"), "{case}");
    assert!(scene.ok(&["test", "ship"]).contains("1 passed, 0 failed"), "{case}");
}
