//! The loop: its store, its signals, its frames, and its contract with the client.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::scene::{Said, Scene, finish};

const MESSAGES: &str = ".jwz/messages.jsonl";

/// A store as the original tool writes it, with another topic and a message of each.
fn store(body: &Value) -> String {
    let mut text = String::new();
    for (id, name) in
        [("01JFKQTOPICAAAAAAAAAAAAAAA", "notes"), ("01JFKQTOPICBBBBBBBBBBBBBBB", "loop:current")]
    {
        let topic = json!({ "type": "topic", "id": id, "name": name, "description": "", "created_at": 1_734_777_000_000i64 });
        writeln!(text, "{topic}").unwrap();
    }
    let message = |id: &str, topic: &str, body: &str| {
        json!({ "type": "message", "id": id, "topic_id": topic, "parent_id": null, "body": body,
            "created_at": 1_734_777_000_001i64, "sender": { "id": "s", "name": "n" },
            "git": { "oid": "abc", "head": "main", "dirty": false, "prefix": "" } })
    };
    writeln!(
        text,
        "{}",
        message(
            "01JFKQMSG00000000000000001",
            "01JFKQTOPICBBBBBBBBBBBBBBB",
            r#"{"schema":1,"event":"DONE","stack":[]}"#
        )
    )
    .unwrap();
    writeln!(
        text,
        "{}",
        message("01JFKQMSG00000000000000002", "01JFKQTOPICBBBBBBBBBBBBBBB", &body.to_string())
    )
    .unwrap();
    writeln!(
        text,
        "{}",
        message(
            "01JFKQMSG00000000000000003",
            "01JFKQTOPICAAAAAAAAAAAAAAA",
            "loop:current is not this"
        )
    )
    .unwrap();
    text.push_str("not a line of JSON\n");
    text
}

