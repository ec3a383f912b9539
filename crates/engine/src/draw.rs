//! Drawings of a workflow: a diagram, the table of its rules, and which action is possible where.
//! All of them come from the machine that decides, so they cannot disagree with it.

mod spine;
mod svg;
mod text;
mod walk;

use std::fmt::Write as _;

use crate::answer::INVALID_PARAMS;
use crate::events::EventKind;
use crate::job::JobKind;
use crate::workflow::{Action, Does, JobSpec, Machine, Phase, PhaseId, Reply, Rule, Workflow};

pub use walk::{Stay, Walk};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Svg,
    Mermaid,
    Dot,
    Table,
}

/// Draws a workflow; `walk` is where a run has been, and the phase that it is in is marked.
pub fn draw(workflow: &Workflow, format: Format, walk: Option<&Walk>) -> String {
    let current = walk.map(|walk| walk.current.as_str());
    match format {
        Format::Text => text::text(workflow, walk),
        Format::Svg => svg::svg(workflow, walk),
        Format::Mermaid => mermaid(workflow, current),
        Format::Dot => dot(workflow, current),
        Format::Table => table(workflow, current),
    }
}

/// What a rule answers, in a word.
fn answer(rule: &Rule) -> Option<String> {
    match &rule.reply {
        None => None,
        Some(Reply::Block(_)) => Some("BLOCK".into()),
        Some(Reply::Deny(_)) => Some("DENY".into()),
        Some(Reply::Allow { outcome, .. }) => Some(format!("ALLOW {outcome}")),
    }
}

/// What a rule without an answer means to the caller.
fn silent(rule: &Rule) -> &'static str {
    if rule.on.is_empty() || rule.ask.is_some() {
        ""
    } else if rule.on.iter().any(|event| EventKind::of(event) != EventKind::Action) {
        "(continue)"
    } else {
        "accepted"
    }
}

fn event(rule: &Rule) -> String {
    if rule.on.is_empty() { "always".into() } else { rule.on.join(", ") }
}

/// `review plan`: the job that a rule starts, with the word that the rule has for it.
fn starts(job: &JobSpec) -> String {
    let word = match job.kind {
        JobKind::Reviewer => "review",
        JobKind::Worker => "work",
        _ => "start",
    };
    format!("{word} {}", job.name)
}

fn label(rule: &Rule, workflow: &Workflow) -> String {
    let mut text = event(rule);
    if let Some(guard) = &rule.when {
        let _ = write!(text, " [{}]", shorten(&guard.whole.text, 60));
    }
    if let Some(asked) = rule.ask {
        let _ = write!(text, " / ask {}", workflow.machine(asked).name);
    }
    if let Some(start) = rule.start {
        let _ = write!(text, " / {}", starts(&workflow.jobs[start]));
    }
    if let Some(answer) = answer(rule) {
        let _ = write!(text, " / {answer}");
    }
    text
}

