//! A project in a temporary folder, and a binary that is told what happens there.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex_lite::{Captures, Regex};
use serde_json::{Value, json};

use crate::as_it_was;
use crate::trace::{Op, Seen, Step, Trace, Who};

/// Folders of our own bookkeeping, which is not compared: only its effects are.
const OWN: [&str; 10] =
    ["kept", "runs", "agents", "checks", "reviews", "workers", "errands", "drive", "jobs", "tree"];

pub struct Stage {
    folder: tempfile::TempDir,
    pub binary: PathBuf,
    committed: BTreeMap<String, String>,
    /// The files as they were last seen, and how many lines each journal had.
    files: BTreeMap<String, String>,
    lines: BTreeMap<String, usize>,
    words: Words,
}

impl Stage {
    pub fn new(binary: &Path, trace: &Trace) -> Stage {
        let folder = tempfile::Builder::new().prefix("phasegate-differ-").tempdir().unwrap();
        let words = Words::new(folder.path());
        let mut stage = Stage {
            folder,
            binary: binary.to_path_buf(),
            committed: trace.committed.clone(),
            files: BTreeMap::new(),
            lines: BTreeMap::new(),
            words,
        };
        for (path, text) in &trace.committed {
            stage.write(path, text);
        }
        if !trace.committed.is_empty() {
            for args in [["init", "-q"].as_slice(), &["add", "-A"], &["commit", "-qm", "first"]] {
                stage.git(args);
            }
        }
        // What was written later is younger, by more than a file system's clock can miss.
        let count = trace.files.len();
        for (index, (path, text)) in trace.files.iter().enumerate() {
            stage.write(path, text);
            let age = Duration::from_secs((count - index) as u64);
            let file = std::fs::File::options().append(true).open(stage.path(path)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        stage.look();
        stage
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// A JSON document; null where there is none.
    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.read(path)).unwrap_or_default()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.words.filled(text)).unwrap();
    }

