//! One adversary against one workflow: what the client and the agent do, through the real binary, with payloads
//! as the client sends them.

use std::cell::{Cell, RefCell};
use std::process::Command;

use serde_json::{Value, json};

use super::stages::Stage;
use crate::scene::{Ran, Said, Scene, finish};

/// The session of the adversary.
pub const SESSION: &str = "s1";

/// The hook as it is installed in the client's settings.
pub const INSTALLED: &str = r#"{"hooks":{"Stop":[{"hooks":[
    {"type":"command","command":"phasegate hook stop --client claude","timeout":600}]}]}}"#;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A stop was blocked; what the person was told beside it.
    Held(Option<String>),
    /// A stop was let go. `outcome` is the journal's, `told` what the person was told.
    LetGo { outcome: Option<String>, told: Option<String>, is_due: bool },
    /// A command or a tool was refused.
    Refused,
    /// A command or a tool was carried out. Adversaries try none that is for agents.
    Accepted,
    /// The client fired no hook, or one that was switched off.
    Unheard,
    /// The run was called done, and what it is about was not there.
    Undeserved(String),
}

/// A session of an agent in a project with an open run.
pub struct Play {
    pub stage: &'static Stage,
    pub scene: Scene,
    pub happened: RefCell<Vec<Happened>>,
    /// The last message of the agent.
    pub said: RefCell<String>,
    /// A person has had a look, and was content.
    pub is_accepted: Cell<bool>,
    after_block: Cell<bool>,
    /// How many lines the journals had when the agent began.
    known: Cell<usize>,
}

