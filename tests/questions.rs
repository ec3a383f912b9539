//! Questions of an agent to the person: they let it stop within bounds, and the answer reaches it once.

use serde_json::{Value, json};

use crate::phases::mcp::Client;
use crate::phases::{Phases, eventually};
use crate::scene::{Ran, Scene, finish};

const GATE: &str = r#"
name = "w"
about = "a"
initial = "a"
[phase.a]
rules = [
  { on = "stop", when = "exists('look')", allow = "waiting", until = "human", message = "Look at the draft." },
  { on = "stop", when = "not exists('ok')", block = "make ok" },
  { on = "stop", goto = "b", allow = "done" },
]
[phase.b]
final = true
"#;

const RUN: &str = "w/w";

/// A gate that wants a file, in a repository, and the session `s1` that it holds.
fn held() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", GATE).file(".gitignore", "home\n*.jsonl\n");
    scene.file(
        "home/.config/phasegate/config.toml",
        "[notify]\ncommand = [\"sh\", \"-c\", \"cat >> told.jsonl; echo >> told.jsonl\"]\n",
    );
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok(&["w", "start"]);
    scene.stop().blocks("make ok");
    scene
}

fn asks(scene: &Scene, question: &str) -> Ran {
    scene.by_agent(&["ask-human", question])
}

fn answers(scene: &Scene, answer: &str) -> Ran {
    scene.by_hand(&["answer", RUN, answer])
}

#[track_caller]
fn refused(ran: &Ran, why: &str) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(why), "{why:?} is not in {ran:?}");
}

