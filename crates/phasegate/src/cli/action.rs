//! The commands of a workflow, made from the actions that it declares.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use phasegate_engine::answer::{Answer, Outcome as Ended, Until};
use phasegate_engine::bom;
use phasegate_engine::decide::{params, phase_name};
use phasegate_engine::definition::ParamType;
use phasegate_engine::json::Json;
use phasegate_engine::step::Event;
use phasegate_engine::types::Type;
use phasegate_engine::workflow::{Action, Does, Param, Workflow};
use phasegate_runtime::caller;
use phasegate_runtime::catalog::Entry;
use phasegate_runtime::config::Config;
use phasegate_runtime::gate::{Answered, Found, Gate};
use phasegate_runtime::journal::Line;
use phasegate_runtime::outside;
use phasegate_runtime::project::Project;
use phasegate_runtime::run::{RunId, plain_name};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, complete, event, session, signing};
use crate::perform::{Asked, Performed, Shown};
use crate::print::{self, Paint, paint};
use crate::request;

/// What a workflow that declares no way to start can still do.
const START: &str = "start";

/// The command that starts a run of one workflow, called by the workflow's name: what `phasegate start` offers.
pub fn starting(entry: &Entry) -> Command {
    let Ok(workflow) = entry.load(&Config::default()) else { return broken(entry) };
    let command = match creator(&workflow) {
        Some(action) => subcommand(action, &entry.name),
        None => plain_start(&entry.name),
    };
    command.about(workflow.about.clone())
}

/// The action by which a run begins; none where a workflow declares none, and a plain start will do.
fn creator(workflow: &Workflow) -> Option<&Action> {
    let creates = |action: &&Action| matches!(action.does, Does::Create { .. });
    let mut creators = workflow.actions.iter().filter(creates);
    workflow.action(START).filter(creates).or_else(|| creators.next())
}

/// Starts a run of a workflow that declares no way to start.
fn plain_start(name: &str) -> Command {
    let run = Arg::new("name").long("name").value_name("NAME").help("The run's name");
    Command::new(name.to_string()).about("Start a run").arg(run).arg(json())
}

/// A workflow with mistakes has no commands, but says why.
fn broken(entry: &Entry) -> Command {
    let about = format!("(broken: see `phasegate lint {}`)", entry.name);
    let anything = Arg::new("anything").num_args(0..).hide(true).allow_hyphen_values(true);
    Command::new(entry.name.clone()).about(about).arg(anything)
}

/// The commands of one workflow.
pub fn command(entry: &Entry) -> Command {
    let Ok(workflow) = entry.load(&Config::default()) else { return broken(entry) };
    let mut command = Command::new(entry.name.clone())
        .about(workflow.about.clone())
        .subcommand_required(true)
        .arg_required_else_help(true);
    if workflow.action(START).is_none() && creator(&workflow).is_none() {
        command = command.subcommand(plain_start(START));
    }
    for action in &workflow.actions {
        let Some((group, name)) = action.name.split_once(' ') else {
            let own = subcommand(action, &action.command);
            let aliased =
                if action.command == action.name { own } else { own.visible_alias(&action.name) };
            command = command.subcommand(aliased);
            continue;
        };
        let own = subcommand(action, name);
        command = match command.find_subcommand(group) {
            Some(_) => command.mut_subcommand(group, |group| group.subcommand(own)),
            None => {
                let all = workflow.actions.iter().filter_map(|it| it.name.split_once(' '));
                let names = all.filter(|(it, _)| *it == group).map(|(_, name)| name);
                let about = format!("{group}: {}", names.collect::<Vec<_>>().join(" or "));
                let group = Command::new(group.to_string()).about(about);
                command.subcommand(group.subcommand_required(true).subcommand(own))
            }
        };
    }
    command
}

/// The action that a command line names, and its own arguments.
pub fn chosen<'w, 'm>(
    workflow: &'w Workflow,
    matches: &'m ArgMatches,
) -> Option<(&'m str, Option<&'w Action>, &'m ArgMatches)> {
    let (name, own) = matches.subcommand()?;
    match own.subcommand() {
        Some((second, inner)) => {
            Some((second, workflow.action(&format!("{name} {second}")), inner))
        }
        None => {
            let action = workflow.actions.iter().find(|action| action.command == name);
            Some((name, action, own))
        }
    }
}

