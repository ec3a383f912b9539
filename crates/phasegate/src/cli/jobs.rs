//! `phasegate jobs`: what runs for the runs of this project, with logs, and how to end one.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use phasegate_engine::workflow::Workflow;
use phasegate_runtime::caller;
use phasegate_runtime::gate::{Found, Gate, Progress, Runs, Whereabouts};
use phasegate_runtime::jobs::{self, Record};
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Failed, Outcome, complete};
use crate::live::Live;
use crate::print::{self, Paint, paint};

/// How often a list or a log that is watched is looked at.
const POLL: Duration = Duration::from_millis(300);

/// How much of the end of a log is looked at for its last line.
const MAX_ENDING: u64 = 4 << 10;

/// How much of a log is printed at once.
const MAX_BYTES: u64 = 64 << 10;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    /// Show the list again whenever it changes, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Also those of runs that are over
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the jobs, as without a command
    #[command(hide = true)]
    List(List),
    /// Print what a job has printed
    #[command(after_help = "Examples:\n  phasegate jobs logs worker-1\n  phasegate jobs logs -f")]
    Logs {
        /// The job, as `worker-1`, `check.tests` or `phases/web/worker-1`; by default the last one
        #[arg(add = complete::jobs())]
        job: Option<String>,
        /// Go on until the job has ended
        #[arg(short, long)]
        follow: bool,
    },
    /// End a job; its run hears that it was killed
    #[command(after_help = "Example:\n  phasegate jobs end worker-1")]
    End {
        /// The job, as `worker-1`, `check.tests` or `phases/web/worker-1`
        #[arg(add = complete::jobs())]
        job: String,
    },
    /// Run a check now, to see what it says; the gate runs it itself
    #[command(after_help = "Example:\n  phasegate jobs run tests")]
    Run {
        /// The check, as NAME or WORKFLOW/NAME
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Jobs, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    jobs: Vec<Row>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// `id`, `kind`, `name`, `status`, `command`, `inputs`, and how it ended; `elsewhere` for one that another machine
    /// does.
    job: Value,
}

/// The result of a check that was run by hand, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Checked {
    /// The check, as WORKFLOW/NAME.
    check: String,
    ok: bool,
    exit_code: Option<i32>,
    timed_out: bool,
    /// The end of what it printed.
    tail: String,
    /// The result in words.
    summary: String,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    match &options.command {
        None => list(project, &options.list),
        Some(Command::List(options)) => list(project, options),
        Some(Command::Logs { job, follow }) => logs(project, job.as_deref(), *follow),
        Some(Command::End { job }) => end_job(project, job),
        Some(Command::Run { name, json }) => run_check(project, name, *json),
    }
}

