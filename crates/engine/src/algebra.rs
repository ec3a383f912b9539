//! Guards as Boolean algebra: conditions on subjects (`state.status`, `check.tests.ok`, `entries | length`), each of which has
//! one of finitely many kinds of values. So `x == 'a'` and `x == 'b'` exclude each other, `x > 7` implies `x > 5`, and a
//! field with `one_of` has no other value. What cannot be read is a subject of its own, of which anything may be true:
//! that only makes more things possible, so what is found impossible here is impossible.

mod read;
mod solve;

use std::collections::BTreeMap;

use crate::json::Json;
use crate::types::Type;
use crate::workflow::{MachineId, OUTER, Workflow};

pub(crate) use read::Reader;
pub(crate) use solve::{Solved, solve};

/// Everything that the guards and properties of a workflow ask about.
pub(crate) fn subjects(workflow: &Workflow) -> Subjects {
    let mut subjects = Subjects::default();
    for index in 0..workflow.machines.len() {
        let mut reader = Reader { workflow, machine: MachineId(index), subjects: &mut subjects };
        let machine = &workflow.machines[index];
        for phase in &machine.phases {
            machine.derive.iter().for_each(|derive| drop(reader.is(derive, &phase.name)));
        }
        for rule in machine.all_rules() {
            if let Some(guard) = &rule.when {
                reader.truth(&guard.whole);
            }
        }
    }
    let mut reader = Reader { workflow, machine: OUTER, subjects: &mut subjects };
    for property in &workflow.properties {
        for expression in property.expressions() {
            reader.truth(expression);
        }
    }
    subjects
}

/// A condition.
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    Known(bool),
    /// A test of the subject with this number.
    Test(usize, Test),
    Not(Box<Formula>),
    All(Vec<Formula>),
    Any(Vec<Formula>),
}

impl Formula {
    pub(crate) fn not(self) -> Formula {
        match self {
            Formula::Known(known) => Formula::Known(!known),
            Formula::Not(inner) => *inner,
            other => Formula::Not(Box::new(other)),
        }
    }

    pub(crate) fn and(self, other: Formula) -> Formula {
        match (self, other) {
            (Formula::Known(true), it) | (it, Formula::Known(true)) => it,
            (Formula::Known(false), _) | (_, Formula::Known(false)) => Formula::Known(false),
            (a, b) => Formula::All(vec![a, b]),
        }
    }

    pub(crate) fn or(self, other: Formula) -> Formula {
        match (self, other) {
            (Formula::Known(false), it) | (it, Formula::Known(false)) => it,
            (Formula::Known(true), _) | (_, Formula::Known(true)) => Formula::Known(true),
            (a, b) => Formula::Any(vec![a, b]),
        }
    }
}

/// What is asked of a subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Whether it counts as true.
    True,
    Is(Scalar),
    Below(f64),
    AtMost(f64),
}

/// A plain value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    None,
    Bool(bool),
    Number(f64),
    Text(String),
}

/// What is known of a subject's values before anything is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Anything,
    /// Of a declared type; whether it may be none.
    Typed(Type, bool),
    /// True or false, as what a function says.
    Flag,
    /// A number that is not negative, as a length.
    Count,
}

/// Something that guards ask about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Everything that is asked of it anywhere.
    pub(crate) tests: Vec<Test>,
}

/// All subjects, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects {
    pub(crate) all: Vec<Subject>,
    by_name: BTreeMap<String, usize>,
}

