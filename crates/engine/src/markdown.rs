//! Markdown as evidence.

use std::ops::Range;
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

/// The rows of all tables in a text, each an object of some columns. A column is found by its name,
/// whatever the case; the first one stands for the first column where none is called so. A cell that
/// is not there is empty.
pub fn columns(text: &str, names: &[String]) -> Vec<Json> {
    let rows = tables(text);
    let pick = |row: &Json| {
        let Json::Object(row) = row else { return Json::Null };
        let mut picked = Object::default();
        for (index, name) in names.iter().enumerate() {
            let named = row.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let cell = named.or_else(|| row.iter().next().filter(|_| index == 0));
            picked.insert(name, cell.map_or(Json::from(""), |(_, cell)| cell.clone()));
        }
        Json::Object(Arc::new(picked))
    };
    rows.iter().map(pick).collect()
}

/// The lines of a text that are neither code (fenced, indented, inline, or in HTML) nor a comment,
/// without the space around them.
pub fn plain_lines(text: &str) -> Vec<String> {
    let mut hidden: Vec<Range<usize>> = Vec::new();
    // Where inline HTML began that shows its content as code.
    let mut code: Option<usize> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => hidden.push(range),
            Event::Start(Tag::HtmlBlock) if hides(&text[range.clone()]) => hidden.push(range),
            Event::InlineHtml(html) if html.starts_with("</") => {
                hidden.extend(code.take().map(|start| start..range.end));
            }
            Event::InlineHtml(html) if hides(&html) => {
                code = code.or(Some(range.start));
                hidden.push(range);
            }
            Event::End(TagEnd::Paragraph) => {
                hidden.extend(code.take().map(|start| start..range.end));
            }
            _ => {}
        }
    }
    hidden.sort_by_key(|range| range.start);
    let mut lines = Vec::new();
    let mut start = 0;
    // Both go through the text from its beginning to its end; what is hidden reaches so far.
    let mut reach = 0;
    let mut hidden = hidden.into_iter().peekable();
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let plain = line.trim();
        while let Some(next) = hidden.next_if(|hidden| hidden.start < end) {
            reach = reach.max(next.end);
        }
        let shown = reach <= start;
        if !plain.is_empty() && shown {
            lines.push(plain.to_string());
        }
        start = end;
    }
    lines
}

/// Whether HTML shows its content as code or not at all.
fn hides(html: &str) -> bool {
    let html = html.trim_start().to_ascii_lowercase();
    ["<!--", "<code", "<pre", "<script", "<style", "<template", "<textarea"]
        .iter()
        .any(|start| html.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_whatever_their_case() {
        let text = "| # | STATUS | x |\n|--|--|--|\n| [2](task-2.md) | **Done** | y |\n| 3 |\n";
        let names = ["id".to_string(), "status".to_string()];
        let shown: Vec<String> =
            columns(text, &names).iter().map(|row| row.to_text(None)).collect();
        assert_eq!(
            shown,
            ["{\"id\":\"2\",\"status\":\"Done\"}\n", "{\"id\":\"3\",\"status\":\"\"}\n"]
        );
    }

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
