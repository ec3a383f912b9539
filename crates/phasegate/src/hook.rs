//! The hook door: one JSON object in, exactly one JSON object out.
//!
//! Whatever goes wrong here allows the stop, with exit 0 and a message: a client treats other
//! endings as a block or drops them silently, and both are worse.

mod settings;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use phasegate_clients::{CLIENTS, Client, Payload, Quirk, Reply, Task, named, usual};
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_engine::decide::params;
use phasegate_engine::events::{TASK_COMPLETED, TEAMMATE_IDLE};
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_runtime::bindings;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Answered, Gate, Sign, Stop, Verdict, tools};
use phasegate_runtime::ledger::Delivery;
use phasegate_runtime::origin::Origin;
use phasegate_runtime::plain;
use phasegate_runtime::project::{ConfigError, Project};
use phasegate_runtime::variables;
use phasegate_runtime::witness;
use phasegate_runtime::world::ClientReport;
use serde_json::{Map, Value};
use signal_hook::consts::SIGXFSZ;

use crate::watchdog::Watchdog;
use crate::{openings, payload, print};

/// A payload larger than this is not read.
const MAX_BYTES: usize = 8 << 20;

/// How long a hook may take that is not asked about a stop.
const MAX_SIGN: Duration = Duration::from_secs(24);

/// How much later than the end of its checks a hook is given up, at least: to write down their results
/// takes a while.
const MARGIN: Duration = Duration::from_secs(3);

/// Every event: its name in the installed command, its name in the payload, and what it tells. A
/// sub-agent's stop is a sign of life only: the run belongs to the session.
const EVENTS: &[(&str, &str, Happened)] = &[
    ("stop", "Stop", Happened::Stop),
    ("subagent-stop", "SubagentStop", Happened::Sign(Sign::Alive)),
    ("session-start", "SessionStart", Happened::Sign(Sign::Started)),
    ("session-end", "SessionEnd", Happened::Sign(Sign::Ended)),
    ("user-prompt-submit", "UserPromptSubmit", Happened::Sign(Sign::Alive)),
    ("pre-compact", "PreCompact", Happened::Sign(Sign::Alive)),
    ("config-change", "ConfigChange", Happened::Settings),
    ("pre-tool-use", "PreToolUse", Happened::Tool),
    (TASK_COMPLETED, "TaskCompleted", Happened::Question),
    (TEAMMATE_IDLE, "TeammateIdle", Happened::Question),
];

#[derive(Clone, Copy, Debug)]
enum Happened {
    Stop,
    Sign(Sign),
    /// A file of the client's settings has changed.
    Settings,
    /// The agent is about to use a tool.
    Tool,
    /// The agent is about to do something that rules may keep it from.
    Question,
}

/// What people are told, with the names of the clients in the place of the hole.
const HELP: &str = "\
Answers a hook of a coding agent's client. The client runs it; people need not.

Usage: phasegate hook EVENT [--client NAME]

Clients: {clients}

Events:
  stop                the gate: may the agent stop?
  session-start       tells the agent where its run is, also after a compaction
  session-end         gives the session's runs up, so that another can take them
  user-prompt-submit, subagent-stop, pre-compact
                      signs of life, so that no other session takes the runs
  pre-tool-use        refuses a tool that the phase of the session's run denies
  task-completed, teammate-idle
                      asks the rules that are about it
  config-change       refuses settings that would open the gate while it holds the session

It reads the client's JSON on stdin and prints one JSON object. Failures of its own allow the stop.
PHASEGATE_DISABLE=1 in the environment allows every stop.";

/// `phasegate [-C DIR] hook EVENT [--client NAME]`
pub fn main(folder: Option<&Path>, args: &[OsString]) -> ExitCode {
    if variables::is_on(variables::DISABLE) {
        return disabled(args);
    }
    if args.first().is_some_and(|first| first == "--help" || first == "-h") {
        print::line(&help());
        return ExitCode::SUCCESS;
    }
    // A command that is not understood is answered as the usual client understands it.
    let asked = arguments(args);
    let meant = || args.iter().filter_map(|arg| arg.to_str()).find_map(named).unwrap_or(usual());
    let client = asked.as_ref().map_or_else(|_| meant(), |it| it.client);
    // Where a file may not grow any more, that is an error to be told, not the end of the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let watchdog = Watchdog::start(client, time(client, &asked), |client, why| {
        say(client, &Failure::new(None, why).told(), 0);
    });
    let is_mute = asked.as_ref().is_ok_and(|asked| asked.name == "pre-compact");
    let answered = catch_unwind(AssertUnwindSafe(|| run(folder, asked, &watchdog)));
    // Failures are logged before, so that what is slow about that is watched too.
    let answered = answered.map(|answered| answered.map_err(|failure| failure.reply()));
    match answered {
        // The client would take it for instructions, and give it to the model.
        Ok(Ok((reply, _))) if is_mute && reply.is_empty() => {
            watchdog.claim();
            ExitCode::SUCCESS
        }
        Ok(Ok((reply, code))) => {
            watchdog.claim();
            say(client, &reply, code)
        }
        Ok(Err(reply)) => {
            watchdog.claim();
            say(client, &reply, 0)
        }
        Err(_) => {
            let reply = Failure::new(None, "an internal error; please report it").reply();
            watchdog.claim();
            say(client, &reply, 0)
        }
    }
}