fn now(seconds: i64) -> String {
    (jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn body(iter: u64, max: u64) -> Value {
    json!({ "schema": 1, "event": "STATE", "run_id": "loop-1", "updated_at": now(5), "stack": [
        { "id": "f1", "mode": "loop", "iter": iter, "max": max, "prompt_file": "task.md", "review": { "k": [1] } }] })
}

fn with_loop(iter: u64, max: u64) -> Scene {
    let scene = Scene::bare();
    scene.file(MESSAGES, store(&body(iter, max)));
    scene
}

fn say(scene: &Scene, text: &str) -> Said {
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!(text);
    scene.hook(&payload)
}

/// The messages of the topic, oldest first, as the original tool would read them.
fn states(scene: &Scene) -> Vec<Value> {
    let text = scene.read(MESSAGES);
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let topic = lines.iter().find(|line| line["name"] == "loop:current").unwrap()["id"].clone();
    let own = lines.iter().filter(|line| line["type"] == "message" && line["topic_id"] == topic);
    own.filter_map(|line| serde_json::from_str(line["body"].as_str()?).ok()).collect()
}

#[track_caller]
fn iterates(said: &Said, n: u64, max: u64) {
    let reason = format!(
        "[ITERATION {n}/{max}] Continue working on the task. Check your progress and either complete the task or keep iterating."
    );
    assert_eq!(
        (said.code, &said.json),
        (Some(2), &json!({ "decision": "block", "reason": reason }))
    );
}

#[test]
fn a_block_is_exactly_the_specified_json_and_exit_code_2() {
    let scene = with_loop(0, 3);
    let mut command = scene.command();
    command.args(["hook", "stop"]);
    let ran = finish(scene.spawn(command, scene.payload().to_string().as_bytes()));
    let expected = "{\"decision\": \"block\", \"reason\": \"[ITERATION 1/3] Continue working on the task. Check your progress and either complete the task or keep iterating.\"}\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), expected, ""));
}

#[test]
fn the_original_tools_store_is_understood_and_what_we_add_is_valid_for_it() {
    let scene = with_loop(1, 3);
    let before = scene.read(MESSAGES);
    iterates(&say(&scene, "On it."), 2, 3);
    let after = scene.read(MESSAGES);
    let added = after.strip_prefix(&before).expect("only lines are added");
    assert_eq!(added.lines().count(), 1);
    let line: Value = serde_json::from_str(added).unwrap();
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["body", "created_at", "git", "id", "parent_id", "sender", "topic_id", "type"]
    );
    assert_eq!(
        (&line["type"], &line["topic_id"]),
        (&json!("message"), &json!("01JFKQTOPICBBBBBBBBBBBBBBB"))
    );
    assert_eq!((&line["parent_id"], &line["sender"]), (&Value::Null, &Value::Null));
    let id = line["id"].as_str().unwrap();
    assert!(id.len() == 26 && id.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c)));
    assert!(id > "01JFKQMSG00000000000000003", "ids sort by time");
    assert!(line["created_at"].as_i64().unwrap() > 1_700_000_000_000);
    let state = states(&scene).pop().unwrap();
    assert_eq!(state["stack"][0]["review"], json!({ "k": [1] }), "fields of a mode stay");
    assert_eq!((&state["run_id"], &state["event"]), (&json!("loop-1"), &json!("STATE")));
    // Whole seconds and Z: what jq's `fromdate` reads.
    let time = state["updated_at"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[test]
fn a_loop_goes_through_its_iterations_and_ends_at_its_limit() {
    let scene = with_loop(0, 3);
    for n in 1..=3 {
        let mut payload = scene.payload();
        payload["stop_hook_active"] = json!(n > 1);
        iterates(&scene.hook(&payload), n, 3);
    }
    scene.stop_again().allows_saying("reached its limit of iterations");
    assert!(scene.ok(&["status"]).contains("ended in phase idle"), "a limit is no success");
    let last = states(&scene).pop().unwrap();
    assert_eq!(
        (&last["event"], &last["reason"], &last["stack"]),
        (&json!("DONE"), &json!("MAX_ITERATIONS"), &json!([]))
    );
    scene.stop_again().allows();
    assert!(scene.ok(&["log", "loop", "--verify"]).contains("4 lines"));
}

#[test]
fn twenty_concurrent_stops_are_twenty_iterations() {
    let scene = with_loop(0, 100);
    let hooks: Vec<_> = (0..20)
        .map(|_| {
            let mut command = scene.command();
            command.args(["hook", "stop"]);
            scene.spawn(command, scene.payload().to_string().as_bytes())
        })
        .collect();
    let mut seen: Vec<String> = hooks
        .into_iter()
        .map(|hook| {
            let ran = finish(hook);
            assert_eq!(ran.code, Some(2), "{ran:?}");
            let said: Value = serde_json::from_str(&ran.stdout).unwrap();
            said["reason"].as_str().unwrap().split(']').next().unwrap().to_string()
        })
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 20, "{seen:?}");
    let states = states(&scene);
    assert_eq!(states.len(), 22);
    assert_eq!(states[21]["stack"][0]["iter"], 20);
}

