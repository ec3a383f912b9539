//! What `--json` prints fits the schemas that `phasegate schema` prints, and has a version.

use serde_json::{Map, Value, json};

use crate::scene::Scene;

const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass."
initial = "working"

[check.tests]
run = ["sh", "-c", "echo red; exit 1"]

[action.finish]
about = "Say that it is done."

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "{{ check.tests.tail }}" },
  { on = "stop", goto = "done", allow = "done" },
  { on = "finish", deny = "Not yet." },
]

[phase.done]
final = true
"#;

/// Says where a value is not of the type, or not one of the values, that a schema names.
fn of_type(rules: &Map<String, Value>, value: &Value, place: &str, found: &mut Vec<String>) {
    let is = |name: &str| match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        other => panic!("a type {other}"),
    };
    let fits = match rules.get("type") {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().any(|name| is(name.as_str().unwrap())),
        _ => true,
    };
    if !fits {
        found.push(format!("{place} is not of type {}: {value}", rules["type"]));
    }
    if rules.get("enum").is_some_and(|all| !all.as_array().unwrap().contains(value))
        || rules.get("const").is_some_and(|only| only != value)
    {
        found.push(format!("{place} is {value}"));
    }
}

/// Says where a value does not fit a schema. It knows what our schemas use, and refuses what it does not know.
fn misfits(schema: &Value, root: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    const KNOWN: &[&str] = &[
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maximum",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "title",
        "type",
    ];
    let Some(rules) = schema.as_object() else {
        if schema == &json!(false) {
            found.push(format!("{place} is not allowed"));
        }
        return;
    };
    for key in rules.keys() {
        assert!(
            KNOWN.contains(&key.as_str()),
            "the schema uses {key}, which this test does not know"
        );
    }
    if let Some(name) = rules.get("$ref").and_then(Value::as_str) {
        let name = name.strip_prefix("#/$defs/").unwrap();
        misfits(&root["$defs"][name], root, value, place, found);
    }
    of_type(rules, value, place, found);
    for key in ["anyOf", "oneOf"] {
        if let Some(ways) = rules.get(key).and_then(Value::as_array) {
            let fits = |way: &&Value| {
                let mut inner = Vec::new();
                misfits(way, root, value, place, &mut inner);
                inner.is_empty()
            };
            if !ways.iter().any(|way| fits(&way)) {
                found.push(format!("{place} fits none of {key}"));
            }
        }
    }
    for name in rules.get("required").and_then(Value::as_array).into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{place} has no {name}"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let rule = rules.get("properties").and_then(|all| all.get(name));
        if let Some(rule) = rule.or(rules.get("additionalProperties")) {
            misfits(rule, root, value, &format!("{place}.{name}"), found);
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(rule) = rules.get("items") {
            misfits(rule, root, item, &format!("{place}[{at}]"), found);
        }
    }
}

#[test]
fn what_programs_read_fits_its_schema() {
    let scene = Scene::with_triage(2);
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    let named = scene.ok(&["schema", "--list"]);
    let mut unseen: Vec<&str> = named.lines().collect();
    let mut check = |name: &str, args: &[&str], by_hand: bool| {
        let ran = if by_hand { scene.by_hand(args) } else { scene.run(args) };
        let shown: Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {ran:?}"));
        let schema: Value = serde_json::from_str(&scene.ok(&["schema", name])).unwrap();
        let mut found = Vec::new();
        misfits(&schema, &schema, &shown, name, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{args:?}: {shown:#}");
        assert_eq!(shown["version"], 1, "{args:?}");
        assert!(schema["properties"]["version"].is_object(), "{schema:#}");
        unseen.retain(|it| *it != name);
    };
    check("start", &["start", "ship", "--json"], false);
    scene.stop();
    check("list", &["list", "--json"], false);
    check("status", &["status", "--json"], false);
    check("status", &["status", "--json", "--all", "ship"], false);
    check("why", &["why", "--json"], false);
    check("log-verify", &["log", "ship", "--verify", "--json"], false);
    check("jobs", &["jobs", "--all", "--json"], false);
    check("check", &["jobs", "run", "tests", "--json"], true);
    check("wait", &["wait", "ship", "--seconds", "0", "--json"], false);
    check("lint", &["lint", "--json"], false);
    check("test", &["test", "triage", "--json"], false);
    check("mutate", &["mutate", "ship", "--json"], false);
    check("verify", &["verify", "ship", "--json"], false);
    check("doctor", &["doctor", "--json"], false);
    check("action", &["do", "ship", "finish", "--json"], false);
    check("adopt", &["adopt", "ship", "--session", "s1", "--json"], true);
    check("release", &["release", "ship", "--json"], true);
    check("pause", &["pause", "ship", "--json"], true);
    check("resume", &["resume", "ship", "--json"], true);
    check("accept", &["accept", "ship", "--reason", "fine", "--json"], true);
    check("cancel", &["cancel", "ship", "--json"], true);
    check("error", &["cancel", "nothing", "--json"], true);
    check("error", &["cancel", "--nothing", "--json"], true);
    assert_eq!(unseen, Vec::<&str>::new(), "schemas that no output was held against");
}

#[test]
fn a_schema_that_does_not_exist_is_refused_with_the_names() {
    let ran = Scene::new().run(&["schema", "banana"]);
    assert!(ran.stderr.contains("there are: accept, action, adopt"), "{ran:?}");
}
