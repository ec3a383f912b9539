//! Checks that every name in every expression means something.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::advice;
use crate::check;
use crate::diagnostic::{Diagnostics, Source, closest};
use crate::functions;
use crate::syntax::{Names, SyntaxError, Use};
use crate::types::Type;
use crate::workflow::{
    Binding, Does, Expression, JobSpec, Machine, MachineId, NewValue, OF_PROPERTIES, OUTER, Reply,
    Rule, TextTemplate, Workflow, Written,
};

/// What every expression can see beside the workflow's own names.
pub const GIVEN: &[(&str, &str)] = &[
    ("state", "the state document"),
    (
        "run",
        "run.name, run.workflow, run.document (its path), run.dir (its folder), run.reviews (how many were begun), run.tampered (how often somebody else changed a protected field), run.unaccepted (how many of those changes no person has accepted), run.others (how many other runs of the workflow are open when it begins), run.problem (why the state is presumed), run.obstacle (why no agent can be started now)",
    ),
    (
        "event",
        "event.name, event.session, event.actor, event.reviewed and event.unreviewed (who has just reviewed, or tried to), event.signed_by (the name of the signer; none where the action is not signed)",
    ),
    ("params", "an action's parameters"),
    (
        "agent",
        "the agent that the event is about, that asks, or that is being started; none where there is none",
    ),
    ("agents", "the agents of the run, each with id, kind, role, status, ended, ok and its facts"),
    ("can", "in a text: the actions that this caller could take now"),
    ("check", "check.NAME: the result of the check of that name"),
    (
        "guards",
        "patterns of the files that results of checks rest on: each check's `guards`, and the words of its command",
    ),
    ("moves", "in a transcript: the moves of the step, each with `of`, `from` and `to`"),
    ("key", "in an inner machine: the element's key or position"),
];

/// The name under which checks are seen.
pub const CHECK: &str = "check";

/// The name under which the text of a block sees what would open the gate, unless the workflow has one of its own.
pub const MISSING: &str = "missing";

/// Finds unknown names, fields, functions, filters and tests.
pub fn check(workflow: &Workflow, definition: &Arc<Source>, found: &mut Diagnostics) {
    let mut check = Check { workflow, definition, found };
    for index in 0..workflow.machines.len() {
        check.machine(MachineId(index));
    }
    for action in &workflow.actions {
        let texts = match &action.does {
            Does::Create { name, document, shows } => [*name, Some(*document), *shows],
            Does::Show { text, json, .. } => [Some(*text), *json, None],
            Does::Event => [None, None, None],
        };
        let scope = check.scope(OUTER);
        for text in texts.into_iter().flatten() {
            check.text(&workflow.texts[text.0], &scope);
        }
    }
    let texts = [workflow.note, workflow.misfit, workflow.unreadable];
    for text in texts.into_iter().chain([workflow.presumed, workflow.guidance]).flatten() {
        let scope = check.scope(OUTER);
        check.text(&workflow.texts[text.0], &scope);
    }
    for text in workflow.transcript.iter().flat_map(|(place, line)| [*place, *line]) {
        let scope = check.scope(OUTER);
        check.text(&workflow.texts[text.0], &scope);
    }
    for job in workflow.checks() {
        let scope = check.scope(OUTER);
        job.guards.texts().iter().for_each(|text| check.text(&workflow.texts[text.0], &scope));
        job.guards.expression().into_iter().for_each(|it| check.expression(it, &scope));
    }
    check.properties();
    collisions(workflow, definition, found);
    cycles(workflow, found);
}

/// Finds names that mean two things.
fn collisions(workflow: &Workflow, definition: &Arc<Source>, found: &mut Diagnostics) {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (name, _) in GIVEN {
        taken.insert(name, "given");
    }
    for machine in workflow.machines.iter().skip(1) {
        if let Some(what) = taken.insert(&machine.name, "a machine") {
            let span = machine.phases.first().map_or(0..0, |phase| phase.span.clone());
            let message = format!("`{}` is {what} already and cannot be a machine", machine.name);
            found.error("name", definition, span, message);
        }
    }
    for (name, _) in &workflow.constants {
        if let Some(what) = taken.insert(name, "a constant") {
            let message = format!("`{name}` is {what} already and cannot be a constant");
            found.error("name", definition, definition.key("const", name), message).hint =
                Some("give the constant another name".into());
        }
    }
    for machine in &workflow.machines {
        let mut own: Vec<&str> = Vec::new();
        for (name, span, _) in machine.facts() {
            let what = taken.get(name).copied().or(own.contains(&name).then_some("a derived fact"));
            if let Some(what) = what {
                let message = format!("`{name}` is {what} already and cannot be a derived fact");
                found.error("name", definition, span.clone(), message);
            }
            own.push(name);
        }
    }
}

