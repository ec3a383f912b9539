//! What may be asked with: parameters that the rules tell apart, alone and together.

use super::values::values;
use super::{Model, Move};
use crate::actor::Actor;
use crate::definition::ParamType;
use crate::functions::object;
use crate::json::Json;
use crate::step::Event;
use crate::workflow::{Action, Does, Expression, Machine, NewValue, Param};

/// How many agents are named in a parameter: of several, the first.
const MAX_AGENTS: usize = 1;

impl Model<'_> {
    /// Parameters with which something may be asked: the plainest, and each of the others one at a time.
    pub(super) fn parameters(
        &self,
        action: &Action,
        actor: Actor,
        all: bool,
        agents: &[Json],
    ) -> Vec<Json> {
        let own: Vec<Vec<Json>> = action
            .params
            .iter()
            .map(|param| {
                let mut own = self.arguments(param, actor, agents);
                if !all && !param.people_only || !self.is_asked(&param.name) {
                    own.truncate(1);
                }
                own
            })
            .collect();
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

    /// The other keys of a constant that has the default of a parameter among its keys.
    fn siblings(&self, default: Option<&Json>) -> Vec<Json> {
        let Some(default) = default.and_then(Json::as_str) else { return Vec::new() };
        let constants = self.workflow.constants.iter();
        let maps = constants.filter_map(|(_, value)| match value {
            Json::Object(members) if members.get(default).is_some() => Some(members),
            _ => None,
        });
        maps.flat_map(|map| map.iter().map(|(key, _)| Json::from(&**key))).collect()
    }

    /// Whether a parameter is looked for in a list, as an agent is among others.
    fn is_sought(&self, param: &str) -> bool {
        let ways = [format!("params.{param} in "), format!("params.{param} not in ")];
        self.workflow.guards().any(|guard| ways.iter().any(|it| guard.text.contains(it)))
    }

    /// Texts with which guards compare a fact that is derived from a parameter.
    fn compared(&self, param: &str) -> Vec<Json> {
        let (member, got) = (format!("params.{param}"), format!("params.get('{param}'"));
        let reads = |it: &&Expression| it.text.contains(&member) || it.text.contains(&got);
        let facts = self.workflow.machines.iter().flat_map(Machine::facts);
        let derived = facts.filter(|(.., by)| by.iter().any(&reads));
        let mut found: Vec<Json> = Vec::new();
        for (name, ..) in derived {
            let compared = format!("{name} == '");
            for guard in self.workflow.guards() {
                // Behind each comparison comes the text, up to its quotation mark.
                for rest in guard.text.split(compared.as_str()).skip(1) {
                    let text = Json::from(rest.split('\'').next().unwrap_or_default());
                    if !found.contains(&text) {
                        found.push(text);
                    }
                }
            }
        }
        found
    }

    /// Whether a parameter decides anything: a guard, a fact or what is set reads it.
    fn is_asked(&self, param: &str) -> bool {
        let (member, got) = (format!("params.{param}"), format!("params.get('{param}'"));
        let reads = |text: &str| text.contains(&member) || text.contains(&got);
        let sets = self.workflow.rules().flat_map(|(_, rule)| &rule.set);
        let mut sets = sets.map(|set| match &set.value {
            NewValue::Literal(_) => "",
            NewValue::Expression(expression) => &expression.text,
            NewValue::Rendered(text) => &self.workflow.texts[text.0].text,
        });
        let begins = |action: &Action| match action.does {
            Does::Create { document, .. } => reads(&self.workflow.texts[document.0].text),
            Does::Show { .. } | Does::Event => false,
        };
        self.workflow.guards().any(|guard| reads(&guard.text))
            || sets.any(reads)
            || self.workflow.actions.iter().any(begins)
    }

    fn arguments(&self, param: &Param, actor: Actor, agents: &[Json]) -> Vec<Json> {
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
                let numbers = asked.filter(|it| it.as_i64().is_some());
                numbers.chain([1, 2].map(Json::from)).take(4).collect()
            }
            ParamType::String => {
                let texts = asked.filter(|it| it.as_str().is_some_and(|it| !it.is_empty()));
                let known =
                    texts.chain(self.compared(&param.name)).chain(self.siblings(found.first()));
                let ids = agents.iter().filter(|_| self.is_sought(&param.name)).take(MAX_AGENTS);
                let ids = ids.filter_map(|agent| agent.get("id").cloned());
                known.take(8).chain(["x", ""].map(Json::from)).chain(ids).collect()
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

/// What was asked, and whether it was accepted.
pub type Tried = (Move, bool);

/// Parameters that are accepted only together: what was refused alone is asked again on top of the others that are accepted.
/// `ask` asks, and says whether it was accepted.
pub fn together(tried: &[Tried], mut ask: impl FnMut(Event) -> bool) {
    let mut groups: Vec<Group> = Vec::new();
    for (step, accepted) in tried {
        let Move::Event(event) = step else { continue };
        let same = |it: &&mut Group| {
            let plain = it.plain;
            (&plain.name, plain.actor, &plain.agent, &plain.session)
                == (&event.name, event.actor, &event.agent, &event.session)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.others.push((event, *accepted)),
            None => groups.push(Group { plain: event, accepted: *accepted, others: Vec::new() }),
        }
    }
    for group in groups.iter().filter(|group| group.others.len() > 1) {
        group.widen(&mut ask);
    }
}

/// One action of one asker: with the plainest parameters, and with one of them changed at a time.
struct Group<'t> {
    plain: &'t Event,
    accepted: bool,
    others: Vec<(&'t Event, bool)>,
}

/// A parameter and its value.
type Given = (String, Json);

impl Group<'_> {
    fn widen(&self, ask: &mut impl FnMut(Event) -> bool) {
        let single = |event: &Event| -> Option<Given> {
            let Json::Object(members) = &event.params else { return None };
            let plain = |name: &str| self.plain.params.get(name);
            let given = members.iter().find(|(name, value)| plain(name) != Some(value));
            given.map(|(name, value)| (name.to_string(), value.clone()))
        };
        let singles = self.others.iter().filter_map(|(event, ok)| Some((single(event)?, *ok)));
        let (mut accepted, mut refused): (Vec<Given>, Vec<Given>) = Default::default();
        for (given, ok) in singles {
            if ok { accepted.push(given) } else { refused.push(given) }
        }
        if !self.accepted {
            // What the plainest lacks is given with everything else.
            let Some(base) = accepted.first().cloned() else { return };
            accepted.truncate(1);
            for given in std::mem::take(&mut refused) {
                let ok = given.0 != base.0 && ask(self.with([&base, &given]));
                if ok { accepted.push(given) } else { refused.push(given) }
            }
        }
        let mut all: Vec<&Given> = Vec::new();
        for given in &accepted {
            if all.iter().all(|known| known.0 != given.0) {
                all.push(given);
            }
        }
        // On top of what the plainest lacks everything was asked already.
        if all.len() > usize::from(!self.accepted) {
            for given in &refused {
                let beside = all.iter().copied().filter(|known| known.0 != given.0);
                ask(self.with(beside.chain([given])));
            }
        }
    }

    fn with<'g>(&self, given: impl IntoIterator<Item = &'g Given>) -> Event {
        let mut event = self.plain.clone();
        for (name, value) in given {
            if let Some(place) = event.params.at_mut([name.as_str()]) {
                *place = value.clone();
            }
        }
        event
    }
}
