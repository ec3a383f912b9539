//! What a definition says and nothing uses, and rows that are too wide to be read.

use std::collections::HashSet;
use std::sync::Arc;

use super::Lint;
use crate::definition::{Bundle, CommandLineText, Definition, MachineText, OneOrMore, RuleText};
use crate::diagnostic::Diagnostics;
use crate::job::JobKind;
use crate::names::CHECK;
use crate::syntax::Names;
use crate::workflow::{
    Does, Expression, JobSpec, NewValue, Property, Reply, TextTemplate, Workflow, Written,
};

/// What stands in the templates for a command that only the user knows. Nobody has a program of this name.
const PLACEHOLDER: &str = "the-command-of-your-tests";

/// How many characters a row may have.
const WIDEST: usize = 160;

impl Lint<'_> {
    /// Warns about facts, constants, files and actions that nothing uses.
    pub(super) fn unused(&mut self, bundle: &Bundle) {
        let workflow = self.workflow;
        let used: HashSet<&str> = all_names(workflow)
            .flat_map(|names| names.variables.iter().map(|used| used.path[0].as_str()))
            .collect();
        for machine in &workflow.machines {
            for (name, span, _) in machine.facts() {
                if !used.contains(name) {
                    let message = format!("`{name}` is never used");
                    self.warn("unused", span.clone(), message, "remove it");
                }
            }
        }
        let by_jobs: HashSet<&str> =
            workflow.jobs.iter().filter_map(|job| job.constant.as_deref()).collect();
        for (name, _) in &workflow.constants {
            if !used.contains(name.as_str()) && !by_jobs.contains(name.as_str()) {
                let span = self.source.key("const", name);
                self.warn("unused", span, format!("constant `{name}` is never used"), "remove it");
            }
        }
        for (path, file) in &bundle.files {
            let is_text = path.starts_with("prompts/") || path.starts_with("templates/");
            let texts = workflow.texts.iter().map(|text| &text.source);
            let used = texts.chain(&workflow.included).any(|used| Arc::ptr_eq(used, file));
            if is_text && !used {
                let message = format!("{} is never used", file.name);
                self.found.warning("unused", file, 0..0, message).hint = Some("remove it".into());
            }
        }
        for action in workflow.actions.iter().filter(|action| matches!(action.does, Does::Event)) {
            if !workflow.rules().any(|(_, rule)| rule.on.contains(&action.name)) {
                let message =
                    format!("no rule is about action `{}`, so it is always refused", action.name);
                let span = self
                    .source
                    .text
                    .find(&format!("[action.{}]", action.name))
                    .map_or(0..0, |at| at + 1..at + 8 + action.name.len());
                self.warn("unused", span, message, "add a rule with `on`, or `creates` or `shows`");
            }
        }
    }

    /// Warns about rows that nobody sees the end of.
    pub(super) fn wide(&mut self) {
        let text = self.source.text.clone();
        let mut start = 0;
        for row in text.split_inclusive('\n') {
            let width = row.trim_end_matches(['\n', '\r']).chars().count();
            if width > WIDEST {
                let end = row.char_indices().nth(WIDEST).map_or(row.len(), |(at, _)| at);
                let message = format!("this row has {width} characters, more than {WIDEST}");
                let hint = "move parts of it elsewhere: `enter`, `[choose]`, `[set.NAME]`, `[let]`, a prompt";
                self.warn("wide", start + end..start + end, message, hint);
            }
            start += row.len();
        }
    }

    /// Warns about what is said once for several, and meant by none.
    pub(super) fn unused_parts(&mut self) {
        let Some(definition) = Definition::read(self.source, &mut Diagnostics::default()) else {
            return;
        };
        let machines = definition.inner.iter().map(|inner| &inner.machine);
        let machines: Vec<&MachineText> =
            std::iter::once(&definition.outer).chain(machines).collect();
        let events: HashSet<&str> = machines
            .iter()
            .flat_map(|machine| rules(machine))
            .flat_map(|rule| rule.on.iter().flat_map(OneOrMore::names))
            .map(String::as_str)
            .collect();
        let params = definition.actions.iter().flat_map(|(_, action)| &action.params);
        let params: HashSet<&str> = params.map(|name| name.get_ref().as_str()).collect();
        let events =
            definition.events.iter().filter(|(it, _)| !events.contains(it.get_ref().as_str()));
        let params =
            definition.params.iter().filter(|(it, _)| !params.contains(it.get_ref().as_str()));
        self.unused_jobs(&definition);
        self.lines_in_one_word(&definition);
        let events = events.map(|(name, _)| ("list of events", name));
        let params = params.map(|(name, _)| ("parameter", name));
        let tables = definition.unused.iter().map(|(kind, name)| (*kind, name));
        for (kind, name) in events.chain(params).chain(tables) {
            let message = match kind {
                "set" | "write" | "move" => format!("`[{kind}.{}]` is never used", name.get_ref()),
                "codes" => format!("code `{}` is never used", name.get_ref()),
                _ => format!("{kind} `{}` is never used", name.get_ref()),
            };
            self.warn("unused", name.span(), message, "remove it");
        }
    }
}

