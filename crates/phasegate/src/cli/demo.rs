//! `phasegate demo`: a scripted agent in a temporary project, and the real hook as a child process.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use phasegate_clients::{Reply, Sample, surroundings, usual};
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::{RunFacts, render};
use phasegate_engine::definition::Bundle;
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::catalog::{Entry, Origin};
use phasegate_runtime::condition::Condition;
use phasegate_runtime::config::Config;
use phasegate_runtime::gate::{Found, GateError, Runs};
use phasegate_runtime::project::Project;
use phasegate_runtime::variables;
use phasegate_runtime::world::{ClientReport, World};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drive::{Agent, Heard, drive};
use super::{Failed, Outcome, complete};
use crate::print::{self, Paint, paint};

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow; by default the first that has a demo
    #[arg(add = complete::workflows())]
    name: Option<String>,
    /// Keep the temporary project, to look around in it
    #[arg(long)]
    keep: bool,
    /// Show the whole reason of every block
    #[arg(long)]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a demo went, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflow: String,
    /// The run came to where the demo ends.
    done: bool,
    stops: u64,
    blocks: u64,
    /// The phase that it ended in.
    phase: String,
    /// The temporary project, where it was kept.
    folder: Option<PathBuf>,
}

/// More stops than any demo needs.
const MAX_STOPS: u64 = 200;

/// The folder in a workflow's bundle that has its demo.
const FOLDER: &str = "demo/";

/// What a scripted agent does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    /// It is played where no workflow is named.
    #[serde(default)]
    main: bool,
    /// The project's configuration.
    #[serde(default)]
    config: String,
    /// The file that says what is done before the run starts.
    before: Option<String>,
    /// The arguments of the workflow's command that starts the run.
    start: Vec<String>,
    /// The phase in which the demo ends, where that is not the end of the run: the rest is for people.
    ends: Option<String>,
    turn: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    /// A text in the reason of a block, or in the message of an allow after which the user says to
    /// go on.
    on: String,
    /// The file that says what is done then.
    does: String,
}

/// What is done in a turn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    says: String,
    #[serde(default)]
    files: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    set: serde_json::Map<String, serde_json::Value>,
    /// Arguments of commands of ours.
    #[serde(default)]
    runs: Vec<Vec<String>>,
}

pub fn run(here: &Project, options: &Options) -> Outcome {
    print::aside_for(options.json);
    let entry = match &options.name {
        Some(name) => {
            here.workflow(name).ok_or_else(|| GateError::UnknownWorkflow(name.clone()))?
        }
        None => {
            let demo = |entry: &Entry| entry.bundle().ok().and_then(|it| script(&it).ok());
            let all = here.workflows.iter().filter_map(|entry| Some((entry, demo(entry)?)));
            let all: Vec<(&Entry, Script)> = all.collect();
            let main = all.iter().find(|(_, script)| script.main).or(all.first());
            main.map(|(entry, _)| *entry).ok_or("no workflow here has a demo")?
        }
    };
    let name = &entry.name;
    let bundle = entry.bundle()?;
    let workflow = entry.load(&Config::default())?;
    let folder = tempfile::Builder::new().prefix("phasegate-demo-").tempdir()?;
    let root = folder.path().canonicalize()?;
    std::fs::create_dir(root.join(".phasegate"))?;
    if let Origin::File(_) = entry.origin {
        let own = root.join(".phasegate/workflows").join(name);
        for (path, file) in
            bundle.files.iter().chain([(&"workflow.toml".into(), &bundle.definition)])
        {
            let path = own.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&own))?;
            std::fs::write(path, &*file.text)?;
        }
    }
    let project = Project::open(&root)?;
    let script = script(&bundle)?;
    for (path, file) in &bundle.files {
        if let Some(name) = path.strip_prefix(FOLDER) {
            std::fs::write(root.join(name), &*file.text)?;
        }
    }
    print::line(&format!("{}: {}", paint(Paint::Bold, &workflow.name), workflow.about));
    print::line(
        "A scripted agent works in a temporary project. Each time it wants to stop, the real hook answers.\n",
    );
    std::fs::write(root.join(".phasegate/config.toml"), &script.config)?;
    let trusted = entry.origin == Origin::BuiltIn;
    let demo = Demo { root, bundle, workflow, script, full: options.full, trusted };
    if let Some(before) = &demo.script.before {
        let says = demo.work(before, None)?;
        print::line(&paint(Paint::Dim, &format!("{:>9}the agent {says}", "")));
    }
    demo.child(std::iter::once(name).chain(&demo.script.start), None)?;
    let mut shown = demo.play(&project)?;
    if options.keep {
        let folder = folder.keep();
        print::line(&format!("\nThe project was kept: {}", folder.display()));
        shown.folder = Some(folder);
    } else {
        print::line(
            "\nNext: `phasegate demo NAME --keep`, then `phasegate -C THAT_FOLDER why`, `log` or `status`.",
        );
    }
    if options.json {
        print::json(&shown);
    }
    Ok(if shown.done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn script(bundle: &Bundle) -> Result<Script, Failed> {
    let Some(source) = bundle.files.get("demo/script.toml") else {
        return Err(Failed::new("this workflow has no demo".into()));
    };
    toml::from_str(&source.text).map_err(|error| Failed::new(format!("{}: {error}", source.name)))
}

struct Demo {
    root: PathBuf,
    bundle: Bundle,
    workflow: Workflow,
    script: Script,
    full: bool,
    /// The definition is ours, so it may run what it has brought along.
    trusted: bool,
}

/// The scripted agent: the real hook answers its stops.
struct Scripted<'d> {
    demo: &'d Demo,
    gate: Runs<'d>,
    stops: usize,
}

