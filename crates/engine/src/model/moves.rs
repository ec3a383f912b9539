//! What may happen next: the agent changes what agents can change, a job ends, a person acts, time passes.

use std::fmt;

use super::values::values;
use super::{Model, Situation};
use crate::actor::Actor;
use crate::events::{
    EventKind, JOB_ENDED, JOB_STARTED, PRE_COMPACT, STOP, TASK_COMPLETED, TEAMMATE_IDLE,
};
use crate::glob;
use crate::json::Json;
use crate::step::Event;
use crate::types::Type;
use crate::workflow::{Action, Does, Workflow};

/// How many files that match one pattern an agent writes.
const MAX_FILES: usize = 6;

/// The session that the agent works in, and one that it does not.
const OWN_SESSION: &str = "session-1";
const OTHER_SESSION: &str = "session-2";

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

    /// The name of the event that it is, if it is one.
    pub(super) fn event(&self) -> Option<&String> {
        match self {
            Move::Event(event) => Some(&event.name),
            _ => None,
        }
    }

    /// Whether it is an agent that wants to stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Move::Event(event) if event.name == STOP)
    }
}

impl Move {
    /// As it can be typed, with the whole of its text.
    pub fn typed(&self) -> String {
        match self {
            Move::Write(path, text) => format!("write {path}: {}", text_of(text)),
            Move::Say(text) => format!("say {}", text_of(text)),
            Move::Edit(path, value) => {
                format!("set state.{} = {}", path.join("."), value.to_text(None).trim_end())
            }
            other => other.to_string(),
        }
    }

    /// The change of a fact that was typed: `write A: "x"`, `remove A`, `say "Done."`, `set state.a = 1`, `change the tree`,
    /// `a day goes by`; none where it is something else.
    pub fn parse(typed: &str) -> Option<Move> {
        let text = |typed: &str| {
            let json = Json::parse(typed.as_bytes()).ok();
            json.and_then(|it| it.as_str().map(str::to_string)).unwrap_or(typed.to_string())
        };
        match typed.split_once(' ')? {
            ("write", rest) => {
                let (path, content) = rest.split_once(": ")?;
                Some(Move::Write(path.to_string(), text(content)))
            }
            ("remove", path) => Some(Move::Remove(path.to_string())),
            ("say", said) => Some(Move::Say(text(said))),
            ("set", rest) => {
                let (path, value) = rest.strip_prefix("state.")?.split_once(" = ")?;
                let value = Json::parse(value.as_bytes()).ok()?;
                Some(Move::Edit(path.split('.').map(str::to_string).collect(), value))
            }
            _ if typed == Move::Work.to_string() => Some(Move::Work),
            _ if typed == Move::Wait.to_string() => Some(Move::Wait),
            _ => None,
        }
    }
}

fn text_of(text: &str) -> String {
    Json::from(text).to_text(None).trim_end().to_string()
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
                if event.kind() == EventKind::Action && event.agent.is_none() {
                    write!(out, " by {}", event.actor)?;
                    if event.session.is_some() {
                        out.write_str(" of another session")?;
                    }
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
    /// Events that may come now: a stop, what else the client tells, the ends of jobs, and what can be asked. Where the run is
    /// over, only what its final phase still hears.
    pub fn events(&self, situation: &Situation) -> Vec<Move> {
        let workflow = self.workflow;
        let mut found = Vec::new();
        if !situation.over {
            let session = self.tells_sessions.then(|| OWN_SESSION.to_string());
            found.push(Event { session, ..Event::new(STOP, Actor::Worker) });
            let told = [
                (PRE_COMPACT, Actor::Engine),
                (TASK_COMPLETED, Actor::Worker),
                (TEAMMATE_IDLE, Actor::Worker),
            ];
            let told = told.into_iter().filter(|(name, _)| workflow.hears(name));
            found.extend(told.map(|(name, actor)| Event::new(name, actor)));
            found.extend(self.news(situation));
        }
        for action in workflow.actions.iter().filter(|it| workflow.hears(&it.name)) {
            // Where every run has a document of its own, what begins one is about another run.
            let is_own = !workflow.document.contains('*') || workflow.presumed.is_some();
            match action.does {
                Does::Create { .. } if !is_own => continue,
                Does::Show { .. } => continue,
                _ if situation.over && !self.is_heard_at_end(situation, &action.name) => continue,
                Does::Create { .. } | Does::Event => {}
            }
            let askers = askers(workflow, action, situation);
            for (index, (actor, agent)) in askers.iter().cloned().enumerate() {
                // Who asks after another may give what only people give; the rest was asked for by that one.
                let is_first = askers[..index].iter().all(|(other, _)| *other == actor);
                let agents = &situation.world.agents;
                for params in self.parameters(action, actor, is_first, agents) {
                    let event = Event::new(&action.name, actor);
                    let event = Event { params, agent: agent.clone(), ..event };
                    if situation.world.owner.is_some() {
                        let session = Some(OTHER_SESSION.to_string());
                        found.push(Event { session, ..event.clone() });
                    }
                    found.push(event);
                }
            }
        }
        found.into_iter().map(Move::Event).collect()
    }

    /// Whether a run that has come to its final phase still hears of an event.
    fn is_heard_at_end(&self, situation: &Situation, event: &str) -> bool {
        let outer = self.workflow.outer();
        let phase = outer.phase(&self.phase(situation)).map(|id| outer.get(id));
        phase.is_some_and(|phase| {
            let mut rules = outer.rules_in(phase);
            phase.ends.is_some() && rules.any(|rule| rule.on.iter().any(|on| on == event))
        })
    }

    /// What the agent, or the world, may change of what was looked up.
    pub fn changes(&self, situation: &Situation, queries: &[String]) -> Vec<Move> {
        let world = &situation.world;
        let mut found = Vec::new();
        if situation.over {
            return found;
        }
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
                "tree" | "snapshot" | "changes" => works |= world.tree < MAX_TREES,
                "changed" => {
                    works |= world.tree < MAX_TREES;
                    let folder = rest.strip_prefix("files ").unwrap_or(rest);
                    found.extend(self.another(situation, &format!("{folder}/*.txt")));
                }
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
    use crate::functions::object;

    #[test]
    fn moves_are_told_in_a_few_words() {
        let params =
            object([("reason".to_string(), Json::from("x")), ("to".to_string(), Json::Null)]);
        let event = Event { params, ..Event::new("advance", Actor::Human) };
        assert_eq!(Move::Event(event).to_string(), "advance by human reason=\"x\"");
        assert_eq!(Move::Event(Event::stop(None)).to_string(), "stop");
    }

    #[test]
    fn what_is_typed_is_the_move_that_is_told() {
        for typed in [
            "write a b/c.md: \"x: \\n\"",
            "remove a b",
            "say \"Done.\"",
            "set state.a.b = {\"c\":[1]}",
            "change the tree",
            "a day goes by",
        ] {
            assert_eq!(Move::parse(typed).map(|it| it.typed()).as_deref(), Some(typed));
        }
        assert_eq!(Move::parse("say Done.").map(|it| it.typed()).as_deref(), Some("say \"Done.\""));
        for other in ["stop", "write A", "set phase = 1", "set state.a = ", "nonsense it is"] {
            assert!(Move::parse(other).is_none(), "{other}");
        }
    }
}
