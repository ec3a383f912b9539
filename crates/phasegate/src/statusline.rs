//! The status line door: a client's JSON in, one line out, and silence where nothing is known.

use std::path::Path;
use std::process::ExitCode;

use phasegate_clients::{StatusLine, usual};
use phasegate_runtime::gate::{Runs, Standing};
use phasegate_runtime::project::Project;

use crate::{payload, print};

/// `phasegate [-C DIR] statusline`
pub fn main(folder: Option<&Path>) -> ExitCode {
    let text = payload::read(1 << 20).unwrap_or_default();
    let told = usual().status_line(&text);
    if let Some(line) = line(folder, &told) {
        print::row(&line);
    }
    ExitCode::SUCCESS
}

fn line(folder: Option<&Path>, told: &StatusLine) -> Option<String> {
    let folder = told.folder.as_deref().or(folder).unwrap_or(Path::new(".")).canonicalize().ok()?;
    let project = match Project::find(&folder) {
        Ok(project) => project?,
        Err(error) => return Some(format!("phasegate: {error}")),
    };
    let gate = Runs::new(&project);
    let (runs, faults) = gate.runs_of(told.session.as_deref());
    // What needs the person comes first.
    let asks = runs.iter().find(|(run, _)| run.ledger.open_question().is_some());
    let shown = asks.or_else(|| runs.iter().find(|(run, _)| gate.is_working(run)));
    let Some((run, standing)) = shown.filter(|(run, _)| gate.is_working(run)) else {
        let told =
            gate.standing_gates().first().map(|gate| format!("phasegate: {}", gate.in_short()));
        return faults.first().map(|fault| format!("phasegate: {fault}")).or(told);
    };
    let report = gate.report(run);
    let mut parts = vec![format!("{} · {}", run.id, report.phase), gate.standing(run, &report)];
    parts.extend(gate.at_work(run).last().map(ToString::to_string));
    let limits = project.config.limits(&run.id.workflow);
    let row = run.ledger.work.tally.blocks_in_a_row;
    parts.push(match limits.blocks_in_a_row {
        None | Some(0) => format!("{row} blocks"),
        Some(limit) => format!("{row}/{limit} blocks"),
    });
    if *standing == Standing::Free {
        parts.push("free".into());
    }
    if !run.ledger.tamper.changes.is_empty() {
        parts.push("changed from outside".into());
    }
    let more = runs.len() - 1;
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    Some(parts.join(" · "))
}
