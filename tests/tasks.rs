//! The `task` workflow: a phase only when its evidence is there.

mod conformance;
mod diagram;
mod evidence;
mod repl;

use serde_json::{Value, json};

use crate::scene::{Ran, Said, Scene, finish};

/// The task's folder.
pub const DIR: &str = ".phasegate/tasks/greet";

/// A repository with a task in it.
pub struct Tasks {
    pub scene: Scene,
}

impl Tasks {
    pub fn new() -> Tasks {
        Tasks::with("[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\n")
    }

    pub fn with(config: &str) -> Tasks {
        let scene = Scene::new();
        scene.file("greet.sh", "echo Hello\n").file("other.sh", "echo other\n");
        scene.file(
            "test.sh",
            "sh greet.sh | grep -q Hello || { echo greet.sh is wrong; exit 1; }\n",
        );
        scene.file(".gitignore", "home/\n.phasegate/\n").file(".phasegate/config.toml", config);
        for args in [["init", "-q"].as_slice(), &["add", "."], &["commit", "-qm", "x"]] {
            scene.git(args);
        }
        let tasks = Tasks { scene };
        tasks.ok(&["new", "--title", "Greet"]);
        tasks
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.scene.command();
        command.arg("task").args(args).env("PHASEGATE_TRUST_ALL", "1");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.scene.spawn(self.command(args), b""))
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// A command that is refused, and why.
    #[track_caller]
    pub fn refused(&self, args: &[&str], why: &str) {
        let phase = self.phase();
        let ran = self.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(why), "{why:?} is not in {told}");
        assert_eq!(self.phase(), phase);
    }

    /// A command as a person in a terminal gives it.
    pub fn by_hand(&self, args: &[&str]) -> Ran {
        self.scene
            .by_hand_with(&[["task"].as_slice(), args].concat(), &[("PHASEGATE_TRUST_ALL", "1")])
    }

    pub fn stop(&self) -> Said {
        self.stop_as(false)
    }

    pub fn stop_as(&self, again: bool) -> Said {
        let mut payload = self.scene.payload();
        payload["stop_hook_active"] = json!(again);
        self.scene.hook_raw(payload.to_string().as_bytes(), &[("PHASEGATE_TRUST_ALL", "1")])
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> &Tasks {
        self.scene.file(&format!("{DIR}/{name}"), text);
        self
    }

    pub fn state(&self) -> Value {
        self.scene.json(&format!("{DIR}/state.json"))
    }

    pub fn phase(&self) -> String {
        self.state()["phase"].as_str().unwrap().to_string()
    }

    #[track_caller]
    pub fn is_in(&self, phase: &str) -> &Tasks {
        assert_eq!(self.phase(), phase);
        self
    }

    /// Writes a plan; `mark` makes it another one.
    pub fn plan(&self, mark: &str) -> &Tasks {
        let plan = json!({
            "id": "greet", "title": mark, "goals": ["greet"],
            "acceptance_criteria": [{ "id": "a", "description": "it greets", "must_have": true }],
            "file_plan": [{ "path": "greet.sh", "intent": "modify" }],
        });
        self.file("planning/planning.ai.json", plan.to_string())
    }

    pub fn review_plan(&self, review: &Value) -> &Tasks {
        self.file("review/plan-review.json", review.to_string())
    }

    /// Changes the code.
    pub fn code(&self, greeting: &str) -> &Tasks {
        self.scene.file("greet.sh", format!("echo {greeting}\n"));
        self
    }

    /// Waits until no worker of the task is at work.
    pub fn settle(&self) {
        self.scene.ok(&["wait", "task/greet", "--settled"]);
    }

    pub fn review_code(&self, review: &Value) -> &Tasks {
        self.file("review/code-review.json", review.to_string())
    }

    /// Goes on to a phase, with all that it takes.
    pub fn up_to(&self, phase: &str) -> &Tasks {
        while self.phase() != phase {
            match self.phase().as_str() {
                "planning" => self.plan("one"),
                "plan_review" => self.review_plan(&json!({ "ok": true, "reviewers": [] })),
                "codegen" => self.code("Hello, you"),
                "review" => self.review_code(&json!({ "ok": true, "issues": [] })),
                _ => self,
            };
            self.ok(&["next"]);
        }
        self
    }
}

