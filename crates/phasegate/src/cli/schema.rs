//! `phasegate schema`: the JSON schemas of what people write, of what workflows read, and of what `--json` prints.

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::schema;
use phasegate_runtime::config::Config;
use phasegate_runtime::project::Project;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::{
    Failed, Outcome, accept, action, cancel, ci, complete, demo, doctor, draw, drive, eject, fleet,
    init, jobs, lint, list, log, mutate, new, owner, pause, prove, prune, questions, replay,
    status, store, test, trust, uninstall, verify, wait, why,
};
use crate::outcome::Failure;
use crate::print::{self, Versioned};

#[derive(Debug, Args)]
pub struct Options {
    /// What `--json` prints, by its command (`--list` shows the names), or a workflow, for what it reads; by default
    /// workflow definitions
    #[arg(value_name = "NAME", add = complete::workflows())]
    name: Option<String>,
    /// A record of the workflow; by default its state document
    record: Option<String>,
    /// List the names of what `--json` prints
    #[arg(long, conflicts_with_all = ["name", "record"])]
    list: bool,
}

/// The schema of an output, by the name that it is asked for by.
type Output = (&'static str, fn() -> Schema);

/// The schema of an object as it is written.
fn written<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Versioned<T>>()
}

/// What `--json` prints: each by its command, and `error` where one fails. An action is `action`.
const OUTPUTS: &[Output] = &[
    ("accept", written::<accept::Shown>),
    ("action", written::<action::Acted>),
    ("adopt", written::<owner::Shown>),
    ("answer", written::<questions::Replied>),
    ("ask-human", written::<questions::Asked>),
    ("cancel", written::<cancel::Shown>),
    ("check", written::<jobs::Checked>),
    ("ci", written::<ci::Shown>),
    ("demo", written::<demo::Shown>),
    ("doctor", written::<doctor::Shown>),
    ("draw", written::<draw::Shown>),
    ("drive", written::<drive::Shown>),
    ("eject", written::<eject::Shown>),
    ("error", written::<Failure>),
    ("fleet", written::<fleet::Shown>),
    ("init", written::<init::Shown>),
    ("jobs", written::<jobs::Shown>),
    ("lint", written::<lint::Shown>),
    ("list", written::<list::Shown>),
    ("log-verify", written::<log::Verified>),
    ("mutate", written::<mutate::Shown>),
    ("new", written::<new::Shown>),
    ("pause", written::<pause::Shown>),
    ("prove", written::<prove::Shown>),
    ("prune", written::<prune::Shown>),
    ("release", written::<owner::Shown>),
    ("replay", written::<replay::Shown>),
    ("resume", written::<pause::Shown>),
    ("start", written::<action::Started>),
    ("status", written::<status::Shown>),
    ("store-copy", written::<store::Transfer>),
    ("store-migrate", written::<store::Migrated>),
    ("store-status", written::<store::Shown>),
    ("store-trust", written::<store::Consent>),
    ("test", written::<test::Shown>),
    ("trust", written::<trust::Shown>),
    ("uninstall", written::<uninstall::Shown>),
    ("verify", written::<verify::Shown>),
    ("verify-proof", written::<prove::Verified>),
    ("wait", written::<wait::Shown>),
    ("why", written::<why::Shown>),
];

pub fn run(project: &Project, options: &Options) -> Outcome {
    if options.list {
        for (name, _) in OUTPUTS {
            print::line(name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &options.name else {
        print::out(&schema::schema());
        return Ok(ExitCode::SUCCESS);
    };
    if let Some((_, made)) = OUTPUTS.iter().find(|(known, _)| known == name) {
        print::line(&serde_json::to_string_pretty(&made())?);
        return Ok(ExitCode::SUCCESS);
    }
    let entry = project.workflow(name).ok_or_else(|| {
        let known = OUTPUTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        Failed::new(format!(
            "there is no workflow {name:?}, and no command whose `--json` is called that\nhint: there are: {known}"
        ))
    })?;
    let workflow = entry.load(&Config::default())?;
    let record = options.record.as_deref().unwrap_or("state");
    let known: Vec<&str> = workflow.records.0.iter().map(|record| &*record.name).collect();
    let shown = schema::of_record(&workflow, record).ok_or_else(|| {
        format!("workflow {name} has no record {record:?}; there are: {}", known.join(", "))
    })?;
    print::line(&serde_json::to_string_pretty(&shown)?);
    Ok(ExitCode::SUCCESS)
}
