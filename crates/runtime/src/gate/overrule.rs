//! Why the gate gives another answer than the rules: each reason with the facts that it rests on, and what comes of them.
//!
//! What is asked of git, of the client and of the ledger is asked before. The rest is decided on those facts alone, so that a line
//! which the gate has answered can be decided again as well as one which the rules have.

use jiff::Timestamp;
use phasegate_engine::answer::{Answer, Outcome, Until};
use phasegate_engine::definition::{OnTamper, Reentry};
use phasegate_engine::job::{Bound, Gives};
use phasegate_engine::step::{Effect, Event, Step};
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use super::caused::Caused;
use crate::governor::{Limits, Situation, Tally};
use crate::ledger::LastBlock;
use crate::words::{Because, answer_for_agent, sentence};

/// A reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overruled {
    /// In plan mode nobody has asked an agent to work or to judge.
    PlanMode,
    /// Another hook's block caused the stop: whether the client says that it follows one, and whether that was ours.
    OtherHook { after_block: Option<bool>, ours: bool },
    /// The agent was told to go on, and nothing has changed since.
    Unchanged { after_block: Option<bool>, last: Box<LastBlock>, tree_changed: bool },
    /// The agent itself has caused a wait.
    Waits(Box<Caused>),
    /// The run was tampered with, and how.
    Withheld { change: String },
    /// The person has answered what the agent has asked.
    Reply { question: String, answer: String },
    /// A limit is reached.
    Limit(Box<Counted>),
    /// No more reviews may be made, with what was used up.
    Reviews { tally: Box<Tally>, limits: Limits },
}

/// What the governor is asked about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// What the run had used up before.
    pub(super) tally: Tally,
    pub(super) limits: Limits,
    pub(super) now: Timestamp,
    /// When the run last answered.
    pub(super) answered: Option<Timestamp>,
    pub(super) after_block: Option<bool>,
    /// The block that the agent works on.
    pub(super) last: Option<LastBlock>,
    pub(super) tree_changed: bool,
    pub(super) used_tools: Option<bool>,
    pub(super) client_cap: Option<(u64, bool)>,
    /// The state after the step, without the time of the change, if a phase was left.
    pub(super) state: Option<String>,
}

impl Counted {
    /// What the run has used up then, the answer to give instead if a limit is reached, and warnings of limits that are near.
    pub(super) fn count(&self, at: &At, step: &Step) -> (Tally, Option<Answer>, Vec<String>) {
        let mut tally = self.tally.clone();
        let Answer::Block { reason } = &step.answer else { return (tally, None, Vec::new()) };
        let is_unmoved = |last: &LastBlock| !last.moved_on(at.before, &step.readings);
        let unmoved = self.last.as_ref().filter(|last| is_unmoved(last));
        let situation = Situation {
            now: self.now,
            last: self.answered,
            // Who does not say whether a stop follows a block, is taken by our own last answer.
            fresh: self.after_block.map_or(self.last.is_none(), |after| !after),
            moved_on: unmoved.is_none() || self.tree_changed,
            used_tools: self.used_tools,
            // Whether an agent has worked in between is not known where the client says nothing.
            client_cap: self.client_cap.filter(|(_, on_all)| *on_all || self.after_block.is_some()),
            reason,
            patience: u64::from(at.workflow.patience),
            state: self.state.clone(),
        };
        let (answer, warnings) = tally.count(at.run, &self.limits, &situation);
        (tally, answer, warnings)
    }
}

/// What a step is about.
pub(super) struct At<'a> {
    pub(super) run: &'a str,
    pub(super) workflow: &'a Workflow,
    pub(super) event: &'a Event,
    /// The digest of the document before it.
    pub(super) before: &'a str,
}

