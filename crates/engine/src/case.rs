//! Cases: given a state, evidence and an event, expect an answer. They prove a workflow, row by
//! row, and say which rules no case has made fire.

mod compare;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use crate::answer::{Outcome, Until};
use crate::changes::Changes;
use crate::check::CheckResult;
use crate::decide::{RunFacts, decide};
use crate::definition::Bundle;
use crate::diagnostic::Source;
use crate::events::STOP;
use crate::evidence::GivenEvidence;
use crate::json::Json;
use crate::step::{Actor, Event, Step};
use crate::workflow::Workflow;

/// A file of cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The state document that the cases start from, as JSON.
    #[serde(default)]
    pub state: Option<String>,
    /// Files that every case finds.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub case: Vec<Case>,
    /// Mutants that no case can kill.
    #[serde(default)]
    pub equivalent: Vec<Equivalent>,
}

/// A mutant that is known to decide as the original does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equivalent {
    /// The rule's label, as `phasegate mutate` prints it.
    pub rule: String,
    /// The rule's guard, so that the row does not come to excuse another rule when rules are added.
    pub when: Option<String>,
    /// What is changed, as `phasegate mutate` prints it.
    pub change: String,
    /// Why nobody can tell the difference.
    pub why: String,
}

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// The state document, as JSON, instead of the file's.
    pub state: Option<String>,
    /// Changes to it, by path, as JSON.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// Files beside those of the file.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    pub now: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub last_message: Option<String>,
    /// The results of checks, by name.
    #[serde(default)]
    pub check: BTreeMap<String, CheckResult>,
    /// What the tree is known by, and what the files are kept under.
    pub tree: Option<String>,
    /// What has changed since the files were kept.
    pub changes: Option<Changes>,
    /// What the files would be kept under with a patch applied; it does not apply without it.
    pub applied: Option<String>,
    /// Values of constants, as the configuration gives them: JSON.
    #[serde(default, rename = "const")]
    pub constants: BTreeMap<String, String>,
    /// The agents of the run: JSON, a list of objects.
    pub agents: Option<String>,
    /// The agent that the event is about, or that asks.
    pub agent: Option<String>,
    /// Who asks.
    #[serde(default = "Case::worker")]
    pub actor: Actor,
    #[serde(default = "Case::stop")]
    pub event: String,
    pub params: Option<String>,
    /// How many reviews were begun in the run.
    #[serde(default)]
    pub reviews: u64,
    /// How often somebody else has changed a protected field.
    #[serde(default)]
    pub tampered: u64,
    /// How many of those changes a person has accepted.
    #[serde(default)]
    pub accepted: u64,
    /// Why the state is presumed.
    pub problem: Option<String>,
    /// The session that asks, the one that owns the run, and when that last gave a sign of life.
    pub session: Option<String>,
    pub owner: Option<String>,
    pub seen: Option<String>,
    /// The review that ended last.
    pub last_review: Option<LastReview>,
    /// The properties whose `pass` has held before, by name.
    #[serde(default)]
    pub passed: Vec<String>,
    /// Why no agent is started any more.
    pub spent: Option<String>,
    pub expect: Expect,
}

impl Case {
    fn stop() -> String {
        STOP.into()
    }

    fn worker() -> Actor {
        Actor::Worker
    }
}

/// A review that has ended, in a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastReview {
    pub file: String,
    pub verdict: Option<String>,
}

