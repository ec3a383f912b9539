//! The parts of a guard that a decision did not come to, because the parts before them had settled it. A trace does not
//! have them: they are told by the definition.

use crate::step::Tried;
use crate::workflow::{GuardParts, Workflow};

/// The parts of a rule's guard that were not reached; none where the rule is not the one that was tried.
pub fn unreached(workflow: &Workflow, tried: &Tried) -> Vec<String> {
    let rule = workflow.rules().map(|(_, rule)| rule).find(|rule| *rule.label == tried.rule);
    let Some(guard) = rule.and_then(|rule| rule.when.as_ref()) else { return Vec::new() };
    let mut all = Vec::new();
    leaves(guard.parts(), false, &mut all);
    // They are tried in their order, so that those which were are among them in that order.
    let mut reached = tried.parts.iter().map(|part| part.text.as_str()).peekable();
    all.retain(|text| reached.next_if_eq(&text.as_str()).is_none());
    if reached.next().is_some() { Vec::new() } else { all }
}

fn leaves(parts: &GuardParts, is_denied: bool, out: &mut Vec<String>) {
    match parts {
        GuardParts::All(items) | GuardParts::Any(items) => {
            for item in items {
                leaves(item, false, out);
            }
        }
        GuardParts::Not(inner) => leaves(inner, matches!(**inner, GuardParts::Leaf(_)), out),
        GuardParts::Leaf(leaf) if is_denied => out.push(format!("not {}", leaf.text)),
        GuardParts::Leaf(leaf) => out.push(leaf.text.clone()),
    }
}
