//! Questions to the person: an agent asks, a person answers, and the answer reaches the agent once. At a stop, a
//! question is a wait that the agent has caused (`waits`).

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::events::STOP;
use phasegate_engine::functions::filename;
use phasegate_engine::step::{Event, Step};

use super::overrule::Overruled;
use super::sessions::Standing;
use super::transaction::{Locked, Open, Then, Writes};
use super::{Found, Gate, GateError, Runs};
use crate::caller::{self, Caller};
use crate::ledger::{LastBlock, Ledger, Session};
use crate::question::{Question, cleaned};
use crate::run::RunId;
use crate::words::{self, Because, answer_for_agent};

/// Who asks the person.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// The only run in which it may ask: that of a job, or the one that is driven.
    run: Option<RunId>,
    session: Option<String>,
    /// The job that asks, by id.
    agent: Option<String>,
}

impl Runs<'_> {
    /// Who a caller is to the runs: a job of one, the agent that drives one, or a session.
    ///
    /// # Errors
    /// Where it is below a job and cannot show which.
    pub fn asker(&self, caller: &Caller, session: Option<String>) -> Result<Asker, GateError> {
        if let Some((run, id)) = &caller.agent {
            let (run, agent) = (Some(run.clone()), Some(id.clone()));
            return Ok(Asker { run, agent, session: None });
        }
        if caller::is_job_of(&self.project.root) {
            let why = "this process was started by an agent and has no token, so it may only read";
            return Err(GateError::NotPermitted(why.into()));
        }
        // A driven agent has a session of its own, which the gate never hears of.
        if let Some(folder) = caller::driven(&self.project.root) {
            let (runs, _) = self.open_runs();
            let is_driven = |run: &Found| filename(&run.id.to_string()) == folder;
            if let Some(run) = runs.into_iter().find(is_driven) {
                let owner = run.ledger.session.owner.as_ref();
                let session = owner.map(|owner| owner.session.clone());
                return Ok(Asker { run: Some(run.id), session, agent: None });
            }
        }
        Ok(Asker { run: None, session, agent: None })
    }
}