impl Agent for Scripted<'_> {
    fn stop(&mut self, after_block: bool, said: &str) -> Result<Heard, Failed> {
        self.stops += 1;
        let Reply { block: reason, message, .. } = self.demo.stop(after_block, said)?;
        let last = self.run()?.ledger.session.last.as_ref().map(|last| last.answer.clone());
        let text = reason.clone().or(message).unwrap_or_default();
        let answer = match reason {
            Some(reason) => Answer::Block { reason },
            None => last.unwrap_or(Answer::Allow { outcome: None, until: None, message: None }),
        };
        Ok(Heard { answer, text })
    }

    fn work(&mut self, heard: &Heard) -> Result<Option<String>, Failed> {
        let run = self.run()?;
        let told = self.gate.headline(&run, &Event::stop(None));
        let phase = told.map_or_else(|| self.gate.report(&run).phase, |(status, _)| status);
        let colour = if heard.is_block() { Paint::Yellow } else { Paint::Green };
        let verdict = paint(colour, &heard.answer.to_string());
        self.demo.show(self.stops, &phase, &verdict, &heard.text);
        let mut turns = self.demo.script.turn.iter();
        let turn = turns.find(|turn| heard.text.contains(&turn.on));
        let Some(turn) = turn else {
            if heard.is_block() {
                return Err(Failed::new(format!("the script has no turn for: {}", heard.text)));
            }
            return Ok(None);
        };
        if !heard.is_block() {
            print::line(&paint(Paint::Dim, &format!("{:>9}the user says: go on", "")));
        }
        let said = self.demo.work(&turn.does, Some((&run, &self.gate.document(&run)?)))?;
        print::line(&paint(Paint::Dim, &format!("{:>9}the agent {said}", "")));
        Ok(Some(said))
    }
}

impl Scripted<'_> {
    fn run(&self) -> Result<Found, Failed> {
        let mut runs = self.gate.runs().runs;
        if runs.is_empty() {
            Err(Failed::new("the run is gone".into()))
        } else {
            Ok(runs.swap_remove(0))
        }
    }
}

impl Demo {
    fn play(&self, project: &Project) -> Result<Shown, Failed> {
        // Only the children of the demo make something happen.
        let gate = Runs::new(project);
        let since = Instant::now();
        let mut agent = Scripted { demo: self, gate, stops: 0 };
        let begun = String::from("I have started.");
        let (heard, stops, blocks) = drive(&mut agent, begun, false, MAX_STOPS)?;
        if heard.is_none() {
            return Err(Failed::new(format!("the run did not end after {MAX_STOPS} stops")));
        }
        let time = since.elapsed().as_millis() / u128::from(stops);
        print::line(&format!(
            "\n{stops} stops, {blocks} blocks, {time} ms for each turn with its hook process. \
             Without the gate the agent would have stopped at the first."
        ));
        let report = agent.gate.report(&agent.run()?);
        let ends = self.script.ends.as_ref();
        let done = report.condition == Condition::Done || ends == Some(&report.phase);
        let (workflow, phase) = (self.workflow.name.clone(), report.phase);
        Ok(Shown { workflow, done, stops, blocks, phase, folder: None })
    }

