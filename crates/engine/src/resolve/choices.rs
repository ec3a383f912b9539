//! Choices, resolved: each has a row that always holds, and it is the last one.

use super::Resolver;
use crate::definition::{ChoiceText, LiteralText, RowText};
use crate::json::Json;
use crate::workflow::{Choice, NewValue, Row};

impl Resolver<'_> {
    pub(super) fn choice(&mut self, text: &ChoiceText) -> Choice {
        let name = text.name.get_ref();
        let last = text.rows.len().saturating_sub(1);
        for (index, (span, row)) in text.rows.iter().enumerate() {
            if index < last && row.when.is_none() {
                let message = "this row always holds, so the rows below it are never reached";
                let hint = "give it a `when`, or move it to the end";
                self.found.error("shape", self.source, span.clone(), message).hint =
                    Some(hint.into());
            }
        }
        if text.rows.last().is_none_or(|(_, row)| row.when.is_some()) {
            let message = format!("`{name}` may be nothing at all: none of its rows always holds");
            let hint = "end it with a row without `when`";
            self.found.error("shape", self.source, text.name.span(), message).hint =
                Some(hint.into());
        }
        let rows = text.rows.iter();
        let rows = rows.filter_map(|(span, row)| {
            let value = self.row_value(row).or_else(|| {
                self.error(span.clone(), "shape", "a row has exactly one of `is` and `value`");
                None
            })?;
            let when = row.when.as_ref().map(|when| self.expression(when));
            let (line, _) = self.source.position(span.start);
            Some(Row { when, value, line })
        });
        Choice { name: name.as_str().into(), rows: rows.collect(), span: text.name.span() }
    }

    fn row_value(&self, row: &RowText) -> Option<NewValue> {
        match (&row.is, &row.value) {
            (Some(is), None) => Some(NewValue::Literal(match is {
                LiteralText::Bool(value) => Json::from(*value),
                LiteralText::Integer(value) => Json::from(*value),
                LiteralText::Text(text) => Json::from(text.as_str()),
            })),
            (None, Some(value)) => Some(NewValue::Expression(self.expression(value))),
            _ => None,
        }
    }
}
