//! How many tests have run, by what test runners print at their end.
//!
//! Exit code 0 says that nothing has failed, and a filter that matches nothing fails nothing. What a runner
//! prints is read by the table below and never guessed: of an output that has none of these lines nothing is
//! known.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// Longer lines are not the closing line of a runner.
const MAX_LINE: usize = 500;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    /// So many tests have run: the sum of the numbers in the line that stand where the second pattern says.
    Ran,
    /// So many of the tests that another line counts were skipped.
    Skipped,
    /// At least one has run.
    Some,
    /// None has run.
    None,
    /// Tests may have run, and the runner does not say how many.
    Untold,
}

/// A line of a runner: its name, what the line contains, what it says, how it looks, and where its numbers are
/// (the first group, as often as it occurs; where nothing is said, the first group of the line).
type Row = (&'static str, &'static str, Says, &'static str, &'static str);

const RUN: &str = r"(\d+) (?:passed|failed)\b";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("cargo test", "test result: ", Says::Ran, r"^test result: \w+\. \d+ passed; \d+ failed;", RUN),
    ("cargo nextest", " run: ", Says::Ran, r"^\s*Summary \[[^\]]*\] +(\d+)(?:/\d+)? tests? run: ", ""),
    ("pytest", " in ", Says::Ran, r"^(?:=+ )?(?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+ in [\d.]+s(?: \([\d:]+\))?(?: =+)?$", r"(\d+) (?:passed|failed|xfailed|xpassed)\b"),
    ("pytest", "no tests ran in ", Says::None, r"^(?:=+ )?no tests ran in ", ""),
    ("unittest", "Ran ", Says::Ran, r"^Ran (\d+) tests? in [\d.]+s$", ""),
    ("unittest", "skipped=", Says::Skipped, r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", ""),
    ("jest", "Tests:", Says::Ran, r"^Tests: +(?:\d+ \w+, )*\d+ total$", RUN),
    ("jest", "No tests found", Says::None, r"^No tests found, exiting with code", ""),
    ("vitest", "Tests ", Says::Ran, r"^\s*Tests +(?:\d+ \w+(?: \| )?)+ ?\(\d+\)$", RUN),
    ("vitest", "no tests", Says::None, r"^\s*Tests +no tests$", ""),
    ("vitest", "No test file", Says::None, r"^\s*No test files? found, exiting with code", ""),
    ("mocha", " passing", Says::Ran, r"^\s*(\d+) passing(?: \(.*\))?$", ""),
    ("mocha", " failing", Says::Ran, r"^\s*(\d+) failing$", ""),
    ("go test", "--- ", Says::Ran, r"^--- (?:PASS|FAIL): ", ""),
    ("go test", "ok", Says::Some, r"^ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?:\s+coverage: [^\[]*)?$", ""),
    ("go test", "FAIL", Says::Some, r"^FAIL\s+\S+\s+[\d.]+s$", ""),
    ("go test", "[no tests to run]", Says::None, r"^ok\s.*\[no tests to run\]$", ""),
    ("go test", "[no test files]", Says::None, r"^\?\s.*\[no test files\]$", ""),
    ("gotestsum", "DONE ", Says::Ran, r"^DONE (\d+) tests?\b", ""),
    ("gotestsum", "DONE ", Says::Skipped, r"^DONE \d+ tests?, (\d+) skipped", ""),
    ("node --test", "pass ", Says::Ran, r"^(?:#|ℹ) pass +(\d+)$", ""),
    ("node --test", "fail ", Says::Ran, r"^(?:#|ℹ) fail +(\d+)$", ""),
    ("bun test", "Ran ", Says::Ran, r"^Ran (\d+) tests? across ", ""),
    ("Maven", "Tests run: ", Says::Ran, r"^(?:\[\w+\] +)?Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: \d+$", ""),
    ("Maven", "Tests run: ", Says::Skipped, r"^(?:\[\w+\] +)?Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: (\d+)$", ""),
    ("Maven", "No tests to run", Says::None, r"^(?:\[\w+\] +)?No tests to run\.$", ""),
    ("Ant", "[junit]", Says::Ran, r"^\s*\[junit\] Tests run: (\d+), .*Time elapsed", ""),
    ("JUnit", "OK (", Says::Ran, r"^OK \((\d+) tests?\)$", ""),
    ("JUnit", " tests ", Says::Ran, r"^\[ +(\d+) tests (?:successful|failed) +\]$", ""),
    ("Gradle", " completed, ", Says::Ran, r"^(\d+) tests? completed, ", ""),
    ("Gradle", "est NO-SOURCE", Says::None, r"^> Task :\S*[tT]est NO-SOURCE$", ""),
    ("Gradle", "> Task :", Says::Untold, r"^> Task :\S*[tT]est(?: FAILED| UP-TO-DATE| FROM-CACHE)?$", ""),
    ("dotnet test", "! ", Says::Ran, r"^(?:Passed|Failed|Skipped)! +- Failed: +\d+, Passed: +\d+,", r"(?:Failed|Passed): +(\d+)"),
    ("dotnet test", "summary: total: ", Says::Ran, r"^Test summary: total: \d+, failed: \d+, succeeded: \d+,", r"(?:failed|succeeded): (\d+)"),
    ("dotnet test", "Total tests: ", Says::Ran, r"^Total tests: (\d+)$", ""),
    ("dotnet test", "Skipped: ", Says::Skipped, r"^ +Skipped: (\d+)$", ""),
    ("dotnet test", "No test ", Says::None, r"^No test (?:is available|matches the given testcase filter)", ""),
    ("RSpec", " example", Says::Ran, r"^(\d+) examples?, \d+ failures?\b", ""),
    ("RSpec", " pending", Says::Skipped, r"^\d+ examples?, \d+ failures?, (\d+) pending", ""),
    ("Minitest", " assertions, ", Says::Ran, r"^(\d+) (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors, \d+ skips", ""),
    ("Minitest", " assertions, ", Says::Skipped, r"^\d+ (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors, (\d+) skips", ""),
    ("PHPUnit", "OK (", Says::Ran, r"^OK \((\d+) tests?, \d+ assertions?\)", ""),
    ("PHPUnit", "Tests: ", Says::Ran, r"^Tests: (\d+), Assertions: \d+", ""),
    ("PHPUnit", "Skipped: ", Says::Skipped, r"^Tests: \d+, Assertions: \d+.*\bSkipped: (\d+)", ""),
    ("PHPUnit", "No tests executed", Says::None, r"^No tests executed!$", ""),
];

