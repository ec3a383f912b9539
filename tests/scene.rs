//! A project in a temporary folder, and the binary to run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::postgres::server::shared;

pub struct Scene {
    folder: tempfile::TempDir,
}

/// What a process left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// What the hook said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub json: Value,
}

impl Scene {
    /// An empty project.
    pub fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".phasegate")).unwrap();
        Scene { folder }
    }

    /// A folder that is no project.
    pub fn bare() -> Scene {
        Scene { folder: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file.
    pub fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Scene {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn read(&self, path: &str) -> String {
        match self.kept_of(path) {
            Some((run, "run.json")) if store().is_some() => self.ledger(run),
            _ => std::fs::read_to_string(self.path(path)).unwrap(),
        }
    }

    /// The run that a path is about where runs are files, and the file.
    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    fn kept_of<'p>(&self, path: &'p str) -> Option<(&'p str, &'p str)> {
        path.strip_prefix(".phasegate/runs/")?.rsplit_once('/')
    }

    /// The ledger of a run that a server keeps.
    fn ledger(&self, run: &str) -> String {
        let (workflow, name) = run.split_once('/').unwrap();
        let root = self.root().canonicalize().unwrap();
        let query = format!(
            "SELECT convert_from(bytes, 'UTF8') FROM phasegate.value JOIN phasegate.run ON run = id \
             WHERE kind = 'ledger' AND workflow = '{workflow}' AND name = '{name}' \
             AND project LIKE '%:{}'",
            root.display()
        );
        let url = store().unwrap();
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        shared().unwrap().sql(database, &query)
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.read(path)).unwrap()
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The binary with a clean environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasegate"));
        command.current_dir(self.root()).env_clear().env("HOME", self.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        if let Some(url) = store() {
            command.env("PHASEGATE_STORE", url);
        }
        command
    }

    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    pub fn spawn(&self, mut command: Command, input: &[u8]) -> Child {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A process that does not read its input closes the pipe early.
        let _ = child.stdin.take().unwrap().write_all(input);
        child
    }

    /// Runs a command of the command line.
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.command();
        command.args(args);
        finish(self.spawn(command, b""))
    }

    /// Runs a command as a person in a terminal does.
    pub fn by_hand(&self, args: &[&str]) -> Ran {
        self.by_hand_with(args, &[])
    }

    /// The same, with an environment.
    pub fn by_hand_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let mut command = self.command();
        command.args(args).envs(env.iter().copied());
        self.at_terminal(command)
    }

    /// Runs any command at a terminal.
    pub fn at_terminal(&self, command: Command) -> Ran {
        self.typing("", command)
    }

    /// Runs any command at a terminal on which this was typed.
    #[expect(clippy::unused_self, reason = "reads better where it is used")]
    pub fn typing(&self, typed: &str, mut command: Command) -> Ran {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let line = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
        let mut terminal = std::fs::File::from(terminal);
        terminal.write_all(typed.as_bytes()).unwrap();
        command.stdin(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// Runs git in the project; what it printed.
    pub fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        let output = command.current_dir(self.root()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command as an agent in its client does.
    pub fn by_agent(&self, args: &[&str]) -> Ran {
        let mut command = self.command();
        command.args(args).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s1");
        finish(self.spawn(command, b""))
    }

    /// Runs a command that must succeed; what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// Runs a command at a terminal that must succeed; what it printed.
    #[track_caller]
    pub fn ok_by_hand(&self, args: &[&str]) -> String {
        let ran = self.by_hand(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// A payload as the real client sends it.
    pub fn payload(&self) -> Value {
        json!({
            "session_id": "s1",
            "transcript_path": self.path("transcript.jsonl"),
            "cwd": self.root(),
            "prompt_id": "p1",
            "permission_mode": "default",
            "effort": { "level": "medium" },
            "hook_event_name": "Stop",
            "stop_hook_active": false,
            "last_assistant_message": "Done.",
            "background_tasks": [],
            "session_crons": [],
        })
    }

    /// Fires the hook with a payload.
    pub fn hook(&self, payload: &Value) -> Said {
        self.hook_raw(payload.to_string().as_bytes(), &[])
    }

    /// Fires the hook of another event.
    pub fn hook_of(&self, event: &str, session: &str, more: &Value) -> Said {
        let words = event.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
        let mut payload = self.payload();
        payload["session_id"] = json!(session);
        payload["hook_event_name"] = json!(words.collect::<String>());
        for (key, value) in more.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        self.fire(event, payload.to_string().as_bytes(), &[])
    }

    /// Fires the hook with any bytes and environment.
    pub fn hook_raw(&self, input: &[u8], env: &[(&str, &str)]) -> Said {
        self.fire("stop", input, env)
    }

    pub fn fire(&self, event: &str, input: &[u8], env: &[(&str, &str)]) -> Said {
        let mut command = self.command();
        command.args(["hook", event, "--client", "claude"]).envs(env.iter().copied());
        let ran = finish(self.spawn(command, input));
        // Of a compaction the client would take an empty object for instructions.
        let silent = event == "pre-compact" && ran.stdout.is_empty();
        let json = serde_json::from_str(if silent { "{}" } else { &ran.stdout });
        let json =
            json.unwrap_or_else(|error| panic!("stdout is not one JSON object: {error}: {ran:?}"));
        Said { code: ran.code, json }
    }

    /// The first stop of a prompt.
    pub fn stop(&self) -> Said {
        self.hook(&self.payload())
    }

    /// A stop that follows a block.
    pub fn stop_again(&self) -> Said {
        let mut payload = self.payload();
        payload["stop_hook_active"] = json!(true);
        self.hook(&payload)
    }

    /// A stop of another session.
    pub fn stop_of(&self, session: &str, again: bool) -> Said {
        let mut payload = self.payload();
        payload["session_id"] = json!(session);
        payload["stop_hook_active"] = json!(again);
        self.hook(&payload)
    }

    /// A triage with some pending entries.
    pub fn with_triage(entries: usize) -> Scene {
        let scene = Scene::new();
        let entries: Vec<Value> = (0..entries)
            .map(|index| json!({ "entry_index": index, "name": format!("e{index}"), "status": "pending" }))
            .collect();
        let state = json!({ "phase": "triage", "batch_size": 2, "entries": entries });
        scene.file(STATE, serde_json::to_string_pretty(&state).unwrap());
        scene
    }

    /// Writes a result for an entry.
    pub fn result(&self, entry: usize, true_positive: bool, group: &str) -> &Scene {
        let result = json!({ "is_true_positive": true_positive, "group_id": group });
        self.file(&format!(".phasegate/triage/results/{entry}.json"), result.to_string())
    }

    pub fn journal(&self, run: &str) -> Vec<Value> {
        let text = match store() {
            None => {
                let path = self.path(&format!(".phasegate/runs/{run}/journal.jsonl"));
                std::fs::read_to_string(path).unwrap_or_default()
            }
            Some(_) => finish(self.spawn(self.logged(run), b"")).stdout,
        };
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Prints the journal of a run, wherever that is.
    fn logged(&self, run: &str) -> Command {
        let mut command = self.command();
        command.args(["log", run, "--json"]);
        command
    }

    /// Every file below the project with its content, to see that nothing changed.
    pub fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // Which project a session is bound to is the user's, not the project's.
                if path.ends_with("state/phasegate/sessions") {
                    continue;
                }
                if path.is_dir() {
                    walk(&path, files);
                } else {
                    files.push((path.clone(), std::fs::read(path).unwrap_or_default()));
                }
            }
        }
        let mut files = Vec::new();
        walk(self.root(), &mut files);
        files.sort();
        files
    }
}

/// The server that runs are kept on, where the tests are run on one: `PHASEGATE_TEST_STORE=postgres`. Each scene is a
/// project of its own there.
fn store() -> Option<&'static str> {
    static STORE: OnceLock<Option<String>> = OnceLock::new();
    let made = || {
        let is_wanted = std::env::var_os("PHASEGATE_TEST_STORE").is_some_and(|it| it == "postgres");
        let server = if is_wanted { shared()? } else { return None };
        let url = server.database();
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasegate"));
        command.args(["store", "migrate"]).env("PHASEGATE_STORE", &url);
        assert!(command.status().unwrap().success());
        Some(url)
    };
    STORE.get_or_init(made).as_deref()
}

/// The state document of [`Scene::with_triage`].
pub const STATE: &str = ".phasegate/triage/web_triage.json";

/// The journal's lines that none of the answers is about, each answer having a line of its own.
pub fn unanswered(journal: &[Value], answers: &[Value]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..journal.len()).collect();
    for answer in answers {
        let of_answer = |index: &usize| {
            let line = &journal[*index]["answer"];
            let text =
                |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_string();
            if answer["decision"] == "block" {
                return line["decision"] == "block"
                    && text(answer, "reason").starts_with(&text(line, "reason"));
            }
            line["decision"] == "allow"
                && text(answer, "systemMessage").contains(&text(line, "message"))
        };
        let found = left.iter().position(of_answer);
        left.remove(found.unwrap_or_else(|| panic!("no line has the answer {answer}")));
    }
    left
}

