//! Forms that stand once and are meant in several places. They are put into their places as TOML,
//! before these are read, so that a mistake in one is found, and shown, where it was written.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostics, Source, closest};

/// A name and its value, as written.
pub(super) type Entry<'i> = (Spanned<String>, Spanned<DeValue<'i>>);

/// Tables that rules have by name: `[set.NAME]`, `[write.NAME]`, `[move.NAME]`, and in `[codes]`
/// what refusals say.
#[derive(Default)]
pub(super) struct Named<'i> {
    parts: Vec<Part<'i>>,
}

struct Part<'i> {
    /// The key of a rule that it stands for.
    key: &'static str,
    name: Spanned<String>,
    value: Spanned<DeValue<'i>>,
    used: bool,
}

/// The keys of a rule whose table can stand on its own.
pub(super) const PARTS: [&str; 3] = ["set", "write", "move"];

/// The key of a rule that `[codes]` stands for.
pub(super) const DENY: &str = "deny";

impl<'i> Named<'i> {
    pub(super) fn add(&mut self, key: &'static str, entries: Vec<Entry<'i>>) {
        let parts = entries.into_iter();
        self.parts.extend(parts.map(|(name, value)| Part { key, name, value, used: false }));
    }

    /// Puts what a rule names into it.
    pub(super) fn fill(
        &mut self,
        rule: &mut DeTable<'i>,
        source: &Arc<Source>,
        found: &mut Diagnostics,
    ) {
        let is_name = |value: &Spanned<DeValue>| matches!(value.get_ref(), DeValue::String(_));
        let names_part =
            || rule.iter().any(|(key, value)| is_name(value) && PARTS.contains(&&**key.get_ref()));
        // Every rule of every definition comes along here, and most name nothing.
        if self.parts.is_empty() && !names_part() {
            return;
        }
        for key in PARTS {
            let Some((name, span)) = text_of(rule, key) else { continue };
            let value = self.take(key, &name).unwrap_or_else(|| {
                self.unknown(
                    key,
                    &name,
                    format!("there is no `[{key}.{name}]`"),
                    &span,
                    source,
                    found,
                );
                Spanned::new(span, DeValue::Table(DeTable::new()))
            });
            if let Some(place) = rule.get_mut(key) {
                *place = value;
            }
        }
        // A rule that has only a code is given the text of that code.
        let codes = self.parts.iter().any(|part| part.key == DENY);
        if let (Some((name, span)), false, true) =
            (text_of(rule, "code"), rule.contains_key(DENY), codes)
        {
            let text = self.take(DENY, &name).unwrap_or_else(|| {
                let message = format!("`[codes]` has no text for `{name}`");
                self.unknown(DENY, &name, message, &span, source, found);
                Spanned::new(span.clone(), DeValue::String(Cow::Borrowed("")))
            });
            rule.insert(Spanned::new(span, Cow::Borrowed(DENY)), text);
        }
    }

    fn unknown(
        &self,
        key: &str,
        name: &str,
        message: String,
        span: &Range<usize>,
        source: &Arc<Source>,
        found: &mut Diagnostics,
    ) {
        let known = self.parts.iter().filter(|part| part.key == key);
        let hint = closest(name, known.map(|part| part.name.get_ref().as_str()));
        found.error("unknown", source, span.clone(), message).hint =
            hint.map(|name| format!("did you mean `{name}`?"));
    }

    fn take(&mut self, key: &str, name: &str) -> Option<Spanned<DeValue<'i>>> {
        let mut parts = self.parts.iter_mut();
        let part = parts.find(|part| part.key == key && part.name.get_ref() == name)?;
        part.used = true;
        Some(part.value.clone())
    }

    /// What no rule has named: the table it stands in, and its name.
    pub(super) fn unused(self) -> Vec<(&'static str, Spanned<String>)> {
        let unused = self.parts.into_iter().filter(|part| !part.used);
        unused.map(|part| (if part.key == DENY { "codes" } else { part.key }, part.name)).collect()
    }
}

/// The text of a key, and where it stands.
fn text_of(rule: &DeTable, key: &str) -> Option<(String, Range<usize>)> {
    let value = rule.get(key)?;
    match value.get_ref() {
        DeValue::String(text) => Some((text.to_string(), value.span())),
        _ => None,
    }
}

