//! Codex CLI. It runs a hook only once the user has trusted it, and takes no arguments in its file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::facts::{Facts, Quirk};
use crate::headless::{Dialogue, Rights, Spoken, words};
use crate::outside;
use crate::problem::{self, Here, Problem};
use crate::settings::{self, Entry, NAME, Scope, Settings, What};
use crate::transcript::{Line, Speaker};

#[derive(Debug)]
pub struct Codex;

static FACTS: Facts = Facts {
    name: "codex",
    title: "Codex CLI",
    versions: &["0.166.0", "0.155.0", "0.149.0", "0.140.0"],
    program: Some("codex"),
    processes: &["codex"],
    folders: &["/@openai/codex/"],
    marks: &[".codex"],
    signs: &[
        ("SessionStart", "session-start", 30),
        // It gets no more than that.
        ("SessionEnd", "session-end", 3),
        ("UserPromptSubmit", "user-prompt-submit", 30),
    ],
    trust: Some(
        "start `codex` in the project, trust the folder, and choose \"Trust all and continue\" where it says that hooks need review",
    ),
    seconds: 9 * 60,
    session_variable: Some("CODEX_SESSION_ID"),
    inside: &["CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID"],
    quirks: &[Quirk::ShowsMessages, Quirk::TakesContext],
    ..Facts::COMMON
};

/// The user's settings, with the folders and hooks that are trusted.
const CONFIG: &str = ".codex/config.toml";

impl Client for Codex {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn settings(&self, _: Scope) -> Vec<Settings> {
        let lines = format!("command = \"{NAME}\"\nargs = [\"mcp\"]\n");
        let server = Entry { path: Vec::new(), what: What::Table("mcp_servers.phasegate", lines) };
        vec![
            Settings::new(".codex/hooks.json", settings::hooks(&FACTS, 600)),
            Settings::new(CONFIG, vec![server]),
        ]
    }

    fn untrusted(&self, hooks: &Path, here: &Here) -> Option<Problem> {
        let text = outside::read_text(&here.home.join(CONFIG), outside::MAX_SETTINGS);
        let text = text.unwrap_or_default();
        let config: Config = toml::from_str(&text).unwrap_or_default();
        if here.is_project(hooks) && !config.trusts(here) {
            let root = here.root.display();
            let summary =
                format!("{} does not trust {root}, so it runs none of its hooks", FACTS.title);
            return Some(problem::untrusted(&FACTS, summary));
        }
        let text = outside::read_text(hooks, outside::MAX_SETTINGS).ok()?;
        let settings = settings::value(&text).ok()?;
        let own = own_hooks(&settings);
        let unheard = |hook: &&OwnHook| !config.trusts_hook(hooks, hook);
        let untrusted: Vec<&str> = own.iter().filter(unheard).map(|hook| hook.event).collect();
        if untrusted.is_empty() {
            return None;
        }
        let events = untrusted.join(", ");
        let summary = format!("the Phasegate hook for {events} is not trusted in {}", FACTS.title);
        let is_fatal = untrusted.contains(&FACTS.stop);
        Some(Problem { is_fatal, ..problem::untrusted(&FACTS, summary) })
    }

    fn transcript_line(&self, line: &[u8]) -> Option<Line> {
        let line: Item = serde_json::from_slice(line).ok()?;
        let item = line.payload.filter(|_| line.kind == "response_item")?;
        let texts: Vec<String> = item.content.into_iter().filter_map(|part| part.text).collect();
        let is_feedback = texts.iter().any(|text| text.starts_with("<hook_prompt"));
        let (speaker, has_tool) = match (item.kind.as_str(), item.role.as_deref()) {
            ("message", Some("assistant")) => (Some(Speaker::Agent), false),
            ("message", Some("user")) if is_feedback => (Some(Speaker::Hook), false),
            ("message", Some("user")) => (Some(Speaker::User), false),
            (kind, _) if kind.ends_with("_call") => (Some(Speaker::Agent), true),
            _ => (None, false),
        };
        // It looks at files by its shell, too.
        let tools = if has_tool { vec![item.kind] } else { Vec::new() };
        Some(Line { at: line.timestamp, speaker, texts, has_tool, tools })
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Codex)
    }
}

/// A line of its transcript.
#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Option<jiff::Timestamp>,
    payload: Option<Payload>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    role: Option<String>,
    content: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

