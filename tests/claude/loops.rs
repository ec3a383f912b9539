//! The workflow `loop`.

use crate::api::{Api, Reply};
use crate::client::Session;
use crate::scene::Scene;

#[test]
fn a_loop_goes_on_until_the_agent_signals_its_end() {
    let Some(scene) = Scene::new() else { return };
    let api = Api::start(|request| match request.blocks() {
        0 if request.used().is_empty() => {
            Reply::bash("phasegate loop start --max 10 --prompt 'Write a poem.'")
        }
        // A signal in code is none.
        0..3 => Reply::text("At it: `<loop-done>COMPLETE</loop-done>` comes later."),
        _ => Reply::text("All of it is there.\n\n<loop-done>COMPLETE</loop-done>"),
    });
    let ended =
        Session::new(&scene, &api, "/phasegate:loop --max 10 Write a poem.").with_plugin().run();
    scene.assert_stops("loop/current", 3, "done");
    let prompt = api.requests()[0].order().0;
    assert!(prompt.contains("Start a loop on this task: --max 10 Write a poem."), "{prompt}");
    let told: Vec<String> = api.requests().iter().map(|request| request.order().0).collect();
    for iteration in 1..=3 {
        let told =
            told.iter().filter(|told| told.starts_with(&format!("[ITERATION {iteration}/10]")));
        assert_eq!(told.count(), 1, "iteration {iteration}");
    }
    assert!(
        ended.result()["result"].as_str().unwrap().ends_with("<loop-done>COMPLETE</loop-done>")
    );
    let state = scene.ok(&["loop", "status", "--json"]);
    assert!(state.contains("\"DONE\""), "{state}");
    scene.end();
}

/// A loop in whose third iteration the client compacts the conversation.
fn compacted(scene: &Scene) -> Api {
    scene.ok(&["loop", "start", "--max", "9", "--prompt", "Write a poem."]);
    let api = Api::start(|request| {
        let (order, _) = request.order();
        if order.contains(COMPACTION) {
            return Reply::text("<summary>A poem is written.</summary>");
        }
        let is_over = order.starts_with("[ITERATION 4/");
        let reply = if is_over { "<loop-done>COMPLETE</loop-done>" } else { "A line." };
        let tokens = if order.starts_with("[ITERATION 2/") { 990_000 } else { 0 };
        Reply::text(reply).with_tokens(tokens)
    });
    Session::new(scene, &api, "Work.").with_plugin().run().result();
    scene.assert_stops("loop/current", 4, "done");
    api
}

/// With which the client asks for a summary.
const COMPACTION: &str = "Please provide your summary";

#[test]
fn an_agent_whose_conversation_was_compacted_learns_where_its_loop_is() {
    let Some(scene) = Scene::new() else { return };
    let api = compacted(&scene);
    let journal = scene.journal("loop/current");
    let compactions = journal.iter().filter(|line| line["event"]["name"] == "pre-compact");
    assert_eq!(compactions.count(), 1);
    // Behind the summary, which says nothing of it.
    let last = serde_json::to_string(&api.requests().last().unwrap().messages).unwrap();
    assert!(last.contains("A poem is written."), "{last}");
    assert!(!last.contains("[ITERATION 2/9]"), "{last}");
    assert!(last.contains("This is iteration 3 of 9 of a loop"), "{last}");
    scene.end();
}

#[test]
fn a_compaction_is_given_no_strange_instructions() {
    let Some(scene) = Scene::new() else { return };
    let api = compacted(&scene);
    let orders = api.requests().into_iter().map(|request| request.last());
    let order = orders.into_iter().find(|order| order.contains(COMPACTION)).unwrap();
    let (_, more) = order.split_once("Additional Instructions:").unwrap_or_default();
    assert!(!more.trim_start().starts_with("{}"), "{more}");
    scene.end();
}
