//! `phasegate eject`

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use phasegate_engine::schema::schema;
use phasegate_runtime::catalog::builtin_files;
use phasegate_runtime::project::Project;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Code, Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The built-in workflow
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was copied, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    workflow: String,
    /// The folder that has it now.
    folder: PathBuf,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let files = builtin_files(&options.name);
    if files.is_empty() {
        return Err(Failed::of(
            Code::NoSuchWorkflow,
            format!("there is no built-in workflow {:?}", options.name),
        ));
    }
    let folder = project.root.join(".phasegate/workflows").join(&options.name);
    if folder.exists() {
        return Err(Failed::of(
            Code::Exists,
            format!("{} exists; nothing was changed", folder.display()),
        ));
    }
    let write = |path: PathBuf, text: &str| {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| fs::write(&path, text));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    for (path, text) in files {
        write(folder.join(path), text)?;
    }
    // The definition names its schema, for editors.
    write(folder.with_file_name("workflow.schema.json"), &schema())?;
    if options.json {
        print::json(&Shown { workflow: options.name.clone(), folder });
        return Ok(ExitCode::SUCCESS);
    }
    print::line(&format!("{} is now yours: {}", options.name, folder.display()));
    print::line(&format!(
        "Change it, then run `phasegate lint {0}` and `phasegate test {0}`.",
        options.name
    ));
    Ok(ExitCode::SUCCESS)
}
