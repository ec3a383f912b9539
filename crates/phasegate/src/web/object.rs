//! JSON for the page, written member by member into one text. A `serde_json::Value` would be made, compared and
//! written for each look, and the code that makes one takes several times the room in the program.

use std::fmt::Write as _;

/// A JSON object that is being written.
pub struct Object(String);

impl Object {
    pub fn new() -> Object {
        Object("{".into())
    }

    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    /// A member that is JSON already.
    pub fn json(&mut self, name: &str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(value);
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.json(name, &quoted(text));
    }

    /// A text, or null.
    pub fn maybe(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.json(name, "null"),
        }
    }

    /// A number, or null.
    pub fn number(&mut self, name: &str, number: Option<u64>) {
        let mut written = String::new();
        match number {
            Some(number) => drop(write!(written, "{number}")),
            None => written.push_str("null"),
        }
        self.json(name, &written);
    }

    pub fn flag(&mut self, name: &str, is_set: bool) {
        self.json(name, if is_set { "true" } else { "false" });
    }

    /// A list of what is JSON already.
    pub fn list(&mut self, name: &str, items: &[String]) {
        self.json(name, &listed(items));
    }

    pub fn texts(&mut self, name: &str, texts: &[String]) {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        self.list(name, &texts);
    }
}

/// A list of what is JSON already.
pub fn listed(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
