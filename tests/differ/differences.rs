//! What differs from 0.1.0 on purpose.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use crate::trace::Seen;

/// The list, and which of its rows were needed.
pub struct Differences {
    rows: Vec<(Row, AtomicBool)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    difference: Vec<Row>,
}

/// One difference: what 0.1.0 says, what we say, and why.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    was: String,
    now: String,
    why: String,
}

impl Differences {
    pub fn read(path: &Path) -> Differences {
        let text = std::fs::read_to_string(path).unwrap();
        let file: File = toml::from_str(&text).unwrap();
        let rows = file.difference.into_iter();
        let rows = rows.map(|row| {
            assert!(row.why.len() > 10, "{:?} needs a reason", row.was);
            (row, AtomicBool::new(false))
        });
        Differences { rows: rows.collect() }
    }

    /// What is expected of us, where 0.1.0 did this.
    pub fn apply(&self, seen: &Seen) -> Seen {
        let mut text = serde_json::to_string(seen).unwrap();
        for (row, used) in &self.rows {
            let quoted = |text: &str| {
                let text = serde_json::to_string(text).unwrap();
                text[1..text.len() - 1].to_string()
            };
            // The hook's answer is JSON inside JSON.
            for (was, now) in [
                (quoted(&row.was), quoted(&row.now)),
                (quoted(&quoted(&row.was)), quoted(&quoted(&row.now))),
            ] {
                if text.contains(&was) {
                    used.store(true, Ordering::Relaxed);
                    text = text.replace(&was, &now);
                }
            }
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Rows that no trace has needed.
    pub fn unused(&self) -> Vec<String> {
        self.rows
            .iter()
            .filter(|(_, used)| !used.load(Ordering::Relaxed))
            .map(|(row, _)| row.was.clone())
            .collect()
    }
}
