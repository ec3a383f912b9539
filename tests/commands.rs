//! The command line as a person meets it.

use crate::scene::Scene;

#[test]
fn help_names_the_commands_and_gives_examples() {
    insta::assert_snapshot!(Scene::new().ok(&["--help"]));
}

#[test]
fn the_help_of_a_workflow_is_made_from_its_actions() {
    insta::assert_snapshot!(Scene::new().ok(&["triage", "start", "--help"]));
}

#[test]
fn a_workflow_is_drawn_as_a_diagram_and_as_a_table() {
    let scene = Scene::with_triage(1);
    insta::assert_snapshot!("drawn", scene.ok(&["draw", "triage", "--run", "web"]));
    insta::assert_snapshot!("mermaid", scene.ok(&["draw", "triage", "--format", "mermaid"]));
    insta::assert_snapshot!(
        "table",
        scene.ok(&["draw", "triage", "--format", "table", "--run", "web"])
    );
    insta::assert_snapshot!(
        "dot",
        scene.ok(&["draw", "triage", "--format", "dot", "--run", "triage/web"])
    );
}

#[test]
fn why_shows_rules_guards_and_evidence() {
    let scene = Scene::with_triage(3);
    scene.result(0, true, "g");
    scene.stop();
    let shown = scene.ok(&["why"]);
    let steady = |line: &str| match line.split_once("now: ") {
        Some((before, _)) => format!("{before}now: [time]"),
        None => line.replace("(just now)", "([ago])").replace("(2 seconds ago)", "([ago])"),
    };
    insta::assert_snapshot!(shown.lines().map(steady).collect::<Vec<_>>().join("\n"));
    let json: serde_json::Value = serde_json::from_str(&scene.ok(&["why", "--json"])).unwrap();
    assert_eq!(json["trace"]["tried"][0]["rule"], "triage always 1");
}

#[test]
fn status_and_log_tell_where_a_run_is() {
    let scene = Scene::with_triage(2);
    assert!(scene.ok(&["status"]).contains("no session has stopped here yet"));
    scene.stop();
    scene.result(0, true, "g");
    scene.stop_again();
    let status = scene.ok(&["status"]);
    assert!(status.contains("triage/web  working in phase triage"), "{status}");
    assert!(status.contains("last answer BLOCK"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&scene.ok(&["status", "--json"])).unwrap();
    assert_eq!(json["runs"][0]["condition"], "working");
    assert_eq!(json["runs"][0]["blocks"], 2);
    assert_eq!(scene.ok(&["log"]).lines().count(), 2);
    assert_eq!(scene.ok(&["log", "-n", "1"]).lines().count(), 1);
    let line: serde_json::Value =
        serde_json::from_str(&scene.ok(&["log", "-n", "1", "--json"])).unwrap();
    assert_eq!(line["seq"], 2);
}

#[test]
fn faults_are_shown_by_status() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/triage/a_triage.json", "{");
    scene.stop();
    let ran = scene.run(&["status"]);
    assert!(ran.stderr.contains("a_triage.json is not valid JSON"), "{ran:?}");
    assert!(ran.stdout.contains("triage/a    broken"), "{ran:?}");
}

#[test]
fn mistakes_get_one_clear_sentence() {
    let scene = Scene::new();
    for (args, text) in [
        (vec!["why"], "there is no run in this project"),
        (vec!["cancel", "nothing"], "there is no run in this project"),
        (vec!["draw", "banana"], "\"banana\" is neither a file nor a workflow"),
        (vec!["eject", "banana"], "there is no built-in workflow \"banana\""),
        (vec!["demo", "banana"], "there is no workflow \"banana\""),
        (vec!["-C", "/no/such", "list"], "cannot work in /no/such"),
    ] {
        let ran = scene.run(&args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:?}");
        assert!(ran.stderr.contains(text), "{ran:?}");
    }
    assert_eq!(scene.run(&["banana"]).code, Some(2));
}

#[test]
fn several_runs_must_be_told_apart() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/triage/api_triage.json", r#"{"phase":"triage","entries":[]}"#);
    let ran = scene.run(&["cancel"]);
    assert!(ran.stderr.contains("which run? There are: triage/api, triage/web"), "{ran:?}");
    scene.ok_by_hand(&["cancel", "web"]);
    scene.ok_by_hand(&["cancel", "triage/api"]);
}