fn list(project: &Project, options: &List) -> Outcome {
    let mut shown = String::new();
    let clears = options.watch && std::io::stdout().is_terminal();
    loop {
        let gate = Runs::new(project);
        let mut runs = gate.jobs();
        if !options.all {
            runs.retain(|(run, jobs)| gate.is_working(run) || !jobs.values().all(Record::is_over));
        }
        if options.json {
            let gate = &gate;
            let rows = runs.iter().flat_map(|(run, jobs)| {
                let run = run.id.to_string();
                jobs.iter().map(move |(id, job)| Row { run: run.clone(), job: row(gate, id, job) })
            });
            print::json(&Shown { jobs: rows.collect() });
            return Ok(ExitCode::SUCCESS);
        }
        let with_time = clears || !options.watch;
        let rows = runs.iter().flat_map(|(run, jobs)| {
            let run = run.id.to_string();
            let rows = jobs.iter().map(|(id, job)| columns(&gate, &run, id, job, with_time));
            rows.collect::<Vec<_>>()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let text = if rows.is_empty() {
            "No open run has a job (`--all` also lists the jobs of runs that ended).".into()
        } else {
            print::table(&["JOB", "KIND", "STATUS", "TIME", "COST", "END"], &rows)
        };
        if text != shown {
            if clears {
                print::clear();
            }
            print::line(text.trim_end());
            shown = text;
        }
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

/// A job for programs: what its rules see of it, and what kind of job it is.
fn row(gate: &Runs, id: &str, job: &Record) -> Value {
    let mut row = serde_json::to_value(job.row(id)).unwrap_or_default();
    row["kind"] = job.kind.to_string().into();
    row["name"] = job.name.as_str().into();
    row["inputs"] = json!(job.inputs);
    row["command"] = job.run.iter().map(|run| run.words.join(" ")).collect();
    if let Some(there) = gate.whereabouts(job) {
        row["elsewhere"] = json!({
            "labels": there.labels,
            "state": there.state,
            "machine": there.machine,
            "lease": there.lease.map(|it| it.to_string()),
            "attempts": there.attempts,
            "branch": there.branch,
        });
    }
    if job.ended.is_none() {
        row["last_line"] = json!(gate.last_line(job));
    }
    if let Some(ended) = &job.ended {
        row["verdict"] =
            json!(ended.verdict.as_ref().map(|it| if it.pass { "PASS" } else { "FAIL" }));
        row["tree"] = json!(ended.tree);
    }
    row
}

fn columns(gate: &Runs, run: &str, id: &str, job: &Record, with_time: bool) -> Vec<String> {
    let seconds = match (&job.ended, job.started) {
        (Some(ended), _) => Some(ended.seconds),
        (None, since) => {
            // A list that is printed at every change does not change every second.
            let since = since.unwrap_or(job.recorded);
            let seconds = Timestamp::now().as_second() - since.as_second();
            u64::try_from(seconds).ok().filter(|_| with_time)
        }
    };
    let kind = match job.role {
        Some(role) => format!("{} ({role})", job.kind),
        None => job.kind.to_string(),
    };
    let there = gate.whereabouts(job).filter(|_| job.ended.is_none());
    let status = there.as_ref().map_or(job.status(), |there| there.state);
    vec![
        format!("{run}/{id}"),
        kind,
        status.to_string(),
        seconds.map_or("-".into(), |seconds| format!("{seconds} s")),
        job.cost().map_or("-".into(), |cost| cost.to_string()),
        match there {
            Some(there) => afar(&there, with_time),
            None => end(job, with_time.then(|| gate.last_line(job)).flatten()),
        },
    ]
}

/// Where a job is that another machine does.
fn afar(there: &Whereabouts, with_time: bool) -> String {
    let labels = (!there.labels.is_empty()).then(|| format!("for {}", there.labels.join(", ")));
    // The rest of the owner tells its processes apart.
    let machine = there.machine.as_deref().and_then(|owner| owner.split('/').next());
    let machine = machine.filter(|_| there.lease.is_some()).map(|machine| format!("on {machine}"));
    let zone = TimeZone::system();
    let lease = there.lease.filter(|_| with_time).map(|until| until.to_zoned(zone));
    let lease = lease.map(|until| format!("lease until {}", until.strftime("%H:%M:%S")));
    let again = (there.attempts > 1).then(|| format!("taken {} times", there.attempts));
    let parts = [labels, machine, lease, again];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// How a job ended, or what it printed last, and the files that its result is about where they are not all.
fn end(job: &Record, last_line: Option<String>) -> String {
    let ended = job.ended.as_ref().map(|ended| ended.words.clone()).or(last_line);
    let inputs = (!job.inputs.is_empty()).then(|| format!("for {}", job.inputs.join(", ")));
    ended.into_iter().chain(inputs).collect::<Vec<_>>().join(", ")
}

fn logs(project: &Project, wanted: Option<&str>, follow: bool) -> Outcome {
    let (run, id) = chosen(&Runs::new(project), wanted)?;
    let name = run.id.to_string();
    let mut from = 0;
    loop {
        // Whether it has ended is asked first: what it printed before that is read after.
        let gate = Runs::new(project);
        let jobs = gate.jobs_of(&gate.refreshed(&run));
        let job = jobs.get(&id).ok_or_else(|| Failed::new(format!("job {id} is gone")))?;
        loop {
            let (bytes, _) = gate.job_log(job, from, MAX_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            print::bytes(&bytes);
            from += bytes.len() as u64;
        }
        if !follow || job.is_over() {
            if let Some(ended) = &job.ended {
                print::note(&format!("{name}/{id} {}", ended.words));
            }
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
}

fn end_job(project: &Project, wanted: &str) -> Outcome {
    // An agent that could end a reviewer would choose its judge.
    caller::must_be_human("ending a job")?;
    let gate = Gate::new(project);
    let (run, id) = chosen(&gate, Some(wanted))?;
    let jobs = gate.jobs_of(&run);
    let job = jobs.get(&id).filter(|job| !job.is_over());
    let job = job.ok_or_else(|| Failed::new(format!("job {}/{id} has ended already", run.id)))?;
    gate.end_all(vec![job]);
    gate.settle_run(&run.id.to_string())?;
    print::line(&format!("Asked {}/{id} to end.", run.id));
    Ok(ExitCode::SUCCESS)
}

/// The job that is meant: its run and its id.
fn chosen(gate: &Runs, wanted: Option<&str>) -> Result<(Found, String), Failed> {
    let mut all: Vec<(Found, String)> = Vec::new();
    for (run, jobs) in gate.jobs() {
        all.extend(jobs.keys().map(|id| (run.clone(), id.clone())));
    }
    let none = || Failed::new("there is no job in this project".into());
    let last = all.last().cloned().ok_or_else(none)?;
    let Some(wanted) = wanted else { return Ok(last) };
    let full = |(run, id): &(Found, String)| format!("{}/{id}", run.id);
    // By its id, with the name of its run before it, and with the workflow before that.
    let fits = |it: &(Found, String)| format!("/{}", full(it)).ends_with(&format!("/{wanted}"));
    let known: Vec<String> = all.iter().map(full).collect();
    let mut found: Vec<(Found, String)> = all.into_iter().filter(fits).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            Err(Failed::new(format!("there is no job {wanted:?}; there are: {}", known.join(", "))))
        }
        _ => {
            let names: Vec<String> = found.iter().map(full).collect();
            Err(Failed::new(format!("{wanted:?} could be {}", names.join(" or "))))
        }
    }
}

/// Every check that has something to run, with its workflow. A workflow that cannot be read has none.
fn checks(project: &Project, gate: &Gate) -> Vec<(Arc<Workflow>, String)> {
    let workflows = project.workflows.iter().filter_map(|entry| gate.workflow(&entry.name).ok());
    let checks = workflows.flat_map(|workflow| {
        let names: Vec<String> = workflow.checks().map(|check| check.name.clone()).collect();
        let own = names.into_iter().filter(|name| !workflow.has_nothing_to_check(name));
        own.map(|name| (workflow.clone(), name)).collect::<Vec<_>>()
    });
    checks.collect()
}

fn run_check(project: &Project, name: &str, as_json: bool) -> Outcome {
    let gate = Gate::new(project);
    let all = checks(project, &gate);
    let full = |(workflow, check): &(Arc<Workflow>, String)| format!("{}/{check}", workflow.name);
    let found: Vec<_> = all.iter().filter(|it| full(it) == name || it.1 == name).collect();
    let (workflow, check) = match found.as_slice() {
        [one] => one,
        [] => {
            let known: Vec<String> = all.iter().map(full).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(Failed::new(format!("there is no check {name:?}; there are: {known}")));
        }
        several => {
            let names: Vec<String> = several.iter().map(|it| full(it)).collect();
            return Err(Failed::new(format!("{name:?} could be {}", names.join(" or "))));
        }
    };
    let (log, what) = (gate.log_by_hand(&workflow.name, check), format!("check {check}"));
    let since = Timestamp::now();
    let shown = Live::start(move || {
        let printed = jobs::tail(&log, MAX_ENDING).ok();
        let line = printed.as_deref().and_then(jobs::last_line_of);
        Some(Progress::new(what.clone(), since, line).to_string())
    });
    let result = gate.run_check(workflow, check);
    drop(shown);
    let result = result?;
    if as_json {
        print::json(&Checked {
            check: format!("{}/{check}", workflow.name),
            ok: result.ok,
            exit_code: result.exit_code,
            timed_out: result.timed_out,
            summary: result.summary(),
            tail: result.tail.clone(),
        });
    } else {
        if !result.tail.is_empty() {
            print::line(&result.tail);
        }
        let colour = if result.ok { Paint::Green } else { Paint::Red };
        print::line(&paint(colour, &format!("{name} {}", result.summary())));
    }
    Ok(if result.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
