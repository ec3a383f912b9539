//! What is done with every client, step by step; each is a column of the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::kits::Kit;
use crate::real::api::{Api, Reply, Request};
use crate::real::running::{Ended, Running};
use crate::real::scene::{Scene, run};
use crate::real::terminal;
use crate::server;

/// How long a session may take.
const TIMEOUT: Duration = Duration::from_mins(3);

/// A gate that wants more than the first answer.
const NOTES: &str = "name = \"notes\"\nabout = \"x\"\ninitial = \"a\"\n[phase.a]\nrules = [\n{ on = \"stop\", when = \"(text('NOTES.md') ~ text('MORE.md')) | length < 10\", block = \"NOTES.md has {{ (text('NOTES.md') ~ text('MORE.md')) | length }} characters. Say more.\" },\n{ on = \"stop\", goto = \"b\", allow = \"done\" },\n]\n[phase.b]\nfinal = true\n";

/// What it looks at.
const NOTES_FILES: [&str; 2] = ["NOTES.md", "MORE.md"];

/// What a sub-agent is told.
const SUBTASK: &str = "SUBTASK: say that it is done.";

/// A step: its column, and what it does.
pub type Step = (&'static str, fn(&Bench) -> String);

/// The columns of the table, in the order in which they are done.
pub static STEPS: &[Step] = &[
    ("installed", installed),
    ("trusted", trusted),
    ("blocks", blocks),
    ("2nd and 3rd stop", later_stops),
    ("cap", cap),
    ("last message", last_message),
    ("sub-agent", sub_agent),
    ("MCP", server),
    ("drive", drive),
    ("rights", rights),
    ("ACP", acp),
    ("uninstall", uninstall),
];

/// A client in a project.
pub struct Bench {
    pub kit: &'static Kit,
    pub scene: Scene,
    /// The files of the project before anything was installed.
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Bench {
    pub fn new(kit: &'static Kit, scene: Scene) -> Bench {
        scene.file("README.md", "A project.\n").file(".phasegate/workflows/notes.toml", NOTES);
        let before = files(&scene);
        Bench { kit, scene, before }
    }

    /// Lets the client work on a prompt, with a model that answers so.
    fn session(
        &self,
        prompt: &str,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> (Ended, Vec<Request>) {
        let api = Api::start(script);
        (self.kit.settle)(&self.scene, &api);
        if let Some(trust) = self.kit.trust {
            trust(&self.scene);
        }
        self.turn(&api, prompt)
    }

    fn turn(&self, api: &Api, prompt: &str) -> (Ended, Vec<Request>) {
        if self.kit.turn.is_empty() {
            let ended = server::turn(self.kit, &self.scene, api, prompt);
            return (ended, api.requests());
        }
        let program = self.scene.home().with_file_name("bin").join(self.kit.name);
        let mut command = self.scene.command(program.to_str().unwrap());
        command.args(self.kit.turn).arg(prompt).envs(self.kit.variables(api));
        let ended = Running::start(command, TIMEOUT).unwrap().wait();
        (ended, api.requests())
    }

    /// What doctor says of the client's trust.
    fn trust_rows(&self) -> Vec<Value> {
        let mut command = self.scene.command(env!("CARGO_BIN_EXE_phasegate"));
        command.args(["doctor", "--json"]);
        let ended = Running::start(command, TIMEOUT).unwrap().wait();
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
        let rows = shown["rows"].as_array().unwrap().clone();
        let id = format!("hook.{}", self.kit.name);
        let fired = rows.iter().find(|row| row["id"] == id.as_str());
        assert!(fired.is_some_and(|row| row["status"] == "ok"), "{rows:#?}");
        let id = format!("{id}.trust");
        rows.into_iter().filter(|row| row["id"] == id.as_str()).collect()
    }

    /// The answers of a run, as one text: `block block done`.
    fn answers(&self, run: &str) -> String {
        self.scene.answers(run).join(" ")
    }

    /// A run of the gate that is new.
    fn start_notes(&self, name: &str) {
        for file in NOTES_FILES {
            let _ = std::fs::remove_file(self.scene.path(file));
        }
        self.scene.ok(&["notes", "start", "--name", name]);
    }
}

/// A model that writes as much as the gate wants, in two steps.
fn writer(shell: fn(&str) -> Reply) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    move |request| {
        let (order, used) = request.order();
        if !used.is_empty() {
            return Reply::text("Written.");
        }
        if order.contains("has 0 characters") {
            return shell("printf Short. > NOTES.md");
        }
        if order.contains("has 6 characters") {
            return shell("printf 'Much longer.' > NOTES.md");
        }
        Reply::text("I am done.")
    }
}

/// The files of a project that are not ours alone.
fn files(scene: &Scene) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &PathBuf, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            let is_ours = [".git", ".phasegate", ".jwz"].iter().any(|it| path.ends_with(it));
            if path.is_dir() && !is_ours {
                walk(&path, found);
            } else if path.is_file() && !NOTES_FILES.iter().any(|it| path.ends_with(it)) {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&scene.root(), &mut found);
    found
}

fn installed(bench: &Bench) -> String {
    let said = bench.scene.ok(&["init", "--mcp", "--client", bench.kit.name]);
    for file in bench.kit.files {
        assert!(bench.scene.exists(file), "{file}: {said}");
    }
    let needs_trust = bench.kit.trust.is_some();
    assert_eq!(said.contains("Before it works"), needs_trust, "{said}");
    std::fs::remove_file(bench.scene.path(".phasegate/workflows/ship.toml")).unwrap_or_default();
    "yes".into()
}

/// Before the client's own step of trust nothing to remove runs, and doctor says so; after it, both do.
fn trusted(bench: &Bench) -> String {
    let Some(trust) = bench.kit.trust else {
        assert_eq!(bench.trust_rows(), Vec::<Value>::new());
        return "not needed".into();
    };
    let rows = bench.trust_rows();
    assert!(rows.len() == 1 && rows[0]["status"] == "fail", "{rows:#?}");
    bench.start_notes("untrusted");
    let api = Api::start(|_| Reply::text("I am done."));
    (bench.kit.settle)(&bench.scene, &api);
    bench.turn(&api, "Take notes.");
    assert_eq!(bench.answers("notes/untrusted"), "");
    bench.scene.ok(&["cancel", "notes/untrusted"]);
    trust(&bench.scene);
    assert_eq!(bench.trust_rows(), Vec::<Value>::new());
    "after its step".into()
}

fn blocks(bench: &Bench) -> String {
    bench.start_notes("blocks");
    let (ended, requests) = bench.session("Take notes.", writer(bench.kit.shell));
    let told = requests.iter().any(|request| request.order().0.contains("has 0 characters"));
    let answers = bench.answers("notes/blocks");
    assert!(told && answers.starts_with("block"), "{answers}: {ended:?}");
    "yes".into()
}

fn later_stops(bench: &Bench) -> String {
    let answers = bench.answers("notes/blocks");
    assert_eq!(answers, "block block done");
    assert_eq!(bench.scene.read("NOTES.md"), "Much longer.");
    let stops = bench.scene.stops("notes/blocks");
    assert!(stops.iter().all(|stop| stop.session == stops[0].session), "{stops:?}");
    answers
}

fn cap(bench: &Bench) -> String {
    // More than any client's own cap.
    let blocks = bench.kit.cap.unwrap_or(11);
    let most = if bench.kit.cap.is_some() { "50" } else { "11" };
    bench.scene.ok(&["loop", "start", "--max", most, "--prompt", "Talk."]);
    let (ended, requests) = bench.session("Talk.", |_| Reply::text("I talk."));
    let answers = bench.scene.answers("loop/current");
    let mut expected = vec!["block"; blocks];
    // Where the client has no cap, it is the loop that comes to its end.
    expected.push(if bench.kit.cap.is_some() { "capped" } else { "stuck" });
    assert_eq!(answers, expected, "{ended:?}");
    // The client has gone on after each of them.
    let main = requests.iter().filter(|request| request.all().contains("Talk.")).count();
    assert!(main > blocks, "{main} requests");
    let _ = bench.scene.try_run(&["cancel", "loop/current"]);
    if bench.kit.cap.is_some() { format!("{blocks} of ours") } else { "none".into() }
}

/// The loop's signal counts in the last message, and only there.
fn last_message(bench: &Bench) -> String {
    bench.scene.ok(&["loop", "start", "--max", "9", "--prompt", "Write a poem."]);
    let before = bench.scene.answers("loop/current").len();
    let (ended, _) = bench.session("Write.", |request| {
        let (order, _) = request.order();
        if order.contains("[ITERATION 2/9]") {
            return Reply::text("All of it is there.\n\n<loop-done>COMPLETE</loop-done>");
        }
        Reply::text("At it.")
    });
    let answers = bench.scene.answers("loop/current").split_off(before).join(" ");
    assert_eq!(answers, "block block done", "{ended:?}");
    "read".into()
}

/// A sub-agent's end is not its session's.
fn sub_agent(bench: &Bench) -> String {
    let (tool, input) = bench.kit.agent;
    bench.start_notes("sub");
    let shell = bench.kit.shell;
    let (ended, requests) = bench.session("Work.", move |request| {
        if request.has_order(SUBTASK) {
            return Reply::text("sub done");
        }
        // Not by the last order: that the sub-agent has ended may be told after the block.
        let used = request.used();
        if request.all().contains("has 0 characters") && used.len() == 1 {
            return shell("printf 'Much longer.' > NOTES.md");
        }
        if used.is_empty() {
            return Reply::tool(tool, input(SUBTASK));
        }
        Reply::text("I am done.")
    });
    let asked = requests.iter().any(|request| request.has_order(SUBTASK));
    let tools: Vec<&String> = requests.iter().flat_map(|request| &request.tools).collect();
    assert!(asked, "there was none: {ended:?}\n{tools:?}\n{:?}", requests.last());
    // A sub-agent that works in the background is waited for.
    let answers = bench.answers("notes/sub");
    assert!(
        ["block done", "waiting block done"].contains(&answers.as_str()),
        "{answers}: {ended:?}"
    );
    let stops = bench.scene.stops("notes/sub");
    assert!(stops.iter().all(|stop| stop.session == stops[0].session), "{stops:?}");
    "takes no run".into()
}

/// Our MCP server is started, and the model can have its tools.
fn server(bench: &Bench) -> String {
    let (name, search) = (bench.kit.server, bench.kit.search);
    let (ended, requests) = bench.session("Look.", move |request| match search {
        Some((tool, input)) if request.used().is_empty() => Reply::tool(tool, input(name)),
        _ => Reply::text("I have looked."),
    });
    let is_offered = requests.iter().any(|request| request.offers(name));
    let found = requests.iter().any(|request| request.all().contains(name));
    let last = requests.last().map(|request| (&request.tools, request.all()));
    assert!(is_offered || search.is_some() && found, "{ended:?}\n{last:?}");
    if is_offered { "listed".into() } else { "found".into() }
}

/// Two turns of one conversation, without a hook. The least rights are enough to edit.
fn drive(bench: &Bench) -> String {
    assert!(driven(bench, "drive", &["--agent", bench.kit.name]));
    "resumes".into()
}

/// With all rights it does what it was refused before.
fn rights(bench: &Bench) -> String {
    let probe = probe(bench);
    bench.start_notes("rights");
    let (shell, touch) = (bench.kit.shell, format!("touch {}", probe.display()));
    let api = Api::start(move |request| match request.order().1.len() {
        0 => shell(&touch),
        1 => shell("printf 'Much longer.' > NOTES.md"),
        _ => Reply::text("Done."),
    });
    (bench.kit.settle)(&bench.scene, &api);
    let mut command = bench.scene.command(env!("CARGO_BIN_EXE_phasegate"));
    // To root, one client gives all rights only in a sandbox.
    command.envs(bench.kit.variables(&api)).env("IS_SANDBOX", "1");
    command.args(["drive", "notes", "rights", "--all-rights", "--agent", bench.kit.name]);
    // All rights are for people, who have a terminal.
    let (_person, line) = terminal::open();
    command.stdin(line);
    let ended = Running::start(command, TIMEOUT).unwrap().wait();
    assert!(ended.is_success(), "{ended:?}\n{:?}", api.requests().last());
    assert!(probe.exists(), "{ended:?}\n{:?}", api.requests().last());
    let _ = std::fs::remove_file(probe);
    "least, and all".into()
}

/// A file that an agent with the least rights cannot make: it is not in the project, nor where temporary
/// files are.
fn probe(bench: &Bench) -> PathBuf {
    let name = format!("probe-{}-{}", bench.kit.name, std::process::id());
    // A checkout below /tmp would be where temporary files are.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.starts_with("/tmp") { Path::new("/var/tmp") } else { folder };
    folder.join(name)
}

/// The same over the Agent Client Protocol.
fn acp(bench: &Bench) -> String {
    if bench.kit.acp.is_empty() {
        return "not spoken".into();
    }
    let words = [&["--acp", "--", bench.kit.name], bench.kit.acp].concat();
    assert_eq!(driven(bench, "acp", &words), bench.kit.loads);
    if bench.kit.loads { "resumes".into() } else { "a new session each turn".into() }
}

/// Drives an agent through two turns, in which it edits, asks git, and tries more than it may; whether the second
/// knew of the first.
fn driven(bench: &Bench, run: &str, agent: &[&str]) -> bool {
    bench.start_notes(run);
    let probe = probe(bench);
    let (shell, writes, touch) =
        (bench.kit.shell, bench.kit.writes, format!("touch {}", probe.display()));
    // One client ends a file that it writes with a new line.
    let is_second = |order: &str| order.contains("characters") && !order.contains("has 0 ");
    let (notes, more) = (bench.scene.path("NOTES.md"), bench.scene.path("MORE.md"));
    let api = Api::start(move |request| {
        let (order, used) = request.order();
        match (is_second(&order), used.len()) {
            (false, 0) => writes(&notes, "Short."),
            (true, 0) => writes(&more, "Much longer."),
            (true, 1) => shell("git rev-parse --sq-quote phase gate"),
            (true, 2) => shell(&touch),
            _ => Reply::text("Written."),
        }
    });
    (bench.kit.settle)(&bench.scene, &api);
    let mut command = bench.scene.command(env!("CARGO_BIN_EXE_phasegate"));
    command.envs(bench.kit.variables(&api));
    command.args(["drive", "notes", run, "--prompt", "Take notes, please."]).args(agent);
    let ended = Running::start(command, TIMEOUT).unwrap().wait();
    let requests = api.requests();
    let last = requests.last().map(|request| (&request.tools, request.all()));
    let answers = bench.answers(&format!("notes/{run}"));
    assert_eq!(answers, "block block done", "{ended:?}\n{last:?}");
    assert!(ended.is_success(), "{ended:?}");
    assert!(!probe.exists(), "it has written {}: {last:?}", probe.display());
    let looked = requests.iter().any(|request| request.all().contains("'phase' 'gate'"));
    assert!(looked, "it may not ask git: {last:?}");
    // What a client asks beside the conversation, without tools, may be about anything; and one such request
    // does not tell for the others.
    let is_of_second =
        |request: &&Request| !request.tools.is_empty() && is_second(&request.order().0);
    let second: Vec<&Request> = requests.iter().filter(is_of_second).collect();
    assert!(!second.is_empty(), "{last:?}");
    second.iter().all(|request| request.all().contains("Take notes, please."))
}

fn uninstall(bench: &Bench) -> String {
    let mut command = bench.scene.command(env!("CARGO_BIN_EXE_phasegate"));
    command.args(["uninstall", "--client", bench.kit.name]);
    run(command);
    let after = files(&bench.scene);
    // A client may have written something of its own into the file: that stays, and only that.
    let mut is_whole = true;
    for (path, text) in &after {
        let text = String::from_utf8_lossy(text);
        if bench.before.get(path).is_none_or(|before| before != text.as_bytes()) {
            is_whole = false;
            assert!(!text.contains("phasegate"), "{}: {text}", path.display());
        }
    }
    assert!(bench.before.keys().all(|path| after.contains_key(path)));
    if is_whole { "byte for byte".into() } else { "all that is ours".into() }
}