    fn git(&self, args: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            command.env(name, "2026-01-01T00:00:00Z");
        }
        let output = command.current_dir(self.root()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// Puts a copy of a built-in workflow into the project, with a change in it.
    pub fn eject(&self, workflow: &str, was: &str, now: &str) {
        let own = phasegate_runtime::catalog::builtin_files(workflow);
        let own = own.into_iter().map(|(path, text)| (path.to_string(), text.to_string()));
        for (path, text) in old_definition(workflow).unwrap_or_else(|| own.collect()) {
            let changed = if path == "workflow.toml" && !was.is_empty() {
                assert!(text.contains(was), "{workflow} has no {was:?}");
                text.replace(was, now)
            } else {
                text
            };
            self.write(&format!(".phasegate/workflows/{workflow}/{path}"), &changed);
        }
    }

    fn command(&self) -> Command {
        self.program(&self.binary)
    }

    /// Our own program, for a look: looking makes 0.1.0 act.
    pub fn looks(&self) -> Command {
        self.program(Path::new(crate::BINARY))
    }

    fn program(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.current_dir(self.root()).env_clear().env("HOME", self.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("PHASEGATE_TRUST_ALL", "1");
        command
    }

    fn finish(&mut self, mut command: Command, input: Option<&[u8]>) -> Seen {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some(input) = input {
            let _ = child.stdin.take().unwrap().write_all(input);
        }
        let output = child.wait_with_output().unwrap();
        let out = self.words.plain(&String::from_utf8_lossy(&output.stdout));
        let err = self.words.plain(&String::from_utf8_lossy(&output.stderr));
        Seen { code: output.status.code(), out, err, ..Seen::default() }
    }

    fn hook(&mut self, event: &str, payload: &Value) -> Seen {
        let mut command = self.command();
        command.args(["hook", event, "--client", "claude"]);
        self.finish(command, Some(payload.to_string().as_bytes()))
    }

    fn stop(
        &mut self,
        session: Option<&str>,
        again: Option<bool>,
        says: &str,
        background: bool,
    ) -> Seen {
        let tasks =
            if background { json!([{ "id": "t", "status": "running" }]) } else { json!([]) };
        let payload = json!({
            "session_id": session, "transcript_path": self.path("transcript.jsonl"), "cwd": self.root(),
            "hook_event_name": "Stop", "permission_mode": "default", "stop_hook_active": again,
            "last_assistant_message": says, "background_tasks": tasks, "session_crons": [],
        });
        self.hook("stop", &payload)
    }

    fn run(&mut self, who: Who, args: &[String]) -> Seen {
        let mut command = self.command();
        command.args(args);
        match who {
            Who::Agent => {
                command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "s1");
                self.finish(command, Some(b""))
            }
            Who::Person => {
                let terminal = terminal();
                command.stdin(terminal.1);
                let seen = self.finish(command, None);
                drop(terminal.0);
                seen
            }
        }
    }

    /// Makes something happen, and returns the result.
    pub fn play(&mut self, op: &Op) -> Seen {
        let mut seen = match op {
            Op::Write { path, text } => {
                self.write(path, text);
                Seen::default()
            }
            Op::Remove { path } => {
                let _ = std::fs::remove_file(self.path(path));
                Seen::default()
            }
            Op::Set { path, at, value } => {
                let mut document = self.json(path);
                let value: Value =
                    serde_json::from_str(&self.words.filled(&value.to_string())).unwrap();
                if let Some(member) = member(&mut document, at) {
                    *member = value;
                    self.write(path, &serde_json::to_string_pretty(&document).unwrap());
                }
                Seen::default()
            }
            Op::Stop { session, again, says, background } => {
                self.stop(session.as_deref(), *again, says, *background)
            }
            Op::Sign { event, session } => {
                let words = event.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
                let payload = json!({
                    "session_id": session, "cwd": self.root(), "source": "startup",
                    "transcript_path": self.path("transcript.jsonl"),
                    "hook_event_name": words.collect::<String>(),
                });
                self.hook(event, &payload)
            }
            Op::Run { who, args } => self.run(*who, args),
            Op::Goes { agent, does } => {
                // At once: the agent may look at any moment.
                self.write("go/.new", does);
                std::fs::rename(self.path("go/.new"), self.path(&format!("go/{agent}"))).unwrap();
                self.wait(&format!("{agent} ends"), |agents| {
                    agents.iter().any(|it| it["id"] == agent.as_str() && it["ended"] == true)
                });
                // Its supervisor puts that to the rules before it ends itself.
                until("its end is heard of", || supervisors(self.root(), Some(agent)).is_empty());
                Seen::default()
            }
            Op::Killed { agent } => {
                supervisors(self.root(), Some(agent)).into_iter().for_each(kill);
                self.wait(&format!("{agent} is known to be lost"), |agents| {
                    agents.iter().any(|it| it["id"] == agent.as_str() && it["ended"] == true)
                });
                self.stop(Some("s1"), Some(false), "Done.", false)
            }
        };
        // Agents that were recorded are started: the next to act finds them at work. Where nobody has
        // acted, nobody looks: that alone would make 0.1.0 act.
        if !matches!(op, Op::Write { .. } | Op::Remove { .. } | Op::Set { .. }) {
            self.wait("agents have started", |agents| {
                agents.iter().all(|it| it["ended"] == true || it["status"] == "working")
            });
        }
        (seen.files, seen.journal) = self.look();
        seen
    }

    /// The agents of all runs, as the program lists them.
    pub fn agents(&self) -> Vec<Value> {
        if !self.path(".phasegate/agents").exists() && !self.path(".phasegate/jobs").exists() {
            return Vec::new();
        }
        let mut command = self.looks();
        command.args(["agents", "--all", "--json"]).env("CLAUDECODE", "1");
        let output = command.output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        // Version 0.1.0 prints the rows alone.
        let rows = shown.get("jobs").unwrap_or(&shown).as_array().cloned().unwrap_or_default();
        let jobs = rows.into_iter().map(|row| row.get("job").unwrap_or(&row["agent"]).clone());
        jobs.filter(|job| job.get("name").is_none() || job["kind"] == "agent").collect()
    }

    /// The phase of the first run that is listed; empty where there is none.
    pub fn phase(&self) -> String {
        let output = self.looks().args(["status", "--json"]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["runs"][0]["phase"].as_str().unwrap_or_default().to_string()
    }

    /// How many lines all journals have.
    pub fn journal_lines(&self) -> usize {
        self.lines.values().sum()
    }

    /// Kills the supervisor of an agent here.
    pub fn kill_agents(&self) {
        supervisors(self.root(), None).into_iter().for_each(kill);
        until("nobody is left", || supervisors(self.root(), None).is_empty());
    }

    fn wait(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        until(what, || holds(&self.agents()));
    }

    /// What has changed since the last look.
    fn look(&mut self) -> (BTreeMap<String, Option<String>>, Vec<Value>) {
        let mut now = BTreeMap::new();
        self.collect(self.root(), &mut now);
        let mut changed = BTreeMap::new();
        for (path, text) in &now {
            if self.files.get(path) != Some(text) {
                changed.insert(path.clone(), Some(self.words.plain(text)));
            }
        }
        for path in self.files.keys().filter(|path| !now.contains_key(*path)) {
            changed.insert(path.clone(), None);
        }
        // Names with something random in them.
        let changed = changed.into_iter().map(|(path, text)| (self.words.plain(&path), text));
        let changed = changed.collect();
        self.files = now;
        (changed, self.news())
    }

    fn collect(&self, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
            let own = name.strip_prefix(".phasegate/").is_some_and(|name| OWN.contains(&name));
            let given = name == ".phasegate/workflows" || name.ends_with("faults.jsonl");
            // What a phase changed was not written down.
            let is_patch =
                name.contains("/phase-") && path.extension().is_some_and(|it| it == "patch");
            if is_patch || name == ".git" || name == "home" || name == "go" || own || given {
                continue;
            }
            if path.is_dir() {
                self.collect(&path, found);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.insert(name, text);
            }
        }
    }

    /// New lines of the journals, without what differs from one time to the next.
    fn news(&mut self) -> Vec<Value> {
        let mut news = Vec::new();
        let mut journals = Vec::new();
        find(&self.path(".phasegate/runs"), "journal.jsonl", &mut journals);
        for journal in journals {
            let folder =
                journal.parent().unwrap().strip_prefix(self.path(".phasegate/runs")).unwrap();
            let run = folder.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&journal).unwrap_or_default();
            let seen = self.lines.entry(run.clone()).or_default();
            let new: Vec<&str> = text.lines().skip(*seen).collect();
            *seen += new.len();
            for line in new {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                let line = as_it_was::line(line);
                news.extend(line.map(|line| self.words.line(&run, &line)));
            }
        }
        // Agents that start or end at once are heard of in any order; the result depends only on
        // how many there were.
        for name in ["agent-started", "agent-exited"] {
            let is_one = |line: &&mut Value| line["event"]["name"] == name;
            let mut from = 0;
            while from < news.len() {
                let together: Vec<&mut Value> =
                    news[from..].iter_mut().take_while(is_one).collect();
                from += together.len().max(1);
                let mut events: Vec<Value> =
                    together.iter().map(|line| line["event"].clone()).collect();
                events.sort_by_key(|event| event["agent"].to_string());
                for (line, event) in together.into_iter().zip(events) {
                    line["event"] = event;
                }
            }
        }
        news
    }

