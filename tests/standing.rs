//! Gates that stand: whom they hold, from when to when, and whom they leave alone.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::scene::{Said, Scene};

/// No session that changed files stops while the word `broken` is in one of them.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass on the tree as it is now."
initial = "working"
standing = true

[check.tests]
run = ["sh", "-c", "echo x >> ran; ! grep -rq broken src"]

[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

/// A gate that runs nothing.
const NOTES: &str = r#"
name = "notes"
about = "No stop before the notes are written."
initial = "working"
standing = true

[phase.working]
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md." },
  { on = "stop", goto = "done", allow = "done" },
]

[phase.done]
final = true
"#;

/// A repository in which a gate stands.
fn guarded() -> Scene {
    let scene = cloned();
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    scene
}

/// The same as somebody gets it who clones it.
fn cloned() -> Scene {
    let scene = Scene::new();
    scene.file(".gitignore", "home/\n*.jsonl\nran\n").file("src/a.rs", "fine\n");
    scene.file(".phasegate/.gitignore", "/*\n!/workflows/\n!/config.toml\n!/.gitignore\n");
    scene.file(".phasegate/workflows/ship.toml", SHIP);
    scene.git(&["init", "-q"]);
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "one"]);
    scene
}

/// A session, with a transcript of its own.
struct Session<'s> {
    scene: &'s Scene,
    id: &'static str,
    cwd: PathBuf,
}

impl<'s> Session<'s> {
    /// One that begins.
    fn begins(scene: &'s Scene, id: &'static str) -> Session<'s> {
        let session = Session { scene, id, cwd: scene.root().to_path_buf() };
        session.fires("session-start");
        session
    }

    fn payload(&self) -> Value {
        let transcript = self.scene.path(&format!("{}.jsonl", self.id));
        json!({ "transcript_path": transcript, "cwd": self.cwd })
    }

    fn fires(&self, event: &str) -> Said {
        self.scene.hook_of(event, self.id, &self.payload())
    }

    /// A person says something.
    fn hears(&self, text: &str) -> &Session<'s> {
        self.writes(&json!({ "type": "user", "message": { "content": text } }));
        self.fires("user-prompt-submit");
        self
    }

    /// The agent uses a tool.
    fn uses(&self, tool: &str) -> &Session<'s> {
        let block = json!({ "type": "tool_use", "name": tool, "input": {} });
        self.writes(&json!({ "type": "assistant", "message": { "content": [block] } }));
        self
    }

    fn writes(&self, line: &Value) {
        let path = self.scene.path(&format!("{}.jsonl", self.id));
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut line = line.clone();
        line["timestamp"] = json!(jiff::Timestamp::now().to_string());
        text.push_str(&line.to_string());
        text.push('\n');
        std::fs::write(path, text).unwrap();
    }

    fn stops(&self) -> Said {
        self.stops_with(&json!({ "stop_hook_active": false }))
    }

    fn stops_again(&self) -> Said {
        self.stops_with(&json!({ "stop_hook_active": true }))
    }

    fn stops_with(&self, more: &Value) -> Said {
        let mut payload = self.payload();
        for (key, value) in more.as_object().unwrap() {
            payload[key] = value.clone();
        }
        self.scene.hook_of("stop", self.id, &payload)
    }
}

/// How often the tests have run.
fn runs(scene: &Scene) -> usize {
    std::fs::read_to_string(scene.path("ran")).unwrap_or_default().lines().count()
}

#[test]
fn a_question_is_answered_without_a_check() {
    let scene = guarded();
    scene.file("src/a.rs", "broken\n");
    let session = Session::begins(&scene, "s1");
    session.hears("What is in src?").uses("Read").uses("Grep");
    session.stops().allows();
    session.hears("And now?").uses("Bash");
    session.stops().allows();
    assert_eq!(runs(&scene), 0);
    assert!(!scene.exists(".phasegate/runs/ship"), "no run began");
}

