//! What a step did beside what its case expects of it.

use super::{Decision, Expect, ExpectReview, ExpectWork};
use crate::answer::{Answer, FAULT, Outcome};
use crate::json::Json;
use crate::step::{Agent, Effect, Review, Step, Work};

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
    found.review(expect.review.as_ref(), step.review.as_ref());
    found.work(expect.work.as_ref(), step.work.as_ref());
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

    fn review(&mut self, expected: Option<&ExpectReview>, asked: Option<&Review>) {
        let by = expected.map_or("none", |review| &review.by);
        self.compare("review", by, asked.map_or("none", |review| &review.reviewer));
        let (Some(expected), Some(asked)) = (expected, asked) else { return };
        if let Some(file) = &expected.file {
            self.compare("review's file", file, &asked.file);
        }
        if let Some(model) = &expected.model {
            self.compare("model", model, asked.model.as_deref().unwrap_or_default());
        }
        for part in &expected.says {
            self.contains("prompt", part, &asked.prompt);
        }
    }

    fn work(&mut self, expected: Option<&ExpectWork>, asked: Option<&Work>) {
        let by = expected.map_or("none", |work| &work.by);
        self.compare("work", by, asked.map_or("none", |work| &work.worker));
        let (Some(expected), Some(asked)) = (expected, asked) else { return };
        for part in &expected.says {
            self.contains("prompt", part, &asked.prompt);
        }
    }

    fn effects(&mut self, expect: &Expect, effects: &[Effect]) {
        let (mut starts, mut ends, mut runs) = (Vec::<&Agent>::new(), Vec::new(), Vec::new());
        let (mut writes, mut moves, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let mut removes = false;
        for effect in effects {
            match effect {
                Effect::Start(agent) => starts.push(agent),
                Effect::End(id) => ends.push(id.as_str()),
                Effect::Run(parts, _) => runs.push(parts),
                // A place that comes out empty is how a rule writes nothing.
                Effect::Write { place, .. } if place.trim().is_empty() => {}
                Effect::Write { place, text } => writes.push((place.as_str(), text.as_str())),
                Effect::Move { from, to } => moves.push(format!("{from} to {to}")),
                Effect::Append { line, .. } => lines.push(line.as_str()),
                Effect::Remove => removes = true,
            }
        }
        let ids: Vec<&str> = starts.iter().map(|agent| agent.id.as_str()).collect();
        self.compare("starts", &expect.starts.join(", "), &ids.join(", "));
        for part in &expect.prompts {
            for agent in &starts {
                self.contains("prompt", part, &agent.prompt);
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
                self.contains(place, part, text);
            }
        }
        for part in &expect.append {
            if !lines.iter().any(|line| line.contains(part.as_str())) {
                self.0.push(format!("append: expected {part:?}, got {lines:?}"));
            }
        }
    }
}