fn subcommand(action: &Action, name: &str) -> Command {
    let mut command = Command::new(name.to_string()).about(action.about.clone());
    for param in &action.params {
        let flag = param.name.replace('_', "-");
        let mut arg = Arg::new(param.name.clone()).long(flag).help(param.about.clone());
        arg = match param.ty {
            ParamType::Boolean => arg.action(ArgAction::SetTrue),
            ParamType::Integer => {
                let number = clap::value_parser!(i64);
                arg.value_name("N").value_parser(number).allow_negative_numbers(true)
            }
            ParamType::String => arg.value_name("TEXT"),
            ParamType::File | ParamType::JsonFile => arg.value_name("FILE"),
            ParamType::Value => match &param.value {
                Type::OneOf(values) => {
                    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                    arg.value_name("WORD").value_parser(values)
                }
                _ => arg.value_name("JSON or @FILE"),
            },
        };
        if let Some(default) = &param.default {
            let text = default.to_text(None).trim_end().to_string();
            arg = arg.default_value(default.as_str().map_or(text, str::to_string));
        } else if !param.optional && param.ty != ParamType::Boolean {
            arg = arg.required(true);
        }
        command = command.arg(arg);
    }
    if !matches!(action.does, Does::Create { .. } | Does::Show { alone: true, .. }) {
        command = command.arg(
            Arg::new("run")
                .value_name("RUN")
                .help("The run, as WORKFLOW/RUN or RUN; needed only if there are several")
                .add(complete::runs()),
        );
    }
    if matches!(action.does, Does::Event) {
        command = command.arg(signing::option());
    }
    command.arg(json())
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON")
}

/// Carries out an action.
pub fn run(project: &Project, name: &str, matches: &ArgMatches) -> Outcome {
    let (gate, workflow) = opened(project, name)?;
    let Some((action_name, action, matches)) = chosen(&workflow, matches) else {
        return Err(Failed::new("an action is missing".into()));
    };
    match action {
        Some(action) => carry_out(project, &gate, &workflow, (action_name, action), matches),
        None => start_plainly(&gate, &workflow, matches),
    }
}

/// Starts a run, by the workflow's own action if it has one.
pub fn start(project: &Project, name: &str, matches: &ArgMatches) -> Outcome {
    let (gate, workflow) = opened(project, name)?;
    match creator(&workflow) {
        Some(action) => carry_out(project, &gate, &workflow, (&action.command, action), matches),
        None => start_plainly(&gate, &workflow, matches),
    }
}

/// A workflow that can be asked for something.
fn opened<'p>(project: &'p Project, name: &str) -> Result<(Gate<'p>, Arc<Workflow>), Failed> {
    if let Some(variable) = project.workflow(name).and_then(Entry::disabled_by) {
        return Err(Failed::new(format!("workflow {name} is switched off by {variable}=1")));
    }
    let gate = Gate::new(project).watched(&print::pass_on);
    let loaded = gate.workflow(name);
    let workflow =
        loaded.map_err(|_| format!("workflow {name} is broken: see `phasegate lint {name}`"))?;
    Ok((gate, workflow))
}

