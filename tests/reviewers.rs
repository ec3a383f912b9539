//! Reviewers: agents that judge, as processes of their own. One that hangs, lies or crashes opens
//! nothing silently and changes nothing.

use std::time::{Duration, Instant};

use crate::scene::Scene;

/// Two clean reviews in a row, then done.
const GATE: &str = r#"
name = "polish"
about = "No stop before two clean reviews in a row."
initial = "working"
reentry = "always"

[state]
phase = "string"
reviews = { type = "integer", default = 0 }
clean = { type = "integer", default = 0 }
open = { type = "boolean", default = false }

[reviewer.code]
prompt = "review.md"
writes = "reviews/review-{{ state.reviews + 1 }}.md"
model = "{{ 'opus' if state.reviews % 2 == 0 else 'sonnet' }}"
run = ["sh", "reviewer.sh", "reviews/review-{{ state.reviews + 1 }}.md", "{{ 'opus' if state.reviews % 2 == 0 else 'sonnet' }}"]
timeout = "5s"

[phase.working]
rules = [
  { on = "review-finished", when = "params.verdict == 'PASS' and state.clean >= 1", set = { "state.reviews" = "state.reviews + 1", "state.clean" = 2 }, goto = "done" },
  { on = "review-finished", when = "params.verdict == 'PASS'", set = { "state.reviews" = "state.reviews + 1", "state.clean" = 1, "state.open" = true } },
  { on = "review-finished", set = { "state.reviews" = "state.reviews + 1", "state.clean" = 0, "state.open" = true } },
  { on = "stop", when = "state.open and not exists('reviews/post-' ~ state.reviews ~ '.md')", block = "Read reviews/review-{{ state.reviews }}.md and write reviews/post-{{ state.reviews }}.md." },
  { on = "stop", review = "code" },
]

[phase.done]
final = true
"#;

const PROMPT: &str = "Review the code. Write reviews/review-{{ state.reviews + 1 }}.md.";

/// The answer of the real client.
const ANSWER: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"It looks fine to me: PASS","session_id":"x","total_cost_usd":0.25,"structured_output":{"verdict":"VERDICT"}}"#;

pub fn with_reviewer(script: &str) -> Scene {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/polish/workflow.toml", GATE);
    scene.file(".phasegate/workflows/polish/prompts/review.md", PROMPT);
    scene.file("reviewer.sh", script);
    let ran = scene.by_hand(&["trust", "polish", "--yes"]);
    assert!(ran.stdout.contains("reviewer code:"), "{ran:?}");
    scene.ok(&["polish", "start"]);
    scene
}

/// A script that reads its prompt, writes the review, and prints the answer with a verdict.
pub fn honest(verdict: &str) -> String {
    let answer = ANSWER.replace("VERDICT", verdict);
    format!(
        "cat > prompt-seen; echo \"$2\" >> models; echo reviewed > \"$1\"; echo noise >&2; echo '{answer}'\n"
    )
}

fn state(scene: &Scene) -> serde_json::Value {
    scene.json(".phasegate/polish/polish.json")
}

#[test]
fn a_cost_that_nobody_has_told_is_unknown() {
    // As a client that tells nothing of cost does, and one that says 0.
    for cost in ["", ",\"total_cost_usd\":0"] {
        let silent = honest("FAIL").replace(",\"total_cost_usd\":0.25", cost);
        assert_ne!(silent, honest("FAIL"));
        let scene = with_reviewer(&silent);
        scene.stop().blocks("post-1.md");
        let jobs = scene.ok(&["jobs"]);
        assert!(jobs.contains("unknown") && !jobs.contains('$'), "{jobs}");
        let status = scene.ok(&["status"]);
        assert!(status.contains("cost of agents and reviews: unknown (limit $100)"), "{status}");
        let jobs: serde_json::Value = serde_json::from_str(&scene.ok(&["jobs", "--json"])).unwrap();
        let told = jobs.to_string();
        assert!(told.contains("\"micro_dollars\":null"), "{told}");
        // Together with one that is told, it is a part.
        scene.file("reviews/post-1.md", "fixed").file("reviewer.sh", honest("FAIL"));
        scene.stop_again().blocks("post-2.md");
        let status = scene.ok(&["status"]);
        assert!(status.contains("$0.25 and an unknown part (limit $100)"), "{status}");
        let jobs = scene.ok(&["jobs"]);
        assert!(jobs.contains("$0.25"), "{jobs}");
    }
}

