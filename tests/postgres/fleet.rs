//! The view over all machines: the same words as `status` on each of them.

use std::io::BufReader;

use serde_json::{Value, json};

use super::server::shared;
use super::{Machine, SHIP, two_machines};
use crate::web::{Served, event};

/// A workflow whose documents are files, with what a person decides.
const DESK: &str = r#"name = "desk"
about = "A person says when it is done."
document = "desk/*.json"
initial = "open"
patience = 2
[phase.open]
about = "Waits for a person."
rules = [
  { on = "stop", when = "exists('trouble')", block = "Remove `trouble`." },
  { on = "stop", wait = "human", message = "Sign it." },
  { on = "sign", goto = "signed" },
]
[phase.signed]
final = true
[action.sign]
about = "Sign it."
by = "human"
"#;

/// The row of a run.
#[track_caller]
fn row<'v>(shown: &'v Value, run: &str) -> &'v Value {
    let rows = shown["runs"].as_array().unwrap();
    rows.iter().find(|row| row["run"] == run).unwrap_or_else(|| panic!("{run}: {shown}"))
}

/// What the fleet shows of a run is what `status` says on the machine that has it.
#[track_caller]
fn is_equal(seen_from: &Machine, owner: &Machine, run: &str) -> Value {
    let (fleet, status) = (seen_from.json(&["fleet", "--all"]), owner.json(&["status", "--all"]));
    let machine = owner.name();
    let rows = fleet["runs"].as_array().unwrap();
    let found = rows.iter().find(|row| row["run"] == run && row["machine"] == machine.as_str());
    let there = found.unwrap_or_else(|| panic!("{run}: {fleet}")).clone();
    let here = row(&status, run);
    for member in ["condition", "phase"] {
        assert_eq!(there[member], here[member], "{member} of {run}: {there}\n{here}");
    }
    assert_eq!(there["owner"], here["owner"]["session"], "{there}\n{here}");
    let told = [&here["needs_you"], &here["problem"]].into_iter().find(|it| !it.is_null());
    if let Some(told) = told {
        assert_eq!(&there["needs"], told, "{there}\n{here}");
    }
    there
}

impl Machine {
    /// What the machine is called in the store.
    fn name(&self) -> String {
        let status = self.json(&["store", "status"]);
        status["site"].as_str().unwrap().split(':').next().unwrap().to_string()
    }
}

