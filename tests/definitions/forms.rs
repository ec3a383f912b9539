//! Short forms: each is another word for something longer, and mistakes in it are found where it stands.

use super::equal::assert_same;
use super::linted;
use crate::scene::Scene;

/// A definition with these tables.
fn with(rest: &str) -> String {
    format!("name = \"w\"\nabout = \"A gate.\"\ninitial = \"a\"\n{rest}")
}

fn same(short: &str, long: &str) {
    assert_same(&with(short), &with(long));
}

#[test]
fn what_is_set_when_a_phase_is_entered_is_set_by_every_rule_that_leads_there() {
    same(
        r#"
[phase.a]
result = "state.how"
rules = [
  { on = "stop", when = "state.x", goto = "b", as = "well" },
  { on = "stop", set = { "state.n" = 7 }, goto = "b" },
]
[phase.b]
final = true
enter = { "state.n" = "state.n + 1", "state.m" = 0 }
"#,
        r#"
[phase.a]
rules = [
  { on = "stop", when = "state.x", set = { "state.how" = "'well'", "state.n" = "state.n + 1", "state.m" = 0 }, goto = "b" },
  { on = "stop", set = { "state.n" = 7, "state.m" = 0 }, goto = "b" },
]
[phase.b]
final = true
"#,
    );
}

#[test]
fn how_a_phase_ended_is_set_first_and_what_the_next_one_begins_with_last() {
    let scene = Scene::new();
    let definition = with(
        r#"
[phase.a]
result = "state.log"
rules = [{ on = "stop", set = { "state.own" = "state.log ~ ', own'" }, goto = "b", as = "left" }]
[phase.b]
final = true
enter = { "state.end" = "state.own ~ ', entered'" }
"#,
    );
    scene.file(".phasegate/workflows/w.toml", &definition);
    scene.file(
        ".phasegate/workflows/w/cases/c.toml",
        r#"
[[case]]
name = "in order"
state = '{"phase": "a", "log": "", "own": ""}'
expect.decision = "ALLOW"
expect.state = { log = '"left"', end = '"left, own, entered"' }
"#,
    );
    let said = scene.ok(&["test", "w"]);
    assert!(said.contains("1 passed, 0 failed"), "{said}");
}

#[test]
fn refusals_are_rules_behind_all_others() {
    same(
        r#"
[events]
work = ["build", "test"]
[codes]
busy = "Busy."
[phase.a]
rules = [
  { on = "build", when = "state.x", goto = "b" },
  { on = "work", when = "state.y", code = "busy" },
  { on = "stop", wait = "human" },
]
[phase.a.denies]
work.never = "Not here."
"plan, review".later = "Later."
land = "busy"
else.closed = "Nothing else."
[phase.b]
final = true
[action]
build.about = "b"
test.about = "t"
plan.about = "p"
review.about = "r"
land.about = "l"
ship.about = "s"
[action.look]
about = "o"
by = "everybody"
"#,
        r#"
[phase.a]
rules = [
  { on = "build", when = "state.x", goto = "b" },
  { on = ["build", "test"], when = "state.y", code = "busy", deny = "Busy." },
  { on = "stop", allow = "waiting", until = "human" },
  { on = ["build", "test"], code = "never", deny = "Not here." },
  { on = ["plan", "review"], code = "later", deny = "Later." },
  { on = "land", code = "busy", deny = "Busy." },
  { on = ["ship", "look"], code = "closed", deny = "Nothing else." },
]
[phase.b]
final = true
[action.build]
about = "b"
[action.test]
about = "t"
[action.plan]
about = "p"
[action.review]
about = "r"
[action.land]
about = "l"
[action.ship]
about = "s"
[action.look]
about = "o"
"#,
    );
}

#[test]
fn a_rule_and_a_phase_for_each() {
    same(
        r#"
[phase.a]
rules = [
  { on = "stop", each = ["b", "c"], when = "state.to == '{each}'", goto = "{each}-end" },
  { on = ["stop", "go"], goto = "b-end", carry = "go" },
]
[phase."{each}-end"]
each = { b = "The end of B.", c = "The end of C." }
about = "{value}"
final = true
rules = [{ on = "go", allow = "done", message = "{each}" }]
[action.go]
about = "g"
"#,
        r#"
[phase.a]
rules = [
  { on = "stop", when = "state.to == 'b'", goto = "b-end" },
  { on = "stop", when = "state.to == 'c'", goto = "c-end" },
  { on = "stop", goto = "b-end" },
  { on = "go", goto = "b-end", carry = true },
]
[phase.b-end]
about = "The end of B."
final = true
rules = [{ on = "go", allow = "done", message = "b" }]
[phase.c-end]
about = "The end of C."
final = true
rules = [{ on = "go", allow = "done", message = "c" }]
[action.go]
about = "g"
"#,
    );
}

