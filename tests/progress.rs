//! What is seen of a job while it is at work: its name, how long it has run, and its last line.

use std::io::Read;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::phases::eventually;
use crate::scene::{Scene, finish};

const GATE: &str = r#"
name = "w"
about = "a"
initial = "a"
[check.slow]
run = ["sh", "-c", "echo first; printf '\\033[31mtest 34 of 90\\033[0m\\n\\n'; until [ -e go ]; do sleep 0.05; done; echo last"]
[phase.a]
rules = [
  { on = "stop", when = "not check.slow.ok", block = "It fails." },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", GATE);
    scene.ok_by_hand(&["trust", "w", "--yes"]);
    scene
}

/// What a command shows on the terminal that is its stderr, until a text is there and the check may go on.
fn shown(scene: &Scene, args: &[&str], until: &str) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let line = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command = scene.command();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(line);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (said, heard) = mpsc::channel();
    let mut terminal = std::fs::File::from(terminal);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = terminal.read(&mut bytes) {
            if read == 0 || said.send(bytes[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut text = String::new();
    while let Ok(bytes) = heard.recv_timeout(Duration::from_secs(30)) {
        text.push_str(&String::from_utf8_lossy(&bytes));
        if text.contains(until) && !scene.exists("go") {
            scene.file("go", "");
        }
    }
    child.wait().unwrap();
    text
}

#[test]
fn a_check_at_work_is_seen_with_its_last_line() {
    let scene = scene();
    scene.ok(&["w", "start"]);
    let mut command = scene.command();
    command.args(["hook", "stop", "--client", "claude"]);
    let hook = scene.spawn(command, scene.payload().to_string().as_bytes());
    eventually("its line is there", || scene.ok(&["jobs"]).contains("test 34 of 90"));
    let jobs: Value = serde_json::from_str(&scene.ok(&["jobs", "--json"])).unwrap();
    assert_eq!(jobs["jobs"][0]["job"]["last_line"], "test 34 of 90", "{jobs}");
    let status = scene.ok(&["status"]);
    assert!(status.contains("check slow was started"), "{status}");
    assert!(status.contains(": test 34 of 90"), "{status}");
    let mut command = scene.command();
    command.arg("statusline");
    let input = json!({ "session_id": "s1", "workspace": { "current_dir": scene.root() } });
    let line = finish(scene.spawn(command, input.to_string().as_bytes())).stdout;
    assert!(line.contains("check slow ") && line.contains(" s: test 34 of 90"), "{line}");
    let text = shown(&scene, &["wait", "--seconds", "30"], "check slow ");
    assert!(text.contains(" s: test 34 of 90"), "{text}");
    assert!(finish(hook).stdout.contains("is done"));
    assert!(!scene.ok(&["status"]).contains("was started"));
}

#[test]
fn a_check_that_is_run_by_hand_is_seen_at_work() {
    let scene = scene();
    let text = shown(&scene, &["jobs", "run", "slow"], "test 34 of 90");
    assert!(text.contains("check slow 0 s"), "{text}");
    // The line is gone in the end, and nothing of it is left in a pipe.
    assert!(text.ends_with("\u{1b}[2K"), "{text:?}");
    let ran = scene.run(&["jobs", "run", "slow"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_drive_shows_the_check_that_it_waits_for() {
    let scene = scene();
    scene.ok(&["w", "start"]);
    let text = shown(&scene, &["drive", "w", "--", "true"], "check slow ");
    assert!(text.contains("w/w  check slow "), "{text}");
}