#[test]
fn all_machines_see_all_runs_in_the_words_of_status() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    for machine in [&one, &other] {
        machine.scene.file(".phasegate/workflows/desk.toml", DESK);
    }
    other.scene.file(".phasegate/config.toml", "[store]\nproject = \"team/desk\"\n");
    // Working, and of every machine.
    one.ok(&["start", "ship", "--name", "web"]);
    assert_eq!(is_equal(&other, &one, "ship/web")["group"], "working");
    one.stop_of("s1").blocks("Make `finished`.");
    let web = is_equal(&other, &one, "ship/web");
    assert_eq!((&web["shared"], &web["owner"]), (&json!(true), &json!("s1")), "{web}");
    assert_eq!((&web["cost"], &web["dollars"]), (&json!("none"), &Value::Null), "{web}");
    assert!(web["fired"].is_string() && web["since"].is_string(), "{web}");
    // Waits for a person, on one machine only; seen from the other.
    other.ok(&["start", "desk", "--name", "a"]);
    other.stop_of("s2").allows_saying("Sign it.");
    let desk = is_equal(&one, &other, "desk/a");
    assert_eq!(desk["group"], "needs you", "{desk}");
    assert_eq!((&desk["shared"], &desk["needs"]), (&json!(false), &json!("Sign it.")), "{desk}");
    assert_eq!(desk["folder"], other.scene.root().to_str().unwrap(), "{desk}");
    // A question.
    other.ok(&["start", "desk", "--name", "b"]);
    let asked = other.run(&["ask-human", "--run", "desk/b", "Which colour?"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let desk = is_equal(&one, &other, "desk/b");
    assert_eq!(desk["standing"], "needs you: Which colour?", "{desk}");
    // Paused, cancelled, done.
    one.ok(&["pause", "ship/web"]);
    assert_eq!(is_equal(&other, &one, "ship/web")["condition"], "paused");
    one.ok(&["resume", "ship/web"]);
    is_equal(&other, &one, "ship/web");
    other.ok(&["desk", "sign", "desk/a"]);
    assert_eq!(is_equal(&one, &other, "desk/a")["condition"], "done");
    other.ok(&["cancel", "desk/b"]);
    assert_eq!(is_equal(&one, &other, "desk/b")["condition"], "cancelled");
}

#[test]
fn what_needs_somebody_comes_first() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    for machine in [&one, &other] {
        machine.scene.file(".phasegate/workflows/desk.toml", DESK);
    }
    one.ok(&["start", "ship", "--name", "working"]);
    one.stop_of("s1").blocks("Make `finished`.");
    other.ok(&["start", "desk", "--name", "asks"]);
    other.stop_of("s2").allows_saying("Sign it.");
    other.ok(&["start", "desk", "--name", "broken"]);
    other.stop_of("s3");
    other.scene.file("desk/broken.json", "{");
    let said = other.stop_of("s3");
    assert!(said.told().is_some(), "{said:?}");
    let broken = is_equal(&one, &other, "desk/broken");
    assert_eq!(broken["group"], "broken", "{broken}");
    let fleet = one.json(&["fleet"]);
    let groups: Vec<&str> =
        fleet["runs"].as_array().unwrap().iter().map(|it| it["group"].as_str().unwrap()).collect();
    assert_eq!(groups, ["needs you", "broken", "working"], "{fleet}");
    // Both machines are known, and only one of them where only that is asked for.
    assert_eq!(fleet["machines"].as_array().unwrap().len(), 2, "{fleet}");
    let only = one.json(&["fleet", "--machine", &other.name()]);
    assert_eq!(only["runs"].as_array().unwrap().len(), 2, "{only}");
    assert_eq!(one.json(&["fleet", "--project", "ship"])["runs"].as_array().unwrap().len(), 3);
    assert_eq!(one.json(&["fleet", "--project", "hip"])["runs"], json!([]));
    let page = one.ok(&["fleet"]);
    assert!(page.starts_with("1 needs you, 1 broken, 1 working.\n"), "{page}");
    assert!(page.contains("team/ship desk/asks") && page.contains("Sign it."), "{page}");
    // It is put right, and the next stop says so.
    other.scene.file("desk/broken.json", r#"{"phase": "open"}"#);
    other.stop_of("s3").allows_saying("Sign it.");
    assert_eq!(is_equal(&one, &other, "desk/broken")["group"], "needs you");
}

#[test]
fn ended_runs_are_few_unless_all_are_wanted() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    for at in 0..12 {
        let name = format!("r{at}");
        one.ok(&["start", "ship", "--name", &name]);
        one.ok(&["cancel", &format!("ship/{name}")]);
    }
    let fleet = other.json(&["fleet"]);
    // One whose session was not told yet is still open.
    assert!(fleet["runs"].as_array().unwrap().len() <= 12, "{fleet}");
    assert_eq!(other.json(&["fleet", "--all"])["runs"].as_array().unwrap().len(), 12);
}

#[test]
fn imported_runs_stand_in_the_view_at_once() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    one.scene.file(
        ".phasegate/workflows/ship.toml",
        SHIP.replace("initial", "document = \"ship/*.json\"\ninitial"),
    );
    one.scene.ok_by_hand(&["start", "ship", "--name", "web"]);
    one.scene.stop().blocks("Make `finished`.");
    one.ok(&["store", "import", "."]);
    let web = is_equal(&other, &one, "ship/web");
    assert_eq!(web["group"], "working", "{web}");
}

