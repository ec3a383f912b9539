//! What a person sees on a terminal: lines that fit, colours with a meaning, pages of one screen. A pipe gets neither.

use std::io::Read;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::scene::Scene;

/// Runs a command whose output is a terminal of this size; what it wrote there.
fn on_screen(
    scene: &Scene,
    columns: u16,
    rows: u16,
    args: &[&str],
    env: &[(&str, &str)],
) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let line = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command: Command = scene.command();
    command.args(args).envs(env.iter().copied());
    command.stdin(line.try_clone().unwrap()).stdout(line.try_clone().unwrap()).stderr(line);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    // The last writer's end is an error here, and the end of the text.
    let _ = std::fs::File::from(terminal).read_to_end(&mut shown);
    child.wait().unwrap();
    String::from_utf8(shown).unwrap().replace('\r', "")
}

/// The text without its colours.
fn plain(text: &str) -> String {
    regex_lite::Regex::new("\x1b\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

fn held() -> Scene {
    let scene = Scene::with_triage(3);
    scene.stop();
    scene
}

#[test]
fn lines_fit_on_a_narrow_terminal_and_stay_whole_in_a_pipe() {
    let scene = held();
    for command in [&["status"][..], &["log"], &["why"], &["list"]] {
        let shown = plain(&on_screen(&scene, 60, 50, command, &[]));
        for line in shown.lines() {
            let long_word = line.split_whitespace().any(|word| word.len() > 30);
            assert!(line.chars().count() <= 60 || long_word, "{command:?}: {line:?}");
        }
        let piped = scene.ok(command);
        assert!(piped.lines().any(|line| line.chars().count() > 60), "{command:?}: {piped}");
    }
}

#[test]
fn answers_and_phases_are_told_apart_by_colour() {
    let scene = held();
    for command in [&["status"][..], &["log"], &["why"]] {
        let shown = on_screen(&scene, 200, 50, command, &[]);
        assert!(shown.contains("\x1b[33mBLOCK"), "{command:?}: {shown:?}");
    }
    for command in [&["status"][..], &["log"]] {
        let shown = on_screen(&scene, 200, 50, command, &[]);
        assert!(shown.contains("\x1b[36mtriage"), "{command:?}: {shown:?}");
    }
    scene.stop_again();
    assert!(on_screen(&scene, 200, 50, &["log"], &[]).contains("\x1b[31mALLOW stuck"));
    for command in [&["status"][..], &["log"], &["why"]] {
        let shown = on_screen(&scene, 200, 50, command, &[("NO_COLOR", "1")]);
        assert!(!shown.contains('\x1b'), "{command:?}: {shown:?}");
        assert!(!scene.ok(command).contains('\x1b'));
    }
}

#[test]
fn a_status_fits_on_one_screen() {
    let scene = Scene::with_triage(1);
    for n in 0..20 {
        let state = r#"{"phase":"triage","entries":[{"entry_index":0,"status":"pending"}]}"#;
        scene.file(&format!(".phasegate/triage/r{n}_triage.json"), state);
    }
    let shown = on_screen(&scene, 100, 24, &["status"], &[]);
    assert!(shown.lines().count() <= 24, "{shown}");
    assert!(shown.contains(" more; `phasegate status --all` shows them."), "{shown}");
    let shown = plain(&on_screen(&scene, 100, 24, &["status", "--all"], &[]));
    assert!(shown.contains("triage/r0 ") && shown.contains("triage/r19 "), "{shown}");
}

#[test]
fn the_status_of_a_run_draws_where_it_is_and_has_been() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/notes.toml",
        r#"name = "notes"
about = "Notes, then a person."
initial = "writing"
[action.approve]
about = "Let it go out"
[phase.writing]
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "asking", allow = "waiting", until = "human" },
]
[phase.asking]
rules = [
  { on = "approve", goto = "done" },
  { on = "stop", when = "not exists('NOTES.md')", goto = "writing" },
  { on = "stop", allow = "waiting", until = "human" },
]
[phase.done]
final = true
"#,
    );
    scene.ok(&["start", "notes"]);
    scene.stop();
    scene.file("NOTES.md", "x");
    scene.stop();
    std::fs::remove_file(scene.path("NOTES.md")).unwrap();
    scene.stop();
    let wide = plain(&on_screen(&scene, 100, 50, &["status", "notes"], &[]));
    let (_, drawn) = wide.split_once("\n\n").unwrap();
    insta::assert_snapshot!(drawn.trim_end(), @r"
      ┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
      ┃ ● writing                     ┃
    ┏▶┃ blocks, waits                 ┃
    ┃ ┃ 2 visits · < 1 min · 2 blocks ┃
    ┃ ┗━━━━━━━━━━━━━━━┬━━━━━━━━━━━━━━━┛
    ┃                 ▼
    ┃ ╭───────────────────────────────╮
    ┗━│ asking                        │
      │ waits                         │
      │ 1 visit · < 1 min             │
      ╰───────────────┬───────────────╯
                      ▼
      ╔═══════════════════════════════╗
      ║ done                          ║
      ║ end: done                     ║
      ║                               ║
      ╚═══════════════════════════════╝
    ");
    assert_eq!(scene.ok(&["draw", "notes", "--run", "notes"]).trim_end(), drawn.trim_end());
    // Where it does not fit, the rest is shown without it; so is what is not about one run.
    for (columns, args) in [(30, vec!["status", "notes"]), (100, vec!["status"])] {
        let shown = on_screen(&scene, columns, 50, &args, &[]);
        assert!(shown.contains("notes/notes") && !shown.contains('╭'), "{shown}");
    }
}