/// How many tests have run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCount {
    /// Who says so; several test runners are joined by `and`. Empty where no known one has said anything.
    pub runner: String,
    pub tests: u64,
    /// There may have been more: the runner does not name each.
    #[serde(default)]
    pub is_least: bool,
}

/// Counts tests, line by line.
#[derive(Debug)]
pub struct Counter {
    looks: Vec<(Regex, Option<Regex>)>,
    colours: Regex,
    runners: Vec<Told>,
}

/// What a runner has said until now.
#[derive(Debug)]
struct Told {
    name: &'static str,
    ran: u64,
    skipped: u64,
    /// Parts of which it says only that something has run.
    parts: u64,
    is_untold: bool,
}

impl Default for Counter {
    fn default() -> Counter {
        let compiled = |text: &str| Regex::new(text).ok().filter(|_| !text.is_empty());
        let looks = ROWS
            .iter()
            .filter_map(|(.., look, numbers)| Some((Regex::new(look).ok()?, compiled(numbers))));
        let colours = Regex::new("\x1b\\[[0-9;]*[A-Za-z]");
        Counter {
            looks: looks.collect(),
            // The patterns are ours: a test compiles all of them.
            colours: colours.unwrap_or_else(|_| unreachable!("a pattern of our own")),
            runners: Vec::new(),
        }
    }
}

