//! Rules, resolved: what each is about, what it does, and which parts go together.

use std::ops::Range;

use toml::Spanned;

use super::Resolver;
use super::shared::Around;
use crate::answer::Outcome;
use crate::definition::{RuleText, Rules, ValueText, WriteText};
use crate::events::{EventKind, STOP, can_be_blocked};
use crate::job::JobKind;
use crate::json::Json;
use crate::step::always_label;
use crate::workflow::{
    Assignment, Guard, MachineId, NewValue, PhaseId, Reply, Rule, RuleSet, TextId, Written,
};

impl Resolver<'_> {
    pub(super) fn rules(&mut self, label: &str, rules: &Rules, around: &Around) -> RuleSet {
        let mut always = Vec::new();
        for (index, (span, rule)) in rules.always.iter().enumerate() {
            let label = always_label(label, index + 1);
            if rule.on.is_some() {
                self.error(
                    span.clone(),
                    "shape",
                    "a rule under `always` needs no event: remove `on`",
                );
            }
            if rule.block.is_some() || rule.allow.is_some() || rule.deny.is_some() {
                let message = "a rule under `always` cannot answer: no one asked";
                self.error(span.clone(), "shape", message);
            }
            always.push(self.rule(&label, span, rule, Vec::new(), around));
        }
        let mut on_event = Vec::new();
        for (index, (span, rule)) in rules.rules.iter().enumerate() {
            let label = format!("{label} {}", index + 1);
            if rule.on.is_none() {
                let message = "a rule needs an event: add `on`, or move it under `always`";
                self.error(span.clone(), "shape", message);
            }
            let on = self.about(span, rule);
            on_event.push(self.rule(&label, span, rule, on, around));
        }
        let refused = self.refused(&rules.denies);
        for (index, ((span, rule), on)) in rules.denies.iter().zip(refused).enumerate() {
            let label = format!("{label} denies {}", index + 1);
            on_event.push(self.rule(&label, span, rule, on, around));
        }
        RuleSet { rules: on_event, always }
    }

    fn rule(
        &mut self,
        label: &str,
        span: &Range<usize>,
        rule: &RuleText,
        on: Vec<String>,
        around: &Around,
    ) -> Rule {
        let when = rule.when.as_ref().map(|when| Guard::new(self.expression(when)));
        let goto = rule.goto.as_ref().and_then(|name| {
            let found = around.phases.iter().position(|phase| phase == name.get_ref());
            if found.is_none() {
                self.unknown(name.span(), "phase", name.get_ref(), around.phases.iter().copied());
            }
            found.map(PhaseId)
        });
        let set = self.sets(span, rule, goto.map(|to| to.0), around);
        let carry = self.carried(span, rule, &on);
        let ask = rule.ask.as_ref().and_then(|name| self.asked(name));
        let reply = self.reply(span, rule);
        let write = rule.write.iter().filter_map(|(place, what)| self.written(place, what));
        let write: Vec<(TextId, Written)> = write.collect();
        let moved: Vec<(TextId, TextId)> = rule
            .moved
            .iter()
            .map(|(from, to)| {
                let mut text = |text: &Spanned<String>| {
                    self.inline(text.get_ref().clone(), self.source.clone(), text.span())
                };
                (text(from), text(to))
            })
            .collect();
        let is = |kind: JobKind| move |known: &JobKind| *known == kind;
        let run: Vec<usize> = rule
            .run
            .iter()
            .filter_map(|name| self.job_called(is(JobKind::Command), name))
            .collect();
        let review = rule.review.as_ref();
        let review = review.and_then(|name| self.job_called(is(JobKind::Reviewer), name));
        let work = rule.work.as_ref();
        let work = work.and_then(|name| self.job_called(is(JobKind::Worker), name));
        // The other words for a job have a key of their own.
        let free = |kind: &JobKind| matches!(kind, JobKind::Agent | JobKind::Other(_));
        let start = rule.start.as_ref().and_then(|name| self.job_called(free, name));
        let start = start.or(review).or(work);
        let end = rule.end.as_ref().map(|ids| self.expression(ids));
        let (line, _) = self.source.position(span.start);
        let resolved = Rule {
            label: label.into(),
            line,
            span: span.clone(),
            on,
            when,
            set,
            goto,
            carry,
            ask,
            reply,
            write,
            moved,
            run,
            remove: rule.remove,
            start,
            end,
            code: rule.code.clone(),
        };
        self.shape(&resolved, rule);
        resolved
    }

    /// A place, and what is written there.
    fn written(
        &mut self,
        place: &Spanned<String>,
        what: &Spanned<WriteText>,
    ) -> Option<(TextId, Written)> {
        let place = self.inline(place.get_ref().clone(), self.source.clone(), place.span());
        let expression = |text: &String| self.expression(&Spanned::new(what.span(), text.clone()));
        let written = match what.get_ref() {
            WriteText::Template(file) => {
                Written::Text(self.file("templates", file, what.span())?)
            }
            WriteText::Patch { patch } => Written::Patch(expression(patch)),
            WriteText::Copies { copies } => Written::Copies(expression(copies)),
        };
        Some((place, written))
    }

    /// The position of a job among those of the kinds that a rule can mean.
    fn job_called(
        &mut self,
        is_meant: impl Fn(&JobKind) -> bool,
        name: &Spanned<String>,
    ) -> Option<usize> {
        let jobs = self.jobs.clone();
        let found = jobs.iter().position(|job| is_meant(&job.kind) && job.name == *name.get_ref());
        if found.is_none() {
            let known = jobs.iter().filter(|job| is_meant(&job.kind));
            let what = known.clone().next().map_or("job".into(), |job| job.kind.to_string());
            let known: Vec<&str> = known.map(|job| job.name.as_str()).collect();
            self.unknown(name.span(), &what, name.get_ref(), known);
        }
        found
    }

    /// The machine that a rule asks.
    fn asked(&mut self, name: &Spanned<String>) -> Option<MachineId> {
        let names = self.machine_names.clone();
        let inner = &names[1..];
        let found = inner.iter().position(|machine| machine == name.get_ref());
        if found.is_none() {
            let known = inner.iter().map(String::as_str);
            self.unknown(name.span(), "machine", name.get_ref(), known);
        }
        found.map(|index| MachineId(index + 1))
    }

    /// Refuses parts of a rule that do not go together.
    fn shape(&mut self, rule: &Rule, text: &RuleText) {
        let answers = text.block.is_some() || text.allow.is_some() || text.deny.is_some();
        let acts = !text.write.is_empty()
            || !text.moved.is_empty()
            || !text.run.is_empty()
            || text.end.is_some()
            || text.remove;
        let waits = rule.start.is_some_and(|job| self.jobs[job].waits);
        let acts = acts || rule.start.is_some() && !waits;
        let moves = text.goto.is_some() || !text.set.is_empty() || answers || acts;
        let asks = text.ask.is_some();
        let blockable = |event: &String| can_be_blocked(event);
        let is_action = |event: &String| EventKind::of(event) == EventKind::Action;
        let only_actions = rule.on.iter().all(is_action);
        // An event that nobody knows is an error already.
        let is_known = rule.on.iter().all(|event| self.is_event(event));
        let mut refuse = |wrong: bool, message: &str| {
            if wrong {
                self.error(rule.span.clone(), "shape", message);
            }
        };
        refuse(
            text.deny.is_some() && rule.on.iter().any(blockable),
            "a stop cannot be denied: `block` it, or `allow` it",
        );
        refuse(
            text.block.is_some() && is_known && !rule.on.iter().all(blockable),
            "an action cannot be blocked: `deny` it, or accept it with `set` or `goto`",
        );
        refuse(
            !moves
                && !asks
                && text.start.is_none()
                && text.review.is_none()
                && text.work.is_none()
                && text.code.is_none(),
            "the rule does nothing: it needs `set`, `goto`, `ask` or an answer",
        );
        refuse(
            !rule.carry.is_empty() && (text.goto.is_none() || answers),
            "a rule that carries on goes to a phase and does not answer",
        );
        refuse(
            moves && asks,
            "a rule that asks an inner machine does nothing else: split it in two",
        );
        let starts = [&text.start, &text.review, &text.work].into_iter().flatten().count();
        refuse(starts > 1, "a rule has one of `start`, `review` and `work`");
        refuse(
            waits && text.start.is_some() && (moves || asks || rule.on.is_empty()),
            "a rule that starts a job and waits for it is about an event and does nothing else: what \
             comes of it is for rules on `job-ended`",
        );
        refuse(
            text.work.is_some() && (moves || asks || !only_actions),
            "a rule that starts a worker is about actions and does nothing else: what comes of it \
             is for rules on `work-finished`",
        );
        refuse(
            text.review.is_some() && (moves || asks || rule.on != [STOP]),
            "a rule that asks a reviewer is about a `stop` and does nothing else: what comes of it \
             is for rules on `review-finished`",
        );
        refuse(
            !rule.run.is_empty() && !only_actions,
            "commands are run for an action, not for what a client tells",
        );
        refuse(
            text.code.is_some() && text.deny.is_none(),
            "`code` goes with `deny`, or stands in `[codes]` with its text",
        );
    }

    fn reply(&mut self, span: &Range<usize>, rule: &RuleText) -> Option<Reply> {
        let waits = rule.allow == Some(Outcome::Waiting);
        if waits && rule.until.is_none() {
            let message = "the rule does not say what it waits for: write `wait = \"human\"`, \
                           `\"background\"` or `\"external\"`";
            self.error(span.clone(), "shape", message);
        } else if !waits && rule.until.is_some() {
            let message = "`until` says what `allow = \"waiting\"` waits for: remove it";
            self.error(span.clone(), "shape", message);
        }
        if rule.message.is_some() && rule.allow.is_none() {
            self.error(span.clone(), "shape", "`message` goes with `allow`");
        }
        match (&rule.block, &rule.allow, &rule.deny) {
            (None, None, None) => None,
            (Some(text), None, None) => Some(Reply::Block(self.text(text)?)),
            (None, None, Some(text)) => Some(Reply::Deny(self.text(text)?)),
            (None, Some(outcome), None) => {
                let message = rule.message.as_ref().and_then(|text| self.text(text));
                Some(Reply::Allow { outcome: *outcome, until: rule.until, message })
            }
            _ => {
                self.error(
                    span.clone(),
                    "shape",
                    "a rule has one answer: `block`, `allow` or `deny`",
                );
                None
            }
        }
    }

    pub(super) fn assignment(
        &mut self,
        path: &Spanned<String>,
        value: &Spanned<ValueText>,
    ) -> Option<Assignment> {
        let value = match value.get_ref() {
            ValueText::Bool(value) => NewValue::Literal(Json::from(*value)),
            ValueText::Integer(value) => NewValue::Literal(Json::from(*value)),
            ValueText::Expression(text) => {
                NewValue::Expression(self.expression(&Spanned::new(value.span(), text.clone())))
            }
            ValueText::Template { template } => {
                NewValue::Rendered(self.file("templates", template, value.span())?)
            }
        };
        self.assigned(path, value)
    }

    /// A value, and the field that it is for.
    pub(super) fn assigned(
        &mut self,
        path: &Spanned<String>,
        value: NewValue,
    ) -> Option<Assignment> {
        let mut steps = path.get_ref().split('.').map(str::to_string);
        let root = steps.next().unwrap_or_default();
        let Some(index) = self.machine_names.iter().position(|name| *name == root) else {
            let names = self.machine_names.clone();
            self.unknown(path.span(), "object", &root, names.iter().map(String::as_str));
            return None;
        };
        let steps: Vec<String> = steps.collect();
        let is_object = !matches!(value, NewValue::Literal(_));
        if steps.iter().any(String::is_empty) || (steps.is_empty() && !is_object) {
            self.error(path.span(), "shape", format!("`{}` names no field", path.get_ref()));
            return None;
        }
        Some(Assignment { machine: MachineId(index), path: steps, value })
    }
}
