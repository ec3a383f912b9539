//! Checks as rules see them: the result of a job that is bound to the tree.

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::test_count::TestCount;

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
    /// How many tests have run, where that is asked for and the runner says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<u64>,
    /// It has both passed and failed on the same files.
    pub flaky: bool,
    /// Patterns of the files that it is about; all files where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Why it does not count although it ended with exit code 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What `check.NAME` has, each with what it says.
pub const MEMBERS: &[(&str, &str)] = &[
    ("ok", "whether it ended with exit code 0"),
    ("exit_code", "its exit code; none if it was stopped"),
    ("timed_out", "whether it ran out of time"),
    ("seconds", "how long it took"),
    ("tail", "the end of what it printed; behind that, why a pass does not count"),
    ("flaky", "whether it has both passed and failed on the same files"),
    ("tests", "how many tests have run, where `passes` asks for that and the runner says so"),
];

impl CheckResult {
    /// The result where so many tests must have run. What is missing stands behind what was printed, where the
    /// agent reads it.
    #[must_use]
    pub fn with_tests(mut self, wanted: Option<u64>, count: Option<&TestCount>) -> CheckResult {
        let (Some(wanted), Some(count)) = (wanted, count) else { return self };
        self.tests = (!count.runner.is_empty()).then_some(count.tests);
        if let Some(why) = count.why_not(wanted).filter(|_| self.ok) {
            self.ok = false;
            self.tail = format!("{}\n{why}", self.tail.trim_end()).trim_start().to_string();
            self.problem = Some(why);
        }
        self
    }

    /// As an expression sees it.
    pub(crate) fn to_json(&self) -> Json {
        let number = |number: u64| Json::from(i64::try_from(number).unwrap_or(i64::MAX));
        Json::from([
            ("ok", Json::from(self.ok)),
            ("exit_code", self.exit_code.map_or(Json::Null, |code| Json::from(i64::from(code)))),
            ("timed_out", Json::from(self.timed_out)),
            ("seconds", number(self.seconds)),
            ("tail", Json::from(self.tail.as_str())),
            ("flaky", Json::from(self.flaky)),
            ("tests", self.tests.map_or(Json::Null, number)),
        ])
    }

    /// `passed in 3 seconds`
    pub fn summary(&self) -> String {
        let took = match self.seconds {
            1 => "1 second".to_string(),
            seconds => format!("{seconds} seconds"),
        };
        let said = match (self.ok, self.timed_out, self.exit_code) {
            (true, ..) => format!("passed in {took}"),
            (_, _, Some(0)) => match self.tests {
                Some(tests) => format!("failed in {took}, since only {tests} tests have run"),
                None => format!("failed in {took}, since it is not known how many tests have run"),
            },
            (_, true, _) => format!("timed out after {took}"),
            (_, _, Some(code)) => format!("failed with exit code {code} in {took}"),
            (_, _, None) => format!("failed after {took}"),
        };
        let on = if self.inputs.is_empty() { "" } else { ", for " };
        let flaky = if self.flaky { "; it is flaky" } else { "" };
        format!("{said}{on}{}{flaky}", self.inputs.join(", "))
    }
}
