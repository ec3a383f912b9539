//! What expressions say that can be known to be wrong, or to mean nothing, before they are evaluated.

use std::ops::Range;
use std::sync::Arc;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr};
use regex_lite::Regex;

use super::Lint;
use super::kinds::{Kind, Scope, path};
use crate::diagnostic::{Source, closest};
use crate::evidence::contained;
use crate::functions::FUNCTIONS;
use crate::names::{CHECK, type_of};
use crate::syntax::visit;
use crate::workflow::{Assignment, Expression, Machine, MachineId, NewValue, Rule, TextTemplate};

/// Functions whose first argument is a path.
const OF_PATHS: [&str; 7] = ["exists", "text", "json", "digest", "modified", "patched", "glob"];

/// Functions that take what Jinja says, and not what their line in the table does.
const FREE: [&str; 3] = ["dict", "namespace", "range"];

/// How many arguments a function takes, by its line in the table: `json(path[, record]): …`.
fn arity(name: &str) -> Option<(usize, usize, &'static str)> {
    let (_, about) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    let usage = about.split(": ").next()?;
    let inside = usage.split_once('(')?.1.strip_suffix(')')?;
    let count = |text: &str| {
        text.split(',').filter(|it| !it.trim_matches([' ', '[', ']']).is_empty()).count()
    };
    let least = count(inside.split('[').next().unwrap_or_default());
    Some((least, count(inside), usage))
}

/// What was found in an expression: where, the code, the message and the hint. An error is what fails whenever it
/// is evaluated.
struct Finding {
    at: Range<usize>,
    is_error: bool,
    code: &'static str,
    message: String,
    hint: String,
}