/// Gives to every table among the entries of a kind what the kind itself says, such as
/// `[reviewer] timeout = "9m"`, and the table does not.
pub(super) fn with_defaults(entries: Vec<Entry<'_>>) -> (Vec<Entry<'_>>, Vec<Entry<'_>>) {
    let is_table = |(_, value): &Entry| matches!(value.get_ref(), DeValue::Table(_));
    let (mut tables, defaults): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_table);
    for (_, value) in &mut tables {
        let DeValue::Table(table) = value.get_mut() else { continue };
        for (key, value) in &defaults {
            if !table.contains_key(key.get_ref().as_str()) {
                let key = Spanned::new(key.span(), Cow::Owned(key.get_ref().clone()));
                table.insert(key, value.clone());
            }
        }
    }
    (tables, defaults)
}

/// A refusal of a phase as the rule that it is. It is about one event or several, with commas between.
pub(super) fn refusal<'i>(
    on: &Spanned<String>,
    code: &Spanned<String>,
    text: Option<Spanned<DeValue<'i>>>,
) -> Spanned<DeValue<'i>> {
    let end = text.as_ref().map_or(code.span().end, |text| text.span().end);
    let span = on.span().start.min(code.span().start)..end;
    let key = |name: &'static str| Spanned::new(span.clone(), Cow::Borrowed(name));
    let string = |text: &str| DeValue::String(Cow::Owned(text.to_string()));
    let names = on.get_ref().split(',').map(|name| Spanned::new(on.span(), string(name.trim())));
    let mut rule = DeTable::new();
    rule.insert(key("on"), Spanned::new(on.span(), DeValue::Array(names.collect())));
    rule.insert(key("code"), Spanned::new(code.span(), string(code.get_ref())));
    if let Some(text) = text {
        rule.insert(key(DENY), text);
    }
    Spanned::new(span, DeValue::Table(rule))
}

/// What stands for the name, and for the value, in a pattern.
const HOLES: [&str; 2] = ["{each}", "{value}"];

/// A rule or a phase for each name that it has under `each`, or itself where it has none. Where `each`
/// is a table, `{value}` stands for the value of the name.
pub(super) fn each<'i>(
    entry: Entry<'i>,
    source: &Arc<Source>,
    found: &mut Diagnostics,
) -> Vec<Entry<'i>> {
    let (name, mut value) = entry;
    let DeValue::Table(table) = value.get_mut() else { return vec![(name, value)] };
    let Some(each) = table.remove("each") else { return vec![(name, value)] };
    let span = each.span();
    let text = |value: &Spanned<DeValue>| match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    let names: Option<Vec<[String; 2]>> = match each.get_ref() {
        DeValue::Array(names) => {
            names.iter().map(|name| text(name).map(|name| [name.clone(), name])).collect()
        }
        DeValue::Table(names) => names
            .iter()
            .map(|(name, value)| text(value).map(|value| [name.get_ref().to_string(), value]))
            .collect(),
        _ => None,
    };
    let Some(names) = names else {
        let message = "`each` is a list of names, or a table of names and texts";
        found.error("shape", source, span, message);
        return Vec::new();
    };
    let made = names.iter().map(|fillers| {
        let mut value = value.clone();
        fill_holes(value.get_mut(), fillers);
        (Spanned::new(name.span(), filled(name.get_ref(), fillers)), value)
    });
    made.collect()
}

fn filled(text: &str, fillers: &[String; 2]) -> String {
    let holes = HOLES.iter().zip(fillers);
    holes.fold(text.to_string(), |text, (hole, filler)| text.replace(hole, filler))
}

fn fill_holes(value: &mut DeValue, fillers: &[String; 2]) {
    let has_hole = |text: &str| HOLES.iter().any(|hole| text.contains(hole));
    match value {
        DeValue::String(text) if has_hole(text) => *text = Cow::Owned(filled(text, fillers)),
        DeValue::Array(items) => {
            items.iter_mut().for_each(|item| fill_holes(item.get_mut(), fillers));
        }
        DeValue::Table(table) => {
            *table = std::mem::take(table)
                .into_iter()
                .map(|(key, mut value)| {
                    fill_holes(value.get_mut(), fillers);
                    let name = filled(key.get_ref(), fillers);
                    (Spanned::new(key.span(), Cow::Owned(name)), value)
                })
                .collect();
        }
        _ => {}
    }
}