#[test]
fn a_session_is_held_by_its_own_change_until_the_tests_pass() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    let said = session.stops();
    said.blocks("The tests fail.");
    said.blocks_telling("To switch the gate off for this session, in a terminal of your own: `phasegate cancel ship/s1`");
    scene.file("src/a.rs", "mended\n");
    session.uses("Edit");
    session.stops_again().allows_saying("Run ship/s1 is done.");
    assert_eq!(runs(&scene), 2);
    // Done, it begins with a new baseline: what comes next is a question.
    session.hears("Thanks. What did you do?").uses("Bash");
    session.stops().allows();
    assert_eq!(runs(&scene), 2);
    session.hears("Break it again.").uses("Write");
    scene.file("src/b.rs", "broken\n");
    session.stops().blocks("The tests fail.");
    // What is taken back is no change, and what was begun is brought to its end.
    std::fs::remove_file(scene.path("src/b.rs")).unwrap();
    session.stops_again().allows_saying("is done");
    let events: Vec<String> = scene
        .journal("ship/s1")
        .iter()
        .filter(|line| line["answer"]["decision"] != "accept")
        .map(|line| line["event"]["name"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(events.iter().filter(|name| *name == "stop").count(), 4, "{events:?}");
}

#[test]
fn a_server_left_running_opens_no_later_run() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    let server = json!({ "background_tasks": [
        { "id": "b1", "type": "shell", "status": "running" },
    ] });
    // It is shown where nothing is held yet: that was its first stop.
    session.hears("Start the server.").uses("Bash");
    session.stops_with(&server).allows();
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops_with(&server).blocks("The tests fail.");
    scene.file("src/a.rs", "mended\n");
    session.stops_with(&server).allows_saying("is done");
    session.hears("Break it again.").uses("Edit");
    scene.file("src/a.rs", "broken again\n");
    session.stops_with(&server).blocks("The tests fail.");
}

#[test]
fn what_the_person_edits_in_another_window_holds_nobody() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("What does it do?").uses("Read");
    scene.file("src/a.rs", "broken\n");
    session.stops().allows();
    assert_eq!(runs(&scene), 0);
    // From the moment at which the agent works on it, it does.
    session.hears("Go on with it.").uses("Edit");
    session.stops().blocks("The tests fail.");
}

#[test]
fn a_pull_holds_nobody_and_a_commit_changes_nothing() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("What is new?").uses("Glob");
    scene.file("src/b.rs", "broken\n");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "what was pulled"]);
    session.stops().allows();
    assert_eq!(runs(&scene), 0);

    scene.file("src/mine.rs", "the person's, not committed yet\n");
    let other = Session::begins(&scene, "s2");
    other.hears("Commit what is there.").uses("Bash");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "mine"]);
    other.stops().allows();
    assert_eq!(runs(&scene), 0, "the tree is the same as before");
    other.hears("Now pull.").uses("Bash");
    scene.file("src/c.rs", "from elsewhere\n");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "what the agent has pulled"]);
    other.stops().blocks("The tests fail.");
}

#[test]
fn each_session_has_a_run_of_its_own() {
    let scene = guarded();
    let (first, second) = (Session::begins(&scene, "s1"), Session::begins(&scene, "s2"));
    first.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    first.stops().blocks("The tests fail.");
    second.hears("What time is it?").uses("Read");
    second.stops().allows();
    second.hears("Change it, too.").uses("Edit");
    second.stops().blocks("The tests fail.");
    assert!(scene.exists(".phasegate/runs/ship/s1") && scene.exists(".phasegate/runs/ship/s2"));
    // Nobody takes the other's run, also where that is gone; and it ends with its session.
    first.fires("session-end");
    assert!(!scene.exists(".phasegate/ship/s1.json"));
    scene.file("src/a.rs", "mended\n");
    second.stops_again().allows_saying("Run ship/s2 is done.");
    let third = Session::begins(&scene, "s3");
    third.hears("What time is it?").uses("Read");
    third.stops().allows();
    // Resumed, a session is held by what it has changed.
    scene.file("src/a.rs", "broken\n");
    first.fires("session-start");
    first.stops().blocks("The tests fail.");
}

#[test]
fn stuck_it_begins_again_only_after_a_prompt() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops().blocks("The tests fail.");
    session.stops_again().allows_saying("is stuck");
    let count = runs(&scene);
    // A stop that nobody's prompt has led to, as after work in the background.
    session.stops().allows_saying("is stuck");
    assert_eq!(runs(&scene), count);
    session.hears("Try again.");
    session.stops().blocks("The tests fail.");
    let tally = &scene.json(".phasegate/runs/ship/s1/run.json")["work"]["tally"];
    assert_eq!(tally["blocks"], 1, "it has begun again: {tally}");
}