fn shorten(text: &str, most: usize) -> String {
    let text = one_line(text);
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A guard may be written on several lines; a drawing has one for it.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A phase's name as an identifier of a diagram.
fn identifier(machine: &Machine, phase: PhaseId) -> String {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let name = plain(&machine.get(phase).name);
    if machine.binding.is_some() { format!("{}_{name}", plain(&machine.name)) } else { name }
}

/// A machine's rules, each with the identifiers of where it is tried and where it leads. Rules of
/// every phase are drawn once, from a box of their own.
fn arrows(machine: &Machine) -> Vec<(String, String, &Rule)> {
    let everywhere = everywhere(machine);
    let general = machine.any.always.iter().chain(&machine.any.rules).map(|rule| {
        let to = rule.goto.map_or_else(|| everywhere.clone(), |to| identifier(machine, to));
        (everywhere.clone(), to, rule)
    });
    let own = machine.phases.iter().enumerate().flat_map(|(index, phase)| {
        let from = PhaseId(index);
        let rules = phase.rules.always.iter().chain(&phase.rules.rules);
        rules.map(move |rule| {
            let to = rule.goto.unwrap_or(from);
            (identifier(machine, from), identifier(machine, to), rule)
        })
    });
    // A refusal leads nowhere: the table has it.
    let leads =
        |(_, _, rule): &(String, String, &Rule)| !matches!(rule.reply, Some(Reply::Deny(_)));
    general.chain(own).filter(leads).collect()
}

/// What stands for every phase of a machine.
fn everywhere(machine: &Machine) -> String {
    let name = machine.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("every_phase_of_{name}")
}

fn has_general_rules(machine: &Machine) -> bool {
    let mut rules = machine.any.always.iter().chain(&machine.any.rules);
    rules.any(|rule| !matches!(rule.reply, Some(Reply::Deny(_))))
}

fn mermaid(workflow: &Workflow, current: Option<&str>) -> String {
    let mut out = String::from("stateDiagram-v2\n");
    for machine in &workflow.machines {
        let indent = if machine.binding.is_some() { "        " } else { "    " };
        if machine.binding.is_some() {
            let _ = writeln!(out, "    state \"each {0}\" as machine_{0} {{", machine.name);
        }
        for index in 0..machine.phases.len() {
            let id = identifier(machine, PhaseId(index));
            let name = &machine.phases[index].name;
            if *id != **name {
                let _ = writeln!(out, "{indent}state \"{name}\" as {id}");
            }
        }
        if has_general_rules(machine) {
            let _ = writeln!(out, "{indent}state \"every phase\" as {}", everywhere(machine));
        }
        let first = machine.initial.unwrap_or(PhaseId(0));
        let _ = writeln!(out, "{indent}[*] --> {}", identifier(machine, first));
        for (from, to, rule) in arrows(machine) {
            let label = label(rule, workflow).replace(':', "#58;");
            let _ = writeln!(out, "{indent}{from} --> {to}: {label}");
        }
        for (index, phase) in machine.phases.iter().enumerate() {
            if phase.ends.is_some() {
                let _ = writeln!(out, "{indent}{} --> [*]", identifier(machine, PhaseId(index)));
            }
        }
        if machine.binding.is_some() {
            out.push_str("    }\n");
        }
    }
    if let Some(phase) = current.and_then(|name| workflow.outer().phase(name)) {
        let id = identifier(workflow.outer(), phase);
        let _ = writeln!(out, "    classDef current fill:#fd6,stroke:#333,stroke-width:2px");
        let _ = writeln!(out, "    class {id} current");
    }
    out
}

fn dot(workflow: &Workflow, current: Option<&str>) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out =
        format!("digraph {} {{\n  node [shape=box, style=rounded];\n", quote(&workflow.name));
    for (number, machine) in workflow.machines.iter().enumerate() {
        let inner = machine.binding.is_some();
        if inner {
            let title = quote(&format!("each {}", machine.name));
            let _ = writeln!(out, "  subgraph cluster_{number} {{\n  label={title};");
        }
        for (index, phase) in machine.phases.iter().enumerate() {
            let mut style = String::new();
            if phase.ends.is_some() {
                style.push_str(", peripheries=2");
            }
            if !inner && current == Some(&*phase.name) {
                style.push_str(", style=\"rounded,filled\", fillcolor=gold");
            }
            let id = identifier(machine, PhaseId(index));
            let _ = writeln!(out, "  {id} [label={}{style}];", quote(&phase.name));
        }
        if has_general_rules(machine) {
            let id = everywhere(machine);
            let _ = writeln!(out, "  {id} [label={}, style=dashed];", quote("every phase"));
        }
        for (from, to, rule) in arrows(machine) {
            let _ = writeln!(out, "  {from} -> {to} [label={}];", quote(&label(rule, workflow)));
        }
        if inner {
            out.push_str("  }\n");
        }
    }
    out.push_str("}\n");
    out
}

