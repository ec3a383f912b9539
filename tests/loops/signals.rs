//! Which words end a loop.

use serde_json::{Value, json};

use super::{DONE, iterates, line, now, say, with_loop};
use crate::scene::Scene;

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

#[test]
fn a_signal_counts_only_in_the_last_message() {
    let feedback = "Stop hook feedback: [ITERATION 1/5] Continue";
    let cases: [(&[Spoken], bool); 5] = [
        // Another message followed it: that takes it back.
        (&[("user", false, "go"), ("assistant", false, DONE), ("assistant", false, "Bye.")], false),
        // Of an earlier turn.
        (
            &[("assistant", false, DONE), ("user", false, "go on"), ("assistant", false, "Bye.")],
            false,
        ),
        // Of before the last block: it was heard then.
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
            false,
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

#[test]
fn a_signal_that_failing_tests_took_back_does_not_end_the_loop() {
    let scene = with_loop(0, 5);
    let tool =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"FAILED"}]}}"#;
    let lines = [
        line("user", false, "go"),
        line("assistant", false, DONE),
        tool.to_string(),
        line("assistant", false, "The tests fail, so this is not done."),
    ];
    scene.file("transcript.jsonl", lines.join("\n"));
    let mut payload = scene.payload();
    payload["last_assistant_message"] = Value::Null;
    iterates(&scene.hook(&payload), 1, 5);
    // What a tool printed after it takes nothing back, however long it is.
    let output = "x".repeat(6 << 20);
    let tool = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":"{output}"}}]}}}}"#
    );
    scene.file("transcript.jsonl", [lines[0].clone(), lines[1].clone(), tool].join("\n"));
    scene.hook(&payload).allows_saying("The loop is complete");
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
        let said = phasegate_clients::usual().since_spoken_to(&path, None);
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