#[test]
fn capped_it_begins_again_only_after_a_prompt() {
    let scene = guarded();
    let limits = "[workflow.ship.limits]\nblocks = 1\n";
    scene.file("home/.config/phasegate/config.toml", limits);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops().blocks("The tests fail.");
    session.uses("Edit");
    scene.file("src/a.rs", "still broken\n");
    session.stops_again().allows_saying("(capped)");
    let count = runs(&scene);
    scene.file("src/a.rs", "broken in another way\n");
    session.uses("Edit").stops().allows_saying("(capped)");
    assert_eq!(runs(&scene), count);
    session.hears("Try again.");
    session.stops().blocks("The tests fail.");
}

/// A gate whose reviewer is paid, and finds something each time.
const JUDGED: &str = r#"
name = "judged"
about = "No stop before a review that finds nothing."
initial = "working"
standing = true
reentry = "always"

[state]
phase = "string"
reviews = { type = "integer", default = 0 }

[reviewer.code]
prompt = "review.md"
writes = "reviews/review-{{ state.reviews + 1 }}.md"
run = ["sh", "-c", "cat > /dev/null; echo x >> ran; mkdir -p reviews; echo No. > \"$1\"; cat answer.json", "sh", "reviews/review-{{ state.reviews + 1 }}.md"]
timeout = "20s"

[phase.working]
rules = [
  { on = "review-finished", set = { "state.reviews" = "state.reviews + 1" } },
  { on = "stop", when = "state.reviews > 0 and not exists('reviews/post-' ~ state.reviews ~ '.md')", block = "Answer review {{ state.reviews }}." },
  { on = "stop", review = "code" },
]

[phase.done]
final = true
"#;

#[test]
fn with_its_budget_spent_it_begins_again_only_after_a_prompt() {
    let scene = cloned();
    std::fs::remove_file(scene.path(".phasegate/workflows/ship.toml")).unwrap();
    scene.file(".phasegate/workflows/judged/workflow.toml", JUDGED);
    scene.file(".phasegate/workflows/judged/prompts/review.md", "Review.");
    let answer = json!({
        "type": "result", "is_error": false, "total_cost_usd": 0.6, "num_turns": 1,
        "structured_output": { "verdict": "FAIL" },
    });
    scene.file("answer.json", answer.to_string());
    let limits = "[workflow.judged.limits]\ndollars = 1\nsame_reason = 0\n";
    scene.file("home/.config/phasegate/config.toml", limits);
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "judged"]);
    scene.ok_by_hand(&["trust", "judged", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "changed\n");
    session.stops().blocks("Answer review 1.");
    scene.file("reviews/post-1.md", "Answered.\n");
    session.uses("Edit").stops_again().allows_saying("limit of 1 dollars");
    assert_eq!(runs(&scene), 2);
    assert!(scene.ok(&["status"]).contains("budget in phase working"));
    // Nothing more is bought, whatever is changed, before a person has spoken.
    scene.file("src/a.rs", "changed again\n");
    session.uses("Edit").stops().allows_saying("limit of 1 dollars");
    assert_eq!(runs(&scene), 2);
    std::fs::remove_dir_all(scene.path("reviews")).unwrap();
    session.hears("Go on.").uses("Edit");
    session.stops().blocks("Answer review 1.");
    assert_eq!(runs(&scene), 3);
}

