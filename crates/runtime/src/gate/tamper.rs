//! What only the rules may change in a state document, and who else has changed it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::types::Type;
use phasegate_engine::workflow::Workflow;

use crate::ledger::{Ledger, Tampered};
use crate::run::RunId;

/// How many changes from outside are remembered.
const MAX_TAMPERED: usize = 16;

/// A longer value is remembered by its digest.
const LONG: usize = 80;

/// Notices protected fields that somebody else has changed.
pub(super) fn compare(
    (id, workflow): (&RunId, &Workflow),
    ledger: &mut Ledger,
    document: &Json,
    notes: &mut Vec<String>,
) {
    let mut changes = Vec::new();
    for (field, known) in &ledger.tamper.protected {
        let now = value(document, field);
        if now != *known && !is_reset(workflow, document, field) {
            let (field, from) = (field.clone(), known.clone());
            changes.push(Tampered { at: Timestamp::now(), field, from, to: now });
        }
    }
    for change in changes {
        notes.push(format!("run {id}: {change}."));
        ledger.tamper.protected.insert(change.field.clone(), change.to.clone());
        ledger.tamper.changes.push(change);
        ledger.tamper.count += 1;
    }
    let more = ledger.tamper.changes.len().saturating_sub(MAX_TAMPERED);
    ledger.tamper.changes.drain(..more);
}

/// The protected fields of a document, in short.
pub(super) fn protected(workflow: &Workflow, document: &Json) -> BTreeMap<String, String> {
    let outer = workflow.outer();
    // The phase is always one of them, where a field holds it.
    let phase = outer.derive.is_none().then_some(&outer.field);
    let paths = workflow.protected.iter().chain(phase);
    paths.map(|path| (path.clone(), value(document, path))).collect()
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
    let text = value.to_text(None);
    let text = text.trim_end();
    match text.len() {
        ..LONG => text.to_string(),
        length => format!("{length} bytes ({})", &digest(text.as_bytes())[..16]),
    }
}
