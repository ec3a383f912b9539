//! What `lint` finds, and how it says so.

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
  { on = "stop", block = "for ever" },
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
