//! The clients of coding agents: what each sends to a hook, what it understands, and what it does on
//! its own. Nothing else here knows one client from another.

pub mod install;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Copilot,
    Vscode,
    Cursor,
    Droid,
}

/// All of them.
pub const CLIENTS: [Client; 8] = [
    Client::Claude,
    Client::Codex,
    Client::Gemini,
    Client::Qwen,
    Client::Copilot,
    Client::Vscode,
    Client::Cursor,
    Client::Droid,
];

/// What a client does on its own when it was told to go on too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// How often it lets itself be told.
    pub most: u64,
    /// Whether work in between does not count.
    pub on_all: bool,
}

impl Client {
    /// Its name in the installed command.
    pub fn name(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Qwen => "qwen",
            Client::Copilot => "copilot",
            Client::Vscode => "vscode",
            Client::Cursor => "cursor",
            Client::Droid => "droid",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Client::Claude => "Claude Code",
            Client::Codex => "Codex CLI",
            Client::Gemini => "Gemini CLI",
            Client::Qwen => "Qwen Code",
            Client::Copilot => "Copilot CLI",
            Client::Vscode => "VS Code",
            Client::Cursor => "Cursor",
            Client::Droid => "Factory Droid",
        }
    }

    /// Its program, where it is one for a command line.
    pub fn program(self) -> Option<&'static str> {
        Some(match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Qwen => "qwen",
            Client::Copilot => "copilot",
            Client::Droid => "droid",
            Client::Vscode | Client::Cursor => return None,
        })
    }

    /// Whether it seems to be used here: it has a folder of its own.
    pub fn is_here(self, base: &Path) -> bool {
        let folder = match self {
            Client::Claude => ".claude",
            Client::Codex => ".codex",
            Client::Gemini => ".gemini",
            Client::Qwen => ".qwen",
            Client::Vscode => ".vscode",
            Client::Cursor => ".cursor",
            Client::Droid => ".factory",
            // Its folder is that of everybody's workflows.
            Client::Copilot => ".github/hooks",
        };
        base.join(folder).is_dir()
    }

    /// The client of that name.
    pub fn named(name: &str) -> Option<Client> {
        CLIENTS.into_iter().find(|client| client.name() == name)
    }

    /// How long a hook may take before the client gives it up, less what we need to answer. The
    /// environment can say otherwise, for clients whose settings do.
    pub fn time(self) -> Duration {
        let set = std::env::var("PHASEGATE_HOOK_SECONDS").ok();
        if let Some(seconds) = set.and_then(|seconds| seconds.trim().parse().ok()) {
            return Duration::from_secs(seconds);
        }
        Duration::from_secs(match self {
            Client::Claude | Client::Codex => 9 * 60,
            Client::Gemini | Client::Qwen | Client::Cursor | Client::Droid => 50,
            Client::Copilot | Client::Vscode => 25,
        })
    }

    /// When it ends the turn on its own, as if all were well. The environment can change the number
    /// for Claude Code; 0 means never.
    pub fn cap(self) -> Option<Cap> {
        match self {
            Client::Claude => {
                let set = std::env::var("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").ok();
                let most = set.and_then(|cap| cap.trim().parse().ok()).unwrap_or(8);
                (most > 0).then_some(Cap { most, on_all: false })
            }
            Client::Qwen | Client::Copilot => Some(Cap { most: 8, on_all: true }),
            Client::Cursor => Some(Cap { most: 5, on_all: true }),
            Client::Gemini => Some(Cap { most: 100, on_all: true }),
            Client::Codex | Client::Vscode | Client::Droid => None,
        }
    }

    /// Whether the exit code of a block that a workflow wants means anything to it.
    pub fn heeds_exit(self) -> bool {
        self == Client::Claude
    }

    /// Whether an event's name in a payload is the one of the installed command.
    pub fn is_event(self, command: &str, payload: &str) -> bool {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let other = match (self, command) {
            (Client::Gemini, "stop") => "AfterAgent",
            (Client::Copilot, "stop") => "agentStop",
            _ => command,
        };
        plain(payload) == plain(command) || plain(payload) == plain(other)
    }

    /// Whether an answer, in the client's own words, says to go on.
    pub fn blocks(self, answer: &Value) -> bool {
        let decision = match self {
            Client::Vscode => answer.pointer("/hookSpecificOutput/decision"),
            Client::Cursor => return answer.get("followup_message").is_some(),
            _ => answer.get("decision"),
        };
        decision.is_some_and(|decision| decision == "block" || decision == "deny")
    }

    /// A stop as the client reports it.
    pub fn sample(self, root: &Path) -> Value {
        match self {
            Client::Cursor => json!({
                "conversation_id": "doctor", "generation_id": "doctor", "hook_event_name": "stop",
                "workspace_roots": [root], "status": "completed", "loop_count": 0,
            }),
            Client::Copilot => json!({
                "sessionId": "doctor", "cwd": root, "transcriptPath": "", "stopReason": "end_turn",
            }),
            _ => {
                let event = if self == Client::Gemini { "AfterAgent" } else { "Stop" };
                json!({
                    "session_id": "doctor", "transcript_path": root.join("none"), "cwd": root,
                    "hook_event_name": event, "stop_hook_active": false,
                })
            }
        }
    }

    /// The answer in the client's own words.
    pub fn reply(self, reply: &Reply) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| drop(members.insert(name.into(), value));
        if let Some(reason) = &reply.block {
            match self {
                Client::Gemini => {
                    put("decision", "deny".into());
                    put("reason", reason.as_str().into());
                }
                Client::Vscode => put(
                    "hookSpecificOutput",
                    json!({ "hookEventName": "Stop", "decision": "block", "reason": reason }),
                ),
                Client::Cursor => put("followup_message", reason.as_str().into()),
                _ => {
                    put("decision", "block".into());
                    put("reason", reason.as_str().into());
                }
            }
        }
        // The others refuse or drop members that they do not know.
        if self == Client::Claude {
            if let Some(message) = &reply.message {
                put("systemMessage", message.as_str().into());
            }
            if let Some((event, context)) = &reply.context {
                put(
                    "hookSpecificOutput",
                    json!({ "hookEventName": event, "additionalContext": context }),
                );
            }
        }
        members
    }
}