impl Subjects {
    pub(crate) fn test(&mut self, name: String, kind: Kind, test: Test) -> Formula {
        let at = match self.by_name.get(&name) {
            Some(at) => *at,
            None => {
                self.all.push(Subject { name: name.clone(), kind, tests: Vec::new() });
                self.by_name.insert(name, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        let subject = &mut self.all[at];
        if !subject.tests.contains(&test) {
            subject.tests.push(test.clone());
        }
        Formula::Test(at, test)
    }

    /// A value of each kind that guards tell apart, of the subject of that name.
    pub(crate) fn values(&self, name: &str) -> Vec<Json> {
        let Some(at) = self.by_name.get(name) else { return Vec::new() };
        self.all[*at].classes().iter().filter_map(Class::value).collect()
    }
}

/// A kind of values between which no guard tells the difference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Class {
    Scalar(Scalar),
    /// A number between two that are named, or beyond them.
    Between(f64, f64),
    /// Some other value that counts as true, or as false.
    Other(bool),
}

impl Class {
    /// Whether values of this kind pass a test; none where some do and some do not, or nobody can tell.
    pub(crate) fn holds(&self, test: &Test) -> Option<bool> {
        Some(match (test, self) {
            (Test::True, Class::Scalar(scalar)) => match scalar {
                Scalar::None => false,
                Scalar::Bool(it) => *it,
                Scalar::Number(it) => *it != 0.0,
                Scalar::Text(it) => !it.is_empty(),
            },
            (Test::True, Class::Between(..)) => true,
            (Test::True, Class::Other(it)) => *it,
            (Test::Is(wanted), Class::Scalar(scalar)) => wanted == scalar,
            (Test::Below(limit), Class::Scalar(Scalar::Number(it))) => it < limit,
            (Test::AtMost(limit), Class::Scalar(Scalar::Number(it))) => it <= limit,
            (Test::Below(limit) | Test::AtMost(limit), Class::Between(_, high)) => high <= limit,
            (Test::Is(_), _) => false,
            // How what is not a number compares with one is not worth knowing.
            (Test::Below(_) | Test::AtMost(_), _) => return None,
        })
    }

    fn value(&self) -> Option<Json> {
        Some(match self {
            Class::Scalar(Scalar::None) => Json::Null,
            Class::Scalar(Scalar::Bool(it)) => Json::from(*it),
            Class::Scalar(Scalar::Number(it)) => number(*it)?,
            Class::Scalar(Scalar::Text(it)) => Json::from(it.as_str()),
            Class::Between(low, high) if low.is_infinite() => number(high - 1.0)?,
            Class::Between(low, high) if high.is_infinite() => number(low + 1.0)?,
            Class::Between(low, high) => {
                number(((low + high) / 2.0).floor()).filter(|_| high - low > 1.0)?
            }
            Class::Other(_) => return None,
        })
    }
}

fn number(number: f64) -> Option<Json> {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    (number.fract() == 0.0 && number.abs() < 9e15).then(|| Json::from(number as i64))
}

impl Subject {
    /// The kinds of values that guards tell apart.
    pub(crate) fn classes(&self) -> Vec<Class> {
        let mut limits: Vec<f64> = Vec::new();
        let mut scalars: Vec<Scalar> = Vec::new();
        for test in &self.tests {
            match test {
                Test::True => {}
                Test::Is(Scalar::Number(it)) | Test::Below(it) | Test::AtMost(it) => {
                    limits.push(*it);
                }
                Test::Is(it) => scalars.push(it.clone()),
            }
        }
        let numbers = |limits: &mut Vec<f64>, least: f64| -> Vec<Class> {
            // Zero is the one number that counts as false.
            limits.push(0.0);
            limits.sort_by(f64::total_cmp);
            limits.dedup();
            let points = limits.iter().map(|it| Class::Scalar(Scalar::Number(*it)));
            let ends = std::iter::once(f64::NEG_INFINITY).chain(limits.iter().copied());
            let ends = ends.zip(limits.iter().copied().chain([f64::INFINITY]));
            let gaps = ends.map(|(low, high)| Class::Between(low, high));
            points
                .chain(gaps)
                .filter(|class| match class {
                    Class::Scalar(Scalar::Number(it)) => *it >= least,
                    Class::Between(low, _) => *low >= least,
                    _ => true,
                })
                .collect()
        };
        let texts = || scalars.iter().filter(|it| matches!(it, Scalar::Text(_))).cloned();
        let mut classes: Vec<Class> = Vec::new();
        let none = Class::Scalar(Scalar::None);
        let flags = [true, false].map(|it| Class::Scalar(Scalar::Bool(it)));
        let others = [Class::Other(true), Class::Other(false)];
        match &self.kind {
            Kind::Flag => classes.extend(flags),
            Kind::Count => classes.extend(numbers(&mut limits, 0.0)),
            Kind::Anything => {
                classes.push(none);
                classes.extend(flags);
                classes.extend(texts().map(Class::Scalar));
                if !limits.is_empty() {
                    classes.extend(numbers(&mut limits, f64::NEG_INFINITY));
                }
                classes.extend(others);
            }
            Kind::Typed(ty, optional) => {
                if *optional {
                    classes.push(none);
                }
                match ty {
                    Type::Boolean => classes.extend(flags),
                    Type::Integer | Type::Number => {
                        classes.extend(numbers(&mut limits, f64::NEG_INFINITY));
                    }
                    Type::OneOf(names) => classes
                        .extend(names.iter().map(|it| Class::Scalar(Scalar::Text(it.to_string())))),
                    Type::String => {
                        classes.extend(texts().map(Class::Scalar));
                        classes.extend(others);
                    }
                    Type::Record(_) => classes.push(Class::Other(true)),
                    Type::List(_) | Type::Map(_) => classes.extend(others),
                    Type::Any => {
                        let open = Subject { kind: Kind::Anything, ..self.clone() };
                        classes.extend(open.classes());
                    }
                }
            }
        }
        classes
    }
}
