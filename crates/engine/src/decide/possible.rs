//! What could be asked for now: the rules are tried, and none of them fires. So what is said to be
//! possible cannot differ from what is.

use minijinja::Value;

use super::{Deciding, Fault};
use crate::functions::object;
use crate::json::Json;
use crate::workflow::{Action, Does, Param, Reply};

impl Deciding<'_> {
    /// The actions that would be accepted from this caller, as far as that does not depend on their
    /// parameters.
    pub(super) fn can(&mut self) -> Result<Json, Fault> {
        if self.trial {
            return Err(Fault::new("`can` is for texts, not for guards"));
        }
        self.trial = true;
        let before = std::mem::replace(&mut self.params, Json::Null);
        let workflow = self.workflow;
        let mut names = Vec::new();
        for action in workflow.actions.iter().filter(|it| matches!(it.does, Does::Event)) {
            if action.is_for(self.actor) {
                self.params = blank(action, &before);
                if self.would_accept(&action.name)? {
                    names.push(Json::from(action.name.as_str()));
                }
            }
        }
        self.params = before;
        self.trial = false;
        Ok(Json::from(names))
    }

    /// Whether the first rule for an action whose guard holds does not refuse it.
    fn would_accept(&mut self, action: &str) -> Result<bool, Fault> {
        Ok(self.first_for(action)?.unwrap_or(false))
    }

    fn first_for(&mut self, action: &str) -> Result<Option<bool>, Fault> {
        // What is derived may depend on the parameters.
        self.bound.iter_mut().for_each(|bound| bound.lets.clear());
        let phase = self.phase()?;
        for rule in self.machine().rules_in(phase) {
            if !rule.on.iter().any(|on| on == action) {
                continue;
            }
            // A guard that cannot do without a parameter tells nothing.
            let holds = match &rule.when {
                None => true,
                Some(guard) => {
                    self.evaluate(&guard.whole).is_ok_and(|value: Value| value.is_true())
                }
            };
            if !holds {
                continue;
            }
            let Some(inner) = rule.ask else {
                return Ok(Some(!matches!(rule.reply, Some(Reply::Deny(_)))));
            };
            let mut answer = None;
            self.each_until(inner, |this| {
                answer = this.first_for(action)?;
                Ok(answer.is_some())
            })?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }
}

/// The parameters of an action, as far as something is known of them: what was given is meant for
/// all that can be asked.
fn blank(action: &Action, given: &Json) -> Json {
    let value = |param: &Param| {
        let given = given.get(&param.name).filter(|value| **value != Json::Null);
        given.or(param.default.as_ref()).cloned().unwrap_or(Json::Null)
    };
    object(action.params.iter().map(|param| (param.name.clone(), value(param))))
}
