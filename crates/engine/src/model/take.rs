//! A move, made: what the rules decide, and how everything stands then. A check or a reviewer that a step waits for may
//! say one thing or another, so one move can lead to several situations.

use super::{Model, Move, Situation, result_of};
use crate::actor::Actor;
use crate::decide::{REVIEWED, UNREVIEWED};
use crate::events::{JOB_ENDED, JOB_STARTED, KIND, VERDICT};
use crate::functions::object;
use crate::job::{Bound, Gives, Job};
use crate::json::Json;
use crate::step::{Effect, Event, Step};

/// How many jobs one event is put again for.
const MAX_JOBS: usize = 4;

/// What one move has led to.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What the jobs said that were waited for: `check tests passes`.
    pub jobs: Vec<String>,
    /// The last decision: what it was about, and what came of it; none where nothing was decided.
    pub decided: Option<(Situation, Event, Box<Step>)>,
    /// What was decided on the way to it: what asked for the jobs, and what heard of their ends.
    pub on_the_way: Vec<Step>,
    pub after: Situation,
}

/// How far an event has come that waits for jobs: what those said, and what was decided.
#[derive(Clone, Default)]
struct Way {
    jobs: Vec<String>,
    steps: Vec<Step>,
}

impl Way {
    fn with(&self, said: String, steps: &[&Step]) -> Way {
        let mut way = self.clone();
        way.jobs.push(said);
        way.steps.extend(steps.iter().copied().cloned());
        way
    }
}

impl Taken {
    /// The last step.
    pub fn step(&self) -> Option<&Step> {
        self.decided.as_ref().map(|(.., step)| &**step)
    }
}

