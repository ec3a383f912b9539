//! `phasegate drive`: a headless agent, turn by turn, until the gate lets it go. For clients without
//! a Stop hook, for CI and for cron; the demo is the same with a scripted agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use phasegate_clients::{AcpAgent, CLIENTS, Client, Dialogue, Program, Rights, named, usual};
use phasegate_engine::answer::{Answer, Outcome as Ended, Until};
use phasegate_engine::functions::filename;
use phasegate_engine::job::{self, CommandRun};
use phasegate_engine::step::Event;
use phasegate_runtime::caller;
use phasegate_runtime::condition::Condition;
use phasegate_runtime::cost::Cost;
use phasegate_runtime::exclusive::{Exclusive, try_exclusive};
use phasegate_runtime::gate::{Found, Gate, Runs, Stop};
use phasegate_runtime::jobs::{self, Record, Spec, Supervisor};
use phasegate_runtime::outside;
use phasegate_runtime::project::Project;
use phasegate_runtime::world::ClientReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Code, Failed, Outcome, complete, event};
use crate::live::{self, Live};
use crate::outcome::Exit;
use crate::{print, request};

/// Where a drive keeps what it needs to go on after it was killed.
const FOLDER: &str = ".phasegate/drive";

/// How often a run is looked at whose agents work.
const POLL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  phasegate drive triage
  phasegate drive task/greet --agent codex
  phasegate drive ship -- my-agent --headless        the prompt comes on its stdin
  phasegate drive ship --acp -- my-agent acp         it speaks the Agent Client Protocol";

#[derive(Debug, Args)]
#[command(after_help = format!("{}\n{EXAMPLES}", Exit::shown()))]
pub struct Options {
    /// The run, as WORKFLOW/RUN, or WORKFLOW where only one is open
    #[arg(value_name = "RUN", add = complete::runs())]
    workflow: String,
    /// The run, where only the workflow is named before it
    #[arg(hide = true)]
    run: Option<String>,
    /// The agent
    #[arg(long, default_value = usual().name(), value_parser = agents())]
    agent: String,
    /// What the agent is told at first, before what the gate says
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The most turns
    #[arg(long, value_name = "N", default_value_t = 200)]
    turns: u64,
    /// The most minutes for one turn
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
    /// The program after `--` speaks the Agent Client Protocol
    #[arg(long, requires = "command", conflicts_with = "agent")]
    acp: bool,
    /// Let the agent do everything without being asked; by default it edits, and runs what the workflow
    /// checks with. For people
    #[arg(long)]
    all_rights: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A program and its arguments instead of a known agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How a drive ended, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    run: String,
    /// How it ended, as the exit code is called: `done`, `waiting`, `stuck`, `agent-failed` …
    end: String,
    /// What the gate, or the agent, said last.
    said: String,
    turns: u64,
    /// What is known of what it cost; none where nothing is.
    micro_dollars: Option<u64>,
    /// How many turns have not told what they cost.
    untold: u64,
}

/// The clients that can be driven.
fn agents() -> PossibleValuesParser {
    let able = CLIENTS.iter().filter(|client| client.dialogue().is_some());
    PossibleValuesParser::new(able.map(|client| client.name()))
}

/// What is needed to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// When the run began: another run of that name is another one.
    run: Option<jiff::Timestamp>,
    /// Whose conversation it is.
    agent: String,
    /// The agent's own conversation.
    session: Option<String>,
    /// It was told what it is told first.
    told_first: bool,
    turns: u64,
    micro_dollars: u64,
    /// How many turns have not told what they cost.
    #[serde(default)]
    untold: u64,
    /// What the agent said last.
    said: String,
}

impl State {
    fn cost(&self) -> Cost {
        Cost { micro_dollars: self.micro_dollars, untold: self.untold }
    }
}

/// An agent that works turn by turn.
pub trait Agent {
    /// Asks the gate whether it may stop, after what the agent said last.
    fn stop(&mut self, after_block: bool, said: &str) -> Result<Heard, Failed>;

    /// Works on what the gate said; what the agent says about it. None where it has nothing to do
    /// with that, and the drive is over.
    fn work(&mut self, heard: &Heard) -> Result<Option<String>, Failed>;
}

/// What the gate said.
#[derive(Clone, Debug)]
pub struct Heard {
    pub answer: Answer,
    pub text: String,
}

impl Heard {
    pub fn is_block(&self) -> bool {
        self.answer.is_block()
    }
}