/// What a case expects. Answers, texts and states are compared where they are named; what a step
/// does to the world is compared always, so that no case passes over a command that it did not
/// mention.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub decision: Decision,
    /// The outcome of an ALLOW. Without it, any but `fault`: a decision that could not be made is
    /// what no case expects by accident.
    pub outcome: Option<Outcome>,
    pub until: Option<Until>,
    /// Texts that the reason or message contains.
    #[serde(default)]
    pub says: Vec<String>,
    /// The whole reason or message.
    pub text: Option<String>,
    pub phase: Option<String>,
    /// Values of the state document after the step, by path, as JSON.
    #[serde(default)]
    pub state: BTreeMap<String, String>,
    /// Whether the document changes at all.
    pub changed: Option<bool>,
    /// What programs know the refusal by. Without it, any but `fault`.
    pub code: Option<String>,
    /// The review that is asked for.
    pub review: Option<ExpectJob>,
    /// The work that is asked for.
    pub work: Option<ExpectJob>,
    /// Another job that the event waits for.
    pub job: Option<ExpectJob>,
    /// The ids of the background jobs that are started and ended.
    #[serde(default)]
    pub starts: Vec<String>,
    #[serde(default)]
    pub ends: Vec<String>,
    /// Texts that the prompt of each agent contains.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// Commands that run, in order.
    #[serde(default)]
    pub run: Vec<Vec<String>>,
    /// Places that are written, and a text that what is written there contains.
    #[serde(default)]
    pub write: BTreeMap<String, String>,
    /// Files that are moved, and where to.
    #[serde(default, rename = "move")]
    pub moved: BTreeMap<String, String>,
    /// Whether the state document is removed.
    #[serde(default)]
    pub remove: bool,
    /// Texts that the lines added to the workflow's transcript contain; any lines without it.
    #[serde(default)]
    pub append: Vec<String>,
}

/// A job that a case expects its event to wait for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectJob {
    pub by: String,
    pub file: Option<String>,
    pub model: Option<String>,
    /// Texts that the prompt contains.
    #[serde(default)]
    pub says: Vec<String>,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    Block,
    Allow,
    Deny,
}

/// How a case went.
#[derive(Clone, Debug)]
pub struct CaseResult {
    pub file: String,
    pub name: String,
    /// What differs from what was expected; empty for a pass.
    pub differences: Vec<String>,
    /// Labels of the rules that fired.
    pub fired: Vec<String>,
    /// Labels of the rules that were tried; none where there were too many to list.
    pub(crate) tried: Option<Vec<String>>,
}

impl CaseResult {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

/// The cases of a workflow, read once and run as often as one likes.
#[derive(Clone, Debug)]
pub struct Cases {
    files: Vec<(Arc<Source>, Result<CaseFile, String>)>,
}

/// A case, in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaseIn<'c> {
    source: &'c Source,
    file: &'c CaseFile,
    case: &'c Case,
}

impl Cases {
    /// The cases of a bundle.
    pub fn of(bundle: &Bundle) -> Cases {
        let files = bundle.files.iter().filter(|(path, _)| path.starts_with("cases/"));
        let files = files.map(|(_, source)| {
            let file = toml::from_str(&source.text).map_err(|error| error.to_string());
            (source.clone(), file)
        });
        Cases { files: files.collect() }
    }

    /// The cases of one text.
    pub(crate) fn parse(text: &str) -> Cases {
        let file = toml::from_str(text).map_err(|error| error.to_string());
        Cases { files: vec![(Source::new("cases", text.to_string()), file)] }
    }

    /// Runs all of them. A file that cannot be read counts as a case that failed.
    pub fn run(&self, workflow: &Workflow) -> Vec<CaseResult> {
        let unreadable = self.files.iter().filter_map(|(source, file)| {
            let error = file.as_ref().err()?;
            Some(CaseResult {
                file: source.name.to_string(),
                name: "the file".into(),
                differences: vec![error.clone()],
                fired: Vec::new(),
                tried: None,
            })
        });
        unreadable.chain(self.each().map(|case| case.run(workflow))).collect()
    }

    /// The mutants that are listed as equivalent.
    pub(crate) fn equivalent(&self) -> impl Iterator<Item = &Equivalent> {
        let files = self.files.iter().filter_map(|(_, file)| file.as_ref().ok());
        files.flat_map(|file| &file.equivalent)
    }

    /// The files that cases find, with their texts.
    pub(crate) fn evidence(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter().filter_map(|(_, file)| file.as_ref().ok());
        files.flat_map(|file| {
            let own = file.case.iter().flat_map(|case| &case.files);
            file.files.iter().chain(own).map(|(path, text)| (path.as_str(), text.as_str()))
        })
    }