    fn show(&self, stop: usize, phase: &str, verdict: &str, text: &str) {
        let shown = if self.full { text.to_string() } else { instruction(text) };
        let mut lines = shown.lines();
        let first = lines.next().unwrap_or_default();
        print::line(&format!("stop {stop:>2}  {phase:<12}  {verdict}  {first}"));
        for line in lines {
            print::line(&format!("{:>9}{line}", ""));
        }
    }

    /// Fires the hook as the client does.
    fn stop(&self, after_block: bool, said: &str) -> Result<Reply, Failed> {
        let sample = Sample { root: &self.root, session: "demo", after_block, said };
        let payload = usual().sample(&sample);
        let arguments = ["hook", "stop", "--client", usual().name()];
        let output = self.child(arguments, Some(&payload.to_string()))?;
        let answer = serde_json::from_str(&output)
            .map_err(|error| Failed::new(format!("the hook answered {output:?}: {error}")))?;
        Ok(usual().heard(&answer))
    }

    /// Does what a file says, about a run; what the agent says about it.
    fn work(&self, file: &str, about: Option<(&Found, &Json)>) -> Result<String, Failed> {
        let path = format!("{FOLDER}{file}");
        let source = self
            .bundle
            .files
            .get(&path)
            .ok_or_else(|| Failed::new(format!("there is no {path}")))?;
        let mut workflow = self.workflow.clone();
        let text = workflow.add_text(source);
        let facts = about.map(|(run, _)| RunFacts {
            name: run.id.name.clone(),
            document: run.place.clone(),
            ..RunFacts::default()
        });
        let facts = facts.unwrap_or_default();
        let world = std::sync::Arc::new(World::new(&self.root, ClientReport::default()));
        let document = about.map(|(_, document)| document.clone());
        let rendered = render(&workflow, text, document, &Event::stop(None), &facts, world);
        let rendered = rendered.map_err(|fault| Failed::new(fault.message))?;
        let work: Work =
            serde_json::from_str(&rendered).map_err(|error| format!("{path}: {error}"))?;
        for (path, text) in &work.files {
            let path = self.root.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, text.as_str().unwrap_or_default())?;
        }
        if let (Some((run, document)), false) = (about, work.set.is_empty()) {
            let mut document = document.clone();
            for (path, value) in &work.set {
                let value = Json::parse(value.to_string().as_bytes())?;
                if let Some(place) = document.at_mut(path.split('.')) {
                    *place = value;
                }
            }
            std::fs::write(self.root.join(&run.place), document.to_text(Some("  ")))?;
        }
        for arguments in &work.runs {
            self.child(arguments, None)?;
        }
        Ok(work.says)
    }

    fn child<S: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: Option<&str>,
    ) -> Result<String, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        if self.trusted {
            command.env(variables::TRUST_ALL, "1");
        }
        // The demo is neither the session nor the configuration in which it is looked at.
        surroundings::leave(&mut command);
        let mut child = command
            .args(arguments)
            .current_dir(&self.root)
            .env_remove(variables::DISABLE)
            .env("XDG_CONFIG_HOME", self.root.join(".config"))
            .env("XDG_STATE_HOME", self.root.join(".state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.unwrap_or_default().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        // Two is the exit code of a block, for workflows that want one.
        if !matches!(output.status.code(), Some(0 | 2)) {
            let said = String::from_utf8_lossy(&output.stdout);
            return Err(Failed::new(format!(
                "a child process ended with {}: {said}",
                output.status
            )));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// How much of a reason fits on a line beside the rest.
const LINE: usize = 110;

/// The beginning of a reason, on one line.
fn instruction(reason: &str) -> String {
    let flat = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(LINE) {
        Some((cut, _)) => format!("{}…", &flat[..cut]),
        None => flat,
    }
}
