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

use serde_json::Number;

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
                self.members.push((name.into(), value));
                self.places = OnceLock::new();
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
