//! Gates that users write: found, checked, started, and wrong in every way.

use crate::scene::Scene;

const NOTES: &str = r#"
name = "notes"
about = "No stop before the notes are written."
initial = "working"

[phase.working]
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md, then stop again." },
  { on = "stop", when = "text('NOTES.md') | length < 20", block = "NOTES.md has only {{ text('NOTES.md') | length }} characters." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

#[test]
fn a_gate_of_ones_own_blocks_until_its_evidence_is_there() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    assert!(scene.ok(&["lint", "notes"]).contains("0 errors, 0 warnings"));
    scene.stop().allows();
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene.file("NOTES.md", "short");
    scene.stop_again().blocks("only 5 characters");
    scene.file("NOTES.md", "long enough to be taken for notes");
    scene.stop_again().allows_saying("is done");
    assert!(scene.ok(&["status"]).contains("done"));
    scene.stop().allows();
    scene.ok(&["notes", "start"]);
    assert!(scene.exists(".phasegate/notes/notes-2.json"));
}

#[test]
fn an_ejected_workflow_wins_over_the_built_in() {
    let scene = Scene::with_triage(1);
    scene.ok(&["eject", "triage"]);
    assert!(scene.ok(&["test", "triage", "--full-coverage"]).contains("(100 %)"));
    let path = ".phasegate/workflows/triage/prompts/investigate.md";
    let text = scene.read(path);
    scene.file(path, format!("OURS {text}"));
    scene.stop().blocks("OURS 1 of 1");
    let again = scene.run(&["eject", "triage"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("nothing was changed"));
    assert!(scene.read(path).starts_with("OURS"));
}

#[test]
fn a_fault_in_a_guard_allows_with_its_place_and_keeps_the_state() {
    let scene = Scene::new();
    let broken = NOTES.replace("not exists('NOTES.md')", "state.banana == 3");
    scene.file(".phasegate/workflows/notes.toml", broken);
    scene.ok(&["notes", "start"]);
    let before = scene.read(".phasegate/notes/notes.json");
    let said = scene.stop();
    said.allows_saying("notes.toml:8:");
    said.allows_saying("there is no member `banana`");
    assert_eq!(scene.read(".phasegate/notes/notes.json"), before);
    assert_eq!(scene.journal("notes/notes").pop().unwrap()["answer"]["outcome"], "fault");
}

#[test]
fn endless_rules_are_a_fault_that_names_the_rule() {
    let scene = Scene::new();
    let endless = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nrules = [{ on = \"stop\", goto = \"b\" }]\n\
        [phase.b]\nrules = [{ on = \"stop\", goto = \"a\" }]\n";
    scene.file(".phasegate/workflows/w.toml", endless);
    scene.ok(&["w", "start"]);
    let said = scene.stop();
    said.allows_saying("fired 32 times without coming to rest");
    let endless = "name = \"w\"\nabout = \"a\"\ninitial = \"a\"\n[phase.a]\nalways = [{ when = \"true\", set = { \"state.n\" = \"(state.get('n') or 0) + 1\" } }]\nrules = []\n";
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", endless);
    scene.ok(&["w", "start"]);
    scene.stop().allows_saying("`a always 1`");
}

#[test]
fn actions_are_commands_and_refusals_say_why() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/review.toml",
        r#"
name = "review"
about = "Two eyes."
initial = "open"

[action.approve]
about = "Approve it."
param.note = { type = "string", about = "What you saw" }

[phase.open]
rules = [
  { on = "approve", when = "params.note | length < 3", deny = "A note of {{ params.note | length }} letters says nothing." },
  { on = "approve", set = { "state.note" = "params.note", "state.by" = "event.actor" }, goto = "approved" },
  { on = "stop", allow = "waiting", until = "human", message = "A person must approve." },
]

[phase.approved]
final = true
"#,
    );
    scene.ok(&["review", "start", "--name", "r"]);
    scene.stop().allows_saying("A person must approve.");
    assert!(scene.ok(&["status"]).contains("waiting"));
    let denied = scene.run(&["review", "approve", "--note", "x"]);
    assert_eq!(denied.code, Some(1));
    assert!(denied.stdout.contains("Not possible now: A note of 1 letters"), "{denied:?}");
    assert_eq!(
        scene.ok_by_hand(&["review", "approve", "r", "--note", "good"]),
        "review/r: accepted, open → approved\n"
    );
    let state = scene.json(".phasegate/review/r.json");
    assert_eq!(
        (&state["phase"], &state["note"], &state["by"]),
        (&"approved".into(), &"good".into(), &"human".into())
    );
    let late = scene.run(&["review", "approve", "--note", "good"]);
    assert!(late.stdout.contains("`approve` is not possible in phase `approved`"), "{late:?}");
}

#[test]
fn the_last_message_comes_from_the_payload_first_and_from_the_transcript_second() {
    let scene = Scene::new();
    let gate = NOTES
        .replace("not exists('NOTES.md')", "last_message() is none")
        .replace("text('NOTES.md') | length < 20", "'DONE' not in last_message()");
    let gate = gate.replace("{{ text('NOTES.md') | length }}", "{{ last_message() }}");
    scene.file(".phasegate/workflows/notes.toml", gate);
    scene.ok(&["notes", "start"]);
    let line = |text: &str| {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
        )
    };
    let mut payload = scene.payload();
    payload["last_assistant_message"] = "from the payload".into();
    scene.file("transcript.jsonl", line("DONE in the transcript"));
    scene.hook(&payload).blocks("only from the payload");
    payload["last_assistant_message"] = serde_json::Value::Null;
    scene.file("transcript.jsonl", line("from the transcript"));
    scene.hook(&payload).blocks("only from the transcript");
    scene.file("transcript.jsonl", line("DONE"));
    scene.hook(&payload).allows_saying("is done");
}

