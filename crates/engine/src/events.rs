//! The events that are not actions of a workflow: their names, and what kind of event each is.

/// An agent wants to stop.
pub const STOP: &str = "stop";

/// A client is about to shorten its conversation.
pub const PRE_COMPACT: &str = "pre-compact";

/// An agent is about to call a task of its own list done.
pub const TASK_COMPLETED: &str = "task-completed";

/// A teammate of an agent is about to go idle.
pub const TEAMMATE_IDLE: &str = "teammate-idle";

/// A job in the background runs.
pub const JOB_STARTED: &str = "job-started";

/// A job runs no longer.
pub const JOB_ENDED: &str = "job-ended";

/// The parameter of a job's event that tells its kind.
pub const KIND: &str = "kind";

/// The parameter of a job's end that tells its verdict.
pub const VERDICT: &str = "verdict";

/// A name for what happens to jobs of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    pub name: &'static str,
    pub event: &'static str,
    pub kind: &'static str,
    /// Only where there is a verdict: a review without one was never made.
    pub judged: bool,
}

/// Shorter names for what happens to jobs of the usual kinds.
pub const ALIASES: &[Alias] = &[
    Alias { name: "agent-started", event: JOB_STARTED, kind: "agent", judged: false },
    Alias { name: "agent-exited", event: JOB_ENDED, kind: "agent", judged: false },
    Alias { name: "review-finished", event: JOB_ENDED, kind: "reviewer", judged: true },
    Alias { name: "work-finished", event: JOB_ENDED, kind: "worker", judged: false },
];

/// A run is ended for good. A workflow may declare an action of this name.
pub const CANCEL: &str = "cancel";

/// Events that come from outside and that a workflow need not declare as actions.
pub fn undeclared() -> impl Iterator<Item = &'static str> {
    let own = [STOP, PRE_COMPACT, TASK_COMPLETED, TEAMMATE_IDLE, JOB_STARTED, JOB_ENDED];
    own.into_iter().chain(ALIASES.iter().map(|alias| alias.name))
}

/// Whether an event is something that an agent is about to do and that a rule can keep it from.
pub fn can_be_blocked(name: &str) -> bool {
    matches!(name, STOP | TASK_COMPLETED | TEAMMATE_IDLE)
}

/// What kind of event something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An agent wants to stop, and every phase that the event passes through may answer.
    Stop,
    /// Something has happened, whether a rule is about it or not.
    Fact,
    /// Somebody asks for something, and is told whether it was accepted.
    Action,
}

impl EventKind {
    /// The kind of the event of this name.
    pub fn of(name: &str) -> EventKind {
        match name {
            STOP => EventKind::Stop,
            name if undeclared().any(|it| it == name) => EventKind::Fact,
            _ => EventKind::Action,
        }
    }
}
