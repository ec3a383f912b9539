//! JSON as other people wrote it: member order and unknown members stay, and a guard reads it
//! without a copy.
//!
//! `serde_json::Value` would need a second, deep copy to be seen by an expression. Here lists and
//! objects sit behind `Arc`s that the expression language reads in place, and that a change
//! unshares only along its path.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object as TemplateObject, ObjectExt, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
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

/// The elements of a JSON array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Json>);

/// The members of a JSON object, in the order of the source.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(Arc<str>, Json)>,
    /// What the workflow declared about this object; it decides what an absent member reads as.
    record: Option<Arc<Record>>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Object {
    /// The member called `name`.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// The member called `name`, to change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.members.iter_mut().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Sets a member in its place, or adds it at the end.
    pub fn insert(&mut self, name: &str, value: Json) {
        match self.get_mut(name) {
            Some(member) => *member = value,
            None => self.members.push((name.into(), value)),
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
    /// Parses JSON text.
    ///
    /// # Errors
    /// Where the text is not one JSON value; the error knows line and column.
    pub fn parse(text: &[u8]) -> Result<Json, serde_json::Error> {
        let mut keys = Keys::default();
        // One look over the whole text is cheaper than one at each string.
        let text = std::str::from_utf8(text).map_err(serde::de::Error::custom)?;
        let mut source = serde_json::Deserializer::from_str(text);
        let value = Seed(&mut keys).deserialize(&mut source)?;
        source.end()?;
        Ok(value)
    }

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

    /// Text indented as `indent` says, ending with a newline; on one line where it is `None`.
    pub fn to_text(&self, indent: Option<&str>) -> String {
        let mut out = Vec::new();
        let written = match indent {
            None => self.serialize(&mut serde_json::Serializer::new(&mut out)),
            Some(indent) => {
                let style = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
                self.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style))
            }
        };
        debug_assert!(written.is_ok(), "a Json value always has a text");
        out.push(b'\n');
        String::from_utf8(out).unwrap_or_default()
    }

    /// The indentation that `text` uses, so that it can be written back in its own style.
    pub fn indent_of(text: &str) -> Option<&str> {
        let (_, rest) = text.split_once('\n')?;
        let width = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        (width > 0).then(|| &rest[..width])
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

    /// What an expression sees.
    pub fn to_value(&self) -> Value {
        match self {
            Json::Null => Value::from(()),
            Json::Bool(value) => Value::from(*value),
            Json::Number(number) => {
                if let Some(value) = number.as_i64() {
                    Value::from(value)
                } else if let Some(value) = number.as_u64() {
                    Value::from(value)
                } else {
                    Value::from(number.as_f64().unwrap_or(f64::NAN))
                }
            }
            Json::String(text) => Value::from(text.clone()),
            Json::List(list) => Value::from_dyn_object(list.clone()),
            Json::Object(object) => Value::from_dyn_object(object.clone()),
        }
    }

    /// The JSON of what an expression produced.
    ///
    /// # Errors
    /// Where the value is undefined or has no JSON form (a function, bytes).
    pub fn from_value(value: &Value) -> Result<Json, Error> {
        use minijinja::value::ValueKind;
        if let Some(list) = value.downcast_object::<List>() {
            return Ok(Json::List(list));
        }
        if let Some(object) = value.downcast_object::<Object>() {
            return Ok(Json::Object(object));
        }
        match value.kind() {
            ValueKind::None => Ok(Json::Null),
            ValueKind::Bool => Ok(Json::Bool(value.is_true())),
            ValueKind::Number => {
                if let Some(number) = value.as_i64().filter(|_| value.is_integer()) {
                    return Ok(Json::Number(number.into()));
                }
                let number = f64::try_from(value.clone())?;
                Number::from_f64(number).map(Json::Number).ok_or_else(|| {
                    Error::new(ErrorKind::InvalidOperation, "the number is not finite")
                })
            }
            ValueKind::String => Ok(Json::String(value.as_str().unwrap_or_default().into())),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Result<Vec<Json>, Error> =
                    value.try_iter()?.map(|item| Json::from_value(&item)).collect();
                Ok(Json::List(Arc::new(List(items?))))
            }
            ValueKind::Map => {
                let mut object = Object::default();
                for key in value.try_iter()? {
                    let member = Json::from_value(&value.get_item(&key)?)?;
                    object.insert(&key.to_string(), member);
                }
                Ok(Json::Object(Arc::new(object)))
            }
            other => Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{other} cannot be stored in a document"),
            )),
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
        Json::Object(Arc::new(Object { members, record: None }))
    }
}

