//! What `--json` prints fits the schemas that `phasegate schema` prints, and has a version.

use serde_json::{Map, Value, json};

use crate::proofs;
use crate::scene::{Ran, Scene};

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

/// Holds what was printed against the schema of that name.
fn check(scene: &Scene, name: &str, ran: &Ran) {
    let shown: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {ran:?}"));
    let schema: Value = serde_json::from_str(&scene.ok(&["schema", name])).unwrap();
    let mut found = Vec::new();
    misfits(&schema, &schema, &shown, name, &mut found);
    assert_eq!(found, Vec::<String>::new(), "{name}: {shown:#}");
    assert_eq!(shown["version"], 1, "{name}");
    assert!(schema["properties"]["version"].is_object(), "{schema:#}");
    let is_error = shown.get("error").is_some();
    assert_eq!(is_error, name == "error", "{name}: {shown:#}");
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
        check(&scene, name, &ran);
        unseen.retain(|it| *it != name);
    };
    check("new", &["new", "mine", "--template", "items", "--json"], false);
    check("start", &["start", "ship", "--json"], false);
    scene.stop();
    check("list", &["list", "--json"], false);
    check("status", &["status", "--json"], false);
    check("status", &["status", "--json", "--all", "ship"], false);
    check("why", &["why", "--json"], false);
    check("log-verify", &["log", "ship", "--verify", "--json"], false);
    check("store-status", &["store", "status", "--json"], false);
    check("store-copy", &["store", "export", "kept", "--json"], true);
    check("jobs", &["jobs", "--all", "--json"], false);
    check("check", &["jobs", "run", "tests", "--json"], true);
    check("wait", &["wait", "ship", "--seconds", "0", "--json"], false);
    check("lint", &["lint", "--json"], false);
    check("test", &["test", "triage", "--json"], false);
    check("mutate", &["mutate", "ship", "--json"], false);
    check("verify", &["verify", "ship", "--json"], false);
    check("replay", &["replay", "ship/ship", "--json"], false);
    check("doctor", &["doctor", "--json"], false);
    check("action", &["do", "ship", "finish", "--json"], false);
    check("draw", &["draw", "ship", "--run", "ship", "--format", "svg", "--json"], false);
    check("replay", &["replay", "ship", "--json"], false);
    check("trust", &["trust", "ship", "--show", "--json"], false);
    check("trust", &["trust", "ship", "--revoke", "--json"], true);
    check("trust", &["trust", "ship", "--yes", "--json"], true);
    check("eject", &["eject", "loop", "--json"], false);
    check("drive", &["drive", "ship", "--turns", "1", "--json", "--", "true"], false);
    check("demo", &["demo", "triage", "--json"], false);
    check("init", &["init", "--json"], false);
    check("init", &["init", "--print", "--json"], false);
    check("uninstall", &["uninstall", "--json"], false);
    check("adopt", &["adopt", "ship", "--session", "s1", "--json"], true);
    check("release", &["release", "ship", "--json"], true);
    check("pause", &["pause", "ship", "--json"], true);
    check("resume", &["resume", "ship", "--json"], true);
    check("accept", &["accept", "ship", "--reason", "fine", "--json"], true);
    check("cancel", &["cancel", "ship", "--json"], true);
    check("prune", &["prune", "--older-than", "0s", "--yes", "--json"], true);
    check("log-verify", &["log", "ship", "--verify", "--json"], false);
    check("store-status", &["store", "status", "--json"], false);
    check("store-copy", &["store", "export", "kept", "--json"], true);
    check("error", &["cancel", "nothing", "--json"], true);
    check("error", &["cancel", "--nothing", "--json"], true);
    // Those that need more than that are below.
    let elsewhere = ["answer", "ask-human", "ci", "prove", "verify-proof"];
    let on_a_server = ["fleet", "store-migrate", "store-trust"];
    unseen.retain(|name| !elsewhere.contains(name) && !on_a_server.contains(name));
    assert_eq!(unseen, Vec::<&str>::new(), "schemas that no output was held against");
}

#[test]
fn so_does_what_is_said_of_a_server() {
    let Some(server) = crate::postgres::server::shared() else { return };
    let scene = Scene::new();
    scene.file(".phasegate/config.toml", format!("[store]\nurl = \"{}\"\n", server.database()));
    check(&scene, "store-status", &scene.run(&["store", "status", "--json"]));
    check(&scene, "store-trust", &scene.by_hand(&["store", "trust", "--json"]));
    check(&scene, "store-migrate", &scene.run(&["store", "migrate", "--json"]));
    check(&scene, "store-status", &scene.run(&["store", "status", "--json"]));
    check(&scene, "fleet", &scene.run(&["fleet", "--json"]));
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok_by_hand(&["start", "ship"]);
    let fleet = scene.run(&["fleet", "--json"]);
    check(&scene, "fleet", &fleet);
    assert!(fleet.stdout.contains("ship/ship"), "{fleet:?}");
}

#[test]
fn so_does_what_is_asked_answered_and_proved() {
    let scene = Scene::with_triage(2);
    scene.stop();
    check(&scene, "ask-human", &scene.by_agent(&["ask-human", "Which one?", "--json"]));
    check(&scene, "answer", &scene.by_hand(&["answer", "triage/web", "The second.", "--json"]));
    let asked = scene.by_agent(&["ask-human", "--seconds", "5", "--json"]);
    check(&scene, "ask-human", &asked);
    assert!(asked.stdout.contains("The second."), "{asked:?}");
    let scene = proofs::done();
    let proof = ".phasegate/proofs/ship.json";
    let args = ["prove", "ship/ship", "-o", proof, "--key", "home/key", "--yes", "--json"];
    check(&scene, "prove", &scene.by_hand(&args));
    check(&scene, "verify-proof", &scene.run(&["verify-proof", proof, "--json"]));
    check(&scene, "ci", &scene.run(&["ci", "--json"]));
}

#[test]
fn no_command_is_without_a_form_for_programs() {
    // These talk to a person, a shell, an editor or a client all the time; `schema` prints JSON anyway, and `start` and
    // `do` have a workflow behind them.
    let apart = [
        "completions",
        "do",
        "help",
        "hook",
        "man",
        "mcp",
        "repl",
        "schema",
        "simulate",
        "start",
        "statusline",
        "web",
        "worker",
    ];
    let scene = Scene::new();
    let manual = scene.ok(&["man"]);
    let pattern = regex_lite::Regex::new(r"phasegate\\-([a-z\\-]+)\(1\)").unwrap();
    let names = pattern.captures_iter(&manual).map(|found| found[1].replace("\\-", "-"));
    let workflows = ["loop", "phases", "plan", "task", "triage"];
    let own: Vec<String> = names.filter(|name| !workflows.contains(&name.as_str())).collect();
    assert!(own.len() > 35, "{own:?}");
    let schemas = scene.ok(&["schema", "--list"]);
    for name in own.iter().filter(|name| !apart.contains(&name.as_str())) {
        let help = scene.ok(&["help", name]);
        assert!(help.contains("--json"), "{name} has no --json");
        let known = match name.as_str() {
            "log" => "log-verify",
            "store" => "store-status",
            name => name,
        };
        assert!(schemas.lines().any(|it| it == known), "{name} has no schema");
    }
}

#[test]
fn a_schema_that_does_not_exist_is_refused_with_the_names() {
    let ran = Scene::new().run(&["schema", "banana"]);
    assert!(ran.stderr.contains("there are: accept, action, adopt"), "{ran:?}");
}
