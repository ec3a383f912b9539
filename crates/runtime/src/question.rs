//! A question that an agent has for the person, from the asking to the moment at which the agent has the answer.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plain;

/// How long a question or an answer may be, in characters. It must fit in front of a block's reason.
pub const MAX_TEXT: usize = 4_000;

/// A question to the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub at: Timestamp,
    pub text: String,
    /// The session that has asked, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The job that has asked, by id, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the person has answered. The agent has not read it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl Question {
    /// Whether it was asked by a session itself, and by this one, as far as sessions are told.
    pub fn is_of(&self, session: Option<&str>) -> bool {
        let is_same =
            self.session.is_none() || session.is_none() || self.session.as_deref() == session;
        self.agent.is_none() && is_same
    }

    /// Whether it was asked by this job, or by this session where it was none of our jobs. A caller that does not
    /// tell its session is not taken for one that does.
    pub fn is_by(&self, agent: Option<&str>, session: Option<&str>) -> bool {
        self.agent.as_deref() == agent
            && (agent.is_some() || self.session.is_none() || self.session.as_deref() == session)
    }
}

/// Why a text cannot be a question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    #[error("the text is empty")]
    Empty,
    #[error("the text has {0} characters, and at most {MAX_TEXT} are passed on; shorten it")]
    TooLong(usize),
}

/// A text as it is passed on: without what a terminal would obey.
///
/// # Errors
/// Where nothing is left of it, or it is too long.
pub fn cleaned(text: &str) -> Result<String, BadText> {
    let text = plain::text(text).trim().to_string();
    match text.chars().count() {
        0 => Err(BadText::Empty),
        1..=MAX_TEXT => Ok(text),
        length => Err(BadText::TooLong(length)),
    }
}
