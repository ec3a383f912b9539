//! The jobs of a workflow: five words for usual kinds, and jobs that say themselves what they are.

use toml::Spanned;

use super::Resolver;
use crate::definition::{
    AgentText, CheckText, CommandLineText, CommandText, Definition, JobText, PassesText,
    ReviewerText, WorkerText,
};
use crate::evidence::contained;
use crate::job::{self, Bound, Gives, JobKind, Manner, Rights};
use crate::json::Json;
use crate::step::Actor;
use crate::workflow::{CommandLine, JobSpec, TextId};

/// What every job has already, so that no fact can be called that.
const OWN: [&str; 6] = ["id", "kind", "role", "status", "ended", "ok"];

/// What a command is told that has nothing to run.
const EMPTY: &str = "`run` is empty: it names a program and its arguments";

/// A job as rules can name it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) kind: JobKind,
    pub(super) name: String,
    /// The event that wants it waits for its end.
    pub(super) waits: bool,
}

/// The names of a definition's jobs, in the order in which they are resolved.
pub(super) fn names(definition: &Definition) -> Vec<Named> {
    fn of<T>(kind: JobKind, jobs: &[(Spanned<String>, T)]) -> impl Iterator<Item = Named> {
        let waits = Manner::of(&kind).waits;
        jobs.iter().map(move |(name, _)| Named {
            kind: kind.clone(),
            name: name.get_ref().clone(),
            waits,
        })
    }
    let own = definition.jobs.iter().map(|(name, text)| Named {
        kind: own_kind(text),
        name: name.get_ref().clone(),
        waits: text.waits,
    });
    of(JobKind::Check, &definition.checks)
        .chain(of(JobKind::Command, &definition.commands))
        .chain(of(JobKind::Reviewer, &definition.reviewers))
        .chain(of(JobKind::Worker, &definition.workers))
        .chain(of(JobKind::Agent, &definition.agents))
        .chain(own)
        .collect()
}

fn own_kind(text: &JobText) -> JobKind {
    JobKind::Other(text.kind.clone().unwrap_or_else(|| "job".into()))
}

