//! What a run keeps to, and what must not change behind its back: the definition with which it
//! began, and the protected fields of its document.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::Bundle;
use phasegate_engine::diagnostic::Source;
use phasegate_engine::digest::digest;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, identity, resolve};
use phasegate_engine::step::Event;
use phasegate_engine::types::Type;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use super::{Found, Gate, GateError, Runs};
use crate::catalog::{LoadError, Origin};
use crate::journal;
use crate::ledger::{Ledger, Tampered};
use crate::run::RunId;
use crate::store::Key;
use crate::trust;

/// How many changes from outside are remembered.
const MOST_TAMPERED: usize = 16;

/// A longer value is remembered by its digest.
const LONG: usize = 80;

/// A copy of a definition, in the folder of the run that keeps to it.
#[derive(Debug, Serialize, Deserialize)]
struct Copy {
    definition: String,
    document: String,
    files: BTreeMap<String, String>,
    constants: BTreeMap<String, Json>,
}

/// The definition's own name among its files.
const DEFINITION: &str = "workflow.toml";

impl Runs<'_> {
    /// The definition that a run keeps to: the present one, unless that has changed since the run
    /// began; then the copy of the one it began with.
    pub(super) fn pinned(
        &self,
        id: &RunId,
        ledger: &mut Ledger,
        notes: &mut Vec<String>,
    ) -> Result<Rc<Workflow>, GateError> {
        let present = self.workflow(&id.workflow);
        if ledger.definition.digest.is_empty() {
            return present;
        }
        let now = match present {
            Ok(present) if present.digest == ledger.definition.digest => return Ok(present),
            Ok(present) => present.digest.clone(),
            Err(_) => "unusable".to_string(),
        };
        if ledger.definition.told != now {
            notes.push(changed(id));
            ledger.definition.told = now;
        }
        self.copied(id, ledger)
    }

    /// What the copy knows of the definition, for a ledger that is lost.
    pub(super) fn find_pin(&self, id: &RunId, ledger: &mut Ledger) {
        let stored = self.store.get(&Key::Definition(id.clone())).ok().flatten();
        let copy = stored.as_ref().and_then(|it| serde_json::from_slice::<Copy>(&it.bytes).ok());
        if let (Some(stored), Some(copy)) = (stored, copy) {
            ledger.definition.digest = copy.definition;
            ledger.definition.copy = digest(&stored.bytes);
        }
    }

    /// Whether the run keeps to a definition that is no longer the present one.
    pub fn is_outdated(&self, found: &Found) -> Option<String> {
        let pinned = &found.ledger.definition.digest;
        let present = self.workflow(&found.id.workflow);
        let same = pinned.is_empty() || present.is_ok_and(|present| present.digest == *pinned);
        (!same).then(|| changed(&found.id))
    }

    /// The definition of a run, for whoever only looks.
    pub fn workflow_of(&self, found: &Found) -> Result<Rc<Workflow>, GateError> {
        self.pinned(&found.id, &mut (*found.ledger).clone(), &mut Vec::new())
    }

    fn copied(&self, id: &RunId, ledger: &Ledger) -> Result<Rc<Workflow>, GateError> {
        let key = format!("{}@{}", id.workflow, ledger.definition.copy);
        if let Some(workflow) = self.loaded.borrow().get(&key) {
            return Ok(workflow.clone());
        }
        let stored = self.store.get(&Key::Definition(id.clone()))?;
        let whole = stored.filter(|stored| digest(&stored.bytes) == ledger.definition.copy);
        let copy: Option<Copy> =
            whole.and_then(|stored| serde_json::from_slice(&stored.bytes).ok());
        let copy = copy.ok_or_else(|| {
            let workflow = &id.workflow;
            GateError::Other(format!(
                "the definition of workflow {workflow} has changed since the run began, and the \
                 copy of the old one is gone or was changed too; \
                 `phasegate accept-definition {id} --reason …` takes the new one"
            ))
        })?;
        let mut files: BTreeMap<_, _> = copy
            .files
            .into_iter()
            .map(|(path, text)| {
                let name = format!("{}/{path} (as the run began)", id.workflow);
                (path, Source::new(&name, text))
            })
            .collect();
        let definition = files.remove(DEFINITION).unwrap_or_else(|| Source::new(DEFINITION, ""));
        let bundle = Bundle { definition, files };
        let overrides = Overrides {
            document: Some(copy.document),
            constants: copy.constants.into_iter().collect(),
        };
        // It keeps the digest of its own content: only that can be consented to.
        let resolved = resolve(&bundle, &overrides, Expressions::Checked);
        let workflow = Rc::new(resolved.map_err(|found| {
            GateError::Workflow(id.workflow.clone(), LoadError::Definition(found))
        })?);
        self.loaded.borrow_mut().insert(key, workflow.clone());
        Ok(workflow)
    }

    /// Notices protected fields that somebody else has changed.
    pub(super) fn compare(
        &self,
        (id, workflow): (&RunId, &Workflow),
        ledger: &mut Ledger,
        document: &Json,
        mark: &str,
        notes: &mut Vec<String>,
    ) -> Result<(), GateError> {
        let mut changes = Vec::new();
        for (field, known) in &ledger.tamper.protected {
            let now = value(document, field);
            if now != *known && !is_reset(workflow, document, field) {
                let (field, from) = (field.clone(), known.clone());
                changes.push(Tampered { at: Timestamp::now(), field, from, to: now });
            }
        }
        if changes.is_empty() || self.is_ours(id, ledger, mark)? {
            return Ok(());
        }
        for change in changes {
            notes.push(format!("run {id}: {change}."));
            ledger.tamper.protected.insert(change.field.clone(), change.to.clone());
            ledger.tamper.changes.push(change);
            ledger.tamper.count += 1;
        }
        let more = ledger.tamper.changes.len().saturating_sub(MOST_TAMPERED);
        ledger.tamper.changes.drain(..more);
        Ok(())
    }

    /// A process of ours that died between document and ledger leaves the ledger behind.
    fn is_ours(&self, id: &RunId, ledger: &Ledger, mark: &str) -> Result<bool, GateError> {
        let (last, _) = self.store.last_line(id)?;
        let last = last.and_then(|text| serde_json::from_str::<journal::Line>(&text).ok());
        Ok(last.is_some_and(|last| last.seq > ledger.position.seq && last.after == mark))
    }
}

