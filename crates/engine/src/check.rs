//! Checks: commands that the runtime runs itself, as rules see them.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::json::Json;

/// How long a check may take where nothing is said. Clients give a hook ten minutes.
const USUAL_TIMEOUT: Duration = Duration::from_mins(5);

/// A check, as a workflow declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub about: String,
    /// The program and its arguments; no shell reads them.
    pub run: Vec<String>,
    /// The constant that has them. Where its list is empty, there is nothing to check.
    pub constant: Option<String>,
    pub timeout: Duration,
}

/// What came of a check.
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
    ("exit_code", "its exit code, none where it was stopped"),
    ("timed_out", "whether it took longer than it may"),
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

/// `10m`, `90s`
pub(crate) fn timeout(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(USUAL_TIMEOUT) };
    let read: Result<SignedDuration, _> = text.parse();
    match read.ok().and_then(|time| Duration::try_from(time).ok()) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{text:?} is no length of time, as `90s` or `10m`")),
    }
}