impl Finding {
    fn new(
        at: Range<usize>,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Finding {
        Finding { at, is_error: false, code, message: message.into(), hint: hint.into() }
    }

    fn error(self) -> Finding {
        Finding { is_error: true, ..self }
    }
}

/// What can be told of a part of an expression by itself.
fn look(expr: &Expr, scope: &Scope, found: &mut Vec<Finding>) {
    match expr {
        Expr::Call(call) => {
            let Expr::Var(name) = &call.expr else { return };
            called(name.id, expr, &call.args, found);
        }
        Expr::Test(test) if test.name == "matching" => regex(&test.args, found),
        Expr::Filter(filter) if filter.name == "capture" => regex(&filter.args, found),
        Expr::BinOp(it) => match it.op {
            BinOpKind::Eq | BinOpKind::Ne => {
                compared(&it.left, CompareOpKind::Eq, &it.right, scope, found);
            }
            BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => {
                compared(&it.left, CompareOpKind::Lt, &it.right, scope, found);
            }
            BinOpKind::In => compared(&it.left, CompareOpKind::In, &it.right, scope, found),
            _ => {}
        },
        Expr::Compare(compare) => {
            let mut left = &compare.expr;
            for op in &compare.ops {
                compared(left, op.op, &op.expr, scope, found);
                left = &op.expr;
            }
        }
        _ => {}
    }
}

fn called(name: &str, whole: &Expr, args: &[CallArg], found: &mut Vec<Finding>) {
    if FREE.contains(&name) {
        return;
    }
    let is_counted = args.iter().all(|arg| matches!(arg, CallArg::Pos(_) | CallArg::Kwarg(..)));
    if let Some((least, most, usage)) = arity(name).filter(|_| is_counted)
        && !(least..=most).contains(&args.len())
    {
        let wants = match (least, most) {
            (0, 0) => "no argument".to_string(),
            (1, 1) => "one argument".to_string(),
            (a, b) if a == b => format!("{a} arguments"),
            (a, b) => format!("{a} to {b} arguments"),
        };
        let message = format!("`{name}` takes {wants}, but has {}", args.len());
        let hint = format!("it is used as `{usage}`");
        found.push(Finding::new(visit::place(whole), "arguments", message, hint).error());
    }
    let first = args.first().and_then(visit::positional);
    let path = first.and_then(visit::literal).filter(|_| OF_PATHS.contains(&name));
    if let (Some(path), Some(first)) = (path, first) {
        let is_home = path.starts_with("~/") || path.starts_with('$');
        // A topic of a store is named behind its folder.
        let folder = path.split('#').next().unwrap_or_default();
        if is_home || contained(folder).is_err() {
            let message = format!("{path:?} is not a path inside the project: it reads as missing");
            let hint = "paths are relative to the project and cannot leave it";
            found.push(Finding::new(visit::place(first), "path", message, hint));
        }
    }
}

fn regex(args: &[CallArg], found: &mut Vec<Finding>) {
    let Some(arg) = args.first().and_then(visit::positional) else { return };
    let Some(pattern) = visit::literal(arg) else { return };
    if let Err(error) = Regex::new(pattern) {
        let message = format!("the regular expression {pattern:?} cannot be read: {error}");
        let hint = "put a backslash before a character with a special meaning, such as `(` or `[`: `\\\\(`";
        found.push(Finding::new(visit::place(arg), "regex", message, hint).error());
    }
}

fn compared(left: &Expr, op: CompareOpKind, right: &Expr, scope: &Scope, found: &mut Vec<Finding>) {
    let (Some(a), Some(b)) = (scope.kind(left), scope.kind(right)) else { return };
    if matches!(op, CompareOpKind::In | CompareOpKind::NotIn) {
        let Expr::List(list) = right else { return };
        for item in &list.items {
            chosen(&a, left, item, found);
        }
        return;
    }
    let at = visit::place(left).start..visit::place(right).end;
    if a.differs(&b) {
        let message = match op {
            CompareOpKind::Eq | CompareOpKind::Ne => {
                format!("{} is compared with {}: they are never equal", a.words(), b.words())
            }
            _ => format!("{} and {} have no order", a.words(), b.words()),
        };
        let text = visit::literal(right).or(visit::literal(left));
        let hint = match text {
            Some(text) if text.parse::<f64>().is_ok() || ["true", "false"].contains(&text) => {
                format!("write `{text}` without quotes")
            }
            _ if a == Kind::List || b == Kind::List => {
                "compare its length: `items | length`".into()
            }
            _ => "compare values of one type".to_string(),
        };
        found.push(Finding::new(at, "types", message, hint));
        return;
    }
    chosen(&a, left, right, found);
    chosen(&b, right, left, found);
}

/// A field that is one of several texts, and a text that it never is.
fn chosen(kind: &Kind, field: &Expr, value: &Expr, found: &mut Vec<Finding>) {
    let (Kind::OneOf(names), Some(text)) = (kind, visit::literal(value)) else { return };
    if names.iter().any(|name| name == text) {
        return;
    }
    let field = path(field).map(|path| path.join(".")).unwrap_or_default();
    let meant = closest(text, names.iter().map(String::as_str));
    let hint = match meant {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("it is one of: {}", names.join(", ")),
    };
    let message = format!("`{field}` is never {text:?}");
    found.push(Finding::new(visit::place(value), "types", message, hint));
}

/// Whether a guard is the same whatever happens: `true`, `1 == 1`.
pub(super) fn constant(guard: &str) -> Option<bool> {
    let mut is_constant = true;
    let mut parts = 0;
    visit::expression(guard, &mut |part| {
        parts += 1;
        is_constant &= !matches!(part, Expr::Var(_) | Expr::Call(_) | Expr::GetAttr(_));
    });
    if !is_constant || parts == 0 {
        return None;
    }
    let value = minijinja::Environment::new().compile_expression(guard).ok()?.eval(()).ok()?;
    Some(value.is_true())
}

impl Lint<'_> {
    /// Looks at every expression and text.
    pub(super) fn expressions(&mut self) {
        let workflow = self.workflow;
        for (index, machine) in workflow.machines.iter().enumerate() {
            let scope = Scope::of(workflow, MachineId(index));
            for expression in expressions_of(machine) {
                self.expression(expression, &scope);
            }
            for rule in rules_of(machine) {
                self.guard(rule);
                for set in &rule.set {
                    self.assigned(set, rule, &scope);
                }
            }
        }
        let scope = Scope::of(workflow, crate::workflow::OUTER);
        for text in &workflow.texts {
            self.text(text, &scope);
        }
    }

    fn expression(&mut self, expression: &Expression, scope: &Scope) {
        let mut found = Vec::new();
        visit::expression(&expression.text, &mut |part| look(part, scope, &mut found));
        self.tell(found, &expression.source, &expression.span);
    }

