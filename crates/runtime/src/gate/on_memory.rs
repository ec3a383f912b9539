//! The gate on a store that is not files.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use phasegate_engine::answer::Outcome;
use phasegate_engine::step::{Actor, Event};

use super::{Gate, Runs, Stop};
use crate::condition::Condition;
use crate::project::Project;
use crate::store::MemoryStore;

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
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join(".phasegate/workflows")).unwrap();
    fs::write(root.join(".phasegate/workflows/ship.toml"), WORKFLOW).unwrap();
    let store = MemoryStore::default();
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
    assert!(root.join("ship/ship.json").exists());
    assert!(!root.join(".phasegate/runs").exists());
}
