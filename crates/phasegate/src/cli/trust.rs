//! `phasegate trust`

use std::process::ExitCode;

use clap::Args;
use phasegate_engine::workflow::{CommandLine, Workflow};
use phasegate_runtime::catalog::Origin;
use phasegate_runtime::gate::Gate;
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
    for check in &workflow.checks {
        print::line(&format!("  check {}: {:?}", check.name, check.run));
    }
    for (name, command) in &workflow.commands {
        let parts: Vec<&str> =
            command.parts.iter().map(|part| &*workflow.texts[part.0].text).collect();
        print::line(&format!("  command {name}: {parts:?}"));
    }
    let shown = |run: &CommandLine| match run {
        CommandLine::Texts(parts) if parts.is_empty() => "claude".into(),
        CommandLine::Texts(parts) => {
            let parts = parts.iter().map(|part| &*workflow.texts[part.0].text);
            format!("{:?}", parts.collect::<Vec<&str>>())
        }
        CommandLine::Expression(list) => format!("{} (claude, where it is empty)", list.text),
    };
    for reviewer in &workflow.reviewers {
        print::line(&format!("  reviewer {}: {}", reviewer.name, shown(&reviewer.run)));
    }
    for agent in &workflow.agents {
        print::line(&format!("  agent {}: {}", agent.name, shown(&agent.run)));
    }
    let rules = workflow.rules().flat_map(|(_, rule)| &rule.write);
    let mut places: Vec<&str> = rules.map(|(place, _)| &*workflow.texts[place.0].text).collect();
    places.sort_unstable();
    places.dedup();
    for place in places {
        print::line(&format!("  writes {place:?}"));
    }
    for (name, value) in &workflow.constants {
        print::line(&format!("  with {name} = {}", value.to_text(None).trim_end()));
    }
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let name = &options.workflow;
    let gate = Gate::new(project);
    let workflow = gate.workflow(name)?;
    let origin = project.workflow(name).map(|entry| entry.origin.clone());
    let path = match origin {
        Some(Origin::File(path)) => path,
        _ => project.root.join(".phasegate/config.toml"),
    };
    if options.revoke {
        let was = trust::distrust(&project.root, &workflow.digest)?;
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
    let (runs, _) = gate.runs();
    let own = runs.iter().filter(|run| run.id.workflow == *name && gate.is_working(run));
    let kept: Vec<_> = own
        .filter_map(|run| Some((run, gate.workflow_of(run).ok()?)))
        .filter(|(_, kept)| kept.digest != workflow.digest && kept.acts())
        .collect();
    for (run, kept) in &kept {
        print::line(&format!("Run {} keeps to an earlier definition:", run.id));
        show(kept);
    }
    caller::must_be_human("consenting to commands").map_err(Failed)?;
    trust::trust(&project.root, &path, &workflow.digest)?;
    for (_, kept) in &kept {
        trust::trust(&project.root, &path, &kept.digest)?;
    }
    print::line("It is trusted as it is now. A change of it needs your consent again.");
    Ok(ExitCode::SUCCESS)
}
