//! What happens to jobs, in the words of 0.1.0, which had five kinds of process and no word for all of
//! them. These are the differences that are too regular to be listed.

use regex_lite::Regex;
use serde_json::{Value, json};

use crate::trace::Seen;

/// A journal line as 0.1.0 would have written it; none where it would have written nothing: it did not
/// write down the end of a check, and ran commands in the middle of a step.
pub fn line(mut line: Value) -> Option<Value> {
    // A task had neither a worktree nor a scope of its own.
    if line["event"]["name"] == "create_task"
        && let Some(params) = line["event"]["params"].as_object_mut()
    {
        params.remove("tree");
        params.remove("scope");
    }
    let event = &line["event"];
    let (kind, name) = (&event["params"]["kind"], event["params"]["name"].clone());
    let (was, members) = match (event["name"].as_str()?, kind.as_str().unwrap_or_default()) {
        ("job-started", "agent") => ("agent-started", json!({})),
        ("job-started", "check") => ("check", json!({ "check": name })),
        ("job-started", "reviewer") => ("review", json!({ "review": name })),
        ("job-started", "worker") => ("work", json!({ "work": name })),
        ("job-ended", "agent") => ("agent-exited", some(event, &["status", "exit_code", "end"])),
        ("job-ended", "reviewer") if event["params"]["verdict"].is_string() => {
            let members = [
                "reviewer",
                "verdict",
                "file",
                "model",
                "digest",
                "tree",
                "micro_dollars",
                "turns",
            ];
            ("review-finished", some(event, &members))
        }
        ("job-ended", "worker") => ("work-finished", some(event, &WORKER)),
        ("job-started" | "job-ended", _) => return None,
        _ => return Some(line),
    };
    line["event"]["name"] = was.into();
    if members.as_object().is_some_and(|members| !members.is_empty()) {
        line["event"]["params"] = members;
    } else if let Some(event) = line["event"].as_object_mut() {
        event.remove("params");
    }
    Some(line)
}

/// Whether a stop was let go without being decided, because another hook had caused it.
pub fn was_undecided(seen: &Seen) -> bool {
    let is_note =
        |note: &Value| note.as_str().is_some_and(|note| note.contains("another hook's block"));
    let notes =
        |line: &Value| line["notes"].as_array().is_some_and(|notes| notes.iter().any(is_note));
    seen.journal.iter().any(notes)
}

/// Whether something was done behind the gate's back about which more is done today: protected fields are put back,
/// and an end by hand is said also where the run is a new one in the place of one that was over. What follows has
/// another beginning.
pub fn parts_ways(was: &Seen, now: &Seen) -> bool {
    let ended = |seen: &Seen| {
        let is_note = |note: &Value| {
            note.as_str().is_some_and(|it| {
                it.contains("has ended it in phase") || it.contains("from outside Phasegate")
            })
        };
        let notes =
            |line: &Value| line["notes"].as_array().is_some_and(|notes| notes.iter().any(is_note));
        seen.journal.iter().any(notes)
    };
    let is_put_back = now.journal.iter().any(|line| line["event"]["name"] == "put-back");
    is_put_back || ended(now) && !ended(was)
}

/// An answer without the sentences that 0.1.0 did not say: why a stop was let go that the workflow itself has
/// no words for, and what was said at the last stop.
fn silent(out: &str) -> String {
    let said = r#"\{"systemMessage": "phasegate: Run [^ ]+ (is done|was cancelled from a terminal: [^"]*|was given to session [^"]*|has ended in phase [^ ]+|did not hold this stop: [^"]*|is in phase [^ ]+ and does not hold this stop)\."\}"#;
    let out = Regex::new(said).unwrap().replace_all(out, "{}").into_owned();
    let before = r#" At the last stop: ([^"\\]|\\[^n])*"#;
    Regex::new(before).unwrap().replace_all(&out, "").into_owned()
}

/// What an action prints, as today: 0.1.0 printed the answer by its name.
fn answered(out: &str) -> String {
    let refused = Regex::new(r"(?m)^[a-z]+/[a-z]+: DENY: ").unwrap();
    let out = refused.replace_all(out, "Not possible now: ");
    // And the phase that it led to on a line of its own, without the one before.
    let stepped =
        r"(?m)^([a-z]+/[a-z]+): (ALLOW\nIt is now in phase |accepted, ([a-z_-]+ → |in phase ))";
    let out = Regex::new(stepped).unwrap().replace_all(&out, "$1: accepted, in phase ");
    Regex::new(r"(?m)^([a-z]+/[a-z]+): ALLOW$")
        .unwrap()
        .replace_all(&out, "$1: accepted")
        .into_owned()
}

