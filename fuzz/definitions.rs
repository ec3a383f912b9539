//! Definitions: mistakes with their place, or a workflow that decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasegate_engine::decide::{RunFacts, decide};
use phasegate_engine::definition::Bundle;
use phasegate_engine::diagnostic::Source;
use phasegate_engine::evidence::GivenEvidence;
use phasegate_engine::json::Json;
use phasegate_engine::lint::lint;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::step::Event;
use phasegate_runtime::catalog::general;

use crate::fuzz;

#[test]
fn definitions() {
    let built_in: Vec<Bundle> = general().iter().map(|entry| entry.bundle().unwrap()).collect();
    let seeds = built_in.iter().map(|it| it.definition.text.as_bytes().to_vec());
    // A definition names the files of its folder; mutated, it may be any of them.
    let files: BTreeMap<_, _> = built_in.iter().flat_map(|it| it.files.clone()).collect();
    fuzz("definitions", 600, seeds.collect(), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
        let definition = Source::new("w.toml", text.to_string());
        let bundle = Bundle { definition, files: files.clone() };
        match resolve(&bundle, &Overrides::default(), Expressions::Checked) {
            Err(found) if found.0.is_empty() || found.render(false).is_empty() => {
                Err("refused without a word".into())
            }
            Err(_) => Ok(()),
            Ok(workflow) => {
                lint(&workflow, &bundle).render(false);
                let run = RunFacts { name: "w".into(), ..RunFacts::default() };
                let evidence = Arc::new(GivenEvidence::default());
                decide(&workflow, Json::object(), &Event::stop(None), &run, evidence);
                Ok(())
            }
        }
    });
}