    /// The project as it is left here.
    pub fn left(&self) -> Trace {
        let mut files = Vec::new();
        self.whole(self.root(), &mut files);
        files.retain(|(_, path, text)| self.committed.get(path) != Some(text));
        files.sort();
        let files = files.into_iter().map(|(_, path, text)| (path, text)).collect();
        Trace { committed: self.committed.clone(), files, steps: Vec::new() }
    }

    /// Every file with its time and its text, our own bookkeeping too.
    fn whole(&self, folder: &Path, found: &mut Vec<(std::time::SystemTime, String, String)>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
            // What a phase changed was not written down.
            let is_patch =
                name.contains("/phase-") && path.extension().is_some_and(|it| it == "patch");
            if is_patch || name == ".git" || name == "home" || name == ".phasegate/checks/tree" {
                continue;
            }
            if path.is_dir() {
                self.whole(&path, found);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let root = self.root().display().to_string();
                let time = path.metadata().unwrap().modified().unwrap();
                let mut text = text.replace(&root, "@{root}");
                // Whose run it is and whether a loop is stale depends on the time that has passed: it is
                // kept as that. Other texts are known by their digests, and stay.
                if name.ends_with("ledger.json") || name.starts_with(".jwz/") {
                    text = self.words.relative(&text);
                }
                found.push((time, name, text));
            }
        }
    }
}

