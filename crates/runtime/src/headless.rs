//! The usual client, Claude Code, without a person: how it is called, and what it prints at its end.

use std::io;
use std::path::Path;

use phasegate_engine::step::Actor;
use serde::Deserialize;

use crate::process;

/// Its hooks would ask us about an agent that we have started, and its output has one shape only
/// without `verbose`.
pub const SETTINGS: &str = r#"{"disableAllHooks":true,"verbose":false}"#;

/// What an agent may use where it has no other rights.
const TOOLS: &str = "Read,Grep,Glob,Write";

/// And one that works.
const WORK_TOOLS: &str = "Read,Grep,Glob,Write,Edit";

/// How much of the end of a log is searched for what an agent has cost.
const MOST_TAIL: u64 = 256 << 10;

/// What an agent has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In millionths of a dollar.
    pub micro_dollars: u64,
    pub turns: u64,
}

/// The line with which the client ends.
#[derive(Debug, Deserialize)]
struct Result {
    #[serde(rename = "type")]
    kind: String,
    total_cost_usd: Option<f64>,
    num_turns: Option<u64>,
}

/// What an agent has cost, as its log says.
pub fn cost(log: &Path) -> Cost {
    let tail = process::tail(log, MOST_TAIL).unwrap_or_default();
    let results = tail.lines().rev().filter_map(|line| serde_json::from_str::<Result>(line).ok());
    let last = results.into_iter().find(|result| result.kind == "result");
    last.map_or(Cost::default(), |result| Cost {
        micro_dollars: micro_dollars(result.total_cost_usd),
        turns: result.num_turns.unwrap_or(0),
    })
}

/// Dollars in millionths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below zero")]
pub fn micro_dollars(dollars: Option<f64>) -> u64 {
    // A million dollars are a lie.
    (dollars.unwrap_or(0.0).clamp(0.0, 1e6) * 1e6).round() as u64
}

/// The command of an agent: it prints what it does as it does it, and has our own MCP server and no
/// other.
///
/// # Errors
/// Where the model has no plain name, or this program cannot be found.
pub fn agent(role: Actor, model: Option<&str>, root: &Path) -> io::Result<Vec<String>> {
    let program = std::env::current_exe()?;
    let server = serde_json::json!({ "mcpServers": { "phasegate": {
        "command": program, "args": ["-C", root, "mcp"]
    } } });
    let flags = ["--print", "--output-format", "stream-json", "--verbose"];
    let more = ["--settings", r#"{"disableAllHooks":true}"#, "--no-session-persistence"];
    let mut command = vec!["claude".to_string()];
    command.extend(flags.into_iter().chain(more).map(str::to_string));
    command.extend(["--strict-mcp-config".into(), "--mcp-config".into(), server.to_string()]);
    let tools = if role == Actor::Worker { WORK_TOOLS } else { TOOLS };
    command.extend(permissions(tools, true));
    command.extend(model_flags(model).map_err(io::Error::other)?);
    Ok(command)
}

/// Agents run what they are told to run, and nobody is there to ask. To root the client gives such
/// rights only in a sandbox; without one, they have these tools, and our own if they use them.
pub fn permissions(tools: &str, with_own: bool) -> Vec<String> {
    let in_sandbox = std::env::var_os("IS_SANDBOX").is_some_and(|value| value == "1");
    if !rustix::process::geteuid().is_root() || in_sandbox {
        return vec!["--dangerously-skip-permissions".into()];
    }
    let own = if with_own { ",mcp__phasegate" } else { "" };
    let allowed = format!("{tools}{own}");
    let flags = ["--permission-mode", "dontAsk", "--tools", tools, "--allowedTools", &allowed];
    flags.map(str::to_string).to_vec()
}

/// What a reviewer may use.
pub fn review_permissions() -> Vec<String> {
    permissions(TOOLS, false)
}

/// The flags that choose a model.
///
/// # Errors
/// Where it has no plain name.
pub fn model_flags(model: Option<&str>) -> std::result::Result<Vec<String>, String> {
    let Some(model) = model.filter(|model| !model.is_empty()) else { return Ok(Vec::new()) };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@[]".contains(c);
    if model.starts_with('-') || !model.chars().all(plain) {
        return Err(format!("{model:?} names no model"));
    }
    Ok(vec!["--model".into(), model.into()])
}

/// A client that works turn by turn, each turn a process.
#[derive(Clone, Debug)]
pub enum Dialogue {
    Claude,
    Codex,
    Gemini,
    /// Any other program: it is told everything on stdin, and what it prints is what it says.
    Command(Vec<String>),
}

/// What came of a turn.
#[derive(Clone, Debug, Default)]
pub struct Spoken {
    pub text: String,
    pub session: Option<String>,
    pub cost: Cost,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Printed {
    result: Option<String>,
    response: Option<String>,
    session_id: Option<String>,
    total_cost_usd: Option<f64>,
    num_turns: Option<u64>,
}

impl Dialogue {
    /// The client of that name.
    pub fn named(name: &str) -> Option<Dialogue> {
        match name {
            "claude" => Some(Dialogue::Claude),
            "codex" => Some(Dialogue::Codex),
            "gemini" => Some(Dialogue::Gemini),
            _ => None,
        }
    }

    /// The command of the next turn of a conversation, and the conversation's name.
    pub fn command(&self, session: Option<&str>) -> (Vec<String>, Option<String>) {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        match self {
            Dialogue::Claude => {
                let settings = ["--output-format", "json", "--settings", SETTINGS];
                let mut command = words(&["claude", "--print"]);
                command.extend(words(&settings));
                command.extend(permissions(WORK_TOOLS, true));
                if let Some(session) = session {
                    command.extend(words(&["--resume", session]));
                }
                (command, session.map(str::to_string))
            }
            Dialogue::Codex => match session {
                None => (words(&["codex", "exec", "--json", "--full-auto", "-"]), None),
                Some(session) => {
                    let command =
                        ["codex", "exec", "--json", "--full-auto", "resume", session, "-"];
                    (words(&command), Some(session.to_string()))
                }
            },
            Dialogue::Gemini => (
                words(&["gemini", "--output-format", "json", "--yolo"]),
                session.map(str::to_string),
            ),
            Dialogue::Command(command) => (command.clone(), None),
        }
    }

    /// What an agent has said in a turn, by what its process printed.
    pub fn spoken(&self, output: &str) -> Spoken {
        let plain = || Spoken { text: output.trim().to_string(), ..Spoken::default() };
        match self {
            Dialogue::Command(_) => plain(),
            Dialogue::Claude | Dialogue::Gemini => {
                let Ok(printed) = serde_json::from_str::<Printed>(output) else { return plain() };
                Spoken {
                    text: printed.result.or(printed.response).unwrap_or_default(),
                    session: printed.session_id,
                    cost: Cost {
                        micro_dollars: micro_dollars(printed.total_cost_usd),
                        turns: printed.num_turns.unwrap_or(0),
                    },
                }
            }
            Dialogue::Codex => {
                let mut spoken = Spoken::default();
                for line in output.lines() {
                    let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
                        continue;
                    };
                    if let Some(thread) = event.get("thread_id").and_then(|it| it.as_str()) {
                        spoken.session = Some(thread.to_string());
                    }
                    let is_message =
                        event.pointer("/item/type").is_some_and(|it| it == "agent_message");
                    if let (true, Some(text)) = (is_message, event.pointer("/item/text")) {
                        spoken.text = text.as_str().unwrap_or_default().to_string();
                    }
                }
                spoken
            }
        }
    }
}
