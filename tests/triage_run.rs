//! A whole triage, from the findings to the report, by stops alone.

use serde_json::{Value, json};

use crate::scene::Scene;

#[test]
fn the_demo_plays_a_whole_run() {
    let scene = Scene::bare();
    let shown = scene.ok(&["demo"]);
    assert!(shown.contains("stop  1  triage        BLOCK  12 of 12 entries"), "{shown}");
    assert!(shown.contains("stop 18  complete      ALLOW done"), "{shown}");
    assert!(shown.contains("18 stops, 17 blocks"), "{shown}");
    assert!(scene.snapshot().is_empty(), "the demo left something behind");
}

#[test]
fn the_demo_plays_inside_of_a_session_too() {
    let scene = Scene::bare();
    let mut command = scene.command();
    command.arg("demo").env("CLAUDE_CODE_SESSION_ID", "abc").env("CLAUDECODE", "1");
    let ran = crate::scene::finish(scene.spawn(command, b""));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("18 stops, 17 blocks"), "{ran:?}");
}

#[test]
fn findings_become_a_state_document() {
    let scene = Scene::new();
    let findings = json!({ "findings": [
        { "name": "a", "file": "x.rs", "line": 3, "message": "unused" },
        { "title": "b", "route": "known-tp" },
    ]});
    scene.file("found.json", findings.to_string());
    let said = scene.ok(&["triage", "start", "--from", "found.json", "--batch-size", "7"]);
    assert!(
        said.contains("triage/found has started: .phasegate/triage/found_triage.json"),
        "{said}"
    );
    let state = scene.json(".phasegate/triage/found_triage.json");
    assert_eq!(state["batch_size"], 7);
    assert_eq!(state["entries"][0]["file_path"], "x.rs");
    assert_eq!(state["entries"][0]["status"], "pending");
    assert_eq!(state["entries"][1]["status"], "completed");
    assert_eq!(state["entries"][1]["name"], "b");
    scene.stop().blocks("1 of 2 entries");
}

