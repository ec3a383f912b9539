//! Machines on elements: lists, maps, stacks, elements of elements.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasegate_engine::answer::Answer;
use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::definition::Bundle;
use phasegate_engine::diagnostic::Source;
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::step::{Event, Step};

fn stop(definition: &str, state: &str) -> Step {
    let head = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n";
    let definition = Source::new("w.toml", format!("{head}{definition}"));
    let bundle = Bundle { definition, files: BTreeMap::new() };
    let workflow = resolve(&bundle, &Overrides::default(), Expressions::Checked)
        .unwrap_or_else(|found| panic!("{}", found.render(false)));
    let document = Json::parse(state.as_bytes()).unwrap();
    decide(
        &workflow,
        document,
        &Event::stop(None),
        &RunFacts::default(),
        Arc::new(GivenEvidence::default()),
    )
}

fn reason(step: &Step) -> &str {
    match &step.answer {
        Answer::Block { reason } => reason,
        other => panic!("{other:?}"),
    }
}

const FRAME: &str = r#"
[phase.a]
rules = [
  { on = "stop", ask = "frame" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true

[machine.frame]
each = "state.stack"
pick = "state.stack | length - 1"
initial = "running"

[machine.frame.phase.running]
rules = [
  { on = "stop", when = "frame.iter < frame.max", set = { "frame.iter" = "frame.iter + 1" }, block = "{{ frame.iter }}/{{ frame.max }} of {{ key }}" },
  { on = "stop", goto = "popped" },
]
[machine.frame.phase.popped]
final = true
"#;

#[test]
fn a_machine_on_the_top_of_a_stack() {
    let step = stop(FRAME, r#"{"phase":"a","stack":[{"iter":0,"max":9},{"iter":1,"max":3}]}"#);
    assert_eq!(reason(&step), "2/3 of 1");
    let text = step.document.to_text(None);
    assert_eq!(text.trim(), r#"{"phase":"a","stack":[{"iter":0,"max":9},{"iter":2,"max":3}]}"#);
    let empty = stop(FRAME, r#"{"phase":"a","stack":[]}"#);
    assert_eq!(empty.to, "b");
    let absent = stop(FRAME, r#"{"phase":"a","stack":null}"#);
    assert_eq!(absent.answer.to_string(), "ALLOW done");
}

#[test]
fn machines_on_elements_of_elements_in_the_order_of_the_document() {
    let definition = r#"
[phase.a]
rules = [
  { on = "stop", ask = "chapter" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true

[machine.chapter]
each = "state.chapters"
[machine.chapter.phase.open]
rules = [
  { on = "stop", ask = "page" },
  { on = "stop", goto = "closed" },
]
[machine.chapter.phase.closed]
final = true

[machine.page]
each = "chapter.pages"
[machine.page.let]
title = "chapter.title ~ ' ' ~ key"
[machine.page.phase.blank]
rules = [{ on = "stop", when = "not page.text", block = "write {{ title }}" }, { on = "stop", goto = "full" }]
[machine.page.phase.full]
final = true
"#;
    let state = r#"{"phase":"a","chapters":{
        "z":{"phase":"open","title":"Z","pages":[{"phase":"full"},{"phase":"blank","text":"x"}]},
        "a":{"phase":"open","title":"A","pages":[{"phase":"blank","text":"y"},{"phase":"blank","text":""}]}}}"#;
    let step = stop(definition, state);
    assert_eq!(reason(&step), "write A 1");
    let moves: Vec<String> =
        step.moves.iter().map(|step| format!("{}: {} → {}", step.of, step.from, step.to)).collect();
    assert_eq!(moves, ["page 1: blank → full", "chapter z: open → closed", "page 0: blank → full"]);
}

#[test]
fn rules_of_every_phase_come_first_and_not_in_a_final_one() {
    let definition = r#"
[any]
rules = [{ on = "stop", when = "state.get('halt') == true", allow = "aborted" }]
always = [{ when = "state.n < 3", set = { "state.n" = "state.n + 1" } }]
[state]
phase = "string"
n = { type = "integer", default = 0 }
[phase.a]
rules = [{ on = "stop", block = "n is {{ state.n }}" }]
[phase.b]
final = true
outcome = "aborted"
"#;
    assert_eq!(reason(&stop(definition, r#"{"phase":"a"}"#)), "n is 3");
    let halted = stop(definition, r#"{"phase":"a","halt":true}"#);
    assert_eq!(halted.answer.to_string(), "ALLOW aborted");
    let ended = stop(definition, r#"{"phase":"b","halt":true}"#);
    assert_eq!((ended.answer.to_string().as_str(), ended.changed), ("ALLOW aborted", false));
}

#[test]
fn what_a_rule_sets_must_fit_its_type() {
    let definition = r#"
[state]
phase = "string"
n = "integer?"
[phase.a]
rules = [{ on = "stop", set = { "state.n" = "'three'" }, block = "x" }]
"#;
    let step = stop(definition, r#"{"phase":"a"}"#);
    assert_eq!(
        step.answer.text(),
        Some("a rule sets what does not fit: state.n is \"three\", but must be an integer")
    );
    assert!(!step.changed);
}

#[test]
fn a_container_that_is_none_is_a_fault() {
    let step = stop(FRAME, r#"{"phase":"a","stack":7}"#);
    assert!(!step.answer.is_block(), "{:?}", step.answer);
    let text = step.answer.text().unwrap();
    assert!(text.contains("stack"), "{text}");
}

#[test]
fn lists_of_the_document_are_read_from_both_ends() {
    let definition = r#"
[phase.a]
rules = [{ on = "stop", block = "{{ state.l | last }} {{ state.l | first }} {{ state.l | reverse | join(',') }} {{ state.l[-1] }} {{ state.l[:-1] | join(',') }} {{ (state.o | reverse | list)[0] }} {{ 'x' in state.o }} {{ 'z' in state.o }}" }]
"#;
    let step = stop(definition, r#"{"phase":"a","l":[1,2,3],"o":{"x":1,"y":2}}"#);
    assert_eq!(reason(&step), "3 1 3,2,1 3 1,2 y True False");
}