pub fn finish(child: Child) -> Ran {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

impl Said {
    /// It blocks, and the reason has this text.
    #[track_caller]
    pub fn blocks(&self, text: &str) {
        assert_eq!(self.json["decision"], "block", "{self:?}");
        let reason = self.json["reason"].as_str().unwrap();
        assert!(reason.contains(text), "{text:?} is not in {reason:?}");
        assert_eq!(self.code, Some(0));
    }

    /// It blocks, and the user is told this.
    #[track_caller]
    pub fn blocks_telling(&self, text: &str) {
        self.blocks("");
        let message = self.json["systemMessage"].as_str().unwrap_or_default();
        assert!(message.contains(text), "{text:?} is not in {message:?}");
    }

    /// It allows, and the user is told this.
    #[track_caller]
    pub fn allows_saying(&self, text: &str) {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.json.get("decision"), None, "{self:?}");
        let message = self.json["systemMessage"].as_str().unwrap_or_default();
        assert!(message.contains(text), "{text:?} is not in {message:?}");
    }

    /// What the user is told, beside the way out of a block.
    pub fn told(&self) -> Option<String> {
        let message = self.json.get("systemMessage")?.as_str().unwrap();
        let told = message.split(" This is run ").next().unwrap().to_string();
        (told != "phasegate:").then_some(told)
    }

    /// It allows without a word.
    #[track_caller]
    pub fn allows(&self) {
        assert_eq!((self.code, &self.json), (Some(0), &json!({})));
    }
}

