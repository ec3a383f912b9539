//! Reads a definition piece by piece, so that one mistake does not hide the next.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::expand::{DENY, Entry, Named, PARTS, each, refusal, with_defaults};
use super::{
    ChoiceText, Definition, Head, InnerText, MachineText, PhaseText, RecordText, RuleText, Rules,
};
use crate::advice;
use crate::answer::Outcome;
use crate::diagnostic::{Diagnostics, Source, closest};

impl Head {
    /// Reads only the head of a definition: what finding a run needs, at a fraction of the cost.
    ///
    /// TOML's root keys stand before the first table, so the text up to there is enough. Where
    /// that text is not TOML by itself (a line of a string looks like a table), all of it is read.
    pub fn read(source: &str) -> Result<Head, toml::de::Error> {
        let cut = if source.starts_with('[') { Some(0) } else { source.find("\n[") };
        let head = &source[..cut.map_or(source.len(), |newline| newline + 1)];
        if let Ok(head) = toml::from_str(head) {
            return Ok(head);
        }
        let mut table = DeTable::parse(source)?;
        let tables = table.get_ref().iter().filter(|(_, value)| is_table(value));
        let names: Vec<String> = tables.map(|(name, _)| name.get_ref().to_string()).collect();
        for name in &names {
            table.get_mut().remove(name.as_str());
        }
        table.get_mut().remove(PROPERTY);
        Head::deserialize(table.into_deserializer())
    }
}

/// The key of the properties: the one list of tables at the root.
const PROPERTY: &str = "property";

/// Whether it has a key. To look at all of the few that there are is cheaper than to hash one.
fn has(value: &Spanned<DeValue>, key: &str) -> bool {
    matches!(value.get_ref(), DeValue::Table(table) if table.keys().any(|it| it.get_ref() == key))
}

fn is_table(value: &Spanned<DeValue>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

impl Definition {
    /// Reads a definition; `None` where its head is not readable.
    pub fn read(source: &Arc<Source>, found: &mut Diagnostics) -> Option<Definition> {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        let mut last = None;
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            let (line, _) = source.position(span.start);
            // What follows on a line follows from its first mistake.
            if last.replace(line) == Some(line) {
                continue;
            }
            let text = source.text.lines().nth(line - 1).unwrap_or_default();
            let hint = advice::toml(text, error.message());
            found.error("toml", source, span, error.message()).hint = hint;
        }
        if !errors.is_empty() {
            return None;
        }
        Reader { source, found, parts: Named::default() }.definition(table)
    }
}

struct Reader<'a, 'i> {
    source: &'a Arc<Source>,
    found: &'a mut Diagnostics,
    parts: Named<'i>,
}

type Table<'i> = Spanned<DeTable<'i>>;

