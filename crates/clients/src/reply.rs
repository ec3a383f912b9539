//! What is answered to a client, and the words that most of them understand.

use serde_json::{Map, Value};

/// The answer to a hook, before a client's dialect is applied.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The agent must go on, for this reason.
    pub block: Option<String>,
    /// The agent may not use the tool, for this reason.
    pub refusal: Option<String>,
    /// What the user is told.
    pub message: Option<String>,
    /// The event, and what the agent is told about its run.
    pub context: Option<(&'static str, String)>,
}

impl Reply {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.block.is_none()
            && self.refusal.is_none()
            && self.message.is_none()
            && self.context.is_none()
    }
}

/// A decision with its reason.
pub fn decision(word: &str, reason: &str) -> Map<String, Value> {
    members([("decision", word.into()), ("reason", reason.into())])
}

/// An answer of these members.
pub fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// The reason of an answer whose decision is one of these.
pub fn reason(answer: &Value, decisions: &[&str]) -> Option<String> {
    let decision = answer.get("decision")?.as_str()?;
    let reason = answer.get("reason").and_then(Value::as_str).unwrap_or_default();
    decisions.contains(&decision).then(|| reason.to_string())
}
