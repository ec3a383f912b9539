//! `phasegate prune`: removes what runs that are over have left.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use phasegate_runtime::caller;
use phasegate_runtime::project::Project;
use phasegate_runtime::prune::Prunable;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, event, when};
use crate::print::{self, Paint, paint};

/// How long what was left stays where nothing is said.
const USUAL_AGE: &str = "30d";

#[derive(Debug, Args)]
pub struct Options {
    /// Only what ended before that: 12h, 30d, 8w
    #[arg(long, value_name = "TIME", default_value = USUAL_AGE, value_parser = age)]
    older_than: SignedDuration,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only show what would be removed
    #[arg(long, conflicts_with = "yes")]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A time as people write it.
fn age(text: &str) -> Result<SignedDuration, String> {
    let span: Result<Span, _> = text.parse();
    // A day is one of 24 hours.
    let days = SpanRelativeTo::days_are_24_hours();
    let read = span.and_then(|span| span.to_duration(days));
    let read = read.ok().filter(|read| !read.is_negative());
    read.ok_or_else(|| "it is a time such as 12h, 30d or 8w".to_string())
}

/// What was removed, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Whether it was removed; with `--print` nothing is.
    removed: bool,
    /// How many bytes that is.
    bytes: u64,
    rows: Vec<Row>,
    /// What stays, and why.
    kept: Vec<Kept>,
    /// What could not be removed, and why.
    problems: Vec<String>,
}

/// Something that goes.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// `run` (all of it), `evidence` (of a run that stays known as ended, with its logs), `worktree`, `jobs`, `trees`, or
    /// `rest` of a removal that was interrupted.
    what: &'static str,
    /// The run, as WORKFLOW/RUN, or a path in the project.
    name: String,
    bytes: u64,
    /// When something last happened in the run.
    ended: Option<String>,
    /// The branch that goes with a worktree: it is merged.
    branch: Option<String>,
}

/// Something that stays.
#[derive(Debug, Serialize, JsonSchema)]
struct Kept {
    /// A path in the project.
    name: String,
    why: String,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    if !options.print {
        caller::must_be_human("removing what runs have left")?;
    }
    let before = Timestamp::now().checked_sub(options.older_than);
    let before = before.map_err(|_| Failed::new("that reaches back too far".into()))?;
    let prunable = Prunable::of(project, before);
    let rows = rows(&project.root, &prunable);
    let kept = prunable.kept.iter();
    let kept = kept.map(|(name, why)| Kept { name: name.clone(), why: why.clone() }).collect();
    let mut shown =
        Shown { removed: false, bytes: prunable.bytes(), rows, kept, problems: Vec::new() };
    if !options.json {
        show(&shown);
    }
    if options.print || prunable.is_empty() {
        if options.json {
            print::json(&shown);
        } else if !prunable.is_empty() {
            print::line("Nothing was removed. Run it without --print to remove this.");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !options.yes {
        confirm(options.json)?;
    }
    shown.problems = prunable.remove(project, &event("prune"))?;
    shown.removed = true;
    let code = if shown.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if options.json {
        print::json(&shown);
    } else {
        for problem in &shown.problems {
            print::note(&format!("not removed: {problem}"));
        }
        print::line(if shown.problems.is_empty() { "Done." } else { "The rest was removed." });
    }
    Ok(code)
}

/// Asks the person at the terminal.
fn confirm(is_json: bool) -> Result<(), Failed> {
    if is_json || !std::io::stdin().is_terminal() {
        return Err(Failed::new("nobody can be asked here: add --yes".into()));
    }
    print::ask("Remove all of that, for good? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failed::new("nothing was removed".into())),
    }
}

fn rows(root: &Path, prunable: &Prunable) -> Vec<Row> {
    let place = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let row = |what, name, bytes| Row { what, name, bytes, ended: None, branch: None };
    let runs = prunable.runs.iter().map(|it| {
        let what = if it.whole { "run" } else { "evidence" };
        Row { ended: Some(it.ended.to_string()), ..row(what, it.run.id.to_string(), it.bytes) }
    });
    let worktrees = prunable.worktrees.iter().map(|it| Row {
        branch: Some(it.branch.clone()),
        ..row("worktree", place(&it.path), it.bytes)
    });
    let jobs = prunable.jobs.iter().map(|(path, bytes)| row("jobs", place(path), *bytes));
    let trees =
        (prunable.trees > 0).then(|| row("trees", ".phasegate/kept".into(), prunable.trees));
    let rest = (prunable.half_removed > 0)
        .then(|| row("rest", ".phasegate/runs/.gone".into(), prunable.half_removed));
    runs.chain(worktrees).chain(jobs).chain(trees).chain(rest).collect()
}

fn show(shown: &Shown) {
    let remove = paint(Paint::Red, "remove");
    for row in &shown.rows {
        let ended = row.ended.as_ref().and_then(|at| at.parse().ok()).map(when::ago);
        let what = match (row.what, &row.branch, ended) {
            ("run", _, Some(ago)) => format!("run, ended {ago}"),
            ("evidence", _, Some(ago)) => {
                format!("journal, evidence and logs; ended {ago}, and stays ended")
            }
            (_, Some(branch), _) => format!("worktree and branch {branch}, which is merged"),
            ("rest", ..) => "left by a removal that was interrupted".into(),
            ("jobs", ..) => "logs of jobs whose run is gone".into(),
            _ => "trees that were kept for runs that are over".into(),
        };
        print::wrapped_row(&format!("{remove} {}  {}  {what}", row.name, size(row.bytes)), 9);
    }
    for Kept { name, why } in &shown.kept {
        print::wrapped_row(&format!("{} {name}: {why}", paint(Paint::Yellow, "keep")), 9);
    }
    if shown.rows.is_empty() {
        print::line("There is nothing to remove.");
    } else {
        print::line(&format!("{} in all.", size(shown.bytes)));
    }
}

/// `340 B`, `12 kB`, `3.4 MB`
#[expect(clippy::cast_precision_loss, reason = "it is rounded")]
fn size(bytes: u64) -> String {
    match bytes {
        ..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
