//! The agents of a run: recorded with the step that wants them, started after it, and settled by
//! whoever looks at the run next. Every start and every end is an event, on every path the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use jiff::Timestamp;
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params;
use phasegate_engine::digest::digest;
use phasegate_engine::events::{AGENT_EXITED, AGENT_STARTED};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Effect, Event};
use phasegate_engine::workflow::Workflow;

use super::errands::{NO_LIMIT, Progress};
use super::transaction::Then;
use super::{Found, Gate, GateError, Runs};
use crate::agents::{self, Ended, Record, Seen};
use crate::caller::{self, Caller};
use crate::checks::{Checks, Ran};
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::variables;
use crate::world::{ClientReport, World};

/// How often what agents do may lead to other agents, for one look at a run.
const MAX_ROUNDS: usize = 16;

/// What is to be put to the rules about an agent.
enum News {
    Started(Timestamp),
    Exited(Option<Timestamp>, Ended),
}

impl Runs<'_> {
    /// Who gives a command: an agent with its secret, an agent inside a client, or a person.
    ///
    /// # Errors
    /// Where a secret is shown that is nobody's, or no longer anybody's.
    pub fn caller(&self) -> Result<Caller, GateError> {
        match std::env::var(variables::TOKEN) {
            Ok(token) => self.caller_with(&token),
            Err(_) => Ok(Caller { actor: caller::actor(), agent: None }),
        }
    }

    /// Who holds a token.
    ///
    /// # Errors
    /// Where it is nobody's, or no longer anybody's.
    pub fn caller_with(&self, token: &str) -> Result<Caller, GateError> {
        let (run, id, actor) = self.identify(token)?;
        Ok(Caller { actor, agent: Some((run, id)) })
    }

    /// The agent that a token proves its holder to be, and its run.
    pub fn identify(&self, token: &str) -> Result<(RunId, String, Actor), GateError> {
        let unknown = || {
            GateError::NotPermitted("the token does not belong to an agent of this project".into())
        };
        let (secret, run, id) = agents::parts(token).ok_or_else(unknown)?;
        let run = RunId::try_from(run.to_string()).map_err(|_| unknown())?;
        let (ledger, _) = self.peek(&run);
        let agent = ledger.work.agents.get(id).filter(|agent| agent.knows(secret));
        let agent = agent.ok_or_else(unknown)?;
        if agent.is_over() || ledger.session.cancelled.is_some() {
            return Err(GateError::NotPermitted(format!("agent {id} of run {run} has ended")));
        }
        Ok((run, id.to_string(), agent.role))
    }

    /// What a decision about a run can look up.
    pub(super) fn world(
        &self,
        workflow: &Workflow,
        ledger: &Ledger,
        told: &ClientReport,
        fresh: &BTreeMap<String, Ran>,
    ) -> Arc<World> {
        let mut world = World::of(self.project, told.clone()).with_agents(&ledger.work.agents);
        // Who is not trusted has no checks: not even a look at the tree runs for him.
        let looks = !workflow.checks.is_empty() || workflow.has_agents();
        if looks && self.is_trusted(workflow) {
            let checks = Checks::new(&self.project.root, workflow);
            world = world.with_checks(checks.knowing(&ledger.work.checks, fresh));
        }
        Arc::new(world)
    }

    /// An agent of a run, as it was recorded.
    pub fn agent(&self, run: &RunId, id: &str) -> Option<Record> {
        self.peek(run).0.work.agents.get(id).cloned()
    }

    /// The agents of a run as they are now: one whose supervisor is gone is lost, also where the rules
    /// have not heard of that yet.
    pub fn agents_of(&self, found: &Found) -> IndexMap<String, Record> {
        let mut agents = found.ledger.work.agents.clone();
        for agent in agents.values_mut().filter(|agent| !agent.is_over()) {
            if let Ok(Seen::Lost(since, ended) | Seen::Ended(since, ended)) =
                agent.look(&self.project.root)
            {
                agent.started = agent.started.or(since);
                agent.ended = Some(ended);
            }
        }
        agents
    }

    /// The agents of all runs, by run.
    pub fn agents(&self) -> Vec<(RunId, IndexMap<String, Record>)> {
        let runs = self.runs().runs;
        let runs = runs.into_iter().filter(|run| !run.ledger.work.agents.is_empty());
        runs.map(|run| (run.id.clone(), self.agents_of(&run))).collect()
    }
}