#[test]
fn reviews_go_on_until_two_are_clean() {
    let scene = with_reviewer(&honest("FAIL"));
    scene.stop().blocks("Read reviews/review-1.md and write reviews/post-1.md");
    assert_eq!(scene.read("prompt-seen"), "Review the code. Write reviews/review-1.md.");
    assert_eq!(state(&scene)["clean"], 0);
    // Until the answer to it is written, there is no other review.
    scene.stop().blocks("post-1.md");
    scene.file("reviews/post-1.md", "fixed").file("reviewer.sh", honest("PASS"));
    scene.stop_again().blocks("post-2.md");
    scene.file("reviews/post-2.md", "nothing to do");
    scene.stop_again().allows_saying("is done");
    assert!(scene.ok(&["status"]).contains("done in phase done"));
    assert_eq!(scene.read("models"), "opus\nsonnet\nopus\n");
    assert_eq!(
        (state(&scene)["reviews"].clone(), state(&scene)["clean"].clone()),
        (3.into(), 2.into())
    );
    let ledger = scene.json(".phasegate/runs/polish/polish/run.json");
    assert_eq!(
        (&ledger["work"]["tally"]["reviews"], &ledger["work"]["tally"]["micro_dollars"]),
        (&3.into(), &750_000.into())
    );
    let lines = scene.journal("polish/polish");
    let facts: Vec<_> = lines
        .iter()
        .filter(|line| {
            line["event"]["params"]["kind"] == "reviewer" && line["event"]["name"] == "job-ended"
        })
        .collect();
    assert_eq!(facts.len(), 3);
    assert_eq!(facts[0]["event"]["actor"], "reviewer");
    assert_eq!(facts[0]["event"]["params"]["verdict"], "FAIL");
    assert_eq!(facts[0]["event"]["params"]["digest"].as_str().unwrap().len(), 64);
    assert_eq!(lines[0]["event"]["name"], "start");
    assert_eq!(lines[1]["event"]["name"], "job-started", "the intent comes first");
    let left = std::fs::read_dir(scene.path(".phasegate/jobs/polish%2Fpolish")).unwrap().count();
    assert_eq!(left, 1, "only the last of them keeps its log");
    scene.ok(&["log", "--verify"]);
}

#[test]
fn a_reviewer_that_gives_no_verdict_allows_the_stop_and_changes_nothing() {
    let pass = ANSWER.replace("VERDICT", "PASS");
    let prose = pass.replace(",\"structured_output\":{\"verdict\":\"PASS\"}", "");
    let write = "echo reviewed > \"$1\"";
    let cases = [
        (format!("echo '{prose}'"), "it gave no verdict"),
        ("echo rubbish".to_string(), "it gave no verdict"),
        (format!("echo '{pass}'"), "it gave a verdict, but wrote no reviews/review-1.md"),
        (format!("{write}; echo '{pass}'; exit 1"), "it ended with exit code 1"),
        ("sleep 60".to_string(), "it took longer than 5 seconds"),
        (
            format!("trap '' TERM; {write}; echo '{pass}'; sleep 60 & wait"),
            "it took longer than 5 seconds",
        ),
        ("kill -9 $$".to_string(), "it was killed by signal 9"),
        (
            format!("echo '{}'", pass.replace("\"is_error\":false", "\"is_error\":true")),
            "it failed: success",
        ),
    ];
    for (script, why) in cases {
        let scene = with_reviewer(&script);
        let before = state(&scene);
        let since = Instant::now();
        let said = scene.stop();
        said.allows_saying(why);
        said.allows_saying("see .phasegate/jobs/polish%2Fpolish/reviewer.code-");
        assert!(since.elapsed() < Duration::from_secs(30), "{script}");
        assert_eq!(state(&scene), before, "{script}");
        scene.ok(&["log", "--verify"]);
    }
}