fn carry_out(
    project: &Project,
    gate: &Gate,
    workflow: &Workflow,
    (action_name, action): (&str, &Action),
    matches: &ArgMatches,
) -> Outcome {
    let caller = gate.caller()?.for_workflow(workflow);
    let run = matches.try_get_one::<String>("run").ok().flatten().map(String::as_str);
    let key = signs(project, action, matches)?;
    let asked = Asked { gate, workflow, action, caller: &caller, run, key: key.as_deref() };
    // Whether who signs is a person, the signature tells.
    if action.people_only() && key.is_none() {
        for_people(&asked, &format!("`{} {action_name}`", workflow.name))?;
    }
    let given = given(&project.root, &asked, matches)?;
    let (performed, event) = asked.perform(|_| Ok::<Json, Infallible>(given))?;
    if let Some(signed) = &event.signed {
        print::note(&signed.to_string());
    }
    let as_json = matches.get_flag("json");
    match performed {
        Performed::Created { run, answered, shows } => match answered {
            Some(answered) if answered.answer.text().is_some() => {
                Ok(say(&answered, as_json.then(Json::object).as_ref()))
            }
            _ => {
                let shown = shows.map(|text| gate.show(workflow, &run, text, &event));
                let shown = shown.transpose()?;
                let wanted = wanted(gate, workflow, Some(action), &event);
                let about = (workflow, &run.id);
                started(about, &wanted, shown.as_deref(), answered.is_none(), as_json);
                warn_untrusted(gate, workflow, &run.id);
                if !as_json && let Some(headline) = gate.headline(&run, &event) {
                    print::line(&print::headline(&headline));
                }
                Ok(ExitCode::SUCCESS)
            }
        },
        Performed::Shown(shown) => {
            if let Some(note) = &shown.note {
                print::note(&format!("note: {note}"));
            }
            let text = if as_json {
                shown_json(&asked, &shown, &event, action_name)?
            } else {
                asked.render(&shown, shown.text, &event)?
            };
            print::out(text.trim_end());
            print::line("");
            Ok(ExitCode::SUCCESS)
        }
        Performed::Acted { run, answered } => {
            if as_json {
                return Ok(say(&answered, Some(&told(gate, workflow, &run, &event))));
            }
            let headline = gate.headline(&run, &event);
            if headline.is_none()
                && matches!(answered.answer, Answer::Allow { outcome: None, message: None, .. })
            {
                let step = step_taken(gate, workflow, &run, &event, &answered);
                print::line(&format!("{}: accepted, {step}", answered.run));
                say_notes(&answered);
                return Ok(ExitCode::SUCCESS);
            }
            let code = say(&answered, None);
            if let Some(headline) = headline {
                print::line(&print::headline(&headline));
            } else if answered.answer.text().is_none() {
                let step = step_taken(gate, workflow, &run, &event, &answered);
                print::line(&format!("It is {step}"));
            }
            Ok(code)
        }
    }
}

/// The key that an action is signed with: where the caller wants that, or where it counts only so.
fn signs(
    project: &Project,
    action: &Action,
    matches: &ArgMatches,
) -> Result<Option<PathBuf>, Failed> {
    let is_wanted = matches.try_contains_id(signing::SIGN).unwrap_or(false);
    // A person need not ask for what is needed anyway. Nobody else's key is used unasked.
    let is_needed = action.signed && caller::why_not_a_person().is_none();
    if !is_wanted && !is_needed {
        return Ok(None);
    }
    let named = matches.try_get_one::<PathBuf>(signing::SIGN).ok().flatten();
    signing::key(project, named.map(PathBuf::as_path)).map(Some)
}

/// The step that an action has led to: `approval → releasing`.
fn step_taken(
    gate: &Gate,
    workflow: &Workflow,
    run: &Found,
    event: &Event,
    answered: &Answered,
) -> String {
    let phase = phase_name(workflow, &answered.document);
    let outer = workflow.outer();
    let about = outer.phase(&phase).and_then(|id| outer.get(id).about.clone());
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    // What the action has started may have written lines since.
    let lines = gate.journal_before(run, u64::MAX).take(MAX_SINCE);
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
    let from = lines.find(|line| line.event.name == event.name).map(|line| line.from);
    match from.filter(|from| !from.is_empty() && *from != phase) {
        Some(from) => format!("{from} → {phase}{about}"),
        None => format!("in phase {phase}{about}"),
    }
}

/// How many lines an action may have caused, beside its own.
const MAX_SINCE: usize = 16;

/// The JSON form of what an action shows, with what the workflow tells programs.
fn shown_json(asked: &Asked, shown: &Shown, event: &Event, action: &str) -> Result<String, Failed> {
    let json = shown.json.ok_or_else(|| Failed::new(format!("`{action}` has no JSON form")))?;
    let text = asked.render(shown, json, event)?;
    let own = Json::parse(text.as_bytes())
        .map_err(|error| format!("the workflow's JSON is not valid: {error}"))?;
    let told = shown.run.as_ref().map(|run| told(asked.gate, asked.workflow, run, event));
    Ok(joined(own, &told.unwrap_or_else(Json::object)).to_text(Some("  ")))
}

/// What the workflow tells programs with every answer, where it tells something.
fn told(gate: &Gate, workflow: &Workflow, run: &Found, event: &Event) -> Json {
    let told = workflow.guidance.and_then(|_| gate.guidance(run, event).ok());
    told.unwrap_or_else(Json::object)
}

