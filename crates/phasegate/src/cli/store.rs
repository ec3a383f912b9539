//! `phasegate store`: where the runs of a project are kept, and how they get there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use phasegate_runtime::caller;
use phasegate_runtime::gate::Gate;
use phasegate_runtime::project::{Project, StorePlace, store_place};
use phasegate_runtime::run::RunId;
use phasegate_runtime::store::transfer::{Transferred, in_order, transfer};
use phasegate_runtime::store::{FileStore, PostgresStore, Store};
use phasegate_runtime::trust;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, lint};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show where runs are kept, and whether all is well there
    Status,
    /// Make the tables of this version in the PostgreSQL server that is configured
    Migrate,
    /// Consent to keep the runs of this project in the store that its configuration names; for people
    Trust(Trust),
    /// Copy the runs of this project from the store to files: FOLDER/.phasegate/runs
    Export(Copy),
    /// Copy runs from files to the store: from FOLDER/.phasegate/runs
    Import(Copy),
}

#[derive(Debug, Args)]
struct Trust {
    /// Take the consent back
    #[arg(long)]
    revoke: bool,
}

#[derive(Debug, Args)]
struct Copy {
    /// The folder; that of a project is its root
    folder: PathBuf,
}

/// How the store is, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// `files` or `postgresql`.
    kind: &'static str,
    /// Where it is, without a password.
    place: String,
    /// What says so: `environment`, `user`, `project`; none where nothing does.
    chosen_by: Option<&'static str>,
    /// What the project is called there.
    project: Option<String>,
    /// This machine and the project's folder on it.
    site: Option<String>,
    /// The version of the server.
    server: Option<String>,
    /// The version of its tables; none where it has none.
    schema: Option<i32>,
    /// The version of the tables that this program wants.
    wanted: Option<i32>,
    /// The runs of this project that this machine sees.
    runs: u64,
    open: u64,
    /// How many projects the store has.
    projects: Option<u64>,
    /// How many jobs wait there or are at work.
    jobs: Option<u64>,
    /// What is wrong, and what to do.
    problems: Vec<String>,
}

/// What was made, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Migrated {
    /// Where the store is, without a password.
    place: String,
    /// The versions of the tables that were made.
    made: Vec<i32>,
}

/// What was consented to, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Consent {
    /// Where the store is, without a password.
    place: String,
    trusted: bool,
}

/// What was copied, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Transfer {
    /// The runs that were copied.
    copied: Vec<String>,
    /// Those that were there already, as they are.
    same: Vec<String>,
    /// Those that could not be copied, and why.
    problems: Vec<String>,
}

impl Shown {
    /// What is wrong, and what to do.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Where runs are kept, for people.
    pub fn sentence(&self) -> String {
        let server = self.server.as_deref().unwrap_or_default();
        format!("runs are kept in {} ({server})", self.place)
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let json = options.json;
    match &options.command {
        Command::Status => status(project, json),
        Command::Migrate => migrate(project, json),
        Command::Trust(Trust { revoke }) => consent(project, *revoke, json),
        Command::Export(Copy { folder }) => {
            caller::must_be_human("copying runs")?;
            std::fs::create_dir_all(folder)?;
            copy(&*project.store, &files(project, folder)?, json)
        }
        Command::Import(Copy { folder }) => {
            caller::must_be_human("copying runs")?;
            let files = files(project, folder)?;
            let code = copy(&files, &*project.store, json)?;
            let gate = Gate::new(project);
            in_order(&files)?.iter().for_each(|run| gate.note_standing(run));
            Ok(code)
        }
    }
}

/// The store in files in a folder, which must be another than the project's own.
fn files(project: &Project, folder: &Path) -> Result<FileStore, Failed> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    if project.store.shared().is_none() && folder == project.root {
        return Err(Failed::new("the runs of this project are kept there already".into()));
    }
    Ok(FileStore::new(&folder))
}

fn server(project: &Project) -> Result<&PostgresStore, Failed> {
    let none = "the runs of this project are kept in files\nhint: `[store] url` in the \
                configuration, or PHASEGATE_STORE, names a PostgreSQL server";
    project.store.shared().ok_or_else(|| Failed::new(none.into()))
}

