//! A rule in a decision: whether its guard holds, and what it sets, moves, answers and wants done.

use super::facts::fault_at;
use super::{Deciding, Fault, MOST_TRIED, Renders};
use crate::answer::Answer;
use crate::functions::object;
use crate::job::{CommandRun, Job};
use crate::json::Json;
use crate::step::{Effect, Event, Move, Tried};
use crate::workflow::{CommandLine, JobSpec, PhaseId, Reply, Rule, TextId, Written};

impl<'w> Deciding<'w> {
    pub(super) fn holds(&mut self, rule: &'w Rule) -> Result<bool, Fault> {
        let mut parts = Vec::new();
        let result = match &rule.when {
            None => Ok(true),
            Some(guard) => self.guard(guard.parts(), &mut parts),
        };
        let held = matches!(result, Ok(true));
        if self.trace.tried.len() < MOST_TRIED {
            let element = self.element_name();
            let (rule, line) = (rule.label.to_string(), rule.line);
            self.trace.tried.push(Tried { rule, line, element, held, parts });
        } else {
            self.trace.more += 1;
        }
        result
    }

    pub(super) fn fire(&mut self, rule: &'w Rule) -> Result<Option<Answer>, Fault> {
        let from = self.phase()?.name.to_string();
        for assignment in &rule.set {
            self.assign(assignment)?;
        }
        if let Some(to) = rule.goto {
            self.go(rule, from, to)?;
        }
        let effects = self.effects(rule)?;
        self.effects.extend(effects);
        let reply = self.reply(rule)?;
        self.note_fired(rule);
        Ok(reply)
    }

    /// Notes that a rule has fired, once it has done so without a fault: a rule whose guard holds
    /// but whose text cannot be rendered has proved nothing, and must not count as covered.
    pub(super) fn note_fired(&mut self, rule: &'w Rule) {
        if !self.trace.fired.iter().any(|label| **label == *rule.label) {
            self.trace.fired.push(rule.label.to_string());
        }
    }

    fn go(&mut self, rule: &'w Rule, from: String, to: PhaseId) -> Result<(), Fault> {
        let machine = self.machine();
        let to = machine.get(to).name.to_string();
        let of = self.element_name().unwrap_or_else(|| machine.name.to_string());
        if machine.derive.is_none() {
            let mut path = self.here().path.clone();
            path.push(machine.field.clone());
            self.put(&path, Json::from(to.as_str()))?;
        } else if !rule.remove && *self.phase()?.name != *to {
            // Where the phase is derived, `goto` is what the rule promises of its `set`.
            let now = &self.phase()?.name;
            let message =
                format!("rule `{}` should lead to `{to}`, but leads to `{now}`", rule.label);
            return Err(Fault::new(message));
        }
        self.moves.push(Move { of, from, to, by: rule.label.to_string() });
        Ok(())
    }

    fn reply(&mut self, rule: &'w Rule) -> Result<Option<Answer>, Fault> {
        match &rule.reply {
            None => Ok(None),
            Some(Reply::Block(text)) => {
                self.renders = Renders::Block;
                let reason = self.text(*text);
                self.renders = Renders::Other;
                Ok(Some(Answer::Block { reason: reason? }))
            }
            Some(Reply::Deny(text)) => {
                let reason = self.text(*text)?;
                Ok(Some(Answer::Deny { reason, code: rule.code.clone() }))
            }
            Some(Reply::Allow { outcome, until, message }) => {
                let message = message.map(|text| self.text(text)).transpose()?;
                Ok(Some(Answer::Allow { outcome: Some(*outcome), until: *until, message }))
            }
        }
    }

    pub(super) fn command_line(&mut self, line: &'w CommandLine) -> Result<Vec<String>, Fault> {
        match line {
            CommandLine::Words(words) => Ok(words.clone()),
            CommandLine::Texts(parts) => parts.iter().map(|part| self.text(*part)).collect(),
            CommandLine::Expression(list) => {
                let parts = self.evaluate(list)?;
                let parts = parts.try_iter().map_err(|error| fault_at(list, &error))?;
                Ok(parts.map(|part| part.to_string()).collect())
            }
        }
    }

    /// The jobs in the background that a rule starts: one, or one for each element of a list.
    fn start(&mut self, spec: &'w JobSpec) -> Result<Vec<Effect>, Fault> {
        let items = match &spec.each {
            None => vec![Json::Null],
            Some(each) => {
                let list = self.evaluate(each)?;
                let items = list.try_iter().map_err(|error| fault_at(each, &error))?;
                let items = items.map(|item| Json::from_value(&item));
                let items: Result<Vec<Json>, _> = items.collect();
                items.map_err(|error| Fault::new(error.to_string()))?
            }
        };
        let jobs = items.into_iter().map(|item| {
            let job = self.start_one(spec, item)?;
            self.started.push(job.row());
            // What is derived from the agents is derived anew.
            self.bound.iter_mut().for_each(|bound| bound.lets.clear());
            Ok(Effect::Start(Box::new(job)))
        });
        jobs.collect()
    }