    fn text(&mut self, text: &TextTemplate, scope: &Scope) {
        let mut found = Vec::new();
        visit::text(&text.text, &mut |part| look(part, scope, &mut found));
        self.tell(found, &text.source, &text.span);
    }

    fn tell(&mut self, found: Vec<Finding>, source: &Arc<Source>, span: &Range<usize>) {
        for finding in found {
            let (start, end) = (span.start + finding.at.start, span.start + finding.at.end);
            let at = if end <= span.end { start..end } else { span.clone() };
            let added = if finding.is_error {
                self.found.error(finding.code, source, at, finding.message)
            } else {
                self.found.warning(finding.code, source, at, finding.message)
            };
            added.hint = Some(finding.hint);
        }
    }

    /// A guard that says nothing.
    fn guard(&mut self, rule: &Rule) {
        let Some(guard) = &rule.when else { return };
        let Expression { text, span, .. } = &guard.whole;
        let span = span.clone();
        match constant(text) {
            Some(true) => {
                let message = "this guard always holds".to_string();
                self.warn(
                    "constant",
                    span,
                    message,
                    "remove `when`: a rule without it always holds",
                );
            }
            Some(false) => {
                let message = "this guard never holds, so the rule never fires".to_string();
                self.warn("constant", span, message, "remove the rule, or say when it holds");
            }
            None => {
                let bare = text.trim().trim_start_matches("not ").trim();
                let path: Vec<&str> = bare.split('.').collect();
                if let [CHECK, name] = path.as_slice() {
                    let message = format!(
                        "`check.{name}` is an object, which counts as true whatever the check says"
                    );
                    let hint = format!("ask for its result: `check.{name}.ok`");
                    self.warn("constant", span, message, &hint);
                }
            }
        }
    }

    /// A value that does not fit the field which it is for.
    fn assigned(&mut self, set: &Assignment, rule: &Rule, scope: &Scope) {
        let workflow = self.workflow;
        let own = type_of(workflow, set.machine);
        let steps = set.path.iter().map(String::as_str);
        let Some(wanted) = Kind::of_type(&workflow.records.type_at(&own, steps)) else { return };
        let place = format!("{}.{}", workflow.machine(set.machine).name, set.path.join("."));
        let (given, text, span) = match &set.value {
            NewValue::Literal(value) => (Kind::of_json(value), None, rule.span.clone()),
            NewValue::Expression(expression) => {
                let (mut kind, mut text, mut depth) = (None, None, 0);
                visit::expression(&expression.text, &mut |part| {
                    if depth == 0 {
                        kind = scope.kind(part);
                        text = visit::literal(part).map(str::to_string);
                    }
                    depth += 1;
                });
                (kind, text, expression.span.clone())
            }
            NewValue::Rendered(_) => return,
        };
        let Some(given) = given else { return };
        if wanted.differs(&given) {
            let message =
                format!("`{place}` is {}, but is set to {}", wanted.words(), given.words());
            self.warn(
                "types",
                span,
                message,
                "set a value of its type, or change the type in `[state]`",
            );
        } else if let (Kind::OneOf(names), Some(text)) = (&wanted, text)
            && !names.contains(&text)
        {
            let message = format!("`{place}` is never {text:?}");
            let hint = match closest(&text, names.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("it is one of: {}", names.join(", ")),
            };
            self.warn("types", span, message, &hint);
        }
    }
}

fn rules_of(machine: &Machine) -> impl Iterator<Item = &Rule> {
    let phases = machine.phases.iter().map(|phase| &phase.rules);
    let lists = std::iter::once(&machine.any).chain(phases);
    lists.flat_map(|rules| rules.rules.iter().chain(&rules.always))
}

/// The expressions of a machine: facts, guards, values.
fn expressions_of(machine: &Machine) -> impl Iterator<Item = &Expression> {
    let facts = machine.facts().flat_map(|(.., by)| by);
    let rules = rules_of(machine).flat_map(|rule| {
        let values = rule.set.iter().filter_map(|set| match &set.value {
            NewValue::Expression(expression) => Some(expression),
            _ => None,
        });
        rule.when.iter().map(|guard| &guard.whole).chain(values).chain(&rule.end)
    });
    facts.chain(rules)
}