#[test]
fn only_people_switch_it_off_for_a_session_or_for_the_project() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops().blocks("The tests fail.");
    let refused = scene.by_agent(&["cancel", "ship/s1"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("only people can cancel run ship/s1"), "{refused:?}");
    session.stops_again().allows_saying("is stuck");
    scene.ok_by_hand(&["cancel", "ship/s1"]);
    session.hears("Go on.").uses("Edit");
    session.stops().allows_saying("was cancelled from a terminal");
    // Also before it has begun, and only for that session.
    let second = Session::begins(&scene, "s2");
    scene.ok_by_hand(&["cancel", "ship/s2"]);
    scene.file("src/a.rs", "broken again\n");
    second.hears("Change it.").uses("Edit");
    second.stops().allows();
    let third = Session::begins(&scene, "s3");
    third.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken once more\n");
    third.stops().blocks("The tests fail.");

    for command in ["pause", "resume"] {
        let refused = scene.by_agent(&[command, "ship"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
    }
    let said = scene.ok_by_hand(&["pause", "ship", "--reason", "a release"]);
    assert!(said.contains("Gate ship is paused for this project (a release)"), "{said}");
    third.hears("Go on.").uses("Edit");
    third.stops().allows_saying("Gate ship is paused for this project (a release)");
    assert!(scene.ok(&["status"]).contains("Gate ship is paused for this project"));
    let fourth = Session { scene: &scene, id: "s4", cwd: scene.root().to_path_buf() };
    let said = fourth.fires("session-start");
    said.allows_saying("Gate ship is paused for this project (a release)");
    fourth.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken for ever\n");
    fourth.stops().allows();
    // What is paused is meant, and not the run that decided last.
    let said = scene.ok_by_hand(&["resume"]);
    assert!(said.contains("Gate ship stands"), "{said}");
    fourth.stops().blocks("The tests fail.");
    assert_eq!(scene.by_agent(&["adopt", "ship/s4"]).code, Some(1));
}

#[test]
fn what_a_clone_brings_along_holds_nobody_before_a_person_has_consented() {
    for (name, gate) in [("ship", SHIP), ("notes", NOTES)] {
        let scene = cloned();
        std::fs::remove_file(scene.path(".phasegate/workflows/ship.toml")).unwrap();
        scene.file(&format!(".phasegate/workflows/{name}.toml"), gate);
        let session = Session { scene: &scene, id: "s1", cwd: scene.root().to_path_buf() };
        let said = session.fires("session-start");
        said.allows_saying(&format!("Gate {name} does not stand: you have not consented to it"));
        session.hears("Change it.").uses("Edit");
        scene.file("src/a.rs", "broken\n");
        session.stops().allows();
        assert_eq!(runs(&scene), 0);
        assert!(scene.ok(&["status"]).contains(&format!("Gate {name} does not stand")));
        let told = scene.run(&["trust", name, "--show"]);
        assert!(told.stdout.contains("holds every session here that changes files"), "{told:?}");
        scene.ok_by_hand(&["trust", name, "--yes"]);
        assert!(scene.ok(&["status"]).contains(&format!("Gate {name} stands: ")));
        session.stops().blocks("");
        scene.ok_by_hand(&["trust", name, "--revoke"]);
        assert!(scene.ok(&["status"]).contains(&format!("Gate {name} does not stand")));
    }
}

#[test]
fn the_configuration_makes_a_workflow_stand_only_with_consent() {
    let scene = cloned();
    let quiet = SHIP.replace("standing = true", "");
    scene.file("home/.config/phasegate/workflows/ship.toml", &quiet);
    std::fs::remove_file(scene.path(".phasegate/workflows/ship.toml")).unwrap();
    let stands = "[workflow.ship]\nstanding = true\n";
    scene.file(".phasegate/config.toml", stands);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops().allows();
    // The user's own configuration is the user's own word.
    std::fs::remove_file(scene.path(".phasegate/config.toml")).unwrap();
    scene.file("home/.config/phasegate/config.toml", stands);
    session.stops().blocks("The tests fail.");
}

#[test]
fn in_a_worktree_it_is_the_worktree_that_counts() {
    let scene = guarded();
    let mut session = Session::begins(&scene, "s1");
    session.hears("Work in a worktree.").uses("Bash");
    let elsewhere = tempfile::tempdir().unwrap();
    let worktree = elsewhere.path().canonicalize().unwrap().join("topic");
    scene.git(&["worktree", "add", "-q", worktree.to_str().unwrap(), "-b", "topic"]);
    session.cwd.clone_from(&worktree);
    session.stops().allows();
    std::fs::write(worktree.join("src/a.rs"), "broken\n").unwrap();
    session.stops().blocks("The tests fail.");
    assert!(!scene.exists("ran") && worktree.join("ran").exists(), "the check ran in the worktree");
    std::fs::write(worktree.join("src/a.rs"), "mended\n").unwrap();
    session.stops_again().allows_saying("is done");
}

/// What is committed is in every worktree, and a person has consented to it once.
#[test]
fn consent_counts_in_the_worktrees_of_the_repository() {
    let scene = guarded();
    let elsewhere = tempfile::tempdir().unwrap();
    let worktree = elsewhere.path().canonicalize().unwrap().join("topic");
    scene.git(&["worktree", "add", "-q", worktree.to_str().unwrap(), "-b", "topic"]);
    let session = Session { scene: &scene, id: "s1", cwd: worktree.clone() };
    session.fires("session-start");
    session.hears("Change it.").uses("Edit");
    std::fs::write(worktree.join("src/a.rs"), "broken\n").unwrap();
    session.stops().blocks("The tests fail.");
    // To what the branch has changed nobody has consented.
    let changed = SHIP.replace("The tests fail.", "Something else.");
    std::fs::write(worktree.join(".phasegate/workflows/ship.toml"), changed).unwrap();
    let second = Session { scene: &scene, id: "s2", cwd: worktree };
    second.fires("session-start").allows_saying("Gate ship does not stand");
}

#[test]
fn the_sessions_of_our_own_jobs_are_exempt() {
    let scene = guarded();
    let program = env!("CARGO_BIN_EXE_phasegate");
    // The reviewer is a session of its own: it begins, changes a file, and stops.
    let answer = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"PASS","session_id":"r","total_cost_usd":0.01,"structured_output":{"verdict":"PASS"}}"#;
    let fires = |event: &str, hook: &str| {
        let payload = format!(
            r#"{{"session_id":"r","transcript_path":"/none","cwd":"'$PWD'","hook_event_name":"{event}"}}"#
        );
        format!("echo '{payload}' | {program} hook {hook} > {hook}.jsonl\n")
    };
    let (begins, stops) = (fires("SessionStart", "session-start"), fires("Stop", "stop"));
    let script = format!(
        "cat > /dev/null\n{begins}echo x > src/r.rs\n{stops}rm src/r.rs\nmkdir -p reviews\necho fine > reviews/r.md\necho '{answer}'\n"
    );
    scene.file("home/review.sh", script);
    scene.file(".phasegate/workflows/ship/prompts/review.md", "Review it.");
    let reviewed = "name = \"ship\"\nabout = \"A review.\"\ninitial = \"working\"\nstanding = true\n\
        [reviewer.peer]\nprompt = \"review.md\"\nwrites = \"reviews/r.md\"\nrun = [\"sh\", \"home/review.sh\"]\n\
        [phase.working]\nrules = [\n\
        { on = \"review-finished\", when = \"params.verdict == 'PASS'\", goto = \"done\" },\n\
        { on = \"stop\", review = \"peer\" },\n]\n[phase.done]\nfinal = true\n";
    scene.file(".phasegate/workflows/ship.toml", reviewed);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "changed\n");
    session.stops().allows_saying("is done");
    assert_eq!(scene.read("stop.jsonl").trim(), "{}");
    assert!(!scene.exists(".phasegate/runs/ship/r"));
}

