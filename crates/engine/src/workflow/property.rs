//! What must hold of every run, resolved.

use std::ops::Range;

use super::Expression;

/// What a property sees beside the names of other expressions, each with what it is.
pub const OF_PROPERTIES: &[(&str, &str)] = &[
    ("phase", "in a property: the phase after the step"),
    ("outcome", "in a property: how the step ends the run, such as `done`; none if it does not"),
    ("answer", "in a property: `block`, `allow` or `deny`"),
];

/// Something that must hold of every run, whatever the rules do.
#[derive(Clone, Debug)]
pub struct Property {
    pub name: String,
    pub claim: Claim,
    pub span: Range<usize>,
}

/// What a property says.
#[derive(Clone, Debug)]
pub enum Claim {
    /// It holds after no step.
    Never(Expression),
    /// It holds after every step.
    Always(Expression),
    /// Where `to` holds after a step, `pass` does too, or has held after an earlier one.
    Through { to: Expression, pass: Expression },
}

impl Property {
    /// Its expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let (first, second) = match &self.claim {
            Claim::Never(it) | Claim::Always(it) => (it, None),
            Claim::Through { to, pass } => (to, Some(pass)),
        };
        std::iter::once(first).chain(second)
    }

    /// What it says, as it is written.
    pub fn says(&self) -> String {
        match &self.claim {
            Claim::Never(it) => format!("never `{}`", it.text),
            Claim::Always(it) => format!("always `{}`", it.text),
            Claim::Through { to, pass } => {
                format!("not to `{}` without `{}`", to.text, pass.text)
            }
        }
    }
}
