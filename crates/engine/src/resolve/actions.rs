//! What can be asked of a workflow, and what it runs: actions, checks, commands and reviewers.

use std::time::Duration;

use toml::Spanned;

use super::Resolver;
use super::records::literal;
use crate::check::{self, Check};
use crate::definition::{
    ActionText, AgentText, By, CheckText, CommandLineText, CommandText, ParamText, ParamType,
    ReviewerText, WorkerText,
};
use crate::events::EventKind;
use crate::json::Json;
use crate::step::Actor;
use crate::types::{Records, Type};
use crate::workflow::{Action, AgentKind, Command, CommandLine, Does, Param, Reviewer, Worker};

impl Resolver<'_> {
    pub(super) fn action(
        &mut self,
        name: &Spanned<String>,
        text: &ActionText,
        records: &Records,
    ) -> Action {
        let file = |this: &mut Self, file: &Option<Spanned<String>>| {
            let file = file.as_ref()?;
            this.file("templates", file.get_ref(), file.span())
        };
        let does = match (file(self, &text.creates), file(self, &text.shows)) {
            (Some(document), shows) => {
                let name = text.name.as_ref().map(|name| {
                    self.inline(name.get_ref().clone(), self.source.clone(), name.span())
                });
                Does::Create { name, document, shows }
            }
            (None, Some(shown)) => {
                Does::Show { text: shown, json: file(self, &text.shows_json), alone: text.alone }
            }
            (None, None) => Does::Event,
        };
        if text.alone && !matches!(does, Does::Show { .. }) {
            self.error(name.span(), "shape", "only what is shown can be about no run");
        }
        let plain = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
        };
        // Two words make a command with a command of its own: `review plan`.
        if !name.get_ref().split(' ').all(|word| plain(word) && word != "help")
            || name.get_ref().split(' ').count() > 2
            || EventKind::of(name.get_ref()) != EventKind::Action
        {
            let message = format!(
                "{:?} cannot name an action: use lower-case letters, digits, `-` and `_`, in one word or two, and no event's name",
                name.get_ref()
            );
            self.error(name.span(), "name", message);
        }
        let params = self.params_of(text);
        for (param, _) in &params {
            if !plain(param) || ["help", "json", "run"].contains(param) {
                let message = format!(
                    "{param:?} cannot name a parameter: use lower-case letters, digits and `_`, and neither help, json nor run"
                );
                self.error(name.span(), "name", message);
            }
        }
        if let Some(command) = &text.command
            && (!plain(command) || command == "help")
        {
            self.error(name.span(), "name", format!("{command:?} cannot name a command"));
        }
        let params = params.iter();
        let params = params.map(|(own, param)| self.param(name, own, param, records)).collect();
        let by = text.by.as_ref().map(|by| by.actors().to_vec()).unwrap_or_default();
        Action {
            name: name.get_ref().clone(),
            command: text.command.clone().unwrap_or_else(|| name.get_ref().clone()),
            about: text.about.clone(),
            by,
            params,
            does,
        }
    }

    fn param(
        &mut self,
        action: &Spanned<String>,
        name: &str,
        text: &ParamText,
        records: &Records,
    ) -> Param {
        let given = (text.ty.map(|text| text.ty), &text.list, &text.one_of);
        let (ty, value) = match given {
            (Some(ty), None, None) => {
                let value = match ty {
                    ParamType::String | ParamType::File => Type::String,
                    ParamType::Integer => Type::Integer,
                    ParamType::Boolean => Type::Boolean,
                    ParamType::JsonFile | ParamType::Value => Type::Any,
                };
                (ty, value)
            }
            (None, Some(of), None) => {
                let named = Type::named(of, records);
                let element = named.unwrap_or_else(|| {
                    let known = records.0.iter().map(|record| record.name.to_string());
                    let known: Vec<String> = known.collect();
                    self.unknown(action.span(), "type", of, known.iter().map(String::as_str));
                    Type::Any
                });
                (ParamType::Value, Type::List(Box::new(element)))
            }
            (None, None, Some(names)) => {
                let names = names.iter().map(|name| name.as_str().into()).collect();
                (ParamType::Value, Type::OneOf(names))
            }
            _ => {
                let message =
                    format!("parameter `{name}` has exactly one of `type`, `list` and `one_of`");
                self.error(action.span(), "shape", message);
                (ParamType::String, Type::String)
            }
        };
        let by = text.by.as_ref().map(By::actors).unwrap_or_default();
        if !by.is_empty() && by != [Actor::Human] {
            let message = format!("parameter `{name}` can be for people only, or for everybody");
            self.error(action.span(), "shape", message);
        }
        Param {
            name: name.to_string(),
            about: text.about.clone(),
            ty,
            value,
            default: text.default.as_ref().map(literal),
            optional: text.optional || text.ty.is_some_and(|text| text.optional),
            people_only: !by.is_empty(),
        }
    }

    pub(super) fn agent(&mut self, name: &Spanned<String>, text: &AgentText) -> AgentKind {
        if !matches!(text.role, Actor::Worker | Actor::Reviewer) {
            self.error(name.span(), "shape", "an agent is a `worker` or a `reviewer`");
        }
        let own = ["id", "kind", "role", "status", "ended", "ok"];
        if let Some(taken) = text.facts.keys().find(|fact| own.contains(&fact.as_str())) {
            self.error(name.span(), "name", format!("every agent has a `{taken}` already"));
        }
        let prompt = self.prompt(&text.prompt);
        let source = self.source.clone();
        let model = text.model.as_ref();
        let model = model.map(|model| self.inline(model.get_ref().clone(), source, model.span()));
        let run = self.command_line(text.run.as_ref());
        let timeout = self.timeout(name, text.timeout.as_deref());
        let each = text.each.as_ref().map(|each| self.expression(each));
        let facts = text.facts.iter();
        let facts = facts.map(|(name, value)| (name.clone(), self.expression(value))).collect();
        let name = name.get_ref().clone();
        AgentKind { name, role: text.role, prompt, model, run, timeout, each, facts }
    }

    pub(super) fn command(
        &mut self,
        name: &Spanned<String>,
        text: &CommandText,
    ) -> (String, Command) {
        if text.run.is_empty() {
            self.error(
                name.span(),
                "shape",
                "`run` is empty: it names a program and its arguments",
            );
        }
        let source = self.source.clone();
        let parts = text.run.iter();
        let parts =
            parts.map(|part| self.inline(part.get_ref().clone(), source.clone(), part.span()));
        let parts = parts.collect();
        (
            name.get_ref().clone(),
            Command { parts, timeout: self.timeout(name, text.timeout.as_deref()) },
        )
    }

    pub(super) fn reviewer(&mut self, name: &Spanned<String>, text: &ReviewerText) -> Reviewer {
        let source = self.source.clone();
        let prompt = self.prompt(&text.prompt);
        let mut hole = |text: &Spanned<String>| {
            self.inline(text.get_ref().clone(), source.clone(), text.span())
        };
        let writes = hole(&text.writes);
        let model = text.model.as_ref().map(hole);
        let run = self.command_line(text.run.as_ref());
        let timeout = self.timeout(name, text.timeout.as_deref());
        Reviewer { name: name.get_ref().clone(), prompt, writes, model, run, timeout }
    }

    fn timeout(&mut self, name: &Spanned<String>, text: Option<&str>) -> Duration {
        check::timeout(text).unwrap_or_else(|message| {
            self.error(name.span(), "shape", message);
            Duration::ZERO
        })
    }

    pub(super) fn check(
        &mut self,
        name: &Spanned<String>,
        text: &CheckText,
        constants: &[(String, Json)],
    ) -> Check {
        let run = match text.run.get_ref() {
            CommandLineText::Texts(parts) => {
                if parts.is_empty() {
                    let message = "`run` is empty: it names a program and its arguments";
                    self.error(text.run.span(), "shape", message);
                }
                parts.clone()
            }
            CommandLineText::Expression(constant) => {
                let known = constants.iter().find(|(known, _)| known == constant);
                let list = match known {
                    Some((_, Json::List(list))) => Some(&list.0),
                    _ => None,
                };
                let parts = list.and_then(|parts| {
                    parts.iter().map(|part| part.as_str().map(str::to_string)).collect()
                });
                parts.unwrap_or_else(|| {
                    let message = format!("`{constant}` is no constant that has a list of texts");
                    self.error(text.run.span(), "shape", message);
                    Vec::new()
                })
            }
        };
        let timeout = self.timeout(name, text.timeout.as_deref());
        let constant = match text.run.get_ref() {
            CommandLineText::Texts(_) => None,
            CommandLineText::Expression(constant) => Some(constant.clone()),
        };
        Check { name: name.get_ref().clone(), about: text.about.clone(), run, constant, timeout }
    }

    pub(super) fn worker(&mut self, name: &Spanned<String>, text: &WorkerText) -> Worker {
        let prompt = self.prompt(&text.prompt);
        let run = self.command_line(Some(&text.run));
        let timeout = self.timeout(name, text.timeout.as_deref());
        Worker { name: name.get_ref().clone(), prompt, run, timeout }
    }

    fn command_line(&mut self, text: Option<&Spanned<CommandLineText>>) -> CommandLine {
        let source = self.source.clone();
        match text.map(|text| (text.get_ref(), text.span())) {
            None => CommandLine::Texts(Vec::new()),
            Some((CommandLineText::Texts(parts), span)) => {
                let parts = parts.iter();
                let parts =
                    parts.map(|part| self.inline(part.clone(), source.clone(), span.clone()));
                CommandLine::Texts(parts.collect())
            }
            Some((CommandLineText::Expression(list), span)) => {
                CommandLine::Expression(self.expression(&Spanned::new(span, list.clone())))
            }
        }
    }
}
