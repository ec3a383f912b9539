//! Evidence that nothing can produce: what a rule waits for, and nobody can bring about.

use super::finding::{Finding, Severity};
use crate::algebra::{Scalar, Subjects, Test};
use crate::events::{ALIASES, JOB_ENDED, JOB_STARTED};
use crate::workflow::{Does, Workflow};

pub(super) fn sources(workflow: &Workflow, subjects: &Subjects) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, rule) in workflow.rules() {
        if !rule.on.is_empty() && !rule.on.iter().any(|event| can_happen(workflow, event)) {
            let events = rule.on.join("`, `");
            let message = format!("nothing can cause `{events}`: no job of that kind is started");
            let finding = Finding::new(Severity::Error, "no-source", rule.span.clone(), message);
            let hint = "declare such a job and start it by a rule, or remove this one";
            let label = Some(rule.label.to_string());
            found.push(Finding { hint: Some(hint.into()), rule: label, ..finding });
        }
    }
    let template = workflow.actions.iter().any(|it| matches!(it.does, Does::Create { .. }));
    for field in &workflow.protected {
        let mut path = field.split('.');
        let first = path.next().unwrap_or_default();
        let outer = workflow.outer();
        let name = format!("{}.{field}", outer.name);
        let asked = subjects.all.iter().find(|subject| subject.name == name);
        let is_set = workflow
            .rules()
            .flat_map(|(_, rule)| &rule.set)
            .any(|set| set.path.first().is_none_or(|it| it == first));
        let Some(asked) = asked.filter(|_| !is_set && !template && *field != outer.field) else {
            continue;
        };
        let wants = asked.tests.iter().any(|it| *it != Test::Is(Scalar::None));
        let reads = |text: &str| text.contains(&name);
        let rule = workflow.rules().map(|(_, rule)| rule);
        let rule = rule
            .into_iter()
            .find(|rule| rule.when.as_ref().is_some_and(|guard| reads(&guard.whole.text)));
        if let Some(rule) = rule.filter(|_| wants) {
            let message = format!("nothing can set `{name}`: it is protected, and no rule sets it");
            let finding = Finding::new(Severity::Error, "no-source", rule.span.clone(), message);
            let hint = "set it by a rule, or take it out of `protected`";
            let label = Some(rule.label.to_string());
            found.push(Finding { hint: Some(hint.into()), rule: label, ..finding });
        }
    }
    found
}

/// Whether an event can come at all.
fn can_happen(workflow: &Workflow, event: &str) -> bool {
    let started = |wanted: &dyn Fn(&str) -> bool| {
        workflow
            .rules()
            .filter_map(|(_, rule)| rule.start)
            .any(|at| wanted(&workflow.jobs[at].kind.to_string()))
    };
    if let Some(alias) = ALIASES.iter().find(|alias| alias.name == event) {
        return started(&|kind| kind == alias.kind);
    }
    match event {
        JOB_STARTED | JOB_ENDED => {
            started(&|_| true) || workflow.rules().any(|(_, rule)| !rule.run.is_empty())
        }
        _ => true,
    }
}
