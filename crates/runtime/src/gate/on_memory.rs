//! The gate on a store that is not files.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use phasegate_engine::answer::Outcome;
use phasegate_engine::step::{Actor, Event};

use super::{Gate, Runs, Stop};
use crate::condition::Condition;
use crate::project::Project;
use crate::run::RunId;
use crate::store::{Key, MemoryStore, Store};

const WORKFLOW: &str = r#"name = "ship"
about = "No stop before the work is done."
initial = "working"
document = "ship/*.json"
[phase.working]
rules = [
  { on = "stop", when = "not exists('finished')", block = "Make `finished`." },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
"#;

#[test]
fn a_whole_run_leaves_nothing_on_the_disk_but_its_document() {
    let folder = project_with("");
    whole_run(folder.path(), &MemoryStore::default(), "ship/ship.json");
    assert!(folder.path().join("ship/ship.json").exists());
}

#[test]
fn a_run_whose_document_is_in_the_store_leaves_nothing_on_the_disk() {
    let folder = project_with("[workflow.ship]\ndocument = \"store\"\n");
    let store = MemoryStore::default();
    whole_run(folder.path(), &store, "store:ship/ship");
    assert!(!folder.path().join("ship").exists());
    let run = RunId { workflow: "ship".into(), name: "ship".into() };
    let document = store.get(&Key::Document(run)).unwrap().unwrap();
    assert!(String::from_utf8(document.bytes).unwrap().contains("\"done\""));
}

#[test]
fn a_name_that_a_run_in_the_store_has_is_taken() {
    let folder = project_with("[workflow.ship]\ndocument = \"store\"\n");
    let (root, store) = (folder.path().canonicalize().unwrap(), MemoryStore::default());
    let names = ["ship/ship", "ship/ship-2"];
    for wanted in names {
        let project = Project::open(&root).unwrap();
        let project = Project { store: Box::new(store.clone()), ..project };
        let gate = Gate::new(&project);
        let workflow = gate.workflow("ship").unwrap();
        let run = gate.create(&workflow, None, &Event::new("start", Actor::Human)).unwrap();
        assert_eq!(run.to_string(), wanted);
    }
    let mut open: Vec<String> =
        store.open_runs().unwrap().iter().map(ToString::to_string).collect();
    open.sort();
    assert_eq!(open, names);
}

/// A project with a workflow and this configuration.
fn project_with(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join(".phasegate");
    fs::create_dir_all(ours.join("workflows")).unwrap();
    fs::write(ours.join("workflows/ship.toml"), WORKFLOW).unwrap();
    fs::write(ours.join("config.toml"), config).unwrap();
    folder
}

/// Starts a run, is blocked by it, and brings it to its end.
fn whole_run(root: &Path, store: &MemoryStore, place: &str) {
    let root = root.canonicalize().unwrap();
    let project = || {
        let project = Project::open(&root).unwrap();
        Project { store: Box::new(store.clone()), ..project }
    };
    let stop = || {
        let project = project();
        let stop = Stop { session: Some("s".into()), ..Stop::default() };
        let verdict = Gate::new(&project).stop(&stop);
        assert_eq!(verdict.faults, Vec::<String>::new());
        verdict.answers.into_iter().next().map(|answered| answered.answer)
    };
    let started = project();
    let gate = Gate::new(&started);
    let workflow = gate.workflow("ship").unwrap();
    let run = gate.create(&workflow, None, &Event::new("start", Actor::Human)).unwrap();
    assert!(stop().unwrap().is_block());
    fs::write(root.join("finished"), "").unwrap();
    assert_eq!(stop().unwrap().outcome(), Some(Outcome::Done));
    assert!(stop().is_none(), "it is over");
    let project = project();
    let runs = Runs::new(&project);
    let found = runs.run(&run.to_string()).unwrap();
    assert_eq!(runs.report(&found).condition, Condition::Done);
    assert_eq!(runs.journal(&found).unwrap().len(), 3);
    assert_eq!(found.place, place);
    assert!(!root.join(".phasegate/runs").exists());
}
