//! The `phases` workflow: agents that work, agents that judge, and nobody who approves himself.

mod agents;
mod attacks;
mod crashes;
mod guidance;
pub mod mcp;
mod overview;
mod pruned;
mod table;
mod worktrees;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scene::{Ran, Said, Scene, finish};

/// The task's folder, and its run.
pub const DIR: &str = ".phasegate/phases/web";
pub const RUN: &str = "phases/web";

/// What a scripted agent does: what it is told to, or its usual work.
const WORKER: &str = "mkdir -p said; cat > said/$PHASEGATE_AGENT
[ -f do/$PHASEGATE_AGENT ] && { . ./do/$PHASEGATE_AGENT; exit; }
echo \"by $PHASEGATE_AGENT\" >> work.txt
";
const REVIEWER: &str = "mkdir -p said; cat > said/$PHASEGATE_AGENT
[ -f do/$PHASEGATE_AGENT ] && { . ./do/$PHASEGATE_AGENT; exit; }
[ -f do/reviewer ] && { . ./do/reviewer; exit; }
\"$PHASEGATE\" phases verdict --verdict approved
";

/// A repository with scripted agents, and a task of two phases.
pub struct Phases {
    pub scene: Scene,
}

impl Phases {
    pub fn new() -> Phases {
        Phases::with("")
    }

    /// With more constants.
    pub fn with(constants: &str) -> Phases {
        let phases = Phases::without_task(constants);
        let planned = json!([
            { "name": "Design", "description": "Think first.", "deliverables": ["notes"] },
            { "name": "Implementation Phase", "success_criteria": ["it runs"] },
        ]);
        let create = ["create", "--title", "Web", "--phases", &planned.to_string()];
        assert_eq!(phases.act(&create).code, Some(0));
        phases
    }

