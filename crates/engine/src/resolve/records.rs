//! Records and constants: the data that a definition declares.

use std::sync::Arc;

use toml::Spanned;

use super::{Overrides, Resolver};
use crate::definition::{Definition, FieldTable, FieldText};
use crate::functions::object;
use crate::json::{Json, List};
use crate::types::{Field, Record, RecordId, Records, Type};

impl Resolver<'_> {
    pub(super) fn constants(
        &mut self,
        definition: &Definition,
        overrides: &Overrides,
    ) -> Vec<(String, Json)> {
        let mut constants: Vec<(String, Json)> = definition
            .constants
            .iter()
            .map(|(name, value)| (name.get_ref().clone(), literal(value)))
            .collect();
        for (name, value) in &overrides.constants {
            match constants.iter_mut().find(|(known, _)| known == name) {
                Some((_, constant)) if constant.kind() == value.kind() => *constant = value.clone(),
                Some((_, constant)) => {
                    let (kind, given) = (constant.kind(), value.brief());
                    let message =
                        format!("the configuration sets `{name}` to {given}, but it is {kind}");
                    self.error(0..0, "constant", message);
                }
                None => {
                    let known: Vec<&str> = constants.iter().map(|(name, _)| &**name).collect();
                    let known = known.join(", ");
                    let message =
                        format!("the configuration sets `{name}`, but the constants are: {known}");
                    self.error(0..0, "constant", message);
                }
            }
        }
        constants
    }

    pub(super) fn records(&mut self, definition: &Definition) -> Records {
        let names: Vec<Arc<str>> =
            definition.records.iter().map(|record| record.name.get_ref().as_str().into()).collect();
        let mut records = Vec::new();
        for (record, name) in definition.records.iter().zip(&names) {
            let mut fields = Vec::new();
            for (name, text) in &record.fields {
                fields.extend(self.field(name, text, &names));
            }
            records.push(Arc::new(Record { name: name.clone(), fields }));
        }
        let records = Records(records);
        for (record, text) in records.0.iter().zip(&definition.records) {
            for field in &record.fields {
                let Some(mut default) = field.default.clone() else { continue };
                let name = format!("the default of `{}`", field.name);
                if let Err(found) = records.declare(&field.ty, &mut default, &name) {
                    let mut own = text.fields.iter();
                    let own = own.find(|(name, _)| *name.get_ref() == *field.name);
                    let span = own.map_or(text.name.span(), |(_, value)| value.span());
                    let found = found.0[0].to_string();
                    self.found.error("default", self.source, span, found).hint =
                        Some("a default is a value of the field's type".into());
                }
            }
        }
        records
    }

    fn field(
        &mut self,
        name: &Spanned<String>,
        text: &Spanned<FieldText>,
        records: &[Arc<str>],
    ) -> Option<Field> {
        let short;
        let table = match text.get_ref() {
            FieldText::Full(table) => table,
            FieldText::Name(ty) => {
                short = written_short(ty);
                &short
            }
        };
        let mut named = |ty: &str| {
            let of_record = || records.iter().position(|record| &**record == ty);
            let found = Type::basic(ty).or_else(|| Some(Type::Record(RecordId(of_record()?))));
            if found.is_none() {
                let known = Type::BASIC.into_iter().chain(records.iter().map(|name| &**name));
                // Words of other languages.
                let meant = match ty {
                    "int" | "i64" | "u64" => "integer",
                    "str" | "text" | "String" => "string",
                    "bool" => "boolean",
                    "float" | "double" => "number",
                    other => other,
                };
                if meant == ty {
                    self.unknown(text.span(), "type", ty, known);
                } else {
                    let message = format!("there is no type `{ty}`");
                    self.found.error("unknown", self.source, text.span(), message).hint =
                        Some(format!("did you mean `{meant}`?"));
                }
            }
            found
        };
        let ty = match (&table.ty, &table.list, &table.map, &table.one_of) {
            (Some(ty), None, None, None) => named(ty)?,
            (None, Some(of), None, None) => Type::List(Box::new(named(of)?)),
            (None, None, Some(of), None) => Type::Map(Box::new(named(of)?)),
            (None, None, None, Some(names)) => {
                Type::OneOf(names.iter().map(|name| name.as_str().into()).collect())
            }
            _ => {
                let message = "a field has exactly one of `type`, `list`, `map` and `one_of`";
                self.error(text.span(), "shape", message);
                return None;
            }
        };
        Some(Field {
            name: name.get_ref().as_str().into(),
            ty,
            optional: table.optional,
            default: table.default.as_ref().map(literal),
            misfit: table.misfit.as_ref().map(literal),
        })
    }
}

/// A type in its short form: `integer`, `integer?` for one that may be absent, `integer*` for a list
/// that is empty where it is absent.
fn written_short(ty: &str) -> FieldTable {
    if let Some(ty) = ty.strip_suffix('*') {
        let (list, default) = (Some(ty.to_string()), Some(toml::Value::Array(Vec::new())));
        return FieldTable { list, default, ..FieldTable::default() };
    }
    let optional = ty.ends_with('?');
    let ty = Some(ty.trim_end_matches('?').to_string());
    FieldTable { ty, optional, ..FieldTable::default() }
}

/// A TOML value as JSON.
pub(super) fn literal(value: &toml::Value) -> Json {
    match value {
        toml::Value::String(text) => Json::from(text.as_str()),
        toml::Value::Integer(number) => Json::from(*number),
        toml::Value::Float(number) => {
            serde_json::Number::from_f64(*number).map_or(Json::Null, Json::Number)
        }
        toml::Value::Boolean(value) => Json::from(*value),
        toml::Value::Datetime(time) => Json::from(time.to_string()),
        toml::Value::Array(items) => {
            Json::List(Arc::new(List(items.iter().map(literal).collect())))
        }
        toml::Value::Table(table) => {
            object(table.iter().map(|(name, value)| (name.clone(), literal(value))))
        }
    }
}
