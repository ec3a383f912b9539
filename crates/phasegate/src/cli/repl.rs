//! `phasegate repl`: the actions of a workflow as slash commands, on one run after the other.
//!
//! Each line is the command line of that action, in a process of its own: what holds for the one
//! holds for the other, and Ctrl-C ends the action and not the session.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use phasegate_engine::workflow::{Does, Workflow};
use phasegate_runtime::gate::{GateError, Runs};
use phasegate_runtime::project::Project;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use signal_hook::consts::SIGINT;

use super::{Failed, Outcome, action, complete, session};
use crate::print::{self, Paint, paint};
use crate::request::chosen_among;

#[derive(Debug, Args)]
pub struct Options {
    /// The run, as WORKFLOW/RUN; needed only if there are several
    #[arg(add = complete::runs())]
    run: Option<String>,
    /// The workflow, where there is no run yet
    #[arg(long)]
    workflow: Option<String>,
}

/// What can be said beside the actions.
const OWN: &[(&str, &str)] = &[
    ("help", "List the commands"),
    ("use", "Go to another run: /use RUN"),
    ("quit", "End this; so does Ctrl-D"),
];

pub fn run(project: &Project, options: &Options) -> Outcome {
    let fits = |workflow: &str| options.workflow.as_deref().is_none_or(|wanted| wanted == workflow);
    let gate = Runs::new(project);
    let found = match options.run.as_deref() {
        Some(name) => gate.run(name),
        None => {
            let mut runs = gate.runs().runs;
            runs.retain(|run| fits(&run.id.workflow));
            chosen_among(&gate, runs, session().as_deref(), true)
        }
    };
    let (workflow, run) = match (found, &options.workflow) {
        (Ok(run), _) => (run.id.workflow.clone(), Some(run.id.name)),
        (Err(_), Some(workflow)) if options.run.is_none() => (workflow.clone(), None),
        (Err(error), _) => {
            return Err(Failed::new(format!(
                "{error}; `phasegate repl --workflow NAME` begins without a run"
            )));
        }
    };
    let mut session = Session::new(project, workflow, run)?;
    let history = history();
    let mut editor: Editor<Words, FileHistory> = Editor::new()?;
    editor.set_helper(Some(Words(session.words())));
    if let Some(history) = &history {
        let _ = editor.load_history(history);
    }
    // While an action runs, Ctrl-C is for it.
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    print::line("`/help` lists the commands, Tab completes, Ctrl-D quits.");
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                let _ = editor.add_history_entry(line.as_str());
                if !session.hear(&line) {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => print::line("(Ctrl-D ends.)"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failed::new(error.to_string())),
        }
    }
    if let Some(history) = &history {
        let _ = history.parent().map(std::fs::create_dir_all);
        let _ = editor.save_history(history);
    }
    Ok(ExitCode::SUCCESS)
}

fn history() -> Option<std::path::PathBuf> {
    let base = match std::env::var_os("XDG_STATE_HOME") {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ => std::path::PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(base.join("phasegate/history"))
}

struct Session<'p> {
    project: &'p Project,
    name: String,
    workflow: Arc<Workflow>,
    command: clap::Command,
    run: Option<String>,
}

impl<'p> Session<'p> {
    fn new(project: &'p Project, name: String, run: Option<String>) -> Result<Session<'p>, Failed> {
        let entry =
            project.workflow(&name).ok_or_else(|| GateError::UnknownWorkflow(name.clone()))?;
        let workflow = project.load(entry)?;
        let command = action::command(entry).no_binary_name(true).disable_help_flag(false);
        Ok(Session { project, name, workflow, command, run })
    }

    /// The run and its phase.
    fn prompt(&self) -> String {
        let Some(run) = &self.run else { return format!("{}> ", self.name) };
        let gate = Runs::new(self.project);
        match gate.run(&format!("{}/{run}", self.name)) {
            Ok(found) => format!("{run} {}> ", gate.report(&found).phase),
            Err(_) => format!("{run} (gone)> "),
        }
    }

    fn words(&self) -> Vec<String> {
        let own = OWN.iter().map(|(name, _)| format!("/{name}"));
        let actions = self.workflow.actions.iter().map(|action| format!("/{}", action.name));
        own.chain(actions).collect()
    }

    /// Does what a line says; whether to go on.
    fn hear(&mut self, line: &str) -> bool {
        let line = line.trim();
        let line = line.strip_prefix('/').unwrap_or(line);
        let Some(words) = shlex::split(line) else {
            print::note("a quote is not closed");
            return true;
        };
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => {}
            ["quit" | "exit"] => return false,
            ["help"] => self.help(),
            ["use", run] => self.go_to(run),
            ["use"] => print::note("choose a run first: /use RUN"),
            _ => self.act(words),
        }
        true
    }

    fn help(&self) {
        let width = self.words().iter().map(String::len).max().unwrap_or(0);
        let actions = self.workflow.actions.iter();
        let actions = actions.map(|action| (action.name.as_str(), action.about.as_str()));
        for (name, about) in actions.chain(OWN.iter().copied()) {
            print::line(&format!("{}  {about}", paint(Paint::Bold, &format!("/{name:<width$}"))));
        }
    }

    fn go_to(&mut self, run: &str) {
        let name = run.strip_prefix(&format!("{}/", self.name)).unwrap_or(run);
        match Runs::new(self.project).run(&format!("{}/{name}", self.name)) {
            Ok(found) => self.run = Some(found.id.name),
            Err(error) => print::note(&error.to_string()),
        }
    }

    fn act(&mut self, mut words: Vec<String>) {
        let matches = match self.command.clone().try_get_matches_from(&words) {
            Ok(matches) => matches,
            Err(error) => {
                let text = error.render();
                print::note(
                    if print::colour_stderr() { text.ansi().to_string() } else { text.to_string() }
                        .trim_end(),
                );
                return;
            }
        };
        let chosen = action::chosen(&self.workflow, &matches);
        let does = chosen.and_then(|(_, action, _)| action).map(|action| &action.does);
        let creates = matches!(does, None | Some(Does::Create { .. }));
        let alone = creates || matches!(does, Some(Does::Show { alone: true, .. }));
        let named =
            chosen.is_some_and(|(_, _, own)| !alone && own.get_one::<String>("run").is_some());
        if let (false, false, Some(run)) = (alone, named, &self.run) {
            words.push(run.clone());
        }
        let before = self.runs();
        let child = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg(&self.name)
                .args(&words)
                .current_dir(&self.project.root)
                .status()
        });
        if let Err(error) = child {
            print::note(&error.to_string());
        }
        // A run that has come to be is the one that is meant from now on.
        if let Some(new) = self.runs().into_iter().find(|run| creates && !before.contains(run)) {
            self.run = Some(new);
        }
    }

    fn runs(&self) -> Vec<String> {
        let runs = Runs::new(self.project).runs().runs;
        let own = runs.into_iter().filter(|run| run.id.workflow == self.name);
        own.map(|run| run.id.name).collect()
    }
}

/// What Tab completes.
struct Words(Vec<String>);

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let (typed, slash) = match typed.strip_prefix('/') {
            Some(rest) => (rest, 1),
            None => (typed, 0),
        };
        let fitting = self.0.iter().map(|word| &word[1..]).filter(|word| word.starts_with(typed));
        Ok((slash, fitting.map(|word| format!("{word} ")).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}
