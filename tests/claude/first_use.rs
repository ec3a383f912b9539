//! A stranger with an empty home, the files of the npm packages and the real client: four lines are typed at
//! a shell, and a session is gated.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::api::{Api, Reply};
use crate::real::npm;
use crate::real::running::Running;
use crate::real::scene::run;
use crate::real::terminal::{self, Person};
use crate::scene::{Scene, repository};

/// How long a line may take.
const LINE: Duration = Duration::from_mins(2);

/// What the shell shows when a line has been carried out.
const PROMPT: &str = "next$ ";

/// The packages, made from the program that is tested; none where npm is not there.
fn packages(scene: &Scene) -> Option<()> {
    if Command::new("npm").arg("--version").output().is_err() {
        npm::skip("claude: first_use: npm is not there");
        return None;
    }
    let mut dist = Command::new(repository().join("packaging/dist"));
    dist.args(["--binary", env!("CARGO_BIN_EXE_phasegate"), "--out"]).arg(scene.beside("release"));
    run(dist);
    Some(())
}

#[test]
fn four_lines_lead_from_an_empty_home_to_a_gated_session() {
    let Some(scene) = Scene::new() else { return };
    let Some(()) = packages(&scene) else { return };
    std::fs::remove_dir(scene.path(".phasegate")).unwrap();
    // Of this repository only the packages are at hand.
    std::fs::remove_file(scene.beside("bin/phasegate")).unwrap();
    scene.file("Makefile", "test:\n\t@! grep -n broken app.txt\n").file("app.txt", "fine\n");
    scene.commit();
    let api = Api::start(|request| match (request.used().len(), request.blocks()) {
        (0, _) => Reply::bash("echo broken > app.txt"),
        (1, 0) => Reply::text("Done. All tests pass."),
        (1, _) => Reply::bash("echo better > app.txt"),
        _ => Reply::text("Now they do."),
    });

    let client = scene.client(&api);
    let mut shell = scene.command("sh");
    shell.arg("-i").env("PS1", PROMPT).env("TERM", "dumb");
    for (name, value) in client.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let prefix = scene.home().join(".npm-packages");
    let path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    // Programs of this machine, but not a `phasegate` that happens to be installed on it.
    let path = path.into_iter().filter(|folder| !folder.join("phasegate").exists());
    let path = [prefix.join("bin"), scene.beside("bin")].into_iter().chain(path);
    shell.env("PATH", std::env::join_paths(path).unwrap());
    shell.env("NPM_CONFIG_PREFIX", &prefix).env("NPM_CONFIG_OFFLINE", "true");
    let (person, line) = terminal::open();
    let mut shell = Running::at_terminal(shell, LINE * 4, &line).unwrap();
    let person = Person::at(person);

    let prompts = || String::from_utf8_lossy(&person.shown()).matches(PROMPT).count();
    let waits_for = |prompts_before: usize, what: &str| {
        let began = Instant::now();
        while prompts() <= prompts_before {
            assert!(began.elapsed() < LINE, "{what}: {}", person.shown_last());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    waits_for(0, "the shell does not open");
    for line in [
        "npm install --global ../release/*.tgz",
        "phasegate init",
        "phasegate doctor --strict",
        "claude --print --permission-mode bypassPermissions 'Change app.txt.'",
    ] {
        let before = prompts();
        person.types(&format!("{line} || echo FAI''LED"));
        waits_for(before, line);
        let shown = String::from_utf8_lossy(&person.shown()).into_owned();
        assert!(!shown.contains("FAILED"), "{shown}");
    }
    person.types("exit");
    while !shell.is_over() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let shown = String::from_utf8_lossy(&person.shown()).into_owned();
    assert!(shown.contains("Now they do."), "{shown}");
    // The gate that `init` wrote has sent it back once.
    let runs = std::fs::read_dir(scene.path(".phasegate/runs/ship")).unwrap();
    let runs: Vec<String> =
        runs.flatten().map(|run| format!("ship/{}", run.file_name().to_string_lossy())).collect();
    assert_eq!(runs.len(), 1, "{shown}");
    assert_eq!(scene.answers(&runs[0]), ["block", "done"], "{shown}");
    scene.end();
}
