//! Whole outputs of the commands that people use every day, as snapshots: a change of words is a diff.

use regex_lite::Regex;
use serde_json::json;

use crate::scene::{Ran, Scene};

/// A gate of a user: the tests must pass, and a person approves what was done.
const SHIP: &str = r#"
name = "ship"
about = "No stop before the tests pass; then a person approves."
initial = "working"

[check.tests]
run = ["sh", "test.sh"]
timeout = "20s"

[action.approve]
about = "Approve what was done."
by = "human"
param.reason = { type = "string", about = "Why" }

[action.tidy]
about = "Say that everything is tidy."

[phase.working]
about = "The agent works."
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\n{{ check.tests.tail }}\nFix them, then stop again." },
  { on = "stop", goto = "approval" },
  { on = "tidy", deny = "The tests have not passed yet." },
]

[phase.approval]
about = "A person decides."
rules = [
  { on = "stop", allow = "waiting", until = "human", message = "The tests pass. Approve with `phasegate ship approve`." },
  { on = "approve", goto = "done" },
  { on = "tidy", goto = "approval" },
]

[phase.done]
final = true
"#;

/// Commands and what they print, one after the other, as in a terminal.
struct Terminal<'s> {
    scene: &'s Scene,
    shown: String,
}

impl Terminal<'_> {
    fn on(scene: &Scene) -> Terminal<'_> {
        Terminal { scene, shown: String::new() }
    }

    /// A command that a program or an agent's shell gives.
    fn run(&mut self, args: &[&str]) -> &mut Self {
        let ran = self.scene.run(args);
        self.add(args, "$", &ran)
    }

    /// A command that a person types.
    fn types(&mut self, args: &[&str]) -> &mut Self {
        let ran = self.scene.by_hand(args);
        self.add(args, ">", &ran)
    }

    /// The agent stops; what its client is answered.
    fn stops(&mut self, again: bool) -> &mut Self {
        let said = if again { self.scene.stop_again() } else { self.scene.stop() };
        let members = said.json.as_object().unwrap();
        self.print("(the agent stops)");
        for (name, value) in members {
            self.print(&format!("{name}: {}", value.as_str().unwrap_or_default()));
        }
        self.print("");
        self
    }

    fn add(&mut self, args: &[&str], prompt: &str, ran: &Ran) -> &mut Self {
        let words: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        self.print(&format!("{prompt} phasegate {}", words.join(" ")));
        self.shown += &ran.stdout;
        self.shown += &ran.stderr;
        if ran.code != Some(0) {
            self.print(&format!("(exit code {})", ran.code.unwrap_or(-1)));
        }
        self.print("");
        self
    }

    fn print(&mut self, line: &str) {
        self.shown += line;
        self.shown += "\n";
    }

    /// All of it without what differs from one run to the next.
    fn steady(&self) -> String {
        let root = self.scene.root().canonicalize().unwrap().display().to_string();
        let mut text = self.shown.replace(&root, "[project]");
        for (pattern, to) in [
            (r"\bjust now\b|\b\d+ (second|minute)s? ago\b", "[ago]"),
            (r"\bat \d\d:\d\d(:\d\d)?\b", "at [clock]"),
            (r"\bsince \d\d:\d\d(:\d\d)?\b", "since [clock]"),
            (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "[time]"),
            (r"\bin \d+ (ms|seconds?)\b|\bin less than a second\b", "in [time]"),
            (r"\b[0-9a-f]{16,64}\b", "[digest]"),
            (r"\b01[0-9A-Z]{24}\b", "[id]"),
            (r"[ \t]+\n", "\n"),
        ] {
            text = Regex::new(pattern).unwrap().replace_all(&text, to).into_owned();
        }
        text
    }
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("{word:?}") } else { word.to_string() }
}

