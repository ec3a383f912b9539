//! What people are told when a stop is let go: one sentence for each outcome and each situation. The hook,
//! `status`, the status line and the start of a session all use these words.

use std::path::Path;

use phasegate_engine::answer::{Answer, Outcome, Until};

use crate::condition::Condition;
use crate::jobs::Record;
use crate::question::Question;

/// How much of a question a status line has.
const MAX_SHORT: usize = 60;

/// Why a stop is let go, where the workflow has no words of its own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because<'a> {
    /// The rules say so, and nothing else.
    Outcome(Option<Outcome>, Option<Until>),
    /// No rule of the phase was about the stop.
    NoRule,
    /// The agent was told to go on, and stopped again without having changed anything.
    Unchanged,
    /// Another hook's block caused the stop.
    OtherHook,
    /// The client still has work in the background, and what that is.
    Background(&'a str),
    /// Such work has taken too long to be waited for.
    TooLong,
    /// An agent's shell has called the hook, for which nobody is asked to judge or to work.
    Shell,
    /// The client is in plan mode: the agent may not write.
    PlanMode,
    /// The agent has asked the person something.
    Asked(&'a str),
    /// The person has answered, and the agent does not know it yet.
    Answered,
    /// What the run has waited for is there.
    Ready,
    /// A job of ours goes on without the hook: its kind and name.
    Longer(&'a str),
    /// There is no time left at this stop to begin a job: its kind and name.
    NoTime(&'a str),
    /// A job's result would not count, since the files change under it.
    Changing(&'a str),
    /// A job's result cannot be bound to a tree, and why.
    NoTree(&'a str, &'a str),
    /// Nobody has consented to what the workflow does.
    Untrusted(&'a str),
    /// A limit was reached: the outcome, the limit, what it counts, and how to go on.
    Limit(Outcome, u64, &'a str, &'a str),
    /// The run would be done, but was tampered with, and how.
    Tampered(&'a str),
    /// The client's own cap is near: how many blocks it takes, and whether work in between counts.
    ClientCap(u64, bool),
}

/// The sentence for a person: why the stop was let go.
pub fn sentence(run: &str, phase: &str, because: Because) -> String {
    let to_end = format!("`phasegate cancel {run}` to end the run");
    match because {
        Because::Outcome(outcome, until) => plain(run, phase, outcome, until),
        Because::NoRule => format!(
            "Run {run} did not hold this stop: phase {phase} has no rule for it. `phasegate why {run}` \
             shows what was tried."
        ),
        Because::Unchanged => format!(
            "Run {run} is stuck in phase {phase}: the agent stopped again and nothing has changed since it \
             was told to go on. Send the agent a message to go on, `phasegate why {run}` to see what is \
             missing, or {to_end}."
        ),
        Because::OtherHook => format!(
            "Run {run} is in phase {phase} and not done, but it does not hold this stop: another hook \
             has already told the agent to go on."
        ),
        Because::Background(what) => {
            format!("Run {run} waits for background work of the client: {what}.")
        }
        Because::TooLong => format!(
            "Run {run} has waited ten minutes for a shell of the client, and waits no longer. Send the \
             agent a message to go on."
        ),
        Because::Shell => format!(
            "Run {run} starts no agent for a hook that was called from a shell; it does so when the client \
             calls it."
        ),
        Because::PlanMode => format!(
            "Run {run} waits in phase {phase}: the client is in plan mode, so the agent may not write. It \
             goes on when you leave plan mode."
        ),
        Because::Asked(question) => {
            format!("Run {run} asks you: {question} (`phasegate answer {run} \"…\"` answers.)")
        }
        Because::Answered => format!(
            "Your answer to run {run} is kept for the agent. Send the agent a message to go on."
        ),
        Because::Ready => {
            format!("What run {run} was waiting for is done. Send the agent a message to go on.")
        }
        Because::Longer(job) => format!(
            "Run {run} waits for {job}, which takes longer than this client waits: it goes on in the \
             background. Send the agent a message when it is done; `phasegate status` shows it."
        ),
        Because::NoTime(job) => format!(
            "Run {run} wants {job} next, and this client waits no longer: it is begun at the next stop. Say \
             something to the agent to go on."
        ),
        Because::Changing(job) => format!(
            "Files keep changing while {job} of run {run} runs, so its result would not count."
        ),
        Because::NoTree(job, why) => {
            format!(
                "{job} of run {run} cannot pass: the state of the files could not be determined: {why}."
            )
        }
        Because::Untrusted(workflow) => format!(
            "Run {run} holds nothing: workflow {workflow} runs commands or writes files, and you have not \
             consented to that. `phasegate trust {workflow}` shows them and consents."
        ),
        Because::Limit(outcome, limit, what, next) => format!(
            "Run {run} let the agent stop ({outcome}): it reached its limit of {limit} {what}. {next}, or \
             {to_end}."
        ),
        Because::Tampered(change) => format!(
            "Run {run} is at its end, and does not count as done: {change}. If that is right, `phasegate \
             accept {run} --reason …` says so, in a terminal of your own."
        ),
        Because::ClientCap(cap, on_all) => {
            let idle = if on_all { "" } else { " and used no tool" };
            let told = cap.saturating_sub(1);
            format!(
                "Run {run} let the agent stop (capped): the agent was told to go on {told} \
                 times{idle}, and the client allows {cap}. Send the agent a message to go on, or \
                 {to_end}."
            )
        }
    }
}

fn plain(run: &str, phase: &str, outcome: Option<Outcome>, until: Option<Until>) -> String {
    let ended = match outcome {
        Some(Outcome::Done) => return format!("Run {run} is done."),
        Some(Outcome::Aborted) => return format!("Run {run} has ended in phase {phase}."),
        Some(Outcome::Waiting) => {
            let what = match until {
                Some(Until::Human) => "you",
                Some(Until::Background) => "background work",
                Some(Until::External) | None => "something outside",
            };
            return format!("Run {run} waits for {what} in phase {phase}.");
        }
        Some(Outcome::Fault) => {
            return format!("Run {run} could not decide. `phasegate doctor` says why.");
        }
        Some(Outcome::Inactive) | None => {
            return format!("Run {run} is in phase {phase} and does not hold this stop.");
        }
        Some(ended @ (Outcome::Stuck | Outcome::Capped | Outcome::Budget)) => ended,
    };
    format!(
        "Run {run} let the agent stop ({ended}) in phase {phase}. Send the agent a message to go on, or \
         `phasegate cancel {run}` to end the run."
    )
}

/// What a person is told of an answer to a stop; nothing of a block, which is for the agent.
pub fn told(run: &str, phase: &str, answer: &Answer) -> Option<String> {
    let Answer::Allow { outcome, until, message } = answer else { return None };
    Some(match (outcome, message) {
        (Some(Outcome::Inactive), _) => sentence(run, phase, Because::NoRule),
        (_, Some(message)) => message.clone(),
        (outcome, None) => sentence(run, phase, Because::Outcome(*outcome, *until)),
    })
}

/// That an agent may not use a tool in the phase that its run is in.
pub fn tool_refused(run: &str, phase: &str, tool: &str, because: Option<&str>) -> String {
    let because = because.map(|because| format!(" {because}")).unwrap_or_default();
    format!("Run {run} is in phase `{phase}`, in which {tool} may not be used.{because}")
}

/// What an agent is told when the person has answered its question.
pub fn answer_for_agent(question: &str, answer: &str) -> String {
    format!("The person has answered. Your question was: {question}\nThe answer: {answer}")
}

/// That a change of the client's settings was refused.
pub fn settings_refused(what: &str) -> String {
    format!(
        "A change of the client's settings was not applied to this session, since it would open the gate: {what}. To \
         open it, use `phasegate pause` or `phasegate cancel` in a terminal of your own."
    )
}

/// That a copy of a document was edited, which is not read.
pub fn copied(run: &str, copy: &Path, document: &Path) -> String {
    let (copy, document) = (copy.display(), document.display());
    format!(
        "{copy} is a copy of the state document of run {run} and differs from it. It is not read: the document is \
         {document}."
    )
}

/// That a hook was called, but not by the client.
pub fn called_from_shell(run: &str, hook: &str, session: Option<&str>, shell: &str) -> String {
    let session = session.map(|session| format!(" as session {session}")).unwrap_or_default();
    format!(
        "`phasegate hook {hook}` was called from an agent's shell ({shell}){session}, not by the client. It did not \
         change run {run}; `phasegate log {run}` shows who called."
    )
}

/// That a gate stands, with what its workflow says about itself.
pub fn stands(gate: &str, about: &str) -> String {
    format!("Gate {gate} stands: it holds every session that changes files here. {about}")
}

/// That a gate does not stand, since nobody has consented to it.
pub fn stands_untrusted(gate: &str) -> String {
    format!(
        "Gate {gate} does not stand: you have not consented to it as it is now. `phasegate trust {gate}` shows \
         it and consents."
    )
}

/// That a gate was switched off for the project.
pub fn stands_paused(gate: &str, reason: Option<&str>) -> String {
    let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!(
        "Gate {gate} is paused for this project{why}: it holds nobody. `phasegate resume {gate}` resumes it."
    )
}

/// That a gate cannot stand, and why.
pub fn cannot_stand(gate: &str, why: &str) -> String {
    format!("Gate {gate} cannot stand: {}.", why.trim_end_matches('.'))
}

/// That a gate stood when a session began and does not any more.
pub fn stands_no_longer(gate: &str) -> String {
    format!(
        "Gate {gate} stood when this session began, and stands no longer: its definition or the configuration \
         was changed."
    )
}

/// That a standing gate was begun by a change of the tree alone.
pub fn tree_alone(run: &str, client: &str) -> String {
    format!(
        "Run {run} was begun because files have changed since the session began: {client} does not tell here \
         whether the agent changed them."
    )
}

/// That standing gates cannot hold a session, since nobody knows the tree as it was when that began.
pub fn no_baseline(why: &str) -> String {
    format!("Standing gates do not hold this session: its first tree cannot be kept ({why})")
}

/// What an agent is told that is woken: the job that its run was waiting for has ended.
pub fn woken(run: &str, job: Option<&Record>) -> String {
    let ended = job.and_then(|job| Some((job, job.ended.as_ref()?)));
    let what = match ended {
        Some((job, ended)) => {
            let how = match &ended.verdict {
                Some(verdict) => format!("has ended with the verdict {}", verdict.word()),
                None => ended.words.clone(),
            };
            format!("{} {}, which run {run} was waiting for, {how}", job.kind, job.name)
        }
        None => format!("The jobs that run {run} was waiting for have ended"),
    };
    format!(
        "Phasegate: {what}. Go on with what is left to do. If nothing is, stop: the run then decides with that \
         result."
    )
}

/// How a run stands, in a few words. Whether it needs a person is told from work.
pub fn standing(
    condition: Condition,
    last: Option<&Answer>,
    is_ready: bool,
    question: Option<&Question>,
) -> String {
    let asks = matches!(last, Some(Answer::Allow { until: Some(Until::Human), .. }));
    match (condition, question) {
        (over, _) if over.is_over() => return over.to_string(),
        (_, Some(Question { answer: None, text, .. })) => {
            return format!("needs you: {}", first_words(text));
        }
        (Condition::Waiting, Some(_)) => return "needs you: send the agent a message".into(),
        _ => {}
    }
    match condition {
        Condition::Waiting if asks => "needs you".into(),
        Condition::Waiting if is_ready => "needs you: what it was waiting for is done".into(),
        trouble if trouble.is_trouble() => format!("needs you: {trouble}"),
        other => other.to_string(),
    }
}

/// The beginning of a text, on one line.
fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHORT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
