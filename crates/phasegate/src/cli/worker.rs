//! `phasegate worker`: does jobs for the runs of other machines.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use jiff::Zoned;
use phasegate_engine::job::is_label;
use phasegate_runtime::project::Project;
use phasegate_runtime::worker::{self, Worker};

use super::{Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// What this machine has: it takes jobs that need nothing else. Without it, jobs whatever they need
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    labels: Option<Vec<String>>,
    /// How many jobs it does at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Where it works; by default in the user's state folder
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Do whatever the store asks for, of all its projects, without consent to each definition
    #[arg(long)]
    trust_store: bool,
}

fn label(text: &str) -> Result<String, String> {
    let text = text.trim();
    if is_label(text) { Ok(text.to_string()) } else { Err("is not a label".into()) }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let wanted = worker::Options {
        labels: options.labels.clone(),
        jobs: usize::from(options.jobs),
        folder: options.folder.clone(),
        trusts_store: options.trust_store,
    };
    let say = |text: &str| print::note(&format!("{} {text}", Zoned::now().strftime("%H:%M:%S")));
    let worker = Worker::new(project, wanted, Arc::new(say)).map_err(Failed::new)?;
    worker.run().map_err(Failed::new)?;
    Ok(ExitCode::SUCCESS)
}