/// What is seen without where a log is, and a workflow's own record of a worker with what 0.1.0 knew.
pub fn seen(seen: &Seen) -> Seen {
    let log =
        r"\.phasegate/((workers|reviews)/[a-z0-9-]+-<version>\.|jobs/[^/]+/[a-z.-]+-<id>/)log";
    let text = serde_json::to_string(seen).unwrap();
    let text = Regex::new(log).unwrap().replace_all(&text, "<log>");
    let text = REWORDED.iter().fold(text, |text, (now, was)| text.replace(now, was).into());
    let mut seen: Seen = serde_json::from_str(&text).unwrap();
    seen.out = answered(&silent(&seen.out));
    // Whose finding it is was not written down, nor handed over.
    let reviewer = Regex::new(r#",\s*"reviewer": "[a-z]+-\d+""#).unwrap();
    let finding = Regex::new(r"(?m)^- [a-z]+, ([a-z]+), by [a-z]+-\d+: ").unwrap();
    // Nor what a phase changed.
    for line in &mut seen.journal {
        if let Some(evidence) = line["evidence"].as_array_mut() {
            let is_kept = |it: &str| it.starts_with("\"snapshot") || it.starts_with("\"changes ");
            evidence.retain(|it| !it.as_str().is_some_and(is_kept));
        }
    }
    // Of an entry of a triage, retries were counted, and not attempts.
    let attempts = Regex::new(r#""attempt_count": \d+"#).unwrap();
    let base = Regex::new(r#",\s*"base": "[^"]*""#).unwrap();
    let changed =
        Regex::new(r"\nWhat has changed since this phase began [^\n]*\n(- [^\n]*\n)*").unwrap();
    for text in seen.files.iter_mut().filter_map(|(_, text)| text.as_mut()) {
        *text = attempts.replace_all(text, "\"attempt_count\": 0").into_owned();
        for (pattern, then) in [(&reviewer, ""), (&finding, "- $1: "), (&base, ""), (&changed, "")]
        {
            *text = pattern.replace_all(text, then).into_owned();
        }
    }
    // Their definitions look up more than they did, before they decide.
    let looks_up_more = |line: &&mut Value| {
        let run = line["run"].as_str().unwrap_or_default();
        LOOK_UP_MORE.iter().any(|it| run.starts_with(it))
    };
    for line in seen.journal.iter_mut().filter(looks_up_more) {
        line["evidence"] = Value::Null;
    }
    let records = seen.files.iter_mut().filter(|(path, _)| path.ends_with("transcript.jsonl"));
    for text in records.filter_map(|(_, text)| text.as_mut()) {
        let lines = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap_or_default();
            if line["event"] == "work-finished" {
                line["params"] = some(&line, &WORKER);
            }
            line.to_string() + "\n"
        });
        *text = lines.collect();
    }
    seen
}

/// Texts of definitions that are true now, and as they were. A run that 0.1.0 began still has those of then.
const REWORDED: [(&str, &str); 7] = [
    ("The plan is complete.", "Everything is built and reviewed."),
    ("and all its Markdown files are on one level:", "and all that is in it is on one level:"),
    (
        "cancelled, postponed; only pending tasks are still to be built), `Priority`, `Prerequisites`, `Description`. \
         Each line begins and ends with a bar. Ids",
        "cancelled), `Priority`, `Prerequisites`, `Description`. Ids",
    ),
    (
        r"if you edit it by hand, change only what must change and replace the\nfile",
        r"whoever edits it by hand changes only what must change and replaces the\nfile",
    ),
    (
        r"made by someone other than the author. The reviewer decides whether there are issues,\n  not the author. Two",
        r"made by someone else than whoever did the work. The reviewer says whether there are\n  issues, not the one who is reviewed. Two",
    ),
    ("and the code that calls them.", "and whoever calls them."),
    (r"what it\nleads to, and what", r"what comes of\nit, and what"),
];

/// Runs whose rules ask for other evidence than in 0.1.0, so that only what they decide is compared.
const LOOK_UP_MORE: [&str; 3] = ["triage/", "loop/", "plan/"];

/// What was known of the end of a worker.
const WORKER: [&str; 7] = ["worker", "ok", "exit_code", "end", "seconds", "started", "log"];

fn some(event: &Value, names: &[&str]) -> Value {
    let members = names.iter().map(|name| ((*name).to_string(), event["params"][*name].clone()));
    Value::Object(members.collect())
}
