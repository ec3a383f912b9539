//! What may happen next: the agent changes what agents can change, a job ends, a person acts, time passes.

use std::fmt;

use super::values::values;
use super::{Model, Situation};
use crate::actor::Actor;
use crate::definition::ParamType;
use crate::events::{EventKind, JOB_ENDED, JOB_STARTED, STOP};
use crate::functions::object;
use crate::glob;
use crate::json::Json;
use crate::step::Event;
use crate::types::Type;
use crate::workflow::{Action, Does, Param, Workflow};

/// How many files that match one pattern an agent writes.
const MAX_FILES: usize = 6;

/// How often the tree is told apart from what it was.
const MAX_TREES: u8 = 2;

/// Something that may happen.
#[derive(Clone, Debug)]
pub enum Move {
    /// An event that is put to the rules.
    Event(Event),
    /// The agent writes a file.
    Write(String, String),
    /// The agent removes a file.
    Remove(String),
    /// The agent sets a field of the document.
    Edit(Vec<String>, Json),
    /// The agent says this last.
    Say(String),
    /// The agent changes the tree: what checks have said holds no longer.
    Work,
    /// An environment variable is set.
    Set(String, String),
    /// A day goes by.
    Wait,
}

/// Who makes a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Agent,
    Person,
    /// A job, time, or something outside.
    Outside,
}

impl Move {
    /// Who makes it.
    pub fn who(&self) -> Who {
        match self {
            Move::Event(event) => match event.actor {
                Actor::Human => Who::Person,
                Actor::Engine | Actor::Reviewer => Who::Outside,
                Actor::Worker | Actor::Orchestrator => Who::Agent,
            },
            Move::Set(..) | Move::Wait => Who::Outside,
            _ => Who::Agent,
        }
    }

    /// Whether somebody asks for something.
    pub fn is_action(&self) -> bool {
        matches!(self, Move::Event(event) if event.kind() == EventKind::Action)
    }

    /// Whether it is an agent that wants to stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Move::Event(event) if event.name == STOP)
    }
}

/// `stop`, `approve by human`, `write A: x`
impl fmt::Display for Move {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Move::Event(event) => {
                out.write_str(&event.name)?;
                if let Some(agent) = &event.agent {
                    write!(out, " {agent}")?;
                }
                if event.name != STOP && event.agent.is_none() {
                    write!(out, " by {}", event.actor)?;
                }
                let params = match &event.params {
                    Json::Object(members) => members.iter().collect::<Vec<_>>(),
                    _ => Vec::new(),
                };
                let shown = ["ok", "verdict"];
                let all = !matches!(event.name.as_str(), JOB_STARTED | JOB_ENDED);
                for (name, value) in params {
                    let is_told = all || shown.contains(&&**name);
                    let plain = [Json::Null, Json::from(false)];
                    if is_told && (!plain.contains(value) || &**name == "ok") {
                        write!(out, " {name}={}", value.brief())?;
                    }
                }
                Ok(())
            }
            Move::Write(path, text) => {
                write!(out, "write {path}: {}", Json::from(text.as_str()).brief())
            }
            Move::Remove(path) => write!(out, "remove {path}"),
            Move::Edit(path, value) => {
                write!(out, "set state.{} = {}", path.join("."), value.brief())
            }
            Move::Say(text) => write!(out, "say {}", Json::from(text.as_str()).brief()),
            Move::Work => out.write_str("change the tree"),
            Move::Set(name, value) => write!(out, "the environment has {name}={value}"),
            Move::Wait => out.write_str("a day goes by"),
        }
    }
}

