//! What a hook says: exactly one JSON object, in the words of its client.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use phasegate_clients::{Client, Quirk, Reply};
use phasegate_engine::answer::{Answer, Outcome};
use phasegate_runtime::fault_log;
use phasegate_runtime::gate::{Answered, Verdict};
use phasegate_runtime::plain;
use phasegate_runtime::project::Project;
use serde_json::{Map, Value};

use crate::print;

/// Prints a reply, in the words of the client; the exit code that goes with it.
pub fn say(client: &dyn Client, reply: &Reply, code: u8) -> ExitCode {
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
pub struct Failure {
    project: Option<PathBuf>,
    message: String,
    /// It is not a stop that failed.
    is_sign: bool,
}

impl Failure {
    pub fn new(project: Option<&Path>, message: impl Into<String>) -> Failure {
        let project = project.map(Path::to_path_buf);
        Failure { project, message: message.into(), is_sign: false }
    }

    /// The same where no stop is answered.
    #[must_use]
    pub fn of_sign(self) -> Failure {
        Failure { is_sign: true, ..self }
    }

    /// Says and keeps it.
    pub fn reply(&self) -> Reply {
        fault_log::note(self.project.as_deref(), &self.message);
        self.told()
    }

    /// Says it.
    pub fn told(&self) -> Reply {
        let then =
            if self.is_sign { "Nothing is held meanwhile." } else { "The stop was allowed." };
        let message = format!("phasegate: {} ({then})", self.message);
        Reply { message: Some(message), ..Reply::default() }
    }
}

/// The answers of two projects as one.
pub fn together(first: Reply, second: Reply) -> Reply {
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

/// Messages as sentences, one after the other.
pub fn sentences(messages: &[String]) -> String {
    let each = messages.iter().map(|message| {
        let message = message.trim();
        let ends = message.ends_with(['.', '!', '?', ')', ':']);
        if ends { message.to_string() } else { format!("{message}.") }
    });
    each.collect::<Vec<_>>().join(" ")
}

/// What a verdict of a project says, and the exit code of a block.
pub fn answer(project: &Project, verdict: &Verdict) -> (Reply, u8) {
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
