//! How our entries get into a file of settings and out again without touching anything else there:
//! texts are spliced in at a place that the syntax tree tells, and kept, so that the same texts can be
//! taken out.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Value, json};

use crate::settings::{self, Entry, Settings, What, is_hook};
use crate::toml_table;

/// A text that was put into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    pub at: usize,
    pub text: String,
}

/// What is to be put into a text for an entry; none where it is there already.
///
/// # Errors
/// Where the text is not JSON, or something else stands at that place.
pub fn splice(text: &str, entry: &Entry) -> Result<Option<Splice>, String> {
    match &entry.what {
        What::Table(header, lines) => {
            let addition = toml_table::addition(text, header, lines)?;
            return Ok(addition.map(|addition| Splice { at: text.len(), text: addition }));
        }
        What::Whole(own) if text == *own => return Ok(None),
        What::Whole(_) => return Err("it does not have the form that Phasegate writes".into()),
        What::Element(_) | What::Member(..) => {}
    }
    let root = parse(text)?;
    let Some(Node::Object(root)) = root else {
        return Err("it is not a JSON object".into());
    };
    let mut here = &root;
    let mut keys = entry.path.iter();
    let last = match entry.what {
        What::Element(_) => entry.path.len() - 1,
        _ => entry.path.len(),
    };
    for (depth, key) in keys.by_ref().take(last).enumerate() {
        match here.get(key).map(|member| &member.value) {
            None => {
                let value = nested(&entry.path[depth + 1..], &entry.what);
                return Ok(Some(into_object(text, here, key, &value)));
            }
            Some(Node::Object(object)) => here = object,
            Some(_) => {
                return Err(format!("`{}` is not an object there", entry.path[..=depth].join(".")));
            }
        }
    }
    match &entry.what {
        What::Member(name, value) => Ok(match here.get(name) {
            Some(_) => None,
            None => Some(into_object(text, here, name, value)),
        }),
        What::Element(value) => {
            let key = entry.path[last];
            match here.get(key).map(|member| &member.value) {
                None => {
                    let list = Value::from(vec![value.clone()]);
                    Ok(Some(into_object(text, here, key, &list)))
                }
                Some(Node::Array(list)) => {
                    let event = event_in(value);
                    let own = list.elements.iter().any(|it| has_hook(text, it, event.as_deref()));
                    let ranges: Vec<_> =
                        list.elements.iter().map(|it| (it.start(), it.end())).collect();
                    Ok((!own).then(|| {
                        insert(text, list.range.start, &ranges, |indent| pretty(value, indent))
                    }))
                }
                Some(_) => Err(format!("`{}` is not a list there", entry.path.join("."))),
            }
        }
        What::Table(..) | What::Whole(_) => Ok(None),
    }
}

/// Whether an element of a list of hooks has one of ours for this event in it, or is one.
fn has_hook(text: &str, element: &Node, event: Option<&str>) -> bool {
    let found = settings::value(&text[element.start()..element.end()]);
    let events = found.iter().flat_map(events_in).collect::<Vec<_>>();
    events.iter().any(|found| event.is_none_or(|event| found == event))
}

/// The event that a hook of ours, or a group with one, is for.
fn event_in(value: &Value) -> Option<String> {
    events_in(value).next()
}

/// The events that our hooks in a group are for.
fn events_in(value: &Value) -> impl Iterator<Item = String> {
    let inner = value.get("hooks").and_then(Value::as_array).into_iter().flatten();
    std::iter::once(value).chain(inner).filter_map(settings::event_of)
}

/// A range of a text.
type Span = (usize, usize);

/// In a group of hooks: where ours are, and where all are.
fn own_hooks(text: &str, element: &Node) -> Option<(Vec<Span>, Vec<Span>)> {
    let Node::Object(group) = element else { return None };
    let Some(Node::Array(hooks)) = group.get("hooks").map(|member| &member.value) else {
        return None;
    };
    let all: Vec<Span> = hooks.elements.iter().map(|it| (it.start(), it.end())).collect();
    let own = all.iter().copied().filter(|(start, end)| is_hook(&text[*start..*end]));
    Some((own.collect(), all))
}

fn parse(text: &str) -> Result<Option<Node<'_>>, String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    parsed.map(|parsed| parsed.value).map_err(|error| error.to_string())
}

/// The value that is needed where a part of the path is missing.
fn nested(path: &[&'static str], what: &What) -> Value {
    match (path, what) {
        ([], What::Element(value)) => Value::from(vec![value.clone()]),
        ([], What::Member(name, value)) => json!({ *name: value }),
        ([], What::Table(..) | What::Whole(_)) => Value::Null,
        ([first, rest @ ..], what) => json!({ *first: nested(rest, what) }),
    }
}

fn into_object(text: &str, object: &Object, name: &str, value: &Value) -> Splice {
    let ranges: Vec<_> = object.properties.iter().map(|it| (it.start(), it.end())).collect();
    insert(text, object.range.start, &ranges, |indent| {
        format!("{}: {}", Value::from(name), pretty(value, indent))
    })
}

/// Puts something behind the last of some parts, or into what has none, in the style of the file.
fn insert(
    text: &str,
    opens: usize,
    parts: &[(usize, usize)],
    render: impl Fn(Option<&str>) -> String,
) -> Splice {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let indent_at = |at: usize| {
        let line = text[..at].rfind('\n').map_or(0, |start| start + 1);
        let before = &text[line..at];
        let indent: String = before.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
        (indent.len() == before.len(), indent)
    };
    let with_newlines = |text: String| text.replace('\n', newline);
    match parts.last() {
        Some((start, end)) => {
            let (own_line, indent) = indent_at(*start);
            let text = if own_line {
                format!(",\n{indent}{}", render(Some(&indent)))
            } else {
                format!(", {}", render(None))
            };
            Splice { at: *end, text: with_newlines(text) }
        }
        None if !text.contains('\n') => Splice { at: opens + 1, text: render(None) },
        None => {
            let (_, outer) = indent_at(opens);
            let inner = format!("{outer}{}", unit(text));
            let text = format!("\n{inner}{}\n{outer}", render(Some(&inner)));
            Splice { at: opens + 1, text: with_newlines(text) }
        }
    }
}

/// How the file indents.
fn unit(text: &str) -> &str {
    let lines = text.lines().filter(|line| line.starts_with([' ', '\t']));
    let first = lines.map(|line| &line[..line.len() - line.trim_start().len()]).next();
    first.unwrap_or("  ")
}

/// A value on several lines, or on one.
fn pretty(value: &Value, indent: Option<&str>) -> String {
    match indent {
        None => value.to_string(),
        Some(indent) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            text.replace('\n', &format!("\n{indent}"))
        }
    }
}

