//! The real client, Claude Code: where it is, and how it is started without a network.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::scene::{Scene, repository};

/// The version that is tested against: the newest that was looked at.
const VERSION: &str = "2.1.325";

/// How long a session of the client may take.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How long its installation may take.
const INSTALLATION: Duration = Duration::from_mins(5);

/// The program to use as the client; or `install`, for the one of npm, as CI has it; or `required`:
/// then it is a failure if that cannot be had.
const CHOICE: &str = "PHASEGATE_TEST_CLAUDE";

/// The client's program; none, said visibly, where it cannot be had. Then there is nothing to test.
pub fn find() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let choice = std::env::var_os(CHOICE).filter(|choice| !choice.is_empty());
    let found = FOUND.get_or_init(|| match choice.as_deref().and_then(|it| it.to_str()) {
        None => Err(format!("{CHOICE}=install fetches it")),
        Some("install" | "required") => install(),
        Some(program) => Ok(PathBuf::from(program)),
    });
    let why = match found {
        Ok(program) => return Some(program),
        Err(why) => why,
    };
    let is_required = choice.is_some_and(|choice| choice == "required");
    assert!(!is_required, "Claude Code {VERSION} is not there: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let said = format!("SKIPPED: {test}: Claude Code {VERSION} is not there: {why}\n");
    // Not by a macro: the test harness hides what those print.
    let _ = std::io::stderr().write_all(said.as_bytes());
    None
}

/// Installs the client, once for all tests, and keeps it.
fn install() -> Result<PathBuf, String> {
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") if cfg!(target_env = "musl") && is_musl() => "linux-x64-musl",
        ("linux", "aarch64") if cfg!(target_env = "musl") && is_musl() => "linux-arm64-musl",
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => return Err(format!("there is none for {os} on {arch}")),
    };
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let place = |end: &str| cache.join(format!("claude-code-{VERSION}{end}"));
    let (folder, new) = (place(""), place(".new"));
    let program = Path::new("node_modules/@anthropic-ai")
        .join(format!("claude-code-{platform}"))
        .join("claude");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&cache).map_err(failed)?;
    // Other processes may be at it.
    let lock = File::create(place(".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !folder.join(&program).exists() {
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).map_err(failed)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        npm.arg(&new).arg(format!("@anthropic-ai/claude-code@{VERSION}"));
        let ended = Running::start(npm, INSTALLATION).map_err(|error| format!("npm: {error}"))?;
        let ended = ended.wait();
        if !ended.is_success() || !new.join(&program).exists() {
            let said = ended.stderr.lines().next().unwrap_or("it cannot be installed").to_string();
            let _ = fs::remove_dir_all(&new);
            return Err(format!("npm: {said}"));
        }
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&new, &folder).map_err(failed)?;
    }
    Ok(folder.join(program))
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
}

impl<'a> Session<'a> {
    /// A session that is given a prompt and ends with its turn. It has no hooks yet.
    pub fn new(scene: &'a Scene, api: &Api, prompt: &str) -> Session<'a> {
        let mut command = scene.client(api);
        command.args(["--print", "--output-format", "json", "--dangerously-skip-permissions"]);
        Session { scene, command, prompt: prompt.into() }.model("sonnet")
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
        Running::start(command, TIMEOUT).unwrap()
    }

    /// Runs it to its end, which must be a good one.
    #[track_caller]
    pub fn run(self) -> Ended {
        let ended = self.start().wait();
        assert!(ended.is_success(), "{ended:?}");
        ended
    }
}

/// A process that runs, in a group of its own. It does not outlive this.
pub struct Running {
    child: Child,
    timeout: Duration,
    since: Instant,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// What came of a process.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub was_too_slow: bool,
    #[expect(dead_code, reason = "shown where a test fails")]
    pub took: Duration,
}

impl Running {
    pub fn start(mut command: Command, timeout: Duration) -> std::io::Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let (out, err) = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        Ok(Running { child, timeout, since: Instant::now(), out, err })
    }

    /// Waits for its end, and makes one when its time is up.
    pub fn wait(mut self) -> Ended {
        let mut was_too_slow = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.since.elapsed() > self.timeout && !was_too_slow {
                was_too_slow = true;
                self.kill_group();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let took = self.since.elapsed();
        // What it has started in its group is nobody's now, and may hold its output open.
        self.kill_group();
        let said = |thread: Option<JoinHandle<String>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let (stdout, stderr) = (said(self.out.take()), said(self.err.take()));
        Ended { status, stdout, stderr, was_too_slow, took }
    }

    /// Kills the process itself, as a crash does: what it has started is told nothing.
    pub fn crash(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it has ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn kill_group(&self) {
        kill(&format!("-{}", self.child.id()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    pub fn is_success(&self) -> bool {
        self.status.success() && !self.was_too_slow
    }

    /// What the client prints about a session at its end.
    #[track_caller]
    pub fn result(&self) -> Value {
        let result: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(result["is_error"], false, "{result}");
        result
    }
}

/// Kills a process, or a group of them.
pub fn kill(process: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s KILL -- \"$1\"", "kill", process]).stderr(Stdio::null());
    let _ = kill.status();
}

fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
