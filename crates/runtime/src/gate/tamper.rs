//! What only the rules may change in a state document, who else has changed it, and what becomes of that.
//!
//! A protected field is put back where its old value is known, in a step of its own before anything is
//! decided. A final phase that somebody else has set stands where the workflow does not say otherwise: its
//! specification lets the agent stop then. Whatever was changed, the run does not count as done before a
//! person has accepted it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::definition::OnTamper;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::types::Type;
use phasegate_engine::workflow::Workflow;

use crate::ledger::{Ledger, Tampered};
use crate::run::RunId;

/// A longer value is remembered by its digest, and cannot be put back.
const LONG: usize = 4_096;

/// The same in version 0.1.0, whose ledgers are read.
const MAX_WHOLE_ONCE: usize = 80;

/// A longer value is not shown.
const SHOWN: usize = 80;

/// Notices fields that somebody else has changed, and puts protected ones back in the document that was read.
/// Whether any was.
pub(super) fn compare(
    (id, workflow): (&RunId, &Workflow),
    ledger: &mut Ledger,
    document: &mut Json,
    notes: &mut Vec<String>,
) -> bool {
    if ledger.position.phase.is_empty() && ledger.tamper.protected.is_empty() {
        let pending = &ledger.session.pending_notices;
        let found = as_found(id, workflow, document).into_iter();
        notes.extend(found.filter(|note| !pending.contains(note)));
    }
    let mut is_put_back = false;
    for (field, known) in std::mem::take(&mut ledger.tamper.protected) {
        let now = value(document, &field);
        if now == known
            || short(&now, MAX_WHOLE_ONCE) == known
            || is_reset(workflow, document, &field)
        {
            ledger.tamper.protected.insert(field, known);
            continue;
        }
        let stands = may_change(workflow, &field, &now);
        if stands && !is_less(&now, &known) {
            notes.push(format!("Run {id}: `{field}` is {now} now; it was {known}."));
            ledger.tamper.protected.insert(field, now);
            continue;
        }
        let old = if stands { None } else { restorable(workflow, &field, &known, &now) };
        let restored = old.and_then(|old| {
            *document.at_mut(field.split('.'))? = old;
            Some(())
        });
        let change = Tampered { at: Timestamp::now(), field, from: known, to: now };
        let (end, is) = match restored {
            Some(()) => (": it was put back", &change.from),
            None => ("", &change.to),
        };
        is_put_back |= restored.is_some();
        notes.push(format!("run {id}: {change}{end}."));
        ledger.tamper.protected.insert(change.field.clone(), is.clone());
        ledger.tamper.note(change);
    }
    is_put_back
}

/// What a document says in protected fields before the run has decided anything: it stands, since nobody knows
/// better, but the run's own rules have not put it there, and the journal says so.
fn as_found(id: &RunId, workflow: &Workflow, document: &Json) -> Vec<String> {
    let phase = phase_field(workflow);
    let others = workflow.protected.iter().filter(|field| Some(*field) != phase);
    let found = others.filter_map(|field| {
        let now = value(document, field);
        let is_unset = now == "null" || now == "nothing" || is_reset(workflow, document, field);
        let shown = if now.len() <= SHOWN { format!(" ({now})") } else { String::new() };
        (!is_unset).then(|| {
            format!("Run {id} begins with `{field}` as its document has it{shown}; Phasegate has not set it.")
        })
    });
    found.collect()
}

/// The protected fields of a document, in short.
pub(super) fn protected(workflow: &Workflow, document: &Json) -> BTreeMap<String, String> {
    let phase = phase_field(workflow);
    let paths = workflow.protected.iter().chain(&workflow.watched).chain(phase);
    paths.map(|path| (path.clone(), value(document, path))).collect()
}

/// The field that holds the phase, which only the rules may change, where one does.
fn phase_field(workflow: &Workflow) -> Option<&String> {
    let outer = workflow.outer();
    outer.derive.is_none().then_some(&outer.field)
}

/// Whether others may set a field to a value: one that is watched, and the phase to where a run begins, as
/// a new document in the place of the old one has it.
fn may_change(workflow: &Workflow, field: &String, now: &str) -> bool {
    let outer = workflow.outer();
    let is_initial = || outer.phase(now.trim_matches('"')) == outer.initial;
    workflow.watched.contains(field) || phase_field(workflow) == Some(field) && is_initial()
}

/// Whether a number has become smaller.
fn is_less(now: &str, known: &str) -> bool {
    matches!((now.parse::<i64>(), known.parse::<i64>()), (Ok(now), Ok(known)) if now < known)
}

/// The value to be put back in the place of another, if it is known and the workflow does not leave that to its
/// rules. Of phases, one that the workflow does not have is a fault of its own, and a final one stands.
fn restorable(workflow: &Workflow, field: &String, known: &str, now: &str) -> Option<Json> {
    if workflow.on_tamper == OnTamper::Rules || known.len() >= LONG {
        return None;
    }
    if phase_field(workflow) == Some(field) {
        let outer = workflow.outer();
        let phase = outer.get(outer.phase(now.trim_matches('"'))?);
        if phase.ends.is_some() && workflow.on_tamper != OnTamper::Hold {
            return None;
        }
    }
    Json::parse(known.as_bytes()).ok()
}

/// Whether a field has its default: to set it back is to begin anew, and gains nothing.
fn is_reset(workflow: &Workflow, document: &Json, path: &str) -> bool {
    let Type::Record(state) = workflow.state else { return false };
    let record = workflow.records.get(state);
    let default = record.field(path).and_then(|field| field.default.as_ref());
    default.is_some_and(|default| document.get(path).is_none_or(|now| now == default))
}

fn value(document: &Json, path: &str) -> String {
    let Some(value) = document.at(path.split('.')) else { return "nothing".into() };
    short(value.to_text(None).trim_end(), LONG)
}

fn short(text: &str, long: usize) -> String {
    match text.len() {
        length if length < long => text.to_string(),
        length => format!("{length} bytes ({})", &digest(text.as_bytes())[..16]),
    }
}
