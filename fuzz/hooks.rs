//! A few cases through the binary: one JSON object, and what is broken is allowed and told.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::{files_in, fuzz};

const STATE: &str = ".phasegate/triage/web_triage.json";

fn run(root: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasegate"));
    command.current_dir(root).env_clear().env("HOME", root.join("home")).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A process that does not read its input closes the pipe early.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// A project with a triage whose document is this.
fn project(document: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".phasegate/triage")).unwrap();
    std::fs::write(folder.path().join(STATE), document).unwrap();
    folder
}

fn answer(output: &Output) -> Result<Value, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.code() != Some(0) {
        return Err(format!("exit {:?}: {output:?}", output.status.code()));
    }
    let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    if answer.is_object() { Ok(answer) } else { Err(format!("it is not an object: {text}")) }
}

fn told(answer: &Value) -> bool {
    answer["systemMessage"].as_str().is_some_and(|it| !it.trim().is_empty())
}

#[test]
fn a_payload_of_any_kind_gets_one_object() {
    let seeds = files_in("fuzz/corpus/documents/triage");
    let root = project(&seeds[0].1);
    fuzz("payloads", 150, Vec::new(), |input| {
        let answer = answer(&run(root.path(), &["hook", "stop"], input))?;
        let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input).trim_ascii_start();
        let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        let is_object = is_json && text.starts_with(b"{");
        if !is_object && (answer.get("decision").is_some() || !told(&answer)) {
            return Err(format!("what is not an object is answered by {answer}"));
        }
        Ok(())
    });
}

#[test]
fn a_document_of_any_kind_is_answered_and_not_lost() {
    fuzz("documents/triage", 150, Vec::new(), |input| {
        let root = project(input);
        let payload = json!({ "session_id": "s1", "cwd": root.path(), "hook_event_name": "Stop" });
        let answer = answer(&run(root.path(), &["hook", "stop"], payload.to_string().as_bytes()))?;
        let is_json = serde_json::from_slice::<Value>(input).is_ok();
        if !is_json {
            if answer["decision"] != "block" && !told(&answer) {
                return Err(format!("a broken document is answered by {answer}"));
            }
            let kept = std::fs::read(root.path().join(STATE)).ok();
            if kept.as_deref() != Some(input) && !is_set_aside(root.path(), input) {
                return Err("a broken document is lost".into());
            }
        }
        Ok(())
    });
}

/// Whether a file beside the document has the bytes that it had.
fn is_set_aside(root: &Path, input: &[u8]) -> bool {
    let folder = root.join(STATE);
    let files = std::fs::read_dir(folder.parent().unwrap()).unwrap().flatten();
    files.into_iter().any(|entry| std::fs::read(entry.path()).is_ok_and(|it| it == input))
}

/// What `init` has put into settings, `uninstall` takes out: the bytes are what they were.
#[test]
fn settings_come_back_as_they_were() {
    fuzz("settings", 100, Vec::new(), |input| {
        // A hook of ours that is there before is taken out, too: the person wants none.
        if input.windows(9).any(|it| it == b"phasegate") {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".claude/settings.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, input).unwrap();
        let init = run(folder.path(), &["init", "--client", "claude"], b"");
        if init.status.code() != Some(0) && std::fs::read(&path).unwrap() != input {
            return Err(format!("refused, and written: {init:?}"));
        }
        let out = run(folder.path(), &["uninstall"], b"");
        match std::fs::read(&path) {
            Ok(after) if after == input => Ok(()),
            after => Err(format!("{after:?} after {init:?} and {out:?}")),
        }
    });
}
