//! Random sequences of events against the real binary: whatever happens in whatever order, the
//! hook answers, blocks only when a rule says so, and loses nothing.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scene::{STATE, Said, Scene};

#[derive(Clone, Debug)]
enum Happens {
    Stop { session: Option<u8>, again: Option<bool>, background: bool },
    Sign { session: u8, event: &'static str },
    Result { entry: usize, text: &'static str },
    Document(Edit),
    Command(&'static [&'static str]),
    Killed { point: &'static str },
    Ledger(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Edit {
    Phase(&'static str),
    Text(&'static str),
    Restore,
    Remove,
}

fn event() -> impl Strategy<Value = Happens> {
    let session = prop::option::weighted(0.8, 0..3u8);
    let stop = (session, any::<Option<bool>>(), prop::bool::weighted(0.1))
        .prop_map(|(session, again, background)| Happens::Stop { session, again, background });
    let sign = prop_oneof![
        Just("session-start"),
        Just("session-end"),
        Just("pre-compact"),
        Just("user-prompt-submit"),
        Just("subagent-stop")
    ];
    let sign = (0..3u8, sign).prop_map(|(session, event)| Happens::Sign { session, event });
    let text = prop_oneof![
        Just(r#"{"is_true_positive":true,"group_id":"g"}"#),
        Just(r#"{"is_true_positive":false,"group_id":"g"}"#),
        Just("rubbish"),
        Just("")
    ];
    let result = (0..4usize, text).prop_map(|(entry, text)| Happens::Result { entry, text });
    let edit = prop_oneof![
        Just(Edit::Phase("aggregation")),
        Just(Edit::Phase("complete")),
        Just(Edit::Phase("banana")),
        Just(Edit::Text("{ broken")),
        Just(Edit::Text("")),
        Just(Edit::Text(r#"{"phase":3,"entries":{}}"#)),
        Just(Edit::Restore),
        Just(Edit::Remove),
    ];
    let command = prop_oneof![
        3 => Just(&["adopt", "web", "--session", "s1"] as &[&str]),
        3 => Just(&["release", "web"] as &[&str]),
        3 => Just(&["status"] as &[&str]),
        1 => Just(&["cancel", "web"] as &[&str]),
    ];
    let point = prop_oneof![
        Just("before-journal"),
        Just("after-journal"),
        Just("after-document"),
        Just("torn-journal"),
        Just("temporary-written"),
    ];
    prop_oneof![
        8 => stop,
        2 => sign,
        4 => result,
        2 => edit.prop_map(Happens::Document),
        1 => command.prop_map(Happens::Command),
        1 => point.prop_map(|point| Happens::Killed { point }),
        1 => prop_oneof![Just("{"), Just("")].prop_map(Happens::Ledger),
    ]
}

fn happen(scene: &Scene, original: &str, event: &Happens) -> Option<Said> {
    match event {
        Happens::Stop { session, again, background } => {
            let mut payload = scene.payload();
            payload["session_id"] = json!(session.map(|session| format!("s{session}")));
            payload["stop_hook_active"] = json!(again);
            if *background {
                payload["background_tasks"] = json!([{ "id": "t", "status": "running" }]);
            }
            return Some(scene.hook(&payload));
        }
        Happens::Sign { session, event } => {
            let said = scene.hook_of(event, &format!("s{session}"), &json!({}));
            assert_eq!((said.code, said.json.get("decision")), (Some(0), None));
        }
        Happens::Result { entry, text } => {
            scene.file(&format!(".phasegate/triage/results/{entry}.json"), text);
        }
        Happens::Document(Edit::Phase(phase)) => {
            let state = std::fs::read_to_string(scene.path(STATE)).unwrap_or_default();
            if let Ok(mut state) = serde_json::from_str::<Value>(&state) {
                state["phase"] = json!(phase);
                scene.file(STATE, state.to_string());
            }
        }
        Happens::Document(Edit::Text(text)) => {
            scene.file(STATE, text);
        }
        Happens::Document(Edit::Restore) => {
            scene.file(STATE, original);
        }
        Happens::Document(Edit::Remove) => {
            let _ = std::fs::remove_file(scene.path(STATE));
        }
        Happens::Command(args) => {
            scene.run(args);
        }
        Happens::Killed { point } => {
            let mut command = scene.command();
            command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", point);
            let payload = scene.payload().to_string();
            let _ = scene.spawn(command, payload.as_bytes()).wait_with_output();
        }
        Happens::Ledger(text) => {
            if scene.exists(".phasegate/runs/triage/web") {
                scene.file(".phasegate/runs/triage/web/run.json", text);
            }
        }
    }
    None
}

/// The journal without the line that a process was writing when it died.
fn whole_lines(scene: &Scene) -> Vec<Value> {
    let path = scene.path(".phasegate/runs/triage/web/journal.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn config() -> ProptestConfig {
    let (cases, max_shrink_iters, failure_persistence) = (24, 200, None);
    ProptestConfig { cases, max_shrink_iters, failure_persistence, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_hook_survives_any_sequence_of_events(events in prop::collection::vec(event(), 1..30)) {
        let scene = Scene::with_triage(4);
        let original = scene.read(STATE);
        let mut cancelled = false;
        for event in &events {
            let before = whole_lines(&scene).len();
            let said = happen(&scene, &original, event);
            let lines = whole_lines(&scene);
            // A line that was written stays, except the torn one of a process that died.
            prop_assert!(lines.len() >= before, "{event:?} lost a line");
            let Some(said) = said else {
                let accepted = matches!(event, Happens::Command(["cancel", ..]));
                cancelled |= accepted && lines.len() > before
                    && lines.last().is_some_and(|line| line["event"]["name"] == "cancel");
                continue;
            };
            prop_assert_eq!(said.code, Some(0));
            if said.json.get("decision").is_some() {
                prop_assert!(!cancelled, "a cancelled run came back at {:?}", event);
                // A block is one new line, and in it a rule that fired. What was changed from outside is put
                // back before that, in a line of its own.
                let own = |line: &&Value| line["event"]["name"] != "put-back";
                prop_assert_eq!(lines[before..].iter().filter(own).count(), 1);
                let line = &lines[lines.len() - 1];
                prop_assert_eq!(&line["answer"]["decision"], "block");
                let reason = said.json["reason"].as_str().unwrap_or_default();
                // No rule can be asked about a document that does not fit; its author is told.
                let fired = line["trace"]["fired"].as_array().is_some_and(|fired| !fired.is_empty());
                prop_assert!(fired || reason.contains("cannot be used"), "{}", line);
                prop_assert!(reason.starts_with(line["answer"]["reason"].as_str().unwrap().trim_end()));
            }
        }
        if scene.exists(".phasegate/runs/triage/web/journal.jsonl") {
            let ran = scene.run(&["log", "web", "--verify"]);
            // The books of another hand are told by the second witness.
            let edited = events.iter().any(|event| matches!(event, Happens::Ledger(_)));
            let told = edited && ran.stderr.contains("not by Phasegate");
            prop_assert!(ran.code == Some(0) || told, "{:?}", ran);
        }
        // No temporary file is left once the next hook has run.
        scene.stop();
        for (path, _) in scene.snapshot() {
            prop_assert!(!path.to_string_lossy().ends_with("phasegate-tmp"), "{:?}", path);
        }
        let ran = scene.run(&["status"]);
        prop_assert!(ran.code == Some(0), "{:?}", ran);
    }
}
