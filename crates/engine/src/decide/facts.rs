//! Expressions in a decision: the names they see, the parts of a guard, and texts.

use std::error::Error as _;
use std::sync::Arc;

use minijinja::{Error, ErrorKind, Value};

use super::missing::Situation;
use super::{Beside, Deciding, Fault, MOST_TRIED, Renders};
use crate::check::CheckResult;
use crate::evidence::Aside;
use crate::functions::{Failed, MAX_STEPS};
use crate::json::Json;
use crate::names::{CHECK, MISSING};
use crate::step::Part;
use crate::syntax::Use;
use crate::workflow::{Expression, GuardParts, TextId};

impl<'w> Deciding<'w> {
    pub(super) fn guard(
        &mut self,
        guard: &'w GuardParts,
        seen: &mut Vec<Part>,
    ) -> Result<bool, Fault> {
        match guard {
            GuardParts::All(items) => {
                for item in items {
                    if !self.guard(item, seen)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            GuardParts::Any(items) => {
                for item in items {
                    if self.guard(item, seen)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            GuardParts::Not(inner) => {
                let held = !self.guard(inner, seen)?;
                if let (GuardParts::Leaf(_), Some(part)) = (&**inner, seen.last_mut()) {
                    part.text.insert_str(0, "not ");
                    part.held = held;
                }
                Ok(held)
            }
            GuardParts::Leaf(leaf) => {
                let held = match self.supposed.get(&leaf.text) {
                    Some(held) => *held,
                    None => self.leaf(leaf)?,
                };
                if self.trace.tried.len() < MOST_TRIED {
                    let reads = self.reads(leaf);
                    seen.push(Part { text: leaf.text.clone(), held, reads });
                }
                Ok(held)
            }
        }
    }

    fn leaf(&mut self, leaf: &'w Expression) -> Result<bool, Fault> {
        let value = self.evaluate(leaf)?;
        if value.is_undefined() {
            return Err(Fault::new(format!("{} is undefined", place_of(leaf))));
        }
        Ok(value.is_true())
    }

    /// The values of the names in an expression, in short.
    fn reads(&mut self, expression: &'w Expression) -> Vec<(String, String)> {
        let mut reads: Vec<(String, String)> = Vec::new();
        for used in &expression.names().variables {
            let value = match used.path.as_slice() {
                [root, name, ..] if root == CHECK => {
                    self.check(name).map(|result| Some(Value::from_pairs([(&**name, result)])))
                }
                path => self.named(&path[0]),
            };
            let Ok(Some(mut value)) = value else { continue };
            let reached = used.path[1..].iter().all(|member| match value.get_attr(member) {
                Ok(next) => {
                    value = next;
                    true
                }
                Err(_) => false,
            });
            if reached {
                let row = self.row_of(&used.path[0]).map(|row| format!(" ({row})"));
                reads.push((used.dotted(), brief(&value) + &row.unwrap_or_default()));
            }
        }
        reads
    }

    pub(super) fn evaluate(&mut self, expression: &'w Expression) -> Result<Value, Fault> {
        let context = self.context(&expression.names().variables)?;
        let compiled = match self.compiled.get(&std::ptr::from_ref(expression)) {
            Some(compiled) => compiled.clone(),
            None => {
                let compiled = self.env.compile_expression(&expression.text);
                let compiled = Arc::new(compiled.map_err(|error| fault_at(expression, &error))?);
                self.compiled.insert(expression, compiled.clone());
                compiled
            }
        };
        compiled.eval(context).map_err(|error| fault_at(expression, &error))
    }

    pub(super) fn text(&mut self, id: TextId) -> Result<String, Fault> {
        let text = &self.workflow.texts[id.0];
        let context = self.context(&text.names().variables)?;
        let rendered = self.env.render_str(&text.text, context);
        rendered.map_err(|error| {
            if let Some(Failed(message)) = failed(&error) {
                return Fault::new(message.clone());
            }
            let (line, _) = text.source.position(text.span.start);
            let line = line + error.line().unwrap_or(1) - 1;
            Fault::new(format!("{}:{line}: {}", text.source.name, explain(&error)))
        })
    }

    fn context(&mut self, uses: &[Use]) -> Result<Value, Fault> {
        let mut context: Vec<(&str, Value)> = Vec::new();
        let mut checks: Vec<(&str, Value)> = Vec::new();
        for used in uses {
            let name = used.path[0].as_str();
            if let (CHECK, Some(check)) = (name, used.path.get(1)) {
                checks.push((check, self.check(check)?));
                continue;
            }
            if context.iter().any(|(known, _)| *known == name) {
                continue;
            }
            match self.named(name) {
                Ok(Some(value)) => context.push((name, value)),
                Ok(None) => {}
                Err(fault) if fault.needs.is_some() => return Err(fault),
                // It fails where it is used, and an expression may well not come to that.
                Err(fault) => {
                    let error = Error::new(ErrorKind::InvalidOperation, fault.message);
                    context.push((name, Value::from(error)));
                }
            }
        }
        if !checks.is_empty() {
            context.push((CHECK, Value::from_pairs(checks)));
        }
        Ok(Value::from_pairs(context))
    }

    fn check(&mut self, name: &str) -> Result<Value, Fault> {
        if self.workflow.has_nothing_to_check(name) {
            return Ok(CheckResult { ok: true, ..CheckResult::default() }.to_json().to_value());
        }
        let result = match self.recorder.check(name) {
            Some(result) => result,
            // For a property nothing is started: what has not run on this tree has not passed.
            None if self.reached.is_some() => CheckResult::default(),
            None => return Err(Fault::needs(name)),
        };
        Ok(result.to_json().to_value())
    }

    /// Patterns of the files that the results of checks rest on.
    pub(super) fn guards(&mut self) -> Result<Vec<String>, Fault> {
        let workflow = self.workflow;
        let mut patterns = Vec::new();
        for check in workflow.checks() {
            match &check.constant {
                // As it is configured now.
                Some(constant) => {
                    let words = self.named(constant)?.unwrap_or_default();
                    patterns
                        .extend(words.try_iter().into_iter().flatten().map(|it| it.to_string()));
                }
                None => patterns.extend(self.command_line(&check.run)?),
            }
            patterns.extend(self.command_line(&check.guards)?);
        }
        let plain = |it: String| it.strip_prefix("./").map(str::to_string).unwrap_or(it);
        Ok(patterns.into_iter().map(plain).collect())
    }

    /// A fact of the machine at a depth, which sees no deeper, and is kept until something changes.
    fn derived(
        &mut self,
        depth: usize,
        name: &Arc<str>,
        derive: impl FnOnce(&mut Self) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let visible = std::mem::replace(&mut self.visible, depth + 1);
        let value = derive(self);
        self.visible = visible;
        let value = value?;
        self.bound[depth].lets.insert(name.clone(), value.clone());
        Ok(value)
    }

    fn named(&mut self, name: &str) -> Result<Option<Value>, Fault> {
        for depth in (0..self.visible).rev() {
            let bound = &self.bound[depth];
            let machine = self.workflow.machine(bound.machine);
            if &*machine.name == name {
                let object = self.document.at(bound.path.iter().map(String::as_str));
                return Ok(object.map(Json::to_value));
            }
            if let Some(value) = bound.lets.get(name) {
                return Ok(Some(value.clone()));
            }
            if let Some((name, fact)) = machine.lets.iter().find(|(known, _)| &**known == name) {
                return self.derived(depth, name, |this| this.evaluate(fact)).map(Some);
            }
            if let Some(choice) = machine.choices.iter().find(|choice| &*choice.name == name) {
                return self.derived(depth, &choice.name, |this| this.chosen(choice)).map(Some);
            }
        }
        Ok(match name {
            "run" => Some(self.run.to_value()),
            "event" => Some(self.event.to_value()),
            "params" => Some(self.params.to_value()),
            "agent" => Some(self.agent.to_value()),
            "agents" => {
                let mut agents = match self.recorder.agents() {
                    Json::List(agents) => agents.0.clone(),
                    _ => Vec::new(),
                };
                agents.extend(self.started.iter().cloned());
                Some(Json::from(agents).to_value())
            }
            "can" => Some(self.can()?.to_value()),
            "guards" => Some(Value::from(self.guards()?)),
            "moves" => {
                let moves = self.moves.iter().map(|step| {
                    let of = Json::from(step.of.as_str());
                    let (from, to) = (Json::from(step.from.as_str()), Json::from(step.to.as_str()));
                    Json::from([("of", of), ("from", from), ("to", to)])
                });
                Some(Json::from(moves.collect::<Vec<_>>()).to_value())
            }
            "key" => Some(self.bound[self.visible - 1].key.to_value()),
            name if let Some((_, value)) =
                self.reached.iter().flatten().find(|(known, _)| *known == name) =>
            {
                Some(value.to_value())
            }
            MISSING if self.renders == Renders::Block => Some(Value::from(self.missing())),
            _ => {
                let found = self.workflow.constants.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.to_value())
            }
        })
    }
}

impl Deciding<'_> {
    /// The facts that would open the gate, in the words of the guards.
    fn missing(&self) -> String {
        let Some(Beside { event, run, recorder, document }) = &self.beside else {
            return String::new();
        };
        let situation = Situation {
            workflow: self.workflow,
            document: (*document).clone(),
            event,
            run,
            evidence: Arc::new(Aside::new((*recorder).clone())),
        };
        situation.in_words()
    }
}

pub(super) fn place_of(expression: &Expression) -> String {
    let (line, column) = expression.source.position(expression.span.start);
    format!("{}:{line}:{column}: `{}`", expression.source.name, expression.text)
}

/// What the workflow itself says is wrong.
fn failed(error: &Error) -> Option<&Failed> {
    error.source().and_then(|source| source.downcast_ref())
}

pub(super) fn fault_at(expression: &Expression, error: &Error) -> Fault {
    if let Some(Failed(message)) = failed(error) {
        return Fault::new(message.clone());
    }
    Fault::new(format!("{}: {}", place_of(expression), explain(error)))
}

fn explain(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        let millions = MAX_STEPS / 1_000_000;
        return format!("it was abandoned after {millions} million steps");
    }
    match error.detail() {
        Some(detail) => detail.to_string(),
        None => error.kind().to_string(),
    }
}

/// A short form of a value for a trace.
fn brief(value: &Value) -> String {
    match value.len() {
        Some(len) if value.as_str().is_none() => format!("[{len} elements]"),
        _ => Json::from_value(value).map_or_else(|_| value.to_string(), |json| json.brief()),
    }
}