#[test]
fn other_shapes_of_an_answer_are_understood() {
    let pass = ANSWER.replace("VERDICT", "PASS");
    for answer in [format!("[{{\"type\":\"system\"}},{pass}]"), r#"{"verdict":"PASS"}"#.to_string()]
    {
        let scene = with_reviewer(&format!("echo reviewed > \"$1\"; echo '{answer}'"));
        scene.stop().blocks("post-1.md");
        assert_eq!(state(&scene)["clean"], 1, "{answer}");
    }
    // Who writes a review and gives no verdict has found something; a verdict beside its place is none.
    let beside =
        pass.replace("\"structured_output\":{\"verdict\":\"PASS\"}", "\"verdict\":\"PASS\"");
    for answer in [beside, "rubbish".into(), "[]".into(), ANSWER.replace("VERDICT", "MAYBE")] {
        let scene = with_reviewer(&format!("echo reviewed > \"$1\"; echo '{answer}'"));
        scene.stop().blocks("post-1.md");
        assert_eq!(state(&scene)["clean"], 0, "{answer}");
    }
}

#[test]
fn a_reviewer_that_fires_the_hook_does_not_start_another() {
    let hook =
        format!("echo '{{}}' | '{}' hook stop > nested.json", env!("CARGO_BIN_EXE_phasegate"));
    let scene = with_reviewer(&format!("{hook}; {}", honest("FAIL")));
    scene.stop().blocks("post-1.md");
    assert_eq!(scene.read("nested.json"), "{}\n");
    assert_eq!(scene.read("models").lines().count(), 1);
}

#[test]
fn a_review_that_is_there_is_not_overwritten() {
    let scene = with_reviewer(&honest("PASS"));
    scene.file("reviews/review-1.md", "an earlier one");
    scene.stop().allows_saying("reviews/review-1.md exists already");
    assert_eq!(scene.read("reviews/review-1.md"), "an earlier one");
    assert!(!scene.exists("models"), "it was not even asked");
}

#[test]
fn reviews_have_limits_of_their_own() {
    // Without money nothing that a block asks for can be done, so the review that spends the last of it is not
    // handed over.
    for (limits, blocks, told) in
        [("reviews = 2", 2, "limit of 2 reviews"), ("dollars = 1", 1, "limit of 1 dollars")]
    {
        let scene = with_reviewer(&honest("FAIL").replace("0.25", "0.6"));
        scene.file(".phasegate/config.toml", format!("[limits]\nsame_reason = 0\n{limits}\n"));
        for review in 1..=blocks {
            scene.stop().blocks(&format!("post-{review}.md"));
            scene.file(&format!("reviews/post-{review}.md"), "x");
        }
        let said = scene.stop();
        said.allows_saying(told);
        assert_eq!(scene.journal("polish/polish").pop().unwrap()["answer"]["outcome"], "budget");
        assert!(scene.ok(&["status"]).contains("budget in phase working"));
    }
}

#[test]
fn without_consent_no_reviewer_is_asked() {
    let scene = Scene::new();
    scene.file(".phasegate/workflows/polish/workflow.toml", GATE);
    scene.file(".phasegate/workflows/polish/prompts/review.md", PROMPT);
    scene.file("reviewer.sh", honest("PASS"));
    scene.ok(&["polish", "start"]);
    scene.stop().allows_saying("you have not consented");
    assert!(!scene.exists("models"));
}

#[test]
fn a_missing_client_allows_the_stop() {
    let scene = Scene::new();
    let gate =
        GATE.lines().filter(|line| !line.starts_with("run = ")).collect::<Vec<_>>().join("\n");
    scene.file(".phasegate/workflows/polish/workflow.toml", gate);
    scene.file(".phasegate/workflows/polish/prompts/review.md", PROMPT);
    assert!(
        scene
            .by_hand(&["trust", "polish", "--yes"])
            .stdout
            .contains("reviewer code: [\"claude\", \"--print\"")
    );
    scene.ok(&["polish", "start"]);
    let payload = scene.payload().to_string();
    let path = scene.path("empty").display().to_string();
    scene.hook_raw(payload.as_bytes(), &[("PATH", &path)]).allows_saying("cannot run claude");
}

#[test]
fn a_stop_during_a_review_waits_and_starts_no_other() {
    let scene = with_reviewer(&format!("echo x >> begun; sleep 2; {}", honest("FAIL")));
    let mut command = scene.command();
    command.args(["hook", "stop"]);
    let first = scene.spawn(command, scene.payload().to_string().as_bytes());
    while !scene.exists("begun") {
        std::thread::sleep(Duration::from_millis(10));
    }
    // One that comes meanwhile waits for the same review, and is answered by the state after it.
    scene.stop().blocks("post-1.md");
    let ran = crate::scene::finish(first);
    assert!(ran.stdout.contains("post-1.md"), "{ran:?}");
    assert_eq!(scene.read("begun").lines().count(), 1);
    // A hook that is killed leaves its reviewer at work, and the next stop has what it found.
    let slow = format!("echo x >> begun; sleep 1; {}", honest("FAIL"));
    scene.file("reviews/post-1.md", "x").file("reviewer.sh", slow);
    let mut command = scene.command();
    command.args(["hook", "stop"]);
    let mut second = scene.spawn(command, scene.payload().to_string().as_bytes());
    while scene.read("begun").lines().count() < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    second.kill().unwrap();
    second.wait().unwrap();
    scene.stop().blocks("post-2.md");
    assert_eq!(scene.read("begun").lines().count(), 2, "nobody asks twice for the same review");
    scene.ok(&["log", "--verify"]);
}

/// Reviews that a workflow asks for at every stop, and what it says to one that was just made.
fn reviewed_at_every_stop(said: &str) -> Scene {
    let gate = format!(
        r#"
name = "polish"
about = "No stop before a clean review."
initial = "working"

[state]
phase = "string"
reviews = {{ type = "integer", default = 0 }}

[reviewer.code]
prompt = "review.md"
writes = "reviews/review-{{{{ state.reviews + 1 }}}}.md"
run = ["sh", "reviewer.sh", "reviews/review-{{{{ state.reviews + 1 }}}}.md", "opus"]

[phase.working]
rules = [
  {{ on = "review-finished", when = "params.verdict == 'PASS'", goto = "done" }},
  {{ on = "review-finished", set = {{ "state.reviews" = "state.reviews + 1" }}, goto = "fixing" }},
  {{ on = "stop", review = "code" }},
]
[phase.fixing]
rules = [{said} {{ on = "stop", goto = "working" }}]
[phase.done]
final = true
"#
    );
    let scene = Scene::new();
    scene.file(".phasegate/workflows/polish/workflow.toml", gate);
    scene.file(".phasegate/workflows/polish/prompts/review.md", PROMPT);
    scene.file("reviewer.sh", honest("FAIL"));
    scene.by_hand(&["trust", "polish", "--yes"]);
    scene.ok(&["polish", "start"]);
    scene
}

#[test]
fn an_idle_agent_buys_one_review_and_is_stuck() {
    let own = r#"{ on = "stop", when = "event.reviewed", block = "Answer review {{ state.reviews }}." },"#;
    for (said, told) in [(own, "Answer review 1."), ("", "The review reviews/review-1.md found")] {
        let scene = reviewed_at_every_stop(said);
        scene.stop().blocks(told);
        for stop in 2..=12 {
            match stop % 2 {
                0 => scene.stop_again().allows_saying("is stuck"),
                // The person says something, and the agent stops again with nothing done.
                _ => scene.stop().blocks(told),
            }
        }
        assert_eq!(scene.read("models").lines().count(), 1, "one review in twelve stops");
        // What it is about has changed, also where git does not know it: there is another one.
        scene.file("src/lib.rs", "mended");
        scene.stop().blocks(&told.replace('1', "2"));
        assert_eq!(scene.read("models").lines().count(), 2);
        scene.stop_again().allows_saying("is stuck");
        // The answer may be a file beside it that is not a part of the tree.
        scene.git(&["init", "-q"]);
        scene.file(".gitignore", "*").file("reviewer.sh", honest("FAIL"));
        scene.stop().blocks(&told.replace('1', "3"));
        scene.stop_again().allows_saying("is stuck");
        scene.file("reviews/post-review-3.md", "nothing to do");
        scene.stop().blocks(&told.replace('1', "4"));
        // An edit of the document, as an agent makes it that was told to.
        let document = ".phasegate/polish/polish.json";
        scene.file(document, scene.read(document).replace("fixing", "working"));
        scene.stop().blocks(&told.replace('1', "5"));
        scene.file("reviews/post-review-5.md", "mended").file("reviewer.sh", honest("PASS"));
        scene.stop().allows_saying("is done");
        assert_eq!(scene.read("models").lines().count(), 6);
    }
}

#[test]
fn in_plan_mode_no_reviewer_is_started() {
    let scene = reviewed_at_every_stop("");
    for _ in 0..5 {
        let mut payload = scene.payload();
        payload["permission_mode"] = "plan".into();
        let said = scene.hook_raw(payload.to_string().as_bytes(), &[]);
        said.allows_saying("the client is in plan mode");
    }
    assert!(!scene.exists("models"), "nobody was asked");
    scene.stop().blocks("The review reviews/review-1.md found");
}
