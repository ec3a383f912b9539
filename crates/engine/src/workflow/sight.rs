//! Which evidence a workflow looks at, as far as that is costly to have ready.

use super::{Expression, Machine, NewValue, Workflow};

/// Functions that look at the files of the project as a whole.
const OF_TREE: [&str; 4] = ["tree(", "snapshot(", "changes(", "applied("];

impl Workflow {
    /// Whether an expression or a text looks at the files of the project as a whole. By their words, without parsing
    /// them: a hook asks this.
    pub fn looks_at_tree(&self) -> bool {
        let names = |text: &str| OF_TREE.iter().any(|function| text.contains(function));
        let facts = self.machines.iter().flat_map(Machine::facts).flat_map(|(.., by)| by);
        let rules = self.rules().flat_map(|(_, rule)| {
            let values = rule.set.iter().filter_map(|set| match &set.value {
                NewValue::Expression(expression) => Some(expression),
                NewValue::Literal(_) | NewValue::Rendered(_) => None,
            });
            rule.when.iter().map(|guard| &guard.whole).chain(values)
        });
        let mut expressions = facts.chain(rules).map(|Expression { text, .. }| text);
        expressions.any(|text| names(text)) || self.texts.iter().any(|text| names(&text.text))
    }
}