/// A path may come from a document, so one that leads out opens nothing: it satisfies no guard.
#[test]
fn evidence_never_leads_out_of_the_project() {
    for (path, text) in
        [("/etc/hostname", "is not relative to the project"), ("../x", "leaves the project")]
    {
        let scene = Scene::new();
        let gate = NOTES.replace("not exists('NOTES.md')", &format!("exists('{path}')"));
        scene.file(".phasegate/workflows/notes.toml", gate);
        scene.file(".phasegate/notes/notes.json", r#"{"phase":"working"}"#);
        scene.stop().blocks("NOTES.md has only 0 characters");
        let why = scene.ok(&["why"]);
        assert!(why.contains(text), "{why}");
    }
}

#[test]
fn what_cannot_be_read_satisfies_no_guard() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.ok(&["notes", "start"]);
    std::fs::create_dir(scene.path("NOTES.md")).unwrap();
    scene.stop().blocks("Write NOTES.md");
    std::fs::remove_dir(scene.path("NOTES.md")).unwrap();
    std::os::unix::fs::symlink("/etc/services", scene.path("NOTES.md")).unwrap();
    scene.stop().blocks("Write NOTES.md");
    std::fs::remove_file(scene.path("NOTES.md")).unwrap();
    scene.file("NOTES.md", b"\xff\xfe long enough, but this is no text at all");
    scene.stop().blocks("only 0 characters");
}

#[test]
fn secrets_that_a_guard_looks_at_are_not_written_down() {
    let scene = Scene::new();
    let gate = NOTES.replace("not exists('NOTES.md')", "env('TOKEN') is not none");
    scene.file(".phasegate/workflows/notes.toml", gate);
    scene.ok(&["notes", "start"]);
    scene
        .hook_raw(scene.payload().to_string().as_bytes(), &[("TOKEN", "s3cr3t")])
        .blocks("NOTES.md");
    for (path, content) in scene.snapshot() {
        assert!(!String::from_utf8_lossy(&content).contains("s3cr3t"), "{}", path.display());
    }
}

