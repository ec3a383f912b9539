//! JSON as other people wrote it: member order and unknown members stay, and a guard reads it
//! without a copy.
//!
//! `serde_json::Value` would need a second, deep copy to be seen by an expression. Here lists and
//! objects sit behind `Arc`s that the expression language reads in place, and that a change
//! unshares only along its path.

mod seen;
mod text;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Number, Value};

use crate::types::Record;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Arc<str>),
    List(Arc<List>),
    Object(Arc<Object>),
}

/// An object with so many members is searched by an index.
const LARGE: usize = 32;

/// The elements of a JSON array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Json>);

/// The members of a JSON object, in the order of the source.
#[derive(Debug, Default)]
pub struct Object {
    members: Vec<(Arc<str>, Json)>,
    /// Where each member of a large object is; made when it is first asked for.
    places: OnceLock<HashMap<Arc<str>, usize>>,
    /// What the workflow declared about this object; it decides what an absent member reads as.
    record: Option<Arc<Record>>,
}

impl Clone for Object {
    fn clone(&self) -> Object {
        Object {
            members: self.members.clone(),
            places: OnceLock::new(),
            record: self.record.clone(),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Object {
    /// The member called `name`.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.place(name).map(|place| &self.members[place].1)
    }

    fn place(&self, name: &str) -> Option<usize> {
        if self.members.len() < LARGE {
            return self.members.iter().position(|(key, _)| &**key == name);
        }
        let places = self.places.get_or_init(|| {
            self.members.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect()
        });
        places.get(name).copied()
    }

    /// The member called `name`, to change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.place(name).map(|place| &mut self.members[place].1)
    }

    /// Sets a member in its place, or adds it at the end.
    pub fn insert(&mut self, name: &str, value: Json) {
        match self.get_mut(name) {
            Some(member) => *member = value,
            None => {
                let key: Arc<str> = name.into();
                if let Some(places) = self.places.get_mut() {
                    places.insert(key.clone(), self.members.len());
                }
                self.members.push((key, value));
            }
        }
    }

    /// Members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Json)> {
        self.members.iter().map(|(key, value)| (key, value))
    }

    /// Members in order, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Json)> {
        self.members.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member called `name`, looked for first at position `near`, which then is the one after
    /// it: members mostly stand in the order in which they are asked for.
    pub(crate) fn find_mut(&mut self, name: &str, near: &mut usize) -> Option<&mut Json> {
        let is = |at: usize| self.members.get(at).is_some_and(|(key, _)| &**key == name);
        let at = if is(*near) { *near } else { (0..self.members.len()).find(|at| is(*at))? };
        *near = at + 1;
        Some(&mut self.members[at].1)
    }

    pub(crate) fn declare(&mut self, record: Arc<Record>) {
        self.record = Some(record);
    }
}

impl Json {
    /// An empty object.
    pub fn object() -> Json {
        Json::Object(Arc::default())
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The member called `name` of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(object) => object.get(name),
            _ => None,
        }
    }

    /// The value at a path of member names and list positions.
    pub fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Json> {
        let mut here = self;
        for step in path {
            here = match here {
                Json::Object(object) => object.get(step)?,
                Json::List(list) => list.0.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// The value at a path, to change. Absent members on the way are made; a list is never grown.
    pub fn at_mut<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Option<&mut Json> {
        let mut here = self;
        for step in path {
            if matches!(here, Json::Null) {
                *here = Json::object();
            }
            here = match here {
                Json::Object(object) => {
                    let object = Arc::make_mut(object);
                    if object.get(step).is_none() {
                        object.insert(step, Json::Null);
                    }
                    object.get_mut(step)?
                }
                Json::List(list) => Arc::make_mut(list).0.get_mut(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// What kind of value this is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(number) if number.is_f64() => "a number",
            Json::Number(_) => "an integer",
            Json::String(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    /// A short form for a trace: whole if it is small, else its size.
    pub fn brief(&self) -> String {
        match self {
            Json::List(list) => format!("[{} elements]", list.0.len()),
            Json::Object(object) => format!("{{{} members}}", object.len()),
            Json::String(text) if text.chars().count() > 60 => {
                let start: String = text.chars().take(60).collect();
                format!("{start:?}…")
            }
            other => other.to_text(None).trim_end().to_string(),
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::String(text.into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Number(value.into())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(number) => Json::Number(number),
            Value::String(text) => Json::from(text),
            Value::Array(items) => {
                Json::from(items.into_iter().map(Json::from).collect::<Vec<_>>())
            }
            Value::Object(members) => {
                let members = members.into_iter();
                let members = members.map(|(key, value)| (key.into(), Json::from(value))).collect();
                Json::Object(Arc::new(Object { members, ..Object::default() }))
            }
        }
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::List(Arc::new(List(items)))
    }
}

impl<const N: usize> From<[(&str, Json); N]> for Json {
    fn from(members: [(&str, Json); N]) -> Json {
        let members = members.into_iter().map(|(key, value)| (key.into(), value)).collect();
        Json::Object(Arc::new(Object { members, ..Object::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_names_wins() {
        let many: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
        let many = many.join(",");
        for (text, expected) in [
            (r#"{"a":1,"b":2,"a":3}"#.to_string(), r#"{"a":3,"b":2}"#.to_string()),
            (
                r#"{"a":1,"b":2,"x":{"a":5},"b":7}"#.to_string(),
                r#"{"a":1,"b":7,"x":{"a":5}}"#.to_string(),
            ),
            (
                r#"[{"a":1,"b":2,"x":0},{"a":1,"b":2,"x":{"a":5},"b":7}]"#.to_string(),
                r#"[{"a":1,"b":2,"x":0},{"a":1,"b":7,"x":{"a":5}}]"#.to_string(),
            ),
            (
                format!("{{{many},\"k7\":0,\"k99\":1}}"),
                format!("{{{many}}}")
                    .replace("\"k7\":7", "\"k7\":0")
                    .replace("\"k99\":99", "\"k99\":1"),
            ),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().to_text(None).trim_end(), expected);
        }
    }

    #[test]
    fn members_of_large_objects_are_found_after_every_change() {
        let mut object = Object::default();
        for n in 0..1_000 {
            object.insert(&format!("k{n}"), Json::from(n));
            assert_eq!(object.get(&format!("k{}", n / 2)), Some(&Json::from(n / 2)));
        }
        let mut copy = object.clone();
        copy.insert("k5", Json::Null);
        copy.insert("new", Json::from(true));
        assert_eq!((object.get("k5"), object.get("new")), (Some(&Json::from(5)), None));
        assert_eq!((copy.get("k5"), copy.get("new")), (Some(&Json::Null), Some(&Json::from(true))));
    }
}