impl Counter {
    /// Reads a line of what was printed.
    pub fn line(&mut self, line: &str) {
        if line.len() > MAX_LINE {
            return;
        }
        let line = self.colours.replace_all(line.trim_end(), "");
        for ((name, part, says, ..), (look, numbers)) in ROWS.iter().zip(&self.looks) {
            if !line.contains(part) || !look.is_match(&line) {
                continue;
            }
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            let groups = |pattern: &Regex| -> Option<u64> {
                let found = pattern.captures_iter(&line);
                let found = found.filter_map(|found| Some(number(found.get(1)?.as_str())));
                found.reduce(u64::saturating_add)
            };
            // A line that has no number is about one test.
            let count = match numbers {
                Some(numbers) => groups(numbers).unwrap_or(0),
                None => groups(look).unwrap_or(1),
            };
            let told = told(&mut self.runners, name);
            match says {
                Says::Ran => told.ran = told.ran.saturating_add(count),
                Says::Skipped => told.skipped = told.skipped.saturating_add(count),
                Says::Some => told.parts += 1,
                Says::None => {}
                Says::Untold => told.is_untold = true,
            }
        }
    }

    /// What all runners together have said.
    pub fn count(&self) -> TestCount {
        let names: Vec<&str> = self.runners.iter().map(|told| told.name).collect();
        let mut count = TestCount { runner: names.join(" and "), tests: 0, is_least: false };
        for told in &self.runners {
            let named = told.ran.saturating_sub(told.skipped);
            count.tests = count.tests.saturating_add(named.max(told.parts));
            count.is_least |= named < told.parts || told.is_untold && named == 0;
        }
        count
    }
}

fn told<'t>(runners: &'t mut Vec<Told>, name: &'static str) -> &'t mut Told {
    let at = runners.iter().position(|told| told.name == name).unwrap_or_else(|| {
        runners.push(Told { name, ran: 0, skipped: 0, parts: 0, is_untold: false });
        runners.len() - 1
    });
    &mut runners[at]
}