/// An object with the members of another one, too.
fn joined(own: Json, more: &Json) -> Json {
    match (&own, more) {
        (Json::Object(members), Json::Object(more)) => {
            let all = members.iter().chain(more.iter());
            params(all.map(|(name, value)| (name.to_string(), value.clone())))
        }
        _ => own,
    }
}

/// Prints the answer to an action.
fn say(answered: &Answered, as_json: Option<&Json>) -> ExitCode {
    if let Some(told) = as_json {
        // By its text: a `serde_json::Value` would not keep the order of the members.
        let answer = serde_json::to_string(&answered.answer).unwrap_or_default();
        let answer = Json::parse(answer.as_bytes()).unwrap_or(Json::Null);
        let run = Json::from(answered.run.to_string().as_str());
        let version = Json::from(i64::from(print::VERSION));
        let head = params([("version".to_string(), version), ("run".to_string(), run)]);
        print::out(&joined(joined(head, &answer), told).to_text(Some("  ")));
    } else if let Answer::Allow { until: Some(Until::External), message: Some(text), .. } =
        &answered.answer
    {
        // What somebody else is to do now.
        print::line(text.trim_end());
    } else {
        print::line(&match &answered.answer {
            Answer::Deny { reason, .. } => format!("Not possible now: {}", reason.trim_end()),
            Answer::Allow { outcome: None, message: None, .. } => {
                format!("{}: accepted", answered.run)
            }
            other => {
                let text = other.text().map(|text| format!(": {text}")).unwrap_or_default();
                let answer = paint(Paint::of(other), &other.to_string());
                format!("{}: {answer}{}", answered.run, text.trim_end())
            }
        });
    }
    say_notes(answered);
    let failed = matches!(answered.answer.outcome(), Some(Ended::Stuck | Ended::Fault));
    let refused = failed || matches!(answered.answer, Answer::Deny { .. });
    if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What else a person should know, such as that somebody has changed the document.
fn say_notes(answered: &Answered) {
    for note in &answered.notes {
        print::note(&format!("note: {note}"));
    }
}

fn start_plainly(gate: &Gate, workflow: &Workflow, matches: &ArgMatches) -> Outcome {
    let name = matches.get_one::<String>("name").cloned();
    let given = name.map(|name| ("name".to_string(), Json::from(name)));
    let event = Event { params: params(given), ..event(START) };
    let run = gate.create(workflow, None, &event)?;
    let wanted = wanted(gate, workflow, None, &event);
    started((workflow, &run), &wanted, None, true, matches.get_flag("json"));
    warn_untrusted(gate, workflow, &run);
    Ok(ExitCode::SUCCESS)
}

/// Says that a run which was started holds nothing yet.
fn warn_untrusted(gate: &Gate, workflow: &Workflow, run: &RunId) {
    if let Some(untrusted) = gate.untrusted(workflow, run) {
        print::note(&format!("note: {untrusted}"));
    }
}

/// The answer to an action, for programs. What the workflow tells programs beside it (`guidance`) stands in the same
/// object.
#[derive(Debug, JsonSchema)]
#[expect(
    dead_code,
    reason = "only its schema is used: the order of a workflow's own members is kept"
)]
pub struct Acted {
    /// The run, as WORKFLOW/RUN.
    run: String,
    /// `allow`, `deny` or `block`.
    decision: String,
    /// What an `allow` means.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// What a `waiting` waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What a refusal is known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// A run that was started, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Started {
    /// The run, as WORKFLOW/RUN.
    pub run: String,
    /// Its state document.
    pub document: String,
    /// The name that was asked for, where another run has it.
    pub taken: Option<String>,
}

/// The name that a run would have, were it free: what the workflow or the caller calls it.
fn wanted(gate: &Gate, workflow: &Workflow, action: Option<&Action>, event: &Event) -> String {
    let text = match action.map(|action| &action.does) {
        Some(Does::Create { name: Some(name), .. }) => {
            gate.show_alone(workflow, *name, event).unwrap_or_default()
        }
        _ => event.params.get("name").and_then(Json::as_str).unwrap_or_default().to_string(),
    };
    let text = if text.trim().is_empty() { &workflow.name } else { text.trim() };
    plain_name(text)
}

