//! A job, as a workflow declares it, resolved.

use std::ops::Range;
use std::time::Duration;

use super::{CommandLine, Expression, TextId};
use crate::actor::Actor;
use crate::job::{CommandRun, Job, JobKind, Manner, Rights};
use crate::json::Json;

/// A job, as a workflow declares it.
#[derive(Clone, Debug)]
pub struct JobSpec {
    pub name: String,
    pub kind: JobKind,
    pub manner: Manner,
    pub about: String,
    /// Empty where the usual client is meant.
    pub run: CommandLine,
    /// The constant that has the command of a job that is bound to the tree. Where its list is empty,
    /// there is nothing to run.
    pub constant: Option<String>,
    /// Patterns of the files that the result of a job depends on that is bound to the tree, each with its place
    /// in the definition; all files where there are none.
    pub inputs: Vec<(String, Range<usize>)>,
    /// How many tests must have run at least.
    pub min_tests: Option<u64>,
    /// Patterns of files that the result of a check rests on, beside the words of its command.
    pub guards: CommandLine,
    /// What it is told on its stdin.
    pub prompt: Option<TextId>,
    /// The file that it writes.
    pub writes: Option<TextId>,
    pub model: Option<TextId>,
    pub rights: Rights,
    /// What a machine must have to take it from a queue; none where nothing is said.
    pub labels: Option<Vec<String>>,
    pub timeout: Duration,
    /// What it may ask for itself. A job without a role gets no secret, and may ask for nothing.
    pub role: Option<Actor>,
    /// One job is started for each element.
    pub each: Option<Expression>,
    /// What the rules want to know of such a job.
    pub facts: Vec<(String, Expression)>,
}

impl JobSpec {
    /// What a job is called of which a run has one at a time: `check.tests`.
    pub fn only_id(&self) -> String {
        format!("{}.{}", self.kind, self.name)
    }

    /// The texts that are rendered to start it.
    pub fn texts(&self) -> impl Iterator<Item = TextId> {
        let own = [self.prompt, self.writes, self.model].into_iter().flatten();
        self.run.texts().iter().copied().chain(own)
    }

    /// The expressions that are evaluated to start it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let facts = self.facts.iter().map(|(_, value)| value);
        self.run.expression().into_iter().chain(&self.each).chain(facts)
    }

    /// A job of this kind with its commands alone.
    pub fn job(&self, id: String, run: Vec<CommandRun>) -> Job {
        Job {
            id,
            kind: self.kind.clone(),
            name: self.name.clone(),
            manner: self.manner,
            role: self.role,
            facts: Json::object(),
            inputs: self.inputs.iter().map(|(pattern, _)| pattern.clone()).collect(),
            min_tests: self.min_tests,
            prompt: None,
            file: None,
            model: None,
            rights: self.rights,
            labels: self.labels.clone(),
            run,
            timeout: self.timeout,
        }
    }

    /// The job, where nothing of it depends on the state: a command that is bound to the tree.
    pub fn fixed(&self) -> Option<Job> {
        let CommandLine::Words(words) = &self.run else { return None };
        let run = vec![CommandRun { words: words.clone(), timeout: self.timeout }];
        Some(self.job(self.only_id(), run))
    }
}