#[test]
fn a_job_that_ends_it_between_two_stops_sets_the_baseline() {
    let scene = guarded();
    let slow = SHIP.replace("[check.tests]", "[agent.slow]\nrole = \"worker\"\nprompt = \"p.md\"\nrun = [\"sleep\", \"1\"]\n\n[check.tests]");
    let slow = slow.replace(
        "rules = [",
        "rules = [\n  { on = \"job-ended\", goto = \"done\" },\n  { on = \"stop\", start = \"slow\", allow = \"waiting\", until = \"background\" },",
    );
    scene.file(".phasegate/workflows/ship/prompts/p.md", "Go.");
    scene.file(".phasegate/workflows/ship.toml", slow);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "changed\n");
    session.stops().allows_saying("waits for background work");
    let is_done = || scene.ok(&["status"]).contains("done in phase done");
    for _ in 0..100 {
        if is_done() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(is_done(), "{}", scene.ok(&["status"]));
    let before = scene.journal("ship/s1").len();
    session.hears("Thanks.").uses("Bash");
    session.stops();
    assert_eq!(scene.journal("ship/s1").len(), before, "it does not begin again");
}

#[test]
fn where_a_client_does_not_tell_the_tree_alone_counts_and_that_is_said() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    scene.file("src/a.rs", "broken\n");
    let said = session.stops();
    said.blocks_telling("Claude Code does not tell here whether the agent changed them");
}

#[test]
fn a_gate_that_an_agent_takes_down_is_missed() {
    let scene = guarded();
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    scene.file(".phasegate/workflows/ship.toml", SHIP.replace("standing = true\n", ""));
    session.stops().allows_saying("Gate ship stood when this session began, and stands no longer");
    session.stops().allows();
    // Weakened, it does not stand before a person has consented.
    scene.file(".phasegate/workflows/ship.toml", SHIP.replace("! grep", "grep"));
    session.stops().allows_saying("Gate ship does not stand: you have not consented");
}

