//! What the user of a worker's machine has consented to. A row of a database names the commands: they are compared with
//! the definition, which its digest proves to be the one that was consented to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phasegate_engine::json::Json;
use phasegate_engine::workflow::{CommandLine, JobSpec, Workflow};

use crate::gate::{Runs, remote, resolve_copy};
use crate::jobs::{Order, UsualClient};
use crate::project::Project;
use crate::store::postgres::identity::normalised;
use crate::store::postgres::queue::Offer;
use crate::store::{PostgresStore, StoreError};

/// What is known of the consent to the definitions of a project.
pub(super) struct Consent<'p> {
    project: &'p Project,
    store: &'p PostgresStore,
    trusts_store: bool,
    /// By what each is known by; none where it cannot be read or is not what it says.
    known: BTreeMap<String, Option<Arc<Workflow>>>,
    /// Of which it was said that they are not trusted.
    told: BTreeSet<String>,
}

impl<'p> Consent<'p> {
    pub(super) fn new(
        project: &'p Project,
        store: &'p PostgresStore,
        trusts_store: bool,
    ) -> Consent<'p> {
        let (known, told) = (BTreeMap::new(), BTreeSet::new());
        Consent { project, store, trusts_store, known, told }
    }

    /// The definitions of which jobs wait that the user has consented to. Of the others it is said, once.
    pub(super) fn definitions(
        &mut self,
        project: &str,
        say: &dyn Fn(&str),
    ) -> Result<Vec<String>, StoreError> {
        let mut allowed = Vec::new();
        for offer in self.store.offers(Some(project))? {
            let workflow = self.workflow(&offer)?;
            let runs = Runs::new(self.project);
            if workflow.is_some_and(|workflow| runs.is_trusted(&workflow)) {
                self.told.remove(&offer.definition);
                allowed.push(offer.definition);
            } else if self.told.insert(offer.definition) {
                let name = offer.workflow;
                say(&format!(
                    "jobs of workflow {name} wait, and you have not consented to its definition here: \
                     `phasegate trust {name}`"
                ));
            }
        }
        Ok(allowed)
    }

    /// The definition that jobs are of: the present one, or the copy that a run keeps to.
    fn workflow(&mut self, offer: &Offer) -> Result<Option<Arc<Workflow>>, StoreError> {
        if let Some(known) = self.known.get(&offer.definition) {
            return Ok(known.clone());
        }
        let is_it = |workflow: &Workflow| workflow.identity.as_str() == offer.definition;
        let present = Runs::new(self.project).workflow(&offer.workflow).ok();
        let workflow = match present.filter(|present| is_it(present)) {
            Some(present) => Some(present),
            None => {
                let copy = self.store.definition_of(offer.run)?;
                let copy = copy.and_then(|copy| resolve_copy(&offer.workflow, &copy).ok());
                copy.filter(is_it).map(Arc::new)
            }
        };
        // One that is not there now may come: a person can add it to this clone.
        if workflow.is_some() {
            self.known.insert(offer.definition.clone(), workflow.clone());
        }
        Ok(workflow)
    }

    /// Whether a job is what its definition says, on a tree of this project. From then on its tree is got as this clone
    /// gets its own.
    ///
    /// # Errors
    /// What it is not, in words for people.
    pub(super) fn fits(&self, order: &mut Order) -> Result<(), String> {
        if self.trusts_store {
            return Ok(());
        }
        let own = remote(self.project)?;
        if let Some(sent) = &mut order.sent {
            if normalised(&sent.remote) != normalised(&own) {
                return Err(format!("its tree is from {}, and not from {own}", sent.remote));
            }
            sent.remote = own;
        }
        let workflow = self.known.get(&order.definition).and_then(Option::as_ref);
        let workflow = workflow.ok_or("its definition is not known here")?;
        let record = &order.record;
        let mut specs = workflow.jobs.iter();
        let spec = specs.find(|spec| spec.kind == record.kind && spec.name == record.name);
        let spec = spec.ok_or_else(|| {
            let (kind, name) = (&record.kind, &record.name);
            format!("workflow {} has no {kind} {name}", workflow.name)
        })?;
        // What an agent may do is what the definition says, too.
        if let Some(client) = &mut order.client {
            *client = UsualClient::of(spec.rights, workflow);
        }
        if is_meant(workflow, spec, order) {
            return Ok(());
        }
        let words = order.spec.run.iter().map(|run| run.words.join(" "));
        let words: Vec<String> = words.collect();
        Err(format!(
            "its command is not the one that the definition of workflow {} says: {}",
            workflow.name,
            words.join(" && ")
        ))
    }
}

/// Whether the command of a job can come from its definition: the same words where they do not depend on the state, and
/// the same program otherwise.
fn is_meant(workflow: &Workflow, spec: &JobSpec, order: &Order) -> bool {
    let words = match order.spec.run.as_slice() {
        [] => None,
        [run] => Some(&run.words),
        _ => return false,
    };
    let usual = || words.is_none() && order.client.is_some();
    match &spec.run {
        CommandLine::Words(own) => words == Some(own),
        CommandLine::Texts(parts) if parts.is_empty() => usual(),
        CommandLine::Texts(parts) => {
            let program = &workflow.texts[parts[0].0].text;
            let is_fixed = !program.contains("{{") && !program.contains("{%");
            words.is_some_and(|words| !is_fixed || words.first() == Some(program))
        }
        CommandLine::Expression(list) => {
            let mut constants = workflow.constants.iter();
            match constants.find(|(name, _)| *name == list.text.trim()).map(|(_, value)| value) {
                Some(Json::List(own)) if own.0.is_empty() => usual(),
                Some(Json::List(own)) => words.is_some_and(|words| {
                    let own: Vec<&str> = own.0.iter().filter_map(Json::as_str).collect();
                    *words == own
                }),
                // What it is depends on the state.
                _ => words.is_some() || usual(),
            }
        }
    }
}
