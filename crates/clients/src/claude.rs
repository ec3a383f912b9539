//! Claude Code: the usual client. What most clients share has its shape.

use std::io;
use std::path::{Path, PathBuf};

use phasegate_engine::step::Actor;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::facts::{Cap, Facts, Quirk};
use crate::headless::{Cost, Dialogue, Headless, Judged, Rights, Spoken, words};
use crate::outside;
use crate::payload::{Sample, StatusLine};
use crate::settings::{self, Entry, Hook, MAX_WAKE, NAME, Scope, Settings, WAKE, group, stop_line};
use crate::variables;

#[derive(Debug)]
pub struct Claude;

static FACTS: Facts = Facts {
    name: "claude",
    title: "Claude Code",
    versions: &["2.1.325", "2.1.197"],
    program: Some("claude"),
    processes: &["claude"],
    folders: &["/@anthropic-ai/claude-code/", "/share/claude/versions/"],
    marks: &[".claude"],
    signs: &[
        ("SessionStart", "session-start", 30),
        ("SessionEnd", "session-end", 30),
        ("UserPromptSubmit", "user-prompt-submit", 30),
        ("ConfigChange", "config-change", 30),
    ],
    on_demand: &[
        ("PreToolUse", "pre-tool-use", 10),
        ("TaskCompleted", "task-completed", 600),
        ("TeammateIdle", "teammate-idle", 600),
        ("Stop", WAKE, MAX_WAKE),
    ],
    seconds: 9 * 60,
    // Any tool call in between begins the count anew.
    cap: Some(Cap { most: 8, on_all: false, variable: Some("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP") }),
    local_settings: Some(".claude/settings.local.json"),
    session_variable: Some("CLAUDE_CODE_SESSION_ID"),
    project_variable: Some("CLAUDE_PROJECT_DIR"),
    plugin_variable: Some("CLAUDE_PLUGIN_ROOT"),
    inside: &["CLAUDE_CODE_SESSION_ID", "CLAUDECODE"],
    looks: &[
        "Read",
        "Grep",
        "Glob",
        "LS",
        "NotebookRead",
        "WebFetch",
        "WebSearch",
        "TodoRead",
        "TodoWrite",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "TaskOutput",
        "TaskStop",
        "BashOutput",
        "KillShell",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
        "ToolSearch",
        "ListMcpResourcesTool",
        "ReadMcpResourceTool",
    ],
    quirks: &[
        Quirk::HeedsExit,
        Quirk::ShowsMessages,
        Quirk::TakesContext,
        Quirk::TakesContextAtPrompts,
        Quirk::PlainJson,
        Quirk::RunsEqualOnce,
        Quirk::HasPlugin,
    ],
    ..Facts::COMMON
};

/// Its hooks would ask us about an agent that we have started, and its output has one shape only
/// without `verbose`.
const SETTINGS: &str = r#"{"disableAllHooks":true,"verbose":false}"#;

/// What an agent may use that only looks.
const TOOLS: &str = "Read,Grep,Glob,Bash";

/// What a reviewer is asked for.
const VERDICT: &str = r#"{"type":"object","properties":{"verdict":{"type":"string","enum":["PASS","FAIL"]}},"required":["verdict"]}"#;

impl Client for Claude {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn hook(&self, (event, name, seconds): (&'static str, &'static str, u64)) -> Entry {
        let args = ["hook", name, "--client", FACTS.name];
        let mut own =
            json!({ "type": "command", "command": NAME, "args": args, "timeout": seconds });
        // What its user sees while a check runs: it shows no more than this line, which stands fast.
        if name == "stop" {
            own["statusMessage"] = "Phasegate decides, and runs the checks for it".into();
        }
        // Runs on beside the session, and with exit code 2 wakes it.
        if name == WAKE {
            own["asyncRewake"] = true.into();
        }
        Entry::hook(event, group(&own))
    }

