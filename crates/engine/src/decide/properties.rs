//! Properties in a decision: what must hold after every step, whatever the rules have done.

use super::{Deciding, Fault};
use crate::answer::{Answer, Outcome};
use crate::json::Json;
use crate::workflow::{Claim, Expression, Property};

impl<'w> Deciding<'w> {
    /// The answer, unless the step would end the run as done although a property does not hold: that is a
    /// fault, which does nothing. Any other violation is only noted.
    pub(super) fn keep_to(&mut self, answer: Answer) -> Result<Answer, Fault> {
        let workflow = self.workflow;
        if workflow.properties.is_empty() || self.wants.is_some() {
            return Ok(answer);
        }
        let phase = self.phase()?;
        let ends = phase.ends.filter(|_| !self.moves.is_empty());
        let outcome = answer.outcome().or(ends.filter(|_| !matches!(answer, Answer::Deny { .. })));
        let kind = match answer {
            Answer::Block { .. } => "block",
            Answer::Allow { .. } => "allow",
            Answer::Deny { .. } => "deny",
        };
        let shown = outcome.map_or(Json::Null, |outcome| Json::from(outcome.to_string()));
        let name = Json::from(phase.name.to_string());
        self.reached = Some([("phase", name), ("outcome", shown), ("answer", Json::from(kind))]);
        let mut broken = None;
        for property in &workflow.properties {
            // A property that cannot be evaluated does not hold.
            let why = match self.property(property) {
                Ok(true) => continue,
                Ok(false) => property.says(),
                Err(fault) => fault.message,
            };
            self.trace.violated.push(property.name.clone());
            broken.get_or_insert(format!("property \"{}\" does not hold: {why}", property.name));
        }
        self.reached = None;
        match broken {
            Some(why) if outcome == Some(Outcome::Done) => Err(Fault::new(why)),
            _ => Ok(answer),
        }
    }

    fn property(&mut self, property: &'w Property) -> Result<bool, Fault> {
        Ok(match &property.claim {
            Claim::Never(it) => !self.claimed(it)?,
            Claim::Always(it) => self.claimed(it)?,
            Claim::Through { to, pass } => {
                if !self.passed.contains(&property.name) && self.claimed(pass)? {
                    self.passed.push(property.name.clone());
                }
                self.passed.contains(&property.name) || !self.claimed(to)?
            }
        })
    }

    fn claimed(&mut self, expression: &'w Expression) -> Result<bool, Fault> {
        self.evaluate(expression).map(|value| value.is_true())
    }
}
