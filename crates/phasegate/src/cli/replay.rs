//! `phasegate replay`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use phasegate_engine::answer::Answer;
use phasegate_engine::resolve::{Expressions, Overrides, resolve};
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::approval::{Checked, Holds};
use phasegate_runtime::gate::{Comparison, Decided, Found, Runs};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::lint::{counted, named};
use super::{Failed, Outcome, shown_run};
use crate::print::{self, Paint, paint};

/// How many lines are listed of one kind, and how much of a text is shown.
const MAX_LISTED: usize = 50;
const MAX_SHOWN: usize = 60;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/NAME; by default the one that decided last
    #[arg(conflicts_with = "all")]
    run: Option<String>,
    /// All runs of the project; with --definition, all of its workflow
    #[arg(long)]
    all: bool,
    /// Decide with this definition: a file, or a workflow's name
    #[arg(long, value_name = "FILE")]
    definition: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What came of the lines of all runs, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    runs: usize,
    decisions: usize,
    same: usize,
    /// The rules answer the same; the gate gave another answer, and what that rests on was not kept.
    recorded: usize,
    /// Lines that no rule was asked about.
    notes: usize,
    different: Vec<Changed>,
    unknown: Vec<Unknown>,
    /// Acts that are signed, or should be.
    signatures: Vec<Signature>,
}

/// The signature of a line.
#[derive(Debug, Serialize, JsonSchema)]
struct Signature {
    run: String,
    line: u64,
    /// The action, who has signed it, and what is wrong with that.
    told: String,
    /// `yes`; `unlisted`, where the list of signers does not have the key now; `no`; `unknown`.
    holds: &'static str,
}

/// A line that is decided otherwise.
#[derive(Debug, Serialize, JsonSchema)]
struct Changed {
    run: String,
    line: u64,
    at: String,
    event: String,
    /// What the rules answered then, and what they answer now.
    was: Value,
    now: Value,
    /// `the answer`, `the text`, `what is done`, `the document`, `what the gate makes of it`.
    differs: Vec<&'static str>,
    /// A block or a refusal becomes an ALLOW.
    opens: bool,
    /// What the gate answered, where that was something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Value>,
}

/// A line of which it cannot be told.
#[derive(Debug, Serialize, JsonSchema)]
struct Unknown {
    run: String,
    line: u64,
    why: String,
}