#[test]
fn a_message_that_somebody_else_posts_is_not_overwritten() {
    let scene = with_loop(1, 9);
    iterates(&say(&scene, "x"), 2, 9);
    // As the original tool posts: under its own lock, with its own fields.
    let abort = json!({ "type": "message", "id": "01ZZZZMSG00000000000000009", "topic_id": "01JFKQTOPICBBBBBBBBBBBBBBB",
        "parent_id": null, "body": r#"{"schema":1,"event":"ABORT","stack":[]}"#, "created_at": jiff::Timestamp::now().as_millisecond(), "sender": null, "git": null });
    let text = scene.read(MESSAGES);
    scene.file(MESSAGES, format!("{text}{abort}"));
    say(&scene, "x").allows();
    assert!(scene.ok(&["status"]).contains("ended in phase aborted"));
    // Its line had no newline at the end, and the next one still stands alone.
    scene.ok(&["loop", "start", "--prompt", "again"]);
    iterates(&say(&scene, "x"), 1, 10);
}

#[test]
fn the_escape_hatch_is_looked_at_before_any_processing() {
    let scene = with_loop(0, 3);
    let before = scene.snapshot();
    let said =
        scene.hook_raw(scene.payload().to_string().as_bytes(), &[("IDLE_LOOP_DISABLE", "1")]);
    said.allows();
    assert_eq!(scene.snapshot(), before);
    let mut command = scene.command();
    command.args(["loop", "start", "--prompt", "x"]).env("IDLE_LOOP_DISABLE", "1");
    let ran = finish(scene.spawn(command, b""));
    assert!(ran.stderr.contains("switched off by IDLE_LOOP_DISABLE=1"), "{ran:?}");
    assert_eq!(scene.snapshot(), before);
}

#[test]
fn malformed_state_is_aborted_loudly_and_traps_nobody() {
    for text in [
        store(&json!("not an object")),
        store(&Value::Null).replace("\"null\"", "\"{ broken\""),
        store(&json!({ "schema": 1, "event": "STATE", "stack": "x" })),
    ] {
        let scene = Scene::bare();
        scene.file(MESSAGES, text.clone());
        scene.stop().allows_saying("Run loop/current was given up");
        let last = states(&scene).pop().unwrap();
        assert_eq!((&last["event"], &last["reason"]), (&json!("ABORT"), &json!("CORRUPTED")));
        scene.stop().allows();
        assert!(scene.ok(&["status"]).contains("ended in phase aborted"));
        // And a start gets out of it, too.
        let scene = Scene::bare();
        scene.file(MESSAGES, text);
        scene.ok(&["loop", "start", "--prompt", "x"]);
        iterates(&say(&scene, "x"), 1, 10);
    }
}

const DONE: &str = "<loop-done>COMPLETE</loop-done>";

/// Texts, and whether the signal in them counts.
fn texts() -> Vec<(String, bool)> {
    let d = DONE;
    let texts: Vec<(String, bool)> = vec![
        (d.to_string(), true),
        (format!("Done.\n{d}"), true),
        (format!("{d}\nAnd one more line."), true),
        (format!("Done.\n\n{d}\n\nMore."), true),
        (format!("  {d}  "), true),
        (format!("Done.\r\n{d}\r\n"), true),
        (format!("Say {d} to end."), false),
        (format!("{d} is the signal"), false),
        (format!("`{d}`"), false),
        (format!("Here's how to signal completion:\n`{d}`"), false),
        (format!("``{d}``"), false),
        (format!("```\n{d}\n```"), false),
        (format!("```xml\n{d}\n```\n"), false),
        (format!("~~~\n{d}\n~~~"), false),
        (format!("````\n```\n{d}\n```\n````"), false),
        (format!("~~~\n```\n~~~\n{d}"), true),
        (format!("```\ncode\n```\n{d}"), true),
        (format!("```\nnever closed\n\n{d}"), false),
        (format!("   ```\n{d}\n   ```"), false),
        (format!("Text:\n\n    {d}"), false),
        (format!("Text:\n\n\t{d}"), false),
        (format!("- item\n\n      {d}"), false),
        (format!("> {d}"), false),
        (format!("> ```\n> {d}\n> ```"), false),
        (format!("- {d}"), false),
        (format!("1. ```\n   {d}\n   ```\n\n{d}"), true),
        (format!("**{d}**"), false),
        (format!("| a |\n|---|\n| {d} |"), false),
        (format!("<!--\n{d}\n-->"), false),
        (format!("<pre>\n{d}\n</pre>"), false),
        (format!("Use <code>\n{d}\n</code> to end"), false),
        (format!("Use <code>this</code> to end:\n{d}"), true),
        (format!("`a code span\n{d}\nover lines`"), false),
        (format!("an unclosed ` backtick\n{d}"), true),
        (format!("`one` and `two`\n{d}"), true),
        ("<loop-done>complete</loop-done>".into(), false),
        ("<loop-done>COMPLETE</loop-done".into(), false),
        ("<loop-done> COMPLETE </loop-done>".into(), false),
        ("<loop-done>\nCOMPLETE\n</loop-done>".into(), false),
        ("<loop-done>DONE</loop-done>".into(), false),
        (format!("\\{d}"), false),
        (format!("``` {d} ```"), false),
        (format!("```\n{d}"), false),
        (format!("\u{feff}{d}"), false),
        (String::new(), false),
    ];
    texts
}

#[test]
fn a_signal_counts_on_a_line_of_its_own_outside_of_code() {
    let texts = texts();
    assert!(texts.len() >= 25);
    for (text, counts) in texts {
        let scene = with_loop(0, 5);
        let said = say(&scene, &text);
        let blocked = said.json["decision"] == "block";
        assert_eq!(!blocked, counts, "{text:?}: {said:?}");
    }
}

/// Who, whether it is a hook's, and what.
type Spoken = (&'static str, bool, &'static str);

/// A line of a transcript.
fn line(kind: &str, meta: bool, text: &str) -> String {
    let content =
        if kind == "assistant" { json!([{ "type": "text", "text": text }]) } else { json!(text) };
    json!({ "type": kind, "isMeta": meta, "message": { "role": kind, "content": content } })
        .to_string()
}

#[test]
fn a_signal_counts_only_since_the_agent_was_last_spoken_to() {
    let feedback = "Stop hook feedback: [ITERATION 1/5] Continue";
    let cases: [(&[Spoken], bool); 5] = [
        // Of this stretch, though another message followed it.
        (&[("user", false, "go"), ("assistant", false, DONE), ("assistant", false, "Bye.")], true),
        // Of an earlier turn.
        (
            &[("assistant", false, DONE), ("user", false, "go on"), ("assistant", false, "Bye.")],
            false,
        ),
        // Of before the last block: it was heard then, by whoever was meant.
        (
            &[
                ("user", false, "go"),
                ("assistant", false, DONE),
                ("user", true, feedback),
                ("assistant", false, "Bye."),
            ],
            false,
        ),
        // The user speaks of it.
        (&[("user", false, DONE), ("assistant", false, "Bye.")], false),
        (
            &[
                ("user", false, "go"),
                ("assistant", false, "x"),
                ("user", true, feedback),
                ("assistant", false, DONE),
                ("assistant", false, "Bye."),
            ],
            true,
        ),
    ];
    for (lines, counts) in cases {
        let scene = with_loop(0, 5);
        let text: Vec<String> =
            lines.iter().map(|(kind, meta, text)| line(kind, *meta, text)).collect();
        scene.file("transcript.jsonl", format!("{}\n{{ broken\n", text.join("\n")));
        let said = say(&scene, "Bye.");
        assert_eq!(said.json["decision"] != "block", counts, "{lines:?}: {said:?}");
    }
    // The file lags: the message is in the payload alone.
    let scene = with_loop(0, 5);
    scene.file("transcript.jsonl", line("user", false, "go"));
    say(&scene, DONE).allows_saying("The loop is complete");
}

/// Bytes that this thread has read so far.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_huge_transcript_costs_what_a_small_one_costs() {
    let scene = with_loop(0, 5);
    let path = scene.path("transcript.jsonl");
    let read = |megabytes: u64| {
        // A sparse file with the turn at its end: nothing is written but the last lines.
        std::fs::File::create(&path).unwrap().set_len(megabytes << 20).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let filler = line("assistant", false, &"x".repeat(1000));
        let filler = vec![filler.as_str(); 2000].join("\n");
        let done = line("assistant", false, DONE);
        std::io::Write::write_all(&mut file, format!("\n{filler}\n{done}\n").as_bytes()).unwrap();
        let before = bytes_read();
        let said = phasegate_runtime::transcript::since_spoken_to(&path, None);
        assert_eq!(said.last().map(String::as_str), Some(DONE));
        bytes_read() - before
    };
    let (small, large) = (read(10), read(1024));
    assert!(large < 12 << 20 && large < small * 2, "{large} bytes against {small}");
    let mut payload = scene.payload();
    payload["last_assistant_message"] = Value::Null;
    scene.hook(&payload).allows_saying("The loop is complete");
}

#[test]
fn nested_starts_push_and_pops_come_back_to_the_outer_loop() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--mode", "grind", "--max", "4", "--prompt", "All issues."]);
    iterates(&say(&scene, "x"), 1, 4);
    scene.file("issue.md", "One issue.");
    scene.ok(&[
        "loop",
        "start",
        "--mode",
        "issue",
        "--issue",
        "X-1",
        "--max",
        "2",
        "--prompt-file",
        "issue.md",
    ]);
    iterates(&say(&scene, "x"), 1, 2);
    let status = scene.ok(&["loop", "status"]);
    assert!(
        status.starts_with(
            "at work: issue, iteration 1 of 2, prompt issue.md\noutside: grind, iteration 1 of 4"
        ),
        "{status}"
    );
    say(&scene, "<issue-complete>DONE</issue-complete>")
        .allows_saying("the outer one goes on at the next stop");
    iterates(&say(&scene, "x"), 2, 4);
    say(&scene, "<grind-done>NO_MORE_ISSUES</grind-done>").allows_saying("The loop is complete");
    let last = states(&scene).pop().unwrap();
    assert_eq!((&last["event"], &last["stack"]), (&json!("DONE"), &json!([])));
    let files = std::fs::read_dir(scene.path(".phasegate/loop")).unwrap();
    let mut prompts =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some());
    assert_eq!(std::fs::read_to_string(prompts.next().unwrap()).unwrap(), "All issues.\n");
    // And a new one, after the end.
    scene.ok(&["loop", "start", "--prompt", "Again."]);
    iterates(&say(&scene, "x"), 1, 10);
}

