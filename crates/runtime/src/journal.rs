//! The journal of a run: one line for every decision, each bound to the one before by its hash.

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::digest::digest;
use phasegate_engine::evidence::Reading;
use phasegate_engine::step::{Event, Move, Trace};
use serde::{Deserialize, Serialize};

/// A line of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
    pub from: String,
    pub to: String,
    pub answer: Answer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    #[serde(default)]
    pub trace: Trace,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Reading>,
    /// Digests of the state document before and after.
    pub before: String,
    pub after: String,
    /// What was repaired before this line could be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The hash of the line before; empty for the first.
    pub prev: String,
    /// The hash of this line without this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

impl Line {
    /// The line's text, sealed with its hash.
    pub fn seal(mut self) -> Result<String, serde_json::Error> {
        self.hash = String::new();
        let body = serde_json::to_string(&self)?;
        let hash = digest(body.as_bytes());
        // The hash is the last field, so sealing is appending and checking is cutting.
        Ok(format!("{},\"hash\":\"{hash}\"}}", &body[..body.len() - 1]))
    }
}

/// The seal of a line's text, and the text that it seals.
fn seal_of(line: &str) -> Option<(&str, String)> {
    let (body, seal) = line.rsplit_once(",\"hash\":\"")?;
    Some((seal.strip_suffix("\"}")?, format!("{body}}}")))
}

/// The number and the hash that the next line continues from.
pub fn continue_from(last: Option<&str>) -> (u64, String) {
    #[derive(Deserialize)]
    struct Tail {
        seq: u64,
        hash: String,
    }
    match last.and_then(|line| serde_json::from_str::<Tail>(line).ok()) {
        Some(tail) => (tail.seq, tail.hash),
        None => (0, String::new()),
    }
}

/// Checks the chain.
///
/// # Errors
/// The first line that does not fit, and why.
pub fn verify(lines: &[String]) -> Result<u64, String> {
    let mut prev = String::new();
    let mut seq = 0;
    for (index, text) in lines.iter().enumerate() {
        let at = index + 1;
        let (seal, body) = seal_of(text).ok_or(format!("line {at} has no hash"))?;
        if digest(body.as_bytes()) != seal {
            return Err(format!("line {at} was changed after it was written"));
        }
        let line: Line =
            serde_json::from_str(text).map_err(|error| format!("line {at}: {error}"))?;
        if line.prev != prev || line.seq != seq + 1 {
            return Err(format!(
                "line {at} does not follow line {index}: something was removed or added"
            ));
        }
        prev = seal.to_string();
        seq = line.seq;
    }
    Ok(seq)
}