impl Overruled {
    /// Gives the step another answer; whether it does.
    pub(super) fn apply(&self, at: &At, step: &mut Step) -> bool {
        let At { run, workflow, before, .. } = *at;
        let (is_block, judges) = (step.answer.is_block(), judges(step));
        match self {
            Overruled::PlanMode if starts_agent(step) => {
                let why = sentence(run, &step.to, Because::PlanMode);
                step.undo(Answer::waiting(Until::Human, why));
            }
            Overruled::OtherHook { after_block, ours }
                if (is_block || judges) && foreign_loop(workflow.reentry, *after_block, *ours) =>
            {
                let why = sentence(run, &step.to, Because::OtherHook);
                instead(step, judges, Answer::waiting(Until::External, why));
            }
            Overruled::Unchanged { after_block, last, tree_changed }
                if is_block
                    && is_stuck(workflow, *after_block, last, before, step)
                    && !tree_changed =>
            {
                let message = sentence(run, &step.to, Because::Unchanged);
                step.let_go(Answer::allow_saying(Outcome::Stuck, message));
            }
            Overruled::Waits(caused) if is_block || judges => {
                let Some(answer) = caused.answer(run, &step.to).1 else { return false };
                instead(step, judges, answer);
            }
            Overruled::Withheld { change } if step.answer.outcome() == Some(Outcome::Done) => {
                return withhold(at, change, step);
            }
            Overruled::Reply { question, answer } => {
                let Answer::Block { reason } = &mut step.answer else { return false };
                *reason = format!("{}\n\n{reason}", answer_for_agent(question, answer));
            }
            Overruled::Limit(counted) => {
                let Some(answer) = counted.count(at, step).1 else { return false };
                step.let_go(answer);
            }
            Overruled::Reviews { tally, limits } if judges => {
                let Some(answer) = tally.clone().count_review(run, limits).0 else { return false };
                instead(step, true, answer);
            }
            _ => return false,
        }
        true
    }
}

/// Gives another answer than a block, or than what would have been answered after a verdict.
fn instead(step: &mut Step, judges: bool, answer: Answer) {
    if judges {
        step.wants = None;
        step.answer = answer;
    } else {
        step.let_go(answer);
    }
}

/// Does not let a run end as done that was tampered with.
fn withhold(at: &At, change: &str, step: &mut Step) -> bool {
    let reason = || {
        let run = at.run;
        format!(
            "Run {run} cannot end: {change}. A person has to look at that first, and was told how. Leave the state \
             document to Phasegate."
        )
    };
    match at.workflow.on_tamper {
        OnTamper::Rules => return false,
        OnTamper::Tell => {
            let told = sentence(at.run, &step.to, Because::Tampered(change));
            step.answer = Answer::waiting(Until::Human, told);
        }
        OnTamper::Hold if at.event.is_question() => step.undo(Answer::Block { reason: reason() }),
        OnTamper::Hold => step.undo(Answer::deny_as("tampered", reason())),
    }
    true
}

/// Whether insisting would only repeat itself, unless a file has changed.
pub(super) fn is_stuck(
    workflow: &Workflow,
    after_block: Option<bool>,
    last: &LastBlock,
    before: &str,
    step: &Step,
) -> bool {
    after_block != Some(false)
        && workflow.reentry == Reentry::Progress
        && last.blocks >= workflow.patience
        && !last.moved_on(before, &step.readings)
}

/// Whether another hook's block caused the stop, so that it is not ours to answer.
pub(super) fn foreign_loop(reentry: Reentry, after_block: Option<bool>, ours: bool) -> bool {
    after_block == Some(true)
        && match reentry {
            Reentry::Always => false,
            Reentry::Never => true,
            Reentry::Progress => !ours,
        }
}

/// Whether a step wants a verdict.
pub(super) fn judges(step: &Step) -> bool {
    step.wants.as_ref().is_some_and(|job| job.manner.gives == Gives::Verdict)
}

/// Whether a step has an agent begin to work or to judge. In plan mode nobody has asked for that.
pub(super) fn starts_agent(step: &Step) -> bool {
    step.wants.as_ref().is_some_and(|job| job.manner.bound != Bound::Tree)
        || step.effects.iter().any(|effect| matches!(effect, Effect::Start(_)))
}

/// The reasons of one step, in order, and the answer that they have led to.
#[derive(Default)]
pub(super) struct Reasons {
    all: Vec<Overruled>,
    answer: Option<Answer>,
}

impl Reasons {
    /// Notes why a step was given the answer that it has now.
    pub(super) fn note(&mut self, why: Overruled, step: &Step) {
        self.all.push(why);
        self.answer = Some(step.answer.clone());
    }

    /// The reasons that explain an answer; none where something else has changed it since.
    pub(super) fn of(&self, answer: &Answer) -> &[Overruled] {
        if self.answer.as_ref() == Some(answer) { &self.all } else { &[] }
    }
}