#[test]
fn several_gates_and_a_started_run_are_asked_until_one_blocks() {
    let scene = guarded();
    scene.file(".phasegate/workflows/notes.toml", NOTES);
    scene.ok_by_hand(&["trust", "notes", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    let todo =
        NOTES.replace("notes", "todo").replace("NOTES", "TODO").replace("standing = true", "");
    scene.file(".phasegate/workflows/todo.toml", todo);
    scene.ok(&["todo", "start"]);
    session.stops().blocks("Write TODO.md.");
    scene.file("TODO.md", "done\n");
    session.stops_again().blocks("Write NOTES.md.");
    scene.file("NOTES.md", "written\n");
    session.stops_again().blocks("The tests fail.");
    scene.file("src/a.rs", "mended\n");
    session.uses("Edit");
    let said = session.stops_again();
    said.allows_saying("Run ship/s1 is done.");
    said.allows_saying("Run notes/s1 is done.");
    session.hears("Thanks.").uses("Bash");
    session.stops().allows();
}

#[test]
fn what_cannot_stand_says_why() {
    let scene = cloned();
    let needs = format!(
        "{SHIP}\n[action.begin]\nabout = \"Begins.\"\ncreates = \"begin.json\"\nparams = [\"topic\"]\n[param]\ntopic = {{ type = \"string\", about = \"What\" }}\n"
    );
    scene.file(".phasegate/workflows/ship/templates/begin.json", "{\"phase\": \"working\"}");
    scene.file(".phasegate/workflows/ship.toml", needs);
    let ran = scene.run(&["lint", "ship"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("it cannot stand: `begin` needs parameters to start a run"), "{said}");
    scene.file(".phasegate/workflows/ship.toml", format!("document = \"one.json\"\n{SHIP}"));
    let ran = scene.run(&["lint", "ship"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("it cannot stand: its sessions would share one document"), "{said}");
}

#[test]
fn without_git_every_file_counts() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/notes.toml", NOTES).file("src/a.rs", "fine\n");
    scene.ok_by_hand(&["trust", "notes", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Look.").uses("Bash");
    // The transcript must not lie in the tree that it is about.
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(scene.path("s1.jsonl"), elsewhere.path()).unwrap();
    std::fs::remove_file(scene.path("s1.jsonl")).unwrap();
    let transcript = json!({ "transcript_path": elsewhere.path() });
    session.stops_with(&transcript).allows();
    scene.file("src/a.rs", "changed\n");
    session.stops_with(&transcript).blocks("Write NOTES.md.");
}

#[test]
fn tests_that_the_session_has_changed_are_not_believed_before_a_person_has_looked() {
    let scene = cloned();
    let gate = SHIP.replace("\"-c\", \"echo x >> ran; ! grep -rq broken src\"", "\"./test.sh\"");
    scene.file(".phasegate/workflows/ship.toml", gate);
    scene.file("test.sh", "! grep -rq broken src\n");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "two"]);
    scene.ok_by_hand(&["trust", "ship", "--yes"]);
    let session = Session::begins(&scene, "s1");
    session.hears("Change it.").uses("Edit");
    scene.file("src/a.rs", "broken\n");
    session.stops().blocks("The tests fail.");
    session.uses("Write");
    scene.file("test.sh", "exit 0\n");
    let told = "Run ship/s1 is at its end, and does not count as done: `test.sh` was changed from what the \
                checks rested on before to something else, and not by Phasegate.";
    session.stops_again().allows_saying(told);
    assert!(scene.ok(&["status"]).contains("ended in phase done"), "{}", scene.ok(&["status"]));
    // Neither more work nor a commit makes it right.
    session.hears("Go on.").uses("Edit");
    scene.file("src/b.rs", "more\n");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "three"]);
    session.stops().allows_saying(told);
    assert!(scene.by_agent(&["accept", "ship/s1", "--reason", "x"]).stderr.contains("for people"));
    scene.ok_by_hand(&["accept", "ship/s1", "--reason", "a better test"]);
    assert!(scene.ok(&["status", "--all"]).contains("done in phase done"));
    // From then on it is the test, and the tree is the baseline.
    session.hears("What did you do?").uses("Bash");
    session.stops().allows();
    session.hears("Change it again.").uses("Edit");
    scene.file("src/b.rs", "fine\n");
    session.stops().allows_saying("Run ship/s1 is done.");
}
