//! Fires an installed hook as its client does.

use phasegate_runtime::variables;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use phasegate_clients::settings::Hook;
use phasegate_clients::{Client, Sample};
use serde_json::Value;

/// How long an installed command may take to answer.
const MAX_ANSWER: Duration = Duration::from_secs(15);

/// Fires an installed hook twice, as its client does, in a project of our own: once it must block,
/// once it must not.
pub fn fire(client: &dyn Client, hook: &Hook) -> Result<Duration, String> {
    let folder = tempfile::Builder::new().prefix("phasegate-doctor-").tempdir();
    let folder = folder.map_err(|error| error.to_string())?;
    let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let workflow = "name = \"doctor\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", block = \"go on\" }]\n[phase.b]\nfinal = true\n";
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(path, text)).map_err(|error| error.to_string())
    };
    write(".phasegate/workflows/doctor.toml", workflow)?;
    let since = Instant::now();
    let allowed = answer(client, hook, &root)?;
    if client.reason(&allowed).is_some() {
        return Err("it blocks where there is no run".into());
    }
    let took = since.elapsed();
    write(".phasegate/doctor/x.json", "{\"phase\": \"a\"}\n")?;
    let blocked = answer(client, hook, &root)?;
    if client.reason(&blocked).is_none() {
        return Err(format!("it does not block where it must; it answered {blocked}"));
    }
    Ok(took)
}

fn answer(client: &dyn Client, hook: &Hook, root: &Path) -> Result<Value, String> {
    let sample = Sample { root, session: "doctor", after_block: false, said: "Done." };
    let text = run_bounded(client, &hook.command, root, &client.sample(&sample).to_string())?;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|_| {
        format!("its answer was not JSON: {:?}", text.chars().take(80).collect::<String>())
    })
}

/// Runs a command as a client does, for no longer than we wait; what it printed.
pub fn run_bounded(
    client: &dyn Client,
    command: &[String],
    root: &Path,
    input: &str,
) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("it has no command")?;
    let spawned = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .envs(client.facts().project_variable.map(|name| (name, root)))
        .env_remove(variables::TOKEN)
        // What is remembered of a project of our own goes with it.
        .env("XDG_STATE_HOME", root.join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    // A child that it leaves behind may hold its stdout open: then the client drops the answer.
    let (told, heard) = std::sync::mpsc::channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.map(|mut stdout| stdout.read_to_string(&mut text));
        let _ = told.send(text);
    });
    let text = heard.recv_timeout(MAX_ANSWER);
    let has_ended = matches!(child.try_wait(), Ok(Some(_)));
    let _ = child.kill();
    let _ = child.wait();
    text.map_err(|_| {
        if has_ended {
            "it ended, but a process that it started keeps its output open".to_string()
        } else {
            format!("it did not answer within {} seconds", MAX_ANSWER.as_secs())
        }
    })
}

/// A client's program, where it is on PATH, and what it says its version is.
pub fn version(client: &dyn Client) -> Option<(PathBuf, Result<String, String>)> {
    let program = client.facts().program.and_then(on_path)?;
    let words = vec![program.display().to_string(), "--version".to_string()];
    let said = run_bounded(client, &words, Path::new("."), "");
    Some((program, said.map(|text| text.lines().next().unwrap_or_default().trim().to_string())))
}

/// A program on PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