#[test]
fn two_runs_in_one_folder_do_not_absorb_each_others_results() {
    let scene = Scene::new();
    scene.file("f.json", r#"[{"name":"a"}]"#);
    scene.ok(&["triage", "start", "--from", "f.json", "--name", "one"]);
    scene.ok(&["triage", "start", "--from", "f.json", "--name", "two"]);
    scene.ok(&["triage", "start", "--from", "f.json", "--name", "two"]);
    assert!(scene.exists(".phasegate/triage/two-2_triage.json"));
    scene.result(0, true, "g");
    scene.stop_of("1", false).blocks("**triage-aggregator**");
    scene.stop_of("2", false).blocks(".phasegate/triage/results/two/<entry_index>.json");
    scene.stop_of("3", false).blocks(".phasegate/triage/results/two-2/<entry_index>.json");
}

#[test]
fn bad_findings_are_refused_and_nothing_is_written() {
    let scene = Scene::new();
    for (text, expected) in [
        ("{", "not valid JSON"),
        ("[{\"name\":\"a\",\"route\":\"banana\"}]", "route is \"banana\""),
        ("3", "f.json is not a list of findings"),
        ("{\"foo\":1}", "f.json is not a list of findings"),
        ("[]", "f.json has no findings"),
        ("[1]", "f.json: finding 1 is not an object"),
    ] {
        scene.file("f.json", text);
        let ran = scene.run(&["triage", "start", "--from", "f.json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
        assert!(!scene.exists(".phasegate/triage"), "{text}");
    }
    scene.file("f.json", r#"[{"name":"a"}]"#);
    let ran = scene.run(&["triage", "start", "--from", "f.json", "--batch-size", "-1"]);
    assert!(ran.stderr.contains("at least 1"), "{ran:?}");
    let ran = scene.run(&["triage", "start", "--from", "nothing.json"]);
    assert!(ran.stderr.contains("cannot read nothing.json"), "{ran:?}");
}

#[test]
fn the_report_has_groups_plans_and_tasks() {
    let scene = Scene::bare();
    let shown = scene.ok(&["demo", "--keep"]);
    let root = shown.lines().find_map(|line| line.strip_prefix("The project was kept: ")).unwrap();
    let report = scene.ok(&["-C", root, "triage", "report"]);
    assert!(report.contains("7 false positives in 3 groups"), "{report}");
    assert!(report.contains("| event-handlers | 3 | complete | 5 | 4 |"), "{report}");
    let report: Value =
        serde_json::from_str(&scene.ok(&["-C", root, "triage", "report", "--json"])).unwrap();
    assert_eq!(report["groups"].as_array().unwrap().len(), 3);
    assert_eq!(report["entries"]["false_positives"], 7);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn constants_and_the_place_of_documents_can_be_configured() {
    let scene = Scene::new();
    scene.file(
        ".phasegate/config.toml",
        "[workflow.triage]\ndocument = \"audits/*.json\"\n[workflow.triage.const]\nREQUIRED_PLANS = 2\n",
    );
    let groups = json!({ "g": { "group_id": "g", "sub_phase": "planning", "plans_written": 1 } });
    let state = json!({ "phase": "fix-planning", "entries": [],
        "fix_planning": { "fix_plans_dir": "plans", "groups": groups } });
    scene.file("audits/web.json", state.to_string());
    scene.stop().blocks("1/2 plans");
    scene.file("plans/g/plan_1.md", "").file("plans/g/plan_2.md", "");
    scene.stop_again().blocks("**plan-synthesizer**");
    scene.file(".phasegate/config.toml", "[workflow.triage]\nenabled = false\n");
    scene.stop().allows_saying("run triage/web is open, but its workflow is disabled");
}

/// By the specification's fields alone, with the absolute paths that another tool writes.
#[test]
fn a_document_of_another_tool_is_triaged_to_its_end() {
    let scene = Scene::new();
    let root = scene.root().canonicalize().unwrap();
    let found = json!({ "is_true_positive": false, "group_id": "g" });
    let entry = json!({ "route": "llm-triage", "status": "completed", "start_line": "42", "result": found });
    let state = json!({
        "phase": "triage",
        "entries": [entry, entry, { "status": "pending" }],
        "results_dir": root.join("results"),
    });
    let place = ".phasegate/triage/other_triage.json";
    scene.file(place, state.to_string());
    scene.stop().blocks("entry 2: unnamed");
    scene.file("results/2.json", r#"{"is_true_positive": true}"#);
    scene.stop_again().blocks("**triage-aggregator**");
    let mut state = scene.json(place);
    state["aggregation"] = json!({ "status": "completed" });
    state["meta_review"] = json!({ "status": "completed" });
    let group = json!({ "sub_phase": "planning", "plans_written": "5", "synthesis_written": true, "reviews_written": 4.0 });
    state["fix_planning"] =
        json!({ "fix_plans_dir": root.join("plans"), "groups": { "g": group } });
    scene.file(place, state.to_string());
    scene.stop_again().blocks("**task-writer**");
    scene.file("plans/g/task.md", "the task");
    scene.stop_again().allows_saying("every group has its task");
}

/// Only the rules move the phase: one that somebody else has set ahead is put back, and one that was set back comes
/// forward again by what is there.
#[test]
fn the_phase_goes_forward_and_only_by_the_rules() {
    let place = ".phasegate/triage/web_triage.json";
    let scene = Scene::with_triage(2);
    scene.stop().blocks("2 of 2 entries");
    let mut state = scene.json(place);
    state["phase"] = json!("fix-planning");
    scene.file(place, state.to_string());
    let said = scene.stop_again();
    said.blocks("2 of 2 entries");
    assert!(said.told().unwrap().contains("it was put back"), "{said:?}");
    assert_eq!(scene.json(place)["phase"], "triage");
    let scene = Scene::new();
    let found =
        json!({ "status": "completed", "result": { "is_true_positive": false, "group_id": "g" } });
    let stage = json!({ "status": "completed" });
    let mut state = json!({ "phase": "fix-planning", "entries": [found, found], "aggregation": stage, "meta_review": stage });
    scene.file(place, state.to_string());
    scene.stop().blocks("0/5 plans");
    state["phase"] = json!("triage");
    scene.file(place, state.to_string());
    scene.stop_again().blocks("0/5 plans");
    assert_eq!(scene.json(place)["phase"], "fix-planning");
}

#[test]
fn the_report_names_groups_of_one() {
    let scene = Scene::new();
    let found = |group: &str| json!({ "status": "completed", "result": { "is_true_positive": false, "group_id": group } });
    let state =
        json!({ "phase": "meta-review", "entries": [found("many"), found("many"), found("one")] });
    scene.file(".phasegate/triage/web_triage.json", state.to_string());
    let report = scene.ok(&["triage", "report", "web"]);
    let told = "With one false positive each, and so without a fix plan: one.";
    assert!(report.contains(told), "{report}");
    let report: Value =
        serde_json::from_str(&scene.ok(&["triage", "report", "web", "--json"])).unwrap();
    assert_eq!(report["single_groups"], json!(["one"]));
}

/// The texts and the plugin name the same seven sub-agents, as the specification does.
#[test]
fn the_plugin_has_the_agents_that_the_texts_name() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let names = [
        "triage-investigator",
        "triage-aggregator",
        "triage-rule-reviewer",
        "fix-planner",
        "plan-synthesizer",
        "plan-reviewer",
        "task-writer",
    ];
    let texts = std::fs::read_dir(format!("{root}workflows/triage/prompts")).unwrap().flatten();
    let texts: String =
        texts.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    for name in names {
        assert!(texts.contains(&format!("**{name}**")), "no text names {name}");
        let agent = std::fs::read_to_string(format!("{root}plugin/agents/{name}.md")).unwrap();
        assert!(agent.contains(&format!("name: {name}\n")), "{agent}");
    }
    let agents = std::fs::read_dir(format!("{root}plugin/agents")).unwrap().count();
    assert_eq!((texts.matches("**").count() / 2, agents), (7, 7));
}
