//! Tells somebody that a run needs him, or is done: a command or a webhook of the user's own
//! configuration, started and not waited for.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use phasegate_engine::answer::{Answer, Outcome, Until};
use serde::Deserialize;
use serde_json::json;

use crate::fault_log;
use crate::run::RunId;

/// How much of a message is told.
const MAX_TEXT: usize = 2_000;

/// How it is told. Only the user's own configuration says that: a project's could make anybody run
/// anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// A program and its arguments. It gets the notification as JSON on stdin, and `{title}` and
    /// `{message}` in its arguments are filled in.
    #[serde(default)]
    pub command: Vec<String>,
    /// An address to which the notification is posted as JSON, by `curl`.
    pub webhook: Option<String>,
    /// Of what: `waiting`, `stuck`, `done`. All of them where nothing is said.
    pub on: Option<Vec<What>>,
}

/// What somebody can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Waiting,
    Stuck,
    Done,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Waiting => "waiting",
            What::Stuck => "stuck",
            What::Done => "done",
        }
    }
}

/// What an answer is news of; nothing where nobody has to know.
fn news(answer: &Answer) -> Option<What> {
    match answer {
        Answer::Allow { outcome: Some(Outcome::Done), .. } => Some(What::Done),
        Answer::Allow { outcome: Some(Outcome::Waiting), until: Some(Until::Human), .. } => {
            Some(What::Waiting)
        }
        Answer::Allow {
            outcome: Some(Outcome::Stuck | Outcome::Capped | Outcome::Budget | Outcome::Fault),
            ..
        } => Some(What::Stuck),
        _ => None,
    }
}

impl Notify {
    /// Tells of an answer, if it is news.
    pub fn tell(&self, run: &RunId, phase: &str, answer: &Answer, before: Option<&Answer>) {
        let is_same = before.is_some_and(|before| before == answer);
        let Some(what) = news(answer).filter(|_| !is_same) else { return };
        let wanted = self.on.as_ref().is_none_or(|on| on.contains(&what));
        if !wanted || (self.command.is_empty() && self.webhook.is_none()) {
            return;
        }
        let what = what.name();
        let title = format!("Phasegate: {run} is {what}");
        // What is told must fit on a command line, and in a pipe that nobody reads.
        let plain = |c: &char| !c.is_control() || *c == '\n';
        let text = answer.text().unwrap_or_default().trim();
        let message: String = text.chars().filter(plain).take(MAX_TEXT).collect();
        let body = json!({
            "title": title, "message": message, "run": run, "workflow": run.workflow,
            "phase": phase, "what": what, "outcome": answer.outcome(),
        });
        let filled = |part: &String| part.replace("{title}", &title).replace("{message}", &message);
        let command: Vec<String> = self.command.iter().map(filled).collect();
        start(&command, &body.to_string());
        if let Some(address) = &self.webhook {
            let words = ["curl", "-sS", "-m", "15", "-H", "Content-Type: application/json"];
            let more = ["--data-binary", "@-", "--", address.as_str()];
            let command: Vec<String> = words.into_iter().chain(more).map(str::to_string).collect();
            start(&command, &body.to_string());
        }
    }
}

/// Starts a command and lets it go. One that cannot be started must not disturb an answer.
fn start(command: &[String], input: &str) {
    let Some((program, arguments)) = command.split_first() else { return };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    match spawned {
        Ok(mut child) => {
            let stdin = child.stdin.take();
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        }
        Err(error) => {
            fault_log::note(None, &format!("the notification was not sent: {program}: {error}"));
        }
    }
}
