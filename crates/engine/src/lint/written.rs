//! What a definition says and nothing uses, and rows that are too wide to be read.

use std::collections::HashSet;

use super::Lint;
use crate::definition::{Definition, MachineText, OneOrMore, RuleText};
use crate::diagnostic::Diagnostics;

/// How many characters a row may have.
const WIDEST: usize = 160;

impl Lint<'_> {
    /// Warns about rows that nobody sees the end of.
    pub(super) fn wide(&mut self) {
        let text = self.source.text.clone();
        let mut start = 0;
        for row in text.split_inclusive('\n') {
            let width = row.trim_end_matches(['\n', '\r']).chars().count();
            if width > WIDEST {
                let end = row.char_indices().nth(WIDEST).map_or(row.len(), |(at, _)| at);
                let message = format!("this row has {width} characters, more than {WIDEST}");
                let hint = "move parts of it elsewhere: `enter`, `[choose]`, `[set.NAME]`, `[let]`, a prompt";
                self.warn("wide", start + end..start + end, message, hint);
            }
            start += row.len();
        }
    }

    /// Warns about what is said once for several, and meant by none.
    pub(super) fn unused_parts(&mut self) {
        let Some(definition) = Definition::read(self.source, &mut Diagnostics::default()) else {
            return;
        };
        let machines = definition.inner.iter().map(|inner| &inner.machine);
        let machines: Vec<&MachineText> =
            std::iter::once(&definition.outer).chain(machines).collect();
        let events: HashSet<&str> = machines
            .iter()
            .flat_map(|machine| rules(machine))
            .flat_map(|rule| rule.on.iter().flat_map(OneOrMore::names))
            .map(String::as_str)
            .collect();
        let params = definition.actions.iter().flat_map(|(_, action)| &action.params);
        let params: HashSet<&str> = params.map(|name| name.get_ref().as_str()).collect();
        let events =
            definition.events.iter().filter(|(it, _)| !events.contains(it.get_ref().as_str()));
        let params =
            definition.params.iter().filter(|(it, _)| !params.contains(it.get_ref().as_str()));
        let events = events.map(|(name, _)| ("list of events", name));
        let params = params.map(|(name, _)| ("parameter", name));
        let tables = definition.unused.iter().map(|(kind, name)| (*kind, name));
        for (kind, name) in events.chain(params).chain(tables) {
            let message = match kind {
                "set" | "write" | "move" => format!("`[{kind}.{}]` is never used", name.get_ref()),
                "codes" => format!("code `{}` is never used", name.get_ref()),
                _ => format!("{kind} `{}` is never used", name.get_ref()),
            };
            self.warn("unused", name.span(), message, "remove it");
        }
    }
}

fn rules(machine: &MachineText) -> impl Iterator<Item = &RuleText> {
    let phases = machine.phases.iter().map(|phase| &phase.rules);
    let lists = std::iter::once(&machine.any).chain(phases);
    lists.flat_map(|it| it.rules.iter().chain(&it.denies)).map(|(_, rule)| rule)
}