/// A new file with all entries.
pub fn new_file(settings: &Settings) -> String {
    if let [Entry { what: What::Whole(own), .. }] = settings.entries.as_slice() {
        return (*own).to_string();
    }
    if settings.is_toml() {
        return with_all(String::new(), settings);
    }
    let mut text = serde_json::to_string_pretty(&settings.new).unwrap_or_default();
    if settings.new.is_empty() {
        text = "{\n}".into();
    }
    text.push('\n');
    with_all(text, settings).replace("{\n\n", "{\n").replace("\n\n}", "\n}")
}

/// A text with all entries that fit into it.
fn with_all(mut text: String, settings: &Settings) -> String {
    for entry in &settings.entries {
        if let Ok(Some(splice)) = splice(&text, entry) {
            text.insert_str(splice.at, &splice.text);
        }
    }
    text
}

/// The text without our entries, wherever they are; what others have written stays.
///
/// # Errors
/// Where the text is not JSON.
pub fn without(text: &str, settings: &Settings) -> Result<String, String> {
    let mut text = text.to_string();
    for entry in &settings.entries {
        while let Some((start, end)) = find(&text, entry)? {
            text.replace_range(start..end, "");
        }
    }
    Ok(text)
}

/// Where an entry of ours is, with the comma that it does not leave behind.
fn find(text: &str, entry: &Entry) -> Result<Option<Span>, String> {
    match &entry.what {
        What::Table(header, lines) => return Ok(toml_table::find(text, header, lines)),
        What::Whole(_) => return Ok(None),
        What::Element(_) | What::Member(..) => {}
    }
    let root = parse(text)?;
    let Some(Node::Object(root)) = &root else { return Ok(None) };
    let mut here = root;
    let path = match entry.what {
        What::Element(_) => &entry.path[..entry.path.len() - 1],
        _ => entry.path.as_slice(),
    };
    for key in path {
        match here.get(key).map(|member| &member.value) {
            Some(Node::Object(object)) => here = object,
            _ => return Ok(None),
        }
    }
    match &entry.what {
        What::Member(name, value) => {
            // An entry that somebody else wrote under our name is theirs.
            let own = here.get(name).filter(|member| {
                let (start, end) = (member.value.start(), member.value.end());
                settings::value(&text[start..end]).is_ok_and(|it| it == *value)
            });
            let parts: Vec<Span> =
                here.properties.iter().map(|it| (it.start(), it.end())).collect();
            Ok(own.map(|member| with_comma(text, (member.start(), member.end()), &parts)))
        }
        What::Element(_) => {
            let key = entry.path.last().copied().unwrap_or_default();
            let Some(Node::Array(list)) = here.get(key).map(|member| &member.value) else {
                return Ok(None);
            };
            let parts: Vec<Span> = list.elements.iter().map(|it| (it.start(), it.end())).collect();
            for element in &list.elements {
                let span = (element.start(), element.end());
                match own_hooks(text, element) {
                    Some((own, all)) if !own.is_empty() && own.len() < all.len() => {
                        return Ok(Some(with_comma(text, own[0], &all)));
                    }
                    Some((own, _)) if !own.is_empty() => {
                        return Ok(Some(with_comma(text, span, &parts)));
                    }
                    _ if is_hook(&text[span.0..span.1]) => {
                        return Ok(Some(with_comma(text, span, &parts)));
                    }
                    _ => {}
                }
            }
            Ok(None)
        }
        What::Table(..) | What::Whole(_) => Ok(None),
    }
}

/// A part with the comma before it, or behind it where it is the first; comments stay.
fn with_comma(text: &str, (start, end): Span, parts: &[Span]) -> Span {
    let at = parts.iter().position(|part| *part == (start, end)).unwrap_or_default();
    let before = at.checked_sub(1).map(|before| parts[before].1);
    let is_plain = |text: &str| text.chars().all(|c| c.is_whitespace() || c == ',');
    match (before, parts.get(at + 1)) {
        (Some(before), _) if is_plain(&text[before..start]) => (before, end),
        (_, Some((next, _))) if is_plain(&text[end..*next]) => (start, *next),
        (_, Some(_)) => {
            let comma = text[end..].find(',').map_or(end, |comma| end + comma + 1);
            (start, comma)
        }
        // A comment stands before it, and a comma that readers of comments take, too.
        (_, None) => (start, end),
    }
}
