//! The definition that a run keeps to: the one with which it began.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasegate_engine::decide::phase_name;
use phasegate_engine::definition::Bundle;
use phasegate_engine::diagnostic::Source;
use phasegate_engine::digest::digest;
use phasegate_engine::job::Rights;
use phasegate_engine::json::Json;
use phasegate_engine::resolve::{Expressions, Overrides, identity, resolve};
use phasegate_engine::step::Event;
use phasegate_engine::workflow::Workflow;
use serde::{Deserialize, Serialize};

use super::signing::Now;
use super::transaction::Locked;
use super::{Found, Gate, GateError, Runs};
use crate::catalog::{LoadError, Origin};
use crate::ledger::Ledger;
use crate::run::RunId;
use crate::store::{Key, Piece, Put};
use crate::trust;

/// A copy of a definition, in the folder of the run that keeps to it.
#[derive(Debug, Serialize, Deserialize)]
struct Copy {
    definition: String,
    document: String,
    files: BTreeMap<String, String>,
    constants: BTreeMap<String, Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rights: Option<Rights>,
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
    ) -> Result<Arc<Workflow>, GateError> {
        let present = self.workflow(&id.workflow);
        if ledger.definition.digest.is_empty() {
            return present;
        }
        let now = match present {
            Ok(present) if present.identity.as_str() == ledger.definition.digest => {
                return Ok(present);
            }
            Ok(present) => present.identity.to_string(),
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
        let same =
            pinned.is_empty() || present.is_ok_and(|present| present.identity.as_str() == pinned);
        (!same).then(|| changed(&found.id))
    }

    /// The definition of a run, for readers that change nothing.
    pub fn workflow_of(&self, found: &Found) -> Result<Arc<Workflow>, GateError> {
        self.pinned(&found.id, &mut (*found.ledger).clone(), &mut Vec::new())
    }

    fn copied(&self, id: &RunId, ledger: &Ledger) -> Result<Arc<Workflow>, GateError> {
        let key = format!("{}@{}", id.workflow, ledger.definition.copy);
        if let Some(workflow) = self.loaded.borrow().get(&key) {
            return Ok(workflow.clone());
        }
        let stored = self.store.get(&Key::Definition(id.clone()))?;
        let whole = stored.filter(|stored| digest(&stored.bytes) == ledger.definition.copy);
        let copy = whole.filter(|stored| serde_json::from_slice::<Copy>(&stored.bytes).is_ok());
        let copy = copy.ok_or_else(|| {
            let workflow = &id.workflow;
            GateError::Other(format!(
                "the definition of workflow {workflow} has changed since the run began, and the \
                 copy of the old one is gone or was changed too; \
                 `phasegate accept {id} --reason …` takes the new one"
            ))
        })?;
        let workflow = Arc::new(resolve_copy(&id.workflow, &copy.bytes)?);
        self.loaded.borrow_mut().insert(key, workflow.clone());
        Ok(workflow)
    }
}

impl Gate<'_> {
    /// Makes a run keep to a definition, if it does not keep to one already.
    pub(super) fn pin(&self, run: &mut Locked, workflow: &Workflow) -> Result<(), GateError> {
        let (id, ledger) = (&run.found.id, &mut run.ledger);
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
        if is_file && identity(&bundle, &overrides, Expressions::Checked) != workflow.identity {
            let message = format!("the definition of {} is being changed right now", id.workflow);
            return Err(GateError::Other(message));
        }
        let copy = Copy {
            definition: workflow.identity.to_string(),
            document: workflow.document.clone(),
            files,
            constants: overrides.constants.iter().cloned().collect(),
            rights: overrides.rights,
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
        ledger.definition.digest = workflow.identity.to_string();
        ledger.definition.copy = digest(&bytes);
        ledger.definition.told.clear();
        let old = self.store.get(&key)?;
        let expected = old.as_ref().map(|old| old.version.clone());
        // Its lines are decided again with the definition that they were decided with.
        if let Some(old) = old.filter(|old| old.bytes != bytes) {
            run.pieces.push(Piece { digest: digest(&old.bytes), bytes: old.bytes.into() });
        }
        run.puts.push(Put { key, expected, bytes });
        Ok(())
    }

    /// Makes a run keep to the present definition from now on.
    pub fn accept_definition(&self, found: &Found, event: &Event) -> Result<(), GateError> {
        let workflow = self.workflow(&found.id.workflow)?;
        let present = Some(workflow.identity.as_str());
        let now = Now { position: None, definition: present, tree: &|| self.tree(found) };
        now.must_be_signed(&found.id, event)?;
        let phase = phase_name(&workflow, &self.document(found)?);
        if workflow.outer().phase(&phase).is_none() {
            return Err(GateError::Other(format!(
                "run {} is in phase `{phase}`, and the new definition has no such phase",
                found.id
            )));
        }
        self.note(found, event, |run, _| {
            run.ledger.definition.digest.clear();
            run.ledger.position.arrive(&workflow, &phase);
            self.pin(run, &workflow)
        })
    }
}

/// What the definition of a copy is known by.
pub(super) fn known_by(copy: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<Copy>(copy).ok()?.definition)
}

/// The workflow that a copy of a definition says.
pub(crate) fn resolve_copy(name: &str, bytes: &[u8]) -> Result<Workflow, GateError> {
    let copy: Copy =
        serde_json::from_slice(bytes).map_err(|error| GateError::Other(error.to_string()))?;
    let files = copy.files.into_iter().map(|(path, text)| {
        let source = Source::new(&format!("{name}/{path} (as the run began)"), text);
        (path, source)
    });
    let mut files: BTreeMap<_, _> = files.collect();
    let definition = files.remove(DEFINITION).unwrap_or_else(|| Source::new(DEFINITION, ""));
    let bundle = Bundle { definition, files };
    let overrides = Overrides {
        document: Some(copy.document),
        constants: copy.constants.into_iter().collect(),
        rights: copy.rights,
    };
    // It keeps the digest of its own content: only that can be consented to.
    let resolved = resolve(&bundle, &overrides, Expressions::Checked);
    resolved.map_err(|found| GateError::Workflow(name.to_string(), LoadError::Definition(found)))
}

fn changed(id: &RunId) -> String {
    let workflow = &id.workflow;
    format!(
        "The definition of workflow {workflow} has changed since run {id} began; the run keeps to \
         the old one. `phasegate accept {id} --reason …` takes the new one."
    )
}
