//! What the settings of clients need, and which hooks of ours are in them.

use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value, json};

use crate::facts::{Facts, TimeUnit};

/// The name of our entries, and of our program.
pub const NAME: &str = "phasegate";

/// Our name for the hook that waits beside a stop which was let go, and wakes the session.
pub const WAKE: &str = "wake";

/// How many seconds it waits at most.
pub const MAX_WAKE: u64 = 2 * 60 * 60;

/// Whose settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Project,
    User,
}

/// Something that must be in a file of settings.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The members that lead to the list or object.
    pub path: Vec<&'static str>,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// An element of a list.
    Element(Value),
    /// A member of that name of an object.
    Member(&'static str, Value),
    /// A table at the end of a TOML file: its header without the brackets, and its lines.
    Table(&'static str, String),
    /// The whole file is ours.
    Whole(&'static str),
}

impl Entry {
    /// A hook for an event, as an element of the event's list.
    pub fn hook(event: &'static str, value: Value) -> Entry {
        Entry { path: vec!["hooks", event], what: What::Element(value) }
    }

    /// Our MCP server, in the object of this name.
    pub fn server(servers: &'static str) -> Entry {
        let server = json!({ "command": NAME, "args": ["mcp"] });
        Entry { path: vec![servers], what: What::Member(NAME, server) }
    }

    /// Whether it is our MCP server, and not a hook.
    fn is_server(&self) -> bool {
        match &self.what {
            What::Member(_, value) => value.to_string().contains("\"mcp\""),
            What::Table(header, _) => header.starts_with("mcp_servers."),
            What::Element(_) | What::Whole(_) => false,
        }
    }
}

/// A file of settings, and what must be in it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub path: PathBuf,
    /// Members of a file that does not exist yet.
    pub new: Map<String, Value>,
    pub entries: Vec<Entry>,
}

impl Settings {
    pub fn new(path: &str, entries: Vec<Entry>) -> Settings {
        Settings { path: path.into(), new: Map::new(), entries }
    }

    /// The same, where a new file must have a version.
    #[must_use]
    pub fn versioned(mut self) -> Settings {
        self.new.insert("version".into(), 1.into());
        self
    }

    /// Whether it is a file of TOML, and not of JSON.
    pub fn is_toml(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "toml")
    }

    /// Whether a text is a file that is ours as a whole.
    pub fn is_own(&self, text: &str) -> bool {
        self.entries.iter().any(|entry| matches!(entry.what, What::Whole(own) if own == text))
    }

    /// Whether a text can be read as what the file is.
    pub fn is_valid(&self, text: &str) -> bool {
        if self.is_toml() { text.parse::<toml::Table>().is_ok() } else { value(text).is_ok() }
    }

    /// The same without our MCP server; none where nothing else is in it.
    pub fn hooks_alone(mut self) -> Option<Settings> {
        self.entries.retain(|entry| !entry.is_server());
        (!self.entries.is_empty()).then_some(self)
    }

    /// The same for a client that starts a program without its arguments: each hook is one line.
    #[must_use]
    pub fn one_line(mut self) -> Settings {
        for entry in &mut self.entries {
            let What::Element(group) = &mut entry.what else { continue };
            for hook in group["hooks"].as_array_mut().into_iter().flatten() {
                let Some(hook) = hook.as_object_mut() else { continue };
                if let Some(Value::Array(args)) = hook.remove("args") {
                    let program = hook.get("command").into_iter();
                    let words = program.chain(&args).filter_map(Value::as_str);
                    let line = words.collect::<Vec<_>>().join(" ");
                    hook.insert("command".into(), line.into());
                }
            }
        }
        self
    }

    /// The same, in a folder.
    #[must_use]
    pub fn below(mut self, base: &Path) -> Settings {
        self.path = base.join(self.path);
        self
    }
}

/// The line that a client runs for a stop.
pub fn stop_line(client: &str) -> String {
    line(client, "stop")
}

/// The line that a client runs for an event.
pub fn line(client: &str, event: &str) -> String {
    format!("{NAME} hook {event} --client {client}")
}

/// The hooks of a client that wants them as most do: for a stop with these seconds, and for its other
/// events.
pub fn hooks(client: &Facts, seconds: u64) -> Vec<Entry> {
    let all = [(client.stop, "stop", seconds)].into_iter().chain(client.signs.iter().copied());
    all.map(|hook| self::hook(client, hook)).collect()
}