impl Lint<'_> {
    /// Warns about a command that is one word with blanks in it, which is taken for the name of a program, and about one
    /// that nobody has filled in.
    fn lines_in_one_word(&mut self, definition: &Definition) {
        let checks = definition.checks.iter().filter_map(|(_, check)| match check.run.get_ref() {
            CommandLineText::Texts(words) => Some((words.as_slice(), check.run.span())),
            CommandLineText::Expression(_) => None,
        });
        for (words, span) in checks {
            let [line] = words else { continue };
            if line == PLACEHOLDER {
                let message = format!("`{line}` stands for the command of your tests");
                self.warn(
                    "placeholder",
                    span,
                    message,
                    "write the command, and set `standing = true`",
                );
                continue;
            }
            if !line.trim().contains(char::is_whitespace) {
                continue;
            }
            let message = format!("`{line}` is taken for the name of a program");
            let shell = line.contains(['|', '&', ';', '>', '<', '$', '*']);
            let words: Vec<&str> =
                if shell { vec!["sh", "-c", line] } else { line.split_whitespace().collect() };
            self.warn("one-word", span, message, &format!("write `run = {words:?}`"));
        }
    }

    /// Warns about jobs that no rule wants: checks that no expression names, and the others that no rule starts.
    fn unused_jobs(&mut self, definition: &Definition) {
        let workflow = self.workflow;
        let mut checks: HashSet<String> = HashSet::new();
        for names in all_names(workflow) {
            let names = names.variables.iter().filter(|used| used.path[0] == CHECK);
            checks.extend(names.filter_map(|used| used.path.get(1).cloned()));
        }
        let wanted: HashSet<usize> = workflow
            .rules()
            .flat_map(|(_, rule)| rule.run.iter().copied().chain(rule.start))
            .collect();
        let own = definition.checks.iter().map(|(name, _)| name);
        let own = own.chain(definition.commands.iter().map(|(name, _)| name));
        let own = own.chain(definition.reviewers.iter().map(|(name, _)| name));
        let own = own.chain(definition.workers.iter().map(|(name, _)| name));
        let own = own.chain(definition.agents.iter().map(|(name, _)| name));
        let own = own.chain(definition.jobs.iter().map(|(name, _)| name));
        // Jobs are resolved in the order in which the definition's kinds stand above.
        for (index, (job, name)) in workflow.jobs.iter().zip(own).enumerate() {
            if job.name != *name.get_ref() || wanted.contains(&index) || checks.contains(&job.name)
            {
                continue;
            }
            let (message, hint) = match job.kind {
                JobKind::Check => (
                    format!("check `{}` is never asked for, so it never runs", job.name),
                    format!("ask for it in a guard, as `not check.{}.ok`, or remove it", job.name),
                ),
                _ => (
                    format!("{} `{}` is never started", job.kind, job.name),
                    "name it in a rule, or remove it".to_string(),
                ),
            };
            self.warn("unused", name.span(), message, &hint);
        }
    }

    /// Warns about blocks that say nothing.
    pub(super) fn empty_blocks(&mut self) {
        let workflow = self.workflow;
        for (_, rule) in workflow.rules() {
            let Some(Reply::Block(text) | Reply::Deny(text)) = &rule.reply else { continue };
            if workflow.texts[text.0].text.trim().is_empty() {
                let message = "the agent is told nothing: it cannot know what to do".to_string();
                let hint = "say what is missing, and what to do next";
                self.warn("silent", rule.span.clone(), message, hint);
            }
        }
    }
}

/// The names in all expressions and texts of a workflow.
fn all_names(workflow: &Workflow) -> impl Iterator<Item = &Names> {
    let facts = workflow.machines.iter().flat_map(|machine| {
        let pick = machine.binding.iter().filter_map(|binding| binding.pick.as_ref());
        machine.facts().flat_map(|(.., by)| by).chain(pick)
    });
    let in_rules = workflow.rules().flat_map(|(_, rule)| {
        let values = rule.set.iter().filter_map(|set| match &set.value {
            NewValue::Expression(expression) => Some(expression),
            _ => None,
        });
        rule.when.iter().map(|guard| &guard.whole).chain(values)
    });
    let jobs = workflow.jobs.iter().flat_map(JobSpec::expressions);
    let guards = workflow.checks().filter_map(|check| check.guards.expression());
    let jobs = jobs.chain(guards);
    let written = workflow.rules().flat_map(|(_, rule)| &rule.write);
    let written = written.filter_map(|(_, written)| match written {
        Written::Patch(it) | Written::Copies(it) => Some(it),
        Written::Text(_) => None,
    });
    let ended = workflow.rules().filter_map(|(_, rule)| rule.end.as_ref()).chain(written);
    let claims = workflow.properties.iter().flat_map(Property::expressions);
    let derived = workflow.outer().derive.iter().chain(claims);
    let expressions = facts.chain(in_rules).chain(jobs).chain(ended).chain(derived);
    let expressions = expressions.map(Expression::names);
    expressions.chain(workflow.texts.iter().map(TextTemplate::names))
}

fn rules(machine: &MachineText) -> impl Iterator<Item = &RuleText> {
    let phases = machine.phases.iter().map(|phase| &phase.rules);
    let lists = std::iter::once(&machine.any).chain(phases);
    lists.flat_map(|it| it.rules.iter().chain(&it.denies)).map(|(_, rule)| rule)
}
