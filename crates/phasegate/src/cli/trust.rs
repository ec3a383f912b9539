//! `phasegate trust`

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use phasegate_clients::headless;
use phasegate_engine::deeds::Deed;
use phasegate_engine::job::{Gives, Rights};
use phasegate_engine::json::Json;
use phasegate_engine::step::Actor;
use phasegate_engine::workflow::{CommandLine, JobSpec, TextId, Workflow};
use phasegate_runtime::catalog::Origin;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, jobs, trust};

use super::{Failed, Outcome, complete};
use crate::print;

#[derive(Debug, Args)]
pub struct Options {
    /// The workflow
    #[arg(add = complete::workflows())]
    workflow: String,
    /// Take the consent back
    #[arg(long)]
    revoke: bool,
    /// Show what the workflow does, and do not consent
    #[arg(long, conflicts_with = "revoke")]
    show: bool,
    /// Consent without being asked
    #[arg(long, conflicts_with_all = ["show", "revoke"])]
    yes: bool,
}

/// What is consented to, quoted, so that no character in it can hide another.
fn show(root: &Path, workflow: &Workflow) {
    let mut shown = HashSet::new();
    for deed in workflow.deeds() {
        let line = words(root, workflow, deed);
        // Many rules write the same file.
        if shown.insert(line.clone()) {
            print::line(&format!("  {line}"));
        }
    }
    for (name, value) in &workflow.constants {
        print::line(&format!("  with {name} = {}", value.to_text(None).trim_end()));
    }
}

fn words(root: &Path, workflow: &Workflow, deed: Deed) -> String {
    let text = |id: TextId| resolved(workflow, &workflow.texts[id.0].text);
    match deed {
        Deed::Job(job) => {
            let writes = job.writes.map(|place| format!(", writes {:?}", text(place)));
            let run = match &job.run {
                CommandLine::Words(words) => format!("{words:?}"),
                CommandLine::Texts(parts) if parts.is_empty() => client(root, workflow, job),
                CommandLine::Texts(parts) => {
                    format!("{:?}", parts.iter().map(|part| text(*part)).collect::<Vec<_>>())
                }
                CommandLine::Expression(list) => match constant(workflow, &list.text) {
                    Some(Json::List(list)) if list.0.is_empty() => client(root, workflow, job),
                    Some(list) => list.to_text(None).trim_end().to_string(),
                    None => {
                        format!("{}; where it is empty: {}", list.text, client(root, workflow, job))
                    }
                },
            };
            format!("{} {}: {run}{}", job.kind, job.name, writes.unwrap_or_default())
        }
        Deed::Write(place) => format!("writes {:?}", text(place)),
        Deed::Move(from, to) => format!("moves {:?} to {:?}", text(from), text(to)),
        Deed::Append(place) => format!("adds lines to {:?}", text(place)),
    }
}

/// The command of the usual client, and in words what it may do.
fn client(root: &Path, workflow: &Workflow, job: &JobSpec) -> String {
    let text = |id: TextId| resolved(workflow, &workflow.texts[id.0].text);
    let (model, file) = (job.model.map(text), job.writes.map(text));
    // A model that depends on the state has no name yet.
    let model = model.filter(|model| !model.contains("{{") && !model.contains("{%"));
    let rights = jobs::rights(root, job.rights, file, workflow);
    let (client, role) = (headless(), job.role.unwrap_or(Actor::Worker));
    let command = match job.manner.gives {
        Gives::Verdict => client.reviewer(model.as_deref(), &rights),
        Gives::Exit => {
            client.agent(role, model.as_deref(), &rights).map_err(|error| error.to_string())
        }
    };
    let may = match (job.rights, job.manner.gives, role) {
        (Rights::All, ..) => "may do everything without asking",
        (Rights::Least, Gives::Verdict, _) | (Rights::Least, _, Actor::Reviewer) => {
            "reads, asks git, runs the checks, and writes nothing but its file"
        }
        (Rights::Least, ..) => "edits files, asks git and runs the checks",
    };
    match command {
        Ok(words) => format!("{words:?} ({may})"),
        Err(why) => format!("{} ({why}; {may})", client.program()),
    }
}

/// The value of the constant that an expression is, if it is one.
fn constant<'w>(workflow: &'w Workflow, expression: &str) -> Option<&'w Json> {
    let mut constants = workflow.constants.iter();
    constants.find(|(name, _)| name == expression.trim()).map(|(_, value)| value)
}

/// A text with the values of constants in its holes; what depends on the state stays a hole.
fn resolved(workflow: &Workflow, text: &str) -> String {
    let mut text = text.to_string();
    for (name, value) in &workflow.constants {
        let value = value.as_str().map_or_else(|| value.to_text(None), str::to_string);
        text = text.replace(&format!("{{{{ {name} }}}}"), value.trim_end());
    }
    text
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
        let mut was = trust::distrust(&project.root, &workflow.identity)?;
        if let Some(entry) = project.workflow(name) {
            was |= trust::distrust(&project.root, &entry.standing_identity(&project.config)?)?;
        }
        let said = if was { "is no longer trusted" } else { "was not trusted" };
        print::line(&format!("Workflow {name} {said}."));
        return Ok(ExitCode::SUCCESS);
    }
    let stands = gate.lacks_consent_to_stand(name);
    if gate.is_trusted(&workflow) && !stands && !options.show {
        print::line(&format!(
            "Workflow {name} needs no consent: it is trusted already, or it runs and writes nothing."
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let shown = path.strip_prefix(&project.root).unwrap_or(&path);
    print::line(&format!("Workflow {name} ({}):", shown.display()));
    show(&project.root, &workflow);
    let entry = project.workflow(name).filter(|entry| entry.stands(&project.config));
    if entry.is_some() {
        print::line("  holds every session here that changes files, without being started");
    }
    // A run may keep to an earlier definition, and needs consent to that one.
    let runs = gate.runs().runs;
    let own = runs.iter().filter(|run| run.id.workflow == *name && gate.is_working(run));
    let kept: Vec<_> = own
        .filter_map(|run| Some((run, gate.workflow_of(run).ok()?)))
        .filter(|(_, kept)| kept.identity != workflow.identity && kept.acts())
        .collect();
    for (run, kept) in &kept {
        print::line(&format!("Run {} still follows an earlier definition:", run.id));
        show(&project.root, kept);
    }
    if options.show {
        return Ok(ExitCode::SUCCESS);
    }
    caller::must_be_human("consenting to commands").map_err(Failed)?;
    if !options.yes && !is_wanted()? {
        return Err(Failed("you did not consent, so nothing of it will run".into()));
    }
    trust::trust(&project.root, &path, &workflow.identity)?;
    if let Some(entry) = entry {
        trust::trust(&project.root, &path, &entry.standing_identity(&project.config)?)?;
    }
    for (_, kept) in &kept {
        trust::trust(&project.root, &path, &kept.identity)?;
    }
    print::line("It is trusted as it is now. After a change it needs your consent again.");
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal.
fn is_wanted() -> Result<bool, Failed> {
    print::ask("Consent to all of that? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