#[test]
fn a_gate_of_ones_own_from_start_to_end() {
    let scene = Scene::new();
    scene
        .file(".phasegate/workflows/ship.toml", SHIP)
        .file("test.sh", "echo 1 of 3 failed; exit 1\n");
    let mut terminal = Terminal::on(&scene);
    terminal.run(&["lint", "ship"]).run(&["list"]).run(&["status"]);
    terminal.types(&["ship", "start"]).types(&["trust", "ship", "--yes"]).run(&["status"]);
    terminal.stops(false).run(&["status"]).run(&["why"]).run(&["jobs", "--all"]);
    terminal.run(&["ship", "tidy"]).run(&["ship", "approve", "--reason", "fine"]);
    scene.file("test.sh", "echo all passed\n");
    terminal.stops(true).run(&["status"]).run(&["ship", "tidy"]);
    terminal.types(&["ship", "approve", "--reason", "looks good"]);
    terminal.run(&["status"]).run(&["status", "--all"]).run(&["log"]).run(&["log", "--verify"]);
    insta::assert_snapshot!(terminal.steady());
}

#[test]
fn what_is_said_of_runs_that_are_held_up() {
    let scene = Scene::new();
    scene.file("test.sh", "exit 1\n").file(".phasegate/workflows/ship.toml", SHIP);
    let mut terminal = Terminal::on(&scene);
    terminal.types(&["ship", "start"]).stops(false);
    terminal.types(&["trust", "ship", "--yes"]).stops(false).stops(true).run(&["status"]);
    terminal.types(&["pause"]).stops(false).run(&["status"]).types(&["resume"]);
    terminal.types(&["release"]).types(&["adopt", "--session", "other"]);
    terminal.types(&["cancel"]).types(&["cancel"]).stops(false).run(&["status"]);
    insta::assert_snapshot!(terminal.steady());
}

#[test]
fn what_is_said_to_mistakes_on_the_command_line() {
    let scene = Scene::with_triage(1);
    scene.file("odd.json", "{").file(".phasegate/workflows/bad.toml", "name = \"bad\"\n");
    let mut terminal = Terminal::on(&scene);
    terminal.run(&["status", "triage/nothing"]).run(&["why", "nothing"]).run(&["nothing"]);
    terminal.run(&["triage", "start", "--from", "missing.json"]);
    terminal.run(&["triage", "start", "--from", "odd.json"]);
    terminal.run(&["triage", "start"]).run(&["log", "triage/nothing"]);
    terminal.run(&["lint", "nothing"]).run(&["lint", "bad"]).run(&["bad", "start"]);
    terminal.run(&["jobs", "logs"]).run(&["jobs", "run", "tests"]).run(&["adopt"]);
    terminal.run(&["eject", "nothing"]).run(&["demo", "nothing"]).run(&["drive", "nothing"]);
    terminal.run(&["wait", "--status"]).run(&["schema", "triage", "nothing"]);
    terminal.run(&["mcp", "--http", "nowhere"]).run(&["-C", "nowhere", "status"]);
    insta::assert_snapshot!(terminal.steady());
}

#[test]
fn the_first_minutes_of_each_built_in() {
    let scene = Scene::new();
    scene.file("findings.json", json!([{ "name": "f1", "file_path": "a.py" }]).to_string());
    let mut terminal = Terminal::on(&scene);
    terminal.run(&["triage", "start", "--from", "findings.json", "--name", "web"]);
    terminal.run(&["triage", "report"]);
    terminal.run(&["loop", "start", "--max", "3", "--prompt", "Write a poem."]);
    terminal.run(&["loop", "status"]);
    terminal.run(&["plan", "new-plan", "--name", "shop"]).run(&["plan", "next"]);
    terminal.run(&["task", "new", "--title", "Greet people"]).run(&["task", "next"]);
    let phases = json!([{ "name": "Design" }, { "name": "Build" }]).to_string();
    terminal.run(&["phases", "create", "--title", "A shop", "--phases", &phases, "--name", "web"]);
    terminal.run(&["phases", "status"]).run(&["phases", "advance"]);
    terminal.run(&["status"]);
    insta::assert_snapshot!(terminal.steady());
}
