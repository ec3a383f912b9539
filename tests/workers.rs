//! Jobs that are done on other machines: processes with homes and clones of their own, a server, and a remote.

mod fences;
mod results;
mod shared_runs;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::postgres::server::{Server, shared};
use crate::scene::{Ran, Said, Scene, finish};

/// A gate with a check that any machine with the label may run. Its document is a file.
pub const SHIP: &str = r#"name = "ship"
about = "No stop before the tests pass."
document = "ship/*.json"
initial = "working"
patience = 9

[check.tests]
run = ["sh", "-c", "echo tested in $HOME; sh ./test"]
labels = ["linux"]

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\n{{ check.tests.tail }}" },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

/// How long a lease lasts in these tests, in milliseconds.
pub const LEASE: u64 = 3000;

/// A server, a remote, and the machine on which the runs are.
pub struct Team {
    pub server: &'static Server,
    pub url: String,
    pub remote: tempfile::TempDir,
    pub own: Machine,
}

/// A machine with a clone and a home of its own.
pub struct Machine {
    pub scene: Scene,
    pub url: String,
}

/// A worker at work.
pub struct Worker {
    pub child: Child,
    said: PathBuf,
}

impl Team {
    /// A team with this workflow and these files; none where PostgreSQL is not installed.
    pub fn new(workflow: &str, files: &[(&str, &str)]) -> Option<Team> {
        let name = workflow.lines().next().unwrap().split('"').nth(1).unwrap();
        Team::with(name, Some(workflow), files)
    }

    /// A team that trusts a workflow: this one, or a built-in one.
    pub fn with(name: &str, workflow: Option<&str>, files: &[(&str, &str)]) -> Option<Team> {
        Some(Team::on(shared()?, name, workflow, files))
    }

    /// The same, on a server of its own.
    pub fn on(
        server: &'static Server,
        name: &str,
        workflow: Option<&str>,
        files: &[(&str, &str)],
    ) -> Team {
        let url = server.database();
        let remote = tempfile::tempdir().unwrap();
        git(remote.path(), &["init", "-q", "--bare", "-b", "main", "."]);
        let scene = Scene::new();
        scene.git(&["init", "-q", "-b", "main"]);
        scene.file(".gitignore", "home\ntranscript.jsonl\n");
        if let Some(workflow) = workflow {
            scene.file(&format!(".phasegate/workflows/{name}/workflow.toml"), workflow);
        }
        for (path, text) in files {
            scene.file(path, text);
        }
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-qm", "first"]);
        scene.git(&["remote", "add", "origin", remote.path().to_str().unwrap()]);
        scene.git(&["push", "-q", "origin", "main"]);
        let own = Machine { scene, url: url.clone() };
        own.ok(&["store", "migrate"]);
        own.ok(&["trust", name, "--yes"]);
        Team { server, url, remote, own }
    }

    /// Another machine with a clone, whose user has consented to nothing yet.
    pub fn machine(&self) -> Machine {
        let scene = Scene::bare();
        scene.git(&["clone", "-q", self.remote.path().to_str().unwrap(), "."]);
        Machine { scene, url: self.url.clone() }
    }

    /// A machine whose user trusts a workflow, with a worker.
    pub fn worker(&self, workflow: &str, args: &[&str]) -> (Machine, Worker) {
        let machine = self.machine();
        machine.ok(&["trust", workflow, "--yes"]);
        let worker = machine.worker(args);
        (machine, worker)
    }

    /// What a statement says, without decoration.
    pub fn sql(&self, statement: &str) -> String {
        let database = self.url.rsplit('/').next().unwrap().split('?').next().unwrap();
        self.server.sql(database, statement)
    }

    /// The branches and other names at the remote.
    pub fn references(&self) -> String {
        git(self.remote.path(), &["for-each-ref", "--format=%(refname)"])
    }
}

impl Machine {
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.command();
        command.args(args).env("PHASEGATE_STORE", &self.url);
        command
    }

    pub fn by_hand(&self, args: &[&str]) -> Ran {
        self.scene.at_terminal(self.command(args))
    }

    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.by_hand(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.by_hand(&[args, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    pub fn stop(&self) -> Said {
        self.stop_within("600")
    }

    /// A stop whose client waits for so many seconds.
    pub fn stop_within(&self, seconds: &str) -> Said {
        let env = [("PHASEGATE_STORE", self.url.as_str()), ("PHASEGATE_HOOK_SECONDS", seconds)];
        self.scene.fire("stop", self.scene.payload().to_string().as_bytes(), &env)
    }

    /// Starts a worker here.
    pub fn worker(&self, args: &[&str]) -> Worker {
        let said = self.scene.path("home/worker.said");
        fs::create_dir_all(said.parent().unwrap()).unwrap();
        let mut command = self.command(&[&["worker"], args].concat());
        command.env("PHASEGATE_LEASE", LEASE.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said).unwrap());
        Worker { child: command.spawn().unwrap(), said }
    }

    pub fn home(&self) -> String {
        self.scene.path("home").to_str().unwrap().to_string()
    }

    /// The only job that is listed.
    pub fn job(&self) -> Value {
        self.json(&["jobs", "--all"])["jobs"][0]["job"].clone()
    }
}

impl Worker {
    /// What it has said.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    #[track_caller]
    pub fn says(&self, text: &str) {
        eventually(text, || self.said().contains(text));
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = format!("--- a worker said ---\n{}", self.said());
            let _ = std::io::stderr().write_all(said.as_bytes());
        }
    }
}