fn started(
    (workflow, run): (&Workflow, &RunId),
    wanted: &str,
    shown: Option<&str>,
    is_new: bool,
    as_json: bool,
) {
    let document = workflow.document_of(&run.name);
    // A workflow with one run for all has a name of its own for it.
    let numbered = run.name.strip_prefix(wanted).and_then(|rest| rest.strip_prefix('-'));
    let is_taken = numbered.is_some_and(|rest| rest.parse::<u64>().is_ok());
    if as_json {
        let taken = is_taken.then(|| wanted.to_string());
        print::json(&Started { run: run.to_string(), document, taken });
        return;
    }
    print::line(&format!("Run {run} has started: {document}"));
    if is_taken {
        print::line(&format!(
            "It is called {}, since there is a run {}/{wanted} already.",
            run.name, workflow.name
        ));
    }
    if let Some(shown) = shown {
        print::line(shown.trim_end());
    }
    if is_new {
        print::line(match session() {
            Some(_) => "This session will be held by it.",
            None => "The next agent session that stops in this project will be held by it.",
        });
    }
}

/// Refuses what only a person may ask for; the journal of the run tells that somebody tried.
fn for_people(asked: &Asked, what: &str) -> Result<(), Failed> {
    let Err(why) = caller::must_be_human(what) else { return Ok(()) };
    let name = &asked.workflow.name;
    if let Ok(run) = request::run(asked.gate, name, asked.caller, asked.run, false) {
        asked.gate.refuse(&run, &asked.event(Json::object()), "needs_human", &why.0)?;
    }
    Err(why.into())
}

/// The parameters as given. A JSON file is given as `{path, value}`.
fn given(root: &Path, asked: &Asked, matches: &ArgMatches) -> Result<Json, Failed> {
    let mut members = Vec::new();
    for param in &asked.action.params {
        let value = value(root, param, matches)?;
        let value = request::fitting(asked.workflow, param, value)?;
        let is_given = !matches!(value, Json::Null | Json::Bool(false));
        if param.people_only && is_given && asked.key.is_none() {
            let flag = param.name.replace('_', "-");
            for_people(asked, &format!("`{} --{flag}`", asked.action.name))?;
        }
        members.push((param.name.clone(), value));
    }
    Ok(params(members))
}

fn value(root: &Path, param: &Param, matches: &ArgMatches) -> Result<Json, Failed> {
    let name = param.name.as_str();
    Ok(match param.ty {
        ParamType::Boolean => Json::from(matches.get_flag(name)),
        ParamType::Integer => {
            matches.get_one::<i64>(name).map_or(Json::Null, |number| Json::from(*number))
        }
        ParamType::String => {
            matches.get_one::<String>(name).map_or(Json::Null, |text| Json::from(text.as_str()))
        }
        ParamType::Value => match matches.get_one::<String>(name).map(String::as_str) {
            None => Json::Null,
            Some(word) if matches!(param.value, Type::OneOf(_)) => Json::from(word),
            Some(text) => {
                let bytes = match text.strip_prefix('@') {
                    Some(path) => outside::read_named(Path::new(path), outside::MAX_RECORD)
                        .map_err(|error| format!("cannot read {path}: {error}"))?,
                    None => text.as_bytes().to_vec(),
                };
                let parsed = Json::parse(&bytes);
                parsed.map_err(|error| format!("--{name} is not valid JSON: {error}"))?
            }
        },
        ParamType::File => match matches.get_one::<String>(name) {
            None => Json::Null,
            Some(path) => {
                let full = Path::new(path).canonicalize();
                let full = full.map_err(|_| format!("there is no file {path}"))?;
                let own =
                    full.strip_prefix(root).map_err(|_| format!("{path} is not in the project"))?;
                Json::from(own.to_string_lossy().as_ref())
            }
        },
        ParamType::JsonFile => match matches.get_one::<String>(name) {
            None => Json::Null,
            Some(path) => {
                let bytes = outside::read_named(Path::new(path), outside::MAX_RECORD)
                    .map_err(|error| format!("cannot read {path}: {error}"))?;
                let value = Json::parse(bom::strip_bytes(&bytes))
                    .map_err(|error| format!("{path} is not valid JSON: {error}"))?;
                Json::from([("path", Json::from(path.as_str())), ("value", value)])
            }
        },
    })
}
