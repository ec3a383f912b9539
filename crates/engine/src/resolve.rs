//! From a definition as written to a workflow, with everything that is wrong with it at once.

mod actions;
mod choices;
mod jobs;
mod machines;
mod properties;
mod records;
mod rules;
mod shared;
mod texts;

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;

use self::shared::Around;
use crate::answer::Outcome;
use crate::definition::{
    Bundle, Definition, Head, InnerText, MachineText, ParamText, TranscriptText,
};
use crate::diagnostic::{Diagnostics, Source, closest};
use crate::digest::digest_of;
use crate::identity::Identity;
use crate::job::Rights;
use crate::json::Json;
use crate::types::Type;
use crate::workflow::{
    Binding, Denied, Machine, MachineId, OUTER, Phase, PhaseId, TextTemplate, Workflow,
};

/// The name of the machine on the state document, and of the document in expressions.
const STATE: &str = "state";

/// What the configuration changes about a workflow.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The place of state documents.
    pub document: Option<String>,
    /// Values of constants.
    pub constants: Vec<(String, Json)>,
    /// What agents may do that are started with the usual client.
    pub rights: Option<Rights>,
}

/// Whether the expressions of a definition are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expressions {
    /// Every expression parses and every name in it means something.
    Checked,
    /// They were checked before, by what is named here: the built-in ones by a test of their
    /// version. This takes a third off the time of a hook.
    Trusted(&'static str),
}

/// Resolves a definition.
///
/// # Errors
/// All findings, if at least one is an error.
pub fn resolve(
    bundle: &Bundle,
    overrides: &Overrides,
    expressions: Expressions,
) -> Result<Workflow, Diagnostics> {
    let mut found = Diagnostics::default();
    let definition = Definition::read(&bundle.definition, &mut found);
    let workflow = definition.as_ref().map(|definition| {
        let resolver = Resolver {
            bundle,
            source: &bundle.definition,
            found: &mut found,
            texts: Vec::new(),
            included: Vec::new(),
            machine_names: std::iter::once(STATE.to_string())
                .chain(definition.inner.iter().map(|inner| inner.name.get_ref().clone()))
                .collect(),
            actions: definition.actions.iter().map(|(name, _)| name.get_ref().clone()).collect(),
            jobs: jobs::names(definition),
            put_to_rules: definition
                .actions
                .iter()
                .filter(|(_, text)| text.creates.is_none() && text.shows.is_none())
                .map(|(name, _)| name.get_ref().clone())
                .collect(),
            events: &definition.events,
            params: &definition.params,
        };
        resolver.workflow(definition, overrides, expressions)
    });
    if let Some(workflow) = &workflow
        && expressions == Expressions::Checked
        && machines::check(workflow, &bundle.definition, &mut found)
    {
        crate::names::check(workflow, &bundle.definition, &mut found);
    }
    found.sort();
    match workflow {
        Some(workflow) if !found.has_errors() => Ok(workflow),
        _ => Err(found),
    }
}

/// What identifies a definition: its content, or for a trusted one the name of who vouches for it.
/// Configured constants are part of it: changing them changes what is decided.
pub fn identity(bundle: &Bundle, overrides: &Overrides, expressions: Expressions) -> Identity {
    let content = match expressions {
        Expressions::Checked => digest_of(bundle.pieces()),
        Expressions::Trusted(by) => by.to_string(),
    };
    let Some(rights) = overrides.rights else {
        return Identity::new(content, &overrides.constants);
    };
    // No constant has a name with a space.
    let rights = Json::from(if rights == Rights::All { "all" } else { "least" });
    let mut configured = overrides.constants.clone();
    configured.push(("the rights".into(), rights));
    Identity::new(content, &configured)
}

struct Resolver<'a> {
    bundle: &'a Bundle,
    source: &'a Arc<Source>,
    found: &'a mut Diagnostics,
    texts: Vec<TextTemplate>,
    included: Vec<Arc<Source>>,
    machine_names: Vec<String>,
    actions: Vec<String>,
    jobs: Vec<jobs::Named>,
    /// Actions that are events for the rules, and nothing else.
    put_to_rules: Vec<String>,
    events: &'a [(Spanned<String>, Vec<Spanned<String>>)],
    params: &'a [(Spanned<String>, ParamText)],
}

