//! Waits that the agent itself can cause, decided on what is known: its background work, a question to a person, plan mode.

use jiff::{SignedDuration, Timestamp};
use phasegate_clients::{Work, WorkKind};
use phasegate_engine::answer::{Answer, Until};
use serde::{Deserialize, Serialize};

use crate::ledger::Waits;
use crate::words::{Because, sentence};

/// How many waits in a row there are while nothing changes.
const MAX_ROW: u32 = 2;

/// How long a shell is waited for.
const MAX_SHELL: SignedDuration = SignedDuration::from_mins(10);

/// What such a wait rests on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Caused {
    /// The waits so far.
    pub(super) waits: Waits,
    pub(super) background: Vec<Work>,
    pub(super) is_planning: bool,
    /// What a person is asked, as an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<Answer>,
    /// The document, or a file, has changed since the last wait.
    pub(super) is_changed: bool,
    /// The digest of the document.
    pub(super) document: String,
    pub(super) now: Timestamp,
}

impl Caused {
    /// The answer where a stop is let go for it, and the waits with it; none where the rules decide.
    pub(super) fn answer(&self, run: &str, phase: &str) -> (Waits, Option<Answer>) {
        let mut waits = self.waits.clone();
        let kinds = awaited(&waits, &self.background);
        if kinds.is_empty() && !self.is_planning && self.asked.is_none() {
            return (waits, None);
        }
        if self.is_changed {
            waits.row = 0;
        }
        if waits.row >= MAX_ROW {
            return (waits, None);
        }
        waits.row += 1;
        waits.since = Some(self.now);
        waits.document.clone_from(&self.document);
        if self.asked.is_some() {
            return (waits, self.asked.clone());
        }
        if self.is_planning {
            let message = sentence(run, phase, Because::PlanMode);
            return (waits, Some(Answer::waiting(Until::Human, message)));
        }
        let are_shells = kinds.iter().all(|kind| *kind == WorkKind::Shell);
        waits.until = are_shells.then(|| self.now + MAX_SHELL);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let message = sentence(run, phase, Because::Background(&names.join(", ")));
        (waits, Some(Answer::waiting(Until::Background, message)))
    }
}

/// What the stop may wait for; nothing where that was waited for before.
pub(super) fn awaited(waits: &Waits, background: &[Work]) -> Vec<WorkKind> {
    let is_new = |work: &Work| !waits.known.contains(&key(work));
    // Of several sub-agents that come back one after the other, the rest is waited for each time.
    let returning = background.iter().filter(|work| work.kind.returns()).count();
    let were_there = waits.known.iter().filter(|known| known.starts_with('+')).count();
    let came_back = returning < were_there;
    let mut kinds: Vec<WorkKind> = Vec::new();
    for work in background {
        let is_awaited = match work.kind {
            WorkKind::Monitor => false,
            WorkKind::Shell => is_new(work),
            _ => is_new(work) || came_back,
        };
        if is_awaited && !kinds.contains(&work.kind) {
            kinds.push(work.kind);
        }
    }
    kinds
}

/// What tells one piece of work from others; first, whether it comes back.
fn key(work: &Work) -> String {
    let sign = if work.kind.returns() { '+' } else { '-' };
    format!("{sign}{}", work.id)
}

/// The shells among the work at a stop.
pub(super) fn shells(background: &[Work]) -> Vec<String> {
    background.iter().filter(|work| work.kind == WorkKind::Shell).map(key).collect()
}

/// Notes the shells that the session has shown at an earlier stop, maybe to another run: a server that is left running
/// would otherwise let the session go at the first stop of each run.
pub(super) fn recall(waits: &mut Waits, shells: &[String]) {
    for shell in shells {
        if !waits.known.contains(shell) {
            waits.known.push(shell.clone());
        }
    }
}

/// Notes what was at work at a stop: at the next one it is not new.
pub(super) fn note(waits: &mut Waits, background: &[Work]) {
    if !background.is_empty() || !waits.known.is_empty() {
        waits.known = background.iter().map(key).collect();
    }
}
