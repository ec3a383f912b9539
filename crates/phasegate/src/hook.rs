//! The hook door: one JSON object in, exactly one JSON object out.
//!
//! Whatever goes wrong here allows the stop, with exit 0 and a message: a client treats other
//! endings as a block or drops them silently, and both are worse.

mod asked;
mod reply;
mod settings;
mod wake;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use phasegate_clients::{Client, Payload, Reply, Task, named, usual};
use phasegate_engine::answer::Answer;
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_runtime::bindings;
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Gate, Sign, Stop, tools};
use phasegate_runtime::origin::Origin;
use phasegate_runtime::plain;
use phasegate_runtime::project::{ConfigError, Project};
use phasegate_runtime::variables;
use phasegate_runtime::witness;
use phasegate_runtime::world::ClientReport;
use signal_hook::consts::SIGXFSZ;

use crate::watchdog::Watchdog;
use crate::{openings, print};
use asked::{Asked, Happened, arguments, delivery, help, read};
use reply::{Failure, answer, say, sentences, together};

/// How long a hook may take that is not asked about a stop.
const MAX_SIGN: Duration = Duration::from_secs(24);

/// How much later than the end of its checks a hook is given up, at least: to write down their results
/// takes a while.
const MARGIN: Duration = Duration::from_secs(3);

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
    if asked.as_ref().is_ok_and(|asked| matches!(asked.happened, Happened::Wake)) {
        return wake::main(client);
    }
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
        // What nobody has typed is a sign of life, and not a person's word.
        Happened::Sign(sign) if payload.is_notification => ("notification", Happened::Sign(sign)),
        happened => (name, happened),
    };
    if matches!(happened, Happened::Tool) {
        return Ok((tool(folder, &payload, client)?, 0));
    }
    // The processes above are looked at only where that matters: most stops are in no project.
    let origin = LazyCell::new(|| Origin::of_hook(client));
    let is_shell = || matches!(*origin, Origin::Shell(_));
    let found = projects(folder, &payload, client, happened, is_shell);
    let projects = found.map_err(|failure| match happened {
        Happened::Sign(_) => failure.of_sign(),
        _ => failure,
    })?;
    let Some(project) = projects.first() else { return Ok((Reply::default(), 0)) };
    watchdog.has_found(&project.root);
    let mut heard = (Reply::default(), 0);
    let (changed, task) = (payload.settings.clone(), payload.task.clone());
    let mut stop = stop(payload, client, origin.clone());
    stop.delivery = delivery(&stop, digest);
    stop.received = Some(received);
    let is_stop = matches!(happened, Happened::Stop) && stop.told.shell().is_none();
    let session = stop.session.clone().filter(|_| is_stop);
    if let Some(session) = &session {
        stop.shown = bindings::of(session).map(|bound| bound.shells).unwrap_or_default();
    }
    let mut beside = wake::Beside::begin(&projects, &stop, happened, digest);
    for project in &projects {
        let (reply, code) = match happened {
            Happened::Stop => stopped(project, &stop, &mut beside),
            Happened::Sign(sign) => signed(project, &stop, sign, name, event),
            Happened::Question => asked_about(project, &stop, name, &task),
            Happened::Tool | Happened::Wake => (Reply::default(), 0),
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
    if let Some(session) = session {
        bindings::remember_shells(&session, &stop.shells());
    }
    beside.end();
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
fn stopped(project: &Project, stop: &Stop, beside: &mut wake::Beside) -> (Reply, u8) {
    let gate = Gate::new(project);
    let mut verdict = gate.stop(stop);
    beside.note(project, &gate, &verdict);
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
        shown: Vec::new(),
        is_planning: payload.is_planning,
        client_cap: client.cap().map(|cap| (cap.most, cap.on_all)),
        time: client.time(),
        told: ClientReport { client, last_message, said, transcript, mark, origin },
        delivery: None,
        received: None,
    }
}
