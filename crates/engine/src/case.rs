//! Cases: given a state, evidence and an event, expect an answer. They prove a workflow, row by
//! row, and say which rules no case has reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use crate::answer::{Answer, Outcome, Until};
use crate::check::CheckResult;
use crate::decide::{RunFacts, decide};
use crate::definition::Bundle;
use crate::diagnostic::Source;
use crate::evidence::GivenEvidence;
use crate::json::Json;
use crate::step::{Actor, Agent, Effect, Event, Step};
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
    pub case: Vec<Case>,
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
    /// What came of checks, by name.
    #[serde(default)]
    pub check: BTreeMap<String, CheckResult>,
    /// What the tree is known by.
    pub tree: Option<String>,
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
    /// Why the state is presumed.
    pub problem: Option<String>,
    pub expect: Expect,
}

impl Case {
    fn stop() -> String {
        "stop".into()
    }

    fn worker() -> Actor {
        Actor::Worker
    }
}

/// What a case expects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub decision: Decision,
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
    /// The review that is asked for.
    pub review: Option<ExpectReview>,
    /// The ids of the agents that are started, and of those that are ended.
    #[serde(default)]
    pub starts: Vec<String>,
    #[serde(default)]
    pub ends: Vec<String>,
    /// What programs know the refusal by.
    pub code: Option<String>,
    /// Texts that the prompt of each agent contains.
    #[serde(default)]
    pub prompts: Vec<String>,
}

/// A review that a case expects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectReview {
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
}

/// Runs all cases of a bundle.
pub fn run_cases(workflow: &Workflow, bundle: &Bundle) -> Vec<CaseResult> {
    let mut results = Vec::new();
    for (path, source) in &bundle.files {
        if path.starts_with("cases/") {
            match toml::from_str::<CaseFile>(&source.text) {
                Ok(file) => {
                    results.extend(
                        file.case.iter().map(|case| run_case(workflow, &file, case, source)),
                    );
                }
                Err(error) => results.push(CaseResult {
                    file: source.name.to_string(),
                    name: "the file".into(),
                    differences: vec![error.to_string()],
                    fired: Vec::new(),
                }),
            }
        }
    }
    results
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

fn run_case(workflow: &Workflow, file: &CaseFile, case: &Case, source: &Arc<Source>) -> CaseResult {
    let result = |differences, fired| CaseResult {
        file: source.name.to_string(),
        name: case.name.clone(),
        differences,
        fired,
    };
    match play(workflow, file, case) {
        Ok(step) => {
            let differences = compare(&case.expect, &step);
            result(differences, step.trace.fired)
        }
        Err(problem) => result(vec![problem], Vec::new()),
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
        agents: case.agents.as_ref().map_or(Ok(Json::Null), |text| parse("agents", text))?,
    };
    let mut configured = workflow.clone();
    for (name, value) in &case.constants {
        let known = configured.constants.iter_mut().find(|(known, _)| known == name);
        known.ok_or(format!("there is no constant {name}"))?.1 = parse(name, value)?;
    }
    let params = case.params.as_ref().map_or(Ok(Json::object()), |text| parse("params", text))?;
    let event = Event { agent: case.agent.clone(), params, ..Event::new(&case.event, case.actor) };
    let place = workflow.document_of("case");
    let problem = case.problem.clone();
    let (name, reviews, tampered) = ("case".into(), case.reviews, case.tampered);
    let run = RunFacts { name, document: place, problem, reviews, tampered };
    Ok(decide(&configured, document, &event, &run, Arc::new(evidence)))
}

fn compare(expect: &Expect, step: &Step) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, expected: String, actual: String| {
        if expected != actual {
            found.push(format!("{what}: expected {expected}, got {actual}"));
        }
    };
    let text = step.answer.text().unwrap_or_default();
    let decision = match step.answer {
        Answer::Block { .. } => Decision::Block,
        Answer::Allow { .. } => Decision::Allow,
        Answer::Deny { .. } => Decision::Deny,
    };
    if decision != expect.decision {
        let actual = format!("{} ({text})", step.answer);
        differs("decision", format!("{:?}", expect.decision).to_uppercase(), actual);
    }
    if let Some(outcome) = expect.outcome {
        let actual = step.answer.outcome().map_or("none".into(), |outcome| outcome.to_string());
        differs("outcome", outcome.to_string(), actual);
    }
    if let Some(until) = expect.until {
        let actual = match &step.answer {
            Answer::Allow { until, .. } => *until,
            _ => None,
        };
        differs(
            "until",
            until.to_string(),
            actual.map_or("none".into(), |until| until.to_string()),
        );
    }
    if let Some(phase) = &expect.phase {
        differs("phase", phase.clone(), step.to.clone());
    }
    if let Some(changed) = expect.changed {
        differs("changed", changed.to_string(), step.changed.to_string());
    }
    if let Some(whole) = &expect.text {
        differs("text", format!("{whole:?}"), format!("{text:?}"));
    }
    for part in &expect.says {
        if !text.contains(part.as_str()) {
            differs("says", format!("{part:?}"), format!("{text:?}"));
        }
    }
    match (&expect.review, &step.review) {
        (None, None) => {}
        (None, Some(asked)) => differs("review", "none".into(), asked.reviewer.clone()),
        (Some(expected), None) => differs("review", expected.by.clone(), "none".into()),
        (Some(expected), Some(asked)) => {
            differs("review", expected.by.clone(), asked.reviewer.clone());
            if let Some(file) = &expected.file {
                differs("review's file", file.clone(), asked.file.clone());
            }
            if let Some(model) = &expected.model {
                differs("model", model.clone(), asked.model.clone().unwrap_or_default());
            }
            for part in expected.says.iter().filter(|part| !asked.prompt.contains(part.as_str())) {
                differs("prompt", format!("{part:?}"), format!("{:?}", asked.prompt));
            }
        }
    }
    let starts = step.effects.iter().filter_map(|effect| match effect {
        Effect::Start(agent) => Some(&**agent),
        _ => None,
    });
    let starts: Vec<&Agent> = starts.collect();
    let ids = starts.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ");
    differs("starts", expect.starts.join(", "), ids);
    for part in &expect.prompts {
        for agent in starts.iter().filter(|agent| !agent.prompt.contains(part.as_str())) {
            differs("prompt", format!("{part:?}"), format!("{:?}", agent.prompt));
        }
    }
    let ends = step.effects.iter().filter_map(|effect| match effect {
        Effect::End(id) => Some(id.as_str()),
        _ => None,
    });
    differs("ends", expect.ends.join(", "), ends.collect::<Vec<_>>().join(", "));
    if let Some(code) = &expect.code {
        let actual = match &step.answer {
            Answer::Deny { code, .. } => code.clone(),
            _ => None,
        };
        differs("code", code.clone(), actual.unwrap_or_else(|| "none".into()));
    }
    for (path, value) in &expect.state {
        let expected = Json::parse(value.as_bytes());
        let actual = step.document.at(path.split('.'));
        let shown =
            actual.map_or("nothing".into(), |actual| actual.to_text(None).trim().to_string());
        match expected {
            Ok(expected) if Some(&expected) == actual => {}
            Ok(expected) => differs(path, expected.to_text(None).trim().to_string(), shown),
            Err(error) => differs(path, format!("JSON ({error} in {value})"), shown),
        }
    }
    found
}