/// What is answered, whoever the client is.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The agent must go on, for this reason.
    pub block: Option<String>,
    /// What the user is told.
    pub message: Option<String>,
    /// The event, and what the agent is told about its run.
    pub context: Option<(&'static str, String)>,
}

impl Reply {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.block.is_none() && self.message.is_none() && self.context.is_none()
    }
}

/// What clients send. Every field may be missing, and others may be there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Payload {
    pub hook_event_name: Option<String>,
    #[serde(rename = "hookEventName")]
    camel_event: Option<String>,
    session_id: Option<String>,
    #[serde(rename = "sessionId")]
    camel_session: Option<String>,
    conversation_id: Option<String>,
    transcript_path: Option<PathBuf>,
    #[serde(rename = "transcriptPath")]
    camel_transcript: Option<PathBuf>,
    cwd: Option<PathBuf>,
    workspace_roots: Option<Vec<PathBuf>>,
    stop_hook_active: Option<bool>,
    loop_count: Option<u64>,
    /// How the turn ended, where the client says.
    status: Option<String>,
    last_assistant_message: Option<String>,
    prompt_response: Option<String>,
    background_tasks: Option<Vec<BackgroundTask>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BackgroundTask {
    status: Option<String>,
}

impl BackgroundTask {
    /// A task that says nothing about its end is still running.
    fn runs(&self) -> bool {
        !matches!(
            self.status.as_deref(),
            Some("completed" | "failed" | "killed" | "cancelled" | "stopped" | "done")
        )
    }
}

impl Payload {
    pub fn event(&self) -> Option<&str> {
        self.hook_event_name.as_deref().or(self.camel_event.as_deref())
    }

    pub fn session(&self) -> Option<String> {
        let all = [&self.session_id, &self.camel_session, &self.conversation_id];
        all.into_iter().flatten().find(|session| !session.is_empty()).cloned()
    }

    pub fn transcript(&self) -> Option<PathBuf> {
        self.transcript_path.clone().or_else(|| self.camel_transcript.clone())
    }

    pub fn folder(&self) -> Option<PathBuf> {
        let root = || self.workspace_roots.as_ref().and_then(|roots| roots.first().cloned());
        self.cwd.clone().or_else(root)
    }

    /// Whether the stop follows a block.
    pub fn after_block(&self) -> Option<bool> {
        self.stop_hook_active.or(self.loop_count.map(|count| count > 0))
    }

    pub fn last_message(&self) -> Option<String> {
        self.last_assistant_message.clone().or_else(|| self.prompt_response.clone())
    }

    pub fn has_background_work(&self) -> bool {
        self.background_tasks.iter().flatten().any(BackgroundTask::runs)
    }

    /// Whether somebody has broken the turn off: whoever did that does not want it to go on.
    pub fn is_broken_off(&self, client: Client) -> bool {
        client == Client::Cursor && matches!(self.status.as_deref(), Some("aborted" | "error"))
    }
}
