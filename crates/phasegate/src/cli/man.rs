//! `phasegate man`: manual pages, made from what `help` knows.

use std::process::ExitCode;

use clap::Args;
use phasegate_runtime::project::Project;

use super::{Failed, Outcome, whole_command};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The command, as `status` or `triage start`; by default the program
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let mut command = whole_command(project, "");
    command.build();
    let words: Vec<&str> = options.words.iter().flat_map(|word| word.split_whitespace()).collect();
    for (at, word) in words.iter().enumerate() {
        let below = command.find_subcommand(word).cloned();
        command = below.ok_or_else(|| {
            Failed::new(format!("there is no command {:?}", words[..=at].join(" ")))
        })?;
    }
    // A page is called as its file is: phasegate-triage-start.
    let name = std::iter::once("phasegate").chain(words).collect::<Vec<_>>().join("-");
    let page_of = command.display_name(name.clone());
    let mut page = Vec::new();
    let page_of = clap_mangen::Man::new(page_of).title(name.to_uppercase()).section("1");
    let version = concat!("phasegate ", env!("CARGO_PKG_VERSION"));
    page_of.source(version).manual("Phasegate").render(&mut page)?;
    print::bytes(&page);
    Ok(ExitCode::SUCCESS)
}
