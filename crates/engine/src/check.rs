//! Checks as rules see them: the result of a job that is bound to the tree.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckResult {
    pub ok: bool,
    /// None where the program did not end by itself.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub seconds: u64,
    /// The end of what it printed.
    pub tail: String,
}

/// What `check.NAME` has, each with what it says.
pub const MEMBERS: &[(&str, &str)] = &[
    ("ok", "whether it ended with exit code 0"),
    ("exit_code", "its exit code; none if it was stopped"),
    ("timed_out", "whether it ran out of time"),
    ("seconds", "how long it took"),
    ("tail", "the end of what it printed"),
];

impl CheckResult {
    /// As an expression sees it.
    pub(crate) fn to_json(&self) -> Json {
        Json::from([
            ("ok", Json::from(self.ok)),
            ("exit_code", self.exit_code.map_or(Json::Null, |code| Json::from(i64::from(code)))),
            ("timed_out", Json::from(self.timed_out)),
            ("seconds", Json::from(i64::try_from(self.seconds).unwrap_or(i64::MAX))),
            ("tail", Json::from(self.tail.as_str())),
        ])
    }

    /// `passed in 3 seconds`
    pub fn summary(&self) -> String {
        let took = format!("{} seconds", self.seconds);
        match (self.ok, self.timed_out, self.exit_code) {
            (true, ..) => format!("passed in {took}"),
            (_, true, _) => format!("timed out after {took}"),
            (_, _, Some(code)) => format!("failed with exit code {code} in {took}"),
            (_, _, None) => format!("failed after {took}"),
        }
    }
}