#[test]
fn a_loop_is_cancelled_and_started_again() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    iterates(&say(&scene, "x"), 1, 10);
    scene.ok(&["loop", "cancel", "--reason", "enough"]);
    let last = states(&scene).pop().unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&json!("ABORT"), &json!("enough")));
    say(&scene, "x").allows();
    for how in [["cancel", "loop"], ["loop", "cancel"]] {
        scene.ok(&["loop", "start", "--prompt", "x"]);
        iterates(&say(&scene, "x"), 1, 10);
        scene.ok(&how);
        say(&scene, "x").allows();
        let refused = scene.run(&["loop", "start"]);
        assert_eq!(refused.code, Some(1));
        say(&scene, "x").allows();
    }
    let ran = scene.run(&["loop", "cancel"]);
    assert!(
        ran.code == Some(1) && ran.stdout.contains("not possible in phase `aborted`"),
        "{ran:?}"
    );
    scene.ok(&["log", "loop", "--verify"]);
}

#[test]
fn a_start_that_makes_no_sense_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    for (args, text) in [
        (&["--prompt", "x", "--mode", "banana"] as &[&str], "--mode is loop, issue or grind"),
        (&["--prompt", "x", "--max", "0"], "--max is at least 1"),
        (&[], "say what to do"),
        (&["--prompt", "x", "--prompt-file", "home/x"], "say it once"),
        (&["--prompt-file", "missing.md"], "there is no file missing.md"),
        (&["--prompt-file", "/etc/hostname"], "is not in the project"),
        (&["--prompt", "x", "--worktree"], "--worktree goes with --mode issue"),
    ] {
        scene.file("home/x", "");
        let ran = scene.run(&[&["loop", "start"], args].concat());
        assert!(ran.code == Some(1), "{args:?}: {ran:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(text), "{args:?}: {ran:?}");
        assert!(!scene.exists(".jwz"), "{args:?}");
    }
}

