//! What `lint` finds, and how it says so.

mod equal;
mod forms;

use std::path::Path;

use serde_json::json;

use crate::scene::Scene;

fn linted(definition: &str) -> String {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", definition);
    scene.run(&["lint", "w"]).stdout
}

#[test]
fn all_mistakes_at_once_each_with_its_place_and_a_hint() {
    let shown = linted(
        r#"name = "w"
about = "A gate with mistakes."
initial = "workin"

[state]
phase = "string"
count = "intger"

[let]
open = "state.todos | selectattr('done', 'false') | lenght"
self = "1 + self"

[phase.working]
rules = [
  { on = "stop", wen = "true", block = "x" },
  { on = "stop", when = "open > 0 and (", block = "{{ nme }} {{ open }" },
  { on = "stp", goto = "don", allow = "done" },
  { on = "stop", when = "exsts('a') or open is nonne", goto = "done", block = { prompt = "no.md" } },
  { on = "stop", allow = "waiting" },
  { when = "true", goto = "done" },
  { on = "stop", when = "true" },
  { on = "stop", ask = "nobody" },
  { on = "stop", set = { "stat.x" = 1, "state" = 2 } },
]
[phase.done]
final = true
"#,
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn broken_toml_is_one_clear_error() {
    insta::assert_snapshot!(linted("name = \"w\nabout = 3\n[phase.a\n"));
}

#[test]
fn suspicious_machines_are_warned_about() {
    let shown = linted(
        r#"name = "w"
about = "A gate that hardly does what was meant."
initial = "a"
reentry = "always"

[const]
UNUSED = 1

[let]
nothing = "1"

[phase.a]
rules = [
  { on = "stop", when = "state.x", goto = "b" },
  { on = "stop", block = "forever" },
  { on = "stop", when = "state.y", goto = "b", allow = "done" },
]

[phase.b]

[phase.island]
final = true

[machine.item]
each = "state.items"
[machine.item.phase.open]
final = true
"#,
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn a_counter_that_a_rule_looks_at_bounds_the_blocks() {
    let shown = linted(
        r#"name = "w"
about = "A loop with a limit."
initial = "a"
reentry = "always"

[state]
phase = "string"
n = { type = "integer", default = 0 }

[phase.a]
rules = [
  { on = "stop", when = "state.n >= 3", goto = "b", allow = "capped" },
  { on = "stop", set = { "state.n" = "state.n + 1" }, block = "again" },
]
[phase.b]
final = true
"#,
    );
    assert!(shown.contains("0 errors, 0 warnings"), "{shown}");
}

/// Definitions that would otherwise be found out only while they decide.
#[test]
fn machines_names_and_paths_that_lead_nowhere_are_refused() {
    let head = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n";
    let plain = "[phase.a]\nrules = [{ on = \"stop\", block = \"x\" }]\n";
    for (definition, expected) in [
        (
            "[machine.p]\neach = \"q.items\"\n[machine.p.phase.o]\n[machine.q]\neach = \"p.items\"\n[machine.q.phase.o]\n",
            "runs on elements of its own elements",
        ),
        (
            "[machine.p]\neach = \"state.items\"\n[machine.p.phase.o]\nrules = [{ on = \"stop\", ask = \"p\" }]\n",
            "so it cannot be asked here",
        ),
        ("[machine.p]\neach = \"state.items\"\n", "`p` has no phase"),
        ("[let]\nx = \"y\"\ny = \"x\"\n", "is derived from itself"),
        (
            "[state]\nphase = \"string\"\nitems = \"any\"\n[machine.p]\neach = \"state.itmes\"\n[machine.p.phase.o]\n",
            "did you mean `items`?",
        ),
        ("[state]\nphse = \"string\"\n", "`state` has no field `phase`"),
        (
            "[state]\nphase = \"string\"\n[any]\nalways = [{ when = \"false\", set = { \"state.pahse\" = 1 } }]\n",
            "`state` has no field `pahse`",
        ),
        (
            "[state]\nphase = { type = \"integer\", default = \"a\" }\n",
            "the default of `phase` is \"a\"",
        ),
        ("[const]\nstate = 3\n", "`state` is given already"),
        ("[const]\nA = 1\n[let]\nA = \"1\"\n", "`A` is a constant already"),
        ("[let]\nx = \"json('a', 'nobody')\"\n", "there is no record `nobody`"),
        ("[let]\nx = \"[] | selectattr('a', 'fasle')\"\n", "did you mean `false`?"),
        ("[action.help]\nabout = \"x\"\n", "cannot name an action"),
        (
            "[action.go]\nabout = \"x\"\nparam.json = { type = \"string\" }\n",
            "cannot name a parameter",
        ),
        (
            "[action.go]\nabout = \"x\"\n[any]\nrules = [{ on = \"go\", block = \"x\" }]\n",
            "an action cannot be blocked",
        ),
        ("[any]\nrules = [{ on = \"stop\", deny = \"x\" }]\n", "a stop cannot be denied"),
        ("[phases.b]\n", "did you mean `phase`?"),
        (
            "[any]\nrules = [{ on = \"stop\", block = \"{{ z }}{% for z in [] %}{{ z }}{% endfor %}{% filter bananna %}{% endfilter %}\" }]\n",
            "there is no name `z`",
        ),
        (
            "[phase.b]\nfinal = true\nrules = [{ on = \"stop\", block = \"x\" }]\n",
            "does not answer stops",
        ),
    ] {
        let shown = linted(&format!("{head}{definition}{plain}"));
        assert!(shown.contains(expected), "{expected:?} is not in\n{shown}");
    }
}

#[test]
fn a_workflow_cannot_be_called_like_a_command() {
    let scene = Scene::new();
    let text = "name = \"status\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nfinal = true\n";
    scene.file(".phasegate/workflows/status.toml", text);
    let ran = scene.run(&["lint", "status"]);
    assert!(ran.stdout.contains("is a command of phasegate"), "{ran:?}");
    assert!(scene.ok(&["status"]).contains("has no run"));
}

#[test]
fn constants_in_the_configuration_have_the_right_type() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/config.toml", "[workflow.triage.const]\nREQUIRED_PLANS = \"5\"\n");
    scene.stop().allows_saying("sets `REQUIRED_PLANS` to \"5\", but it is an integer");
}

#[test]
fn every_rule_of_the_gate_names_tests_that_exist() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests"));
    let docs = include_str!("../docs/gate.md");
    let (_, table) = docs.split_once("| rule | tests |").unwrap();
    let mut rules = 0;
    for row in table.lines().filter(|line| line.contains('`')) {
        rules += 1;
        for name in row.split('`').skip(1).step_by(2) {
            assert!(sources.contains(&format!("fn {name}(")), "there is no test {name}");
        }
    }
    assert_eq!(rules, 10);
}

/// Every row of `docs/conformance` names what shows it: tests, or cases of its workflow.
#[test]
fn every_statement_names_tests_and_cases_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources(&root.join("tests"));
    let mut rows = 0;
    for page in std::fs::read_dir(root.join("docs/conformance")).unwrap().flatten() {
        let path = page.path();
        let workflow = path.file_stem().unwrap().to_str().unwrap();
        let cases = sources_of(&root.join(format!("workflows/{workflow}/cases")));
        // Some names have their arrows and quotes escaped.
        let cases = cases.replace("\\u2192", "→").replace("\\\"", "\"");
        let text = std::fs::read_to_string(&path).unwrap();
        let is_row = |line: &&str| {
            let rest = line.strip_prefix("| ").unwrap_or_default();
            rest.starts_with(|c: char| c.is_ascii_digit())
        };
        for row in text.lines().filter(is_row) {
            rows += 1;
            let shown = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
            let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "{workflow}: nothing shows {row}");
            for name in names {
                let is_test = sources.contains(&format!("fn {name}("));
                let is_case = cases.contains(&format!("name = \"{name}\""));
                assert!(is_test || is_case, "{workflow}: there is no test or case {name:?}");
            }
        }
    }
    assert!(rows > 200, "{rows} rows");
}

