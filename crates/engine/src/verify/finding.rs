//! What was found, and what shows it.

use std::ops::Range;

use crate::model::Witness;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Hardly meant.
    Warning,
    /// A mistake.
    Error,
}

/// Something that was found in a definition.
#[derive(Clone, Debug)]
pub struct Finding {
    pub severity: Severity,
    /// A stable name for this kind of finding.
    pub code: &'static str,
    /// Where it stands in the definition.
    pub span: Range<usize>,
    pub message: String,
    /// What holds in the situation that it is about.
    pub there: Option<String>,
    pub hint: Option<String>,
    /// How a run comes to it, and the last step of that as a case.
    pub witness: Option<Witness>,
    /// The rule that it is about, and those that fire in its place, by label.
    pub(super) rule: Option<String>,
    pub(super) instead: Vec<String>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        code: &'static str,
        span: Range<usize>,
        message: String,
    ) -> Finding {
        Finding {
            severity,
            code,
            span,
            message,
            there: None,
            hint: None,
            witness: None,
            rule: None,
            instead: Vec::new(),
        }
    }
}
