//! Runs on PostgreSQL: what several machines share, and what happens when the server is away.

mod addresses;
mod fleet;
mod lost_answers;
pub mod server;

use std::process::Command;

use serde_json::{Value, json};

use crate::scene::{Ran, Scene, finish};
use server::{Server, shared, until};

/// A workflow that names no place for its documents.
const SHIP: &str = r#"name = "ship"
about = "No stop before the work is done."
initial = "working"
patience = 9
[phase.working]
rules = [
  { on = "stop", when = "not exists('finished')", block = "Make `finished`." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// A project on a machine, whose runs are on a server.
struct Machine {
    scene: Scene,
    url: String,
}

impl Machine {
    /// A project with the workflow, and a new home: another machine.
    fn new(url: &str) -> Machine {
        let scene = Scene::new();
        scene.file(".phasegate/workflows/ship.toml", SHIP);
        scene.file(".phasegate/config.toml", "[store]\nproject = \"team/ship\"\n");
        Machine { scene, url: url.to_string() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.command();
        command.args(args).env("PHASEGATE_STORE", &self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        finish(self.scene.spawn(self.command(args), b""))
    }

    fn by_hand(&self, args: &[&str]) -> Ran {
        self.scene.at_terminal(self.command(args))
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.by_hand(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.by_hand(&[args, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// The name of its database.
    fn database(&self) -> String {
        self.url.rsplit('/').next().unwrap().split('?').next().unwrap().to_string()
    }

    fn stop_of(&self, session: &str) -> crate::scene::Said {
        let mut payload = self.scene.payload();
        payload["session_id"] = json!(session);
        let payload = payload.to_string();
        self.scene.fire("stop", payload.as_bytes(), &[("PHASEGATE_STORE", &self.url)])
    }
}

/// A new database with the tables, and two machines that use it.
fn two_machines(server: &Server) -> (Machine, Machine) {
    let url = server.database();
    let (one, other) = (Machine::new(&url), Machine::new(&url));
    assert!(one.ok(&["store", "migrate"]).contains("version 1"));
    assert!(other.ok(&["store", "migrate"]).contains("already"));
    (one, other)
}

#[test]
fn a_run_whose_document_is_in_the_store_belongs_to_every_machine() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    one.ok(&["start", "ship", "--name", "web"]);
    one.stop_of("s1").blocks("Make `finished`.");
    // Nothing of it lies in the project.
    assert!(!one.scene.exists(".phasegate/ship") && !one.scene.exists(".phasegate/runs/ship"));
    let status = other.json(&["status"]);
    assert_eq!(status["runs"][0]["run"], "ship/web", "{status}");
    assert_eq!(status["runs"][0]["document"], "store:ship/web");
    assert_eq!(status["runs"][0]["state"]["phase"], "working");
    // The other machine takes it over, and brings it to its end.
    other.ok(&["adopt", "ship/web", "--session", "s2"]);
    other.stop_of("s2").blocks("Make `finished`.");
    other.scene.file("finished", "");
    other.stop_of("s2").allows_saying("done");
    assert_eq!(one.json(&["status"])["runs"][0]["condition"], "done");
    for machine in [&one, &other] {
        machine.ok(&["log", "--verify", "ship/web"]);
        machine.ok(&["replay", "ship/web"]);
    }
}

#[test]
fn a_run_whose_document_is_a_file_belongs_to_one_machine() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    for machine in [&one, &other] {
        let ship = SHIP.replace("initial", "document = \"ship/*.json\"\ninitial");
        machine.scene.file(".phasegate/workflows/ship.toml", ship);
        machine.ok(&["start", "ship", "--name", "web"]);
    }
    one.scene.file("finished", "");
    one.stop_of("s1").allows_saying("done");
    other.stop_of("s1").blocks("Make `finished`.");
    assert_eq!(one.scene.json("ship/web.json")["phase"], "done");
    assert_eq!(other.scene.json("ship/web.json")["phase"], "working");
}

#[test]
fn two_machines_act_on_one_run_at_once_and_no_line_is_lost() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    one.ok(&["start", "ship", "--name", "web"]);
    let count = 4;
    std::thread::scope(|scope| {
        for machine in [&one, &other] {
            scope.spawn(move || {
                for _ in 0..count {
                    // A stop without a session shares the run.
                    let mut payload = machine.scene.payload();
                    payload.as_object_mut().unwrap().remove("session_id");
                    let store = [("PHASEGATE_STORE", machine.url.as_str())];
                    let said = machine.scene.fire("stop", payload.to_string().as_bytes(), &store);
                    said.blocks("Make `finished`.");
                }
            });
        }
    });
    one.ok(&["log", "--verify", "ship/web"]);
    let database = one.url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let stops = "SELECT count(*) FROM phasegate.journal WHERE line LIKE '%Make `finished`%'";
    assert_eq!(server.sql(database, stops), (2 * count).to_string());
}

#[test]
fn a_server_that_is_away_lets_go_loudly_and_the_run_goes_on() {
    let Some(server) = Server::start(&["fsync=off"]) else { return server::skip("PostgreSQL") };
    let (one, _) = two_machines(&server);
    one.ok(&["start", "ship", "--name", "web"]);
    one.stop_of("s1").blocks("Make `finished`.");
    server.kill();
    one.stop_of("s1").allows_saying("cannot be reached");
    let ran = one.by_hand(&["status"]);
    assert!(format!("{ran:?}").contains("cannot be reached"), "{ran:?}");
    let doctor = one.by_hand(&["doctor"]);
    assert!(doctor.stdout.contains("cannot be reached"), "{doctor:?}");
    server.go();
    one.stop_of("s1").blocks("Make `finished`.");
    one.scene.file("finished", "");
    one.stop_of("s1").allows_saying("done");
    one.ok(&["log", "--verify", "ship/web"]);
}

#[test]
fn a_server_without_tables_is_said_and_holds_nobody() {
    let Some(server) = shared() else { return };
    let one = Machine::new(&server.database());
    one.stop_of("s1").allows_saying("phasegate store migrate");
    let status = one.json(&["store", "status"]);
    assert_eq!((&status["schema"], &status["wanted"]), (&Value::Null, &json!(1)), "{status}");
    assert!(status["problems"][0].as_str().unwrap().contains("migrate"), "{status}");
    one.ok(&["store", "migrate"]);
    let status = one.json(&["store", "status"]);
    assert_eq!(status["schema"], 1, "{status}");
    assert_eq!(
        (&status["project"], &status["chosen_by"]),
        (&json!("team/ship"), &json!("environment"))
    );
}

#[test]
fn what_a_project_names_is_not_used_before_a_person_consents() {
    let Some(server) = shared() else { return };
    let url = server.database();
    let one = Machine::new(&url);
    one.ok(&["store", "migrate"]);
    one.scene.file(".phasegate/config.toml", format!("[store]\nurl = \"{url}\"\n"));
    // Now the environment says nothing.
    let scene = &one.scene;
    scene.stop().allows_saying("`phasegate store trust`");
    let ran = scene.by_hand(&["start", "ship"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("not consented"), "{ran:?}");
    let ran = scene.by_agent(&["store", "trust"]);
    assert_eq!(ran.code, Some(1), "an agent does not consent: {ran:?}");
    assert_eq!(scene.run(&["store", "status"]).code, Some(1));
    scene.ok_by_hand(&["store", "trust"]);
    scene.ok_by_hand(&["start", "ship"]);
    scene.stop().blocks("Make `finished`.");
    // Another store is another consent.
    scene.file(".phasegate/config.toml", format!("[store]\nurl = \"{url}&connect_timeout=9\"\n"));
    scene.stop().allows_saying("`phasegate store trust`");
    // The user's own word needs none.
    scene.file(".phasegate/config.toml", "");
    scene.file("home/.config/phasegate/config.toml", format!("[store]\nurl = \"{url}\"\n"));
    scene.stop().blocks("Make `finished`.");
}

#[test]
fn runs_go_from_files_to_the_server_and_back_byte_for_byte() {
    let Some(server) = shared() else { return };
    let one = Machine::new(&server.database());
    one.ok(&["store", "migrate"]);
    let config = "[store]\nproject = \"x\"\n[workflow.ship]\ndocument = \"store\"\n";
    one.scene.file(".phasegate/config.toml", config);
    for name in ["web", "app"] {
        one.scene.ok_by_hand(&["start", "ship", "--name", name]);
    }
    one.scene.stop().blocks("Make `finished`.");
    let before = files(&one.scene, ".phasegate/runs/ship");
    assert!(before.iter().any(|(name, _)| name.ends_with("web/document.json")), "{before:?}");
    // Only people move runs.
    assert_eq!(one.run(&["store", "import", "."]).code, Some(1));
    let copied = one.json(&["store", "import", "."]);
    assert_eq!(copied["copied"], json!(["ship/app", "ship/web"]), "{copied}");
    for name in ["ship/web", "ship/app"] {
        one.ok(&["log", "--verify", name]);
        one.ok(&["replay", name]);
    }
    one.ok(&["store", "export", "kept"]);
    assert_eq!(files(&one.scene, "kept/.phasegate/runs/ship"), before);
    // There they go on.
    one.stop_of("s1").blocks("Make `finished`.");
    let ran = one.by_hand(&["store", "export", "kept"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("is not overwritten"), "{ran:?}");
}

/// The files below a folder, without those that only lock.
fn files(scene: &Scene, below: &str) -> Vec<(String, Vec<u8>)> {
    let folder = scene.path(below);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for (path, bytes) in scene.snapshot() {
        let Ok(path) = path.strip_prefix(&folder) else { continue };
        if !path.ends_with("lock") {
            files.push((path.to_string_lossy().into_owned(), bytes));
        }
    }
    files
}

#[test]
fn whoever_waits_for_a_run_hears_of_what_another_machine_does() {
    let Some(server) = shared() else { return };
    let (one, other) = two_machines(server);
    one.ok(&["start", "ship", "--name", "web"]);
    one.stop_of("s1").blocks("Make `finished`.");
    let wait = ["wait", "ship/web", "--seconds", "60", "--json"];
    let waiting = one.scene.spawn(one.command(&wait), b"");
    until("it waits", || {
        let database = one.url.rsplit('/').next().unwrap().split('?').next().unwrap();
        let asking = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT rev%' \
                      AND datname = current_database()";
        server.sql(database, asking) != "0"
    });
    other.ok(&["cancel", "ship/web", "--reason", "enough"]);
    let ran = finish(waiting);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["changed"], true, "{ran:?}");
}
