//! What clients send, told in one way, and the shape that most of them share.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

/// What a client sent to a hook. Each part may be missing.
#[derive(Debug, Default)]
pub struct Payload {
    /// The event, in the client's words.
    pub event: Option<String>,
    pub session: Option<String>,
    pub transcript: Option<PathBuf>,
    /// Where the agent works.
    pub folder: Option<PathBuf>,
    /// Whether the stop follows a block.
    pub after_block: Option<bool>,
    /// What the agent said last.
    pub last_message: Option<String>,
    /// All that the agent said since the user spoke, where the client tells it in one piece: the last
    /// message is its end, and the transcript tells where that begins.
    pub said: Option<String>,
    /// What the end of the transcript has once it is up to date, where that lags behind the hook.
    pub mark: Option<String>,
    /// The stop is that of a sub-agent; the session is the one that it works for.
    pub is_sub_agent: bool,
    /// Whether something that the agent has started is still at work.
    pub has_background_work: bool,
    /// Whether the user interrupted the turn, and so does not want it to go on.
    pub is_broken_off: bool,
}

/// The shape that most clients share, in snake case or in camel case. Every field may be missing, and
/// others may be there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Common {
    hook_event_name: Option<String>,
    #[serde(rename = "hookEventName")]
    camel_event: Option<String>,
    session_id: Option<String>,
    #[serde(rename = "sessionId")]
    camel_session: Option<String>,
    transcript_path: Option<PathBuf>,
    #[serde(rename = "transcriptPath")]
    camel_transcript: Option<PathBuf>,
    cwd: Option<PathBuf>,
    stop_hook_active: Option<bool>,
    last_assistant_message: Option<String>,
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

/// A payload of the common shape.
pub fn common(json: &[u8]) -> serde_json::Result<Payload> {
    let sent: Common = serde_json::from_slice(json)?;
    Ok(Payload {
        event: sent.hook_event_name.or(sent.camel_event),
        session: told([sent.session_id, sent.camel_session]),
        transcript: sent.transcript_path.or(sent.camel_transcript),
        folder: sent.cwd,
        after_block: sent.stop_hook_active,
        last_message: sent.last_assistant_message,
        has_background_work: sent.background_tasks.iter().flatten().any(BackgroundTask::runs),
        ..Payload::default()
    })
}

/// The first text that says something.
pub fn told<const N: usize>(texts: [Option<String>; N]) -> Option<String> {
    texts.into_iter().flatten().find(|text| !text.is_empty())
}

/// A stop that did not happen, to try a hook out.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    pub root: &'s Path,
    pub session: &'s str,
    pub after_block: bool,
    /// What the agent said last.
    pub said: &'s str,
}

/// A stop of the common shape.
pub fn sample(stop: &Sample, event: &str) -> Value {
    json!({
        "session_id": stop.session,
        "transcript_path": stop.root.join("none"),
        "cwd": stop.root,
        "hook_event_name": event,
        "stop_hook_active": stop.after_block,
        "last_assistant_message": stop.said,
    })
}

/// What a client sent to a status line.
#[derive(Debug, Default)]
pub struct StatusLine {
    pub session: Option<String>,
    pub folder: Option<PathBuf>,
}
