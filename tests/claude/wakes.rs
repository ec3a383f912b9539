//! Sessions that are let go because of a check, and woken by its end.

use crate::api::{Api, Reply, Request};
use crate::client::Session;
use crate::scene::Scene;
use crate::terminal::Terminal;

/// A gate whose check takes longer than the hook waits.
fn gate(check: &str) -> String {
    format!(
        r#"
name = "slow"
about = "No stop before `good` is there."
initial = "working"
[check.tests]
run = ["sh", "-c", "{check}; test -f good"]
[phase.working]
rules = [
  {{ on = "stop", when = "not check.tests.ok", block = "The tests fail." }},
  {{ on = "stop", goto = "done", allow = "done" }},
]
[phase.done]
final = true
"#
    )
}

fn scene(check: &str) -> Option<Scene> {
    let scene = Scene::new()?;
    scene.file(".phasegate/workflows/slow.toml", gate(check));
    scene.file(".phasegate/config.toml", "wake = true\n").record_hooks();
    scene.ok_by_hand(&["trust", "slow", "--yes"]);
    scene.commit();
    scene.ok(&["slow", "start", "--name", "x"]);
    Some(scene)
}

/// Repairs what it is told about, and says so otherwise.
fn repairs(request: &Request) -> Reply {
    let (order, used) = request.order();
    if order.contains("The tests fail.") && used.is_empty() {
        return Reply::bash("touch good");
    }
    Reply::text("That is all.")
}

fn woken(scene: &Scene) -> usize {
    let journal = scene.journal("slow/x");
    journal.iter().filter(|line| line["event"]["name"] == "woken").count()
}

#[test]
fn in_its_terminal_an_idle_session_is_woken() {
    // Until the person lets it end.
    let Some(scene) = scene("until [ -e ../tmp/go ]; do sleep 0.1; done") else { return };
    scene.ok(&["init", "--client", "claude"]);
    let api = Api::start(repairs);
    let mut client = Terminal::open_with(&scene, &api, &[], &[("PHASEGATE_HOOK_SECONDS", "1")]);
    let stops = client.says("Work.");
    assert_eq!(stops.len(), 1, "{stops:?}");
    assert!(stops[0].told().contains("it goes on in the background"), "{stops:?}");
    // Nobody types anything from here on.
    std::fs::write(scene.beside("tmp/go"), "").unwrap();
    let stops = client.goes_on(stops.len(), |stops| stops.last().unwrap().told().contains("done"));
    assert_eq!(stops[0].asked["stop_hook_active"], true, "{stops:?}");
    assert_eq!(stops[0].block(), Some("The tests fail."), "{stops:?}");
    assert!(woken(&scene) > 0);
    client.leaves();
    scene.end();
}

#[test]
fn without_a_terminal_a_session_goes_on_when_the_check_has_ended() {
    for plugin in [false, true] {
        let Some(scene) = scene("sleep 3") else { return };
        let api = Api::start(repairs);
        let session = Session::new(&scene, &api, "Work.").env("PHASEGATE_HOOK_SECONDS", "1");
        let session = if plugin { session.with_plugin() } else { session.with_init() };
        session.run().result();
        let answers = scene.answers("slow/x");
        // The repair changes the files, so that the check runs again, and takes as long.
        assert_eq!(answers, ["waiting", "block", "waiting", "done"], "plugin: {plugin}");
        assert_eq!(woken(&scene), 2);
        scene.end();
    }
}

#[test]
fn a_session_that_leaves_is_not_woken() {
    let Some(scene) = scene("until [ -e ../tmp/go ]; do sleep 0.1; done") else { return };
    scene.ok(&["init", "--client", "claude"]);
    let api = Api::start(repairs);
    let mut client = Terminal::open_with(&scene, &api, &[], &[("PHASEGATE_HOOK_SECONDS", "1")]);
    client.says("Work.");
    client.leaves();
    std::fs::write(scene.beside("tmp/go"), "").unwrap();
    assert_eq!(woken(&scene), 0);
    // No process is left that waits.
    scene.end();
}
