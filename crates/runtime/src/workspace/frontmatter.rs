//! The frontmatter of a Markdown file as a JSON object: its scalar fields, and the text behind it as
//! `prompt`. What is written back changes only what differs.

use std::fmt::Write as _;

use phasegate_engine::bom;
use serde_json::{Map, Value};

/// The member that has the text behind the frontmatter.
const BODY: &str = "prompt";

/// The object that a file stands for; none where it has no frontmatter.
pub fn read(text: &str) -> Option<Value> {
    let (fields, body) = split(text)?;
    let mut object = Map::new();
    for (name, value) in fields.lines().filter_map(field) {
        object.insert(name.to_string(), scalar(value));
    }
    // A field of that name is the field's.
    object.entry(BODY).or_insert_with(|| Value::from(body.trim()));
    Some(Value::Object(object))
}

/// The file's text with the values of an object.
pub fn write(old: &str, object: &Map<String, Value>) -> String {
    let (fields, body) = split(old).unwrap_or(("", ""));
    let end = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let mut text = format!("---{end}");
    let mut seen = Vec::new();
    for line in fields.lines() {
        let known = field(line).filter(|(name, _)| object.contains_key(*name));
        match known {
            Some((name, value)) if object[name] != scalar(value) => {
                let _ = write!(text, "{name}: {}{end}", shown(&object[name]));
            }
            _ => {
                let _ = write!(text, "{line}{end}");
            }
        }
        seen.extend(known.map(|(name, _)| name));
    }
    for (name, value) in object.iter().filter(|(name, _)| *name != BODY) {
        if !seen.contains(&name.as_str()) {
            let _ = write!(text, "{name}: {}{end}", shown(value));
        }
    }
    let _ = write!(text, "---{end}");
    let own = !seen.contains(&BODY);
    match object.get(BODY).and_then(Value::as_str).filter(|_| own) {
        Some(prompt) if prompt != body.trim() => {
            let _ = write!(text, "{end}{prompt}{end}");
        }
        _ => text.push_str(body),
    }
    text
}

/// What stands between the two rules, and what follows.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = bom::strip(text);
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..start], &rest[start + line.len()..]));
        }
        start += line.len();
    }
    None
}

/// `name: value`, at the beginning of a line.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let plain = |c: char| c.is_alphanumeric() || "_-".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then_some((name, value.trim()))
}

fn scalar(text: &str) -> Value {
    let quoted = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner.to_string())
    };
    match text {
        "" | "~" | "null" => Value::Null,
        "true" | "yes" | "on" => Value::Bool(true),
        "false" | "no" | "off" => Value::Bool(false),
        _ if text.starts_with('"') => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
        }
        _ => match (text.parse::<i64>(), quoted('\'')) {
            (Ok(number), _) => Value::from(number),
            (_, Some(inner)) => Value::from(inner.replace("''", "'")),
            _ => Value::from(text),
        },
    }
}

/// A value as YAML reads it; JSON is YAML, so a text in quotes is too.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if scalar(text) == *value && !text.contains(['#', ':', '\n']) => {
            text.clone()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "---\nactive: true\n# a comment\nmode: loop\niteration: 3\nmax_iterations: 10\nlist:\n  - a\nnote: 'it''s'\n---\n\nDo it.\n\nAll of it.\n";

    #[test]
    fn fields_are_read_and_only_what_differs_is_written() {
        let mut object = read(FILE).unwrap();
        let expected = json!({ "active": true, "mode": "loop", "iteration": 3,
            "max_iterations": 10, "list": null, "note": "it's", "prompt": "Do it.\n\nAll of it." });
        assert_eq!(object, expected);
        let same = write(FILE, object.as_object().unwrap());
        assert_eq!(same, FILE);
        object["iteration"] = json!(4);
        object["reason"] = json!("a: b");
        let changed = write(FILE, object.as_object().unwrap());
        let expected = FILE
            .replace("iteration: 3", "iteration: 4")
            .replace("'it''s'\n", "'it''s'\nreason: \"a: b\"\n");
        assert_eq!(changed, expected);
        assert_eq!(read(&changed).unwrap(), object);
    }

    #[test]
    fn windows_lines_stay_and_a_file_without_frontmatter_is_none() {
        let file = FILE.replace('\n', "\r\n");
        let object = read(&file).unwrap();
        assert_eq!(write(&file, object.as_object().unwrap()), file);
        assert_eq!(read("no rules\n"), None);
        assert_eq!(read("---\nactive: true\n"), None);
    }
}