/// What came of the lines of all runs.
#[derive(Default)]
struct Tally {
    runs: usize,
    same: usize,
    /// The rules answer the same, and the gate gave another answer, which cannot be decided again.
    recorded: usize,
    notes: usize,
    different: Vec<(String, Decided)>,
    unknown: Vec<(String, u64, String)>,
    signatures: Vec<(String, Checked)>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let gate = Runs::new(project);
    let another = options.definition.as_deref().map(|what| another(project, what)).transpose()?;
    let is_meant = |run: &Found| another.as_ref().is_none_or(|it| it.name == run.id.workflow);
    let runs: Vec<Found> = if options.all {
        gate.all_runs().runs.into_iter().filter(is_meant).collect()
    } else {
        let run = shown_run(&gate, options.run.as_deref())?;
        if let Some(another) = another.as_ref().filter(|_| !is_meant(&run)) {
            let name = &another.name;
            return Err(Failed::new(format!("run {} is not of workflow {name}", run.id)));
        }
        vec![run]
    };
    let mut tally = Tally::default();
    for run in &runs {
        tally.add(&run.id.to_string(), gate.replay(run, another.clone())?);
    }
    if options.json {
        print::json(&tally.to_json());
    } else {
        tally.show();
    }
    let opens = tally.different.iter().any(|(_, line)| line.opens());
    let is_forged = |(_, it): &(String, Checked)| matches!(it.holds, Holds::No(_));
    let is_forged = tally.signatures.iter().any(is_forged);
    Ok(if opens || is_forged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn another(project: &Project, what: &str) -> Result<Arc<Workflow>, Failed> {
    let bundle = named(project, what)?.bundle()?;
    let resolved = |overrides: &Overrides| {
        let resolved = resolve(&bundle, overrides, Expressions::Checked);
        resolved.map_err(|found| Failed::new(found.render(print::colour_stderr())))
    };
    // A file may have any name; what is configured is configured for the workflow.
    let name = resolved(&Overrides::default())?.name;
    Ok(Arc::new(resolved(&project.config.overrides(&name))?))
}

impl Tally {
    fn add(&mut self, run: &str, lines: Vec<Decided>) {
        self.runs += 1;
        for line in lines {
            self.signatures.extend(line.signature.clone().map(|it| (run.to_string(), it)));
            match &line.again {
                Comparison::Unasked => self.notes += 1,
                Comparison::Same if line.is_recorded => self.recorded += 1,
                Comparison::Same => self.same += 1,
                Comparison::Different { .. } => self.different.push((run.to_string(), line)),
                Comparison::Unknown(why) => {
                    self.unknown.push((run.to_string(), line.seq, why.clone()));
                }
            }
        }
    }

    fn decisions(&self) -> usize {
        self.same + self.recorded + self.different.len() + self.unknown.len()
    }

    fn show(&self) {
        let (runs, decisions) = (counted(self.runs, "run"), counted(self.decisions(), "decision"));
        let (same, differ, unknown) = (self.same, self.different.len(), self.unknown.len());
        let recorded = match self.recorded {
            0 => String::new(),
            recorded => format!(" · {recorded} recorded"),
        };
        print::line(&format!(
            "{runs}, {decisions}: {same} same{recorded} · {differ} different · {unknown} unknown"
        ));
        if self.recorded > 0 {
            print::row(
                "  recorded: the rules answer the same; what the gate made of it depends on more than was kept",
            );
        }
        let (opening, others): (Vec<_>, Vec<_>) =
            self.different.iter().partition(|(_, line)| line.opens());
        for (run, line) in opening.iter().chain(&others).take(MAX_LISTED) {
            print::row(&format!("  {run} line {}  {}", line.seq, changed(line)));
        }
        let more = differ.saturating_sub(MAX_LISTED);
        if more > 0 {
            print::line(&format!("  and {more} more; --json lists all"));
        }
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (run, seq, why) in &self.unknown {
            reasons.entry(why).or_default().push(format!("{run} line {seq}"));
        }
        for (why, lines) in reasons {
            let (first, more) = (&lines[0], lines.len() - 1);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            print::row(&format!("  unknown: {first}{more}: {why}"));
        }
        for (run, signature) in &self.signatures {
            print::row(&format!("  {run} {}", signature.sentence()));
        }
        if !opening.is_empty() {
            let opening = counted(opening.len(), "decision");
            print::line(&format!("The gate would open: {opening}."));
        }
    }

    fn to_json(&self) -> Shown {
        let different = self.different.iter().filter_map(|(run, line)| {
            let Comparison::Different { now, what } = &line.again else { return None };
            Some(Changed {
                run: run.clone(),
                line: line.seq,
                at: line.at.to_string(),
                event: line.event.clone(),
                was: json!(line.was()),
                now: json!(now),
                differs: what.clone(),
                opens: line.opens(),
                gate: line.ruled.is_some().then(|| json!(line.gave)),
            })
        });
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|(run, line, why)| Unknown {
            run: run.clone(),
            line: *line,
            why: why.clone(),
        });
        Shown {
            runs: self.runs,
            decisions: self.decisions(),
            same: self.same,
            recorded: self.recorded,
            notes: self.notes,
            different: different.collect(),
            unknown: unknown.collect(),
            signatures: self.signatures.iter().map(signature).collect(),
        }
    }
}

fn signature((run, checked): &(String, Checked)) -> Signature {
    let holds = match checked.holds {
        Holds::Yes => "yes",
        Holds::Unlisted(_) => "unlisted",
        Holds::No(_) => "no",
        Holds::Unknown(_) => "unknown",
    };
    Signature { run: run.clone(), line: checked.seq, told: checked.sentence(), holds }
}

/// What was answered and what would be, on a line.
fn changed(line: &Decided) -> String {
    let Comparison::Different { now, what } = &line.again else { return String::new() };
    let mut text = format!("{} → {}", short(line.was()), short(now));
    if line.was().to_string() == now.to_string() {
        text = format!("{text}: {}", what.join(" and "));
    }
    if line.ruled.is_some() {
        text = format!("{text}; the gate answered {}", short(&line.gave));
    }
    if line.opens() {
        text = format!("{text}   {}", paint(Paint::Red, "← the gate opens"));
    }
    text
}

/// An answer with the beginning of its text.
fn short(answer: &Answer) -> String {
    let said = answer.text().map(print::one_line).unwrap_or_default();
    let mut shown: String = said.chars().take(MAX_SHOWN).collect();
    if shown.len() < said.len() {
        shown.push('…');
    }
    if shown.is_empty() { answer.to_string() } else { format!("{answer} {shown:?}") }
}
