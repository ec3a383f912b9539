//! A rule in a decision: whether its guard holds, and what it sets, moves, answers and wants done.

use super::facts::fault_at;
use super::{Deciding, Fault, MOST_TRIED};
use crate::answer::Answer;
use crate::json::Json;
use crate::step::{Effect, Move, Review, Tried};
use crate::workflow::{CommandLine, PhaseId, Reply, Reviewer, Rule};

impl<'w> Deciding<'w> {
    pub(super) fn holds(&mut self, rule: &'w Rule) -> Result<bool, Fault> {
        let mut parts = Vec::new();
        let result = match &rule.when {
            None => Ok(true),
            Some(guard) => self.guard(guard.parts(), &mut parts),
        };
        let held = matches!(result, Ok(true));
        if held
            && rule.ask.is_none()
            && !self.trace.fired.iter().any(|label| **label == *rule.label)
        {
            self.trace.fired.push(rule.label.to_string());
        }
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
        self.reply(rule)
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
            Some(Reply::Block(text)) => Ok(Some(Answer::Block { reason: self.text(*text)? })),
            Some(Reply::Deny(text)) => Ok(Some(Answer::Deny { reason: self.text(*text)? })),
            Some(Reply::Allow { outcome, until, message }) => {
                let message = message.map(|text| self.text(text)).transpose()?;
                Ok(Some(Answer::Allow { outcome: Some(*outcome), until: *until, message }))
            }
        }
    }

    pub(super) fn review(&mut self, reviewer: &'w Reviewer) -> Result<Review, Fault> {
        let run: Result<Vec<String>, Fault> = match &reviewer.run {
            CommandLine::Texts(parts) => parts.iter().map(|part| self.text(*part)).collect(),
            CommandLine::Expression(list) => {
                let parts = self.evaluate(list)?;
                let parts = parts.try_iter().map_err(|error| fault_at(list, &error))?;
                Ok(parts.map(|part| part.to_string()).collect())
            }
        };
        Ok(Review {
            reviewer: reviewer.name.clone(),
            prompt: self.text(reviewer.prompt)?,
            file: self.text(reviewer.writes)?,
            model: reviewer.model.map(|model| self.text(model)).transpose()?,
            run: run?,
            timeout: reviewer.timeout,
        })
    }

    fn effects(&mut self, rule: &'w Rule) -> Result<Vec<Effect>, Fault> {
        let mut effects = Vec::new();
        for (place, text) in &rule.write {
            let (place, text) = (self.text(*place)?, self.text(*text)?);
            effects.push(Effect::Write { place, text });
        }
        for command in &rule.run {
            let (_, command) = &self.workflow.commands[*command];
            let parts: Result<Vec<String>, Fault> =
                command.parts.iter().map(|part| self.text(*part)).collect();
            effects.push(Effect::Run(parts?, command.timeout));
        }
        if rule.remove {
            effects.push(Effect::Remove);
        }
        Ok(effects)
    }
}