    fn refuse_tool(&self, reason: &str) -> Map<String, Value> {
        let output = json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        });
        crate::reply::members([("hookSpecificOutput", output)])
    }

    fn settings(&self, scope: Scope) -> Vec<Settings> {
        let all = [(FACTS.stop, "stop", 600)].into_iter().chain(FACTS.signs.iter().copied());
        let hooks = all.map(|hook| self.hook(hook)).collect();
        let mut all = vec![Settings::new(".claude/settings.json", hooks)];
        // A user's servers are in a file that the client rewrites all the time.
        if scope == Scope::Project {
            all.push(Settings::new(".mcp.json", vec![Entry::server("mcpServers")]));
        }
        all
    }

    /// What is in this file wins over a user's and a project's settings, and neither can switch it off.
    fn managed(&self) -> Option<Settings> {
        let hooks = self.settings(Scope::User).into_iter().next()?.entries;
        let mut settings = Settings::new("/etc/claude-code/managed-settings.json", hooks);
        let off = [(variables::DISABLE, ""), (variables::TRUST_ALL, "")];
        let off: Map<String, Value> =
            off.map(|(name, value)| (name.to_string(), value.into())).into_iter().collect();
        settings.new.insert("disableAllHooks".into(), false.into());
        settings.new.insert("env".into(), off.into());
        Some(settings)
    }

    fn sample(&self, stop: &Sample) -> Value {
        json!({
            "session_id": stop.session,
            "transcript_path": stop.root.join("transcript.jsonl"),
            "cwd": stop.root,
            "prompt_id": "prompt",
            "permission_mode": "default",
            "effort": { "level": "medium" },
            "hook_event_name": "Stop",
            "stop_hook_active": stop.after_block,
            "last_assistant_message": stop.said,
            "background_tasks": [],
            "session_crons": [],
        })
    }

    fn status_line(&self, json: &[u8]) -> StatusLine {
        let sent: SentToStatusLine = serde_json::from_slice(json).unwrap_or_default();
        StatusLine { session: sent.session_id, folder: sent.workspace.current_dir.or(sent.cwd) }
    }

    fn plugin_hooks(&self, settings: &Value, file: &Path) -> Vec<Hook> {
        let own = |(name, on): &(&String, &Value)| name.starts_with("phasegate@") && **on == true;
        let plugins = settings.get("enabledPlugins").and_then(Value::as_object);
        let Some((name, _)) = plugins.and_then(|all| all.iter().find(own)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let Some(folder) = plugin_folder(name) {
            let hooks = folder.join("hooks/hooks.json");
            let text = outside::read_text(&hooks, outside::MAX_SETTINGS).unwrap_or_default();
            // The client puts the folder in before it starts a hook.
            let text = text.replace("${CLAUDE_PLUGIN_ROOT}", &folder.display().to_string());
            let value = settings::value(&text).unwrap_or_default();
            settings::own_hooks(&value["hooks"][FACTS.stop], FACTS.timeouts, file, &mut found);
        }
        if found.is_empty() {
            // Switched on, but not where the client keeps plugins: what it starts is not known, only that it does.
            let command = words(&["sh", "-c", &stop_line(FACTS.name)]);
            let (file, seconds) = (file.to_path_buf(), Some(600));
            found.push(Hook { file, command, seconds, is_in_plugin: true });
        }
        for hook in &mut found {
            hook.is_in_plugin = true;
        }
        found
    }

    /// Before 2.1.140 hooks had no arguments: the bare program is started.
    fn passes_arguments(&self, version: &str) -> bool {
        let number = version.split_whitespace().next().unwrap_or_default();
        let parts: Vec<u64> = number.split('.').filter_map(|part| part.parse().ok()).collect();
        let [major, minor, patch] = *parts.as_slice() else { return true };
        (major, minor, patch) >= (2, 1, 140)
    }

    fn dialogue(&self) -> Option<&'static dyn Dialogue> {
        Some(&Claude)
    }
}

/// Where it keeps an installed plugin.
fn plugin_folder(name: &str) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let note = home.join(".claude/plugins/installed_plugins.json");
    let text = outside::read_text(&note, outside::MAX_SETTINGS).ok()?;
    let installed = settings::value(&text).ok()?;
    let folder = installed["plugins"][name].as_array()?.first()?["installPath"].as_str()?;
    Some(PathBuf::from(folder))
}

/// What it sends to a status line. Every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SentToStatusLine {
    session_id: Option<String>,
    cwd: Option<PathBuf>,
    workspace: Workspace,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Workspace {
    current_dir: Option<PathBuf>,
}

/// What it prints at its end, of which an error has no `result` and only a review has a verdict.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Printed {
    #[serde(rename = "type")]
    kind: Option<String>,
    is_error: bool,
    subtype: Option<String>,
    structured_output: Option<Verdict>,
    /// Where another program prints its verdict.
    verdict: Option<String>,
    total_cost_usd: Option<f64>,
    num_turns: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    verdict: Option<String>,
}

/// The line with which an agent ends.
#[derive(Debug, Deserialize)]
struct Ending {
    #[serde(rename = "type")]
    kind: String,
    total_cost_usd: Option<f64>,
    num_turns: Option<u64>,
}