impl Gate<'_> {
    /// The run in which an agent asks: the one that it names, or the one that it works on. A standing gate that is
    /// due begins its run for that.
    ///
    /// # Errors
    /// Where there is none, or it is over or another session's.
    pub fn asking_run(&self, asker: &Asker, name: Option<&str>) -> Result<Found, GateError> {
        let session = asker.session.as_deref();
        let found = match (&asker.run, name) {
            (Some(own), Some(name)) if own.to_string() != name => {
                let why = format!("this caller works for run {own} and may ask only there");
                return Err(GateError::NotPermitted(why));
            }
            (Some(own), _) => self.run(&own.to_string())?,
            (None, Some(name)) => self.run(name)?,
            (None, None) => match self.worked_on(session) {
                Some(run) => run,
                None => self.begun_for(session)?.ok_or_else(nothing_holds)?,
            },
        };
        if asker.run.is_none() && self.standing_of(&found, session) == Standing::Foreign {
            let why = format!("run {} belongs to another session", found.id);
            return Err(GateError::NotPermitted(why));
        }
        let condition = self.report(&found).condition;
        if condition.is_over() {
            let why = format!("run {} is {condition}: nothing waits for an answer", found.id);
            return Err(GateError::NotReady(why));
        }
        Ok(found)
    }

    /// The run that a session works on: of its own the one that last sent it on, or else the one that its next
    /// stop takes.
    fn worked_on(&self, session: Option<&str>) -> Option<Found> {
        let (runs, _) = self.runs_of(session);
        let mut runs: Vec<_> = runs.into_iter().filter(|(run, _)| self.is_working(run)).collect();
        let blocked = |run: &Found| run.ledger.session.last_block.as_ref().map(since);
        // The order is kept among those that have not blocked.
        runs.sort_by_key(|(run, held)| (*held != Standing::Own, std::cmp::Reverse(blocked(run))));
        let is_near = |held: &Standing| matches!(held, Standing::Own | Standing::Free);
        runs.into_iter().find(|(_, held)| is_near(held)).map(|(run, _)| run)
    }

    /// Asks the person. What comes back is an earlier question of the same agent whose answer it has not read.
    ///
    /// # Errors
    /// Where another question waits, or the text cannot be one.
    pub fn ask_human(
        &self,
        found: &Found,
        event: &Event,
        asker: &Asker,
        text: &str,
    ) -> Result<Option<Question>, GateError> {
        let text = cleaned(text)?;
        let (before, _) = self.within(found, |mut locked| {
            if let Some(open) = locked.ledger.open_question() {
                return Err(GateError::NotReady(format!(
                    "run {} has an open question already: {:?}. Wait for its answer, or withdraw it with `phasegate \
                     ask-human --withdraw`",
                    found.id, open.text
                )));
            }
            let before = locked.ledger.session.question.take();
            let before = before.filter(|before| before.answer.is_some());
            if let Some(other) = before.as_ref().filter(|it| !asker.has_asked(it))
                && other.agent.as_ref().is_none_or(|id| is_at_work(&locked.ledger, id))
            {
                return Err(GateError::NotReady(format!(
                    "run {} has an answer for somebody else, who has not read it yet",
                    found.id
                )));
            }
            let question = Question {
                at: Timestamp::now(),
                text: text.clone(),
                session: asker.session.clone(),
                agent: asker.agent.clone(),
                answer: None,
            };
            let tells = (waiting(&found.id, &question), None);
            locked.ledger.session.question = Some(question);
            let mut writes = self.noted(locked, event, None)?;
            writes.tells = Some(tells);
            Ok(Then::Write(writes, before.filter(|before| asker.has_asked(before))))
        })?;
        Ok(before)
    }

    /// Takes an open question back; whether there was one.
    pub fn withdraw_question(
        &self,
        found: &Found,
        event: &Event,
        asker: &Asker,
    ) -> Result<bool, GateError> {
        let (was_open, _) = self.within(found, |mut locked| {
            let question = locked.ledger.session.question.take();
            if !question.is_some_and(|it| it.answer.is_none() && asker.has_asked(&it)) {
                return Ok(Then::Nothing(false));
            }
            Ok(Then::Write(self.noted(locked, event, None)?, true))
        })?;
        Ok(was_open)
    }

    /// A person answers: the question of an agent, or what a rule has the run wait for.
    ///
    /// # Errors
    /// Where nothing was asked, or it is answered already.
    pub fn answer_human(&self, found: &Found, event: &Event, text: &str) -> Result<(), GateError> {
        let text = cleaned(text)?;
        let condition = self.report(found).condition;
        if condition.is_over() {
            let why = format!("run {} is {condition} and asks nothing", found.id);
            return Err(GateError::NotReady(why));
        }
        self.within(found, |mut locked| {
            self.must_be_meant(&found.id, locked.ledger.position.seq)?;
            let ledger = &locked.ledger;
            if ledger.answered_question().is_some() {
                return Err(GateError::NotReady(format!(
                    "run {} has your answer already, and the agent has not read it yet. Send the agent a message",
                    found.id
                )));
            }
            let asked = ledger.open_question().cloned().or_else(|| asked_by_rule(ledger));
            let Some(asked) = asked else {
                let why = match &ledger.session.question {
                    Some(_) => "the agent that asked has ended",
                    None => "it has not asked anything",
                };
                return Err(GateError::NotReady(format!("run {}: {why}", found.id)));
            };
            locked.ledger.session.question = Some(Question { answer: Some(text.clone()), ..asked });
            Ok(Then::Write(self.noted(locked, event, None)?, ()))
        })?;
        Ok(())
    }

    /// Gives the answer to the agent that has asked, once.
    pub fn collect_answer(
        &self,
        found: &Found,
        event: &Event,
        asker: &Asker,
    ) -> Result<Option<Question>, GateError> {
        let is_there = |ledger: &Ledger| {
            ledger.answered_question().is_some_and(|question| asker.has_asked(question))
        };
        if !is_there(&found.ledger) {
            return Ok(None);
        }
        let (question, _) = self.within(found, |mut locked| {
            if !is_there(&locked.ledger) {
                return Ok(Then::Nothing(None));
            }
            let question = locked.ledger.session.question.take();
            Ok(Then::Write(self.noted(locked, event, Some(GIVEN))?, question))
        })?;
        Ok(question)
    }

    /// Hears of a session's question where its client tells of the session: an answer is told to the agent, if the
    /// client passes it on; and a person who speaks to the agent has closed an open question by that.
    pub(super) fn hear_of_question(
        &self,
        found: &Found,
        heard: &Event,
        is_prompt: bool,
        is_passed_on: bool,
    ) -> Result<Option<String>, GateError> {
        let concerns = |question: &Question| match &question.answer {
            Some(_) => is_passed_on && question.agent.is_none(),
            None => is_prompt && question.is_of(heard.session.as_deref()),
        };
        if !found.ledger.session.question.as_ref().is_some_and(concerns) {
            return Ok(None);
        }
        let (told, _) = self.within(found, |mut locked| {
            let question = locked.ledger.session.question.take();
            let Some(question) = question.filter(concerns) else { return Ok(Then::Nothing(None)) };
            let told = question.answer.as_ref();
            let told = told.map(|answer| answer_for_agent(&question.text, answer));
            let note = if told.is_some() { GIVEN } else { CLOSED };
            Ok(Then::Write(self.noted(locked, heard, Some(note))?, told))
        })?;
        Ok(told)
    }

    /// The ledger as it was changed, and a line about the event.
    fn noted(
        &self,
        locked: Locked,
        event: &Event,
        note: Option<&str>,
    ) -> Result<Box<Writes>, GateError> {
        let mut line = self.line_in_place(locked.found, event, &Answer::accepted())?;
        line.notes.extend(note.map(str::to_string));
        Ok(locked.note(line))
    }
}