impl Drop for Stage {
    /// No agent outlives its stage.
    fn drop(&mut self) {
        supervisors(self.root(), None).into_iter().for_each(kill);
        // An agent whose supervisor was killed goes on until somebody looks, and here nobody does.
        let root = self.root().canonicalize().unwrap();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let here = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|it| it == root);
            let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok());
            if let (true, Some(pid)) = (here, pid) {
                kill(pid);
            }
        }
    }
}

/// A project that was left, with what a binary makes of it. The stage that it is from must be gone:
/// a copy knows its agents by their processes, and would end them.
pub fn afterwards(mut trace: Trace, binary: &Path) -> Trace {
    let mut stage = Stage::new(binary, &trace);
    for op in after() {
        let seen = stage.play(&op);
        trace.steps.push(Step { op, seen });
    }
    trace
}

fn after() -> Vec<Op> {
    let run = |args: &[&str]| Op::Run {
        who: Who::Person,
        args: args.iter().map(|arg| (*arg).to_string()).collect(),
    };
    let stop = |again| Op::Stop {
        session: Some("s9".into()),
        again: Some(again),
        says: "Done.".into(),
        background: false,
    };
    // Jobs that still wait may end now.
    let done = Op::Write { path: "go/done".into(), text: String::new() };
    vec![
        done,
        stop(false),
        stop(true),
        run(&["release"]),
        stop(false),
        run(&["cancel"]),
        stop(false),
    ]
}

/// A time as all documents have it.
const TIME: &str = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z";