/// A hook as most clients want it: one line.
pub fn hook(client: &Facts, (event, name, seconds): (&'static str, &str, u64)) -> Entry {
    let time = match client.timeouts {
        TimeUnit::Seconds => seconds,
        TimeUnit::Milliseconds => seconds * 1000,
    };
    let command = line(client.name, name);
    let own = json!({ "type": "command", "command": command, "timeout": time });
    Entry::hook(event, group(&own))
}

/// A group of hooks with one hook, of which most clients want a list.
pub fn group(hook: &Value) -> Value {
    json!({ "hooks": [hook] })
}

/// A hook of ours that is installed.
#[derive(Clone, Debug)]
pub struct Hook {
    pub file: PathBuf,
    /// The program and its arguments, as the client starts it.
    pub command: Vec<String>,
    pub seconds: Option<u64>,
    /// It is in our plugin, which a file of settings switches on.
    pub is_in_plugin: bool,
}

impl Hook {
    /// Whether it is one line for a shell, and not a program with arguments.
    pub fn is_one_line(&self) -> bool {
        self.command.first().is_some_and(|word| word == "sh")
    }
}

/// Adds our hooks for a stop that are in a part of some settings.
pub fn own_hooks(settings: &Value, timeouts: TimeUnit, file: &Path, found: &mut Vec<Hook>) {
    match settings {
        Value::Array(items) => {
            for item in items {
                own_hooks(item, timeouts, file, found);
            }
        }
        Value::Object(members) => {
            let command = command(members);
            let whole = command.join(" ");
            let is_command = members.get("type").is_none_or(|kind| kind == "command");
            if is_command && whole.contains(NAME) && whole.contains("hook stop") {
                let number = |name: &str| members.get(name).and_then(Value::as_u64);
                let seconds = match timeouts {
                    TimeUnit::Milliseconds => number("timeout").map(|it| it / 1000),
                    TimeUnit::Seconds => number("timeout").or(number("timeoutSec")),
                };
                found.push(Hook {
                    file: file.to_path_buf(),
                    command,
                    seconds,
                    is_in_plugin: false,
                });
            }
            if let Some(inner) = members.get("hooks") {
                own_hooks(inner, timeouts, file, found);
            }
        }
        _ => {}
    }
}

/// Whether a part of a file is a hook of ours: our program, and its word for hooks.
pub fn is_hook(text: &str) -> bool {
    value(text).is_ok_and(|value| event_of(&value).is_some())
}

/// The event that a hook of ours is for, by our name; none where it is not one of ours.
pub fn event_of(hook: &Value) -> Option<String> {
    let words = command(hook.as_object()?);
    let words: Vec<&str> = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["sh", "-c", line] => line.split_whitespace().collect(),
        words => words.to_vec(),
    };
    let program = words.first().map(|word| word.trim_matches(['"', '\'']));
    let program = program.and_then(|word| word.rsplit('/').next());
    let is_ours = program == Some(NAME) && words.get(1) == Some(&"hook");
    is_ours.then(|| words.get(2).copied().unwrap_or_default().to_string())
}

/// The program and the arguments of a hook, as a client starts it.
fn command(hook: &Map<String, Value>) -> Vec<String> {
    let text = |name: &str| hook.get(name).and_then(Value::as_str);
    let args = hook.get("args").and_then(Value::as_array);
    match (text("command").or(text("bash")), args) {
        (Some(program), Some(args)) => {
            let args = args.iter().filter_map(Value::as_str).map(str::to_string);
            std::iter::once(program.to_string()).chain(args).collect()
        }
        (Some(line), None) => vec!["sh".to_string(), "-c".into(), line.to_string()],
        (None, _) => Vec::new(),
    }
}

/// A file of settings, comments and all, as JSON.
///
/// # Errors
/// Where it is none.
pub fn value(text: &str) -> Result<Value, String> {
    let text = without_mark(text);
    let parsed = jsonc_parser::parse_to_serde_value::<Value>(text, &ParseOptions::default());
    parsed.map_err(|error| error.to_string())
}

/// What a file of settings says, by what kind of file it is. A program of ours says nothing.
///
/// # Errors
/// Where it is not such a file.
pub fn read(file: &Path, text: &str) -> Result<Value, String> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| error.message().to_string()),
        Some("js") => Ok(Value::Null),
        _ => value(text),
    }
}

/// Whether a file of settings has no comments and no trailing commas.
pub fn is_plain(text: &str) -> bool {
    serde_json::from_str::<Value>(without_mark(text)).is_ok()
}

/// The text without a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