impl Headless for Claude {
    fn program(&self) -> &'static str {
        FACTS.name
    }

    fn agent(&self, role: Actor, model: Option<&str>, rights: &Rights) -> io::Result<Vec<String>> {
        let (program, root) = (std::env::current_exe()?, &rights.root);
        let server = json!({ "mcpServers": { NAME: {
            "command": program, "args": ["-C", root, "mcp"]
        } } });
        let mut command = words(&["claude", "--print", "--output-format", "stream-json"]);
        command.extend(words(&["--verbose", "--settings", r#"{"disableAllHooks":true}"#]));
        command.extend(words(&["--no-session-persistence", "--strict-mcp-config"]));
        command.extend(["--mcp-config".into(), server.to_string()]);
        command.extend(permissions(role, rights, Some(NAME)));
        command.extend(model_flags(model).map_err(io::Error::other)?);
        Ok(command)
    }

    fn cost(&self, printed: &str) -> Cost {
        let lines = printed.lines().rev();
        let mut endings = lines.filter_map(|line| serde_json::from_str::<Ending>(line).ok());
        let last = endings.find(|ending| ending.kind == "result");
        last.map_or(Cost::default(), |ending| Cost::of(ending.total_cost_usd, ending.num_turns))
    }

    fn message(&self, printed: &str) -> Option<String> {
        let mut events = printed.lines().rev().map(serde_json::from_str::<Value>);
        events.find_map(|event| {
            let event = event.ok()?;
            let text = match event["type"].as_str()? {
                "result" => event["result"].as_str()?.to_string(),
                "assistant" => {
                    let parts = event["message"]["content"].as_array()?.iter();
                    let texts = parts.filter(|part| part["type"] == "text");
                    let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
                    texts.join("\n")
                }
                _ => return None,
            };
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        })
    }

    fn reviewer(&self, model: Option<&str>, rights: &Rights) -> Result<Vec<String>, String> {
        let mut command = words(&["claude", "--print", "--output-format", "json"]);
        command.extend(words(&["--json-schema", VERDICT, "--settings", SETTINGS]));
        command.extend(words(&["--strict-mcp-config", "--no-session-persistence"]));
        command.extend(permissions(Actor::Reviewer, rights, None));
        command.extend(model_flags(model)?);
        Ok(command)
    }

    fn verdict(&self, printed: &[u8]) -> Result<Judged, String> {
        let none = || "it gave no verdict".to_string();
        let mut value: Value = serde_json::from_slice(printed).map_err(|_| none())?;
        // With `verbose` set somewhere, the client prints all events; the last is the result.
        if let Value::Array(events) = &mut value {
            value = events.pop().unwrap_or_default();
        }
        let output: Printed = serde_json::from_value(value).map_err(|_| none())?;
        if output.is_error {
            let why = output.subtype.unwrap_or_else(|| "an error".into());
            return Err(format!("it failed: {why}"));
        }
        // Another program's verdict stands at the top; the client's own stands only in its place.
        let top = output.verdict.filter(|_| output.kind.is_none());
        let said = output.structured_output.and_then(|it| it.verdict).or(top);
        let pass = match said.as_deref() {
            Some("PASS") => true,
            Some("FAIL") => false,
            _ => return Err(none()),
        };
        Ok(Judged { pass, cost: Cost::of(output.total_cost_usd, output.num_turns) })
    }
}

/// What it prints at the end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Turn {
    result: Option<String>,
    session_id: Option<String>,
    total_cost_usd: Option<f64>,
    num_turns: Option<u64>,
}

impl Dialogue for Claude {
    fn command(&self, session: Option<&str>, rights: &Rights) -> Vec<String> {
        let mut command = words(&["claude", "--print", "--output-format", "json"]);
        command.extend(words(&["--settings", SETTINGS]));
        command.extend(permissions(Actor::Worker, rights, Some(NAME)));
        if let Some(session) = session {
            command.extend(words(&["--resume", session]));
        }
        command
    }

    fn spoken(&self, printed: &str) -> Spoken {
        let Ok(turn) = serde_json::from_str::<Turn>(printed) else { return Spoken::plain(printed) };
        Spoken {
            text: turn.result.unwrap_or_default(),
            session: turn.session_id,
            cost: Cost::of(turn.total_cost_usd, turn.num_turns),
        }
    }
}

/// What an agent may do. Nobody is there to be asked: what is not allowed here is refused to it.
fn permissions(role: Actor, rights: &Rights, server: Option<&str>) -> Vec<String> {
    let in_sandbox = std::env::var_os("IS_SANDBOX").is_some_and(|value| value == "1");
    let is_root = rustix::process::geteuid().is_root();
    // To root the client gives all rights only in a sandbox, and refuses to start otherwise.
    if rights.all && (!is_root || in_sandbox) {
        return words(&["--dangerously-skip-permissions"]);
    }
    let works = role == Actor::Worker;
    let mut allowed: Vec<String> = words(&["Read", "Grep", "Glob"]);
    allowed.extend(rights.prefixes().map(|command| format!("Bash({command}:*)")));
    allowed.extend(rights.lines().map(|command| format!("Bash({command})")));
    allowed.extend(server.map(|server| format!("mcp__{server}")));
    if works {
        let flags = words(&["--permission-mode", "acceptEdits", "--allowedTools"]);
        return flags.into_iter().chain([allowed.join(",")]).collect();
    }
    let mut tools = TOOLS.to_string();
    if let Some(file) = &rights.file {
        tools.push_str(",Write");
        // The rules for edits are those for every tool that writes; two slashes begin a path of the disk.
        allowed.push(format!("Edit(/{})", rights.root.join(file).display()));
    }
    let tools = ["--permission-mode", "dontAsk", "--tools", &tools, "--allowedTools"];
    words(&tools).into_iter().chain([allowed.join(",")]).collect()
}

/// The flags that choose a model, where it has a plain name.
fn model_flags(model: Option<&str>) -> Result<Vec<String>, String> {
    let Some(model) = model.filter(|model| !model.is_empty()) else { return Ok(Vec::new()) };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@[]".contains(c);
    if model.starts_with('-') || !model.chars().all(plain) {
        return Err(format!("{model:?} is not the name of a model"));
    }
    Ok(words(&["--model", model]))
}