const FILE: &str = ".claude/idle-loop.local.md";

#[test]
fn the_fallback_file_is_counted_in_place_and_removed_at_the_end() {
    let text =
        "---\nactive: true\nmode: loop\niteration: 1\nmax_iterations: 3\n# kept\n---\n\nDo it.\n";
    let scene = Scene::bare();
    scene.file(FILE, text);
    iterates(&say(&scene, "x"), 2, 3);
    let now = scene.read(FILE);
    assert!(
        now.starts_with("---\nactive: true\nmode: loop\niteration: 2\nmax_iterations: 3\n# kept\n")
    );
    assert!(now.ends_with("---\n\nDo it.\n") && now.contains("# kept"), "{now}");
    say(&scene, DONE).allows_saying("The loop is complete");
    assert!(!scene.exists(FILE));
    say(&scene, "x").allows();
    // A new file is a new loop.
    scene.file(FILE, text);
    iterates(&say(&scene, "x"), 2, 3);
    scene.file(FILE, text.replace("iteration: 1", "iteration: one"));
    say(&scene, "x").allows_saying("corrupted");
    assert!(!scene.exists(FILE));
}

#[test]
fn a_finished_topic_does_not_mask_an_active_file() {
    let scene = Scene::bare();
    scene.file(MESSAGES, store(&json!({ "schema": 1, "event": "DONE", "stack": [] })));
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
}

