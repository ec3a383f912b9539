//! What shows a finding: how a run comes to it, and its last step as a case that `phasegate test` runs.

use std::fmt::Write as _;

use super::{Graph, Model, Situation, World};
use crate::answer::Answer;
use crate::check::CheckResult;
use crate::decide::phase_name;
use crate::job::JobKind;
use crate::json::Json;
use crate::step::{Effect, Event, Step};

/// How a run comes to what was found.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The moves, each with the phases that it leads from and to.
    pub path: Vec<String>,
    /// What leads there, typed into `phasegate simulate`.
    pub script: Vec<String>,
    /// The last step, as a case.
    pub case: String,
}

impl Model<'_> {
    /// How a run comes to what an edge decides.
    pub(crate) fn witness(&self, graph: &Graph, edge: usize, name: &str) -> Option<Witness> {
        let last = &graph.edges[edge];
        let (start, mut way) = graph.way_to(last.from);
        way.push(edge);
        let (mut path, mut script) = (Vec::new(), Vec::new());
        if graph.starts.len() > 1 {
            script.push((start + 1).to_string());
        }
        let mut case = None;
        for index in way {
            let edge = &graph.edges[index];
            let situation = &graph.nodes[edge.from].situation;
            let ways = self.take(situation, &edge.step);
            script.push(edge.step.typed());
            if ways.len() > 1 {
                script.push((edge.way + 1).to_string());
            }
            let taken = ways.into_iter().nth(edge.way)?;
            let from = &graph.nodes[edge.from].phase;
            let mut line = match taken.step() {
                Some(step) => {
                    let to = &step.to;
                    let answer = &step.answer;
                    format!("{from} ─{}→ {to}: {answer}", edge.step)
                }
                None => format!("{from}: {}", edge.step),
            };
            if !taken.jobs.is_empty() {
                let _ = write!(line, " ({})", taken.jobs.join(", "));
            }
            path.push(line);
            case = taken.decided.map(|(before, event, step)| {
                let mut text = case_text(name, &self.place(), &before, &event, &step);
                for (name, value) in &self.constants {
                    let value = quoted(value.to_text(None).trim_end());
                    let _ = writeln!(text, "const.{name} = {value}");
                }
                text
            });
        }
        Some(Witness { path, script, case: case? })
    }

    /// The phase of a situation.
    pub fn phase(&self, situation: &Situation) -> String {
        phase_name(self.workflow, &situation.document)
    }
}

/// A decision as a case: what it was about, and what was answered. `place` is that of the document.
pub fn case_text(
    name: &str,
    place: &str,
    before: &Situation,
    event: &Event,
    step: &Step,
) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let Situation { document, world, passed, .. } = before;
    line("name", quoted(name));
    line("state", quoted(document.to_text(None).trim_end()));
    given(world, step, place, document, &mut line);
    if !passed.is_empty() {
        line("passed", list(passed.iter().map(String::as_str)));
    }
    line("actor", quoted(&event.actor.to_string()));
    line("event", quoted(&event.name));
    if let Some(session) = &event.session {
        line("session", quoted(session));
    }
    if let Some(agent) = &event.agent {
        line("agent", quoted(agent));
    }
    if !matches!(&event.params, Json::Object(members) if members.is_empty()) {
        line("params", quoted(event.params.to_text(None).trim_end()));
    }
    expected(step, &mut line);
    format!("[[case]]\n{text}")
}

