//! What values are, as far as a definition tells: texts, numbers, lists.

use std::collections::HashMap;

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, Expr};
use minijinja::value::ValueKind;

use crate::json::Json;
use crate::names::{CHECK, lineage, type_of};
use crate::types::Type;
use crate::workflow::{MachineId, Workflow};

/// What a value is, as far as it can be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    Number,
    Text,
    OneOf(Vec<String>),
    List,
    Object,
}

impl Kind {
    pub(super) fn of_type(ty: &Type) -> Option<Kind> {
        Some(match ty {
            Type::Any => return None,
            Type::String => Kind::Text,
            Type::Integer | Type::Number => Kind::Number,
            Type::Boolean => Kind::Bool,
            Type::OneOf(names) => Kind::OneOf(names.iter().map(ToString::to_string).collect()),
            Type::Record(_) | Type::Map(_) => Kind::Object,
            Type::List(_) => Kind::List,
        })
    }

    pub(super) fn of_json(value: &Json) -> Option<Kind> {
        Some(match value {
            Json::Null => return None,
            Json::Bool(_) => Kind::Bool,
            Json::Number(_) => Kind::Number,
            Json::List(_) => Kind::List,
            Json::Object(_) => Kind::Object,
            Json::String(_) => Kind::Text,
        })
    }

    fn of_value(value: &Value) -> Option<Kind> {
        Some(match value.kind() {
            ValueKind::Bool => Kind::Bool,
            ValueKind::Number => Kind::Number,
            ValueKind::String => Kind::Text,
            ValueKind::Seq => Kind::List,
            ValueKind::Map => Kind::Object,
            _ => return None,
        })
    }

    pub(super) fn words(&self) -> &'static str {
        match self {
            Kind::Bool => "true or false",
            Kind::Number => "a number",
            Kind::Text | Kind::OneOf(_) => "a text",
            Kind::List => "a list",
            Kind::Object => "an object",
        }
    }

    pub(super) fn differs(&self, other: &Kind) -> bool {
        self.words() != other.words()
    }
}

/// What names are, in the machine of an expression.
pub(super) struct Scope<'w> {
    workflow: &'w Workflow,
    names: HashMap<String, Type>,
}

impl<'w> Scope<'w> {
    pub(super) fn of(workflow: &'w Workflow, id: MachineId) -> Scope<'w> {
        let names = lineage(workflow, id).into_iter();
        let names = names.map(|id| (workflow.machine(id).name.to_string(), type_of(workflow, id)));
        Scope { workflow, names: names.collect() }
    }

    pub(super) fn kind(&self, expr: &Expr) -> Option<Kind> {
        match expr {
            Expr::Const(it) => Kind::of_value(&it.value),
            Expr::List(_) | Expr::Tuple(_) => Some(Kind::List),
            Expr::Map(_) => Some(Kind::Object),
            Expr::Compare(_) | Expr::Test(_) => Some(Kind::Bool),
            Expr::BinOp(it) => match it.op {
                BinOpKind::Eq
                | BinOpKind::Ne
                | BinOpKind::Lt
                | BinOpKind::Lte
                | BinOpKind::Gt
                | BinOpKind::Gte
                | BinOpKind::In => Some(Kind::Bool),
                BinOpKind::Concat => Some(Kind::Text),
                _ => None,
            },
            Expr::Filter(it) => match it.name {
                "length" | "count" | "int" | "age" => Some(Kind::Number),
                "lower" | "upper" | "trim" | "join" | "replace" | "title" | "slug" | "stem" => {
                    Some(Kind::Text)
                }
                "list" | "sort" | "unique" | "plain_lines" | "group_by" => Some(Kind::List),
                _ => None,
            },
            Expr::Call(it) => match &it.expr {
                Expr::Var(name) => match name.id {
                    "exists" => Some(Kind::Bool),
                    "text" | "last_message" | "now" => Some(Kind::Text),
                    "glob" | "changed_files" | "transcript" | "said" => Some(Kind::List),
                    _ => None,
                },
                _ => None,
            },
            Expr::Var(_) | Expr::GetAttr(_) => self.path(&path(expr)?),
            _ => None,
        }
    }

    fn path(&self, path: &[&str]) -> Option<Kind> {
        if let [CHECK, _, member] = path {
            return Some(match *member {
                "ok" | "timed_out" | "flaky" => Kind::Bool,
                "exit_code" | "seconds" | "tests" => Kind::Number,
                "tail" => Kind::Text,
                _ => return None,
            });
        }
        let (root, members) = path.split_first()?;
        if let Some(ty) = self.names.get(*root) {
            return Kind::of_type(&self.workflow.records.type_at(ty, members.iter().copied()));
        }
        let constant = self.workflow.constants.iter().find(|(name, _)| name == root);
        constant.filter(|_| members.is_empty()).and_then(|(_, value)| Kind::of_json(value))
    }
}

/// The path of `a.b.c`, where the expression is nothing but that.
pub(super) fn path<'s>(expr: &Expr<'s>) -> Option<Vec<&'s str>> {
    match expr {
        Expr::Var(var) => Some(vec![var.id]),
        Expr::GetAttr(attr) => {
            let mut all = path(&attr.expr)?;
            all.push(attr.name);
            Some(all)
        }
        _ => None,
    }
}