/// Texts without what differs from one time to the next.
struct Words {
    root: String,
    patterns: Vec<(Regex, &'static str)>,
    tree: Regex,
    /// Trees that 0.1.0 did not keep.
    kept: Regex,
    bytes: Regex,
    time: Regex,
    placeholder: Regex,
    /// Trees in the order in which they were seen, so that equal ones stay equal.
    trees: Vec<String>,
}

impl Words {
    fn new(root: &Path) -> Words {
        let pattern = |pattern, word| (Regex::new(pattern).unwrap(), word);
        Words {
            root: root.display().to_string(),
            patterns: vec![
                // Of the variable that is set for both, 0.1.0 says nothing.
                pattern(r#"(, )?"systemMessage": "phasegate: PHASEGATE_TRUST_ALL=1[^"]*""#, ""),
                pattern(TIME, "<time>"),
                pattern(r"\b[0-9a-f]{64}\b", "<digest>"),
                pattern(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "<id>"),
                pattern(r#""seconds": ?\d+"#, r#""seconds":0"#),
                pattern(r#""(created_at|updated_at)": ?\d{13}"#, r#""$1":0"#),
                pattern(r"\b\d+ bytes \([0-9a-f]{16}\)", "<bytes>"),
                pattern(r"\b\d\d:\d\d(:\d\d)?\b", "<clock>"),
                pattern(r"\b\d+-[0-9a-f]+-[0-9a-f]+\b", "<version>"),
                pattern(r"\b([a-z-]+)-[0-9a-f]{8,16}\b", "$1-<hex>"),
            ],
            tree: Regex::new(r"\b[0-9a-f]{40}\b").unwrap(),
            kept: Regex::new(r#"("base": "|snapshot\\?" = \\?"|changes )[0-9a-f]{40}"#).unwrap(),
            time: Regex::new(TIME).unwrap(),
            bytes: Regex::new(r#"= "\d+ bytes"$"#).unwrap(),
            placeholder: Regex::new(r"@\{now-(\d+)\}").unwrap(),
            trees: Vec::new(),
        }
    }

    fn plain(&mut self, text: &str) -> String {
        let text = text.replace(&self.root, "@{root}");
        let text = self.kept.replace_all(&text, "$1<kept>");
        let trees = &mut self.trees;
        let text = self.tree.replace_all(&text, |found: &Captures| {
            let known = trees.iter().position(|tree| *tree == found[0]);
            let index = known.unwrap_or_else(|| {
                trees.push(found[0].to_string());
                trees.len() - 1
            });
            format!("<tree {index}>")
        });
        let mut text = text.into_owned();
        for (pattern, word) in &self.patterns {
            text = pattern.replace_all(&text, *word).into_owned();
        }
        text
    }

    /// A text whose placeholders are filled.
    fn filled(&self, text: &str) -> String {
        let text = text.replace("@{root}", &self.root);
        let filled = self.placeholder.replace_all(&text, |found: &Captures| {
            let seconds = jiff::SignedDuration::from_secs(found[1].parse().unwrap());
            let time = jiff::Timestamp::now() - seconds;
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
        });
        filled.into_owned()
    }

    /// A text with times as they are seen from now.
    fn relative(&self, text: &str) -> String {
        let now = jiff::Timestamp::now();
        let relative = self.time.replace_all(text, |found: &Captures| {
            let time: jiff::Timestamp = found[0].parse().unwrap();
            format!("@{{now-{}}}", now.as_second().saturating_sub(time.as_second()).max(0))
        });
        relative.into_owned()
    }

    /// The body of a journal line: what happened and what was decided, from which evidence. How rules
    /// are numbered is not a part of it, and neither are times, processes and hashes.
    fn line(&mut self, run: &str, line: &Value) -> Value {
        let moves = line["moves"].as_array().cloned().unwrap_or_default();
        let moves: Vec<String> =
            moves.iter().map(|it| format!("{}: {} → {}", it["of"], it["from"], it["to"])).collect();
        let evidence = line["evidence"].as_array().cloned().unwrap_or_default();
        let mut evidence: Vec<String> =
            evidence.iter().map(|it| format!("{} = {}", it["query"], it["answer"])).collect();
        // A file with a time in it is as long as the time's fraction.
        for reading in &mut evidence {
            *reading = self.bytes.replace(reading, "= \"<bytes>\"").into_owned();
        }
        evidence.sort();
        let mut event = line["event"].clone();
        // An agent has the environment of the process that happened to start it.
        if let (Some(_), Some(event)) = (line["event"].get("agent"), event.as_object_mut()) {
            event.remove("session");
        }
        let body = json!({
            "run": run, "event": event, "from": line["from"],
            "to": line["to"], "answer": line["answer"], "moves": moves, "evidence": evidence,
            "notes": line["notes"],
        });
        serde_json::from_str(&self.plain(&body.to_string())).unwrap()
    }
}

/// A member of a document, by its path.
fn member<'v>(document: &'v mut Value, at: &str) -> Option<&'v mut Value> {
    let mut value = document;
    for part in at.split('.') {
        value = match value {
            Value::Array(list) => list.get_mut(part.parse::<usize>().ok()?)?,
            Value::Object(object) => object.entry(part).or_insert(Value::Null),
            _ => return None,
        };
    }
    Some(value)
}

fn find(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find(&path, name, found);
        } else if path.file_name().is_some_and(|it| it == name) {
            found.push(path);
        }
    }
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(30), "it never comes that {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Supervisors of a project's agents, or of one of them, by what the kernel says.
fn supervisors(root: &Path, agent: Option<&str>) -> Vec<i32> {
    let root = root.canonicalize().unwrap().to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|it| String::from_utf8_lossy(it).into()).collect();
        let own = words.first().is_some_and(|it| it.contains("phasegate")) && words.contains(&root);
        (own && agent.is_none_or(|agent| words.iter().any(|word| word == agent))).then_some(pid)
    });
    found.collect()
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// A terminal: our side, and the other one.
fn terminal() -> (std::os::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    (ours, theirs)
}

/// The definition of 0.1.0, with its texts, of a workflow that decides otherwise today on purpose. Its traces are
/// played to that: they compare the program, and not the definition.
pub fn old_definition(workflow: &str) -> Option<Vec<(String, String)>> {
    let folder = crate::folder().join("../definitions/0.1").join(workflow);
    folder.is_dir().then(|| {
        let mut files = Vec::new();
        for part in ["", "prompts", "templates"] {
            for entry in std::fs::read_dir(folder.join(part)).unwrap().flatten() {
                if entry.path().is_file() {
                    let path = entry.path().strip_prefix(&folder).unwrap().display().to_string();
                    files.push((path, std::fs::read_to_string(entry.path()).unwrap()));
                }
            }
        }
        files
    })
}