#[test]
fn files_have_no_fleet() {
    let scene = crate::scene::Scene::new();
    let ran = scene.by_hand_with(&["fleet"], &[("PHASEGATE_STORE", "files")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("kept in files") && ran.stderr.contains("PHASEGATE_STORE"),
        "{ran:?}"
    );
}

#[test]
fn a_usual_step_touches_no_index() {
    let Some(server) = shared() else { return };
    let (one, _) = two_machines(server);
    one.ok(&["start", "ship", "--name", "web"]);
    one.stop_of("s1").blocks("Make `finished`.");
    let counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'run'";
    let database = one.database();
    let counted = || {
        server.sql(&database, "SELECT pg_stat_force_next_flush()");
        let text = server.sql(&database, counts);
        let (all, hot) = text.split_once('|').unwrap();
        (all.parse::<u64>().unwrap(), hot.parse::<u64>().unwrap())
    };
    let before = counted();
    for _ in 0..4 {
        one.stop_of("s1").blocks("Make `finished`.");
    }
    super::until("the server has counted", || counted().0 >= before.0 + 4);
    let after = counted();
    assert_eq!(after.0 - before.0, after.1 - before.1, "all of them without an index: {after:?}");
}

#[test]
fn the_page_shows_runs_of_other_machines_only_to_look_at() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    for machine in [&one, &other] {
        machine.scene.file(".phasegate/workflows/desk.toml", DESK);
    }
    one.ok(&["start", "desk", "--name", "a"]);
    one.stop_of("s1").allows_saying("Sign it.");
    other.ok(&["start", "ship", "--name", "web"]);
    let page = Served::by(other.command(&["web", "--fleet", "--port", "0"]));
    let overview = page.get("/api/overview").json();
    let rows = overview["runs"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    // Its own it may act on; of the other only the store knows.
    assert_eq!(named("ship/web")["run"], "ship/web", "{overview}");
    let key = named("desk/a")["run"].as_str().unwrap().to_string();
    assert!(key.starts_with('@'), "{overview}");
    let there = named("desk/a")["where"].as_str().unwrap();
    assert!(there.contains("team/ship") && there.contains(&one.name()), "{overview}");
    assert_eq!(
        (&named("desk/a")["group"], &named("desk/a")["told"]),
        (&json!("needs you"), &json!("Sign it."))
    );
    assert_eq!(overview["counts"]["needs you"], 1, "{overview}");
    assert_eq!(overview["machines"].as_array().unwrap().len(), 2, "{overview}");
    let details = page.get(&format!("/api/run?run={key}")).json();
    assert_eq!((&details["name"], &details["phase"]), (&json!("desk/a"), &json!("open")));
    assert_eq!(details["standing"], row(&one.json(&["fleet"]), "desk/a")["standing"], "{details}");
    assert!(details["picture"].as_str().unwrap().contains("<svg"), "{details}");
    assert_eq!(details["acts"], json!([]), "{details}");
    // Its journal with the why of each decision, and whether it is whole.
    let log = page.get(&format!("/api/log?run={key}")).json();
    let last = &log["lines"][0];
    assert_eq!(last["answer"]["message"], "Sign it.", "{log}");
    assert!(last["trace"]["tried"].as_array().is_some_and(|tried| !tried.is_empty()), "{log}");
    assert!(last["evidence"].as_array().is_some_and(|read| !read.is_empty()), "{log}");
    let health = page.get(&format!("/api/health?run={key}")).json();
    assert!(health["chain"]["text"].as_str().unwrap().ends_with("chain intact"), "{health}");
    let now = page.get(&format!("/api/now?run={key}")).json();
    assert!(now["not_computed"].as_str().unwrap().contains(&one.name()), "{now}");
    // Without the fleet, nobody asks for a row of the store.
    let alone = Served::by(other.command(&["web", "--port", "0"]));
    assert_eq!(alone.get(&format!("/api/run?run={key}")).status, 404);
    // What happens there is told as it happens: of the run, and in the list.
    let listen = |about: &str| {
        let request = format!(
            "GET /api/live{about} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            page.host(),
            page.token
        );
        BufReader::new(page.send(&request))
    };
    let (mut run, mut list) = (listen(&format!("?run={key}&since=0")), listen(""));
    let is_listed = |group: &'static str| {
        move |name: &str, _: &str, data: &Value| {
            let rows = data["runs"].as_array();
            let row = rows.and_then(|rows| rows.iter().find(|row| row["name"] == "desk/a"));
            name == "overview" && row.is_some_and(|row| row["group"] == group)
        }
    };
    event(&mut run, |name, _, data| name == "run" && data["phase"] == "open");
    event(&mut list, is_listed("needs you"));
    one.ok(&["desk", "sign", "desk/a"]);
    event(&mut run, |name, _, data| name == "line" && data["to"] == "signed");
    event(&mut run, |name, _, data| name == "run" && data["is_over"] == true);
    event(&mut list, is_listed("ended"));
}