impl TestCount {
    /// Why that is not enough; none where it is.
    pub fn why_not(&self, wanted: u64) -> Option<String> {
        let TestCount { runner, tests, is_least } = self;
        if runner.is_empty() {
            return Some(format!(
                "It ended with exit code 0, but how many tests have run is not known: no line of its output is \
                 one that a known test runner prints at its end, and `min_tests` wants {wanted}."
            ));
        }
        if *tests >= wanted {
            return None;
        }
        let wants = format!("and `min_tests` wants {wanted}");
        Some(match (tests, is_least) {
            (_, true) => format!(
                "It ended with exit code 0, but {runner} does not say how many tests have run (at least {tests}), \
                 {wants}. Have it name each test, as `go test -v` does."
            ),
            (0, false) => {
                format!(
                    "It ended with exit code 0, but no test has run, as {runner} says, {wants}."
                )
            }
            (_, false) => {
                format!("It ended with exit code 0, but {runner} has run {tests} tests, {wants}.")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(output: &str) -> TestCount {
        let mut counter = Counter::default();
        output.lines().for_each(|line| counter.line(line));
        counter.count()
    }

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(Counter::default().looks.len(), ROWS.len());
        for (.., look, numbers) in ROWS {
            assert!(Regex::new(look).is_ok() && Regex::new(numbers).is_ok(), "{look} {numbers}");
        }
    }

    /// What runners print, each with who it is, how many tests have run, and whether that is the least.
    const OUTPUTS: &[(&str, u64, bool, &str)] = &[
        (
            "cargo test",
            3,
            false,
            "running 3 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        ),
        // The documentation has no tests, the library has.
        (
            "cargo test",
            12,
            false,
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\n   Doc-tests thing\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        ),
        (
            "cargo test",
            0,
            false,
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n",
        ),
        (
            "cargo nextest",
            3,
            false,
            "────────────\n     Summary [   0.005s] 3 tests run: 3 passed, 1 skipped\n",
        ),
        (
            "cargo nextest",
            1,
            false,
            "\x1b[32;1m     Summary\x1b[0m [   0.005s] \x1b[1m1\x1b[0m test run: \x1b[1m1\x1b[0m passed, 0 skipped\n",
        ),
        (
            "cargo nextest",
            2,
            false,
            "     Summary [   0.004s] 2/5 tests run: 1 passed, 1 failed, 0 skipped\n",
        ),
        (
            "pytest",
            4,
            false,
            "tests/test_a.py ..F.                                     [100%]\n\n=================== 1 failed, 3 passed, 2 skipped, 1 warning in 0.12s ===================\n",
        ),
        (
            "pytest",
            3,
            false,
            "...                                                      [100%]\n3 passed in 0.01s\n",
        ),
        (
            "pytest",
            5,
            false,
            "============ 4 passed, 1 xfailed, 3 deselected in 61.20s (0:01:01) ============\n",
        ),
        (
            "pytest",
            0,
            false,
            "collected 0 items\n\n============================ no tests ran in 0.01s ============================\n",
        ),
        (
            "pytest",
            0,
            false,
            "============================ 3 deselected in 0.01s =============================\n",
        ),
        (
            "unittest",
            3,
            false,
            "...\n----------------------------------------------------------------------\nRan 3 tests in 0.001s\n\nOK\n",
        ),
        ("unittest", 1, false, "Ran 3 tests in 0.001s\n\nOK (skipped=2)\n"),
        (
            "jest",
            4,
            false,
            "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 3 passed, 6 total\nSnapshots:   0 total\nTime:        0.9 s\n",
        ),
        ("jest", 0, false, "No tests found, exiting with code 0\n"),
        (
            "vitest",
            3,
            false,
            " Test Files  1 passed (1)\n      Tests  3 passed (3)\n   Start at  10:00:00\n   Duration  300ms\n",
        ),
        (
            "vitest",
            3,
            false,
            "\x1b[2m      Tests \x1b[22m \x1b[31m1 failed\x1b[39m | \x1b[32m2 passed\x1b[39m | 4 skipped (7)\n",
        ),
        (
            "vitest",
            2,
            false,
            "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m\x1b[2m | \x1b[22m\x1b[1m\x1b[32m1 passed\x1b[39m\x1b[22m\x1b[2m | \x1b[22m\x1b[33m1 skipped\x1b[39m\x1b[90m (3)\x1b[39m\n",
        ),
        ("vitest", 0, false, "\x1b[2m      Tests \x1b[22m \x1b[2mno tests\x1b[22m\n"),
        ("vitest", 0, false, "No test files found, exiting with code 0\n"),
        ("mocha", 3, false, "  sum\n    ✔ adds\n\n\n  2 passing (5ms)\n  1 pending\n  1 failing\n"),
        ("mocha", 0, false, "\n\n  0 passing (1ms)\n\n"),
        (
            "go test",
            2,
            true,
            "ok  \texample.com/a\t0.003s\nok  \texample.com/b\t(cached)\tcoverage: 71.4% of statements\n?   \texample.com/c\t[no test files]\n",
        ),
        (
            "go test",
            3,
            false,
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n--- FAIL: TestB (0.00s)\n--- SKIP: TestS (0.00s)\n--- PASS: TestC (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n",
        ),
        (
            "go test",
            0,
            false,
            "testing: warning: no tests to run\nPASS\nok  \texample.com/a\t0.002s [no tests to run]\n?   \texample.com/c\t[no test files]\n",
        ),
        ("gotestsum", 5, false, "✓  pkg (4ms)\n\nDONE 7 tests, 2 skipped in 0.512s\n"),
        (
            "node --test",
            4,
            false,
            "ℹ tests 5\nℹ suites 0\nℹ pass 3\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\nℹ duration_ms 50.1\n",
        ),
        (
            "node --test",
            0,
            false,
            "TAP version 13\n1..0\n# tests 0\n# suites 0\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 0\n",
        ),
        ("bun test", 3, false, " 3 pass\n 0 fail\nRan 3 tests across 1 files. [12.00ms]\n"),
        (
            "Maven",
            7,
            false,
            "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s - in com.example.ATest\n[INFO] Results:\n[INFO] \n[WARNING] Tests run: 8, Failures: 0, Errors: 0, Skipped: 1\n",
        ),
        (
            "Maven",
            0,
            false,
            "[INFO] --- surefire:3.2.5:test (default-test) @ app ---\n[INFO] No tests to run.\n",
        ),
        (
            "Ant",
            3,
            false,
            "    [junit] Running com.example.ATest\n    [junit] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.012 sec\n",
        ),
        ("JUnit", 3, false, "JUnit version 4.13.2\n...\nTime: 0.005\n\nOK (3 tests)\n"),
        (
            "JUnit",
            4,
            false,
            "[         3 tests successful      ]\n[         1 tests failed          ]\n",
        ),
        ("Gradle", 5, false, "> Task :test FAILED\n\n5 tests completed, 1 failed\n"),
        (
            "Gradle",
            0,
            true,
            "> Task :compileTestJava UP-TO-DATE\n> Task :lib:test NO-SOURCE\n> Task :app:test\n\nBUILD SUCCESSFUL in 2s\n",
        ),
        (
            "Gradle",
            0,
            false,
            "> Task :compileTestJava NO-SOURCE\n> Task :test NO-SOURCE\n\nBUILD SUCCESSFUL in 2s\n",
        ),
        (
            "dotnet test",
            4,
            false,
            "Failed!  - Failed:     1, Passed:     3, Skipped:     2, Total:     6, Duration: 5 ms - app.dll (net8.0)\n",
        ),
        (
            "dotnet test",
            3,
            false,
            "Test summary: total: 4, failed: 0, succeeded: 3, skipped: 1, duration: 1.2s\n",
        ),
        (
            "dotnet test",
            2,
            false,
            "Total tests: 3\n     Passed: 2\n    Skipped: 1\n Total time: 0.9 Seconds\n",
        ),
        (
            "dotnet test",
            0,
            false,
            "No test is available in /app/bin/app.dll. Make sure that test discoverer & executors are registered.\n",
        ),
        (
            "RSpec",
            2,
            false,
            "Finished in 0.01 seconds (files took 0.1 seconds to load)\n3 examples, 0 failures, 1 pending\n",
        ),
        (
            "RSpec",
            0,
            false,
            "No examples found.\n\nFinished in 0.0 seconds\n0 examples, 0 failures\n",
        ),
        (
            "Minitest",
            4,
            false,
            "Finished in 0.001s, 3000 runs/s.\n\n5 runs, 9 assertions, 0 failures, 0 errors, 1 skips\n",
        ),
        ("PHPUnit", 3, false, "OK (3 tests, 5 assertions)\n"),
        (
            "PHPUnit",
            3,
            false,
            "OK, but some tests were skipped!\nTests: 4, Assertions: 5, Skipped: 1.\n",
        ),
        ("PHPUnit", 0, false, "No tests executed!\n"),
        ("jest and pytest", 5, false, "Tests:       2 passed, 2 total\n3 passed in 0.01s\n"),
        ("", 0, false, "all good\n3 things passed, 2 total\nok\nTests are fine (3)\n"),
    ];

    #[test]
    fn what_known_runners_print_is_counted() {
        for (runner, tests, is_least, output) in OUTPUTS {
            let expected =
                TestCount { runner: (*runner).into(), tests: *tests, is_least: *is_least };
            assert_eq!(counted(output), expected, "{output}");
        }
    }

    #[test]
    fn too_few_tests_are_said_and_an_unknown_runner_too() {
        let why = |output: &str, wanted: u64| counted(output).why_not(wanted);
        assert_eq!(why("3 passed in 0.01s", 3), None);
        assert!(
            why("3 passed in 0.01s", 4).is_some_and(|it| it.contains("pytest has run 3 tests"))
        );
        assert!(why("no tests ran in 0.01s", 1).is_some_and(|it| it.contains("no test has run")));
        assert!(why("all good", 1).is_some_and(|it| it.contains("is not known")));
        assert_eq!(why("ok  \ta\t0.1s", 1), None);
        assert!(why("ok  \ta\t0.1s", 2).is_some_and(|it| it.contains("go test -v")));
    }
}
