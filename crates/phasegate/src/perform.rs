//! Carries out an action of a workflow. The command line and the MCP server both come here; each says
//! what was done in its own words.

use std::fmt;
use std::path::Path;

use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::workflow::{Action, Does, TextId, Workflow};
use phasegate_runtime::caller::Caller;
use phasegate_runtime::gate::{Answered, Found, Gate, GateError};

use crate::request;

/// An action that somebody asks for.
pub struct Asked<'a> {
    pub gate: &'a Gate<'a>,
    pub workflow: &'a Workflow,
    pub action: &'a Action,
    pub caller: &'a Caller,
    /// The run that was named, if one was.
    pub run: Option<&'a str>,
    /// The key that it is signed with, where a person signs it.
    pub key: Option<&'a Path>,
}

/// What was done.
pub enum Performed {
    /// A run was started. Where the workflow has one document for all its runs, the run that had it
    /// has answered.
    Created { run: Found, answered: Option<Answered>, shows: Option<TextId> },
    /// A text is to be shown.
    Shown(Shown),
    /// A run has answered.
    Acted { run: Found, answered: Answered },
}

/// A text that is to be shown: each door chooses the form that it needs.
pub struct Shown {
    /// The run that it is about, if it is about one.
    pub run: Option<Found>,
    pub text: TextId,
    /// The same as JSON, where the workflow has that.
    pub json: Option<TextId>,
    /// What the user should know beside it.
    pub note: Option<String>,
}

/// Why an action was not carried out.
#[derive(Debug)]
pub enum NotPerformed<E> {
    /// It is not known which run is meant.
    UnknownRun(GateError),
    /// The parameters do not fit: the error is the door's own.
    Params(E),
    Gate(GateError),
}

impl<E> From<GateError> for NotPerformed<E> {
    fn from(error: GateError) -> NotPerformed<E> {
        NotPerformed::Gate(error)
    }
}

impl<E: fmt::Display> fmt::Display for NotPerformed<E> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            NotPerformed::UnknownRun(error) | NotPerformed::Gate(error) => error.fmt(out),
            NotPerformed::Params(error) => error.fmt(out),
        }
    }
}

impl Asked<'_> {
    /// Carries the action out, and says which event it was. `params` is called once the run is known,
    /// so that a door can say how the run stands where the parameters do not fit.
    pub fn perform<E>(
        &self,
        params: impl FnOnce(Option<&Found>) -> Result<Json, E>,
    ) -> Result<(Performed, Event), NotPerformed<E>> {
        let event = |run: Option<&Found>| {
            params(run).map(|params| self.event(params)).map_err(NotPerformed::Params)
        };
        Ok(match self.action.does {
            Does::Create { name, document, shows } => {
                let event = event(None)?;
                let (run, answered) = self.gate.start(self.workflow, (name, document), &event)?;
                (Performed::Created { run, answered, shows }, event)
            }
            Does::Show { text, json, alone: true } => {
                let shown = Shown { run: None, text, json, note: None };
                (Performed::Shown(shown), event(None)?)
            }
            Does::Show { text, json, alone: false } => {
                let run = self.found(true)?;
                let event = event(Some(&run))?;
                let note = self.gate.claim(&run, &event)?;
                (Performed::Shown(Shown { run: Some(run), text, json, note }), event)
            }
            Does::Event => {
                let run = self.found(false)?;
                let mut event = event(Some(&run))?;
                if let Some(key) = self.key {
                    event = self.gate.sign_act(&run, &event, key)?;
                }
                let answered = self.act(&run, &event)?;
                (Performed::Acted { run: self.gate.refreshed(&run), answered }, event)
            }
        })
    }

    /// Puts the event that the action is to a run.
    pub fn act(&self, run: &Found, event: &Event) -> Result<Answered, GateError> {
        self.gate.must_be_itself(run, self.caller, event)?;
        self.gate.act(run, event)
    }

    /// The event that the action is, with these parameters.
    pub fn event(&self, params: Json) -> Event {
        request::event(&self.action.name, self.caller, request::session(), params)
    }

    /// Renders one of the texts that the action shows.
    pub fn render(&self, shown: &Shown, text: TextId, event: &Event) -> Result<String, GateError> {
        match &shown.run {
            Some(run) => self.gate.show(self.workflow, run, text, event),
            None => self.gate.show_alone(self.workflow, text, event),
        }
    }

    /// The run that the action is about.
    fn found<E>(&self, looks: bool) -> Result<Found, NotPerformed<E>> {
        let found = request::run(self.gate, &self.workflow.name, self.caller, self.run, looks);
        found.map_err(NotPerformed::UnknownRun)
    }
}
