//! What several rules or actions share: lists of events, what is done when a phase is entered, and
//! parameters.

use std::ops::Range;

use toml::Spanned;

use super::Resolver;
use crate::definition::{
    ActionText, CarryText, Definition, OneOrMore, ParamText, PhaseText, RuleText,
};
use crate::events::{EventKind, undeclared};
use crate::json::Json;
use crate::workflow::{Assignment, NewValue};

/// In the refusals of a phase: every action that no other of them is about.
const ELSE: &str = "else";

/// What a rule needs to know of the phases of its machine, and of its own.
pub(super) struct Around<'p> {
    pub phases: &'p [&'p str],
    /// What is set when a phase is entered, phase by phase.
    pub enter: &'p [Vec<Assignment>],
    /// The field of the rule's own phase that `as` sets.
    pub result: Option<&'p Spanned<String>>,
}

impl<'a> Resolver<'a> {
    /// Finds names of lists that mean something else already, and members that mean nothing.
    pub(super) fn events(&mut self, definition: &Definition) {
        for (name, members) in &definition.events {
            let own = name.get_ref();
            if own == ELSE || self.is_event(own) {
                let message = format!("`{own}` is an event already and cannot be a list of them");
                self.error(name.span(), "name", message);
            }
            for member in members {
                if !self.is_event(member.get_ref()) {
                    self.unknown_event(member.span(), member.get_ref());
                }
            }
        }
    }

    pub(super) fn is_event(&self, name: &str) -> bool {
        EventKind::of(name) != EventKind::Action || self.actions.iter().any(|known| known == name)
    }

    fn unknown_event(&mut self, span: Range<usize>, name: &str) {
        let given = undeclared().map(str::to_string);
        let lists = self.events.iter().map(|(name, _)| name.get_ref().clone());
        let known: Vec<String> = given.chain(self.actions.iter().cloned()).chain(lists).collect();
        self.unknown(span, "event or action", name, known.iter().map(String::as_str));
    }

    /// The events that a rule is about, each list of them written out.
    pub(super) fn about(&mut self, span: &Range<usize>, rule: &RuleText) -> Vec<String> {
        let mut events: Vec<String> = Vec::new();
        for name in rule.on.iter().flat_map(OneOrMore::names) {
            let list = self.events.iter().find(|(list, _)| list.get_ref() == name);
            match list {
                _ if self.is_event(name) => events.push(name.clone()),
                Some((_, members)) => {
                    events.extend(members.iter().map(|member| member.get_ref().clone()));
                }
                None => {
                    // The name itself, where it stands in the rule as it is.
                    let written = format!("\"{name}\"");
                    let text = self.source.text.get(span.clone()).unwrap_or_default();
                    let at = text.find(&written).map(|at| span.start + at);
                    let at = at.map_or(span.clone(), |at| at..at + written.len());
                    self.unknown_event(at, name);
                    events.push(name.clone());
                }
            }
        }
        events
    }

    /// The actions that a rule carries on.
    pub(super) fn carried(
        &mut self,
        span: &Range<usize>,
        rule: &RuleText,
        on: &[String],
    ) -> Vec<String> {
        match &rule.carry {
            CarryText::All(false) => Vec::new(),
            CarryText::All(true) => on.to_vec(),
            CarryText::These(these) => {
                for event in these.names().iter().filter(|event| !on.contains(event)) {
                    let message =
                        format!("the rule is not about `{event}`, and cannot carry it on");
                    self.error(span.clone(), "shape", message);
                }
                these.names().to_vec()
            }
        }
    }

    /// What the refusals of a phase are about: what each says, and `else` what no other one does.
    pub(super) fn refused(&mut self, denies: &[(Range<usize>, RuleText)]) -> Vec<Vec<String>> {
        if denies.is_empty() {
            return Vec::new();
        }
        let is_else = |rule: &RuleText| rule.on.iter().any(|on| on.names() == [ELSE]);
        let mut refused: Vec<Vec<String>> = Vec::new();
        for (span, rule) in denies {
            refused.push(if is_else(rule) { Vec::new() } else { self.about(span, rule) });
        }
        let named = refused.concat();
        let rest = self.put_to_rules.iter().filter(|action| !named.contains(action));
        let rest: Vec<String> = rest.cloned().collect();
        for ((_, rule), events) in denies.iter().zip(&mut refused) {
            if is_else(rule) {
                events.clone_from(&rest);
            }
        }
        refused
    }

    /// What is set when a phase is entered.
    pub(super) fn enter(&mut self, phase: &PhaseText) -> Vec<Assignment> {
        let set = phase.head.enter.iter();
        set.filter_map(|(path, value)| self.assignment(path, value)).collect()
    }

    /// All that a rule sets: how its phase ended, its own fields, and those of the phase that it
    /// enters, but for what it sets itself.
    pub(super) fn sets(
        &mut self,
        span: &Range<usize>,
        rule: &RuleText,
        to: Option<usize>,
        around: &Around,
    ) -> Vec<Assignment> {
        let mut set = Vec::new();
        if let Some(result) = &rule.result {
            set.extend(self.ended(span, rule, result, around));
        }
        set.extend(rule.set.iter().filter_map(|(path, value)| self.assignment(path, value)));
        let entered = to.and_then(|to| around.enter.get(to)).map_or(&[][..], Vec::as_slice);
        if entered.is_empty() {
            return set;
        }
        let places: Vec<_> = set.iter().map(|it| (it.machine, it.path.clone())).collect();
        let untouched = |it: &&Assignment| {
            !places.iter().any(|(on, path)| *on == it.machine && *path == it.path)
        };
        set.extend(entered.iter().filter(untouched).cloned());
        set
    }

    /// How the phase ended that a rule leaves.
    fn ended(
        &mut self,
        span: &Range<usize>,
        rule: &RuleText,
        result: &Spanned<String>,
        around: &Around,
    ) -> Option<Assignment> {
        if rule.goto.is_none() {
            self.error(span.clone(), "shape", "`as` says how a phase ends: it goes with `goto`");
            return None;
        }
        let Some(place) = around.result else {
            let message = "`as` is what the `result` of a phase is set to, and this one has none";
            self.found.error("shape", self.source, result.span(), message).hint =
                Some("add `result = \"state.FIELD\"` to the phase".into());
            return None;
        };
        self.assigned(place, NewValue::Literal(Json::from(result.get_ref().as_str())))
    }

    /// The parameters of an action: its own, then the shared ones.
    pub(super) fn params_of<'t>(&mut self, action: &'t ActionText) -> Vec<(&'t str, &'t ParamText)>
    where
        'a: 't,
    {
        let own = action.param.iter();
        let mut params: Vec<(&str, &ParamText)> =
            own.map(|(name, param)| (name.as_str(), param)).collect();
        for name in &action.params {
            let shared = self.params.iter().find(|(known, _)| known.get_ref() == name.get_ref());
            match shared {
                Some(_) if params.iter().any(|(known, _)| known == name.get_ref()) => {
                    let message =
                        format!("the action has a parameter `{}` already", name.get_ref());
                    self.error(name.span(), "name", message);
                }
                Some((name, param)) => params.push((name.get_ref(), param)),
                None => {
                    let known = self.params.iter().map(|(name, _)| name.get_ref().as_str());
                    self.unknown(name.span(), "parameter in `[param]`", name.get_ref(), known);
                }
            }
        }
        params
    }
}
