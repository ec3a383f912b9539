//! One turn of an agent that speaks the Agent Client Protocol: `phasegate acp-turn`, which `drive --acp`
//! starts. A turn is a process of its own as for any other agent, so that the same supervisor bounds it
//! and cleans up behind it; the conversation is loaded again by the next turn.
//!
//! Requests go one after the other, so that a few lines of JSON-RPC are all that it needs of the protocol.

use std::io::{self, BufRead, BufReader, Lines, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use phasegate_clients::Rights;
use serde_json::{Value, json};

use crate::print;

/// How long an agent may take to end after it was told that nobody talks to it any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Characters with which a line is more than one command, or writes a file.
const SHELL: &[char] = &['|', '&', ';', '<', '>', '$', '`', '(', ')', '\n', '\\'];

/// What an agent may do when it asks. Nobody is there to be asked instead.
pub struct Allowed {
    root: PathBuf,
    all: bool,
    /// Commands, as they stand.
    lines: Vec<String>,
}

impl Allowed {
    /// Everything, or edits of the project, git where it only looks, and these commands.
    pub fn new(root: &Path, all: bool, lines: Vec<String>) -> Allowed {
        Allowed { root: root.to_path_buf(), all, lines }
    }

    /// Whether it may do what it asks for, by the kind of the tool and what that is about.
    fn allows(&self, call: &Value) -> bool {
        match call["kind"].as_str() {
            _ if self.all => true,
            Some("read" | "search" | "think") => true,
            Some("edit") => self.is_inside(call),
            Some("execute") => self.may_run(call),
            _ => false,
        }
    }

    fn is_inside(&self, call: &Value) -> bool {
        let places = call["locations"].as_array().into_iter().flatten();
        let mut paths = places.filter_map(|place| place["path"].as_str()).map(Path::new);
        paths.all(|path| {
            let climbs = path.components().any(|part| part == Component::ParentDir);
            !climbs && (path.is_relative() || path.starts_with(&self.root))
        })
    }

    fn may_run(&self, call: &Value) -> bool {
        let line = call["rawInput"]["command"].as_str().or(call["title"].as_str());
        let line = line.unwrap_or_default().trim().trim_matches('`');
        let reads = |prefix: String| {
            let rest = line.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let is_plain = !line.contains(SHELL);
        self.lines.iter().any(|known| known == line)
            || is_plain && Rights::default().prefixes().any(reads)
    }
}

/// `phasegate acp-turn`: the prompt is on stdin; what the agent said is printed as JSON.
pub fn main(allowed: Allowed, session: Option<String>, command: &[String]) -> io::Result<ExitCode> {
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    match turn(allowed, session, command, &prompt) {
        Ok(said) => {
            print::line(&said.to_string());
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            print::note(&format!("error: {why}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn turn(
    allowed: Allowed,
    session: Option<String>,
    command: &[String],
    prompt: &str,
) -> Result<Value, String> {
    let (program, arguments) = command.split_first().ok_or("no agent was named")?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&allowed.root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the agent has no streams".into());
    };
    let lines = BufReader::new(output).lines();
    let mut talk = Talk { input, lines, asked: 0, heard: Heard::default(), allowed };
    let said = talk.turn(session, prompt);
    // It may write its session down when nobody talks to it any more.
    drop(talk);
    end(&mut child);
    said
}

/// Waits for the end of an agent, and makes one where it does not come.
fn end(child: &mut Child) {
    let began = Instant::now();
    while began.elapsed() < FAREWELL {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What was heard of a session.
#[derive(Debug, Default)]
struct Heard {
    /// The last message: what was said since a tool was last used.
    text: String,
    /// The next piece of text begins another message.
    is_interrupted: bool,
    /// What the session has cost so far, in dollars.
    dollars: Option<f64>,
}

impl Heard {
    fn hear(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                if std::mem::take(&mut self.is_interrupted) {
                    self.text.clear();
                }
                self.text.push_str(update["content"]["text"].as_str().unwrap_or_default());
            }
            Some("tool_call") => self.is_interrupted = true,
            Some("usage_update") => {
                print::note(&format!("{} of {} tokens", update["used"], update["size"]));
                let cost = Some(&update["cost"]).filter(|cost| cost["currency"] == "USD");
                self.dollars = cost.and_then(|cost| cost["amount"].as_f64()).or(self.dollars);
            }
            _ => {}
        }
    }
}

/// A conversation with an agent's process.
struct Talk {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// How many requests were sent.
    asked: u64,
    heard: Heard,
    allowed: Allowed,
}

impl Talk {
    fn turn(&mut self, known: Option<String>, prompt: &str) -> Result<Value, String> {
        let about = json!({ "name": "phasegate", "version": env!("CARGO_PKG_VERSION") });
        let about = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": about });
        let told = self.ask("initialize", &about)?;
        let loads = told["agentCapabilities"]["loadSession"] == true;
        let session = self.open(known.filter(|_| loads))?;
        // What was said before is told again where a session is loaded.
        let before = std::mem::take(&mut self.heard).dollars.unwrap_or(0.0);
        let text = json!([{ "type": "text", "text": prompt }]);
        let done = self.ask("session/prompt", &json!({ "sessionId": session, "prompt": text }))?;
        if done["stopReason"] != "end_turn" {
            print::note(&format!("the agent ended its turn: {}", done["stopReason"]));
        }
        let dollars = self.heard.dollars.map(|after| (after - before).max(0.0));
        Ok(json!({ "text": self.heard.text, "session": session, "dollars": dollars }))
    }

    /// The session of an earlier turn, or a new one where there is none or it cannot be loaded.
    fn open(&mut self, known: Option<String>) -> Result<String, String> {
        let root = self.allowed.root.clone();
        if let Some(session) = known {
            let load = json!({ "sessionId": session, "cwd": root, "mcpServers": [] });
            match self.ask("session/load", &load) {
                Ok(_) => return Ok(session),
                Err(why) => print::note(&format!("session {session} cannot be loaded: {why}")),
            }
        }
        let new = self.ask("session/new", &json!({ "cwd": root, "mcpServers": [] }))?;
        let session = new["sessionId"].as_str().ok_or("the agent did not open a session")?;
        Ok(session.to_string())
    }

    /// Asks the agent, and hears what it says and asks until it has answered.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        while let Some(line) = self.lines.next() {
            let line = line.map_err(|error| error.to_string())?;
            // Some agents print other things before they speak the protocol.
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some(asked), Some(number)) => {
                    let answer = answer(asked, &message["params"], number, &self.allowed);
                    self.send(&answer)?;
                }
                (Some("session/update"), None) => self.heard.hear(&message["params"]["update"]),
                (None, Some(number)) if *number == json!(id) => {
                    return match message.get("error") {
                        Some(error) => Err(format!("{method}: {error}")),
                        None => Ok(message["result"].clone()),
                    };
                }
                _ => {}
            }
        }
        Err(format!("the agent ended before it answered {method}"))
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        writeln!(self.input, "{message}").map_err(|error| format!("the agent ended: {error}"))
    }
}

/// What an agent is answered. What it is refused is said, with what would allow it.
fn answer(method: &str, params: &Value, id: &Value, allowed: &Allowed) -> Value {
    if method != "session/request_permission" {
        let error = json!({ "code": -32601, "message": format!("{method} is not offered") });
        return json!({ "jsonrpc": "2.0", "id": id, "error": error });
    }
    let call = &params["toolCall"];
    let kinds = if allowed.allows(call) {
        ["allow_once", "allow_always"]
    } else {
        let title = call["title"].as_str().or(call["kind"].as_str()).unwrap_or("a tool");
        print::note(&format!("refused to the agent: {title} (`--all-rights` allows it)"));
        ["reject_once", "reject_always"]
    };
    let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_kind = |kind: &&str| options.iter().find(|option| option["kind"] == **kind);
    let outcome = match kinds.iter().find_map(of_kind) {
        Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
        None => json!({ "outcome": "cancelled" }),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } })
}
