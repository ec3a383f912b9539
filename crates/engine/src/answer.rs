//! What a decision says.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an ALLOW means. Only `done` may ever be shown as success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The workflow reached its end.
    Done,
    /// Something else must happen first.
    Waiting,
    /// The agent repeats itself.
    Stuck,
    /// A limit on blocks was reached.
    Capped,
    /// A limit on time or money was reached.
    Budget,
    /// The run was given up.
    Aborted,
    /// No run is concerned.
    Inactive,
    /// Something is wrong on our side.
    Fault,
}

/// What a `waiting` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// A person decides.
    Human,
    /// Background work of the client ends.
    Background,
    /// Something outside happens.
    External,
}

/// The code of an action that could not be decided: something is wrong on our side.
pub const FAULT: &str = "fault";

/// The code of a refusal that is about the parameters alone.
pub const INVALID_PARAMS: &str = "invalid_params";

/// The code of an action that no rule is about.
pub const NOT_POSSIBLE: &str = "not_possible";

/// The answer to an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum Answer {
    /// The agent must go on.
    Block { reason: String },
    /// The agent may stop, or the action was accepted.
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Until>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The action is refused; the code tells programs why, where there is one.
    Deny {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
}

impl Answer {
    /// An action that was accepted, or something that has only been noted.
    pub fn accepted() -> Answer {
        Answer::Allow { outcome: None, until: None, message: None }
    }

    /// An ALLOW with an outcome and no message.
    pub fn allow(outcome: Outcome) -> Answer {
        Answer::Allow { outcome: Some(outcome), until: None, message: None }
    }

    /// An ALLOW with an outcome and a message for the user.
    pub fn allow_saying(outcome: Outcome, message: impl Into<String>) -> Answer {
        Answer::Allow { outcome: Some(outcome), until: None, message: Some(message.into()) }
    }

    /// An ALLOW because something else must happen first.
    pub fn waiting(until: Until, message: impl Into<String>) -> Answer {
        let message = Some(message.into());
        Answer::Allow { outcome: Some(Outcome::Waiting), until: Some(until), message }
    }

    /// A DENY for a reason of our own.
    pub fn deny(reason: impl Into<String>) -> Answer {
        Answer::Deny { reason: reason.into(), code: None }
    }

    /// The same, with the code that programs know it by.
    pub fn deny_as(code: &str, reason: impl Into<String>) -> Answer {
        Answer::Deny { reason: reason.into(), code: Some(code.to_string()) }
    }

    /// The outcome of an ALLOW.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Answer::Allow { outcome, .. } => *outcome,
            _ => None,
        }
    }

    /// The answer with its text cut to so many characters.
    #[must_use]
    pub fn shortened(mut self, most: usize) -> Answer {
        let text = match &mut self {
            Answer::Block { reason } | Answer::Deny { reason, .. } => Some(reason),
            Answer::Allow { message, .. } => message.as_mut(),
        };
        if let Some(text) = text
            && let Some((cut, _)) = text.char_indices().nth(most)
        {
            text.truncate(cut);
            text.push('…');
        }
        self
    }

    /// Whether the agent must go on.
    pub fn is_block(&self) -> bool {
        matches!(self, Answer::Block { .. })
    }

    /// What is said to the agent or the user.
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Block { reason } | Answer::Deny { reason, .. } => Some(reason),
            Answer::Allow { message, .. } => message.as_deref(),
        }
    }
}

/// `BLOCK`, `DENY`, `ALLOW done`, `ALLOW waiting (human)`.
impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Answer::Block { .. } => out.write_str("BLOCK"),
            Answer::Deny { .. } => out.write_str("DENY"),
            Answer::Allow { outcome, until, .. } => {
                out.write_str("ALLOW")?;
                if let Some(outcome) = outcome {
                    write!(out, " {outcome}")?;
                }
                if let Some(until) = until {
                    write!(out, " ({until})")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Outcome::Done => "done",
            Outcome::Waiting => "waiting",
            Outcome::Stuck => "stuck",
            Outcome::Capped => "capped",
            Outcome::Budget => "budget",
            Outcome::Aborted => "aborted",
            Outcome::Inactive => "inactive",
            Outcome::Fault => "fault",
        })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Until::Human => "human",
            Until::Background => "background",
            Until::External => "external",
        })
    }
}