#[test]
fn facts_see_what_their_own_machine_sees_and_fail_only_where_they_are_used() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/workflows/w.toml",
        r#"
name = "w"
about = "a"
initial = "a"

[const]
limit = 5

[let]
label = "'limit ' ~ limit"
steps = "state.plan.steps"
todo = "0 if state.get('plan') is none else steps"

[phase.a]
rules = [
  { on = "stop", ask = "item" },
  { on = "stop", block = "{{ label }}, {{ todo }} to do" },
]

[machine.item]
each = "state.items"
initial = "a"
[machine.item.let]
own = "label ~ ' of ' ~ item.n"
[machine.item.phase.a]
rules = [{ on = "stop", when = "own == 'never'", block = "{{ own }}" }]
"#,
    );
    scene.file(".phasegate/w/one.json", r#"{"phase":"a","items":[{"n":1}]}"#);
    scene.stop().blocks("limit 5, 0 to do");
}

#[test]
fn workflows_that_cannot_be_started_say_so() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.file(".phasegate/config.toml", "[workflow.notes]\nenabled = false\n");
    assert!(scene.run(&["notes", "start"]).stderr.contains("is disabled in the configuration"));
    scene.file(".phasegate/config.toml", "[workflow.notes]\ndocument = \"state.json\"\n");
    scene.ok(&["notes", "start"]);
    assert!(scene.run(&["notes", "start"]).stderr.contains("state.json exists"));
    scene.ok_by_hand(&["cancel"]);
    std::fs::remove_file(scene.path("state.json")).unwrap();
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn names_of_runs_are_plain() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    let said = scene.ok(&["notes", "start", "--name", "Ünï code/../x y"]);
    assert!(said.contains("Run notes/Ünï-code-..-x-y has started"), "{said}");
    scene.stop().blocks_telling("phasegate cancel notes/Ünï-code-..-x-y");
    assert!(scene.run(&["notes", "start", "--name", "../.."]).stderr.contains("needs a name"));
}

#[test]
fn a_demo_of_ones_own_is_played() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.file(
        ".phasegate/workflows/notes/demo/script.toml",
        "start = [\"start\"]\n[[turn]]\non = \"NOTES.md\"\ndoes = \"write.json\"\n",
    );
    let work = r#"{"says": "wrote notes", "files": {"NOTES.md": "long enough to be taken for notes"}, "set": {}}"#;
    scene.file(".phasegate/workflows/notes/demo/write.json", work);
    assert!(scene.ok(&["demo", "notes"]).contains("2 stops, 1 blocks"));
}

/// The blocks of a page that start with the path of the file that they are.
fn files_of(page: &str, scene: &Scene) -> usize {
    let blocks = page.split("```toml\n# ").skip(1).map(|block| block.split_once('\n').unwrap());
    let written = blocks.map(|(path, text)| scene.file(path, text.split_once("```").unwrap().0));
    written.count()
}

#[test]
fn the_page_of_the_first_gate_is_true() {
    let scene = Scene::new();
    let files = files_of(include_str!("../docs/first-gate.md"), &scene);
    assert_eq!(files, 2, "a gate and a case");
    assert!(scene.ok(&["lint", "notes", "--strict"]).contains("0 errors, 0 warnings"));
    assert!(scene.ok(&["test", "notes"]).contains("1 passed, 0 failed; 1 of 3 rules covered"));
    scene.ok(&["notes", "start"]);
    scene.stop().blocks("Write NOTES.md, then stop again.");
    scene.file("NOTES.md", "x".repeat(150));
    scene.stop_again().blocks("NOTES.md has 150 characters. Say more.");
    scene.file("NOTES.md", "x".repeat(250));
    scene.stop_again().allows_saying("is done");
    assert!(scene.ok(&["status"]).contains("done"));
}
