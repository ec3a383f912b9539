//! Who is told that a run needs somebody, or is done.

use std::io::{Read, Write};

use serde_json::Value;

use crate::phases::eventually;
use crate::scene::Scene;

const ASK: &str = "name = \"ask\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"exists('go')\", goto = \"b\", allow = \"done\" },\n{ on = \"stop\", when = \"exists('wait')\", allow = \"waiting\", until = \"human\", message = \"Look at it.\" },\n{ on = \"stop\", block = \"Go on.\" },\n]\n[phase.b]\nfinal = true\n";

fn scene(config: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/ask.toml", ASK);
    scene.file("home/.config/phasegate/config.toml", config);
    scene.ok(&["ask", "start", "--name", "x"]);
    scene
}

/// The notifications so far.
fn told(scene: &Scene) -> Vec<Value> {
    let text = std::fs::read_to_string(scene.path("told.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn command(scene: &str) -> String {
    format!(
        "[notify]\ncommand = [\"sh\", \"-c\", \"cat >> told.jsonl; echo >> told.jsonl; echo \\\"$1\\\" > title\", \"x\", \"{{title}}\"]\n{scene}"
    )
}

#[test]
fn a_command_is_told_when_somebody_is_needed_and_when_it_is_done() {
    let scene = scene(&command(""));
    scene.stop().blocks("Go on.");
    scene.file("wait", "");
    scene.stop_again().allows_saying("Look at it.");
    eventually("it is told", || told(&scene).len() == 1);
    let news = &told(&scene)[0];
    assert_eq!((&news["what"], &news["run"]), (&"waiting".into(), &"ask/x".into()), "{news}");
    assert_eq!(news["message"], "Look at it.");
    eventually("its title is there", || {
        scene.exists("title") && scene.read("title").contains("ask/x is waiting")
    });
    // The same is not told twice.
    scene.stop();
    scene.file("go", "");
    scene.stop();
    eventually("it is told", || told(&scene).len() == 2);
    assert_eq!(told(&scene)[1]["what"], "done");
}

#[test]
fn what_is_stuck_is_told_and_what_is_not_wanted_is_not() {
    let scene = scene(&command("on = [\"stuck\"]\n"));
    scene.stop().blocks("Go on.");
    scene.stop_again().allows_saying("is stuck");
    eventually("it is told", || told(&scene).len() == 1);
    scene.file("go", "");
    scene.stop();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(told(&scene).len(), 1);
}

#[test]
fn a_webhook_gets_it_as_json() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no curl");
        return;
    }
    let scene = scene(&format!("[notify]\nwebhook = \"http://127.0.0.1:{port}/hook\"\n"));
    scene.file("go", "");
    scene.stop();
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = [0; 4096];
    let mut text = String::new();
    while !text.contains("\"what\":\"done\"") {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(text.starts_with("POST /hook"), "{text}");
}

#[test]
fn a_project_cannot_make_anybody_run_anything() {
    let scene = scene("");
    scene.file(".phasegate/config.toml", "[notify]\ncommand = [\"touch\", \"pwned\"]\n");
    scene.stop().allows_saying("`notify` belongs in your own configuration");
    assert!(!scene.exists("pwned"));
}
