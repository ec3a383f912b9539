//! What the guards alone tell: rules that never fire, guards that always hold, rules between which only the order decides.

use std::collections::BTreeMap;

use super::finding::{Finding, Severity};
use crate::actor::Actor;
use crate::algebra::{Formula, Reader, Scalar, Solved, Subjects, Test, solve};
use crate::events::{EventKind, STOP};
use crate::workflow::{Does, Machine, MachineId, Phase, Rule, Workflow};

/// What the guards tell.
#[derive(Debug, Default)]
pub(super) struct Guards {
    pub(super) findings: Vec<Finding>,
    /// How many subjects they ask about.
    pub(super) atoms: usize,
    /// Whether some question was too large.
    pub(super) gave_up: bool,
    /// Everything that guards ask about.
    pub(super) subjects: Subjects,
}

/// What is known of a rule in one place: a phase and an event.
struct Place {
    dead: bool,
    /// The rules that hold wherever it does.
    hidden: Option<Vec<(String, usize)>>,
    always: bool,
}

/// Looks at every guard of a workflow.
pub(super) fn guards(workflow: &Workflow) -> Guards {
    let mut subjects = Subjects::default();
    // All that is ever asked must be known before it can be said which values are told apart.
    let mut questions = Vec::new();
    for (index, machine) in workflow.machines.iter().enumerate() {
        let id = MachineId(index);
        for phase in &machine.phases {
            let always: Vec<&Rule> = machine.always_in(phase).collect();
            questions.push(question(workflow, id, phase, None, always, &mut subjects));
            let rules: Vec<&Rule> = machine.rules_in(phase).collect();
            let mut events: Vec<&str> = Vec::new();
            for event in rules.iter().flat_map(|rule| &rule.on) {
                if !events.contains(&event.as_str()) {
                    events.push(event);
                }
            }
            for event in events {
                let about = rules.iter().copied();
                let about = about.filter(|rule| rule.on.iter().any(|on| on == event)).collect();
                questions.push(question(workflow, id, phase, Some(event), about, &mut subjects));
            }
        }
    }
    let mut found = Guards { atoms: subjects.all.len(), ..Guards::default() };
    let mut places: BTreeMap<usize, (&Rule, Vec<Place>)> = BTreeMap::new();
    for question in &questions {
        for (index, (rule, guard)) in question.rules.iter().enumerate() {
            let place = found.place(question, index, guard, &subjects);
            let key = rule.span.start;
            places.entry(key).or_insert_with(|| (*rule, Vec::new())).1.push(place);
        }
        found.overlaps(question, &subjects);
    }
    for (rule, places) in places.values() {
        found.rule(rule, places);
    }
    found.subjects = subjects;
    found
}

/// The rules that may answer one event in one phase, in order.
struct Question<'w> {
    phase: &'w str,
    event: Option<&'w str>,
    /// What is known there before any guard is looked at.
    given: Formula,
    rules: Vec<(&'w Rule, Formula)>,
}

fn question<'w>(
    workflow: &'w Workflow,
    id: MachineId,
    phase: &'w Phase,
    event: Option<&'w str>,
    rules: Vec<&'w Rule>,
    subjects: &mut Subjects,
) -> Question<'w> {
    let machine = workflow.machine(id);
    let mut reader = Reader { workflow, machine: id, subjects };
    let mut given = in_phase(&mut reader, machine, phase);
    if let Some(event) = event {
        given = given.and(at_event(&mut reader, workflow, event));
    }
    let rules = rules.into_iter().map(|rule| {
        let guard = rule.when.as_ref();
        (rule, guard.map_or(Formula::Known(true), |guard| reader.truth(&guard.whole)))
    });
    let rules = rules.collect();
    Question { phase: &phase.name, event, given, rules }
}

fn in_phase(reader: &mut Reader, machine: &Machine, phase: &Phase) -> Formula {
    match &machine.derive {
        Some(derive) => reader.is(derive, &phase.name),
        None => {
            let here = Test::Is(Scalar::Text(phase.name.to_string()));
            let own = reader.test(&[&machine.name, &machine.field], here);
            // An element that says nothing is in the first phase.
            let first = machine.initial.is_some_and(|id| *machine.get(id).name == *phase.name);
            let none = Test::Is(Scalar::None);
            if first { own.or(reader.test(&[&machine.name, &machine.field], none)) } else { own }
        }
    }
}

/// What is known of an event: its name, who may cause it, and which parameters it does not have.
fn at_event(reader: &mut Reader, workflow: &Workflow, event: &str) -> Formula {
    let is = |text: &str| Test::Is(Scalar::Text(text.into()));
    let mut given = reader.test(&["event", "name"], is(event));
    let action = workflow.action(event);
    let actors: Vec<Actor> = match (EventKind::of(event), action) {
        (EventKind::Stop, _) => vec![Actor::Worker],
        (_, Some(action)) => action.by.clone(),
        (EventKind::Fact | EventKind::Action, None) => Vec::new(),
    };
    if !actors.is_empty() {
        let mut any = Formula::Known(false);
        for actor in actors {
            any = any.or(reader.test(&["event", "actor"], is(&actor.to_string())));
        }
        given = given.and(any);
    }
    if event == STOP || action.is_some_and(|action| matches!(action.does, Does::Event)) {
        let own = |name: &str| action.is_some_and(|it| it.params.iter().any(|it| it.name == name));
        let params = workflow.actions.iter().flat_map(|action| &action.params);
        for param in params.filter(|param| !own(&param.name)) {
            given = given.and(reader.test(&["params", &param.name], Test::Is(Scalar::None)));
        }
    }
    given
}