struct Check<'a> {
    workflow: &'a Workflow,
    definition: &'a Arc<Source>,
    found: &'a mut Diagnostics,
}

/// Names and, where known, their types.
type Scope = HashMap<String, Type>;

/// The machine and all that it is an element of, innermost first.
pub(crate) fn lineage(workflow: &Workflow, id: MachineId) -> Vec<MachineId> {
    let mut chain = vec![id];
    let mut here = id;
    while let Some(binding) = &workflow.machine(here).binding {
        here = binding.of;
        if chain.contains(&here) {
            break;
        }
        chain.push(here);
    }
    chain
}

/// The type of the object that a machine runs on.
pub fn type_of(workflow: &Workflow, id: MachineId) -> Type {
    let Some(Binding { of, path, .. }) = &workflow.machine(id).binding else {
        return workflow.state.clone();
    };
    let container =
        workflow.records.type_at(&type_of(workflow, *of), path.iter().map(String::as_str));
    match container {
        Type::List(inner) | Type::Map(inner) => *inner,
        _ => Type::Any,
    }
}

impl Check<'_> {
    fn scope(&self, id: MachineId) -> Scope {
        let mut scope: Scope =
            GIVEN.iter().map(|(name, _)| ((*name).to_string(), Type::Any)).collect();
        for (name, _) in &self.workflow.constants {
            scope.insert(name.clone(), Type::Any);
        }
        for id in lineage(self.workflow, id) {
            let machine = self.workflow.machine(id);
            scope.insert(machine.name.to_string(), type_of(self.workflow, id));
            for (name, ..) in machine.facts() {
                scope.insert(name.to_string(), Type::Any);
            }
        }
        scope
    }

    fn machine(&mut self, id: MachineId) {
        let machine: &Machine = self.workflow.machine(id);
        let scope = self.scope(id);
        for (.., by) in machine.facts() {
            for expression in by {
                self.expression(expression, &scope);
            }
        }
        if let Some(derive) = &machine.derive {
            self.expression(derive, &scope);
            if looks_up(machine, derive) {
                let message =
                    "a phase is derived from the state alone, without looking anything up";
                self.found.error("derive", &derive.source, derive.span.clone(), message);
            }
        }
        if let Some(Binding { of, pick: Some(pick), .. }) = &machine.binding {
            let outside = self.scope(*of);
            self.expression(pick, &outside);
        }
        let phases = machine.phases.iter().map(|phase| &phase.rules);
        for rules in std::iter::once(&machine.any).chain(phases) {
            for rule in rules.rules.iter().chain(&rules.always) {
                self.rule(id, rule, &scope);
            }
        }
    }

    fn properties(&mut self) {
        let workflow = self.workflow;
        let mut scope = self.scope(OUTER);
        for property in &workflow.properties {
            for (name, _) in OF_PROPERTIES {
                if scope.insert((*name).to_string(), Type::Any).is_some() {
                    let message = format!("a property cannot tell its own `{name}` from yours");
                    let found =
                        self.found.error("name", self.definition, property.span.clone(), message);
                    found.hint = Some(format!("give your `{name}` another name"));
                }
            }
            for expression in property.expressions() {
                self.expression(expression, &scope);
            }
            for (name, _) in OF_PROPERTIES {
                scope.remove(*name);
            }
        }
    }

    fn rule(&mut self, id: MachineId, rule: &Rule, scope: &Scope) {
        if let Some(guard) = &rule.when {
            self.expression(&guard.whole, scope);
        }
        let workflow = self.workflow;
        for assignment in &rule.set {
            match &assignment.value {
                NewValue::Literal(_) => {}
                NewValue::Expression(expression) => self.expression(expression, scope),
                NewValue::Rendered(text) => self.text(&workflow.texts[text.0], scope),
            }
            if !lineage(workflow, id).contains(&assignment.machine) {
                let name = &workflow.machine(assignment.machine).name;
                let message = format!("`{name}` is not bound in this machine");
                self.found.error("unknown", self.definition, rule.span.clone(), message);
            }
        }
        let places = rule.moved.iter().flat_map(|(from, to)| [*from, *to]);
        let places = places.chain(rule.write.iter().map(|(place, _)| *place));
        for (_, written) in &rule.write {
            match written {
                Written::Text(text) => self.text(&workflow.texts[text.0], scope),
                Written::Patch(it) | Written::Copies(it) => self.expression(it, scope),
            }
        }
        let jobs = rule.run.iter().copied().chain(rule.start).map(|job| &workflow.jobs[job]);
        let jobs: Vec<&JobSpec> = jobs.collect();
        let expressions = jobs.iter().flat_map(|job| job.expressions()).chain(&rule.end);
        for expression in expressions {
            self.expression(expression, scope);
        }
        for text in places.chain(jobs.iter().flat_map(|job| job.texts())) {
            self.text(&workflow.texts[text.0], scope);
        }
        match &rule.reply {
            Some(Reply::Block(text)) => {
                let mut scope = scope.clone();
                scope.entry(MISSING.to_string()).or_insert(Type::Any);
                self.text(&workflow.texts[text.0], &scope);
            }
            Some(Reply::Deny(text) | Reply::Allow { message: Some(text), .. }) => {
                self.text(&workflow.texts[text.0], scope);
            }
            Some(Reply::Allow { message: None, .. }) | None => {}
        }
    }

    fn expression(&mut self, expression: &Expression, scope: &Scope) {
        let Expression { text, source, span, .. } = expression;
        match Names::of_expression(text) {
            Ok(_) => self.names(expression.names(), source, span, scope),
            Err(error) => {
                let hint = advice::expression(text);
                self.syntax(error, source, span, hint);
            }
        }
    }

    fn text(&mut self, template: &TextTemplate, scope: &Scope) {
        let TextTemplate { text, source, span, .. } = template;
        match Names::of_text(text) {
            Ok(_) => self.names(template.names(), source, span, scope),
            Err(error) => {
                let hint = "a hole is `{{ expression }}`, a block `{% if … %}…{% endif %}`";
                self.syntax(error, source, span, Some(hint.into()));
            }
        }
    }

    fn syntax(
        &mut self,
        error: SyntaxError,
        source: &Arc<Source>,
        span: &Range<usize>,
        hint: Option<String>,
    ) {
        let span = match error.range {
            Some(range) => span.start + range.start..span.start + range.end,
            None => span.clone(),
        };
        self.found.error("syntax", source, span, error.message).hint = hint;
    }

    fn names(&mut self, names: &Names, source: &Arc<Source>, span: &Range<usize>, scope: &Scope) {
        for used in &names.variables {
            self.variable(used, source, span, scope);
        }
        let functions: Vec<&str> = functions::FUNCTIONS.iter().map(|(name, _)| *name).collect();
        let filters: Vec<&str> = functions::filters().collect();
        let tests: Vec<&str> = functions::tests().collect();
        self.known("function", &names.functions, &functions, source, span);
        self.known("filter", &names.filters, &filters, source, span);
        self.known("test", &names.tests, &tests, source, span);
        let records: Vec<&str> =
            self.workflow.records.0.iter().map(|record| &*record.name).collect();
        self.known("record", &names.records, &records, source, span);
    }

    fn known(
        &mut self,
        what: &str,
        uses: &[Use],
        known: &[&str],
        source: &Arc<Source>,
        span: &Range<usize>,
    ) {
        for used in uses {
            if !known.contains(&used.path[0].as_str()) {
                self.unknown(what, &used.path[0], known, source, at(used, span));
            }
        }
    }

    fn variable(&mut self, used: &Use, source: &Arc<Source>, span: &Range<usize>, scope: &Scope) {
        let (root, members) = (&used.path[0], &used.path[1..]);
        if root == CHECK {
            return self.check(used, source, span);
        }
        let Some(mut ty) = scope.get(root).cloned() else {
            let known: Vec<&str> = scope.keys().map(String::as_str).collect();
            self.unknown("name", root, &known, source, at(used, span));
            return;
        };
        for member in members {
            let Type::Record(id) = ty else { return };
            let record = self.workflow.records.get(id).clone();
            let Some(field) = record.field(member) else {
                let hint = closest(member, record.fields.iter().map(|field| &*field.name));
                let message = format!("`{}` has no field `{member}`", record.name);
                self.found.error("unknown", source, at(used, span), message).hint =
                    hint.map(|name| format!("did you mean `{name}`?"));
                return;
            };
            ty = field.ty.clone();
        }
    }

    /// Which check is meant must be plain to see: only those are run that an expression names.
    fn check(&mut self, used: &Use, source: &Arc<Source>, span: &Range<usize>) {
        let known: Vec<&str> = self.workflow.checks().map(|check| &*check.name).collect();
        match &used.path[1..] {
            [] => {
                let message = "`check` needs the name of a check: `check.NAME`";
                self.found.error("unknown", source, at(used, span), message);
            }
            // One that cannot be read is an error already.
            [_, ..] if known.is_empty() && self.found.0.iter().any(|it| it.code == "shape") => {}
            [name, ..] if !known.contains(&name.as_str()) => {
                self.unknown("check", name, &known, source, at(used, span));
            }
            [_, member, ..] if !check::MEMBERS.iter().any(|(known, _)| known == member) => {
                let known: Vec<&str> = check::MEMBERS.iter().map(|(name, _)| *name).collect();
                self.unknown("member of a check", member, &known, source, at(used, span));
            }
            _ => {}
        }
    }

    fn unknown(
        &mut self,
        what: &str,
        name: &str,
        known: &[&str],
        source: &Arc<Source>,
        span: Range<usize>,
    ) {
        let used = functions::FUNCTIONS.iter().find(|(known, _)| what == "name" && *known == name);
        let used = used.and_then(|(_, about)| about.split(": ").next());
        let used = used.map(|usage| format!("it is a function: `{usage}`"));
        let meant = || closest(name, known.iter().copied());
        let meant = || meant().map(|name| format!("did you mean `{name}`?"));
        let other = || match what {
            "name" => Some(format!("if it is meant as a text, put it in quotes: `'{name}'`")),
            "function" | "filter" | "test" => {
                Some(format!("`docs/workflows.md` lists every {what} that there is"))
            }
            _ => Some(format!("there are: {}", known.join(", "))).filter(|_| !known.is_empty()),
        };
        let hint = used.or_else(|| advice::name(name)).or_else(meant).or_else(other);
        let message = format!("there is no {what} `{name}`");
        self.found.error("unknown", source, span, message).hint = hint;
    }
}