/// How long the main thread may take. At a stop, checks end a little earlier on their own; the clients
/// give other hooks half a minute.
fn time(client: &dyn Client, asked: &Result<Asked, String>) -> Duration {
    let waits = |it: &Asked| matches!(it.happened, Happened::Stop | Happened::Question);
    let time =
        if asked.as_ref().is_ok_and(waits) { client.time() } else { client.time().min(MAX_SIGN) };
    time + (time / 12).max(MARGIN)
}

/// With the variable set nothing is looked at, and nothing is held. That is said where a session begins, unless
/// it is one that we have started, which must not be held.
fn disabled(args: &[OsString]) -> ExitCode {
    let begins = args.first().is_some_and(|event| event == "session-start");
    let is_ours = std::env::var_os(variables::TOKEN).is_some();
    let client = arguments(args).map_or(usual(), |asked| asked.client);
    let openings = if begins && !is_ours { openings::in_environment() } else { Vec::new() };
    let message = (!openings.is_empty()).then(|| format!("phasegate: {}", openings.join(" ")));
    say(client, &Reply { message, ..Reply::default() }, 0)
}

fn help() -> String {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name()).collect();
    let (names, usual) = (names.join(", "), usual().name());
    let names = names.replacen(usual, &format!("{usual} (the default)"), 1);
    HELP.replace("{clients}", &names)
}

fn say(client: &dyn Client, reply: &Reply, code: u8) -> ExitCode {
    let reply = &plain(reply);
    print::json_line(&spaced(&client.reply(reply)));
    // Where the client has no words for the user, its log has them.
    if let (Some(message), true) = (&reply.message, !client.has(Quirk::ShowsMessages)) {
        print::note(message);
    }
    ExitCode::from(if client.has(Quirk::HeedsExit) { code } else { 0 })
}

/// The same answer in plain text: the client shows it in a terminal, and what the state, a check or an agent
/// has brought along is in it.
fn plain(reply: &Reply) -> Reply {
    let text = |text: &String| plain::text(text).into_owned();
    Reply {
        block: reply.block.as_ref().map(text),
        refusal: reply.refusal.as_ref().map(text),
        message: reply.message.as_ref().map(text),
        context: reply.context.as_ref().map(|(event, context)| (*event, text(context))),
    }
}