/// What the user's settings say of trust.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    projects: std::collections::BTreeMap<PathBuf, Project>,
    hooks: Hooks,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Project {
    trust_level: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hooks {
    state: std::collections::BTreeMap<String, HookState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HookState {
    trusted_hash: Option<String>,
    enabled: Option<bool>,
}

impl Config {
    /// Whether the project is trusted, by itself or as the repository that it is in.
    fn trusts(&self, here: &Here) -> bool {
        let mut folders = here.folders();
        let repository = folders.iter().position(|folder| folder.join(".git").exists());
        folders.truncate(repository.map_or(1, |at| at + 1));
        folders.extend(folders.last().and_then(|folder| main_worktree(folder)));
        let is_trusted = |folder: &PathBuf| {
            let level = self.projects.get(folder).and_then(|it| it.trust_level.as_deref());
            level == Some("trusted")
        };
        folders.iter().any(is_trusted)
    }

    fn trusts_hook(&self, file: &Path, hook: &OwnHook) -> bool {
        let resolved = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
        let key = format!("{}:{}", resolved.display(), hook.key);
        let Some(state) = self.hooks.state.get(&key) else { return false };
        let is_same = state.trusted_hash.as_ref().is_some_and(|hash| {
            // What else may be in a hook is part of what was trusted in a way that we do not know.
            hook.hash.as_ref().is_none_or(|own| own == hash)
        });
        state.enabled != Some(false) && is_same
    }
}

/// The repository's own folder, where this one is a linked worktree of it.
fn main_worktree(folder: &Path) -> Option<PathBuf> {
    let text = outside::read_text(&folder.join(".git"), outside::MAX_SETTINGS).ok()?;
    let git = text.trim().strip_prefix("gitdir:")?.trim();
    git.split_once("/.git/").map(|(main, _)| PathBuf::from(main))
}

/// A hook of ours, as the client keeps what was trusted.
struct OwnHook {
    event: &'static str,
    /// The event, the number of the group, and that of the hook.
    key: String,
    hash: Option<String>,
}

fn own_hooks(settings: &Value) -> Vec<OwnHook> {
    let mut found = Vec::new();
    let events = FACTS.signs.iter().map(|(event, ..)| *event).chain([FACTS.stop]);
    for event in events {
        let groups = settings.pointer(&format!("/hooks/{event}")).and_then(Value::as_array);
        for (at, group) in groups.into_iter().flatten().enumerate() {
            let hooks = group.get("hooks").and_then(Value::as_array);
            for (number, hook) in hooks.into_iter().flatten().enumerate() {
                if settings::is_hook(&hook.to_string()) {
                    let name = snake_case(event);
                    let hash = hash(&name, group, hook);
                    found.push(OwnHook { event, key: format!("{name}:{at}:{number}"), hash });
                }
            }
        }
    }
    found
}

/// What the client keeps of a hook that was trusted; none where it has members that we never wrote.
fn hash(event: &str, group: &Value, hook: &Value) -> Option<String> {
    let known = ["type", "command", "timeout", "async"];
    if !hook.as_object()?.keys().all(|name| known.contains(&name.as_str())) {
        return None;
    }
    let member = |name: &str, usual: Value| hook.get(name).cloned().unwrap_or(usual);
    // Keys in the order of the alphabet, no spaces: the client hashes this text.
    let hook = format!(
        r#"{{"async":{},"command":{},"timeout":{},"type":"command"}}"#,
        member("async", json!(false)),
        member("command", json!("")),
        member("timeout", json!(600)),
    );
    let matcher = group.get("matcher").map(|it| format!(r#","matcher":{it}"#));
    let matcher = matcher.unwrap_or_default();
    let text = format!(r#"{{"event_name":"{event}","hooks":[{hook}]{matcher}}}"#);
    let bytes = Sha256::digest(text.as_bytes());
    let mut hash = String::from("sha256:");
    for byte in bytes {
        let _ = write!(hash, "{byte:02x}");
    }
    Some(hash)
}

/// `SessionStart` as `session_start`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

impl Dialogue for Codex {
    /// The sandbox lets it write in the project. Its hooks would ask us about an agent that we drive.
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["codex", "exec", "--json"]);
        let all = words(&["--dangerously-bypass-approvals-and-sandbox"]);
        let least = words(&["--sandbox", "workspace-write"]);
        command.extend(if rights.all { all } else { least });
        command.extend(words(&["--disable", "hooks"]));
        if let Some(session) = session {
            command.extend(words(&["resume", session]));
        }
        command.push("-".into());
        command
    }

    /// It prints events, one on each line.
    fn spoken(&self, printed: &str) -> Spoken {
        let mut spoken = Spoken::default();
        for line in printed.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if let Some(thread) = event.get("thread_id").and_then(Value::as_str) {
                spoken.session = Some(thread.to_string());
            }
            let is_message = event.pointer("/item/type").is_some_and(|it| it == "agent_message");
            if let (true, Some(text)) = (is_message, event.pointer("/item/text")) {
                spoken.text = text.as_str().unwrap_or_default().to_string();
            }
        }
        spoken
    }
}