fn context(said: &crate::scene::Said) -> String {
    said.json["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_string()
}

/// The names of the events in the journal.
fn events(scene: &Scene, run: &str) -> Vec<String> {
    let name = |line: &Value| line["event"]["name"].as_str().unwrap().to_string();
    scene.journal(run).iter().map(name).collect()
}

fn notified(scene: &Scene) -> Vec<Value> {
    let text = std::fs::read_to_string(scene.path("told.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn an_agent_asks_stops_and_gets_the_answer_with_the_next_prompt() {
    let scene = held();
    let ran = asks(&scene, "Red or blue?");
    assert!(ran.stdout.contains("Run w/w has asked the person."), "{ran:?}");
    // It is told at once, and not again at the stop.
    eventually("the person is notified", || notified(&scene).len() == 1);
    assert!(notified(&scene)[0]["message"].as_str().unwrap().contains("Red or blue?"));
    scene.stop_again().allows_saying("Run w/w asks you: Red or blue?");
    let status = scene.ok(&["status"]);
    assert!(status.starts_with("needs you: Run w/w asks you: Red or blue?"), "{status}");
    assert_eq!(status.matches("Red or blue").count(), 1, "{status}");
    let row = &serde_json::from_str::<Value>(&scene.ok(&["status", "--json"])).unwrap()["runs"][0];
    assert_eq!(row["question"]["text"], "Red or blue?");
    let mut command = scene.command();
    command.arg("statusline");
    let input = json!({ "session_id": "s1", "workspace": { "current_dir": scene.root() } });
    let line = finish(scene.spawn(command, input.to_string().as_bytes())).stdout;
    assert!(line.contains("needs you: Red or blue?"), "{line}");
    let ran = answers(&scene, "Blue.");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(scene.ok(&["status"]).contains("Send the agent a message to go on"));
    let said = scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": "go on" }));
    assert!(
        context(&said).contains("Your question was: Red or blue?\nThe answer: Blue."),
        "{said:?}"
    );
    // Once.
    let said = scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": "go on" }));
    assert_eq!(said.json, json!({}));
    scene.stop().blocks("make ok");
    let events = events(&scene, RUN);
    for name in ["ask-human", "answer", "user-prompt-submit"] {
        assert_eq!(events.iter().filter(|it| *it == name).count(), 1, "{events:?}");
    }
    let line =
        scene.journal(RUN).into_iter().find(|line| line["event"]["name"] == "answer").unwrap();
    assert_eq!(
        (&line["event"]["actor"], &line["event"]["params"]["answer"]),
        (&json!("human"), &json!("Blue."))
    );
    assert_eq!(notified(&scene).len(), 1, "{:?}", notified(&scene));
    assert!(scene.ok(&["log", "--verify"]).contains("w/w"));
}

#[test]
fn an_agent_at_work_gets_the_answer_at_its_stop_or_when_its_session_begins_again() {
    let scene = held();
    asks(&scene, "Red or blue?");
    answers(&scene, "Blue.");
    // Nothing has changed since the last block, and still the agent is not called stuck.
    scene.stop_again().blocks("The answer: Blue.\n\nmake ok");
    scene.stop_again().allows_saying("is stuck");
    asks(&scene, "And the border?");
    answers(&scene, "None.");
    let said = scene.hook_of("session-start", "s1", &json!({ "source": "resume" }));
    assert!(context(&said).contains("The answer: None."), "{said:?}");
    let said = scene.hook_of("session-start", "s1", &json!({ "source": "compact" }));
    assert!(!context(&said).contains("None."), "{said:?}");
}

#[test]
fn a_question_opens_the_gate_twice_and_no_more() {
    let scene = held();
    asks(&scene, "Red or blue?");
    scene.stop().allows_saying("asks you");
    scene.stop().allows_saying("asks you");
    scene.stop().blocks("make ok");
    // It is still there to be answered.
    assert!(scene.ok(&["status"]).contains("Red or blue?"));
    scene.file("new.txt", "a change");
    scene.stop().allows_saying("asks you");
    // A completion is one, whatever was asked; what nobody reads any more is said.
    answers(&scene, "Blue.");
    scene.file("ok", "");
    let said = scene.stop();
    said.allows_saying("is done");
    said.allows_saying("has ended before the agent has read your answer: Blue.");
    refused(&answers(&scene, "Red."), "is done and asks nothing");
    assert!(!scene.ok(&["status"]).contains("needs you"));
}

#[test]
fn one_question_is_open_until_it_is_answered_withdrawn_or_spoken_about() {
    let scene = held();
    asks(&scene, "Red or blue?");
    refused(&asks(&scene, "Round or square?"), "has an open question already: \"Red or blue?\"");
    let ran = scene.by_agent(&["ask-human", "--withdraw"]);
    assert!(ran.stdout.contains("has withdrawn its question"), "{ran:?}");
    let ran = scene.by_agent(&["ask-human", "--withdraw"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("had no open question"), "{ran:?}");
    scene.stop().blocks("make ok");
    refused(&answers(&scene, "Red."), "it has not asked anything");
    // A person who speaks to the agent has answered in another way.
    asks(&scene, "Round or square?");
    scene.hook_of("user-prompt-submit", "s1", &json!({ "prompt": "Round." }));
    scene.stop().blocks("make ok");
    let last = scene.journal(RUN);
    let line = last.iter().find(|line| line["event"]["name"] == "user-prompt-submit").unwrap();
    assert!(line["notes"][0].as_str().unwrap().contains("closes its question"), "{line}");
    // Answered twice.
    asks(&scene, "Big or small?");
    answers(&scene, "Big.");
    refused(&answers(&scene, "Small."), "has your answer already");
    // An answer that was not read comes with the next question.
    let ran = asks(&scene, "How big?");
    assert!(ran.stdout.contains("Big or small?\nThe answer: Big."), "{ran:?}");
    scene.ok_by_hand(&["cancel", RUN]);
    refused(&answers(&scene, "Very."), "is cancelled and asks nothing");
    assert!(!scene.ok(&["status", "--all"]).contains("needs you"));
    refused(&asks(&scene, "Why?"), "no run holds this session");
}

#[test]
fn only_people_answer_and_only_agents_ask() {
    let scene = held();
    asks(&scene, "Red or blue?");
    refused(&scene.by_agent(&["answer", RUN, "Mine."]), "is for people");
    let last = scene.journal(RUN).pop().unwrap();
    assert_eq!(
        (&last["event"]["name"], &last["answer"]["decision"]),
        (&json!("answer"), &json!("deny"))
    );
    assert!(!last.to_string().contains("Mine."), "{last}");
    refused(&scene.by_hand(&["ask-human", "What?"]), "is for agents");
    // Another session does not ask in this one's run.
    let mut command = scene.command();
    command.args(["ask-human", "Me?", "--run", RUN]);
    command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s2");
    refused(&finish(scene.spawn(command, b"")), "belongs to another session");
    let mut command = scene.command();
    command.args(["ask-human", "Me?"]).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s2");
    refused(&finish(scene.spawn(command, b"")), "no run holds this session");
    scene.stop_of("s2", false).allows();
    // The answer is the asker's: another session's prompt does not take it.
    answers(&scene, "Blue.");
    assert_eq!(context(&scene.hook_of("user-prompt-submit", "s2", &json!({}))), "");
    assert!(context(&scene.hook_of("user-prompt-submit", "s1", &json!({}))).contains("Blue."));
}

#[test]
fn what_is_asked_is_plain_text_of_a_bounded_length() {
    let scene = held();
    refused(&asks(&scene, " \u{1b}[2J\n"), "the text is empty");
    refused(&asks(&scene, &"x".repeat(4_001)), "the text has 4001 characters");
    assert_eq!(asks(&scene, "\u{1b}[31mRed\u{1b}[0m\nor \u{202e}blue?").code, Some(0));
    let status = scene.ok(&["status"]);
    assert!(status.contains("asks you: Red or blue?"), "{status}");
    refused(&answers(&scene, ""), "the text is empty");
    refused(&answers(&scene, &"y".repeat(4_001)), "at most 4000");
    answers(&scene, &"y".repeat(4_000));
    scene.stop().blocks(&"y".repeat(4_000));
}

#[test]
fn an_agent_can_wait_for_the_answer() {
    let scene = held();
    let ran = scene.by_agent(&["ask-human", "Red or blue?", "--seconds", "1"]);
    refused(&Ran { stderr: ran.stdout.clone(), ..ran }, "has not answered yet");
    let mut command = scene.command();
    command.args(["ask-human", "--seconds", "30", "--json"]);
    command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s1");
    let waits = scene.spawn(command, b"");
    answers(&scene, "Blue.");
    let ran = finish(waits);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!((&told["question"], &told["answer"]), (&json!("Red or blue?"), &json!("Blue.")));
    refused(&scene.by_agent(&["ask-human"]), "has no open question");
}

#[test]
fn what_a_rule_waits_for_can_be_answered_too() {
    let scene = held();
    scene.file("look", "");
    scene.stop().allows_saying("Look at the draft.");
    let status = scene.ok(&["status"]);
    assert!(status.starts_with("needs you: Look at the draft."), "{status}");
    answers(&scene, "Shorter, please.");
    std::fs::remove_file(scene.path("look")).unwrap();
    scene
        .stop()
        .blocks("Your question was: Look at the draft.\nThe answer: Shorter, please.\n\nmake ok");
}

#[test]
fn a_paused_run_keeps_the_question_and_the_answer() {
    let scene = held();
    scene.ok_by_hand(&["pause", RUN]);
    asks(&scene, "Red or blue?");
    scene.stop().allows_saying("is paused");
    assert!(scene.ok(&["status"]).starts_with("needs you: Run w/w asks you: Red or blue?"));
    answers(&scene, "Blue.");
    scene.ok_by_hand(&["resume", RUN]);
    scene.stop().blocks("The answer: Blue.");
}

/// A gate that stands, and a session that has changed nothing yet.
fn guarded() -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/w.toml", GATE.replacen("name", "standing = true\nname", 1));
    scene.file(".gitignore", "home\n*.jsonl\n.phasegate/runs\n.phasegate/w\n");
    scene.git(&["init", "-q"]);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "first"]);
    scene.ok_by_hand(&["trust", "w", "--yes"]);
    scene.hook_of("session-start", "s1", &json!({}));
    scene
}

#[test]
fn a_standing_gate_begins_for_a_question_only_where_it_is_due() {
    let scene = guarded();
    refused(&asks(&scene, "Red or blue?"), "no run holds this session");
    assert!(!scene.exists(".phasegate/runs/w"), "no run began");
    scene.file("new.txt", "a change");
    let ran = asks(&scene, "Red or blue?");
    assert!(ran.stdout.contains("Run w/s1 has asked the person."), "{ran:?}");
    scene.stop().allows_saying("Run w/s1 asks you: Red or blue?");
    scene.ok_by_hand(&["answer", "w/s1", "Blue."]);
    scene.stop().blocks("The answer: Blue.");
}

#[test]
fn a_driven_agent_asks_in_its_run() {
    let scene = held();
    let agent = r#"cat > prompt.txt; grep -q 'answer: Blue' prompt.txt && touch ok || "$PHASEGATE_BIN" ask-human 'Red or blue?' > asked.txt 2>&1; echo done"#;
    scene.file("agent.sh", agent);
    let drive = || {
        let mut command = scene.command();
        command.args(["drive", "w", "--", "sh", "agent.sh"]);
        command.env("PHASEGATE_BIN", env!("CARGO_BIN_EXE_phasegate"));
        finish(scene.spawn(command, b""))
    };
    let ran = drive();
    assert_eq!(ran.code, Some(3), "{ran:?} {}", scene.read("asked.txt"));
    assert!(ran.stdout.contains("asks you: Red or blue?"), "{ran:?}");
    answers(&scene, "Blue.");
    let ran = drive();
    assert_eq!(ran.code, Some(0), "{ran:?} {}", scene.read("prompt.txt"));
}

#[test]
fn an_agent_that_we_started_asks_over_mcp_and_waits_there() {
    let phases = Phases::new();
    phases.script("worker-1", "echo $PHASEGATE_TOKEN > said/token; sleep 600");
    phases.ok(&["deploy", "web", "--prompt", "x"]);
    let token = phases.token();
    let mut worker = Client::start(&phases, &[], &[("PHASEGATE_TOKEN", &token)]);
    worker.refused_plainly("ask_human", &json!({}), "invalid_params");
    worker.refused_plainly("ask_human", &json!({ "question": " " }), "invalid_params");
    let told = worker.ok("ask_human", &json!({ "question": "Red or blue?" }));
    assert_eq!((&told["run"], &told["question"]), (&json!("phases/web"), &json!("Red or blue?")));
    let status = phases.scene.ok(&["status"]);
    assert!(status.starts_with("needs you: Run phases/web asks you: Red or blue?"), "{status}");
    // The orchestrator sees that, and neither asks beside it nor gets the answer.
    let mut client = Client::start(&phases, &[], &[]);
    client.refused_plainly("ask_human", &json!({ "question": "Me?", "run": "web" }), "failed");
    let ran = phases.scene.by_hand(&["answer", "phases/web", "Blue."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = client.ok("wait_for_change", &json!({ "seconds": 0 }));
    assert_eq!(told["answer"], Value::Null, "{told}");
    let told = worker.ok("wait_for_change", &json!({ "seconds": 30 }));
    assert_eq!(told["answer"], json!({ "question": "Red or blue?", "answer": "Blue." }), "{told}");
    assert_eq!(worker.ok("wait_for_change", &json!({ "seconds": 0 }))["answer"], Value::Null);
    // A question ends with the agent that has asked.
    worker.ok("ask_human", &json!({ "question": "And the border?" }));
    worker.end();
    phases.scene.ok_by_hand(&["jobs", "end", "worker-1"]);
    eventually("the worker has ended", || phases.scene.ok(&["jobs", "--all"]).contains("killed"));
    refused(&phases.scene.by_hand(&["answer", "phases/web", "None."]), "has ended");
    assert!(!phases.scene.ok(&["status"]).contains("needs you"));
    let told = client.ok("ask_human", &json!({ "question": "What now?", "run": "web" }));
    assert_eq!(told["question"], "What now?", "{told}");
    phases.scene.ok_by_hand(&["answer", "phases/web", "Begin anew."]);
    let told = client.ok("wait_for_change", &json!({ "seconds": 30 }));
    assert_eq!(told["answer"]["answer"], "Begin anew.", "{told}");
    client.end();
}
