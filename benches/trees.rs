//! What a check costs in a large tree, beside git doing its part of the same, in one run: a changed tree of 50,000
//! committed files beside `git status`, and the first look at 100,000 uncommitted files beside `git add`.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

mod program;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A gate with a check that takes no time, which lets the agent stop.
const GATE: &str = r#"
name = "t"
about = "a"
initial = "a"
[check.none]
run = ["true"]
[phase.a]
rules = [
  { on = "stop", when = "not check.none.ok", block = "It fails." },
  { on = "stop", allow = "waiting", until = "external" },
]
"#;

const ROUNDS: usize = 7;

fn main() -> Result<ExitCode> {
    let mut is_held = true;
    let (status, stop) = changed(50_000)?;
    is_held &= told("a changed tree of 50,000 committed files", ("git status", status), stop, 3.0);
    let (add, stop) = first(100_000)?;
    is_held &= told("first look at 100,000 uncommitted files", ("git add", add), stop, 2.0);
    Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(what: &str, (git, theirs): (&str, Duration), ours: Duration, most: f64) -> bool {
    let (theirs, ours) = (theirs.as_secs_f64(), ours.as_secs_f64());
    let ratio = ours / theirs;
    let verdict = if ratio <= most { "ok" } else { "OVER" };
    println!(
        "{what}: the stop {:.0} ms, {git} {:.0} ms: {ratio:.2} × (at most {most} ×)  {verdict}",
        ours * 1e3,
        theirs * 1e3
    );
    ratio <= most
}

/// The median of `git status` and of a stop, each after one more file was changed.
fn changed(files: usize) -> Result<(Duration, Duration)> {
    let folder = project(files)?;
    let root = folder.path();
    git(root, &["add", "-A"])?;
    git(root, &["-c", "core.fsync=none", "commit", "-q", "-m", "all"])?;
    git(root, &["status", "--porcelain"])?;
    // Files must be older than the times of a disk can tell, for git as for us.
    std::thread::sleep(Duration::from_secs(3));
    stop(root)?;
    stop(root)?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        std::fs::write(root.join("src/0/0.txt"), format!("round {round}\n"))?;
        theirs.push(timed(|| git(root, &["status", "--porcelain"]))?);
        ours.push(timed(|| stop(root))?);
    }
    Ok((median(theirs), median(ours)))
}

/// One `git add` of all files without a sync, and the first stop.
fn first(files: usize) -> Result<(Duration, Duration)> {
    let folder = project(files)?;
    let root = folder.path();
    let ours = timed(|| stop(root))?;
    let theirs = timed(|| git(root, &["-c", "core.fsync=none", "add", "-A"]))?;
    Ok((theirs, ours))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let since = Instant::now();
    work()?;
    Ok(since.elapsed())
}

/// A repository with so many small files, a hundred in a folder, and a run of the gate.
fn project(files: usize) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    for number in 0..files {
        let place = root.join(format!("src/{}", number / 100));
        if number % 100 == 0 {
            std::fs::create_dir_all(&place)?;
        }
        let text = format!("file {number}\n").repeat(number % 40 + 1);
        std::fs::write(place.join(format!("{}.txt", number % 100)), text)?;
    }
    let workflows = root.join(".phasegate/workflows");
    std::fs::create_dir_all(&workflows)?;
    std::fs::write(workflows.join("t.toml"), GATE)?;
    std::fs::write(root.join(".gitignore"), ".phasegate\nhome\n")?;
    git(root, &["init", "-q"])?;
    let started = command(root).args(["t", "start"]).stdout(Stdio::null()).status()?;
    if started.success() { Ok(folder) } else { Err("the run does not start".into()) }
}

fn command(root: &Path) -> Command {
    let mut command = Command::new(program::program());
    command.current_dir(root).env("HOME", root.join("home")).env("PHASEGATE_TRUST_ALL", "1");
    command
}

fn git(root: &Path, arguments: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let done = git.current_dir(root).stdout(Stdio::null()).status()?;
    if done.success() { Ok(()) } else { Err(format!("git {arguments:?} fails").into()) }
}

/// A stop, which must find that the check has passed.
fn stop(root: &Path) -> Result<()> {
    let payload = json!({
        "session_id": "bench", "transcript_path": root.join("home/none.jsonl"), "cwd": root,
        "permission_mode": "default", "hook_event_name": "Stop", "stop_hook_active": false,
        "last_assistant_message": "Done.", "background_tasks": [], "session_crons": [],
    });
    let mut child = command(root)
        .args(["hook", "stop"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(payload.to_string().as_bytes())?;
    let said = String::from_utf8(child.wait_with_output()?.stdout)?;
    if said.contains("waits for something outside") { Ok(()) } else { Err(said.into()) }
}
