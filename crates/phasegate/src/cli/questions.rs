//! `phasegate ask-human` and `phasegate answer`: an agent asks the person, and a person answers.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use phasegate_engine::decide::params;
use phasegate_engine::json::Json;
use phasegate_engine::step::{Actor, Event};
use phasegate_runtime::caller;
use phasegate_runtime::gate::{Asker, Found, Gate, GateError, Runs};
use phasegate_runtime::project::Project;
use phasegate_runtime::question::Question;
use phasegate_runtime::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, complete, event, session};
use crate::{print, request};

/// How often a question is looked at, beside every change of its run.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Ask {
    /// The question; without one, the answer to the question that is open
    question: Option<String>,
    /// The run, as WORKFLOW/RUN; by default the one that this session works on
    #[arg(long, value_name = "RUN", add = complete::runs())]
    run: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    seconds: u64,
    /// Take the open question back
    #[arg(long, conflicts_with_all = ["question", "seconds"])]
    withdraw: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Reply {
    /// The run that asks, as WORKFLOW/RUN
    #[arg(add = complete::runs())]
    run: String,
    /// What the agent is told
    answer: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A question, for programs.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Asked {
    run: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    /// None as long as nobody has answered.
    answer: Option<String>,
    /// Whether the question was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawn: Option<bool>,
}

/// That a question is answered, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Replied {
    run: String,
    answered: bool,
}

/// Asks, and waits where that is wanted. Exit code 1 tells that nobody has answered in that time.
pub fn ask(project: &Project, options: &Ask) -> Outcome {
    let gate = Gate::new(project);
    let caller = gate.caller()?;
    if caller.actor == Actor::Human {
        let message = "`ask-human` is for agents; `phasegate answer RUN \"…\"` answers one";
        return Err(Failed::new(message.into()));
    }
    let asker = gate.asker(&caller, session())?;
    let found = match gate.asking_run(&asker, options.run.as_deref()) {
        // There is nothing to take back, which is what was wanted.
        Err(GateError::NotReady(why)) if options.withdraw => {
            print::note(&why);
            return Ok(ExitCode::SUCCESS);
        }
        found => found?,
    };
    let given = options.question.iter().map(|text| ("question".into(), Json::from(text.as_str())));
    let event = request::event("ask-human", &caller, session(), params(given));
    gate.must_be_itself(&found, &caller, &event)?;
    if options.withdraw {
        let event = request::event("withdraw-question", &caller, session(), Json::object());
        let changed = gate.withdraw_question(&found, &event, &asker)?;
        let what = if changed { "has withdrawn its question" } else { "had no open question" };
        let asked = Asked { withdrawn: Some(changed), ..Asked::default() };
        say(options, &found, asked, what);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(text) = &options.question {
        let earlier = gate.ask_human(&found, &event, &asker, text)?;
        if let Some(earlier) = earlier.filter(|_| !options.json) {
            print::line(&told(&earlier));
        }
        if options.seconds == 0 {
            let what = "has asked the person. Stop now, or go on with what does not need the answer: you get it with \
                        the next message, or from `phasegate ask-human --seconds 60`";
            let asked = Asked { question: Some(text.clone()), ..Asked::default() };
            say(options, &found, asked, what);
            return Ok(ExitCode::SUCCESS);
        }
    }
    let event = Event { params: Json::object(), ..event };
    wait(project, options, &found, &asker, &event)
}

/// Waits for the answer.
fn wait(project: &Project, options: &Ask, found: &Found, asker: &Asker, event: &Event) -> Outcome {
    let (said, heard) = mpsc::channel();
    // What cannot be watched is looked at every second.
    let _watch = Runs::new(project).watch(&found.id, move || {
        let _ = said.send(());
    });
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    loop {
        let gate = Gate::new(project);
        let now = gate.refreshed(found);
        if let Some(question) = gate.collect_answer(&now, event, asker)? {
            if options.json {
                print::json(&Asked {
                    run: found.id.to_string(),
                    question: Some(question.text),
                    answer: question.answer,
                    withdrawn: None,
                });
            } else {
                print::line(&told(&question));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let Some(open) = now.ledger.open_question().filter(|_| gate.is_working(&now)) else {
            return Err(Failed::new(format!("run {} has no open question", found.id)));
        };
        if Instant::now() >= deadline {
            let asked = Asked { question: Some(open.text.clone()), ..Asked::default() };
            say(options, found, asked, "waits for the person, who has not answered yet");
            return Ok(ExitCode::FAILURE);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = heard.recv_timeout(POLL.min(left));
    }
}

fn told(question: &Question) -> String {
    words::answer_for_agent(&question.text, question.answer.as_deref().unwrap_or_default())
}

fn say(options: &Ask, found: &Found, asked: Asked, what: &str) {
    if options.json {
        print::json(&Asked { run: found.id.to_string(), ..asked });
    } else {
        print::line(&format!("Run {} {what}.", found.id));
    }
}

/// Answers, for the agent that has asked.
pub fn answer(project: &Project, options: &Reply) -> Outcome {
    let gate = Gate::new(project);
    let found = gate.run(&options.run)?;
    let given = params([("answer".to_string(), Json::from(options.answer.as_str()))]);
    let event = Event { params: given, ..event("answer") };
    let command = format!("`phasegate answer {}`", found.id);
    if let Err(why) = caller::must_be_human(&command) {
        // What an agent would have had the person say is not written down.
        gate.refuse(&found, &super::event("answer"), "needs_human", &why.0)?;
        return Err(why.into());
    }
    gate.answer_human(&found, &event, &options.answer)?;
    if options.json {
        print::json(&Replied { run: found.id.to_string(), answered: true });
    } else {
        print::line(&format!(
            "Run {}: the agent gets your answer when it next goes on. If it has stopped, send it a message.",
            found.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}
