//! What is told of a run without a decision: its texts, its phase, and what could be asked for now.

use std::sync::Arc;

use super::{Deciding, Fault, RunFacts};
use crate::evidence::{Evidence, GivenEvidence, Recorder};
use crate::functions::environment;
use crate::json::Json;
use crate::step::Event;
use crate::workflow::{TextId, Workflow};

/// Renders one of the workflow's texts about a document, or about one that does not exist yet.
///
/// # Errors
/// Where a hole of the text cannot be filled.
pub fn render(
    workflow: &Workflow,
    text: TextId,
    document: Option<Json>,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
) -> Result<String, Fault> {
    let recorder = Arc::new(Recorder::new(evidence));
    let env = environment(&recorder, &workflow.records);
    let exists = document.is_some();
    let document = document.unwrap_or_else(Json::object);
    let mut deciding = Deciding::new(workflow, &env, &recorder, document, event, run);
    if exists {
        deciding.declare()?;
    }
    deciding.text(text)
}

/// Patterns of the files that the results of a workflow's checks rest on.
///
/// # Errors
/// Where one of them cannot be told.
pub fn guards(
    workflow: &Workflow,
    document: Json,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
) -> Result<Vec<String>, Fault> {
    let recorder = Arc::new(Recorder::new(evidence));
    let env = environment(&recorder, &workflow.records);
    let mut deciding = Deciding::new(workflow, &env, &recorder, document, event, run);
    deciding.declare()?;
    deciding.guards()
}

/// What programs are told about a run with every answer: what the workflow says, or its phase and what
/// could be asked for now.
///
/// # Errors
/// Where a hole of the workflow's text cannot be filled, or it does not become an object.
pub fn guidance(
    workflow: &Workflow,
    document: Json,
    event: &Event,
    run: &RunFacts,
    evidence: Arc<dyn Evidence>,
) -> Result<Json, Fault> {
    let recorder = Arc::new(Recorder::new(evidence));
    let env = environment(&recorder, &workflow.records);
    let mut deciding = Deciding::new(workflow, &env, &recorder, document, event, run);
    deciding.declare()?;
    let Some(text) = workflow.guidance else {
        let phase = deciding.phase()?;
        let about = phase.about.as_deref().map_or(Json::Null, Json::from);
        let name = Json::from(phase.name.to_string());
        let own = Json::from([("status", name), ("action", about), ("can", deciding.can()?)]);
        return Ok(Json::from([("guidance", own)]));
    };
    let text = deciding.text(text)?;
    let parsed = Json::parse(text.as_bytes());
    parsed.map_err(|error| Fault::new(format!("the guidance did not become JSON: {error}")))
}

/// The phase that a document is in; empty where it names none.
pub fn phase_name(workflow: &Workflow, document: &Json) -> String {
    let machine = workflow.outer();
    if machine.derive.is_some() {
        let recorder = Arc::new(Recorder::new(Arc::new(GivenEvidence::default())));
        let env = environment(&recorder, &workflow.records);
        let (event, run) = (Event::stop(None), RunFacts::default());
        let mut deciding = Deciding::new(workflow, &env, &recorder, document.clone(), &event, &run);
        let phase = deciding.declare().and_then(|()| deciding.phase());
        return phase.map(|phase| phase.name.to_string()).unwrap_or_default();
    }
    match document.get(&machine.field) {
        Some(phase) => phase.as_str().unwrap_or_default().to_string(),
        None => machine.initial.map(|id| machine.get(id).name.to_string()).unwrap_or_default(),
    }
}