#[test]
fn the_anchor_survives_a_compaction() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--max", "7", "--prompt", "Port the parser to the new lexer."]);
    iterates(&say(&scene, "x"), 1, 7);
    Command::new("git").args(["init", "-q"]).current_dir(scene.root()).status().unwrap();
    scene.file("lexer.rs", "").file(".gitignore", "home\n");
    let said = format!(
        "{}\n{}\n",
        line("user", false, "go"),
        line("assistant", false, "The lexer is half done.")
    );
    scene.file("transcript.jsonl", said);
    scene
        .hook_of("pre-compact", "s1", &json!({ "trigger": "auto", "last_assistant_message": null }))
        .allows();
    let text = scene.read(MESSAGES);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let anchor: Value = serde_json::from_str(last["body"].as_str().unwrap()).unwrap();
    let keys: Vec<&String> = anchor.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["goal", "iteration", "mode", "modified_files", "next_step", "progress", "timestamp"]
    );
    assert_eq!(
        (&anchor["goal"], &anchor["iteration"]),
        (&json!("Port the parser to the new lexer."), &json!(1))
    );
    assert_eq!(anchor["progress"], "The lexer is half done.");
    assert!(anchor["modified_files"].to_string().contains("lexer.rs"), "{anchor}");
    // The loop itself is where it was.
    assert_eq!(states(&scene).pop().unwrap()["stack"][0]["iter"], 1);
    let said = scene.hook_of("session-start", "s1", &json!({ "source": "compact" }));
    let note = said.json["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    for text in
        ["iteration 1 of 7", ".phasegate/loop/", DONE, "Port the parser", "half done", "lexer.rs"]
    {
        assert!(note.contains(text), "{text}: {note}");
    }
}

#[test]
fn an_issue_is_worked_on_in_a_worktree_and_landed() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.file(".gitignore", ".worktrees\n.jwz\n.phasegate\nhome\n").file("a.txt", "1\n");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    let start = |issue: &str| {
        scene.run(&[
            "loop",
            "start",
            "--mode",
            "issue",
            "--issue",
            issue,
            "--worktree",
            "--prompt",
            "x",
        ])
    };
    let ran = start("ABC-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Ids that differ only by case do not collide.
    let ran = start("abc-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let frames = states(&scene).pop().unwrap()["stack"].clone();
    let trees: Vec<String> = frames
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["worktree"].as_str().unwrap().to_lowercase())
        .collect();
    assert_ne!(trees[0], trees[1]);
    assert!(trees.iter().all(|tree| scene.path(tree).join("a.txt").exists()), "{trees:?}");
    assert!(scene.git(&["branch"]).contains("phasegate/issue/abc-1"));
    // A branch without its worktree is git's to complain about, and pushes no frame.
    scene.git(&["branch", "phasegate/issue/taken"]);
    let ran = start("taken");
    assert!(ran.code == Some(1) && ran.stdout.contains("git worktree add"), "{ran:?}");
    assert_eq!(states(&scene).pop().unwrap()["stack"].as_array().unwrap().len(), 2);
    // An issue that was given up is taken up again where it was.
    scene.ok(&["loop", "cancel"]);
    let ran = start("abc-1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let tree = &trees[1];
    scene.file(&format!("{tree}/a.txt"), "2\n");
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("not committed: a.txt"), "{ran:?}");
    scene.git(&["-C", tree, "commit", "-qam", "second"]);
    // Not fast-forward: somebody has committed to main meanwhile.
    scene.git(&["commit", "-q", "--allow-empty", "-m", "other"]);
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("git merge --ff-only"), "{ran:?}");
    assert!(scene.path(tree).exists());
    scene.git(&["-C", tree, "rebase", "-q", "main"]);
    let ran = scene.run(&["loop", "land"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.read("a.txt"), "2\n");
    assert!(!scene.path(tree).exists());
    assert!(!scene.git(&["branch"]).lines().any(|line| line.trim() == "phasegate/issue/abc-1"));
}

