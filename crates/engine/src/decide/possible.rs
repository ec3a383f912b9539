//! What could be asked for now: the rules are tried, and none of them fires. So what is said to be
//! possible cannot differ from what is.

use minijinja::Value;

use super::{Deciding, Fault, RunFacts};
use crate::actor::Actor;
use crate::answer::INVALID_PARAMS;
use crate::definition::ParamType;
use crate::functions::object;
use crate::json::Json;
use crate::workflow::{Action, Does, Machine, Param, PhaseId, Reply, Rule};

/// What the runtime would not do for a run now, whatever the rules say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// It starts no job.
    starts: bool,
    /// It does nothing in the world.
    acts: bool,
    /// It accepts nothing.
    all: bool,
}

impl Held {
    pub(super) fn of(run: &RunFacts) -> Held {
        let acts = run.untrusted.is_some();
        Held { starts: acts || run.spent.is_some(), acts, all: run.busy }
    }

    /// Whether a rule of a machine leads to what is not done now: by itself, or by the rules of the phase it
    /// goes to that need no event.
    fn forbids(self, machine: &Machine, rule: &Rule) -> bool {
        let mut seen = Vec::new();
        (self.starts || self.acts) && self.leads_to(machine, rule, &mut seen)
    }

    fn leads_to(self, machine: &Machine, rule: &Rule, seen: &mut Vec<PhaseId>) -> bool {
        let writes = !rule.write.is_empty() || !rule.moved.is_empty() || !rule.run.is_empty();
        if rule.start.is_some() || self.acts && writes {
            return true;
        }
        let Some(to) = rule.goto.filter(|to| !seen.contains(to)) else { return false };
        seen.push(to);
        machine.always_in(machine.get(to)).any(|rule| self.leads_to(machine, rule, seen))
    }
}

impl Deciding<'_> {
    /// The actions that would be accepted from the actor that asks, with some parameters.
    pub(super) fn can(&mut self) -> Result<Json, Fault> {
        if self.trial {
            return Err(Fault::new("`can` is for texts, not for guards"));
        }
        self.trial = true;
        let before = std::mem::replace(&mut self.params, Json::Null);
        let workflow = self.workflow;
        let mut names = Vec::new();
        let events = workflow.actions.iter().filter(|it| matches!(it.does, Does::Event));
        for action in events {
            let is_asked = !self.held.all && action.is_for(self.actor);
            if is_asked && self.would_accept(action, &before)? {
                names.push(Json::from(action.name.as_str()));
            }
        }
        self.params = before;
        self.trial = false;
        Ok(Json::from(names))
    }

    /// Whether an action would be accepted without its flags, or with the flags that the actor may set.
    fn would_accept(&mut self, action: &Action, given: &Json) -> Result<bool, Fault> {
        for flags in [false, true] {
            self.params = blank(action, given, self.actor, flags);
            if self.first_for(&action.name)?.unwrap_or(false) {
                return Ok(true);
            }
            if !action.params.iter().any(|param| param.ty == ParamType::Boolean) {
                break;
            }
        }
        Ok(false)
    }

    /// Whether the first rule for an action whose guard holds does not refuse it.
    fn first_for(&mut self, action: &str) -> Result<Option<bool>, Fault> {
        // What is derived may depend on the parameters.
        self.bound.iter_mut().for_each(|bound| bound.lets.clear());
        let phase = self.phase()?;
        for rule in self.machine().rules_in(phase) {
            // A refusal of parameters says nothing about better ones.
            if !rule.on.iter().any(|on| on == action)
                || rule.code.as_deref() == Some(INVALID_PARAMS)
            {
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
                let refuses = matches!(rule.reply, Some(Reply::Deny(_)));
                return Ok(Some(!refuses && !self.held.forbids(self.machine(), rule)));
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

/// The parameters of an action, as far as something is known of them: what says which part of the run
/// is meant holds for all that can be asked. What an action cannot do without is its own.
fn blank(action: &Action, given: &Json, actor: Actor, flags: bool) -> Json {
    let value = |param: &Param| {
        let may_set = !param.people_only || actor == Actor::Human;
        if param.ty == ParamType::Boolean {
            return Json::from(flags && may_set);
        }
        let given = given.get(&param.name).filter(|value| **value != Json::Null);
        let given = given.filter(|_| param.optional && may_set);
        given.or(param.default.as_ref()).cloned().unwrap_or(Json::Null)
    };
    object(action.params.iter().map(|param| (param.name.clone(), value(param))))
}