impl Resolver<'_> {
    /// All jobs, in the order of [`names`].
    pub(super) fn jobs(
        &mut self,
        definition: &Definition,
        constants: &[(String, Json)],
        rights: Option<Rights>,
    ) -> Vec<JobSpec> {
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for (name, text) in &definition.checks {
            jobs.push(self.check(name, text, constants));
        }
        for (name, text) in &definition.commands {
            jobs.push(self.command(name, text));
        }
        for (name, text) in &definition.reviewers {
            jobs.push(self.reviewer(name, text));
        }
        for (name, text) in &definition.workers {
            jobs.push(self.worker(name, text));
        }
        for (name, text) in &definition.agents {
            jobs.push(self.agent(name, text));
        }
        for (name, text) in &definition.jobs {
            jobs.push(self.job(name, text, constants));
        }
        if let Some(rights) = rights {
            for job in &mut jobs {
                job.rights = rights;
            }
        }
        jobs
    }

    /// A job of which nothing is known but its kind.
    fn blank(&mut self, kind: JobKind, name: &Spanned<String>, timeout: Option<&str>) -> JobSpec {
        let timeout = job::timeout(timeout).unwrap_or_else(|message| {
            // Where the table of the job has it.
            let table = format!("{kind}.{}", name.get_ref());
            let span = Some(self.source.key(&table, "timeout")).filter(|span| span.end > 0);
            let span = span.unwrap_or_else(|| name.span());
            self.found.error("shape", self.source, span, message).hint =
                Some("a time is a text with a unit: \"30s\", \"10m\", \"1h\"".into());
            std::time::Duration::ZERO
        });
        JobSpec {
            name: name.get_ref().clone(),
            manner: Manner::of(&kind),
            kind,
            about: String::new(),
            run: CommandLine::Texts(Vec::new()),
            constant: None,
            inputs: Vec::new(),
            min_tests: None,
            guards: CommandLine::Texts(Vec::new()),
            prompt: None,
            writes: None,
            model: None,
            rights: Rights::Least,
            labels: None,
            timeout,
            role: None,
            each: None,
            facts: Vec::new(),
        }
    }

    fn check(
        &mut self,
        name: &Spanned<String>,
        text: &CheckText,
        constants: &[(String, Json)],
    ) -> JobSpec {
        let job = self.blank(JobKind::Check, name, text.timeout.as_deref());
        let (run, constant) = self.fixed(&text.run, constants);
        let (inputs, min_tests) = (self.inputs(&text.inputs), self.min_tests(name, text.passes));
        let guards = self.command_line(text.guards.as_ref());
        let about = text.about.clone();
        let labels = self.labels(name, text.labels.as_ref());
        JobSpec { about, run, constant, inputs, min_tests, guards, labels, ..job }
    }

    fn command(&mut self, name: &Spanned<String>, text: &CommandText) -> JobSpec {
        if text.run.is_empty() {
            self.error(name.span(), "shape", EMPTY);
        }
        let parts = text.run.iter().map(|part| self.hole(part)).collect();
        let job = self.blank(JobKind::Command, name, text.timeout.as_deref());
        JobSpec { run: CommandLine::Texts(parts), ..job }
    }

    fn reviewer(&mut self, name: &Spanned<String>, text: &ReviewerText) -> JobSpec {
        let prompt = Some(self.prompt(&text.prompt));
        let writes = Some(self.hole(&text.writes));
        let model = text.model.as_ref().map(|model| self.hole(model));
        let run = self.command_line(text.run.as_ref());
        let job = self.blank(JobKind::Reviewer, name, text.timeout.as_deref());
        let labels = self.labels(name, text.labels.as_ref());
        let rights = text.rights.unwrap_or_default();
        JobSpec { run, prompt, writes, model, rights, labels, ..job }
    }

    fn worker(&mut self, name: &Spanned<String>, text: &WorkerText) -> JobSpec {
        let prompt = Some(self.prompt(&text.prompt));
        let run = self.command_line(Some(&text.run));
        let job = self.blank(JobKind::Worker, name, text.timeout.as_deref());
        let labels = self.labels(name, text.labels.as_ref());
        JobSpec { run, prompt, rights: text.rights.unwrap_or_default(), labels, ..job }
    }

    fn agent(&mut self, name: &Spanned<String>, text: &AgentText) -> JobSpec {
        let role = Some(text.role);
        self.role(name, role);
        let prompt = Some(self.prompt(&text.prompt));
        let model = text.model.as_ref().map(|model| self.hole(model));
        let run = self.command_line(text.run.as_ref());
        let each = text.each.as_ref().map(|each| self.expression(each));
        let facts = self.facts(name, &text.facts);
        let job = self.blank(JobKind::Agent, name, text.timeout.as_deref());
        let rights = text.rights.unwrap_or_default();
        let labels = self.labels(name, text.labels.as_ref());
        JobSpec { run, prompt, model, rights, labels, role, each, facts, ..job }
    }

    fn job(
        &mut self,
        name: &Spanned<String>,
        text: &JobText,
        constants: &[(String, Json)],
    ) -> JobSpec {
        let JobText { gives, bound, waits, alone, .. } = *text;
        let kind = own_kind(text);
        let mut refuse = |wrong: bool, message: &str| {
            if wrong {
                self.error(name.span(), "shape", message);
            }
        };
        let word = kind.to_string();
        let is_usual = !matches!(JobKind::from(word.clone()), JobKind::Other(_));
        refuse(
            is_usual,
            &format!("`{word}` has a table of its own: `[{word}.{}]`", name.get_ref()),
        );
        refuse(
            gives == Gives::Verdict && (text.writes.is_none() || text.prompt.is_none()),
            "a job that gives a verdict has a `prompt`, and `writes` the file that it judges in",
        );
        refuse(alone && !waits, "a job in the background is not `alone`: add `waits = true`");
        refuse(
            bound == Bound::Tree && !waits,
            "a job whose result holds for the tree is waited for: add `waits = true`",
        );
        refuse(
            bound != Bound::Tree && !(text.inputs.is_empty() && text.passes.is_none()),
            "only a job whose result holds for the tree has `inputs` and `passes`: add `bound = \"tree\"`",
        );
        refuse(waits && text.each.is_some(), "only jobs in the background are started for `each`");
        refuse(text.run.is_none() && text.prompt.is_none(), "it needs `run`, or a `prompt`");
        self.role(name, text.role);
        let (run, constant) = match &text.run {
            Some(run) if bound == Bound::Tree => self.fixed(run, constants),
            run => (self.command_line(run.as_ref()), None),
        };
        let prompt = text.prompt.as_ref().map(|prompt| self.prompt(prompt));
        let writes = text.writes.as_ref().map(|writes| self.hole(writes));
        let model = text.model.as_ref().map(|model| self.hole(model));
        let each = text.each.as_ref().map(|each| self.expression(each));
        let facts = self.facts(name, &text.facts);
        let (about, role) = (text.about.clone(), text.role);
        let manner = Manner { gives, bound, waits, alone };
        let job = self.blank(kind, name, text.timeout.as_deref());
        let rights = text.rights.unwrap_or_default();
        let (inputs, min_tests) = (self.inputs(&text.inputs), self.min_tests(name, text.passes));
        let job = JobSpec { manner, about, run, constant, prompt, writes, model, rights, ..job };
        let labels = self.labels(name, text.labels.as_ref());
        JobSpec { inputs, min_tests, labels, role, each, facts, ..job }
    }

    /// Patterns of files of the project.
    fn inputs(&mut self, texts: &[Spanned<String>]) -> Vec<(String, std::ops::Range<usize>)> {
        for text in texts {
            if let Err(why) = contained(text.get_ref()) {
                let message = format!("an input is a file of the project: {why}");
                self.error(text.span(), "shape", message);
            }
        }
        texts.iter().map(|text| (text.get_ref().clone(), text.span())).collect()
    }

    /// Words that a machine is described with.
    fn labels(
        &mut self,
        name: &Spanned<String>,
        labels: Option<&Vec<String>>,
    ) -> Option<Vec<String>> {
        if let Some(bad) = labels.and_then(|all| all.iter().find(|label| !job::is_label(label))) {
            let message = format!(
                "{bad:?} is not a label: it is a word of letters, digits, `-`, `_` and `.`"
            );
            self.error(name.span(), "shape", message);
        }
        labels.cloned()
    }

    fn min_tests(&mut self, name: &Spanned<String>, passes: Option<PassesText>) -> Option<u64> {
        let min_tests = passes?.min_tests;
        if min_tests == 0 {
            self.error(name.span(), "shape", "`min_tests` is at least 1");
        }
        Some(min_tests)
    }

    fn role(&mut self, name: &Spanned<String>, role: Option<Actor>) {
        if !matches!(role, None | Some(Actor::Worker | Actor::Reviewer)) {
            self.error(name.span(), "shape", "an agent is a `worker` or a `reviewer`");
        }
    }

    fn facts(
        &mut self,
        name: &Spanned<String>,
        facts: &indexmap::IndexMap<String, Spanned<String>>,
    ) -> Vec<(String, crate::workflow::Expression)> {
        if let Some(taken) = facts.keys().find(|fact| OWN.contains(&fact.as_str())) {
            self.error(name.span(), "name", format!("every agent has a `{taken}` already"));
        }
        facts.iter().map(|(name, value)| (name.clone(), self.expression(value))).collect()
    }

    fn hole(&mut self, text: &Spanned<String>) -> TextId {
        self.inline(text.get_ref().clone(), self.source.clone(), text.span())
    }

    /// The words of a command that is the same in every state, and the constant that has them.
    fn fixed(
        &mut self,
        text: &Spanned<CommandLineText>,
        constants: &[(String, Json)],
    ) -> (CommandLine, Option<String>) {
        match text.get_ref() {
            CommandLineText::Texts(parts) => {
                if parts.is_empty() {
                    self.error(text.span(), "shape", EMPTY);
                }
                (CommandLine::Words(parts.clone()), None)
            }
            CommandLineText::Expression(constant) => {
                let known = constants.iter().find(|(known, _)| known == constant);
                let list = match known {
                    Some((_, Json::List(list))) => Some(&list.0),
                    _ => None,
                };
                let words = list.and_then(|words| {
                    words.iter().map(|word| word.as_str().map(str::to_string)).collect()
                });
                let words = words.unwrap_or_else(|| {
                    let message = format!("`{constant}` is not a constant with a list of texts");
                    let words: Vec<String> =
                        constant.split_whitespace().map(|word| format!("{word:?}")).collect();
                    let hint = format!(
                        "no shell reads a command, so write a list: `run = [{}]`",
                        words.join(", ")
                    );
                    self.found.error("shape", self.source, text.span(), message).hint = Some(hint);
                    Vec::new()
                });
                (CommandLine::Words(words), Some(constant.clone()))
            }
        }
    }

    fn command_line(&mut self, text: Option<&Spanned<CommandLineText>>) -> CommandLine {
        match text.map(|text| (text.get_ref(), text.span())) {
            None => CommandLine::Texts(Vec::new()),
            Some((CommandLineText::Texts(parts), span)) => {
                let parts = parts.iter();
                let parts =
                    parts.map(|part| self.inline(part.clone(), self.source.clone(), span.clone()));
                CommandLine::Texts(parts.collect())
            }
            Some((CommandLineText::Expression(list), span)) => {
                CommandLine::Expression(self.expression(&Spanned::new(span, list.clone())))
            }
        }
    }
}
