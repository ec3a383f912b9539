//! What a workflow declares about its data: records with typed fields.
//!
//! State documents and artifacts come from outside. They are checked against these records before
//! any rule looks at them, and a field that may be absent says here what it then reads as.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::json::Json;

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Any,
    String,
    Integer,
    Number,
    Boolean,
    OneOf(Vec<Arc<str>>),
    Record(RecordId),
    List(Box<Type>),
    Map(Box<Type>),
}

impl Type {
    /// The names of the types that need no record.
    pub const BASIC: [&'static str; 5] = ["string", "integer", "number", "boolean", "any"];

    /// The type of that name, unless it is a record.
    pub fn basic(name: &str) -> Option<Type> {
        Some(match name {
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "any" => Type::Any,
            _ => return None,
        })
    }

    /// The type of that name.
    pub fn named(name: &str, records: &Records) -> Option<Type> {
        Type::basic(name).or_else(|| records.named(name).map(Type::Record))
    }
}

/// A record's place in [`Records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId(pub usize);

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: Arc<str>,
    pub ty: Type,
    /// May be absent or null.
    pub optional: bool,
    /// What it reads as when absent.
    pub default: Option<Json>,
    /// Of a list: the members that an element is given which does not fit.
    pub misfit: Option<Json>,
}

impl Field {
    /// What a guard reads where the document has no such member.
    pub fn when_absent(&self) -> &Json {
        self.default.as_ref().unwrap_or(&Json::Null)
    }
}

/// A named set of fields. Members that it does not name are kept and not checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub name: Arc<str>,
    pub fields: Vec<Field>,
}

impl Record {
    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// All records of a workflow.
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Arc<Record>>);

/// A value that does not fit its type, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub path: String,
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{} {}", self.path, self.message)
    }
}

/// All values that do not fit, the first few of many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mismatches(pub Vec<Mismatch>);

/// One after the other, on one line.
impl fmt::Display for Mismatches {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        for (at, mismatch) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(out, "{separator}{mismatch}")?;
        }
        Ok(())
    }
}

/// No more than this many mismatches are worth reading.
const MOST_MISMATCHES: usize = 8;

impl Records {
    /// The record of that name.
    pub fn named(&self, name: &str) -> Option<RecordId> {
        self.0.iter().position(|record| &*record.name == name).map(RecordId)
    }

    /// The record.
    pub fn get(&self, id: RecordId) -> &Arc<Record> {
        &self.0[id.0]
    }

    /// Checks a value against a type, and marks its objects with their records so that absent
    /// members read as declared.
    ///
    /// # Errors
    /// All mismatches (the first few of many).
    pub fn declare<'r>(
        &'r self,
        ty: &'r Type,
        value: &mut Json,
        name: &'r str,
    ) -> Result<(), Mismatches> {
        let mut check = Check { records: self, path: vec![Step::Name(name)], found: vec![] };
        check.value(ty, value);
        if check.found.is_empty() { Ok(()) } else { Err(Mismatches(check.found)) }
    }

    /// The type at a path of member names below a type; `Any` where nothing is declared.
    pub fn type_at<'a>(&self, ty: &Type, path: impl IntoIterator<Item = &'a str>) -> Type {
        let mut here = ty.clone();
        for step in path {
            here = match here {
                Type::Record(id) => {
                    self.get(id).field(step).map_or(Type::Any, |field| field.ty.clone())
                }
                Type::List(inner) | Type::Map(inner) => *inner,
                _ => return Type::Any,
            };
        }
        here
    }
}

enum Step<'r> {
    Name(&'r str),
    Key(Arc<str>),
    Index(usize),
}

struct Check<'r> {
    records: &'r Records,
    path: Vec<Step<'r>>,
    found: Vec<Mismatch>,
}