pub fn git(folder: &std::path::Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_check_is_run_elsewhere_on_the_tree_that_was_sent() {
    let Some(team) = Team::new(SHIP, &[("test", "test -f finished\n")]) else { return };
    let (machine, _worker) = team.worker("ship", &["--labels", "linux,fast"]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    let said = team.own.stop();
    said.blocks(&format!("tested in {}", machine.home()));
    // Nothing of it was committed, and it was sent all the same.
    team.own.scene.file("finished", "");
    team.own.stop().allows_saying("done");
    let job = team.own.job();
    assert_eq!(job["status"], "exited", "{job}");
    assert!(team.own.ok(&["jobs", "logs", "check.tests"]).contains(&machine.home()));
    team.own.ok(&["log", "--verify", "ship/web"]);
    team.own.ok(&["replay", "ship/web"]);
    // Each was accepted once, and nothing is left on the way.
    assert_eq!(team.sql("SELECT count(*) FROM phasegate.job"), "0");
    assert_eq!(team.sql("SELECT count(*), max(attempts) FROM phasegate.job_history"), "2|1");
    eventually("the remote is as it was", || team.references() == "refs/heads/main\n");
}

#[test]
fn without_a_queue_labels_mean_nothing() {
    let scene = Scene::new();
    scene.git(&["init", "-q"]);
    scene.file(".phasegate/workflows/ship.toml", SHIP).file("test", "true\n");
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene.ok_by_hand(&["start", "ship", "--name", "web"]);
    let mut command = scene.command();
    command.env("PHASEGATE_STORE", "files").args(["hook", "stop", "--client", "claude"]);
    let ran = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
    assert!(ran.stdout.contains("done"), "{ran:?}");
}

#[test]
fn a_job_waits_for_a_machine_with_its_labels_and_is_shown_so() {
    let Some(team) = Team::new(SHIP, &[("test", "true\n")]) else { return };
    let (_other, other) = team.worker("ship", &["--labels", "windows"]);
    other.says("works for");
    team.own.ok(&["start", "ship", "--name", "web"]);
    // The client does not wait for it.
    team.own.stop_within("4").allows_saying("waits for check tests");
    let shown = team.own.ok(&["jobs"]);
    assert!(shown.contains("queued") && shown.contains("linux"), "{shown}");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!other.said().contains("took"), "{}", other.said());
    let (machine, _worker) = team.worker("ship", &["--labels", "linux"]);
    team.own.stop().allows_saying("done");
    assert!(machine.home().len() > 1);
}

#[test]
fn nothing_runs_without_the_consent_of_the_user_of_the_machine() {
    let Some(team) = Team::new(SHIP, &[("test", "true\n")]) else { return };
    let machine = team.machine();
    let worker = machine.worker(&[]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    worker.says("you have not consented to its definition here: `phasegate trust ship`");
    assert_eq!(team.sql("SELECT state, attempts FROM phasegate.job"), "ready|0");
    // A row that names another command than the definition is refused, too.
    let forged = machine.scene.path("home/forged");
    let words = format!("[\"touch\", {:?}]", forged.display().to_string());
    let change = "UPDATE phasegate.job SET spec = jsonb_set(spec, '{spec,run,0,words}', 'WORDS')";
    team.sql(&change.replace("WORDS", &words));
    machine.ok(&["trust", "ship", "--yes"]);
    worker.says("its command is not the one that the definition of workflow ship says");
    team.own.stop().allows_saying("done");
    assert!(!forged.exists());
    assert!(team.own.ok(&["log", "ship/web", "--json"]).contains("refuses it"));
}

#[test]
fn a_store_that_is_trusted_as_a_whole_needs_no_clone() {
    let Some(team) = Team::new(SHIP, &[("test", "true\n")]) else { return };
    let elsewhere = Machine { scene: Scene::bare(), url: team.url.clone() };
    let worker = elsewhere.worker(&["--trust-store"]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop().allows_saying("done");
    assert!(worker.said().contains("took ship/web/check.tests"), "{}", worker.said());
}

#[test]
fn where_there_is_no_remote_a_job_runs_here_and_says_so() {
    let Some(team) = Team::new(SHIP, &[("test", "true\n")]) else { return };
    team.own.scene.git(&["remote", "remove", "origin"]);
    team.own.ok(&["start", "ship", "--name", "web"]);
    let said = team.own.stop();
    said.allows_saying("has labels, but runs here: the project has no git remote `origin`");
    assert_eq!(team.sql("SELECT count(*) FROM phasegate.job"), "0");
}

#[test]
fn a_row_chooses_neither_the_environment_nor_the_tree() {
    let Some(team) = Team::new(SHIP, &[("test", "echo \"<$FORGED>\"; false\n")]) else { return };
    team.own.ok(&["start", "ship", "--name", "web"]);
    team.own.stop_within("4").allows_saying("waits for check tests");
    team.sql("UPDATE phasegate.job SET spec = jsonb_set(spec, '{spec,variables}', '[[\"FORGED\", \"yes\"]]')");
    let (_machine, worker) = team.worker("ship", &[]);
    team.own.stop().blocks("<>");
    drop(worker);
    team.own.stop_within("4").allows_saying("waits for check tests");
    let other = team.machine();
    let place = format!("{:?}", other.scene.root().display().to_string());
    let change = "UPDATE phasegate.job SET spec = jsonb_set(spec, '{sent,remote}', 'PLACE')";
    team.sql(&change.replace("PLACE", &place));
    let (_machine, worker) = team.worker("ship", &[]);
    worker.says("refuses it: its tree is from");
}
