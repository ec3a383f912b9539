//! What an expression sees of a JSON value: lists and objects in place, without a copy.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object as TemplateObject, ObjectExt, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Number;

use super::{Json, List, Object};

impl Json {
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

impl TemplateObject for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).map(Json::to_value)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        // Not the reversible one: in this version of minijinja it is not reversed by `last`.
        self.mapped_enumerator(|list| Box::new(list.0.iter().map(Json::to_value)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

impl TemplateObject for Object {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    /// What `in` and `object[name]` ask: only a member that is there.
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key.as_str()?).map(Json::to_value)
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
        self.mapped_enumerator(|object| {
            Box::new(object.members.iter().map(|(key, _)| Value::from(key.clone())))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.members.len())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
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