fn at(used: &Use, span: &Range<usize>) -> Range<usize> {
    let (start, end) = (span.start + used.range.start, span.start + used.range.end);
    if end <= span.end { start..end } else { span.clone() }
}

/// Whether an expression calls a function, itself or by a fact that it is derived from.
fn looks_up(machine: &Machine, expression: &Expression) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut open = vec![expression];
    while let Some(expression) = open.pop() {
        if !expression.names().functions.is_empty() {
            return true;
        }
        for used in &expression.names().variables {
            let Some((name, _, by)) = machine.facts().find(|(name, ..)| *name == used.path[0])
            else {
                continue;
            };
            if !seen.contains(&name) {
                seen.push(name);
                open.extend(by);
            }
        }
    }
    false
}

/// Finds derived facts that need themselves.
fn cycles(workflow: &Workflow, found: &mut Diagnostics) {
    let facts: Vec<Vec<_>> =
        workflow.machines.iter().map(|machine| machine.facts().collect()).collect();
    let resolve = |from: MachineId, name: &str| {
        lineage(workflow, from).into_iter().find_map(|id| {
            let fact = facts[id.0].iter().position(|(known, ..)| *known == name);
            fact.map(|fact| (id.0, fact))
        })
    };
    for (index, own) in facts.iter().enumerate() {
        for (fact, (name, span, by)) in own.iter().enumerate() {
            let mut open = vec![(index, fact)];
            let mut seen = Vec::new();
            while let Some((at, fact)) = open.pop() {
                let (.., by) = &facts[at][fact];
                let names = by.iter().flat_map(|it| &it.names().variables);
                let names = names.map(|used| used.path[0].as_str());
                for next in names.filter_map(|name| resolve(MachineId(at), name)) {
                    if !seen.contains(&next) {
                        seen.push(next);
                        open.push(next);
                    }
                }
            }
            if let (true, Some(first)) = (seen.contains(&(index, fact)), by.first()) {
                let message = format!("`{name}` is derived from itself");
                found.error("cycle", &first.source, (*span).clone(), message);
            }
        }
    }
}