fn table(workflow: &Workflow, current: Option<&str>) -> String {
    let mut out = String::new();
    for machine in &workflow.machines {
        let title = match &machine.binding {
            None => workflow.name.clone(),
            Some(_) => format!("each {}", machine.name),
        };
        let mut rows =
            vec![["phase", "event", "condition", "does", "answer"].map(String::from).to_vec()];
        let general = machine.any.always.iter().chain(&machine.any.rules);
        let general = general.map(|rule| ("every phase", rule));
        let own = machine.phases.iter().flat_map(|phase| {
            let rules = phase.rules.always.iter().chain(&phase.rules.rules);
            rules.map(|rule| (&*phase.name, rule))
        });
        for (phase, rule) in general.chain(own) {
            let mark = machine.binding.is_none() && current == Some(phase);
            let mut does: Vec<String> = rule
                .set
                .iter()
                .map(|set| {
                    let object = workflow.machine(set.machine).name.to_string();
                    let path: Vec<String> =
                        std::iter::once(object).chain(set.path.iter().cloned()).collect();
                    format!("set {}", path.join("."))
                })
                .collect();
            does.extend(rule.goto.map(|to| format!("go to {}", machine.get(to).name)));
            does.extend(rule.start.map(|it| starts(&workflow.jobs[it])));
            does.extend(rule.end.as_ref().map(|_| "end agents".to_string()));
            does.extend(rule.ask.map(|asked| format!("ask each {}", workflow.machine(asked).name)));
            rows.push(vec![
                if mark { format!("**{phase}** (now)") } else { phase.to_string() },
                event(rule),
                rule.when.as_ref().map_or("otherwise".into(), |guard| one_line(&guard.whole.text)),
                does.join(", "),
                answer(rule).unwrap_or_else(|| silent(rule).into()),
            ]);
        }
        let _ = writeln!(out, "## {title}\n");
        if let (None, Some(phase)) = (&machine.binding, current) {
            let _ = writeln!(out, "The run is in phase **{phase}**.\n");
        }
        let _ = writeln!(out, "{}", markdown(&rows));
    }
    out.push_str(&actions(workflow));
    out
}

/// Which action is possible in which phase, for each machine that hears of some.
fn actions(workflow: &Workflow) -> String {
    let mut out = String::new();
    for machine in &workflow.machines {
        let of = |action: &Action| {
            let cells =
                machine.phases.iter().map(|phase| possible(workflow, machine, action, phase));
            let signed = if action.signed { " (signed)" } else { "" };
            let name = format!("{}{signed}", action.name);
            std::iter::once(name).chain(cells.map(String::from)).collect::<Vec<_>>()
        };
        // What a machine has no rule for, another one decides.
        let hears = |action: &&Action| {
            let own = machine.phases.iter().flat_map(|phase| machine.rules_in(phase));
            let asked = own.flat_map(|rule| &rule.on).any(|event| *event == action.name);
            asked || machine.binding.is_none()
        };
        let mut rows = vec![vec!["action".to_string()]];
        rows[0].extend(machine.phases.iter().map(|phase| phase.name.to_string()));
        rows.extend(workflow.actions.iter().filter(hears).map(of));
        if rows.len() > 1 {
            let each = machine.binding.as_ref().map(|_| format!(", each {}", machine.name));
            let _ = writeln!(out, "## Actions{}\n\n{}", each.unwrap_or_default(), markdown(&rows));
        }
    }
    out.trim_end().to_string() + if out.is_empty() { "" } else { "\n" }
}

/// Whether an action is accepted in a phase: always, under conditions, or never. Refusals of parameters do not
/// count.
fn possible(
    workflow: &Workflow,
    machine: &Machine,
    action: &Action,
    phase: &Phase,
) -> &'static str {
    match action.does {
        Does::Create { .. } => return "new run",
        Does::Show { .. } => return "yes",
        Does::Event => {}
    }
    let (mut accepts, mut refuses, mut answers) = (false, false, false);
    for rule in machine.rules_in(phase) {
        let is_about = rule.on.contains(&action.name);
        if !is_about || rule.code.as_deref() == Some(INVALID_PARAMS) {
            continue;
        }
        if let Some(inner) = rule.ask {
            let inner = workflow.machine(inner);
            let hears =
                |phase: &Phase| inner.rules_in(phase).any(|it| it.on.contains(&action.name));
            if inner.phases.iter().any(hears) {
                return "below";
            }
            continue;
        }
        let denies = matches!(rule.reply, Some(Reply::Deny(_)));
        refuses |= denies;
        accepts |= !denies;
        if rule.when.is_none() {
            answers = true;
            break;
        }
    }
    match (accepts, refuses || !answers) {
        (false, _) => "no",
        (true, true) => "if",
        (true, false) => "yes",
    }
}

/// A Markdown table whose columns line up.
fn markdown(rows: &[Vec<String>]) -> String {
    let escaped: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.replace('|', "\\|")).collect()).collect();
    let columns = escaped.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        escaped
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).max(3)).collect();
    let mut out = String::new();
    for (index, row) in escaped.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        if index == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(out, "| {} |", lines.join(" | "));
        }
    }
    out
}
