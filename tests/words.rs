//! What people are told when a stop is let go, in the same words everywhere.

use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_runtime::condition::Condition;
use phasegate_runtime::words::{Because, sentence, standing};

use crate::scene::{STATE, Scene};

/// Every sentence in one file, so that a change of words is a diff.
#[test]
fn every_sentence() {
    let outcomes = [
        None,
        Some(Outcome::Done),
        Some(Outcome::Stuck),
        Some(Outcome::Capped),
        Some(Outcome::Budget),
        Some(Outcome::Aborted),
        Some(Outcome::Inactive),
        Some(Outcome::Fault),
    ];
    let untils = [None, Some(Until::Human), Some(Until::Background), Some(Until::External)];
    let outcomes = outcomes.map(|outcome| Because::Outcome(outcome, None));
    let waits = untils.map(|until| Because::Outcome(Some(Outcome::Waiting), until));
    let situations = [
        Because::NoRule,
        Because::Unchanged,
        Because::OtherHook,
        Because::Background("a sub-agent"),
        Because::TooLong,
        Because::Shell,
        Because::PlanMode,
        Because::Asked("Red or blue?"),
        Because::Answered,
        Because::Ready,
        Because::Longer("check tests"),
        Because::Changing("check tests"),
        Because::NoTree("check tests", "src is not a repository"),
        Because::Untrusted("ship"),
        Because::Limit(
            Outcome::Capped,
            500,
            "blocks in a row",
            "Send the agent a message to go on",
        ),
        Because::Tampered("`phase` was changed from \"a\" to \"b\", and not by Phasegate"),
        Because::ClientCap(8, false),
        Because::ClientCap(5, true),
    ];
    let all = outcomes.into_iter().chain(waits).chain(situations);
    let lines: Vec<String> = all
        .map(|because| format!("{because:?}\n    {}", sentence("ship/one", "working", because)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_person_that_is_needed_is_told_from_work() {
    let human = Answer::waiting(Until::Human, "m");
    let background = Answer::waiting(Until::Background, "m");
    assert_eq!(standing(Condition::Waiting, Some(&human), false, None), "needs you");
    assert_eq!(standing(Condition::Waiting, Some(&background), false, None), "waiting");
    let ready = standing(Condition::Waiting, Some(&background), true, None);
    assert_eq!(ready, "needs you: what it was waiting for is done");
    assert_eq!(standing(Condition::Stuck, None, false, None), "needs you: stuck");
    assert_eq!(standing(Condition::Working, None, false, None), "working");
}

#[test]
fn a_stop_that_no_rule_answers_is_told() {
    let scene = Scene::new();
    let definition = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", when = \"exists('no')\", goto = \"b\" }]\n[phase.b]\nfinal = true\n";
    scene.file(".phasegate/workflows/w.toml", definition);
    let linted = scene.run(&["lint", "w"]);
    assert!(
        linted.stdout.contains("unanswered") || linted.stderr.contains("unanswered"),
        "{linted:?}"
    );
    scene.ok(&["w", "start"]);
    scene.stop().allows_saying("phase a has no rule for it");
    assert!(scene.ok(&["status"]).contains("phase a has no rule for it"));
    let start = scene.hook_of("session-start", "s1", &serde_json::json!({ "source": "resume" }));
    assert!(start.json.to_string().contains("phase a has no rule for it"), "{start:?}");
}

#[test]
fn what_somebody_else_has_ended_is_told_once() {
    let scene = Scene::with_triage(1);
    scene.stop().blocks("1 of 1");
    let mut state = scene.json(STATE);
    state["phase"] = "complete".into();
    scene.file(STATE, state.to_string());
    let said = scene.stop_again();
    assert!(said.json["systemMessage"].is_string(), "{said:?}");
    scene.stop().allows();
}
