//! A session that was let go because of a job is woken when that ends: once, and only while that is its business.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::phases::eventually;
use crate::scene::{Ran, Said, Scene, finish};

/// A gate whose check goes on until it may end.
const SLOW: &str = r#"
name = "slow"
about = "A check that takes long."
initial = "a"
[check.t]
run = ["sh", "-c", "until [ -e home/go ]; do sleep 0.05; done; test -f good || { echo it is bad; exit 1; }"]
timeout = "2m"
[phase.a]
rules = [
  { on = "stop", when = "not check.t.ok", block = "It fails: {{ check.t.tail }}" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true
"#;

/// A project that wakes sessions, with a run, and a session that has begun.
fn waking(config: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/slow.toml", SLOW).file(".gitignore", "home/\nbin/\n");
    scene.file(".phasegate/config.toml", config);
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok_by_hand(&["trust", "slow", "--yes"]);
    scene.ok(&["slow", "start", "--name", "x"]);
    scene.hook_of("session-start", "s1", &Value::Null);
    scene
}

/// The hook beside a stop, below a process that is called as the client is.
struct Beside(Child);

impl Beside {
    fn of(scene: &Scene, payload: &Value) -> Beside {
        let client = scene.path("bin/claude");
        if !client.exists() {
            std::fs::create_dir_all(scene.path("bin")).unwrap();
            std::fs::copy("/bin/sh", &client).unwrap();
        }
        let mut command = Command::new(client);
        let hook = format!("{} hook wake --client claude", env!("CARGO_BIN_EXE_phasegate"));
        command.args(["-c", &format!("{hook}; exit $?")]).current_dir(scene.root()).env_clear();
        command.env("HOME", scene.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("CLAUDECODE", "1").env("CLAUDE_PROJECT_DIR", scene.root());
        Beside(scene.spawn(command, payload.to_string().as_bytes()))
    }

    fn is_waiting(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its end, which must come soon.
    #[track_caller]
    fn ends(mut self) -> Ran {
        let began = Instant::now();
        while self.is_waiting() {
            assert!(began.elapsed() < Duration::from_secs(20), "it waits for ever");
            std::thread::sleep(Duration::from_millis(20));
        }
        finish(self.0)
    }

    #[track_caller]
    fn wakes(self, text: &str) {
        let ran = self.ends();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(text), "{text:?} is not in {ran:?}");
    }

    #[track_caller]
    fn wakes_nobody(self) {
        let ran = self.ends();
        assert_eq!((ran.code, ran.stdout.trim(), ran.stderr.as_str()), (Some(0), "{}", ""));
    }
}

/// A stop whose client waits for nothing.
fn short_stop(scene: &Scene, payload: &Value) -> Said {
    scene.hook_raw(payload.to_string().as_bytes(), &[("PHASEGATE_HOOK_SECONDS", "1")])
}

/// A stop that was let go because of the check, and the hook beside it.
#[track_caller]
fn let_go(scene: &Scene) -> Beside {
    let mut beside = Beside::of(scene, &scene.payload());
    short_stop(scene, &scene.payload()).allows_saying("it goes on in the background");
    // It would have ended by now if it waited for nothing.
    std::thread::sleep(Duration::from_millis(1200));
    assert!(beside.is_waiting());
    beside
}

fn woken(scene: &Scene) -> usize {
    scene.journal("slow/x").iter().filter(|line| line["event"]["name"] == "woken").count()
}

#[test]
fn the_end_of_a_check_wakes_the_session_once() {
    let scene = waking("wake = true\n");
    let first = let_go(&scene);
    // As where the hook is installed twice.
    let second = Beside::of(&scene, &scene.payload());
    scene.file("home/go", "");
    let ended = [first.ends(), second.ends()];
    let (woke, others): (Vec<_>, Vec<_>) = ended.iter().partition(|ran| ran.code == Some(2));
    assert_eq!((woke.len(), others.len()), (1, 1), "{ended:?}");
    assert_eq!(others[0].stdout.trim(), "{}");
    let told = "Phasegate: check t, which run slow/x was waiting for, ended with exit code 1. Go on with what is left \
                to do. If nothing is, stop: the run then decides with that result.\n";
    assert_eq!(woke[0].stderr, told);
    assert_eq!(woken(&scene), 1);
    assert!(scene.ok(&["status"]).contains("working in phase a"));
    // The client says of the stop that follows that a hook has blocked before. That was us.
    let mut next = scene.payload();
    next["stop_hook_active"] = json!(true);
    scene.hook(&next).blocks("It fails: it is bad");
    scene.file("good", "");
    scene.hook(&next).allows_saying("Run slow/x is done.");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_check_that_passes_wakes_too_and_the_next_stop_is_done() {
    let scene = waking("wake = true\n");
    scene.file("good", "");
    let beside = let_go(&scene);
    scene.file("home/go", "");
    beside.wakes("check t, which run slow/x was waiting for, ended with exit code 0.");
    let mut next = scene.payload();
    next["stop_hook_active"] = json!(true);
    scene.hook(&next).allows_saying("Run slow/x is done.");
}

#[test]
fn where_nothing_is_waited_for_it_ends_with_the_stop() {
    let ends_soon = |scene: &Scene, beside: Beside| {
        let began = Instant::now();
        beside.wakes_nobody();
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(woken(scene), 0);
    };
    // Nobody has asked for it, here and where there is no project.
    let scene = waking("");
    ends_soon(&scene, Beside::of(&scene, &scene.payload()));
    let scene = Scene::bare();
    scene.hook_of("session-start", "s1", &Value::Null);
    ends_soon(&scene, Beside::of(&scene, &scene.payload()));
    // The stop is blocked.
    let scene = waking("wake = true\n");
    scene.file("home/go", "");
    let beside = Beside::of(&scene, &scene.payload());
    scene.stop().blocks("It fails");
    ends_soon(&scene, beside);
    // It waits for something else.
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{ "id": "a", "type": "subagent", "status": "running" }]);
    let beside = Beside::of(&scene, &payload);
    scene.hook(&payload).allows_saying("waits for background work");
    ends_soon(&scene, beside);
    // It is done.
    scene.file("good", "");
    let beside = Beside::of(&scene, &scene.payload());
    scene.stop().allows_saying("is done");
    ends_soon(&scene, beside);
    // Nothing is open any more.
    let beside = Beside::of(&scene, &scene.payload());
    scene.stop().allows();
    ends_soon(&scene, beside);
}

#[test]
fn without_the_hook_that_answers_it_does_not_wait() {
    let scene = waking("wake = true\n");
    let began = Instant::now();
    Beside::of(&scene, &scene.payload()).wakes_nobody();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn only_a_client_that_wakes_sessions_is_waited_in() {
    let scene = waking("wake = true\n");
    short_stop(&scene, &scene.payload()).allows_saying("it goes on in the background");
    // Another program reads the client's settings, and would wait for the hook.
    let mut command = scene.command();
    command.args(["hook", "wake", "--client", "claude"]);
    Beside(scene.spawn(command, scene.payload().to_string().as_bytes())).wakes_nobody();
    scene.file("home/go", "");
}

/// Something that happens meanwhile, and what it is called.
type Way = (&'static str, fn(&Scene));

#[test]
fn who_has_gone_on_or_has_lost_the_run_is_not_woken() {
    let ways: &[Way] = &[
        ("a prompt", |scene| {
            scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": "Go on." }));
        }),
        ("another stop", |scene| {
            let mut next = scene.payload();
            next["last_assistant_message"] = json!("Again.");
            short_stop(scene, &next).allows_saying("it goes on in the background");
        }),
        ("the end of the session", |scene| {
            scene.hook_of("session-end", "s1", &json!({ "reason": "prompt_input_exit" }));
        }),
        ("cancelled", |scene| drop(scene.ok_by_hand(&["cancel", "slow/x"]))),
        ("paused", |scene| drop(scene.ok_by_hand(&["pause", "slow/x"]))),
        ("taken over", |scene| drop(scene.ok_by_hand(&["adopt", "slow/x", "--session", "s2"]))),
        ("given up", |scene| drop(scene.ok_by_hand(&["release", "slow/x"]))),
    ];
    for (what, happens) in ways {
        let scene = waking("wake = true\n");
        let beside = let_go(&scene);
        happens(&scene);
        // The check still runs: it does not wait for that.
        let ran = beside.ends();
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "{}"), "{what}: {ran:?}");
        assert_eq!(woken(&scene), 0, "{what}");
        scene.file("home/go", "");
    }
}

#[test]
fn it_ends_with_its_client() {
    let scene = waking("wake = true\n");
    let Beside(mut client) = let_go(&scene);
    let waits = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        let mark = b"hook\0wake\0";
        let here = |line: &Vec<u8>| line.windows(mark.len()).any(|part| part == mark);
        lines.filter(here).count()
    };
    let before = waits();
    assert!(before > 0);
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("it has ended", || waits() < before);
    scene.file("home/go", "");
    eventually("the check has ended", || {
        scene.json(".phasegate/runs/slow/x/run.json")["work"]["jobs"]["check.t"]["ended"]
            .is_object()
    });
    assert_eq!(woken(&scene), 0);
}

#[test]
fn a_prompt_that_nobody_has_typed_is_no_word_of_a_person() {
    let scene = Scene::new();
    let stands = SLOW.replace("initial", "standing = true\ninitial");
    scene.file(".phasegate/workflows/slow.toml", stands).file(".gitignore", "home/\nbin/\n");
    scene.git(&["init", "-q"]);
    scene.file("home/go", "").file("app", "1");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok_by_hand(&["trust", "slow", "--yes"]);
    scene.hook_of("session-start", "s1", &Value::Null);
    scene.file("app", "2");
    let stop = |again: bool| {
        // A transcript would tell who has spoken, too.
        let mut payload = scene.payload();
        payload["transcript_path"] = json!(scene.path("none.jsonl"));
        payload["stop_hook_active"] = json!(again);
        scene.hook(&payload)
    };
    stop(false).blocks("It fails");
    stop(true).allows_saying("stuck");
    let notice = "<task-notification>\n<summary>Stop hook feedback</summary>\n</task-notification>";
    scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": notice }));
    stop(true).allows_saying("stuck");
    scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": "Try again." }));
    stop(false).blocks("It fails");
}

/// The hooks for a stop in a file of settings, by our names for them.
fn stop_hooks(scene: &Scene) -> Vec<Value> {
    let settings = scene.json(".claude/settings.json");
    let groups = settings["hooks"]["Stop"].as_array().cloned().unwrap_or_default();
    groups.iter().map(|group| group["hooks"][0].clone()).collect()
}

#[test]
fn the_hook_is_installed_where_it_is_asked_for_and_removed_again() {
    let scene = Scene::new();
    scene.git(&["init", "-q"]);
    scene.ok(&["init", "--client", "claude"]);
    assert_eq!(stop_hooks(&scene).len(), 1);
    // Asked for later, it is missing, and doctor says how to get it.
    scene.file(".phasegate/config.toml", "wake = true\n");
    let told = scene.run(&["doctor"]).stdout;
    assert!(told.contains("asks for: wake"), "{told}");
    scene.ok(&["init", "--client", "claude"]);
    let hooks = stop_hooks(&scene);
    assert_eq!(hooks.len(), 2, "{hooks:?}");
    assert_eq!(hooks[1]["args"], json!(["hook", "wake", "--client", "claude"]));
    assert_eq!(hooks[1]["asyncRewake"], true);
    assert_eq!(hooks[0].get("asyncRewake"), None);
    let told = scene.run(&["doctor"]).stdout;
    assert!(!told.contains("asks for: wake") && !told.contains("installed 2 times"), "{told}");
    assert!(scene.ok(&["init", "--client", "claude"]).contains("Everything is already installed"));
    scene.ok(&["uninstall"]);
    assert!(!scene.exists(".claude/settings.json"), "{:?}", stop_hooks(&scene));
    // In a new file it is beside the other at once.
    scene.ok(&["init", "--client", "claude"]);
    assert_eq!(stop_hooks(&scene).len(), 2);
}

#[test]
fn the_hook_that_waits_is_not_the_gate() {
    let scene = waking("wake = true\n");
    scene.ok(&["init", "--client", "claude"]);
    scene.hook_of("session-start", "s2", &Value::Null);
    let whole = scene.json(".claude/settings.json");
    let without = |number: usize| {
        let mut settings = whole.clone();
        settings["hooks"]["Stop"].as_array_mut().unwrap().remove(number);
        scene.file(".claude/settings.json", settings.to_string());
        let more = json!({ "source": "project_settings", "file_path": scene.path(".claude/settings.json") });
        scene.hook_of("config-change", "s2", &more)
    };
    // Without it nobody is woken; without the other nobody is held.
    without(1).allows();
    without(0).blocks("no longer has the hook of Phasegate");
}

#[test]
fn the_same_words_again_are_another_stop() {
    let scene = waking("wake = true\n");
    scene.file("home/go", "");
    let mut payload = scene.payload();
    payload["stop_hook_active"] = json!(true);
    scene.stop().blocks("It fails");
    let beside = Beside::of(&scene, &payload);
    scene.file("bad", "1");
    scene.hook(&payload).blocks("It fails");
    beside.wakes_nobody();
    // The files change, and the agent says what it has said before.
    std::fs::remove_file(scene.path("home/go")).unwrap();
    scene.file("bad", "2");
    let beside = Beside::of(&scene, &payload);
    short_stop(&scene, &payload).allows_saying("it goes on in the background");
    scene.file("home/go", "");
    beside.wakes("check t, which run slow/x was waiting for, ended with exit code 1.");
}