impl Guards {
    fn impossible(&mut self, formula: &Formula, subjects: &Subjects) -> bool {
        let solved = solve(formula, subjects);
        self.gave_up |= solved == Solved::Unknown;
        solved.is_impossible()
    }

    fn place(
        &mut self,
        question: &Question,
        index: usize,
        guard: &Formula,
        subjects: &Subjects,
    ) -> Place {
        let here = question.given.clone().and(guard.clone());
        let rule = question.rules[index].0;
        let mut place = Place { dead: false, hidden: None, always: false };
        if rule.when.is_some() {
            place.dead = self.impossible(&here, subjects);
            let never = question.given.clone().and(guard.clone().not());
            place.always = !place.dead && self.impossible(&never, subjects);
        }
        if place.dead {
            return place;
        }
        // A rule that only asks an inner machine hides nothing: that may not answer.
        let before = question.rules[..index].iter().filter(|(rule, _)| rule.ask.is_none());
        let before: Vec<&(&Rule, Formula)> = before.collect();
        let open = before.iter().fold(here.clone(), |all, (_, it)| all.and(it.clone().not()));
        if !before.is_empty() && self.impossible(&open, subjects) {
            let label = |rule: &Rule| (rule.label.to_string(), rule.line);
            let alone = before.iter().find(|(_, it)| {
                solve(&here.clone().and(it.clone().not()), subjects).is_impossible()
            });
            place.hidden = Some(match alone {
                Some((rule, _)) => vec![label(rule)],
                None => before.iter().map(|(rule, _)| label(rule)).collect(),
            });
        }
        place
    }

    fn rule(&mut self, rule: &Rule, places: &[Place]) {
        let hidden = places.iter().find_map(|place| place.hidden.as_ref());
        let finding = |severity, code, message: String, hint: &str| Finding {
            hint: Some(hint.into()),
            rule: Some(rule.label.to_string()),
            instead: hidden.into_iter().flatten().map(|(label, _)| label.clone()).collect(),
            ..Finding::new(severity, code, rule.span.clone(), message)
        };
        let guard = rule.when.as_ref().map(|guard| guard.whole.text.clone()).unwrap_or_default();
        if places.iter().all(|place| place.dead) {
            let message = format!("rule `{}` never fires: `{guard}` cannot hold there", rule.label);
            self.findings.push(finding(
                Severity::Error,
                "dead",
                message,
                "correct the guard, or remove the rule",
            ));
        } else if places.iter().all(|place| place.dead || place.hidden.is_some()) {
            let by: Vec<String> = hidden
                .into_iter()
                .flatten()
                .map(|(label, line)| format!("`{label}` (line {line})"))
                .collect();
            let verb = if by.len() == 1 { "holds" } else { "hold" };
            let message = format!(
                "rule `{}` never fires: {} {verb} wherever it would, and come{} first",
                rule.label,
                by.join(" or "),
                if by.len() == 1 { "s" } else { "" }
            );
            self.findings.push(finding(
                Severity::Error,
                "shadowed",
                message,
                "move it before the other, or narrow the other's guard",
            ));
        } else if rule.when.is_some() && places.iter().all(|place| place.always) {
            let message = format!("`{guard}` always holds where rule `{}` is tried", rule.label);
            self.findings.push(finding(
                Severity::Warning,
                "always-true",
                message,
                "remove the guard, or correct it",
            ));
        }
    }

    /// Neighbours with different answers that can both hold: the order decides.
    fn overlaps(&mut self, question: &Question, subjects: &Subjects) {
        let Some(event) = question.event else { return };
        for pair in question.rules.windows(2) {
            let [(first, one), (second, other)] = pair else { continue };
            let plain = |rule: &Rule| rule.when.is_some() && rule.ask.is_none();
            if !plain(first) || !plain(second) {
                continue;
            }
            let both = question.given.clone().and(one.clone()).and(other.clone());
            let Solved::Possible(values) = solve(&both, subjects) else { continue };
            let example: Vec<&str> =
                values.iter().map(|(at, _)| subjects.all[*at].name.as_str()).take(4).collect();
            let message = format!(
                "`{}` and `{}` can both hold at `{event}` in `{}` (by {}): the order decides",
                first.label,
                second.label,
                question.phase,
                example.join(", ")
            );
            self.findings.push(Finding::new(
                Severity::Note,
                "overlap",
                second.span.clone(),
                message,
            ));
        }
    }
}