/// The JSON with a space behind every colon and comma between members, as the contracts that we
/// implement show it.
fn spaced(members: &Map<String, Value>) -> String {
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

/// A failure of our own.
struct Failure {
    project: Option<PathBuf>,
    message: String,
}

impl Failure {
    fn new(project: Option<&Path>, message: impl Into<String>) -> Failure {
        Failure { project: project.map(Path::to_path_buf), message: message.into() }
    }

    /// Says and keeps it.
    fn reply(&self) -> Reply {
        fault_log::note(self.project.as_deref(), &self.message);
        self.told()
    }

    /// Says it.
    fn told(&self) -> Reply {
        let message = format!("phasegate: {} (The stop was allowed.)", self.message);
        Reply { message: Some(message), ..Reply::default() }
    }
}

fn run(
    folder: Option<&Path>,
    asked: Result<Asked, String>,
    watchdog: &Watchdog,
) -> Result<(Reply, u8), Failure> {
    let received = Timestamp::now();
    let nowhere = |message: String| Failure::new(None, message);
    let Asked { name, event, happened, client } = asked.map_err(nowhere)?;
    let (payload, digest) = read(client).map_err(nowhere)?;
    watchdog.has_read();
    if let Some(other) = payload.event.as_ref().filter(|other| !client.is_event(name, other)) {
        return Err(nowhere(format!("the payload is for the event {other}, not for {event}")));
    }
    if payload.is_broken_off {
        return Ok((Reply::default(), 0));
    }
    // A sub-agent's stop is none of the session's, and says that the session lives.
    let (name, happened) = match happened {
        Happened::Stop if payload.is_sub_agent => ("subagent-stop", Happened::Sign(Sign::Alive)),
        happened => (name, happened),
    };
    if matches!(happened, Happened::Tool) {
        return Ok((tool(folder, &payload, client)?, 0));
    }
    // The processes above are looked at only where that matters: most stops are in no project.
    let origin = LazyCell::new(|| Origin::of_hook(client));
    let is_shell = || matches!(*origin, Origin::Shell(_));
    let projects = projects(folder, &payload, client, happened, is_shell)?;
    let Some(project) = projects.first() else { return Ok((Reply::default(), 0)) };
    watchdog.has_found(&project.root);
    let mut heard = (Reply::default(), 0);
    let (changed, task) = (payload.settings.clone(), payload.task.clone());
    let mut stop = stop(payload, client, origin.clone());
    stop.delivery = delivery(&stop, digest);
    stop.received = Some(received);
    for project in &projects {
        let (reply, code) = match happened {
            Happened::Stop => stopped(project, &stop),
            Happened::Sign(sign) => signed(project, &stop, sign, name, event),
            Happened::Question => asked_about(project, &stop, name, &task),
            Happened::Tool => (Reply::default(), 0),
            Happened::Settings => match &stop.session {
                Some(session) if stop.told.shell().is_none() => {
                    (settings::changed(project, client, session, changed.as_deref()), 0)
                }
                _ => (Reply::default(), 0),
            },
        };
        heard = (together(heard.0, reply), code);
        // One that blocks speaks for the session: what it asks for comes first.
        if heard.0.block.is_some() {
            break;
        }
    }
    Ok(heard)
}

/// The projects whose runs a hook is about: the projects that its session is bound to, wherever the agent has gone;
/// for a session that is bound to none yet, the one that its client names, or in which it stands.
fn projects(
    folder: Option<&Path>,
    payload: &Payload,
    client: &dyn Client,
    happened: Happened,
    is_shell: impl Fn() -> bool,
) -> Result<Vec<Project>, Failure> {
    let given = payload.folder.as_deref().or(folder).unwrap_or(Path::new("."));
    // Links are resolved, so that a project is found from wherever it is entered.
    let real = |folder: &Path| folder.canonicalize().ok().filter(|folder| folder.is_dir());
    let cwd = real(given);
    let broken = |error: ConfigError| Failure::new(Some(&error.root), error.to_string());
    let session = payload.session.as_deref().map(named_plainly);
    let bound = session.as_deref().and_then(bindings::of);
    let roots = bound.iter().flat_map(|bound| &bound.projects).filter(|root| root.is_dir());
    let roots: Vec<&PathBuf> = roots.collect();
    if !roots.is_empty() {
        let seen = |project: Project| match &cwd {
            Some(cwd) => project.seen_from(cwd),
            None => project,
        };
        let opened = roots.into_iter().map(|root| Project::open(root).map(seen).map_err(broken));
        return opened.collect();
    }
    let chosen = client.facts().project_variable.and_then(std::env::var_os).map(PathBuf::from);
    let chosen = chosen.as_deref().and_then(real);
    let mut found = chosen.as_deref().map(Project::find).transpose().map_err(broken)?.flatten();
    if found.is_none() {
        let Some(cwd) = &cwd else {
            let message = format!("the payload's `cwd` is not a folder: {}", given.display());
            return Err(Failure::new(None, message));
        };
        found = Project::find(cwd).map_err(broken)?;
    }
    // A session that only a shell knows of is bound to nothing.
    let begins = matches!(happened, Happened::Sign(Sign::Started));
    let session = session.filter(|_| (found.is_some() || begins) && !is_shell());
    match (&session, &found) {
        (Some(session), Some(project)) => bindings::bind(session, &project.root),
        (Some(session), None) => bindings::begin(session),
        (None, _) => {}
    }
    let found = found.map(|project| match &cwd {
        Some(cwd) => project.seen_from(cwd),
        None => project,
    });
    Ok(found.into_iter().collect())
}

/// The answer of a project to a stop.
fn stopped(project: &Project, stop: &Stop) -> (Reply, u8) {
    let gate = Gate::new(project);
    let mut verdict = gate.stop(stop);
    if stop.told.shell().is_none() {
        verdict.notes.extend(gate.broken_once(stop.session.as_deref()));
    }
    let output = answer(project, &verdict);
    // The process ends soon: freeing a large document piece by piece would only delay the answer.
    std::mem::forget((verdict, gate));
    output
}

/// The answer before the use of a tool. Where the session is bound to projects, nothing of them is read but ledgers.
fn tool(folder: Option<&Path>, payload: &Payload, client: &dyn Client) -> Result<Reply, Failure> {
    let (Some(session), Some(tool)) = (&payload.session, &payload.tool) else {
        return Ok(Reply::default());
    };
    let session = named_plainly(session);
    let roots = match bindings::of(&session).map(|bound| bound.projects) {
        Some(roots) if !roots.is_empty() => roots,
        _ => {
            let projects = projects(folder, payload, client, Happened::Tool, || false)?;
            projects.into_iter().map(|project| project.root).collect()
        }
    };
    let refusal = roots.iter().find_map(|root| tools::refused(root, &session, tool));
    Ok(Reply { refusal, ..Reply::default() })
}

/// The answer of a project to what an agent is about to do.
fn asked_about(project: &Project, stop: &Stop, name: &str, task: &Task) -> (Reply, u8) {
    let Some(session) = stop.session.as_ref().filter(|_| stop.told.shell().is_none()) else {
        return (Reply::default(), 0);
    };
    let given = [
        ("task", &task.id),
        ("subject", &task.subject),
        ("description", &task.description),
        ("teammate", &task.teammate),
        ("team", &task.team),
    ];
    let given =
        given.map(|(name, it)| (name.to_string(), it.as_deref().map_or(Json::Null, Json::from)));
    let session_of = Some(session.clone());
    let event =
        Event { session: session_of, params: params(given), ..Event::new(name, Actor::Worker) };
    let gate = Gate::new(project);
    let (answers, faults) = gate.question(session, &event, &stop.told, stop.time);
    for fault in &faults {
        fault_log::note(Some(&project.root), fault);
    }
    let block = answers.iter().find_map(|answered| match &answered.answer {
        Answer::Block { reason } => Some(reason.clone()),
        _ => None,
    });
    let said = answers.iter().filter_map(|answered| match &answered.answer {
        Answer::Allow { message: Some(message), .. } => Some(message.clone()),
        _ => None,
    });
    let messages: Vec<String> = faults.into_iter().chain(said).collect();
    let message = (!messages.is_empty()).then(|| format!("phasegate: {}", sentences(&messages)));
    (Reply { block, message, ..Reply::default() }, 0)
}

/// What a project has to say to a sign of a session.
fn signed(
    project: &Project,
    stop: &Stop,
    sign: Sign,
    name: &str,
    event: &'static str,
) -> (Reply, u8) {
    // Who does not say who he is, owns nothing.
    let Some(session) = &stop.session else { return (Reply::default(), 0) };
    let gate = Gate::new(project);
    let heard = Event { session: Some(session.clone()), ..Event::new(name, Actor::Engine) };
    let (notes, faults) = gate.sign(session, sign, &heard, &stop.told);
    for fault in &faults {
        fault_log::note(Some(&project.root), fault);
    }
    let mut messages = faults;
    if sign == Sign::Started {
        if stop.told.shell().is_none() {
            bindings::remember_hooks(session, &openings::hooked(stop.told.client, &project.root));
        }
        bindings::prune();
        witness::prune();
        messages.extend(gate.broken_once(Some(session)));
        messages.extend(openings::in_environment());
        messages.extend(openings::in_settings(&project.root));
        messages.extend(openings::installed_twice(&project.root));
    }
    let message = (!messages.is_empty()).then(|| format!("phasegate: {}", sentences(&messages)));
    let context = format!("Phasegate: {}", notes.join("\n\n"));
    let context = (!notes.is_empty()).then_some((event, context));
    (Reply { message, context, ..Reply::default() }, 0)
}

/// The answers of two projects as one.
fn together(first: Reply, second: Reply) -> Reply {
    let joined = |a: Option<String>, b: Option<String>, between: &str| match (a, b) {
        (Some(a), Some(b)) => Some(format!("{a}{between}{b}")),
        (a, b) => a.or(b),
    };
    let context = match (first.context, second.context) {
        (Some((event, a)), Some((_, b))) => Some((event, format!("{a}\n\n{b}"))),
        (a, b) => a.or(b),
    };
    Reply {
        block: first.block.or(second.block),
        refusal: first.refusal.or(second.refusal),
        message: joined(first.message, second.message, " "),
        context,
    }
}

/// The name of a session. One that would be several lines of a message is not one.
fn named_plainly(session: &str) -> String {
    print::one_line(&plain::text(session))
}

fn stop(payload: Payload, client: &'static dyn Client, origin: Origin) -> Stop {
    let Payload { last_message, said, transcript, mark, .. } = payload;
    Stop {
        session: payload.session.as_deref().map(named_plainly),
        after_block: payload.after_block,
        background: payload.background,
        is_planning: payload.is_planning,
        client_cap: client.cap().map(|cap| (cap.most, cap.on_all)),
        time: client.time(),
        told: ClientReport { client, last_message, said, transcript, mark, origin },
        delivery: None,
        received: None,
    }
}

/// What the installed command asks for.
struct Asked {
    name: &'static str,
    event: &'static str,
    happened: Happened,
    client: &'static dyn Client,
}

/// The event and the client, which the installed command names.
fn arguments(args: &[OsString]) -> Result<Asked, String> {
    let mut args = args.iter().cloned();
    let event = args.next().unwrap_or_default();
    let known = EVENTS.iter().find(|(name, ..)| event == *name);
    let Some((name, event, happened)) = known else {
        let names: Vec<&str> = EVENTS.iter().map(|(name, ..)| *name).collect();
        let (event, names) = (event.to_string_lossy(), names.join(", "));
        return Err(format!("there is no hook event {event:?}; there are: {names}"));
    };
    let mut client = usual();
    while let Some(arg) = args.next() {
        let given = match arg.to_str().and_then(|arg| arg.strip_prefix("--client")) {
            Some("") => args.next().unwrap_or_default().to_string_lossy().into_owned(),
            Some(value) if value.starts_with('=') => value[1..].to_string(),
            _ => return Err(format!("unknown argument {:?}", arg.to_string_lossy())),
        };
        client = named(&given).ok_or_else(|| {
            let known: Vec<&str> = CLIENTS.iter().map(|client| client.name()).collect();
            format!("there is no client {given:?}; there are: {}", known.join(", "))
        })?;
    }
    Ok(Asked { name, event, happened: *happened, client })
}

/// What tells a stop from the same one delivered again: its payload, and a transcript that is there.
fn delivery(stop: &Stop, payload: u64) -> Option<Delivery> {
    let transcript = stop.told.transcript.as_ref()?.metadata().ok().filter(Metadata::is_file)?;
    Some(Delivery { payload: format!("{payload:x}"), transcript: transcript.len() })
}

/// The payload, and a digest of it.
fn read(client: &dyn Client) -> Result<(Payload, u64), String> {
    let bytes = payload::read(MAX_BYTES);
    let bytes = bytes.map_err(|error| format!("the payload cannot be read: {error}"))?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("the payload is larger than {} MB", MAX_BYTES >> 20));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if text.trim_ascii().is_empty() {
        return Err("the payload on stdin is empty".into());
    }
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err("the payload is not a JSON object".into());
    }
    let mut digest = DefaultHasher::new();
    digest.write(text);
    let payload = client.payload(text);
    let payload = payload
        .map_err(|error| format!("the payload does not have the expected shape: {error}"))?;
    Ok((payload, digest.finish()))
}