#[test]
fn what_is_said_once_for_all_of_a_kind() {
    same(
        r#"
[state]
phase = "string"
items = "string*"
note = "string?"
[param]
why = { type = "string?", about = "Why" }
[action]
by = ["orchestrator", "human"]
one = { about = "1", params = ["why"] }
two = { about = "2", param.n = { type = "integer", about = "N" }, params = ["why"] }
three = { about = "3", by = "everybody" }
[check]
timeout = "9m"
tests = { run = ["true"] }
lint = { run = ["true"], timeout = "1m" }
[set.both]
"state.items" = "[]"
"state.note" = "none"
[move.file]
"out.json" = "old.json"
[phase.a]
rules = [
  { on = ["one", "two", "three"], when = "check.tests.ok and check.lint.ok", set = "both", move = "file", goto = "b" },
  { on = "stop", allow = "done" },
]
[phase.b]
final = true
"#,
        r#"
[state]
phase = "string"
items = { list = "string", default = [] }
note = { type = "string", optional = true }
[action.one]
about = "1"
by = ["orchestrator", "human"]
param.why = { type = "string", optional = true, about = "Why" }
[action.two]
about = "2"
by = ["orchestrator", "human"]
param.n = { type = "integer", about = "N" }
param.why = { type = "string", optional = true, about = "Why" }
[action.three]
about = "3"
[check.tests]
run = ["true"]
timeout = "9m"
[check.lint]
run = ["true"]
timeout = "1m"
[phase.a]
rules = [
  { on = ["one", "two", "three"], when = "check.tests.ok and check.lint.ok", set = { "state.items" = "[]", "state.note" = "none" }, move = { "out.json" = "old.json" }, goto = "b" },
  { on = "stop", allow = "done" },
]
[phase.b]
final = true
"#,
    );
}

#[test]
fn a_choice_is_the_first_row_that_holds_and_why_says_which() {
    let scene = Scene::new();
    let definition = with(
        r#"
[choose]
size.rows = [
  { when = "state.n < 10", is = "small" },
  { when = "state.n < limit", value = "'up to ' ~ limit" },
  { is = "large" },
]
[let]
limit = "state.limit"
[phase.a]
rules = [
  { on = "stop", when = "size == 'small'", block = "Go on: {{ size }}" },
  { on = "stop", goto = "b", allow = "done", message = "{{ size }}" },
]
[phase.b]
final = true
"#,
    );
    scene.file(".phasegate/workflows/w.toml", &definition);
    // Rows below the one that holds are not looked at: `limit` is not there.
    scene.file(".phasegate/w/one.json", r#"{"phase": "a", "n": 3}"#);
    scene.stop().blocks("Go on: small");
    let why = scene.ok(&["why"]);
    assert!(why.contains(r#"size = "small" (row 1, line 7)"#), "{why}");
    scene.file(".phasegate/w/one.json", r#"{"phase": "a", "n": 30, "limit": 20}"#);
    scene.stop();
    let why = scene.ok(&["why"]);
    assert!(why.contains(r#"size = "large" (row 3, line 9)"#), "{why}");
    scene.file(".phasegate/w/two.json", r#"{"phase": "a", "n": 30, "limit": 40}"#);
    scene.stop();
    let why = scene.ok(&["why", "w/two"]);
    assert!(why.contains(r#"size = "up to 40" (row 2, line 8)"#), "{why}");
}

#[test]
fn all_mistakes_in_short_forms_at_once_each_with_its_place_and_a_hint() {
    let shown = linted(&with(
        r#"derive = "size"

[events]
work = ["biuld"]
stop = ["build"]

[choose.size]
rows = [
  { when = "state.n < 10", is = "small", value = "n" },
  { is = "a" },
  { when = "exists('x')", is = "a" },
]
[choose.open]
rows = [{ whn = "true", is = 1 }]
[choose.round]
rows = [{ when = "sise", is = 1 }, { value = "round" }]

[codes]
busy = "Busy {{ nme }}."

[set.both]
"stat.x" = 1

[param]
why = { type = "strng?" }

[reviewer]
timeout = "9m"

[action]
build = { about = "b", params = ["wy"] }
test = { about = "t", by = "everyone" }

[phase.a]
enter = { "state.n" = { template = "none.json" } }
rules = [
  { on = "wrok", set = "boht", goto = "a" },
  { on = "build", as = "done", goto = "a" },
  { on = "build", code = "bsy" },
  { on = "build", code = "busy" },
  { on = "stop", wait = "human", allow = "done" },
  { on = "stop", goto = "a", carry = "build" },
  { on = "stop", each = "a", goto = "a" },
]
denies.build = 3
"#,
    ));
    insta::assert_snapshot!(shown);
}

#[test]
fn a_table_that_is_named_where_there_are_none_is_not_there() {
    let shown =
        linted(&with("[phase.a]\nrules = [{ on = \"stop\", set = \"begin\", goto = \"a\" }]\n"));
    assert!(shown.contains("there is no `[set.begin]`"), "{shown}");
}

#[test]
fn what_is_said_once_and_meant_by_nobody_is_warned_about_and_so_are_wide_rows() {
    let wide = format!("# {}", "é".repeat(158));
    let too_wide = format!("# {}", "é".repeat(159));
    let shown = linted(&with(&format!(
        r#"
{wide}
{too_wide}
[events]
work = ["go"]
[choose.size]
rows = [{{ is = 1 }}]
[codes]
busy = "Busy."
[set.both]
"state.x" = 1
[write.note]
"a" = "b"
[move.note]
"a" = "b"
[param]
why = {{ type = "string" }}
[phase.a]
rules = [{{ on = ["stop", "go"], goto = "b" }}]
[phase.b]
final = true
[action.go]
about = "g"
"#
    )));
    insta::assert_snapshot!(shown);
}