impl Model<'_> {
    /// Makes a move.
    pub fn take(&self, situation: &Situation, step: &Move) -> Vec<Taken> {
        let mut after = situation.clone();
        let world = &mut after.world;
        match step {
            Move::Event(event) => {
                let mut found = Vec::new();
                let before = told(situation, event);
                self.put(before, event.clone(), Way::default(), &mut found);
                return found;
            }
            Move::Write(path, text) => drop(world.files.insert(path.clone(), text.clone())),
            Move::Remove(path) => drop(world.files.remove(path)),
            Move::Edit(path, value) => {
                if let Some(place) = after.document.at_mut(path.iter().map(String::as_str)) {
                    *place = value.clone();
                }
            }
            Move::Say(text) => world.message = Some(text.clone()),
            Move::Work => {
                world.tree = (world.tree + 1).min(2);
                world.checks.clear();
            }
            Move::Set(name, value) => drop(world.env.insert(name.clone(), value.clone())),
            Move::Wait => world.days += 1,
        }
        vec![Taken { jobs: Vec::new(), decided: None, on_the_way: Vec::new(), after }]
    }

    /// What has become of the jobs in the background, as events.
    pub(super) fn news(&self, situation: &Situation) -> Vec<Event> {
        let mut found = Vec::new();
        for agent in &situation.world.agents {
            let text = |name: &str| agent.get(name).and_then(Json::as_str).unwrap_or_default();
            if agent.get("ended") != Some(&Json::from(false)) {
                continue;
            }
            let spec = self.workflow.jobs.iter().find(|job| job.name == text("kind"));
            let kind = spec.map_or("agent".to_string(), |job| job.kind.to_string());
            let about = |more: Vec<(&str, Json)>| {
                let own = [
                    ("id", Json::from(text("id"))),
                    (KIND, Json::from(kind.as_str())),
                    ("name", Json::from(text("kind"))),
                ];
                object(own.into_iter().chain(more).map(|(name, value)| (name.to_string(), value)))
            };
            let event = |name: &str, params: Json| Event {
                agent: Some(text("id").to_string()),
                params,
                ..Event::new(name, Actor::Engine)
            };
            if text("status") == "starting" {
                found.push(event(JOB_STARTED, about(Vec::new())));
            }
            if text("status") != "starting" {
                for ok in [true, false] {
                    found.push(event(JOB_ENDED, about(ended(ok))));
                }
            }
        }
        found
    }

    fn put(&self, before: Situation, event: Event, way: Way, found: &mut Vec<Taken>) {
        let step = self.decide(&before, &event);
        if way.jobs.len() < MAX_JOBS {
            if let Some(check) = self.missing(&step) {
                for ok in [true, false] {
                    let mut before = before.clone();
                    before.world.checks.insert(check.clone(), result_of(ok));
                    let said = format!("check {check} {}", if ok { "passes" } else { "fails" });
                    self.put(before, event.clone(), way.with(said, &[&step]), found);
                }
                return;
            }
            if let Some(job) = &step.wants {
                return self.ends(&before, &step, job, &event, &way, found);
            }
        }
        let after = self.after(&before, &step);
        let Way { jobs, steps: on_the_way } = way;
        found.push(Taken {
            jobs,
            decided: Some((before, event, Box::new(step))),
            on_the_way,
            after,
        });
    }

    /// The check that has to run before the step can be made.
    fn missing(&self, step: &Step) -> Option<String> {
        if let Some(job) = step.wants.as_ref().filter(|job| job.manner.bound == Bound::Tree) {
            return Some(job.name.clone());
        }
        let text = step.answer.text()?;
        let mut checks = self.workflow.checks();
        let is_meant =
            |name: &str| text == format!("check {name} has not run on the tree as it is");
        checks.find(|check| is_meant(&check.name)).map(|check| check.name.clone())
    }

    /// The ways in which a job ends that a step waits for.
    fn ends(
        &self,
        before: &Situation,
        step: &Step,
        job: &Job,
        event: &Event,
        way: &Way,
        found: &mut Vec<Taken>,
    ) {
        let judges = job.manner.gives == Gives::Verdict;
        let ways: &[(bool, Option<&str>)] = if judges {
            &[(true, Some("PASS")), (true, Some("FAIL")), (false, None)]
        } else {
            &[(true, None), (false, None)]
        };
        for (ok, verdict) in ways {
            let mut begun = self.after(before, step);
            begun.over = false;
            if judges {
                begun.world.reviews += 1;
                let file = job.file.clone().unwrap_or_default();
                begun.world.last_review = Some((file.clone(), verdict.map(str::to_string)));
                if verdict.is_some() && !file.is_empty() {
                    begun.world.files.insert(file, "A review.\n".into());
                }
            }
            let text = |text: &str| Json::from(text);
            let kind = job.kind.to_string();
            let mut params =
                vec![("id", text(&job.id)), (KIND, text(&kind)), ("name", text(&job.name))];
            params.push((if judges { "reviewer" } else { "worker" }, text(&job.name)));
            params.extend(ended(*ok));
            params.push(("started", text(&begun.world.now().to_string())));
            if let Some(file) = &job.file {
                params.push(("file", text(file)));
                params.push((VERDICT, verdict.map_or(Json::Null, text)));
            }
            let params = params.into_iter().map(|(name, value)| (name.to_string(), value));
            let over = Event { params: object(params), ..Event::new(JOB_ENDED, Actor::Engine) };
            let said = match verdict {
                Some(verdict) => format!("{kind} {} says {verdict}", job.name),
                None if judges => format!("{kind} {} gives no verdict", job.name),
                None => format!("{kind} {} {}", job.name, if *ok { "ends well" } else { "fails" }),
            };
            if job.manner.alone || !event.is_question() {
                self.put(begun, over, way.with(said, &[step]), found);
                continue;
            }
            let heard = self.decide(&begun, &over);
            let way = way.with(said, &[step, &heard]);
            let after = self.after(&begun, &heard);
            let who = if verdict.is_some() { REVIEWED } else { UNREVIEWED };
            let again =
                Event { params: object([(who.to_string(), text(&job.name))]), ..event.clone() };
            self.put(Situation { over: false, ..after }, again, way, found);
        }
    }

    /// How everything stands after a step.
    pub(super) fn after(&self, before: &Situation, step: &Step) -> Situation {
        let mut after = before.clone();
        after.document = step.document.clone();
        if step.answer.is_block() {
            // Who was told to go on speaks anew.
            after.world.message = None;
        }
        after.passed.extend(step.passed.iter().cloned());
        let outer = self.workflow.outer();
        after.over = outer.phase(&step.to).is_some_and(|id| outer.get(id).ends.is_some());
        let files = &mut after.world.files;
        for effect in &step.effects {
            match effect {
                Effect::Write { place, text } if !place.trim().is_empty() => {
                    files.insert(place.clone(), text.clone());
                }
                Effect::Patch { place, from, to } => {
                    files.insert(place.clone(), format!("{from} {to}\n"));
                }
                Effect::Move { from, to } => {
                    let below = format!("{from}/");
                    let moved: Vec<String> = files
                        .keys()
                        .filter(|it| *it == from || it.starts_with(&below))
                        .cloned()
                        .collect();
                    for path in moved {
                        if let Some(text) = files.remove(&path) {
                            files.insert(format!("{to}{}", &path[from.len()..]), text);
                        }
                    }
                }
                Effect::Start(job) => after.world.agents.push(job.row()),
                Effect::End(id) => {
                    for agent in &mut after.world.agents {
                        if agent.get("id").and_then(Json::as_str) == Some(id) {
                            for (name, value) in
                                [("ended", Json::from(true)), ("status", Json::from("killed"))]
                            {
                                if let Some(place) = agent.at_mut([name]) {
                                    *place = value;
                                }
                            }
                        }
                    }
                }
                Effect::Remove => after.over = true,
                Effect::Write { .. }
                | Effect::Append { .. }
                | Effect::Copy { .. }
                | Effect::Run { .. } => {}
            }
        }
        after
    }
}

/// The situation in which the rules hear of an event: what a job's event tells is so.
fn told(situation: &Situation, event: &Event) -> Situation {
    let mut before = situation.clone();
    before.over = false;
    if event.is_question() && event.session.is_some() {
        before.world.owner.clone_from(&event.session);
    }
    let ok = event.params.get("ok") == Some(&Json::from(true));
    let (status, over) = match event.name.as_str() {
        JOB_STARTED => ("working", false),
        JOB_ENDED if ok => ("exited", true),
        JOB_ENDED => ("failed", true),
        _ => return before,
    };
    let now = before.world.now().to_string();
    for agent in &mut before.world.agents {
        if agent.get("id").and_then(Json::as_str) == event.agent.as_deref() {
            let mut set = |name: &str, value: Json| {
                if let Some(place) = agent.at_mut([name]) {
                    *place = value;
                }
            };
            set("status", Json::from(status));
            set("ended", Json::from(over));
            set("ok", Json::from(over && ok));
            set("started", Json::from(now.as_str()));
        }
    }
    before
}

fn ended(ok: bool) -> Vec<(&'static str, Json)> {
    let status = if ok { "exited" } else { "failed" };
    vec![
        ("status", Json::from(status)),
        ("ok", Json::from(ok)),
        ("exit_code", Json::from(i64::from(!ok))),
        ("end", Json::from(if ok { "It ended by itself." } else { "It failed." })),
        ("seconds", Json::from(1)),
    ]
}
