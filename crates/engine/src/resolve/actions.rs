//! What can be asked of a workflow, and what it runs: actions, checks, commands and reviewers.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;

use super::records::literal;
use super::{EVENTS, Resolver};
use crate::check::{self, Check};
use crate::definition::{ActionText, By, CheckText, CommandLineText, CommandText, ReviewerText};
use crate::workflow::{Action, Command, CommandLine, Does, Param, Reviewer};

impl Resolver<'_> {
    pub(super) fn action(&mut self, name: &Spanned<String>, text: &ActionText) -> Action {
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
        if !plain(name.get_ref())
            || name.get_ref() == "help"
            || EVENTS.contains(&name.get_ref().as_str())
        {
            let message = format!(
                "{:?} cannot name an action: use lower-case letters, digits, `-` and `_`, and no event's name",
                name.get_ref()
            );
            self.error(name.span(), "name", message);
        }
        for param in text.param.keys() {
            if !plain(param) || ["help", "json", "run"].contains(&param.as_str()) {
                let message = format!(
                    "{param:?} cannot name a parameter: use lower-case letters, digits and `_`, and neither help, json nor run"
                );
                self.error(name.span(), "name", message);
            }
        }
        let params = text
            .param
            .iter()
            .map(|(name, param)| Param {
                name: name.clone(),
                about: param.about.clone(),
                ty: param.ty,
                default: param.default.as_ref().map(literal),
                optional: param.optional,
            })
            .collect();
        let people_only = text.by == Some(By::Human);
        Action {
            name: name.get_ref().clone(),
            about: text.about.clone(),
            people_only,
            params,
            does,
        }
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

    pub(super) fn reviewer(
        &mut self,
        name: &Spanned<String>,
        text: &ReviewerText,
    ) -> Option<Reviewer> {
        let source = self.source.clone();
        let prompt = self.file("prompts", text.prompt.get_ref(), text.prompt.span())?;
        let mut hole =
            |text: &str, span: Range<usize>| self.inline(text.to_string(), source.clone(), span);
        let writes = hole(text.writes.get_ref(), text.writes.span());
        let model = text.model.as_ref().map(|model| hole(model.get_ref(), model.span()));
        let run = match text.run.as_ref().map(|run| (run.get_ref(), run.span())) {
            None => CommandLine::Texts(Vec::new()),
            Some((CommandLineText::Texts(parts), span)) => {
                CommandLine::Texts(parts.iter().map(|part| hole(part, span.clone())).collect())
            }
            Some((CommandLineText::Expression(list), span)) => {
                CommandLine::Expression(self.expression(&Spanned::new(span, list.clone())))
            }
        };
        let timeout = self.timeout(name, text.timeout.as_deref());
        Some(Reviewer { name: name.get_ref().clone(), prompt, writes, model, run, timeout })
    }

    fn timeout(&mut self, name: &Spanned<String>, text: Option<&str>) -> Duration {
        check::timeout(text).unwrap_or_else(|message| {
            self.error(name.span(), "shape", message);
            Duration::ZERO
        })
    }

    pub(super) fn check(&mut self, name: &Spanned<String>, text: &CheckText) -> Check {
        if text.run.is_empty() {
            self.error(
                name.span(),
                "shape",
                "`run` is empty: it names a program and its arguments",
            );
        }
        let timeout = self.timeout(name, text.timeout.as_deref());
        let (about, run) = (text.about.clone(), text.run.clone());
        Check { name: name.get_ref().clone(), about, run, timeout }
    }
}