fn given(
    world: &World,
    step: &Step,
    place: &str,
    document: &Json,
    line: &mut impl FnMut(&str, String),
) {
    let reads = |query: &str| step.readings.iter().any(|it| it.query == query);
    let mut files = world.files.clone();
    if ["read", "exists", "modified"].iter().any(|it| reads(&format!("{it} {place}"))) {
        files.insert(place.to_string(), document.to_text(None));
    }
    line("now", quoted(&world.now().to_string()));
    line("tree", quoted(&world.tree()));
    line("applied", quoted(&world.applied()));
    let changes = world.changes();
    let changed = changes.files.iter().map(|it| {
        let number = |it: Option<u32>| it.unwrap_or_default();
        let (added, removed) = (number(it.added), number(it.removed));
        format!("{{ path = {}, added = {added}, removed = {removed} }}", quoted(&it.path))
    });
    let changed: Vec<String> = changed.collect();
    let (tree, digest) = (quoted(&changes.tree), quoted(&changes.digest));
    line(
        "changes",
        format!("{{ tree = {tree}, digest = {digest}, files = [{}] }}", changed.join(", ")),
    );
    if !files.is_empty() {
        line("files", table(files.iter().map(|(path, text)| (path.as_str(), quoted(text)))));
    }
    if !world.env.is_empty() {
        line("env", table(world.env.iter().map(|(name, value)| (name.as_str(), quoted(value)))));
    }
    if let Some(message) = &world.message {
        line("last_message", quoted(message));
    }
    if !world.checks.is_empty() {
        let checks = world.checks.iter().map(|(name, result)| {
            let CheckResult { ok, seconds, tail, .. } = result;
            let code = result.exit_code.map(|code| format!("exit_code = {code}, "));
            let (code, tail) = (code.unwrap_or_default(), quoted(tail));
            (name.as_str(), format!("{{ ok = {ok}, {code}seconds = {seconds}, tail = {tail} }}"))
        });
        line("check", table(checks));
    }
    if !world.agents.is_empty() {
        line("agents", quoted(Json::from(world.agents.clone()).to_text(None).trim_end()));
    }
    if let Some(run) = world.recorded.as_ref().map(|it| &it.run) {
        if run.tampered > 0 {
            line("tampered", run.tampered.to_string());
            line("accepted", (run.tampered - run.unaccepted.min(run.tampered)).to_string());
        }
        if let Some(seen) = &run.seen {
            line("seen", quoted(&seen.to_string()));
        }
        if let Some(problem) = &run.problem {
            line("problem", quoted(problem));
        }
    }
    let owner = world.recorded.as_ref().and_then(|it| it.run.owner.as_ref());
    if let Some(owner) = owner.or(world.owner.as_ref()) {
        line("owner", quoted(owner));
    }
    if world.reviews > 0 {
        line("reviews", world.reviews.to_string());
    }
    if let Some((file, verdict)) = &world.last_review {
        let verdict = verdict.as_ref().map(|it| format!(", verdict = {}", quoted(it)));
        line(
            "last_review",
            format!("{{ file = {}{} }}", quoted(file), verdict.unwrap_or_default()),
        );
    }
}

fn expected(step: &Step, line: &mut impl FnMut(&str, String)) {
    match &step.answer {
        Answer::Block { .. } => line("expect.decision", quoted("BLOCK")),
        Answer::Allow { outcome, until, .. } => {
            line("expect.decision", quoted("ALLOW"));
            if let Some(outcome) = outcome {
                line("expect.outcome", quoted(&outcome.to_string()));
            }
            if let Some(until) = until {
                line("expect.until", quoted(&until.to_string()));
            }
        }
        Answer::Deny { code, .. } => {
            line("expect.decision", quoted("DENY"));
            if let Some(code) = code {
                line("expect.code", quoted(code));
            }
        }
    }
    line("expect.phase", quoted(&step.to));
    if let Some(job) = &step.wants {
        let word = match job.kind {
            JobKind::Reviewer => "expect.review",
            JobKind::Worker => "expect.work",
            _ => "expect.job",
        };
        if job.kind != JobKind::Check {
            line(word, format!("{{ by = {} }}", quoted(&job.name)));
        }
    }
    let (mut starts, mut ends, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut writes, mut moves) = (Vec::new(), Vec::new());
    for effect in &step.effects {
        match effect {
            Effect::Start(job) => starts.push(job.id.as_str()),
            Effect::End(id) => ends.push(id.as_str()),
            Effect::Run { command, .. } => {
                runs.push(list(command.words.iter().map(String::as_str)));
            }
            Effect::Write { place, .. } if place.trim().is_empty() => {}
            Effect::Write { place, .. }
            | Effect::Patch { place, .. }
            | Effect::Copy { place, .. } => {
                writes.push((place.as_str(), quoted("")));
            }
            Effect::Move { from, to } => moves.push((from.as_str(), quoted(to))),
            Effect::Remove => line("expect.remove", "true".into()),
            Effect::Append { .. } => {}
        }
    }
    for (word, ids) in [("expect.starts", &starts), ("expect.ends", &ends)] {
        if !ids.is_empty() {
            line(word, list(ids.iter().copied()));
        }
    }
    if !runs.is_empty() {
        line("expect.run", format!("[{}]", runs.join(", ")));
    }
    for (word, places) in [("expect.write", writes), ("expect.move", moves)] {
        if !places.is_empty() {
            line(word, table(places.into_iter()));
        }
    }
}

/// A text as TOML has it. JSON writes texts in the same way, but for one character.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}

fn list<'t>(items: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
}

fn table<'t>(members: impl Iterator<Item = (&'t str, String)>) -> String {
    let members = members.map(|(name, value)| format!("{} = {value}", quoted(name)));
    format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
}