    pub fn without_task(constants: &str) -> Phases {
        let scene = Scene::new();
        scene.file("worker.sh", WORKER).file("reviewer.sh", REVIEWER).file("work.txt", "");
        let config = format!(
            "[workflow.phases.const]\nWORKER = [\"sh\", \"worker.sh\"]\nREVIEWER = [\"sh\", \"reviewer.sh\"]\n{constants}"
        );
        scene.file(".phasegate/config.toml", config);
        scene.file(".gitignore", "home/\n.phasegate/\nsaid/\ndo/\n");
        for args in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-qm", "x"]] {
            scene.git(args);
        }
        Phases { scene }
    }

    /// What one agent does, or all reviewers do, instead of their usual work.
    pub fn script(&self, agent: &str, text: &str) -> &Phases {
        self.scene.file(&format!("do/{agent}"), text);
        self
    }

    /// The binary as the orchestrator's client runs it.
    pub fn command(&self) -> Command {
        let mut command = self.scene.command();
        command.env("PHASEGATE_TRUST_ALL", "1").env("CLAUDECODE", "1");
        command.env("CLAUDE_CODE_SESSION_ID", "s1");
        command
    }

    /// An action of the orchestrator.
    pub fn act(&self, args: &[&str]) -> Ran {
        let mut command = self.command();
        command.arg("phases").args(args);
        finish(self.scene.spawn(command, b""))
    }

    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.act(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// An action that is refused, and leaves the task as it was.
    #[track_caller]
    pub fn refused(&self, args: &[&str], why: &str) {
        let before = self.task();
        let ran = self.act(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!((ran.stdout + &ran.stderr).contains(why), "{args:?}: not {why:?}");
        assert_eq!(self.task(), before, "{args:?}");
    }

    /// An action on some task that is refused.
    #[track_caller]
    pub fn refused_of(&self, args: &[&str], why: &str) {
        let ran = self.act(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!((ran.stdout + &ran.stderr).contains(why), "{args:?}: not {why:?}");
    }

    /// An action by a person at a terminal.
    pub fn by_person(&self, args: &[&str]) -> Ran {
        let args: Vec<&str> = std::iter::once("phases").chain(args.iter().copied()).collect();
        self.scene.by_hand_with(&args, &[("PHASEGATE_TRUST_ALL", "1")])
    }

    /// Something happens in the session, so that the gate settles the agents: to look
    /// does nothing.
    pub fn settle(&self) {
        let mut payload = self.scene.payload();
        payload["hook_event_name"] = json!("UserPromptSubmit");
        let payload = payload.to_string();
        let env = [("PHASEGATE_TRUST_ALL", "1")];
        self.scene.fire("user-prompt-submit", payload.as_bytes(), &env);
    }

    /// What is shown after that.
    pub fn settled(&self) -> String {
        self.settle();
        self.ok(&["status"])
    }

    /// A stop of the orchestrator, the first or one that follows a block.
    pub fn stop(&self, again: bool) -> Said {
        let mut payload = self.scene.payload();
        payload["stop_hook_active"] = json!(again);
        self.scene.hook_raw(payload.to_string().as_bytes(), &[("PHASEGATE_TRUST_ALL", "1")])
    }

    pub fn task(&self) -> Value {
        self.scene.json(&format!("{DIR}/task.json"))
    }

    /// The state of a phase, as the document says.
    pub fn status(&self, phase: usize) -> String {
        self.task()["phases"][phase]["status"].as_str().unwrap().to_string()
    }

    /// Waits, without a call of any command, until the document says so.
    #[track_caller]
    pub fn becomes(&self, phase: usize, status: &str) {
        eventually(&format!("phase {phase} becomes {status}"), || self.status(phase) == status);
    }

    /// The agents, as the command lists them.
    pub fn agents(&self) -> Vec<Value> {
        let mut command = self.command();
        command.args(["jobs", "--all", "--json"]);
        let ran = finish(self.scene.spawn(command, b""));
        let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
        let rows = shown["jobs"].as_array().unwrap().clone();
        let jobs = rows.into_iter().map(|row| row["job"].clone());
        // What the rules call their kind.
        let agents = jobs.filter(|job| job["kind"] == "agent");
        agents
            .map(|mut job| {
                job["kind"] = job["name"].clone();
                job
            })
            .collect()
    }

    pub fn agent(&self, id: &str) -> Value {
        let agents = self.agents();
        let found = agents.iter().find(|agent| agent["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {agents:?}")).clone()
    }

    /// The folder of an agent.
    pub fn folder(&self, id: &str) -> std::path::PathBuf {
        let log = self.agent(id)["log"].as_str().unwrap().to_string();
        self.scene.path(&log).parent().unwrap().to_path_buf()
    }

    /// How often an event was put about an agent.
    pub fn heard(&self, event: &str, agent: &str) -> usize {
        let journal = self.scene.journal(RUN);
        let fits =
            |line: &&Value| line["event"]["name"] == event && line["event"]["agent"] == agent;
        journal.iter().filter(fits).count()
    }

    /// The token of an agent that tells it: its script has to `echo $PHASEGATE_TOKEN > said/token`.
    pub fn token(&self) -> String {
        eventually("the agent tells its token", || {
            self.scene.exists("said/token") && self.scene.read("said/token").ends_with('\n')
        });
        self.scene.read("said/token").trim().to_string()
    }

    /// An action by the holder of a token.
    pub fn with_token(&self, token: &str, args: &[&str]) -> Ran {
        let mut command = self.below(token);
        command.arg("phases").args(args);
        finish(self.scene.spawn(command, b""))
    }

    /// The binary as the agent with this token runs it, in a shell that stands for its supervisor.
    pub fn below(&self, token: &str) -> Command {
        use std::os::unix::process::CommandExt as _;
        let id = token.rsplit('~').next().unwrap();
        let ledger = self.scene.json(&format!(".phasegate/runs/{RUN}/run.json"));
        let folder = ledger["work"]["jobs"][id]["folder"].as_str().unwrap_or("none").to_string();
        let root = self.scene.root().canonicalize().unwrap();
        if !self.scene.exists("home/supervise") {
            self.scene.file("home/supervise", "cd \"$1\"; shift 4; \"$gate\" \"$@\"; exit $?\n");
        }
        let mut command = Command::new("/bin/sh");
        command.arg0("phasegate").current_dir(self.scene.path("home")).env_clear();
        for (name, value) in self.command().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("PHASEGATE_TOKEN", token).env("gate", env!("CARGO_BIN_EXE_phasegate"));
        command.arg("supervise").arg(root).args([&folder, RUN, id]);
        command
    }
}

impl Drop for Phases {
    /// No agent outlives its test.
    fn drop(&mut self) {
        for pid in processes(self.scene.root(), None) {
            kill(pid);
        }
    }
}

/// Supervisors of a project's agents, or of one of them; by what the kernel says.
pub fn processes(root: &std::path::Path, agent: Option<&str>) -> Vec<i32> {
    let root = root.canonicalize().unwrap().to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|it| String::from_utf8_lossy(it).into()).collect();
        let own = words.get(1).is_some_and(|it| it == "supervise") && words.get(2) == Some(&root);
        let is_agent = |agent: &str| words.get(5).is_some_and(|it| it == agent);
        (own && agent.is_none_or(is_agent)).then_some(pid)
    });
    found.collect()
}

pub fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Looks until it holds.
#[track_caller]
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(30), "it never comes that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