impl TemplateObject for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).map(Json::to_value)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|list| Box::new(list.0.iter().map(Json::to_value)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

impl TemplateObject for Object {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    /// An absent member is an error, not an empty value, unless the workflow declared the member
    /// as optional. `.get(name)` asks for a member that may be absent.
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if let Some(value) = self.get(key) {
            return Some(value.to_value());
        }
        match self.record.as_ref().and_then(|record| record.field(key)) {
            Some(field) => Some(field.when_absent().to_value()),
            None => Some(Value::from(Error::new(
                ErrorKind::UndefinedError,
                format!(
                    "there is no member `{key}` (`.get('{key}')` reads one that may be absent)"
                ),
            ))),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|object| {
            Box::new(object.members.iter().map(|(key, _)| Value::from(key.clone())))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.members.len())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut minijinja::State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let found = |key: &str| self.get(key).map(Json::to_value);
        match (method, args) {
            ("get", [key]) => Ok(key.as_str().and_then(found).unwrap_or(Value::from(()))),
            ("get", [key, default]) => {
                Ok(key.as_str().and_then(found).unwrap_or_else(|| default.clone()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => out.serialize_unit(),
            Json::Bool(value) => out.serialize_bool(*value),
            Json::Number(number) => number.serialize(out),
            Json::String(text) => out.serialize_str(text),
            Json::List(list) => {
                let mut seq = out.serialize_seq(Some(list.0.len()))?;
                for item in &list.0 {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Json::Object(object) => {
                let mut map = out.serialize_map(Some(object.len()))?;
                for (key, value) in object.iter() {
                    map.serialize_entry(&**key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Json, D::Error> {
        Seed(&mut Keys::default()).deserialize(source)
    }
}

/// Member names already seen: the thousandth entry of a list has the names of the first, and
/// mostly in the same order, so each name remembers the one that followed it.
#[derive(Default)]
struct Keys {
    all: HashSet<Arc<str>>,
    in_order: Vec<Arc<str>>,
    next: usize,
    /// Members of the objects that are being read, innermost last: each object is then allocated
    /// once, in its size.
    open: Vec<(Arc<str>, Json)>,
}

impl Keys {
    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(guess) = self.in_order.get(self.next)
            && **guess == *name
        {
            self.next += 1;
            return guess.clone();
        }
        if let Some(position) = self.in_order.iter().take(64).position(|key| **key == *name) {
            self.next = position + 1;
            return self.in_order[position].clone();
        }
        if let Some(key) = self.all.get(name) {
            return key.clone();
        }
        let key: Arc<str> = name.into();
        self.all.insert(key.clone());
        self.in_order.push(key.clone());
        self.next = self.in_order.len();
        key
    }
}

struct Seed<'k>(&'k mut Keys);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Json, D::Error> {
        source.deserialize_any(self)
    }
}

/// Reads one member name, interned.
struct KeySeed<'k>(&'k mut Keys);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Arc<str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Arc<str>, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Arc<str>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Arc<str>, E> {
        Ok(self.0.intern(name))
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = source.next_element_seed(Seed(self.0))? {
            items.push(item);
        }
        Ok(Json::List(Arc::new(List(items))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let start = self.0.open.len();
        // The last of two equal names wins, as in every JSON reader. Names are interned, so equal
        // names are equal pointers; a scan is enough for the objects of ordinary size.
        let mut places: HashMap<*const u8, usize> = HashMap::new();
        while let Some(key) = source.next_key_seed(KeySeed(self.0))? {
            let value = source.next_value_seed(Seed(self.0))?;
            let members = &mut self.0.open[start..];
            let known = if members.len() < 32 {
                members.iter().position(|(known, _)| Arc::ptr_eq(known, &key))
            } else {
                if places.is_empty() {
                    places.extend(
                        members.iter().enumerate().map(|(at, (key, _))| (key.as_ptr(), at)),
                    );
                }
                places.insert(key.as_ptr(), members.len())
            };
            match known {
                Some(at) => {
                    members[at].1 = value;
                    places.entry(key.as_ptr()).and_modify(|place| *place = at);
                }
                None => self.0.open.push((key, value)),
            }
        }
        let members = self.0.open.split_off(start);
        Ok(Json::Object(Arc::new(Object { members, record: None })))
    }
}
