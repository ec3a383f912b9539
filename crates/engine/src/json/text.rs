//! JSON to and from text.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

use super::{Json, LARGE, List, Object};

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
        let value = Seed(&mut keys, None).deserialize(&mut source)?;
        source.end()?;
        Ok(value)
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
        Seed(&mut Keys::default(), None).deserialize(source)
    }
}

/// Member names already seen: the thousandth entry of a list has the names of the first, and
/// mostly in the same order, so each name remembers the one that followed it.
#[derive(Default)]
struct Keys {
    all: HashSet<Arc<str>>,
    in_order: Vec<Arc<str>>,
    next: usize,
    /// The last text under each of these names: the next one is often the same.
    recent: Vec<Json>,
    /// Members of the objects that are being read, innermost last: each object is then allocated
    /// once, in its size.
    open: Vec<(Arc<str>, Json)>,
}

impl Keys {
    /// The name, and its number in the order in which names were first seen, if that is known.
    fn intern(&mut self, name: &str) -> (Arc<str>, Option<usize>) {
        let is = |at: usize| self.in_order.get(at).is_some_and(|key| **key == *name);
        let near = self.in_order.len().min(64);
        let known = if is(self.next) { Some(self.next) } else { (0..near).find(|at| is(*at)) };
        if let Some(at) = known {
            self.next = at + 1;
            return (self.in_order[at].clone(), known);
        }
        if let Some(key) = self.all.get(name) {
            return (key.clone(), None);
        }
        let key: Arc<str> = name.into();
        self.all.insert(key.clone());
        self.in_order.push(key.clone());
        self.recent.push(Json::Null);
        self.next = self.in_order.len();
        (key, Some(self.next - 1))
    }
}

/// Reads one value; the number is that of the member name before it.
struct Seed<'k>(&'k mut Keys, Option<usize>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Json, D::Error> {
        source.deserialize_any(self)
    }
}

/// Reads one member name, interned.
struct KeySeed<'k>(&'k mut Keys);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = (Arc<str>, Option<usize>);

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = (Arc<str>, Option<usize>);

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
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
        let Some(recent) = self.1.and_then(|number| self.0.recent.get_mut(number)) else {
            return Ok(Json::String(text.into()));
        };
        if recent.as_str() != Some(text) {
            *recent = Json::String(text.into());
        }
        Ok(recent.clone())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = source.next_element_seed(Seed(self.0, None))? {
            items.push(item);
        }
        Ok(Json::List(Arc::new(List(items))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let start = self.0.open.len();
        // The last of two equal names wins, as in every JSON reader. Names are interned, so equal
        // names are equal pointers; a scan is enough for the objects of ordinary size.
        let mut places: HashMap<*const u8, usize> = HashMap::new();
        // As long as the numbers of the names only grow, none of them comes twice.
        let mut in_order = true;
        let mut last = None;
        while let Some((key, number)) = source.next_key_seed(KeySeed(self.0))? {
            in_order &= number.is_some() && number > last;
            last = number;
            let value = source.next_value_seed(Seed(self.0, number))?;
            let members = &mut self.0.open[start..];
            let known = if in_order {
                None
            } else if members.len() < LARGE {
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
        Ok(Json::Object(Arc::new(Object { members, ..Object::default() })))
    }
}