/// The digest of a text, as the gate has it.
fn blake3(text: &str) -> String {
    phasegate_engine::digest::digest(text.as_bytes())
}

#[test]
fn a_task_goes_its_way_by_its_artifacts() {
    let tasks = Tasks::new();
    assert_eq!(tasks.scene.read(&format!("{DIR}/planning/brief.md")), "# Greet\n");
    tasks.refused(&["next"], "planning.ai.json is missing");
    tasks.up_to("accept");
    let report = tasks.scene.json(&format!("{DIR}/eval/eval-report.json"));
    assert_eq!(report["overall_pass"], true);
    assert_eq!(report["suites"][0]["command"], json!(["sh", "test.sh"]));
    assert_eq!(report["meta"]["tree"].as_str().unwrap().len(), 40);
    // Nobody but a person decides.
    tasks.refused(&["next"], "for people");
    tasks.refused(&["accept"], "is for people");
    assert_eq!(tasks.by_hand(&["accept", "--reason", "it greets"]).code, Some(0));
    tasks.is_in("done");
    let decision = tasks.scene.json(&format!("{DIR}/accept/decision.json"));
    assert_eq!(
        (&decision["verdict"], &decision["reasons"]),
        (&json!("accepted"), &json!(["it greets"]))
    );
    assert!(tasks.scene.ok(&["status"]).contains("done in phase done"));
    let transcript = tasks.scene.read(&format!("{DIR}/transcript.jsonl"));
    let lines: Vec<Value> =
        transcript.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let moves = lines.iter().flat_map(|line| line["moves"].as_array().unwrap());
    let moves: Vec<&str> = moves.map(|step| step["to"].as_str().unwrap()).collect();
    assert_eq!(moves, ["plan_review", "codegen", "review", "test", "accept", "done"]);
    tasks.scene.ok(&["log", "--verify"]);
}

#[test]
fn ids_are_readable_and_unique() {
    let tasks = Tasks::new();
    for name in ["greet-2", "greet-3"] {
        let said = tasks.ok(&["new", "--title", "Greet"]);
        assert!(said.contains(&format!("Run task/{name} has started")), "{said}");
    }
    let said = tasks.ok(&["new", "--title", "Fix ../../etc & the Rest!", "--brief", "All of it."]);
    assert!(said.contains("Run task/fix-..-..-etc---the-rest has started"), "{said}");
}

#[test]
fn an_agent_is_told_what_is_missing_before_it_may_stop() {
    let tasks = Tasks::new();
    tasks.stop().blocks("planning.ai.json is missing");
    tasks.plan("one");
    tasks.stop_as(true).blocks("plan-review.json is missing");
    tasks.review_plan(&json!({ "ok": true }));
    tasks.stop_as(true).blocks("no file has changed since codegen began");
    tasks.code("Goodbye");
    tasks.stop_as(true).blocks("code-review.json is missing");
    tasks.review_code(&json!({ "ok": true }));
    // The gate runs the tests itself, and they fail.
    tasks.stop_as(true).blocks("greet.sh is wrong");
    tasks.is_in("codegen");
    let report = tasks.scene.json(&format!("{DIR}/eval/eval-report.json"));
    assert_eq!(
        (&report["overall_pass"], &report["suites"][0]["exit_code"]),
        (&json!(false), &json!(1))
    );
    tasks.code("Hello again");
    tasks.stop_as(true).blocks("the review of an earlier round");
    tasks.review_code(
        &json!({ "ok": true, "issues": [{ "id": "n", "severity": "minor", "message": "m" }] }),
    );
    tasks.stop_as(true).allows_saying("waits for a person");
    assert!(tasks.scene.ok(&["status"]).contains("waiting in phase accept"));
}

