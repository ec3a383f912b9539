//! What the client does beside the agent: work in the background, other hooks, plan mode.

use serde_json::json;

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::model::{NOTES, obedient};
use crate::scene::Scene;
use crate::terminal::Terminal;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn a_server_in_the_background_is_waited_for_once_and_opens_nothing() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(obedient);
    let mut client = Terminal::open(&scene, &api, &[]);
    let stops = client.says("SERVE sleep 300");
    assert_eq!(stops[0].asked["background_tasks"][0]["type"], "shell", "{stops:?}");
    assert!(stops[0].told().contains("waits for background work"), "{stops:?}");
    // It still runs, and was there before.
    let stops = client.says("Are you done?");
    assert_eq!(stops[0].asked["background_tasks"][0]["type"], "shell", "{stops:?}");
    assert_eq!(stops[0].block(), Some("Write NOTES.md."), "{stops:?}");
    assert_eq!(scene.answers("notes/x"), ["waiting", "block", "stuck"]);
    client.says("RUN touch NOTES.md");
    assert_eq!(scene.answers("notes/x").pop().as_deref(), Some("done"));
    client.leaves();
    scene.end();
}

#[test]
fn beside_another_hook_that_blocks_the_run_is_completed_and_does_not_block() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["init", "--client", "claude"]);
    // Another hook sends the agent back twice.
    let other = r#"n=$(cat "$TMPDIR/n" 2>/dev/null || echo 0); echo $((n + 1)) > "$TMPDIR/n"; [ $n -ge 2 ] || echo "{\"decision\":\"block\",\"reason\":\"OTHER $n\"}""#;
    let mut settings = scene.json(".claude/settings.json");
    let hook = json!({ "hooks": [{ "type": "command", "command": other }] });
    settings["hooks"]["Stop"].as_array_mut().unwrap().push(hook);
    scene.file(".claude/settings.json", settings.to_string());
    let api = Api::start(|request| {
        let (order, used) = request.order();
        match used.len() {
            0 if order.contains("OTHER 0") => Reply::bash("phasegate notes start --name x"),
            0 if order.contains("OTHER 1") => Reply::bash("touch NOTES.md"),
            _ => Reply::text("That is all."),
        }
    });
    Session::new(&scene, &api, "Begin.").run().result();
    let stops = scene.fired_stops();
    let active: Vec<bool> =
        stops.iter().map(|stop| stop.asked["stop_hook_active"] == true).collect();
    assert_eq!(active, [false, true, true], "{stops:?}");
    // Its own block is withheld, and said; its completion is not.
    assert!(stops[1].told().contains("another hook"), "{stops:?}");
    assert!(stops[2].told().contains("Run notes/x is done."), "{stops:?}");
    assert_eq!(scene.answers("notes/x"), ["waiting", "done"]);
    scene.end();
}

#[test]
fn in_plan_mode_nobody_is_told_to_write() {
    let Some(scene) = Scene::new() else { return };
    scene.file(".phasegate/workflows/notes.toml", NOTES).record_hooks();
    scene.ok(&["notes", "start", "--name", "x"]);
    let api = Api::start(obedient);
    let session = Session::planning(&scene, &api, "What would you do?").with_init();
    session.id(SESSION).run().result();
    let stops = scene.fired_stops();
    assert_eq!(stops[0].asked["permission_mode"], "plan");
    assert!(stops[0].told().contains("the client is in plan mode"), "{stops:?}");
    assert_eq!(scene.answers("notes/x"), ["waiting"]);
    // Out of it, the run holds.
    Session::new(&scene, &api, "Do it.").resuming(SESSION).run().result();
    assert_eq!(scene.answers("notes/x"), ["waiting", "block", "stuck"]);
    scene.end();
}