    /// A job, with what it is told. Its texts see it as `agent`.
    pub(super) fn start_one(&mut self, spec: &'w JobSpec, item: Json) -> Result<Job, Fault> {
        let id = if spec.manner.waits {
            spec.only_id()
        } else {
            let known = match self.recorder.agents() {
                Json::List(agents) => agents.0.len(),
                _ => 0,
            };
            format!("{}-{}", spec.name, known + self.started.len() + 1)
        };
        let role = spec.role.map_or(Json::Null, |role| Json::from(role.to_string()));
        let mut members = vec![
            ("id".to_string(), Json::from(id.as_str())),
            ("kind".to_string(), Json::from(spec.name.as_str())),
            ("role".to_string(), role),
            ("item".to_string(), item),
        ];
        let before = std::mem::replace(&mut self.agent, object(members.iter().cloned()));
        for (name, value) in &spec.facts {
            let value = self.evaluate(value)?;
            let value = Json::from_value(&value).map_err(|error| Fault::new(error.to_string()))?;
            members.push((name.clone(), value));
        }
        self.agent = object(members.iter().cloned());
        let words = self.command_line(&spec.run)?;
        let is_usual = words.is_empty();
        let run = CommandRun { words, timeout: spec.timeout };
        let run = if is_usual { Vec::new() } else { vec![run] };
        let mut text = |id: Option<TextId>| id.map(|id| self.text(id)).transpose();
        let (prompt, file, model) = (text(spec.prompt)?, text(spec.writes)?, text(spec.model)?);
        self.agent = before;
        let facts = object(members.split_off(3));
        Ok(Job { facts, prompt, file, model, ..spec.job(id, run) })
    }

    /// The line that the workflow keeps of a step: of every move, and of every action except the ones that
    /// are refused.
    pub(super) fn transcribe(&mut self, event: &Event, answer: &Answer) -> Result<(), Fault> {
        let Some((place, line)) = self.workflow.transcript else { return Ok(()) };
        let refused = matches!(answer, Answer::Deny { .. });
        let waits = self.wants.is_some();
        if refused || waits || (event.is_question() && self.moves.is_empty()) {
            return Ok(());
        }
        let (place, line) = (self.text(place)?, self.text(line)?);
        let line = line.trim().replace('\n', " ");
        self.effects.push(Effect::Append { place, line });
        Ok(())
    }

    fn written(&mut self, place: TextId, written: &'w Written) -> Result<Option<Effect>, Fault> {
        let place = self.text(place)?;
        Ok(match written {
            Written::Text(text) => Some(Effect::Write { place, text: self.text(*text)? }),
            Written::Patch(changes) => {
                let value = self.evaluate(changes)?;
                let member = |name: &str| value.get_attr(name).ok()?.as_str().map(str::to_string);
                match (member("base"), member("tree")) {
                    (Some(from), Some(to)) if !to.is_empty() => {
                        Some(Effect::Patch { place, from, to })
                    }
                    _ => None,
                }
            }
            Written::Copies(list) => {
                let paths = self.evaluate(list)?;
                let paths = paths.try_iter().map_err(|error| fault_at(list, &error))?;
                let paths: Vec<String> = paths.map(|path| path.to_string()).collect();
                (!paths.is_empty()).then_some(Effect::Copy { place, paths })
            }
        })
    }

    fn effects(&mut self, rule: &'w Rule) -> Result<Vec<Effect>, Fault> {
        // Commands come first: one that fails must leave nothing behind.
        let mut effects = Vec::new();
        for command in &rule.run {
            let spec = &self.workflow.jobs[*command];
            let words = self.command_line(&spec.run)?;
            let command = CommandRun { words, timeout: spec.timeout };
            effects.push(Effect::Run { name: spec.name.clone(), command });
        }
        for (from, to) in &rule.moved {
            let (from, to) = (self.text(*from)?, self.text(*to)?);
            // A place that comes out empty is how a rule moves nothing.
            if !from.trim().is_empty() {
                effects.push(Effect::Move { from, to });
            }
        }
        for (place, written) in &rule.write {
            effects.extend(self.written(*place, written)?);
        }
        if let Some(job) = rule.start {
            effects.extend(self.start(&self.workflow.jobs[job])?);
        }
        if let Some(ids) = &rule.end {
            let ids = self.evaluate(ids)?;
            let ids = ids.try_iter().map_err(|error| fault_of(rule, &error))?;
            effects.extend(ids.map(|id| Effect::End(id.to_string())));
        }
        if rule.remove {
            effects.push(Effect::Remove);
        }
        Ok(effects)
    }
}

fn fault_of(rule: &Rule, error: &minijinja::Error) -> Fault {
    Fault::new(format!("rule `{}`: `end` is not a list of jobs: {error}", rule.label))
}