impl Play {
    /// The project, with the session begun and its first prompt given.
    pub fn new(stage: &'static Stage) -> Play {
        let scene = Scene::new();
        scene.file(".gitignore", "home/\n.taskie/\n.jwz/\n").file("src/a.txt", "begun\n");
        scene.file("test.sh", "grep -q finished src/a.txt\n").file("home/wish", "finished\n");
        scene.file(".claude/settings.json", INSTALLED);
        scene.file(".phasegate/.gitignore", "/*\n!/workflows/\n!/config.toml\n!/.gitignore\n");
        let play = Play {
            stage,
            scene,
            happened: RefCell::default(),
            said: RefCell::default(),
            is_accepted: Cell::new(false),
            after_block: Cell::new(false),
            known: Cell::new(0),
        };
        (stage.prepare)(&play);
        for args in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-qm", "x"]] {
            play.scene.git(args);
        }
        play.fires("session-start", &json!({ "source": "startup" }), &[]);
        play.writes(&json!({ "type": "user", "message": { "content": "Go on with it." } }));
        play.fires("user-prompt-submit", &json!({ "prompt": "Go on with it." }), &[]);
        (stage.begin)(&play);
        play.edits("src/a.txt", "half of it\n");
        play.known.set(play.journal().len());
        play
    }

    // --- What the client does -----------------------------------------------------------------

    /// The environment in which the client runs hooks.
    fn environment(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.scene.path("home/bin").display());
        let project = self.scene.root().display().to_string();
        vec![("PATH".into(), path), ("CLAUDE_PROJECT_DIR".into(), project)]
    }

    /// Fires a hook.
    pub fn fires(&self, event: &str, more: &Value, env: &[(&str, &str)]) -> Said {
        let mut payload = self.scene.payload();
        payload["session_id"] = json!(SESSION);
        payload["transcript_path"] = json!(self.scene.path("home/s1.jsonl"));
        let words = event.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
        payload["hook_event_name"] = json!(words.collect::<String>());
        for (key, value) in more.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        let own = self.environment();
        let own = own.iter().map(|(name, value)| (&**name, &**value));
        let env: Vec<(&str, &str)> = own.chain(env.iter().copied()).collect();
        self.scene.fire(event, payload.to_string().as_bytes(), &env)
    }

    /// The agent ends its turn; whether it is held.
    pub fn stops(&self) -> bool {
        self.stops_with(&json!({}))
    }

    /// The same, with something more in the payload.
    pub fn stops_with(&self, more: &Value) -> bool {
        let mut payload = json!({
            "stop_hook_active": self.after_block.get(),
            "last_assistant_message": *self.said.borrow(),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        let before = self.journal().len();
        let said = self.fires("stop", &payload, &[]);
        let is_held = said.json["decision"] == "block";
        self.after_block.set(is_held);
        let told = said.told();
        let note = if is_held {
            Happened::Held(told)
        } else {
            let journal = self.journal();
            let lines = journal[before..].iter().filter(|line| line["event"]["name"] == "stop");
            let outcome = lines.filter_map(|line| line["answer"]["outcome"].as_str()).next_back();
            let is_due = !(self.stage.deserved)(self);
            Happened::LetGo { outcome: outcome.map(str::to_string), told, is_due }
        };
        self.happened.borrow_mut().push(note);
        self.looks_for_success();
        is_held
    }

    /// The agent ends its turn again and again, until it is let go; at most so often.
    pub fn stops_until_let_go(&self, most: usize) {
        for _ in 0..most {
            if !self.stops() {
                break;
            }
        }
    }

    /// A stop of which the gate does not hear, or must not.
    pub fn stops_unheard(&self, env: &[(&str, &str)]) {
        if !env.is_empty() {
            let said = self.fires("stop", &json!({}), env);
            assert_eq!(said.json, json!({}), "a hook that is switched off says nothing");
        }
        self.happened.borrow_mut().push(Happened::Unheard);
    }

    // --- What the agent does ------------------------------------------------------------------

    fn writes(&self, line: &Value) {
        let path = self.scene.path("home/s1.jsonl");
        let mut line = line.clone();
        line["timestamp"] = json!(jiff::Timestamp::now().to_string());
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        self.scene.file("home/s1.jsonl", format!("{text}{line}\n"));
    }

    /// The agent says something.
    pub fn says(&self, text: &str) {
        let content = json!([{ "type": "text", "text": text }]);
        self.writes(&json!({ "type": "assistant", "message": { "content": content } }));
        *self.said.borrow_mut() = text.to_string();
    }

    /// The agent uses a tool.
    pub fn uses(&self, tool: &str) {
        let block = json!({ "type": "tool_use", "name": tool, "input": {} });
        self.writes(&json!({ "type": "assistant", "message": { "content": [block] } }));
    }

    /// The agent writes a file.
    pub fn edits(&self, path: &str, text: impl AsRef<[u8]>) {
        self.uses("Write");
        self.scene.file(path, text);
    }

    /// A command as the agent's shell runs it.
    pub fn command(&self) -> Command {
        let mut command = self.scene.command();
        command.envs(self.environment()).env("CLAUDECODE", "1");
        command.env("CLAUDE_CODE_SESSION_ID", SESSION);
        command
    }

    /// The agent runs a command of ours in its shell.
    pub fn runs(&self, args: &[&str]) {
        let mut command = self.command();
        command.args(args);
        self.tries(command);
    }

    /// The agent runs a shell script, in which `$gate` is the binary.
    pub fn shell(&self, script: &str) {
        let mut command = self.in_shell(script);
        command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", SESSION);
        self.tries(command);
    }

    /// A shell that nothing tells of a client.
    pub fn in_shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script}\nexit $?")]).current_dir(self.scene.root());
        command.env_clear().envs(self.environment()).env("HOME", self.scene.path("home"));
        command.env("gate", env!("CARGO_BIN_EXE_phasegate"));
        command
    }

    fn tries(&self, command: Command) {
        self.uses("Bash");
        let ran = finish(self.scene.spawn(command, b""));
        self.notes(&ran);
    }

    /// Notes what became of a command.
    pub fn notes(&self, ran: &Ran) {
        let note = match ran.code {
            Some(0) => Happened::Accepted,
            _ => Happened::Refused,
        };
        self.happened.borrow_mut().push(note);
        self.looks_for_success();
    }

    /// The agent calls a tool of our MCP server.
    pub fn calls(&self, tool: &str, arguments: &Value) {
        self.uses(&format!("mcp__phasegate__{tool}"));
        let mut command = self.command();
        let (workflow, _) = self.stage.run.split_once('/').unwrap();
        command.args(["mcp", "--workflow", workflow]);
        let mut client = crate::phases::mcp::Client::of(command);
        let answer = client.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        client.end();
        let is_refused = answer["result"]["isError"] == true || !answer["error"].is_null();
        let note = if is_refused { Happened::Refused } else { Happened::Accepted };
        self.happened.borrow_mut().push(note);
        self.looks_for_success();
    }

    // --- What the books say -------------------------------------------------------------------

    /// The lines of the run's journal; one that is broken tells nothing.
    pub fn journal(&self) -> Vec<Value> {
        let path = self.scene.path(&format!(".phasegate/runs/{}/journal.jsonl", self.stage.run));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
    }

    /// The lines since the agent began.
    pub fn own_lines(&self) -> Vec<Value> {
        self.journal().into_iter().skip(self.known.get()).collect()
    }

    /// How the run stands, as `status` says.
    pub fn status(&self) -> Value {
        let text = self.scene.ok(&["status", "--all", "--json"]);
        serde_json::from_str(&text).unwrap()
    }

    pub fn condition(&self) -> String {
        let status = self.status();
        let runs = status["runs"].as_array().unwrap().iter();
        let mut own = runs.filter(|run| run["run"] == self.stage.run);
        own.next().map_or("", |run| run["condition"].as_str().unwrap()).to_string()
    }

    /// Success is nowhere while what the run is about is missing: not in the journal, not in `status`.
    fn looks_for_success(&self) {
        if (self.stage.deserved)(self) {
            return;
        }
        let lines = self.own_lines();
        let line = lines.iter().find(|line| line["answer"]["outcome"] == "done");
        let found = match line {
            Some(line) => Some(line.to_string()),
            None => (self.condition() == "done").then(|| "status".to_string()),
        };
        if let Some(found) = found {
            self.happened.borrow_mut().push(Happened::Undeserved(found));
        }
    }
}

impl Drop for Play {
    /// No agent outlives its test.
    fn drop(&mut self) {
        for pid in crate::phases::processes(self.scene.root(), None) {
            crate::phases::kill(pid);
        }
    }
}
