//! Who is a person, and what only a person may do.

use std::process::Command;

use crate::scene::{Ran, Scene};

const GATE: &str = r#"
name = "notes"
about = "Notes are written."
initial = "working"

[phase.working]
rules = [{ on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." }, { on = "stop", goto = "done", allow = "done" }]

[phase.done]
final = true
"#;

const RUN: &str = "notes/notes";

/// A run of a small workflow, with this in its head.
fn with_gate(head: &str) -> Scene {
    let scene = Scene::new();
    let gate = GATE.replace("\ninitial", &format!("\n{head}\ninitial"));
    scene.file(".phasegate/workflows/notes.toml", gate);
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene
}

/// A shell script at a terminal; `$gate` is the binary.
fn script(scene: &Scene, shell: &str, words: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(shell);
    command.current_dir(scene.root()).env_clear().env("HOME", scene.path("home"));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("gate", env!("CARGO_BIN_EXE_phasegate"));
    command.args(words).envs(env.iter().copied());
    scene.at_terminal(command)
}

/// What only a person may do, in a clean environment and without replacing the shell.
const CLEAN: &str = r#"env -i HOME="$HOME" PATH="$PATH" "$gate" pause; exit $?"#;

#[track_caller]
fn is_refused(scene: &Scene, ran: &Ran, why: &str) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is for people") && ran.stderr.contains(why), "{ran:?}");
    let last = scene.journal(RUN).pop().unwrap();
    assert_eq!(
        (&last["event"]["name"], &last["answer"]["decision"]),
        (&"pause".into(), &"deny".into())
    );
    scene.stop().blocks("Write NOTES.md");
}

#[test]
fn a_person_at_a_terminal_is_one() {
    let scene = with_gate("");
    let ran = script(&scene, "sh", &["-c", CLEAN], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_clean_environment_makes_no_person() {
    let scene = with_gate("");
    let ran = script(&scene, "sh", &["-c", CLEAN], &[("CLAUDECODE", "1")]);
    is_refused(&scene, &ran, "inside Claude Code (CLAUDECODE is set for sh ");
}

#[test]
fn a_client_of_another_name_is_a_client() {
    let shell = std::fs::read("/bin/sh").unwrap();
    for (program, script_at) in [
        ("home/.local/share/claude/versions/2.1.325", None),
        ("bin/node", Some("lib/@anthropic-ai/claude-code/cli.js")),
        ("bin/node", Some("bin/gemini")),
    ] {
        let scene = with_gate("");
        scene.file(program, &shell);
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(scene.path(program), executable).unwrap();
        let at = scene.path(script_at.unwrap_or("any.sh"));
        scene.file(at.to_str().unwrap(), CLEAN);
        let program = scene.path(program);
        let ran = script(&scene, program.to_str().unwrap(), &[at.to_str().unwrap()], &[]);
        is_refused(&scene, &ran, "this runs inside an agent's client");
    }
}

#[test]
fn without_a_terminal_nobody_is_a_person() {
    let scene = with_gate("");
    let mut command = Command::new("setsid");
    command.arg("-w").arg(env!("CARGO_BIN_EXE_phasegate")).arg("pause");
    command.current_dir(scene.root()).env_clear().env("HOME", scene.path("home"));
    let ran = crate::scene::finish(scene.spawn(command, b""));
    is_refused(&scene, &ran, "there is no terminal");
    // What is not for people only is not recorded as a person's.
    let ran = scene.run(&["adopt", "--session", "other"]);
    assert!(ran.stderr.contains("for its own session only"), "{ran:?}");
    scene.ok(&["release"]);
    scene.ok(&["cancel"]);
    let journal = scene.journal(RUN);
    for line in journal.iter().filter(|line| line["event"]["name"] != "stop") {
        assert_eq!(line["event"]["actor"], "worker", "{line}");
    }
    scene.stop().allows_saying("Run notes/notes was cancelled from a script");
}

#[test]
fn a_workflow_can_leave_its_end_to_people() {
    let scene = with_gate("cancel = \"human\"");
    let said = scene.stop();
    let way = "To end it, in a terminal of your own: `phasegate cancel notes/notes`.";
    assert!(said.json["systemMessage"].as_str().unwrap().contains(way), "{said:?}");
    let ran = scene.by_agent(&["cancel", "--reason", "too much work"]);
    assert_eq!(ran.code, Some(1));
    let told = "run `phasegate cancel notes/notes` in a terminal of your own";
    assert!(ran.stderr.contains(told), "{ran:?}");
    let last = scene.journal(RUN).pop().unwrap();
    assert_eq!(last["answer"]["code"], "needs_human", "{last}");
    scene.stop().blocks("Write NOTES.md");
    assert_eq!(scene.by_hand(&["cancel"]).code, Some(0));
    scene.stop().allows_saying("was cancelled from a terminal");
}

#[test]
fn a_paused_run_holds_nobody_and_says_so() {
    let scene = with_gate("");
    is_refused(&scene, &scene.by_agent(&["pause"]), "inside Claude Code");
    let ran = scene.by_hand(&["pause", "--reason", "lunch"]);
    assert!(ran.stdout.contains("Run notes/notes is paused: it holds no session."), "{ran:?}");
    let told = "Run notes/notes is paused. `phasegate resume notes/notes` resumes it.";
    scene.stop().allows_saying(told);
    scene.stop_again().allows_saying(told);
    assert!(scene.ok(&["status"]).contains("paused in phase working"));
    assert_eq!(scene.by_agent(&["resume"]).code, Some(1));
    assert!(scene.by_hand(&["resume"]).stdout.contains("answers stops again"));
    scene.stop().blocks("Write NOTES.md");
}

#[test]
fn the_plugins_commands_for_people_are_not_for_the_model() {
    let scene = Scene::new();
    for name in ["status", "why", "cancel", "adopt", "pause", "resume"] {
        let path = format!("{}/../../plugin/commands/{name}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("\ndisable-model-invocation: true\n"), "{name}");
        assert!(text.contains(&format!("\nallowed-tools: Bash(phasegate {name}:*)")), "{name}");
        // Where it is refused, the client would show its own words for a command that failed, and not ours.
        let ending = if ["status", "why"].contains(&name) { "" } else { " 2>&1 | cat" };
        assert!(text.contains(&format!("\n!`phasegate {name} $ARGUMENTS{ending}`\n")), "{name}");
        scene.ok(&[name, "--help"]);
    }
    // What is typed in the client is the person's own message: it needs no command to reach the model.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin/commands/answer.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("\ndisable-model-invocation: true\n"), "{text}");
    assert!(text.contains("\n!`phasegate ask-human --withdraw`\n"), "{text}");
}

/// What was tried, with the result: every row of the table names a test that is there, and nothing is silent.
#[test]
fn every_attack_in_the_table_has_its_test() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{root}/docs/gate.md")).unwrap();
    let (_, table) = text.split_once("## What was tried").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut tests = String::new();
    for folder in ["", "/phases", "/plans", "/loops"] {
        for entry in std::fs::read_dir(format!("{root}/tests{folder}")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "rs") {
                tests += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, outcome, test] = cells.as_slice() else { panic!("{row}") };
        match *outcome {
            "stopped" | "loud" => {
                let name = test.trim_matches('`');
                assert!(tests.contains(&format!("fn {name}()")), "there is no test {name:?}");
            }
            outcome => assert_eq!(outcome, "possible for one user id", "{row}"),
        }
    }
}