/// Lets an agent work until the gate lets it go and it has nothing more to do; what was said last,
/// and how many stops and blocks there were.
pub fn drive(
    agent: &mut dyn Agent,
    mut said: String,
    mut after_block: bool,
    most: u64,
) -> Result<(Option<Heard>, u64, u64), Failed> {
    let mut blocks = 0;
    for stop in 1.. {
        let heard = agent.stop(after_block, &said)?;
        after_block = heard.is_block();
        // A completion on the last turn wins over the limit.
        if after_block && blocks >= most {
            return Ok((None, stop, blocks));
        }
        blocks += u64::from(after_block);
        match agent.work(&heard)? {
            Some(now) => said = now,
            None => return Ok((Some(heard), stop, blocks)),
        }
    }
    Ok((None, most, blocks))
}

/// What the agent may do.
fn rights(
    project: &Project,
    options: &Options,
    gate: &Gate,
    workflow: &str,
) -> Result<Rights, Failed> {
    if options.all_rights {
        caller::must_be_human("`drive --all-rights`")?;
        if !options.command.is_empty() && !options.acp {
            let program = &options.command[0];
            return Err(Failed::new(format!(
                "`--all-rights` means nothing to {program}: a program behind `--` has the rights that its own \
                 arguments give it"
            )));
        }
    }
    let rights = if options.all_rights { job::Rights::All } else { job::Rights::Least };
    let workflow = gate.workflow(workflow)?;
    Ok(jobs::rights(&project.root, rights, None, &workflow))
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    print::aside_for(options.json);
    let gate = Gate::new(project);
    let caller = gate.caller()?;
    let wanted = match &options.run {
        Some(run) if !run.contains('/') => format!("{}/{run}", options.workflow),
        Some(run) => run.clone(),
        None => options.workflow.clone(),
    };
    let workflow = match project.workflow(&wanted) {
        Some(entry) => entry.name.clone(),
        None => gate.run(&wanted)?.id.workflow,
    };
    let found = request::run(&gate, &workflow, &caller, Some(&wanted), false)?;
    let rights = rights(project, options, &gate, &workflow)?;
    let place = project.root.join(FOLDER).join(filename(&found.id.to_string()));
    if !gate.is_working(&found) {
        let _ = fs::remove_dir_all(&place);
        return Ok(is_over(&gate, &found, options));
    }
    let alone = try_exclusive(&project.root, FOLDER, &found.id)?;
    let Some(alone) = alone else {
        let why = format!("run {} is being driven already", found.id);
        return Err(Failed::of(Code::Locked, why));
    };
    fs::create_dir_all(&place)?;
    let name = options.command.first().unwrap_or(&options.agent).clone();
    let state: Option<State> = outside::read(&place.join("state.json"), outside::MAX_RECORD)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .filter(|state: &State| state.run == found.ledger.started_at);
    let mut state = state.unwrap_or_default();
    state.run = found.ledger.started_at;
    // Another program knows nothing of the conversation.
    if state.agent != name || !options.command.is_empty() && !options.acp {
        (state.agent, state.session) = (name, None);
    }
    let session = format!("drive-{}", found.id);
    if let Some(owner) =
        found.ledger.session.owner.as_ref().filter(|owner| owner.session != session)
    {
        print::note(&format!("takes run {} over from session {}", found.id, owner.session));
    }
    gate.give(&found, &event("adopt"), Some(session.as_str()))?;
    let program = program(options)?;
    let known = named(&options.agent).and_then(Client::dialogue);
    let dialogue = if options.command.is_empty() { known } else { Some(&*program) };
    let dialogue = dialogue.ok_or_else(|| format!("there is no agent {:?}", options.agent))?;
    if state.turns > 0 {
        print::note(&format!("goes on after {} turns", state.turns));
    }
    let said = state.said.clone();
    let mut driver = Driver {
        project,
        run: found.id.to_string(),
        session,
        dialogue,
        rights,
        place,
        alone,
        state,
        first: options.prompt.clone(),
        time: Duration::from_secs(options.minutes.saturating_mul(60)),
        since: Instant::now(),
        failed: None,
    };
    // Starting it again means to go on.
    let (heard, ..) = drive(&mut driver, said, false, options.turns)?;
    Ok(driver.ended(heard.as_ref(), options).into())
}