/// The text of all files in a folder.
fn sources_of(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// The text of all tests.
fn sources(folder: &Path) -> String {
    let nested = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let nested = nested.filter(|path| path.is_dir()).map(|folder| sources_of(&folder));
    sources_of(folder) + &nested.collect::<String>()
}

/// A workflow with something that has a prompt, whose file is missing.
fn without_prompt(kind: &str) -> String {
    let (job, rule) = match kind {
        "reviewer" => (r#"writes = "r.md""#, r#"{ on = "stop", review = "x" }"#),
        "worker" => (r#"run = ["true"]"#, r#"{ on = "go", work = "x" }"#),
        _ => (r#"role = "worker""#, r#"{ on = "go", start = "x" }"#),
    };
    format!(
        r#"name = "w"
about = "A prompt is missing."
initial = "a"
[action.go]
about = "Goes on."
[{kind}.x]
prompt = "gone.md"
{job}
[phase.a]
rules = [{rule}, {{ on = "stop", block = "Go on." }}]
"#
    )
}

#[test]
fn a_missing_prompt_costs_only_its_own_workflow() {
    for kind in ["reviewer", "worker", "agent"] {
        let scene = Scene::with_triage(1);
        scene.stop().blocks("1 of 1");
        scene.file(".phasegate/workflows/w.toml", without_prompt(kind));
        let found = scene.run(&["lint", "w"]);
        assert!(
            found.stdout.contains("there is no file in prompts/ `gone.md`"),
            "{kind}: {found:?}"
        );
        assert!(found.stdout.contains("w.toml:"), "{kind}: {found:?}");
        for command in [&["status"][..], &["list"], &["why", "triage/web"], &["doctor"]] {
            let ran = scene.run(command);
            assert!(!ran.stderr.contains("panicked"), "{kind}: {command:?}: {ran:?}");
            assert!(command == ["doctor"] || ran.code == Some(0), "{kind}: {command:?}: {ran:?}");
        }
        scene.stop().blocks("1 of 1");
        assert_eq!(scene.by_hand(&["cancel", "triage/web"]).code, Some(0));
    }
}

#[test]
fn a_run_goes_on_with_its_copy_when_a_prompt_is_removed() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", without_prompt("worker"));
    scene.file(".phasegate/workflows/w/prompts/gone.md", "Work.");
    scene.ok(&["w", "start"]);
    scene.stop().blocks("Go on.");
    std::fs::remove_file(scene.path(".phasegate/workflows/w/prompts/gone.md")).unwrap();
    scene.file("progress", "made");
    let mut payload = scene.payload();
    payload["session_id"] = "s1".into();
    scene.hook(&payload).blocks("Go on.");
    assert_eq!(scene.by_hand(&["cancel", "w/w"]).code, Some(0));
}

#[test]
fn consent_is_asked_for_everything_that_a_workflow_does() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/w.toml",
        r#"name = "w"
about = "Does everything that a workflow can do."
initial = "a"
transcript = { place = "history.md", line = "line.md" }
[action.go]
about = "Goes on."
[check.tests]
run = ["run-tests"]
[command.tidy]
run = ["run-tidy", "{{ run.name }}"]
[command.unused]
run = ["never-run"]
[reviewer.judge]
prompt = "p.md"
writes = "judged.md"
run = ["run-judge"]
[worker.coder]
prompt = "p.md"
run = ["run-coder"]
[agent.helper]
prompt = "p.md"
role = "worker"
run = ["run-helper"]
[phase.a]
rules = [
  { on = "go", when = "check.tests.ok", run = ["tidy"], write = { "out.md" = "line.md" }, move = { "old.md" = "new.md" }, allow = "done" },
  { on = "go", when = "exists('b')", start = "helper" },
  { on = "go", work = "coder" },
  { on = "stop", review = "judge" },
]
"#,
    );
    scene.file(".phasegate/workflows/w/prompts/p.md", "Work.");
    scene.file(".phasegate/workflows/w/templates/line.md", "line");
    let shown = scene.by_hand(&["trust", "w", "--yes"]);
    insta::assert_snapshot!(shown.stdout);
}

/// Every command as it would run: constants and the usual client are written out, and what an agent may do.
#[test]
fn what_is_consented_to_is_shown_as_it_would_run() {
    let scene = Scene::new();
    let text = r#"name = "w"
about = "Has others work."
initial = "a"
[const]
TESTS = ["run-tests", "--all"]
TIDY = "run-tidy"
JUDGE = []
[check.tests]
run = "TESTS"
[command.tidy]
run = ["{{ TIDY }}", "{{ run.name }}"]
[reviewer.judge]
prompt = "p.md"
writes = "judged.md"
run = "JUDGE"
[agent.helper]
prompt = "p.md"
role = "worker"
RIGHTS
[action.go]
about = "Goes on."
[phase.a]
rules = [
  { on = "go", when = "check.tests.ok", run = ["tidy"], allow = "done" },
  { on = "go", start = "helper" },
  { on = "stop", review = "judge" },
]
"#;
    scene.file(".phasegate/workflows/w/prompts/p.md", "Work.");
    scene.file(".phasegate/workflows/w.toml", text.replace("RIGHTS", ""));
    let shown = scene.ok(&["trust", "w", "--show"]);
    for part in [
        r#"check tests: ["run-tests", "--all"]"#,
        r#"command tidy: ["run-tidy", "{{ run.name }}"]"#,
        r#"reviewer judge: ["claude", "--print""#,
        "Bash(run-tests --all)",
        "judged.md)\"] (reads, asks git, runs the checks, and writes nothing but its file), writes",
        r#""--permission-mode", "acceptEdits""#,
        "(edits files, asks git and runs the checks)",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    scene.file(".phasegate/workflows/w.toml", text.replace("RIGHTS", "rights = \"all\""));
    let shown = scene.ok(&["trust", "w", "--show"]);
    assert!(shown.contains("(may do everything without asking)"), "{shown}");
    // To look is not to consent.
    scene.ok(&["w", "start"]);
    scene.stop().allows_saying("you have not consented");
}

#[test]
fn consent_is_asked_for_at_the_terminal() {
    let scene = Scene::new();
    let text = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[check.t]\nrun = [\"false\"]\n[phase.a]\nrules = [{ on = \"stop\", when = \"not check.t.ok\", block = \"It fails.\" }]\n";
    scene.file(".phasegate/workflows/w.toml", text);
    scene.ok(&["w", "start"]);
    for (typed, code) in [("\n", 1), ("no\n", 1), ("y\n", 0)] {
        scene.stop().allows_saying("you have not consented");
        let mut command = scene.command();
        command.args(["trust", "w"]);
        let ran = scene.typing(typed, command);
        assert_eq!(ran.code, Some(code), "{typed:?}: {ran:?}");
        assert!(ran.stdout.contains("check t: [\"false\"]"), "{ran:?}");
        assert!(ran.stderr.contains("Consent to all of that? [y/N]"), "{ran:?}");
    }
    scene.stop().blocks("It fails.");
}

/// How often a text is in the log of faults.
fn faults(scene: &Scene, text: &str) -> usize {
    let log = std::fs::read_to_string(scene.path(".phasegate/faults.jsonl")).unwrap_or_default();
    log.matches(text).count()
}

#[test]
fn a_broken_definition_that_nobody_uses_is_said_once_a_session() {
    let guard = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", when = \"nothing.of.that\", block = \"x\" }]\n";
    for (text, why) in [("name = ", "w"), ("name = \"w\"\n", "w"), (guard, "nothing")] {
        let scene = Scene::with_triage(2);
        scene.file(".phasegate/workflows/w.toml", text);
        let said = scene.stop();
        said.blocks("2 of 2");
        let message = said.json["systemMessage"].as_str().unwrap_or_default().to_string();
        assert!(message.contains("phasegate lint w") && message.contains(why), "{text}: {message}");
        assert!(!message.contains("The stop was allowed"), "{message}");
        scene.result(0, true, "g");
        let said = scene.stop_again();
        assert!(!said.json.to_string().contains("phasegate lint w"), "{said:?}");
        assert_eq!(faults(&scene, "lint w") + faults(&scene, "workflow w"), 0);
        // Another session is told as it begins, and not again when it stops.
        let said = scene.hook_of("session-start", "s2", &json!({ "source": "startup" }));
        assert!(said.json["systemMessage"].to_string().contains("phasegate lint w"), "{said:?}");
        assert!(!scene.stop_of("s2", false).json.to_string().contains("lint w"));
        // Who mends it and makes another mistake is told again.
        scene.file(".phasegate/workflows/w.toml", "name = 7\n");
        assert!(scene.stop().json.to_string().contains("phasegate lint w"));
        assert!(scene.run(&["status"]).stderr.contains("phasegate lint w"));
        assert!(scene.run(&["doctor"]).stdout.contains("workflow w"));
        assert_eq!(scene.run(&["lint", "w"]).code, Some(1));
    }
}
