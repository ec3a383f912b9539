//! Reads a definition piece by piece, so that one mistake does not hide the next.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Definition, Head, InnerText, MachineText, PhaseText, RecordText, Rules};
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
        Head::deserialize(table.into_deserializer())
    }
}

fn is_table(value: &Spanned<DeValue>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

impl Definition {
    /// Reads a definition; `None` where its head is not readable.
    pub fn read(source: &Arc<Source>, found: &mut Diagnostics) -> Option<Definition> {
        let (table, errors) = DeTable::parse_recoverable(&source.text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            found.error("toml", source, span, error.message());
        }
        if !errors.is_empty() {
            return None;
        }
        Reader { source, found }.definition(table)
    }
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    found: &'a mut Diagnostics,
}

type Table<'i> = Spanned<DeTable<'i>>;

impl Reader<'_> {
    fn definition(&mut self, mut root: Table) -> Option<Definition> {
        let constants = self.named(&mut root, "const");
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
        let actions = self.named(&mut root, "action");
        let checks = self.named(&mut root, "check");
        let commands = self.named(&mut root, "command");
        let reviewers = self.named(&mut root, "reviewer");
        let workers = self.named(&mut root, "worker");
        let agents = self.named(&mut root, "agent");
        let jobs = self.named(&mut root, "job");
        let outer = self.machine(&mut root);
        let head = self.rest(root)?;
        Some(Definition {
            head,
            constants,
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
        })
    }

    fn machine(&mut self, table: &mut Table) -> MachineText {
        let lets = self.named(table, "let");
        let any = match self.table(table, "any") {
            Some(mut any) => {
                let rules = self.rules(&mut any);
                self.rest::<Nothing>(any);
                rules
            }
            None => Rules::default(),
        };
        let mut phases = Vec::new();
        for (name, value) in self.entries(table, "phase") {
            if let Some(mut phase) = self.as_table(&name, value) {
                let rules = self.rules(&mut phase);
                if let Some(head) = self.rest(phase) {
                    phases.push(PhaseText { name, head, rules });
                }
            }
        }
        MachineText { lets, any, phases }
    }

    fn rules(&mut self, table: &mut Table) -> Rules {
        let mut read = |key: &str| {
            let Some(value) = table.get_mut().remove(key) else { return Vec::new() };
            let span = value.span();
            let DeValue::Array(items) = value.into_inner() else {
                self.found.error("shape", self.source, span, format!("`{key}` is a list of rules"));
                return Vec::new();
            };
            let rules = items.into_iter().filter_map(|item| {
                let span = item.span();
                Some((span, self.read(item)?))
            });
            rules.collect()
        };
        Rules { rules: read("rules"), always: read("always") }
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
        table: &mut Table,
        key: &str,
    ) -> Vec<(Spanned<String>, T)> {
        let entries = self.entries(table, key).into_iter();
        entries.filter_map(|(name, value)| Some((name, self.read(value)?))).collect()
    }

    /// Takes the table `key` out of `table`, as name and value pairs.
    fn entries<'i>(
        &mut self,
        table: &mut Table<'i>,
        key: &str,
    ) -> Vec<(Spanned<String>, Spanned<DeValue<'i>>)> {
        self.table(table, key).map(owned_entries).unwrap_or_default()
    }

    fn table<'i>(&mut self, table: &mut Table<'i>, key: &str) -> Option<Table<'i>> {
        let (name, value) = table.get_mut().remove_entry(key)?;
        self.as_table(&owned(name), value)
    }

    fn as_table<'i>(
        &mut self,
        name: &Spanned<String>,
        value: Spanned<DeValue<'i>>,
    ) -> Option<Table<'i>> {
        let span = value.span();
        if let DeValue::Table(table) = value.into_inner() {
            return Some(Spanned::new(span, table));
        }
        let message = format!("`{}` is a table", name.get_ref());
        self.found.error("shape", self.source, span, message);
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
                let hint = meant(&message).map(|name| format!("did you mean `{name}`?"));
                let span = error.span().unwrap_or(span);
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
        "action", "agent", "any", "check", "command", "const", "job", "let", "machine", "phase",
        "record", "reviewer", "state", "worker",
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

fn owned_entries(table: Table) -> Vec<(Spanned<String>, Spanned<DeValue>)> {
    table.into_inner().into_iter().map(|(name, value)| (owned(name), value)).collect()
}