impl Gate<'_> {
    /// Makes a run keep to a definition, if it does not keep to one already.
    pub(super) fn pin(
        &self,
        id: &RunId,
        workflow: &Workflow,
        ledger: &mut Ledger,
    ) -> Result<(), GateError> {
        if !ledger.definition.digest.is_empty() {
            return Ok(());
        }
        let Some(entry) = self.project.workflow(&id.workflow) else { return Ok(()) };
        let failed = |error| GateError::Workflow(id.workflow.clone(), error);
        let bundle =
            entry.bundle().map_err(|error| failed(LoadError::Io(id.workflow.clone(), error)))?;
        let own = bundle.files.iter().filter(|(path, _)| Bundle::decides(path));
        let mut files: BTreeMap<String, String> =
            own.map(|(path, file)| (path.clone(), file.text.to_string())).collect();
        files.insert(DEFINITION.into(), bundle.definition.text.to_string());
        let overrides = self.project.config.overrides(&id.workflow);
        let is_file = matches!(entry.origin, Origin::File(_));
        if is_file && identity(&bundle, &overrides, Expressions::Checked) != workflow.digest {
            let message = format!("the definition of {} changes at this moment", id.workflow);
            return Err(GateError::Other(message));
        }
        let copy = Copy {
            definition: workflow.digest.clone(),
            document: workflow.document.clone(),
            files,
            constants: overrides.constants.iter().cloned().collect(),
        };
        // Consent stays with the content, also where that is later read from the copy.
        if workflow.acts() && self.is_trusted(workflow) {
            let content = identity(&bundle, &overrides, Expressions::Checked);
            let path = self.project.root.join(".phasegate/runs");
            let _ = trust::trust(&self.project.root, &path, &content);
        }
        let bytes =
            serde_json::to_vec(&copy).map_err(|error| GateError::Other(error.to_string()))?;
        let key = Key::Definition(id.clone());
        let before = self.store.version(&key)?;
        self.store.put(&key, before.as_ref(), &bytes)?;
        ledger.definition.digest.clone_from(&workflow.digest);
        ledger.definition.copy = digest(&bytes);
        ledger.definition.told.clear();
        Ok(())
    }

    /// Makes a run keep to the present definition from now on.
    pub fn accept_definition(&self, found: &Found, event: &Event) -> Result<(), GateError> {
        let workflow = self.workflow(&found.id.workflow)?;
        let phase = phase_name(&workflow, &self.document(found)?);
        if workflow.outer().phase(&phase).is_none() {
            return Err(GateError::Other(format!(
                "run {} is in phase `{phase}`, and the new definition has no such phase",
                found.id
            )));
        }
        self.note(found, event, |ledger, _| {
            ledger.definition.digest.clear();
            self.pin(&found.id, &workflow, ledger)
        })
    }
}

fn changed(id: &RunId) -> String {
    let workflow = &id.workflow;
    format!(
        "The definition of workflow {workflow} has changed since run {id} began; the run keeps to \
         the old one. `phasegate accept-definition {id} --reason …` takes the new one."
    )
}

/// The protected fields of a document, in short.
pub(super) fn protected(workflow: &Workflow, document: &Json) -> BTreeMap<String, String> {
    let outer = workflow.outer();
    // The phase is always one of them, where a field holds it.
    let phase = outer.derive.is_none().then_some(&outer.field);
    let paths = workflow.protected.iter().chain(phase);
    paths.map(|path| (path.clone(), value(document, path))).collect()
}

/// Whether a field has its default: to set it back is to begin anew, and gains nothing.
fn is_reset(workflow: &Workflow, document: &Json, path: &str) -> bool {
    let Type::Record(state) = workflow.state else { return false };
    let record = workflow.records.get(state);
    let default = record.field(path).and_then(|field| field.default.as_ref());
    default.is_some_and(|default| document.get(path).is_none_or(|now| now == default))
}

fn value(document: &Json, path: &str) -> String {
    let Some(value) = document.at(path.split('.')) else { return "nothing".into() };
    let text = value.to_text(None);
    let text = text.trim_end();
    match text.len() {
        ..LONG => text.to_string(),
        length => format!("{length} bytes ({})", &digest(text.as_bytes())[..16]),
    }
}