impl Driver<'_> {
    /// Tells how it ended.
    fn ended(&self, heard: Option<&Heard>, options: &Options) -> Exit {
        let State { turns, untold, .. } = self.state;
        let micro_dollars = self.state.cost().dollars().map(|_| self.state.micro_dollars);
        let told = |exit: Exit, said: &str| {
            let (run, end, said) = (self.run.clone(), exit.name().into(), said.trim_end().into());
            options.told(&Shown { run, end, said, turns, micro_dollars, untold });
            exit
        };
        if let Some(why) = &self.failed {
            print::note(&format!("error: {}", why.trim_end()));
            return told(Exit::AgentFailed, why);
        }
        let Some(heard) = heard else {
            let why = format!("the limit of {} turns is reached", options.turns);
            print::line(&format!("{}: {why}", self.run));
            return told(Exit::Budget, &why);
        };
        let text = if heard.text.is_empty() { String::new() } else { format!(": {}", heard.text) };
        print::line(&format!("{}: {}{text}", self.run, heard.answer));
        let over =
            matches!(heard.answer.outcome(), Some(Ended::Done | Ended::Aborted | Ended::Inactive));
        if over || heard.answer.outcome().is_none() {
            let _ = fs::remove_dir_all(&self.place);
        }
        told(Exit::of(heard.answer.outcome()), &heard.text)
    }
}

impl Options {
    /// Tells a program how it ended.
    fn told(&self, shown: &Shown) {
        if self.json {
            print::json(shown);
        }
    }
}

/// The program that is named instead of a known agent.
fn program(options: &Options) -> Result<Box<dyn Dialogue>, Failed> {
    let agent = options.command.clone();
    if !options.acp {
        return Ok(Box::new(Program(agent)));
    }
    let program = std::env::current_exe()?.display().to_string();
    Ok(Box::new(AcpAgent { program, agent }))
}

/// Says that a run is over already.
fn is_over(gate: &Gate, found: &Found, options: &Options) -> ExitCode {
    let condition = gate.report(found).condition;
    let said = format!("Run {} is {condition} already.", found.id);
    print::line(&said);
    let exit = if condition == Condition::Done { Exit::Done } else { Exit::Inactive };
    let (run, end) = (found.id.to_string(), exit.name().into());
    options.told(&Shown { run, end, said, turns: 0, micro_dollars: Some(0), untold: 0 });
    exit.into()
}

struct Driver<'p> {
    project: &'p Project,
    run: String,
    session: String,
    dialogue: &'p dyn Dialogue,
    rights: Rights,
    place: PathBuf,
    /// Held while the run is driven: when it is let go, the turn ends.
    alone: Exclusive,
    state: State,
    /// What the agent is told first.
    first: Option<String>,
    time: Duration,
    since: Instant,
    /// Why the agent could not go on.
    failed: Option<String>,
}

impl Driver<'_> {
    fn keep(&self) -> Result<(), Failed> {
        let new = self.place.join("state.new");
        fs::write(&new, serde_json::to_vec(&self.state)?)?;
        fs::rename(new, self.place.join("state.json"))?;
        Ok(())
    }

    /// Where the run stands, as a line for people.
    fn line(&self, what: &str) -> String {
        let gate = Runs::new(self.project);
        let found = gate.run(&self.run);
        let phase = found.map(|found: Found| {
            let told = gate.headline(&found, &Event::stop(None));
            told.map_or_else(|| gate.report(&found).phase, |(status, _)| status)
        });
        let phase = phase.unwrap_or_else(|_| "?".into());
        let seconds = self.since.elapsed().as_secs();
        let cost = self.state.cost();
        let cost = if cost == Cost::default() { String::new() } else { format!(", cost {cost}") };
        let (turn, minutes, rest) = (self.state.turns, seconds / 60, seconds % 60);
        format!("{}  {phase}  turn {turn}, {minutes}:{rest:02}{cost}  {what}", self.run)
    }
}

