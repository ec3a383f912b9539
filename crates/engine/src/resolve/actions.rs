//! What can be asked of a workflow.

use toml::Spanned;

use super::Resolver;
use super::records::literal;
use crate::definition::{ActionText, By, ParamText, ParamType};
use crate::events::EventKind;
use crate::step::Actor;
use crate::types::{Records, Type};
use crate::workflow::{Action, Does, Param};

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
            self.error(
                name.span(),
                "shape",
                "only an action that shows something can do without a run",
            );
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
            if !plain(param) || ["help", "json", "run", "sign"].contains(param) {
                let message = format!(
                    "{param:?} cannot name a parameter: use lower-case letters, digits and `_`, and neither help, json, run nor sign"
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
        if text.signed && by != [Actor::Human] {
            let message = format!(
                "action `{}` is signed and not for people only: write `by = \"human\"`",
                name.get_ref()
            );
            self.error(name.span(), "shape", message);
        }
        if text.signed && !matches!(does, Does::Event) {
            let message = "only an action that is put to the rules of a run can be signed";
            self.error(name.span(), "shape", message);
        }
        Action {
            name: name.get_ref().clone(),
            command: text.command.clone().unwrap_or_else(|| name.get_ref().clone()),
            about: text.about.clone(),
            by,
            signed: text.signed,
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
}