impl Resolver<'_> {
    fn workflow(
        mut self,
        definition: &Definition,
        overrides: &Overrides,
        expressions: Expressions,
    ) -> Workflow {
        let head = &definition.head;
        let records = self.records(definition);
        let state = records.named(STATE).map_or(Type::Any, Type::Record);
        let constants = self.constants(definition, overrides);
        let document = self.document(head, overrides);
        self.events(definition);
        let mut machines = vec![self.machine(STATE, &head.field, None, &definition.outer)];
        machines[0].derive = head.derive.as_ref().map(|derive| self.expression(derive));
        let note = head.note.as_ref().and_then(|note| self.text(note));
        let misfit = head.misfit.as_ref().and_then(|misfit| self.text(misfit));
        let unreadable = head.unreadable.as_ref();
        let unreadable =
            unreadable.and_then(|file| self.file("templates", file.get_ref(), file.span()));
        let presumed = head.presumed.as_ref();
        let presumed =
            presumed.and_then(|file| self.file("templates", file.get_ref(), file.span()));
        machines[0].initial = self.phase_named(&machines[0].phases, &head.initial);
        for inner in &definition.inner {
            machines.push(self.inner(inner));
        }
        let actions = definition.actions.iter();
        let actions = actions.map(|(name, text)| self.action(name, text, &records)).collect();
        let jobs = self.jobs(definition, &constants, overrides.rights);
        let properties = self.properties(&definition.properties);
        let guidance = head.guidance.as_ref();
        let guidance =
            guidance.and_then(|file| self.file("templates", file.get_ref(), file.span()));
        let transcript = head.transcript.as_ref().and_then(|transcript| {
            let TranscriptText { place, line } = transcript;
            let file = self.file("templates", line.get_ref(), line.span())?;
            let source = self.source.clone();
            Some((self.inline(place.get_ref().clone(), source, place.span()), file))
        });
        let workflow = Workflow {
            name: head.name.clone(),
            about: head.about.clone(),
            identity: identity(self.bundle, overrides, expressions),
            document,
            fallback: head.fallback.clone(),
            note,
            misfit,
            unreadable,
            presumed,
            guidance,
            updated: head.updated.clone(),
            worktree: head.worktree.clone(),
            scope: head.scope.clone(),
            protected: head.protected.clone(),
            watched: head.watched.clone(),
            on_tamper: head.on_tamper,
            reentry: head.reentry,
            patience: head.patience,
            block_exit: head.block_exit,
            way_out: head.way_out,
            cancel: head.cancel,
            constants,
            records,
            state,
            machines,
            actions,
            jobs,
            properties,
            transcript,
            texts: self.texts,
            included: self.included,
        };
        if let Some(why) = workflow.why_not_standing().filter(|_| head.standing) {
            let span = self.source.key("", "standing");
            let message = format!("it cannot stand: {why}");
            self.found.error("standing", self.source, span, message).hint =
                Some("remove `standing`, and begin a run with `phasegate start`".into());
        }
        workflow
    }

    /// Where the state documents are.
    fn document(&mut self, head: &Head, overrides: &Overrides) -> String {
        let document = overrides.document.clone().unwrap_or_else(|| head.place());
        // What the store keeps of a run is its own.
        if document.starts_with("store:") && document != format!("store:{}/*", head.name) {
            let message = format!("the document's place {document:?} is in the store of runs");
            self.error(0..0, "document", message);
        }
        if document.matches('*').count() > 1 || crate::evidence::contained(&document).is_err() {
            self.error(
                0..0,
                "document",
                format!("the document's place {document:?} must be relative, with at most one `*`"),
            );
        }
        if let Some(fallback) = &head.fallback
            && (fallback.contains('*') || crate::evidence::contained(fallback).is_err())
        {
            let message = format!("the fallback {fallback:?} must be relative, and one place");
            self.error(0..0, "document", message);
        }
        document
    }

    /// An error. What its message says behind a colon is what to do.
    fn error(&mut self, span: Range<usize>, code: &'static str, message: impl Into<String>) {
        let message = message.into();
        match message.split_once(": ").filter(|_| code == "shape") {
            Some((what, hint)) => {
                let found = self.found.error(code, self.source, span, what);
                found.hint = Some(hint.to_string());
            }
            None => {
                self.found.error(code, self.source, span, message);
            }
        }
    }

    fn unknown<'k>(
        &mut self,
        span: Range<usize>,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = match closest(name, known.iter().copied()) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if known.is_empty() => None,
            None => Some(format!("there are: {}", known.join(", "))),
        };
        let message = format!("there is no {what} `{name}`");
        self.found.error("unknown", self.source, span, message).hint = hint;
    }

    fn inner(&mut self, inner: &InnerText) -> Machine {
        let mut path = inner.head.each.get_ref().split('.').map(str::to_string);
        let root = path.next().unwrap_or_default();
        let own = inner.name.get_ref();
        let of = match self.machine_names.iter().position(|name| *name == root && name != own) {
            Some(index) => MachineId(index),
            None => {
                let known = self.machine_names.clone();
                let known = known.iter().filter(|name| *name != own).map(String::as_str);
                self.unknown(inner.head.each.span(), "machine", &root, known);
                OUTER
            }
        };
        let pick = inner.head.pick.as_ref().map(|pick| self.expression(pick));
        let binding = Binding { of, path: path.collect(), pick };
        let mut machine = self.machine(own, &inner.head.field, Some(binding), &inner.machine);
        machine.initial =
            inner.head.initial.as_ref().and_then(|name| self.phase_named(&machine.phases, name));
        machine
    }

    fn machine(
        &mut self,
        name: &str,
        field: &str,
        binding: Option<Binding>,
        text: &MachineText,
    ) -> Machine {
        let names: Vec<&str> =
            text.phases.iter().map(|phase| phase.name.get_ref().as_str()).collect();
        let lets = text
            .lets
            .iter()
            .map(|(name, source)| (name.get_ref().as_str().into(), self.expression(source)))
            .collect();
        let choices = text.choices.iter().map(|choice| self.choice(choice)).collect();
        let label = |phase: &str| match &binding {
            None => phase.to_string(),
            Some(_) => format!("{name}.{phase}"),
        };
        let enter: Vec<_> = text.phases.iter().map(|phase| self.enter(phase)).collect();
        let around = Around { phases: &names, enter: &enter, result: None };
        let any = self.rules(&label("any"), &text.any, &around);
        let phases = text
            .phases
            .iter()
            .map(|phase| {
                let outcome = phase.head.outcome;
                if outcome.is_some() && !phase.head.is_final {
                    self.error(phase.name.span(), "shape", "only a final phase has an outcome");
                }
                let tools = phase.head.tools.as_ref();
                if tools.is_some_and(|tools| tools.deny.is_empty()) {
                    self.error(phase.name.span(), "shape", "`tools` denies at least one tool");
                }
                if tools.is_some() && binding.is_some() {
                    let message = "only a phase of the workflow itself has `tools`";
                    self.error(phase.name.span(), "shape", message);
                }
                let around = Around { result: phase.head.result.as_ref(), ..around };
                Phase {
                    name: phase.name.get_ref().as_str().into(),
                    about: phase.head.about.clone(),
                    ends: phase.head.is_final.then(|| outcome.unwrap_or(Outcome::Done)),
                    rules: self.rules(&label(phase.name.get_ref()), &phase.rules, &around),
                    span: phase.name.span(),
                    denied: tools.map(|tools| Denied {
                        tools: tools.deny.clone(),
                        because: tools.because.clone(),
                    }),
                }
            })
            .collect();
        Machine {
            derive: None,
            name: name.into(),
            binding,
            field: field.into(),
            initial: None,
            lets,
            choices,
            any,
            phases,
        }
    }

    fn phase_named(&mut self, phases: &[Phase], name: &Spanned<String>) -> Option<PhaseId> {
        let found = phases.iter().position(|phase| &*phase.name == name.get_ref().as_str());
        if found.is_none() {
            let known: Vec<String> = phases.iter().map(|phase| phase.name.to_string()).collect();
            self.unknown(name.span(), "phase", name.get_ref(), known.iter().map(String::as_str));
        }
        found.map(PhaseId)
    }
}