#[test]
fn a_branch_lands_only_after_its_check() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.file(".gitignore", ".worktrees\n.jwz\n.phasegate\nhome\n").file("a.txt", "1\n");
    scene.file("check.sh", "#!/bin/sh\necho looked in $PWD; grep -q good a.txt\n");
    std::fs::set_permissions(
        scene.path("check.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.file(".phasegate/config.toml", "[workflow.loop.const]\nLAND_CHECK = \"check.sh\"\n");
    let start = ["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "x"];
    // What a project's configuration makes a built-in workflow run needs consent.
    let ran = scene.run(&start);
    assert!(ran.code == Some(1) && ran.stderr.contains("phasegate trust loop"), "{ran:?}");
    assert_eq!(scene.by_hand(&["trust", "loop"]).code, Some(0));
    let said = scene.ok(&start);
    assert!(said.contains("Work in .worktrees/phasegate/x") && said.contains(DONE), "{said}");
    scene.file(".worktrees/phasegate/x/a.txt", "bad\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "bad"]);
    let ran = scene.run(&["loop", "land"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("looked in"), "{ran:?}");
    assert_eq!(scene.read("a.txt"), "1\n");
    let refused = scene.journal("loop/current").pop().unwrap();
    assert_eq!(refused["answer"]["decision"], "deny", "a refusal is written down");
    // The agent cannot change the check in its branch.
    scene.file(".worktrees/phasegate/x/check.sh", "#!/bin/true\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "weaker"]);
    assert_eq!(scene.run(&["loop", "land"]).code, Some(1));
    scene.file(".worktrees/phasegate/x/a.txt", "good\n");
    scene.git(&["-C", ".worktrees/phasegate/x", "commit", "-qam", "good"]);
    scene.ok(&["loop", "land"]);
    assert_eq!(scene.read("a.txt"), "good\n");
}

#[test]
fn the_store_is_read_as_the_original_tool_reads_it() {
    let message = |id: &str, topic: &str, parent: Value, time: i64, body: Value| {
        json!({ "type": "message", "id": id, "topic_id": topic, "parent_id": parent, "body": body,
            "created_at": time, "sender": null, "git": null })
    };
    let (first, second) = ("01JFKQTOPICBBBBBBBBBBBBBBB", "01JFKQTOPICCCCCCCCCCCCCCCC");
    let later = 1_734_777_000_002i64;
    // An answer to a message is no state.
    let scene = with_loop(0, 3);
    let answer = message("01A", first, json!("01JFKQMSG00000000000000002"), later, json!("why?"));
    scene.file(MESSAGES, format!("{}{answer}\n", scene.read(MESSAGES)));
    iterates(&say(&scene, "x"), 1, 3);
    // Two topics with one name, as a merge leaves them: the newest message counts. CRLF, no end.
    let scene = with_loop(0, 3);
    let topic = json!({ "type": "topic", "id": second, "name": "loop:current", "description": "", "created_at": later });
    let state = message("01B", second, Value::Null, later, json!(body(4, 9).to_string()));
    let text = format!("{}{topic}\n{state}", scene.read(MESSAGES)).replace('\n', "\r\n");
    scene.file(MESSAGES, text);
    iterates(&say(&scene, "x"), 5, 9);
    iterates(&say(&scene, "x"), 6, 9);
    // A body that is an object is what it says.
    let scene = with_loop(0, 3);
    let abort = message(
        "01C",
        first,
        Value::Null,
        later,
        json!({ "schema": 1, "event": "ABORT", "stack": [] }),
    );
    scene.file(MESSAGES, format!("{}{abort}\n", scene.read(MESSAGES)));
    say(&scene, "x").allows();
}

#[test]
fn the_store_leads_nowhere_else() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["messages.jsonl", "lock"] {
        let scene = Scene::new();
        std::fs::create_dir(scene.path(".jwz")).unwrap();
        let target = outside.path().join(name);
        std::os::unix::fs::symlink(&target, scene.path(&format!(".jwz/{name}"))).unwrap();
        let ran = scene.run(&["loop", "start", "--prompt", "x"]);
        assert!(ran.code == Some(1) && ran.stderr.contains("is no ordinary file"), "{ran:?}");
        assert!(!target.exists());
    }
}

#[test]
fn a_cancel_from_outside_is_the_loops_own_and_sticks() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "one", "--max", "3"]);
    iterates(&say(&scene, "x"), 1, 3);
    scene.ok(&["cancel", "loop/current", "--reason", "enough"]);
    assert_eq!(states(&scene).pop().unwrap()["event"], "ABORT");
    scene.ok(&["loop", "start", "--prompt", "two", "--max", "5"]);
    let status = scene.ok(&["loop", "status"]);
    assert!(!status.contains("outside"), "the cancelled loop is gone: {status}");
    iterates(&say(&scene, "x"), 1, 5);
    // A lost ledger does not bring the cancel back.
    std::fs::remove_file(scene.path(".phasegate/runs/loop/current/ledger.json")).unwrap();
    let said = say(&scene, "x");
    assert_eq!(said.json["decision"], "block", "{said:?}");
}

#[test]
fn waiting_for_background_work_is_no_iteration() {
    let scene = with_loop(0, 2);
    let mut payload = scene.payload();
    payload["background_tasks"] = json!([{ "id": "t", "status": "running" }]);
    for _ in 0..4 {
        scene.hook(&payload).allows_saying("waits for background work");
    }
    iterates(&say(&scene, "x"), 1, 2);
}