impl Scene {
    /// What the store tells other machines is what `status` says here, unless somebody has edited a document since.
    fn compare_views(&self) {
        let read = |args: &[&str]| serde_json::from_str::<Value>(&self.run(args).stdout);
        let (Ok(status), Ok(store)) =
            (read(&["status", "--all", "--json"]), read(&["store", "status", "--json"]))
        else {
            return;
        };
        let Some(project) = store["project"].as_str() else { return };
        let Ok(fleet) = read(&["fleet", "--all", "--project", project, "--json"]) else { return };
        for there in fleet["runs"].as_array().into_iter().flatten() {
            let here = status["runs"].as_array().into_iter().flatten();
            let Some(here) = here.into_iter().find(|here| here["run"] == there["run"]) else {
                continue;
            };
            if here["phase"] != there["phase"] {
                continue;
            }
            assert_eq!(there["condition"], here["condition"], "{there}\n{here}");
            let told = [&here["problem"], &here["needs_you"]].into_iter().find(|it| !it.is_null());
            assert!(told.is_none_or(|told| told == &there["needs"]), "{there}\n{here}");
        }
    }
}

/// With `PHASEGATE_TEST_REPLAY`, every test ends by deciding all lines of its journals again; with
/// `PHASEGATE_TEST_FLEET`, on a server, by asking whether other machines are told what `status` says.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if std::env::var_os("PHASEGATE_TEST_FLEET").is_some() {
            self.compare_views();
        }
        if std::env::var_os("PHASEGATE_TEST_REPLAY").is_none() {
            return;
        }
        let ran = self.run(&["replay", "--all", "--json"]);
        let Ok(told) = serde_json::from_str::<Value>(&ran.stdout) else { return };
        assert_eq!(told["different"], json!([]), "{told:#}");
    }
}
