//! The journal of a run: one line for every decision, each bound to the one before by its hash.

use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params as params_of;
use phasegate_engine::digest::digest;
use phasegate_engine::evidence::Reading;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Event, Move, Trace};
use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;

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
    /// What the answer rests on; none in a line of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The process that asked, and its ancestors, where they are known: for actions and
    /// commands, not for stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// What was repaired before this line could be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The hash of the line before; empty for the first.
    pub prev: String,
    /// The hash of this line without this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// What the answer of a line rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The gate's own bookkeeping: no rule was asked.
    Gate,
    Rules(Ruling),
}

/// What the rules were given, and what they wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// The digest of the scene, by which it is kept; empty where it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scene: String,
    /// The fingerprint of their step.
    pub step: String,
    /// What they answered, where the gate has given another answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// How many readings and moves a line lists.
const MAX_LISTED: usize = 64;

/// How long a text in a line may be.
pub const MAX_TEXT: usize = 10_000;

impl Line {
    /// Cuts what could make the line too long to read: a journal is read line by line, for years.
    #[must_use]
    pub fn bound(mut self) -> Line {
        let more = self.moves.len().saturating_sub(MAX_LISTED);
        if more > 0 {
            self.moves.truncate(MAX_LISTED);
            self.notes.push(format!("{more} more moves are not listed"));
        }
        self.evidence.truncate(MAX_LISTED);
        self.answer = self.answer.shortened(MAX_TEXT);
        if let Some(Basis::Rules(ruling)) = &mut self.basis {
            ruling.answer = ruling.answer.take().map(|answer| answer.shortened(MAX_TEXT));
        }
        self.event.params = shortened(&self.event.params);
        self
    }

    /// The line's text, sealed with its hash.
    pub fn seal(mut self) -> Result<String, serde_json::Error> {
        self.hash = String::new();
        let body = serde_json::to_string(&self)?;
        let hash = digest(body.as_bytes());
        // The hash is the last field, so sealing is appending and checking is cutting.
        Ok(format!("{},\"hash\":\"{hash}\"}}", &body[..body.len() - 1]))
    }
}

/// Parameters with the digest of a long one in its place, as a line has them.
pub fn shortened(params: &Json) -> Json {
    let Json::Object(members) = params else { return params.clone() };
    let members = members.iter().map(|(name, value)| {
        let text = value.to_text(None);
        let short = match text.len() {
            ..1_000 => value.clone(),
            length => Json::from(format!("{length} bytes, digest {}", digest(text.as_bytes()))),
        };
        (name.to_string(), short)
    });
    params_of(members)
}

/// The seal of a line's text, and the text that it seals.
fn seal_of(line: &str) -> Option<(&str, &str)> {
    let (body, seal) = line.rsplit_once(",\"hash\":\"")?;
    Some((seal.strip_suffix("\"}")?, body))
}

/// The number and the hash of a line; none where it cannot be read.
pub fn position(line: &str) -> Option<(u64, String)> {
    // The number is the first field and the hash the last, so the rest need not be read.
    let (hash, _) = seal_of(line)?;
    Some((seq(line)?, hash.to_string()))
}

/// The number of a line, of which only the beginning need be there.
pub fn seq(line: &str) -> Option<u64> {
    let (seq, _) = line.strip_prefix("{\"seq\":")?.split_once(',')?;
    seq.parse().ok()
}

/// The hash of the line before a line, as that names it; none where it cannot be read.
pub fn before(line: &str) -> Option<&str> {
    let (_, before) = seal_of(line)?.1.rsplit_once(",\"prev\":\"")?;
    before.strip_suffix('"')
}

/// Checks the chain, up to the line that the ledger knows as the last; how many lines there are.
///
/// # Errors
/// The first line that does not fit, and why.
pub fn verify(lines: &[String], ledger: &Ledger) -> Result<u64, String> {
    let mut prev = String::new();
    let mut seq = 0;
    for (index, text) in lines.iter().enumerate() {
        let at = index + 1;
        let (seal, body) = seal_of(text).ok_or(format!("line {at} has no hash"))?;
        if digest(format!("{body}}}").as_bytes()) != seal {
            return Err(format!("line {at} was changed after it was written"));
        }
        let line: Line =
            serde_json::from_str(text).map_err(|error| format!("line {at}: {error}"))?;
        // What was removed before the first line, the ledger knows.
        let pruned = ledger.position.pruned.map_or(0, |pruned| pruned.lines);
        if index == 0 && line.seq > 1 && line.seq <= pruned + 1 {
            prev.clone_from(&line.prev);
            seq = line.seq - 1;
        }
        if line.prev != prev || line.seq != seq + 1 {
            return Err(format!(
                "line {at} does not follow line {index}: something was removed or added"
            ));
        }
        prev = seal.to_string();
        seq = line.seq;
        if seq == ledger.position.seq
            && !ledger.position.head.is_empty()
            && prev != ledger.position.head
        {
            return Err(format!("line {at} is not the one that the ledger knows"));
        }
    }
    // A process that died after its journal line leaves the ledger behind, never ahead.
    if seq < ledger.position.seq {
        return Err(format!(
            "it ends with line {seq}, but the ledger knows {} lines",
            ledger.position.seq
        ));
    }
    Ok(lines.len() as u64)
}