#[test]
fn another_session_does_not_start_inside_of_a_loop() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    iterates(&say(&scene, "x"), 1, 10);
    let mut command = scene.command();
    command
        .args(["loop", "start", "--prompt", "y"])
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "s2");
    let ran = finish(scene.spawn(command, b""));
    assert!(ran.code == Some(1) && ran.stderr.contains("belongs to another session"), "{ran:?}");
    iterates(&say(&scene, "x"), 2, 10);
}

#[test]
fn parallel_starts_all_count() {
    let scene = Scene::new();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let mut command = scene.command();
            command.args(["loop", "start", "--prompt", "x"]);
            scene.spawn(command, b"")
        })
        .collect();
    for start in starts {
        let ran = finish(start);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(states(&scene).pop().unwrap()["stack"].as_array().unwrap().len(), 8);
}

#[test]
fn a_worktree_inside_of_a_project_is_gated_by_the_project() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene
        .file(".gitignore", ".worktrees\nhome\n")
        .file(".phasegate/config.toml", "[limits]\nblocks = 99\n");
    scene.file(MESSAGES, store(&json!({ "schema": 1, "event": "DONE", "stack": [] })));
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok(&["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "p"]);
    let mut payload = scene.payload();
    payload["cwd"] = json!(scene.path(".worktrees/phasegate/x"));
    iterates(&scene.hook(&payload), 1, 10);
}

#[test]
fn texts_are_written_as_they_are() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", r#"{"task":"x","n":1}"#]);
    let file =
        states(&scene).pop().unwrap()["stack"][0]["prompt_file"].as_str().unwrap().to_string();
    assert_eq!(scene.read(&file), "{\"task\":\"x\",\"n\":1}\n");
    // From a folder below, a path is what it is there.
    scene.file("sub/task.md", "x");
    let mut command = scene.command();
    command.args(["loop", "start", "--prompt-file", "task.md"]).current_dir(scene.path("sub"));
    assert_eq!(finish(scene.spawn(command, b"")).code, Some(0));
    assert_eq!(states(&scene).pop().unwrap()["stack"][1]["prompt_file"], "sub/task.md");
}

#[test]
fn a_signal_from_before_the_loop_began_does_not_end_it() {
    let scene = Scene::new();
    scene.ok(&["loop", "start", "--prompt", "x"]);
    let at = |seconds: i64, text: &str| {
        let mut line: Value = serde_json::from_str(&line("assistant", false, text)).unwrap();
        line["timestamp"] = json!(now(seconds));
        line.to_string()
    };
    scene.file(
        "transcript.jsonl",
        format!("{}\n{}\n{}\n", line("user", false, "go"), at(60, DONE), at(0, "Started.")),
    );
    iterates(&say(&scene, "Started."), 1, 10);
}

#[test]
fn an_upgrade_in_mid_run_keeps_the_consent() {
    let scene = Scene::new();
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
    // As a new version of a built-in definition does, this makes the run keep to its copy.
    scene.file(".phasegate/config.toml", "[workflow.loop.const]\nMAX_ITERATIONS = 11\n");
    say(&scene, DONE).allows_saying("The loop is complete");
    assert!(!scene.exists(FILE));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release has no fault points")]
fn a_kill_while_the_file_is_removed_leaves_no_broken_run() {
    let scene = Scene::bare();
    scene.file(FILE, "---\nactive: true\nmode: loop\niteration: 0\nmax_iterations: 3\n---\nx\n");
    iterates(&say(&scene, "x"), 1, 3);
    let mut payload = scene.payload();
    payload["last_assistant_message"] = json!(DONE);
    let mut command = scene.command();
    command.args(["hook", "stop"]).env("PHASEGATE_FAULT_POINT", "after-document");
    let died = scene.spawn(command, payload.to_string().as_bytes()).wait_with_output().unwrap();
    assert!(!died.status.success() && !scene.exists(FILE));
    scene.stop().allows();
    assert!(scene.ok(&["status"]).contains("ended"));
}

#[test]
fn what_a_loop_writes_is_passed_over_by_git() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "-b", "main"]);
    scene.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    scene.ok(&["loop", "start", "--mode", "issue", "--issue", "x", "--worktree", "--prompt", "p"]);
    let status = scene.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(!status.contains(".worktrees") && !status.contains(".phasegate"), "{status}");
}