#[test]
fn a_command_works_in_the_folder_of_its_flag() {
    let scene = Scene::new();
    scene.file("below/f.json", "\u{feff}[{\"name\":\"a\"}]");
    for flag in ["-C", "-C="] {
        let folder = scene.path("below").display().to_string();
        let mut args = if flag == "-C" {
            vec!["-C".to_string(), folder]
        } else {
            vec![format!("-C={folder}")]
        };
        args.extend(["triage", "start", "--from", "f.json"].map(String::from));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert!(scene.ok(&args).contains("has started"));
    }
}

#[test]
fn a_run_of_another_workflow_is_not_taken_for_ones_own() {
    let scene = Scene::with_triage(1);
    let gate = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"x\" }]\n";
    scene.file(".phasegate/workflows/w.toml", gate);
    scene.ok(&["w", "start", "--name", "r"]);
    assert!(scene.ok(&["triage", "report"]).contains("# Triage web"));
    let ran = scene.run(&["triage", "report", "w/r"]);
    assert!(ran.stderr.contains("run w/r is not one of triage"), "{ran:?}");
}

#[test]
fn ended_runs_are_told_apart_by_the_last_one() {
    let scene = Scene::with_triage(1);
    scene.file(".phasegate/triage/api_triage.json", r#"{"phase":"triage","entries":[]}"#);
    scene.ok_by_hand(&["cancel", "triage/api"]);
    scene.stop().blocks("1 of 1");
    scene.ok_by_hand(&["cancel"]);
    assert!(scene.ok(&["why"]).contains("triage/web: last event cancel"));
    assert!(scene.ok_by_hand(&["cancel", "web"]).contains("is cancelled already"));
}

#[test]
fn why_a_run_is_stuck_shows_what_it_was_told() {
    let scene = Scene::with_triage(1);
    scene.stop();
    scene.stop_again();
    let shown = scene.ok(&["why"]);
    assert!(shown.contains("What the agent was told and did not do"), "{shown}");
    assert!(shown.contains("**triage-investigator**"), "{shown}");
}

#[test]
fn completions_and_manual_know_the_commands() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = scene.run(&["completions", shell]);
        assert!(ran.stdout.contains("PHASEGATE_COMPLETE"), "{shell}: {ran:?}");
        assert_eq!(ran.stderr, "", "{shell}");
    }
    let page = scene.ok(&["man"]);
    assert!(page.contains(".TH PHASEGATE 1") && page.contains("demo"), "{page}");
    let page = scene.ok(&["man", "triage", "start"]);
    assert!(page.contains(".TH PHASEGATE-TRIAGE-START 1"), "{page}");
    assert!(page.contains("phasegate\\-triage\\-start \\- "), "{page}");
}

#[test]
fn output_that_nobody_reads_is_no_crash() {
    let scene = Scene::new();
    let mut command = scene.command();
    command.args(["draw", "triage"]);
    let mut child = scene.spawn(command, b"");
    drop(child.stdout.take());
    let ran = crate::scene::finish(child);
    assert_eq!(ran.stderr, "");
}

#[test]
fn of_several_runs_the_one_that_decided_last_is_looked_at() {
    let scene = Scene::with_triage(2);
    scene.file(".phasegate/workflows/w.toml", "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[action.poke]\nabout = \"b\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"Go on.\" }, { on = \"poke\", deny = \"Not yet.\" }]\n[phase.b]\nfinal = true\n");
    scene.ok(&["start", "w", "--name", "other"]);
    scene.stop();
    scene.run(&["do", "w", "poke"]);
    assert!(scene.ok(&["why"]).contains("w/other"));
    assert!(scene.ok(&["log", "-n", "1"]).contains("poke"));
    // What changes something asks which one is meant.
    let ran = scene.by_hand(&["cancel"]);
    assert!(ran.stderr.contains("which run?"), "{ran:?}");
}

#[test]
fn a_journal_can_be_followed() {
    use std::io::{BufRead, BufReader};
    let scene = Scene::with_triage(2);
    scene.stop();
    let mut command = scene.command();
    command.args(["log", "-f", "-n", "1"]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("BLOCK"));
    scene.result(0, true, "g");
    scene.stop_again();
    assert!(lines.next().unwrap().contains("   2  "));
    child.kill().unwrap();
    child.wait().unwrap();
}
