//! Many hooks at once on one run.

use crate::scene::{STATE, Scene, finish};

#[test]
fn twenty_concurrent_hooks_are_twenty_decisions() {
    let scene = Scene::with_triage(5);
    let children: Vec<_> = (0..20)
        .map(|_| {
            let mut command = scene.command();
            command.args(["hook", "stop"]);
            scene.spawn(command, scene.payload().to_string().as_bytes())
        })
        .collect();
    for child in children {
        let ran = finish(child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("\"decision\":\"block\""), "{ran:?}");
    }
    let journal = scene.journal("triage/web");
    assert_eq!(journal.len(), 20);
    let numbers: Vec<u64> = journal.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    scene.ok(&["log", "--verify"]);
    assert_eq!(scene.json(".phasegate/runs/triage/web/ledger.json")["blocks"], 20);
}

#[test]
fn an_edit_between_reading_and_writing_is_not_overwritten() {
    // An agent edits the document all the time while hooks absorb results.
    let scene = Scene::with_triage(30);
    std::thread::scope(|scope| {
        let editor = scope.spawn(|| {
            for round in 0..200 {
                let mut state = scene.json(STATE);
                state["agent_was_here"] = round.into();
                let temporary = scene.path("edit.json");
                std::fs::write(&temporary, state.to_string()).unwrap();
                std::fs::rename(temporary, scene.path(STATE)).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        for entry in 0..30 {
            scene.result(entry, true, "g");
            let said = scene.stop();
            assert_eq!(said.code, Some(0));
        }
        editor.join().unwrap();
    });
    let state = scene.json(STATE);
    assert_eq!(state["entries"].as_array().unwrap().len(), 30);
    assert!(state["agent_was_here"].is_number());
    scene.ok(&["log", "--verify"]);
}