    /// What agents say in cases.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().filter_map(|(_, file)| file.as_ref().ok());
        files.flat_map(|file| file.case.iter().filter_map(|case| case.last_message.as_deref()))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = CaseIn<'_>> {
        self.files.iter().flat_map(|(source, file)| {
            let file = file.as_ref().ok();
            let cases =
                file.into_iter().flat_map(|file| file.case.iter().map(move |it| (file, it)));
            cases.map(|(file, case)| CaseIn { source, file, case })
        })
    }
}

/// Rules that no case made fire. Rules that only ask an inner machine are covered by its rules.
pub fn uncovered(workflow: &Workflow, results: &[CaseResult]) -> Vec<String> {
    workflow
        .rules()
        .filter(|(_, rule)| rule.ask.is_none())
        .filter(|(_, rule)| {
            !results.iter().any(|result| result.fired.iter().any(|fired| **fired == *rule.label))
        })
        .map(|(_, rule)| format!("{} (line {})", rule.label, rule.line))
        .collect()
}

impl CaseIn<'_> {
    pub(crate) fn run(&self, workflow: &Workflow) -> CaseResult {
        let CaseIn { source, file, case } = *self;
        let played = play(workflow, file, case);
        let (differences, fired, tried) = match played {
            Ok(step) => {
                let tried = step.trace.tried.iter().map(|tried| tried.rule.clone()).collect();
                let tried = (step.trace.more == 0).then_some(tried);
                (compare::differences(&case.expect, &step), step.trace.fired, tried)
            }
            Err(problem) => (vec![problem], Vec::new(), None),
        };
        let (file, name) = (source.name.to_string(), case.name.clone());
        CaseResult { file, name, differences, fired, tried }
    }
}

fn play(workflow: &Workflow, file: &CaseFile, case: &Case) -> Result<Step, String> {
    let parse = |what: &str, text: &str| {
        Json::parse(text.as_bytes()).map_err(|error| format!("{what} is not JSON: {error}"))
    };
    let state = case.state.as_ref().or(file.state.as_ref()).ok_or("the case has no state")?;
    let mut document = parse("the state", state)?;
    for (path, value) in &case.with {
        let value = parse(path, value)?;
        let place = document.at_mut(path.split('.')).ok_or(format!("there is no place {path}"))?;
        *place = value;
    }
    let files = file.files.iter().chain(&case.files);
    let now = match &case.now {
        Some(now) => now.parse().map_err(|error| format!("now: {error}"))?,
        None => Timestamp::UNIX_EPOCH,
    };
    let evidence = GivenEvidence {
        files: files.map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect(),
        now,
        variables: case.env.clone(),
        last_message: case.last_message.clone(),
        checks: case.check.clone(),
        tree: case.tree.clone(),
        changes: case.changes.clone(),
        applied: case.applied.clone(),
        agents: case.agents.as_ref().map_or(Ok(Json::Null), |text| parse("agents", text))?,
        ..GivenEvidence::default()
    };
    let mut configured = Cow::Borrowed(workflow);
    for (name, value) in &case.constants {
        let known = configured.to_mut().constants.iter_mut().find(|(known, _)| known == name);
        known.ok_or(format!("there is no constant {name}"))?.1 = parse(name, value)?;
    }
    let params = case.params.as_ref().map_or(Ok(Json::object()), |text| parse("params", text))?;
    let session = case.session.clone();
    let event =
        Event { agent: case.agent.clone(), session, params, ..Event::new(&case.event, case.actor) };
    let event = event.unaliased();
    let place = workflow.document_of("case");
    let problem = case.problem.clone();
    let (name, reviews, tampered) = ("case".into(), case.reviews, case.tampered);
    let seen = case.seen.as_ref().map(|seen| seen.parse()).transpose();
    let seen = seen.map_err(|error| format!("seen: {error}"))?;
    let last_review = case.last_review.as_ref().map(|it| (it.file.clone(), it.verdict.clone()));
    let (owner, spent, passed) = (case.owner.clone(), case.spent.clone(), case.passed.clone());
    let facts =
        RunFacts { name, document: place, problem, reviews, tampered, ..RunFacts::default() };
    let unaccepted = tampered.saturating_sub(case.accepted);
    let run = RunFacts { unaccepted, owner, seen, last_review, spent, passed, ..facts };
    Ok(decide(&configured, document, &event, &run, Arc::new(evidence)))
}
