//! `phasegate trust`

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use phasegate_clients::headless;
use phasegate_engine::deeds::Deed;
use phasegate_engine::workflow::{CommandLine, TextId, Workflow};
use phasegate_runtime::catalog::Origin;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, trust};

use super::{Failed, Outcome};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow
    workflow: String,
    /// Take the consent back
    #[arg(long)]
    revoke: bool,
}

/// What is consented to, quoted, so that no character in it can hide another.
fn show(workflow: &Workflow) {
    let mut shown = HashSet::new();
    for deed in workflow.deeds() {
        let line = words(workflow, deed);
        // Many rules write the same file.
        if shown.insert(line.clone()) {
            print::line(&format!("  {line}"));
        }
    }
    for (name, value) in &workflow.constants {
        print::line(&format!("  with {name} = {}", value.to_text(None).trim_end()));
    }
}

fn words(workflow: &Workflow, deed: Deed) -> String {
    let text = |id: TextId| &*workflow.texts[id.0].text;
    let line = |run: &CommandLine| match run {
        CommandLine::Words(words) => format!("{words:?}"),
        CommandLine::Texts(parts) if parts.is_empty() => headless().program().to_string(),
        CommandLine::Texts(parts) => {
            format!("{:?}", parts.iter().map(|part| text(*part)).collect::<Vec<_>>())
        }
        CommandLine::Expression(list) => {
            format!("{} ({}, where it is empty)", list.text, headless().program())
        }
    };
    match deed {
        Deed::Job(job) => {
            let writes = job.writes.map(|place| format!(", writes {:?}", text(place)));
            format!("{} {}: {}{}", job.kind, job.name, line(&job.run), writes.unwrap_or_default())
        }
        Deed::Write(place) => format!("writes {:?}", text(place)),
        Deed::Move(from, to) => format!("moves {:?} to {:?}", text(from), text(to)),
        Deed::Append(place) => format!("adds lines to {:?}", text(place)),
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let name = &options.workflow;
    let gate = Runs::new(project);
    let workflow = gate.workflow(name)?;
    let origin = project.workflow(name).map(|entry| entry.origin.clone());
    let path = match origin {
        Some(Origin::File(path)) => path,
        _ => project.root.join(".phasegate/config.toml"),
    };
    if options.revoke {
        let was = trust::distrust(&project.root, &workflow.identity)?;
        let said = if was { "is not trusted any more" } else { "was not trusted" };
        print::line(&format!("Workflow {name} {said}."));
        return Ok(ExitCode::SUCCESS);
    }
    if gate.is_trusted(&workflow) {
        print::line(&format!("Workflow {name} needs no consent: it is trusted, or does nothing."));
        return Ok(ExitCode::SUCCESS);
    }
    let shown = path.strip_prefix(&project.root).unwrap_or(&path);
    print::line(&format!("Workflow {name} ({}):", shown.display()));
    show(&workflow);
    // A run may keep to an earlier definition, and needs consent to that one.
    let runs = gate.runs().runs;
    let own = runs.iter().filter(|run| run.id.workflow == *name && gate.is_working(run));
    let kept: Vec<_> = own
        .filter_map(|run| Some((run, gate.workflow_of(run).ok()?)))
        .filter(|(_, kept)| kept.identity != workflow.identity && kept.acts())
        .collect();
    for (run, kept) in &kept {
        print::line(&format!("Run {} keeps to an earlier definition:", run.id));
        show(kept);
    }
    caller::must_be_human("consenting to commands").map_err(Failed)?;
    trust::trust(&project.root, &path, &workflow.identity)?;
    for (_, kept) in &kept {
        trust::trust(&project.root, &path, &kept.identity)?;
    }
    print::line("It is trusted as it is now. A change of it needs your consent again.");
    Ok(ExitCode::SUCCESS)
}
