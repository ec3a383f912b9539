//! Waits that the agent itself can cause: for its background work, for a person whom it has asked, and in plan
//! mode.
//!
//! They let the agent stop although the rules would hold it, so they are bounded: what will come back is
//! waited for once, a shell only at the first stop that shows it, a monitor never; and after two waits in a
//! row without any change the rules decide as if there were nothing to wait for.

use jiff::{SignedDuration, Timestamp};
use phasegate_clients::{Work, WorkKind};
use phasegate_engine::answer::{Answer, Until};

use super::questions::waiting;
use super::transaction::Open;
use crate::git;
use crate::ledger::Waits;
use crate::project::Project;
use crate::words::{Because, sentence};

/// How many waits in a row there are while nothing changes.
const MAX_ROW: u32 = 2;

/// How long a shell is waited for.
const MAX_SHELL: SignedDuration = SignedDuration::from_mins(10);

/// What the stop may wait for; nothing where that was waited for before.
fn awaited(waits: &Waits, background: &[Work]) -> Vec<WorkKind> {
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

/// The answer where a stop is let go for what the agent has caused, and counts it; none where the rules
/// decide.
pub(super) fn wait(
    project: &Project,
    open: &mut Open,
    (background, is_planning, session): (&[Work], bool, Option<&str>),
    phase: &str,
    now: Timestamp,
) -> Option<Answer> {
    let kinds = awaited(&open.run.ledger.session.waits, background);
    // The question of a job that works for the run does not let the session go.
    let question = open.run.ledger.open_question().filter(|question| question.is_of(session));
    let asked = question.map(|question| waiting(&open.run.found.id, question));
    if kinds.is_empty() && !is_planning && asked.is_none() {
        return None;
    }
    let waits = &mut open.run.ledger.session.waits;
    let is_changed = waits.document != open.before
        || waits.since.is_some_and(|since| git::changed_since(&project.root, since));
    if is_changed {
        waits.row = 0;
    }
    if waits.row >= MAX_ROW {
        return None;
    }
    waits.row += 1;
    waits.since = Some(now);
    waits.document.clone_from(&open.before);
    if asked.is_some() {
        return asked;
    }
    let run = open.run.found.id.to_string();
    if is_planning {
        return Some(Answer::waiting(Until::Human, sentence(&run, phase, Because::PlanMode)));
    }
    waits.until = kinds.iter().all(|kind| *kind == WorkKind::Shell).then(|| now + MAX_SHELL);
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let message = sentence(&run, phase, Because::Background(&names.join(", ")));
    Some(Answer::waiting(Until::Background, message))
}

/// Notes what was at work at a stop: at the next one it is not new.
pub(super) fn note(waits: &mut Waits, background: &[Work]) {
    if !background.is_empty() || !waits.known.is_empty() {
        waits.known = background.iter().map(key).collect();
    }
}
