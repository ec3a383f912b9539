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
use phasegate_runtime::approval::List;
use phasegate_runtime::catalog::Origin;
use phasegate_runtime::gate::Runs;
use phasegate_runtime::project::Project;
use phasegate_runtime::{caller, jobs, trust};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, complete};
use crate::print;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Options {
    /// The workflow
    #[arg(add = complete::workflows(), required_unless_present = "signers")]
    workflow: Option<String>,
    /// Consent to the list of signers of this project, whose signatures count as those of people
    #[arg(long, conflicts_with = "workflow")]
    signers: bool,
    /// Take the consent back
    #[arg(long)]
    revoke: bool,
    /// Show what the workflow does, and do not consent
    #[arg(long, conflicts_with = "revoke")]
    show: bool,
    /// Consent without being asked
    #[arg(long, conflicts_with_all = ["show", "revoke"])]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was consented to, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The workflow; the path of the list, where it is one of signers.
    workflow: String,
    /// Whether it may do that now.
    trusted: bool,
    /// What the workflow, and open runs that keep to an earlier definition, run and write; the entries of a list of
    /// signers.
    does: Vec<String>,
    /// It holds every session here without being started.
    stands: bool,
}

/// What is consented to, quoted, so that no character in it can hide another.
fn deeds(root: &Path, workflow: &Workflow) -> Vec<String> {
    let mut known = HashSet::new();
    let deeds = workflow.deeds().map(|deed| words(root, workflow, deed));
    // Many rules write the same file.
    let deeds = deeds.filter(|line| known.insert(line.clone()));
    let constants = workflow.constants.iter();
    let constants =
        constants.map(|(name, value)| format!("with {name} = {}", value.to_text(None).trim_end()));
    let signed = workflow.actions.iter().filter(|action| action.signed);
    let signed = signed.map(|action| {
        format!("takes {:?} only with a signature (`trust --signers` shows whose)", action.name)
    });
    deeds.collect::<Vec<_>>().into_iter().chain(constants).chain(signed).collect()
}

fn show(deeds: &[String]) {
    for line in deeds {
        print::line(&format!("  {line}"));
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
            let labels = job.labels.as_ref().filter(|labels| !labels.is_empty());
            let labels = labels.map(|labels| {
                format!(" (also on other machines of a store that have {})", labels.join(", "))
            });
            let (writes, labels) = (writes.unwrap_or_default(), labels.unwrap_or_default());
            format!("{} {}: {run}{writes}{labels}", job.kind, job.name)
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
    print::aside_for(options.json);
    let Some(name) = &options.workflow else { return signers(project, options) };
    let gate = Runs::new(project);
    let workflow = gate.workflow(name)?;
    let mut does = deeds(&project.root, &workflow);
    let entry = project.workflow(name).filter(|entry| entry.stands(&project.config));
    let tell = |trusted: bool, does: &[String]| {
        let (workflow, does, stands) = (name.clone(), does.to_vec(), entry.is_some());
        if options.json {
            print::json(&Shown { workflow, trusted, does, stands });
        }
        Ok(ExitCode::SUCCESS)
    };
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
        return tell(false, &does);
    }
    let stands = gate.lacks_consent_to_stand(name);
    if gate.is_trusted(&workflow) && !stands && !options.show {
        print::line(&format!(
            "Workflow {name} needs no consent: it is trusted already, or it runs and writes nothing."
        ));
        return tell(true, &does);
    }
    let shown = path.strip_prefix(&project.root).unwrap_or(&path);
    print::line(&format!("Workflow {name} ({}):", shown.display()));
    show(&does);
    if let Some(labels) = project.config.labels(name).filter(|labels| !labels.is_empty()) {
        let labels = labels.join(", ");
        print::line(&format!("  runs its jobs on other machines of a store that have {labels}"));
    }
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
        let kept = deeds(&project.root, kept);
        show(&kept);
        does.extend(kept);
    }
    if options.show {
        return tell(gate.is_trusted(&workflow) && !stands, &does);
    }
    caller::must_be_human("consenting to commands")?;
    if !options.yes && !is_wanted()? {
        return Err(Failed::new("you did not consent, so nothing of it will run".into()));
    }
    trust::trust(&project.root, &path, &workflow.identity)?;
    if let Some(entry) = &entry {
        trust::trust(&project.root, &path, &entry.standing_identity(&project.config)?)?;
    }
    for (_, kept) in &kept {
        trust::trust(&project.root, &path, &kept.identity)?;
    }
    print::line("It is trusted as it is now. After a change it needs your consent again.");
    tell(true, &does)
}

/// Consents to the list of signers.
fn signers(project: &Project, options: &Options) -> Outcome {
    let list = List::of(project)?;
    let shown = list.path.strip_prefix(&project.root).unwrap_or(&list.path).display().to_string();
    let tell = |trusted: bool| {
        let (workflow, does) = (shown.clone(), list.entries());
        if options.json {
            print::json(&Shown { workflow, trusted, does, stands: false });
        }
        Ok(ExitCode::SUCCESS)
    };
    if options.revoke {
        let was = trust::distrust(&project.root, &list.identity())?;
        let said = if was { "is no longer trusted" } else { "was not trusted" };
        print::line(&format!("The list of signers {shown} {said}."));
        return tell(false);
    }
    let is_trusted = list.is_trusted(&project.root);
    if is_trusted && !options.show {
        print::line(&format!("The list of signers {shown} is trusted already."));
        return tell(true);
    }
    print::line(&format!("Whose signatures count ({shown}):"));
    show(&list.entries());
    if options.show {
        return tell(is_trusted);
    }
    caller::must_be_human("consenting to signers")?;
    if !options.yes && !is_wanted()? {
        return Err(Failed::new("you did not consent, so no signature counts".into()));
    }
    trust::trust(&project.root, &list.path, &list.identity())?;
    print::line("It is trusted as it is now. After a change it needs your consent again.");
    tell(true)
}

/// Asks the person at the terminal.
fn is_wanted() -> Result<bool, Failed> {
    print::ask("Consent to all of that? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
