//! What clients send, told in one way, and the shape that most of them share.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a prompt begins that nobody has typed: Claude Code tells the agent that something in the background has ended.
const NOTIFICATION: &str = "<task-notification>";

/// What a client sent to a hook. Each part may be missing.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each tells something of its own")]
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
    /// What the agent has started and is still at work.
    pub background: Vec<Work>,
    /// Whether the agent may only plan, and not write.
    pub is_planning: bool,
    /// The file of settings that has changed.
    pub settings: Option<PathBuf>,
    /// The tool that the agent is about to use.
    pub tool: Option<String>,
    /// The task that the agent calls done, and the teammate that it is about.
    pub task: Task,
    /// Whether the user interrupted the turn, and so does not want it to go on.
    pub is_broken_off: bool,
    /// A prompt that nobody has typed: the client tells the agent that something has ended.
    pub is_notification: bool,
}

/// A task of an agent's own list, as its client tells of it, and the teammate that has done it or goes idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub id: Option<String>,
    pub subject: Option<String>,
    pub description: Option<String>,
    pub teammate: Option<String>,
    pub team: Option<String>,
}

/// Something that a client has at work in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub kind: WorkKind,
    /// What tells it from others, as far as the client says.
    pub id: String,
}

/// What kind of work it is, by what will come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// It wakes the agent when it is done.
    SubAgent,
    Teammate,
    Workflow,
    /// A task of another kind, as of an MCP server.
    Task,
    /// Wakes the agent once, at a time.
    WakeUp,
    /// May end or not, as a server.
    Shell,
    /// Goes on as long as the session.
    Monitor,
}

impl WorkKind {
    /// Whether the agent hears of it again.
    pub fn returns(self) -> bool {
        !matches!(self, WorkKind::Shell | WorkKind::Monitor)
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::SubAgent => "a sub-agent",
            WorkKind::Teammate => "a teammate",
            WorkKind::Workflow => "a workflow",
            WorkKind::Task => "a task",
            WorkKind::WakeUp => "a wake-up",
            WorkKind::Shell => "a shell",
            WorkKind::Monitor => "a monitor",
        }
    }
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
    permission_mode: Option<String>,
    background_tasks: Option<Vec<BackgroundTask>>,
    #[serde(alias = "crons")]
    session_crons: Option<Vec<Cron>>,
    file_path: Option<PathBuf>,
    tool_name: Option<String>,
    task_id: Option<String>,
    task_subject: Option<String>,
    task_description: Option<String>,
    teammate_name: Option<String>,
    team_name: Option<String>,
    prompt: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BackgroundTask {
    id: Option<String>,
    task_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    command: Option<String>,
    description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cron {
    id: Option<String>,
    recurring: Option<bool>,
    #[serde(rename = "cron")]
    schedule: Option<String>,
    prompt: Option<String>,
}

impl Cron {
    /// One that comes again and again is nothing to wait for.
    fn work(self) -> Option<Work> {
        let id = told([self.id, self.schedule, self.prompt]).unwrap_or_default();
        (self.recurring == Some(false)).then_some(Work { kind: WorkKind::WakeUp, id })
    }
}

impl BackgroundTask {
    /// A task that says nothing about its end is still running.
    fn runs(&self) -> bool {
        !matches!(
            self.status.as_deref(),
            Some("completed" | "failed" | "killed" | "cancelled" | "stopped" | "done")
        )
    }

    fn work(self) -> Option<Work> {
        if !self.runs() {
            return None;
        }
        let kind = match self.kind.as_deref() {
            // What does not say what it is may never end.
            None | Some("shell" | "bash" | "local_bash") => WorkKind::Shell,
            Some("monitor") => WorkKind::Monitor,
            Some("subagent" | "agent" | "local_agent") => WorkKind::SubAgent,
            Some("teammate") => WorkKind::Teammate,
            Some("workflow") => WorkKind::Workflow,
            Some(_) => WorkKind::Task,
        };
        let id = told([self.id, self.task_id, self.command, self.description]);
        Some(Work { kind, id: id.unwrap_or_default() })
    }
}

/// A payload of the common shape.
pub fn common(json: &[u8]) -> serde_json::Result<Payload> {
    let sent: Common = serde_json::from_slice(json)?;
    let tasks = sent.background_tasks.into_iter().flatten().filter_map(BackgroundTask::work);
    let crons = sent.session_crons.into_iter().flatten().filter_map(Cron::work);
    let is_notification = sent.prompt.as_str().is_some_and(|it| it.starts_with(NOTIFICATION));
    Ok(Payload {
        is_notification,
        event: sent.hook_event_name.or(sent.camel_event),
        session: told([sent.session_id, sent.camel_session]),
        transcript: sent.transcript_path.or(sent.camel_transcript),
        folder: sent.cwd,
        after_block: sent.stop_hook_active,
        last_message: sent.last_assistant_message,
        background: tasks.chain(crons).collect(),
        is_planning: sent.permission_mode.as_deref() == Some("plan"),
        settings: sent.file_path,
        tool: sent.tool_name,
        task: Task {
            id: sent.task_id,
            subject: sent.task_subject,
            description: sent.task_description,
            teammate: sent.teammate_name,
            team: sent.team_name,
        },
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
