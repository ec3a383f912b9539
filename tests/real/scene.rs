//! A project in a temporary folder, with a home of its own, and what Phasegate has left in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::running::{Running, kill};
use super::terminal;

/// How long a command of Phasegate may take.
const COMMAND: Duration = Duration::from_mins(2);

/// How long what was started may take to end by itself.
const END: Duration = Duration::from_secs(40);

pub struct Scene {
    folder: tempfile::TempDir,
}

/// A stop, as the journal has it.
#[derive(Debug)]
pub struct Stop {
    pub session: String,
    pub decision: String,
    pub outcome: String,
    pub to: String,
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Scene {
    /// An empty project, under git, with these programs beside our own.
    pub fn with(programs: &[(&str, &Path)]) -> Scene {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "home", "project/.phasegate", "tmp"] {
            fs::create_dir_all(scene.folder.path().join(folder)).unwrap();
        }
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, scene.folder.path().join("bin").join(name)).unwrap();
        };
        link(Path::new(env!("CARGO_BIN_EXE_phasegate")), "phasegate");
        for (name, program) in programs {
            link(program, name);
        }
        let mut git = scene.command("git");
        let made = git.args(["init", "--quiet"]).status().unwrap();
        assert!(made.success());
        scene
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A place beside the project and the home folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file.
    pub fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Scene {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.read(path)).unwrap()
    }

    /// A program in the project, with an environment that has nothing to remove.
    pub fn command(&self, program: &str) -> Command {
        let folder = self.folder.path();
        let outside = std::env::var_os("PATH").unwrap_or_default();
        let paths = [folder.join("bin")].into_iter().chain(std::env::split_paths(&outside));
        let mut command = Command::new(program);
        command.current_dir(self.root()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::join_paths(paths).unwrap());
        command.env("HOME", folder.join("home")).env("TMPDIR", folder.join("tmp"));
        command
    }

    /// Runs Phasegate, which must succeed; what it printed.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let mut command = self.command(env!("CARGO_BIN_EXE_phasegate"));
        command.args(args);
        run(command)
    }

    /// Runs Phasegate as a person does, at a terminal, which must succeed; what it printed.
    #[track_caller]
    pub fn ok_by_hand(&self, args: &[&str]) -> String {
        let (_person, line) = terminal::open();
        let mut command = self.command(env!("CARGO_BIN_EXE_phasegate"));
        command.args(args).stdin(line);
        run(command)
    }

    /// Runs git, which must succeed.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let mut command = self.command("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
        run(command)
    }

    /// Runs Phasegate, whether it succeeds or not, and returns what it printed.
    pub fn try_run(&self, args: &[&str]) -> String {
        let mut command = self.command(env!("CARGO_BIN_EXE_phasegate"));
        command.args(args);
        let ended = Running::start(command, COMMAND).unwrap().wait();
        format!("{}{}", ended.stdout, ended.stderr)
    }

    /// The journal of a run, as `loop/current`.
    pub fn journal(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(&format!(".phasegate/runs/{run}/journal.jsonl")));
        text.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The stops that a run has answered.
    pub fn stops(&self, run: &str) -> Vec<Stop> {
        let journal = self.journal(run);
        let stops = journal.iter().filter(|line| line["event"]["name"] == "stop");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        stops
            .map(|line| Stop {
                session: text(&line["event"]["session"]),
                decision: text(&line["answer"]["decision"]),
                outcome: text(&line["answer"]["outcome"]),
                to: text(&line["to"]),
            })
            .collect()
    }

    /// What a run has answered to each stop: `block`, or the outcome.
    pub fn answers(&self, run: &str) -> Vec<String> {
        let answer = |stop: Stop| match stop.decision.as_str() {
            "allow" => stop.outcome,
            _ => stop.decision,
        };
        self.stops(run).into_iter().map(answer).collect()
    }

    /// The run has answered so many stops with a block, and then one with this outcome.
    #[track_caller]
    pub fn assert_stops(&self, run: &str, blocks: usize, outcome: &str) {
        let mut expected = vec!["block"; blocks];
        expected.push(outcome);
        assert_eq!(self.answers(run), expected, "{:#?}\n{:?}", self.stops(run), self.faults());
    }

    /// What went wrong in Phasegate itself.
    pub fn faults(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path(".phasegate/faults.jsonl")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// Ends the test: nothing has gone wrong in Phasegate, its journals are whole, and no process
    /// is left behind.
    #[track_caller]
    pub fn end(self) {
        assert_eq!(self.faults(), Vec::<String>::new());
        if self.exists(".phasegate/runs") {
            self.ok(&["log", "--verify"]);
        }
        self.assert_quiet();
    }

    /// All processes that were started here end by themselves, soon.
    #[track_caller]
    pub fn assert_quiet(&self) {
        let began = Instant::now();
        let mut left = self.processes();
        while !left.is_empty() && began.elapsed() < END {
            std::thread::sleep(Duration::from_millis(50));
            left = self.processes();
        }
        assert!(left.is_empty(), "processes are left behind: {left:?}");
    }

    /// The processes that were started in this scene, by their environment.
    fn processes(&self) -> Vec<(String, String)> {
        let mark = format!("HOME={}", self.folder.path().join("home").display());
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let own = all.filter_map(|process| {
            let environment = fs::read(process.path().join("environ")).ok()?;
            let is_own = environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
            let command = is_own.then(|| fs::read(process.path().join("cmdline")).ok())??;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            Some((process.file_name().to_string_lossy().into_owned(), command))
        });
        own.collect()
    }
}

/// Runs a command, which must succeed; what it printed.
#[track_caller]
pub fn run(command: Command) -> String {
    let shown = format!("{command:?}");
    let ended = Running::start(command, COMMAND).unwrap().wait();
    assert!(ended.is_success(), "{shown}: {ended:?}");
    ended.stdout
}

impl Drop for Scene {
    fn drop(&mut self) {
        for (process, _) in self.processes() {
            kill(&process);
        }
    }
}