impl Agent for Driver<'_> {
    fn stop(&mut self, after_block: bool, said: &str) -> Result<Heard, Failed> {
        loop {
            let gate = Gate::new(self.project);
            let stop = Stop {
                session: Some(self.session.clone()),
                after_block: Some(after_block),
                time: Duration::from_hours(24),
                told: ClientReport {
                    last_message: Some(said.to_string()),
                    ..ClientReport::default()
                },
                ..Stop::default()
            };
            // A check may take a while.
            let (root, run) = (self.project.root.clone(), self.run.clone());
            let shown = Live::start(move || at_work(&root, &run));
            let verdict = gate.stop(&stop);
            drop(shown);
            for note in verdict.notes.iter().chain(&verdict.faults) {
                print::note(&format!("note: {note}"));
            }
            let own = |answered: &&phasegate_runtime::gate::Answered| {
                answered.run.to_string() == self.run
            };
            let answered = verdict.answers.iter().find(own);
            let answer = match (answered, verdict.faults.is_empty()) {
                (Some(answered), _) => answered.answer.clone(),
                (None, true) => Answer::allow(over(&gate, &self.run)),
                (None, false) => Answer::allow_saying(Ended::Fault, verdict.faults.join("; ")),
            };
            // What works in the background is waited for: nobody else is there to do it.
            let background = matches!(answer, Answer::Allow { until: Some(Until::Background), .. });
            let alive = gate.run(&self.run).is_ok_and(|found| {
                found.ledger.work.jobs.values().any(|job| !Record::is_over(job))
            });
            if background && alive {
                let seq = gate.run(&self.run)?.ledger.position.seq;
                let what = answer.text().unwrap_or("waits").to_string();
                print::line(&self.line(what.trim()));
                let (root, run) = (self.project.root.clone(), self.run.clone());
                let _shown = Live::start(move || at_work(&root, &run));
                while Runs::new(self.project).run(&self.run)?.ledger.position.seq == seq {
                    std::thread::sleep(POLL);
                    Gate::new(self.project).settle_run(&self.run)?;
                }
                continue;
            }
            // Money is looked at before the next turn, not after it.
            let spent = gate.run(&self.run).ok().and_then(|found| gate.spent(&found));
            let answer = match spent.filter(|_| answer.is_block()) {
                Some(why) => Answer::allow_saying(Ended::Budget, why),
                None => answer,
            };
            let text = answer.text().unwrap_or_default().trim_end().to_string();
            return Ok(Heard { answer, text });
        }
    }

    fn work(&mut self, heard: &Heard) -> Result<Option<String>, Failed> {
        if !heard.is_block() {
            return Ok(None);
        }
        let first = self.first.clone().filter(|_| !self.state.told_first);
        let told = match first {
            Some(first) => format!("{first}\n\n{}", heard.text),
            None => heard.text.clone(),
        };
        self.state.turns += 1;
        self.keep()?;
        fs::write(self.place.join("prompt"), &told)?;
        let command = self.dialogue.command(self.state.session.as_deref(), &self.rights);
        let line = self.line(&first_line(&heard.text));
        if !live::is_seen() {
            print::note(&line);
        }
        let since = Instant::now();
        let shown = Live::start(move || Some(format!("{line}  ({} s)", since.elapsed().as_secs())));
        let resumed = self.state.session.is_some();
        let run = vec![CommandRun { words: command.clone(), timeout: self.time }];
        let held = Some(self.alone.path().to_path_buf());
        let spec = Spec { run, answers: true, held, ..Spec::default() };
        let folder = self.place.strip_prefix(&self.project.root).unwrap_or(&self.place);
        let folder = folder.to_string_lossy();
        let ended = jobs::run_attached(&self.project.root, &folder, &spec, Supervisor::Session);
        let (ended, text) = ended?;
        drop(shown);
        let text = String::from_utf8_lossy(&text);
        let spoken = self.dialogue.spoken(&text);
        let cost = Cost::told(spoken.cost.micro_dollars);
        let sum = self.state.cost() + cost;
        (self.state.micro_dollars, self.state.untold) = (sum.micro_dollars, sum.untold);
        if let Some(session) = spoken.session {
            self.state.session = Some(session);
        }
        let gate = Gate::new(self.project);
        let found = gate.run(&self.run)?;
        gate.spend(&found, cost)?;
        if ended.exit_code != Some(0) {
            let why = &ended.words;
            let tail = jobs::tail(&self.place.join("log"), 1_000).unwrap_or_default();
            let said: String = spoken.text.chars().take(1_000).collect();
            let tail = format!("{tail}\n{said}");
            // A conversation that cannot be gone on with is begun anew.
            if resumed || self.state.turns <= 1 {
                self.state.session = None;
            }
            self.keep()?;
            self.failed = Some(format!("the agent {} {why}\n{tail}", self.state.agent));
            return Ok(None);
        }
        self.state.said.clone_from(&spoken.text);
        self.state.told_first = true;
        self.keep()?;
        Ok(Some(spoken.text))
    }
}

/// What is at work for a run, as a line for people.
fn at_work(root: &Path, run: &str) -> Option<String> {
    let project = Project::open(root).ok()?;
    let gate = Runs::new(&project);
    let at_work = gate.at_work(&gate.run(run).ok()?);
    at_work.last().map(|progress| format!("{run}  {progress}"))
}

/// What it means that a run has nothing more to say.
fn over(gate: &Runs, run: &str) -> Ended {
    let found = gate.run(run);
    match found.map_or(Condition::Ended, |found| gate.report(&found).condition) {
        Condition::Done => Ended::Done,
        Condition::Cancelled => Ended::Aborted,
        _ => Ended::Inactive,
    }
}

/// The beginning of a text, so that it fits on a line behind the rest.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(40).collect()
}
