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
use serde_json::json;

use super::{Failed, Outcome, event, session};
use crate::{print, request};

/// How often a question is looked at, beside every change of its run.
const POLL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Ask {
    /// The question; without one, the answer to the question that is open
    question: Option<String>,
    /// The run; by default the one that this session works on
    #[arg(long, value_name = "RUN")]
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
    /// The run that asks
    run: String,
    /// What the agent is told
    answer: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Asks, and waits where that is wanted. Exit code 1 tells that nobody has answered in that time.
pub fn ask(project: &Project, options: &Ask) -> Outcome {
    let gate = Gate::new(project);
    let caller = gate.caller()?;
    if caller.actor == Actor::Human {
        let message = "`ask-human` is for agents; `phasegate answer RUN \"…\"` answers one";
        return Err(Failed(message.into()));
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
        say(options, &found, &json!({ "withdrawn": changed }), what);
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
            say(options, &found, &json!({ "question": text, "answer": null }), what);
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
                print::json(&json!({
                    "run": found.id, "question": question.text, "answer": question.answer,
                }));
            } else {
                print::line(&told(&question));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let Some(open) = now.ledger.open_question().filter(|_| gate.is_working(&now)) else {
            return Err(Failed(format!("run {} has no open question", found.id)));
        };
        if Instant::now() >= deadline {
            let asked = json!({ "question": open.text, "answer": null });
            say(options, found, &asked, "waits for the person, who has not answered yet");
            return Ok(ExitCode::FAILURE);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = heard.recv_timeout(POLL.min(left));
    }
}

fn told(question: &Question) -> String {
    words::answer_for_agent(&question.text, question.answer.as_deref().unwrap_or_default())
}

fn say(options: &Ask, found: &Found, facts: &serde_json::Value, what: &str) {
    if options.json {
        let mut row = facts.clone();
        row["run"] = json!(found.id);
        print::json(&row);
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
        gate.refuse(&found, &super::event("answer"), "needs_human", &why)?;
        return Err(Failed(why));
    }
    gate.answer_human(&found, &event, &options.answer)?;
    if options.json {
        print::json(&json!({ "run": found.id, "answered": true }));
    } else {
        print::line(&format!(
            "Run {}: the agent gets your answer when it next goes on. If it has stopped, send it a message.",
            found.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}