impl<'i> Reader<'_, 'i> {
    fn definition(mut self, mut root: Table<'i>) -> Option<Definition> {
        for key in PARTS {
            let entries = self.entries(&mut root, key);
            self.parts.add(key, entries);
        }
        let codes = self.entries(&mut root, "codes");
        self.parts.add(DENY, codes);
        let constants = self.named(&mut root, "const");
        let events = self.named(&mut root, "events");
        let params = self.named(&mut root, "param");
        let mut records = Vec::new();
        if let Some(fields) = self.table(&mut root, "state") {
            let name = Spanned::new(fields.span(), "state".to_string());
            records.push(self.record(name, fields));
        }
        for (name, value) in self.entries(&mut root, "record") {
            if let Some(fields) = self.as_table(&name, value) {
                records.push(self.record(name, fields));
            }
        }
        let mut inner = Vec::new();
        for (name, value) in self.entries(&mut root, "machine") {
            if let Some(mut table) = self.as_table(&name, value) {
                let machine = self.machine(&mut table);
                if let Some(head) = self.rest(table) {
                    inner.push(InnerText { name, head, machine });
                }
            }
        }
        let actions = self.kind(&mut root, "action");
        let checks = self.kind(&mut root, "check");
        let commands = self.kind(&mut root, "command");
        let reviewers = self.kind(&mut root, "reviewer");
        let workers = self.kind(&mut root, "worker");
        let agents = self.kind(&mut root, "agent");
        let jobs = self.kind(&mut root, "job");
        let properties = self.list(&mut root, PROPERTY, "properties");
        let properties = properties.into_iter().flatten();
        let properties = properties.filter_map(|it| self.read(it)).collect();
        let outer = self.machine(&mut root);
        let head = self.rest(root)?;
        Some(Definition {
            head,
            constants,
            events,
            params,
            records,
            outer,
            inner,
            actions,
            checks,
            commands,
            reviewers,
            workers,
            agents,
            jobs,
            properties,
            unused: self.parts.unused(),
        })
    }

    fn machine(&mut self, table: &mut Table<'i>) -> MachineText {
        let lets = self.named(table, "let");
        let choices = self.choices(table);
        let any = match self.table(table, "any") {
            Some(mut any) => {
                let rules = self.rules(&mut any);
                self.rest::<Nothing>(any);
                rules
            }
            None => Rules::default(),
        };
        let mut phases = Vec::new();
        let mut patterns = self.entries(table, "phase");
        if patterns.iter().any(|(_, phase)| has(phase, "each")) {
            let phases = patterns.into_iter();
            patterns = phases.flat_map(|phase| each(phase, self.source, self.found)).collect();
        }
        for (name, value) in patterns {
            let refuses = has(&value, "denies");
            if let Some(mut phase) = self.as_table(&name, value) {
                let mut rules = self.rules(&mut phase);
                if refuses {
                    rules.denies = self.denies(&mut phase);
                }
                if let Some(head) = self.rest(phase) {
                    phases.push(PhaseText { name, head, rules });
                }
            }
        }
        MachineText { lets, choices, any, phases }
    }

    fn choices(&mut self, table: &mut Table<'i>) -> Vec<ChoiceText> {
        let mut choices = Vec::new();
        for (name, value) in self.entries(table, "choose") {
            let Some(mut choice) = self.as_table(&name, value) else { continue };
            let rows = self.list(&mut choice, "rows", "rows");
            let rows = rows.into_iter().flatten();
            let rows = rows.filter_map(|row| Some((row.span(), self.read(row)?))).collect();
            self.rest::<Nothing>(choice);
            choices.push(ChoiceText { name, rows });
        }
        choices
    }

    /// The refusals of a phase, as rules: for an event, or a list of them, a code and its text.
    fn denies(&mut self, phase: &mut Table<'i>) -> Vec<(Range<usize>, RuleText)> {
        let mut rules = Vec::new();
        for (on, value) in self.entries(phase, "denies") {
            let span = value.span();
            match value.into_inner() {
                DeValue::String(code) => {
                    let code = Spanned::new(span, code.into_owned());
                    rules.push(refusal(&on, &code, None));
                }
                DeValue::Table(texts) => {
                    let texts = owned_entries(Spanned::new(span, texts)).into_iter();
                    rules.extend(texts.map(|(code, text)| refusal(&on, &code, Some(text))));
                }
                _ => {
                    let message = "a refusal is `EVENT.CODE = \"text\"`, or `EVENT = \"CODE\"` for \
                                   a code of `[codes]`";
                    self.found.error("shape", self.source, span, message);
                }
            }
        }
        rules.into_iter().filter_map(|rule| self.rule(rule)).collect()
    }

    fn rule(&mut self, mut rule: Spanned<DeValue<'i>>) -> Option<(Range<usize>, RuleText)> {
        let span = rule.span();
        if let DeValue::Table(table) = rule.get_mut() {
            self.parts.fill(table, self.source, self.found);
        }
        let mut rule: RuleText = self.read(rule)?;
        if rule.wait.is_some() {
            if rule.allow.is_some() || rule.until.is_some() {
                let message = "`wait` is an answer of its own, without `allow` and `until`";
                self.found.error("shape", self.source, span.clone(), message);
            }
            (rule.allow, rule.until) = (Some(Outcome::Waiting), rule.wait);
        }
        Some((span, rule))
    }

    fn rules(&mut self, table: &mut Table<'i>) -> Rules {
        let mut read = |key: &str| {
            let mut rules = Vec::new();
            let Some(list) = self.list(table, key, "rules") else { return rules };
            for rule in list {
                // Most rules stand for themselves.
                if !has(&rule, "each") {
                    rules.extend(self.rule(rule));
                    continue;
                }
                let unnamed = Spanned::new(rule.span(), String::new());
                for (_, rule) in each((unnamed, rule), self.source, self.found) {
                    rules.extend(self.rule(rule));
                }
            }
            rules
        };
        Rules { rules: read("rules"), always: read("always"), denies: Vec::new() }
    }

    /// Takes the list `key` out of `table`.
    fn list(&mut self, table: &mut Table<'i>, key: &str, of: &str) -> Option<DeArray<'i>> {
        let value = table.get_mut().remove(key)?;
        let span = value.span();
        if let DeValue::Array(items) = value.into_inner() {
            return Some(items);
        }
        let message = format!("`{key}` is a list of {of}");
        let hint = format!("write `{key} = [ … ]`, with a row for each");
        self.found.error("shape", self.source, span, message).hint = Some(hint);
        None
    }

    /// Takes the table of a kind of things out of `table`, each read with what is said for all.
    fn kind<T: DeserializeOwned>(
        &mut self,
        table: &mut Table<'i>,
        key: &str,
    ) -> Vec<(Spanned<String>, T)> {
        let (entries, defaults) = with_defaults(self.entries(table, key));
        if let (true, Some((name, _))) = (entries.is_empty(), defaults.first()) {
            let message =
                format!("`{}` is said for every {key}, and there is none", name.get_ref());
            self.found.error("shape", self.source, name.span(), message);
        }
        let read = |(name, value)| Some((name, self.read(value)?));
        entries.into_iter().filter_map(read).collect()
    }

    fn record(&mut self, name: Spanned<String>, fields: Table) -> RecordText {
        let fields = owned_entries(fields)
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.read(value)?)))
            .collect();
        RecordText { name, fields }
    }

    /// Takes the table `key` out of `table`, each of its values read.
    fn named<T: DeserializeOwned>(
        &mut self,
        table: &mut Table<'i>,
        key: &str,
    ) -> Vec<(Spanned<String>, T)> {
        let entries = self.entries(table, key).into_iter();
        entries.filter_map(|(name, value)| Some((name, self.read(value)?))).collect()
    }

    /// Takes the table `key` out of `table`, as name and value pairs.
    fn entries(&mut self, table: &mut Table<'i>, key: &str) -> Vec<Entry<'i>> {
        self.table(table, key).map(owned_entries).unwrap_or_default()
    }

    fn table(&mut self, table: &mut Table<'i>, key: &str) -> Option<Table<'i>> {
        let (name, value) = table.get_mut().remove_entry(key)?;
        self.as_table(&owned(name), value)
    }

    fn as_table(
        &mut self,
        name: &Spanned<String>,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Table<'i>> {
        let span = value.span();
        if let DeValue::Table(table) = value.into_inner() {
            return Some(Spanned::new(span, table));
        }
        let message = format!("`{}` is a table", name.get_ref());
        let hint = "write it as `[table]` with `key = value` below it, or as `{ key = value }`";
        self.found.error("shape", self.source, span, message).hint = Some(hint.into());
        None
    }

    fn read<T: DeserializeOwned>(&mut self, value: Spanned<DeValue>) -> Option<T> {
        let span = value.span();
        self.keep(span, T::deserialize(value.into_deserializer()))
    }

    fn rest<T: DeserializeOwned>(&mut self, table: Table) -> Option<T> {
        let span = table.span();
        self.keep(span, T::deserialize(table.into_deserializer()))
    }

    fn keep<T>(&mut self, span: Range<usize>, read: Result<T, toml::de::Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.message().to_string();
                let hint = advice::shape(&message);
                let hint = hint.or_else(|| Some(format!("did you mean `{}`?", meant(&message)?)));
                let span = error.span().unwrap_or(span);
                // What is missing stands nowhere: the table begins where it should be.
                let is_missing = message.starts_with("missing field");
                let span = if is_missing { span.start..span.start } else { span };
                self.found.error("shape", self.source, span, message).hint = hint;
                None
            }
        }
    }
}

/// A hint for serde's "unknown field `a`, expected one of `b`, `c`".
fn meant(message: &str) -> Option<&str> {
    let rest =
        message.strip_prefix("unknown field `").or(message.strip_prefix("unknown variant `"))?;
    let names: Vec<&str> = rest.split('`').step_by(2).collect();
    let (unknown, known) = names.split_first()?;
    // Tables are taken out before serde sees the rest, so it does not know their names.
    let tables = [
        "action", "agent", "any", "check", "choose", "codes", "command", "const", "events", "job",
        "let", "machine", "move", "param", "phase", "property", "record", "reviewer", "set",
        "state", "worker", "write",
    ];
    let tables = tables.into_iter().filter(|_| known.contains(&"name") || known.contains(&"each"));
    closest(unknown, known.iter().copied().chain(tables))
}

/// A table that has no keys of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn owned(name: Spanned<Cow<str>>) -> Spanned<String> {
    Spanned::new(name.span(), name.into_inner().into_owned())
}

fn owned_entries(table: Table) -> Vec<Entry> {
    table.into_inner().into_iter().map(|(name, value)| (owned(name), value)).collect()
}