impl Gate<'_> {
    /// Settles a run, by its name, for a supervisor whose agent has ended or a driver that waits.
    pub fn settle_run(&self, name: &str) -> Result<(), GateError> {
        let mut found = self.run(name)?;
        self.settle(&mut found)
    }

    /// Puts what has become of the agents of several runs to their rules; what failed.
    pub(super) fn settle_all(&self, runs: &mut [Found]) -> Vec<String> {
        let settled = runs.iter_mut().filter_map(|run| Some((self.settle(run).err()?, run)));
        settled.map(|(error, run)| format!("run {}: {error}", run.id)).collect()
    }

    /// Puts what has become of a run's agents to its rules, and starts those that wait for it.
    pub(super) fn settle(&self, found: &mut Found) -> Result<(), GateError> {
        for _ in 0..MAX_ROUNDS {
            if found.ledger.work.agents.values().all(Record::is_over) {
                return Ok(());
            }
            let started = self.start_waiting(found)?;
            for record in &started {
                record.await_start(&self.project.root);
            }
            let ids: Vec<String> = found.ledger.work.agents.keys().cloned().collect();
            let mut heard = false;
            for id in ids {
                heard |= self.hear_of(found, &id)?;
            }
            self.refresh(found);
            if !heard && started.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The same, for a run in which something has just happened.
    pub(super) fn settle_now(&self, found: &Found) -> Result<(), GateError> {
        let mut found = found.clone();
        self.refresh(&mut found);
        self.settle(&mut found)
    }

    fn refresh(&self, found: &mut Found) {
        (found.ledger, found.version) = self.peek(&found.id);
    }

    /// Starts agents that were recorded and that nobody has started yet.
    fn start_waiting(&self, found: &Found) -> Result<Vec<Record>, GateError> {
        let root = &self.project.root;
        let failed = |error: std::io::Error| GateError::Other(format!("run {}: {error}", found.id));
        let new = |agent: &Record| agent.started.is_none() && !agent.is_over();
        // What is started below an agent would end with it.
        if !self.supervises && caller::is_supervised() {
            return Ok(Vec::new());
        }
        if !found.ledger.work.agents.values().any(new) {
            return Ok(Vec::new());
        }
        // The secret is known before the agent can show it.
        let (starting, _) = self.within(found, |mut locked| {
            let mut starting = Vec::new();
            if locked.ledger.session.cancelled.is_some() {
                return Ok(Then::Nothing(starting));
            }
            for (id, agent) in locked.ledger.work.agents.iter_mut().filter(|(_, agent)| new(agent))
            {
                if let Some(lock) = agent.claim(root).map_err(failed)? {
                    let secret = agents::secret().map_err(failed)?;
                    agent.secret = digest(secret.as_bytes());
                    agent.starts += 1;
                    starting.push((id.clone(), agent.clone(), secret, lock));
                }
            }
            Ok(if starting.is_empty() {
                Then::Nothing(starting)
            } else {
                Then::Write(locked.keep(), starting)
            })
        })?;
        let mut started = Vec::new();
        for (id, agent, secret, lock) in starting {
            agent.start(root, &found.id, &id, &secret, lock).map_err(failed)?;
            started.push(agent);
        }
        Ok(started)
    }

    /// Puts the start or the end of an agent to the rules, if they have not heard of it.
    fn hear_of(&self, found: &Found, id: &str) -> Result<bool, GateError> {
        let mut any = false;
        // An agent that ends at once has started, too.
        while self.hear_once(found, id)? {
            any = true;
        }
        Ok(any)
    }

    fn hear_once(&self, found: &Found, id: &str) -> Result<bool, GateError> {
        let heard = self.put(found, NO_LIMIT, |errands, mut open| {
            let unconcerned = || Ok(Then::Nothing(Progress::Done(None)));
            let Some(agent) = open.run.ledger.work.agents.get_mut(id) else { return unconcerned() };
            let Some(news) = news(agent, self)? else { return unconcerned() };
            let event = tell(agent, id, news);
            let cost = agent.ended.as_ref().map_or(0, |ended| ended.micro_dollars);
            let over = open.run.ledger.session.cancelled.is_some();
            let spent = &mut open.run.ledger.work.tally.micro_dollars;
            *spent = spent.saturating_add(cost);
            let mut step = self.decide(&mut open, &event, &ClientReport::default(), errands);
            if over {
                step.undo(Answer::accepted());
            } else if step.unheard {
                // What a workflow has no rule for has happened all the same.
                step.answer = Answer::accepted();
            }
            if let Some(then) = self.missing(&mut open, errands, &event, &mut step)? {
                return Ok(then);
            }
            let new = open.written(&step);
            self.commit(open, &event, step, new, errands)
        });
        match heard {
            Ok(heard) => Ok(heard.is_some()),
            Err(GateError::Over | GateError::Gone(..)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes down the agents that a step starts and ends.
    pub(super) fn enlist(
        &self,
        run: &RunId,
        by: Actor,
        ledger: &mut Ledger,
        effects: &[Effect],
    ) -> Result<(), GateError> {
        for effect in effects {
            match effect {
                Effect::Start(agent) => {
                    let record = Record::new(&self.project.root, run, agent);
                    let record = record.map_err(|error| {
                        GateError::Effect(format!("agent {} cannot be started: {error}", agent.id))
                    })?;
                    ledger.work.agents.insert(agent.id.clone(), record);
                }
                Effect::End(id) => {
                    let agent = ledger.work.agents.get_mut(id);
                    let agent = agent.ok_or_else(|| {
                        GateError::Effect(format!("there is no agent {id:?} in run {run}"))
                    })?;
                    agent.ended_by = Some(by);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the agents that a step wants ended, now that it counts.
    pub(super) fn dismiss(&self, ledger: &Ledger, effects: &[Effect]) {
        let ended = effects.iter().filter_map(|effect| match effect {
            Effect::End(id) => ledger.work.agents.get(id),
            _ => None,
        });
        self.end_all(ended.collect());
    }

    /// Ends agents, all at once, and sees them end.
    pub(super) fn end_all(&self, agents: Vec<&Record>) {
        let open: Vec<&Record> = agents.into_iter().filter(|agent| !agent.is_over()).collect();
        for agent in &open {
            agent.ask_to_end(&self.project.root);
        }
        for agent in &open {
            agent.await_end(&self.project.root);
        }
    }
}

/// What the rules have not heard of an agent.
fn news(agent: &Record, gate: &Gate) -> Result<Option<News>, GateError> {
    if agent.is_over() {
        return Ok(None);
    }
    let seen = agent.look(&gate.project.root);
    Ok(match seen? {
        Seen::Working(since) if agent.started.is_none() => Some(News::Started(since)),
        Seen::Ended(Some(since), _) if agent.started.is_none() => Some(News::Started(since)),
        Seen::Ended(since, ended) => Some(News::Exited(since, ended)),
        Seen::Lost(since, ended) => {
            agent.end_leftovers(&gate.project.root);
            Some(News::Exited(since, ended))
        }
        Seen::Waiting | Seen::Starting | Seen::Working(_) => None,
    })
}

/// Notes the news, and makes it an event.
fn tell(agent: &mut Record, id: &str, news: News) -> Event {
    let (name, members) = match news {
        News::Started(since) => {
            agent.started = Some(since);
            (AGENT_STARTED, Vec::new())
        }
        News::Exited(since, ended) => {
            agent.started = agent.started.or(since);
            let code = ended.exit_code.map_or(Json::Null, |code| Json::from(i64::from(code)));
            let members = vec![
                ("status".to_string(), Json::from(ended.status.as_str())),
                ("exit_code".to_string(), code),
                ("end".to_string(), Json::from(ended.words.as_str())),
            ];
            agent.ended = Some(ended);
            (AGENT_EXITED, members)
        }
    };
    let agent = Some(id.to_string());
    Event { agent, params: params(members), ..Event::new(name, Actor::Engine) }
}
