//! The real client, Claude Code: where it is, and how it is started without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::real::npm;
use crate::real::running::{Ended, Running};
use crate::scene::{Scene, repository};

/// The version that is tested against: the newest that was looked at.
const VERSION: &str = "2.1.325";

/// How long a session of the client may take.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The program to use as the client; or `install`, for the one of npm, as CI has it; or `required`:
/// then it is a failure if that cannot be had.
const CHOICE: &str = "PHASEGATE_TEST_CLAUDE";

/// The client's program; none, said visibly, where it cannot be had. Then there is nothing to test.
pub fn find() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let choice = std::env::var_os(CHOICE).filter(|choice| !choice.is_empty());
    let found = FOUND.get_or_init(|| match choice.as_deref().and_then(|it| it.to_str()) {
        None => Err(format!("{CHOICE}=install fetches it")),
        Some("install" | "required") => install(VERSION),
        Some(program) => Ok(PathBuf::from(program)),
    });
    let why = match found {
        Ok(program) => return Some(program),
        Err(why) => why,
    };
    let is_required = choice.is_some_and(|choice| choice == "required");
    assert!(!is_required, "Claude Code {VERSION} is not there: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    npm::skip(&format!("claude: {test}: Claude Code {VERSION} is not there: {why}"));
    None
}

/// Another version of the client; none, said visibly, where it cannot be had. It is asked for after [`find`].
pub fn find_version(version: &str) -> Option<PathBuf> {
    let found = install(version);
    if let Err(why) = &found {
        npm::skip(&format!("claude: Claude Code {version} is not there: {why}"));
    }
    found.ok()
}

/// Installs a version of the client, once for all tests, and keeps it.
fn install(version: &str) -> Result<PathBuf, String> {
    let program = Path::new("node_modules/@anthropic-ai")
        .join(format!("claude-code-{}", platform()?))
        .join("claude");
    let package = format!("@anthropic-ai/claude-code@{version}");
    // The tests of all clients have it from the same place.
    Ok(npm::install(&format!("claude-{version}"), &[&package], &program)?.join(program))
}

/// The name of this system in the names of packages.
fn platform() -> Result<&'static str, String> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") if cfg!(target_env = "musl") && is_musl() => "linux-x64-musl",
        ("linux", "aarch64") if cfg!(target_env = "musl") && is_musl() => "linux-arm64-musl",
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => return Err(format!("there is none for {os} on {arch}")),
    })
}

/// Whether this system's own programs use musl; ours may be static on any system.
fn is_musl() -> bool {
    let libraries = fs::read_dir("/lib").into_iter().flatten().flatten();
    libraries.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("ld-musl-"))
}

/// A session of the client that is about to be started in a scene.
pub struct Session<'a> {
    scene: &'a Scene,
    command: Command,
    prompt: String,
    timeout: Duration,
}

impl<'a> Session<'a> {
    /// A session that is given a prompt and ends with its turn. It has no hooks yet.
    pub fn new(scene: &'a Scene, api: &Api, prompt: &str) -> Session<'a> {
        Session::with_rights(scene, api, prompt, &["--dangerously-skip-permissions"])
    }

    /// The same in plan mode, in which the agent may not write.
    pub fn planning(scene: &'a Scene, api: &Api, prompt: &str) -> Session<'a> {
        Session::with_rights(scene, api, prompt, &["--permission-mode", "plan"])
    }

    fn with_rights(scene: &'a Scene, api: &Api, prompt: &str, rights: &[&str]) -> Session<'a> {
        let mut command = scene.client(api);
        command.args(["--print", "--output-format", "json"]).args(rights);
        Session { scene, command, prompt: prompt.into(), timeout: TIMEOUT }.model("sonnet")
    }

    /// A session that leads many others, which all need their time on a small machine.
    pub fn within(mut self, timeout: Duration) -> Session<'a> {
        self.timeout = timeout;
        self
    }

    /// In another folder than the project's.
    pub fn at(mut self, folder: &Path) -> Session<'a> {
        self.command.current_dir(folder);
        self
    }

    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Session<'a> {
        self.command.arg(arg);
        self
    }

    pub fn model(self, model: &str) -> Session<'a> {
        self.arg("--model").arg(model)
    }

    /// With the plugin of this repository.
    pub fn with_plugin(self) -> Session<'a> {
        self.arg("--plugin-dir").arg(repository().join("plugin"))
    }

    /// With the hooks that `phasegate init` writes.
    pub fn with_init(self) -> Session<'a> {
        self.scene.ok(&["init", "--client", "claude"]);
        self
    }

    /// With Phasegate's MCP server, and no other.
    pub fn with_mcp(self) -> Session<'a> {
        let server = json!({ "command": "phasegate", "args": ["mcp"] });
        let servers = json!({ "mcpServers": { "phasegate": server } });
        self.arg("--strict-mcp-config").arg("--mcp-config").arg(servers.to_string())
    }

    /// With this id, which is a UUID.
    pub fn id(self, session: &str) -> Session<'a> {
        self.arg("--session-id").arg(session)
    }

    /// Goes on with a session that was there before.
    pub fn resuming(self, session: &str) -> Session<'a> {
        self.arg("--resume").arg(session)
    }

    pub fn env(mut self, name: &str, value: &str) -> Session<'a> {
        self.command.env(name, value);
        self
    }

    pub fn start(self) -> Running {
        let Session { mut command, prompt, .. } = self;
        // Behind `--`, so that no option takes it for one of its values.
        command.arg("--").arg(prompt);
        Running::start(command, self.timeout).unwrap()
    }

    /// Runs it to its end, which must be a good one.
    #[track_caller]
    pub fn run(self) -> Ended {
        let ended = self.start().wait();
        assert!(ended.is_success(), "{ended:?}");
        ended
    }
}

impl Ended {
    /// What the client prints about a session at its end.
    #[track_caller]
    pub fn result(&self) -> Value {
        let result: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(result["is_error"], false, "{result}");
        result
    }
}
