//! Markdown as evidence.

use std::sync::Arc;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::json::{Json, Object};

/// The rows of all tables in a text, each an object by its header's names.
pub fn tables(text: &str) -> Vec<Json> {
    let mut rows = Vec::new();
    let mut header: Vec<String> = Vec::new();
    let mut cells: Vec<String> = Vec::new();
    let mut cell: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => cells.extend(cell.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(cell) = &mut cell {
                    cell.push_str(&text);
                }
            }
            Event::End(TagEnd::TableHead) => header = std::mem::take(&mut cells),
            Event::End(TagEnd::TableRow) => {
                let mut row = Object::default();
                for (name, value) in header.iter().zip(std::mem::take(&mut cells)) {
                    row.insert(name.trim(), Json::from(value.trim()));
                }
                rows.push(Json::Object(Arc::new(row)));
            }
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_their_headers() {
        let text = "# Tasks\r\n\r\n| Id | Status |\r\n|----|--------|\r\n| 1 | done |\r\n| 2 | `open` |\r\n\r\n```\r\n| Id | no |\r\n|--|--|\r\n| 9 | x |\r\n```\r\n";
        let rows = tables(text);
        let shown: Vec<String> = rows.iter().map(|row| row.to_text(None)).collect();
        assert_eq!(
            shown,
            ["{\"Id\":\"1\",\"Status\":\"done\"}\n", "{\"Id\":\"2\",\"Status\":\"open\"}\n"]
        );
    }
}