impl Model<'_> {
    /// Events that may come now: a stop, the ends of jobs, and what can be asked.
    pub fn events(&self, situation: &Situation) -> Vec<Move> {
        let mut found = vec![Move::Event(Event::new(STOP, Actor::Worker))];
        found.extend(self.news(situation).into_iter().map(Move::Event));
        let workflow = self.workflow;
        for action in workflow.actions.iter().filter(|it| workflow.hears(&it.name)) {
            // Where every run has a document of its own, what begins one is about another run.
            let begins = workflow.document.contains('*') && workflow.presumed.is_none();
            match action.does {
                Does::Show { .. } => continue,
                Does::Create { .. } if begins => continue,
                Does::Create { .. } | Does::Event => {}
            }
            for (actor, agent) in askers(workflow, action, situation) {
                for params in self.parameters(action, actor) {
                    let event = Event::new(&action.name, actor);
                    found.push(Move::Event(Event { params, agent: agent.clone(), ..event }));
                }
            }
        }
        found
    }

    /// What the agent, or the world, may change of what was looked up.
    pub fn changes(&self, situation: &Situation, queries: &[String]) -> Vec<Move> {
        let world = &situation.world;
        let mut found = Vec::new();
        let mut works = !world.checks.is_empty();
        let mut listed = Vec::new();
        for query in queries {
            let (word, rest) = query.split_once(' ').unwrap_or((query, ""));
            match word {
                "read" | "exists" | "modified"
                    if rest != self.place() && !listed.contains(&rest) =>
                {
                    listed.push(rest);
                    self.write(situation, rest, &mut found);
                }
                "list" => found.extend(self.another(situation, rest)),
                "last" | "said" | "transcript" => {
                    let other = self.messages.iter().map(String::as_str).chain(["Done."]);
                    let other = other.filter(|it| world.message.as_deref() != Some(it));
                    found.extend(other.map(|it| Move::Say(it.to_string())));
                }
                "env" if !world.env.contains_key(rest) => {
                    found.push(Move::Set(rest.to_string(), "1".into()));
                }
                "tree" | "snapshot" | "changes" | "changed" => works |= world.tree < MAX_TREES,
                "now" if world.days == 0 => found.push(Move::Wait),
                _ => {}
            }
        }
        if works {
            found.push(Move::Work);
        }
        found.extend(self.edits(situation));
        found
    }

    fn write(&self, situation: &Situation, path: &str, found: &mut Vec<Move>) {
        let now = situation.world.files.get(path);
        let mut texts: Vec<String> = self.files.get(path).cloned().unwrap_or_default();
        let records = &self.workflow.records;
        if let Some(record) = self.shape(path).and_then(|it| records.named(&it)) {
            let values = values(records, &Type::Record(record), 0);
            texts.extend(values.iter().map(|value| value.to_text(None)));
        }
        if texts.is_empty() {
            texts.push("x\n".into());
            texts.push("Some words. ".repeat(40));
        }
        texts.dedup();
        let texts = texts.into_iter().filter(|text| Some(text) != now);
        found.extend(texts.map(|text| Move::Write(path.to_string(), text)));
        if now.is_some() {
            found.push(Move::Remove(path.to_string()));
        }
    }

    /// One more file that matches a pattern.
    fn another(&self, situation: &Situation, pattern: &str) -> Option<Move> {
        let files = &situation.world.files;
        let there = files.keys().filter(|path| glob::matches(pattern, path)).count();
        if there >= MAX_FILES {
            return None;
        }
        let known = self.files.iter().find(|(path, _)| {
            glob::matches(pattern, path) && !files.contains_key(*path) && **path != self.place()
        });
        if let Some((path, texts)) = known {
            return Some(Move::Write(path.clone(), texts.first().cloned().unwrap_or_default()));
        }
        let mut numbers = 1..;
        let path = numbers.find_map(|number| {
            let path = pattern.replace("**", "*").replace('*', &number.to_string());
            (!files.contains_key(&path) || number > 9).then_some(path)
        })?;
        let fits = glob::matches(pattern, &path) && !files.contains_key(&path);
        fits.then(|| Move::Write(path, "x\n".into()))
    }

    /// Parameters with which something may be asked: the plainest, and each of the others one at a time.
    pub(super) fn parameters(&self, action: &Action, actor: Actor) -> Vec<Json> {
        let own: Vec<Vec<Json>> =
            action.params.iter().map(|param| self.arguments(param, actor)).collect();
        let names = || action.params.iter().map(|param| param.name.clone());
        let plain: Vec<Json> =
            own.iter().map(|values| values.first().cloned().unwrap_or(Json::Null)).collect();
        let mut found = vec![object(names().zip(plain.iter().cloned()))];
        for (at, values) in own.iter().enumerate() {
            for value in values.iter().skip(1) {
                let mut other = plain.clone();
                other[at] = value.clone();
                found.push(object(names().zip(other)));
            }
        }
        found
    }

    fn arguments(&self, param: &Param, actor: Actor) -> Vec<Json> {
        let mut found: Vec<Json> = Vec::new();
        if let Some(default) = &param.default {
            found.push(default.clone());
        } else if param.optional {
            found.push(Json::Null);
        }
        if param.people_only && actor != Actor::Human {
            return if found.is_empty() { vec![Json::from(false)] } else { found };
        }
        let asked = self.subjects.values(&format!("params.{}", param.name));
        let asked = asked.into_iter();
        let more: Vec<Json> = match param.ty {
            ParamType::Boolean => vec![Json::from(false), Json::from(true)],
            ParamType::Integer => {
                asked.filter(|it| it.as_i64().is_some()).chain([Json::from(1)]).take(3).collect()
            }
            ParamType::String => {
                let texts = asked.filter(|it| it.as_str().is_some_and(|it| !it.is_empty()));
                texts.chain([Json::from("x")]).take(5).collect()
            }
            ParamType::File => vec![Json::from("notes.md")],
            ParamType::JsonFile => [1, 2]
                .map(|count| {
                    let list = Json::from(vec![Json::object(); count]);
                    Json::from([("path", Json::from("findings.json")), ("value", list)])
                })
                .to_vec(),
            ParamType::Value => values(&self.workflow.records, &param.value, 0),
        };
        for value in more {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    }
}

/// Who may ask for an action, each with the agent that asks.
fn askers(
    workflow: &Workflow,
    action: &Action,
    situation: &Situation,
) -> Vec<(Actor, Option<String>)> {
    let everybody = [Actor::Worker, Actor::Human];
    let by: &[Actor] = if action.by.is_empty() { &everybody } else { &action.by };
    let mut found = Vec::new();
    for actor in by {
        let role = actor.to_string();
        let is_job = matches!(actor, Actor::Worker | Actor::Reviewer) && workflow.has_agents();
        if !is_job {
            found.push((*actor, None));
            continue;
        }
        for agent in &situation.world.agents {
            let text = |name: &str| agent.get(name).and_then(Json::as_str);
            let works = agent.get("ended") == Some(&Json::from(false));
            if works && text("role") == Some(&role) {
                found.push((*actor, text("id").map(str::to_string)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_told_in_a_few_words() {
        let params =
            object([("reason".to_string(), Json::from("x")), ("to".to_string(), Json::Null)]);
        let event = Event { params, ..Event::new("advance", Actor::Human) };
        assert_eq!(Move::Event(event).to_string(), "advance by human reason=\"x\"");
        assert_eq!(Move::Event(Event::stop(None)).to_string(), "stop");
    }
}
