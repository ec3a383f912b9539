//! `phasegate new`: a workflow of one's own, from a template. `init` writes its starter gate in the same way.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use phasegate_runtime::catalog::{Template, file_entry, templates};
use phasegate_runtime::project::Project;
use phasegate_runtime::run::plain_name;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failed, Outcome, lint};
use crate::print::{self, Paint, paint};

/// What stands in a template for the command of the tests.
const UNKNOWN: &str = "[\"the-command-of-your-tests\"]";

/// Where definitions of a project are.
const FOLDER: &str = ".phasegate/workflows";

#[derive(Debug, Args)]
pub struct Options {
    /// What the workflow is called
    name: Option<String>,
    /// What it begins as; on a terminal it is asked for
    #[arg(long, value_parser = PossibleValuesParser::new(templates().map(|it| it.name)))]
    template: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A workflow that was written, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    name: String,
    template: String,
    /// The files, relative to the project.
    files: Vec<PathBuf>,
    /// What to do next, in this order.
    next: Vec<String>,
}

/// A workflow as a template makes it.
pub struct Made {
    /// The files, relative to the project, and their texts. The definition is the first.
    pub files: Vec<(PathBuf, String)>,
    /// The command of the tests that was filled in; none where the template has one and the project's is not
    /// known.
    pub tests: Option<&'static str>,
    /// Whether the template runs the tests.
    pub runs_tests: bool,
}

impl Made {
    /// Makes a workflow with this name from a template, with this command for the tests.
    pub fn new(template: &Template, name: &str, tests: Option<&'static str>) -> Made {
        let own = &template.name;
        let fill = |text: &str| {
            let mut text = text
                .replace(&format!("\nname = \"{own}\"\n"), &format!("\nname = \"{name}\"\n"))
                .replace(&format!("phasegate trust {own}`"), &format!("phasegate trust {name}`"))
                .replace(&format!("phasegate test {own}`"), &format!("phasegate test {name}`"));
            if text.contains(UNKNOWN) {
                text = match tests {
                    Some(command) => text.replace(UNKNOWN, command),
                    // A gate that cannot run must not hold anybody.
                    None => text.replace("standing = true ", "standing = false"),
                };
            }
            text
        };
        let place = |path: &str| match path {
            "workflow.toml" => Path::new(FOLDER).join(format!("{name}.toml")),
            other => Path::new(FOLDER).join(name).join(other),
        };
        let mut files: Vec<(PathBuf, String)> =
            template.files().map(|(path, text)| (place(path), fill(text))).collect();
        files.sort_by_key(|(path, _)| (path.components().count(), path.clone()));
        let runs_tests = template.files().any(|(_, text)| text.contains(UNKNOWN));
        Made { files, tests, runs_tests }
    }
}

/// Files that tell what the command of a project's tests is.
pub const TESTS: [(&str, &str); 5] = [
    ("Cargo.toml", "[\"cargo\", \"test\"]"),
    ("package.json", "[\"npm\", \"test\"]"),
    ("go.mod", "[\"go\", \"test\", \"./...\"]"),
    ("pyproject.toml", "[\"python\", \"-m\", \"pytest\"]"),
    ("Makefile", "[\"make\", \"test\"]"),
];

/// The command of a project's tests, as far as its files tell.
pub fn tests_of(root: &Path) -> Option<&'static str> {
    let found = TESTS.into_iter().find(|(file, _)| root.join(file).exists());
    found.map(|(_, command)| command)
}

pub fn run(project: &Project, options: &Options) -> Outcome {
    let template = chosen(options)?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => asked(&format!("What is it called? [{}] ", template.name), template.name)?,
    };
    if plain_name(&name) != name || name.is_empty() {
        return Err(Failed::new(format!(
            "{name:?} cannot be the name of a workflow\nhint: use letters, digits, `-` and `_`"
        )));
    }
    let made = Made::new(&template, &name, tests_of(&project.root));
    for (path, _) in &made.files {
        if project.root.join(path).exists() {
            return Err(Failed::new(format!("{} exists; nothing was written", path.display())));
        }
    }
    for (path, text) in &made.files {
        write(&project.root.join(path), text)?;
    }
    let definition = &made.files[0].0;
    let entry = file_entry(&project.root.join(definition));
    let found = lint::check(project, &entry)?;
    let next = next(project, &name, definition, &made);
    if options.json {
        let files = made.files.iter().map(|(path, _)| path.clone()).collect();
        print::json(&Shown { name, template: template.name.into(), files, next });
    } else {
        for (path, _) in &made.files {
            print::line(&format!("{} {}", paint(Paint::Green, "new"), path.display()));
        }
        if !found.0.is_empty() {
            print::line(&format!("\n{}\n", found.render(print::colour())));
        }
        print::line("Next:");
        for step in &next {
            print::wrapped(&format!("  {step}"), 4);
        }
    }
    Ok(if found.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What to do with a new workflow, in this order.
fn next(project: &Project, name: &str, definition: &Path, made: &Made) -> Vec<String> {
    let mut steps = Vec::new();
    if made.runs_tests && made.tests.is_none() {
        let standing = if made.files[0].1.contains("standing = false") {
            ", and set `standing = true`"
        } else {
            ""
        };
        let file = definition.display();
        steps.push(format!("in {file}, fill in the command of your tests{standing}"));
    }
    steps.push(format!("phasegate test {name}"));
    steps.push(format!("phasegate trust {name}"));
    let stands = made.files[0].1.contains("\nstanding = ");
    if !stands && project.workflow(name).is_none() {
        steps.push(format!("phasegate start {name}"));
    }
    steps
}

/// The template that is named, or the one that the person chooses.
fn chosen(options: &Options) -> Result<Template, Failed> {
    if let Some(name) = &options.template {
        let found = templates().find(|it| it.name == name);
        return found.ok_or_else(|| Failed::new(format!("there is no template {name:?}")));
    }
    let all: Vec<Template> = templates().collect();
    if !std::io::stdin().is_terminal() || options.json {
        let names = all.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        return Err(Failed::new(format!(
            "name a template with --template\nhint: there are: {names}"
        )));
    }
    print::note("What should it do?");
    for (at, template) in all.iter().enumerate() {
        print::note(&format!("  {}  {:<10} {}", at + 1, template.name, template.about()));
    }
    let answer = asked(&format!("1 to {}, or a name: ", all.len()), "")?;
    let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = match by_number {
        Some(at) => all.get(at),
        None => all.iter().find(|it| it.name == answer),
    };
    found.copied().ok_or_else(|| Failed::new(format!("there is no template {answer:?}")))
}

/// Asks the person at the terminal; what stands for an empty answer.
fn asked(question: &str, otherwise: &str) -> Result<String, Failed> {
    if !std::io::stdin().is_terminal() {
        return Err(Failed::new("name the workflow: `phasegate new NAME`".into()));
    }
    print::ask(question);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let answer = answer.trim();
    Ok(if answer.is_empty() { otherwise } else { answer }.to_string())
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str) -> Result<(), Failed> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::write(path, text));
    written.map_err(|error| Failed::new(format!("cannot write {}: {error}", path.display())))
}