impl<'r> Check<'r> {
    fn value(&mut self, ty: &'r Type, value: &mut Json) {
        if self.found.len() >= MOST_MISMATCHES {
            return;
        }
        match (ty, value) {
            (Type::Any, _)
            | (Type::String, Json::String(_))
            | (Type::Number, Json::Number(_))
            | (Type::Boolean, Json::Bool(_)) => {}
            (Type::Integer, Json::Number(number)) if !number.is_f64() => {}
            // Other writers of JSON have only one kind of number, and agents put some in quotes.
            (Type::Integer, value) if let Some(number) = whole(value) => *value = number.into(),
            (Type::OneOf(names), Json::String(text)) if names.contains(text) => {}
            (Type::Record(id), Json::Object(object)) => {
                let record = self.records.get(*id);
                let object = Arc::make_mut(object);
                let mut near = 0;
                for field in &record.fields {
                    self.path.push(Step::Name(&field.name));
                    match object.find_mut(&field.name, &mut near) {
                        None if field.optional || field.default.is_some() => {}
                        None => self.mismatch("is missing".into()),
                        Some(Json::Null) if field.optional => {}
                        Some(member) => self.member(field, member),
                    }
                    self.path.pop();
                }
                object.declare(record.clone());
            }
            (Type::List(of), Json::List(list)) => {
                for (index, item) in Arc::make_mut(list).0.iter_mut().enumerate() {
                    self.path.push(Step::Index(index));
                    self.value(of, item);
                    self.path.pop();
                }
            }
            (Type::Map(of), Json::Object(object)) => {
                for (name, member) in Arc::make_mut(object).iter_mut() {
                    self.path.push(Step::Key(name.clone()));
                    self.value(of, member);
                    self.path.pop();
                }
            }
            (ty, value) => {
                let is = match value {
                    Json::String(_) | Json::Bool(_) | Json::Number(_) => value.brief(),
                    other => other.kind().to_string(),
                };
                self.mismatch(format!("is {is}, but must be {}", self.describe(ty)));
            }
        }
    }

    /// A member that is there. Null is what it reads as when absent, where that is declared.
    fn member(&mut self, field: &'r Field, member: &mut Json) {
        if let (Json::Null, Some(default)) = (&member, &field.default) {
            *member = default.clone();
        }
        match (&field.ty, member, &field.misfit) {
            (Type::List(of), Json::List(list), Some(misfit)) => {
                for (index, item) in Arc::make_mut(list).0.iter_mut().enumerate() {
                    self.path.push(Step::Index(index));
                    let before = self.found.len();
                    self.value(of, item);
                    if self.found.len() > before {
                        let why = Mismatches(self.found.split_off(before)).to_string();
                        self.mend(of, item, misfit, &why);
                        self.value(of, item);
                    }
                    self.path.pop();
                }
            }
            (ty, member, _) => self.value(ty, member),
        }
    }

    /// Gives an element that does not fit the members for that, with the reason; what does not fit of it is
    /// taken for absent.
    fn mend(&self, of: &Type, item: &mut Json, misfit: &Json, why: &str) {
        if !matches!(item, Json::Object(_)) {
            *item = Json::object();
        }
        if let Type::Record(id) = of {
            for field in &self.records.get(*id).fields {
                let is_there = item.get(&field.name).is_some_and(|it| *it != Json::Null);
                let Some(place) = is_there.then(|| item.at_mut([&*field.name])).flatten() else {
                    continue;
                };
                if self.records.declare(&field.ty, place, &field.name).is_err() {
                    *place = field.when_absent().clone();
                }
            }
        }
        let Json::Object(members) = misfit else { return };
        for (name, value) in members.iter() {
            let value = match value {
                Json::String(text) => Json::from(text.replace("{why}", why).as_str()),
                other => other.clone(),
            };
            if let Some(place) = item.at_mut([&**name]) {
                *place = value;
            }
        }
    }

    fn describe(&self, ty: &Type) -> String {
        match ty {
            Type::Any => "any value".into(),
            Type::String => "a string".into(),
            Type::Integer => "an integer".into(),
            Type::Number => "a number".into(),
            Type::Boolean => "true or false".into(),
            Type::OneOf(names) => format!("one of {}", names.join(", ")),
            Type::Record(id) => format!("an object ({})", self.records.get(*id).name),
            Type::List(_) => "a list".into(),
            Type::Map(_) => "an object".into(),
        }
    }

    fn mismatch(&mut self, message: String) {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) if path.is_empty() => path.push_str(name),
                Step::Name(name) => path.extend([".", name]),
                Step::Key(key) => path.extend([".", key]),
                Step::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        self.found.push(Mismatch { path, message });
    }
}