#[test]
fn reviews_count_for_what_was_reviewed() {
    let tasks = Tasks::new();
    tasks.up_to("plan_review").review_plan(&json!({ "ok": true })).plan("another");
    tasks.refused(&["codegen"], "the review is stale");
    tasks.ok(&["next"]);
    // The plan as somebody has changed it is reviewed anew.
    tasks.is_in("planning").ok(&["next"]);
    tasks.is_in("plan_review").refused(&["next"], "an earlier round");
    tasks.review_plan(&json!({ "ok": false })).ok(&["next"]);
    tasks.is_in("planning").refused(&["next"], "still the plan that was sent back");
    tasks.plan("a third").ok(&["next"]);
    tasks.review_plan(&json!({ "ok": true, "meta": { "plan_hash": "0000" } }));
    tasks.refused(&["codegen"], "the review is stale");
    tasks.review_plan(&json!({ "ok": true, "aggregate": 1 })).refused(&["next"], "aggregate is 1");
    tasks.review_plan(&json!({ "ok": true, "aggregate": {} })).ok(&["next"]);
    tasks.is_in("codegen").code("Hello, you").ok(&["next"]);
    tasks.is_in("review").review_code(&json!({ "ok": true })).code("Hello, them");
    tasks.refused(&["test"], "the review is stale");
    tasks.ok(&["next"]);
    tasks.is_in("codegen").ok(&["next"]);
    tasks.is_in("review").refused(&["next"], "an earlier round");
    // The same words again are a review, too, when somebody has written them anew.
    tasks.review_code(&json!({ "ok": true })).ok(&["next"]);
    // What is changed beside the patch was not reviewed.
    tasks.is_in("test").scene.file("unreviewed.sh", "rm -rf /\n");
    tasks.ok(&["test"]);
    tasks.is_in("codegen").refused(&["review", "code"], "are not planned: unreviewed.sh");
    std::fs::remove_file(tasks.scene.path("unreviewed.sh")).unwrap();
    tasks.ok(&["next"]);
    tasks.is_in("review").review_code(&json!({ "ok": true })).ok(&["next"]);
    tasks.is_in("test").ok(&["test"]);
    tasks.is_in("accept");
    // After the tests, too; and no report helps that says otherwise.
    tasks.scene.file("greet.sh", "echo Hello, nobody has tested this\n");
    let ran = tasks.by_hand(&["accept"]);
    assert!(ran.stdout.contains("It is stale"), "{ran:?}");
    tasks.is_in("accept");
}

