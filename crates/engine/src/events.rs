//! The events that are not actions of a workflow: their names, and what kind of event each is.

/// An agent wants to stop.
pub const STOP: &str = "stop";

/// A client is about to shorten its conversation.
pub const PRE_COMPACT: &str = "pre-compact";

/// A review that a rule asked for was made.
pub const REVIEW_FINISHED: &str = "review-finished";

/// Work that a rule asked for has come to its end.
pub const WORK_FINISHED: &str = "work-finished";

/// An agent that a rule asked for runs.
pub const AGENT_STARTED: &str = "agent-started";

/// An agent that a rule asked for runs no longer.
pub const AGENT_EXITED: &str = "agent-exited";

/// A run is ended for good. A workflow may declare an action of this name.
pub const CANCEL: &str = "cancel";

/// Events that come from outside and that a workflow need not declare as actions.
pub const UNDECLARED: &[&str] =
    &[STOP, PRE_COMPACT, REVIEW_FINISHED, WORK_FINISHED, AGENT_STARTED, AGENT_EXITED];

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
            name if UNDECLARED.contains(&name) => EventKind::Fact,
            _ => EventKind::Action,
        }
    }
}