/// What the journal says where an agent gets its answer.
const GIVEN: &str = "the agent was told the person's answer";

/// What the journal says where a person has spoken to the agent instead of answering.
const CLOSED: &str = "the person has spoken to the agent, which closes its question";

impl Asker {
    /// Whether a question is this one's.
    pub fn has_asked(&self, question: &Question) -> bool {
        question.is_by(self.agent.as_deref(), self.session.as_deref())
    }
}

/// The answer that lets an agent stop while the person has not answered.
pub(super) fn waiting(run: &RunId, question: &Question) -> Answer {
    let told = words::sentence(&run.to_string(), "", Because::Asked(&question.text));
    Answer::waiting(Until::Human, told)
}

/// Puts the person's answer in front of what the agent is told at a stop; whether there is one. The caller drops the
/// question once it is certain that the agent hears it.
pub(super) fn put_answer(open: &mut Open, event: &Event, step: &mut Step) -> bool {
    let question = open.run.ledger.answered_question().filter(|it| it.agent.is_none());
    let Some(question) = question else { return false };
    let answer = question.answer.clone().unwrap_or_default();
    let reply = Overruled::Reply { question: question.text.clone(), answer };
    open.overrule(event, step, reply)
}

/// Drops the question of a run that has ended; what the person should know about that.
pub(super) fn drop_question(run: &RunId, session: &mut Session) -> Option<String> {
    let answer = session.question.take()?.answer?;
    Some(format!("run {run} has ended before the agent has read your answer: {answer}"))
}

/// What a rule has the run wait for, as a question.
fn asked_by_rule(ledger: &Ledger) -> Option<Question> {
    let session = &ledger.session;
    let last = session.last.as_ref().filter(|_| waits_for_person(session))?;
    let text = last.answer.text().unwrap_or("What now?").to_string();
    let text = cleaned(&text).unwrap_or(text);
    Some(Question { at: last.at, text, session: None, agent: None, answer: None })
}

/// Whether the last stop was let go until a person does something.
pub(super) fn waits_for_person(session: &Session) -> bool {
    let last = session.last.as_ref().filter(|last| last.event == STOP);
    let is_for_person = |answer: &Answer| {
        matches!(
            answer,
            Answer::Allow { outcome: Some(Outcome::Waiting), until: Some(Until::Human), .. }
        )
    };
    session.paused.is_none() && last.is_some_and(|last| is_for_person(&last.answer))
}

fn is_at_work(ledger: &Ledger, job: &str) -> bool {
    ledger.work.jobs.get(job).is_some_and(|job| !job.is_over())
}

fn since(block: &LastBlock) -> Timestamp {
    block.since
}

fn nothing_holds() -> GateError {
    GateError::NotReady(
        "no run holds this session, so nothing would wait for the answer: ask the person in your \
         last message, and stop"
            .into(),
    )
}