#[test]
fn invalid_evidence_satisfies_no_guard_and_says_what_is_wrong() {
    let tasks = Tasks::new();
    for (text, why) in [
        ("{", "not valid JSON"),
        (r#"{"title": 3, "goals": [], "acceptance_criteria": []}"#, "title"),
        (
            r#"{"title": "t", "goals": [], "acceptance_criteria": [{"id": "a"}]}"#,
            "acceptance_criteria[0]",
        ),
        (
            r#"{"title": "t", "goals": [], "acceptance_criteria": [], "file_plan": [{"path": "../../etc/passwd"}]}"#,
            "not in the project",
        ),
        (
            r#"{"title": "t", "goals": [], "acceptance_criteria": [], "file_plan": [{"path": "/etc/passwd"}]}"#,
            "not in the project",
        ),
    ] {
        tasks.file("planning/planning.ai.json", text).refused(&["next"], why);
    }
    tasks.up_to("plan_review").file("review/plan-review.json", r#"{"ok": "true"}"#);
    tasks.refused(&["next"], "ok");
    tasks.review_plan(&json!({ "ok": true })).ok(&["next"]);
    // A patch that leads out of the project is not what was planned.
    let out = "--- a/../../../etc/passwd\n+++ b/../../../etc/passwd\n@@ -1 +1 @@\n-x\n+y\n";
    let why = "diff.patch does not lead from the files as they were to what they are";
    tasks.code("Hello, you").file("code/diff.patch", out).refused(&["review", "code"], why);
    std::fs::remove_file(tasks.scene.path(&format!("{DIR}/code/diff.patch"))).unwrap();
    tasks.ok(&["next"]);
    tasks.file(
        "review/code-review.json",
        r#"{"ok": true, "issues": [{"id": "x", "severity": "blocking"}]}"#,
    );
    tasks.refused(&["next"], "message");
}

#[test]
fn a_very_large_patch_is_read_where_that_is_configured() {
    let tasks = Tasks::new();
    // Without git the patch is what somebody has written.
    std::fs::remove_dir_all(tasks.scene.path(".git")).unwrap();
    tasks.up_to("codegen");
    let mut patch =
        String::from("--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1,1100000 @@\n-echo Hello\n");
    patch.push_str(&"+echo a line of fifty characters, more or less, so\n".repeat(1_100_000));
    assert!(patch.len() > 50 << 20);
    tasks.file("code/diff.patch", &patch).file("code/files/greet.sh", "x");
    tasks.refused(&["next"], "is missing");
    tasks.scene.file(".phasegate/config.toml", "[sizes]\nevidence = 64\n");
    tasks.ok(&["next"]);
    tasks.is_in("review");
    tasks.file("code/diff.patch", patch.repeat(2)).refused(&["test"], "is missing");
}

#[test]
fn a_corrupt_state_is_not_written_over() {
    let tasks = Tasks::new();
    tasks.file("state.json", "{\"phase\": \"planning\", ");
    let ran = tasks.run(&["next"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not valid JSON"), "{ran:?}");
    tasks.stop().allows_saying("not valid JSON");
    assert_eq!(tasks.scene.read(&format!("{DIR}/state.json")), "{\"phase\": \"planning\", ");
}

/// The state of the specification's own example, which another tool may have written.
#[test]
fn the_example_of_the_specification_is_a_state() {
    let tasks = Tasks::new();
    let actors = json!({
        "planning": { "round": 3, "status": "workshop" },
        "codegen": { "status": "pending" },
        "review": { "status": null },
        "test": { "status": null },
    });
    let state = json!({ "phase": "codegen", "actors": actors, "owner": "somebody" });
    tasks.scene.file(".phasegate/tasks/other/state.json", state.to_string());
    let shown = tasks.ok(&["status", "other"]);
    assert!(shown.contains("Phase codegen") && shown.contains("plan_review: possible"), "{shown}");
    tasks.ok(&["next", "other"]);
    let now = tasks.scene.json(".phasegate/tasks/other/state.json");
    assert_eq!((&now["phase"], &now["owner"]), (&json!("plan_review"), &json!("somebody")));
    assert_eq!(now["actors"]["planning"], json!({ "round": 3, "status": "workshop" }));
    assert_eq!(now["actors"]["codegen"]["status"], "plan_unclear");
}

#[test]
fn an_override_is_for_people_and_leaves_its_reason() {
    let tasks = Tasks::new();
    tasks.up_to("review");
    tasks.refused(&["next", "--override", "I want to"], "is for people");
    let ran = tasks.scene.by_agent(&["task", "next", "greet", "--override", "I want to"]);
    assert!(ran.stderr.contains("is for people"), "{ran:?}");
    // That somebody tried is on record.
    let tried = tasks.scene.journal("task/greet").pop().unwrap();
    assert_eq!(
        (&tried["event"]["name"], &tried["answer"]["code"]),
        (&json!("next"), &json!("needs_human"))
    );
    assert!(tasks.by_hand(&["next", "--override", " "]).stdout.contains("needs a reason"));
    assert!(
        tasks
            .by_hand(&["next", "--override", "x", "--to", "done"])
            .stdout
            .contains("no way leads to done")
    );
    tasks.is_in("review");
    let reason = "I accept the risk of skipping review";
    assert_eq!(tasks.by_hand(&["next", "--override", reason]).code, Some(0));
    tasks.is_in("test");
    assert!(tasks.scene.read(&format!("{DIR}/transcript.jsonl")).contains(reason));
    let line = tasks.scene.journal("task/greet").pop().unwrap();
    assert_eq!(
        (&line["event"]["params"]["override"], &line["event"]["actor"]),
        (&json!(reason), &json!("human"))
    );
    assert_eq!(tasks.state()["actors"]["review"]["status"], "overridden");
}

#[test]
fn a_revert_undoes_the_tasks_own_patch_and_nothing_else() {
    let tasks = Tasks::new();
    tasks.up_to("accept");
    tasks.scene.file("other.sh", "echo somebody's work\n").file("new.txt", "also");
    assert_eq!(tasks.by_hand(&["revert", "--reason", "a regression"]).code, Some(0));
    tasks.is_in("revert");
    let said = tasks.stop();
    said.allows_saying("undoes its patch");
    assert_eq!(tasks.by_hand(&["revert"]).code, Some(0));
    tasks.is_in("done");
    assert_eq!(tasks.scene.read("greet.sh"), "echo Hello\n");
    assert_eq!(tasks.scene.read("other.sh"), "echo somebody's work\n");
    assert!(tasks.scene.exists("new.txt"));
    assert!(tasks.scene.json(&format!("{DIR}/revert/record.json"))["digest"].is_string());
    // One that does not apply is refused, and nothing is done.
    let tasks = Tasks::new();
    tasks.up_to("accept").by_hand(&["revert"]);
    tasks.scene.file("greet.sh", "echo something else altogether\n");
    let ran = tasks.by_hand(&["revert"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("patch does not apply"), "{ran:?}");
    tasks.is_in("revert");
    assert_eq!(tasks.scene.read("greet.sh"), "echo something else altogether\n");
    assert!(!tasks.scene.exists(&format!("{DIR}/revert/record.json")));
}

#[test]
fn a_task_that_is_over_is_opened_by_redo_alone_and_nothing_is_deleted() {
    let tasks = Tasks::new();
    tasks.up_to("accept").by_hand(&["accept"]);
    for action in [["plan"].as_slice(), &["next"], &["codegen"], &["test"], &["review", "code"]] {
        tasks.refused(action, "is not possible in phase `done`");
    }
    tasks.ok(&["redo"]);
    tasks.is_in("planning");
    assert!(!tasks.scene.exists(&format!("{DIR}/planning/planning.ai.json")));
    for artifact in [
        "planning/planning.ai.json",
        "review/plan-review.json",
        "code/diff.patch",
        "eval/eval-report.json",
        "accept/decision.json",
    ] {
        assert!(tasks.scene.exists(&format!("{DIR}/archive/1/{artifact}")), "{artifact}");
    }
    assert_eq!(tasks.state()["actors"]["planning"]["round"], 2);
    tasks.up_to("plan_review").is_in("plan_review");
}

#[test]
fn workers_do_the_work_and_their_artifacts_count() {
    let config = "[workflow.task.const]\nTESTS = [\"sh\", \"test.sh\"]\nPLANNER = [\"sh\", \"planner.sh\"]\nCODER = [\"sh\", \"coder.sh\"]\n";
    let tasks = Tasks::with(config);
    tasks.scene.file("planner.sh", "cat > home/told; echo thinking hard; exit 3\n");
    assert!(tasks.ok(&["plan"]).contains("planning has begun in the background"));
    tasks.settle();
    assert!(tasks.scene.ok(&["jobs", "logs", "planning-1"]).contains("thinking hard"));
    tasks.refused(&["next"], "planning-1 ended with exit code 3");
    assert!(tasks.scene.read("home/told").contains("# Plan task greet: Greet"));
    // The session is told its own part.
    tasks.stop().blocks("`phasegate task plan greet` starts the agent");
    tasks.is_in("planning");
    // One that ends well and leaves nothing behind has done nothing.
    tasks.scene.file("planner.sh", "echo I have written a wonderful plan\n");
    tasks.ok(&["plan"]);
    tasks.settle();
    tasks.refused(&["next"], "planning.ai.json is missing");
    let plan =
        r#"{"title":"t","goals":["g"],"acceptance_criteria":[],"file_plan":[{"path":"greet.sh"}]}"#;
    tasks.scene.file("planner.sh", format!("echo '{plan}' > {DIR}/planning/planning.ai.json\n"));
    tasks.ok(&["plan"]);
    tasks.settle();
    assert!(tasks.ok(&["status"]).contains("plan_review: possible"));
    tasks.ok(&["next"]);
    tasks.review_plan(&json!({ "ok": true }));
    // The command of the next phase goes there, and starts its worker.
    tasks.scene.file("coder.sh", "echo 'echo Hello, you' > greet.sh\n");
    let said = tasks.ok(&["codegen"]);
    assert!(said.contains("codegen has begun in the background"), "{said}");
    tasks.settle();
    // The file of the worker was written after the base.
    tasks.is_in("codegen").ok(&["next"]);
    tasks.is_in("review");
    let jobs = tasks.scene.ok(&["jobs", "--all"]);
    assert!(jobs.contains("planning-1") && jobs.contains("codegen-4"), "{jobs}");
    let transcript = tasks.scene.read(&format!("{DIR}/transcript.jsonl"));
    assert!(transcript.contains(r#""event": "codegen""#), "{transcript}");
}

#[test]
fn a_worker_outlives_the_command_that_wanted_it_and_ends_as_a_whole() {
    let tasks = Tasks::with("[workflow.task.const]\nPLANNER = [\"sh\", \"planner.sh\"]\n");
    tasks.scene.file("planner.sh", "echo x > begun; sleep 4714.1 & wait\n");
    let mut child = tasks.scene.spawn(tasks.command(&["plan"]), b"");
    while !tasks.scene.exists("begun") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success(), "nobody waits for it");
    tasks.refused(&["plan"], "planning is at work");
    tasks.plan("meanwhile").refused(&["next"], "planning is at work");
    tasks.stop().allows_saying("planning is at work");
    assert!(tasks.scene.ok(&["jobs"]).contains("planning-1"));
    assert!(crate::plans::is_alive("4714.1"));
    let ran = tasks.scene.by_agent(&["jobs", "end", "planning-1"]);
    assert!(ran.stderr.contains("ending a job is for people"), "{ran:?}");
    assert_eq!(tasks.scene.by_hand(&["jobs", "end", "planning-1"]).code, Some(0));
    let since = std::time::Instant::now();
    while crate::plans::is_alive("4714.1") {
        assert!(since.elapsed().as_secs() < 10, "the worker is left behind");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    tasks.is_in("planning");
    tasks.scene.ok(&["log", "--verify"]);
}

#[test]
fn without_tests_nothing_is_accepted() {
    let tasks = Tasks::with("");
    tasks.up_to("test");
    tasks.refused(&["test"], "Nobody has said how task greet is tested");
    tasks.stop().allows_saying("TESTS = ");
}

#[test]
fn static_analysis_counts_too() {
    let config = "[workflow.task.const]\nTESTS = [\"true\"]\nLINT = [\"sh\", \"lint.sh\"]\n";
    let tasks = Tasks::with(config);
    tasks.scene.file("lint.sh", "echo ugly; exit 2\n");
    let ran = tasks.up_to("test").run(&["test"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("static analysis of task greet fails"), "{ran:?}");
    assert!(ran.stdout.contains("ugly"), "{ran:?}");
    tasks.is_in("codegen");
    let report = tasks.scene.json(&format!("{DIR}/eval/eval-report.json"));
    assert_eq!(
        (&report["suites"][1]["kind"], &report["suites"][1]["exit_code"]),
        (&json!("lint"), &json!(2))
    );
}

#[test]
fn every_artifact_has_a_schema() {
    let scene = Scene::new();
    for (record, field) in [
        ("state", "phase"),
        ("planning", "acceptance_criteria"),
        ("plan_files", "files"),
        ("plan_review", "blocked"),
        ("code_review", "issues"),
        ("eval_report", "overall_pass"),
        ("decision", "verdict"),
        ("revert_record", "patch"),
    ] {
        let schema: Value = serde_json::from_str(&scene.ok(&["schema", "task", record])).unwrap();
        assert_eq!(schema["type"], "object", "{record}");
        assert!(schema["properties"][field].is_object(), "{record}: {schema}");
    }
    assert!(
        scene.run(&["schema", "task", "banana"]).stderr.contains("there are: state, actor, actors")
    );
}

#[test]
fn the_scope_is_what_was_reviewed() {
    let tasks = Tasks::new();
    tasks.up_to("codegen");
    // The coder widens his own scope.
    tasks.file("planning/plan.files.json", r#"{"files": ["greet.sh", "other.sh"]}"#);
    tasks.scene.file("other.sh", "echo changed\n");
    tasks.code("Hello, you").ok(&["next"]);
    tasks.is_in("plan_review");
}

#[test]
fn the_books_are_kept_by_the_rules_alone() {
    let tasks = Tasks::new();
    tasks.up_to("review").review_code(&json!({ "ok": true }));
    let mut state = tasks.state();
    state["actors"] = json!({});
    tasks.file("state.json", state.to_string());
    tasks.scene.file("greet.sh", "echo Hello, unreviewed\n");
    tasks.refused(&["test"], "does not count");
    let said = tasks.stop();
    said.allows_saying("does not count");
    said.allows_saying("`actors` was changed");
    let accept = ["accept", "task/greet", "--reason", "I did"];
    let ran = tasks.is_in("review").scene.run(&accept);
    assert!(ran.code != Some(0) && ran.stderr.contains("for people"), "{ran:?}");
    // What the document says of it counts for nothing.
    state["accepted_changes"] = json!(99);
    tasks.file("state.json", state.to_string());
    tasks.refused(&["test"], "does not count");
    assert_eq!(tasks.scene.by_hand(&accept).code, Some(0));
    tasks.refused(&["test"], "stale");
    state.as_object_mut().unwrap().remove("actors");
    tasks.file("state.json", state.to_string());
    tasks.stop().allows_saying("actors");
}

#[test]
fn a_configured_reviewer_is_the_only_one() {
    let config = "[workflow.task.const]\nTESTS = [\"true\"]\nCODE_REVIEWER = [\"sh\", \"home/reviewer.sh\"]\n";
    let tasks = Tasks::with(config);
    tasks.up_to("review").review_code(&json!({ "ok": true, "issues": [] }));
    tasks.refused(&["next"], "not what the configured reviewer wrote");
    // One that writes nothing does not make it his.
    tasks.scene.file("home/reviewer.sh", "true\n");
    tasks.ok(&["review", "code"]);
    tasks.settle();
    tasks.refused(&["next"], "not what the configured reviewer wrote");
    // Nor does an entry in the books, whose digest anybody can work out.
    let mut state = tasks.state();
    let made = blake3(&tasks.scene.read(&format!("{DIR}/review/code-review.json")));
    state["actors"]["review"]["made"] = json!(made);
    tasks.file("state.json", state.to_string());
    tasks.refused(&["next"], "does not count");
    let accept = ["accept", "task/greet", "--reason", "put right"];
    assert_eq!(tasks.scene.by_hand(&accept).code, Some(0));
    let review = format!("echo '{{\"ok\": true}}' > {DIR}/review/code-review.json\n");
    tasks.scene.file("home/reviewer.sh", format!("cat > home/told; {review}"));
    tasks.ok(&["review", "code"]);
    tasks.settle();
    // It is told its own part, and the session is told that it is not its part.
    assert!(tasks.scene.read("home/told").contains("# Review the code of task greet"));
    tasks.ok(&["next"]);
    tasks.is_in("test");
}

#[test]
fn a_worker_is_no_person() {
    let tasks = Tasks::with("[workflow.task.const]\nPLANNER = [\"sh\", \"planner.sh\"]\n");
    let hook = env!("CARGO_BIN_EXE_phasegate");
    tasks.scene.file(
        "planner.sh",
        format!("script -qec \"{hook} task next greet --override why\" /dev/null; true\n"),
    );
    tasks.ok(&["plan"]);
    tasks.settle();
    let said = tasks.scene.ok(&["jobs", "logs", "planning-1"]);
    assert!(said.contains("is for people"), "{said}");
    tasks.is_in("planning");
}

#[test]
fn who_is_sent_back_learns_why() {
    let tasks = Tasks::new();
    tasks.up_to("accept");
    assert_eq!(
        tasks.by_hand(&["accept", "--verdict", "changes", "--reason", "call it greeting"]).code,
        Some(0)
    );
    assert!(tasks.ok(&["codegen"]).contains("call it greeting"));
    tasks.stop().blocks("call it greeting");
}

#[test]
fn a_project_inside_of_a_repository_is_reverted_too() {
    let scene = Scene::bare();
    scene.git(&["init", "-q"]);
    scene
        .file("part/greet.sh", "echo Hello\n")
        .file("part/.phasegate/config.toml", "[workflow.task.const]\nTESTS = [\"true\"]\n");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-qm", "x"]);
    let dir = "part/.phasegate/tasks/greet";
    let run = |args: &[&str]| {
        let args = [["-C", "part", "task"].as_slice(), args].concat();
        let ran = scene.by_hand_with(&args, &[("PHASEGATE_TRUST_ALL", "1")]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    };
    run(&["new", "--title", "Greet"]);
    scene.file(
        &format!("{dir}/planning/planning.ai.json"),
        r#"{"title":"t","goals":[],"acceptance_criteria":[],"file_plan":[{"path":"./greet.sh"}]}"#,
    );
    run(&["next"]);
    scene.file(&format!("{dir}/review/plan-review.json"), r#"{"ok":true}"#);
    run(&["next"]);
    scene.file("part/greet.sh", "echo Changed\n");
    let patch = "--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Hello\n+echo Changed\n";
    scene
        .file(&format!("{dir}/code/diff.patch"), patch)
        .file(&format!("{dir}/code/files/greet.sh"), "x");
    run(&["next"]);
    scene.file(&format!("{dir}/review/code-review.json"), r#"{"ok":true}"#);
    run(&["next"]);
    run(&["test"]);
    run(&["revert"]);
    run(&["revert"]);
    assert_eq!(scene.read("part/greet.sh"), "echo Hello\n");
}

#[test]
fn nothing_is_moved_over_what_is_there() {
    let tasks = Tasks::new();
    tasks.plan("one").file("archive/planning-1/plan.md", "old").file("planning/plan.md", "new");
    tasks.refused(&["redo"], "archive/planning-1/plan.md exists");
    assert!(tasks.scene.exists(&format!("{DIR}/planning/planning.ai.json")));
    assert_eq!(tasks.scene.read(&format!("{DIR}/archive/planning-1/plan.md")), "old");
}

#[test]
fn tests_that_change_the_files_are_said_to() {
    let tasks =
        Tasks::with("[workflow.task.const]\nTESTS = [\"sh\", \"-c\", \"date +%N >> out.log\"]\n");
    tasks.up_to("test");
    tasks.refused(&["test"], "Files keep changing while check tests");
    tasks.stop().allows_saying("Files keep changing while check tests");
    tasks.is_in("test");
}

#[test]
fn an_override_of_a_review_holds() {
    let tasks = Tasks::new();
    tasks.up_to("review").review_code(&json!({ "ok": true }));
    tasks.scene.file("scratch.log", "x");
    assert_eq!(tasks.by_hand(&["next", "--override", "the reviewer wrote it"]).code, Some(0));
    tasks.is_in("test").ok(&["test"]);
    tasks.is_in("accept");
    // What lies beside the patch is said to the person who decides.
    tasks.stop().allows_saying("- files that were not planned: scratch.log");
}

#[test]
fn files_that_git_ignores_count_where_the_patch_has_them() {
    let tasks = Tasks::new();
    tasks.up_to("planning").file("planning/planning.ai.json", r#"{"title":"t","goals":[],"acceptance_criteria":[],"file_plan":[{"path":"home/gen.txt"}]}"#);
    tasks.ok(&["next"]);
    tasks.review_plan(&json!({ "ok": true })).ok(&["next"]);
    tasks.scene.file("home/gen.txt", "good\n");
    let patch = "--- /dev/null\n+++ b/home/gen.txt\n@@ -0,0 +1 @@\n+good\n";
    tasks.file("code/diff.patch", patch).file("code/files/gen.txt", "good").ok(&["next"]);
    tasks.review_code(&json!({ "ok": true })).ok(&["next"]);
    tasks.ok(&["test"]);
    tasks.scene.file("home/gen.txt", "evil\n");
    assert!(tasks.by_hand(&["accept"]).stdout.contains("It is stale"));
    tasks.is_in("accept");
}
