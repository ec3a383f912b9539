//! What a step did beside what its case expects of it.

use super::{Decision, Expect, ExpectJob};
use crate::answer::{Answer, FAULT, Outcome};
use crate::job::{Job, JobKind};
use crate::json::Json;
use crate::step::{Effect, Step};

/// What differs; empty where the step is what the case expects.
pub(super) fn differences(expect: &Expect, step: &Step) -> Vec<String> {
    let mut found = Found::default();
    found.answer(expect, &step.answer);
    if let Some(phase) = &expect.phase {
        found.compare("phase", phase, &step.to);
    }
    if let Some(changed) = expect.changed {
        found.compare("changed", &changed.to_string(), &step.changed.to_string());
    }
    for (path, value) in &expect.state {
        found.state(path, value, &step.document);
    }
    let is = |wanted: fn(&JobKind) -> bool| step.wants.as_deref().filter(|it| wanted(&it.kind));
    let review = is(|kind| *kind == JobKind::Reviewer);
    found.job("review", expect.review.as_ref(), review);
    found.job("work", expect.work.as_ref(), is(|kind| *kind == JobKind::Worker));
    // A check is wanted by a guard that could not be decided: the answer says so already.
    found.job("job", expect.job.as_ref(), is(|kind| matches!(kind, JobKind::Other(_))));
    found.effects(expect, &step.effects);
    found.0
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn compare(&mut self, what: &str, expected: &str, actual: &str) {
        if expected != actual {
            self.0.push(format!("{what}: expected {expected}, got {actual}"));
        }
    }

    fn contains(&mut self, what: &str, part: &str, text: &str) {
        if !text.contains(part) {
            self.0.push(format!("{what}: expected {part:?}, got {text:?}"));
        }
    }

    fn answer(&mut self, expect: &Expect, answer: &Answer) {
        let text = answer.text().unwrap_or_default();
        let (decision, outcome, until, code) = match answer {
            Answer::Block { .. } => (Decision::Block, None, None, None),
            Answer::Allow { outcome, until, .. } => (Decision::Allow, *outcome, *until, None),
            Answer::Deny { code, .. } => (Decision::Deny, None, None, code.as_deref()),
        };
        if decision != expect.decision {
            let expected = format!("{:?}", expect.decision).to_uppercase();
            self.0.push(format!("decision: expected {expected}, got {answer} ({text})"));
        }
        let shown = outcome.map_or("none".to_string(), |outcome| outcome.to_string());
        match expect.outcome {
            Some(expected) => self.compare("outcome", &expected.to_string(), &shown),
            None if outcome == Some(Outcome::Fault) => {
                self.0.push(format!("outcome: expected no fault, got {text:?}"));
            }
            None => {}
        }
        match &expect.code {
            Some(expected) => self.compare("code", expected, code.unwrap_or("none")),
            None if code == Some(FAULT) => {
                self.0.push(format!("code: expected no fault, got {text:?}"));
            }
            None => {}
        }
        if let Some(expected) = expect.until {
            let until = until.map_or("none".to_string(), |until| until.to_string());
            self.compare("until", &expected.to_string(), &until);
        }
        if let Some(whole) = &expect.text {
            self.compare("text", &format!("{whole:?}"), &format!("{text:?}"));
        }
        for part in &expect.says {
            self.contains("says", part, text);
        }
    }

    fn state(&mut self, path: &str, value: &str, document: &Json) {
        let actual = document.at(path.split('.'));
        let shown = actual.map_or("nothing".into(), |it| it.to_text(None).trim().to_string());
        match Json::parse(value.as_bytes()) {
            Ok(expected) if Some(&expected) == actual => {}
            Ok(expected) => self.compare(path, expected.to_text(None).trim(), &shown),
            Err(error) => self.0.push(format!("{path}: {value:?} is not JSON: {error}")),
        }
    }

    fn job(&mut self, word: &str, expected: Option<&ExpectJob>, wanted: Option<&Job>) {
        let by = expected.map_or("none", |job| &job.by);
        self.compare(word, by, wanted.map_or("none", |job| &job.name));
        let (Some(expected), Some(wanted)) = (expected, wanted) else { return };
        if let Some(file) = &expected.file {
            self.compare("file", file, wanted.file.as_deref().unwrap_or_default());
        }
        if let Some(model) = &expected.model {
            self.compare("model", model, wanted.model.as_deref().unwrap_or_default());
        }
        for part in &expected.says {
            self.contains("prompt", part, wanted.prompt.as_deref().unwrap_or_default());
        }
    }

    fn effects(&mut self, expect: &Expect, effects: &[Effect]) {
        let (mut starts, mut ends, mut runs) = (Vec::<&Job>::new(), Vec::new(), Vec::new());
        let (mut writes, mut moves, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let mut removes = false;
        for effect in effects {
            match effect {
                Effect::Start(job) => starts.push(job),
                Effect::End(id) => ends.push(id.as_str()),
                Effect::Run { command, .. } => runs.push(&command.words),
                // A place that comes out empty is how a rule writes nothing.
                Effect::Write { place, .. } if place.trim().is_empty() => {}
                Effect::Write { place, text } => writes.push((place.as_str(), text.clone())),
                Effect::Patch { place, from, to } => {
                    writes.push((place, format!("patch {from} {to}")));
                }
                Effect::Copy { place, paths } => {
                    writes.push((place, format!("copies {}", paths.join(" "))));
                }
                Effect::Move { from, to } => moves.push(format!("{from} to {to}")),
                Effect::Append { line, .. } => lines.push(line.as_str()),
                Effect::Remove => removes = true,
            }
        }
        let ids: Vec<&str> = starts.iter().map(|job| job.id.as_str()).collect();
        self.compare("starts", &expect.starts.join(", "), &ids.join(", "));
        for part in &expect.prompts {
            for job in &starts {
                self.contains("prompt", part, job.prompt.as_deref().unwrap_or_default());
            }
        }
        self.compare("ends", &expect.ends.join(", "), &ends.join(", "));
        self.compare("run", &format!("{:?}", expect.run), &format!("{runs:?}"));
        let expected: Vec<String> =
            expect.moved.iter().map(|(from, to)| format!("{from} to {to}")).collect();
        moves.sort();
        self.compare("move", &expected.join(", "), &moves.join(", "));
        self.compare("remove", &expect.remove.to_string(), &removes.to_string());
        writes.sort_unstable();
        let places: Vec<&str> = expect.write.keys().map(String::as_str).collect();
        let written: Vec<&str> = writes.iter().map(|(place, _)| *place).collect();
        self.compare("write", &places.join(", "), &written.join(", "));
        for (place, text) in writes {
            if let Some(part) = expect.write.get(place) {
                self.contains(place, part, &text);
            }
        }
        for part in &expect.append {
            if !lines.iter().any(|line| line.contains(part.as_str())) {
                self.0.push(format!("append: expected {part:?}, got {lines:?}"));
            }
        }
    }
}
