//! What differs from 0.1.0 on purpose: a list, and that the definitions are written anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::Value;

use crate::trace::{Op, Seen};

/// The list, and which of its rows were needed.
pub struct Differences {
    rows: Vec<(Row, AtomicBool)>,
    partings: Vec<(Parting, AtomicBool)>,
    gone: Vec<(Gone, AtomicBool)>,
    /// Whether a run was told that its definition has changed.
    noted: AtomicBool,
}

/// A text without the sentences that say so; none where it has none of them.
fn without_note(text: &str) -> Option<String> {
    let (before, rest) = text.split_once("The definition of workflow ")?;
    let (_, after) = rest.split_once("takes the new one.")?;
    Some(format!("{before}{}", after.trim_start()))
}

/// The hook's answer with the way out in what the person sees. In 0.1.0 it stood at the end of the reason, which
/// the model reads.
fn with_way_out_told(seen: &mut Seen) {
    let Ok(Value::Object(mut answer)) = serde_json::from_str(&seen.out) else { return };
    let Some(Value::String(reason)) = answer.get("reason") else { return };
    let Some((text, way)) = reason.split_once("\n\n(This is run ") else { return };
    let (text, way) = (text.to_string(), way.trim_end_matches(')').to_string());
    let told = answer.get("systemMessage").and_then(Value::as_str).unwrap_or("phasegate:");
    let told = format!("{told} This is run {way}");
    answer.insert("reason".into(), text.into());
    answer.insert("systemMessage".into(), told.into());
    let answer: Vec<String> = answer.iter().map(|(k, v)| format!("{k:?}: {v}")).collect();
    seen.out = format!("{{{}}}\n", answer.join(", "));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    difference: Vec<Row>,
    #[serde(default)]
    parting: Vec<Parting>,
    #[serde(default)]
    gone: Vec<Gone>,
}

/// A command of 0.1.0 that there is no longer: steps that give it are left out.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gone {
    command: String,
    why: String,
}

/// A step of a trace that is decided otherwise on purpose: what follows it there has another beginning.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parting {
    trace: String,
    step: usize,
    why: String,
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
        let partings = file.parting.into_iter().map(|row| {
            assert!(row.why.len() > 10, "{} needs a reason", row.trace);
            (row, AtomicBool::new(false))
        });
        let gone = file.gone.into_iter().map(|row| {
            assert!(row.why.len() > 10, "{} needs a reason", row.command);
            (row, AtomicBool::new(false))
        });
        let noted = AtomicBool::new(false);
        let (rows, partings, gone) = (rows.collect(), partings.collect(), gone.collect());
        Differences { rows, partings, gone, noted }
    }

    /// Whether a step gives a command that there is no longer.
    pub fn is_gone(&self, op: &Op) -> bool {
        let Op::Run { args, .. } = op else { return false };
        let line = format!("{} ", args.join(" "));
        let found =
            self.gone.iter().find(|(row, _)| line.starts_with(&format!("{} ", row.command)));
        found.inspect(|(_, used)| used.store(true, Ordering::Relaxed)).is_some()
    }

    /// Whether a step that differs does so on purpose.
    pub fn parts_at(&self, trace: &str, step: usize) -> bool {
        let found = self.partings.iter().find(|(row, _)| row.trace == trace && row.step == step);
        found.inspect(|(_, used)| used.store(true, Ordering::Relaxed)).is_some()
    }

    /// What is expected of us, where 0.1.0 did this.
    pub fn apply(&self, seen: &Seen) -> Seen {
        let mut seen = seen.clone();
        with_way_out_told(&mut seen);
        let mut text = serde_json::to_string(&seen).unwrap();
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

    /// What we did, without what 0.1.0 did not write down, and without being told that the definition has changed. A run that 0.1.0 began keeps to its
    /// copy of the definition, and decides by it; that the built-in one is another is said once.
    pub fn leave_out_note(&self, mut seen: Seen) -> Seen {
        if let Ok(Value::Object(mut answer)) = serde_json::from_str(&seen.out)
            && let Some(Value::String(told)) = answer.get("systemMessage")
            && let Some(rest) = without_note(told)
        {
            self.noted.store(true, Ordering::Relaxed);
            answer.remove("systemMessage");
            if !rest.trim_start_matches("phasegate:").trim().is_empty() {
                answer.insert("systemMessage".into(), rest.into());
            }
            let answer: Vec<String> = answer.iter().map(|(k, v)| format!("{k:?}: {v}")).collect();
            seen.out = format!("{{{}}}\n", answer.join(", "));
        }
        if let Some(rest) = without_note(&seen.err) {
            seen.err = rest;
        }
        // What is refused at the command line was not journaled in 0.1.0.
        seen.journal.retain(|line| {
            let reason = line["answer"]["reason"].as_str().unwrap_or_default();
            !(line["answer"]["code"] == "needs_human" && reason.contains("is for people, and "))
        });
        for line in &mut seen.journal {
            let Some(Value::Array(notes)) = line.get_mut("notes") else { continue };
            notes.retain(|note| note.as_str().is_none_or(|note| without_note(note).is_none()));
            if notes.is_empty() {
                line["notes"] = Value::Null;
            }
        }
        seen
    }

    /// Whether any run was told that its definition has changed.
    pub fn has_noted(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    /// Rows that no trace has needed.
    pub fn unused(&self) -> Vec<String> {
        let is_unused = |used: &AtomicBool| !used.load(Ordering::Relaxed);
        let rows = self.rows.iter().filter(|(_, used)| is_unused(used));
        let partings = self.partings.iter().filter(|(_, used)| is_unused(used));
        let partings = partings.map(|(row, _)| format!("{} step {}", row.trace, row.step));
        let gone = self.gone.iter().filter(|(_, used)| is_unused(used));
        let gone = gone.map(|(row, _)| row.command.clone());
        rows.map(|(row, _)| row.was.clone()).chain(partings).chain(gone).collect()
    }
}
