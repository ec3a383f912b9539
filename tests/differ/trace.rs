//! Traces: a project, events, and their results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A project and what happens in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Files that are committed to a repository; no repository where there are none.
    pub committed: BTreeMap<String, String>,
    /// Files that lie there beside them, the oldest first.
    pub files: Vec<(String, String)>,
    #[serde(skip)]
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub op: Op,
    pub seen: Seen,
}

/// Something that happens. In texts, `@{now-60}` is the time a minute ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Somebody writes a file.
    Write {
        path: String,
        text: String,
    },
    Remove {
        path: String,
    },
    /// Somebody edits a member of a JSON document.
    Set {
        path: String,
        at: String,
        value: Value,
    },
    Stop {
        session: Option<String>,
        again: Option<bool>,
        says: String,
        background: bool,
    },
    /// Another event of a session.
    Sign {
        event: String,
        session: String,
    },
    Run {
        who: Who,
        args: Vec<String>,
    },
    /// An agent that waits does this, and ends.
    Goes {
        agent: String,
        does: String,
    },
    /// An agent's supervisor is killed; then the session stops.
    Killed {
        agent: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    Agent,
    Person,
}

/// What came of it, without what differs from one time to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub out: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub err: String,
    /// Files that were changed, or removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Option<String>>,
    /// New lines of journals: run, event, answer, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<Value>,
}

impl Trace {
    pub fn read(path: &Path) -> Trace {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let mut trace: Trace = serde_json::from_str(lines.next().unwrap()).unwrap();
        trace.steps = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        trace
    }

    pub fn write(&self, path: &Path) {
        let mut text = serde_json::to_string(self).unwrap();
        for step in &self.steps {
            write!(text, "\n{}", serde_json::to_string(step).unwrap()).unwrap();
        }
        std::fs::write(path, text + "\n").unwrap();
    }
}

/// Where two differ, for a reader.
pub fn difference(expected: &Seen, seen: &Seen) -> String {
    let mut text = String::new();
    let mut show = |what: &str, was: String, now: String| {
        if was != now {
            writeln!(text, "  {what}\n    was {was}\n    now {now}").unwrap();
        }
    };
    show("exit code", format!("{:?}", expected.code), format!("{:?}", seen.code));
    show("stdout", expected.out.clone(), seen.out.clone());
    show("stderr", expected.err.clone(), seen.err.clone());
    let paths = expected
        .files
        .keys()
        .chain(seen.files.keys().filter(|it| !expected.files.contains_key(*it)));
    for path in paths {
        let (was, now) = (expected.files.get(path), seen.files.get(path));
        show(path, format!("{was:?}"), format!("{now:?}"));
    }
    for index in 0..expected.journal.len().max(seen.journal.len()) {
        let line =
            |journal: &[Value]| journal.get(index).map_or("nothing".into(), Value::to_string);
        show(&format!("journal line {}", index + 1), line(&expected.journal), line(&seen.journal));
    }
    text
}
