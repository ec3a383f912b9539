//! A fact that is chosen by rows, resolved.

use std::ops::Range;
use std::sync::Arc;

use super::{Expression, NewValue};

/// A derived fact whose value is said by the first of its rows that holds.
#[derive(Clone, Debug)]
pub struct Choice {
    pub name: Arc<str>,
    pub rows: Vec<Row>,
    pub span: Range<usize>,
}

/// A row: when it holds, and what the fact is then. The last one always holds.
#[derive(Clone, Debug)]
pub struct Row {
    pub when: Option<Expression>,
    /// A literal or an expression, never a text.
    pub value: NewValue,
    pub line: usize,
}

impl Choice {
    /// The expressions of all rows, in order.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.rows.iter().flat_map(|row| {
            let value = match &row.value {
                NewValue::Expression(value) => Some(value),
                NewValue::Literal(_) | NewValue::Rendered(_) => None,
            };
            row.when.iter().chain(value)
        })
    }
}