fn status(project: &Project, json: bool) -> Outcome {
    let shown = shown(project);
    if json {
        print::json(&shown);
    } else {
        let because = match shown.chosen_by {
            Some("environment") => " (PHASEGATE_STORE)",
            Some("user") => " (your configuration)",
            Some("project") => " (the project's configuration)",
            _ => "",
        };
        print::line(&format!("Runs are kept in {}{because}.", shown.place));
        let told = [("project", &shown.project), ("site", &shown.site), ("server", &shown.server)];
        for (name, value) in told {
            if let Some(value) = value {
                print::line(&format!("  {name:<9} {value}"));
            }
        }
        if let (Some(wanted), Some(_)) = (shown.wanted, &shown.server) {
            let has = shown.schema.map_or_else(|| "none".into(), |version| version.to_string());
            print::line(&format!("  {:<9} {has}; this program wants {wanted}", "tables"));
        }
        let (runs, open) = (shown.runs, shown.open);
        print::line(&format!("  {:<9} {runs} of this project, {open} of them open", "runs"));
        if let (Some(projects), Some(jobs)) = (shown.projects, shown.jobs) {
            let jobs = format!("{jobs} jobs wait or are at work");
            print::line(&format!("  {:<9} {projects} projects; {jobs}", "in all"));
        }
        for problem in &shown.problems {
            print::note(&format!("problem: {problem}"));
        }
    }
    Ok(if shown.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the store of a project is.
pub fn shown(project: &Project) -> Shown {
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    let mut shown = Shown {
        kind: "files",
        place: project.root.join(".phasegate/runs").display().to_string(),
        chosen_by: store_place(&project.config).map(|(place, _)| match place {
            StorePlace::Environment => "environment",
            StorePlace::User => "user",
            StorePlace::Project => "project",
        }),
        project: None,
        site: None,
        server: None,
        schema: None,
        wanted: None,
        runs: 0,
        open: 0,
        projects: None,
        jobs: None,
        problems: Vec::new(),
    };
    let Some(store) = project.store.shared() else {
        let number = |runs: Vec<RunId>| runs.len() as u64;
        shown.runs = project.store.runs().map(number).unwrap_or_default();
        shown.open = project.store.open_runs().map(number).unwrap_or_default();
        return shown;
    };
    (shown.kind, shown.place) = ("postgresql", store.name());
    shown.problems.extend_from_slice(store.notes());
    match store.identity() {
        Ok(identity) => {
            shown.project = Some(identity.project.clone());
            shown.site = Some(identity.site.clone());
        }
        Err(error) => shown.problems.push(error.to_string()),
    }
    let status = match store.status() {
        Ok(status) => status,
        Err(error) => {
            shown.problems.push(error.to_string());
            return shown;
        }
    };
    shown.server = Some(format!("PostgreSQL {}", status.server));
    (shown.schema, shown.wanted) = (status.schema, Some(status.wanted));
    (shown.runs, shown.open) = (count(status.runs), count(status.open));
    (shown.projects, shown.jobs) = (Some(count(status.projects)), Some(count(status.jobs)));
    if status.schema.is_none_or(|version| version < status.wanted) {
        let why = "its tables are missing or older: `phasegate store migrate` makes them";
        shown.problems.push(why.into());
    }
    if status.follows {
        shown.problems.push("this server follows another, and cannot be written to".into());
    }
    if status.forgets {
        let why = "it forgets what it has acknowledged when it crashes: set synchronous_commit and \
                   fsync to on";
        shown.problems.push(why.into());
    }
    shown
}

fn migrate(project: &Project, json: bool) -> Outcome {
    let store = server(project)?;
    let shown = Migrated { place: store.name(), made: store.migrate()? };
    if json {
        print::json(&shown);
    } else if shown.made.is_empty() {
        print::line(&format!("{} has the tables already.", shown.place));
    } else {
        let versions: Vec<String> = shown.made.iter().map(ToString::to_string).collect();
        let versions = versions.join(", ");
        print::line(&format!("{} now has the tables of version {versions}.", shown.place));
    }
    Ok(ExitCode::SUCCESS)
}

fn consent(project: &Project, revoke: bool, json: bool) -> Outcome {
    let Some((StorePlace::Project, url)) = store_place(&project.config) else {
        let why = "no store needs your consent: only what the project's configuration names does";
        return Err(Failed::new(why.into()));
    };
    let (root, known) = (&project.root, trust::store(&url));
    let place = PostgresStore::new(root, &url, None).name();
    if revoke {
        trust::distrust(root, &known)?;
        print_consent(&place, false, json);
        return Ok(ExitCode::SUCCESS);
    }
    caller::must_be_human("consenting to a store")?;
    trust::trust(root, &root.join(".phasegate/config.toml"), &known)?;
    print_consent(&place, true, json);
    Ok(ExitCode::SUCCESS)
}

fn print_consent(place: &str, trusted: bool, json: bool) {
    if json {
        print::json(&Consent { place: place.to_string(), trusted });
    } else if trusted {
        print::line(&format!("Runs of this project, with their evidence, are kept in {place}."));
    } else {
        print::line(&format!("Nothing is sent to {place} any more."));
    }
}

fn copy(from: &dyn Store, to: &dyn Store, json: bool) -> Outcome {
    let mut shown = Transfer { copied: Vec::new(), same: Vec::new(), problems: Vec::new() };
    for run in in_order(from)? {
        match transfer(from, to, &run) {
            Ok(Transferred::New) => shown.copied.push(run.to_string()),
            Ok(Transferred::Same) => shown.same.push(run.to_string()),
            Err(error) => shown.problems.push(error.to_string()),
        }
    }
    if json {
        print::json(&shown);
    } else {
        let copied = lint::counted(shown.copied.len(), "run");
        print::line(&format!("{copied} copied, {} there already.", shown.same.len()));
        for problem in &shown.problems {
            print::note(&format!("not copied: {problem}"));
        }
    }
    Ok(if shown.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
