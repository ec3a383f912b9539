//! Checks that do not always say the same: what they said, by the files that it was about.
//!
//! Two different results on the same files are a flake, whatever the reason. Nothing is guessed from what a
//! check prints or from its name.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// How many states of the files are remembered for each check.
const MAX_FILES: usize = 16;

/// What the checks of a run have said, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flakes(IndexMap<String, History>);

/// What a check has said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct History {
    /// How often it said something else than before on the same files.
    #[serde(default)]
    flakes: u64,
    /// What it said on each state of its files, the latest last.
    results: IndexMap<String, Results>,
}

/// What a check has said on one state of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Results {
    passed: u32,
    failed: u32,
    /// How often it has failed since it passed last.
    failing: u32,
}

impl Flakes {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a result on files that are known by a name.
    pub(crate) fn note(&mut self, check: &str, files: &str, passed: bool) {
        let history = self.0.entry(check.to_string()).or_default();
        let mut results = history.results.shift_remove(files).unwrap_or_default();
        let said_pass = results.passed > 0 && results.failing == 0;
        let said_fail = results.failing > 0;
        if passed && said_fail || !passed && said_pass {
            history.flakes += 1;
        }
        if passed {
            results.passed += 1;
            results.failing = 0;
        } else {
            results.failed += 1;
            results.failing += 1;
        }
        history.results.insert(files.to_string(), results);
        if history.results.len() > MAX_FILES {
            history.results.shift_remove_index(0);
        }
    }

    /// Whether a check has both passed and failed on these files.
    pub(crate) fn is_flaky(&self, check: &str, files: &str) -> bool {
        self.results(check, files).is_some_and(|it| it.passed > 0 && it.failed > 0)
    }

    /// Whether a failure does not count yet: on the same files the check has passed, and has failed only once
    /// since then.
    pub(crate) fn is_doubtful(&self, check: &str, files: &str) -> bool {
        self.results(check, files).is_some_and(|it| it.passed > 0 && it.failing == 1)
    }

    /// The checks that have said different things on the same files, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        let counts = self.0.iter().map(|(check, history)| (check.as_str(), history.flakes));
        counts.filter(|(_, flakes)| *flakes > 0)
    }

    fn results(&self, check: &str, files: &str) -> Option<&Results> {
        self.0.get(check)?.results.get(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_different_results_on_the_same_files_are_a_flake() {
        let mut flakes = Flakes::default();
        for (files, passed) in [("a", true), ("b", false), ("a", true), ("b", false)] {
            flakes.note("tests", files, passed);
        }
        assert_eq!(flakes.counts().count(), 0);
        assert!(!flakes.is_doubtful("tests", "b"), "it never passed on these");
        flakes.note("tests", "a", false);
        assert!(flakes.is_flaky("tests", "a") && flakes.is_doubtful("tests", "a"));
        flakes.note("tests", "a", false);
        assert!(!flakes.is_doubtful("tests", "a"), "it failed twice in a row");
        flakes.note("tests", "a", true);
        assert_eq!(flakes.counts().collect::<Vec<_>>(), [("tests", 2)]);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut flakes = Flakes::default();
        for number in 0..100 {
            flakes.note("tests", &number.to_string(), true);
        }
        assert_eq!(flakes.0["tests"].results.len(), MAX_FILES);
    }
}