/// A whole number that is written as another kind of value.
fn whole(value: &Json) -> Option<i64> {
    let number = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(text) => return text.trim().parse().ok(),
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole, and small enough to be exact"
    )]
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use minijinja::Value;

    use super::*;

    fn records() -> Records {
        let field = |name: &str, ty, optional| Field {
            name: name.into(),
            ty,
            optional,
            default: None,
            misfit: None,
        };
        Records(vec![
            Arc::new(Record {
                name: "state".into(),
                fields: vec![
                    field("phase", Type::String, false),
                    field("entries", Type::List(Box::new(Type::Record(RecordId(1)))), false),
                ],
            }),
            Arc::new(Record {
                name: "entry".into(),
                fields: vec![
                    field("status", Type::OneOf(vec!["pending".into(), "failed".into()]), false),
                    field("error", Type::String, true),
                ],
            }),
        ])
    }

    #[test]
    fn every_mismatch_is_named_with_its_path() {
        let mut value =
            Json::parse(br#"{"entries":[{"status":"pending","error":null},{"status":"banana"}]}"#)
                .unwrap();
        let found = records().declare(&Type::Record(RecordId(0)), &mut value, "state").unwrap_err();
        assert_eq!(
            found.to_string(),
            "state.phase is missing; \
             state.entries[1].status is \"banana\", but must be one of pending, failed"
        );
    }

    #[test]
    fn what_can_be_understood_is_read_as_it_is_meant() {
        let records = Records(vec![Arc::new(Record {
            name: "state".into(),
            fields: vec![
                Field {
                    name: "count".into(),
                    ty: Type::Integer,
                    optional: false,
                    default: Some(Json::from(5)),
                    misfit: None,
                },
                Field {
                    name: "last".into(),
                    ty: Type::Integer,
                    optional: true,
                    default: None,
                    misfit: None,
                },
            ],
        })]);
        let read = |text: &str| {
            let mut value = Json::parse(text.as_bytes()).unwrap();
            let fits = records.declare(&Type::Record(RecordId(0)), &mut value, "state");
            fits.map(|()| value.to_text(None).trim_end().to_string())
        };
        for (text, expected) in [
            (r#"{"count":4.0}"#, r#"{"count":4}"#),
            (r#"{"count":" 12 "}"#, r#"{"count":12}"#),
            (r#"{"count":null}"#, r#"{"count":5}"#),
            (r#"{"count":1,"last":null}"#, r#"{"count":1,"last":null}"#),
            (r"{}", r"{}"),
        ] {
            assert_eq!(read(text).unwrap(), expected);
        }
        for text in
            [r#"{"count":4.5}"#, r#"{"count":"many"}"#, r#"{"count":true}"#, r#"{"count":1e300}"#]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_element_that_does_not_fit_is_marked_and_the_others_are_as_they_were() {
        let mut records = records();
        let misfit = Json::parse(br#"{"status":"failed","error":"{why}"}"#).unwrap();
        Arc::get_mut(&mut records.0[0]).unwrap().fields[1].misfit = Some(misfit);
        let text =
            br#"{"phase":"a","entries":[{"status":"pending"},{"status":"banana","error":7,"x":1},3]}"#;
        let mut value = Json::parse(text).unwrap();
        records.declare(&Type::Record(RecordId(0)), &mut value, "state").unwrap();
        let one_of = "but must be one of pending, failed";
        assert_eq!(
            value.to_text(None).trim_end(),
            format!(
                r#"{{"phase":"a","entries":[{{"status":"pending"}},{{"status":"failed","error":"state.entries[1].status is \"banana\", {one_of}; state.entries[1].error is 7, but must be a string","x":1}},{{"status":"failed","error":"state.entries[2] is 3, but must be an object (entry)"}}]}}"#
            )
        );
    }

    #[test]
    fn an_absent_optional_member_reads_as_none_and_stays_absent() {
        let text = br#"{"phase":"a","x":1,"entries":[{"status":"pending"}]}"#;
        let mut value = Json::parse(text).unwrap();
        records().declare(&Type::Record(RecordId(0)), &mut value, "state").unwrap();
        let env = minijinja::Environment::new();
        let eval = |source: &str| {
            let context = Value::from_pairs([("state", value.to_value())]);
            env.compile_expression_owned(source.to_string()).unwrap().eval(context)
        };
        assert!(eval("state.entries[0].error is none").unwrap().is_true());
        assert!(eval("state.entries[0].banana is none").is_err());
        assert!(eval("state.get('banana') is none").unwrap().is_true());
        assert_eq!(value.to_text(None).trim_end().as_bytes(), text);
    }
}