/// Messages as sentences, one after the other.
fn sentences(messages: &[String]) -> String {
    let each = messages.iter().map(|message| {
        let message = message.trim();
        let ends = message.ends_with(['.', '!', '?', ')', ':']);
        if ends { message.to_string() } else { format!("{message}.") }
    });
    each.collect::<Vec<_>>().join(" ")
}

fn answer(project: &Project, verdict: &Verdict) -> (Reply, u8) {
    let mut faults = verdict.faults.clone();
    let mut messages = verdict.notes.clone();
    for answered in &verdict.answers {
        messages.extend(answered.notes.iter().cloned());
        match &answered.answer {
            Answer::Allow { outcome: Some(Outcome::Fault), message: Some(message), .. } => {
                faults.push(format!("run {}: {message}", answered.run));
            }
            _ => messages.extend(answered.told()),
        }
    }
    for fault in &faults {
        fault_log::note(Some(&project.root), fault);
    }
    let block = verdict.block();
    messages.extend(block.and_then(|block| block.way_out.clone()));
    messages.splice(0..0, faults.iter().cloned());
    if !faults.is_empty() && block.is_none() {
        messages.push("(The stop was allowed.)".into());
    }
    let message = (!messages.is_empty()).then(|| format!("phasegate: {}", sentences(&messages)));
    match block {
        Some(Answered { answer: Answer::Block { reason }, block_exit, .. }) => {
            (Reply { block: Some(reason.clone()), message, ..Reply::default() }, *block_exit)
        }
        _ => (Reply { message, ..Reply::default() }, 0),
    }
}
